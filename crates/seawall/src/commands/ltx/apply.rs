//! `seawall ltx apply`: files into a database.

use std::path::PathBuf;

use seawall_core::Failure;
use seawall_ltx::file::{Applied, ApplyOptions, apply};
use serde_json::{Value, json};

use super::{Meter, failure, input, total};
use crate::arguments::ltx::ApplyArguments;
use crate::edge::Edge;
use crate::output::Output;

/// Runs the command: silent on success.
pub(super) fn run(arguments: &ApplyArguments, edge: &Edge, json: bool) -> Result<Output, Failure> {
    let inputs = input::files(&arguments.files, edge, json)?;
    let paths: Vec<PathBuf> = inputs.iter().map(|input| input.path().to_owned()).collect();
    let meter = Meter::begin("apply", total(inputs.iter().map(input::Input::path)), arguments.work, edge, json);
    let options = ApplyOptions { touched_only: arguments.touched_only };
    let applied =
        apply(&arguments.db, &paths, options, meter.work()).map_err(|error| failure::among(&error, &inputs))?;
    Ok(Output::done("", &document(arguments, &applied)))
}

fn document(arguments: &ApplyArguments, applied: &Applied) -> Value {
    json!({
        "database": arguments.db,
        "txid": applied.txid.to_string(),
        "pages": applied.pages,
        "page_size": applied.page_size.get(),
        "checksum": applied.checksum.map(|sum| sum.to_string()),
    })
}
