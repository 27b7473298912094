//! Environments that several handles and processes share.

use std::path::Path;
use std::process::Command;

use seawall_lmdb::{Env, EnvOptions, Error, Flags, Meaning, Stamp};

use crate::support::{NOW, delete, dump, open, options, put, schema, snapshot};

#[test]
fn a_process_opens_an_environment_once() {
    let folder = tempfile::tempdir().unwrap();
    let env = Env::open(folder.path(), &options()).unwrap();
    assert!(matches!(Env::open(folder.path(), &options()), Err(Error::OpenTwice { .. })));
    drop(env);
    Env::open(folder.path(), &options()).unwrap();
}

#[test]
fn nothing_is_made_where_nothing_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    for no_subdir in [true, false] {
        let options = EnvOptions { no_subdir, ..EnvOptions::default() };
        assert!(matches!(Env::open(&folder.path().join("x"), &options), Err(Error::Missing { .. })));
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    std::fs::write(folder.path().join("x"), vec![7; 9000]).unwrap();
    let options = EnvOptions { no_subdir: true, ..EnvOptions::default() };
    let error = Env::open(&folder.path().join("x"), &options).expect_err("no LMDB");
    assert_eq!(error.meaning(), Some(Meaning::Corrupt), "{error}");
}

#[test]
fn a_transaction_that_is_dropped_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let env = Env::open(folder.path(), &options()).unwrap();
    put(&env, "d", Flags::default(), b"k", b"v");
    let before = dump(&env);
    for _ in 0..3 {
        let mut txn = env.write().unwrap();
        let dbi = txn.create(b"other", Flags::INTEGER_KEY).unwrap();
        txn.put(dbi, &7_u32.to_ne_bytes(), b"v").unwrap();
        assert!(txn.changed());
    }
    assert_eq!(dump(&env), before);
    // The handle of the DBI that never was is gone with it.
    put(&env, "other", Flags::default(), b"any key", b"v");
    assert_eq!(dump(&env)[&b"other".to_vec()].0, 0);
}

#[test]
fn a_dbi_that_was_dropped_and_made_again_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let env = Env::open(folder.path(), &options()).unwrap();
    put(&env, "d", Flags::default(), b"key", b"v");
    assert!(env.read().unwrap().open(b"d").unwrap().is_some());
    elsewhere("drop", folder.path());
    assert!(env.read().unwrap().open(b"d").unwrap().is_none(), "dropped by another process");
    elsewhere("make", folder.path());
    let flags = env.read().unwrap().open(b"d").unwrap().unwrap().flags();
    assert_eq!(flags, Flags::INTEGER_KEY, "made again with other flags");
    put(&env, "d", Flags::INTEGER_KEY, &2_u32.to_ne_bytes(), b"w");
    assert_eq!(dump(&env)[&b"d".to_vec()].1.len(), 2);
}

#[test]
fn a_map_that_another_process_grew_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let options = EnvOptions { create: true, map_size: Some(1 << 20), ..EnvOptions::default() };
    let env = Env::open(folder.path(), &options).unwrap();
    put(&env, "d", Flags::default(), b"ours", b"v");
    elsewhere("grow", folder.path());
    assert_eq!(dump(&env)[&b"d".to_vec()].1.len(), 9001);
    put(&env, "d", Flags::default(), b"more", &vec![1; 100_000]);
    assert!(env.info().unwrap().map_size > 1 << 20);
}

#[test]
fn the_slots_of_dead_readers_are_freed() {
    let folder = tempfile::tempdir().unwrap();
    let env = Env::open(folder.path(), &options()).unwrap();
    put(&env, "d", Flags::default(), b"k", b"v");
    // Without that, pages that the dead reader saw would never be used again, and in the end no slot would be left.
    let slots = env.info().unwrap().readers.1;
    for _ in 0..3 {
        elsewhere("die", folder.path());
        put(&env, "d", Flags::default(), b"k", b"w");
    }
    let (used, all) = env.info().unwrap().readers;
    assert!(used <= 1 && all == slots, "{used} of {all} slots are taken");
}

#[test]
fn a_full_map_is_told_and_changes_nothing_halfway() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let mut writer = open(folders[0].path(), &schema(false, false));
    for n in 0..200_u32 {
        put(writer.env(), "d", Flags::default(), &n.to_be_bytes(), &vec![1; 10_000]);
    }
    writer.begin(NOW).unwrap();
    let bytes = snapshot(&mut writer, "a", NOW);
    let small = EnvOptions { create: true, map_size: Some(1 << 20), ..EnvOptions::default() };
    let mut settings = seawall_lmdb::Settings::new(schema(false, false));
    settings.pace.whole = true;
    let mut local = seawall_lmdb::Local::open(folders[1].path(), &small, settings).unwrap();
    put(local.env(), "d", Flags::default(), b"mine", b"v");
    local.begin(NOW).unwrap();
    let before = dump(local.env());
    let error = local.load("x", &bytes[..], Stamp(0), NOW).expect_err("a full map");
    assert_eq!(error.meaning(), Some(Meaning::MapFull));
    assert_eq!(dump(local.env()), before);
    // Room is made, and all of it comes.
    local.env().grow(64 << 20).unwrap();
    local.load("x", &bytes[..], Stamp(0), NOW).unwrap();
    assert_eq!(dump(local.env())[&b"d".to_vec()].1.len(), 201);
}

/// A snapshot of 2 MB, and an environment with a map of 1 MiB.
fn too_much(whole: bool, largest_map: Option<u64>) -> ([tempfile::TempDir; 2], Vec<u8>, seawall_lmdb::Local) {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let mut writer = open(folders[0].path(), &schema(false, false));
    for n in 0..200_u32 {
        put(writer.env(), "d", Flags::default(), &n.to_be_bytes(), &vec![1; 10_000]);
    }
    writer.begin(NOW).unwrap();
    let bytes = snapshot(&mut writer, "a", NOW);
    let small = EnvOptions { create: true, map_size: Some(1 << 20), largest_map, ..EnvOptions::default() };
    let mut settings = seawall_lmdb::Settings::new(schema(false, false));
    settings.pace.whole = whole;
    let local = seawall_lmdb::Local::open(folders[1].path(), &small, settings).unwrap();
    (folders, bytes, local)
}

#[test]
fn a_full_map_grows_where_the_options_allow() {
    for whole in [false, true] {
        let (_folders, bytes, mut local) = too_much(whole, Some(16 << 20));
        let loaded = local.load("x", &bytes[..], Stamp(0), NOW).unwrap();
        assert_eq!(loaded.applied.entries, 200);
        assert_eq!(dump(local.env())[&b"d".to_vec()].1.len(), 200);
        let size = local.info().unwrap().map_size;
        assert!((4 << 20..=16 << 20).contains(&size), "{size}");
        let (_folders, bytes, mut local) = too_much(whole, Some(2 << 20));
        let error = local.load("x", &bytes[..], Stamp(0), NOW).expect_err("not that far");
        assert_eq!((error.meaning(), local.info().unwrap().map_size), (Some(Meaning::MapFull), 2 << 20));
    }
    // The application's own data may fill the map before its shadow does.
    let folder = tempfile::tempdir().unwrap();
    let small = EnvOptions { create: true, map_size: Some(2 << 20), ..EnvOptions::default() };
    {
        let env = Env::open(folder.path(), &small).unwrap();
        (0..100_u32).for_each(|n| put(&env, "d", Flags::default(), &n.to_be_bytes(), &vec![1; 10_000]));
    }
    let grows = EnvOptions { largest_map: Some(64 << 20), ..small };
    let settings = seawall_lmdb::Settings::new(schema(false, false));
    let mut local = seawall_lmdb::Local::open(folder.path(), &grows, settings).unwrap();
    assert_eq!(local.begin(NOW).unwrap().entries, 100);
    assert_eq!(dump(local.env())[&b"_sync_shadow_d".to_vec()].1.len(), 100);
}

#[test]
fn a_full_map_that_another_process_made_larger_is_followed() {
    for whole in [false, true] {
        let (folders, bytes, mut local) = too_much(whole, None);
        let error = local.load("x", &bytes[..], Stamp(0), NOW).expect_err("a full map");
        assert_eq!(error.meaning(), Some(Meaning::MapFull));
        elsewhere("room", folders[1].path());
        local.load("x", &bytes[..], Stamp(0), NOW).unwrap();
        assert_eq!(dump(local.env())[&b"d".to_vec()].1.len(), 201);
    }
}

#[test]
fn changes_of_the_application_are_recorded_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut local = open(folder.path(), &schema(false, false));
    put(local.env(), "d", Flags::default(), b"a", b"1");
    put(local.env(), "d", Flags::default(), b"b", b"1");
    local.begin(NOW).unwrap();
    assert!(local.is_pending().unwrap());
    snapshot(&mut local, "a", NOW);
    assert!(!local.is_pending().unwrap(), "our own transactions are no changes");
    put(local.env(), "d", Flags::default(), b"a", b"2");
    delete(local.env(), "d", b"b");
    assert!(local.is_pending().unwrap());
    snapshot(&mut local, "a", Stamp(NOW.0 + 5));
    assert!(!local.is_pending().unwrap());
    let shadow = &dump(local.env())[&b"_sync_shadow_d".to_vec()].1;
    let stamps: Vec<u64> = shadow.iter().map(|(_, v)| u64::from_be_bytes(v[..8].try_into().unwrap())).collect();
    assert_eq!(stamps, [NOW.0 + 5, NOW.0 + 5]);
    assert_eq!((&shadow[0].1[24..], shadow[1].1[17]), (&b"2"[..], 1));
}

/// Tells the other process of these tests what to do, and where.
const TASK: &str = "SEAWALL_TEST_TASK";

/// Does something in another process.
pub(crate) fn elsewhere(task: &str, folder: &Path) {
    let me = std::env::current_exe().unwrap();
    let mut command = Command::new(me);
    command.args(["--exact", "shared::in_another_process", "--ignored", "--quiet"]);
    let done = command.env(TASK, format!("{task} {}", folder.display())).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
}

#[test]
#[ignore = "the other process of the tests above"]
fn in_another_process() {
    let task = std::env::var(TASK).unwrap();
    let (task, folder) = task.split_once(' ').unwrap();
    let map_size = matches!(task, "grow" | "room").then_some(64 << 20);
    let env = Env::open(Path::new(folder), &EnvOptions { map_size, ..EnvOptions::default() }).unwrap();
    match task {
        "drop" => {
            let mut txn = env.write().unwrap();
            assert!(txn.drop_dbi(b"d").unwrap());
            txn.commit().unwrap();
        }
        "make" => put(&env, "d", Flags::INTEGER_KEY, &1_u32.to_ne_bytes(), b"v"),
        "grow" => {
            let mut txn = env.write().unwrap();
            let dbi = txn.create(b"d", Flags::default()).unwrap();
            (0..9000_u32).for_each(|n| txn.put(dbi, &n.to_be_bytes(), &[1; 1000]).unwrap());
            txn.commit().unwrap();
        }
        "put" => put(&env, "d", Flags::default(), b"k", b"v"),
        // A larger map, and nothing much in it.
        "room" => put(&env, "d", Flags::default(), b"room", b"v"),
        // Ends without a word, with a reader's slot taken.
        "die" => {
            let _reader = env.read().unwrap();
            std::process::exit(0);
        }
        other => panic!("{other}"),
    }
}
