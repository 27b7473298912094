//! Makes the C library's allocator keep less memory, in a process that runs for long.
//!
//! By default each thread has a heap of its own, and freed memory stays there. Buffers of a MiB that move between
//! threads then take two to three times the memory in use. One heap is enough for a few threads that mostly compress.
//! Buffers of some MiB stay in that heap: with fresh pages for each buffer, a first copy took half as much CPU again.
//! Commands that end soon keep the default, because many heaps are faster.

/// Sets it up. To be called before there is a second thread.
pub(crate) fn be_frugal() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    for (parameter, value) in
        [(libc::M_ARENA_MAX, 1), (libc::M_MMAP_THRESHOLD, 4 << 20), (libc::M_TRIM_THRESHOLD, 16 << 20)]
    {
        // SAFETY: the call takes two integers and sets a number of the allocator; no other thread runs that could read
        // it meanwhile. It answers an unsupported value with 0, and changes nothing.
        unsafe { libc::mallopt(parameter, value) };
    }
}

/// Returns free memory between used blocks to the system. After thousands of databases began together, that is as much
/// as the memory in use.
pub(crate) fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: takes a number, and the allocator's own locks. It gives pages back in which nothing is allocated.
    unsafe {
        libc::malloc_trim(0)
    };
}
