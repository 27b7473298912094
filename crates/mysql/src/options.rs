//! The options of one run, and the edges through which time, randomness and environment enter.

use std::sync::Arc;
use std::time::Duration;

use seawall_archive::Codec;
use seawall_archive::server::Limits;
use seawall_core::{Clock, SystemClock};
use seawall_vault::Environment;

/// Time and environment, handed in.
#[derive(Debug, Clone)]
pub struct World {
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// `HOME`, `MYSQL_…`.
    pub environment: Environment,
    /// A random number for this run.
    pub nonce: u32,
}

impl World {
    /// The real one, with the process's environment.
    pub fn real(environment: Environment) -> Self {
        let nonce = getrandom::u32().unwrap_or_else(|_| std::process::id());
        Self { clock: Arc::new(SystemClock), environment, nonce }
    }
}

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
