//! Instances that write at random and merge each other's snapshots in any order: in the end all hold the same.

use std::collections::BTreeMap;

use fastrand::Rng;
use seawall_lmdb::{Flags, Local, Schema, Stamp};
use tempfile::TempDir;

use crate::support::{dump, open, put, schema, snapshot};

/// What the application sees of an environment: live keys with their values.
pub(crate) fn live(local: &Local, schema: &Schema) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let all = dump(local.env());
    let Some((_, pairs)) = all.get(b"d".as_slice()) else { return BTreeMap::new() };
    let pairs = pairs.iter().filter(|(_, value)| !schema.native || value[17] & 1 == 0);
    pairs.map(|(k, v)| (k.clone(), if schema.native { v[24..].to_vec() } else { v.clone() })).collect()
}

/// A value with a header, as an application with a native schema writes it.
fn stored(stamp: u64, transaction: u64, deleted: bool, value: &[u8]) -> Vec<u8> {
    let head = [&stamp.to_be_bytes()[..], &transaction.to_be_bytes(), &[0, deleted.into(), 0, 0, 0, 0, 0, 0]].concat();
    [head.as_slice(), if deleted { &[] } else { value }].concat()
}

/// One write or removal of the application.
pub(crate) fn act(local: &Local, schema: &Schema, random: &mut Rng, clock: u64) {
    let (key, value) = (vec![b'k', random.u8(..40)], vec![b'v'; random.usize(..4)]);
    let deleted = random.u8(..4) == 0;
    if schema.native {
        let transaction = local.info().unwrap().last_transaction + 1;
        put(local.env(), "d", Flags::default(), &key, &stored(clock, transaction, deleted, &value));
    } else if deleted {
        let mut txn = local.env().write().unwrap();
        if let Some(dbi) = txn.open(b"d").unwrap() {
            txn.delete(dbi, &key).unwrap();
            txn.commit().unwrap();
        }
    } else {
        put(local.env(), "d", Flags::default(), &key, &value);
    }
}

struct Instance {
    folder: TempDir,
    local: Option<Local>,
    /// How far its clock is off.
    skew: i64,
}

fn converge(native: bool, seed: u64, skews: [i64; 3]) {
    let schema = schema(native, false);
    let mut random = Rng::with_seed(seed);
    let mut clock = 1_800_000_000_000_000_000_u64;
    let mut instances: Vec<Instance> =
        skews.into_iter().map(|skew| Instance { folder: tempfile::tempdir().unwrap(), local: None, skew }).collect();
    let mut snapshots: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
    for step in 0..120 {
        clock += random.u64(1..2_000_000_000);
        let at = random.usize(..3);
        let instance = &mut instances[at];
        let now = clock.saturating_add_signed(instance.skew);
        let local = match &mut instance.local {
            Some(local) => local,
            none => {
                let local = none.insert(open(instance.folder.path(), &schema));
                local.begin(Stamp(now)).unwrap();
                local
            }
        };
        match random.u8(..8) {
            0..4 => act(local, &schema, &mut random, now),
            4 => drop(snapshots.insert(at, snapshot(local, "x", Stamp(now)))),
            5 | 6 => {
                let others: Vec<_> = snapshots.iter().filter(|(other, _)| **other != at).collect();
                if let Some((_, bytes)) = random.choice(others) {
                    // Sometimes a damaged one, which must change nothing.
                    let cut = if random.u8(..5) == 0 { random.usize(..bytes.len()) } else { bytes.len() };
                    let before = (cut < bytes.len()).then(|| live(local, &schema));
                    let loaded = local.load("x", &bytes[..cut], Stamp(0), Stamp(now));
                    assert_eq!(loaded.is_err(), before.is_some(), "seed {seed} step {step}");
                    assert!(before.is_none_or(|before| before == live(local, &schema)), "seed {seed} step {step}");
                }
            }
            // Killed, as far as an environment can tell: nothing is written at the end.
            _ => instance.local = None,
        }
    }
    for round in 0..2 {
        for (at, instance) in instances.iter_mut().enumerate() {
            let now = Stamp((clock + round).saturating_add_signed(instance.skew));
            let local = instance.local.get_or_insert_with(|| open(instance.folder.path(), &schema));
            local.begin(now).unwrap();
            for (other, bytes) in &snapshots {
                if *other != at {
                    local.load("x", &bytes[..], Stamp(0), now).unwrap();
                }
            }
            snapshots.insert(at, snapshot(local, "x", now));
        }
    }
    for instance in &mut instances[..2] {
        let local = instance.local.as_mut().unwrap();
        local.load("x", &snapshots[&2][..], Stamp(0), Stamp(clock + 9)).unwrap();
        local.load("x", &snapshots[&1][..], Stamp(0), Stamp(clock + 9)).unwrap();
    }
    let all: Vec<_> = instances.iter().map(|instance| live(instance.local.as_ref().unwrap(), &schema)).collect();
    assert!(all[0] == all[1] && all[1] == all[2], "seed {seed} native {native}: {all:#?}");
    assert!(!all[0].is_empty(), "seed {seed}");
}

#[test]
fn three_instances_end_with_the_same_data() {
    for seed in 0..5 {
        converge(true, seed, [0; 3]);
        converge(false, seed, [0; 3]);
    }
}

#[test]
fn three_instances_with_clocks_an_hour_apart_end_with_the_same_data() {
    let hour = 3_600_000_000_000;
    for seed in 100..103 {
        converge(true, seed, [0, hour, -hour]);
        converge(false, seed, [0, hour, -hour]);
    }
}

#[test]
fn a_second_snapshot_takes_what_has_not_changed_from_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let schema = schema(true, false);
    let mut local = open(folder.path(), &schema);
    {
        let mut txn = local.env().write().unwrap();
        let dbi = txn.create(b"d", Flags::default()).unwrap();
        let mut random = Rng::with_seed(1);
        for n in 0..60_000_u32 {
            let noise: Vec<u8> = (0..60).map(|_| random.u8(..)).collect();
            txn.append(dbi, &n.to_be_bytes(), &stored(7, 1, false, &noise)).unwrap();
        }
        txn.commit().unwrap();
    }
    snapshot(&mut local, "a", Stamp(10));
    let transaction = local.info().unwrap().last_transaction + 1;
    put(local.env(), "d", Flags::default(), &30_000_u32.to_be_bytes(), &stored(8, transaction, false, b"changed"));
    let second = snapshot(&mut local, "a", Stamp(11));
    let kept = local.snapshot(&crate::support::author("a"), &|| Stamp(12)).unwrap();
    assert!(kept.kept * 100 > kept.bytes * 99, "{} of {}", kept.kept, kept.bytes);
    // Read by somebody who has nothing, it is all there.
    let other = tempfile::tempdir().unwrap();
    let mut reader = open(other.path(), &schema);
    reader.load("x", &second[..], Stamp(0), Stamp(20)).unwrap();
    assert_eq!(live(&reader, &schema), live(&local, &schema));
    assert_eq!(live(&reader, &schema)[&30_000_u32.to_be_bytes().to_vec()], b"changed");
}
