//! The runtime of a command: one thread of events and a few for blocking work.

use std::time::Duration;

use seawall_core::{Failure, Kind};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};

use crate::allocator;

/// Threads for blocking work in a process that protects: small, whatever the number of databases.
pub(crate) const PROTECTING: usize = 4;

/// How often memory that isn't in use is given back to the system.
const GIVE_BACK: Duration = Duration::from_secs(60);

/// A runtime with at most `threads` for blocking work, which end soon when there is none.
pub(crate) fn runtime(threads: usize) -> Result<Runtime, Failure> {
    Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(threads)
        .thread_keep_alive(Duration::from_secs(2))
        .build()
        .map_err(|error| no_runtime(&error))
}

/// A runtime for a process that stays, in little memory.
pub(crate) fn lasting(threads: usize) -> Result<Runtime, Failure> {
    allocator::be_frugal();
    let runtime = runtime(threads)?;
    runtime.spawn(async {
        loop {
            tokio::time::sleep(GIVE_BACK).await;
            allocator::give_back();
        }
    });
    Ok(runtime)
}

/// Threads for a command that has the machine's attention: a restore decodes on all cores.
pub(crate) fn working() -> usize {
    cores().max(PROTECTING)
}

/// The cores of this machine.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The code of a command that a signal ended.
const INTERRUPTED: &str = "command.interrupted";

/// Whether a signal ended the command: then nothing else is begun.
pub(crate) fn is_interrupted(failure: &Failure) -> bool {
    failure.code == INTERRUPTED
}

/// Runs one command's future to its end, or until SIGINT or SIGTERM drop it. A dropped future leaves what a crash would
/// leave, and an incomplete target never appears (I8).
pub(crate) fn run<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    run_with(working(), future)
}

/// Threads for `jobs` connections of a server: while some wait for the disk of a vault, others compress.
pub(crate) fn serving(jobs: usize) -> usize {
    working() + 4 * jobs
}

/// The same, with at most `threads` for blocking work.
pub(crate) fn run_with<T>(threads: usize, future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = runtime(threads)?;
    let result = runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt()).map_err(|error| no_runtime(&error))?;
        let mut terminate = signal(SignalKind::terminate()).map_err(|error| no_runtime(&error))?;
        tokio::select! {
            result = future => result,
            _ = interrupt.recv() => Err(interrupted()),
            _ = terminate.recv() => Err(interrupted()),
        }
    });
    end(runtime);
    result
}

/// The same for a command that leaves something in a vault when its future is dropped: after a signal `tidied` deletes that. A second signal
/// ends the process at once.
pub(crate) fn run_tidied<T>(
    threads: usize,
    future: impl Future<Output = Result<T, Failure>>,
    tidied: impl AsyncFnOnce() -> Result<(), Failure>,
) -> Result<T, Failure> {
    let runtime = runtime(threads)?;
    let result = runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt()).map_err(|error| no_runtime(&error))?;
        let mut terminate = signal(SignalKind::terminate()).map_err(|error| no_runtime(&error))?;
        tokio::select! {
            result = future => return result,
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        tokio::select! {
            tidied = tidied() => tidied.map(|()| Err(Failure { next: "start it again: nothing of it is left".to_owned(), ..interrupted() }))?,
            _ = interrupt.recv() => Err(interrupted()),
            _ = terminate.recv() => Err(interrupted()),
        }
    });
    end(runtime);
    result
}

/// Ends the runtime of a command. Blocking jobs get a moment to end, so that they can remove their temporary folders. A
/// job that hangs, for example on a dead file system, doesn't delay the end.
pub(crate) fn end(runtime: Runtime) {
    runtime.shutdown_timeout(Duration::from_millis(200));
}

/// The system refuses what every process needs.
pub(crate) fn no_runtime(error: &std::io::Error) -> Failure {
    Failure::new(
        Kind::Unavailable,
        "command.no-runtime",
        "seawall",
        format!("the system refuses what a process needs: {error}"),
        "check the limits on open files and processes",
    )
}

fn interrupted() -> Failure {
    Failure::new(
        Kind::Interrupted,
        INTERRUPTED,
        "seawall",
        "stopped by a signal before it was done",
        "start it again: what was begun doesn't count, and is gone on with or replaced",
    )
}
