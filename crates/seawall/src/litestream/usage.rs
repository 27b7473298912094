//! What `-h` says: which flags a command takes. `seawall help` has the words to it.

/// The usage of a command, or of the program.
pub(super) fn of(command: &str) -> String {
    let (arguments, flags): (&str, &[&str]) = match command {
        "databases" => ("", &["-config PATH", "-json", "-no-expand-env"]),
        "ltx" | "wal" => ("DB_PATH|REPLICA_URL", &["-config PATH", "-json", "-level 0-9|all", "-no-expand-env"]),
        "replicate" => (
            "[DB_PATH REPLICA_URL]",
            &["-config PATH", "-exec CMD", "-log-level LEVEL", "-no-expand-env", "-once", "-restore-if-db-not-exists"],
        ),
        "reset" => ("DB_PATH", &["-config PATH", "-dry-run", "-no-expand-env"]),
        "restore" => (
            "DB_PATH|REPLICA_URL",
            &[
                "-config PATH",
                "-dry-run",
                "-f",
                "-follow-interval DURATION",
                "-force",
                "-if-db-not-exists",
                "-if-replica-exists",
                "-integrity-check none|quick|full",
                "-json",
                "-no-expand-env",
                "-o PATH",
                "-parallelism N (no effect)",
                "-timestamp RFC3339",
                "-txid TXID",
            ],
        ),
        "status" => ("[DB_PATH]", &["-config PATH", "-json", "-no-expand-env"]),
        "version" => ("", &["-verbose"]),
        _ => return program(),
    };
    let mut text =
        format!("Usage:\n\n\tlitestream {command} [flags] {arguments}").trim_end().to_owned() + "\n\nFlags:\n\n";
    flags.iter().for_each(|flag| text.push_str(&format!("\t{flag}\n")));
    text
}

fn program() -> String {
    let commands = ["databases", "ltx", "replicate", "reset", "restore", "status", "version"];
    let list: String = commands.iter().map(|command| format!("\t{command}\n")).collect();
    format!(
        "This is Seawall under the name of Litestream.\n\nUsage:\n\n\tlitestream <command> [flags]\n\n\
         Commands:\n\n{list}\n`litestream <command> -h` lists its flags.\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_one() {
        for command in ["databases", "ltx", "replicate", "reset", "restore", "status", "version"] {
            assert!(of(command).contains(&format!("litestream {command}")), "{command}");
        }
        assert!(of("help").contains("<command>"));
    }
}
