//! The command line of Lightning Stream, for a program that is called by its name.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

use seawall_core::Failure;

use crate::edge::usage;

/// The largest number that a process is made to have; who asks for more gets this.
const MOST_PID: u32 = 200;

/// The levels of its log, as ours.
const LEVELS: [(&str, &str); 7] = [
    ("trace", "trace"),
    ("debug", "debug"),
    ("info", "info"),
    ("warning", "warn"),
    ("warn", "warn"),
    ("error", "error"),
    ("fatal", "error"),
];

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
    /// Only this is asked for, and no command is run.
    pub(crate) asks: Option<Asks>,
}

/// A question about the program itself.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Asks {
    /// The version alone.
    Version,
    /// The version with the program's name.
    NameAndVersion,
    /// How a command is used.
    Help(Vec<String>),
}

/// Whether the program goes by that name.
pub(crate) fn is_called(program: Option<&OsStr>) -> bool {
    program.map(Path::new).and_then(Path::file_name) == Some(OsStr::new("lightningstream"))
}

/// The options that all commands share. They may come before or after the command.
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
            _ if global.version => {
                own.asks = Some(Asks::NameAndVersion);
                return Ok(own);
            }
            None => match rest.peek().filter(|_| !global.help) {
                Some(word) => {
                    let option = word.to_string_lossy().into_owned();
                    return Err(usage("usage.arguments", &option, "it is unknown", "see `lightningstream help`"));
                }
                None => "help".to_owned(),
            },
            Some(command) => command,
        };
        let below: Vec<String> = rest.clone().map(|word| word.to_string_lossy().into_owned()).collect();
        match command.as_str() {
            "version" => own.asks = Some(Asks::Version),
            "help" => own.asks = Some(Asks::Help(below)),
            "snapshots" if below.first().is_none_or(|word| !is_of_snapshots(word)) => {
                own.asks = Some(Asks::Help(vec![command]));
            }
            command if global.help => {
                let names = below.into_iter().take_while(|word| !word.starts_with('-'));
                own.asks = Some(Asks::Help(std::iter::once(command.to_owned()).chain(names).collect()));
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
                        // One that isn't known is left aside, as there.
                        let known = LEVELS.iter().find(|(theirs, _)| theirs.eq_ignore_ascii_case(&text));
                        global.level = known.map(|(_, ours)| (*ours).to_owned()).or(global.level.take());
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
                        let number: u32 = text.parse().map_err(|_| wrong("it takes a number"))?;
                        self.minimum_pid = number.min(MOST_PID);
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

/// Whether a word after `snapshots` is a command. For any other word, the original shows its usage.
fn is_of_snapshots(word: &str) -> bool {
    word.starts_with('-') || matches!(word, "list" | "dump" | "get" | "put" | "remove")
}

/// An option, and its value if both are in one word.
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
    /// The same options as arguments of `seawall lmdb`. Only commands that sync have an instance.
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
            ("drop-shadow --log-level nope", "seawall lmdb drop-shadow"),
            (
                "--log-format logfmt --log-config sync --log-level=warning",
                "seawall lmdb sync --log-config --log-level warn --log-type text",
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
        let help = |words: &[&str]| Asks::Help(words.iter().map(|&word| word.to_owned()).collect());
        for (theirs, asks) in [
            ("version", Asks::Version),
            ("-v", Asks::NameAndVersion),
            ("help", help(&[])),
            ("help snapshots list", help(&["snapshots", "list"])),
            ("", help(&[])),
            ("snapshots", help(&["snapshots"])),
            ("snapshots nope", help(&["snapshots"])),
            ("sync -h", help(&["sync"])),
        ] {
            assert_eq!(understand(theirs).expect("a command line").asks, Some(asks), "{theirs}");
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
            asks: None,
        };
        assert_eq!(original, expected);
        assert_eq!(understand("--minimum-pid 300 sync").expect("a command").minimum_pid, 200);
        assert_eq!(understand("--timeout 0 sync").expect("a command").timeout, None);
        for wrong in [
            "--minimum-pid many sync",
            "--nope",
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
