//! Proves databases by their schedules: one at a time, beside the protection, also after a restart.
//!
//! Whether a proof is due follows from the schedule, the newest record in the vault, and the time (`seawall_engines::proofs::due`). So
//! the records are read when a database comes, again once an hour, and before each proof: another host may have proved it. If they can't be
//! read for an hour, proofs are made by what this process knows. All of that happens
//! `aside`, on a thread with a runtime and connections of its own, which gives way to everything else. A stop ends a proof at once, and
//! so does a reload of a configuration that doesn't ask for it any more.
//! `board` holds what is known, for the status.

mod aside;
mod board;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use seawall_core::{Clock as _, Failure, Level, Moment, Proof, Shutdown, Status, SystemClock};
use seawall_engines::DatabaseConfig;
use seawall_engines::proofs::{Asked, Made, Proving, Recorded, first_fault};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) use self::aside::aside;
pub(crate) use self::board::Board;
use self::board::Turn;
use crate::Opener;
use crate::config::SourceName;
use crate::control::Actions;
use crate::fleet::Seen;

/// How often databases are looked at at least: one may have come, or a clock was set.
const LOOK: Duration = Duration::from_secs(60);

/// The same, if there is something to do at once.
const BRIEF: Duration = Duration::from_millis(50);

/// Databases whose records are read with the same connections.
const READ_AT_ONCE: usize = 64;

/// How many databases of a batch are read at the same time. A vault that is away then holds up few others.
const READ_TOGETHER: usize = 8;

/// How long reading the records of a database may take.
const READING: Duration = Duration::from_secs(60);

/// How long a proof that is ended may take to remove what it made.
const ENDING: Duration = Duration::from_secs(5);

/// Threads with which one proof restores.
pub(crate) const JOBS: usize = 2;

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
    let board = actions.proofs();
    loop {
        let members = actions.fleet().proved();
        let turns = turns(&members, board, SystemClock.now());
        for batch in turns.unread.chunks(READ_AT_ONCE) {
            read(opener, board, batch, stop).await;
        }
        for source in turns.due {
            if stop.is_cancelled() {
                return;
            }
            // The proofs before it may have taken hours.
            let member = actions.fleet().member(&source);
            let Some(member) = member else { continue };
            let Some(proving) = member.config.prove.clone() else { continue };
            if has_point(&member).await {
                prove(opener, actions, &member, &proving, stop).await;
            } else {
                // The others don't wait for it.
                board.pass_over(&member.config, SystemClock.now());
            }
        }
        // What was read may be due at once.
        let next = self::turns(&members, board, SystemClock.now());
        let wait =
            if next.is_empty() { next.then.map_or(LOOK, |at| at.since(SystemClock.now()).min(LOOK)) } else { BRIEF };
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = board.looked_for() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// Whether there is something to restore of a database.
async fn has_point(member: &Seen) -> bool {
    let Some(engine) = &member.engine else { return false };
    matches!(engine.known_status().await, Ok(Status { protected: Some(_), .. }))
}

/// What is to be done now.
#[derive(Debug, Default)]
struct Turns {
    /// Databases whose records aren't known.
    unread: Vec<DatabaseConfig>,
    /// Databases that are to be proved, the one first whose last proof is the oldest.
    due: Vec<SourceName>,
    /// When there is something to do after that.
    then: Option<Moment>,
}

impl Turns {
    fn is_empty(&self) -> bool {
        self.unread.is_empty() && self.due.is_empty()
    }
}

/// What is to be done with these databases now.
fn turns(members: &[Seen], board: &Board, now: Moment) -> Turns {
    let (mut turns, mut due) = (Turns::default(), Vec::new());
    for member in members {
        let config = &member.config;
        let Some(proving) = &config.prove else { continue };
        match board.turn(config, proving, now) {
            Turn::Read(at) if at <= now => turns.unread.push(config.clone()),
            Turn::Prove { at, since } if at <= now => due.push((since, config.source())),
            Turn::Read(at) | Turn::Prove { at, .. } => turns.then = Some(turns.then.map_or(at, |then| then.min(at))),
        }
    }
    due.sort();
    turns.due = due.into_iter().map(|(_, source)| source).collect();
    turns
}

/// Threads for the blocking work of a database's proof: those that restore, those that read a vault in a folder and keep the scratch
/// folder, and what a server's connections need, as for its backup.
pub(crate) fn threads(config: &DatabaseConfig) -> usize {
    JOBS + 4 + 4 * config.server_limits().map_or(0, |limits| limits.jobs)
}

/// Reads the records of some databases.
async fn read(opener: &Arc<Opener>, board: &Board, batch: &[DatabaseConfig], stop: &CancellationToken) {
    let (opener, databases) = (Arc::clone(opener), batch.to_vec());
    let work = move || async move {
        let apart = &opener.apart(JOBS);
        let read = async |database: &DatabaseConfig| {
            let read = tokio::time::timeout(READING, apart.proofs(database)).await;
            let place = apart.place_here(database);
            let recorded = read.unwrap_or_else(|_| Err(late(database))).map_err(|failure| {
                // That there is a proof isn't known.
                (failure, Some(place.note_proved(false, SystemClock.now())))
            })?;
            let is_proved = recorded.proofs.iter().any(|proof| !proof.inconclusive);
            let since = place.note_proved(is_proved, SystemClock.now());
            Ok::<_, (Failure, Option<Moment>)>((recorded, since))
        };
        stream::iter(&databases).map(read).buffered(READ_TOGETHER).collect::<Vec<_>>().await
    };
    let bound = READING.saturating_mul(u32::try_from(batch.len()).unwrap_or(u32::MAX).saturating_add(1));
    let threads = batch.iter().map(threads).max().unwrap_or(JOBS);
    let read = aside(work, (threads, bound), stop).await;
    if stop.is_cancelled() {
        return;
    }
    let mut read = read.unwrap_or_default().into_iter();
    for config in batch {
        match read.next().unwrap_or_else(|| Err((late(config), None))) {
            Ok((recorded, since)) => {
                tell_doubts(config, &recorded);
                board.unproved_since(config, since);
                board.read(config, recorded.proofs, SystemClock.now());
            }
            Err((failure, since)) => {
                if let Some(since) = since {
                    board.unproved_since(config, since);
                }
                unread(board, config, &failure);
            }
        }
    }
}

/// Proves a database, unless another host has proved it meanwhile.
async fn prove(
    opener: &Arc<Opener>,
    actions: &Actions,
    member: &Seen,
    proving: &Arc<Proving>,
    stop: &CancellationToken,
) {
    let config = &member.config;
    let board = actions.proofs();
    read(opener, board, std::slice::from_ref(config), stop).await;
    let now = SystemClock.now();
    match board.turn(config, proving, now) {
        Turn::Prove { at, .. } if at <= now => {}
        _ => return,
    }
    let before = board.newest(config);
    // Before its turn: a database that is slow to answer doesn't hold up the proof of another one.
    let doubt = tokio::select! {
        biased;
        () = stop.cancelled() => return,
        doubt = record_content(member, proving) => doubt,
    };
    let _turn = tokio::select! {
        biased;
        () = stop.cancelled() => return,
        turn = board.turn_to_prove() => turn,
    };
    tracing::info!(database = config.name, level = proving.level.name(), "proving");
    let (apart, database, own, before) = (Arc::clone(opener), config.clone(), Arc::clone(proving), before);
    let work = move || async move {
        apart.apart(JOBS).prove_as(&database, &own, Asked::BySchedule(before.as_ref()), doubt).await
    };
    // The proof has its own bound. This one is for work that ignores its own bound.
    let bound = proving.within.saturating_add(Duration::from_secs(3600));
    let end = stop.child_token();
    let is_wanted = || actions.fleet().member(&config.source()).is_some_and(|member| member.config.prove.is_some());
    let work = aside(work, (threads(config), bound), &end);
    let Some(Made { proof, recorded }) = while_wanted(work, board, is_wanted, &end).await else {
        if stop.is_cancelled() {
            return;
        }
        match end.is_cancelled() {
            true => {
                tracing::info!(database = config.name, "its proof was ended: the configuration asks for none any more")
            }
            false => tracing::error!(database = config.name, "a proof ended unexpectedly"),
        }
        board.passed(config, SystemClock.now());
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

/// Lets the protection record what the database holds now, so that the proof can compare the restored content with it. Without such a
/// record the proof is made all the same; the answer is then why there is none.
async fn record_content(member: &Seen, proving: &Proving) -> Option<String> {
    let engine = member.engine.as_ref().filter(|_| member.running && proving.level == Level::Content);
    let protection = engine.and_then(|engine| engine.protection())?;
    let why = match tokio::time::timeout(proving.within, protection.record_content()).await {
        Ok(Ok(_)) => return None,
        Ok(Err(failure)) => format!("{} ({})", failure.cause, failure.code),
        Err(_) => "that took too long".to_owned(),
    };
    tracing::info!(database = member.config.name, "its content isn't recorded for the proof: {why}");
    Some(format!("what the database holds couldn't be recorded before the proof: {why}"))
}

/// Proves a database now because a person asks for it, after the proof that is being made.
///
/// # Errors
/// What the proof found wrong, or why it couldn't be made.
pub(crate) async fn prove_now(opener: &Arc<Opener>, board: &Board, member: &Seen) -> Result<Proof, Failure> {
    let config = &member.config;
    let proving = config.prove.clone().unwrap_or_else(|| Arc::new(Proving::when_asked()));
    let doubt = record_content(member, &proving).await;
    let _turn = board.turn_to_prove().await;
    let (apart, database, own) = (Arc::clone(opener), config.clone(), Arc::clone(&proving));
    let work = move || async move { apart.apart(JOBS).prove_as(&database, &own, Asked::ByPerson, doubt).await };
    let bound = proving.within.saturating_add(Duration::from_secs(3600));
    let made = aside(work, (threads(config), bound), &CancellationToken::new()).await;
    let Made { proof, recorded } = made.ok_or_else(|| crate::process::defect(&config.name))?;
    tell(config, &proof);
    board.proved(config, proof.clone());
    if let Some(failure) = first_fault(&proof) {
        return Err(failure);
    }
    match recorded {
        Some(Err(failure)) => Err(failure),
        _ => Ok(proof),
    }
}

/// Waits for the work of a proof, and ends the work when the configuration changes so that the proof isn't wanted any more.
async fn while_wanted<T>(
    work: impl Future<Output = T>,
    board: &Board,
    is_wanted: impl Fn() -> bool,
    end: &CancellationToken,
) -> T {
    let (mut work, mut has_changed) = (pin!(work), false);
    let done = loop {
        tokio::select! {
            biased;
            done = &mut work => break done,
            () = board.looked_for() => has_changed = true,
        }
        if !is_wanted() {
            end.cancel();
        }
    };
    if has_changed {
        // The change may concern other databases too.
        board.look_again();
    }
    done
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
    board.unread(config, failure, SystemClock.now());
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
