//! The sessions of a process that keeps environments in step. They come, go and change when the configuration is read
//! again, which SIGHUP asks for.
//!
//! [`changes`] decides, from what is wanted before and now. An error in the configuration changes nothing and is told
//! in the log. A session that ends because of a reload ends as at a stop of the process: it sends what was committed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use seawall_core::{Failure, Kind, Shutdown};
use seawall_lmdb::Report;
use tokio::sync::watch;
use tokio::time::sleep;

use super::{InStep, Process};
use crate::config::{LightningConfig, LmdbConfig};
use crate::process::Outcome;
use crate::process::logging::{self, Level};

/// How long a session may take to end because of a reload, before it is dropped.
const ENDING: Duration = Duration::from_secs(30);

/// Reads the configuration again, with what the command line adds. Blocks.
pub type ReadInStep = Arc<dyn Fn() -> Result<(LightningConfig, InStep), Failure> + Send + Sync>;

/// How the configuration is read again, and when.
#[derive(Clone)]
pub struct InStepReload {
    /// How.
    pub read: ReadInStep,
    /// Counts how often SIGHUP came.
    pub hangups: watch::Receiver<u64>,
    /// For how many environments the process has threads.
    pub room: usize,
}

/// The environments that are to be kept in step, and how.
#[derive(Clone)]
pub(super) struct Wanted {
    pub(super) config: Arc<LightningConfig>,
    pub(super) how: Arc<InStep>,
}

impl Wanted {
    pub(super) fn new(config: LightningConfig, how: InStep) -> Self {
        Self { config: Arc::new(config), how: Arc::new(how) }
    }

    fn database(&self, name: &str) -> Option<&LmdbConfig> {
        self.config.databases.iter().find(|database| database.name == name)
    }
}

/// What a new configuration changes, by the names of environments.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Changes {
    added: Vec<String>,
    removed: Vec<String>,
    changed: Vec<String>,
    /// Settings that hold only after a restart.
    restart: Vec<&'static str>,
}

/// Compares what was wanted with what is wanted now. What is said of all environments changes each of them.
fn changes(old: &Wanted, new: &Wanted) -> Changes {
    // What sessions don't read must not stop them.
    let common = |wanted: &Wanted| LightningConfig {
        databases: Vec::new(),
        http: None,
        health: old.config.health,
        log_level: None,
        log_format: None,
        ..(*wanted.config).clone()
    };
    let all_change = common(old) != common(new) || old.how != new.how;
    let mut changes = Changes::default();
    for database in &new.config.databases {
        match old.database(&database.name) {
            None => changes.added.push(database.name.clone()),
            Some(before) if all_change || before != database => changes.changed.push(database.name.clone()),
            Some(_) => {}
        }
    }
    let gone = old.config.databases.iter().filter(|database| new.database(&database.name).is_none());
    changes.removed = gone.map(|database| database.name.clone()).collect();
    let process = [
        ("http", old.config.http != new.config.http),
        ("health", old.config.health != new.config.health),
        ("log.format", old.config.log_format != new.config.log_format),
    ];
    changes.restart = process.into_iter().filter(|(_, is)| *is).map(|(name, _)| name).collect();
    changes
}

/// All sessions of a process.
pub(super) struct Sessions<'a> {
    process: &'a Process<'a>,
    wanted: Wanted,
    running: FuturesUnordered<BoxFuture<'a, Outcome<Report>>>,
    /// What stops each session that runs.
    stops: BTreeMap<String, Shutdown>,
    /// The environments whose sessions begin again once they have ended.
    again: BTreeSet<String>,
    ended: BTreeMap<String, Outcome<Report>>,
}

impl<'a> Sessions<'a> {
    /// Begins a session for each environment.
    pub(super) fn start(process: &'a Process<'a>, wanted: Wanted) -> Self {
        let mut sessions = Self {
            process,
            wanted: wanted.clone(),
            running: FuturesUnordered::new(),
            stops: BTreeMap::new(),
            again: BTreeSet::new(),
            ended: BTreeMap::new(),
        };
        wanted.config.databases.iter().for_each(|database| sessions.begin(&database.name));
        sessions
    }

    /// Runs all sessions to their ends, and reads the configuration again at each SIGHUP meanwhile. Returns how the
    /// sessions ended that are wanted in the end.
    pub(super) async fn run(mut self, mut reload: Option<InStepReload>) -> Vec<Outcome<Report>> {
        // The sessions go on while the configuration is read: its disk may not answer.
        let mut reading: Option<BoxFuture<'static, Result<Wanted, Failure>>> = None;
        while !self.running.is_empty() {
            tokio::select! {
                Some(outcome) = self.running.next() => self.end(outcome),
                () = hung_up(&mut reload), if reading.is_none() => {
                    reading = reload.as_ref().map(|reload| read_again(Arc::clone(&reload.read), reload.room).boxed());
                }
                read = read_to_end(&mut reading) => {
                    reading = None;
                    self.take(read);
                }
            }
        }
        let mut ended = self.ended;
        self.wanted.config.databases.iter().filter_map(|database| ended.remove(&database.name)).collect()
    }

    fn begin(&mut self, name: &str) {
        let (process, wanted, stop) = (self.process, self.wanted.clone(), self.process.shutdown.child());
        let Some(database) = wanted.database(name).cloned() else { return };
        self.stops.insert(name.to_owned(), stop.clone());
        let session = async move {
            let outcome = process.outcome(&wanted, &database, &stop);
            tokio::pin!(outcome);
            tokio::select! {
                outcome = &mut outcome => outcome,
                () = overdue(&stop, process.shutdown) => {
                    stop.abort();
                    outcome.await
                }
            }
        };
        self.running.push(session.boxed());
    }

    fn end(&mut self, outcome: Outcome<Report>) {
        let name = outcome.name.clone();
        self.stops.remove(&name);
        if self.again.remove(&name) && !self.process.shutdown.requested() {
            return self.begin(&name);
        }
        self.ended.insert(name, outcome);
    }

    /// Follows a configuration that was read, if it has no error.
    fn take(&mut self, read: Result<Wanted, Failure>) {
        match read {
            Ok(new) => self.follow(new),
            Err(failure) => tracing::error!(
                code = failure.code,
                next = failure.next,
                "the configuration was not reloaded, and nothing changed: {failure}"
            ),
        }
    }

    fn follow(&mut self, new: Wanted) {
        if self.process.shutdown.requested() {
            return;
        }
        let Changes { added, removed, changed, restart } = changes(&self.wanted, &new);
        let level = |wanted: &Wanted| wanted.config.log_level.unwrap_or(Level::Info);
        if level(&new) != level(&self.wanted) {
            logging::set_level(level(&new));
        }
        // What waits for a restart is compared with the next configuration again.
        let kept = LightningConfig {
            http: self.wanted.config.http,
            health: self.wanted.config.health,
            log_format: self.wanted.config.log_format,
            ..(*new.config).clone()
        };
        self.wanted = Wanted { config: Arc::new(kept), how: new.how };
        for name in &removed {
            self.again.remove(name);
            self.stop(name);
            self.process.board.goes(name);
        }
        for name in &added {
            self.process.board.comes(name);
        }
        for name in changed.iter().chain(&added) {
            // A session that is still ending begins again under the same name.
            if self.stops.contains_key(name) {
                self.again.insert(name.clone());
                self.stop(name);
            } else {
                self.ended.remove(name);
                self.begin(name);
            }
        }
        let (added, removed, changed) = (added.len(), removed.len(), changed.len());
        tracing::info!(added, changed, removed, "the configuration was reloaded");
        if !restart.is_empty() {
            tracing::warn!(settings = ?restart, "these settings hold only after a restart");
        }
    }

    fn stop(&self, name: &str) {
        if let Some(stop) = self.stops.get(name) {
            stop.begin();
        }
    }
}

/// Returns when SIGHUP came.
async fn hung_up(reload: &mut Option<InStepReload>) {
    if let Some(InStepReload { hangups, .. }) = reload
        && hangups.changed().await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

/// Reads the configuration again. Blocks nothing.
async fn read_again(read: ReadInStep, room: usize) -> Result<Wanted, Failure> {
    let read = tokio::task::spawn_blocking(move || read()).await;
    let read = read.unwrap_or_else(|_| Err(crate::process::defect("configuration")));
    read.and_then(|(config, how)| check_room(config, how, room))
}

/// What a reading came to; never returns where none is under way.
async fn read_to_end<T>(reading: &mut Option<BoxFuture<'static, T>>) -> T {
    match reading {
        Some(reading) => reading.await,
        None => std::future::pending().await,
    }
}

/// Returns when a session was asked to end by a reload, and takes too long.
async fn overdue(stop: &Shutdown, whole: &Shutdown) {
    stop.graceful().await;
    if whole.requested() {
        std::future::pending::<()>().await;
    }
    sleep(ENDING).await;
}

/// Each environment needs threads, of which a process has a number that was set at its start.
fn check_room(config: LightningConfig, how: InStep, room: usize) -> Result<Wanted, Failure> {
    let needed = config.databases.len();
    if needed <= room {
        return Ok(Wanted::new(config, how));
    }
    Err(Failure::new(
        Kind::Refused,
        "agent.needs-restart",
        "configuration",
        format!("it has {needed} environments, and this process was started with threads for {room}"),
        "restart the process",
    ))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use seawall_vault::Environment;

    use super::*;
    use crate::config::Surroundings;

    fn wanted(text: &str, instance: &str) -> Wanted {
        let environment = Environment::empty();
        let surroundings = Surroundings { environment: &environment, directory: Path::new("/"), pid: 1 };
        let config = LightningConfig::parse(Path::new("/l.yaml"), text, &surroundings).expect(text);
        let how = InStep {
            instance: instance.to_owned(),
            hostname: "h".to_owned(),
            receive_only: false,
            only_once: false,
            marker_file: None,
            version: "0",
        };
        Wanted::new(config, how)
    }

    /// The disk of the configuration doesn't answer. The sessions still run, and the process ends.
    #[tokio::test]
    async fn sessions_go_on_while_the_configuration_is_read() {
        let (folder, vault) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let text = format!(
            "lmdbs: {{ a: {{ path: {}/a, options: {{ create: true }} }} }}\n\
             storage: {{ type: fs, options: {{ root_path: {} }} }}\n",
            folder.path().display(),
            vault.path().display()
        );
        let old = wanted(&text, "i");
        let how = InStep { only_once: true, ..(*old.how).clone() };
        let (answer, answers) = std::sync::mpsc::channel::<()>();
        let answers = std::sync::Mutex::new(answers);
        let read: ReadInStep = Arc::new(move || {
            let _ = answers.lock().map(|answers| answers.recv());
            Err(Failure::new(Kind::Usage, "config.syntax", "l.yaml", "it was told to", "nothing"))
        });
        let (hup, hangups) = watch::channel(0);
        hup.send_replace(1);
        let (environment, shutdown, clock) = (Environment::empty(), Shutdown::new(), seawall_lmdb::system_clock());
        let board = super::super::Board::new(["a"].into_iter(), old.config.health, clock.clone(), "h", "0");
        let process = Process {
            environment: &environment,
            clock,
            shutdown: &shutdown,
            board: &board,
            watcher: None,
            shown: false,
        };
        let sessions = Sessions::start(&process, Wanted { how: Arc::new(how), ..old });
        let run = sessions.run(Some(InStepReload { read, hangups, room: 4 }));
        let ended = tokio::time::timeout(Duration::from_secs(60), run).await;
        // If the reading began, it ends now.
        drop(answer);
        let ended = ended.expect("the session waits for the configuration");
        assert_eq!(ended.len(), 1);
        assert!(ended[0].result.is_ok(), "{:?}", ended[0].result);
    }

    #[test]
    fn what_comes_goes_changes_and_stays() {
        let text = |lmdbs: &str, more: &str| {
            format!("lmdbs: {{ {lmdbs} }}\nstorage: {{ type: fs, options: {{ root_path: /v }} }}\n{more}\n")
        };
        let (a, b) = ("a: { path: /a }", "b: { path: /b }");
        let old = wanted(&text(&format!("{a}, {b}"), ""), "i");
        for (lmdbs, more, instance, expected) in [
            (format!("{b}, {a}"), "", "i", ["", "", ""]),
            (a.to_owned(), "", "i", ["", "b", ""]),
            (format!("{a}, {b}, c: {{ path: /c }}"), "", "i", ["c", "", ""]),
            (format!("{a}, b: {{ path: /c }}"), "", "i", ["", "", "b"]),
            (format!("{a}, {b}"), "storage_poll_interval: 2s", "i", ["", "", "a b"]),
            (format!("{a}, {b}"), "", "j", ["", "", "a b"]),
            (format!("{a}, {b}"), "log: { level: debug }", "i", ["", "", ""]),
        ] {
            let found = changes(&old, &wanted(&text(&lmdbs, more), instance));
            let told = [&found.added, &found.removed, &found.changed].map(|names| names.join(" "));
            assert_eq!(told, expected, "{lmdbs} {more}");
            assert_eq!(found.restart, [""; 0]);
        }
        let page = changes(&old, &wanted(&text(&format!("{a}, {b}"), "http: { address: ':1' }"), "i"));
        assert_eq!(page, Changes { restart: vec!["http"], ..Changes::default() });
    }
}
