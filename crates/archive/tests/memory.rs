//! Allocations of writing a set, and of each codec both ways: buffers go round, and none is made for a chunk once the first ones have
//! been.
//! A process of its own, because it counts all of its allocations.

#![allow(clippy::disallowed_methods, reason = "tests and benches are an edge")]
#![allow(missing_docs, reason = "tests speak by their names")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use seawall_archive::measuring::coder;
use seawall_archive::{Budget, Codec, Content, Lane, SetId, SetWriter};
use seawall_core::{Moment, NoProgress};
use seawall_testing::counting::{self, Counting};
use seawall_testing::{Forwarding, Hooks};
use seawall_vault::memory::MemoryStore;
use seawall_vault::{ObjectKey, Policy, Vault};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Looks at what it is given and keeps nothing.
#[derive(Debug, Default)]
struct Nowhere(AtomicUsize);

#[async_trait]
impl Hooks for Nowhere {
    async fn before_put(&self, _key: &ObjectKey, body: &Bytes) -> bool {
        assert!(!body.is_empty());
        self.0.fetch_add(1, Ordering::Relaxed);
        false
    }
}

/// Pushes `frames` frames of rows that shrink to about half.
async fn push(lane: &mut Lane, item: u32, frames: usize, random: &mut fastrand::Rng) {
    for _ in 0..frames {
        let mut buffer = lane.buffer().await.expect("a buffer");
        while buffer.len() + 64 <= buffer.capacity() {
            let number = random.u64(..);
            buffer.extend_from_slice(&number.to_le_bytes());
            buffer.extend_from_slice(b"and some text that repeats itself, as it does in tables\n");
        }
        lane.push(item, 1, buffer).await.expect("pushed");
    }
}

/// Large allocations, and bytes of all for each chunk, of 200 chunks after the first 20.
fn steady(codec: Codec) -> (usize, usize) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let store = Arc::new(Forwarding { inner: MemoryStore::new(), hooks: Nowhere::default() });
        let vault = Vault::new(Arc::<Forwarding<Nowhere>>::clone(&store), Policy { seed: 1, ..Policy::default() });
        let budget = Budget { frame: 64 << 10, chunk: 384 << 10, jobs: 1 };
        let id = SetId::new(Moment::from_millis(1_000), 1);
        let writer = SetWriter::begin(vault, id, codec, budget, Arc::new(NoProgress));
        let item = writer.item("public.t", Content::Lines, serde_json::json!({}));
        let (mut lane, mut random) = (writer.lane(), fastrand::Rng::with_seed(7));
        let objects = |store: &Forwarding<Nowhere>| store.hooks.0.load(Ordering::Relaxed);
        while objects(&store) < 20 {
            push(&mut lane, item, 1, &mut random).await;
        }
        let (before, large, bytes) = (objects(&store), counting::buffers(), counting::bytes());
        while objects(&store) < before + 200 {
            push(&mut lane, item, 1, &mut random).await;
        }
        let chunks = objects(&store) - before;
        let counted = (counting::buffers() - large, (counting::bytes() - bytes) / chunks);
        lane.finish().await.expect("finished");
        counted
    })
}

/// Large allocations of compressing and decompressing 50 frames, after the first two.
fn frames(codec: Codec) -> usize {
    let (mut encode, mut decode) = coder(codec).expect("a codec");
    let mut random = fastrand::Rng::with_seed(9);
    let text: Vec<u8> = (0..256 << 10).map(|i: u32| if i % 64 < 40 { (i / 64) as u8 } else { random.u8(..) }).collect();
    let (mut stored, mut raw, mut large) = (Vec::new(), Vec::new(), 0);
    for round in 0..52 {
        if round == 2 {
            large = counting::buffers();
        }
        // Smaller ones in between, as the last of a table are.
        let text = &text[..text.len() >> (round % 3)];
        encode(text, &mut stored).expect("compressed");
        decode(&stored, text.len(), &mut raw).expect("decompressed");
        assert!(raw == text, "{codec}: another text came back");
    }
    counting::buffers() - large
}

/// One test, because it counts the allocations of the process.
#[test]
fn no_buffer_is_made_for_a_chunk_once_the_first_ones_have_been() {
    let levels = [Codec::Zstd { level: 9 }, Codec::Gzip { level: 1 }, Codec::Gzip { level: 6 }];
    for codec in levels.into_iter().chain([Codec::default(), Codec::Lz4, Codec::None]) {
        assert_eq!(frames(codec), 0, "{codec}: buffers for 50 frames");
        let (large, bytes) = steady(codec);
        // The index of all chunks grows now and then.
        assert!(large <= 4, "{codec}: {large} buffers for 200 chunks");
        assert!(bytes < 96 << 10, "{codec}: {bytes} bytes for a chunk of 384 KiB");
        eprintln!("{codec}: {large} large allocations, {bytes} bytes in small ones for a chunk");
    }
}
