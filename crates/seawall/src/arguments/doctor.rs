//! `seawall doctor`

use std::path::PathBuf;

use clap::Args;

use super::SocketArguments;

/// `seawall doctor`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    seawall doctor\n  \
    seawall doctor --config /etc/seawall.yml --no-vaults\n\n\
    Of a unit it looks at ExecStart, Environment, EnvironmentFile, WorkingDirectory, ProtectSystem, ProtectHome,\n  \
    PrivateTmp, DynamicUser, ReadWritePaths, ReadOnlyPaths, InaccessiblePaths, TemporaryFileSystem, BindPaths,\n  \
    RootDirectory, ProcSubset, RemoveIPC, and StateDirectory and the like. Whether the unit's user has the rights\n  \
    isn't looked at\n\n\
    Exit codes: 0 nothing to mend, 1 something to look after, 2 something is wrong now")]
pub(crate) struct DoctorArguments {
    /// Don't try the vaults out. Without this option a few small objects are written to each vault and deleted again
    #[arg(long)]
    pub(crate) no_vaults: bool,
    /// Look at this unit of systemd. Without this option those are looked at that run `seawall replicate` with the configuration
    #[arg(long, value_name = "FILE")]
    pub(crate) unit: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) socket: SocketArguments,
}
