//! Other recipients for an encrypted vault: what is rewritten, what stays, and what a crash leaves.

#![allow(clippy::disallowed_methods, clippy::panic, reason = "tests are an edge, and may fail")]

mod owner;

use std::ops::Range;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::TryStreamExt as _;
use owner::{CHUNK, MARKER, Owner, identities, recipients};
use seawall_core::{Moment, NoProgress, SystemClock};
use seawall_vault::memory::MemoryStore;
use seawall_vault::rekey::{self, Change, Rekeyed};
use seawall_vault::testing::not_run;
use seawall_vault::{
    Abilities, Access, Body, Error, Fault, HostKeys, Identities, Meta, Multipart, ObjectKey, Page, Policy, Prefix,
    PutOptions, Recipients, Scheme, SealedStore, Sealing, Store, Tag, Vault, canary,
};

/// A store that stops taking writes.
#[derive(Debug)]
struct Dying {
    inner: Arc<dyn Store>,
    /// Writes that it still takes.
    left: AtomicI64,
    /// Whether it knows conditions on versions.
    swaps: bool,
}

impl Dying {
    fn over(inner: &Arc<dyn Store>, left: i64, swaps: bool) -> Arc<dyn Store> {
        Arc::new(Self { inner: inner.clone(), left: AtomicI64::new(left), swaps })
    }

    fn write(&self) -> Result<(), Error> {
        let lives = self.left.fetch_sub(1, Ordering::Relaxed) > 0;
        let refused = || Error::Denied { object: "the store".into(), cause: "killed".into() };
        lives.then_some(()).ok_or_else(refused)
    }
}

#[async_trait]
impl Store for Dying {
    fn url(&self) -> String {
        self.inner.url()
    }

    fn scheme(&self) -> Scheme {
        self.inner.scheme()
    }

    fn abilities(&self) -> Abilities {
        Abilities { update: self.swaps, ..self.inner.abilities() }
    }

    async fn put(&self, key: &ObjectKey, body: Bytes, options: &PutOptions) -> Result<Option<Tag>, Error> {
        self.write()?;
        self.inner.put(key, body, options).await
    }

    async fn begin(&self, key: &ObjectKey, options: &PutOptions, most: usize) -> Result<Box<dyn Multipart>, Error> {
        self.write()?;
        self.inner.begin(key, options, most).await
    }

    async fn get(&self, key: &ObjectKey, range: Option<Range<u64>>) -> Result<Body, Error> {
        self.inner.get(key, range).await
    }

    async fn head(&self, key: &ObjectKey) -> Result<Meta, Error> {
        self.inner.head(key).await
    }

    async fn list(&self, prefix: &Prefix, after: Option<&ObjectKey>, limit: usize) -> Result<Page, Error> {
        self.inner.list(prefix, after, limit).await
    }

    async fn delete(&self, keys: &[ObjectKey]) -> Result<Vec<Result<(), Error>>, Error> {
        self.inner.delete(keys).await
    }
}

fn policy() -> Policy {
    Policy { part_size: 1 << 20, seed: 5, ..Policy::default() }
}

fn opened(store: &Arc<dyn Store>, to: Option<Recipients>, with: Identities) -> Vault {
    let keys = HostKeys::new(None, Arc::new(SystemClock));
    let access = Access::Sealed(Arc::new(Sealing::new(to, with, keys)));
    Vault::new(Arc::new(SealedStore::new(store.clone(), access)), policy())
}

fn writer(store: &Arc<dyn Store>, owners: &[&Owner]) -> Vault {
    opened(store, Some(recipients(owners)), Identities::none())
}

fn reader(store: &Arc<dyn Store>, owners: &[&Owner]) -> Vault {
    opened(store, None, identities(owners))
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(name).expect("a key")
}

fn pattern(size: usize) -> Bytes {
    (0..size).map(|i| (i % 251) as u8 ^ (i >> 15) as u8).collect::<Vec<u8>>().into()
}

/// Objects of all kinds: empty, short, of several chunks, and one that isn't rewritten in memory.
fn content() -> Vec<(&'static str, Bytes)> {
    let sizes = [("a/empty", 0), ("a/short", 100), ("b/chunks", 3 * CHUNK + 7), ("b/large", 5 << 20)];
    sizes.map(|(name, size)| (name, pattern(size))).to_vec()
}

const STAMP: Moment = Moment::from_millis(1_700_000_000_123);

/// A vault for these owners with a canary and all kinds of objects; its writer goes on.
async fn filled(owners: &[&Owner]) -> (Arc<dyn Store>, Vault) {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let vault = writer(&store, owners);
    for (name, bytes) in content() {
        vault.create(&key(name), bytes, Some(STAMP)).await.expect("written");
    }
    canary::write(&vault).await.expect("written");
    (store, vault)
}

async fn read(vault: &Vault, name: &str) -> Result<Bytes, Error> {
    vault.read(&key(name), None, 1 << 30).await
}

async fn raw(store: &Arc<dyn Store>, name: &str) -> Bytes {
    let body = store.get(&key(name), None).await.expect("there");
    let pieces: Vec<Bytes> = body.stream.try_collect().await.expect("its bytes");
    pieces.concat().into()
}

async fn marker(store: &Arc<dyn Store>) -> serde_json::Value {
    serde_json::from_slice(&raw(store, MARKER).await).expect("a marker")
}

async fn change(
    store: &Arc<dyn Store>,
    with: &[&Owner],
    to: &[&Owner],
    removed: &[&Owner],
    rewrite: bool,
) -> Result<Rekeyed, Error> {
    let removed = (!removed.is_empty()).then(|| recipients(removed));
    let change = Change { recipients: recipients(to), removed, rewrite };
    rekey::run(&Vault::new(store.clone(), policy()), &identities(with), &change, &NoProgress).await
}

fn fault(result: Result<impl Sized, Error>) -> Fault {
    match result {
        Err(Error::Sealing { fault, .. }) => fault,
        Err(error) => panic!("another error: {error}"),
        Ok(_) => panic!("nothing was wrong"),
    }
}

/// What age makes of an object with a key; `None` without the program.
fn age(owner: &Owner, object: &[u8]) -> Option<Result<Vec<u8>, String>> {
    let folder = tempfile::tempdir().expect("a folder");
    let (identity, file) = (folder.path().join("key"), folder.path().join("object"));
    std::fs::write(&identity, format!("{}\n", owner.secret.reveal())).expect("written");
    std::fs::write(&file, object).expect("written");
    let Ok(output) = Command::new("age").arg("-d").arg("-i").arg(&identity).arg(&file).output() else {
        not_run("opening with age", "age is not on PATH");
        return None;
    };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Some(if output.status.success() { Ok(output.stdout) } else { Err(said) })
}

#[tokio::test]
async fn headers_are_rewritten_and_nothing_else() {
    let (old, new) = (Owner::new(), Owner::new());
    let (store, running) = filled(&[&old]).await;
    let header = usize::try_from(marker(&store).await["header"].as_u64().expect("a length")).expect("small");
    let mut before = Vec::new();
    for (name, _) in content() {
        before.push(raw(&store, name).await);
    }
    let done = change(&store, &[&old, &new], &[&new], &[&old], true).await.expect("rewritten");
    // The record and the canary: for both, and then for the new one alone.
    assert_eq!((done.rewritten, done.already, done.left, done.records, done.proved), (4, 0, 0, 4, true));
    assert_eq!((&done.added, &done.removed), (&vec![new.public.clone()], &vec![old.public.clone()]));
    assert_eq!(marker(&store).await["recipients"], serde_json::json!([new.public]));
    for ((name, plain), before) in content().into_iter().zip(before) {
        let now = raw(&store, name).await;
        assert!(now.len() == before.len() && now[..header] != before[..header], "{name}");
        assert_eq!(now[header..], before[header..], "{name}");
        assert_eq!(store.head(&key(name)).await.expect("there").stamp, Some(STAMP), "{name}");
        assert_eq!(read(&reader(&store, &[&new]), name).await.as_ref(), Ok(&plain), "{name}");
        assert_eq!(fault(read(&reader(&store, &[&old]), name).await), Fault::NoKey, "{name}");
        // The host opens what it wrote, as before, and ranges are right.
        assert_eq!(read(&running, name).await.as_ref(), Ok(&plain), "{name}");
        if plain.len() > 2 * CHUNK {
            let (from, to) = (CHUNK as u64 + 5, 2 * CHUNK as u64 + 9);
            let range = reader(&store, &[&new]).read(&key(name), Some(from..to), 1 << 20).await.expect("a range");
            assert_eq!(range, plain.slice(CHUNK + 5..2 * CHUNK + 9));
        }
        if let Some(opened) = age(&new, &now) {
            assert_eq!(opened.as_deref(), Ok(&plain[..]), "{name}");
            assert!(age(&old, &now).expect("age is there").is_err(), "{name}");
        }
    }
    canary::prove(&reader(&store, &[&new])).await.expect("the canary");
    assert_eq!(fault(canary::prove(&reader(&store, &[&old])).await), Fault::NoKey);
    let again = change(&store, &[&new], &[&new], &[&old], true).await.expect("nothing left to do");
    assert_eq!((again.rewritten, again.already, again.left, again.records), (0, 4, 0, 0));
}

#[tokio::test]
async fn killed_at_any_write_every_object_stays_readable_and_the_next_call_goes_on() {
    let (old, new) = (Owner::new(), Owner::new());
    for writes in 0.. {
        let (store, _) = filled(&[&old]).await;
        let ended = change(&Dying::over(&store, writes, true), &[&old], &[&new], &[&old], true).await;
        for (name, plain) in content() {
            let (with_old, with_new) =
                (read(&reader(&store, &[&old]), name).await, read(&reader(&store, &[&new]), name).await);
            assert!(with_old.as_ref() == Ok(&plain) || with_new.as_ref() == Ok(&plain), "{name} after {writes} writes");
        }
        // Either key alone goes on where the other one isn't needed.
        let done = change(&store, &[&old], &[&new], &[&old], true).await.expect("the rest");
        assert_eq!((done.left, done.rewritten + done.already), (0, 4), "after {writes} writes");
        for (name, plain) in content() {
            assert_eq!(read(&reader(&store, &[&new]), name).await.as_ref(), Ok(&plain), "{name} after {writes} writes");
            assert_eq!(fault(read(&reader(&store, &[&old]), name).await), Fault::NoKey, "{name}");
        }
        if ended.is_ok() {
            assert!(writes > 8, "{writes} writes are too few");
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_running_writer_of_the_former_list_stops_with_a_name() {
    let (old, new) = (Owner::new(), Owner::new());
    let (store, running) = filled(&[&old]).await;
    change(&store, &[&old], &[&old, &new], &[], false).await.expect("changed");
    // Not yet noticed: what is written now is for the former list.
    running.create(&key("c/late"), pattern(9), None).await.expect("written");
    tokio::time::sleep(Duration::from_secs(31)).await;
    for _ in 0..2 {
        assert_eq!(fault(running.create(&key("c/never"), pattern(9), None).await), Fault::Recipients);
    }
    assert_eq!(read(&running, "c/late").await, Ok(pattern(9)), "it still reads");
    // It is as at the start of a process that wasn't told.
    assert_eq!(fault(writer(&store, &[&old]).create(&key("c/never"), pattern(9), None).await), Fault::Recipients);
    let told = writer(&store, &[&old, &new]);
    told.create(&key("c/new"), pattern(9), None).await.expect("written");
    assert_eq!(read(&reader(&store, &[&new]), "c/new").await, Ok(pattern(9)));
    let locked = read(&reader(&store, &[&new]), "c/late").await.expect_err("it was written for the former list");
    let told = locked.to_string();
    assert!(told.contains("in the vault's list of recipients: it was written for others"), "{told}");
    assert_eq!(fault(Err::<(), _>(locked)), Fault::NoKey);
    let done = change(&store, &[&old], &[&old, &new], &[], true).await.expect("rewritten");
    assert_eq!((done.rewritten, done.already, done.left), (5, 1, 0));
    assert_eq!(read(&reader(&store, &[&new]), "c/late").await, Ok(pattern(9)));
    // The list is put back: the writer goes on.
    change(&store, &[&old], &[&old], &[&new], false).await.expect("changed back");
    running.create(&key("c/again"), pattern(9), None).await.expect("written");
}

#[tokio::test]
async fn without_rewriting_each_key_opens_what_was_written_for_it() {
    let (old, new) = (Owner::new(), Owner::new());
    let (store, _) = filled(&[&old]).await;
    let before = raw(&store, "b/chunks").await;
    let done = change(&store, &[&old], &[&new], &[&old], false).await.expect("changed");
    assert_eq!((done.rewritten, done.records, done.proved), (0, 2, false));
    assert_eq!(raw(&store, "b/chunks").await, before);
    writer(&store, &[&new]).create(&key("c/new"), pattern(9), None).await.expect("written");
    let (with_old, with_new) = (reader(&store, &[&old]), reader(&store, &[&new]));
    assert_eq!(read(&with_old, "a/short").await, Ok(pattern(100)), "its seal can be checked, too");
    assert_eq!(fault(read(&with_old, "c/new").await), Fault::NoKey);
    assert_eq!(read(&with_new, "c/new").await, Ok(pattern(9)));
    assert_eq!(fault(read(&with_new, "a/short").await), Fault::NoKey);
    let both = reader(&store, &[&old, &new]);
    assert_eq!(read(&both, "a/short").await, Ok(pattern(100)));
    assert_eq!(read(&both, "c/new").await, Ok(pattern(9)));
    let again = change(&store, &[&old], &[&new], &[&old], false).await.expect("nothing to do");
    assert_eq!(again.records, 0);
}

#[tokio::test]
async fn nobody_slips_into_the_list_or_out_of_it() {
    let (old, new, thief) = (Owner::new(), Owner::new(), Owner::new());
    let (store, _) = filled(&[&old]).await;
    let mut slipped = marker(&store).await;
    slipped["recipients"] = serde_json::json!([old.public, thief.public]);
    let bytes: Bytes = serde_json::to_vec(&slipped).expect("json").into();
    store.put(&key(MARKER), bytes.clone(), &PutOptions::default()).await.expect("planted");
    for rewrite in [false, true] {
        let refused = change(&store, &[&old], &[&old, &new], &[], rewrite).await;
        assert!(refused.as_ref().is_err_and(|error| error.to_string().contains(&thief.public)), "{refused:?}");
        assert_eq!(fault(refused), Fault::Goes);
    }
    assert_eq!(raw(&store, MARKER).await, bytes, "nothing was changed");
    // Named, it goes, and gets nothing on its way out.
    change(&store, &[&old], &[&old, &new], &[&thief], false).await.expect("changed");
    for name in ["a/short", canary::NAME] {
        assert_eq!(fault(read(&reader(&store, &[&thief]), name).await), Fault::NoKey, "{name}");
    }
    canary::prove(&reader(&store, &[&new])).await.expect("the canary");
}

#[tokio::test]
async fn what_is_refused_changes_nothing() {
    let (old, new) = (Owner::new(), Owner::new());
    let (store, _) = filled(&[&old]).await;
    let before = raw(&store, MARKER).await;
    let many: Vec<Owner> = (0..20).map(|_| Owner::new()).collect();
    let many: Vec<&Owner> = many.iter().chain([&old]).collect();
    assert_eq!(fault(change(&store, &[&old], &many, &[], true).await), Fault::Recipients);
    assert_eq!(fault(change(&store, &[&new], &[&old, &new], &[], true).await), Fault::NoKey);
    let without = Dying::over(&store, 100, false);
    assert_eq!(fault(change(&without, &[&old], &[&old, &new], &[], true).await), Fault::NoSwap);
    let plain: Arc<dyn Store> = Arc::new(MemoryStore::new());
    assert_eq!(fault(change(&plain, &[&old], &[&new], &[], false).await), Fault::NotEncrypted);
    assert_eq!(raw(&store, MARKER).await, before);
    // For new objects the list changes there, too.
    change(&without, &[&old], &[&old, &new], &[], false).await.expect("changed");
    canary::prove(&reader(&store, &[&new])).await.expect("the canary");
}

#[tokio::test]
async fn what_somebody_changed_is_named_and_left() {
    let (old, new) = (Owner::new(), Owner::new());
    let (store, _) = filled(&[&old]).await;
    let (short, mut bent) = (raw(&store, "a/short").await, raw(&store, "b/chunks").await.to_vec());
    // A dot of the filling, which no reader but the MAC looks at.
    let at = bent.windows(2).position(|pair| pair == b"..").expect("a filling");
    bent[at] = b'.' + 1;
    let plant = async |name: &str, bytes: Bytes| {
        store.put(&key(name), bytes, &PutOptions::default()).await.expect("planted");
    };
    plant("a/empty", short.clone()).await;
    plant("b/chunks", bent.into()).await;
    plant("b/plain", Bytes::from_static(b"LTX1 and more")).await;
    plant("b/nothing", Bytes::new()).await;
    let done = change(&store, &[&old], &[&old, &new], &[], true).await.expect("the others");
    assert_eq!((done.rewritten, done.left), (2, 4));
    let mut codes: Vec<&str> = done.failures.iter().map(|failure| failure.code).collect();
    codes.sort_unstable();
    assert_eq!(codes, ["vault.altered", "vault.exchanged", "vault.plaintext", "vault.short"]);
    assert_eq!(raw(&store, "a/empty").await, short, "left as it was");
}
