//! Another process tries to restart and to remove a held WAL: with grips, and with connections alone.

use std::os::unix::fs::MetadataExt;
use std::process::Command;

use rusqlite::Connection;

use super::*;
use crate::identity::WalPosition;
use crate::probe::Intruder;
use crate::wal::{HEADER_SIZE, Salts, Scan};

const TOLD: &str = "SEAWALL_TEST_TOLD";

/// The other process: does nothing in an ordinary run. Answers each statement with its first value.
#[test]
fn does_what_it_is_told_to() {
    let Some(told) = std::env::var_os(TOLD) else { return };
    let told = told.into_string().expect("text");
    let mut told = told.split('|');
    let connection = Connection::open(told.next().expect("a path")).expect("opened");
    for statement in told {
        let value = connection.query_row(statement, [], |row| row.get::<_, rusqlite::types::Value>(0));
        println!("answer: {value:?}");
    }
}

/// The answers of SQLite to another process, which ends after that.
fn another_process(path: &Path, statements: &[&str]) -> Vec<String> {
    let mut command = Command::new(std::env::current_exe().expect("a test knows its own path"));
    command.args(["--exact", "live::source::tests::does_what_it_is_told_to", "--nocapture"]);
    let told = [&[path.to_str().expect("a plain path")], statements].concat().join("|");
    let output = command.env(TOLD, told).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let answers: Vec<_> = text.lines().filter_map(|line| Some(line.split_once("answer: ")?.1.to_owned())).collect();
    assert_eq!(answers.len(), statements.len(), "{text}");
    answers
}

/// Whether the hold prevents another process's checkpoint from cutting the WAL.
fn another_process_is_busy(path: &Path) -> bool {
    let answers = another_process(path, &["PRAGMA wal_checkpoint(TRUNCATE)"]);
    assert!(["Ok(Integer(0))", "Ok(Integer(1))"].contains(&answers[0].as_str()), "{answers:?}");
    answers[0] == "Ok(Integer(1))"
}

struct WithoutGrips;

impl Intruder for WithoutGrips {
    fn has_grips(&self) -> bool {
        false
    }
}

struct Stage {
    path: PathBuf,
    app: Connection,
    kept: KeptFiles,
    source: Source,
    _directory: tempfile::TempDir,
}

impl Stage {
    fn new(grips: bool) -> Self {
        let directory = tempfile::tempdir().expect("a folder");
        let path = directory.path().join("app.db");
        let app = Connection::open(&path).expect("opened");
        app.execute_batch("PRAGMA journal_mode=wal; PRAGMA wal_autocheckpoint=0; CREATE TABLE t(v)").expect("made");
        let probe = if grips { Probe::default() } else { Probe::new(Arc::new(WithoutGrips)) };
        let mut kept = KeptFiles::default();
        let source = Source::open(&path, Duration::ZERO, &mut kept, probe).expect("opened");
        assert_eq!(matches!(source.hold, Hold::Grip(_)), grips, "no locks of open files on this system?");
        Self { path, app, kept, source, _directory: directory }
    }

    fn commit(&self) {
        self.app.execute_batch("INSERT INTO t VALUES(1)").expect("committed");
    }

    fn salts(&mut self) -> Salts {
        self.source.wal_header().expect("read").expect("a WAL").salts
    }

    /// Empties the WAL, as a seal does.
    fn seal(&mut self) {
        let barrier = self.source.barrier().expect("asked").expect("no program writes");
        let copied = self.source.advance().expect("advanced").copy().expect("copied");
        assert_eq!(copied, crate::checkpoint::Copied::All);
        self.source.release(&barrier).expect("released");
    }
}

/// An immediate stop drops the source while a copier works. If that closed the plain handles, the copier's connection would
/// lose its locks, and another process's checkpoint would restart the WAL during the copying.
#[test]
fn a_copier_keeps_its_locks_when_its_source_goes() {
    for grips in [true, false] {
        let Stage { path, app, kept, mut source, _directory } = Stage::new(grips);
        app.execute_batch("INSERT INTO t VALUES(2)").expect("written");
        let copier = source.advance().expect("advanced");
        drop((source, kept));
        assert!(another_process_is_busy(&path), "the copier's read lock is gone, grips: {grips}");
        drop(copier);
        assert!(!another_process_is_busy(&path), "grips: {grips}");
    }
}

#[test]
fn a_hold_stands_until_its_source_goes() {
    for grips in [true, false] {
        let mut stage = Stage::new(grips);
        stage.commit();
        let salts = stage.salts();
        let leave = "PRAGMA journal_mode=delete";
        let answers = another_process(&stage.path, &["PRAGMA wal_checkpoint(RESTART)", leave]);
        assert_eq!(answers[0], "Ok(Integer(1))", "grips: {grips}");
        assert!(answers[1].contains("locked"), "{answers:?}, grips: {grips}");
        stage.commit();
        assert_eq!(stage.salts(), salts, "the WAL was restarted, grips: {grips}");
        // When another process closes its last connection, it copies and removes the WAL, unless the WAL is held.
        drop(stage.app);
        another_process(&stage.path, &["INSERT INTO t VALUES(1) RETURNING 1"]);
        stage.source.check_identity().expect("the WAL is there");
        assert_eq!(stage.source.wal_header().expect("read").map(|header| header.salts), Some(salts));
        drop((stage.source, stage.kept));
        assert!(!another_process_is_busy(&stage.path), "grips: {grips}");
        assert!(!sidecar(&stage.path, "-wal").exists(), "it was the last one");
    }
}

/// Code in this process may open and close the database file. POSIX locks don't survive that; grips do.
#[test]
fn a_grip_outlives_other_handles_on_its_files() {
    let stage = Stage::new(true);
    stage.commit();
    for file in [stage.path.clone(), sidecar(&stage.path, "-shm"), sidecar(&stage.path, "-wal")] {
        drop(File::open(file).expect("opened"));
    }
    // The application's locks in this process were dropped just now; the grip was not.
    assert!(another_process_is_busy(&stage.path));
}

#[test]
fn after_a_seal_the_next_commit_begins_anew_and_is_held() {
    for grips in [true, false] {
        let mut stage = Stage::new(grips);
        for round in 0..3 {
            stage.commit();
            let before = stage.salts();
            stage.seal();
            stage.commit();
            let after = stage.salts();
            assert_ne!(before, after, "the WAL was not let go in round {round}, grips: {grips}");
            assert!(another_process_is_busy(&stage.path), "round {round}, grips: {grips}");
            stage.commit();
            assert_eq!(stage.salts(), after, "restarted with frames in it, round {round}, grips: {grips}");
        }
        assert_eq!(matches!(stage.source.hold, Hold::Grip(_)), grips);
    }
}

/// Two sources of one database, as when a session begins while the work of the last one still ends: neither releases the
/// other's hold.
#[test]
fn holds_through_the_same_handles_are_counted() {
    let mut stage = Stage::new(true);
    stage.commit();
    let second = Source::open(&stage.path, Duration::ZERO, &mut stage.kept, Probe::default()).expect("opened");
    drop(stage.source);
    assert!(another_process_is_busy(&stage.path), "the first one's end let both go");
    drop(second);
    assert!(!another_process_is_busy(&stage.path), "handles that are kept hold nothing");
}

#[test]
fn a_wal_that_was_replaced_during_a_rest_is_noticed() {
    let mut stage = Stage::new(true);
    stage.commit();
    let path = sidecar(&stage.path, "-wal");
    stage.source.rest();
    assert!(stage.source.wal.file.is_none(), "no time of birth on this file system?");
    stage.source.check_identity().expect("nothing happened");
    assert!(stage.source.wal_header().expect("opened again").is_some());
    stage.source.rest();
    // Most file systems give the number of a deleted file to the next one.
    let (content, number) = (std::fs::read(&path).expect("read"), std::fs::metadata(&path).expect("there").ino());
    let same_number = (0..1000).any(|_| {
        std::fs::remove_file(&path).expect("removed");
        std::fs::write(&path, &content).expect("written");
        std::fs::metadata(&path).expect("there").ino() == number
    });
    assert!(matches!(stage.source.check_identity(), Err(Error::Vanished { .. })), "same number: {same_number}");
    assert!(matches!(stage.source.wal_header(), Err(Error::Vanished { .. })), "same number: {same_number}");
}

#[test]
fn the_wal_index_tells_of_commits_without_the_wal() {
    let mut stage = Stage::new(true);
    let after = |stage: &mut Stage| {
        let header = stage.source.wal_header().expect("read").expect("a WAL");
        let (scan, _) = stage.source.scan(&header, Scan::new(HEADER_SIZE, header.chain), u64::MAX).expect("scanned");
        WalPosition { salts: header.salts, offset: scan.end, chain: Some(scan.chain) }
    };
    stage.commit();
    assert!(!stage.source.is_quiet(None).expect("read"));
    let captured = after(&mut stage);
    assert!(stage.source.is_quiet(Some(&captured)).expect("read"));
    stage.commit();
    assert!(!stage.source.is_quiet(Some(&captured)).expect("read"));
    let captured = after(&mut stage);
    stage.seal();
    assert!(stage.source.is_quiet(Some(&captured)).expect("read"));
    stage.commit();
    assert!(!stage.source.is_quiet(Some(&captured)).expect("read"), "a new generation");
}

/// How many frames an application's checkpoint finds in the WAL, and how many of them are copied after it.
fn passive(app: &Connection) -> (i64, i64) {
    app.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| Ok((row.get(1)?, row.get(2)?))).expect("an answer")
}

/// If SQLite doesn't see at once how far it may copy, it sorts all frames at every commit of an application with its
/// defaults. Then commits take longer, the larger the WAL is.
#[test]
fn a_hold_before_the_wal_moves_behind_its_first_frames() {
    for grips in [true, false] {
        let mut stage = Stage::new(grips);
        stage.commit();
        stage.seal();
        stage.source.step_inside().expect("nothing to do");
        assert!(!stage.source.inside, "there is no frame, grips: {grips}");
        assert!(stage.source.copy_ahead().expect("nothing to do").is_none(), "grips: {grips}");

        stage.commit();
        let (first, copied) = passive(&stage.app);
        assert_eq!(copied, 0, "the hold stands before everything, grips: {grips}");
        stage.source.step_inside().expect("stepped inside");
        stage.commit();
        let (frames, copied) = passive(&stage.app);
        assert!(frames > first && copied == first, "{copied} of {frames}, not {first}, were copied, grips: {grips}");
        assert!(another_process_is_busy(&stage.path), "grips: {grips}");

        let copier = stage.source.copy_ahead().expect("moved on").expect("there are frames to copy");
        assert_eq!(copier.copy().expect("copied"), crate::checkpoint::Copied::All, "grips: {grips}");
        assert!(stage.source.copy_ahead().expect("nothing to do").is_none(), "grips: {grips}");
        assert!(another_process_is_busy(&stage.path), "grips: {grips}");
        let salts = stage.salts();
        stage.commit();
        assert_eq!(stage.salts(), salts, "the WAL was restarted, grips: {grips}");
    }
}
