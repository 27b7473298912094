//! Finds the configuration that a command uses, and reads it.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use seawall_agent::config::{Config, socket_of};
use seawall_core::{Failure, Kind};

use crate::arguments::ConfigArguments;
use crate::edge::Edge;

/// Where a configuration is looked for when none is named, in this order.
const DEFAULTS: [&str; 2] = ["seawall.yml", "/etc/seawall.yml"];

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

fn read(file: &Path) -> std::io::Result<String> {
    std::fs::read_to_string(file)
}

fn parse(file: &Path, text: &str, arguments: &ConfigArguments, edge: &Edge) -> Result<Config, Failure> {
    let expand = !arguments.no_expand_env;
    Ok(Config::parse(file, text, &edge.surroundings(), expand)?)
}

fn unreadable(file: &Path, error: &std::io::Error) -> Failure {
    let (kind, next) = match error.kind() {
        ErrorKind::NotFound => (Kind::Usage, "check the name"),
        ErrorKind::PermissionDenied => (Kind::Denied, "make it readable for this user"),
        _ => (Kind::Usage, "check that it is a text file"),
    };
    Failure::new(kind, "config.unreadable", file.display().to_string(), error.to_string(), next)
}
