//! The checks of the protection: does a process run, and what does it say of each database? Pure functions.

use std::time::Duration;

use seawall_agent::config::{Config, DatabaseConfig, EngineConfig};
use seawall_core::{Alarm, Failure, Moment, Phase, Severity, Status};

use super::finding::Finding;
use super::{Running, is_absent};
use crate::table;

/// A content that was read back longer ago than this is worth a word.
const READ_BACK: Duration = Duration::from_secs(35 * 24 * 3600);

/// Alarms that say what the phase says already.
const OF_PHASE: [&str; 3] = ["alarm.failing", "alarm.halted", "alarm.stopped"];

/// The version of this program.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What the locks on this machine tell of databases that are files, where no process answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Held {
    /// Databases of the configuration that are files.
    pub(super) files: usize,
    /// Databases among `files` that a process protects now.
    pub(super) held: usize,
}

/// Whether a process protects what the configuration names.
pub(super) fn of_process(config: &Config, running: Result<&Running, Failure>, held: Held) -> Vec<Finding> {
    let file = config.file.display().to_string();
    match running {
        Ok(running) => of_running(&running.version, running.pid),
        Err(failure) if is_absent(&failure) => {
            vec![of_locks(&file, config.services.socket.is_some(), held, &untold(config))]
        }
        Err(failure) => vec![Finding::wrong("process", failure.object, failure.cause, failure.next)],
    }
}

/// Why locks don't tell of a configuration's databases whether a process protects them.
fn untold(config: &Config) -> String {
    let is_server =
        |database: &DatabaseConfig| matches!(database.engine, EngineConfig::Server(_) | EngineConfig::Cluster(_));
    let reasons = [
        (config.databases.iter().any(is_server), "databases of servers leave no lock"),
        (!config.directories.is_empty(), "only a process knows which databases are in the folders (`dir`)"),
    ];
    let reasons: Vec<&str> = reasons.into_iter().filter(|(holds, _)| *holds).map(|(_, reason)| reason).collect();
    if reasons.is_empty() { "the configuration names no database".to_owned() } else { reasons.join(", and ") }
}

/// No process answers: either none runs, or it has no control socket. Then the locks on the files tell. `untold` is why they don't
/// tell of all databases.
fn of_locks(file: &str, has_socket: bool, Held { files, held }: Held, untold: &str) -> Finding {
    const CHECK: &str = "process";
    match (held, has_socket) {
        (1.., false) => {
            let meaning = format!(
                "a process protects {held} of {}; it has no control socket, so its version isn't known",
                table::count(files, "database")
            );
            if held < files {
                let next = "restart it, so that it reads the configuration again: systemctl restart seawall";
                return Finding::warning(CHECK, file, meaning, next);
            }
            Finding::fine(CHECK, file, meaning)
        }
        (1.., true) => {
            let meaning = format!(
                "a process protects {held} of {}, and doesn't answer at the control socket: it began with another configuration, or \
                 its socket was removed",
                table::count(files, "database")
            );
            Finding::warning(CHECK, file, meaning, "restart it: systemctl restart seawall")
        }
        (0, false) if files == 0 => {
            let meaning = format!(
                "the control socket is off, and {untold}, so it can't be told whether a process protects anything"
            );
            let next =
                format!("add `socket: {{}}` to '{file}' and restart the process; or look: systemctl status seawall");
            Finding::warning(CHECK, file, meaning, next)
        }
        (0, _) => {
            let meaning = "no process runs, so nothing protects the databases now";
            let next = format!("seawall replicate --config '{file}', or: systemctl start seawall");
            Finding::wrong(CHECK, file, meaning, next)
        }
    }
}

fn of_running(version: &str, pid: u32) -> Vec<Finding> {
    let object = format!("process {pid}");
    if version.trim_start_matches('v') == VERSION {
        return vec![Finding::fine("process", object, "it runs, and has the version of this program")];
    }
    let meaning = format!("it has version {version}, and this program version {VERSION}");
    vec![Finding::warning("process", object, meaning, "restart it: systemctl restart seawall")]
}

/// A database of which this machine has no record that can be read, while a process protects others.
pub(super) fn of_unrecorded(name: &str, failure: &Failure) -> Finding {
    let meaning = format!("nothing here says that a process protects it: {} ({})", failure.cause, failure.code);
    let next = "if it is new in the configuration, restart the process: systemctl restart seawall";
    Finding::warning("protection", name, meaning, next)
}

/// What a status says of one database. `answers` is whether a process answers at its control socket.
pub(super) fn of_status(status: &Status, answers: bool, now: Moment) -> Vec<Finding> {
    const CHECK: &str = "protection";
    let name = &status.name;
    let mut found = Vec::new();
    let error = status.error.as_ref().map(|error| (format!("{} ({})", error.message, error.code), error.next.clone()));
    match (status.phase, error) {
        (Phase::Halted, error) => {
            let (cause, next) = error.unwrap_or_else(|| unknown(name));
            found.push(Finding::wrong(
                CHECK,
                name,
                format!("protection has stopped until a person acts: {cause}"),
                next,
            ));
        }
        (Phase::Failing, error) => {
            let (cause, next) = error.unwrap_or_else(|| unknown(name));
            found.push(Finding::wrong(CHECK, name, format!("protection fails and is tried again: {cause}"), next));
        }
        (Phase::Stopped, _) => {
            let next = match answers {
                true => format!("seawall start '{name}'"),
                false => "restart the process: systemctl restart seawall".to_owned(),
            };
            found.push(Finding::wrong(CHECK, name, "it is stopped, so nothing protects it", next));
        }
        (_, Some((cause, next))) => found.push(Finding::warning(CHECK, name, cause, next)),
        (Phase::Waiting, None) => {
            let meaning = "its source doesn't exist yet; protection begins as soon as it does";
            found.push(Finding::warning(CHECK, name, meaning, "correct its path, or start the application"));
        }
        (phase, None) => {
            let to = status.protected.as_ref().map(|point| format!(" up to {}", table::ago(point.moment, now)));
            found.push(Finding::fine(CHECK, name, format!("{}{}", phase.name(), to.unwrap_or_default())));
        }
    }
    // That the vault is away doesn't say that its proofs aren't known.
    let says_more = |alarm: &Alarm| alarm.code == "alarm.proof-unknown";
    let is_told = |alarm: &&Alarm| {
        !says_more(alarm) && status.error.as_ref().is_some_and(|error| alarm.cause.contains(&error.message))
    };
    for alarm in status.alarms.iter().filter(|alarm| !is_told(alarm) && !OF_PHASE.contains(&&*alarm.code)) {
        let meaning = format!("{} ({})", alarm.cause, alarm.code);
        found.push(match (alarm.silenced_until, alarm.severity) {
            (Some(until), _) => Finding::fine("alarm", name, format!("{meaning}; silenced until {until}")),
            (None, Severity::Critical) => Finding::wrong("alarm", name, meaning, &alarm.next),
            (None, Severity::Warning) => Finding::warning("alarm", name, meaning, &alarm.next),
        });
    }
    if let Some(read) = status.content_read_at.filter(|read| now.since(*read) > READ_BACK) {
        let meaning = format!("its vault was last read back {}", table::ago(read, now));
        found.push(Finding::warning("content", name, meaning, format!("seawall verify '{name}'")));
    }
    found
}

fn unknown(name: &str) -> (String, String) {
    ("no cause is recorded".to_owned(), format!("look into the log for {name}"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use seawall_agent::config::Surroundings;
    use seawall_core::{Description, Kind, LastError};
    use seawall_vault::Environment;

    use super::super::finding::Verdict::{self, Fine, Warning, Wrong};
    use super::*;

    fn at(phase: Phase) -> Status {
        let database = Description { name: "app".into(), engine: "sqlite", source: None, vault: "file:///v".into() };
        Status::new(database, phase, Moment::from_millis(0))
    }

    fn verdicts(status: &Status, days: i64) -> Vec<(&'static str, Verdict)> {
        let found = of_status(status, true, Moment::from_millis(days * 86_400_000));
        assert!(found.iter().all(|finding| finding.next.is_empty() == (finding.verdict == Fine)), "{found:?}");
        found.iter().map(|finding| (finding.check, finding.verdict)).collect()
    }

    #[test]
    fn what_a_status_means() {
        let failure = Failure::new(Kind::Unavailable, "vault.unavailable", "/v", "away", "wait");
        let error = Some(LastError::new(&failure, Moment::from_millis(0)));
        for (status, expected) in [
            (at(Phase::Protecting), Fine),
            (at(Phase::Base), Fine),
            (at(Phase::Waiting), Warning),
            (Status { error: error.clone(), ..at(Phase::Protecting) }, Warning),
            (Status { error, ..at(Phase::Failing) }, Wrong),
            (at(Phase::Halted), Wrong),
            (at(Phase::Stopped), Wrong),
        ] {
            assert_eq!(verdicts(&status, 0), [("protection", expected)], "{status:?}");
        }
    }

    #[test]
    fn only_a_process_that_answers_is_asked_to_start() {
        for (answers, expected) in
            [(true, "seawall start 'app'"), (false, "restart the process: systemctl restart seawall")]
        {
            assert_eq!(of_status(&at(Phase::Stopped), answers, Moment::from_millis(0))[0].next, expected);
        }
    }

    #[test]
    fn alarms_and_old_readings_are_findings() {
        let alarm = |severity| Alarm {
            code: "alarm.lag".into(),
            severity,
            cause: "it lags".into(),
            next: "wait".into(),
            since: Moment::from_millis(0),
            silenced_until: None,
        };
        let alarms = vec![alarm(Severity::Warning), alarm(Severity::Critical)];
        let status = Status { alarms, content_read_at: Some(Moment::from_millis(0)), ..at(Phase::Protecting) };
        assert_eq!(verdicts(&status, 35), [("protection", Fine), ("alarm", Warning), ("alarm", Wrong)]);
        assert_eq!(verdicts(&status, 36)[3], ("content", Warning));
    }

    #[test]
    fn locks_tell_of_a_process_without_a_socket() {
        for (has_socket, files, held, expected) in [
            (false, 2, 2, Fine),
            // The process is older than a line of the configuration.
            (false, 2, 1, Warning),
            (true, 2, 1, Warning),
            (false, 0, 0, Warning),
            (true, 0, 0, Wrong),
            (false, 1, 0, Wrong),
            (true, 1, 0, Wrong),
        ] {
            let found = of_locks("/etc/seawall.yml", has_socket, Held { files, held }, "why");
            assert_eq!(found.verdict, expected, "{found:?}");
            assert_eq!(found.next.is_empty(), expected == Fine, "{found:?}");
        }
    }

    #[test]
    fn what_locks_do_not_tell_is_named() {
        let environment = Environment::default();
        let surroundings = Surroundings { environment: &environment, directory: Path::new("/"), pid: 1 };
        for (text, expected) in [
            ("databases:\n  - { dir: /d, vault: /v }\n", &["the folders"][..]),
            ("databases:\n  - { name: a, url: postgres://u@h/a, schedule: '0 3 * * *', vault: /v }\n", &["servers"]),
            (
                "databases:\n  - { dir: /d, vault: /v }\n  - { name: a, url: postgres://u@h/a, schedule: '0 3 * * *', vault: /w }\n",
                &["servers", "the folders"],
            ),
        ] {
            let config = Config::parse(Path::new("/etc/seawall.yml"), text, &surroundings, true).expect(text);
            let told = untold(&config);
            for word in ["servers", "the folders"] {
                assert_eq!(told.contains(word), expected.contains(&word), "{text}: {told}");
            }
        }
    }

    #[test]
    fn another_version_is_to_be_restarted() {
        for (version, expected) in [(VERSION, Fine), ("0.0.1-other", Warning)] {
            assert_eq!(of_running(version, 1)[0].verdict, expected, "{version}");
        }
    }
}
