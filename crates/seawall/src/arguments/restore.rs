//! `seawall restore` as it is typed.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use seawall_core::IntegrityCheck;

use super::{ConfigArguments, PastArguments, ServerArguments, span};

/// `seawall restore`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    seawall restore ./vault -o back.db\n  \
    seawall restore s3://bucket/app -o back.db --at '10 minutes ago'\n  \
    seawall restore --config seawall.yml -o back.db /data/app.db\n  \
    seawall restore ./vault -o back.db --dry-run\n  \
    seawall restore s3://bucket/app -o back.db --as-stored-at '2 days ago'\n  \
    seawall restore s3://bucket/app -o standby.db --follow\n  \
    seawall restore s3://bucket/tenants --all -o ./tenants\n  \
    seawall restore s3://bucket/shop --to postgresql://app@new/shop2\n  \
    seawall restore s3://bucket/shop -o shop.dump\n  \
    seawall restore pg_shop_20261128_030000.sql.zst --to postgresql://postgres@new/shop\n  \
    seawall restore s3://bucket/cluster --to postgresql://postgres@new/\n  \
    seawall restore s3://bucket/main -o /var/lib/postgresql/18/main --at '2026-11-22 10:31:07+01:00'\n  \
    seawall restore s3://bucket/main -o ./data --target lsn:16/B374D848 --tablespace /mnt/fast=/mnt/new --start")]
pub(crate) struct RestoreArguments {
    /// A vault (folder or URL), or the name or path of a database in the configuration. With --to also a backup that dbbackup,
    /// pg_dump, mysqldump or mariadb-dump left as a file, or an unpacked one of a whole server as a folder
    #[arg(value_name = "VAULT|NAME|PATH", required_unless_present = "all")]
    pub(crate) source: Option<String>,
    /// Restore every database below the vault into a folder; without a vault, every database of the configuration
    #[arg(long, conflicts_with = "follow")]
    pub(crate) all: bool,
    /// The file to make; it must not exist [default: the database's own path in the configuration]. For a server's
    /// backup made with --format: the script of SQL, or the file or directory that pg_dump wrote
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// The database to make on a server: postgresql://ROLE@HOST:PORT/DATABASE or mysql://USER@HOST:PORT/DATABASE. An
    /// existing database must be empty.
    /// Without DATABASE, every database of a server's backup, with its roles or users
    #[arg(long, value_name = "URL", conflicts_with_all = ["all", "follow", "output", "force", "if_missing", "integrity"])]
    pub(crate) to: Option<String>,
    /// With --to: the database of a whole server's backup to restore [default: the name of the new database]
    #[arg(long, requires = "to", value_name = "DATABASE", help_heading = "Servers")]
    pub(crate) database: Option<String>,
    /// With --to, out of a PostgreSQL cluster: the folder in which the cluster is recovered first [default: TMPDIR, or /var/tmp]
    #[arg(long, requires = "to", value_name = "DIR", help_heading = "PostgreSQL clusters")]
    pub(crate) scratch: Option<PathBuf>,
    /// With --to, out of a PostgreSQL cluster: recover it also where its server can't be kept from the files of this user; programs of the
    /// source's owner run in it
    #[arg(long, requires = "to", help_heading = "PostgreSQL clusters")]
    pub(crate) not_isolated: bool,
    /// With --to: replace the existing database when the restored one is whole
    #[arg(long, requires = "to", conflicts_with = "output", help_heading = "Servers")]
    pub(crate) clean: bool,
    /// With --to: restore only this table with its keys and indexes, as schema.table; may be given more than once
    #[arg(long, requires = "to", conflicts_with_all = ["output", "clean"], value_name = "TABLE", help_heading = "Servers")]
    pub(crate) table: Vec<String>,
    /// With --to: restore only rows, into existing empty tables
    #[arg(long, requires = "to", conflicts_with_all = ["output", "clean"], help_heading = "Servers")]
    pub(crate) data_only: bool,
    /// With --to: leave out owners and grants; all objects belong to the role that restores
    #[arg(long, requires = "to", conflicts_with = "output", help_heading = "Servers")]
    pub(crate) no_owner: bool,
    /// With --to, MySQL: what becomes of definers: keep, strip (as --no-owner, but with accounts), USER@HOST for all, or
    /// OLD_USER@HOST=NEW_USER@HOST; may be given more than once [default: keep]
    #[arg(long, requires = "to", conflicts_with = "output", value_name = "WHAT", help_heading = "Servers")]
    pub(crate) definer: Vec<String>,
    /// With --to: try objects that need a superuser, because a provider may allow them. Refused ones are left out and
    /// named
    #[arg(long, requires = "to", conflicts_with = "output", help_heading = "Servers")]
    pub(crate) without_superuser: bool,
    /// Of a PostgreSQL cluster's files and log: what to reach instead of --at: lsn:16/B374D848, xid:745 or name:RESTORE-POINT.
    /// With --at BASE that base is where it begins
    #[arg(long, value_name = "TARGET", conflicts_with_all = ["all", "to", "follow", "force"], help_heading = "PostgreSQL clusters")]
    pub(crate) target: Option<String>,
    /// Of a cluster: the timeline to follow [default: the newest; with a moment, the newest that there was then]
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["all", "to", "follow", "force"], help_heading = "PostgreSQL clusters")]
    pub(crate) timeline: Option<std::num::NonZeroU32>,
    /// Of a cluster: where the tablespace at OLD goes; may be given more than once [default: where it was]
    #[arg(long, value_name = "OLD=NEW", conflicts_with_all = ["all", "to", "follow", "force"], help_heading = "PostgreSQL clusters")]
    pub(crate) tablespace: Vec<String>,
    /// Of a cluster: restore over an old data directory of it, or into a mounted folder: what equals the base stays, everything
    /// else there goes, and no server starts there until all of it is restored
    #[arg(long, conflicts_with_all = ["all", "to", "follow", "force"], help_heading = "PostgreSQL clusters")]
    pub(crate) delta: bool,
    /// Of a cluster: run a server until it has recovered, stop it, and say what it reached
    #[arg(long, conflicts_with_all = ["all", "to", "follow", "force", "dry_run"], help_heading = "PostgreSQL clusters")]
    pub(crate) start: bool,
    /// Restore a cluster's files and log, where the vault also holds its logical backups
    #[arg(long, conflicts_with_all = ["all", "to", "follow", "force"], help_heading = "PostgreSQL clusters")]
    pub(crate) physical: bool,
    /// With --to, of an encrypted backup of dbbackup: the file with its key [default: the variable DBBACKUP_ENCRYPTION_KEY]
    #[arg(long, requires = "to", conflicts_with = "output", value_name = "FILE", help_heading = "Servers")]
    pub(crate) encryption_key_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) server: ServerArguments,
    /// The moment to restore: RFC 3339, "10 minutes ago", a transaction id of 16 hex digits, the name of a set, or latest
    #[arg(long, value_name = "WHEN", default_value = "latest", allow_hyphen_values = true)]
    pub(crate) at: String,
    /// Replace an existing file
    #[arg(long)]
    pub(crate) force: bool,
    /// Only show what would be read and which moment would be reached
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// With an LMDB environment: give the restored values new times, so that every instance of the fleet takes them
    #[arg(long, conflicts_with_all = ["all", "to", "if_missing", "follow", "as_stored_at"])]
    pub(crate) as_new: bool,
    /// If the file exists, do nothing and succeed
    #[arg(long, conflicts_with_all = ["force", "dry_run"])]
    pub(crate) if_missing: bool,
    /// If the vault has no backup yet, do nothing and succeed. A bucket or folder that doesn't exist is still an error
    #[arg(long, conflicts_with_all = ["all", "to", "at", "dry_run", "follow", "as_new", "as_stored_at"])]
    pub(crate) allow_empty: bool,
    /// Keep the file at the newest state until stopped, while others read it
    #[arg(long, conflicts_with_all = ["at", "dry_run", "if_missing", "as_stored_at"])]
    pub(crate) follow: bool,
    /// How often to look for new objects in a vault without events
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = span, requires = "follow")]
    pub(crate) follow_interval: Duration,
    /// Also let the database engine check the restored file
    #[arg(long, value_name = "CHECK", value_enum, default_value_t = Integrity::None)]
    pub(crate) integrity: Integrity,
    #[command(flatten)]
    pub(crate) past: PastArguments,
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
}

/// How thoroughly the database engine checks a restored file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Integrity {
    /// Checksums only
    None,
    /// The quick check
    Quick,
    /// The full check
    Full,
}

impl Integrity {
    /// As the engines have it.
    pub(crate) fn check(self) -> IntegrityCheck {
        match self {
            Self::None => IntegrityCheck::None,
            Self::Quick => IntegrityCheck::Quick,
            Self::Full => IntegrityCheck::Full,
        }
    }
}
