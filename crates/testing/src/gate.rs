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
    /// Chunks that may still be read, and how many readers wait because none may.
    chunks: watch::Sender<(usize, usize)>,
}

impl Gate {
    /// Before a store, and open.
    pub fn before(inner: &MemoryStore) -> Self {
        let hooks = Doors { open: watch::Sender::new(true), chunks: watch::Sender::new((usize::MAX, 0)) };
        Self { inner: inner.clone(), hooks }
    }

    /// Opens or shuts the way in.
    pub fn set(&self, open: bool) {
        self.hooks.open.send_replace(open);
    }

    /// Lets so many chunks be read from now on.
    pub fn allow(&self, chunks: usize) {
        self.hooks.chunks.send_replace((chunks, 0));
    }

    /// Returns when a reader waits for a chunk that may not be read.
    ///
    /// # Panics
    /// Never: the gate outlives its readers.
    pub async fn stopped(&self) {
        self.hooks.chunks.subscribe().wait_for(|(_, waiting)| *waiting > 0).await.expect("the gate outlives who waits");
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
        self.chunks.send_modify(|(left, waiting)| {
            passed = *left > 0;
            match *left {
                0 => *waiting += 1,
                _ => *left -= 1,
            }
        });
        if !passed {
            std::future::pending::<()>().await;
        }
    }
}
