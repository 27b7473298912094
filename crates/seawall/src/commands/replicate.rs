//! `seawall replicate`: protect databases until stopped, until a program ends, or once.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use seawall_agent::config::{
    Config, DatabaseConfig, DirectoryConfig, LEASE, Pattern, Registering, SHUTDOWN_TIMEOUT, SWEEP_INTERVAL, Services,
    SocketConfig, WebConfig, read_place,
};
use seawall_agent::{
    Also, ExecCommand, Job, Level, LogFormat, Outcome, Read, Reload, Signals, Summary, VaultUrl, protect, state_folder,
};
use seawall_core::{Failure, Point, Shutdown};
use serde_json::json;

use crate::arguments::{Common, EncryptionArguments, ReplicateArguments};
use crate::edge::{Edge, usage};
use crate::exit::Exit;
use crate::output::{Output, to_json};
use crate::{configuration, runtime, table};

/// Spare threads of a process with environments or servers, for those that a reload adds.
const SPARE: usize = 8;

/// Runs the command.
pub(crate) fn run(arguments: &ReplicateArguments, common: &Common, edge: &Edge) -> Result<Output, Failure> {
    run_with(arguments, Also::default(), common, edge)
}

/// Runs the command, and with `--once` does something more.
pub(crate) fn run_with(
    arguments: &ReplicateArguments,
    also: Also,
    common: &Common,
    edge: &Edge,
) -> Result<Output, Failure> {
    let mut plan = Plan::new(arguments, common, edge)?;
    plan.job.also = also;
    let (level, format) = plan.job.log;
    super::log(common, level, format);
    for warning in &plan.warnings {
        tracing::warn!("{warning}");
    }

    let runtime = runtime::lasting(runtime::PROTECTING + plan.job.threads)?;
    let read = reader(&plan, arguments, common, edge);
    let summary = runtime.block_on(carry_out(&plan, read, edge));
    runtime::end(runtime);
    Ok(render(&summary?, plan.job.once))
}

/// Reads the configuration of a running process again: the same file, even if other files exist by then, with the same
/// arguments and environment.
fn reader(plan: &Plan, arguments: &ReplicateArguments, common: &Common, edge: &Edge) -> Option<Read> {
    let file = plan.job.configuration.clone()?;
    let (mut arguments, common, edge) = (arguments.clone(), common.clone(), edge.clone());
    arguments.config.config = Some(file);
    Some(Arc::new(move || Plan::new(&arguments, &common, &edge).map(|plan| (plan.job, plan.warnings))))
}

/// Everything that is decided before anything is done.
#[derive(Debug)]
struct Plan {
    job: Job,
    warnings: Vec<String>,
}

impl Plan {
    fn new(arguments: &ReplicateArguments, common: &Common, edge: &Edge) -> Result<Self, Failure> {
        let default_format = if common.json { LogFormat::Json } else { LogFormat::Text };
        let mut plan = match (&arguments.source, &arguments.vault) {
            (Some(source), Some(vault)) => Self::of_pair(source, vault, arguments, default_format, edge)?,
            _ => Self::of_config(configuration::require(&arguments.config, edge)?, default_format, edge)?,
        };
        let (level, format) = plan.job.log;
        plan.job.log = (common.log_level.unwrap_or(level), common.log_type.unwrap_or(format));
        plan.job.once = arguments.once;
        if let Some(socket) = &arguments.socket {
            plan.job.services.socket = Some(SocketConfig::new(edge.absolute(socket)));
        }
        if let Some(address) = &arguments.web {
            plan.job.services.web = Some(web(address, plan.job.services.web.take())?);
        }
        plan.job.registry = plan.job.services.socket.as_ref().and_then(|socket| registry(&socket.path, edge));
        plan.job.told = plan.job.configuration.as_ref().and_then(|file| told(file, edge));
        if arguments.once {
            plan.job.exec = None;
        } else if let Some(line) = &arguments.exec {
            plan.job.exec = Some(ExecCommand::parse(line)?);
        }
        plan.encrypt(&arguments.encryption, edge)?;
        let lease = arguments.lease.then_some(LEASE);
        for database in &mut plan.job.databases {
            database.ask(arguments.restore_if_missing, lease);
        }
        for folder in &mut plan.job.directories {
            folder.template.lease = folder.template.lease.or(lease);
        }
        let needed = plan.job.threads_needed();
        plan.job.threads = if needed > 0 { needed + SPARE } else { 0 };
        Ok(plan)
    }

    /// Encrypts what the command line names. A configuration says for itself whom its vaults are for.
    fn encrypt(&mut self, arguments: &EncryptionArguments, edge: &Edge) -> Result<(), Failure> {
        let Some(encryption) = arguments.read(edge)? else { return Ok(()) };
        if self.job.configuration.is_some() {
            let cause = "the configuration says whom its vaults are encrypted for";
            return Err(usage("usage.arguments", "--recipient", cause, "write `encryption` into the configuration"));
        }
        for database in &mut self.job.databases {
            database.encryption = Some(encryption.clone());
        }
        for folder in &mut self.job.directories {
            folder.template.encryption = Some(encryption.clone());
        }
        self.job.registering.encrypt(encryption);
        Ok(())
    }

    fn of_pair(
        source: &Path,
        vault: &str,
        arguments: &ReplicateArguments,
        format: LogFormat,
        edge: &Edge,
    ) -> Result<Self, Failure> {
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
        let place = read_place(vault, &edge.directory)?;
        let mut job = Job {
            databases: Vec::new(),
            directories: Vec::new(),
            once: false,
            also: Also::default(),
            exec: None,
            bound: SHUTDOWN_TIMEOUT,
            sweep: SWEEP_INTERVAL,
            services: Services::default(),
            registering: Registering::plain(&edge.directory, SHUTDOWN_TIMEOUT),
            registry: None,
            told: None,
            version: env!("CARGO_PKG_VERSION"),
            configuration: None,
            upload_limit: None,
            log: (Level::Info, format),
            threads: 0,
            supervised: edge.environment.get("NOTIFY_SOCKET").is_some(),
        };
        if path.is_dir() {
            job.directories.push(folder(path, place, arguments)?);
        } else {
            let of_folders = arguments.recursive || arguments.pattern.is_some();
            if of_folders {
                let cause = "--pattern and --recursive are about a folder, and this is none";
                return Err(usage(
                    "usage.source",
                    &path.display().to_string(),
                    cause,
                    "name a folder, or leave them out",
                ));
            }
            let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
            job.databases.push(DatabaseConfig::new(name, path, place));
        }
        Ok(Self { job, warnings: Vec::new() })
    }

    fn of_config(config: Config, format: LogFormat, edge: &Edge) -> Result<Self, Failure> {
        let file = config.file.display().to_string();
        let comes_later = config.services.socket.is_some() || !config.directories.is_empty();
        if config.databases.is_empty() && !comes_later {
            let next = "list at least one, or name SOURCE and VAULT on the command line";
            return Err(usage("config.no-databases", &file, "it has no databases", next));
        }
        let warning = |warning: seawall_agent::config::Warning| format!("{file}:{}: {}", warning.line, warning.text);
        Ok(Self {
            job: Job {
                databases: config.databases,
                directories: config.directories,
                once: false,
                also: Also::default(),
                exec: config.exec,
                bound: config.shutdown_timeout,
                sweep: config.sweep_interval.unwrap_or(SWEEP_INTERVAL),
                services: config.services,
                registering: config.registering,
                registry: None,
                told: None,
                version: env!("CARGO_PKG_VERSION"),
                configuration: Some(edge.absolute(&config.file)),
                upload_limit: config.upload_limit,
                log: (config.log_level.unwrap_or(Level::Info), config.log_format.unwrap_or(format)),
                threads: 0,
                supervised: edge.environment.get("NOTIFY_SOCKET").is_some(),
            },
            warnings: config.warnings.into_iter().map(warning).collect(),
        })
    }
}

/// The page on the address of the command line, otherwise as the configuration has it.
fn web(address: &str, configured: Option<WebConfig>) -> Result<WebConfig, Failure> {
    let next = "write an address of this machine, such as --web=127.0.0.1:8400";
    let asked = WebConfig::parse(address)
        .ok_or_else(|| usage("usage.arguments", "--web", &format!("`{address}` is no address with a port"), next))?;
    let web = match configured {
        Some(configured) => WebConfig { address: asked.address, ..configured },
        None => asked,
    };
    if !web.is_guarded() {
        let next = "set web.token-file in a configuration, or listen on 127.0.0.1";
        return Err(usage("config.unsafe", "--web", &web.unguarded(), next));
    }
    Ok(web)
}

/// A folder of databases, as the command line names it.
fn folder(dir: PathBuf, vault: VaultUrl, arguments: &ReplicateArguments) -> Result<DirectoryConfig, Failure> {
    let pattern = match &arguments.pattern {
        None => Pattern::any(),
        Some(text) => Pattern::parse(text)
            .ok_or_else(|| usage("usage.arguments", "--pattern", "this is no pattern of file names", "write *.db"))?,
    };
    Ok(DirectoryConfig {
        pattern,
        recursive: arguments.recursive,
        watch: !arguments.once,
        prefix: Some(String::new()),
        state: None,
        template: DatabaseConfig::new(String::new(), dir.clone(), vault),
        dir,
    })
}

/// The folder for databases that are registered through a socket: under the socket's name, in the state folder of the
/// service or of the user. `None` if there is neither.
fn registry(socket: &Path, edge: &Edge) -> Option<PathBuf> {
    Some(state_folder(&edge.environment)?.join(format!("{}.registered.json", name_of(socket))))
}

/// The file that notes what notifications told: under the configuration's name, beside the one of registered databases.
fn told(configuration: &Path, edge: &Edge) -> Option<PathBuf> {
    Some(state_folder(&edge.environment)?.join(format!("{}.told.json", name_of(configuration))))
}

/// A path as the name of one file.
fn name_of(path: &Path) -> String {
    path.display().to_string().trim_start_matches('/').replace('/', "!")
}

async fn carry_out(plan: &Plan, read: Option<Read>, edge: &Edge) -> Result<Summary, Failure> {
    let shutdown = Shutdown::new();
    let signals = Signals::listen().map_err(|error| runtime::no_runtime(&error))?;
    let first = signals.first();
    let reload = Reload { read, hangups: signals.hangups() };
    let forwarding = tokio::spawn(signals.forward(shutdown.clone(), plan.job.exec.is_some()));

    let mut opener = edge.opener(runtime::PROTECTING / 2)?;
    opener.be_on(&edge.hostname);
    opener.note_vaults();
    if !plan.job.once {
        opener.watch(plan.job.sweep);
    }
    if let Some(limit) = plan.job.upload_limit {
        opener.limit_uploads(limit);
    }
    let summary = protect(&Arc::new(opener), &plan.job, &shutdown, first, reload).await;
    let (all_there, farewell) = farewell(&summary.outcomes);
    if all_there {
        tracing::info!("{farewell}");
    } else {
        tracing::warn!("{farewell}");
    }
    forwarding.abort();
    Ok(summary)
}

/// The last message, and whether it reports that everything is in the vault. It does only if at least one database was
/// protected, and all of their changes are in the vault.
fn farewell(outcomes: &[Outcome<Option<Point>>]) -> (bool, String) {
    let count = |is: fn(&Result<Option<Point>, Failure>) -> bool| {
        let counted = outcomes.iter().filter(|outcome| is(&outcome.result)).count();
        table::count(counted, "database")
    };
    let failed = outcomes.iter().any(|outcome| outcome.result.is_err());
    let without = outcomes.iter().any(|outcome| matches!(outcome.result, Ok(None)));
    let mut left_out = Vec::new();
    if failed {
        left_out.push(format!("{} failed", count(Result::is_err)));
    }
    if without {
        let none = count(|result| matches!(result, Ok(None)));
        left_out.push(format!("{none} had nothing to protect yet"));
    }
    match (outcomes.is_empty(), left_out.is_empty()) {
        (true, _) => (false, "nothing was protected: there was no database".to_owned()),
        (false, true) => (true, "everything that was committed is in the vault".to_owned()),
        (false, false) => {
            let there = count(|result| matches!(result, Ok(Some(_))));
            (false, format!("what was committed to {there} is in the vault; {}", left_out.join(", ")))
        }
    }
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
    Output { text, failures, json: json!({ "databases": databases, "exec": child }), exit: exit(summary, once) }
}

/// The program's own exit code, unless it ended well and protection didn't, or all was stopped at once.
fn exit(summary: &Summary, once: bool) -> Exit {
    let results = summary.outcomes.iter().map(|outcome| outcome.result.as_ref().map(drop));
    let databases = match summary.outcomes.is_empty() && !once {
        // All were unregistered or went away before the stop: it left nothing unshipped.
        true => Exit::Done,
        false => Exit::of_all(results),
    };
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
    use seawall_agent::Environment;
    use seawall_core::Kind;

    use super::*;

    #[test]
    fn where_registrations_are_kept() {
        for (variables, expected) in [
            (&[("STATE_DIRECTORY", "/var/lib/seawall:/x"), ("HOME", "/h")][..], Some("/var/lib/seawall")),
            (&[("XDG_STATE_HOME", "/state"), ("HOME", "/h")], Some("/state/seawall")),
            (&[("XDG_STATE_HOME", "relative"), ("HOME", "/h")], Some("/h/.local/state/seawall")),
            (&[], None),
        ] {
            let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            let environment: Environment = variables.iter().map(own).collect();
            let edge = Edge {
                environment,
                directory: "/".into(),
                hostname: String::new(),
                terminal: false,
                has_screen: false,
                identity: None,
                progress: None,
            };
            let expected = expected.map(|state| Path::new(state).join("run!s.sock.registered.json"));
            assert_eq!(registry(Path::new("/run/s.sock"), &edge), expected);
        }
    }

    #[test]
    fn what_is_said_in_the_end() {
        let point = || Ok(Some(Point { position: "1".into(), moment: seawall_core::Moment::default() }));
        let failed = || Err(Failure::new(Kind::Unavailable, "test.code", "o", "c", "n"));
        for (results, all_there, text) in [
            (vec![], false, "nothing was protected: there was no database"),
            (vec![point(), point()], true, "everything that was committed is in the vault"),
            (
                vec![Ok(None)],
                false,
                "what was committed to 0 databases is in the vault; 1 database had nothing to protect yet",
            ),
            (
                vec![point(), failed(), failed(), Ok(None)],
                false,
                "what was committed to 1 database is in the vault; 2 databases failed, 1 database had nothing to protect yet",
            ),
        ] {
            let named = |result| Outcome { name: "a".into(), result };
            let outcomes: Vec<_> = results.into_iter().map(named).collect();
            assert_eq!(farewell(&outcomes), (all_there, text.to_owned()));
        }
    }

    #[test]
    fn no_database_is_nothing_to_do_and_no_failure_of_a_process_that_waits_for_some() {
        let summary = || Summary { outcomes: Vec::new(), child: None };
        assert_eq!((exit(&summary(), true), exit(&summary(), false)), (Exit::NotFound, Exit::Done));
    }

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
            assert_eq!(exit(&Summary { outcomes, child }, false).code(), code, "{case}");
        }
    }
}
