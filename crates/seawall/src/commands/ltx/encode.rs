//! `seawall ltx encode-db`: a database with its WAL into a snapshot.

use seawall_core::{Clock as _, Failure, SystemClock};
use seawall_ltx::file::{EncodeOptions, encode};

use super::hold::Hold;
use super::{Meter, failure, info, total};
use crate::arguments::ltx::EncodeArguments;
use crate::edge::Edge;
use crate::output::Output;

/// Runs the command: silent on success.
pub(super) fn run(arguments: &EncodeArguments, edge: &Edge, json: bool) -> Result<Output, Failure> {
    let (path, output) = (&arguments.database, &arguments.output);
    let held = if arguments.no_lock { None } else { Hold::take(path)? };
    let meter = Meter::begin("encode", total([path.as_path()]), arguments.work, edge, json);
    let options = EncodeOptions { timestamp_ms: SystemClock.now().as_millis(), no_checksum: arguments.no_checksum };
    let encoded = encode(path, output, options, meter.work()).map_err(|error| failure::plain(&error))?;
    drop(held);
    Ok(Output::done("", &info::document(&output.display().to_string(), &encoded)))
}
