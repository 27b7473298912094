//! `seawall init`

use std::path::PathBuf;

use clap::Args;

/// `seawall init`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    seawall init                                       look, ask, and write ./seawall.yml\n  \
    seawall init s3://bucket/prefix --keep 30d --yes   ask nothing\n  \
    seawall init --below /srv/app                      only the databases there\n  \
    seawall init --json                                what is found, for programs\n\n\
    No server is asked anything, and no password is written. --yes takes the SQLite databases.\n\
    LMDB environments and servers need a decision, and are written as comments.\n\n\
    Exit codes: 0 written, 1 refused (the file exists, or nobody could be asked), 4 nothing found")]
pub(crate) struct InitArguments {
    /// Where to keep everything: a folder, or a URL such as s3://bucket/prefix [default: asked for, else ./vault]
    #[arg(value_name = "VAULT")]
    pub(crate) vault: Option<String>,
    /// How long back every moment can be restored, such as 7d, or forever [default: asked for, else 7d]
    #[arg(long, value_name = "SPAN")]
    pub(crate) keep: Option<String>,
    /// The file to write
    #[arg(short, long, value_name = "FILE", default_value = "seawall.yml")]
    pub(crate) output: PathBuf,
    /// Look only for what is in this folder and the folders in it
    #[arg(long, value_name = "FOLDER")]
    pub(crate) below: Option<PathBuf>,
    /// Ask nothing: take every SQLite database that is found
    #[arg(long)]
    pub(crate) yes: bool,
    /// Write over a file that exists
    #[arg(long)]
    pub(crate) force: bool,
}
