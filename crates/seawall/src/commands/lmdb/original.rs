//! The command line of Lightning Stream, for a program that is called by its name.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

use seawall_core::Failure;

use crate::edge::usage;

/// The largest number that a process may be asked to have.
const MOST_PID: u32 = 200;

/// Its command line, understood.
#[derive(Debug, PartialEq, Eq, Default)]
pub(crate) struct Original {
    /// The same as one of ours.
    pub(crate) words: Vec<OsString>,
    /// Log lines have no time.
    pub(crate) timeless: bool,
    /// The least number that the process should have.
    pub(crate) minimum_pid: u32,
    /// After this long the process ends.
    pub(crate) timeout: Option<Duration>,
}

/// Whether the program goes by that name.
pub(crate) fn is_called(program: Option<&OsStr>) -> bool {
    program.map(Path::new).and_then(Path::file_name) == Some(OsStr::new("lightningstream"))
}

/// What its options for all commands say, wherever they stand.
#[derive(Default)]
struct Global {
    config: Option<OsString>,
    instance: Option<OsString>,
    level: Option<String>,
    format: Option<&'static str>,
    log_config: bool,
    version: bool,
    help: bool,
}

impl Original {
    /// Understands its command line, without the program's name.
    pub(crate) fn understand(words: impl IntoIterator<Item = OsString>) -> Result<Self, Failure> {
        let (mut own, mut global, mut rest) = (Self::default(), Global::default(), Vec::<OsString>::new());
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let Some(text) = word.to_str().filter(|text| text.starts_with('-') && *text != "--") else {
                rest.push(word);
                continue;
            };
            let (option, value) = split(text);
            if !own.take(&mut global, option, value.map(OsString::from), &mut words)? {
                rest.push(word);
            }
        }
        let mut rest = rest.into_iter().peekable();
        let command = rest.next_if(|word| !word.to_string_lossy().starts_with('-'));
        own.words = ["seawall", "lmdb"].map(OsString::from).to_vec();
        let command = match command.as_ref().map(|command| command.to_string_lossy().into_owned()) {
            _ if global.version => "version".to_owned(),
            None => "help".to_owned(),
            Some(command) => command,
        };
        match command.as_str() {
            "version" => own.words = ["seawall", "--version"].map(OsString::from).to_vec(),
            "help" => {
                own.words.extend(rest);
                own.words.push("--help".into());
            }
            "experimental" => {
                if rest.peek().is_some_and(|word| word == "pdns-v5-fix-duplicate-domains") {
                    let next = "repair it with the original, or with pdnsutil";
                    return Err(usage("usage.arguments", "experimental", "this repair isn't done here", next));
                }
                own.words.extend(rest);
                own.words.extend(global.words(false));
            }
            command => {
                own.words.push(command.into());
                own.words.extend(rest);
                let syncs = matches!(command, "sync" | "receive");
                own.words.extend(if command == "docs" { Vec::new() } else { global.words(syncs) });
            }
        }
        Ok(own)
    }

    /// Takes an option that is for all commands; whether it is one.
    fn take(
        &mut self,
        global: &mut Global,
        option: &str,
        value: Option<OsString>,
        words: &mut impl Iterator<Item = OsString>,
    ) -> Result<bool, Failure> {
        match option {
            "--debug" => global.level = Some("debug".to_owned()),
            "--log-config" => global.log_config = true,
            "-v" | "--version" => global.version = true,
            "-h" | "--help" => global.help = true,
            "-c" | "--config" | "-i" | "--instance" | "--log-level" | "--log-format" | "--log-timestamp"
            | "--minimum-pid" | "--timeout" => {
                let wrong = |cause: &str| usage("usage.arguments", option, cause, "see `lightningstream help`");
                let value = value.or_else(|| words.next()).ok_or_else(|| wrong("it needs a value"))?;
                let text = value.to_string_lossy().into_owned();
                match option {
                    "-c" | "--config" => global.config = Some(value),
                    "-i" | "--instance" => global.instance = Some(value),
                    "--log-level" => {
                        global.level = Some(if text == "fatal" { "error".to_owned() } else { text });
                    }
                    "--log-format" => {
                        global.format = Some(match text.as_str() {
                            "human" | "logfmt" => "text",
                            "json" => "json",
                            _ => return Err(wrong("it takes human, logfmt or json")),
                        });
                    }
                    "--log-timestamp" => match text.as_str() {
                        "short" | "full" => self.timeless = false,
                        "disable" => self.timeless = true,
                        _ => return Err(wrong("it takes short, disable or full")),
                    },
                    "--minimum-pid" => {
                        let number = text.parse().ok().filter(|number| *number <= MOST_PID);
                        self.minimum_pid = number.ok_or_else(|| wrong("it takes a number up to 200"))?;
                    }
                    _ => {
                        let span = seawall_core::parse_duration(&text);
                        let zero = (text == "0").then_some(Duration::ZERO);
                        let span = zero.or(span).ok_or_else(|| wrong("it takes a time such as 30s"))?;
                        self.timeout = Some(span).filter(|span| !span.is_zero());
                    }
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// An option, and the value that stands in the same word.
fn split(word: &str) -> (&str, Option<&str>) {
    if let Some((option, value)) = word.split_once('=')
        && word.starts_with("--")
    {
        return (option, Some(value));
    }
    for short in ["-c", "-i"] {
        if let Some(value) = word.strip_prefix(short).filter(|value| !value.is_empty()) {
            return (short, Some(value.trim_start_matches('=')));
        }
    }
    (word, None)
}

impl Global {
    /// As ours, behind the command. Only those that sync have an instance.
    fn words(self, syncs: bool) -> Vec<OsString> {
        let mut words: Vec<OsString> = Vec::new();
        if let Some(config) = self.config {
            words.extend(["--config".into(), config]);
        }
        if let Some(instance) = self.instance.filter(|_| syncs) {
            words.extend(["--instance".into(), instance]);
        }
        if self.log_config && syncs {
            words.push("--log-config".into());
        }
        if let Some(level) = self.level {
            words.extend(["--log-level".into(), level.into()]);
        }
        if let Some(format) = self.format {
            words.extend(["--log-type".into(), format.into()]);
        }
        if self.help {
            words.push("--help".into());
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::arguments::Arguments;

    fn understand(line: &str) -> Result<Original, Failure> {
        Original::understand(line.split_whitespace().map(OsString::from))
    }

    fn line(original: &Original) -> String {
        original.words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn its_command_lines_are_understood() {
        for (theirs, ours) in [
            ("sync", "seawall lmdb sync"),
            ("-c f.yaml -i ns1 sync --only-once", "seawall lmdb sync --only-once --config f.yaml --instance ns1"),
            ("-cf.yaml sync -i=ns1", "seawall lmdb sync --config f.yaml --instance ns1"),
            ("--config=f.yaml receive", "seawall lmdb receive --config f.yaml"),
            ("-c f.yaml snapshots list -l -t", "seawall lmdb snapshots list -l -t --config f.yaml"),
            ("-c f.yaml snapshots put x.pb.gz --force", "seawall lmdb snapshots put x.pb.gz --force --config f.yaml"),
            ("-i ns1 snapshots dump x.pb.gz -d a -f text", "seawall lmdb snapshots dump x.pb.gz -d a -f text"),
            ("snapshots dump -l ./x.pb.gz", "seawall lmdb snapshots dump -l ./x.pb.gz"),
            ("dump -n shard -H", "seawall lmdb dump -n shard -H"),
            ("stats --config f.yaml --debug", "seawall lmdb stats --config f.yaml --log-level debug"),
            ("drop-shadow --log-level fatal", "seawall lmdb drop-shadow --log-level error"),
            (
                "--log-format logfmt --log-config sync --log-level=warning",
                "seawall lmdb sync --log-config --log-level warning --log-type text",
            ),
            (
                "experimental migrate-timestamps -d main --src-dbi a --dst-dbi b --add-delete-entries",
                "seawall lmdb migrate-timestamps -d main --src-dbi a --dst-dbi b --add-delete-entries",
            ),
            ("docs", "seawall lmdb docs"),
            ("completion bash", "seawall lmdb completion bash"),
        ] {
            let original = understand(theirs).unwrap_or_else(|failure| panic!("{theirs}: {failure}"));
            assert_eq!(line(&original), ours);
            Arguments::try_parse_from(&original.words).unwrap_or_else(|error| panic!("{theirs}: {error}"));
        }
        for (theirs, ours) in [
            ("version", "seawall --version"),
            ("-v", "seawall --version"),
            ("help", "seawall lmdb --help"),
            ("help snapshots list", "seawall lmdb snapshots list --help"),
            ("", "seawall lmdb --help"),
            ("sync -h", "seawall lmdb sync --help"),
        ] {
            assert_eq!(line(&understand(theirs).expect("a command line")), ours);
        }
        assert!(is_called(Some(OsStr::new("/usr/bin/lightningstream"))));
        assert!(!is_called(Some(OsStr::new("seawall"))) && !is_called(None));
    }

    #[test]
    fn what_is_asked_of_the_process() {
        let original = understand("--timeout 90s --minimum-pid 50 --log-timestamp disable sync").expect("a command");
        let expected = Original {
            words: original.words.clone(),
            timeless: true,
            minimum_pid: 50,
            timeout: Some(Duration::from_secs(90)),
        };
        assert_eq!(original, expected);
        assert_eq!(understand("--timeout 0 sync").expect("a command").timeout, None);
        for wrong in [
            "--minimum-pid 201 sync",
            "--timeout soon sync",
            "--log-format xml sync",
            "--log-timestamp long sync",
            "sync -c",
            "experimental pdns-v5-fix-duplicate-domains",
        ] {
            assert!(understand(wrong).is_err(), "{wrong}");
        }
    }
}
