//! `seawall maintain --acknowledge`: the user confirms that links of a chain are missing.

use seawall_agent::acknowledge;
use seawall_core::Failure;
use serde_json::json;

use super::prove_server::sets_of;
use crate::arguments::MaintainArguments;
use crate::edge::{Edge, usage};
use crate::output::Output;
use crate::runtime;
use crate::source::Source;

/// Runs the command.
pub(super) fn run(arguments: &MaintainArguments, source: &Source, edge: &Edge) -> Result<Output, Failure> {
    let numbers = &arguments.acknowledge;
    let vault = runtime::run(async {
        let Some(vault) = sets_of(source, edge).await? else {
            let next = "leave --acknowledge out: only a server's backups have a chain";
            return Err(usage("usage.server", &arguments.source, "it holds no backups of a server", next));
        };
        acknowledge(&vault, numbers).await?;
        Ok(vault.url().to_owned())
    })?;
    let links = numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let text = format!("{vault}: it is known now that of the chain is missing: {links}\n");
    Ok(Output::done(text, &json!({ "vault": vault, "acknowledged": numbers })))
}
