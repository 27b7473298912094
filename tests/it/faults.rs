//! `kill -9` at random moments of every phase, while an application commits. A restore of the vault is always a state
//! that the application had, and no older than the state that was reported as protected.

use std::path::Path;
use std::time::{Duration, Instant};

use seawall_testing::invariants::{self, Look, Seen, Target};
use seawall_tests::{App, Process, Random, Stand, digest, model, protected, wait};

/// When the blow falls.
#[derive(Debug, Clone, Copy)]
enum Phase {
    /// While the program starts, and takes its base if it has none.
    Start,
    /// While it captures under load.
    Capture,
    /// While it captures, and the application makes checkpoints of its own beside Seawall's.
    Checkpoint,
    /// While it empties a WAL that has grown, just after the application rests.
    Seal,
    /// While it takes a base because the WAL was restarted without its hold.
    LaterBase,
    /// While a restore runs.
    Restore,
    /// While it ends gracefully.
    Shutdown,
}

const PHASES: [Phase; 7] =
    [Phase::Start, Phase::Capture, Phase::Checkpoint, Phase::Seal, Phase::LaterBase, Phase::Restore, Phase::Shutdown];
const ROUNDS: u64 = 25;

/// 200 rounds: eight tests, each with a database of its own.
macro_rules! kill_9 {
    ($($name:ident),*) => {
        $(#[test]
        fn $name() {
            let mut random = Random::from_env();
            let stand = Stand::folder(random.draw());
            rounds(&stand, &mut random, ROUNDS);
        })*
    };
}

kill_9! {
    kill_9_in_every_phase_1, kill_9_in_every_phase_2, kill_9_in_every_phase_3, kill_9_in_every_phase_4,
    kill_9_in_every_phase_5, kill_9_in_every_phase_6, kill_9_in_every_phase_7, kill_9_in_every_phase_8
}

#[test]
fn kill_9_with_the_vault_on_s3() {
    let mut random = Random::from_env();
    let stand = Stand::bucket(random.draw());
    rounds(&stand, &mut random, 8);
}

/// A new database with something to copy, killed again and again, and brought to a good end.
fn rounds(stand: &Stand, random: &mut Random, rounds: u64) {
    let mut app = stand.app();
    app.sql("CREATE TABLE ballast(id INTEGER PRIMARY KEY, noise BLOB)");
    app.sql(
        "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 3000) \
         INSERT INTO ballast SELECT i, randomblob(4000) FROM n",
    );
    app.commit(1);
    let mut known = Known::default();
    for round in 0..rounds {
        let phase = if round == 0 { Phase::Start } else { PHASES[random.below(PHASES.len() as u64) as usize] };
        let before = Instant::now();
        strike(stand, &mut app, random, phase, &mut known);
        let (txid, commits) = inspect(stand, &app, &mut known);
        eprintln!(
            "round {round}: {phase:?}, transaction {txid}, {commits} of {} commits, {:?}",
            app.committed(),
            before.elapsed()
        );
    }
    finish(stand, &mut app);
}

/// The facts that must hold from now on.
#[derive(Debug, Default)]
struct Known {
    /// The newest transaction that was reported as protected.
    protected: u64,
    /// The number of commits in the newest restored state.
    commits: u64,
    /// The vault at the last look.
    look: Look,
}

/// Starts the program under load and kills it in a phase.
fn strike(stand: &Stand, app: &mut App, random: &mut Random, phase: Phase, known: &mut Known) {
    let ms = Duration::from_millis;
    if let Phase::LaterBase = phase {
        app.commit(random.below(20));
        app.checkpoint("TRUNCATE");
        app.commit(1 + random.below(20));
    }
    app.flood(random.between(Duration::ZERO, ms(2)));
    let mut seawall = stand.replicate();
    match phase {
        Phase::Start | Phase::LaterBase => wait::pass(random.between(ms(0), ms(150))),
        Phase::Capture => under_way(stand, &mut seawall, random.between(ms(50), ms(900)), known),
        Phase::Checkpoint => {
            under_way(stand, &mut seawall, random.between(ms(20), ms(300)), known);
            app.rest();
            for _ in 0..random.below(6) {
                app.checkpoint(["PASSIVE", "FULL", "RESTART", "TRUNCATE"][random.below(4) as usize]);
                app.commit(random.below(200));
            }
            app.flood(Duration::ZERO);
            wait::pass(random.between(ms(0), ms(300)));
        }
        Phase::Seal => {
            under_way(stand, &mut seawall, ms(50), known);
            wait::until("a large WAL", wait::SOON, || (wal_size(stand) > 6 << 20).then_some(()));
            app.rest();
            wait::pass(random.between(ms(0), ms(80)));
        }
        Phase::Restore => {
            under_way(stand, &mut seawall, ms(50), known);
            kill_a_restore(stand, random.between(ms(0), ms(60)));
        }
        Phase::Shutdown => {
            under_way(stand, &mut seawall, random.between(ms(50), ms(300)), known);
            if random.below(2) == 0 {
                app.rest();
            }
            seawall.terminate();
            wait::pass(random.between(ms(0), ms(60)));
        }
    }
    seawall.kill_9();
    app.rest();
}

/// A restore that is killed leaves no target or a whole one. An old target stays until the new one replaces it.
fn kill_a_restore(stand: &Stand, after: Duration) {
    let (fresh, old) = (stand.new_file(), stand.new_file());
    std::fs::write(&old, b"precious").unwrap();
    for (target, force) in [(&fresh, false), (&old, true)] {
        let mut command = stand.command();
        command.arg("restore").arg(stand.place.url()).arg("-o").arg(target);
        let mut restore = Process::spawn("seawall", if force { command.arg("--force") } else { &mut command });
        wait::pass(after);
        restore.kill_9();
        let found = std::fs::read(target).ok();
        let untouched = found.as_deref() == force.then_some(&b"precious"[..]);
        let target_now = Target { existed: force, forced: force, restored: !untouched, untouched };
        invariants::check(&Seen { target: Some(target_now), ..Seen::default() });
        match std::fs::read(target) {
            Ok(bytes) if bytes == b"precious" => {}
            Ok(_) => assert!(model::check(target, stand.seed) > 0),
            Err(error) => assert!(!force && error.kind() == std::io::ErrorKind::NotFound, "{error}"),
        }
        let _may_be_absent = std::fs::remove_file(target);
    }
}

/// Lets it run for a while, and remembers what it reports as protected.
fn under_way(stand: &Stand, seawall: &mut Process, time: Duration, known: &mut Known) {
    let end = Instant::now() + time;
    wait::until("the base", wait::SOON, || {
        assert!(seawall.running(), "seawall ended by itself");
        (stand.place.newest() > 0).then_some(())
    });
    while Instant::now() < end {
        if let Some(txid) = protected(&stand.status()) {
            assert!(txid >= known.protected, "protected went back from {} to {txid}", known.protected);
            known.protected = txid;
        }
        wait::pass(Duration::from_millis(30).min(end.saturating_duration_since(Instant::now())));
    }
}

fn wal_size(stand: &Stand) -> u64 {
    std::fs::metadata(stand.path("app.db-wal")).map_or(0, |wal| wal.len())
}

/// Restores the vault as it is now. Returns its newest transaction and the commits in it.
fn inspect(stand: &Stand, app: &App, known: &mut Known) -> (u64, u64) {
    if stand.place.files(9).is_empty() && stand.place.newest() == 0 {
        assert_eq!(known.protected, 0, "the vault is empty");
        return (0, 0);
    }
    let newest = stand.place.newest();
    assert!(newest >= known.protected, "transaction {} was protected, {newest} is there", known.protected);
    if newest > 0 {
        stand.place.unbroken();
    }
    let back = stand.restore();
    let commits = model::check(&back, stand.seed);
    assert!(commits <= app.committed() + 1, "{commits} commits are restored, {} were made", app.committed());
    assert!(commits >= known.commits, "{} commits were in the vault, {commits} are", known.commits);
    std::fs::remove_file(back).unwrap();
    if known.protected > 0 {
        let back = stand.restore_txid(known.protected);
        let protected = model::check(&back, stand.seed);
        assert!(protected <= commits);
        std::fs::remove_file(back).unwrap();
    }
    let now = Look::of_folder(&stand.place.root());
    let (reported, states) = (Some(known.protected), Some((known.commits, commits)));
    invariants::check(&Seen { before: Some(&known.look), now: now.clone(), reported, states, ..Seen::default() });
    (known.commits, known.look) = (commits, now);
    (newest, commits)
}

/// Runs undisturbed, ends gracefully: everything is in the vault, with both the ways to ask.
fn finish(stand: &Stand, app: &mut App) {
    let mut seawall = stand.replicate();
    let committed = app.commit(20);
    stand.until_protected(&mut seawall);
    seawall.stop().ok();
    stand.place.unbroken();
    let back = stand.restore();
    assert_eq!(model::check(&back, stand.seed), committed);
    assert_eq!(digest::of(&back), digest::of(&stand.db()));
    stand.seawall(&["verify", &stand.place.url()]).ok();
    // The next write into a folder removes what killed processes left there; this one wrote into level 0.
    assert_eq!(temporary_files(&stand.place.level(0)), 0);
    assert!(temporary_files(&stand.place.level(9)) <= 1);
}

fn temporary_files(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|e| e == "tmp")).count()
}

#[test]
fn the_machine_may_lose_the_state_folder() {
    let mut random = Random::from_env();
    let stand = Stand::folder(random.seed());
    let mut app = stand.app();
    for _ in 0..4 {
        let mut seawall = stand.replicate();
        app.flood(Duration::from_millis(1));
        wait::pass(random.between(Duration::from_millis(200), Duration::from_millis(500)));
        if random.below(2) == 0 {
            seawall.kill_9();
        } else {
            seawall.stop().ok();
        }
        app.rest();
        app.commit(random.below(30));
        std::fs::remove_dir_all(stand.state()).unwrap();
    }
    finish(&stand, &mut app);
}

#[test]
fn the_writer_is_killed_too() {
    let mut random = Random::from_env();
    let stand = Stand::folder(random.seed());
    let mut told = 0;
    for _ in 0..6 {
        let mut app = stand.app();
        assert!(app.committed() >= told, "the application's own commits are kept");
        let mut seawall = stand.replicate();
        app.flood(Duration::ZERO);
        wait::pass(random.between(Duration::from_millis(100), Duration::from_millis(600)));
        app.kill_9();
        told = app.committed();
        if random.below(2) == 0 {
            seawall.kill_9();
        } else {
            seawall.stop().ok();
        }
    }
    let mut app = stand.app();
    finish(&stand, &mut app);
}
