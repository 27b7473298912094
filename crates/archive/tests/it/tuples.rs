//! Rows in binary that go on from frame to frame and from chunk to chunk: `verify` follows them.

use std::sync::Arc;

use seawall_archive::{Content, SetWriter, verify};
use seawall_core::{Moment, NoProgress};
use seawall_vault::memory::MemoryStore;

use crate::support::{budget, count, id, objects, put, vault};

/// Rows of one column, of these sizes.
fn rows(sizes: &[usize]) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(7);
    let mut all = Vec::new();
    for size in sizes {
        all.extend([0, 1]);
        all.extend(i32::try_from(*size).expect("small").to_be_bytes());
        all.extend((0..*size).map(|_| random.u8(..)));
    }
    all
}

/// Writes a set whose first item is these bytes, in frames of a fixed size; a row ends at each of `ends`. Returns its store
/// and what `verify` finds.
async fn found(bytes: &[u8], ends: &[usize], and_then: Option<u8>) -> (MemoryStore, Vec<String>) {
    let store = MemoryStore::new();
    let vault = vault(&store);
    let codec = seawall_archive::Codec::None;
    let writer = SetWriter::begin(vault.clone(), id(1), codec, budget(), Arc::new(NoProgress));
    let item = |name: &str, content| writer.item(name, content, serde_json::json!({}));
    let (binary, other) = (item("public.t", Content::Tuples), item("public.u", Content::Lines));
    let mut lane = writer.lane();
    for (frame, part) in bytes.chunks(budget().frame).enumerate() {
        let (first, last) = (frame * budget().frame, frame * budget().frame + part.len());
        let rows = ends.iter().filter(|end| (first + 1..=last).contains(end)).count() as u64;
        let mut buffer = lane.buffer().await.expect("a buffer");
        buffer.extend_from_slice(part);
        match ends.contains(&last) || last == bytes.len() {
            true => lane.push(binary, rows, buffer).await.expect("pushed"),
            false => lane.push_open(binary, rows, buffer).await.expect("pushed"),
        }
    }
    if let Some(byte) = and_then {
        lane.push(other, 1, vec![byte, b'\n']).await.expect("pushed");
    }
    lane.finish().await.expect("written");
    count(&vault, &writer, id(1)).await.expect("it counts");
    let verified = verify(&vault, Moment::default(), Arc::new(NoProgress), 2).await.expect("verified");
    (store, verified.findings.into_iter().map(|finding| format!("{}: {}", finding.object, finding.cause)).collect())
}

const SIZES: [usize; 7] = [10, 300_000, 0, 500, 64 << 10, 1_000_000, 90];

/// Where each row ends.
fn ends() -> Vec<usize> {
    let end = |at: &mut usize, size: &usize| {
        *at += size + 6;
        Some(*at)
    };
    SIZES.iter().scan(0, end).collect()
}

#[tokio::test]
async fn rows_are_followed_through_frames_and_chunks() {
    let (store, findings) = found(&rows(&SIZES), &ends(), Some(b'x')).await;
    assert_eq!(findings, Vec::<String>::new());
    // What is damaged in the middle of a row is one finding, and no more come of it.
    let name = format!("sets/{}/00000002.raw", id(1));
    let mut bytes = objects(&store).await.remove(&name).expect("there are more");
    bytes[0] ^= 1;
    put(&vault(&store), &name, bytes).await;
    let verified = verify(&vault(&store), Moment::default(), Arc::new(NoProgress), 2).await.expect("verified");
    assert_eq!(verified.findings.len(), 1, "{:?}", verified.findings);
    assert!(verified.findings[0].object.ends_with("00000002.raw"));
}

#[tokio::test]
async fn rows_that_are_not_as_the_index_says_are_found() {
    let all = rows(&SIZES);
    let mut fewer = ends();
    fewer.remove(2);
    let cut = &all[..all.len() - 1];
    let mut wild = all.clone();
    wild[0] = 0x80;
    for (what, bytes, ends, and_then, cause) in [
        ("counted wrongly", &all[..], &fewer, None, "a frame holds"),
        ("cut at the end", cut, &ends(), None, "its last row is cut off"),
        ("cut before another item", cut, &ends(), Some(b'x'), "the row before it is cut off"),
        ("no rows", &wild[..], &ends(), None, "a row has fewer columns than none"),
    ] {
        let (_, findings) = found(bytes, ends, and_then).await;
        assert!(findings.len() == 1 && findings[0].contains(cause), "{what}: {findings:?}");
    }
}
