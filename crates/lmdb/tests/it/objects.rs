//! Snapshots as objects, and shadows, by hand.

use std::sync::Arc;

use seawall_lmdb::{Error, Flags, Stamp, snapshots};
use seawall_vault::memory::MemoryStore;
use seawall_vault::{Policy, Vault};

use crate::support::{NOW, dump, open, put, schema, snapshot};

const NAME: &str = "main__a__20260801-100000-000000000__GX.pb.gz";
const OLDER: &str = "main__b__20250801-100000-000000000__GX.pb.gz";

#[tokio::test]
async fn a_snapshot_goes_there_and_back_and_away() {
    let folder = tempfile::tempdir().unwrap();
    let vault = Vault::new(Arc::new(MemoryStore::new()), Policy::default());
    let mut local = open(&folder.path().join("env"), &schema(false, false));
    put(local.env(), "d", Flags::default(), b"k", b"v");
    let bytes = snapshot(&mut local, "a", NOW);
    let file = folder.path().join("file");
    std::fs::write(&file, &bytes).unwrap();

    for name in [NAME, OLDER] {
        assert_eq!(snapshots::put(&vault, &file, name, false).await.unwrap(), bytes.len() as u64);
    }
    let refused = snapshots::put(&vault, &file, "file", false).await;
    assert!(matches!(refused, Err(Error::BadName { .. })), "{refused:?}");
    std::fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    let refused = snapshots::put(&vault, &file, &NAME.replace("__a__", "__c__"), false).await;
    assert!(matches!(refused, Err(Error::Snapshot { .. })), "{refused:?}");
    snapshots::put(&vault, &file, "half", true).await.unwrap();
    assert!(snapshots::put(&vault, &file, NAME, true).await.is_err(), "another object has the name");

    let names = async |prefix: &str, by_time: bool| -> Vec<String> {
        let all = snapshots::list(&vault, prefix, by_time).await.unwrap();
        all.into_iter().map(|object| object.name).collect()
    };
    assert_eq!(names("", false).await, ["half", NAME, OLDER]);
    assert_eq!(names("", true).await, ["half", OLDER, NAME]);
    assert_eq!(names("main__b", false).await, [OLDER]);

    let back = folder.path().join("back");
    assert_eq!(snapshots::get(&vault, NAME, &back, false).await.unwrap(), bytes.len() as u64);
    assert_eq!(std::fs::read(&back).unwrap(), bytes);
    let refused = snapshots::get(&vault, OLDER, &back, false).await;
    assert!(matches!(refused, Err(Error::Exists { .. })), "{refused:?}");
    std::fs::write(&back, b"something else").unwrap();
    assert!(snapshots::get(&vault, "nothing", &back, true).await.is_err());
    assert_eq!(std::fs::read(&back).unwrap(), b"something else", "what fails replaces nothing");
    snapshots::get(&vault, OLDER, &back, true).await.unwrap();
    assert_eq!(std::fs::read(&back).unwrap(), bytes);
    assert!(snapshots::get(&vault, "nothing", &folder.path().join("x"), false).await.is_err());
    assert!(!folder.path().join("x").exists());

    snapshots::remove(&vault, NAME).await.unwrap();
    assert!(snapshots::remove(&vault, NAME).await.is_err(), "it is gone");
    assert_eq!(names("", false).await, ["half", OLDER]);
}

#[test]
fn shadows_are_dropped_and_the_data_stay() {
    let folder = tempfile::tempdir().unwrap();
    let mut local = open(folder.path(), &schema(false, false));
    put(local.env(), "d", Flags::default(), b"k", b"v");
    local.begin(Stamp(7)).unwrap();
    let before = dump(local.env());
    assert_eq!(before.len(), 2);
    let status = local.status().unwrap();
    assert_eq!(
        status.dbis.iter().map(|(name, _, stat)| (name.as_str(), stat.entries)).collect::<Vec<_>>(),
        [("_sync_shadow_d", 1), ("d", 1)]
    );
    assert_eq!(local.drop_shadows().unwrap(), ["_sync_shadow_d"]);
    let after = dump(local.env());
    assert_eq!(after.keys().collect::<Vec<_>>(), [b"d"]);
    assert_eq!(after[b"d".as_slice()], before[b"d".as_slice()]);
    assert!(local.drop_shadows().unwrap().is_empty());
}
