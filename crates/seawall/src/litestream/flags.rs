//! Flags as Go's `flag` package takes them: one dash or two, a value after `=` or as the next argument, switches with
//! an optional value. Flags end at the first other argument.

use std::collections::BTreeMap;

use super::Stop;

/// A flag that a command has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Flag {
    name: &'static str,
    takes_value: bool,
}

/// A flag that is there or isn't.
pub(super) const fn switch(name: &'static str) -> Flag {
    Flag { name, takes_value: false }
}

/// A flag with a value.
pub(super) const fn value(name: &'static str) -> Flag {
    Flag { name, takes_value: true }
}

/// The parsed command line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Flags {
    values: BTreeMap<&'static str, String>,
    /// The arguments after the flags.
    pub(super) arguments: Vec<String>,
}

impl Flags {
    /// The value of a flag, if it was given and isn't empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Whether a switch is on.
    pub(super) fn is_set(&self, name: &str) -> bool {
        self.get(name) == Some("true")
    }

    /// The only argument; `None` when there is none.
    pub(super) fn only_argument(&self) -> Result<Option<&str>, Stop> {
        match self.arguments.as_slice() {
            [] => Ok(None),
            [one] => Ok(Some(one)),
            _ => Err(Stop::error("too many arguments")),
        }
    }
}

/// Reads arguments.
pub(super) fn parse(known: &[Flag], arguments: &[String]) -> Result<Flags, Stop> {
    let mut flags = Flags::default();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let dashes = argument.bytes().take_while(|byte| *byte == b'-').count();
        if dashes == 0 || argument == "-" {
            flags.arguments.push(argument.clone());
            break;
        }
        if argument == "--" {
            break;
        }
        let (name, given) = match argument[dashes.min(2)..].split_once('=') {
            Some((name, given)) => (name, Some(given.to_owned())),
            None => (&argument[dashes.min(2)..], None),
        };
        if name.is_empty() || name.starts_with('-') {
            return Err(Stop::Usage(format!("bad flag syntax: {argument}")));
        }
        let Some(flag) = known.iter().find(|flag| flag.name == name) else {
            let help = matches!(name, "h" | "help");
            return Err(if help { Stop::Help } else { Stop::Usage(format!("flag provided but not defined: -{name}")) });
        };
        let value = match (flag.takes_value, given) {
            (true, Some(given)) => given,
            (true, None) => {
                rest.next().cloned().ok_or_else(|| Stop::Usage(format!("flag needs an argument: -{name}")))?
            }
            (false, None) => "true".to_owned(),
            (false, Some(given)) => switch_value(&given)
                .ok_or_else(|| Stop::Usage(format!("invalid boolean value \"{given}\" for -{name}: parse error")))?
                .to_string(),
        };
        flags.values.insert(flag.name, value);
    }
    flags.arguments.extend(rest.cloned());
    Ok(flags)
}

fn switch_value(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [Flag; 3] = [value("o"), switch("json"), value("config")];

    fn read(line: &str) -> Result<Flags, Stop> {
        parse(&KNOWN, &line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn what_is_taken() {
        for (line, o, json, arguments) in [
            ("-o x a", Some("x"), false, "a"),
            ("--o=x -json a b", Some("x"), true, "a b"),
            ("-json=false -o=", None, false, ""),
            ("a -json", None, false, "a -json"),
            ("-json -- -o x", None, true, "-o x"),
            ("-o -json -", Some("-json"), false, "-"),
            ("-o x -o y", Some("y"), false, ""),
        ] {
            let flags = read(line).expect(line);
            assert_eq!(
                (flags.get("o"), flags.is_set("json"), flags.arguments.join(" ").as_str()),
                (o, json, arguments)
            );
        }
    }

    #[test]
    fn what_is_refused() {
        for (line, message) in [
            ("-bogus", "flag provided but not defined: -bogus"),
            ("-o", "flag needs an argument: -o"),
            ("-json=maybe", "invalid boolean value \"maybe\" for -json: parse error"),
            ("---o", "bad flag syntax: ---o"),
            ("-=x", "bad flag syntax: -=x"),
        ] {
            assert_eq!(read(line), Err(Stop::Usage(message.into())), "{line}");
        }
        for line in ["-h", "--help", "-json -help"] {
            assert_eq!(read(line), Err(Stop::Help), "{line}");
        }
        assert_eq!(read("a b").expect("read").only_argument(), Err(Stop::error("too many arguments")));
    }
}
