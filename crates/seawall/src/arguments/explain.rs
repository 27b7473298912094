//! `seawall explain`

use clap::Args;

/// `seawall explain`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    seawall explain sqlite.two-writers\n  \
    seawall explain vault.               every code that begins so\n  \
    seawall explain --json               every code, for programs\n\n\
    Exit codes: 0 explained, 4 there is no such code")]
pub(crate) struct ExplainArguments {
    /// A code, as an error or an alarm shows it, or the beginning of codes [default: list all]
    #[arg(value_name = "CODE")]
    pub(crate) code: Option<String>,
}
