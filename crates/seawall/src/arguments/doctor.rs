//! `seawall doctor`

use clap::Args;

use super::SocketArguments;

/// `seawall doctor`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    seawall doctor\n  \
    seawall doctor --config /etc/seawall.yml --no-vaults\n\n\
    Exit codes: 0 nothing to mend, 1 something to look after, 2 something is wrong now")]
pub(crate) struct DoctorArguments {
    /// Don't try the vaults out. Without this option a few small objects are written to each vault and deleted again
    #[arg(long)]
    pub(crate) no_vaults: bool,
    #[command(flatten)]
    pub(crate) socket: SocketArguments,
}
