//! `seawall replicate` and `seawall backup` as they are typed.

use std::path::PathBuf;

use clap::Args;
use seawall_agent::Encryption;
use seawall_agent::config::WebConfig;
use seawall_core::Failure;
use seawall_vault::Recipients;

use super::{ConfigArguments, ServerArguments};
use crate::edge::Edge;

/// For whom a vault is encrypted.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct EncryptionArguments {
    /// Encrypt the vault for this key: age1…, ssh-ed25519 …, ssh-rsa … or a file of such keys; may be given more than once
    #[arg(long, value_name = "KEY|FILE", help_heading = "Encryption")]
    pub(crate) recipient: Vec<String>,
}

impl EncryptionArguments {
    /// What they ask for.
    pub(crate) fn read(&self, edge: &Edge) -> Result<Option<Encryption>, Failure> {
        if self.recipient.is_empty() {
            return Ok(None);
        }
        Ok(Some(Encryption::of(Recipients::read(&self.recipient, &edge.directory)?)))
    }
}

/// `seawall replicate`
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  \
    seawall replicate app.db ./vault\n  \
    seawall replicate app.db 's3://bucket/app?endpoint=https://minio:9000'\n  \
    seawall replicate --config seawall.yml --restore-if-missing --exec 'myserver --port 80'\n  \
    seawall replicate ./data s3://bucket/all --pattern '*.db' --recursive\n  \
    seawall replicate app.db ./vault --web\n  \
    seawall replicate --config seawall.yml --web=127.0.0.1:9000\n  \
    seawall replicate --config litestream.yml --once\n\n\
    On SIGTERM or SIGINT, replicate ships what is committed and ends. On a second signal it ends at once (exit code 130).\n    \
    On SIGHUP it reads its configuration again, as `seawall config reload` asks it to.")]
pub(crate) struct ReplicateArguments {
    /// The database to protect, or a folder of databases; without it, every database of the configuration
    #[arg(requires = "vault", value_name = "SOURCE")]
    pub(crate) source: Option<PathBuf>,
    /// The place to protect it in: a folder or a URL
    #[arg(value_name = "VAULT", conflicts_with = "no_expand_env")]
    pub(crate) vault: Option<String>,
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
    /// Ship everything committed so far, and end
    #[arg(long)]
    pub(crate) once: bool,
    /// Run this program under protection and end when it ends, with its exit code
    #[arg(long, value_name = "CMD", conflicts_with = "once")]
    pub(crate) exec: Option<String>,
    /// If a database's file is missing and the vault has the database, restore it before anything else
    #[arg(long)]
    pub(crate) restore_if_missing: bool,
    /// Take turns with other processes that protect the same databases: wait until the lease in the vault is free
    #[arg(long)]
    pub(crate) lease: bool,
    /// With a folder: protect only files with such names, as '*.db' [default: every SQLite database]
    #[arg(long, value_name = "PATTERN", requires = "source")]
    pub(crate) pattern: Option<String>,
    /// With a folder: also the folders inside
    #[arg(long, requires = "source")]
    pub(crate) recursive: bool,
    #[command(flatten)]
    pub(crate) encryption: EncryptionArguments,
    /// Make a control socket here, for list, info, register, sync and the other commands that ask a running process
    #[arg(long, value_name = "PATH", conflicts_with = "once")]
    pub(crate) socket: Option<PathBuf>,
    /// Show a page for browsers, on this address of this machine [default: 127.0.0.1:8400]
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, require_equals = true, default_missing_value = WebConfig::ADDRESS,
        hide_default_value = true, conflicts_with = "once")]
    pub(crate) web: Option<String>,
}

/// `seawall backup`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    seawall backup postgresql://app@db/shop s3://bucket/shop\n  \
    seawall backup postgresql://app@db/ s3://bucket/cluster\n  \
    seawall backup mysql://backup@db/shop s3://bucket/shop\n  \
    seawall backup postgresql://app@db/shop ./vault --memory 64MB --jobs 2\n  \
    seawall backup postgresql://app@db/shop ./vault --format custom\n  \
    seawall backup postgresql://app@db/shop ./sample --sample 1%\n  \
    seawall backup postgresql://seawall@db/ s3://bucket/main --physical\n  \
    seawall backup --config seawall.yml shop\n\n\
    PostgreSQL: the password comes from PGPASSWORD or ~/.pgpass, and the role needs pg_read_all_data.\n\
    MySQL and MariaDB: it comes from MYSQL_PWD, ~/.my.cnf or a login path; a backup names the rights that the user lacks.")]
pub(crate) struct BackupArguments {
    /// The database: postgresql://ROLE@HOST:PORT/DATABASE or mysql://USER@HOST:PORT/DATABASE; without DATABASE all databases
    /// of the server, with its roles or users.
    /// Or the name of a server's database in the configuration, with the settings there
    #[arg(value_name = "SOURCE|NAME")]
    pub(crate) source: String,
    /// The place to keep the backup in: a folder or a URL. A database of the configuration has its own
    #[arg(value_name = "VAULT")]
    pub(crate) vault: Option<String>,
    /// How to compress: zstd, zstd:1 to zstd:19, gzip, gzip:1 to gzip:12, lz4 or none [default: zstd]
    #[arg(long, value_name = "CODEC")]
    pub(crate) compression: Option<String>,
    /// The form of the backup: native, or plain: a script of SQL. PostgreSQL also has pg_dump's custom and directory (first
    /// written to TMPDIR) [default: native]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<String>,
    /// Make a sample instead of a backup, for development and tests: this share of each table's rows, such as 1%, and
    /// every row that they refer to by foreign keys. It needs a vault of its own
    #[arg(long, value_name = "PERCENT")]
    pub(crate) sample: Option<String>,
    /// PostgreSQL: the form in which the server writes rows: text, or binary for types that mean the same in every server
    /// [default: text]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) copy: Option<String>,
    /// The most bytes a second that are written to the vault, such as 20MB
    #[arg(long, value_name = "SIZE")]
    pub(crate) upload_limit: Option<String>,
    /// With a whole server: leave this database out; may be given more than once
    #[arg(long, value_name = "DATABASE")]
    pub(crate) exclude_database: Vec<String>,
    /// With a whole PostgreSQL server: include the passwords of roles, as the server keeps them
    #[arg(long)]
    pub(crate) role_passwords: bool,
    /// PostgreSQL: copy the files of the whole cluster instead, as the base of its log (see `seawall wal`). A later base sends
    /// only blocks that changed
    #[arg(long, requires = "vault", conflicts_with_all = ["compression", "format", "sample", "copy", "exclude_database", "role_passwords"])]
    pub(crate) physical: bool,
    /// With --physical: the server's timeline, although the vault has a later one: a branch that isn't followed, for instance of a
    /// test
    #[arg(long, value_name = "N", requires = "physical")]
    pub(crate) timeline: Option<std::num::NonZeroU32>,
    /// With --physical: send everything, and refer to nothing of earlier bases, for instance because a pack of one is damaged
    #[arg(long, requires = "physical")]
    pub(crate) full: bool,
    #[command(flatten)]
    pub(crate) encryption: EncryptionArguments,
    #[command(flatten)]
    pub(crate) server: ServerArguments,
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
}
