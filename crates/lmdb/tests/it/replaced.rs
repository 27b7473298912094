//! Data files that are replaced, removed or written over while they are kept in step.

use std::path::Path;
use std::time::Duration;

use seawall_core::Failure;
use seawall_lmdb::{Flags, Local, Session, SessionStatus, Settings, SyncOptions};

use crate::hints::{Running, folder_vault};
use crate::neighbours::neighbour;
use crate::support::{author, dump, open, options, put, schema};

/// With events, and without them.
fn both_ways(name: &str) -> [SyncOptions; 2] {
    let often = Duration::from_millis(20);
    let polled = SyncOptions { poll: often, list: often, retry: often, ..SyncOptions::new(author(name)) };
    let watcher = seawall_host::Watcher::start(Duration::from_secs(86_400)).expect("inotify");
    let evented = SyncOptions { watcher: Some(watcher), ..polled.clone() };
    [polled, evented]
}

fn make(folder: &Path, name: &str, key: &[u8]) {
    put(open(&folder.join(name), &schema(false, false)).env(), "d", Flags::default(), key, b"value");
}

fn keys(session: &Session) -> Vec<Vec<u8>> {
    let all = dump(session.local().unwrap().env());
    all[b"d".as_slice()].1.iter().map(|(key, _)| key.clone()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_file_in_its_place_is_told_and_kept_in_step_from_then_on() {
    for how in both_ways("a") {
        let folder = tempfile::tempdir().unwrap();
        let (vault, folder) = (folder_vault(folder.path()), folder.path());
        make(folder, "a", b"old");
        make(folder, "restored", b"new");
        let mut session = Running::start(folder, "a", &vault, how);
        session.until("the first snapshot", |status| status.start.is_over()).await;
        std::fs::rename(folder.join("restored/data.mdb"), folder.join("a/data.mdb")).unwrap();
        std::fs::remove_file(folder.join("a/lock.mdb")).unwrap();
        session.until("it to be noticed", |status| status.replaced == 1).await;
        session.until("it to go on", |status| status.rounds.1 == status.rounds.0 && status.failure.is_none()).await;
        // Written by another process, to the file that has the name now.
        crate::shared::elsewhere("put", &folder.join("a"));
        let (session, ended) = session.end().await;
        ended.unwrap();
        assert_eq!(keys(&session), [b"k".to_vec(), b"new".to_vec(), b"old".to_vec()]);
        drop(session);
        let other = SyncOptions { only_once: true, ..SyncOptions::new(author("b")) };
        let (other, ended) = Running::start(folder, "b", &vault, other).end().await;
        ended.unwrap();
        assert_eq!(keys(&other), [b"k".to_vec(), b"new".to_vec(), b"old".to_vec()], "all of it is in the vault");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_file_that_is_removed_is_left_for_the_one_that_others_take() {
    for how in both_ways("a") {
        let folder = tempfile::tempdir().unwrap();
        let (vault, folder) = (folder_vault(folder.path()), folder.path());
        make(folder, "a", b"old");
        let mut session = Running::start(folder, "a", &vault, how);
        let rests = |status: &SessionStatus| status.start.is_over() && status.rounds.1 == status.rounds.0;
        session.until("the first snapshot", rests).await;
        std::fs::remove_file(folder.join("a/lock.mdb")).unwrap();
        // The other process makes a lock file of its own.
        crate::shared::elsewhere("put", &folder.join("a"));
        let (session, ended) = session.end().await;
        ended.unwrap();
        assert_eq!(keys(&session), [b"k".to_vec(), b"old".to_vec()]);
        drop(session);
        let other = SyncOptions { only_once: true, ..SyncOptions::new(author("b")) };
        let (other, ended) = Running::start(folder, "b", &vault, other).end().await;
        ended.unwrap();
        assert_eq!(keys(&other), [b"k".to_vec(), b"old".to_vec()], "all of it is in the vault");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_gone_is_told_until_there_is_a_new_one_and_a_stop_says_so() {
    for how in both_ways("a") {
        for comes_back in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let (vault, folder) = (folder_vault(folder.path()), folder.path());
            make(folder, "a", b"old");
            let mut session = Running::start(folder, "a", &vault, how.clone());
            session.until("the first snapshot", |status| status.start.is_over()).await;
            for file in ["a/data.mdb", "a/lock.mdb"] {
                std::fs::remove_file(folder.join(file)).unwrap();
            }
            let is_gone = |code: Option<&str>| code == Some("lmdb.gone");
            session
                .until("it to be told", |status| is_gone(status.failure.as_ref().map(|failure| failure.0.code)))
                .await;
            assert!(!folder.join("a/data.mdb").exists(), "only the application makes another one");
            if !comes_back {
                assert_eq!(session.end().await.1.unwrap_err().code, "lmdb.gone");
                continue;
            }
            make(folder, "fresh", b"new");
            std::fs::rename(folder.join("fresh/data.mdb"), folder.join("a/data.mdb")).unwrap();
            session.until("it to go on", |status| status.replaced == 1 && status.failure.is_none()).await;
            let (session, ended) = session.end().await;
            ended.unwrap();
            assert_eq!(keys(&session), [b"new".to_vec(), b"old".to_vec()]);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_cut_is_told_and_a_whole_copy_in_it_is_kept_in_step() {
    for how in both_ways("a") {
        let folder = tempfile::tempdir().unwrap();
        let (vault, folder) = (folder_vault(folder.path()), folder.path());
        make(folder, "a", b"old");
        let (data, copy) = (folder.join("a/data.mdb"), folder.join("copy"));
        std::fs::copy(&data, &copy).unwrap();
        for n in 0..200_u32 {
            make(folder, "a", &n.to_be_bytes());
        }
        let mut session = Running::start(folder, "a", &vault, how);
        session.until("the first snapshot", |status| status.start.is_over() && status.sent.is_some()).await;
        // An uncut read may be under way while the file is cut, so that the session rests first.
        session.until("rest", |status| status.rounds.1 == status.rounds.0).await;
        let lock = std::fs::metadata(&data).unwrap().len();
        std::fs::OpenOptions::new().write(true).open(&data).unwrap().set_len(lock - 4096).unwrap();
        let is_cut = |status: &SessionStatus| status.failure.as_ref().is_some_and(|found| found.0.code == "lmdb.cut");
        session.until("it to be told", is_cut).await;
        // A copy that is put back by writing over the file.
        std::fs::copy(&copy, &data).unwrap();
        session.until("it to go on", |status| status.replaced == 1 && status.failure.is_none()).await;
        let (session, ended) = session.end().await;
        ended.unwrap();
        assert!(keys(&session).contains(&b"old".to_vec()));
    }
}

/// In the middle of a read nothing can be saved: the process says why, and ends with a code of its own.
#[test]
fn a_file_that_is_cut_during_a_read_ends_the_process_with_a_line() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path(), "a", b"k");
    let a = folder.path().join("a");
    let mut child = neighbour("cut", &a);
    std::fs::OpenOptions::new().write(true).open(a.join("data.mdb")).unwrap().set_len(0).unwrap();
    std::fs::write(a.join("stop"), "").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(135));
}

/// Otherwise a service manager would start the process again and again.
#[test]
fn the_process_after_it_opens_no_file_whose_pages_are_missing() {
    let folder = tempfile::tempdir().unwrap();
    let a = folder.path().join("a");
    for n in 0..200_u32 {
        make(folder.path(), "a", &n.to_be_bytes());
    }
    let data = a.join("data.mdb");
    let whole = std::fs::read(&data).unwrap();
    let mut child = neighbour("cut", &a);
    std::fs::write(&data, &whole[..8192]).unwrap();
    std::fs::write(a.join("stop"), "").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(135));
    let opened = Local::open(&a, &options(), Settings::new(schema(false, false)));
    assert_eq!(Failure::from(opened.unwrap_err()).code, "lmdb.cut");
    std::fs::write(&data, &whole).unwrap();
    assert_eq!(dump(open(&a, &schema(false, false)).env())[b"d".as_slice()].1.len(), 200);
}
