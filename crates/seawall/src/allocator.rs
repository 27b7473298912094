//! How the C library's allocator is told to keep little memory, in a process that stays.
//!
//! It gives each thread a heap of its own and keeps what was freed there, for the next time: with buffers of a MiB that wander
//! between threads, twice to three times of what is in use. One heap is enough for a few threads that mostly compress. Buffers
//! of some MiB stay in it: with fresh pages for each, a first copy took half as much CPU again. Commands that end soon take
//! the speed of many heaps instead.

/// Sets it up. To be called before there is a second thread.
pub(crate) fn be_frugal() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    for (parameter, value) in
        [(libc::M_ARENA_MAX, 1), (libc::M_MMAP_THRESHOLD, 4 << 20), (libc::M_TRIM_THRESHOLD, 16 << 20)]
    {
        // SAFETY: takes two integers and sets a number of the allocator's; no other thread is there to read it meanwhile. A
        // value that it doesn't take is answered with 0, and then everything stays as it was.
        unsafe { libc::mallopt(parameter, value) };
    }
}

/// Gives back what is free between what is in use: when thousands of databases began together, that is as much again.
pub(crate) fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: takes a number, and the allocator's own locks. It gives pages back in which nothing is allocated.
    unsafe {
        libc::malloc_trim(0)
    };
}
