//! An allocator that counts, for tests of memory use (I5). Such a test needs a process of its own, because all
//! allocations of the process are counted:
//!
//! ```
//! use seawall_testing::counting::{self, Counting};
//!
//! #[global_allocator]
//! static ALLOCATOR: Counting = Counting;
//!
//! let peak = counting::peak_of(|| vec![0_u8; 1 << 20]);
//! assert!(peak >= 1 << 20);
//! ```

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The system's allocator with counters.
#[derive(Debug, Clone, Copy)]
pub struct Counting;

/// An allocation above this is a buffer. Below it is an entry of an index, a task, a name.
const SMALL: usize = 8 << 10;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);
static LARGE: AtomicUsize = AtomicUsize::new(0);

fn count(size: usize) {
    BYTES.fetch_add(size, Ordering::Relaxed);
    LARGE.fetch_add(usize::from(size > SMALL), Ordering::Relaxed);
}

// SAFETY: the system's allocator does it all; beside it there are counters alone.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller's promises are handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        // The system moves large pieces without copying them: there is one of them at any time.
        let now = NOW.fetch_add(size, Ordering::Relaxed) + size - layout.size();
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        PEAK.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller's promises are handed on.
        unsafe { System.realloc(at, layout, size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are handed on.
        unsafe { System.dealloc(at, layout) }
    }
}

/// The most bytes that were allocated at once since this was asked last.
pub fn take_peak() -> usize {
    PEAK.swap(NOW.load(Ordering::Relaxed), Ordering::Relaxed)
}

/// The most bytes that `work` had allocated at once, not counting earlier allocations.
pub fn peak_of<T>(work: impl FnOnce() -> T) -> usize {
    let before = NOW.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    drop(work());
    PEAK.load(Ordering::Relaxed) - before
}

/// How many buffers were allocated since the start, freed ones included.
pub fn buffers() -> usize {
    LARGE.load(Ordering::Relaxed)
}

/// How many bytes were allocated since the start, freed ones included.
pub fn bytes() -> usize {
    BYTES.load(Ordering::Relaxed)
}
