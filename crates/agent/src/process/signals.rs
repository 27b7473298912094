//! Signals of the operating system, turned into a [`Shutdown`].
//!
//! SIGTERM and SIGINT ask for a graceful stop; the second of either, whichever came first, for one at once, if it
//! comes later than [`ECHO`].
//! SIGHUP is counted: it asks to read the configuration again. A closed terminal sends it too, and is no reason to stop
//! protecting.

use std::io;
use std::time::Duration;

use seawall_core::Shutdown;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::time::Instant;

/// Signals this soon after the first are the same request: `timeout`, for one, signals a process and then its group.
const ECHO: Duration = Duration::from_millis(200);

/// A signal that asks for an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// SIGTERM: another program wants it.
    Terminate,
    /// SIGINT: a person at the terminal wants it.
    Interrupt,
}

/// The signals that the process has received.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    hangups: watch::Sender<u64>,
    first: watch::Sender<Option<Stop>>,
}

impl Signals {
    /// Takes over the process's signals. Must be called inside the runtime.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            hangups: watch::Sender::new(0),
            first: watch::Sender::new(None),
        })
    }

    /// Tells of the first signal.
    pub fn first(&self) -> watch::Receiver<Option<Stop>> {
        self.first.subscribe()
    }

    /// Tells how often SIGHUP came.
    pub fn hangups(&self) -> watch::Receiver<u64> {
        self.hangups.subscribe()
    }

    /// Waits for signals and hands them on. With `hold`, the first signal is only published through [`Signals::first`],
    /// and the task that waits there begins the graceful stop.
    pub async fn forward(mut self, shutdown: Shutdown, hold: bool) {
        let stop = self.next().await;
        tracing::info!(signal = ?stop, "stopping; a second signal stops at once");
        self.first.send_replace(Some(stop));
        if !hold {
            shutdown.begin();
        }
        let first = Instant::now();
        let stop = loop {
            let stop = self.next().await;
            if first.elapsed() >= ECHO {
                break stop;
            }
        };
        tracing::warn!(signal = ?stop, "stopping at once");
        shutdown.abort();
    }

    async fn next(&mut self) -> Stop {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return Stop::Terminate,
                _ = self.interrupt.recv() => return Stop::Interrupt,
                _ = self.hangup.recv() => self.hangups.send_modify(|count| *count += 1),
            }
        }
    }
}
