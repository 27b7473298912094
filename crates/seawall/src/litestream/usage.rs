//! The output of `-h`: the flags of a command. `seawall help` describes them.

const SOCKET: &str = "-socket PATH (/var/run/litestream.sock)";
const TIMEOUT: &str = "-timeout SECONDS (30)";

/// All commands.
const COMMANDS: [&str; 14] = [
    "databases",
    "info",
    "list",
    "ltx",
    "register",
    "replicate",
    "reset",
    "restore",
    "start",
    "status",
    "stop",
    "sync",
    "unregister",
    "version",
];

/// The usage of a command, or of the program.
pub(super) fn of(command: &str) -> String {
    let (arguments, flags): (&str, &[&str]) = match command {
        "databases" => ("", &["-config PATH", "-json", "-no-expand-env"]),
        "ltx" | "wal" => ("DB_PATH|REPLICA_URL", &["-config PATH", "-json", "-level 0-9|all", "-no-expand-env"]),
        "info" | "list" => ("", &["-json", SOCKET, "-timeout SECONDS (10)"]),
        "register" => ("DB_PATH", &["-json", "-replica URL (required)", SOCKET, TIMEOUT]),
        "replicate" => (
            "[DB_PATH REPLICA_URL]",
            &[
                "-config PATH",
                "-enforce-retention (with -once)",
                "-exec CMD",
                "-force-snapshot (with -once)",
                "-log-level LEVEL",
                "-no-expand-env",
                "-once",
                "-restore-if-db-not-exists",
            ],
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
        "start" | "stop" => ("DB_PATH", &["-json", SOCKET, TIMEOUT]),
        "status" => ("[DB_PATH]", &["-config PATH", "-json", "-no-expand-env"]),
        "sync" => ("DB_PATH", &["-json", SOCKET, TIMEOUT, "-wait"]),
        "unregister" => ("DB_PATH", &["-dry-run", "-json", SOCKET, TIMEOUT]),
        "version" => ("", &["-verbose"]),
        _ => return program(),
    };
    let mut text =
        format!("Usage:\n\n\tlitestream {command} [flags] {arguments}").trim_end().to_owned() + "\n\nFlags:\n\n";
    flags.iter().for_each(|flag| text.push_str(&format!("\t{flag}\n")));
    text
}

fn program() -> String {
    let list: String = COMMANDS.iter().map(|command| format!("\t{command}\n")).collect();
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
        for command in COMMANDS {
            assert!(of(command).contains(&format!("litestream {command}")), "{command}");
        }
        assert!(of("help").contains("<command>"));
    }
}
