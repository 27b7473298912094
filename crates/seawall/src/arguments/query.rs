//! `seawall query` as it is typed.

use clap::Args;

use super::{ConfigArguments, PastArguments};

/// `seawall query`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    seawall query ./vault 'SELECT count(*) FROM users'\n  \
    seawall query s3://bucket/app --at '2 hours ago' \"SELECT * FROM orders WHERE id = 17\"\n  \
    seawall query app 'SELECT name, sql FROM sqlite_schema' --json\n  \
    seawall query app --csv 'SELECT * FROM users' > users.csv")]
pub(crate) struct QueryArguments {
    /// A vault (folder or URL), or the name or path of a database in the configuration
    #[arg(value_name = "VAULT|NAME|PATH")]
    pub(crate) source: String,
    /// One statement that reads
    #[arg(value_name = "SQL")]
    pub(crate) sql: String,
    /// The moment to look at: RFC 3339, "10 minutes ago", a transaction id of 16 hex digits, or latest
    #[arg(long, value_name = "WHEN", default_value = "latest", allow_hyphen_values = true)]
    pub(crate) at: String,
    /// Print rows as CSV, each as soon as it is read
    #[arg(long)]
    pub(crate) csv: bool,
    #[command(flatten)]
    pub(crate) past: PastArguments,
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
}
