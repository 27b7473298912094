//! A process with stubs, whose configuration is read again.

#![allow(clippy::disallowed_methods, reason = "tests are an edge")]

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use seawall_core::Engine;
use seawall_vault::Environment;

use super::*;
use crate::config::{Config, McpConfig, Services, SocketConfig, Surroundings};
use crate::control::{Registration, Registry};
use crate::fleet::{Fleet, Member};
use crate::services::Outside;
use crate::testing::{Stubs, database, folder, job};

const FILE: &str = "/etc/seawall.yml";

/// What stands in the file now.
type Content = Arc<Mutex<Result<Job, Failure>>>;

struct Scene {
    actions: Arc<Actions>,
    content: Content,
    shutdown: Shutdown,
    folder: tempfile::TempDir,
}

fn configured(names: &[&str]) -> Job {
    Job { configuration: Some(FILE.into()), ..job(names) }
}

impl Scene {
    /// A process with the job, in which everything runs.
    async fn new(job: Job) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let shutdown = Shutdown::new();
        let fleet = Fleet::new(Arc::new(Stubs), shutdown.clone());
        for config in &job.databases {
            let member = Member::open(&Stubs, config.clone(), Origin::Configured, false).await;
            fleet.admit(member).expect("taken in");
        }
        fleet.start_all();
        fleet.live(job.bound, false);
        let content = Content::new(Mutex::new(Ok(job.clone())));
        let from = content.clone();
        let read: Read = Arc::new(move || from.lock().expect("whole").clone().map(|job| (job, Vec::new())));
        let reloader = Reloader::new(Some(read), job.configuration.as_ref());
        let registry = Registry::new(folder.path().join("registered.json"));
        let actions = Actions::new(fleet.clone(), job.registering.clone(), Some(registry), "0").with_reloader(reloader);
        let actions = Arc::new(actions);
        let offered = Offered::begin(&job.services, Outside::none(), &actions, &shutdown).await;
        let followers = Followers::start(Vec::new(), &fleet, &shutdown, job.sweep);
        *actions.reloader().hold().await = Some(Running { job, offered, followers, shutdown: shutdown.clone() });
        Self { actions, content, shutdown, folder }
    }

    fn write(&self, content: Result<Job, Failure>) {
        *self.content.lock().expect("whole") = content;
    }

    async fn reload(&self, job: Job) -> Reloaded {
        self.write(Ok(job));
        reload(&self.actions).await.expect("reloaded")
    }

    fn fleet(&self) -> &Fleet {
        self.actions.fleet()
    }

    fn engine(&self, name: &str) -> Arc<dyn Engine> {
        self.fleet().find(name).and_then(|member| member.engine).expect("an engine")
    }

    /// Each member with who named it and whether it runs.
    fn members(&self) -> Vec<(String, Origin, bool)> {
        self.fleet().all().into_iter().map(|one| (one.config.name, one.origin, one.running)).collect()
    }

    fn status(&self) -> ConfigStatus {
        self.actions.reloader().status().expect("a configuration")
    }
}

fn all_run(names: &[&str]) -> Vec<(String, Origin, bool)> {
    names.iter().map(|name| ((*name).to_owned(), Origin::Configured, true)).collect()
}

fn wrong() -> Failure {
    Failure::new(Kind::Usage, "config.unknown-key", FILE, "no such key", "correct it")
}

#[tokio::test]
async fn databases_come_go_and_change_and_the_rest_is_not_touched() {
    let scene = Scene::new(configured(&["work-1", "work-2", "work-3"])).await;
    let (untouched, changed) = (scene.engine("work-1"), scene.engine("work-2"));
    let mut new = configured(&["work-1", "work-2", "work-4"]);
    new.databases[1].shutdown_timeout = Some(Duration::from_secs(9));
    let done = scene.reload(new.clone()).await;
    assert_eq!((done.status.as_str(), done.file.as_str(), done.same), ("reloaded", FILE, 1));
    assert_eq!(
        (done.added, done.changed, done.removed),
        (vec!["work-4".into()], vec!["work-2".into()], vec!["work-3".into()])
    );
    assert_eq!((done.failed, done.needs_restart), (vec![], vec![]));
    assert_eq!(scene.members(), all_run(&["work-1", "work-2", "work-4"]));
    assert!(Arc::ptr_eq(&untouched, &scene.engine("work-1")) && !Arc::ptr_eq(&changed, &scene.engine("work-2")));
    // Read once more, it changes nothing.
    let engines = ["work-1", "work-2", "work-4"].map(|name| scene.engine(name));
    let done = scene.reload(new).await;
    assert_eq!((done.status.as_str(), done.same), ("unchanged", 3));
    for engine in engines {
        assert!(Arc::ptr_eq(&engine, &scene.engine(&engine.describe().name)));
    }
}

#[tokio::test]
async fn an_error_changes_nothing_and_is_in_the_status_until_it_is_corrected() {
    let scene = Scene::new(configured(&["work-1", "work-2"])).await;
    let (engines, before) = (["work-1", "work-2"].map(|name| scene.engine(name)), scene.status());
    assert_eq!(before.error, None);
    for count in 1..=2 {
        scene.write(Err(wrong()));
        assert_eq!(reload(&scene.actions).await, Err(wrong()));
        let status = scene.status();
        assert_eq!((status.file.as_str(), status.loaded_at), (FILE, before.loaded_at));
        let error = status.error.expect("an error");
        assert_eq!((error.code.as_str(), error.count), ("config.unknown-key", count));
        assert_eq!(scene.members(), all_run(&["work-1", "work-2"]));
    }
    // Two of one name, which only the process knows.
    let mut twice = configured(&["work-1", "work-2", "work-3"]);
    twice.databases[2].name = "work-1".into();
    scene.write(Ok(twice));
    assert_eq!(reload(&scene.actions).await.map_err(|failure| failure.code), Err("agent.duplicate"));
    // Threads can't be added to a process.
    let text = "databases: [{ path: /e, name: shard, vault: /v, lmdb: {} }]";
    let surroundings = Surroundings { environment: &Environment::empty(), directory: Path::new("/"), pid: 1 };
    let config = Config::parse(Path::new(FILE), text, &surroundings, true).expect("a configuration");
    scene.write(Ok(Job { databases: config.databases, ..configured(&[]) }));
    assert_eq!(reload(&scene.actions).await.map_err(|failure| failure.code), Err("agent.needs-restart"));
    for (engine, name) in engines.iter().zip(["work-1", "work-2"]) {
        assert!(Arc::ptr_eq(engine, &scene.engine(name)));
    }
    scene.reload(configured(&["work-1"])).await;
    assert_eq!(scene.status().error, None);
    assert_eq!(scene.members(), all_run(&["work-1"]));
}

#[tokio::test]
async fn names_and_places_are_exchanged() {
    let scene = Scene::new(configured(&["work-1", "work-2", "work-3"])).await;
    let mut new = configured(&["work-1", "work-2", "work-3"]);
    for (index, name) in [(0, "work-2"), (1, "work-1")] {
        new.databases[index].name = name.into();
        new.databases[index].vault = database(name).vault;
    }
    let done = scene.reload(new).await;
    assert_eq!((done.failed, done.same), (vec![], 1));
    let found = |name: &str| scene.fleet().find(name).map(|one| one.config.source());
    assert_eq!(found("work-1"), Some(database("work-2").source()));
    assert_eq!(found("work-2"), Some(database("work-1").source()));
    assert!(scene.members().iter().all(|(_, _, running)| *running));
}

#[tokio::test]
async fn what_fails_fails_alone() {
    let scene = Scene::new(configured(&["work-1", "stubborn-2", "work-3"])).await;
    tokio::time::pause();
    let mut new = configured(&["work-1", "unopened-4", "work-5"]);
    new.bound = Duration::from_secs(7);
    let done = scene.reload(new).await;
    let failed: Vec<_> = done.failed.iter().map(|one| one.failure().code).collect();
    assert_eq!(failed, ["agent.shutdown-timeout", "stub.unopened"]);
    assert!(!done.is_whole());
    // What can't be opened is a member all the same, so that the status shows it.
    let expected = [("work-1", true), ("unopened-4", false), ("work-5", true)];
    assert_eq!(scene.members(), expected.map(|(name, runs)| (name.to_owned(), Origin::Configured, runs)));
    assert_eq!(done.settings, ["shutdown-timeout"]);
    assert_eq!(scene.fleet().bound(), Duration::from_secs(7));
    assert_eq!(scene.status().error, None, "the configuration is right");
}

#[tokio::test]
async fn one_that_an_operator_stopped_stays_so() {
    let scene = Scene::new(configured(&["work-1", "work-2"])).await;
    for name in ["work-1", "work-2"] {
        scene.actions.stop(name, None).await.expect("stopped");
    }
    let mut new = configured(&["work-1", "work-2"]);
    new.databases[1].lease = Some(Duration::from_secs(9));
    assert_eq!(scene.reload(new).await.changed, ["work-2"]);
    assert!(scene.members().iter().all(|(_, _, running)| !running));
    assert_eq!(scene.fleet().find("work-2").and_then(|one| one.config.lease), Some(Duration::from_secs(9)));
}

#[tokio::test]
async fn the_process_lasts_while_every_database_is_exchanged() {
    let scene = Scene::new(configured(&["work-1"])).await;
    let run = scene.fleet().run(Duration::from_secs(5), false);
    tokio::pin!(run);
    let exchanged = async {
        for name in ["work-2", "work-3", "work-2"] {
            scene.reload(configured(&[name])).await;
        }
    };
    tokio::select! {
        biased;
        _ = &mut run => panic!("the process ended"),
        () = exchanged => {}
    }
    assert_eq!(scene.members(), all_run(&["work-2"]));
    scene.shutdown.begin();
    assert_eq!(run.await.len(), 1);
    // Nothing is reloaded in a process that ends.
    assert_eq!(reload(&scene.actions).await.map_err(|failure| failure.code), Err("agent.stopping"));
    assert_eq!(scene.status().error, None);
}

#[tokio::test]
async fn one_reload_comes_after_the_other() {
    let (running, most, reads) =
        (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counts = (running.clone(), most.clone(), reads.clone());
    let read: Read = Arc::new(move || {
        let (running, most, reads) = &counts;
        most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(5));
        running.fetch_sub(1, Ordering::SeqCst);
        let nth = reads.fetch_add(1, Ordering::SeqCst);
        Ok((configured(&["work-1", &format!("work-{}", 2 + nth)]), Vec::new()))
    });
    let mut scene = Scene::new(configured(&["work-1"])).await;
    let reloader = Reloader::new(Some(read), Some(&FILE.into()));
    let in_force = scene.actions.reloader().hold().await.take();
    *reloader.hold().await = in_force;
    let actions = Actions::new(scene.fleet().clone(), job(&[]).registering, None, "0").with_reloader(reloader);
    scene.actions = Arc::new(actions);
    let all = futures::future::join_all((0..4).map(|_| reload(&scene.actions))).await;
    assert!(all.iter().all(Result::is_ok), "{all:?}");
    assert_eq!((most.load(Ordering::SeqCst), reads.load(Ordering::SeqCst)), (1, 4));
    assert_eq!(scene.members(), all_run(&["work-1", "work-5"]));
}

#[tokio::test]
async fn sighup_reads_it_again() {
    let scene = Scene::new(configured(&["work-1"])).await;
    let hangups = watch::Sender::new(0);
    let listening = tokio::spawn(on_hangups(Arc::clone(&scene.actions), hangups.subscribe()));
    for names in [&["work-1", "work-2"][..], &["work-2"]] {
        scene.write(Ok(configured(names)));
        hangups.send_modify(|count| *count += 1);
        let until = async {
            while scene.members() != all_run(names) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), until).await.expect("in time");
    }
    listening.abort();
}

#[tokio::test]
async fn without_a_configuration_there_is_nothing_to_read() {
    let actions = Arc::new(Actions::new(Fleet::new(Arc::new(Stubs), Shutdown::new()), job(&[]).registering, None, "0"));
    assert_eq!(reload(&actions).await.map_err(|failure| failure.code), Err("agent.no-configuration"));
    assert_eq!(actions.reloader().status(), None);
}

#[tokio::test]
async fn what_was_registered_stays_and_follows_the_defaults() {
    let scene = Scene::new(configured(&["work-1"])).await;
    let path = |name: &str| database(name).source().to_string();
    for name in ["work-2", "work-3"] {
        scene.actions.register(&path(name), Some(&format!("/vault/{name}")), Some(name)).await.expect("registered");
    }
    let engine = scene.engine("work-2");
    let done = scene.reload(configured(&["work-1", "work-4"])).await;
    assert_eq!((done.same, done.added.as_slice(), done.removed.len()), (3, &["work-4".to_owned()][..], 0));
    assert!(Arc::ptr_eq(&engine, &scene.engine("work-2")));
    // What is said of all databases holds for them too.
    let mut new = configured(&["work-1", "work-4"]);
    new.registering.lease = Some(Duration::from_secs(30));
    let done = scene.reload(new.clone()).await;
    assert_eq!((done.changed.as_slice(), done.same), (&["work-2".to_owned(), "work-3".to_owned()][..], 2));
    let later = scene.actions.register(&path("work-6"), Some("/vault/6"), Some("work-6")).await.expect("registered");
    assert_eq!(scene.fleet().find(&later.name).and_then(|one| one.config.lease), Some(Duration::from_secs(30)));
    // Named by the configuration, it is one of its own; named no more, it is a registered one again.
    let origin = || scene.fleet().find("work-2").map(|one| (one.origin, one.running));
    let named = scene.fleet().find("work-2").expect("a member").config;
    new.databases.push(named);
    let done = scene.reload(new.clone()).await;
    assert_eq!((done.status.as_str(), origin()), ("unchanged", Some((Origin::Configured, true))));
    new.databases.pop();
    scene.reload(new.clone()).await;
    assert_eq!(origin(), Some((Origin::Registered, true)));
    // A name that is taken refuses the whole of it.
    new.databases.push(DatabaseConfig { name: "work-3".into(), ..database("work-9") });
    scene.write(Ok(new));
    assert_eq!(reload(&scene.actions).await.map_err(|failure| failure.code), Err("agent.duplicate"));
    let registry = Registry::new(scene.folder.path().join("registered.json"));
    let kept: Vec<Registration> = registry.load().expect("a registry");
    assert_eq!(kept.len(), 3);
}

/// A folder of databases whose stubs work.
#[tokio::test]
async fn folders_come_go_and_take_over() {
    let data = tempfile::tempdir().expect("a folder");
    for name in ["a.db", "b.db"] {
        let database = rusqlite::Connection::open(data.path().join(name)).expect("opened");
        database.execute_batch("PRAGMA journal_mode=wal; CREATE TABLE t(a)").expect("made");
    }
    let scene = Scene::new(configured(&["work-1"])).await;
    let origins = || -> Vec<_> { scene.members().into_iter().map(|(name, origin, _)| (name, origin)).collect() };
    let member = |name: &str, origin| (name.to_owned(), origin);
    let (one, a, b) = (
        member("work-1", Origin::Configured),
        member("work-/a.db", Origin::Found),
        member("work-/b.db", Origin::Found),
    );
    for watch in [true, false] {
        let with = Job { directories: vec![folder(data.path(), watch)], ..configured(&["work-1"]) };
        let done = scene.reload(with.clone()).await;
        assert_eq!((done.failed.len(), done.added), (0, vec![a.0.clone(), b.0.clone()]));
        assert_eq!(origins(), [one.clone(), a.clone(), b.clone()]);
        let engine = scene.engine(&b.0);
        // An item of its own counts before the folder, and afterwards the folder again.
        let mut own = with.clone();
        let item = DatabaseConfig::new("work-own".into(), data.path().join("a.db"), database("own").vault);
        own.databases.push(item);
        assert_eq!(scene.reload(own).await.changed, ["work-own"]);
        assert_eq!(origins(), [one.clone(), member("work-own", Origin::Configured), b.clone()]);
        let done = scene.reload(with).await;
        assert_eq!((done.removed, done.added), (vec!["work-own".to_owned()], vec![a.0.clone()]));
        assert_eq!(origins(), [one.clone(), b.clone(), a.clone()]);
        assert!(Arc::ptr_eq(&engine, &scene.engine(&b.0)));
        // What a folder says of its databases.
        let mut slower = folder(data.path(), watch);
        slower.template.lease = Some(Duration::from_secs(9));
        let slower = Job { directories: vec![slower], ..configured(&["work-1"]) };
        assert_eq!(scene.reload(slower).await.changed.len(), 2);
        assert_eq!(scene.reload(configured(&["work-1"])).await.removed.len(), 2);
        assert_eq!(origins(), std::slice::from_ref(&one));
    }
}

#[tokio::test]
async fn services_follow_and_say_what_they_cannot() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("an address");
    let scene = Scene::new(configured(&["work-1"])).await;
    let any = Some("127.0.0.1:0".parse().expect("an address"));
    let with = |services: Services| Job { services, ..configured(&["work-1"]) };
    let done = scene.reload(with(Services { metrics: any, ..Services::default() })).await;
    assert_eq!((done.settings, done.failed.len()), (vec!["metrics-addr".to_owned()], 0));
    let address = taken.local_addr().expect("an address");
    let token = crate::config::Hidden::new("x");
    let mcp = McpConfig { address, token, token_file: None, actions: false };
    let wanted = with(Services { mcp: Some(mcp), socket: Some(SocketConfig::new("/s".into())), ..Services::default() });
    for _ in 0..2 {
        let done = scene.reload(wanted.clone()).await;
        let failed: Vec<_> = done.failed.iter().map(|one| (one.name.as_str(), one.failure().code)).collect();
        assert_eq!(failed, [("mcp-addr", "agent.listen")]);
        assert_eq!(done.needs_restart, ["socket"]);
        assert_eq!(scene.status().needs_restart, ["socket"]);
    }
    // Once the address is free, the next reload listens there.
    drop(taken);
    assert_eq!(scene.reload(wanted).await.failed, []);
    scene.actions.reloader().end().await;
    assert_eq!(reload(&scene.actions).await.map_err(|failure| failure.code), Err("agent.stopping"));
}

/// Meanwhile the control socket answers, other databases are registered and shipped, and the restored one can be
/// removed.
#[tokio::test(start_paused = true)]
async fn a_restore_that_takes_long_holds_nothing_else_up() {
    let scene = Scene::new(configured(&["work-1", "work-2"])).await;
    let mut new = configured(&["work-1", "work-2", "slow", "work-3"]);
    new.databases[2].restore_if_missing = true;
    new.databases[1].shutdown_timeout = Some(Duration::from_secs(9));
    scene.write(Ok(new.clone()));
    let actions = scene.actions.clone();
    let reloading = tokio::spawn(async move { reload(&actions).await });
    let runs = |name: &str| scene.fleet().find(name).is_some_and(|member| member.running);
    let around = async {
        while !["work-1", "work-2", "work-3"].into_iter().all(runs) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(1), around).await.expect("the others come");
    let phases = scene.actions.status(None).await.expect("answered");
    let phases: Vec<_> = phases.into_iter().map(|status| (status.name, status.phase)).collect();
    assert!(phases.contains(&("slow".into(), seawall_core::Phase::Starting)), "{phases:?}");
    let registering = scene.actions.register("/nowhere/at/all/work-9", Some("/vault/9"), Some("work-9"));
    tokio::time::timeout(Duration::from_secs(1), registering).await.expect("answered").expect("registered");
    let sync = async |name: &str| scene.actions.sync(name, true, None).await.map_err(|failure| failure.code);
    assert!(sync("work-1").await.is_ok() && sync("work-2").await.is_ok());
    let slow = scene.fleet().find("slow").expect("a member").config.source();
    assert_eq!(sync("slow").await.map(drop), Err("agent.starting"));
    assert_eq!(scene.fleet().start(&slow).await.map_err(|failure| failure.code), Err("agent.starting"));
    assert_eq!(scene.fleet().remove(&slow, Duration::from_secs(1)).await, Ok(None));
    let done = reloading.await.expect("no panic").expect("reloaded");
    assert_eq!(done.failed.len(), 1, "{:?}", done.failed);
    assert!(scene.fleet().find("slow").is_none());
}

/// There are more databases to restore than are restored at the same time.
#[tokio::test(start_paused = true)]
async fn restores_that_take_long_hold_up_no_folder_and_no_other_database() {
    let data = tempfile::tempdir().expect("a folder");
    let made = rusqlite::Connection::open(data.path().join("a.db")).expect("opened");
    made.execute_batch("PRAGMA journal_mode=wal; CREATE TABLE t(a)").expect("made");
    drop(made);
    let scene = Scene::new(configured(&["work-1"])).await;
    let slow: Vec<String> = (0..20).map(|number| format!("slow-{number}")).collect();
    let mut new = configured(&slow.iter().map(String::as_str).chain(["work-1", "work-2"]).collect::<Vec<_>>());
    for one in new.databases.iter_mut().filter(|one| one.name.starts_with("slow")) {
        one.restore_if_missing = true;
    }
    new.directories = vec![folder(data.path(), true)];
    scene.write(Ok(new));
    let actions = scene.actions.clone();
    let reloading = tokio::spawn(async move { reload(&actions).await });
    let runs = |name: &str| scene.fleet().find(name).is_some_and(|member| member.running);
    let others = async {
        while !["work-1", "work-2", "work-/a.db"].into_iter().all(runs) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), others).await.expect("the others come");
    for name in &slow {
        let one = scene.fleet().find(name).expect("a member");
        assert!(one.coming);
        assert_eq!(scene.fleet().remove(&one.config.source(), Duration::from_secs(1)).await, Ok(None));
    }
    let done = reloading.await.expect("no panic").expect("reloaded");
    assert_eq!(done.failed.len(), slow.len(), "{:?}", done.failed);
}
