//! Random numbers from a printed seed.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// Splitmix64: small, and the same everywhere.
pub(crate) fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A number that no other test has, nor the same test another time.
pub(crate) fn fresh() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A source of random numbers that a failed run can be repeated with.
#[derive(Debug, Clone)]
pub struct Random {
    seed: u64,
    state: u64,
}

impl Random {
    /// Takes the seed from `SEAWALL_SEED`, else a fresh one, and prints it.
    pub fn from_env() -> Self {
        let seed = seawall_testing::seed();
        Self { seed, state: seed }
    }

    /// The seed itself.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(1);
        mix(self.state ^ self.seed.rotate_left(32))
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.draw() % limit.max(1)
    }

    /// A time between two.
    pub fn between(&mut self, from: Duration, to: Duration) -> Duration {
        from + Duration::from_micros(self.below((to - from).as_micros() as u64))
    }

    /// `count` different elements of `all`, in their order, always with the first and the last.
    pub fn sample<T: Clone>(&mut self, all: &[T], count: usize) -> Vec<T> {
        let mut chosen = std::collections::BTreeSet::from([0, all.len() - 1]);
        while chosen.len() < count.min(all.len()) {
            chosen.insert(self.below(all.len() as u64) as usize);
        }
        chosen.into_iter().map(|i| all[i].clone()).collect()
    }
}
