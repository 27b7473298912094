//! `seawall notify`, as it is typed.

use clap::{Args, Subcommand};

use super::ConfigArguments;

/// `seawall notify`
#[derive(Debug, Subcommand)]
pub(crate) enum NotifyCommand {
    /// Send a message to the channels of a configuration, and show which of them took it
    Test(NotifyTestArguments),
}

/// `seawall notify test`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seawall notify test\n  seawall notify test pager --config /etc/seawall.yml\n\n\
    Each channel gets one message, in one attempt, whatever its severity and databases. No running process is asked.\n\n\
    Exit codes: 0 all channels took it, 1 none did, 3 some did")]
pub(crate) struct NotifyTestArguments {
    /// One channel, by its name [default: all]
    #[arg(value_name = "CHANNEL")]
    pub(crate) channel: Option<String>,
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
}
