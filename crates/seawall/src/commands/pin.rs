//! `seawall pin`: keep a point for good, or no longer.

use seawall_agent::ask;
use seawall_core::Failure;
use serde_json::json;

use crate::arguments::PinArguments;
use crate::edge::Edge;
use crate::output::Output;
use crate::source::Source;
use crate::{runtime, source};

/// Runs the command.
pub(crate) fn run(arguments: &PinArguments, edge: &Edge) -> Result<Output, Failure> {
    let when = source::when(&arguments.at)?;
    let source = Source::find(&arguments.source, &arguments.config, edge)?;
    let opener = edge.opener(runtime::working())?;
    let pinned = !arguments.remove;
    let (vault, position) = runtime::run(async {
        let engine = source.open(&opener).await?;
        Ok((engine.describe().vault, ask::pins(&*engine)?.pin(&when, pinned).await?))
    })?;
    let text = match pinned {
        true => format!("{vault}: {position} is pinned: what leads to it is not deleted\n"),
        false => format!("{vault}: {position} is not pinned any more\n"),
    };
    Ok(Output::done(text, &json!({ "vault": vault, "position": position, "pinned": pinned })))
}
