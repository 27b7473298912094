//! A log in a vault: what is stored comes back, and what is missing is told as what it is.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use seawall_archive::log::{
    Cluster, Line, Log, LogError, LogFile, Lsn, SegmentName, SegmentSize, Stored, SystemId, TimelineId,
};
use seawall_core::Failure;
use seawall_vault::memory::MemoryStore;
use seawall_vault::simulated::{Fault, SimulatedStore};
use seawall_vault::{
    Abilities, Body, Error, Meta, Multipart, ObjectKey, Page, Policy, Prefix, PutOptions, Scheme, Store, Tag, Vault,
};

const SIZE: u64 = 1 << 20;

fn cluster() -> Cluster {
    of_system(7)
}

fn of_system(system: u64) -> Cluster {
    Cluster { system: SystemId::new(system), segment_size: SegmentSize::new(1 << 20).expect("a size") }
}

fn vault(store: &MemoryStore) -> Vault {
    Vault::new(Arc::new(store.clone()), Policy { seed: 1, ..Policy::default() })
}

fn id(number: u32) -> TimelineId {
    TimelineId::new(number).expect("a timeline")
}

fn at(segment: u64, offset: u64) -> Lsn {
    Lsn::new(segment * SIZE + offset)
}

fn name(timeline: u32, segment: u64) -> SegmentName {
    SegmentName::of(id(timeline), at(segment, 0), cluster().segment_size)
}

/// The bytes of a segment: different for each timeline and number.
fn bytes(timeline: u32, segment: u64) -> Vec<u8> {
    (0..SIZE / 8).flat_map(|word| (word / 3 + segment * 1000 + u64::from(timeline) * 77).to_le_bytes()).collect()
}

async fn put(log: &Log, timeline: u32, segment: u64) {
    let content = bytes(timeline, segment);
    let stored = log.put_segment(name(timeline, segment), true, &mut &content[..]).await.expect("stored");
    assert_eq!(stored, Stored::New);
}

async fn promote(log: &Log, timeline: u32, text: &str) {
    log.put_file(LogFile::History(id(timeline)), text.to_owned().into()).await.expect("stored");
}

async fn get(log: &Log, file: LogFile, line: Line) -> Result<Vec<u8>, LogError> {
    let mut bytes = Vec::new();
    log.fetch(file, line).await?.write_to(&mut bytes, Path::new("memory"))?;
    Ok(bytes)
}

async fn segment(log: &Log, timeline: u32, number: u64, line: Line) -> Result<Vec<u8>, LogError> {
    get(log, LogFile::Segment(name(timeline, number)), line).await
}

fn code<T>(result: Result<T, LogError>) -> &'static str {
    Failure::from(result.err().expect("a failure")).code
}

async fn log(store: &MemoryStore) -> Log {
    Log::claim(&vault(store), cluster()).await.expect("claimed")
}

#[tokio::test]
async fn segments_come_back_and_the_end_is_an_absence() {
    let store = MemoryStore::new();
    let log = log(&store).await;
    for number in 1..=3 {
        put(&log, 1, number).await;
    }
    let again = Log::open(&vault(&store)).await.expect("read").expect("a log");
    assert_eq!(again.cluster(), cluster());
    for number in 1..=3 {
        assert!(segment(&again, 1, number, Line::Latest).await.expect("there") == bytes(1, number), "{number}");
    }
    assert_eq!(code(segment(&log, 1, 4, Line::Latest).await), "log.absent");
    assert_eq!(code(segment(&log, 1, 4, Line::Of(id(1))).await), "log.absent");
    for number in [1, 2] {
        assert_eq!(code(get(&log, LogFile::History(id(number)), Line::Latest).await), "log.absent", "{number}");
    }
    let contents = log.contents().await.expect("listed");
    assert_eq!(contents.reach(id(1), at(1, 40)), Some(at(4, 0)));
    assert_eq!(contents.newest(), Some(id(1)));
}

#[tokio::test]
async fn the_same_again_succeeds_and_another_is_refused() {
    let store = MemoryStore::new();
    let log = log(&store).await;
    put(&log, 1, 1).await;
    let same = bytes(1, 1);
    let stored = log.put_segment(name(1, 1), true, &mut &same[..]).await.expect("the same");
    assert_eq!(stored, Stored::Already);
    let other = bytes(1, 2);
    assert_eq!(code(log.put_segment(name(1, 1), true, &mut &other[..]).await), "log.conflict");
    assert!(segment(&log, 1, 1, Line::Latest).await.expect("there") == same, "nothing was written over");
    promote(&log, 2, "1\t0/100000\tx\n").await;
    promote(&log, 2, "1\t0/100000\tx\n").await;
    let other = log.put_file(LogFile::History(id(2)), "1\t0/200000\tx\n".into()).await;
    assert_eq!(code(other), "log.conflict");
    // What another version of zstd makes of the same content is the same segment.
    let key = key("00000001/000000010000000000000001.zst");
    let mut longer = object(&store, &key).await;
    longer.extend_from_slice(&[0x50, 0x2a, 0x4d, 0x18, 1, 0, 0, 0, 0]);
    vault(&store).put(&key, longer.into(), None).await.expect("written");
    let stored = log.put_segment(name(1, 1), true, &mut &same[..]).await.expect("the same");
    assert_eq!(stored, Stored::Already);
}

#[tokio::test]
async fn a_vault_has_one_cluster() {
    let store = MemoryStore::new();
    log(&store).await;
    assert_eq!(code(Log::claim(&vault(&store), of_system(8)).await), "log.other-cluster");
    let larger = Cluster { segment_size: SegmentSize::new(1 << 24).expect("a size"), ..cluster() };
    assert_eq!(code(Log::claim(&vault(&store), larger).await), "log.other-size");
    // Two at once: one of them gets it.
    let store = MemoryStore::new();
    let (one, two) = (vault(&store), vault(&store));
    let (first, second) = tokio::join!(Log::claim(&one, of_system(7)), Log::claim(&two, of_system(8)));
    assert_ne!(first.is_ok(), second.is_ok());
    let system = Log::open(&one).await.expect("read").expect("a log").cluster().system.number();
    assert_eq!(system, if first.is_ok() { 7 } else { 8 });
}

#[tokio::test]
async fn an_object_of_another_cluster_is_never_handed_out() {
    let (ours, theirs) = (MemoryStore::new(), MemoryStore::new());
    let log = log(&ours).await;
    put(&Log::claim(&vault(&theirs), of_system(8)).await.expect("claimed"), 1, 1).await;
    let from = ObjectKey::new("physical/8/log/00000001/000000010000000000000001.zst").expect("a key");
    let foreign = object(&theirs, &from).await;
    vault(&ours).put(&key("00000001/000000010000000000000001.zst"), foreign.into(), None).await.expect("written");
    assert_eq!(code(segment(&log, 1, 1, Line::Latest).await), "log.other-cluster");
    // The object of another name isn't given under this one.
    put(&log, 1, 3).await;
    let other = object(&ours, &key("00000001/000000010000000000000003.zst")).await;
    vault(&ours).put(&key("00000001/000000010000000000000002.zst"), other.into(), None).await.expect("written");
    assert_eq!(code(segment(&log, 1, 2, Line::Latest).await), "archive.corrupt");
}

#[tokio::test]
async fn ranges_are_one_segment_with_zeros_behind_them() {
    let store = MemoryStore::new();
    let log = log(&store).await;
    let whole = bytes(1, 1);
    for (from, to) in [(0, 100), (100, 5000), (4000, 9000), (50, 60)] {
        log.put_range(id(1), at(1, from as u64), whole[from..to].to_vec().into()).await.expect("stored");
    }
    let found = segment(&log, 1, 1, Line::Latest).await.expect("there");
    assert!(found[..9000] == whole[..9000] && found[9000..].iter().all(|byte| *byte == 0));
    assert_eq!(found.len() as u64, SIZE);
    let contents = log.contents().await.expect("listed");
    assert_eq!(contents.reach(id(1), at(1, 0)), Some(at(1, 9000)));
    // A range of the next segment isn't part of it; once the segment is there, the ranges don't count.
    log.put_range(id(1), at(2, 0), bytes(1, 2)[..10].to_vec().into()).await.expect("stored");
    put(&log, 1, 1).await;
    log.remove_ranges(id(1), &[(at(1, 0), at(1, 100)), (at(1, 50), at(1, 60))]).await.expect("removed");
    assert!(segment(&log, 1, 1, Line::Latest).await.expect("there") == whole);
}

/// A store in which a receiver completes a segment at a given request: it stores it, and then deletes its ranges.
#[derive(Debug)]
struct Completing {
    inner: MemoryStore,
    segment: (ObjectKey, Vec<u8>),
    ranges: Vec<ObjectKey>,
    at: u64,
    asked: Arc<AtomicU64>,
}

impl Completing {
    async fn ask(&self) {
        if self.asked.fetch_add(1, Ordering::SeqCst) == self.at {
            let (key, object) = self.segment.clone();
            vault(&self.inner).put(&key, object.into(), None).await.expect("stored");
            vault(&self.inner).delete(&self.ranges).await.expect("deleted");
        }
    }
}

#[async_trait]
impl Store for Completing {
    fn url(&self) -> String {
        self.inner.url()
    }

    fn scheme(&self) -> Scheme {
        self.inner.scheme()
    }

    fn abilities(&self) -> Abilities {
        self.inner.abilities()
    }

    async fn put(&self, key: &ObjectKey, body: Bytes, options: &PutOptions) -> Result<Option<Tag>, Error> {
        self.inner.put(key, body, options).await
    }

    async fn begin(&self, key: &ObjectKey, options: &PutOptions, most: usize) -> Result<Box<dyn Multipart>, Error> {
        self.inner.begin(key, options, most).await
    }

    async fn get(&self, key: &ObjectKey, range: Option<Range<u64>>) -> Result<Body, Error> {
        self.ask().await;
        self.inner.get(key, range).await
    }

    async fn head(&self, key: &ObjectKey) -> Result<Meta, Error> {
        self.ask().await;
        self.inner.head(key).await
    }

    async fn list(&self, prefix: &Prefix, after: Option<&ObjectKey>, limit: usize) -> Result<Page, Error> {
        self.ask().await;
        self.inner.list(prefix, after, limit).await
    }

    async fn delete(&self, keys: &[ObjectKey]) -> Result<Vec<Result<(), Error>>, Error> {
        self.inner.delete(keys).await
    }
}

#[tokio::test]
async fn a_segment_that_is_just_being_completed_is_neither_absent_nor_a_hole() {
    let whole = bytes(1, 2);
    let made = MemoryStore::new();
    put(&log(&made).await, 1, 2).await;
    let segment_key = key("00000001/000000010000000000000002.zst");
    let complete = object(&made, &segment_key).await;
    for parts in [&[(0, 100), (100, 5000)][..], &[(0, 100), (100, SIZE as usize)], &[(0, 100), (60, 300), (300, 900)]] {
        for number in 0.. {
            let store = MemoryStore::new();
            let log = log(&store).await;
            put(&log, 1, 1).await;
            let mut ranges = Vec::new();
            for (from, to) in parts {
                log.put_range(id(1), at(2, *from as u64), whole[*from..*to].to_vec().into()).await.expect("stored");
                let (from, to) = (SIZE * 2 + *from as u64, SIZE * 2 + *to as u64);
                ranges.push(key(&format!("00000001/{from:016X}-{to:016X}.zst")));
            }
            let asked = Arc::new(AtomicU64::new(0));
            let completing = Completing {
                inner: store,
                segment: (segment_key.clone(), complete.clone()),
                ranges,
                at: number,
                asked: asked.clone(),
            };
            let vault = Vault::new(Arc::new(completing), Policy { seed: 1, ..Policy::default() });
            let log = Log::open(&vault).await.expect("read").expect("a log");
            let found = segment(&log, 1, 2, Line::Of(id(1))).await.expect("there");
            let (_, reached) = parts.last().expect("a part");
            assert!(found[..*reached] == whole[..*reached], "{parts:?}, request {number}");
            let rest = &found[*reached..];
            assert!(*rest == whole[*reached..] || rest.iter().all(|byte| *byte == 0), "{parts:?}, request {number}");
            if asked.load(Ordering::SeqCst) <= number {
                assert!(number > 3, "{number}");
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_restore_that_knows_of_a_gap_ends_there() {
    let store = MemoryStore::new();
    let log = log(&store).await;
    put(&log, 1, 1).await;
    for (from, to) in [(0, 100), (100, 5000), (6000, 7000)] {
        log.put_range(id(1), at(2, from as u64), bytes(1, 2)[from..to].to_vec().into()).await.expect("stored");
    }
    put(&log, 1, 4).await;
    let until = log.contents().await.expect("listed").reach(id(1), at(1, 0));
    assert_eq!(until, Some(at(2, 5000)));
    let get = async |number: u64, until: Option<Lsn>| {
        let file = LogFile::Segment(name(1, number));
        let mut bytes = Vec::new();
        log.fetch_until(file, Line::Of(id(1)), until).await?.write_to(&mut bytes, Path::new("memory"))?;
        Ok::<_, LogError>(bytes)
    };
    assert_eq!(code(get(2, None).await), "log.hole");
    assert!(get(1, until).await.expect("there") == bytes(1, 1));
    let last = get(2, until).await.expect("there");
    assert!(last[..5000] == bytes(1, 2)[..5000] && last[5000..].iter().all(|byte| *byte == 0));
    for number in [3, 4, 5] {
        assert_eq!(code(get(number, until).await), "log.absent", "{number}");
    }
    // A whole segment is cut as well: it came after the restore was made.
    assert!(get(4, Some(at(4, 10))).await.expect("there")[10..].iter().all(|byte| *byte == 0));
    // What the restore needs and what is gone since is still a gap.
    assert_eq!(code(get(3, Some(at(4, 10))).await), "log.hole");
}

#[tokio::test]
async fn what_a_restore_needs_and_what_is_gone_since_is_no_end() {
    let store = MemoryStore::new();
    let log = log(&store).await;
    put(&log, 1, 1).await;
    promote(&log, 2, "1\t0/200200\tpromoted\n").await;
    put(&log, 2, 2).await;
    put(&log, 2, 3).await;
    log.put_range(id(2), at(4, 0), bytes(2, 4)[..5000].to_vec().into()).await.expect("stored");
    log.put_range(id(2), at(4, 5000), bytes(2, 4)[5000..9000].to_vec().into()).await.expect("stored");
    let until = log.contents().await.expect("listed").reach(id(2), at(1, 0));
    assert_eq!(until, Some(at(4, 9000)));
    let get = async |timeline: u32, number: u64, until: Option<Lsn>| {
        let file = LogFile::Segment(name(timeline, number));
        let mut bytes = Vec::new();
        log.fetch_until(file, Line::Of(id(2)), until).await?.write_to(&mut bytes, Path::new("memory"))?;
        Ok::<_, LogError>(bytes)
    };
    let there = get(2, 4, until).await.expect("there");
    assert!(there[..9000] == bytes(2, 4)[..9000] && there[9000..].iter().all(|byte| *byte == 0));
    assert_eq!(code(get(1, 2, until).await), "log.absent", "the next timeline has all of it");
    // The vault is set back: first the last bytes are gone, then one segment after another.
    let gone = async |name: &str| vault(&store).delete(&[key(name)]).await.expect("deleted");
    gone("00000002/0000000000401388-0000000000402328.zst").await;
    assert_eq!(code(get(2, 4, until).await), "log.shortened");
    assert!(get(2, 4, None).await.is_ok(), "without a restore that knows better, the log ends there");
    assert!(get(2, 4, Some(at(4, 5000))).await.is_ok());
    gone("00000002/0000000000400000-0000000000401388.zst").await;
    for (timeline, number, until, expected) in [
        (2, 4, until, "log.shortened"),
        (2, 4, None, "log.absent"),
        (2, 4, Some(at(4, 0)), "log.absent"),
        (2, 5, until, "log.absent"),
        (1, 4, until, "log.absent"),
    ] {
        assert_eq!(code(get(timeline, number, until).await), expected, "{timeline} {number} {until:?}");
    }
    gone("00000002/000000020000000000000003.zst").await;
    gone("00000002/000000020000000000000002.zst").await;
    for (timeline, until, expected) in [
        (2, until, "log.shortened"),
        (1, until, "log.shortened"),
        // The restore ends where timeline 2 begins, and needs nothing of it.
        (2, Some(at(2, 0x200)), "log.absent"),
        (1, Some(at(2, 0x200)), "log.shortened"),
        (1, None, "log.absent"),
    ] {
        assert_eq!(code(get(timeline, 2, until).await), expected, "{timeline} {until:?}");
    }
    // The old timeline has the segment in which it was left.
    put(&log, 1, 2).await;
    assert!(get(1, 2, until).await.is_ok());
}

#[tokio::test]
async fn ranges_that_do_not_fit_are_refused() {
    let store = MemoryStore::new();
    let log = log(&store).await;
    let whole = bytes(1, 1);
    log.put_range(id(1), at(1, 0), whole[..100].to_vec().into()).await.expect("stored");
    log.put_range(id(1), at(1, 200), whole[200..300].to_vec().into()).await.expect("stored");
    assert_eq!(code(segment(&log, 1, 1, Line::Latest).await), "log.hole");
    log.put_range(id(1), at(1, 90), whole[95..205].to_vec().into()).await.expect("stored");
    assert_eq!(code(segment(&log, 1, 1, Line::Latest).await), "archive.corrupt");
}

#[tokio::test]
async fn ranges_before_a_hole_do_not_hide_it() {
    let store = MemoryStore::new();
    let log = log(&store).await;
    log.put_range(id(1), at(1, 0), bytes(1, 1)[..100].to_vec().into()).await.expect("stored");
    assert!(segment(&log, 1, 1, Line::Latest).await.is_ok(), "it is the end of the log");
    log.put_range(id(1), at(3, 0), bytes(1, 3)[..100].to_vec().into()).await.expect("stored");
    assert_eq!(code(segment(&log, 1, 1, Line::Latest).await), "log.hole");
    assert!(segment(&log, 1, 3, Line::Latest).await.is_ok());
    put(&log, 1, 1).await;
    assert_eq!(code(segment(&log, 1, 2, Line::Latest).await), "log.hole");
    assert!(segment(&log, 1, 1, Line::Latest).await.is_ok());
}

#[tokio::test]
async fn what_is_missing_before_the_end_is_a_hole() {
    let store = MemoryStore::new();
    let log = log(&store).await;
    put(&log, 1, 1).await;
    put(&log, 1, 3).await;
    assert_eq!(code(segment(&log, 1, 2, Line::Latest).await), "log.hole");
    assert_eq!(code(segment(&log, 1, 4, Line::Latest).await), "log.absent");
    log.put_range(id(1), at(6, 0), b"the log goes on".to_vec().into()).await.expect("stored");
    for number in [2, 4, 5] {
        assert_eq!(code(segment(&log, 1, number, Line::Latest).await), "log.hole", "{number}");
    }
    let contents = log.contents().await.expect("listed");
    let gaps: Vec<_> = contents.timelines[&id(1)].gaps().map(|gap| (gap.start, gap.end)).collect();
    assert_eq!(gaps, [(at(2, 0), at(3, 0)), (at(4, 0), at(6, 0))]);
}

#[tokio::test]
async fn names_of_many_segments_do_not_hide_a_range_behind_them() {
    let store = MemoryStore::new();
    let log = log(&store).await;
    // On timeline 1, names of segments stand between those of ranges below and above 1/0.
    for number in 1..1500 {
        let name = key(&format!("00000001/{}.zst", name(1, number)));
        vault(&store).put(&name, Bytes::from_static(b"x"), None).await.expect("written");
    }
    log.put_range(id(1), at(4097, 0), b"the log goes on".to_vec().into()).await.expect("stored");
    for number in [4095, 4096] {
        assert_eq!(code(segment(&log, 1, number, Line::Latest).await), "log.hole", "{number}");
    }
    assert_eq!(code(segment(&log, 1, 4098, Line::Latest).await), "log.absent");
}

#[tokio::test]
async fn a_segment_of_another_length_is_not_stored() {
    let store = MemoryStore::new();
    let log = log(&store).await;
    let whole = bytes(1, 1);
    for content in [&whole[..100], &[&whole[..], b"more"].concat()] {
        assert_eq!(code(log.put_segment(name(1, 1), true, &mut &content[..]).await), "log.not-a-segment");
    }
    assert!(log.contents().await.expect("listed").timelines.is_empty());
}

#[tokio::test]
async fn an_old_timeline_ends_where_the_next_one_begins() {
    let store = MemoryStore::new();
    let log = log(&store).await;
    // Timeline 2 left timeline 1 in segment 3, and timeline 1 went on.
    for number in 1..=4 {
        put(&log, 1, number).await;
    }
    promote(&log, 2, "1\t0/300200\tpromoted\n").await;
    let to = |number: u32| Line::Of(id(number));
    assert!(segment(&log, 1, 2, to(2)).await.expect("there") == bytes(1, 2));
    let cut = segment(&log, 1, 3, to(2)).await.expect("there");
    assert!(cut[..0x200] == bytes(1, 3)[..0x200] && cut[0x200..].iter().all(|byte| *byte == 0));
    assert_eq!(code(segment(&log, 1, 4, to(2)).await), "log.absent");
    // The request names no timeline, and PostgreSQL may recover either.
    assert_eq!(code(segment(&log, 1, 3, Line::Latest).await), "log.off-line");
    assert_eq!(code(segment(&log, 1, 4, Line::Latest).await), "log.off-line");
    assert!(segment(&log, 1, 4, to(1)).await.expect("there") == bytes(1, 4));
    assert_eq!(code(segment(&log, 2, 3, to(1)).await), "log.absent");
    put(&log, 2, 3).await;
    assert_eq!(code(segment(&log, 2, 3, to(1)).await), "log.off-line");
    assert!(segment(&log, 2, 3, to(2)).await.expect("there") == bytes(2, 3));
    assert_eq!(log.contents().await.expect("listed").reach(id(2), at(1, 0)), Some(at(4, 0)));
}

#[tokio::test]
async fn the_switch_segment_may_be_only_on_the_new_timeline() {
    let store = MemoryStore::new();
    let log = log(&store).await;
    put(&log, 1, 1).await;
    promote(&log, 2, "1\t0/200200\tpromoted\n").await;
    put(&log, 2, 2).await;
    put(&log, 2, 3).await;
    // A standby that doesn't know of timeline 2 yet asks for this one.
    assert_eq!(code(segment(&log, 1, 2, Line::Latest).await), "log.absent");
    assert_eq!(code(segment(&log, 1, 3, Line::Latest).await), "log.absent");
    assert_eq!(code(segment(&log, 2, 4, Line::Latest).await), "log.absent");
    // And if the copy is missing, it is a hole.
    vault(&store).delete(&[key("00000002/000000020000000000000002.zst")]).await.expect("deleted");
    assert_eq!(code(segment(&log, 1, 2, Line::Latest).await), "log.hole");
    assert_eq!(code(segment(&log, 2, 2, Line::Latest).await), "log.hole");
    vault(&store).delete(&[key("00000001/000000010000000000000001.zst")]).await.expect("deleted");
    assert_eq!(code(segment(&log, 1, 1, Line::Latest).await), "log.hole");
}

#[tokio::test]
async fn a_missing_history_is_no_end() {
    let store = MemoryStore::new();
    let log = log(&store).await;
    put(&log, 1, 1).await;
    put(&log, 3, 2).await;
    promote(&log, 3, "1\t0/100100\tx\n2\t0/180000\tx\n").await;
    let history = |number: u32| LogFile::History(id(number));
    assert_eq!(code(get(&log, history(2), Line::Latest).await), "log.no-history");
    assert_eq!(get(&log, history(3), Line::Latest).await.expect("there"), b"1\t0/100100\tx\n2\t0/180000\tx\n");
    assert_eq!(code(get(&log, history(4), Line::Latest).await), "log.absent");
    assert_eq!(code(segment(&log, 1, 1, Line::Of(id(2))).await), "log.no-history");
    let deleted = vault(&store).delete(&[key("00000003.history")]).await;
    deleted.expect("deleted");
    assert_eq!(code(get(&log, history(3), Line::Latest).await), "log.no-history");
}

#[tokio::test]
async fn damage_is_noticed() {
    let store = MemoryStore::new();
    let log = log(&store).await;
    put(&log, 1, 1).await;
    let name_in_store = key("00000001/000000010000000000000001.zst");
    let sound = object(&store, &name_in_store).await;
    let mut random = fastrand::Rng::with_seed(seawall_testing::seed());
    for _ in 0..50 {
        let mut damaged = sound.clone();
        let place = random.usize(..damaged.len());
        damaged[place] ^= 1 << random.u8(..8);
        vault(&store).put(&name_in_store, damaged.into(), None).await.expect("written");
        assert!(segment(&log, 1, 1, Line::Latest).await.is_err(), "byte {place}");
        // An archived segment that is damaged isn't taken for archived.
        let content = bytes(1, 1);
        assert!(log.put_segment(name(1, 1), true, &mut &content[..]).await.is_err(), "byte {place}");
    }
}

#[tokio::test]
async fn every_failed_request_is_no_absence() {
    let store = MemoryStore::new();
    let whole = log(&store).await;
    for number in 1..=3 {
        put(&whole, 1, number).await;
    }
    promote(&whole, 2, "1\t0/300200\tpromoted\n").await;
    put(&whole, 2, 3).await;
    let policy = Policy { seed: 1, attempts: 1, ..Policy::default() };
    for file in ["000000010000000000000002", "000000020000000000000004", "00000002.history", "00000003.history"] {
        let file: LogFile = file.parse().expect("a file");
        let mut failed = 0;
        for number in 0.. {
            let flaky = SimulatedStore::new(store.clone(), 1);
            flaky.fail_call(number, Fault::Error);
            let calls = flaky.clone();
            let vault = Vault::new(Arc::new(flaky), policy.clone());
            let result = match Log::open(&vault).await {
                Ok(Some(log)) => get(&log, file, Line::Latest).await,
                Ok(None) => panic!("an error isn't an empty vault"),
                Err(error) => Err(error),
            };
            if calls.call_count() <= number {
                let there = ["000000010000000000000002", "00000002.history"].contains(&file.to_string().as_str());
                assert_eq!(result.is_ok(), there, "{file}");
                assert!(there || result.is_err_and(|error| error.is_absence()), "{file}");
                break;
            }
            assert!(result.is_err_and(|error| !error.is_absence()), "{file}: request {number}");
            failed += 1;
        }
        assert!(failed > 1, "{file}");
    }
}

fn key(below: &str) -> ObjectKey {
    ObjectKey::new(format!("physical/7/log/{below}")).expect("a key")
}

/// The bytes of an object.
async fn object(store: &MemoryStore, key: &ObjectKey) -> Vec<u8> {
    vault(store).read(key, None, 1 << 30).await.expect("read").to_vec()
}
