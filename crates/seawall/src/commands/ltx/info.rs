//! `seawall ltx info`: prints a file's metadata, without reading its pages.

use seawall_core::{Failure, Moment};
use seawall_ltx::file::{Verified, describe};
use serde_json::{Value, json};

use super::{failure, input, remote};
use crate::arguments::ltx::FilesArguments;
use crate::edge::Edge;
use crate::output::Output;

/// Runs the command.
pub(super) fn run(arguments: &FilesArguments, edge: &Edge, json: bool) -> Result<Output, Failure> {
    let (mut text, mut documents) = (String::new(), Vec::new());
    for name in input::expanded(&arguments.files, edge)? {
        let (shown, found) = match remote::describe(&name, edge)? {
            Some(found) => found,
            None => local(&name, edge, json)?,
        };
        if !text.is_empty() {
            text.push('\n');
        }
        text += &render(&shown, &found);
        documents.push(document(&shown, &found));
    }
    Ok(Output::done(text, &documents))
}

fn local(name: &input::Name, edge: &Edge, json: bool) -> Result<(String, Verified), Failure> {
    let input = name.open(edge, json)?;
    let found = describe(input.path()).map_err(|error| failure::among(&error, std::slice::from_ref(&input)))?;
    Ok((input.shown, found))
}

/// The generation as a number.
fn generation(found: &Verified) -> String {
    found.generation.map_or("3".to_owned(), |generation| generation.to_string())
}

fn render(shown: &str, found: &Verified) -> String {
    let (header, trailer) = (found.summary.header, found.summary.trailer);
    let kind = match (header.is_snapshot(), header.commit) {
        (_, 0) => "deletion",
        (true, _) => "snapshot",
        (false, _) => "increment",
    };
    format!(
        "file:          {shown}\nkind:          {kind}, generation {}\ntransactions:  {} to {}\ntime:          {}\n\
         pages:         {} of a database of {} pages of {} bytes\npre-apply:     {}\npost-apply:    {}\n\
         file checksum: {}\nsize:          {}\n",
        generation(found),
        header.min_txid,
        header.max_txid,
        Moment::from_millis(header.timestamp_ms),
        found.summary.pages,
        header.commit,
        header.page_size,
        header.pre_apply,
        trailer.post_apply,
        trailer.file,
        crate::table::bytes(found.len),
    )
}

/// A file for programs (docs/json.md).
pub(super) fn document(shown: &str, found: &Verified) -> Value {
    let (header, trailer) = (found.summary.header, found.summary.trailer);
    json!({
        "file": shown,
        "generation": generation(found),
        "snapshot": header.is_snapshot(),
        "checksums": !header.no_checksum,
        "page_size": header.page_size.get(),
        "commit": header.commit,
        "min_txid": header.min_txid.to_string(),
        "max_txid": header.max_txid.to_string(),
        "timestamp": Moment::from_millis(header.timestamp_ms).to_string(),
        "timestamp_ms": header.timestamp_ms,
        "pre_apply": header.pre_apply.to_string(),
        "post_apply": trailer.post_apply.to_string(),
        "file_checksum": trailer.file.to_string(),
        "wal_offset": header.wal_offset,
        "wal_size": header.wal_size,
        "wal_salt1": header.wal_salt1,
        "wal_salt2": header.wal_salt2,
        "node_id": header.node_id,
        "pages": found.summary.pages,
        "size": found.len,
    })
}
