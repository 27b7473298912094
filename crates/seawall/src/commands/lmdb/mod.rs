//! `seawall lmdb`: keeps LMDB environments in step through a vault, compatible with Lightning Stream and its
//! configuration.

mod faithful;
pub(crate) mod itself;
pub(crate) mod original;
mod show;
mod tools;
pub(crate) mod words;

use std::path::Path;
use std::sync::Arc;

use seawall_agent::config::LightningConfig;
use seawall_agent::{InStep, InStepReload, Level, LogFormat, Outcome, ReadInStep, Signals, keep_in_step};
use seawall_core::{Failure, Shutdown};
use seawall_lmdb::snapshot::SnapshotName;
use seawall_lmdb::{Report, system_clock};
use serde_json::json;

use crate::arguments::Common;
use crate::arguments::lmdb::{LmdbCommand, SyncArguments};
use crate::configuration;
use crate::edge::{Edge, usage};
use crate::exit::Exit;
use crate::output::{Output, to_json};
use crate::runtime;

/// For how many environments more than at its start a process has threads.
const SPARE: usize = 4;

/// Runs one of the commands.
pub(crate) fn run(command: &LmdbCommand, common: &Common, edge: &Edge) -> Result<Output, Failure> {
    match command {
        LmdbCommand::Sync(arguments) => sync(arguments, false, common, edge),
        LmdbCommand::Receive(arguments) => sync(arguments, true, common, edge),
        LmdbCommand::Snapshots(command) => {
            super::log(common, Level::Warn, LogFormat::Text);
            tools::snapshots(command, edge, common)
        }
        LmdbCommand::Dump(arguments) => tools::dump(arguments, edge, common),
        LmdbCommand::MigrateTimestamps(arguments) => tools::migrate_timestamps(arguments, edge),
        LmdbCommand::Completion { shell } => Ok(words::completion(*shell)),
        LmdbCommand::Docs => Ok(words::docs()),
        LmdbCommand::Stats(arguments) => tools::stats(arguments, edge, common),
        LmdbCommand::DropShadow(arguments) => tools::drop_shadow(arguments, edge),
    }
}

fn sync(arguments: &SyncArguments, receive_only: bool, common: &Common, edge: &Edge) -> Result<Output, Failure> {
    let Wanted { config, how } = Wanted::read(arguments, receive_only, common, edge)?;
    let default_format = if common.json { LogFormat::Json } else { LogFormat::Text };
    super::log(common, config.log_level.unwrap_or(Level::Info), config.log_format.unwrap_or(default_format));
    if common.as_original && config.databases.is_empty() {
        tracing::warn!("no environment is named by --only-db: there is nothing to do");
        return Ok(Output::done("", &json!({ "databases": [] })));
    }
    if arguments.log_config {
        tracing::info!(?config, "the configuration as it was understood");
    }
    // A session occupies one thread while a snapshot arrives, and a folder as vault wants another.
    let room = config.databases.len() + SPARE;
    let runtime = runtime::lasting(2 * room + runtime::PROTECTING)?;
    let read = reader(arguments, receive_only, common, edge);
    let outcomes = runtime.block_on(carry_out(&config, &how, (read, room), edge))?;
    runtime::end(runtime);
    let output = render(&outcomes);
    Ok(if common.as_original { output.without_text() } else { output })
}

/// The settings of the configuration and the command line together.
struct Wanted {
    config: LightningConfig,
    how: InStep,
}

impl Wanted {
    fn read(arguments: &SyncArguments, receive_only: bool, common: &Common, edge: &Edge) -> Result<Self, Failure> {
        let mut config = load(&arguments.config, edge)?;
        if common.as_original {
            // One that isn't configured is left aside, as there.
            let only = &arguments.only_db;
            config.databases.retain(|database| only.is_empty() || only.contains(&database.name));
        } else {
            select(&mut config, &arguments.only_db)?;
        }
        config.log_level = common.log_level.or(config.log_level);
        let instance = arguments.instance.clone().or(config.instance.clone()).unwrap_or_else(|| edge.hostname.clone());
        let how = InStep {
            instance: SnapshotName::clean_instance(&instance),
            hostname: edge.hostname.clone(),
            receive_only,
            only_once: arguments.only_once || config.only_once,
            marker_file: arguments.wait_for_marker_file.clone(),
            version: env!("CARGO_PKG_VERSION"),
        };
        if how.instance.is_empty() {
            return Err(usage("usage.arguments", "--instance", "it is empty", "give this instance a name"));
        }
        Ok(Self { config, how })
    }
}

/// Reads the configuration of a running process again, with the same arguments and environment.
fn reader(arguments: &SyncArguments, receive_only: bool, common: &Common, edge: &Edge) -> ReadInStep {
    let (mut arguments, common, edge) = (arguments.clone(), common.clone(), edge.clone());
    arguments.config = edge.absolute(&arguments.config);
    Arc::new(move || {
        let Wanted { config, how } = Wanted::read(&arguments, receive_only, &common, &edge)?;
        Ok((config, how))
    })
}

fn load(file: &Path, edge: &Edge) -> Result<LightningConfig, Failure> {
    let file = edge.absolute(file);
    let text = configuration::text(&file)?;
    Ok(LightningConfig::parse(&file, &text, &edge.surroundings())?)
}

/// Leaves only the environments that were asked for.
fn select(config: &mut LightningConfig, only: &[String]) -> Result<(), Failure> {
    let known = |name: &String| config.databases.iter().any(|database| database.name == *name);
    if let Some(unknown) = only.iter().find(|name| !known(name)) {
        let next = "name one of those under lmdbs";
        return Err(usage("usage.arguments", unknown, "the configuration has no such environment", next));
    }
    config.databases.retain(|database| only.is_empty() || only.contains(&database.name));
    Ok(())
}

async fn carry_out(
    config: &LightningConfig,
    how: &InStep,
    (read, room): (ReadInStep, usize),
    edge: &Edge,
) -> Result<Vec<Outcome<Report>>, Failure> {
    let shutdown = Shutdown::new();
    let signals = Signals::listen().map_err(|error| runtime::no_runtime(&error))?;
    let reload = InStepReload { read, hangups: signals.hangups(), room };
    let reload = (!how.only_once).then_some(reload);
    let forwarding = tokio::spawn(signals.forward(shutdown.clone(), false));
    let outcomes = keep_in_step(config, how, &edge.environment, system_clock(), &shutdown, reload).await;
    forwarding.abort();
    outcomes
}

fn render(outcomes: &[Outcome<Report>]) -> Output {
    let (mut text, mut failures) = (String::new(), Vec::new());
    for Outcome { name, result } in outcomes {
        match result {
            Ok(report) => {
                let Report { loaded, sent, damaged, .. } = report;
                text.push_str(&format!("{name}: merged {loaded}, sent {sent}, damaged {}\n", damaged.len()));
            }
            Err(failure) => failures.push(failure.clone()),
        }
    }
    let document = |outcome: &Outcome<Report>| {
        let report = outcome.result.as_ref().ok();
        json!({
            "name": outcome.name,
            "merged": report.map(|report| report.loaded),
            "sent": report.map(|report| report.sent),
            "swept": report.map(|report| report.swept),
            "damaged": report.map(|report| &report.damaged),
            "error": outcome.result.as_ref().err().map(to_json),
        })
    };
    let documents: Vec<_> = outcomes.iter().map(document).collect();
    let exit = Exit::of_all(outcomes.iter().map(|outcome| outcome.result.as_ref().map(drop)));
    Output { text, failures, json: json!({ "databases": documents }), exit }
}
