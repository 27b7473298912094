//! `seawall lmdb …` as it is typed.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `seawall lmdb`
#[derive(Debug, Subcommand)]
pub(crate) enum LmdbCommand {
    /// Merge the snapshots of other instances, and send one when something changed here
    #[command(after_help = "Examples:\n  seawall lmdb sync --config lightningstream.yaml --instance ns1\n  \
        seawall lmdb sync --only-once --only-db shard")]
    Sync(SyncArguments),
    /// Merge the snapshots of other instances, and send nothing
    #[command(after_help = "Example:\n  seawall lmdb receive --config lightningstream.yaml --instance ns2")]
    Receive(SyncArguments),
    /// List, fetch, put and remove snapshots
    #[command(subcommand)]
    Snapshots(SnapshotsCommand),
    /// Show the content of environments
    #[command(after_help = "Example:\n  seawall lmdb dump --config lightningstream.yaml --only-db shard --hide")]
    Dump(DumpArguments),
    /// Show map, readers and DBIs of environments
    #[command(after_help = "Example:\n  seawall lmdb stats --config lightningstream.yaml")]
    Stats(EnvironmentArguments),
    /// Remove all shadows, and with them all recorded deletions and times
    #[command(
        after_help = "Deleted keys come back from instances that still have them. All data here then counts as older than \
        theirs.\n\nExample:\n  seawall lmdb drop-shadow --config lightningstream.yaml --only-db shard"
    )]
    DropShadow(EnvironmentArguments),
    /// Copy times from one DBI to another, by key, where they are newer
    #[command(
        after_help = "For an application whose new version keeps its data in new DBIs. Otherwise all entries there would \
        count as new.\n\nExample:\n  seawall lmdb migrate-timestamps -d main --src-dbi _sync_shadow_domains_v4 \
        --dst-dbi domains_v5"
    )]
    MigrateTimestamps(MigrateArguments),
    /// Print the completions of a shell for the name `lightningstream`
    #[command(hide = true, after_help = "Example:\n  lightningstream completion bash")]
    Completion {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print all commands and options as Markdown
    #[command(hide = true, after_help = "Example:\n  lightningstream docs")]
    Docs,
}

/// `seawall lmdb sync`, `seawall lmdb receive`
#[derive(Debug, Clone, Args)]
pub(crate) struct SyncArguments {
    /// A lightningstream.yaml
    #[arg(long, short, value_name = "FILE", default_value = "lightningstream.yaml")]
    pub(crate) config: PathBuf,
    /// The name of this instance in the vault [default: the configuration's, else the host's]
    #[arg(long, short, value_name = "NAME")]
    pub(crate) instance: Option<String>,
    /// End when all snapshots in the vault are merged and the changes here are sent
    #[arg(long)]
    pub(crate) only_once: bool,
    /// Only this environment of the configuration; may be given several times
    #[arg(long, value_name = "NAME")]
    pub(crate) only_db: Vec<String>,
    /// Begin once the storage has an object of this name
    #[arg(long, value_name = "NAME")]
    pub(crate) wait_for_marker_file: Option<String>,
    /// Log the configuration as Seawall understands it, without secrets
    #[arg(long)]
    pub(crate) log_config: bool,
}

/// `seawall lmdb snapshots`
#[derive(Debug, Subcommand)]
pub(crate) enum SnapshotsCommand {
    /// List objects
    #[command(after_help = "Example:\n  seawall lmdb snapshots list --long --time --prefix shard__")]
    List {
        #[command(flatten)]
        config: ConfigArgument,
        /// With their bytes
        #[arg(long, short)]
        long: bool,
        /// Only names that begin with this text
        #[arg(long, short, value_name = "TEXT", default_value = "")]
        prefix: String,
        /// Order by the times in the names; names without a time come first
        #[arg(long, short)]
        time: bool,
    },
    /// Show the content of an object
    #[command(
        after_help = "Examples:\n  seawall lmdb snapshots dump shard__ns1__20260801-100000-000000000__GX.pb.gz\n  \
        seawall lmdb snapshots dump --local ./shard__ns1__20260801-100000-000000000__GX.pb.gz --dbi records"
    )]
    Dump {
        #[command(flatten)]
        config: ConfigArgument,
        /// The object
        name: PathBuf,
        /// Only this DBI
        #[arg(long, short, value_name = "DBI")]
        dbi: Option<String>,
        /// The name is one of a local file
        #[arg(long, short)]
        local: bool,
        /// The form: debug or text, which are the same
        #[arg(long, short, value_name = "FORMAT", value_parser = ["debug", "text"], hide = true)]
        format: Option<String>,
    },
    /// Fetch an object
    #[command(after_help = "Example:\n  seawall lmdb snapshots get shard__ns1__20260801-100000-000000000__GX.pb.gz")]
    Get {
        #[command(flatten)]
        config: ConfigArgument,
        /// The object
        name: String,
        /// The file to make [default: one of the same name in the current folder]
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Upload a file
    #[command(
        after_help = "Example:\n  seawall lmdb snapshots put back/shard__ns1__20260801-100000-000000000__GX.pb.gz"
    )]
    Put {
        #[command(flatten)]
        config: ConfigArgument,
        /// The file: a whole snapshot
        file: PathBuf,
        /// The object's name [default: the file's]
        #[arg(long, short, value_name = "NAME")]
        name: Option<String>,
        /// Upload the file whatever its name and content are
        #[arg(long)]
        force: bool,
    },
    /// Remove an object
    #[command(after_help = "Example:\n  seawall lmdb snapshots remove shard__ns1__20260801-100000-000000000__GX.pb.gz")]
    Remove {
        #[command(flatten)]
        config: ConfigArgument,
        /// The object
        name: String,
    },
}

/// Which configuration says where things are.
#[derive(Debug, Args)]
pub(crate) struct ConfigArgument {
    /// A lightningstream.yaml
    #[arg(long, short, value_name = "FILE", default_value = "lightningstream.yaml")]
    pub(crate) config: PathBuf,
}

/// Which environments are meant.
#[derive(Debug, Args)]
pub(crate) struct EnvironmentArguments {
    #[command(flatten)]
    pub(crate) config: ConfigArgument,
    /// Only this environment of the configuration; may be given several times
    #[arg(long, value_name = "NAME")]
    pub(crate) only_db: Vec<String>,
}

/// `seawall lmdb dump`
#[derive(Debug, Args)]
pub(crate) struct DumpArguments {
    #[command(flatten)]
    pub(crate) config: ConfigArgument,
    /// Only this environment of the configuration; may be given several times
    #[arg(long, short = 'n', alias = "name", value_name = "NAME")]
    pub(crate) only_db: Vec<String>,
    /// Leave out the DBIs that belong to the sync itself
    #[arg(long, short = 'H')]
    pub(crate) hide: bool,
}

/// `seawall lmdb migrate-timestamps`
#[derive(Debug, Args)]
pub(crate) struct MigrateArguments {
    #[command(flatten)]
    pub(crate) config: ConfigArgument,
    /// The environment of the configuration [default: the only one]
    #[arg(long, short, value_name = "NAME")]
    pub(crate) database: Option<String>,
    /// The DBI that has the times: values with a header, or with 8 bytes of time
    #[arg(long, value_name = "DBI")]
    pub(crate) src_dbi: String,
    /// The DBI that gets the times
    #[arg(long, value_name = "DBI")]
    pub(crate) dst_dbi: String,
    /// Also add a deletion for each key that is deleted in the first DBI and missing in the second
    #[arg(long)]
    pub(crate) add_delete_entries: bool,
    /// If the first DBI doesn't exist, do nothing and succeed
    #[arg(long)]
    pub(crate) ignore_src_dbi_not_present: bool,
}
