//! Finds the configuration that a command uses, and reads it.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use seawall_agent::config::{Config, socket_of, variables_of};
use seawall_core::{Failure, Kind};

use crate::arguments::ConfigArguments;
use crate::edge::Edge;

/// Where a configuration is looked for when none is named, in this order.
const DEFAULTS: [&str; 2] = ["seawall.yml", "/etc/seawall.yml"];

/// The largest configuration.
const LARGEST: u64 = 16 << 20;

/// How long a program may take to write a configuration to a pipe.
const PATIENCE: Duration = Duration::from_secs(10);

/// Reads the configuration that is named, else the default one; `None` when there is none of either.
pub(crate) fn load(arguments: &ConfigArguments, edge: &Edge) -> Result<Option<Config>, Failure> {
    let Some((file, text)) = find(arguments, edge)? else { return Ok(None) };
    parse(&file, &text, arguments, edge).map(Some)
}

/// The control socket of the configuration that is named, or of the default one, also where it has an error elsewhere.
pub(crate) fn socket(arguments: &ConfigArguments, edge: &Edge) -> Result<Option<PathBuf>, Failure> {
    let Some((file, text)) = find(arguments, edge)? else { return Ok(None) };
    match parse(&file, &text, arguments, edge) {
        Ok(config) => Ok(config.services.socket.map(|socket| socket.path)),
        Err(failure) => {
            let socket = socket_of(&file, &text, &edge.surroundings(), !arguments.no_expand_env);
            socket.map(Some).ok_or(failure)
        }
    }
}

/// The file of the configuration that is named, else of the default one, and the variables that it names.
pub(crate) fn file(arguments: &ConfigArguments, edge: &Edge) -> Result<Option<(PathBuf, BTreeSet<String>)>, Failure> {
    Ok(find(arguments, edge)?.map(|(file, text)| (file, variables_of(&text))))
}

/// The text of the configuration that is named, else of the default one, with its file.
fn find(arguments: &ConfigArguments, edge: &Edge) -> Result<Option<(PathBuf, String)>, Failure> {
    if let Some(file) = &arguments.config {
        let text = read(file).map_err(|error| unreadable(file, &error))?;
        return Ok(Some((file.clone(), text)));
    }
    for file in DEFAULTS.map(|name| edge.absolute(Path::new(name))) {
        match read(&file) {
            Ok(text) => return Ok(Some((file, text))),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(unreadable(&file, &error)),
        }
    }
    Ok(None)
}

/// Reads the configuration that is named, else the default one, and fails when there is none.
pub(crate) fn require(arguments: &ConfigArguments, edge: &Edge) -> Result<Config, Failure> {
    load(arguments, edge)?.ok_or_else(|| {
        Failure::new(
            Kind::Usage,
            "config.none",
            "configuration",
            "no configuration is named and neither ./seawall.yml nor /etc/seawall.yml exists",
            "name one with --config, or name a database and a vault; `seawall init` writes one",
        )
    })
}

/// The text of a configuration of another kind.
pub(crate) fn text(file: &Path) -> Result<String, Failure> {
    read(file).map_err(|error| unreadable(file, &error))
}

/// Reads a regular file, or a pipe as a shell's `<(program)` makes it. Anything else could have no end.
fn read(file: &Path) -> io::Result<String> {
    let kind = std::fs::metadata(file)?.file_type();
    match (kind.is_file(), kind.is_fifo()) {
        (true, _) => read_at_most(file),
        (_, true) => read_pipe(file.to_owned(), PATIENCE),
        _ => Err(io::Error::new(ErrorKind::InvalidInput, "it is no regular file and no pipe")),
    }
}

fn read_at_most(file: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(file)?.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is larger than 16 MiB"));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8"))
}

/// Opening a pipe to which nobody writes waits for ever, and so does reading it: a thread does both, and is given up.
fn read_pipe(file: PathBuf, patience: Duration) -> io::Result<String> {
    let (done, waiting) = mpsc::channel();
    std::thread::Builder::new().name("configuration".into()).spawn(move || drop(done.send(read_at_most(&file))))?;
    let late = || format!("it is a pipe, and no program wrote to it and closed it within {} s", patience.as_secs());
    waiting.recv_timeout(patience).unwrap_or_else(|_| Err(io::Error::new(ErrorKind::TimedOut, late())))
}

fn parse(file: &Path, text: &str, arguments: &ConfigArguments, edge: &Edge) -> Result<Config, Failure> {
    let expand = !arguments.no_expand_env;
    Ok(Config::parse(file, text, &edge.surroundings(), expand)?)
}

fn unreadable(file: &Path, error: &io::Error) -> Failure {
    let (kind, next) = match error.kind() {
        ErrorKind::NotFound => (Kind::Usage, "check the name"),
        ErrorKind::PermissionDenied => (Kind::Denied, "make it readable for this user"),
        _ => (Kind::Usage, "check that it is a text file"),
    };
    Failure::new(kind, "config.unreadable", file.display().to_string(), error.to_string(), next)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn what_has_no_end_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let (fifo, large) = (folder.path().join("fifo"), folder.path().join("large"));
        assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo").success());
        let why = |read: io::Result<String>| read.expect_err("refused").to_string();
        assert!(why(read_pipe(fifo, Duration::from_millis(50))).contains("no program wrote"));
        assert!(why(read(Path::new("/dev/zero"))).contains("no regular file"));
        assert!(why(read(folder.path())).contains("no regular file"));
        File::create(&large).and_then(|file| file.set_len(LARGEST + 1)).expect("made");
        assert!(why(read(&large)).contains("16 MiB"));
        File::create(&large).and_then(|file| file.set_len(LARGEST)).expect("made");
        assert_eq!(read(&large).expect("as large as any").len() as u64, LARGEST);
    }

    #[test]
    fn a_pipe_of_a_shell_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let fifo = folder.path().join("fifo");
        assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo").success());
        let writer = std::thread::spawn({
            let fifo = fifo.clone();
            move || std::fs::write(fifo, "vault: x")
        });
        assert_eq!(read(&fifo).expect("read"), "vault: x");
        assert!(writer.join().expect("ended").is_ok());
    }
}
