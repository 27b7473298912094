//! Tells systemd how the process stands, with the messages of sd_notify(3). Without `NOTIFY_SOCKET` in the environment nothing is sent.
//!
//! A unit with `Type=notify` counts as started once every database is settled, by the same rule by which a program of `--exec` is started. So a
//! unit with `After=seawall.service` starts under protection. A first base may take hours, so the process asks for more time until then.
//! With `WatchdogSec` systemd restarts a process whose runtime doesn't run any more.

use std::io;
use std::time::Duration;

use sd_notify::NotifyState;
use seawall_core::Shutdown;
use tokio::task::AbortHandle;
use tokio::time::{MissedTickBehavior, interval};

use super::child::settled;
use crate::fleet::Fleet;

/// How often a start that isn't done asks for more time.
const EXTEND: Duration = Duration::from_secs(20);

/// How much time it asks for, in microseconds.
const EXTEND_BY_USEC: u32 = 90_000_000;

/// Tells systemd how the process stands, until this is dropped.
pub(crate) struct Supervised(Vec<AbortHandle>);

impl Drop for Supervised {
    fn drop(&mut self) {
        self.0.iter().for_each(AbortHandle::abort);
    }
}

/// Begins to tell systemd how a process with these databases stands. Nothing runs where systemd doesn't ask.
pub(crate) fn start(fleet: &Fleet, shutdown: &Shutdown, is_asked: bool) -> Supervised {
    let mut tasks = Vec::new();
    if is_asked {
        tasks.push(tokio::spawn(stages(fleet.clone(), shutdown.clone())).abort_handle());
        let watchdog = sd_notify::watchdog_enabled();
        tasks.extend(watchdog.map(|period| tokio::spawn(alive(fleet.clone(), period)).abort_handle()));
    }
    Supervised(tasks)
}

/// Starting, ready, stopping.
async fn stages(fleet: Fleet, shutdown: Shutdown) {
    let mut ticks = ticks(EXTEND);
    let starting = async {
        loop {
            ticks.tick().await;
            tell(&[
                NotifyState::ExtendTimeoutUsec(EXTEND_BY_USEC),
                NotifyState::Status("waiting until every database is protected"),
            ]);
        }
    };
    tokio::select! {
        biased;
        () = shutdown.graceful() => {}
        () = settled(&fleet, &shutdown) => {
            let all = fleet.all();
            let running = all.iter().filter(|member| member.running).count();
            let status = format!("{running} of {} databases run; see: seawall status", all.len());
            tell(&[NotifyState::Ready, NotifyState::Status(&status)]);
            shutdown.graceful().await;
        }
        () = starting => {}
    }
    tell(&[NotifyState::Stopping, NotifyState::Status("shipping everything that is committed")]);
}

/// Says twice in each period of the watchdog that the runtime runs and no task holds the list of databases.
async fn alive(fleet: Fleet, watchdog: Duration) {
    let mut ticks = ticks(watchdog / 2);
    loop {
        ticks.tick().await;
        let _free = fleet.all();
        tell(&[NotifyState::Watchdog]);
    }
}

fn ticks(period: Duration) -> tokio::time::Interval {
    let mut ticks = interval(period.max(Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

fn tell(states: &[NotifyState<'_>]) {
    let told: io::Result<()> = sd_notify::notify(states);
    if let Err(error) = told {
        tracing::warn!(%error, "systemd can't be told how the process stands");
    }
}
