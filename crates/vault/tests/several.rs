//! Several vaults for one database: whatever one of them does, a vault in step holds everything that was acknowledged,
//! and one that was away catches up.

#![allow(clippy::disallowed_methods, reason = "tests are an edge")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt as _;
use seawall_core::{Moment, SystemClock};
use seawall_vault::memory::MemoryStore;
use seawall_vault::several::{Judge, MemberState, Place, Question, Settings, SeveralStore, Stranger};
use seawall_vault::simulated::{Fault, SimulatedStore};
use seawall_vault::{
    Access, Condition, Created, Error, FileStore, HostKeys, Identities, NoPrompt, ObjectKey, Policy, Prefix, Prompt,
    PutOptions, Recipients, SealedStore, Sealing, Store, Vault, conformance,
};

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(name).expect("a name")
}

fn policy() -> Policy {
    Policy { seed: 5, part_size: 100, ..Policy::default() }
}

fn settings(record: Option<PathBuf>) -> Settings {
    Settings { record, notes: true, clock: Arc::new(SystemClock), judge: None, look: None }
}

fn places(stores: &[SimulatedStore]) -> Vec<Place> {
    stores.iter().map(|store| Place { store: Arc::new(store.clone()), keeps: false }).collect()
}

fn open(stores: &[SimulatedStore], record: Option<PathBuf>) -> Vault {
    SeveralStore::vault(places(stores), policy(), settings(record))
}

fn two() -> [SimulatedStore; 2] {
    three(2).try_into().expect("two")
}

/// Stores that are told apart by their URLs.
fn three(count: u64) -> Vec<SimulatedStore> {
    (0..count).map(|seed| SimulatedStore::new(MemoryStore::named(&format!("memory-{seed}:")), seed)).collect()
}

async fn content(store: &MemoryStore) -> BTreeMap<String, Bytes> {
    let vault = Vault::new(Arc::new(store.clone()), policy());
    let mut content = BTreeMap::new();
    for entry in vault.list(&Prefix::all(), None).await.expect("listed") {
        content.insert(entry.key.to_string(), vault.read(&entry.key, None, 1 << 20).await.expect("read"));
    }
    content
}

/// Waits until every vault is in step.
async fn in_step(vault: &Vault) {
    within(vault, |members| members.iter().all(|member| member.in_step)).await;
}

async fn within(vault: &Vault, reached: impl Fn(&[MemberState]) -> bool) {
    for _ in 0..2000 {
        if reached(&vault.members()) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert!(reached(&vault.members()), "{:#?}", vault.members());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn they_are_one_store() {
    let open = |_| async {
        let places =
            (0..3).map(|i| Place::from(Arc::new(MemoryStore::named(&format!("memory-{i}:"))) as Arc<dyn Store>));
        Arc::new(SeveralStore::new(places.collect(), &Policy::default(), settings(None))) as Arc<dyn Store>
    };
    conformance::run(open).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn folders_are_one_store_as_well() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = |name: &'static str| {
        let place = |i: &str| Place::from(Arc::new(FileStore::new(folder.path().join(i).join(name))) as Arc<dyn Store>);
        let places = vec![place("a"), place("b")];
        async move { Arc::new(SeveralStore::new(places, &Policy::default(), settings(None))) as Arc<dyn Store> }
    };
    conformance::run(open).await;
}

/// What is written, deleted and written in parts; returns what was acknowledged.
async fn work(vault: &Vault) -> BTreeMap<String, Option<Bytes>> {
    let mut known = BTreeMap::new();
    for i in 0..4 {
        let (name, bytes) = (format!("0000/{i}"), Bytes::from(format!("object {i}")));
        if vault.create(&key(&name), bytes.clone(), Some(Moment::from_millis(i))).await.is_ok() {
            known.insert(name, Some(bytes));
        }
    }
    let (name, bytes) = ("0009/parts".to_owned(), Bytes::from(vec![7; 350]));
    let mut upload = vault.upload(&key(&name), None);
    if upload.write(bytes.clone()).await.is_ok() && upload.finish().await.is_ok() {
        known.insert(name, Some(bytes));
    }
    if vault.delete(&[key("0000/1")]).await.is_ok() {
        known.insert("0000/1".to_owned(), None);
    }
    let _ = vault.list(&Prefix::all(), None).await;
    if vault.put(&key("mark"), "one".into(), None).await.is_ok()
        && vault.put(&key("mark"), "two".into(), None).await.is_ok()
    {
        known.insert("mark".to_owned(), Some("two".into()));
    }
    known
}

async fn holds(store: &MemoryStore, known: &BTreeMap<String, Option<Bytes>>, what: &str) {
    let content = content(store).await;
    for (name, bytes) in known {
        assert_eq!(content.get(name), bytes.as_ref(), "{what}: {name}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_fault_of_one_vault_at_any_call_loses_anything_or_holds_anything_up() {
    for failing in [0, 1] {
        for fault in [Fault::Error, Fault::LostAnswer, Fault::Duplicate, Fault::Hang, Fault::Crash, Fault::CrashAfter] {
            for number in 0.. {
                let what = format!("{fault:?} at call {number} of vault {failing}");
                let stores = two();
                stores[failing].fail_call(number, fault.clone());
                let vault = open(&stores, None);
                let began = tokio::time::Instant::now();
                let known = work(&vault).await;
                assert!(began.elapsed() < Duration::from_secs(90), "{what} took {:?}", began.elapsed());
                assert_eq!(known.len(), 6, "{what}: {known:?}");
                for (store, member) in stores.iter().zip(vault.members()) {
                    if member.in_step {
                        holds(store.truth(), &known, &what).await;
                    }
                }
                let used = stores[failing].call_count() > number;
                stores[failing].revive();
                in_step(&vault).await;
                let [first, second] = [content(stores[0].truth()).await, content(stores[1].truth()).await];
                assert_eq!(first, second, "{what}");
                if !used {
                    break;
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn chance_in_both_vaults_loses_nothing() {
    for seed in 0..40 {
        let chances = seawall_vault::simulated::Chances {
            error: 80,
            lost_answer: 80,
            duplicate: 30,
            broken_stream: 30,
            delay: 50,
            longest_delay: Duration::from_secs(6),
            ..Default::default()
        };
        let stores: Vec<SimulatedStore> = (0..3)
            .map(|i| {
                SimulatedStore::new(MemoryStore::named(&format!("memory-{i}:")), 100 * seed + i).with_chances(chances)
            })
            .collect();
        let vault = open(&stores, None);
        let known = work(&vault).await;
        stores.iter().for_each(SimulatedStore::revive);
        let _ = vault.list(&Prefix::all(), None).await.expect("listed");
        for (store, member) in stores.iter().zip(vault.members()) {
            if member.in_step {
                holds(store.truth(), &known, &format!("seed {seed}")).await;
            }
        }
        in_step(&vault).await;
        let first = content(stores[0].truth()).await;
        for store in &stores {
            assert_eq!(content(store.truth()).await, first, "seed {seed}");
            holds(store.truth(), &known, &format!("seed {seed}")).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_vault_that_is_away_is_waited_for_once() {
    let stores = two();
    stores[0].crash();
    let vault = open(&stores, None);
    let began = tokio::time::Instant::now();
    vault.create(&key("0000/1"), "one".into(), None).await.expect("created");
    assert!(began.elapsed() <= Duration::from_secs(40), "{:?}", began.elapsed());
    let began = tokio::time::Instant::now();
    vault.create(&key("0000/2"), "two".into(), None).await.expect("created");
    assert!(began.elapsed() < Duration::from_millis(10), "{:?}", began.elapsed());
    let [first, second] = vault.members().try_into().expect("two");
    assert!(!first.in_step && first.behind_since.is_some() && first.error.is_some() && second.leads);
    stores[0].revive();
    in_step(&vault).await;
    assert_eq!(content(stores[0].truth()).await.len(), 2);
    assert!(vault.members()[0].leads, "the first leads again");
}

#[tokio::test(start_paused = true)]
async fn idle_vaults_are_left_alone() {
    let stores = two();
    let vault = open(&stores, None);
    vault.create(&key("0000/1"), "one".into(), None).await.expect("created");
    let calls = || stores.iter().map(SimulatedStore::call_count).sum::<u64>();
    let before = calls();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(calls(), before);
}

#[tokio::test(start_paused = true)]
async fn all_away_is_an_error_and_then_goes_on() {
    let stores = two();
    let vault = open(&stores, None);
    vault.create(&key("0000/1"), "one".into(), None).await.expect("created");
    stores.iter().for_each(|store| store.fail_from(0));
    let refused = vault.create(&key("0000/2"), "two".into(), None).await;
    assert!(matches!(refused, Err(Error::Unavailable { .. })), "{refused:?}");
    stores[1].revive();
    assert_eq!(vault.create(&key("0000/2"), "two".into(), None).await, Ok(Created::Fresh));
    stores[0].revive();
    in_step(&vault).await;
    assert_eq!(content(stores[0].truth()).await, content(stores[1].truth()).await);
}

#[tokio::test(start_paused = true)]
async fn another_writer_is_refused_by_the_leading_vault_and_reported_of_the_others() {
    let stores = two();
    let vault = open(&stores, None);
    vault.list(&Prefix::all(), None).await.expect("listed");
    let put = async |store: &SimulatedStore, name: &str| {
        store.truth().put(&key(name), "another's".into(), &PutOptions::default()).await.expect("put");
    };
    put(&stores[0], "0000/1").await;
    let refused = vault.create(&key("0000/1"), "ours".into(), None).await;
    assert!(matches!(refused, Err(Error::AlreadyExists { .. })), "{refused:?}");
    put(&stores[1], "0000/2").await;
    vault.create(&key("0000/2"), "ours".into(), None).await.expect("the leading vault took it");
    within(&vault, |members| matches!(members[1].error, Some(Error::Differs { .. }))).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let second = vault.members().remove(1);
    assert!(!second.in_step, "{second:?}");
    assert_eq!(second.error.as_ref().map(Error::object), Some("memory-1:/0000/2"));
    assert_eq!(content(stores[1].truth()).await["0000/2"], "another's", "it is never written over");
}

#[tokio::test(start_paused = true)]
async fn our_own_version_is_known_again_when_another_vault_leads() {
    let stores = two();
    let vault = open(&stores, None);
    let lease = key("lock.json");
    vault.create(&lease, "first".into(), None).await.expect("created");
    let tag = vault.head(&lease).await.expect("asked").and_then(|meta| meta.tag).expect("a version");
    let tag = vault.replace(&lease, "second".into(), &tag).await.expect("replaced");
    stores[0].fail_from(0);
    let tag = vault.replace(&lease, "third".into(), &tag).await.expect("replaced in the other");
    stores[0].revive();
    in_step(&vault).await;
    assert_eq!(content(stores[0].truth()).await["lock.json"], "third");
    stores[0].truth().put(&lease, "another's".into(), &PutOptions::default()).await.expect("put");
    let refused = vault.replace(&lease, "fourth".into(), &tag).await;
    assert!(matches!(refused, Err(Error::Precondition { .. })), "{refused:?}");
}

/// What a process that was killed left, with and without its record.
#[tokio::test(start_paused = true)]
async fn a_start_after_a_kill() {
    for recorded in [true, false] {
        for away in [None, Some(0), Some(1)] {
            let what = format!("record: {recorded}, away: {away:?}");
            let folder = tempfile::tempdir().expect("a folder");
            let record = folder.path().join("several.json");
            let stores = two();
            let vault = open(&stores, Some(record.clone()));
            for i in 0..3 {
                vault.create(&key(&format!("0000/{i}")), "in both".into(), None).await.expect("created");
            }
            stores[1].fail_from(0);
            vault.create(&key("0000/3"), "in the first".into(), None).await.expect("created");
            vault.delete(&[key("0000/0")]).await.expect("deleted");
            drop(vault);
            stores[1].revive();
            if !recorded {
                std::fs::remove_file(&record).expect("removed");
            }
            if let Some(away) = away {
                stores[away].fail_from(0);
            }
            let vault = open(&stores, Some(record.clone()));
            let written = vault.create(&key("0000/4"), "after".into(), None).await;
            let leads = vault.members().iter().position(|member| member.leads);
            match (recorded, away) {
                (true, Some(0)) => assert!(matches!(written, Err(Error::Unavailable { .. })), "{what}: {written:?}"),
                (false, Some(0)) => assert_eq!((written, leads), (Ok(Created::Fresh), Some(1)), "{what}"),
                _ => assert_eq!((written, leads), (Ok(Created::Fresh), Some(0)), "{what}"),
            }
            if let Some(away) = away {
                stores[away].revive();
            }
            if (recorded, away) == (true, Some(0)) {
                vault.create(&key("0000/4"), "after".into(), None).await.expect("it is back");
            }
            in_step(&vault).await;
            let [first, second] = [content(stores[0].truth()).await, content(stores[1].truth()).await];
            for name in ["0000/1", "0000/2", "0000/4"] {
                assert!(first.contains_key(name) && second.contains_key(name), "{what}: {name}");
            }
            if recorded {
                assert_eq!(first, second, "{what}");
                assert!(!first.contains_key("0000/0") && first.contains_key("0000/3"), "{what}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_vault_that_was_set_back_never_leads() {
    let folder = tempfile::tempdir().expect("a folder");
    let record = folder.path().join("several.json");
    let stores = two();
    let vault = open(&stores, Some(record.clone()));
    vault.create(&key("0000/1"), "one".into(), None).await.expect("created");
    let older = SimulatedStore::new(stores[0].truth().snapshot(), 9);
    vault.create(&key("0000/2"), "two".into(), None).await.expect("created");
    drop(vault);
    let stores = [older, stores[1].clone()];
    let vault = open(&stores, Some(record));
    assert_eq!(vault.list(&Prefix::all(), None).await.expect("listed").len(), 2);
    in_step(&vault).await;
    assert_eq!(content(stores[0].truth()).await, content(stores[1].truth()).await);
}

/// Two vaults of a process that was killed within a write of `0000/2`, and was started again while the first vault is away.
async fn cut_off(record: &Path) -> ([SimulatedStore; 2], Vault) {
    let stores = two();
    let vault = open(&stores, Some(record.to_owned()));
    vault.create(&key("0000/1"), "one".into(), None).await.expect("created");
    // The first vault takes it, the second never gets it, and the process dies.
    stores[0].fail_call(stores[0].call_count(), Fault::CrashAfter);
    let key_of_it = key("0000/2");
    let cut = tokio::time::timeout(Duration::from_millis(1), vault.create(&key_of_it, "cut off".into(), None)).await;
    assert!(cut.is_err());
    drop(vault);
    assert_eq!(content(stores[0].truth()).await.len(), 2);
    // The first vault is away when it starts again, so the history goes on in the second one.
    stores[0].revive();
    stores[0].fail_from(0);
    let vault = open(&stores, Some(record.to_owned()));
    (stores, vault)
}

#[tokio::test(start_paused = true)]
async fn a_write_that_was_cut_off_by_a_kill_leaves_no_second_history() {
    let folder = tempfile::tempdir().expect("a folder");
    let (stores, vault) = cut_off(&folder.path().join("several.json")).await;
    vault.create(&key("0000/2"), "another capture".into(), None).await.expect("created");
    stores[0].revive();
    in_step(&vault).await;
    assert_eq!(content(stores[0].truth()).await["0000/2"], "another capture");
}

#[tokio::test(start_paused = true)]
async fn a_vault_with_its_own_retention_keeps_what_the_others_delete() {
    let stores = two();
    let mut places = places(&stores);
    places[1].keeps = true;
    let open = || SeveralStore::vault(places.clone(), policy(), settings(None));
    let vault = open();
    for i in 0..3 {
        vault.create(&key(&format!("0000/{i}")), "text".into(), None).await.expect("created");
    }
    vault.delete(&[key("0000/0")]).await.expect("deleted");
    assert_eq!(content(stores[0].truth()).await.len(), 2);
    assert_eq!(content(stores[1].truth()).await.len(), 3);
    drop(vault);
    let vault = open();
    assert_eq!(vault.list(&Prefix::all(), None).await.expect("listed").len(), 2, "the other leads");
    assert!(vault.members().iter().all(|member| member.in_step), "{:?}", vault.members());
}

#[tokio::test(start_paused = true)]
async fn credentials_that_cannot_delete_hold_nothing_up() {
    let stores = two();
    stores[1].forbid("delete", Error::Denied { object: "x".into(), cause: "no".into() });
    let vault = open(&stores, None);
    vault.create(&key("0000/0"), "text".into(), None).await.expect("created");
    vault.delete(&[key("0000/0")]).await.expect("deleted");
    assert!(vault.members().iter().all(|member| member.in_step), "{:?}", vault.members());
}

#[tokio::test(start_paused = true)]
async fn much_that_is_missing_comes_in_the_order_in_which_it_was_written() {
    let stores = two();
    let vault = open(&stores, None);
    vault.list(&Prefix::all(), None).await.expect("listed");
    stores[1].fail_from(0);
    // By its name the last comes first: a link that makes a set count.
    for name in ["z/3", "z/2", "z/1", "a/link"] {
        vault.create(&key(name), name.to_owned().into(), Some(Moment::from_millis(5))).await.expect("created");
        std::thread::sleep(Duration::from_millis(2));
    }
    let before = stores[1].call_count();
    stores[1].revive();
    in_step(&vault).await;
    let calls = stores[1].calls();
    let puts: Vec<&str> = calls[usize::try_from(before).expect("few")..]
        .iter()
        .filter(|call| call.operation == "put" && call.fault.is_none())
        .map(|call| call.object.as_str())
        .collect();
    assert_eq!(puts, ["z/3", "z/2", "z/1", "a/link"]);
    let meta = stores[1].truth().head(&key("a/link")).await.expect("there");
    assert_eq!(meta.stamp, Some(Moment::from_millis(5)));
    assert!(meta.digest.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_raw_refusal_is_a_refusal() {
    let stores = two();
    let store = SeveralStore::new(places(&stores), &policy(), settings(None));
    let create = PutOptions { condition: Condition::Create, ..PutOptions::default() };
    store.put(&key("x"), "a".into(), &create).await.expect("put");
    let again = store.put(&key("x"), "a".into(), &create).await;
    assert!(matches!(again, Err(Error::AlreadyExists { .. })), "{again:?}");
    let read: Vec<Bytes> = store.get(&key("x"), None).await.expect("get").stream.try_collect().await.expect("read");
    assert_eq!(read.concat(), b"a");
}

#[tokio::test(start_paused = true)]
async fn a_write_that_was_cut_off_is_replaced_by_another_of_the_same_size() {
    let folder = tempfile::tempdir().expect("a folder");
    let (stores, vault) = cut_off(&folder.path().join("several.json")).await;
    vault.create(&key("0000/2"), "another".into(), None).await.expect("created");
    vault.create(&key("0000/3"), "three".into(), None).await.expect("created");
    stores[0].revive();
    in_step(&vault).await;
    assert_eq!(content(stores[0].truth()).await["0000/2"], "another");
    assert_eq!(content(stores[0].truth()).await, content(stores[1].truth()).await);
}

/// Nothing tells what a streamed object was to be. It was never acknowledged, so what the other vault has counts.
#[tokio::test(start_paused = true)]
async fn a_streamed_write_that_was_cut_off_by_a_kill_is_replaced_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let record = folder.path().join("several.json");
    let stores = two();
    let vault = open(&stores, Some(record.clone()));
    vault.create(&key("0000/1"), "one".into(), None).await.expect("created");
    let mut upload = vault.upload(&key("0009/1"), None);
    upload.write(Bytes::from(vec![1; 350])).await.expect("sent");
    std::mem::forget(upload);
    drop(vault);
    // The process died when the first vault had just completed it.
    let whole = Bytes::from(vec![1; 350]);
    stores[0].truth().put(&key("0009/1"), whole, &PutOptions::default()).await.expect("put");
    stores[0].fail_from(0);
    let vault = open(&stores, Some(record));
    let mut upload = vault.upload(&key("0009/1"), None);
    upload.write(Bytes::from(vec![2; 350])).await.expect("sent");
    upload.finish().await.expect("finished");
    stores[0].revive();
    in_step(&vault).await;
    assert_eq!(content(stores[0].truth()).await["0009/1"], vec![2; 350]);
    assert_eq!(content(stores[0].truth()).await, content(stores[1].truth()).await);
}

fn looking(stores: &[SimulatedStore], record: &Path) -> Vault {
    let settings = Settings { look: Some(Duration::from_secs(3600)), ..settings(Some(record.to_owned())) };
    SeveralStore::vault(places(stores), policy(), settings)
}

async fn delete_all(store: &SimulatedStore) {
    let names: Vec<ObjectKey> = content(store.truth()).await.keys().map(|name| key(name)).collect();
    store.truth().delete(&names).await.expect("deleted");
}

#[tokio::test(start_paused = true)]
async fn a_vault_that_was_emptied_or_set_back_is_found_by_a_look() {
    let put = async |vault: &Vault, i: u32| {
        vault.create(&key(&format!("0000/{i:03}")), format!("object {i}").into(), None).await.expect("created");
    };
    for (emptied, keep) in [(0, 0), (1, 0), (1, 10)] {
        let folder = tempfile::tempdir().expect("a folder");
        let stores = two();
        let vault = looking(&stores, &folder.path().join("several.json"));
        for i in 0..20 {
            put(&vault, i).await;
        }
        // A look.
        tokio::time::sleep(Duration::from_secs(3601)).await;
        let old = content(stores[emptied].truth()).await;
        for i in 20..40 {
            put(&vault, i).await;
        }
        delete_all(&stores[emptied]).await;
        for (name, bytes) in old.into_iter().take(keep) {
            stores[emptied].truth().put(&key(&name), bytes, &PutOptions::default()).await.expect("put");
        }
        for i in 40..60 {
            put(&vault, i).await;
        }
        assert!(vault.members()[emptied].in_step, "nothing showed it");
        tokio::time::sleep(Duration::from_secs(3700)).await;
        in_step(&vault).await;
        assert!(vault.members()[emptied].set_back.is_some() && vault.members()[1 - emptied].set_back.is_none());
        assert_eq!(content(stores[emptied].truth()).await.len(), 60);
        assert_eq!(content(stores[0].truth()).await, content(stores[1].truth()).await);
        // What is deleted everywhere, or in both by somebody else, isn't missing in one of them.
        vault.delete(&[key("0000/059"), key("0000/058")]).await.expect("deleted");
        for store in &stores {
            store.truth().delete(&[key("0000/057")]).await.expect("deleted");
        }
        tokio::time::sleep(Duration::from_secs(8000)).await;
        assert!(vault.members().iter().all(|member| member.in_step), "{:?}", vault.members());
    }
}

/// A look costs what is documented, and a vault that doesn't answer holds up nothing.
#[tokio::test(start_paused = true)]
async fn a_look_costs_few_requests() {
    let folder = tempfile::tempdir().expect("a folder");
    let stores = two();
    let vault = looking(&stores, &folder.path().join("several.json"));
    for i in 0..100 {
        vault.create(&key(&format!("0000/{i:03}")), vec![i; 5000].into(), None).await.expect("created");
    }
    tokio::time::sleep(Duration::from_secs(7300)).await;
    let before: Vec<_> = stores.iter().map(SimulatedStore::call_count).collect();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    for (store, before) in stores.iter().zip(before) {
        assert!(store.call_count() - before <= 3, "{}", store.call_count() - before);
    }
    stores[1].fail_from(0);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    vault.create(&key("0000/100"), "x".into(), None).await.expect("created");
    assert!(vault.members()[0].in_step);
}

/// Names of servers' sets have a nonce: a vault without any of ours is another database's, however new it is.
#[tokio::test(start_paused = true)]
async fn a_vault_with_other_sets_only_is_left_alone() {
    for (bad, recorded) in [(0, true), (1, true), (2, true), (0, false), (2, false)] {
        let folder = tempfile::tempdir().expect("a folder");
        let record = folder.path().join("several.json");
        let stores = three(3);
        let vault = open(&stores, Some(record.clone()));
        for name in ["sets/2026-a/1", "sets/2026-b/1"] {
            vault.create(&key(name), "ours".into(), None).await.expect("created");
        }
        drop(vault);
        delete_all(&stores[bad]).await;
        for name in ["sets/2027-c/1", "sets/2027-d/1"] {
            stores[bad].truth().put(&key(name), "else".into(), &PutOptions::default()).await.expect("put");
        }
        let vault = open(&stores, recorded.then_some(record));
        vault.create(&key("sets/2028-e/1"), "ours".into(), None).await.expect("created");
        tokio::time::sleep(Duration::from_secs(3600)).await;
        for (i, member) in vault.members().iter().enumerate() {
            assert_eq!(matches!(member.error, Some(Error::Differs { .. })), i == bad, "{bad} {recorded}: {member:?}");
            let content = content(stores[i].truth()).await;
            assert_eq!(content.values().any(|bytes| bytes == "else"), i == bad, "{content:?}");
            assert_eq!(content.values().any(|bytes| bytes == "ours"), i != bad, "{content:?}");
        }
    }
}

/// Two histories that parted, and went on under names and with sizes that are the same.
#[tokio::test(start_paused = true)]
async fn other_content_of_the_same_size_is_never_taken_for_the_same() {
    let put = async |store: &SimulatedStore, name: &str, text: &'static str| {
        store.truth().put(&key(name), text.into(), &PutOptions::default()).await.expect("put");
    };
    // Without a record, at the start.
    let stores = two();
    put(&stores[0], "0000/1", "ours").await;
    put(&stores[1], "0000/1", "else").await;
    let vault = open(&stores, None);
    vault.create(&key("0000/2"), "two".into(), None).await.expect("created");
    within(&vault, |members| !members[1].in_step).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let second = vault.members().remove(1);
    assert_eq!(second.error.as_ref().map(Error::object), Some("memory-1:/0000/1"));
    assert!(!content(stores[1].truth()).await.contains_key("0000/2"), "nothing is put upon another history");

    // A vault that is away while another writer writes to it.
    let stores = two();
    let vault = open(&stores, None);
    vault.create(&key("0000/1"), "one".into(), None).await.expect("created");
    stores[1].fail_from(0);
    vault.create(&key("0000/2"), "ours".into(), None).await.expect("created");
    put(&stores[1], "0000/2", "else").await;
    stores[1].revive();
    within(&vault, |members| matches!(members[1].error, Some(Error::Differs { .. }))).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(!vault.members()[1].in_step, "{:?}", vault.members());
    assert_eq!(content(stores[1].truth()).await["0000/2"], "else", "it is never written over");
}

#[tokio::test(start_paused = true)]
async fn with_a_damaged_record_no_vault_leads_while_another_is_away() {
    let folder = tempfile::tempdir().expect("a folder");
    let record = folder.path().join("several.json");
    let stores = two();
    let vault = open(&stores, Some(record.clone()));
    vault.create(&key("0000/1"), "one".into(), None).await.expect("created");
    stores[1].fail_from(0);
    vault.create(&key("0000/2"), "two".into(), None).await.expect("created in the first");
    drop(vault);
    std::fs::write(&record, "{").expect("damaged");
    stores[1].revive();
    stores[0].fail_from(0);
    let vault = open(&stores, Some(record.clone()));
    let refused = vault.create(&key("0000/2"), "other".into(), None).await;
    let Err(Error::Unavailable { cause, .. }) = &refused else { unreachable!("{refused:?}") };
    assert!(cause.contains("can't be read") && cause.contains("several.json"), "{cause}");
    stores[0].revive();
    let refused = vault.create(&key("0000/2"), "other".into(), None).await;
    assert!(matches!(refused, Err(Error::AlreadyExists { .. })), "{refused:?}");
    in_step(&vault).await;
    assert_eq!(content(stores[1].truth()).await["0000/2"], "two");
    // The record is whole again.
    drop(vault);
    let vault = open(&stores, Some(record));
    assert_eq!(vault.list(&Prefix::all(), None).await.expect("listed").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_is_written_over_and_deleted_holds_up_no_vault_that_cannot_delete() {
    let stores = two();
    let vault = open(&stores, None);
    let lease = key("lock.json");
    vault.put(&lease, "held".into(), None).await.expect("put");
    stores[1].fail_from(0);
    vault.delete(std::slice::from_ref(&lease)).await.expect("deleted");
    stores[1].revive();
    stores[1].forbid("delete", Error::Denied { object: "x".into(), cause: "no".into() });
    in_step(&vault).await;
    vault.create(&key("0000/1"), "one".into(), None).await.expect("created");
    assert!(content(stores[1].truth()).await.contains_key("0000/1"));
}

/// An encrypted vault that was away for longer than the host's keys live: what is written from then on has to get there.
#[tokio::test(start_paused = true)]
async fn a_vault_that_was_away_for_days_gets_what_the_keys_of_the_host_open() {
    let (secret, public) = Identities::generate();
    let prompt: Arc<dyn Prompt> = Arc::new(NoPrompt);
    let owner = Identities::parse(&secret, "the key", &prompt).expect("an identity");
    let access = |identities: &Identities| {
        let recipients = Recipients::read([&public], Path::new("")).expect("a recipient");
        let keys = HostKeys::new(None, Arc::new(SystemClock));
        Access::Sealed(Arc::new(Sealing::new(Some(recipients), identities.clone(), keys)))
    };
    let folder = tempfile::tempdir().expect("a folder");
    let record = folder.path().join("several.json");
    let stores = two();
    // Each opening has keys of its own, as after days.
    let open = |identities: &Identities| {
        let access = access(identities);
        let sealed = |store: &SimulatedStore| SealedStore::new(Arc::new(store.clone()), access.clone());
        let places = stores.iter().map(|store| Place { store: Arc::new(sealed(store)), keeps: false }).collect();
        SeveralStore::vault(places, policy(), settings(Some(record.clone())))
    };
    let alone = |store: &SimulatedStore| {
        Vault::new(Arc::new(SealedStore::new(Arc::new(store.clone()), access(&owner))), policy())
    };
    let vault = open(&Identities::none());
    vault.create(&key("0000/1"), "one".into(), None).await.expect("created");
    stores[1].fail_from(0);
    vault.create(&key("0000/2"), "two".into(), None).await.expect("created");
    drop(vault);
    stores[1].revive();
    let vault = open(&Identities::none());
    vault.create(&key("0000/3"), "three".into(), None).await.expect("created");
    in_step(&vault).await;
    vault.create(&key("0000/4"), "four".into(), None).await.expect("created");
    let second = vault.members().remove(1);
    assert_eq!((second.in_step, second.objects_left), (true, Some(1)), "{second:?}");
    let there = alone(&stores[1]);
    for (name, text) in [("0000/1", "one"), ("0000/3", "three"), ("0000/4", "four")] {
        assert_eq!(there.read(&key(name), None, 100).await.expect("read"), text, "{name}");
    }
    assert_eq!(there.head(&key("0000/2")).await.expect("asked"), None);
    drop(vault);
    let vault = open(&owner);
    vault.list(&Prefix::all(), None).await.expect("listed");
    in_step(&vault).await;
    assert_eq!(alone(&stores[1]).read(&key("0000/2"), None, 100).await.expect("read"), "two");
    assert_eq!(vault.members()[1].objects_left, None);
}

/// Puts an object into a vault by hand.
async fn plant(store: &SimulatedStore, name: &str, text: &'static str) {
    store.truth().put(&key(name), text.into(), &PutOptions::default()).await.expect("put");
}

async fn fill(vault: &Vault, names: &[&str]) {
    for name in names {
        vault.create(&key(name), "ours".into(), None).await.expect("created");
    }
}

/// An engine that calls "else" a stranger's.
#[derive(Debug)]
struct Else;

#[async_trait::async_trait]
impl Judge for Else {
    async fn stranger(&self, question: Question<'_>) -> Result<Option<Stranger>, Error> {
        for key in question.names {
            if question.suspect.read(key, None, 100).await? == "else" {
                return Ok(Some(Stranger { key: key.clone(), why: "it is something else".to_owned() }));
            }
        }
        Ok(None)
    }

    async fn misfit(&self, _from: &Vault, _to: &Vault, _key: &ObjectKey) -> Result<Option<Stranger>, Error> {
        Ok(None)
    }

    async fn sound(&self, _vault: &Vault, _key: &ObjectKey) -> Result<bool, Error> {
        Ok(true)
    }
}

/// The names are the same in each database's vault: a swap is found before something is deleted.
#[tokio::test(start_paused = true)]
async fn nothing_is_deleted_in_a_vault_that_was_swapped() {
    for (bad, is_away) in [(0, false), (1, false), (1, true)] {
        for judge in [None, Some(Arc::new(Else) as Arc<dyn Judge>)] {
            let folder = tempfile::tempdir().expect("a folder");
            let stores = two();
            let settings = Settings { judge, ..settings(Some(folder.path().join("several.json"))) };
            let vault = SeveralStore::vault(places(&stores), policy(), settings);
            fill(&vault, &["0000/1", "0000/2", "0000/3", "0000/4"]).await;
            if is_away {
                stores[bad].fail_from(0);
                fill(&vault, &["0000/5"]).await;
            }
            delete_all(&stores[bad]).await;
            for name in ["0000/1", "0000/2"] {
                plant(&stores[bad], name, "else").await;
            }
            let foreign = content(stores[bad].truth()).await;
            vault.delete(&[key("0000/1"), key("0000/2")]).await.expect("deleted");
            stores[bad].revive();
            assert!(is_away || !vault.confirms(vault.members()[bad].url.as_str()).await);
            within(&vault, |members| matches!(members[bad].error, Some(Error::Differs { .. }))).await;
            assert_eq!(content(stores[bad].truth()).await, foreign, "{bad} {is_away}");
            let names: Vec<String> = content(stores[1 - bad].truth()).await.into_keys().collect();
            assert!(!names.contains(&"0000/1".to_owned()) && names.contains(&"0000/4".to_owned()), "{names:?}");
        }
    }
}

/// A look that fails moves nothing on: the next one finds what was lost before it.
#[tokio::test(start_paused = true)]
async fn a_look_that_fails_is_made_up_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let stores = two();
    let vault = looking(&stores, &folder.path().join("several.json"));
    let put = async |range: std::ops::Range<u32>| {
        for i in range {
            vault.create(&key(&format!("0000/{i:03}")), "text".into(), None).await.expect("created");
        }
    };
    put(0..20).await;
    tokio::time::sleep(Duration::from_secs(3601)).await;
    put(20..40).await;
    delete_all(&stores[1]).await;
    put(40..100).await;
    stores[1].fail_from(0);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    stores[1].revive();
    put(100..200).await;
    assert!(vault.members()[1].in_step && vault.members()[1].set_back.is_none());
    tokio::time::sleep(Duration::from_secs(3700)).await;
    in_step(&vault).await;
    assert!(vault.members()[1].set_back.is_some());
    assert_eq!(content(stores[0].truth()).await, content(stores[1].truth()).await);
}

/// Each vault lost another object: they fill one another, and one of them is always in step.
#[tokio::test(start_paused = true)]
async fn a_look_never_leaves_the_last_vault() {
    let folder = tempfile::tempdir().expect("a folder");
    let stores = two();
    let vault = looking(&stores, &folder.path().join("several.json"));
    fill(&vault, &["0000/1", "0000/2", "0000/3"]).await;
    for (store, name) in stores.iter().zip(["0000/1", "0000/2"]) {
        store.truth().delete(&[key(name)]).await.expect("deleted");
    }
    for i in 0..100 {
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert!(vault.members().iter().any(|member| member.in_step), "{i} {:?}", vault.members());
    }
    in_step(&vault).await;
    assert_eq!(content(stores[0].truth()).await.len(), 3);
    assert_eq!(content(stores[0].truth()).await, content(stores[1].truth()).await);
}

/// What retention deleted in the other vault makes an older vault no newer.
#[tokio::test(start_paused = true)]
async fn a_vault_that_was_set_back_behind_a_deletion_never_leads() {
    let folder = tempfile::tempdir().expect("a folder");
    let record = folder.path().join("several.json");
    let stores = two();
    let vault = open(&stores, Some(record.clone()));
    fill(&vault, &["sets/1/x", "sets/2/x"]).await;
    let older = SimulatedStore::new(stores[0].truth().snapshot(), 9);
    fill(&vault, &["sets/3/x"]).await;
    vault.delete(&[key("sets/1/x")]).await.expect("deleted");
    fill(&vault, &["sets/4/x"]).await;
    drop(vault);
    let stores = [older, stores[1].clone()];
    let vault = open(&stores, Some(record));
    let listed = vault.list(&Prefix::all(), None).await.expect("listed");
    assert!(["sets/3/x", "sets/4/x"].iter().all(|name| listed.iter().any(|entry| entry.key.as_str() == *name)));
    assert!(vault.members()[0].set_back.is_some(), "{:?}", vault.members());
    in_step(&vault).await;
    assert!(content(stores[0].truth()).await.contains_key("sets/4/x"));
    assert!(vault.members()[1].error.is_none());
}

/// What an emptied vault lacks may be in the one that is away.
#[tokio::test(start_paused = true)]
async fn an_emptied_vault_waits_for_the_one_that_is_away() {
    let folder = tempfile::tempdir().expect("a folder");
    let record = folder.path().join("several.json");
    let stores = two();
    let vault = open(&stores, Some(record.clone()));
    fill(&vault, &["0000/1", "0000/2"]).await;
    drop(vault);
    delete_all(&stores[0]).await;
    stores[1].fail_from(0);
    let vault = open(&stores, Some(record));
    let refused = vault.create(&key("0000/1"), "anew".into(), None).await.expect_err("refused");
    assert!(matches!(refused, Error::Unavailable { .. }) && refused.to_string().contains("may have it"), "{refused}");
    stores[1].revive();
    fill(&vault, &["0000/3"]).await;
    in_step(&vault).await;
    assert_eq!(content(stores[0].truth()).await.len(), 3);
    assert_eq!(content(stores[0].truth()).await, content(stores[1].truth()).await);
    assert!(vault.members()[0].set_back.is_some());
}

/// Nothing tells which of two is the right one, and the first of the list is no better.
#[tokio::test(start_paused = true)]
async fn a_tie_without_a_record_is_refused() {
    for ours in [0, 1] {
        let stores = two();
        for (i, text) in [(ours, "\"ours\""), (1 - ours, "\"else\"")] {
            for link in 1..=3 {
                plant(&stores[i], &format!("chain/{link:08}.json"), text).await;
            }
            plant(&stores[i], &format!("sets/{i}/x"), text).await;
        }
        let before = (content(stores[0].truth()).await, content(stores[1].truth()).await);
        let vault = open(&stores, None);
        let refused = vault.create(&key("sets/9/x"), "new".into(), None).await.expect_err("refused");
        assert!(matches!(refused, Error::Unsure { .. }), "{refused}");
        assert_eq!(seawall_core::Failure::from(refused).code, "vault.unsure");
        assert!(vault.delete(&[key("chain/00000001.json")]).await.is_err());
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!((content(stores[0].truth()).await, content(stores[1].truth()).await), before);
    }
}

/// A process that doesn't note which vaults are the database's deletes nothing while one is away that nothing is known of.
#[tokio::test(start_paused = true)]
async fn who_cannot_compare_the_vaults_deletes_nothing() {
    let stores = two();
    plant(&stores[0], "0000/1", "else").await;
    stores[1].fail_from(0);
    let reader = Settings { notes: false, ..settings(None) };
    let vault = SeveralStore::vault(places(&stores), policy(), reader);
    let refused = vault.delete(&[key("0000/1")]).await.expect_err("refused");
    assert!(matches!(refused, Error::Unsure { .. }), "{refused}");
    assert_eq!(content(stores[0].truth()).await.len(), 1);

    // A process that notes deletes once all were compared, and not because it is started again.
    let folder = tempfile::tempdir().expect("a folder");
    let record = folder.path().join("several.json");
    for _ in 0..2 {
        let vault = open(&stores, Some(record.clone()));
        vault.list(&Prefix::all(), None).await.expect("listed");
        let refused = vault.delete(&[key("0000/1")]).await.expect_err("refused");
        assert!(matches!(refused, Error::Unsure { .. }), "{refused}");
        vault.put(&key("lock.json"), "mine".into(), None).await.expect("put");
        vault.delete(&[key("lock.json")]).await.expect("a lease is no history");
        assert_eq!(content(stores[0].truth()).await.len(), 1);
    }
    let vault = open(&stores, Some(record.clone()));
    fill(&vault, &["0000/2"]).await;
    stores[1].revive();
    in_step(&vault).await;
    vault.delete(&[key("0000/1")]).await.expect("deleted");
    assert_eq!(content(stores[0].truth()).await.len(), 1);
    assert_eq!(content(stores[1].truth()).await.len(), 1);
    drop(vault);
    stores[1].fail_from(0);
    let vault = open(&stores, Some(record));
    fill(&vault, &["0000/3"]).await;
    vault.delete(&[key("0000/2")]).await.expect("they were compared");
}

/// What a process begins itself is the database's.
#[tokio::test(start_paused = true)]
async fn a_new_database_is_proved() {
    let folder = tempfile::tempdir().expect("a folder");
    let record = folder.path().join("several.json");
    let stores = two();
    plant(&stores[0], "lock.json", "a lease tells nothing").await;
    stores[1].fail_from(0);
    for name in ["0000/1", "0000/2"] {
        let vault = open(&stores, Some(record.clone()));
        fill(&vault, &[name]).await;
        vault.delete(&[key(name)]).await.expect("deleted");
    }
}

/// The vault that is behind holds what the leading one lost: it isn't called a stranger's, and nothing is deleted in it.
#[tokio::test(start_paused = true)]
async fn what_the_leading_vault_lost_is_no_stranger() {
    let stores = two();
    let vault = open(&stores, None);
    fill(&vault, &["0009/1", "0000/1"]).await;
    stores[0].truth().delete(&[key("0009/1")]).await.expect("deleted");
    stores[1].fail_from(0);
    fill(&vault, &["0000/2"]).await;
    let before = content(stores[1].truth()).await;
    stores[1].revive();
    within(&vault, |members| matches!(members[1].error, Some(Error::Corrupt { .. }))).await;
    assert!(vault.members()[0].set_back.is_some());
    assert_eq!(content(stores[1].truth()).await, before);
}

/// An engine whose judge can't answer.
#[derive(Debug)]
struct Mute;

#[async_trait::async_trait]
impl Judge for Mute {
    async fn stranger(&self, question: Question<'_>) -> Result<Option<Stranger>, Error> {
        Err(Error::Timeout { object: question.suspect.url().to_owned(), after: Duration::from_secs(1) })
    }

    async fn misfit(&self, _from: &Vault, _to: &Vault, _key: &ObjectKey) -> Result<Option<Stranger>, Error> {
        Ok(None)
    }

    async fn sound(&self, _vault: &Vault, _key: &ObjectKey) -> Result<bool, Error> {
        Ok(true)
    }
}

fn alone(store: &SimulatedStore) -> Vault {
    Vault::new(Arc::new(store.clone()), policy())
}

fn judged(stores: &[SimulatedStore], record: &Path, judge: Option<Arc<dyn Judge>>) -> Vault {
    let look = Some(Duration::from_secs(3600));
    SeveralStore::vault(places(stores), policy(), Settings { look, judge, ..settings(Some(record.to_owned())) })
}

/// Two vaults in step, and then the first one alone goes on: the record is older than it.
async fn one_went_on(record: &Path, all: bool) -> [SimulatedStore; 2] {
    let stores = two();
    let vault = open(&stores, Some(record.to_owned()));
    fill(&vault, &["0009/1", "0000/1", "0000/2"]).await;
    drop(vault);
    let first = alone(&stores[0]);
    fill(&first, &["0000/3", "0001/3", "0000/4", "0009/4"]).await;
    let deleted = [key("0000/1"), key("0000/2"), key("0009/1")];
    first.delete(&deleted[..if all { 3 } else { 2 }]).await.expect("deleted");
    stores
}

/// What the record names was merged and deleted meanwhile. The vault that was left out holds it still, and is the older one.
#[tokio::test(start_paused = true)]
async fn a_vault_that_went_on_without_the_other_one_leads() {
    for (all, judge) in
        [(false, None), (false, Some(Arc::new(Else) as Arc<dyn Judge>)), (true, Some(Arc::new(Else) as Arc<dyn Judge>))]
    {
        let folder = tempfile::tempdir().expect("a folder");
        let record = folder.path().join("several.json");
        let stores = one_went_on(&record, all).await;
        let vault = judged(&stores, &record, judge);
        fill(&vault, &["0000/5"]).await;
        assert!(vault.members()[0].leads, "{all} {:?}", vault.members());
        in_step(&vault).await;
        fill(&vault, &["0000/6"]).await;
        tokio::time::sleep(Duration::from_secs(3 * 3600)).await;
        fill(&vault, &["0000/7"]).await;
        let members = vault.members();
        assert!(members.iter().all(|member| member.in_step && member.set_back.is_none()), "{all} {members:?}");
        assert!(members[0].leads, "{all} {members:?}");
        let (newer, older) = (content(stores[0].truth()).await, content(stores[1].truth()).await);
        assert!(newer.keys().all(|name| older.contains_key(name)), "{all} {older:?}");
        assert!(!newer.contains_key("0000/2"), "{all} {newer:?}");
    }
}

/// An archive that went on as well, and keeps what the other one deletes, knows what the record names. It brings nothing back.
#[tokio::test(start_paused = true)]
async fn an_archive_that_knows_more_of_the_record_does_not_lead() {
    for judge in [None, Some(Arc::new(Else) as Arc<dyn Judge>)] {
        let folder = tempfile::tempdir().expect("a folder");
        let record = folder.path().join("several.json");
        let stores = one_went_on(&record, true).await;
        fill(&alone(&stores[1]), &["0000/3", "0001/3", "0000/4", "0009/4"]).await;
        let before = content(stores[0].truth()).await;
        let mut places = places(&stores);
        places[1].keeps = true;
        let vault = SeveralStore::vault(places, policy(), Settings { judge, ..settings(Some(record)) });
        vault.list(&Prefix::all(), None).await.expect("listed");
        let members = vault.members();
        assert!(members[0].leads && members.iter().all(|member| member.in_step), "{members:?}");
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(content(stores[0].truth()).await, before);
    }
}

/// The older one being away holds nothing up. Where later names are all that shows, nothing is deleted before they are compared.
#[tokio::test(start_paused = true)]
async fn a_vault_that_went_on_alone_does_so_again() {
    for all in [false, true] {
        let folder = tempfile::tempdir().expect("a folder");
        let record = folder.path().join("several.json");
        let stores = one_went_on(&record, all).await;
        stores[1].fail_from(0);
        let vault = judged(&stores, &record, None);
        fill(&vault, &["0000/5"]).await;
        assert!(vault.members()[0].leads && vault.members()[0].set_back.is_none(), "{all} {:?}", vault.members());
        assert_eq!(vault.delete(&[key("0000/3")]).await.is_err(), all);
        stores[1].revive();
        in_step(&vault).await;
        vault.delete(&[key("0001/3")]).await.expect("deleted");
        assert!(!content(stores[1].truth()).await.contains_key("0001/3"));
    }
}

/// Later names prove nothing: a vault that holds none of what the record names leads only if its history is that of another vault.
#[tokio::test(start_paused = true)]
async fn a_vault_with_later_names_alone_does_not_lead() {
    for judge in [Some(Arc::new(Mute) as Arc<dyn Judge>), Some(Arc::new(Else) as Arc<dyn Judge>), None] {
        let folder = tempfile::tempdir().expect("a folder");
        let record = folder.path().join("several.json");
        let stores = two();
        let vault = open(&stores, Some(record.clone()));
        fill(&vault, &["0009/1", "0000/1", "0000/2"]).await;
        drop(vault);
        delete_all(&stores[0]).await;
        for name in ["0000/8", "0009/7"] {
            plant(&stores[0], name, "else").await;
        }
        let vault = judged(&stores, &record, judge.clone());
        fill(&vault, &["0000/3"]).await;
        let members = vault.members();
        assert!(members[1].leads && !members[0].in_step, "{judge:?} {members:?}");
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(content(stores[0].truth()).await.len(), 2, "{judge:?}");
        assert!(!content(stores[1].truth()).await.contains_key("0000/8"), "{judge:?}");
    }
}

/// An engine whose judge finds each name that it is asked for in the other vault a moment later.
#[derive(Debug)]
struct Coming;

#[async_trait::async_trait]
impl Judge for Coming {
    async fn stranger(&self, question: Question<'_>) -> Result<Option<Stranger>, Error> {
        let Some(key) = question.names.first() else { return Ok(None) };
        question.sound.create(key, "ours".into(), None).await?;
        Ok(Some(Stranger { key: key.clone(), why: "no other vault has it".to_owned() }))
    }

    async fn misfit(&self, _from: &Vault, _to: &Vault, _key: &ObjectKey) -> Result<Option<Stranger>, Error> {
        Ok(None)
    }

    async fn sound(&self, _vault: &Vault, _key: &ObjectKey) -> Result<bool, Error> {
        Ok(true)
    }
}

/// A write that is on its way comes into one vault after the other, between the pages of two listings.
#[tokio::test(start_paused = true)]
async fn what_comes_while_vaults_are_listed_is_no_stranger() {
    let folder = tempfile::tempdir().expect("a folder");
    let stores = two();
    let vault = judged(&stores, &folder.path().join("several.json"), Some(Arc::new(Coming)));
    fill(&vault, &["0000/1"]).await;
    stores[1].fail_from(0);
    fill(&vault, &["0000/2"]).await;
    for name in ["0000/3", "0000/4"] {
        plant(&stores[1], name, "ours").await;
    }
    stores[1].revive();
    let differs = |member: &MemberState| matches!(member.error, Some(Error::Differs { .. }));
    within(&vault, |members| {
        assert!(!members.iter().any(differs), "{members:?}");
        members.iter().all(|member| member.in_step)
    })
    .await;
    assert_eq!(content(stores[0].truth()).await, content(stores[1].truth()).await);
}

/// What was deleted while a vault was away costs no second comparison, and what is made again stays.
#[tokio::test(start_paused = true)]
async fn deletions_hold_up_no_vault_that_catches_up() {
    for (name, again) in [("0000/1", false), ("seawall/notes/1", true)] {
        let stores = two();
        let vault = open(&stores, None);
        fill(&vault, &["0000/1", "0000/2", "seawall/notes/1"]).await;
        stores[1].fail_from(0);
        vault.delete(&[key(name)]).await.expect("deleted");
        if again {
            fill(&vault, &[name]).await;
        }
        stores[1].revive();
        let before = vault.members()[0].requests.list;
        in_step(&vault).await;
        let lists = vault.members()[0].requests.list - before;
        // What is made again may come during the comparison, and then needs another one.
        assert!(lists <= if again { 3 } else { 1 }, "{name} {lists}");
        assert_eq!(content(stores[0].truth()).await, content(stores[1].truth()).await, "{name}");
        assert_eq!(content(stores[1].truth()).await.contains_key(name), again, "{name}");
    }
}
