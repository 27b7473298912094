//! What the screens show. Visitors of the same moment share one look at the databases, and one listing of a vault.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use seawall_core::{Clock as _, Failure, Figures, Kind, Moment, Proof, Status, SystemClock, Timeline};
use seawall_engines::proofs::Recorded;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use crate::config::SourceName;
use crate::control::{Actions, Trace};
use crate::fleet::Seen;

/// How long a look at all databases counts.
const FRESH: Duration = Duration::from_secs(1);

/// How long the listing of a vault counts. A visitor who moves along a timeline asks again and again.
const LISTED: Duration = Duration::from_secs(10);

/// How long a vault may take to tell.
pub(super) const ANSWER: Duration = Duration::from_secs(20);

/// Requests to vaults at a time. They share the process with what protects.
const AT_A_TIME: usize = 2;

/// Vaults that are remembered.
const REMEMBERED: usize = 32;

/// What is known of one database without asking its vault.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) status: Status,
    pub(super) figures: Figures,
    /// When its next proof is or was due; `None` if it isn't proved by itself.
    pub(super) proof_due: Option<Moment>,
    /// How lag and size went.
    pub(super) trace: Arc<Trace>,
}

/// What the vault of a database told.
#[derive(Debug)]
pub(super) struct History {
    pub(super) listed_at: Moment,
    pub(super) timeline: Result<Timeline, Failure>,
    /// The newest proofs, and what is wrong with their records.
    pub(super) proofs: Result<(Vec<Proof>, Vec<String>), Failure>,
}

/// Work that asks vaults: a few at a time, and not for too long.
pub(super) struct Turns(Semaphore);

impl Default for Turns {
    fn default() -> Self {
        Self(Semaphore::new(AT_A_TIME))
    }
}

impl Turns {
    /// Does work that asks a vault, in its turn and not for too long.
    pub(super) async fn in_time<T>(
        &self,
        name: &str,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let mut has_turn = false;
        let in_turn = async {
            let _turn = self.0.acquire().await;
            has_turn = true;
            work.await
        };
        let done = timeout(ANSWER, in_turn).await;
        done.unwrap_or_else(|_| {
            let late =
                if has_turn { "its vault didn't answer" } else { "other vaults are asked, and its turn didn't come" };
            Err(too_late(name, late))
        })
    }
}

/// The failure of a vault that hasn't told within [`ANSWER`].
pub(super) fn too_late(name: &str, late: &str) -> Failure {
    Failure::new(
        Kind::Unavailable,
        "agent.too-late",
        name,
        format!("{late} within {} s", ANSWER.as_secs()),
        "load the page again, or ask with `seawall timeline`, which waits for longer",
    )
}

type Dated<T> = Option<(Instant, Arc<T>)>;

/// Looks at the databases of a process.
pub(super) struct Look {
    actions: Arc<Actions>,
    all: tokio::sync::Mutex<Dated<Vec<Known>>>,
    histories: Mutex<HashMap<SourceName, (Instant, Arc<History>)>>,
    turns: Turns,
}

impl Look {
    pub(super) fn new(actions: Arc<Actions>) -> Self {
        let (all, histories) = Default::default();
        Self { actions, all, histories, turns: Turns::default() }
    }

    /// The process.
    pub(super) fn actions(&self) -> &Actions {
        &self.actions
    }

    /// The same, for what goes on after the answer.
    pub(super) fn shared_actions(&self) -> Arc<Actions> {
        Arc::clone(&self.actions)
    }

    /// All databases, as they are known without looking at them.
    pub(super) async fn all(&self) -> Arc<Vec<Known>> {
        let mut last = self.all.lock().await;
        if let Some((_, known)) = last.as_ref().filter(|(at, _)| at.elapsed() < FRESH) {
            return Arc::clone(known);
        }
        let members = self.actions.members();
        let statuses = self.actions.known_status(&members).await;
        let all = members.iter().zip(statuses).map(|(member, status)| self.with_rest(member, status)).collect();
        let all = Arc::new(all);
        *last = Some((Instant::now(), Arc::clone(&all)));
        all
    }

    /// One database.
    pub(super) async fn known(&self, member: &Seen) -> Known {
        self.with_rest(member, self.actions.known_status_of(member).await)
    }

    fn with_rest(&self, member: &Seen, status: Status) -> Known {
        Known {
            status,
            trace: self.actions.trace(member),
            figures: member.engine.as_ref().map(|engine| engine.figures()).unwrap_or_default(),
            proof_due: self.actions.proofs().of(&member.config).1,
        }
    }

    /// What its vault tells. Waits no longer than [`ANSWER`] for the timeline, and for the proofs.
    pub(super) async fn history(&self, member: &Seen) -> Arc<History> {
        let source = member.config.source();
        let known = self.remembered().get(&source).filter(|(at, _)| at.elapsed() < LISTED).map(|(_, h)| Arc::clone(h));
        if let Some(known) = known {
            return known;
        }
        let listed_at = SystemClock.now();
        let timeline = async {
            match (&member.engine, &member.failure) {
                (Some(engine), _) => engine.history().timeline().await,
                (None, Some(failure)) => Err(failure.clone()),
                (None, None) => Err(crate::fleet::starting(&member.config.name)),
            }
        };
        let proofs = async {
            let Some(opener) = self.actions.fleet().prover() else { return Ok((Vec::new(), Vec::new())) };
            let Recorded { proofs, doubts } = opener.proofs(&member.config).await?;
            Ok((proofs, doubts))
        };
        let name = &member.config.name;
        let (timeline, proofs) = tokio::join!(self.turns.in_time(name, timeline), self.turns.in_time(name, proofs));
        let history = Arc::new(History { listed_at, timeline, proofs });
        let mut all = self.remembered();
        all.retain(|_, (at, _)| at.elapsed() < LISTED);
        if all.len() < REMEMBERED {
            all.insert(source, (Instant::now(), Arc::clone(&history)));
        }
        history
    }

    /// Turns of work that asks a vault.
    pub(super) fn turns(&self) -> &Turns {
        &self.turns
    }

    fn remembered(&self) -> std::sync::MutexGuard<'_, HashMap<SourceName, (Instant, Arc<History>)>> {
        // Whole between any two statements that can panic.
        self.histories.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_a_turn_blames_no_vault() {
        let turns = Turns::default();
        let told = turns.in_time("slow", std::future::pending::<Result<(), Failure>>()).await.expect_err("too late");
        assert!(told.cause.contains("its vault"), "{told}");
        let _others = turns.0.acquire_many(2).await.expect("two turns");
        let told = turns.in_time("fast", async { Ok(()) }).await.expect_err("too late");
        assert!(told.cause.contains("its turn didn't come"), "{told}");
    }
}
