//! `seawall ltx …` as it is typed.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{ArgAction, Args, Subcommand};

/// `seawall ltx`
#[derive(Debug, Subcommand)]
pub(crate) enum LtxCommand {
    /// Apply files to a database: verified first, all of them or nothing
    Apply(ApplyArguments),
    /// Compute the checksum of a database, or of each of its pages
    Checksum(ChecksumArguments),
    /// Merge files into one with the same effect
    Compact(CompactArguments),
    /// Make the database that a snapshot holds
    Decode(DecodeArguments),
    /// Show which pages differ between two files or databases
    Diff(DiffArguments),
    /// Print header, pages and trailer of a file
    Dump(DumpArguments),
    /// Encode a database with its WAL as a snapshot
    EncodeDb(EncodeArguments),
    /// Show what a file holds, without its pages
    Info(FilesArguments),
    /// List what files hold, a line each
    List(ListArguments),
    /// Read files to their end and check everything
    Verify(VerifyArguments),
    /// Print the version
    Version(VersionArguments),
}

/// How a command works.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct WorkArguments {
    /// The number of threads [default: one for each processor, at most 16]
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<NonZeroUsize>,
}

/// `seawall ltx apply`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seawall ltx apply -db app.db 0000000000000001-0000000000000009.ltx\n  \
    seawall ltx apply --db app.db s3://bucket/app/0000/0000000000000002-0000000000000002.ltx\n\n\
    No other program may have the database open. After an error it is as it was before.")]
pub(crate) struct ApplyArguments {
    /// The database; if it doesn't exist and the files hold all of it, it is made
    #[arg(long, value_name = "PATH")]
    pub(crate) db: PathBuf,
    /// Don't read the whole database to check that the first file was made for it; the pages that the files touch are
    /// checked all the same
    #[arg(long)]
    pub(crate) touched_only: bool,
    /// The files, in their order: paths or URLs
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<String>,
    #[command(flatten)]
    pub(crate) work: WorkArguments,
}

/// `seawall ltx checksum`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seawall ltx checksum app.db\n  seawall ltx checksum --pages app.db\n\n\
    The checksum can't see two pages that were swapped: compare the page checksums where that matters.")]
pub(crate) struct ChecksumArguments {
    /// The database
    #[arg(value_name = "DB")]
    pub(crate) database: PathBuf,
    /// Show the checksum of each page of the file instead of one for all
    #[arg(long, conflicts_with = "wal")]
    pub(crate) pages: bool,
    /// Include the content of its WAL, as encode-db does [default: the database file alone]
    #[arg(long)]
    pub(crate) wal: bool,
    #[command(flatten)]
    pub(crate) work: WorkArguments,
}

/// `seawall ltx compact`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  seawall ltx compact -o all.ltx 1.ltx 2.ltx 3.ltx")]
pub(crate) struct CompactArguments {
    /// The file to make
    #[arg(short, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// The files, in their order: paths or URLs
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<String>,
    #[command(flatten)]
    pub(crate) work: WorkArguments,
}

/// `seawall ltx decode`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  seawall ltx decode -o app.db snapshot.ltx")]
pub(crate) struct DecodeArguments {
    /// The database to make
    #[arg(short, value_name = "DB")]
    pub(crate) output: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    pub(crate) force: bool,
    /// The snapshot: a path or a URL
    #[arg(value_name = "FILE")]
    pub(crate) file: String,
    #[command(flatten)]
    pub(crate) work: WorkArguments,
}

/// `seawall ltx diff`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seawall ltx diff before.db after.db\n  seawall ltx diff snapshot.ltx app.db\n\n\
    Exit code 0 when they are equal, 1 when they differ.")]
pub(crate) struct DiffArguments {
    /// A database, or an LTX file: a path or a URL
    #[arg(value_name = "FIRST")]
    pub(crate) first: String,
    /// The other database or LTX file
    #[arg(value_name = "SECOND")]
    pub(crate) second: String,
    #[command(flatten)]
    pub(crate) work: WorkArguments,
}

/// `seawall ltx dump`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  seawall ltx dump 0000000000000002-0000000000000002.ltx")]
pub(crate) struct DumpArguments {
    /// The file: a path or a URL
    #[arg(value_name = "FILE")]
    pub(crate) file: String,
}

/// `seawall ltx encode-db`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  seawall ltx encode-db -o snapshot.ltx app.db\n\n\
    What is committed in the WAL beside the database is in the snapshot, also while others write.")]
pub(crate) struct EncodeArguments {
    /// The file to make
    #[arg(short, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Leave out the database checksum, as Litestream does
    #[arg(long)]
    pub(crate) no_checksum: bool,
    /// Take no read lock: for a database on a read-only disk, which no program writes
    #[arg(long)]
    pub(crate) no_lock: bool,
    /// The database
    #[arg(value_name = "DB")]
    pub(crate) database: PathBuf,
    #[command(flatten)]
    pub(crate) work: WorkArguments,
}

/// `seawall ltx list`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seawall ltx list *.ltx\n  seawall ltx list -tsv s3://bucket/app/0000/")]
pub(crate) struct ListArguments {
    /// Tab-separated values instead of a table
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, action = ArgAction::Set)]
    #[arg(default_value_t = false, default_missing_value = "true", hide_default_value = true)]
    #[arg(hide_possible_values = true)]
    pub(crate) tsv: bool,
    #[command(flatten)]
    pub(crate) files: FilesArguments,
}

/// `seawall ltx verify`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  seawall ltx verify *.ltx\n  seawall ltx verify --strong s3://bucket/app/0009/\n\n\
    With --strong the exit code is 3 if files are right, and beside some of them nothing is kept."
)]
pub(crate) struct VerifyArguments {
    /// Also compare files with the BLAKE3 that Seawall keeps beside the objects of its vaults
    #[arg(long)]
    pub(crate) strong: bool,
    #[command(flatten)]
    pub(crate) files: FilesArguments,
}

/// `seawall ltx info`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  seawall ltx info --json s3://bucket/app/0009/")]
pub(crate) struct FilesArguments {
    /// The files: paths, URLs, or folders of them (a URL that doesn't end in .ltx is one)
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<String>,
    #[command(flatten)]
    pub(crate) work: WorkArguments,
}

/// `seawall ltx version`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  seawall ltx version")]
pub(crate) struct VersionArguments {}
