//! The runtime of a command: one thread of events and a few for blocking work.

use std::time::Duration;

use seawall_core::{Failure, Kind};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

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

/// Runs one command's future to its end, or until SIGINT, SIGTERM or SIGHUP drop it. A dropped future leaves what a crash would
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
        let mut ends = Ends::heard().map_err(|error| no_runtime(&error))?;
        tokio::select! {
            result = future => result,
            () = ends.next() => Err(interrupted()),
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
        let mut ends = Ends::heard().map_err(|error| no_runtime(&error))?;
        tokio::select! {
            result = future => return result,
            () = ends.next() => {}
        }
        tokio::select! {
            tidied = tidied() => tidied.map(|()| Err(Failure { next: "start it again: nothing of it is left".to_owned(), ..interrupted() }))?,
            () = ends.next() => Err(interrupted()),
        }
    });
    end(runtime);
    result
}

/// The signals that end a command.
struct Ends {
    interrupt: Signal,
    terminate: Signal,
    /// That of a terminal or a connection that is gone; `None` where the command was started with this signal ignored, as `nohup` does.
    hangup: Option<Signal>,
}

impl Ends {
    fn heard() -> std::io::Result<Self> {
        #[expect(clippy::disallowed_methods, reason = "the command looks at itself")]
        let is_ignored = std::fs::read_to_string("/proc/self/status").map_or(true, |status| ignores_hangups(&status));
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: if is_ignored { None } else { Some(signal(SignalKind::hangup())?) },
        })
    }

    async fn next(&mut self) {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => drop(hangup.recv().await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            () = hangup => {}
        }
    }
}

/// Whether a process ignores SIGHUP, by its `/proc/PID/status`. One that doesn't say so is left as it is.
fn ignores_hangups(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_none_or(|mask| mask & 1 == 1)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hangup_is_left_alone_where_it_is_ignored() {
        for (status, ignored) in [
            ("Name:\tseawall\nSigIgn:\t0000000000001000\n", false),
            ("SigIgn:\t0000000000001001\nSigCgt:\t0\n", true),
            ("Name:\tx\n", true),
            ("SigIgn:\tx\n", true),
        ] {
            assert_eq!(ignores_hangups(status), ignored, "{status}");
        }
    }
}
