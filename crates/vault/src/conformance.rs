//! The one suite that every backend passes. A new backend adds a call of [`run`] and nothing else.
//!
//! A check prints its name when it begins, and panics with the cause when it fails. Checks of the contract use the
//! [`Store`] itself. Checks of what both do together use a [`Vault`] over the store.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures::future::join_all;
use futures::{StreamExt, TryStreamExt};
use seawall_core::Moment;

use crate::{Condition, Created, Digest, Error, Meta, ObjectKey, Policy, Prefix, PutOptions, Store, Tag, Vault};

/// The part size of streamed uploads in the suite: the smallest that every backend takes.
const PART: usize = 5 << 20;

/// Parts in flight in the suite.
const IN_FLIGHT: usize = 2;

/// Runs all checks. `open` gives an empty store of the backend for each; its argument is a name that can be a path.
///
/// # Panics
/// When the backend breaks its contract.
pub async fn run<F: Future<Output = Arc<dyn Store>>>(open: impl Fn(&'static str) -> F) {
    macro_rules! checks {
        ($($name:ident),* $(,)?) => {
            $(
                println!("conformance: {}", stringify!($name));
                $name(open(stringify!($name)).await).await;
            )*
        };
    }
    checks!(
        whole_objects,
        stamps,
        digests,
        missing_objects,
        ranges,
        conditions,
        listings,
        many_pages,
        deletions,
        streamed_objects,
        streamed_conditions,
        abandoned_uploads,
        bounded_memory,
        racing_creators,
        racing_swaps,
        racing_uploads,
        hostile_names,
        probing,
    );
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(name).expect("a sound name")
}

fn options(condition: Condition) -> PutOptions {
    PutOptions { condition, ..PutOptions::default() }
}

fn vault(store: &Arc<dyn Store>) -> Vault {
    let policy = Policy { part_size: PART, parts_in_flight: IN_FLIGHT, seed: 11, ..Policy::default() };
    Vault::new(store.clone(), policy)
}

/// Bytes that differ from place to place, so that a piece in the wrong place shows.
fn pattern(size: usize) -> Bytes {
    let mut state = 0x9e37_79b9_u32;
    let next = |state: &mut u32| {
        *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    (0..size).map(|_| next(&mut state)).collect::<Vec<u8>>().into()
}

async fn content(store: &dyn Store, key: &ObjectKey) -> Bytes {
    let body = store.get(key, None).await.expect("the object is there");
    let chunks: Vec<Bytes> = body.stream.try_collect().await.expect("its bytes come");
    chunks.concat().into()
}

async fn meta(store: &dyn Store, key: &ObjectKey) -> Meta {
    store.head(key).await.expect("the object is there")
}

async fn whole_objects(store: Arc<dyn Store>) {
    for size in [0, 1, 1000, 70_000, 3 << 20] {
        let key = key(&format!("whole/{size}"));
        let bytes = pattern(size);
        let tag = store.put(&key, bytes.clone(), &PutOptions::default()).await.expect("put");
        assert_eq!(content(&*store, &key).await, bytes, "{size} bytes come back");
        let meta = meta(&*store, &key).await;
        assert_eq!(meta.size, size as u64);
        if let Some(tag) = tag {
            assert_eq!(meta.tag, Some(tag), "put and head name the same version");
        }
        let body = store.get(&key, None).await.expect("get");
        assert!(body.size.is_none_or(|s| s == size as u64), "get tells the size");
        let both = body.tag.zip(meta.tag);
        assert!(both.is_none_or(|(got, told)| got == told), "get and head name the same version");
    }
    let key = key("whole/1");
    store.put(&key, Bytes::from_static(b"other"), &PutOptions::default()).await.expect("put over");
    assert_eq!(&content(&*store, &key).await[..], b"other");
}

async fn stamps(store: Arc<dyn Store>) {
    if !store.abilities().stamps {
        println!("conformance: stamps are not kept here");
        return;
    }
    for (index, millis) in [0, 1, 1_795_255_200_123, 999_999_999_999].into_iter().enumerate() {
        let stamp = Some(Moment::from_millis(millis));
        let one = key(&format!("stamps/put-{index}"));
        let with = PutOptions { condition: Condition::Create, stamp, digest: None };
        store.put(&one, Bytes::from_static(b"x"), &with).await.expect("put");
        assert_eq!(meta(&*store, &one).await.stamp, stamp, "put keeps {millis}");
        let other = key(&format!("stamps/upload-{index}"));
        let mut upload = store.begin(&other, &with, IN_FLIGHT).await.expect("begin");
        upload.write(vec![Bytes::from_static(b"x")]).await.expect("write");
        upload.complete().await.expect("complete");
        assert_eq!(meta(&*store, &other).await.stamp, stamp, "an upload keeps {millis}");
    }
}

/// A digest that a store keeps is right. A store without room for digests returns none.
async fn digests(store: Arc<dyn Store>) {
    let (whole, parts) = (key("digests/whole"), key("digests/parts"));
    let first = store.abilities().smallest_part.max(60_000);
    let bytes = pattern(first + 40_000);
    store.put(&whole, bytes.clone(), &PutOptions::default()).await.expect("put");
    let mut upload = store.begin(&parts, &PutOptions::default(), IN_FLIGHT).await.expect("begin");
    for part in [bytes.slice(..first), bytes.slice(first..)] {
        upload.write(vec![part]).await.expect("write");
    }
    upload.complete().await.expect("complete");
    for (key, promised) in [(&whole, true), (&parts, store.abilities().digests_of_parts)] {
        match meta(&*store, key).await.digest {
            Some(digest) => assert_eq!((digest, promised), (Digest::of(&bytes), true), "{key}"),
            None => println!("conformance: {key} has no digest"),
        }
    }
    store.put(&whole, bytes.slice(1..), &PutOptions::default()).await.expect("put over");
    let digest = meta(&*store, &whole).await.digest;
    assert!(digest.is_none_or(|digest| digest == Digest::of(&bytes[1..])), "it is the new version's");
}

async fn missing_objects(store: Arc<dyn Store>) {
    store.put(&key("there/is/one"), Bytes::from_static(b"x"), &PutOptions::default()).await.expect("put");
    for name in ["nothing", "there/is", "there", "there/is/another", "not/even/a/folder"] {
        let key = key(name);
        assert!(matches!(store.head(&key).await, Err(Error::NotFound { .. })), "head of {name}");
        assert!(matches!(store.get(&key, None).await, Err(Error::NotFound { .. })), "get of {name}");
        assert!(matches!(store.get(&key, Some(0..1)).await, Err(Error::NotFound { .. })), "range of {name}");
    }
    let empty = store.list(&Prefix::new("no/such/folder").expect("a prefix"), None, 10).await.expect("list");
    assert!(empty.entries.is_empty() && empty.next.is_none());
}

async fn ranges(store: Arc<dyn Store>) {
    let (key, size) = (key("ranges/object"), (3 << 20) + 17);
    let bytes = pattern(size);
    store.put(&key, bytes.clone(), &PutOptions::default()).await.expect("put");
    let size = size as u64;
    for range in
        [0..1, 0..size, 1..2, size - 1..size, 1 << 20..2 << 20, 5..2_100_000, size - 3..size + 100, 7..u64::MAX]
    {
        let body = store.get(&key, Some(range.clone())).await.expect("a range");
        assert!(body.size.is_none_or(|s| s == size), "a range tells the size of the whole: {:?}", body.size);
        let chunks: Vec<Bytes> = body.stream.try_collect().await.expect("its bytes");
        let index = |at: u64| usize::try_from(at.min(size)).expect("small");
        assert_eq!(chunks.concat(), bytes[index(range.start)..index(range.end)], "{range:?}");
    }
    for start in [size, size + 1, 1 << 62] {
        let result = store.get(&key, Some(start..u64::MAX)).await;
        assert!(matches!(result, Err(Error::OutOfRange { .. })), "from {start}: {result:?}");
    }
    let vault = vault(&store);
    assert_eq!(vault.read(&key, Some(10..20), 10).await.expect("read"), bytes[10..20]);
    assert!(vault.read(&key, Some(10..10), 10).await.expect("an empty range").is_empty());
    assert!(matches!(vault.read(&key, Some(0..u64::MAX), size - 1).await, Err(Error::TooLarge { .. })));
    assert!(matches!(vault.read(&key, None, size - 1).await, Err(Error::TooLarge { .. })));
    assert_eq!(vault.read(&key, None, size).await.expect("read"), bytes);
}

async fn conditions(store: Arc<dyn Store>) {
    let key = key("conditions/object");
    let put = |body: &'static [u8], condition| {
        let (store, key) = (store.clone(), key.clone());
        async move { store.put(&key, Bytes::from_static(body), &options(condition)).await }
    };
    if !store.abilities().update {
        return without_swaps(store, key).await;
    }
    let nothing = put(b"nonce 0", Condition::Match(Tag::new("\"0123456789abcdef0123456789abcdef\""))).await;
    assert!(matches!(nothing, Err(Error::Precondition { .. })), "swap of nothing: {nothing:?}");
    put(b"nonce 1", Condition::Create).await.expect("create");
    for body in [&b"nonce 1"[..], b"nonce 2"] {
        let second = put(body, Condition::Create).await;
        assert!(matches!(second, Err(Error::AlreadyExists { .. })), "create over: {second:?}");
    }
    let first = meta(&*store, &key).await.tag.expect("a version");
    put(b"nonce 3", Condition::Match(first.clone())).await.expect("swap");
    let stale = put(b"nonce 4", Condition::Match(first.clone())).await;
    assert!(matches!(stale, Err(Error::Precondition { .. })), "stale swap: {stale:?}");
    assert_eq!(&content(&*store, &key).await[..], b"nonce 3", "refused writes change nothing");
    let second = meta(&*store, &key).await.tag.expect("a version");
    assert_ne!(first, second);

    let vault = vault(&store);
    let create = |body: &'static [u8]| vault.create(&key, Bytes::from_static(body), None);
    assert_eq!(create(b"nonce 3").await, Ok(Created::Adopted), "equal bytes are ours");
    assert!(matches!(create(b"nonce 5").await, Err(Error::AlreadyExists { .. })));
    let third = vault.replace(&key, Bytes::from_static(b"nonce 6"), &second).await.expect("replace");
    assert_eq!(vault.head(&key).await.expect("head").and_then(|m| m.tag), Some(third.clone()));
    let again = vault.replace(&key, Bytes::from_static(b"nonce 6"), &second).await;
    assert_eq!(again, Ok(third), "equal bytes are ours");
    let stale = vault.replace(&key, Bytes::from_static(b"nonce 7"), &second).await;
    assert!(matches!(stale, Err(Error::Precondition { .. })), "{stale:?}");
}

/// A store that can't swap says so, and changes nothing. What it promises of creations holds all the same.
async fn without_swaps(store: Arc<dyn Store>, key: ObjectKey) {
    println!("conformance: there is no compare-and-swap here");
    let (store, vault) = (&store, vault(&store));
    let put =
        async |body: &'static [u8], condition| store.put(&key, Bytes::from_static(body), &options(condition)).await;
    if store.abilities().create {
        put(b"nonce 1", Condition::Create).await.expect("create");
        for body in [&b"nonce 1"[..], b"nonce 2"] {
            let second = put(body, Condition::Create).await;
            assert!(matches!(second, Err(Error::AlreadyExists { .. })), "create over: {second:?}");
        }
    }
    let create = |body: &'static [u8]| vault.create(&key, Bytes::from_static(body), None);
    create(b"nonce 1").await.expect("equal bytes are ours");
    assert!(matches!(create(b"nonce 5").await, Err(Error::AlreadyExists { .. })));
    let swap = put(b"nonce 3", Condition::Match(Tag::new("any"))).await;
    assert!(matches!(swap, Err(Error::Unsupported { .. } | Error::Precondition { .. })), "{swap:?}");
    assert_eq!(&content(&**store, &key).await[..], b"nonce 1", "refused writes change nothing");
    put(b"nonce 4", Condition::Always).await.expect("put over");
    assert_eq!(&content(&**store, &key).await[..], b"nonce 4");
}

async fn listings(store: Arc<dyn Store>) {
    let names = ["a", "b-c", "b/c", "b/d/e", "b/d/f", "b0", "ltx/0/1", "ltx/0/2", "ltx/1/1", "ltx0/x", "z z/ä"];
    for name in names.iter().rev() {
        store.put(&key(name), Bytes::from((*name).to_owned()), &PutOptions::default()).await.expect("put");
    }
    let list = async |prefix: &str, after: Option<&str>, limit: usize| {
        let mut after = after.map(key);
        let mut found = Vec::new();
        loop {
            let prefix = Prefix::new(prefix).expect("a prefix");
            let page = store.list(&prefix, after.as_ref(), limit).await.expect("list");
            for entry in &page.entries {
                assert_eq!(entry.size, entry.key.as_str().len() as u64, "{entry:?}");
                assert!(entry.tag.is_none() || entry.tag == meta(&*store, &entry.key).await.tag, "{entry:?}");
                assert_eq!(entry.modified, meta(&*store, &entry.key).await.modified, "{entry:?}");
            }
            found.extend(page.entries.iter().map(|entry| entry.key.as_str().to_owned()));
            match page.next {
                Some(next) => after = Some(next),
                None => return found,
            }
        }
    };
    for limit in [1, 2, 3, 100] {
        assert_eq!(list("", None, limit).await, names, "all, by {limit}");
        assert_eq!(list("b", None, limit).await, ["b/c", "b/d/e", "b/d/f"], "a folder, by {limit}");
        assert_eq!(list("ltx/0/", None, limit).await, ["ltx/0/1", "ltx/0/2"], "a level, by {limit}");
        assert_eq!(list("ltx/0", Some("ltx/0/1"), limit).await, ["ltx/0/2"], "behind a key, by {limit}");
        assert_eq!(list("ltx/0", Some("ltx/0/15"), limit).await, ["ltx/0/2"], "behind no key, by {limit}");
        assert_eq!(list("ltx/0", Some("ltx/0/2"), limit).await, [""; 0], "behind the last, by {limit}");
        assert_eq!(list("b", Some("a"), limit).await, ["b/c", "b/d/e", "b/d/f"], "from before, by {limit}");
        assert_eq!(list("b", Some("c"), limit).await, [""; 0], "from behind, by {limit}");
        assert_eq!(list("", Some("b/c"), limit).await, names[3..], "all behind a key, by {limit}");
        assert_eq!(list("", Some("b/d"), limit).await, names[3..], "all behind a folder, by {limit}");
    }
    let entries = vault(&store).list(&Prefix::all(), Some(&key("b0"))).await.expect("list");
    assert_eq!(entries.iter().map(|entry| entry.key.as_str()).collect::<Vec<_>>(), names[6..]);
}

async fn many_pages(store: Arc<dyn Store>) {
    // More than one page of a vault's listing; fewer where each object costs several requests and pages are larger.
    let count = if store.abilities().delete_batch < 100 { 300 } else { 1100 };
    let names: Vec<ObjectKey> = (0..count).map(|i| key(&format!("pages/{i:05}"))).collect();
    let puts = futures::stream::iter(names.clone()).map(|key| {
        let store = store.clone();
        async move { store.put(&key, Bytes::from_static(b"x"), &PutOptions::default()).await }
    });
    puts.buffer_unordered(32).try_collect::<Vec<_>>().await.expect("puts");
    let vault = vault(&store);
    let found = vault.list(&Prefix::new("pages").expect("a prefix"), None).await.expect("list");
    assert_eq!(found.into_iter().map(|entry| entry.key).collect::<Vec<_>>(), names);
    // A store that can't begin behind a name gives larger pages than it is asked for.
    let page = store.list(&Prefix::all(), None, 1000).await.expect("a page");
    assert!(page.entries.len() <= names.len() && vault.counts().list >= if page.next.is_some() { 2 } else { 1 });
    vault.delete(&names).await.expect("delete all");
    assert!(vault.list(&Prefix::all(), None).await.expect("list").is_empty());
}

async fn deletions(store: Arc<dyn Store>) {
    let names: Vec<ObjectKey> = ["d/1", "d/2", "d/e/3"].into_iter().map(key).collect();
    for key in &names {
        store.put(key, Bytes::from_static(b"x"), &PutOptions::default()).await.expect("put");
    }
    let some = [names[0].clone(), key("d/never"), names[2].clone(), key("no/folder/either")];
    for round in 0..2 {
        let results = store.delete(&some).await.expect("delete");
        assert_eq!(results, vec![Ok(()); some.len()], "round {round}: what is not there counts as deleted");
    }
    assert!(matches!(store.head(&names[0]).await, Err(Error::NotFound { .. })));
    assert!(store.head(&names[1]).await.is_ok(), "others stay");
    store.delete(std::slice::from_ref(&names[1])).await.expect("delete one");
    let page = store.list(&Prefix::all(), None, 10).await.expect("list");
    assert!(page.entries.is_empty(), "{page:?}");
    store.put(&names[0], Bytes::from_static(b"y"), &options(Condition::Create)).await.expect("create again");
}

async fn streamed_objects(store: Arc<dyn Store>) {
    let vault = vault(&store);
    let bytes = pattern(3 * PART + 12_345);
    for (index, size) in [0, 1, 1000, PART - 1, PART, PART + 1, 2 * PART, bytes.len()].into_iter().enumerate() {
        for chunk in [1 << 16, 3 << 20, usize::MAX] {
            let key = key(&format!("streamed/{index}-{chunk}"));
            let stamp = Some(Moment::from_millis(1_700_000_000_000 + index as i64));
            let before = vault.counts();
            let mut upload = vault.upload(&key, stamp);
            let whole = bytes.slice(..size);
            let mut rest = whole.clone();
            while !rest.is_empty() {
                upload.write(rest.split_to(chunk.min(rest.len()))).await.expect("write");
            }
            assert!(vault.head(&key).await.expect("head").is_none(), "nothing is visible before the end");
            assert_eq!(upload.finish().await, Ok(Created::Fresh));
            assert_eq!(content(&*store, &key).await, whole, "{size} bytes by {chunk}");
            if store.abilities().stamps {
                assert_eq!(meta(&*store, &key).await.stamp, stamp);
            }
            let after = vault.counts();
            let places = store.members().len().max(1) as u64;
            assert_eq!(after.put - before.put, places * u64::from(size < PART), "small ones are one request: {size}");
        }
    }
}

async fn streamed_conditions(store: Arc<dyn Store>) {
    let vault = vault(&store);
    let upload = async |name: &str, bytes: &Bytes| {
        let mut upload = vault.upload(&key(name), None);
        upload.write(bytes.clone()).await?;
        upload.finish().await
    };
    let (ours, theirs) = (pattern(PART + 5000), pattern(PART + 5001).slice(1..));
    assert_eq!(upload("conditions/streamed", &ours).await, Ok(Created::Fresh));
    assert_eq!(upload("conditions/streamed", &ours).await, Ok(Created::Adopted), "head and tail are ours");
    let other = upload("conditions/streamed", &theirs).await;
    assert!(matches!(other, Err(Error::AlreadyExists { .. })), "{other:?}");
    let longer = upload("conditions/streamed", &pattern(PART + 6000)).await;
    assert!(matches!(longer, Err(Error::AlreadyExists { .. })), "{longer:?}");
    assert_eq!(content(&*store, &key("conditions/streamed")).await, ours);

    if !store.abilities().update {
        return;
    }
    // A swap at completion.
    let swap = async |tag: Tag, body: &Bytes| {
        let key = key("conditions/streamed");
        let mut upload = store.begin(&key, &options(Condition::Match(tag)), IN_FLIGHT).await?;
        upload.write(vec![body.slice(..PART)]).await?;
        upload.write(vec![body.slice(PART..)]).await?;
        upload.complete().await
    };
    let first = meta(&*store, &key("conditions/streamed")).await.tag.expect("a version");
    swap(first.clone(), &theirs).await.expect("a swap");
    assert_eq!(content(&*store, &key("conditions/streamed")).await, theirs);
    let stale = swap(first, &ours).await;
    assert!(matches!(stale, Err(Error::Precondition { .. })), "{stale:?}");
}

async fn abandoned_uploads(store: Arc<dyn Store>) {
    let vault = vault(&store);
    let begin = async |name: &str| {
        let mut upload = vault.upload(&key(name), None);
        upload.write(pattern(2 * PART + 100)).await.expect("write");
        upload
    };
    begin("abandoned/aborted").await.abort().await.expect("abort");
    drop(begin("abandoned/dropped").await);
    let page = store.list(&Prefix::all(), None, 10).await.expect("list");
    assert!(page.entries.is_empty(), "{page:?}");
    let mut upload = begin("abandoned/dropped").await;
    upload.write(Bytes::from_static(b"end")).await.expect("write");
    assert_eq!(upload.finish().await, Ok(Created::Fresh), "the name is free");
}

/// Bytes that count themselves while they are alive.
struct Tracked(Vec<u8>, Arc<AtomicUsize>);

impl AsRef<[u8]> for Tracked {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        self.1.fetch_sub(self.0.len(), Ordering::SeqCst);
    }
}

async fn bounded_memory(store: Arc<dyn Store>) {
    const CHUNK: usize = 1 << 20;
    let (alive, vault) = (Arc::new(AtomicUsize::new(0)), vault(&store));
    let mut upload = vault.upload(&key("bounded/object"), None);
    let mut most = 0;
    let total = 12 * PART;
    for _ in 0..total / CHUNK {
        alive.fetch_add(CHUNK, Ordering::SeqCst);
        upload.write(Bytes::from_owner(Tracked(vec![7; CHUNK], alive.clone()))).await.expect("write");
        most = most.max(alive.load(Ordering::SeqCst));
    }
    upload.finish().await.expect("finish");
    // The part being collected, the parts in flight, one handed over and one kept back.
    let bound = (IN_FLIGHT + 3) * PART + CHUNK;
    assert!(most <= bound, "{most} bytes were alive, more than {bound}");
    assert_eq!(meta(&*store, &key("bounded/object")).await.size, total as u64);
    let chunks = vault.stream(&key("bounded/object"), None);
    let total_read = chunks.try_fold(0, |sum, chunk| async move { Ok(sum + chunk.len()) }).await.expect("read");
    assert_eq!(total_read, total);
}

async fn racing_creators(store: Arc<dyn Store>) {
    if !store.abilities().create {
        println!("conformance: creators that meet are not told apart here");
        return;
    }
    for round in 0..6 {
        let key = key(&format!("race/create-{round}"));
        let racers = join_all((0..16).map(|racer| {
            let (store, key) = (store.clone(), key.clone());
            tokio::spawn(async move {
                let body = Bytes::from(format!("round {round}, nonce {racer}"));
                vault(&store).create(&key, body, None).await
            })
        }));
        let results: Vec<_> = racers.await.into_iter().map(|result| result.expect("a racer")).collect();
        let winners: Vec<usize> = (0..results.len()).filter(|i| results[*i] == Ok(Created::Fresh)).collect();
        assert_eq!(winners.len(), 1, "round {round}: {results:?}");
        let losers = results.iter().filter(|result| matches!(result, Err(Error::AlreadyExists { .. }))).count();
        assert_eq!(losers, results.len() - 1, "round {round}: {results:?}");
        let expected = format!("round {round}, nonce {}", winners[0]);
        assert_eq!(content(&*store, &key).await, expected, "the winner's bytes stay");
    }
}

async fn racing_swaps(store: Arc<dyn Store>) {
    if !store.abilities().update {
        return;
    }
    let key = key("race/swap");
    store.put(&key, Bytes::from_static(b"nonce start"), &options(Condition::Create)).await.expect("create");
    for round in 0..6 {
        let tag = meta(&*store, &key).await.tag.expect("a version");
        let racers = join_all((0..8).map(|racer| {
            let (store, key, tag) = (store.clone(), key.clone(), tag.clone());
            tokio::spawn(async move {
                let body = Bytes::from(format!("round {round}, nonce {racer}"));
                vault(&store).replace(&key, body, &tag).await
            })
        }));
        let results: Vec<_> = racers.await.into_iter().map(|result| result.expect("a racer")).collect();
        let winners: Vec<usize> = (0..results.len()).filter(|i| results[*i].is_ok()).collect();
        assert_eq!(winners.len(), 1, "round {round}: {results:?}");
        let losers = results.iter().filter(|result| matches!(result, Err(Error::Precondition { .. }))).count();
        assert_eq!(losers, results.len() - 1, "round {round}: {results:?}");
        assert_eq!(content(&*store, &key).await, format!("round {round}, nonce {}", winners[0]));
    }
}

async fn racing_uploads(store: Arc<dyn Store>) {
    if !store.abilities().create {
        return;
    }
    for round in 0..2 {
        let key = key(&format!("race/upload-{round}"));
        let racers = join_all((0..4_u8).map(|racer| {
            let (store, key) = (store.clone(), key.clone());
            tokio::spawn(async move {
                let mut upload = vault(&store).upload(&key, None);
                upload.write(Bytes::from(vec![racer; PART + 1])).await?;
                upload.finish().await
            })
        }));
        let results: Vec<_> = racers.await.into_iter().map(|result| result.expect("a racer")).collect();
        let winners = results.iter().filter(|result| **result == Ok(Created::Fresh)).count();
        let losers = results.iter().filter(|result| matches!(result, Err(Error::AlreadyExists { .. }))).count();
        assert_eq!((winners, losers), (1, 3), "round {round}: {results:?}");
        let found = content(&*store, &key).await;
        assert!(found.len() == PART + 1 && found.iter().all(|byte| *byte == found[0]), "one racer's bytes, whole");
    }
}

async fn hostile_names(store: Arc<dyn Store>) {
    // A name that can't be a key is refused before it reaches a store. A name that is only unusual works, or the store refuses
    // it.
    for name in ["..", "../escape", "a/../../escape", "/etc/passwd", "a//b", "a/", "", "a\0", "a\n", "x.tmp"] {
        assert!(ObjectKey::new(name).is_err(), "{name:?}");
    }
    let long = "l".repeat(200);
    let odd = [
        "with space",
        "pl+us",
        "per%20cent",
        "qu?ery",
        "ha#sh",
        "am&p=er",
        "ünïcödé",
        "..dots..",
        "~tilde",
        "q'uote",
        &long,
    ];
    let mut expected = Vec::new();
    for name in odd {
        let key = key(&format!("odd/{name}"));
        match store.put(&key, Bytes::from(name.to_owned()), &options(Condition::Create)).await {
            Err(Error::InvalidKey { cause, .. }) => println!("conformance: no name {name}: {cause}"),
            put => {
                put.expect(name);
                assert_eq!(content(&*store, &key).await, name);
                expected.push(format!("odd/{name}"));
            }
        }
    }
    let page = store.list(&Prefix::new("odd").expect("a prefix"), None, 100).await.expect("list");
    expected.sort();
    assert_eq!(page.entries.iter().map(|entry| entry.key.as_str()).collect::<Vec<_>>(), expected);
}

async fn probing(store: Arc<dyn Store>) {
    let capabilities = vault(&store).probe().await.expect("probe");
    let abilities = store.abilities();
    assert_eq!(capabilities.exclusive_create(), abilities.create, "{capabilities:?}");
    assert_eq!(capabilities.exclusive_update(), abilities.update, "{capabilities:?}");
    let page = store.list(&Prefix::all(), None, 10).await.expect("list");
    assert!(page.entries.is_empty(), "a probe leaves nothing: {page:?}");
}
