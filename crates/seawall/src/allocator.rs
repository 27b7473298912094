//! How the C library's allocator is told to keep little memory.
//!
//! It gives each thread a heap of its own and keeps what was freed there, for the next time: with buffers of a MiB that wander
//! between threads, twice to three times of what is in use. Two heaps are enough for a few threads that compress, and large
//! buffers go back to the system when they are let go. The compression that fills them costs a hundred times as much as
//! getting them does.

/// Sets it up. To be called before there is a second thread.
pub(crate) fn be_frugal() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    for (parameter, value) in [(libc::M_ARENA_MAX, 2), (libc::M_MMAP_THRESHOLD, 128 << 10)] {
        // SAFETY: takes two integers and sets a number of the allocator's; no other thread is there to read it meanwhile. An
        // unknown parameter or value is refused with 0, and then everything stays as it was.
        unsafe { libc::mallopt(parameter, value) };
    }
}
