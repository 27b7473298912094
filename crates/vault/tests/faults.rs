//! The vault with a failing store: an error, a lost answer, a duplicate and a crash at every call.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt;
use seawall_vault::memory::MemoryStore;
use seawall_vault::simulated::{Chances, Fault, SimulatedStore};
use seawall_vault::{Created, Error, ObjectKey, Policy, Prefix, Store, Throttle, Vault};
use tokio::time::{Instant, timeout};

const PART: usize = 1 << 10;

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(name).expect("a sound name")
}

fn policy() -> Policy {
    Policy { part_size: PART, parts_in_flight: 2, seed: 3, ..Policy::default() }
}

fn simulation(seed: u64) -> (SimulatedStore, Vault) {
    let store = SimulatedStore::new(MemoryStore::new(), seed);
    (store.clone(), Vault::new(Arc::new(store), policy()))
}

fn body(size: usize) -> Bytes {
    (0..size).map(|i| (i * 31 % 251) as u8).collect::<Vec<u8>>().into()
}

async fn truth(store: &SimulatedStore, key: &ObjectKey) -> Option<Bytes> {
    let body = store.truth().get(key, None).await.ok()?;
    let chunks: Vec<Bytes> = body.stream.try_collect().await.expect("memory");
    Some(chunks.concat().into())
}

/// Creates, streams, swaps, lists, reads and deletes; everything must come out as if nothing had happened.
async fn work(vault: &Vault) -> Result<(), Error> {
    vault.create(&key("a/whole"), body(100), None).await?;
    let mut upload = vault.upload(&key("a/streamed"), None);
    for chunk in body(4 * PART + 7).chunks(100) {
        upload.write(Bytes::copy_from_slice(chunk)).await?;
    }
    upload.finish().await?;
    vault.create(&key("a/lease"), Bytes::from_static(b"nonce 1"), None).await?;
    let tag = vault.head(&key("a/lease")).await?.and_then(|meta| meta.tag).expect("a version");
    vault.replace(&key("a/lease"), Bytes::from_static(b"nonce 2"), &tag).await?;
    vault.put(&key("a/gone"), body(3), None).await?;
    vault.delete(&[key("a/gone"), key("a/never")]).await?;
    assert_eq!(vault.read(&key("a/streamed"), None, 1 << 20).await?, body(4 * PART + 7));
    assert_eq!(vault.read(&key("a/whole"), Some(10..20), 10).await?, body(100)[10..20]);
    Ok(())
}

async fn check(store: &SimulatedStore, what: &str) {
    assert_eq!(truth(store, &key("a/whole")).await, Some(body(100)), "{what}");
    assert_eq!(truth(store, &key("a/streamed")).await, Some(body(4 * PART + 7)), "{what}");
    assert_eq!(truth(store, &key("a/lease")).await.as_deref(), Some(&b"nonce 2"[..]), "{what}");
    let page = store.truth().list(&Prefix::all(), None, 10).await.expect("memory");
    assert_eq!(page.entries.len(), 3, "{what}: {page:?}");
}

#[tokio::test(start_paused = true)]
async fn one_fault_at_every_call_changes_nothing() {
    let (store, vault) = simulation(0);
    work(&vault).await.expect("without faults");
    check(&store, "without faults").await;
    let calls = store.call_count();
    assert!(calls > 12, "{calls}");
    let faults = [
        Fault::Error,
        Fault::LostAnswer,
        Fault::Duplicate,
        Fault::BrokenStream,
        Fault::Delay(Duration::from_secs(20)),
        Fault::Hang,
    ];
    for fault in faults {
        for number in 0..calls {
            let (store, vault) = simulation(0);
            store.fail_call(number, fault.clone());
            let what = format!("{fault:?} at call {number}: {:?}", store.calls());
            let result = work(&vault).await;
            // A part or completion that never ends leaves the upload in an unknown state, which is an error and not a
            // guess; everything else is repeated.
            let operation = store.calls().get(number as usize).map(|call| call.operation);
            if fault == Fault::Hang && matches!(operation, Some("write" | "complete")) {
                assert!(matches!(result, Err(Error::Timeout { .. })), "{what}: {result:?}");
                continue;
            }
            assert_eq!(result, Ok(()), "{what}: {:?}", store.calls());
            check(&store, &what).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_every_call_leaves_objects_whole_or_not_there() {
    let (store, vault) = simulation(0);
    work(&vault).await.expect("without faults");
    for fault in [Fault::Crash, Fault::CrashAfter] {
        for number in 0..store.call_count() {
            let (store, vault) = simulation(0);
            store.fail_call(number, fault.clone());
            let killed = timeout(Duration::from_secs(5), work(&vault)).await;
            assert!(killed.is_err(), "a crashed store answers no one");
            store.revive();
            for (name, whole) in [("a/whole", body(100)), ("a/streamed", body(4 * PART + 7)), ("a/gone", body(3))] {
                let found = truth(&store, &key(name)).await;
                assert!(found.is_none() || found == Some(whole), "{name} after {fault:?} at call {number}");
            }
            // The next process repeats the work, and continues from the objects that it finds.
            let (_, again) = (store.clone(), Vault::new(Arc::new(store.clone()), policy()));
            match work(&again).await {
                Ok(()) => check(&store, "after a crash").await,
                // The lease was swapped already: creating it with its first content is rightly refused.
                Err(error) => assert!(matches!(error, Error::AlreadyExists { .. }), "{error:?}"),
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn faults_by_chance() {
    let mut retries = 0;
    for seed in 0..200 {
        let (store, vault) = simulation(seed);
        let store = store.with_chances(Chances {
            error: 60,
            lost_answer: 60,
            duplicate: 60,
            broken_stream: 100,
            delay: 100,
            longest_delay: Duration::from_secs(3),
            ..Chances::default()
        });
        work(&vault).await.unwrap_or_else(|error| panic!("seed {seed}: {error}: {:#?}", store.calls()));
        check(&store, &format!("seed {seed}")).await;
        retries += vault.counts().retries;
    }
    assert!(retries > 100, "{retries}");
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_adopted_and_another_writer_is_not() {
    let (store, vault) = simulation(0);
    store.fail_call(0, Fault::LostAnswer);
    assert_eq!(vault.create(&key("x"), body(10), None).await, Ok(Created::Adopted));
    let other = Vault::new(Arc::new(store.clone()), policy());
    let lost = other.create(&key("x"), body(11), None).await;
    assert!(matches!(lost, Err(Error::AlreadyExists { .. })), "{lost:?}");
    // Every answer is lost until the attempts run out, and then the read-back tells.
    let (store, vault) = simulation(0);
    for number in 0..u64::from(policy().attempts) {
        store.fail_call(number, Fault::LostAnswer);
    }
    assert_eq!(vault.create(&key("x"), body(10), None).await, Ok(Created::Adopted));
    assert_eq!(vault.counts().put, u64::from(policy().attempts));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_cannot_be_looked_into_is_no_conflict() {
    let (store, vault) = simulation(0);
    // The first answer is lost, the second attempt is refused because of the first, and then the store is away.
    store.fail_call(0, Fault::LostAnswer);
    store.fail_from(2);
    let error = vault.create(&key("x"), body(10), None).await.expect_err("unclear");
    assert!(error.is_retryable(), "{error:?}");
    store.revive();
    assert_eq!(vault.create(&key("x"), body(10), None).await, Ok(Created::Adopted));
}

#[tokio::test(start_paused = true)]
async fn a_swap_that_never_arrived_is_no_conflict() {
    let (store, vault) = simulation(0);
    vault.create(&key("x"), body(10), None).await.expect("create");
    let tag = vault.head(&key("x")).await.expect("head").and_then(|meta| meta.tag).expect("a version");
    let next = store.call_count();
    for number in next..next + u64::from(policy().attempts) {
        store.fail_call(number, Fault::Error);
    }
    let error = vault.replace(&key("x"), body(11), &tag).await.expect_err("away");
    assert!(error.is_retryable(), "{error:?}");
    assert!(vault.replace(&key("x"), body(11), &tag).await.is_ok(), "the same again");
    let stale = vault.replace(&key("x"), body(12), &tag).await;
    assert!(matches!(stale, Err(Error::Precondition { .. })), "{stale:?}");
    vault.delete(&[key("x")]).await.expect("delete");
    let gone = vault.replace(&key("x"), body(12), &tag).await;
    assert!(matches!(gone, Err(Error::Precondition { .. })), "{gone:?}");
}

#[tokio::test(start_paused = true)]
async fn an_empty_object_costs_one_request() {
    let (store, vault) = simulation(0);
    vault.put(&key("x"), Bytes::new(), None).await.expect("put");
    assert!(vault.read(&key("x"), None, 0).await.expect("read").is_empty());
    assert_eq!(store.call_count(), 2, "{:?}", store.calls());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_is_given_up_within_the_deadline() {
    for dead in [false, true] {
        let (store, vault) = simulation(0);
        if dead {
            store.crash()
        } else {
            store.fail_from(0)
        }
        let start = Instant::now();
        let error = vault.create(&key("x"), body(10), None).await.expect_err("away");
        assert!(error.is_retryable(), "{error:?}");
        // The write and the read-back that follows have a budget each.
        assert!(start.elapsed() <= 2 * policy().total + Duration::from_secs(1), "{:?}", start.elapsed());
        let start = Instant::now();
        assert!(vault.read(&key("x"), None, 10).await.is_err());
        assert!(vault.head(&key("x")).await.is_err());
        assert!(vault.list(&Prefix::all(), None).await.is_err());
        assert!(vault.delete(&[key("x")]).await.is_err());
        assert!(start.elapsed() <= 4 * policy().total + Duration::from_secs(1), "{:?}", start.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn final_errors_are_not_repeated() {
    let (store, vault) = simulation(0);
    let denied = Error::Denied { object: "x".into(), cause: "no".into() };
    store.fail_call(0, Fault::Fail(denied.clone()));
    assert_eq!(vault.create(&key("x"), body(10), None).await, Err(denied));
    let full = Error::Full { object: "x".into(), cause: "no".into() };
    store.fail_call(1, Fault::Fail(full.clone()));
    assert_eq!(vault.put(&key("x"), body(10), None).await, Err(full));
    assert_eq!(store.call_count(), 2);
    assert_eq!(vault.counts().retries, 0);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_changes_while_it_is_read_is_an_error() {
    let (store, vault) = simulation(0);
    vault.put(&key("x"), body(1000), None).await.expect("put");
    store.fail_call(1, Fault::BrokenStream);
    let mut stream = Box::pin(vault.stream(&key("x"), None));
    assert_eq!(stream.try_next().await.expect("first half").map(|chunk| chunk.len()), Some(500));
    store.truth().put(&key("x"), body(1000), &Default::default()).await.expect("put");
    let error = stream.try_next().await.expect_err("two versions");
    assert!(matches!(error, Error::Corrupt { .. }), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stale_listing_lacks_the_last_change_only() {
    let (store, vault) = simulation(0);
    vault.put(&key("a"), body(1), None).await.expect("put");
    vault.put(&key("b"), body(1), None).await.expect("put");
    store.fail_call(2, Fault::StaleList);
    assert_eq!(vault.list(&Prefix::all(), None).await.expect("list").len(), 1);
    assert_eq!(vault.list(&Prefix::all(), None).await.expect("list").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn bandwidth_is_shared_by_reads_and_clones() {
    let store = MemoryStore::new();
    let throttled = Policy { upload: Some(Throttle::new(1000)), download: Some(Throttle::new(1000)), ..policy() };
    let vault = Vault::new(Arc::new(store), throttled);
    let start = Instant::now();
    let (one, two, clone) = (key("1"), key("2"), vault.clone());
    let (first, second) = tokio::join!(vault.put(&one, body(5000), None), clone.create(&two, body(5000), None));
    assert!(first.is_ok() && second.is_ok());
    let seconds = start.elapsed().as_secs_f64();
    assert!((8.9..10.5).contains(&seconds), "{seconds}");
    let start = Instant::now();
    vault.read(&key("1"), None, 5000).await.expect("read");
    assert!(start.elapsed() >= Duration::from_millis(3900), "{:?}", start.elapsed());
    let counts = vault.counts();
    assert_eq!((counts.bytes_up, counts.bytes_down, counts.put, counts.get), (10_000, 5_000, 2, 1));
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_faults() {
    let run = async || {
        let (store, vault) = simulation(42);
        let store = store.with_chances(Chances { error: 200, lost_answer: 100, ..Chances::default() });
        let _ = work(&vault).await;
        store.calls()
    };
    assert_eq!(run().await, run().await);
}
