//! `seawall explain`: what a code means, and what to do.

use seawall_core::{Failure, Kind};
use serde_json::{Value, json};

use crate::arguments::ExplainArguments;
use crate::codes::{self, Entry, Retry, Use};
use crate::output::{Output, to_json};
use crate::table::table;

/// Runs the command.
pub(crate) fn run(arguments: &ExplainArguments) -> Result<Output, Failure> {
    let entries = codes::all();
    // A code is often copied with what stands around it in a message.
    let asked = arguments.code.as_deref().unwrap_or_default();
    let asked = asked.strip_prefix("error").unwrap_or(asked).trim_matches(['[', ']', '(', ')', ':', '`', ' ']);
    if let Some(entry) = entries.iter().find(|entry| entry.code == asked) {
        return Ok(Output::done(text(entry), &to_json_of(entry)));
    }
    let listed: Vec<&Entry<'_>> = entries.iter().filter(|entry| entry.code.starts_with(asked)).collect();
    if listed.is_empty() {
        return Err(unknown(asked, &entries));
    }
    let rows = listed.iter().map(|entry| vec![entry.code.to_owned(), kinds(entry), entry.means.to_owned()]).collect();
    let json: Vec<Value> = listed.iter().map(|entry| to_json_of(entry)).collect();
    Ok(Output::done(table(&["code", "kind", "means"], rows, &[]), &json))
}

fn unknown(asked: &str, entries: &[Entry<'_>]) -> Failure {
    let next = match codes::nearest(asked, entries) {
        near if near.is_empty() => "`seawall explain` lists every code".to_owned(),
        near => format!("did you mean {}? `seawall explain` lists every code", near.join(", ")),
    };
    Failure::new(Kind::NotFound, "command.unknown-code", asked, "no error and no alarm has this code", next)
}

fn text(entry: &Entry<'_>) -> String {
    let Entry { code, part, means, next, .. } = entry;
    let mut text = format!("{code} ({part})\nmeans: {means}\nnext: {next}\n");
    for one in &entry.uses {
        let exit = one.exit().map(|exit| format!(", exit code {exit}")).unwrap_or_default();
        text.push_str(&format!("kind: {}{exit}\n", kind(*one)));
        if let Some(retry) = one.retry() {
            text.push_str(&format!("retry: {}\n", of_retry(retry)));
        }
    }
    text
}

fn of_retry(retry: Retry) -> &'static str {
    match retry {
        Retry::Later => "can help: the cause may pass. A running process tries again by itself",
        Retry::Now => "helps: start the same again",
        Retry::Never => "doesn't help before the cause is removed",
    }
}

/// The name of a kind, as in JSON.
fn kind(one: Use<'_>) -> String {
    match one {
        Use::Error { kind, .. } => to_json(&kind).as_str().unwrap_or_default().to_owned(),
        Use::Alarm(severity) => severity.name().to_owned(),
        Use::Other(word) => word.to_owned(),
    }
}

fn kinds(entry: &Entry<'_>) -> String {
    entry.uses.iter().map(|one| kind(*one)).collect::<Vec<_>>().join(", ")
}

fn to_json_of(entry: &Entry<'_>) -> Value {
    let of_kind = |one: &Use<'_>| {
        let retry = one.retry().map(|retry| retry != Retry::Never);
        json!({ "kind": kind(*one), "exit_code": one.exit(), "retry": retry })
    };
    let kinds: Vec<Value> = entry.uses.iter().map(of_kind).collect();
    json!({ "code": entry.code, "part": entry.part, "kinds": kinds, "means": entry.means, "next": entry.next })
}
