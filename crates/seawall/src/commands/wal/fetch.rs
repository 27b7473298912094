//! `seawall wal fetch`: a file of the log out of the vault.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::panic;
use std::path::Path;

use seawall_agent::HandedOver;
use seawall_agent::wal::{Order, Request, Spool, fetch, hand_over, system_of};
use seawall_archive::log::{Line, LogFile, Lsn, SystemId, TimelineId};
use seawall_core::{Failure, Kind};
use serde_json::{Value, json};

use super::open;
use crate::arguments::{ConfigArguments, WalFetchArguments};
use crate::edge::{Edge, usage};
use crate::exit::Exit;
use crate::output::{Output, to_json};
use crate::runtime;

/// Runs the command. PostgreSQL opens a server read-write after an exit code of 1 to 125, so only a proved absence gets one.
pub(super) fn run(arguments: &WalFetchArguments, edge: &Edge) -> Output {
    // A panic would end with 101.
    let told = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        told(info);
        std::process::abort();
    }));
    match attempt(arguments, edge) {
        Ok(document) => Output::done("", &document),
        Err((failure, exit)) => {
            let json = json!({ "error": to_json(&failure) });
            Output { text: String::new(), failures: vec![failure], json, exit }
        }
    }
}

fn attempt(arguments: &WalFetchArguments, edge: &Edge) -> Result<Value, (Failure, Exit)> {
    let failed = |failure: Failure| {
        let exit = Exit::of(failure.kind);
        (failure, exit.as_restore_command())
    };
    let (arguments, edge, until) = match &arguments.handed_over {
        Some(file) => &handed_over(file, arguments, edge).map_err(failed)?,
        None => &(arguments.clone(), edge.clone(), None),
    };
    let file: LogFile = arguments.file.parse().map_err(|()| failed(no_file(&arguments.file)))?;
    let line = line(&arguments.timeline).map_err(failed)?;
    let system = system(arguments.system.as_deref(), edge).map_err(failed)?;
    let opener = edge.opener(1).map_err(failed)?;
    let to = edge.absolute(&arguments.path);
    let here: &Path = &edge.directory;
    let data = here.join("global/pg_control").exists().then_some(here);
    let request = Request { file, to: &to, line, system, until: *until, data };
    let place = arguments.vault.as_deref().unwrap_or_default();
    let config = arguments.config.config.as_deref();
    let order = Order { most: arguments.ahead.into(), vault: place, config, line, until: *until };
    let spool = data.and_then(|data| Spool::of(data, &to, &order));
    let mut absent = false;
    let fetched = runtime::run(async {
        // What was got ahead needs no vault.
        if hand_over(request, spool.as_ref(), None).await {
            return Ok(place.to_owned());
        }
        let vault = open(place, &arguments.config, None, &opener, edge).await?;
        let fetched = fetch(&vault, request, spool.as_ref()).await;
        absent = fetched.as_ref().is_err_and(|error| error.is_absence());
        fetched?;
        Ok(vault.url().to_owned())
    });
    match fetched {
        Ok(vault) => Ok(json!({ "vault": vault, "file": file.to_string() })),
        Err(failure) if absent => Err((failure, Exit::Child(1))),
        Err(failure) => Err(failed(failure)),
    }
}

/// What a restore left for the server that recovers: the arguments, the environment of the restore, and where its log ends.
fn handed_over(
    file: &Path,
    given: &WalFetchArguments,
    edge: &Edge,
) -> Result<(WalFetchArguments, Edge, Option<Lsn>), Failure> {
    let path = edge.absolute(file);
    let wrong = |cause: String| {
        let next = "run this in the data directory that `seawall restore` made, or restore it again";
        Failure::new(Kind::Unavailable, "postgres.io", path.display().to_string(), cause, next)
    };
    let bytes = std::fs::read(&path).map_err(|error| wrong(error.to_string()))?;
    let handed: HandedOver = serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
    let arguments = WalFetchArguments {
        vault: Some(handed.vault),
        timeline: handed.timeline.to_string(),
        system: Some(handed.system),
        handed_over: None,
        config: ConfigArguments { config: handed.config, ..given.config.clone() },
        ..given.clone()
    };
    // What is set here counts: a person may have corrected it.
    let here = edge.environment.iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
    let environment = handed.environment.into_iter().chain(here).collect();
    let identity = edge.identity.clone().or(handed.identity);
    Ok((arguments, Edge { environment, identity, ..edge.clone() }, handed.until))
}

fn no_file(name: &str) -> Failure {
    usage("usage.wal-file", name, "PostgreSQL archives no file of this name", "write %f in restore_command")
}

fn line(text: &str) -> Result<Line, Failure> {
    if text == "latest" {
        return Ok(Line::Latest);
    }
    let number = text.parse().ok().and_then(TimelineId::new);
    let next = "give a number from 1, or latest; `current` of PostgreSQL is the number of the base's timeline";
    number.map(Line::Of).ok_or_else(|| usage("usage.arguments", "--timeline", "this is no timeline", next))
}

/// The cluster that is recovered: as the command line says, or the one of the data directory in which PostgreSQL runs the
/// command.
fn system(text: Option<&str>, edge: &Edge) -> Result<Option<SystemId>, Failure> {
    let Some(text) = text else {
        let here: &Path = &edge.directory;
        return system_of(here).map_err(|error| {
            let file = here.join("global/pg_control").display().to_string();
            Failure::new(
                Kind::Unavailable,
                "log.io",
                file,
                error.to_string(),
                "check the folder, its permissions and the space",
            )
        });
    };
    let next = "give the number that `SELECT system_identifier FROM pg_control_system()` shows";
    text.parse().map(Some).map_err(|()| usage("usage.arguments", "--system", "this is no system identifier", next))
}
