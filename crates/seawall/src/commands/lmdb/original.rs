//! The command line of Lightning Stream, for a program that is called by its name.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Options that it takes before the command, and we behind it. All have a value.
const BEFORE: [&str; 4] = ["-c", "--config", "-i", "--instance"];

/// Whether the program goes by that name.
pub(crate) fn is_called(program: Option<&OsStr>) -> bool {
    program.map(Path::new).and_then(Path::file_name) == Some(OsStr::new("lightningstream"))
}

/// Its command line as one of ours: `seawall lmdb`, the command, and then what stood before it.
pub(crate) fn as_ours(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut ours: Vec<OsString> = vec!["seawall".into()];
    let (mut before, mut words) = (Vec::new(), words.into_iter().peekable());
    while let Some(word) = words.next_if(|word| word.to_string_lossy().starts_with('-')) {
        let with_value = BEFORE.iter().any(|option| word == *option);
        before.push(word);
        if with_value {
            before.extend(words.next());
        }
    }
    match words.peek().and_then(|word| word.to_str()) {
        // Help and version are the program's.
        None | Some("help" | "version") if before.is_empty() => {
            let version = words.next().is_some_and(|word| word == "version");
            ours.extend(if version { vec!["--version".into()] } else { vec!["lmdb".into(), "--help".into()] });
            return ours;
        }
        _ => ours.push("lmdb".into()),
    }
    ours.extend(words);
    // Behind everything: also behind a command of two words.
    ours.extend(before);
    ours
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::arguments::Arguments;

    #[test]
    fn its_command_lines_are_understood() {
        for (theirs, ours) in [
            ("sync", "seawall lmdb sync"),
            ("-c f.yaml -i ns1 sync --only-once", "seawall lmdb sync --only-once -c f.yaml -i ns1"),
            ("--config=f.yaml receive", "seawall lmdb receive --config=f.yaml"),
            ("-c f.yaml snapshots list -l -t", "seawall lmdb snapshots list -l -t -c f.yaml"),
            ("-c f.yaml snapshots put x.pb.gz --force", "seawall lmdb snapshots put x.pb.gz --force -c f.yaml"),
            ("stats --config f.yaml", "seawall lmdb stats --config f.yaml"),
            ("drop-shadow", "seawall lmdb drop-shadow"),
        ] {
            let words = as_ours(theirs.split(' ').map(OsString::from));
            let line = words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
            assert_eq!(line, ours);
            Arguments::try_parse_from(words).unwrap_or_else(|error| panic!("{theirs}: {error}"));
        }
        for (theirs, ours) in
            [("version", "seawall --version"), ("help", "seawall lmdb --help"), ("", "seawall lmdb --help")]
        {
            let words = as_ours(theirs.split_whitespace().map(OsString::from));
            assert_eq!(words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" "), ours);
        }
        assert!(is_called(Some(OsStr::new("/usr/bin/lightningstream"))));
        assert!(!is_called(Some(OsStr::new("seawall"))) && !is_called(None));
    }
}
