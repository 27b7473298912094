//! Options with one dash or two, as the `ltx` tool takes them: `-db PATH`, `-tsv`, `--o FILE`.

use std::ffi::OsString;

/// Gives options of `seawall ltx` one dash if they are a letter, and two if they are longer. Other commands are left alone.
pub(crate) fn doubled(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.collect();
    // Options in front of the command are ours, and have two dashes; one of them takes a value.
    let mut command = None;
    let mut at = 1;
    while let Some(argument) = arguments.get(at) {
        if argument == "--log-level" || argument == "--log-type" {
            at += 1;
        } else if !argument.as_encoded_bytes().starts_with(b"-") {
            command = Some(at);
            break;
        }
        at += 1;
    }
    let Some(command) = command.filter(|at| arguments.get(*at).is_some_and(|word| word == "ltx")) else {
        return arguments;
    };
    for argument in arguments.iter_mut().skip(command + 1).take_while(|argument| *argument != "--") {
        let Some(text) = argument.to_str() else { continue };
        if is_single(text) {
            *argument = format!("-{text}").into();
        } else if text == "--o" || text.starts_with("--o=") {
            *argument = text.get(1..).unwrap_or_default().into();
        }
    }
    arguments
}

/// `-db`, `-db=PATH`, `-tsv`; not `-o`, `-oFILE` (nor `-o=FILE`), `-h`, `--db`, `-`, `-1`.
fn is_single(text: &str) -> bool {
    let name = text.strip_prefix('-').unwrap_or_default().split('=').next().unwrap_or_default();
    ["db", "tsv", "json", "help", "jobs", "pages", "wal", "force", "no-checksum", "no-lock", "touched-only", "strong"]
        .contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_dash_or_two() {
        for (typed, taken) in [
            ("seawall ltx apply -db a.db x.ltx", "seawall ltx apply --db a.db x.ltx"),
            ("seawall ltx apply -db=a.db x.ltx", "seawall ltx apply --db=a.db x.ltx"),
            ("seawall ltx list -tsv -json x", "seawall ltx list --tsv --json x"),
            ("seawall --json ltx list -tsv x", "seawall --json ltx list --tsv x"),
            ("seawall --log-level warn ltx list -tsv x", "seawall --log-level warn ltx list --tsv x"),
            ("seawall ltx encode-db -o x a.db", "seawall ltx encode-db -o x a.db"),
            ("seawall ltx encode-db --o x a.db", "seawall ltx encode-db -o x a.db"),
            ("seawall ltx encode-db --o=x a.db", "seawall ltx encode-db -o=x a.db"),
            ("seawall ltx list -- -tsv", "seawall ltx list -- -tsv"),
            ("seawall restore ltx -db", "seawall restore ltx -db"),
            ("seawall", "seawall"),
        ] {
            let arguments = doubled(typed.split(' ').map(OsString::from));
            assert_eq!(arguments.join(std::ffi::OsStr::new(" ")), taken);
        }
    }
}
