//! How much is in memory at once? Pure.

use crate::Error;

/// Bytes that are read with one statement.
pub(crate) const STRETCH: usize = 2 << 20;

/// Memory beside stretches and packs: code, connections, tables of encoders, parts of the old and the new index.
const OVERHEAD: u64 = 32 << 20;

/// Stretches of a connection: one is read while another is compressed.
const STRETCHES: u64 = 2;

/// Packs in memory: one is filled, others are on their way to the vault.
pub(crate) const PACKS: u64 = 3;

/// The most and the least bytes of a pack.
const LARGEST: u64 = 16 << 20;
const SMALLEST: u64 = 1 << 20;

/// The sizes of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Budget {
    /// Stretches in work.
    pub(crate) stretches: usize,
    /// Bytes at which a pack is full.
    pub(crate) pack: usize,
}

impl Budget {
    /// Divides `memory` bytes among `jobs` connections.
    pub(crate) fn new(memory: u64, jobs: usize) -> Result<Self, Error> {
        let stretches = jobs.max(1) as u64 * STRETCHES;
        // Read, and compressed.
        let reading = OVERHEAD + stretches * 2 * STRETCH as u64;
        let least = reading + PACKS * (SMALLEST + STRETCH as u64);
        let pack = memory.saturating_sub(reading) / PACKS;
        // What is added last may exceed it.
        let pack = pack.saturating_sub(STRETCH as u64).min(LARGEST);
        if pack < SMALLEST {
            return Err(seawall_archive::Error::TooLittleMemory { memory, least }.into());
        }
        let small = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
        Ok(Self { stretches: small(stretches), pack: small(pack) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_memory_fits_the_limit() {
        const MIB: u64 = 1 << 20;
        for (memory, jobs, expected) in [
            (128 * MIB, 2, Some((4, 16 * MIB))),
            (64 * MIB, 2, Some((4, 3 * MIB))),
            (u64::MAX, 64, Some((128, 16 * MIB))),
            (56 * MIB, 2, None),
            (0, 1, None),
        ] {
            let budget = Budget::new(memory, jobs).ok();
            let found = budget.map(|budget| (budget.stretches, budget.pack as u64));
            assert_eq!(found.map(|found| found.0), expected.map(|expected| expected.0), "{memory} {jobs}");
            if let Some((stretches, pack)) = found {
                let all = OVERHEAD + (stretches * 2 * STRETCH) as u64 + PACKS * (pack + STRETCH as u64);
                assert!(all <= memory && (SMALLEST..=LARGEST).contains(&pack), "{all} {memory}");
            }
        }
    }

    #[test]
    fn the_error_names_what_is_enough() {
        let Err(Error::Archive(seawall_archive::Error::TooLittleMemory { least, .. })) = Budget::new(0, 3) else {
            panic!("too little")
        };
        assert!(Budget::new(least, 3).is_ok() && Budget::new(least - 3, 3).is_err());
    }
}
