//! The edges through which time, randomness and the environment enter an engine of servers.

use std::sync::Arc;

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
