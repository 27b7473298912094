//! One file per command: validated arguments, one library call, one output.

mod acknowledge;
pub(crate) mod agent;
mod backup;
mod backup_cluster;
mod bench;
mod built;
mod check;
mod compare;
mod copy;
mod demo;
mod doctor;
mod explain;
mod fleet;
mod follow;
mod import;
mod init;
pub(crate) mod lmdb;
pub(crate) mod ltx;
mod maintain;
mod notify;
mod outside;
mod pin;
pub(crate) mod prove;
mod prove_server;
mod query;
mod reload;
pub(crate) mod replicate;
pub(crate) mod restore;
mod restore_all;
mod restore_cluster;
mod restore_server;
mod shell;
mod silence;
pub(crate) mod status;
mod timeline;
mod vault;
mod verify;
mod verify_all;
pub(crate) mod wal;
mod web;

use seawall_agent::{Level, LogFormat, Times, start_logging};
use seawall_core::Failure;

use self::agent::Change;
use crate::arguments::{Arguments, Command, Common, ConfigCommand, NotifyCommand, WalCommand};
use crate::edge::Edge;
use crate::output::Output;

/// Runs the command.
pub(crate) fn run(arguments: Arguments, edge: &Edge) -> Result<Output, Failure> {
    let Arguments { common, command } = arguments;
    let has_own_log = match &command {
        Command::Replicate(_) | Command::Lmdb(_) | Command::Wal(WalCommand::Receive(_)) => true,
        // A line of the log would go into the middle of a screen.
        Command::Ui(_) => true,
        Command::Web(_) => true,
        Command::Restore(arguments) => arguments.follow,
        _ => false,
    };
    if !has_own_log {
        // A command that ends by itself reports through its output. The log is for unusual events.
        log(&common, Level::Warn, LogFormat::Text);
    }
    match command {
        Command::Demo(_) => demo::run(edge, common.json),
        Command::Init(arguments) => init::run(&arguments, edge, common.json),
        Command::Replicate(arguments) => replicate::run(&arguments, &common, edge),
        Command::Backup(arguments) => backup::run(&arguments, edge, common.json),
        Command::Bench(arguments) => bench::run(&arguments, edge, common.json),
        Command::Restore(arguments) => restore::run(&arguments, &common, edge),
        Command::Timeline(arguments) => timeline::run(&arguments, edge),
        Command::Compare(arguments) => compare::run(&arguments, edge),
        Command::Query(arguments) => query::run(&arguments, edge, common.json),
        Command::Verify(arguments) => verify::run(&arguments, edge, common.json),
        Command::Copy(arguments) => copy::run(&arguments, edge, common.json),
        Command::Maintain(arguments) => maintain::run(&arguments, edge),
        Command::Pin(arguments) => pin::run(&arguments, edge),
        Command::Status(arguments) => status::run(&arguments, edge),
        Command::Fleet(arguments) => fleet::run(&arguments, edge, common.json),
        Command::Ui(arguments) => crate::ui::run(&arguments, edge, common.json),
        Command::Web(arguments) => web::run(&arguments, &common, edge),
        Command::Silence(arguments) => silence::run(&arguments, edge),
        Command::Doctor(arguments) => doctor::run(&arguments, edge),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::List(arguments) => agent::list(&arguments.socket, edge),
        Command::Info(arguments) => agent::info(&arguments.socket, edge),
        Command::Sync(arguments) => agent::sync(&arguments, edge),
        Command::Register(arguments) => agent::register(&arguments, edge),
        Command::Unregister(arguments) => agent::change(Change::Unregister, &arguments.change, edge),
        Command::Start(arguments) => agent::change(Change::Start, &arguments.change, edge),
        Command::Stop(arguments) => agent::change(Change::Stop, &arguments.change, edge),
        Command::Config(ConfigCommand::Check(arguments)) => check::run(&arguments, edge),
        Command::Config(ConfigCommand::Import(arguments)) => import::run(&arguments, edge),
        Command::Config(ConfigCommand::Reload(arguments)) => reload::run(&arguments, edge),
        Command::Notify(NotifyCommand::Test(arguments)) => notify::run(&arguments, edge),
        Command::Vault(command) => vault::run(&command, edge, common.json),
        Command::Wal(command) => wal::run(&command, &common, edge),
        Command::Lmdb(command) => lmdb::run(&command, &common, edge),
        Command::Ltx(command) => ltx::run(&command, edge, common.json),
        Command::Completion(arguments) => Ok(shell::completion(&arguments)),
        Command::Manual(arguments) => shell::manual(&arguments, edge),
        Command::Built(arguments) => Ok(built::run(&arguments)),
    }
}

/// Begins logging. Flags win over the defaults of the command or the configuration.
fn log(common: &Common, level: Level, format: LogFormat) {
    let times = if common.log_timeless { Times::Left } else { Times::Told };
    start_logging(common.log_level.unwrap_or(level), common.log_type.unwrap_or(format), times);
}
