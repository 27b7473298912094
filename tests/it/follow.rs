//! A warm standby that a real SQLite reader reads all the time, killed and started again. Every state that is read is
//! one that the application had, none is older than the one before, and the last is the newest.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use seawall_tests::{App, Process, Random, Stand, digest, model, run, wait};

/// Levels that fill within seconds, and a level 0 that is emptied soon after.
const QUICK_LEVELS: &str = "levels: [{interval: 1s}, {interval: 2s}]\n\
                            snapshot: {interval: 5s, retention: 1h}\n\
                            l0-retention: 2s\n\
                            l0-retention-check-interval: 1s";

/// A process of its own for the locks' sake: a reader with one connection, which checks everything it sees.
struct Reader {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<u64>>,
}

impl Reader {
    fn start(file: &Path, seed: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (path, stopped) = (file.to_owned(), stop.clone());
        let thread = std::thread::spawn(move || {
            let db = digest::open(&path);
            let (mut checks, mut newest) = (0, 0);
            while !stopped.load(Ordering::SeqCst) {
                db.execute_batch("BEGIN").unwrap();
                let commits = model::check_open(&db, &path, seed);
                db.execute_batch("COMMIT").unwrap();
                assert!(commits >= newest, "{newest} commits were read, now {commits}");
                (checks, newest) = (checks + 1, commits);
                wait::pass(Duration::from_millis(5));
            }
            checks
        });
        Self { stop, thread: Some(thread) }
    }

    /// Ends it; how often it has looked.
    fn end(mut self) -> u64 {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.take().map_or(0, |thread| thread.join().unwrap())
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
    }
}

fn follow(stand: &Stand) -> Process {
    let mut command = stand.command();
    command.args(["restore", &stand.place.url(), "-o", "standby.db", "--follow", "--follow-interval", "100ms"]);
    Process::spawn("seawall", &mut command)
}

fn commits(file: &Path) -> u64 {
    if file.exists() { model::commits(&digest::open(file)).unwrap_or(0) } else { 0 }
}

/// Waits until the standby has this commit.
fn until_commit(stand: &Stand, follower: &mut Process, commit: u64) {
    let file = stand.path("standby.db");
    wait::until(&format!("commit {commit} in the standby"), wait::SOON * 2, || {
        assert!(follower.running(), "the follower ended by itself");
        (commits(&file) >= commit).then_some(())
    });
}

#[test]
fn a_standby_is_killed_again_and_again_while_it_is_read() {
    let mut random = Random::from_env();
    killed_again_and_again(&Stand::folder(random.seed()), &mut random, 12);
}

#[test]
fn a_standby_of_a_vault_on_s3_is_killed_again_and_again() {
    let mut random = Random::from_env();
    killed_again_and_again(&Stand::bucket(random.seed()), &mut random, 5);
}

fn killed_again_and_again(stand: &Stand, random: &mut Random, rounds: u32) {
    let mut app = stand.app();
    app.commit(20);
    let mut seawall = stand.replicate_with(&[]);
    stand.until_protected(&mut seawall);
    let standby = stand.path("standby.db");
    let mut follower = follow(stand);
    until_commit(stand, &mut follower, 20);
    let reader = Reader::start(&standby, stand.seed);
    for _ in 0..rounds {
        app.flood(Duration::from_millis(2));
        wait::pass(random.between(Duration::from_millis(10), Duration::from_millis(400)));
        follower.kill_9();
        app.rest();
        if random.below(3) == 0 {
            app.sql("VACUUM");
        }
        follower = follow(stand);
    }
    let committed = app.commit(10);
    stand.until_protected(&mut seawall);
    until_commit(stand, &mut follower, committed);
    assert!(reader.end() > 5);
    seawall.stop().ok();
    let ended = follower.stop().ok();
    assert!(ended.stdout.contains("followed to"), "{ended}");
    assert_eq!(model::check(&standby, stand.seed), committed);
    assert_eq!(digest::of(&standby), digest::of(&stand.db()));
    assert_like_a_restore(stand);
    assert!(!stand.path("standby.db-journal").exists());
}

/// Every page is that of a restore, except for the header fields that SQLite keeps for itself.
fn assert_like_a_restore(stand: &Stand) {
    let plain = |path: &Path| {
        let mut bytes = std::fs::read(path).unwrap();
        for kept in [18..20, 24..32, 92..96] {
            bytes[kept].fill(0);
        }
        bytes
    };
    assert!(plain(&stand.path("standby.db")) == plain(&stand.restore()), "the standby isn't what a restore gives");
}

#[test]
fn what_litestream_writes_is_followed_across_its_levels() {
    let stand = Stand::folder(Random::from_env().seed());
    across_levels(&stand);
}

#[test]
fn what_litestream_writes_to_s3_is_followed_across_its_levels() {
    let stand = Stand::bucket(Random::from_env().seed());
    across_levels(&stand);
}

fn across_levels(stand: &Stand) {
    let mut app = stand.app();
    app.commit(10);
    let mut litestream = stand.litestream(QUICK_LEVELS);
    wait::until("a first object", wait::SOON, || (stand.place.newest() > 0).then_some(()));
    let mut follower = follow(stand);
    until_commit(stand, &mut follower, 10);
    let standby = stand.path("standby.db");
    let reader = Reader::start(&standby, stand.seed);
    app.flood(Duration::from_millis(3));
    app.until(300);
    follower.stop().ok();
    let behind = commits(&standby);
    // Until level 0 begins after the standby's position, so that the standby can't continue from captures.
    let at = followed_to(stand);
    wait::until("level 0 to begin behind the standby", wait::SOON * 2, || {
        stand.place.files(0).first().filter(|(min, _)| *min > at + 1).map(|_| ())
    });
    let mut follower = follow(stand);
    let committed = app.rest();
    assert!(committed > behind);
    until_commit(stand, &mut follower, committed);
    let committed = app.commit(20);
    until_commit(stand, &mut follower, committed);
    reader.end();
    litestream.stop().ok();
    // Litestream may write a last object as it stops, without a commit of the application.
    wait::until("the last object", wait::SOON, || (followed_to(stand) >= stand.place.newest()).then_some(()));
    follower.stop().ok();
    assert_eq!(model::check(&standby, stand.seed), committed);
    assert_like_a_restore(stand);
}

/// The transaction up to which the standby's record says that it followed.
fn followed_to(stand: &Stand) -> u64 {
    let at = std::fs::read_to_string(stand.path(".standby.db-seawall/follow.json")).unwrap();
    let at: serde_json::Value = serde_json::from_str(&at).unwrap();
    u64::from_str_radix(at["next"]["position"].as_str().unwrap(), 16).unwrap()
}

#[test]
fn litestream_follows_what_we_write_and_its_file_is_like_ours() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app: App = stand.app();
    app.commit(20);
    let mut seawall = stand.replicate_with(&[]);
    stand.until_protected(&mut seawall);
    let mut ours = follow(&stand);
    let mut command = stand.litestream_command();
    let theirs_file = stand.path("theirs.db");
    command.args(["restore", "-f", "-follow-interval", "100ms", "-config"]).arg(stand.litestream_yml(""));
    let mut theirs = Process::spawn("litestream", command.arg("-o").arg(&theirs_file).arg(stand.db()));
    wait::until("litestream's first state", wait::SOON, || (commits(&theirs_file) >= 20).then_some(()));
    let committed = app.commit(50);
    until_commit(&stand, &mut ours, committed);
    wait::until("litestream to follow", wait::SOON, || {
        assert!(theirs.running());
        (commits(&theirs_file) >= committed).then_some(())
    });
    seawall.stop().ok();
    ours.stop().ok();
    theirs.stop();
    assert_eq!(digest::of(&stand.path("standby.db")), digest::of(&theirs_file));
}

#[test]
fn a_file_of_somebody_elses_is_refused_and_left_alone() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(5);
    stand.replicate_once();
    let file = stand.restore();
    let before = digest::of_file(&file);
    let mut command = stand.command();
    command.args(["restore", &stand.place.url(), "--follow", "-o"]).arg(&file);
    let refused = run("seawall", &mut command).exits(1);
    assert!(refused.stderr.contains("sqlite.target-exists") && refused.stderr.contains("--force"), "{refused}");
    assert_eq!(digest::of_file(&file), before);
}
