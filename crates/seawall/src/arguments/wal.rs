//! `seawall wal` as it is typed: the write-ahead log of a PostgreSQL cluster.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{ConfigArguments, EncryptionArguments};

/// The commands about a cluster's log.
#[derive(Debug, Subcommand)]
pub(crate) enum WalCommand {
    /// Store a file of the log: PostgreSQL's archive_command
    Push(WalPushArguments),
    /// Get a file of the log back: PostgreSQL's restore_command
    Fetch(WalFetchArguments),
    /// Receive the log of a server as it is written, until stopped
    Receive(WalReceiveArguments),
    /// Show which parts of the log a vault has, and what is missing
    List(WalListArguments),
}

/// `seawall wal list`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  seawall wal list s3://bucket/main\n\n\
    Exit codes: 0 the log has no gap, 1 it has one, 4 the vault holds no log")]
pub(crate) struct WalListArguments {
    /// The cluster's vault (folder or URL), or the name of a database in the configuration
    #[arg(value_name = "VAULT|NAME")]
    pub(crate) vault: String,
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
}

/// `seawall wal receive`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  seawall wal receive postgresql://replicator@db/ s3://bucket/main\n\n\
    The role needs REPLICATION, and pg_hba.conf a line for the database `replication`. The password comes from PGPASSWORD or\n\
    ~/.pgpass. The slot is made if there is none, and keeps the server's log until the vault has it: set\n\
    max_slot_wal_keep_size on the server, so that its disk can't fill. On SIGTERM or SIGINT, what came is stored first.")]
pub(crate) struct WalReceiveArguments {
    /// The server: postgresql://ROLE@HOST:PORT/
    #[arg(value_name = "URL")]
    pub(crate) server: String,
    /// The cluster's vault: a folder or a URL
    #[arg(value_name = "VAULT")]
    pub(crate) vault: String,
    /// The name of the replication slot, for this vault alone
    #[arg(long, value_name = "NAME", default_value = "seawall")]
    pub(crate) slot: String,
    /// The server's timeline, although the vault has a later one: a branch that isn't followed, for instance of a test
    #[arg(long, value_name = "N")]
    pub(crate) timeline: Option<std::num::NonZeroU32>,
    #[command(flatten)]
    pub(crate) encryption: EncryptionArguments,
}

/// `seawall wal push`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  archive_command = 'seawall wal push %p --vault s3://bucket/main'\n  \
    archive_command = 'seawall wal push %p --vault main --config /etc/seawall.yml'\n\n\
    It succeeds only once the store has confirmed the file, and again if the same file comes again. Another file of the same\n\
    name, and a file of another cluster, is refused, and nothing is written over.")]
pub(crate) struct WalPushArguments {
    /// The file: a segment, a .partial, a .history or a .backup. PostgreSQL puts it in place of %p
    #[arg(value_name = "PATH")]
    pub(crate) path: PathBuf,
    /// The cluster's vault (folder or URL), or the name of a database in the configuration
    #[arg(long, value_name = "VAULT|NAME")]
    pub(crate) vault: String,
    #[command(flatten)]
    pub(crate) encryption: EncryptionArguments,
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
}

/// `seawall wal fetch`
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  restore_command = 'seawall wal fetch %f %p --vault s3://bucket/main'\n  \
    restore_command = 'seawall wal fetch %f %p --vault s3://bucket/main --timeline 2 --identity /etc/owner.key'\n\n\
    Exit codes: 0 the file is there, complete and durable; 1 the log certainly has no such file and nothing after it;\n\
    126 anything else, also wrong usage: PostgreSQL then stops and doesn't open as if the log had ended; 143 ended by a signal.")]
pub(crate) struct WalFetchArguments {
    /// The name of the file. PostgreSQL puts it in place of %f
    #[arg(value_name = "FILE")]
    pub(crate) file: String,
    /// Where it goes. PostgreSQL puts it in place of %p
    #[arg(value_name = "PATH")]
    pub(crate) path: PathBuf,
    /// The cluster's vault (folder or URL), or the name of a database in the configuration
    #[arg(long, value_name = "VAULT|NAME", required_unless_present = "handed_over")]
    pub(crate) vault: Option<String>,
    /// The timeline that is recovered, as recovery_target_timeline has it: a number, or latest
    #[arg(long, value_name = "TIMELINE", default_value = "latest")]
    pub(crate) timeline: String,
    /// The system identifier of the cluster that is recovered [default: that of global/pg_control in the current folder]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) system: Option<String>,
    /// The file in a restored data directory that says all of this; `seawall restore` writes it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["vault", "timeline", "system"])]
    pub(crate) handed_over: Option<PathBuf>,
    /// How many segments behind the requested one to get with it, for the calls that follow
    #[arg(long, value_name = "N", default_value = "7", value_parser = clap::value_parser!(u8).range(0..=32))]
    pub(crate) ahead: u8,
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
}
