//! `seawall pin`: keep a point for good, or no longer.

use seawall_agent::Opener;
use seawall_archive::SetId;
use seawall_core::{Clock as _, Failure, SystemClock, When};
use serde_json::json;

use crate::arguments::PinArguments;
use crate::edge::{Edge, usage};
use crate::output::Output;
use crate::runtime;
use crate::source::Source;

/// Runs the command.
pub(crate) fn run(arguments: &PinArguments, edge: &Edge) -> Result<Output, Failure> {
    let when = match arguments.at.parse::<SetId>() {
        Ok(id) => When::Position(id.to_string()),
        Err(()) => When::parse(&arguments.at, SystemClock.now())
            .map_err(|error| usage("usage.when", "--at", &error.to_string(), "correct the moment"))?,
    };
    let source = Source::find(&arguments.source, &arguments.config, edge)?;
    let opener = Opener::new(edge.environment.clone(), runtime::working());
    let pinned = !arguments.remove;
    let (vault, position) = runtime::run(async {
        let engine = source.open(&opener).await?;
        Ok((engine.describe().vault, engine.pin(&when, pinned).await?))
    })?;
    let text = match pinned {
        true => format!("{vault}: {position} is pinned: what leads to it is not deleted\n"),
        false => format!("{vault}: {position} is not pinned any more\n"),
    };
    Ok(Output::done(text, &json!({ "vault": vault, "position": position, "pinned": pinned })))
}
