//! Rolling a whole fleet back to an older state.

use std::path::Path;
use std::sync::Arc;

use seawall_core::abilities::*;
use seawall_core::{IntegrityCheck, NoProgress, Point, RestoreRequest, Shutdown, When};
use seawall_lmdb::{Flags, Lmdb, LmdbOptions, Settings, SyncOptions, system_clock};

use crate::hints::folder_vault;
use crate::support::{author, delete, dump, open, options, put, schema};

/// An instance of a fleet, in a folder that all of it share.
fn engine(folder: &Path, name: &str, native: bool) -> Lmdb {
    let options = LmdbOptions {
        path: folder.join(name),
        env: options(),
        settings: Settings::new(schema(native, false)),
        sync: SyncOptions::new(author(name)),
    };
    Lmdb::new(folder_vault(folder), options, system_clock())
}

async fn in_step(folder: &Path, name: &str, native: bool) -> Point {
    engine(folder, name, native).take_point(&Shutdown::new()).await.unwrap()
}

/// The application's live values.
fn content(folder: &Path, name: &str, native: bool) -> Vec<(Vec<u8>, Vec<u8>, Vec<u8>)> {
    let all = dump(open(&folder.join(name), &schema(native, false)).env());
    let own = all.into_iter().filter(|(dbi, _)| !dbi.starts_with(b"_sync"));
    let live = |(_, value): &(Vec<u8>, Vec<u8>)| !native || value[17] == 0;
    let plain = |value: Vec<u8>| if native { value[24..].to_vec() } else { value };
    own.flat_map(|(dbi, (_, pairs))| {
        pairs.into_iter().filter(live).map(move |(key, value)| (dbi.clone(), key, plain(value)))
    })
    .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_fleet_goes_back_with_a_state_that_is_restored_as_new_and_not_otherwise() {
    for native in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let mut stamp = 0_u64;
        let mut set = |name: &str, dbi: &str, key: &[u8], value: &[u8]| {
            let local = open(&folder.join(name), &schema(native, false));
            stamp += 1;
            let header = if native { [&stamp.to_be_bytes()[..], &[0; 16]].concat() } else { Vec::new() };
            put(local.env(), dbi, Flags::default(), key, &[&header, value].concat());
        };
        for key in [&b"changed"[..], b"deleted", b"same"] {
            set("a", "d", key, b"old");
        }
        in_step(folder, "a", native).await;
        in_step(folder, "b", native).await;
        let (wanted, point) = (content(folder, "a", native), in_step(folder, "a", native).await);
        for (dbi, key) in [("d", &b"changed"[..]), ("d", b"came"), ("other", b"came")] {
            set("b", dbi, key, b"new");
        }
        if native {
            set("b", "d", b"deleted", b"new");
        } else {
            delete(open(&folder.join("b"), &schema(native, false)).env(), "d", b"deleted");
        }
        in_step(folder, "b", native).await;
        in_step(folder, "a", native).await;
        let newest = content(folder, "a", native);
        assert_ne!(newest, wanted);
        assert_eq!(newest, content(folder, "b", native));

        let request = RestoreRequest {
            output: folder.join("a"),
            when: When::Position(point.position),
            force: true,
            dry_run: false,
            integrity: IntegrityCheck::None,
        };
        let of_a = engine(folder, "a", native);
        of_a.restore(&request, Arc::new(NoProgress)).await.unwrap();
        assert_eq!(content(folder, "a", native), wanted);
        in_step(folder, "a", native).await;
        assert_eq!(content(folder, "a", native), newest, "alone it goes forward again");

        let dry = RestoreRequest { dry_run: true, ..request.clone() };
        let (_, planned) = of_a.restore_as_new(&dry, Arc::new(NoProgress)).await.unwrap();
        assert_eq!(content(folder, "a", native), newest, "nothing was written");
        let numbers = |table: &str| {
            let row = planned.iter().find(|row| row.table == table).unwrap();
            (row.restored, row.deleted, row.unchanged)
        };
        assert_eq!((numbers("d"), numbers("other")), ((2, 1, 1), (0, 1, 0)));
        let (_, done) = of_a.restore_as_new(&request, Arc::new(NoProgress)).await.unwrap();
        assert_eq!(done, planned);
        for name in ["a", "b", "a", "c"] {
            in_step(folder, name, native).await;
            assert_eq!(content(folder, name, native), wanted, "{name}, native {native}");
        }
    }
}
