//! `seawall replicate`: protect databases until stopped, until a program ends, or once.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use seawall_agent::config::{Config, DatabaseConfig, SHUTDOWN_TIMEOUT, SWEEP_INTERVAL, read_place};
use seawall_agent::{ExecCommand, Job, Level, LogFormat, Member, Opener, Outcome, Signals, Summary, protect};
use seawall_core::{Failure, Point, Shutdown};
use serde_json::json;

use crate::arguments::{Common, ReplicateArguments};
use crate::edge::{Edge, usage};
use crate::exit::Exit;
use crate::output::{Output, to_json};
use crate::{configuration, runtime, table};

/// Runs the command.
pub(crate) fn run(arguments: &ReplicateArguments, common: &Common, edge: &Edge) -> Result<Output, Failure> {
    let plan = Plan::new(arguments, edge)?;
    let default_format = if common.json { LogFormat::Json } else { LogFormat::Text };
    super::log(common, plan.log_level.unwrap_or(Level::Info), plan.log_format.unwrap_or(default_format));
    for warning in &plan.warnings {
        tracing::warn!("{warning}");
    }

    let runtime = runtime::runtime(runtime::PROTECTING)?;
    let summary = runtime.block_on(carry_out(&plan, edge));
    runtime.shutdown_timeout(Duration::from_millis(200));
    Ok(render(&summary?, plan.job.once))
}

/// Everything that is decided before anything is done.
#[derive(Debug)]
struct Plan {
    databases: Vec<DatabaseConfig>,
    job: Job,
    sweep_interval: Duration,
    upload_limit: Option<u64>,
    log_level: Option<Level>,
    log_format: Option<LogFormat>,
    warnings: Vec<String>,
}

impl Plan {
    fn new(arguments: &ReplicateArguments, edge: &Edge) -> Result<Self, Failure> {
        let mut plan = match (&arguments.source, &arguments.vault) {
            (Some(source), Some(vault)) => Self::of_pair(source, vault, arguments, edge)?,
            _ => Self::of_config(configuration::require(&arguments.config, edge)?)?,
        };
        plan.job.once = arguments.once;
        if arguments.once {
            plan.job.exec = None;
        } else if let Some(line) = &arguments.exec {
            plan.job.exec = Some(ExecCommand::parse(line)?);
        }
        for database in &mut plan.databases {
            database.restore_if_missing |= arguments.restore_if_missing;
        }
        Ok(plan)
    }

    fn of_pair(source: &Path, vault: &str, arguments: &ReplicateArguments, edge: &Edge) -> Result<Self, Failure> {
        // The variable names a configuration for whenever one is needed; the flag beside a database is a mistake.
        let by_variable = edge.environment.get("SEAWALL_CONFIG").map(Path::new);
        if arguments.config.config.as_deref().is_some_and(|file| Some(file) != by_variable) {
            return Err(usage(
                "usage.arguments",
                "replicate",
                "a database and a configuration are both named",
                "give either SOURCE and VAULT, or --config",
            ));
        }
        let path = edge.absolute(source);
        if path.is_dir() {
            let cause = "this is a folder, not a database";
            return Err(usage("usage.source", &path.display().to_string(), cause, "name a database file"));
        }
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let vault = read_place(vault, &edge.directory)?;
        Ok(Self {
            databases: vec![DatabaseConfig::new(name, path, vault)],
            job: Job { once: false, exec: None, bound: SHUTDOWN_TIMEOUT },
            sweep_interval: SWEEP_INTERVAL,
            upload_limit: None,
            log_level: None,
            log_format: None,
            warnings: Vec::new(),
        })
    }

    fn of_config(config: Config) -> Result<Self, Failure> {
        let file = config.file.display().to_string();
        if config.databases.is_empty() {
            let next = "list at least one, or name SOURCE and VAULT on the command line";
            return Err(usage("config.no-databases", &file, "it has no databases", next));
        }
        let warning = |warning: seawall_agent::config::Warning| format!("{file}:{}: {}", warning.line, warning.text);
        Ok(Self {
            databases: config.databases,
            job: Job { once: false, exec: config.exec, bound: config.shutdown_timeout },
            sweep_interval: config.sweep_interval.unwrap_or(SWEEP_INTERVAL),
            upload_limit: config.upload_limit,
            log_level: config.log_level,
            log_format: config.log_format,
            warnings: config.warnings.into_iter().map(warning).collect(),
        })
    }
}

async fn carry_out(plan: &Plan, edge: &Edge) -> Result<Summary, Failure> {
    let shutdown = Shutdown::new();
    let signals = Signals::listen().map_err(|error| runtime::no_runtime(&error))?;
    let first = signals.first();
    let forwarding = tokio::spawn(signals.forward(shutdown.clone(), plan.job.exec.is_some()));

    let mut opener = Opener::new(edge.environment.clone(), runtime::PROTECTING / 2);
    if !plan.job.once {
        opener.watch(plan.sweep_interval);
    }
    if let Some(limit) = plan.upload_limit {
        opener.limit_uploads(limit);
    }
    let opener = Arc::new(opener);
    let mut members = Vec::with_capacity(plan.databases.len());
    for database in &plan.databases {
        let opened = if plan.job.once { opener.database(database).await } else { opener.lasting(database).await };
        match &opened {
            Ok(engine) => {
                let description = engine.describe();
                tracing::info!(database = description.name, vault = description.vault, "protecting");
            }
            Err(failure) => tracing::error!(
                database = database.name,
                code = failure.code,
                object = failure.object,
                next = failure.next,
                "not protected: {}",
                failure.cause
            ),
        }
        let restore = database.restore_if_missing.then(|| database.path.clone());
        members.push(Member { name: database.name.clone(), engine: opened, restore });
    }
    let summary = protect(members, &plan.job, &shutdown, first).await;
    if summary.outcomes.iter().all(|outcome| outcome.result.is_ok()) {
        tracing::info!("everything that was committed is in the vault");
    }
    forwarding.abort();
    Ok(summary)
}

fn render(summary: &Summary, once: bool) -> Output {
    let (mut text, mut failures) = (String::new(), Vec::new());
    for Outcome { name, result } in &summary.outcomes {
        match result {
            Ok(Some(point)) if once => text.push_str(&format!("{name}: protected up to {}\n", table::point(point))),
            Ok(_) => {}
            Err(failure) => failures.push(failure.clone()),
        }
    }
    let document = |outcome: &Outcome<Option<Point>>| {
        json!({
            "name": outcome.name,
            "protected": outcome.result.as_ref().ok().cloned().flatten(),
            "error": outcome.result.as_ref().err().map(to_json),
        })
    };
    let child = match &summary.child {
        None => json!(null),
        Some(Ok(code)) => json!({ "exit_code": code, "error": null }),
        Some(Err(failure)) => json!({ "exit_code": null, "error": failure }),
    };
    if let Some(Err(failure)) = &summary.child {
        failures.push(failure.clone());
    }
    let databases: Vec<_> = summary.outcomes.iter().map(document).collect();
    Output { text, failures, json: json!({ "databases": databases, "exec": child }), exit: exit(summary) }
}

/// The program's own exit code, unless it ended well and protection didn't, or all was stopped at once.
fn exit(summary: &Summary) -> Exit {
    let results = summary.outcomes.iter().map(|outcome| outcome.result.as_ref().map(drop));
    let databases = Exit::of_all(results);
    match &summary.child {
        _ if databases == Exit::Interrupted => databases,
        Some(Ok(code)) if *code != 0 => Exit::Child(*code),
        Some(Err(failure)) => match Exit::of(failure.kind) {
            Exit::NotFound => Exit::Failed,
            exit => exit,
        },
        _ => databases,
    }
}

#[cfg(test)]
mod tests {
    use seawall_core::Kind;

    use super::*;

    #[test]
    fn the_programs_code_comes_first() {
        let failed = || Err(Failure::new(Kind::Unavailable, "test.code", "o", "c", "n"));
        let gone = || Failure::new(Kind::NotFound, "test.code", "o", "c", "n");
        for (child, database, code) in [
            (None, Ok(None), 0),
            (None, failed(), 1),
            (Some(Ok(0)), Ok(None), 0),
            (Some(Ok(0)), failed(), 1),
            (Some(Ok(7)), Ok(None), 7),
            (Some(Ok(7)), failed(), 7),
            (Some(Err(gone())), Ok(None), 1),
            (Some(Ok(137)), Err(Failure::new(Kind::Interrupted, "test.code", "o", "c", "n")), 130),
        ] {
            let case = format!("{child:?} {database:?}");
            let outcomes = vec![Outcome { name: "a".into(), result: database }];
            assert_eq!(exit(&Summary { outcomes, child }).code(), code, "{case}");
        }
    }
}
