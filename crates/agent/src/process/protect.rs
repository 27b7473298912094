//! One run of the whole process: restore what is missing, then protect everything, or take one point of each, with
//! the application as a child where one is given.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use seawall_core::{Failure, IntegrityCheck, Journal, Kind, Point, RestoreRequest, Restored, Shutdown, TaskKind, When};
use seawall_engines::{ask, files_needed};
use tokio::sync::{Semaphore, watch};

use crate::Opener;
use crate::config::{DatabaseConfig, DirectoryConfig, Registering, Services};
use crate::control::{Actions, Registry};
use crate::fleet::{self, Databases, Fleet, Member, Origin};
use crate::folders::{Follower, Followers};
use crate::process::child::{self, ExecCommand};
use crate::process::logging::{Level, LogFormat};
use crate::process::signals::Stop;
use crate::process::supervisor;
use crate::process::{self, Also, Outcome};
use crate::proving;
use crate::reload::{self, Reload, Reloader, Running};
use crate::services::resources;
use crate::services::{Offered, Outside};

/// What to do.
#[derive(Debug, Clone)]
pub struct Job {
    /// The databases that are named.
    pub databases: Vec<DatabaseConfig>,
    /// The folders whose databases are meant.
    pub directories: Vec<DirectoryConfig>,
    /// Take one point of each and end, instead of going on until a stop.
    pub once: bool,
    /// What else a run that takes one point of each does.
    pub also: Also,
    /// The program to run under protection.
    pub exec: Option<ExecCommand>,
    /// How long a graceful stop may take.
    pub bound: Duration,
    /// How often everything is looked at even if no event came.
    pub sweep: Duration,
    /// What the process offers while it protects.
    pub services: Services,
    /// What a database gets that is registered while the process runs.
    pub registering: Registering,
    /// The file in which registered databases are kept; `None` forgets them with the process.
    pub registry: Option<PathBuf>,
    /// The file that notes what notifications told; `None` forgets it with the process.
    pub told: Option<PathBuf>,
    /// The version that the process tells.
    pub version: &'static str,
    /// The configuration that all this was read from, if it was.
    pub configuration: Option<PathBuf>,
    /// At most this many bytes a second are written to all vaults together.
    pub upload_limit: Option<u64>,
    /// How much is logged, and in what form.
    pub log: (Level, LogFormat),
    /// The threads for blocking work that the runtime has for environments and servers.
    pub threads: usize,
    /// Whether systemd started the process and wants to hear how it stands: `NOTIFY_SOCKET` is in the environment.
    pub supervised: bool,
}

impl Job {
    /// Whether the process goes on when no database runs: databases may still come, or a program runs.
    pub(crate) fn is_lasting(&self) -> bool {
        let followed = self.directories.iter().any(|folder| folder.watch);
        followed || self.services.socket.is_some() || self.services.mcp.is_some() || self.exec.is_some()
    }

    /// The threads for blocking work that its environments and servers need, beside those of the process.
    pub fn threads_needed(&self) -> usize {
        let threads = || self.databases.iter().map(DatabaseConfig::threads);
        let own: usize = threads().map(|threads| threads.own).sum();
        own + threads().map(|threads| threads.shared).max().unwrap_or(0)
    }
}

/// How a run ended.
#[derive(Debug)]
pub struct Summary {
    /// Each member with the last point that is durable, in the order they were given.
    pub outcomes: Vec<Outcome<Option<Point>>>,
    /// The program's exit code, or why it could not run. `None` where there was none, or it was never started.
    pub child: Option<Result<u8, Failure>>,
}

/// Does the job until it is done or `shutdown`. `first` tells of the first signal, which a child gets to see before
/// the databases stop.
pub async fn protect(
    opener: &Arc<Opener>,
    job: &Job,
    shutdown: &Shutdown,
    first: watch::Receiver<Option<Stop>>,
    reload: Reload,
) -> Summary {
    let outside = Outside::new(Arc::clone(opener), job.told.clone());
    carry_out(Arc::new(Arc::clone(opener)), job, (outside, reload), shutdown, first).await
}

async fn carry_out(
    databases: Arc<dyn Databases>,
    job: &Job,
    (outside, Reload { read, hangups }): (Outside, Reload),
    shutdown: &Shutdown,
    mut first: watch::Receiver<Option<Stop>>,
) -> Summary {
    let registry = job.registry.clone().filter(|_| job.services.socket.is_some()).map(Registry::new);
    let (mut members, mut followers) = gather(&*databases, job, registry.as_ref()).await;
    // Where there is nothing to restore a signal that came already doesn't count here: what is committed is shipped.
    let (turns, journal) = (Semaphore::new(1), databases.journal());
    let opener = databases.prover();
    let restored = tokio::select! {
        biased;
        () = restore_missing(&mut members, &turns, (&journal, opener.as_deref())) => true,
        () = stopped(&mut first, shutdown) => false,
    };
    if !restored {
        return Summary { outcomes: members.into_iter().map(interrupted).collect(), child: None };
    }
    if job.exec.is_some()
        && let Some(failure) = unrestored(&members).await
    {
        // The application would make a new database in place of the one that could not be restored.
        tracing::error!(code = failure.code, object = failure.object, "the program is not started");
        let outcomes = members.into_iter().map(not_started).collect();
        return Summary { outcomes, child: None };
    }
    if job.once {
        let engines: Vec<_> = members.iter().filter_map(|member| member.engine.as_ref().ok().cloned()).collect();
        let points = process::take_points(&engines, job.also, shutdown, job.bound).await;
        let points = points.into_iter().map(|outcome| outcome.result.map(Some)).collect();
        let mut outcomes = merge(members, points);
        // A file of a folder that can't be protected is no database with a name, and still wasn't shipped.
        let unusable = followers.iter_mut().flat_map(Follower::take_unusable);
        outcomes.extend(unusable.map(|failure| Outcome { name: failure.object.clone(), result: Err(failure) }));
        return Summary { outcomes, child: None };
    }
    if let Err((room, files)) = resources::make_room(members.len()) {
        let needed = files_needed(u64::try_from(members.len()).unwrap_or(u64::MAX));
        tracing::error!(
            code = "sqlite.no-room",
            files,
            needed,
            room,
            databases = members.len(),
            next = format!("raise the limit to {needed} (LimitNOFILE= of the unit, ulimit -n)"),
            "so few files may be open that there is room for {room} databases: the others wait, and are not protected"
        );
    }
    let fleet = Fleet::new(databases, shutdown.clone());
    for member in members {
        if let Err(failure) = fleet.admit(member) {
            tracing::error!(code = failure.code, next = failure.next, "not protected: {failure}");
        }
    }
    let reloader = Reloader::new(read, job.configuration.as_ref());
    let actions = Actions::new(fleet.clone(), job.registering.clone(), registry, job.version).with_reloader(reloader);
    let actions = Arc::new(actions);
    let mut turn = actions.reloader().hold().await;
    let offered = Offered::begin(&job.services, outside, &actions, shutdown).await;
    followers.iter_mut().for_each(|follower| follower.tell_beginning(&fleet));
    followers.retain(Follower::follows);
    let followers = Followers::start(followers, &fleet, shutdown, job.sweep);
    *turn = Some(Running { job: job.clone(), offered, followers, shutdown: shutdown.clone() });
    drop(turn);
    let hangups = tokio::spawn(reload::on_hangups(Arc::clone(&actions), hangups));
    let proving = proving::start(&actions, shutdown);
    let supervised = supervisor::start(&fleet, shutdown, job.supervised);
    let summary = run(&fleet, job, shutdown, first).await;
    hangups.abort();
    proving.end().await;
    drop(supervised);
    actions.reloader().end().await;
    summary
}

/// Opens every database that is named, registered or found, each once, and begins to follow folders.
async fn gather(databases: &dyn Databases, job: &Job, registry: Option<&Registry>) -> (Vec<Member>, Vec<Follower>) {
    let mut wanted: Vec<(DatabaseConfig, Origin)> =
        job.databases.iter().map(|config| (config.clone(), Origin::Configured)).collect();
    wanted.extend(registered(job, registry).into_iter().map(|config| (config, Origin::Registered)));
    let mut followers = Vec::new();
    for config in &job.directories {
        let mut follower = Follower::new(config.clone(), job.sweep);
        wanted.extend(follower.begin().await.into_iter().map(|config| (config, Origin::Found)));
        followers.push(follower);
    }
    let (mut members, mut seen) = (Vec::with_capacity(wanted.len()), HashSet::new());
    for (config, origin) in wanted {
        // Who is named in the configuration comes before who is found.
        if seen.insert(config.source()) {
            members.push(Member::open(databases, config, origin, job.once).await);
        }
    }
    (members, followers)
}

/// What earlier processes were asked to protect.
fn registered(job: &Job, registry: Option<&Registry>) -> Vec<DatabaseConfig> {
    let all = match registry.map(Registry::load) {
        None => return Vec::new(),
        Some(Ok(all)) => all,
        Some(Err(failure)) => {
            tracing::error!(code = failure.code, next = failure.next, "registered databases are lost: {failure}");
            return Vec::new();
        }
    };
    let config = |one: crate::control::Registration| {
        let config = job.registering.database(&one.path, one.vault.as_deref(), one.name.as_deref());
        config.inspect_err(|failure| tracing::error!(code = failure.code, "not protected: {failure}")).ok()
    };
    all.into_iter().filter_map(config).collect()
}

async fn run(fleet: &Fleet, job: &Job, shutdown: &Shutdown, mut first: watch::Receiver<Option<Stop>>) -> Summary {
    fleet.start_all();
    let child = async {
        let command = job.exec.as_ref()?;
        tokio::select! {
            biased;
            () = stopped(&mut first, shutdown) => {
                shutdown.begin();
                return None;
            }
            () = child::settled(fleet, shutdown) => {}
        }
        let code = child::run(command, shutdown, first, || fleet.bound()).await;
        shutdown.begin();
        Some(code)
    };
    let (outcomes, child) = tokio::join!(fleet.run(job.bound, job.is_lasting()), child);
    Summary { outcomes, child }
}

/// Restores every member whose file is missing and whose vault has something. A vault without anything is a new
/// start; any other failure takes the member out, because a fresh database would contradict what the vault holds. So
/// does a disk that doesn't say whether the file is missing. A restore waits for one of the `turns`, and with a lease for that one. Of several
/// vaults the `opener` finds the one to restore from, and it is a new start only if all of them can be looked at.
pub(crate) async fn restore_missing(
    members: &mut [Member],
    turns: &Semaphore,
    (journal, opener): (&Journal, Option<&Opener>),
) {
    for member in members {
        let Ok(engine) = &member.engine else { continue };
        match is_missing(&member.config).await {
            Ok(true) => {}
            Ok(false) => continue,
            Err(failure) => {
                process::log_failure(&member.config.name, &failure);
                member.engine = Err(failure);
                continue;
            }
        }
        let _turn = turns.acquire().await;
        let Some(output) = member.config.path() else { continue };
        let request = RestoreRequest {
            output: output.to_owned(),
            when: When::Latest,
            force: false,
            dry_run: false,
            integrity: IntegrityCheck::None,
        };
        let task = journal.begin(TaskKind::Restore, &member.config.name, &output.display().to_string());
        let config = &member.config;
        let restore = async |request: &RestoreRequest| -> Result<Restored, Failure> {
            let Some(opener) = opener.filter(|_| !config.beside.is_empty()) else {
                return ask::files(&**engine)?.restore(request, task.progress()).await;
            };
            // What the process before ships until it gives the lease back is restored, too.
            if config.lease.is_some() && !request.dry_run {
                ask::files(&**engine)?.turn().await?;
            }
            let one = |one: DatabaseConfig| {
                let progress = task.progress();
                async move { ask::files(&*opener.database(&one).await?)?.restore(request, progress).await }
            };
            let (choice, restored) = opener.with_newest(config, &request.when, one).await?;
            choice.tell();
            Ok(restored)
        };
        let mut restored = restore(&request).await;
        if restored.is_err() && is_missing(&member.config).await == Ok(false) {
            // The application made its file meanwhile. That is a new start only if the vault holds nothing.
            restored = match restore(&RestoreRequest { force: true, dry_run: true, ..request.clone() }).await {
                Err(failure) if holds_nothing(&failure) => Err(failure),
                _ => restored,
            };
        }
        let is_new = restored.as_ref().is_err_and(holds_nothing);
        let point = match &restored {
            Err(_) if is_new => Ok(None),
            restored => restored.as_ref().map(|restored| Some(&restored.point)).map_err(Failure::clone),
        };
        task.end(&point, |point| match point {
            Some(point) => format!("its file was missing, and is {}", point.position),
            None => "its file was missing, and the vault holds nothing: a new start".to_owned(),
        });
        match restored {
            Ok(restored) => tracing::info!(
                database = member.config.name,
                point = restored.point.position,
                bytes = restored.bytes,
                "restored the missing database"
            ),
            Err(failure) if holds_nothing(&failure) => {
                tracing::info!(
                    database = member.config.name,
                    "the vault holds nothing to restore; this is a new start"
                );
            }
            Err(failure) => {
                process::log_failure(&member.config.name, &failure);
                member.engine = Err(failure);
            }
        }
    }
}

/// Whether a restore failed because the vault holds nothing. A bucket that doesn't exist (`vault.missing`) says nothing about that: its
/// name may be wrong.
fn holds_nothing(failure: &Failure) -> bool {
    failure.kind == Kind::NotFound
}

/// Why the first database whose file is still missing could not be restored; `None` if every file is there.
async fn unrestored(members: &[Member]) -> Option<&Failure> {
    for member in members {
        if let Err(failure) = &member.engine
            && is_missing(&member.config).await.unwrap_or(true)
        {
            return Some(failure);
        }
    }
    None
}

/// How long a disk may take to say whether a file is there.
const ANSWER: Duration = Duration::from_secs(10);

/// Whether it is to be restored, because its file is missing. The process has one thread for everything that answers,
/// so that another thread asks.
///
/// # Errors
/// When the disk doesn't answer. The file may be missing then, and an application would begin a new database.
async fn is_missing(database: &DatabaseConfig) -> Result<bool, Failure> {
    let Some(file) = database.data_file().filter(|_| database.restore_if_missing) else { return Ok(false) };
    let asked = file.clone();
    let asked = tokio::task::spawn_blocking(move || std::fs::symlink_metadata(asked).is_err());
    answer(&file, async { asked.await.ok() }).await
}

/// What a disk says of a file, if it answers.
async fn answer(file: &Path, asked: impl Future<Output = Option<bool>>) -> Result<bool, Failure> {
    let answer = tokio::time::timeout(ANSWER, asked).await;
    answer.ok().flatten().ok_or_else(|| fleet::hangs_at(file))
}

/// Returns at the first signal, or when a stop is asked for otherwise.
async fn stopped(first: &mut watch::Receiver<Option<Stop>>, shutdown: &Shutdown) {
    tokio::select! {
        () = shutdown.graceful() => {}
        Ok(_) = first.wait_for(Option::is_some) => {}
    }
}

/// The outcomes of all members in their order: the results of the opened members, and the failures of the others.
fn merge(members: Vec<Member>, results: Vec<Result<Option<Point>, Failure>>) -> Vec<Outcome<Option<Point>>> {
    let mut results = results.into_iter();
    let outcome = |member: Member| {
        let result = member.engine.and_then(|_| results.next().unwrap_or(Ok(None)));
        Outcome { name: member.config.name, result }
    };
    members.into_iter().map(outcome).collect()
}

fn interrupted(member: Member) -> Outcome<Option<Point>> {
    let failure = process::interrupted(&member.config.name);
    Outcome { name: member.config.name, result: member.engine.and(Err(failure)) }
}

fn not_started(member: Member) -> Outcome<Option<Point>> {
    let failure = Failure::new(
        Kind::Unavailable,
        "agent.not-started",
        &member.config.name,
        "not protected, because the program was not started",
        "cure what keeps the other database from being restored, then start again",
    );
    Outcome { name: member.config.name, result: member.engine.and(Err(failure)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, Stubs};

    fn job(names: &[&str], exec: Option<&str>) -> Job {
        Job { exec: exec.map(|line| ExecCommand::parse(line).expect("a command")), ..testing::job(names) }
    }

    async fn protected(job: &Job, signal: Option<Stop>) -> (Vec<String>, Option<u8>) {
        let shutdown = Shutdown::new();
        let first = watch::Sender::new(signal);
        let reload = Reload { read: None, hangups: watch::Sender::new(0).subscribe() };
        let summary = carry_out(Arc::new(Stubs), job, (Outside::none(), reload), &shutdown, first.subscribe()).await;
        let told = |outcome: Outcome<Option<Point>>| match outcome.result {
            Ok(point) => point.map_or("none".into(), |point| point.position),
            Err(failure) => failure.code.to_owned(),
        };
        (summary.outcomes.into_iter().map(told).collect(), summary.child.and_then(Result::ok))
    }

    const POINT: &str = "0000000000000001";

    #[tokio::test]
    async fn once_takes_a_point_of_each() {
        let mut job = Job { once: true, ..job(&["work-a", "unopened", "fail", "work-d"], None) };
        job.databases[3].restore_if_missing = true;
        let (told, child) = protected(&job, None).await;
        assert_eq!(told, [POINT, "stub.unopened", "stub.failed", POINT]);
        assert_eq!(child, None);
    }

    #[tokio::test]
    async fn the_childs_end_ends_all() {
        let job = job(&["work", "fail", "unopened"], Some("sh -c 'exit 5'"));
        let (told, child) = protected(&job, None).await;
        assert_eq!(told, [POINT, "stub.failed", "stub.unopened"]);
        assert_eq!(child, Some(5));
    }

    #[tokio::test]
    async fn no_child_beside_a_database_that_could_not_be_restored() {
        let mut job = job(&["work", "fail"], Some("true"));
        job.databases[1].restore_if_missing = true;
        let (told, child) = protected(&job, None).await;
        assert_eq!(told, ["agent.not-started", "stub.failed"]);
        assert_eq!(child, None);
    }

    /// The application would begin a new database in place of the one in the vault.
    #[tokio::test(start_paused = true)]
    async fn a_disk_that_does_not_answer_says_nothing_of_a_missing_file() {
        let file = Path::new("/hung/a.db");
        let silent = answer(file, std::future::pending()).await;
        assert_eq!(silent.map_err(|failure| (failure.code, failure.object)), Err((fleet::HANGS, "/hung/a.db".into())));
        assert_eq!(answer(file, async { Some(true) }).await, Ok(true));
        assert_eq!(answer(file, async { Some(false) }).await, Ok(false));
    }

    /// The application would begin a new database, and protect it into nowhere, if a name is misspelt.
    #[test]
    fn a_bucket_that_does_not_exist_is_no_empty_vault() {
        for (kind, code, expected) in [
            (Kind::NotFound, "sqlite.nothing-there", true),
            (Kind::Refused, "vault.missing", false),
            (Kind::Unavailable, "vault.vanished", false),
            (Kind::Unavailable, "vault.unavailable", false),
        ] {
            assert_eq!(holds_nothing(&Failure::new(kind, code, "o", "c", "n")), expected, "{code}");
        }
        let missing = seawall_vault::Error::Missing { object: "s3://b".into(), cause: "it isn't there".into() };
        assert!(!holds_nothing(&missing.into()));
    }

    #[tokio::test]
    async fn a_signal_before_the_child_starts() {
        let (told, child) = protected(&job(&["work"], Some("sleep 100")), Some(Stop::Terminate)).await;
        assert!(told == [POINT] || told == ["agent.interrupted"], "{told:?}");
        assert_eq!(child, None);
    }
}
