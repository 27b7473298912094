//! `seawall vault` as it is typed: the commands about a place itself.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// The commands about a place itself.
#[derive(Debug, Subcommand)]
pub(crate) enum VaultCommand {
    /// Make an encrypted vault, and prove that its key opens it
    Init(VaultInitArguments),
    /// Show what a store can, how fast it is, and what a day of protection costs there
    Probe(VaultProbeArguments),
    /// Give an encrypted vault other recipients
    Rekey(VaultRekeyArguments),
}

/// `seawall vault probe`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seawall vault probe s3://bucket/app\n  \
    seawall vault probe s3://bucket/app --rounds 50 --size 256MiB --json\n\n\
    Writes only objects named seawall/probe-… and deletes them. A vault in use isn't disturbed.\n\n\
    Exit codes: 0 everything was tried, 3 these credentials may not write, or an object stays for another reason than a missing\n\
    right to delete")]
pub(crate) struct VaultProbeArguments {
    /// The place: a folder or a URL
    #[arg(value_name = "VAULT")]
    pub(crate) vault: String,
    /// How often each small request is made
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,
    /// The size of the object that measures the rate of uploads and downloads; 0 for none
    #[arg(long, value_name = "SIZE", default_value = "16MiB")]
    pub(crate) size: String,
}

/// `seawall vault init`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seawall vault init s3://bucket/app --generate -o owner.key\n  \
    seawall vault init s3://bucket/app --recipient age1… --identity owner.key\n\n\
    The vault of one database: where a configuration puts several below one URL, each is URL/NAME.")]
pub(crate) struct VaultInitArguments {
    /// The place of one database's vault: a folder or a URL
    #[arg(value_name = "VAULT")]
    pub(crate) vault: String,
    /// Make a new key, and write it to a file that isn't there yet
    #[arg(long, conflicts_with = "recipient", required_unless_present = "recipient")]
    pub(crate) generate: bool,
    /// The file for the new key
    #[arg(short = 'o', long, value_name = "FILE", default_value = "seawall-owner.key", conflicts_with = "recipient")]
    pub(crate) identity_out: PathBuf,
    /// Encrypt for this key instead: age1…, ssh-ed25519 …, ssh-rsa … or a file of such keys; may be given more than once
    #[arg(long, value_name = "KEY|FILE")]
    pub(crate) recipient: Vec<String>,
}

/// `seawall vault rekey`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    seawall vault rekey s3://bucket/app --identity owner.key --recipient age1old… --recipient age1new…\n  \
    seawall vault rekey s3://bucket/app --identity both.keys --recipient age1new… --remove age1old… --rewrite\n\n\
    The list of recipients is the whole new one. Run it again after an interruption: it goes on.\n\
    Then name the same recipients in the configuration, and start the processes again that write to this vault.")]
pub(crate) struct VaultRekeyArguments {
    /// The place of one database's vault: a folder or a URL
    #[arg(value_name = "VAULT")]
    pub(crate) vault: String,
    /// A recipient from now on: age1…, ssh-ed25519 …, ssh-rsa … or a file of such keys; give it once for each of them
    #[arg(long, value_name = "KEY|FILE", required = true)]
    pub(crate) recipient: Vec<String>,
    /// A recipient that goes; each one has to be named
    #[arg(long, value_name = "KEY|FILE")]
    pub(crate) remove: Vec<String>,
    /// Rewrite the headers of the objects that are there, too
    #[arg(long)]
    pub(crate) rewrite: bool,
}
