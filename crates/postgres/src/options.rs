//! What one run is told, and the edges through which it meets the world.

use std::path::PathBuf;
use std::sync::Arc;

use seawall_archive::Codec;
use seawall_core::{Clock, SystemClock};
use seawall_vault::Environment;

/// Time and environment, handed in.
#[derive(Debug, Clone)]
pub struct World {
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// `PATH`, `HOME`, `PG…`.
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

/// How much of the machine a run may use, and with what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Connections that move data, and cores that compress.
    pub jobs: usize,
    /// Bytes of memory.
    pub memory: u64,
    /// The folder of `pg_dump` and `pg_restore`; without it they are looked for.
    pub bindir: Option<PathBuf>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { jobs: 2, memory: 128 << 20, bindir: None }
    }
}

/// How to make a set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DumpOptions {
    /// How much of the machine.
    pub limits: Limits,
    /// How frames are compressed.
    pub codec: Codec,
    /// Of a whole server: databases that are left out.
    pub excluded: Vec<String>,
    /// Of a whole server: whether the passwords of roles come along, as the server keeps them.
    pub role_passwords: bool,
}
