//! `seawall ltx decode` makes a database from files, and `seawall ltx compact` makes one file from several.

use std::path::PathBuf;

use seawall_core::{Failure, Kind};
use seawall_ltx::file::{compact as merge, decode};

use super::{Meter, failure, info, input, total};
use crate::arguments::ltx::{CompactArguments, DecodeArguments};
use crate::edge::Edge;
use crate::output::Output;

/// Runs `decode`: silent on success.
pub(super) fn run(arguments: &DecodeArguments, edge: &Edge, json: bool) -> Result<Output, Failure> {
    let output = &arguments.output;
    if !arguments.force && std::fs::symlink_metadata(output).is_ok() {
        let object = output.display().to_string();
        let next = "name another file, or replace it with --force";
        return Err(Failure::new(Kind::Refused, "ltx.exists", object, "the file exists", next));
    }
    let input = input::one(&arguments.file, edge, json)?;
    let meter = Meter::begin("decode", total([input.path()]), arguments.work, edge, json);
    let decoded = decode(input.path(), output, meter.work());
    let decoded = decoded.map_err(|error| failure::among(&error, std::slice::from_ref(&input)))?;
    Ok(Output::done("", &info::document(&input.shown, &decoded)))
}

/// Runs `compact`: silent on success.
pub(super) fn compact(arguments: &CompactArguments, edge: &Edge, json: bool) -> Result<Output, Failure> {
    let inputs = input::files(&arguments.files, edge, json)?;
    let paths: Vec<PathBuf> = inputs.iter().map(|input| input.path().to_owned()).collect();
    let meter = Meter::begin("compact", total(inputs.iter().map(input::Input::path)), arguments.work, edge, json);
    let merged = merge(&paths, &arguments.output, meter.work()).map_err(|error| failure::among(&error, &inputs))?;
    Ok(Output::done("", &info::document(&arguments.output.display().to_string(), &merged)))
}
