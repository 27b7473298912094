//! `seawall demo`

use seawall_core::Failure;

use crate::edge::Edge;
use crate::output::Output;

/// Runs the command.
pub(crate) fn run(_edge: &Edge, _json: bool) -> Result<Output, Failure> {
    Ok(Output::done("", &()))
}
