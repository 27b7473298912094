//! How large may a frame and a chunk be? Pure: computed from the memory limit and the number of lanes.

use crate::Error;

/// Memory that the process needs beside buffers: its code, connections, the runtime, and an encoder's tables.
const OVERHEAD: u64 = 20 << 20;

/// The largest frame. A larger frame gains neither ratio nor rate, and a smaller one stays in a core's cache.
const LARGEST: usize = 1 << 20;

/// The smallest frame that is worth the work of making one.
const SMALLEST: usize = 64 << 10;

/// Raw buffers of a lane: one is being filled, others are being compressed.
pub(crate) const RAW_BUFFERS: usize = 3;

/// Chunks of a lane: one is being collected, others are on their way to the vault, which waits for its disk.
pub(crate) const PACKS: usize = 3;

/// How many frames a chunk has room for, if they don't shrink.
pub(crate) const FRAMES_IN_A_PACK: usize = 6;

/// The sizes of one run's buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Bytes of a raw buffer, and so the most of a frame's content.
    pub frame: usize,
    /// The most bytes of a chunk in the vault.
    pub chunk: usize,
    /// Lanes that work at once.
    pub jobs: usize,
}

impl Budget {
    /// Divides `memory` bytes among `jobs` lanes.
    ///
    /// # Errors
    /// [`Error::TooLittleMemory`] when it isn't enough for the smallest buffers.
    pub fn new(memory: u64, jobs: usize) -> Result<Self, Error> {
        let jobs = jobs.max(1);
        // In frames, for each lane: raw buffers, as many compressed ones, and chunks.
        let parts = (jobs * (2 * RAW_BUFFERS + PACKS * FRAMES_IN_A_PACK)) as u64;
        let share = memory.saturating_sub(OVERHEAD) / parts;
        let frame = usize::try_from(share).unwrap_or(LARGEST).min(LARGEST);
        if frame < SMALLEST {
            return Err(Error::TooLittleMemory { memory, least: OVERHEAD + parts * SMALLEST as u64 });
        }
        // Whole pages, so that buffers of different runs have few different sizes.
        let frame = frame / (64 << 10) * (64 << 10);
        Ok(Self { frame, chunk: frame * FRAMES_IN_A_PACK, jobs })
    }

    /// Bytes of memory with which each of `jobs` lanes has frames of `frame` bytes.
    pub(crate) fn memory(jobs: usize, frame: usize) -> u64 {
        OVERHEAD + (jobs.max(1) * (2 * RAW_BUFFERS + PACKS * FRAMES_IN_A_PACK)) as u64 * frame as u64
    }

    /// Bytes of memory with which each of `jobs` lanes has the largest frames: more is of no use.
    pub(crate) fn full(jobs: usize) -> u64 {
        Self::memory(jobs, LARGEST)
    }

    /// A budget from half of the buffer memory, and the bytes of the other half, which the caller uses for other work.
    ///
    /// # Errors
    /// [`Error::TooLittleMemory`], with what is enough for both halves.
    pub fn beside(memory: u64, jobs: usize) -> Result<(Self, u64), Error> {
        let half = memory.saturating_sub(OVERHEAD) / 2;
        match Self::new(memory - half, jobs) {
            Ok(budget) => Ok((budget, half)),
            Err(Error::TooLittleMemory { least, .. }) => {
                Err(Error::TooLittleMemory { memory, least: least + least.saturating_sub(OVERHEAD) })
            }
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_fit_the_limit() {
        const MIB: u64 = 1 << 20;
        for (memory, jobs, frame) in [
            (128 * MIB, 2, Some(1 << 20)),
            (64_000_000, 2, Some(13 * 65_536)),
            (128 * MIB, 16, Some(4 * 65_536)),
            (u64::MAX, 1, Some(1 << 20)),
            (21 * MIB, 2, None),
            (20 * MIB, 1, None),
            (0, 1, None),
        ] {
            let budget = Budget::new(memory, jobs).ok();
            assert_eq!(budget.map(|budget| budget.frame), frame, "{memory} {jobs}");
            if let Some(Budget { frame, chunk, jobs }) = budget {
                let all = jobs * (2 * RAW_BUFFERS * frame + PACKS * chunk);
                assert!(all as u64 + OVERHEAD <= memory, "{all}");
            }
        }
    }

    #[test]
    fn the_error_names_what_is_enough() {
        let Err(Error::TooLittleMemory { least, .. }) = Budget::new(0, 4) else { panic!("too little") };
        assert!(Budget::new(least, 4).is_ok() && Budget::new(least - 1, 4).is_err());
        let Err(Error::TooLittleMemory { least, .. }) = Budget::beside(0, 4) else { panic!("too little") };
        assert!(Budget::beside(least, 4).is_ok() && Budget::beside(least - 2, 4).is_err());
    }

    #[test]
    fn half_of_the_memory_is_left_and_the_buffers_fit_the_other() {
        const MIB: u64 = 1 << 20;
        for (memory, jobs) in [(128 * MIB, 2), (64_000_000, 2), (32 * MIB, 3), (1 << 40, 64)] {
            let (budget, left) = Budget::beside(memory, jobs).expect("enough");
            let buffers = jobs * (2 * RAW_BUFFERS * budget.frame + PACKS * budget.chunk);
            assert!(left == (memory - OVERHEAD) / 2 && buffers as u64 + OVERHEAD + left <= memory, "{left}");
        }
    }
}
