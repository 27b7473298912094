//! `seawall ltx verify`: reads files to their end.

use seawall_core::{Failure, Kind};
use seawall_ltx::file::{Verified, verify};
use serde_json::json;

use super::arguments::FilesArguments;
use super::{Meter, WorkArguments, failure, info, input, remote, total};
use crate::edge::Edge;
use crate::exit::Exit;
use crate::output::Output;

/// Runs the command: `ok`, or how many are and are not, with each bad one on standard error.
pub(super) fn run(arguments: &FilesArguments, edge: &Edge, json: bool) -> Result<Output, Failure> {
    let (mut documents, mut failures) = (Vec::new(), Vec::new());
    for name in input::expanded(&arguments.files, edge)? {
        match check(&name, arguments.work, edge, json) {
            Ok((shown, found)) => documents.push(info::document(&shown, &found)),
            Err(failure) => failures.push(failure),
        }
    }
    let text = match (documents.len(), failures.len()) {
        (0, 0) => String::new(),
        (_, 0) => "ok\n".to_owned(),
        (ok, bad) => format!("{ok} ok, {bad} invalid\n"),
    };
    let exit = if documents.is_empty() && failures.is_empty() { Exit::NotFound } else { exit(&failures) };
    Ok(Output { text, json: json!({ "files": documents, "failures": failures }), failures, exit })
}

/// Reads a file to its end: its name as it is shown, and what it holds.
pub(super) fn check(
    name: &input::Name,
    work: WorkArguments,
    edge: &Edge,
    json: bool,
) -> Result<(String, Verified), Failure> {
    if let Some(found) = remote::verify(name, work, edge, json)? {
        return Ok(found);
    }
    let input = name.open(edge, json)?;
    let meter = Meter::begin("verify", total([input.path()]), work, edge, json);
    let found = verify(input.path(), meter.work());
    let found = found.map_err(|error| failure::among(&error, std::slice::from_ref(&input)))?;
    Ok((input.shown, found))
}

/// A file that can't be relied on fails the command, however many others are right.
pub(super) fn exit(failures: &[Failure]) -> Exit {
    match failures {
        [] => Exit::Done,
        all if all.iter().all(|failure| failure.kind == Kind::NotFound) => Exit::NotFound,
        all if all.iter().all(|failure| failure.kind == Kind::Usage) => Exit::Usage,
        _ => Exit::Failed,
    }
}
