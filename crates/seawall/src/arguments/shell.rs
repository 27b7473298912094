//! What a shell and a reader of manuals get.

use std::path::PathBuf;

use clap::Args;

/// `seawall completion`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  seawall completion bash > ~/.local/share/bash-completion/completions/seawall")]
pub(crate) struct CompletionArguments {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: clap_complete::Shell,
}

/// `seawall manual`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  seawall manual -o ~/.local/share/man/man1 && man seawall-restore")]
pub(crate) struct ManualArguments {
    /// The folder to write the pages into; it must exist
    #[arg(short, long, value_name = "FOLDER")]
    pub(crate) output: PathBuf,
}
