//! `seawall bench`

use clap::Args;

use super::{EncryptionArguments, ServerArguments};

/// `seawall bench`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    seawall bench postgresql://backup@db/shop\n  \
    seawall bench postgresql://backup@db/shop s3://bucket/scratch\n  \
    seawall bench mysql://backup@db/ --jobs 4 --compression zstd:3\n  \
    seawall bench s3://bucket/scratch\n\n\
    The source is read twice with the locks of `seawall backup`, and nothing is written to it: on MySQL and MariaDB tables without\n\
    transactions take no writes meanwhile, and other changes of tables wait. In a vault everything lies below names of its own,\n\
    and is deleted at the end. Where what is deleted may stay, only small objects are written.")]
pub(crate) struct BenchArguments {
    /// A server (postgresql://ROLE@HOST:PORT/DATABASE or mysql://…), or a vault
    #[arg(value_name = "SERVER|VAULT")]
    pub(crate) source: String,
    /// The vault that takes the backup which is measured
    pub(crate) vault: Option<String>,
    /// How to compress: zstd, zstd:1 to zstd:19, gzip, gzip:1 to gzip:12, lz4 or none [default: zstd]
    #[arg(long, value_name = "CODEC")]
    pub(crate) compression: Option<String>,
    #[command(flatten)]
    pub(crate) encryption: EncryptionArguments,
    #[command(flatten)]
    pub(crate) server: ServerArguments,
}
