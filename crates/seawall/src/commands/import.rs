//! `seawall config import`: a configuration made of another program's.

#![expect(clippy::disallowed_methods, reason = "this command reads a file that the user names")]

use std::io::Read as _;

use seawall_agent::outside::settings::{Imported, LARGEST, seawall_yml};
use seawall_core::{Failure, Kind};
use serde_json::json;

use crate::arguments::ImportArguments;
use crate::edge::Edge;
use crate::exit::Exit;
use crate::output::Output;

/// Runs the command.
pub(crate) fn run(arguments: &ImportArguments, edge: &Edge) -> Result<Output, Failure> {
    let path = edge.absolute(&arguments.file);
    let object = path.display().to_string();
    let failed = |kind, cause: String| {
        Failure::new(kind, "dump.io", &object, cause, "name the .dbbackup.conf that dbbackup reads")
    };
    let mut text = String::new();
    let read = std::fs::File::open(&path).and_then(|file| file.take(LARGEST as u64 + 1).read_to_string(&mut text));
    read.map_err(|error| failed(Kind::Unavailable, error.to_string()))?;
    if text.len() > LARGEST {
        return Err(failed(Kind::Unavailable, format!("it has more than {LARGEST} bytes")));
    }
    let imported = seawall_yml(&text, &object)?;
    if let Some(output) = &arguments.output {
        super::init::save(&edge.absolute(output), &imported.yaml, arguments.force)?;
    }
    let pairs = |pairs: &[(String, &'static str)], what: &str, why: &str| -> Vec<_> {
        pairs.iter().map(|(key, text)| json!({ what: key, why: text })).collect()
    };
    let wrong: Vec<_> =
        imported.wrong.iter().map(|(line, key, why)| json!({ "line": line, "key": key, "why": why })).collect();
    let unknown: Vec<_> = imported.unknown.iter().map(|(line, key)| json!({ "line": line, "key": key })).collect();
    let document = json!({
        "file": object,
        "output": arguments.output,
        "configuration": imported.yaml,
        "unknown": unknown,
        "wrong": wrong,
        "left_out": pairs(&imported.left_out, "key", "why"),
        "secrets": pairs(&imported.secrets, "key", "place"),
    });
    let exit = if imported.unknown.is_empty() && imported.wrong.is_empty() { Exit::Done } else { Exit::Partly };
    let text = match &arguments.output {
        Some(output) => render(&imported, &output.display().to_string()),
        None => imported.yaml,
    };
    Ok(Output { text, failures: Vec::new(), json: document, exit })
}

fn render(imported: &Imported, output: &str) -> String {
    let mut text = String::new();
    for (key, place) in &imported.secrets {
        text.push_str(&format!("not copied: {key}: Seawall looks for it in {place}\n"));
    }
    for (key, why) in &imported.left_out {
        text.push_str(&format!("left out: {key}: {why}\n"));
    }
    for (line, key) in &imported.unknown {
        text.push_str(&format!("unknown: {key}, in line {line}: it has no effect in {output}\n"));
    }
    for (line, key, why) in &imported.wrong {
        text.push_str(&format!("not understood: {key}, in line {line}: {why}\n"));
    }
    format!("{text}{output}: written; read it, then: seawall config check --config {output}\n")
}
