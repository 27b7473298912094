//! `seawall ui`

use clap::Args;

use super::SocketArguments;

/// `seawall ui`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    seawall ui\n  \
    seawall ui --socket /run/seawall.sock\n  \
    seawall ui s3://bucket/prefix\n\n\
    Without a prefix it asks the running process once a second. With a prefix it reads the vault when you ask, and can restore from it.\n\
    Press ? for the keys. NO_COLOR=1 leaves colours out. Without a terminal use `seawall status`.")]
pub(crate) struct UiArguments {
    /// The prefix below which vaults are, a URL or a folder, instead of a running process
    #[arg(value_name = "VAULT-PREFIX")]
    pub(crate) vault: Option<String>,
    #[command(flatten)]
    pub(crate) socket: SocketArguments,
}
