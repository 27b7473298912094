//! Proves databases by their schedules: one at a time, beside the protection, also after a restart.
//!
//! Whether a proof is due follows from the schedule, the newest record in the vault, and the time (`seawall_engines::proofs::due`). So
//! the records are read once when a database comes, and again before each proof: another host may have proved it. All of that happens
//! `aside`, on a thread with a runtime and connections of its own, which gives way to everything else. A stop ends a proof at once.
//! `board` holds what is known, for the status.

mod aside;
mod board;

use std::sync::Arc;
use std::time::Duration;

use seawall_core::{Clock as _, Failure, Moment, Proof, Shutdown, SystemClock};
use seawall_engines::DatabaseConfig;
use seawall_engines::proofs::{Made, Proving, Recorded, due};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use self::aside::aside;
pub(crate) use self::board::Board;
use crate::Opener;
use crate::control::Actions;
use crate::fleet::Seen;

/// How often databases are looked at that are proved: one may have come, or have its first point, or a clock was set.
const LOOK: Duration = Duration::from_secs(5);

/// The same, while no database is proved.
const IDLE: Duration = Duration::from_secs(300);

/// When a database is looked at again that has no point yet.
const SOON: Duration = Duration::from_secs(2);

/// How long reading the records of a database may take.
const READING: Duration = Duration::from_secs(60);

/// How long a proof that is ended may take to remove what it made.
const ENDING: Duration = Duration::from_secs(5);

/// Threads with which one proof restores.
const JOBS: usize = 2;

/// The proofs of a process.
pub(crate) struct Provers {
    task: JoinHandle<()>,
    end: CancellationToken,
}

impl Provers {
    /// Ends the proof that is being made, and removes what it made. It has a few seconds for that.
    pub(crate) async fn end(self) {
        self.end.cancel();
        let _late_or_done = tokio::time::timeout(ENDING, self.task).await;
    }
}

/// Proves the databases of a process until its shutdown.
pub(crate) fn start(actions: &Arc<Actions>, shutdown: &Shutdown) -> Provers {
    let end = CancellationToken::new();
    let (actions, shutdown, stop) = (Arc::clone(actions), shutdown.clone(), end.clone());
    let task = tokio::spawn(async move {
        let Some(opener) = actions.fleet().prover() else { return };
        let asked = async {
            tokio::select! {
                () = shutdown.graceful() => stop.cancel(),
                () = stop.cancelled() => {}
            }
        };
        // The proof that is being made is waited for, so that it can remove what it made.
        tokio::join!(keep_proving(&opener, &actions, &stop), asked);
    });
    Provers { task, end }
}

async fn keep_proving(opener: &Arc<Opener>, actions: &Actions, stop: &CancellationToken) {
    loop {
        let members = actions.fleet().proved();
        let next = next(&members, actions.proofs(), SystemClock.now());
        let wait = match next {
            Some((member, Step::Read)) => {
                read(opener, actions.proofs(), &member.config, stop).await;
                Duration::ZERO
            }
            Some((member, Step::Prove(proving))) => match actions.known_status_of(member).await.protected {
                Some(_) => {
                    prove(opener, actions.proofs(), &member.config, &proving, stop).await;
                    Duration::ZERO
                }
                // There is nothing to restore yet. The others don't wait for it.
                None => {
                    actions.proofs().pass_over(&member.config, SystemClock.now().after(SOON));
                    Duration::ZERO
                }
            },
            None if members.is_empty() => IDLE,
            None => LOOK,
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = actions.proofs().looked_for(), if !wait.is_zero() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// What is to be done with a database.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// Its records aren't known.
    Read,
    /// It is to be proved.
    Prove(Arc<Proving>),
}

/// The database whose turn it is now: one whose records aren't known, else the due one whose last proof is the oldest.
fn next<'m>(members: &'m [Seen], board: &Board, now: Moment) -> Option<(&'m Seen, Step)> {
    let mut oldest: Option<(Moment, &Seen, Step)> = None;
    for member in members {
        let Some(proving) = &member.config.prove else { continue };
        let Some(known) = board.known(&member.config) else { return Some((member, Step::Read)) };
        if known.not_before.is_some_and(|at| at > now) {
            continue;
        }
        if !known.is_read {
            return Some((member, Step::Read));
        }
        let is_due = due(&proving.schedule(&member.config.name), known.last, now) <= now;
        let since = known.last.map_or(known.since, |last| last.at);
        if is_due && oldest.as_ref().is_none_or(|(before, ..)| since < *before) {
            oldest = Some((since, member, Step::Prove(Arc::clone(proving))));
        }
    }
    oldest.map(|(_, member, step)| (member, step))
}

/// Reads the records of a database.
async fn read(opener: &Arc<Opener>, board: &Board, config: &DatabaseConfig, stop: &CancellationToken) {
    let (apart, database) = (Arc::clone(opener), config.clone());
    let work = move || async move { apart.apart(JOBS).proofs(&database).await };
    match aside(work, READING, stop).await {
        Some(Ok(recorded)) => {
            tell_doubts(config, &recorded);
            board.read(config, recorded.proofs, SystemClock.now());
        }
        Some(Err(failure)) => unread(board, config, &failure),
        None if stop.is_cancelled() => {}
        None => unread(board, config, &late(config)),
    }
}

/// Proves a database, unless another host has proved it meanwhile.
async fn prove(
    opener: &Arc<Opener>,
    board: &Board,
    config: &DatabaseConfig,
    proving: &Arc<Proving>,
    stop: &CancellationToken,
) {
    read(opener, board, config, stop).await;
    let Some(known) = board.known(config).filter(|known| known.is_read) else { return };
    let now = SystemClock.now();
    if due(&proving.schedule(&config.name), known.last, now) > now {
        return;
    }
    tracing::info!(database = config.name, level = proving.level.name(), "proving");
    let (apart, database, own, before) = (Arc::clone(opener), config.clone(), Arc::clone(proving), known.newest);
    let work = move || async move { apart.apart(JOBS).prove_as(&database, &own, before.as_ref()).await };
    // The proof has its own bound. This one is for what doesn't even notice that.
    let bound = proving.within.saturating_add(Duration::from_secs(3600));
    let Some(Made { proof, recorded }) = aside(work, bound, stop).await else {
        if !stop.is_cancelled() {
            tracing::error!(database = config.name, "a proof ended unexpectedly");
            board.passed(config, SystemClock.now());
        }
        return;
    };
    tell(config, &proof);
    if let Some(Err(failure)) = recorded {
        tracing::warn!(
            database = config.name,
            code = failure.code,
            next = failure.next,
            "the proof isn't recorded: {failure}"
        );
    }
    board.proved(config, proof);
}

fn tell(config: &DatabaseConfig, proof: &Proof) {
    let (database, seconds) = (&config.name, proof.duration_ms / 1000);
    let fault = proof.faults.first().map(|fault| format!("{}: {} ({})", fault.object, fault.cause, fault.code));
    match (proof.holds(), proof.inconclusive) {
        (true, _) => {
            let point = proof.point.as_ref().map(|point| point.position.as_str());
            tracing::info!(
                database,
                point,
                level = proof.level.name(),
                bytes = proof.restored_bytes,
                seconds,
                "proved"
            );
        }
        (false, true) => {
            tracing::error!(database, seconds, "the proof couldn't be made: {}", fault.unwrap_or_default())
        }
        (false, false) => tracing::error!(database, seconds, "the proof failed: {}", fault.unwrap_or_default()),
    }
}

fn tell_doubts(config: &DatabaseConfig, recorded: &Recorded) {
    for doubt in &recorded.doubts {
        tracing::warn!(database = config.name, "{doubt}");
    }
}

fn unread(board: &Board, config: &DatabaseConfig, failure: &Failure) {
    tracing::warn!(
        database = config.name,
        code = failure.code,
        next = failure.next,
        "the records of its proofs can't be read: {failure}"
    );
    board.unread(config, SystemClock.now());
}

fn late(config: &DatabaseConfig) -> Failure {
    let cause = format!("no answer within {} s", READING.as_secs());
    let kind = seawall_core::Kind::Unavailable;
    Failure::new(
        kind,
        "vault.timeout",
        config.vault.to_string(),
        cause,
        "see to the vault; it is asked again by itself",
    )
}

#[cfg(test)]
mod tests;
