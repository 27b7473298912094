//! Work that gives way to everything else on the machine.

/// By how much a thread gives way: of two threads that want one core it gets a tenth.
const GIVES_WAY: i32 = 10;

/// Lets this thread, and the threads that it starts from now on, give way to all others in the use of the processor, and with the
/// schedulers that derive it from that (BFQ) also of disks. Elsewhere than on Linux a whole process has one priority, and nothing happens.
/// If the system refuses, the thread keeps its priority: then its work isn't slower than other work.
pub fn give_way() {
    // On Linux the priority is the thread's.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, GIVES_WAY) {
        tracing::debug!(%error, "this thread has the priority of all others");
    }
    #[cfg(not(target_os = "linux"))]
    let _no_threads_own = GIVES_WAY;
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_gives_way_alone() {
        let before = rustix::process::getpriority_process(None).expect("a priority");
        let of_thread = std::thread::scope(|scope| {
            let work = || {
                give_way();
                rustix::process::getpriority_process(None).expect("a priority")
            };
            scope.spawn(work).join().expect("ended")
        });
        assert_eq!(of_thread, before.max(GIVES_WAY));
        assert_eq!(rustix::process::getpriority_process(None), Ok(before));
    }
}
