//! Lightning Stream's options about the process itself: `--minimum-pid` and `--timeout`.
//!
//! LMDB identifies readers by process number. In containers, two processes can have the same number, most often a small
//! one. With `--minimum-pid` a process with a larger number does the work: short-lived children use up the small
//! numbers, the next child does the work, and this process forwards signals and the exit code.

#![expect(clippy::disallowed_methods, reason = "an edge: this is about the process and its clock")]

use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use seawall_agent::Signals;
use seawall_core::{Failure, Kind};

use super::original::Original;
use crate::edge::Edge;
use crate::output::print_failure;
use crate::runtime;

/// Set for the process that does the work.
const NO_CHECK: &str = "LIGHTNINGSTREAM_NO_PID_CHECK";

/// The exit code after `--timeout`: "try again later", as in sysexits.h.
const TIMED_OUT: i32 = 75;

/// Carries these options out. Returns an exit code if another process did the work.
pub(crate) fn prepare(original: &Original, edge: &Edge) -> Result<Option<ExitCode>, Failure> {
    let checked = edge.environment.get(NO_CHECK).is_some();
    if !checked && std::process::id() < original.minimum_pid {
        return stand_in(original.minimum_pid).map(Some);
    }
    if let Some(timeout) = original.timeout {
        std::thread::spawn(move || end(timeout));
    }
    Ok(None)
}

/// Ends the process after the timeout. It leaves what a crash would leave.
fn end(timeout: Duration) {
    std::thread::sleep(timeout);
    let cause = "it was not done within --timeout";
    print_failure(&Failure::new(Kind::Interrupted, "command.timeout", "seawall", cause, "start it again"), false);
    std::process::exit(TIMED_OUT);
}

/// Has a process with a number of at least `least` do the work.
fn stand_in(least: u32) -> Result<ExitCode, Failure> {
    let failed = |error: std::io::Error| {
        let next = "leave --minimum-pid out, or check the limit on processes";
        Failure::new(Kind::Unavailable, "command.no-process", "seawall", error.to_string(), next)
    };
    let program = std::env::current_exe().map_err(failed)?;
    // Numbers increase by one; numbers in use are skipped.
    for _ in 0..2 * least {
        let mut child = Command::new(&program);
        child.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = child.spawn().map_err(failed)?;
        let enough = child.id().saturating_add(1) >= least;
        child.wait().map_err(failed)?;
        if enough {
            break;
        }
    }
    runtime::runtime(1)?.block_on(async {
        let signals = Signals::listen().map_err(|error| runtime::no_runtime(&error))?;
        let first = signals.first();
        let shutdown = seawall_core::Shutdown::new();
        let forwarding = tokio::spawn(signals.forward(shutdown.clone(), true));
        let mut command = tokio::process::Command::new(&program);
        // By the same name, so that it has the same command line.
        let mut words = std::env::args_os();
        if let Some(name) = words.next() {
            command.arg0(name);
        }
        let mut child = command.args(words).env(NO_CHECK, "1").spawn().map_err(failed)?;
        let number = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let send = |signal| number.map(|number| kill_process(number, signal));
        let mut first = first;
        let ended = tokio::select! {
            ended = child.wait() => ended,
            Ok(_) = first.wait_for(Option::is_some) => {
                send(Signal::TERM);
                tokio::select! {
                    ended = child.wait() => ended,
                    () = shutdown.immediate() => {
                        send(Signal::TERM);
                        child.wait().await
                    }
                }
            }
        };
        forwarding.abort();
        let code = ended.map_err(failed)?.code().and_then(|code| u8::try_from(code).ok());
        Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
    })
}
