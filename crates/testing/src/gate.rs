//! A store that accepts nothing while its gate is shut, so that a backup stops in the middle. It can also limit how
//! many chunks it returns, so that a restore stops.

use async_trait::async_trait;
use bytes::Bytes;
use seawall_vault::ObjectKey;
use seawall_vault::memory::MemoryStore;
use tokio::sync::watch;

use crate::forwarding::{Forwarding, Hooks};

/// A store with a gate before it. Clones share the gate.
pub type Gate = Forwarding<Doors>;

/// The two ways through a gate.
#[derive(Debug, Clone)]
pub struct Doors {
    open: watch::Sender<bool>,
    chunks: watch::Sender<Chunks>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Chunks {
    /// How many may still be read.
    left: usize,
    /// How many readers wait because none may.
    waiting: usize,
    /// Whether readers that wait go on.
    free: bool,
}

impl Gate {
    /// Before a store, and open.
    pub fn before(inner: &MemoryStore) -> Self {
        let hooks = Doors {
            open: watch::Sender::new(true),
            chunks: watch::Sender::new(Chunks { left: usize::MAX, waiting: 0, free: true }),
        };
        Self { inner: inner.clone(), hooks }
    }

    /// Opens or shuts the way in.
    pub fn set(&self, open: bool) {
        self.hooks.open.send_replace(open);
    }

    /// Lets so many chunks be read from now on. Readers that wait already, wait on.
    pub fn allow(&self, chunks: usize) {
        self.hooks.chunks.send_replace(Chunks { left: chunks, waiting: 0, free: false });
    }

    /// Lets every chunk be read, also by readers that wait.
    pub fn free(&self) {
        self.hooks.chunks.send_replace(Chunks { left: usize::MAX, waiting: 0, free: true });
    }

    /// Returns when a reader waits for a chunk that may not be read.
    ///
    /// # Panics
    /// Never: the gate outlives its readers.
    pub async fn stopped(&self) {
        self.hooks.chunks.subscribe().wait_for(|chunks| chunks.waiting > 0).await.expect("the gate outlives who waits");
    }
}

impl Doors {
    async fn pass(&self) {
        self.open.subscribe().wait_for(|open| *open).await.expect("the gate outlives who waits");
    }
}

#[async_trait]
impl Hooks for Doors {
    async fn before_put(&self, _key: &ObjectKey, _body: &Bytes) -> bool {
        self.pass().await;
        true
    }

    async fn before_begin(&self, _key: &ObjectKey) {
        self.pass().await;
    }

    async fn before_get(&self, key: &ObjectKey) {
        let is_chunk = key.as_str().starts_with("sets/") && !key.as_str().ends_with(".json");
        if !is_chunk {
            return;
        }
        let mut passed = false;
        self.chunks.send_modify(|chunks| {
            passed = chunks.left > 0;
            match chunks.left {
                0 => chunks.waiting += 1,
                _ => chunks.left -= 1,
            }
        });
        if !passed {
            self.chunks.subscribe().wait_for(|chunks| chunks.free).await.expect("the gate outlives who waits");
        }
    }
}
