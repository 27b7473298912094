//! Where the time of a run goes: how long each stage worked, and how long the lanes waited for each stage.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;

/// What a lane can wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The database server.
    Server,
    /// Compression or decompression.
    Codec,
    /// The vault.
    Vault,
}

/// Nanoseconds by stage. Shared by all lanes of a run.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    waited: [AtomicU64; 3],
    busy: [AtomicU64; 3],
}

impl Meter {
    pub(crate) fn waited(&self, stage: Stage, time: Duration) {
        add(&self.waited[stage as usize], time);
    }

    pub(crate) fn busy(&self, stage: Stage, time: Duration) {
        add(&self.busy[stage as usize], time);
    }

    pub(crate) fn report(&self) -> Stages {
        let share = |stage: Stage| Share {
            waited_ms: self.waited[stage as usize].load(Ordering::Relaxed) / 1_000_000,
            busy_ms: self.busy[stage as usize].load(Ordering::Relaxed) / 1_000_000,
        };
        let [server, codec, vault] = [Stage::Server, Stage::Codec, Stage::Vault].map(share);
        Stages { server, codec, vault, connections: 0 }
    }
}

fn add(counter: &AtomicU64, time: Duration) {
    counter.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// One stage's time, summed over all lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Share {
    /// How long lanes waited for it, in milliseconds.
    pub waited_ms: u64,
    /// How long it worked, in milliseconds; 0 where that can't be measured from here.
    pub busy_ms: u64,
}

/// Where the time went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Stages {
    /// The database server.
    pub server: Share,
    /// Compression or decompression.
    pub codec: Share,
    /// The vault.
    pub vault: Share,
    /// How many connections were of use at the end: while compression holds a run up, some pause.
    pub connections: usize,
}

impl Stages {
    /// What came since `before`, in the same run.
    pub(crate) fn since(self, before: Self) -> Self {
        let share = |now: Share, before: Share| Share {
            waited_ms: now.waited_ms.saturating_sub(before.waited_ms),
            busy_ms: now.busy_ms.saturating_sub(before.busy_ms),
        };
        Self {
            server: share(self.server, before.server),
            codec: share(self.codec, before.codec),
            vault: share(self.vault, before.vault),
            connections: self.connections,
        }
    }

    /// The stage that the lanes waited for most, and its share of all waiting in percent; `None` when nothing waited.
    pub fn bottleneck(&self) -> Option<(&'static str, u64)> {
        let stages = [("server", self.server), ("compression", self.codec), ("vault", self.vault)];
        let all: u64 = stages.iter().map(|(_, share)| share.waited_ms).sum();
        let (name, share) = stages.into_iter().max_by_key(|(_, share)| share.waited_ms)?;
        (share.waited_ms * 100).checked_div(all).map(|percent| (name, percent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bottleneck_is_what_was_waited_for_most() {
        let meter = Meter::default();
        assert_eq!(meter.report().bottleneck(), None);
        meter.waited(Stage::Server, Duration::from_millis(710));
        meter.waited(Stage::Codec, Duration::from_millis(200));
        meter.waited(Stage::Vault, Duration::from_millis(90));
        meter.busy(Stage::Codec, Duration::from_secs(9));
        assert_eq!(meter.report().bottleneck(), Some(("server", 71)));
        assert_eq!(meter.report().codec, Share { waited_ms: 200, busy_ms: 9_000 });
    }
}
