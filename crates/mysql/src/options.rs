//! The options of one run.

use std::time::Duration;

use seawall_archive::Codec;
use seawall_archive::server::Limits;

use crate::client::Target;

/// How to make a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DumpOptions {
    /// How much of the machine.
    pub limits: Limits,
    /// How frames are compressed.
    pub codec: Codec,
    /// Of a whole server: databases that are left out.
    pub excluded: Vec<String>,
    /// How long a backup tries to get its locks. Each single attempt is shorter, because writers queue behind a lock that waits.
    pub lock_wait: Duration,
}

impl Default for DumpOptions {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            codec: Codec::default(),
            excluded: Vec::new(),
            lock_wait: Duration::from_secs(60),
        }
    }
}

/// How to prove a set.
pub type ProveOptions = seawall_archive::ProveOptions<Target>;
