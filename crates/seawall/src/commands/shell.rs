//! `seawall completion` and `seawall manual`: made from the definition of the command line.

use clap::CommandFactory as _;
use seawall_core::{Failure, Kind};
use serde_json::json;

use crate::arguments::{Arguments, CompletionArguments, ManualArguments};
use crate::edge::Edge;
use crate::output::Output;

/// Prints the completions of a shell.
pub(crate) fn completion(arguments: &CompletionArguments) -> Output {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "seawall", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    let document = json!({ "shell": arguments.shell.to_string(), "script": script });
    Output::done(script, &document)
}

/// Writes a page of the manual for each command.
pub(crate) fn manual(arguments: &ManualArguments, edge: &Edge) -> Result<Output, Failure> {
    let folder = edge.absolute(&arguments.output);
    clap_mangen::generate_to(Arguments::command(), &folder).map_err(|error| {
        let next = "name a folder that exists and can be written with -o";
        Failure::new(Kind::Denied, "command.manual", folder.display().to_string(), error.to_string(), next)
    })?;
    let document = json!({ "folder": folder });
    Ok(Output::done(format!("the pages of the manual are in {}\n", folder.display()), &document))
}
