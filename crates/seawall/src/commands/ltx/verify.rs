//! `seawall ltx verify`: reads files to their end.

use seawall_core::{Failure, Kind};
use seawall_ltx::file::{Verified, verify};
use serde_json::json;

use super::strong::{self, Compared};
use super::{Meter, WorkArguments, failure, info, input, remote, total};
use crate::arguments::ltx::VerifyArguments;
use crate::edge::Edge;
use crate::exit::Exit;
use crate::output::Output;

/// Runs the command: `ok`, or how many are and are not, with each bad one on standard error.
pub(super) fn run(arguments: &VerifyArguments, edge: &Edge, json: bool) -> Result<Output, Failure> {
    let (mut documents, mut failures, mut without) = (Vec::new(), Vec::new(), Vec::new());
    for name in input::expanded(&arguments.files.files, edge)? {
        let checked = check(&name, arguments.files.work, edge, json).and_then(|(shown, found)| {
            let compared = if arguments.strong { strong::compare(&name, edge)? } else { Compared::AsWritten };
            if compared == Compared::WithoutDigest {
                without.push(shown.clone());
            }
            Ok(info::document(&shown, &found))
        });
        match checked {
            Ok(document) => documents.push(document),
            Err(failure) => failures.push(failure),
        }
    }
    let mut text = match (documents.len(), failures.len()) {
        (0, 0) => String::new(),
        (_, 0) => "ok\n".to_owned(),
        (ok, bad) => format!("{ok} ok, {bad} invalid\n"),
    };
    text.extend(without.iter().map(|shown| format!("{shown}: no BLAKE3 was kept beside it\n")));
    let exit = match exit(&failures) {
        Exit::Done if documents.is_empty() => Exit::NotFound,
        Exit::Done => Exit::judge(true, without.is_empty()),
        exit => exit,
    };
    let mut json = json!({ "files": documents, "failures": failures });
    if let Some(fields) = json.as_object_mut().filter(|_| arguments.strong) {
        fields.insert("without_digest".into(), json!(without));
    }
    Ok(Output { text, json, failures, exit })
}

/// Reads a file to its end. Returns its displayed name and its content.
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
