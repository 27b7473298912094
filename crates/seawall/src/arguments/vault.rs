//! The commands about a vault's content as they are typed: `timeline`, `verify`, `copy`, `maintain` and `pin`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use seawall_core::Level;

use super::{ConfigArguments, EncryptionArguments, PastArguments, ServerArguments, span};

/// `seawall timeline`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seawall timeline ./vault\n  seawall timeline --config seawall.yml app")]
pub(crate) struct SourceArguments {
    /// A vault (folder or URL), or the name or path of a database in the configuration
    #[arg(value_name = "VAULT|NAME|PATH")]
    pub(crate) source: String,
    #[command(flatten)]
    pub(crate) past: PastArguments,
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
}

/// `seawall compare`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seawall compare s3://bucket/shop '2 days ago'\n  \
    seawall compare app 2026-11-20T10:00:00Z 2026-11-21T10:00:00Z --config seawall.yml")]
pub(crate) struct CompareArguments {
    /// A vault (folder or URL), or the name or path of a database in the configuration
    #[arg(value_name = "VAULT|NAME|PATH")]
    pub(crate) source: String,
    /// The first point: RFC 3339, "10 minutes ago", or a position
    #[arg(value_name = "FROM", allow_hyphen_values = true)]
    pub(crate) from: String,
    /// The second point
    #[arg(value_name = "TO", default_value = "latest", allow_hyphen_values = true)]
    pub(crate) to: String,
    /// Also show what has the same size, or is the same
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) past: PastArguments,
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
}

/// `seawall verify`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seawall verify ./vault\n  seawall verify --strong ./vault\n  \
    seawall verify s3://bucket/app --json\n  seawall verify s3://bucket/app --restore\n  \
    seawall verify pg_cluster_20261128_030000.tar.gz\n  \
    seawall verify app --restore --level engine --scratch /mnt/large\n  \
    seawall verify s3://bucket/shop --restore --to postgresql://postgres@test/\n\n\
    With --restore the result is recorded in the vault; `seawall timeline` shows the newest ones.")]
pub(crate) struct VerifyArguments {
    /// Prove it: restore it into a throw-away place, check what came of it, and record the result in the vault
    #[arg(long, conflicts_with = "strong")]
    pub(crate) restore: bool,
    /// With --restore: how thoroughly to check: bytes, structure, engine or content; each includes those before it
    #[arg(long, requires = "restore", value_name = "LEVEL", default_value = "content", value_parser = level)]
    pub(crate) level: Level,
    /// With --restore: the folder in which the throw-away folder is made [default: TMPDIR, or /var/tmp]
    #[arg(long, requires = "restore", value_name = "DIR")]
    pub(crate) scratch: Option<PathBuf>,
    /// With --restore: the point: RFC 3339, "10 minutes ago", a position, or latest
    #[arg(long, requires = "restore", value_name = "WHEN", default_value = "latest", allow_hyphen_values = true)]
    pub(crate) at: String,
    /// With --restore: how many random moments of the timeline to restore and check as well
    #[arg(long, requires = "restore", value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=24))]
    pub(crate) moments: u32,
    /// With --restore: how long all of it may take, such as 2h; then it is ended and fails with proof.too-long
    #[arg(long, requires = "restore", value_name = "SPAN", value_parser = span)]
    pub(crate) within: Option<Duration>,
    /// With --restore of a file: don't read objects again that a proof compared with their digests less than this ago, such as 30d
    #[arg(long, requires = "restore", value_name = "SPAN", value_parser = span)]
    pub(crate) fresh: Option<Duration>,
    /// With --restore: the server to restore on [default: one that is started here, and removed]
    #[arg(long, requires = "restore", value_name = "URL", help_heading = "Servers")]
    pub(crate) to: Option<String>,
    /// With --restore, on a server that is started here: how long the proof of a database may take, such as 2h
    /// [default: an hour, plus a second for each MiB of the database]
    #[arg(
        long,
        requires = "restore",
        conflicts_with = "to",
        value_name = "SPAN",
        value_parser = span,
        help_heading = "Servers"
    )]
    pub(crate) proof_timeout: Option<Duration>,
    /// With --restore: start the server of the proof also where it can't be kept from the files of this user; programs of the source's
    /// owner run in it
    #[arg(long, requires = "restore", conflicts_with = "to", help_heading = "Servers")]
    pub(crate) not_isolated: bool,
    #[command(flatten)]
    pub(crate) server: ServerArguments,
    /// Of an encrypted backup of dbbackup: the file with its key [default: the variable DBBACKUP_ENCRYPTION_KEY]
    #[arg(long, conflicts_with_all = ["restore", "strong"], value_name = "FILE", help_heading = "Servers")]
    pub(crate) encryption_key_file: Option<PathBuf>,
    /// Also compare each object's bytes with its recorded BLAKE3; exit code 3 if some objects have none
    #[arg(long)]
    pub(crate) strong: bool,
    /// A vault (folder or URL), or the name or path of a database in the configuration
    #[arg(value_name = "VAULT|NAME|PATH")]
    pub(crate) source: String,
    #[command(flatten)]
    pub(crate) past: PastArguments,
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
}

/// Reads the level of a proof.
fn level(text: &str) -> Result<Level, String> {
    Level::parse(text).ok_or_else(|| "a level is bytes, structure, engine or content".to_owned())
}

/// `seawall copy`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seawall copy ./vault s3://bucket/app\n  \
    seawall copy s3://bucket/app ./vault --since '7 days ago'\n  \
    seawall copy ./vault s3://bucket/app --recipient age1…\n\n\
    A second run copies only what is missing. Nothing is written over or deleted.")]
pub(crate) struct CopyArguments {
    /// The vault to copy (folder or URL)
    #[arg(value_name = "FROM")]
    pub(crate) from: String,
    /// The place of the copy (folder or URL): empty, or with an earlier copy of the same vault
    #[arg(value_name = "TO")]
    pub(crate) to: String,
    /// Of one SQLite database: only what a restore of this point needs
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    pub(crate) at: Option<String>,
    /// Of one SQLite database: only what a restore of this point needs, and everything newer
    #[arg(long, value_name = "WHEN", conflicts_with = "at", allow_hyphen_values = true)]
    pub(crate) since: Option<String>,
    /// Only show how much would be copied
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) encryption: EncryptionArguments,
    /// Don't encrypt the copy of an encrypted vault
    #[arg(long, conflicts_with = "recipient", help_heading = "Encryption")]
    pub(crate) decrypt: bool,
}

/// `seawall maintain`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seawall maintain --config seawall.yml app --dry-run\n  \
    seawall maintain ./vault --keep 7d\n  \
    seawall maintain s3://bucket/shop --acknowledge 7\n\n\
    A running `seawall replicate` does this by itself.")]
pub(crate) struct MaintainArguments {
    /// The name or path of a database in the configuration, or a vault (folder or URL)
    #[arg(value_name = "NAME|PATH|VAULT")]
    pub(crate) source: String,
    /// Only show what would be merged and deleted, and why
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// First make a complete copy of the newest point, if there is none
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) base: bool,
    /// Keep the points of this time back, such as 7d, or forever [default: as the configuration says]
    #[arg(long, value_name = "TIME")]
    pub(crate) keep: Option<String>,
    /// Keep at least this many complete copies
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) minimum: Option<u32>,
    /// With a server's backups: record that you know that this link of the chain is missing, and do nothing else; may be
    /// given more than once
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["dry_run", "base", "keep", "minimum"], help_heading = "Servers")]
    pub(crate) acknowledge: Vec<u64>,
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
}

/// `seawall pin`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seawall pin ./vault --at '10 minutes ago'\n  \
    seawall pin --config seawall.yml app\n  seawall pin ./vault --at 00000000000000af --remove")]
pub(crate) struct PinArguments {
    /// A vault (folder or URL), or the name or path of a database in the configuration
    #[arg(value_name = "VAULT|NAME|PATH")]
    pub(crate) source: String,
    /// The moment to keep: RFC 3339, "10 minutes ago", a transaction id of 16 hex digits, the name of a set, or latest
    #[arg(long, value_name = "WHEN", default_value = "latest", allow_hyphen_values = true)]
    pub(crate) at: String,
    /// Remove the pin; retention deletes the point when it is due
    #[arg(long)]
    pub(crate) remove: bool,
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
}
