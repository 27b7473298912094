//! The command line as it is typed.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use seawall_agent::{Level, LogFormat};
use seawall_core::IntegrityCheck;

use crate::commands::agent::seconds;
use crate::commands::lmdb::LmdbCommand;
use crate::commands::ltx::LtxCommand;

/// Keeps databases recoverable from storage that you control, continuously.
#[derive(Debug, Parser)]
#[command(
    name = "seawall",
    version,
    propagate_version = true,
    after_help = "Examples:\n  \
        seawall demo                               see it work, in seconds\n  \
        seawall replicate app.db ./vault           protect a database until stopped\n  \
        seawall restore ./vault -o back.db         get it back\n\n\
        Exit codes: 0 done, 1 failed, 2 wrong usage, 3 partly done, 4 nothing to do or not found, 130 interrupted"
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Debug, Clone, Args)]
pub(crate) struct Common {
    /// Print one JSON document instead of text (docs/json.md)
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) json: bool,
    /// The level of the log on standard error: trace, debug, info, warn or error
    #[arg(
        long,
        global = true,
        help_heading = "Global options",
        value_name = "LEVEL",
        env = "SEAWALL_LOG",
        hide_env_values = true
    )]
    pub(crate) log_level: Option<Level>,
    /// The form of the log: text, json or pretty
    #[arg(long, global = true, help_heading = "Global options", value_name = "TYPE")]
    pub(crate) log_type: Option<LogFormat>,
    /// Log lines have no time. Only Lightning Stream's command line asks for it.
    #[arg(skip)]
    pub(crate) log_timeless: bool,
    /// The program was called by Lightning Stream's name: it prints what that prints.
    #[arg(skip)]
    pub(crate) as_original: bool,
}

/// The configuration to use.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ConfigArguments {
    /// The configuration: a seawall.yml or a litestream.yml [default: ./seawall.yml, else /etc/seawall.yml]
    #[arg(long, value_name = "FILE", env = "SEAWALL_CONFIG", hide_env_values = true, help_heading = "Configuration")]
    pub(crate) config: Option<PathBuf>,
    /// Don't expand environment variables in the configuration: leave each $ as it is
    #[arg(long, help_heading = "Configuration")]
    pub(crate) no_expand_env: bool,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// See it work: protect a database, kill the process, restore, compare
    Demo(DemoArguments),
    /// Protect databases continuously, until stopped
    Replicate(ReplicateArguments),
    /// Make a complete copy of a server's database now
    Backup(BackupArguments),
    /// Get a database back
    Restore(RestoreArguments),
    /// Show what can be restored: ranges, points and holes
    Timeline(SourceArguments),
    /// Read everything back and check every checksum and the chain
    Verify(VerifyArguments),
    /// Merge and delete what is due in a vault, now
    Maintain(MaintainArguments),
    /// Keep a point for good, or end that
    Pin(PinArguments),
    /// Show how far each database is protected
    Status(StatusArguments),
    /// List the databases of a running process
    List(ListArguments),
    /// Show which process is running
    Info(InfoArguments),
    /// Ask a running process to ship what is committed now
    Sync(SyncArguments),
    /// Ask a running process to protect another database, from now on
    Register(RegisterArguments),
    /// Ask a running process to let a database go
    Unregister(UnregisterArguments),
    /// Ask a running process to start a database that was stopped
    Start(StartArguments),
    /// Ask a running process to stop a database, after shipping what is committed
    Stop(StopArguments),
    /// Check a configuration, or have a running process read it again
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Keep LMDB environments in step between servers
    #[command(subcommand)]
    Lmdb(LmdbCommand),
    /// Work with LTX files, and with the checksums of databases
    #[command(subcommand)]
    Ltx(LtxCommand),
}

/// `seawall demo`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  seawall demo\n\n\
    The demo writes only below ./seawall-demo and ./vault, into a new folder each time.")]
pub(crate) struct DemoArguments {}

/// `seawall replicate`
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  \
    seawall replicate app.db ./vault\n  \
    seawall replicate app.db 's3://bucket/app?endpoint=https://minio:9000'\n  \
    seawall replicate --config seawall.yml --restore-if-missing --exec 'myserver --port 80'\n  \
    seawall replicate ./data s3://bucket/all --pattern '*.db' --recursive\n  \
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
    /// Make a control socket here, for list, info, register, sync and the other commands that ask a running process
    #[arg(long, value_name = "PATH", conflicts_with = "once")]
    pub(crate) socket: Option<PathBuf>,
}

/// How much of the machine a command about a server may use.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ServerArguments {
    /// Connections that move data, and cores that compress [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64), help_heading = "Servers")]
    pub(crate) jobs: Option<u16>,
    /// The memory for buffers, which is nearly all memory, such as 64MB [default: 128MiB]
    #[arg(long, value_name = "SIZE", help_heading = "Servers")]
    pub(crate) memory: Option<String>,
    /// The folder of pg_dump and pg_restore [default: the packages' folders, then PATH]
    #[arg(long, value_name = "FOLDER", help_heading = "Servers")]
    pub(crate) pg_bindir: Option<PathBuf>,
}

/// `seawall backup`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    seawall backup postgresql://app@db/shop s3://bucket/shop\n  \
    seawall backup postgresql://app@db/ s3://bucket/cluster\n  \
    seawall backup postgresql://app@db/shop ./vault --memory 64MB --jobs 2\n  \
    seawall backup postgresql://app@db/shop ./vault --format custom\n  \
    seawall backup postgresql://app@db/shop ./sample --sample 1%\n  \
    seawall backup --config seawall.yml shop\n\n\
    The password comes from PGPASSWORD or ~/.pgpass. The role needs pg_read_all_data.")]
pub(crate) struct BackupArguments {
    /// The database: postgresql://ROLE@HOST:PORT/DATABASE; without DATABASE all databases of the server, with its roles.
    /// Or the name of a server's database in the configuration, with the settings there
    #[arg(value_name = "SOURCE|NAME")]
    pub(crate) source: String,
    /// The place to keep the backup in: a folder or a URL. A database of the configuration has its own
    #[arg(value_name = "VAULT")]
    pub(crate) vault: Option<String>,
    /// How to compress: zstd, zstd:1 to zstd:19, gzip, gzip:1 to gzip:12, lz4 or none [default: zstd]
    #[arg(long, value_name = "CODEC")]
    pub(crate) compression: Option<String>,
    /// The form of the backup: native, or one of pg_dump's own: custom, directory (first written to TMPDIR) or plain
    /// [default: native]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<String>,
    /// Make no backup but a sample, for development and tests: this share of each table's rows, such as 1%, and every
    /// row that those refer to by foreign keys. It needs a vault of its own
    #[arg(long, value_name = "PERCENT")]
    pub(crate) sample: Option<String>,
    /// The form in which the server writes rows: text, or binary for types that mean the same in every server
    /// [default: text]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) copy: Option<String>,
    /// The most bytes a second that are written to the vault, such as 20MB
    #[arg(long, value_name = "SIZE")]
    pub(crate) upload_limit: Option<String>,
    /// With a whole server: leave this database out; may be given more than once
    #[arg(long, value_name = "DATABASE")]
    pub(crate) exclude_database: Vec<String>,
    /// With a whole server: include the passwords of roles, as the server keeps them
    #[arg(long)]
    pub(crate) role_passwords: bool,
    #[command(flatten)]
    pub(crate) server: ServerArguments,
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
}

/// `seawall restore`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    seawall restore ./vault -o back.db\n  \
    seawall restore s3://bucket/app -o back.db --at '10 minutes ago'\n  \
    seawall restore --config seawall.yml -o back.db /data/app.db\n  \
    seawall restore ./vault -o back.db --dry-run\n  \
    seawall restore s3://bucket/app -o standby.db --follow\n  \
    seawall restore s3://bucket/tenants --all -o ./tenants\n  \
    seawall restore s3://bucket/shop --to postgresql://app@new/shop2\n  \
    seawall restore s3://bucket/shop -o shop.dump\n  \
    seawall restore s3://bucket/cluster --to postgresql://postgres@new/")]
pub(crate) struct RestoreArguments {
    /// A vault (folder or URL), or the name or path of a database in the configuration
    #[arg(value_name = "VAULT|NAME|PATH", required_unless_present = "all")]
    pub(crate) source: Option<String>,
    /// Restore every database below the vault into a folder; without a vault, every database of the configuration
    #[arg(long, conflicts_with = "follow")]
    pub(crate) all: bool,
    /// The file to make; it must not exist [default: the database's own path in the configuration]. For a server's
    /// backup made with --format: the file or directory that pg_dump wrote
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// The database to make on a server: postgresql://ROLE@HOST:PORT/DATABASE. An existing database must be empty.
    /// Without DATABASE, every database of a server's backup, with its roles
    #[arg(long, value_name = "URL", conflicts_with_all = ["all", "follow", "output", "force", "if_missing", "integrity"])]
    pub(crate) to: Option<String>,
    /// With --to: the database of a whole server's backup to restore [default: the one with the new one's name]
    #[arg(long, requires = "to", value_name = "DATABASE", help_heading = "Servers")]
    pub(crate) database: Option<String>,
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
    /// With --to: try objects that need a superuser, because a provider may allow them. Refused ones are left out and
    /// named
    #[arg(long, requires = "to", conflicts_with = "output", help_heading = "Servers")]
    pub(crate) without_superuser: bool,
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
    #[arg(long, conflicts_with_all = ["all", "to", "if_missing", "follow"])]
    pub(crate) as_new: bool,
    /// If the file exists, do nothing and succeed
    #[arg(long, conflicts_with_all = ["force", "dry_run"])]
    pub(crate) if_missing: bool,
    /// Keep the file at the newest state until stopped, while others read it
    #[arg(long, conflicts_with_all = ["at", "dry_run", "if_missing"])]
    pub(crate) follow: bool,
    /// How often to look for new objects where no events come
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = span, requires = "follow")]
    pub(crate) follow_interval: Duration,
    /// Also let the database engine check the restored file
    #[arg(long, value_name = "CHECK", value_enum, default_value_t = Integrity::None)]
    pub(crate) integrity: Integrity,
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
}

/// A time with its unit.
fn span(text: &str) -> Result<Duration, String> {
    let span = seawall_core::parse_duration(text).filter(|span| !span.is_zero());
    span.ok_or_else(|| "give a time with its unit, as 500ms or 1s".to_owned())
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

/// `seawall timeline`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seawall timeline ./vault\n  seawall timeline --config seawall.yml app")]
pub(crate) struct SourceArguments {
    /// A vault (folder or URL), or the name or path of a database in the configuration
    #[arg(value_name = "VAULT|NAME|PATH")]
    pub(crate) source: String,
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
}

/// `seawall verify`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seawall verify ./vault\n  seawall verify --strong ./vault\n  \
    seawall verify s3://bucket/app --json\n  seawall verify s3://bucket/shop --restore\n  \
    seawall verify s3://bucket/shop --restore --to postgresql://postgres@test/")]
pub(crate) struct VerifyArguments {
    /// With a server's backups: restore one into a throw-away database, and compare all of it with the set
    #[arg(long, conflicts_with = "strong", help_heading = "Servers")]
    pub(crate) restore: bool,
    /// With --restore: the server to restore on [default: one that is started here, and removed]
    #[arg(long, requires = "restore", value_name = "URL", help_heading = "Servers")]
    pub(crate) to: Option<String>,
    /// With --restore: the set: RFC 3339, "10 minutes ago", the name of a set, or latest
    #[arg(
        long,
        requires = "restore",
        value_name = "WHEN",
        default_value = "latest",
        allow_hyphen_values = true,
        help_heading = "Servers"
    )]
    pub(crate) at: String,
    /// With --restore, where a server is started for it: how long the proof of a database may take, such as 2h; an hour, and a
    /// second for each MiB of the database, unless given
    #[arg(
        long,
        requires = "restore",
        conflicts_with = "to",
        value_name = "SPAN",
        value_parser = span,
        help_heading = "Servers"
    )]
    pub(crate) proof_timeout: Option<Duration>,
    #[command(flatten)]
    pub(crate) server: ServerArguments,
    /// Also compare each object's bytes with its recorded BLAKE3; exit code 3 if some objects have none
    #[arg(long)]
    pub(crate) strong: bool,
    /// A vault (folder or URL), or the name or path of a database in the configuration
    #[arg(value_name = "VAULT|NAME|PATH")]
    pub(crate) source: String,
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
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

/// `seawall status`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seawall status\n  seawall status /data/app.db\n  \
    seawall status --config seawall.yml --json\n\n\
    The status comes from the running process if it has a control socket. Otherwise it comes from the state records on\n\
    this machine: those of the configuration's databases if there is one, else those found below the current folder.")]
pub(crate) struct StatusArguments {
    /// Databases, or their state folders
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) socket: SocketArguments,
}

/// Which running process to ask.
#[derive(Debug, Clone, Args)]
pub(crate) struct SocketArguments {
    /// Its control socket [default: the configuration's, else /var/run/seawall.sock]
    #[arg(long, value_name = "PATH", env = "SEAWALL_SOCKET", hide_env_values = true, help_heading = "Running process")]
    pub(crate) socket: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
}

/// `seawall list`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seawall list\n  seawall list --socket /run/seawall.sock --json")]
pub(crate) struct ListArguments {
    #[command(flatten)]
    pub(crate) socket: SocketArguments,
}

/// `seawall info`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  seawall info --socket /run/seawall.sock")]
pub(crate) struct InfoArguments {
    #[command(flatten)]
    pub(crate) socket: SocketArguments,
}

/// A database of a running process.
#[derive(Debug, Clone, Args)]
pub(crate) struct ChangeArguments {
    /// The database: its name or its file
    #[arg(value_name = "NAME|PATH")]
    pub(crate) database: String,
    /// How many seconds the request may take
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0)]
    timeout: f64,
    #[command(flatten)]
    pub(crate) socket: SocketArguments,
}

impl ChangeArguments {
    /// How long it may take.
    pub(crate) fn timeout(&self) -> Duration {
        seconds(self.timeout)
    }
}

/// `seawall sync`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seawall sync /data/app.db --wait\n  seawall sync app --wait --timeout 5")]
pub(crate) struct SyncArguments {
    /// Return only when everything that was committed is in the vault
    #[arg(long)]
    pub(crate) wait: bool,
    #[command(flatten)]
    pub(crate) change: ChangeArguments,
}

/// `seawall start`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  seawall start /data/app.db")]
pub(crate) struct StartArguments {
    #[command(flatten)]
    pub(crate) change: ChangeArguments,
}

/// `seawall stop`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  seawall stop /data/app.db --timeout 60")]
pub(crate) struct StopArguments {
    #[command(flatten)]
    pub(crate) change: ChangeArguments,
}

/// `seawall unregister`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  seawall unregister /data/new.db\n\n\
    A database that the configuration names comes back when the process is started again, or reloads it.")]
pub(crate) struct UnregisterArguments {
    #[command(flatten)]
    pub(crate) change: ChangeArguments,
}

/// `seawall register`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seawall register /data/new.db s3://bucket/new\n  \
    seawall register /data/new.db --name orders\n\n\
    The database gets the defaults of the running process's configuration. The registration survives a restart.")]
pub(crate) struct RegisterArguments {
    /// The database file
    #[arg(value_name = "PATH")]
    pub(crate) database: PathBuf,
    /// The place to protect it in: a folder or a URL [default: below the configuration's top-level vault]
    #[arg(value_name = "VAULT")]
    pub(crate) vault: Option<String>,
    /// The database's name
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// How many seconds the request may take
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0)]
    timeout: f64,
    #[command(flatten)]
    pub(crate) socket: SocketArguments,
}

impl RegisterArguments {
    /// How long it may take.
    pub(crate) fn timeout(&self) -> Duration {
        seconds(self.timeout)
    }
}

/// `seawall config`
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show how Seawall understands a configuration, or what is wrong with it
    Check(CheckArguments),
    /// Ask a running process to read its configuration again
    Reload(ReloadArguments),
}

/// `seawall config check`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seawall config check\n  seawall config check --config litestream.yml --json")]
pub(crate) struct CheckArguments {
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
}

/// `seawall config reload`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seawall config reload\n  seawall config reload --config /etc/seawall.yml\n  \
    seawall config reload --socket /run/seawall.sock --json\n\n\
    The process reads the file that it was started with. Databases come, go and change; the others are not touched. If the\n\
    file has an error, nothing changes. SIGHUP asks for the same.\n\n\
    Exit codes: 0 all of it holds now, 2 the file has an error, 3 a part failed or needs a restart")]
pub(crate) struct ReloadArguments {
    /// How many seconds to wait for the answer; the process goes on with it
    #[arg(long, value_name = "SECONDS", default_value_t = 120.0)]
    timeout: f64,
    #[command(flatten)]
    pub(crate) socket: SocketArguments,
}

impl ReloadArguments {
    /// How long it may take.
    pub(crate) fn timeout(&self) -> Duration {
        seconds(self.timeout)
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_command_has_an_example() {
        fn leaves(command: clap::Command, found: &mut Vec<clap::Command>) {
            if command.has_subcommands() {
                command.get_subcommands().cloned().for_each(|sub| leaves(sub, found));
            } else {
                found.push(command);
            }
        }
        let mut commands = Vec::new();
        leaves(Arguments::command(), &mut commands);
        assert_eq!(commands.len(), 42);
        for mut command in commands {
            let help = command.render_long_help().to_string();
            assert!(help.contains("Example"), "{} has no example", command.get_name());
        }
    }

    #[test]
    fn what_is_taken_and_what_is_not() {
        for (line, taken) in [
            ("seawall demo", true),
            ("seawall replicate app.db ./vault", true),
            ("seawall replicate --config seawall.yml", true),
            ("seawall replicate ./data ./vault --pattern *.db --recursive --socket s.sock", true),
            ("seawall replicate --recursive", false),
            ("seawall replicate app.db v --lease --exec x --restore-if-missing", true),
            ("seawall replicate app.db v --once --socket s", false),
            ("seawall replicate", true),
            ("seawall replicate app.db", false),
            ("seawall replicate app.db v --once --exec x", false),
            ("seawall replicate app.db v --exec x --restore-if-missing", true),
            ("seawall restore ./vault -o back.db", true),
            ("seawall restore ./vault -o back.db --at -2h --json", true),
            ("seawall restore -o back.db", false),
            ("seawall restore --all", true),
            ("seawall restore v --all -o out --dry-run", true),
            ("seawall restore v --all -o out --follow", false),
            ("seawall restore v -o b --force --if-missing", false),
            ("seawall restore v -o b --integrity some", false),
            ("seawall restore v -o b --follow --follow-interval 500ms --force", true),
            ("seawall restore v -o b --follow --at -2h", false),
            ("seawall restore v -o b --follow --dry-run", false),
            ("seawall restore v -o b --follow --follow-interval 5", false),
            ("seawall restore v --to postgresql://h/d --clean --jobs 2", true),
            ("seawall restore v --to postgresql://h/d -o b", false),
            ("seawall restore v --to postgresql://h/d --table a --table b.c --data-only", true),
            ("seawall restore v --to postgresql://h/d --table a --clean", false),
            ("seawall restore v --to postgresql://h/d --data-only --clean", false),
            ("seawall restore v -o b --table a", false),
            ("seawall restore v -o b --clean", false),
            ("seawall backup postgresql://h/d ./vault --memory 64MB", true),
            ("seawall backup shop", true),
            ("seawall backup", false),
            ("seawall backup postgresql://h/d v --jobs 0", false),
            ("seawall timeline s3://bucket/app --json", true),
            ("seawall verify ./vault", true),
            ("seawall maintain app --dry-run", true),
            ("seawall maintain app --base", true),
            ("seawall maintain app --base --dry-run", false),
            ("seawall maintain ./vault --keep 7d --minimum 2", true),
            ("seawall maintain ./vault --minimum 0", false),
            ("seawall maintain ./vault --acknowledge 2 --acknowledge 3", true),
            ("seawall maintain ./vault --acknowledge 2 --keep 7d", false),
            ("seawall pin ./vault --at -2h", true),
            ("seawall pin ./vault --remove --at 00000000000000af", true),
            ("seawall pin", false),
            ("seawall status", true),
            ("seawall status a.db b.db --config f.yml", true),
            ("seawall status --socket s.sock", true),
            ("seawall list --socket s.sock --json", true),
            ("seawall info extra", false),
            ("seawall sync app --wait --timeout 1.5", true),
            ("seawall sync --wait", false),
            ("seawall register a.db", true),
            ("seawall register a.db ./vault --name a --timeout 9", true),
            ("seawall register", false),
            ("seawall unregister a.db", true),
            ("seawall start app --timeout soon", false),
            ("seawall stop app", true),
            ("seawall lmdb sync --config f.yaml -i ns1 --only-once --only-db a --only-db b", true),
            ("seawall lmdb receive", true),
            ("seawall lmdb snapshots get", false),
            ("seawall lmdb", false),
            ("seawall config check --config f.yml --no-expand-env", true),
            ("seawall config", false),
            ("seawall --json status", true),
            ("seawall status --log-level loud", false),
            ("seawall", false),
        ] {
            let parsed = Arguments::try_parse_from(line.split(' '));
            assert_eq!(parsed.is_ok(), taken, "{line}: {:?}", parsed.err().map(|e| e.to_string()));
        }
    }
}
