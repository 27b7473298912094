//! The command line as it is typed.

mod bench;
mod built;
mod doctor;
#[cfg(test)]
mod documented;
mod encrypted;
mod explain;
mod fleet;
mod init;
pub(crate) mod lmdb;
pub(crate) mod ltx;
mod notify;
mod process;
mod protect;
mod query;
mod restore;
mod shell;
mod ui;
mod vault;
mod wal;
mod web;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use seawall_agent::{Level, LogFormat};

use self::lmdb::LmdbCommand;
use self::ltx::LtxCommand;
use crate::progress::ProgressForm;

pub(crate) use self::bench::*;
pub(crate) use self::built::*;
pub(crate) use self::doctor::*;
pub(crate) use self::encrypted::*;
pub(crate) use self::explain::*;
pub(crate) use self::fleet::*;
pub(crate) use self::init::*;
pub(crate) use self::notify::*;
pub(crate) use self::process::*;
pub(crate) use self::protect::*;
pub(crate) use self::query::*;
pub(crate) use self::restore::*;
pub(crate) use self::shell::*;
pub(crate) use self::ui::*;
pub(crate) use self::vault::*;
pub(crate) use self::wal::*;
pub(crate) use self::web::*;

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

/// The options of every command.
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
    /// How progress is told on standard error: bar (on a terminal), json (one line each second) or none
    #[arg(long, global = true, help_heading = "Global options", value_name = "FORM", hide_possible_values = true)]
    pub(crate) progress: Option<ProgressForm>,
    /// The file with the keys that read an encrypted vault [default: what SEAWALL_IDENTITY_FILE names]
    #[arg(long, global = true, help_heading = "Global options", value_name = "FILE")]
    pub(crate) identity: Option<PathBuf>,
    /// Log lines have no time. Only Lightning Stream's command line asks for it.
    #[arg(skip)]
    pub(crate) log_timeless: bool,
    /// The program was called by Lightning Stream's name: its output is Lightning Stream's.
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

/// Which state of the vault itself to read.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct PastArguments {
    /// Read the vault as the store held it at this moment: objects that were written over or deleted later are there, later ones
    /// aren't. Needs an S3 bucket that keeps versions
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    pub(crate) as_stored_at: Option<String>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// See it work: protect a database, kill the process, restore, compare
    Demo(DemoArguments),
    /// Look at what runs on this host, ask, and write a configuration
    Init(InitArguments),
    /// Protect databases continuously, until stopped
    Replicate(ReplicateArguments),
    /// Make a complete copy of a server's database now
    Backup(BackupArguments),
    /// Measure how fast a backup is here, beside the ceilings of source, codec and store
    Bench(BenchArguments),
    /// Get a database back
    Restore(RestoreArguments),
    /// Show what can be restored: ranges, points and holes
    Timeline(SourceArguments),
    /// Show what changed between two points: size, tables and rows, as far as the vault tells
    Compare(CompareArguments),
    /// Ask a SQLite database in a vault, at any point, without a restore
    Query(QueryArguments),
    /// Read everything back and check every checksum and the chain
    Verify(VerifyArguments),
    /// Copy a vault, or a part of its history, to another place
    Copy(CopyArguments),
    /// Merge and delete what is due in a vault, now
    Maintain(MaintainArguments),
    /// Pin a point so that retention keeps it, or remove a pin
    Pin(PinArguments),
    /// Show how far each database is protected
    Status(StatusArguments),
    /// Find every database below a prefix, from the vault alone
    Fleet(FleetArguments),
    /// Look at the databases of a running process, or of a vault, and restore, on a terminal
    Ui(UiArguments),
    /// Show every database below a prefix on a page, from the vaults alone
    Web(WebArguments),
    /// Silence the alarms of a database for a while
    Silence(SilenceArguments),
    /// Find what is wrong or will be, each with the command that mends it
    Doctor(DoctorArguments),
    /// Say what the code of an error or alarm means, and what to do
    Explain(ExplainArguments),
    /// List the databases of a running process
    List(ListArguments),
    /// Show which process is running
    Info(InfoArguments),
    /// Ask a running process to ship what is committed now
    Sync(SyncArguments),
    /// Ask a running process to protect another database, from now on
    Register(RegisterArguments),
    /// Ask a running process to stop a database and forget it
    Unregister(UnregisterArguments),
    /// Ask a running process to start a database that was stopped
    Start(StartArguments),
    /// Ask a running process to stop a database, after shipping what is committed
    Stop(StopArguments),
    /// Check a configuration, or have a running process read it again
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Try out the channels that are told of alarms
    #[command(subcommand)]
    Notify(NotifyCommand),
    /// Make encrypted vaults, and try places out
    #[command(subcommand)]
    Vault(VaultCommand),
    /// Archive the write-ahead log of a PostgreSQL cluster, and get it back
    #[command(subcommand)]
    Wal(WalCommand),
    /// Keep LMDB environments in step between servers
    #[command(subcommand)]
    Lmdb(LmdbCommand),
    /// Work with LTX files, and with the checksums of databases
    #[command(subcommand)]
    Ltx(LtxCommand),
    /// Print the completions of a shell
    Completion(CompletionArguments),
    /// Write a page of the manual for each command
    Manual(ManualArguments),
    /// Say how this program was built, and what it contains
    #[command(name = "self")]
    Built(SelfArguments),
}

/// `seawall demo`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  seawall demo\n\n\
    The demo writes only below ./seawall-demo and ./vault, into a new folder each time.")]
pub(crate) struct DemoArguments {}

/// How much of the machine a command about a server may use.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ServerArguments {
    /// Connections that move data, and cores that compress [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64), help_heading = "Servers")]
    pub(crate) jobs: Option<u16>,
    /// The memory for buffers (nearly all that the command uses), such as 64MB [default: 128MiB]
    #[arg(long, value_name = "SIZE", help_heading = "Servers")]
    pub(crate) memory: Option<String>,
    /// The folder of pg_dump and pg_restore [default: the packages' folders, then PATH]
    #[arg(long, value_name = "FOLDER", help_heading = "Servers")]
    pub(crate) pg_bindir: Option<PathBuf>,
}

/// A time with its unit.
fn span(text: &str) -> Result<Duration, String> {
    let span = seawall_core::parse_duration(text).filter(|span| !span.is_zero());
    span.ok_or_else(|| "give a time with its unit, as 500ms or 1s".to_owned())
}

/// A number of seconds as a span.
fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO)
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
        assert_eq!(commands.len(), 64);
        for mut command in commands {
            let help = command.render_long_help().to_string();
            assert!(help.contains("Example"), "{} has no example", command.get_name());
        }
    }

    #[test]
    fn what_is_taken_and_what_is_not() {
        for (line, taken) in [
            ("seawall demo", true),
            ("seawall init", true),
            ("seawall init s3://bucket/p --keep 30d -o /etc/seawall.yml --yes --force --json", true),
            ("seawall init a b", false),
            ("seawall bench postgresql://u@h/d", true),
            ("seawall bench mysql://u@h/ ./v --jobs 4 --compression lz4 --json", true),
            ("seawall bench", false),
            ("seawall web s3://bucket/p", true),
            ("seawall web ./v --listen 0.0.0.0:80 --token-file t --host a --host b --path /x --fresh 5m --json", true),
            ("seawall web", false),
            ("seawall web ./v --fresh 0s", false),
            ("seawall query ./vault 'SELECT_1'", true),
            ("seawall query ./vault --at yesterday --csv SELECT_1", true),
            ("seawall query ./vault", false),
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
            ("seawall restore v -o b --if-missing --allow-empty", true),
            ("seawall restore v -o b --allow-empty --at -2h", false),
            ("seawall restore v --all --allow-empty", false),
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
            ("seawall ui", true),
            ("seawall ui --socket s.sock", true),
            ("seawall ui s3://bucket/prefix", true),
            ("seawall ui a b", false),
            ("seawall explain", true),
            ("seawall explain sqlite.lost --json", true),
            ("seawall explain a b", false),
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
            ("seawall notify test", true),
            ("seawall notify test pager --config f.yml --json", true),
            ("seawall notify", false),
            ("seawall vault init v --generate", true),
            ("seawall vault init v --generate -o k", true),
            ("seawall vault init v --recipient age1a --recipient age1b --identity k", true),
            ("seawall vault init v", false),
            ("seawall vault rekey v --recipient age1a --recipient age1b --identity k", true),
            ("seawall vault rekey v --recipient age1a --remove age1b --rewrite", true),
            ("seawall vault rekey v --rewrite", false),
            ("seawall vault init v --generate --recipient age1a", false),
            ("seawall vault init v --recipient age1a -o k", false),
            ("seawall vault probe s3://bucket/app --json", true),
            ("seawall vault probe v --rounds 3 --size 0", true),
            ("seawall vault probe v --rounds 0", false),
            ("seawall vault probe", false),
            ("seawall wal push pg_wal/000000010000000000000001 --vault v", true),
            ("seawall wal push %p", false),
            ("seawall wal fetch 00000002.history pg_wal/RECOVERYHISTORY --vault v --timeline 2 --system 7", true),
            ("seawall wal fetch %f --vault v", false),
            ("seawall wal receive postgresql://r@h/ v --slot s", true),
            ("seawall wal receive postgresql://r@h/", false),
            ("seawall wal list v", true),
            ("seawall wal list", false),
            ("seawall wal", false),
            ("seawall self", true),
            ("seawall self --sbom --json", true),
            ("seawall self extra", false),
            ("seawall --json status", true),
            ("seawall status --log-level loud", false),
            ("seawall", false),
        ] {
            let parsed = Arguments::try_parse_from(line.split(' '));
            assert_eq!(parsed.is_ok(), taken, "{line}: {:?}", parsed.err().map(|e| e.to_string()));
        }
    }
}
