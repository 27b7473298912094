//! What holds the locks of a database, seen by another process.

use std::process::Command;

use super::*;

const CHECKPOINTED: &str = "SEAWALL_TEST_CHECKPOINTED";

/// The other process: does nothing in an ordinary run.
#[test]
fn checkpoints_what_it_is_told_to() {
    if let Some(path) = std::env::var_os(CHECKPOINTED) {
        let connection = Connection::open(path).expect("opened");
        let done = connection.query_row(&checkpoint("TRUNCATE"), [], Checkpointed::read).expect("an answer");
        println!("busy: {}", done.busy);
    }
}

fn another_process_is_busy(path: &Path) -> bool {
    let mut command = Command::new(std::env::current_exe().expect("a test knows its own path"));
    command.args(["--exact", "source::tests::checkpoints_what_it_is_told_to", "--nocapture"]);
    let output = command.env(CHECKPOINTED, path).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("busy: "), "{text}");
    text.contains("busy: true")
}

/// A stop at once drops the source while a copier works; closing the plain handles then would drop the copier's locks, and
/// somebody else's checkpoint would restart the WAL under its hands.
#[test]
fn a_copier_keeps_its_locks_when_its_source_goes() {
    let directory = tempfile::tempdir().expect("a folder");
    let path = directory.path().join("app.db");
    let app = Connection::open(&path).expect("opened");
    app.execute_batch("PRAGMA journal_mode=wal; CREATE TABLE t(v); INSERT INTO t VALUES(1)").expect("written");
    let mut kept = KeptFiles::default();
    let mut source = Source::open(&path, Duration::ZERO, &mut kept, Probe::default()).expect("opened");
    app.execute_batch("INSERT INTO t VALUES(2)").expect("written");
    let copier = source.advance().expect("advanced");
    drop((source, kept));
    assert!(another_process_is_busy(&path), "the copier's read lock is gone");
    drop(copier);
    assert!(!another_process_is_busy(&path));
}
