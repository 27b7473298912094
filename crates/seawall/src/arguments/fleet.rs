//! `seawall fleet`

use std::time::Duration;

use clap::{Args, ValueEnum};

/// `seawall fleet`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    seawall fleet s3://bucket/prefix\n  \
    seawall fleet ./backups --sort age --limit 20\n  \
    seawall fleet s3://bucket --filter engine=sqlite --filter proved=no --csv\n\n\
    Exit codes with --check: 0 no alarm, 3 warnings, 1 a critical alarm")]
pub(crate) struct FleetArguments {
    /// The prefix below which the vaults are: a URL or a folder
    pub(crate) vault: String,
    /// Show only databases for which this holds: a part of the name, or engine=, alarms=, encrypted= or proved= with a value. Several
    /// must all hold
    #[arg(long, value_name = "TEXT|KEY=VALUE")]
    pub(crate) filter: Vec<String>,
    /// The order
    #[arg(long, value_enum, default_value_t = Sort::Name)]
    pub(crate) sort: Sort,
    /// Show at most so many databases
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: Option<u32>,
    /// Print a table for spreadsheets (RFC 4180) instead of text
    #[arg(long)]
    pub(crate) csv: bool,
    /// Let the exit code tell of alarms of the databases that are shown
    #[arg(long)]
    pub(crate) check: bool,
    /// With --check: count a database as one with a warning if no proof of it ended within this time, such as 35d
    #[arg(long, value_name = "SPAN", value_parser = super::span, requires = "check")]
    pub(crate) proved_within: Option<Duration>,
}

/// What databases are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sort {
    /// By name
    Name,
    /// The oldest newest point first
    Age,
    /// The largest first
    Size,
    /// The fastest growing first
    Growth,
    /// The oldest proof first, and those without a proof before all
    Proof,
}
