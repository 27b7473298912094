//! Shared by the commands for database servers: URLs, sizes, vaults.

use seawall_agent::config::{parse_size, read_place};
use seawall_agent::{Encryption, ServerUrl};
use seawall_core::Failure;
use seawall_vault::{Vault, VaultUrl};

use crate::edge::{Edge, usage};
use crate::output::complain;

/// The server and database that a URL names.
pub(crate) fn url(text: &str, edge: &Edge) -> Result<ServerUrl, Failure> {
    let url = ServerUrl::parse(text, &edge.environment)?;
    if url.has_password() {
        let instead = match url {
            ServerUrl::Postgres(_) => "PGPASSWORD or ~/.pgpass",
            ServerUrl::Mysql(_) => "MYSQL_PWD or ~/.my.cnf",
        };
        complain(&format!(
            "warning: the URL holds a password, which process lists and shell histories show; use {instead}\n"
        ));
    }
    Ok(url)
}

/// A number of bytes.
pub(crate) fn size(flag: &str, text: &str) -> Result<u64, Failure> {
    parse_size(text).ok_or_else(|| usage("usage.arguments", flag, "this is no size", "give one such as 64MB or 1GiB"))
}

/// The place that `text` names.
pub(crate) fn place(text: &str, edge: &Edge) -> Result<VaultUrl, Failure> {
    read_place(text, &edge.directory)
}

/// Opens a vault, writing at most `limit` bytes a second to it.
pub(crate) async fn open(
    url: &VaultUrl,
    edge: &Edge,
    limit: Option<u64>,
    encryption: Option<&Encryption>,
) -> Result<Vault, Failure> {
    let mut opener = edge.opener(1)?;
    if let Some(limit) = limit {
        opener.limit_uploads(limit);
    }
    let vault = opener.vault_to_fill(url, encryption).await?;
    if vault.needs_probe() {
        vault.probe().await?;
    }
    Ok(vault)
}
