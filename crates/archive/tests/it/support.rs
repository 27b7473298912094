//! A set of made-up rows, written and read back.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::TryStreamExt as _;
use seawall_archive::{Budget, Catalog, Codec, Content, Error, Facts, Manifest, Record, SetId, SetReader, SetWriter};
use seawall_core::{Clock, Moment, NoProgress, Steady, When};
use seawall_vault::memory::MemoryStore;
use seawall_vault::{ObjectKey, Store, Vault};

/// A clock that stands still.
#[derive(Debug)]
pub(crate) struct Still(pub(crate) i64);

impl Clock for Still {
    fn now(&self) -> Moment {
        Moment::from_millis(self.0)
    }

    fn steady(&self) -> Steady {
        Steady { boot: 0, millis: 0 }
    }
}

/// Frames of 64 KiB, so that a little content makes many.
pub(crate) fn budget() -> Budget {
    Budget { frame: 64 << 10, chunk: 128 << 10, jobs: 2 }
}

/// The rows of table number `table`: text that compresses by about half.
pub(crate) fn rows(table: u32, count: u32, seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed ^ u64::from(table));
    let mut text = Vec::new();
    for row in 0..count {
        text.extend_from_slice(format!("{row}\t{:016x}\tsome text that repeats itself\n", random.u64(..)).as_bytes());
    }
    text
}

/// What a set is to hold: tables with their rows, each through the lane of its place.
pub(crate) type Tables = Vec<(String, Vec<u8>)>;

pub(crate) fn tables(seed: u64) -> Tables {
    vec![
        ("public.big".into(), rows(0, 20_000, seed)),
        ("public.\"ein \u{1f418}\"".into(), rows(1, 3, seed)),
        ("public.empty".into(), Vec::new()),
        ("other.big".into(), rows(2, 9_000, seed)),
    ]
}

/// Writes one set with two lanes at once, and lets it count.
pub(crate) async fn write(vault: &Vault, id: SetId, codec: Codec, tables: &Tables) -> Result<Manifest, Error> {
    let writer = SetWriter::begin(vault.clone(), id, codec, budget(), Arc::new(NoProgress));
    let (mut left, mut right) = (Vec::new(), Vec::new());
    for (place, (name, rows)) in tables.iter().enumerate() {
        let item = writer.item(name.clone(), Content::Lines, serde_json::json!({ "columns": ["a", "b"] }));
        if place % 2 == 0 { left.push((item, rows)) } else { right.push((item, rows)) }
    }
    let (left, right) = tokio::join!(feed(&writer, left), feed(&writer, right));
    left.and(right)?;
    count(vault, &writer, id).await
}

/// Ends a set, and lets it count.
pub(crate) async fn count(vault: &Vault, writer: &SetWriter, id: SetId) -> Result<Manifest, Error> {
    let facts = Facts {
        engine: "test",
        identity: "7/shop".into(),
        tool: "test".into(),
        point: id.moment(),
        artefact: None,
        sample: None,
        schedule: None,
        detail: serde_json::json!({}),
    };
    let manifest = writer.finish(facts, &Still(id.moment().as_millis() + 500)).await?;
    let mut catalog = Catalog::read(vault).await?;
    catalog.add(Record::Set(Box::new(manifest.clone()))).await?;
    Ok(manifest)
}

/// Writes tables through one lane.
pub(crate) async fn feed(writer: &SetWriter, tables: Vec<(u32, &Vec<u8>)>) -> Result<(), Error> {
    let mut lane = writer.lane();
    for (item, text) in tables {
        let (mut buffer, mut count) = (lane.buffer().await?, 0);
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            if buffer.len() + line.len() > budget().frame {
                lane.push(item, count, buffer).await?;
                (buffer, count) = (lane.buffer().await?, 0);
            }
            buffer.extend_from_slice(line);
            count += 1;
        }
        if buffer.is_empty() { lane.unused(buffer) } else { lane.push(item, count, buffer).await? }
    }
    lane.finish().await
}

/// Reads the newest set back.
pub(crate) async fn read(vault: &Vault, when: &When) -> Result<Tables, Error> {
    let catalog = Catalog::read(vault).await?;
    let reader = SetReader::open(vault.clone(), catalog.find(when)?.clone()).await?;
    let names = reader.index().items.iter().map(|item| item.name.clone());
    let mut tables: Tables = names.map(|name| (name, Vec::new())).collect();
    let mut raw = Vec::new();
    for number in 0..reader.index().chunks.len() as u32 {
        let (chunk, bytes) = reader.chunk(number).await?;
        for (frame, stored) in SetReader::frames(chunk, &bytes) {
            reader.decode(number, frame, &stored, &mut raw)?;
            tables[frame.item as usize].1.extend_from_slice(&raw);
        }
    }
    Ok(tables)
}

/// Every object of a store.
pub(crate) async fn objects(store: &MemoryStore) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let page = store.list(&seawall_vault::Prefix::all(), None, 100_000).await.expect("memory");
    for entry in page.entries {
        let body = store.get(&entry.key, None).await.expect("memory");
        let chunks: Vec<bytes::Bytes> = body.stream.try_collect().await.expect("memory");
        found.insert(entry.key.to_string(), chunks.concat());
    }
    found
}

pub(crate) async fn put(vault: &Vault, name: &str, bytes: Vec<u8>) {
    vault.put(&ObjectKey::new(name).expect("a key"), bytes.into(), None).await.expect("memory");
}

pub(crate) fn id(seconds: i64) -> SetId {
    SetId::new(Moment::from_millis(seconds * 1_000), 1)
}

pub(crate) fn vault(store: &MemoryStore) -> Vault {
    Vault::new(Arc::new(store.clone()), seawall_vault::Policy { seed: 1, ..Default::default() })
}
