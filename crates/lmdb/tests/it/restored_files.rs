//! Whose restored files are, and whose may be replaced.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;
use std::sync::Arc;

use seawall_core::abilities::*;
use seawall_core::{IntegrityCheck, NoProgress, RestoreRequest, Shutdown, When};
use seawall_lmdb::{EnvOptions, Flags, Lmdb, LmdbOptions, Settings, SyncOptions, system_clock};

use crate::hints::folder_vault;
use crate::neighbours::{neighbour, stop};
use crate::support::{author, dump, open, options, put, schema};

fn engine(folder: &Path, file_mask: Option<u32>) -> Lmdb {
    let options = LmdbOptions {
        path: folder.join("a"),
        env: EnvOptions { file_mask, ..options() },
        settings: Settings::new(schema(false, false)),
        sync: SyncOptions::new(author("a")),
    };
    Lmdb::new(folder_vault(folder), options, system_clock())
}

fn force(output: &Path) -> RestoreRequest {
    let (when, integrity) = (When::Latest, IntegrityCheck::None);
    RestoreRequest { output: output.to_owned(), when, force: true, dry_run: false, integrity }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_file_is_as_private_as_the_one_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, data) = (folder.path(), folder.path().join("a/data.mdb"));
    put(open(&folder.join("a"), &schema(false, false)).env(), "d", Flags::default(), b"k", b"1");
    engine(folder, None).take_point(&Shutdown::new()).await.unwrap();
    let mode = |path: &Path| path.metadata().unwrap().mode() & 0o777;
    let restore = async |file_mask, output: &Path| {
        engine(folder, file_mask).restore(&force(output), Arc::new(NoProgress)).await.unwrap();
    };
    for wanted in [0o600, 0o640, 0o664] {
        std::fs::set_permissions(&data, std::fs::Permissions::from_mode(wanted)).unwrap();
        restore(Some(0o644), &folder.join("a")).await;
        assert_eq!(mode(&data), wanted, "as it was");
    }
    // Only root may give files away.
    if data.metadata().unwrap().uid() == 0 {
        chown(&data, Some(4711), Some(4712)).unwrap();
        restore(None, &folder.join("a")).await;
        let found = data.metadata().unwrap();
        assert_eq!((found.uid(), found.gid(), mode(&data)), (4711, 4712, 0o664));
    }
    // Where only the lock file is left, it says whose the environment was.
    std::fs::remove_file(&data).unwrap();
    std::fs::write(folder.join("a/lock.mdb"), "").unwrap();
    std::fs::set_permissions(folder.join("a/lock.mdb"), std::fs::Permissions::from_mode(0o660)).unwrap();
    restore(None, &folder.join("a")).await;
    assert_eq!(mode(&data), 0o660);
    assert_eq!(dump(open(&folder.join("a"), &schema(false, false)).env())[b"d".as_slice()].1[0].1, b"1");
}

/// An application that reads the environment reads a copy beside it, too, and makes its lock file there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_restored_beside_the_environment_is_the_applications_too() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, a) = (folder.path(), folder.path().join("a"));
    put(open(&a, &schema(false, false)).env(), "d", Flags::default(), b"k", b"1");
    engine(folder, None).take_point(&Shutdown::new()).await.unwrap();
    let is_root = a.metadata().unwrap().uid() == 0;
    for (path, mode) in [(a.clone(), 0o770), (a.join("data.mdb"), 0o660), (a.join("lock.mdb"), 0o640)] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        // Only root may give files away.
        if is_root {
            chown(&path, Some(4711), Some(4712)).unwrap();
        }
    }
    let access = |path: &Path| {
        let found = path.metadata().unwrap();
        (found.uid(), found.gid(), found.mode() & 0o777)
    };
    let (owner, group, _) = access(&a);
    let restored = async |file_mask, name: &str| {
        let output = folder.join(name);
        engine(folder, file_mask).restore(&force(&output), Arc::new(NoProgress)).await.unwrap();
        (access(&output), access(&output.join("data.mdb")))
    };
    let as_it_is = (owner, group, 0o770);
    assert_eq!(restored(None, "new").await, (as_it_is, (owner, group, 0o660)), "a new folder");
    assert_eq!(restored(Some(0o644), "masked").await, (as_it_is, (owner, group, 0o644)), "what the configuration says");
    std::fs::create_dir(folder.join("there")).unwrap();
    let own = access(&folder.join("there"));
    assert_eq!(restored(None, "there").await, (own, (owner, group, 0o660)), "a folder that is there stays as it is");
    std::fs::set_permissions(folder.join("new/data.mdb"), std::fs::Permissions::from_mode(0o604)).unwrap();
    assert_eq!(restored(None, "new").await.1.2, 0o604, "a file that is replaced says it itself");
    // If the data file was lost, the lock file shows it; and without an environment the new file is private.
    std::fs::remove_file(a.join("data.mdb")).unwrap();
    assert_eq!(restored(None, "lost").await.1, (owner, group, 0o640));
    std::fs::remove_dir_all(&a).unwrap();
    assert_eq!(restored(None, "alone").await.1.2, 0o600);
    let made = open(&folder.join("alone"), &schema(false, false));
    assert_eq!(dump(made.env())[b"d".as_slice()].1[0].1, b"1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_environment_that_a_process_has_open_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, a) = (folder.path(), folder.path().join("a"));
    put(open(&a, &schema(false, false)).env(), "d", Flags::default(), b"k", b"1");
    engine(folder, None).take_point(&Shutdown::new()).await.unwrap();
    put(open(&a, &schema(false, false)).env(), "d", Flags::default(), b"k", b"2");
    let refused = async || {
        let failure = engine(folder, None).restore(&force(&a), Arc::new(NoProgress)).await.unwrap_err();
        assert_eq!(failure.code, "lmdb.in-use");
        failure.cause
    };
    let application = neighbour("reader", &a);
    assert_eq!(refused().await, format!("process {} has it open", application.id()));
    stop(application, &a);
    let own = open(&a, &schema(false, false));
    assert_eq!(refused().await, "this process has it open");
    assert_eq!(dump(own.env())[b"d".as_slice()].1[0].1, b"2", "it is as it was");
    drop(own);
    engine(folder, None).restore(&force(&a), Arc::new(NoProgress)).await.unwrap();
    assert_eq!(dump(open(&a, &schema(false, false)).env())[b"d".as_slice()].1[0].1, b"1");
}
