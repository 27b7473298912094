//! A store that goes wrong at every call of a backup: what counts is whole, and a repetition converges.

use std::sync::Arc;
use std::time::Duration;

use seawall_archive::{Catalog, Codec, verify};
use seawall_core::{Moment, NoProgress, When};
use seawall_vault::memory::MemoryStore;
use seawall_vault::simulated::{Chances, Fault, SimulatedStore};
use seawall_vault::{Error, Policy, Vault};

use crate::support::{id, read, tables, vault, write};

fn simulation(seed: u64) -> (SimulatedStore, Vault) {
    let store = SimulatedStore::new(MemoryStore::new(), seed);
    (store.clone(), Vault::new(Arc::new(store), Policy { seed, ..Policy::default() }))
}

/// Whatever is in the vault: it has no findings, and everything that counts is what was written.
async fn sound(store: &SimulatedStore, what: &str) -> usize {
    let vault = vault(store.truth());
    let verification = verify(&vault, Moment::default(), Arc::new(NoProgress), 2).await.expect("verified");
    assert_eq!(verification.findings, Vec::new(), "{what}");
    let catalog = Catalog::read(&vault).await.expect("read");
    for (_, manifest) in catalog.sets() {
        let seed = manifest.point.as_millis() as u64 / 1_000;
        let found = read(&vault, &When::Position(manifest.id.to_string())).await.expect("read");
        assert_eq!(found, tables(seed), "{what}");
    }
    catalog.sets().len()
}

/// The number of calls of one backup.
async fn calls() -> u64 {
    let (store, vault) = simulation(1);
    write(&vault, id(1), Codec::default(), &tables(1)).await.expect("written");
    store.call_count()
}

#[tokio::test(start_paused = true)]
async fn an_error_or_a_lost_answer_at_any_call_changes_nothing() {
    for call in 0..calls().await {
        for fault in [Fault::Error, Fault::LostAnswer, Fault::Duplicate] {
            let (store, vault) = simulation(call);
            store.fail_call(call, fault.clone());
            write(&vault, id(1), Codec::default(), &tables(1)).await.expect("the vault's retry settles it");
            assert_eq!(sound(&store, &format!("{fault:?} at {call}")).await, 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_store_at_any_call_fails_and_nothing_counts() {
    for call in 0..calls().await {
        let (store, vault) = simulation(call);
        let full = Error::Full { object: "the store".into(), cause: "no space".into() };
        store.fail_call(call, Fault::Fail(full));
        write(&vault, id(1), Codec::default(), &tables(1)).await.expect_err("full");
        assert_eq!(sound(&store, &format!("full at {call}")).await, 0);
        write(&vault, id(2), Codec::default(), &tables(2)).await.expect("there is space again");
        assert_eq!(sound(&store, &format!("after full at {call}")).await, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_call_leaves_what_is_whole_or_doesnt_count() {
    for call in 0..calls().await {
        for fault in [Fault::Crash, Fault::CrashAfter] {
            let (store, vault) = simulation(call);
            store.fail_call(call, fault.clone());
            let content = tables(1);
            let run = write(&vault, id(1), Codec::default(), &content);
            let crashed = async {
                while store.calls().iter().all(|made| made.number < call) {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            };
            tokio::select! {
                _ = run => panic!("it was to crash at {call}"),
                () = crashed => {}
            }
            let before = sound(&store, &format!("{fault:?} at {call}")).await;
            store.revive();
            write(&vault, id(2), Codec::default(), &tables(2)).await.expect("written");
            assert_eq!(sound(&store, &format!("after {fault:?} at {call}")).await, before + 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn chance_changes_nothing() {
    for seed in 0..20 {
        let (store, vault) = simulation(seed);
        let chances = Chances {
            error: 60,
            lost_answer: 60,
            duplicate: 60,
            broken_stream: 60,
            delay: 200,
            longest_delay: Duration::from_secs(20),
            ..Chances::default()
        };
        let store = store.with_chances(chances);
        for second in [1, 2] {
            write(&vault, id(second), Codec::default(), &tables(second as u64)).await.expect("written");
        }
        store.revive();
        assert_eq!(sound(&store, &format!("seed {seed}")).await, 2);
    }
}
