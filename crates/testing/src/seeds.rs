//! Seeds of random numbers: printed, and repeated with `SEAWALL_SEED`.

use std::hash::{BuildHasher, Hasher, RandomState};

/// A new random seed.
pub fn fresh_seed() -> u64 {
    RandomState::new().build_hasher().finish() >> 32
}

/// The seed in `SEAWALL_SEED`, else a fresh one; printed, so that a run that failed can be repeated.
///
/// # Panics
/// When `SEAWALL_SEED` is no number.
pub fn seed() -> u64 {
    let seed = match std::env::var("SEAWALL_SEED") {
        Ok(text) => text.parse().expect("SEAWALL_SEED must be a number"),
        Err(_) => fresh_seed(),
    };
    eprintln!("SEAWALL_SEED={seed}");
    seed
}
