//! `seawall wal push`: a file of the log into the vault.

use seawall_agent::wal::push;
use seawall_archive::log::Stored;
use seawall_core::Failure;
use serde_json::json;

use super::open;
use crate::arguments::WalPushArguments;
use crate::edge::Edge;
use crate::output::Output;
use crate::runtime;

/// Runs the command.
pub(super) fn run(arguments: &WalPushArguments, edge: &Edge) -> Result<Output, Failure> {
    let encryption = arguments.encryption.read(edge)?;
    let opener = edge.opener(1)?;
    let path = edge.absolute(&arguments.path);
    let (vault, pushed) = runtime::run(async {
        let vault = open(&arguments.vault, &arguments.config, encryption.as_ref(), &opener, edge).await?;
        if vault.needs_probe() {
            vault.probe().await?;
        }
        let pushed = push(&vault, &path).await?;
        Ok((vault.url().to_owned(), pushed))
    })?;
    let document = json!({
        "vault": vault,
        "file": pushed.file.to_string(),
        "system": pushed.cluster.system,
        "stored": match pushed.stored { Stored::New => "new", Stored::Already => "already" },
    });
    // The server's log has a line for each word that an archive_command says.
    Ok(Output::done("", &document))
}
