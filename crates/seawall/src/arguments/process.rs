//! The commands that ask a running process, and those about its configuration, as they are typed.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::{ConfigArguments, seconds};

/// `seawall status`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seawall status\n  seawall status /data/app.db\n  \
    seawall status --config seawall.yml --json\n  seawall status --check\n\n\
    The status comes from the running process if it has a control socket. Otherwise it comes from the state records on\n\
    this machine: those of the configuration's databases if there is one, else those found below the current folder.")]
pub(crate) struct StatusArguments {
    /// Databases, or their state folders
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// End with code 1 while a database has a critical alarm that isn't silenced, and with 3 for warnings
    #[arg(long)]
    pub(crate) check: bool,
    #[command(flatten)]
    pub(crate) socket: SocketArguments,
}

/// `seawall silence`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seawall silence app --for 2h\n  seawall silence app --end\n\n\
    A silence marks the alarms of a database, and hides none: `seawall status` shows them. It ends by itself.")]
pub(crate) struct SilenceArguments {
    /// The database, by its name or path
    #[arg(value_name = "NAME|PATH")]
    pub(crate) database: String,
    /// For how long, at most 30d
    #[arg(long, value_name = "TIME", value_parser = super::span, required_unless_present = "end", conflicts_with = "end")]
    pub(crate) r#for: Option<Duration>,
    /// End a silence now
    #[arg(long)]
    pub(crate) end: bool,
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
    /// Make a seawall.yml of the configuration of dbbackup
    Import(ImportArguments),
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

/// `seawall config import`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  seawall config import .dbbackup.conf\n  seawall config import .dbbackup.conf -o seawall.yml\n\n\
    Passwords and keys are never copied: the output says where Seawall looks for each of them.\n\n\
    Exit codes: 0 all of it is understood, 3 it has keys that are unknown"
)]
pub(crate) struct ImportArguments {
    /// The configuration of dbbackup
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The file to make; it must not exist [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long, requires = "output")]
    pub(crate) force: bool,
}

/// `seawall config reload`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seawall config reload\n  seawall config reload --config /etc/seawall.yml\n  \
    seawall config reload --socket /run/seawall.sock --json\n\n\
    The process reads the file that it was started with. It adds, removes and changes databases; the others are not touched. If the\n\
    file has an error, nothing changes. SIGHUP asks for the same.\n\n\
    Exit codes: 0 all of it holds now, 2 the file has an error, 3 a part failed or needs a restart")]
pub(crate) struct ReloadArguments {
    /// How many seconds to wait for the answer; the process finishes the reload in any case
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
