//! `seawall web`

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use seawall_agent::config::WebConfig;

/// `seawall web`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    seawall web s3://bucket/prefix\n  \
    seawall web ./backups --listen 127.0.0.1:9000\n  \
    seawall web s3://bucket --listen 0.0.0.0:8400 --token-file /etc/seawall/token --host backup.example.org\n\n\
    The page shows what the vaults tell, on any host, with credentials that may only read. No process that protects is asked.\n\
    The vaults are listed when a visitor loads the page, and not again while that listing is fresh.")]
pub(crate) struct WebArguments {
    /// The prefix below which the vaults are: a URL or a folder
    #[arg(value_name = "VAULT-PREFIX")]
    pub(crate) vault: String,
    /// The address and port of the page
    #[arg(long, value_name = "ADDRESS", default_value = WebConfig::ADDRESS)]
    pub(crate) listen: String,
    /// The file with the token that visitors must know. An address that other machines reach needs one
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// A further name under which the page is visited
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Vec<String>,
    /// The path below which a reverse proxy serves the page
    #[arg(long, value_name = "PATH")]
    pub(crate) path: Option<String>,
    /// How long a listing of the prefix counts
    #[arg(long, value_name = "TIME", value_parser = super::span, default_value = "1m")]
    pub(crate) fresh: Duration,
}
