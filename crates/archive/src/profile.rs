//! Profiles: a word for how much of a machine backups and restores of servers may use. Pure: the caller says what the
//! machine has.
//!
//! | profile | connections | compression of a backup |
//! |---|---|---|
//! | `conservative` | 1 | the default |
//! | `balanced` | half of the cores, at most 4 | the default |
//! | `performance` | one for each core, at most 8 | the default |
//! | `max-performance` | two for each core, at most 16 | the default |
//! | `turbo` | as `max-performance` | lz4 |
//!
//! A connection gets memory for frames of full size. All buffers together take at most a quarter of the memory;
//! where that is too little, first the frames become smaller, then there are fewer connections.

use std::fmt;
use std::str::FromStr;

use crate::{Budget, Codec};

/// The part of the memory that buffers may take.
const SHARE: u64 = 4;

/// The least memory for buffers: one connection works with it, with small frames.
const LEAST: u64 = 32 << 20;

/// Frames below this size compress worse: fewer connections are better than smaller frames.
const SMALL_FRAME: usize = 256 << 10;

/// What a machine has for a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    /// Cores that this process may use: affinity and quotas of the control group count.
    pub cores: usize,
    /// Bytes of memory that it has for this process and others, or that are free; `None` where the system doesn't tell.
    pub memory: Option<u64>,
}

/// A word for how much of a machine may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Profile {
    /// One connection: least load on the server.
    Conservative,
    /// Half of the cores.
    Balanced,
    /// Each core.
    Performance,
    /// Two connections for each core: while some wait for the server or the vault, others work.
    MaxPerformance,
    /// The same, and a compression that costs the least CPU: more bytes in the vault.
    Turbo,
}

impl Profile {
    /// All, from the most careful one.
    pub const ALL: [Self; 5] =
        [Self::Conservative, Self::Balanced, Self::Performance, Self::MaxPerformance, Self::Turbo];

    /// Its name in configurations and on command lines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Conservative => "conservative",
            Self::Balanced => "balanced",
            Self::Performance => "performance",
            Self::MaxPerformance => "max-performance",
            Self::Turbo => "turbo",
        }
    }

    /// How a backup compresses, if nothing else is said.
    pub fn codec(self) -> Codec {
        match self {
            Self::Turbo => Codec::Lz4,
            _ => Codec::default(),
        }
    }

    /// Connections, and bytes of memory for buffers, on a machine.
    pub fn on(self, machine: Machine) -> (usize, u64) {
        let cores = machine.cores.max(1);
        let wanted = match self {
            Self::Conservative => 1,
            Self::Balanced => (cores / 2).clamp(1, 4),
            Self::Performance => cores.min(8),
            Self::MaxPerformance | Self::Turbo => (2 * cores).min(16),
        };
        let most = machine.memory.map_or(u64::MAX, |memory| memory / SHARE).max(LEAST);
        let fits = |jobs: &usize| most >= Budget::memory(*jobs, SMALL_FRAME);
        let jobs = (1..=wanted).rev().find(fits).unwrap_or(1);
        (jobs, Budget::full(jobs).clamp(LEAST, most))
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|profile| profile.name() == text);
        found.ok_or_else(|| format!("\"{text}\" is no profile: give {}", names()))
    }
}

/// The names, as a message lists them.
pub(crate) fn names() -> String {
    let [first @ .., last] = Profile::ALL.map(Profile::name);
    format!("{} or {last}", first.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    #[test]
    fn a_profile_is_connections_and_memory_of_the_machine() {
        use Profile::{Balanced, Conservative, MaxPerformance, Performance, Turbo};
        let machine = |cores, memory| Machine { cores, memory: Some(memory) };
        for (profile, machine, jobs, memory) in [
            (Conservative, machine(2, 8 * GIB), 1, 44 * MIB),
            (Conservative, machine(64, 512 * GIB), 1, 44 * MIB),
            (Balanced, machine(1, 8 * GIB), 1, 44 * MIB),
            (Balanced, machine(2, 8 * GIB), 1, 44 * MIB),
            (Balanced, machine(4, 8 * GIB), 2, 68 * MIB),
            (Balanced, machine(64, 512 * GIB), 4, 116 * MIB),
            (Performance, machine(2, 8 * GIB), 2, 68 * MIB),
            (Performance, machine(64, 512 * GIB), 8, 212 * MIB),
            (MaxPerformance, machine(2, 8 * GIB), 4, 116 * MIB),
            (MaxPerformance, machine(64, 512 * GIB), 16, 404 * MIB),
            (Turbo, machine(64, 512 * GIB), 16, 404 * MIB),
            // Little memory: smaller frames, then fewer connections.
            (MaxPerformance, machine(8, GIB), 16, 256 * MIB),
            (MaxPerformance, machine(8, 256 * MIB), 7, 64 * MIB),
            (Turbo, machine(8, 16 * MIB), 2, 32 * MIB),
            (Performance, Machine { cores: 0, memory: None }, 1, 44 * MIB),
            (Performance, Machine { cores: 4, memory: None }, 4, 116 * MIB),
        ] {
            assert_eq!(profile.on(machine), (jobs, memory), "{profile} {machine:?}");
            Budget::new(memory, jobs).unwrap_or_else(|error| panic!("{profile} {machine:?}: {error}"));
        }
    }

    #[test]
    fn names_are_read_back_and_others_are_refused() {
        for profile in Profile::ALL {
            assert_eq!(profile.to_string().parse(), Ok(profile));
        }
        let error = "Turbo".parse::<Profile>().expect_err("case counts");
        assert_eq!(
            error,
            "\"Turbo\" is no profile: give conservative, balanced, performance, max-performance or turbo"
        );
    }

    #[test]
    fn a_profile_with_more_of_the_machine_has_no_fewer_connections() {
        for cores in 0..70 {
            for memory in [None, Some(0), Some(100 * MIB), Some(GIB), Some(64 * GIB)] {
                let jobs = Profile::ALL.map(|profile| profile.on(Machine { cores, memory }).0);
                assert!(jobs.is_sorted() && jobs[0] == 1, "{cores} {memory:?}: {jobs:?}");
            }
        }
    }
}
