//! Databases that come or change because the configuration was read again, and how long the process lasts meanwhile.

use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use seawall_core::Failure;

use super::{Entry, Fleet, Member, Origin, State, clash};
use crate::config::{DatabaseConfig, SourceName};
use crate::process;

/// What may change of the whole process while it runs.
#[derive(Debug, Default)]
pub(super) struct Life {
    /// How long a graceful stop may take.
    bound: Duration,
    /// Whether databases may still come once none runs.
    lasting: bool,
    /// How many changes are on their way: databases that are away for moments come back.
    held: usize,
}

/// Keeps a fleet from ending for want of running databases.
pub(crate) struct Stay(Fleet);

impl Drop for Stay {
    fn drop(&mut self) {
        let mut life = self.0.life();
        life.held = life.held.saturating_sub(1);
        drop(life);
        self.0.0.ended.notify_waiters();
    }
}

impl Fleet {
    fn life(&self) -> MutexGuard<'_, Life> {
        // Whole between any two statements that can panic.
        self.0.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets how long a graceful stop may take, and whether the process lasts without running databases.
    pub(crate) fn live(&self, bound: Duration, lasting: bool) {
        let mut life = self.life();
        (life.bound, life.lasting) = (bound, lasting);
    }

    /// How long a graceful stop may take.
    pub(crate) fn bound(&self) -> Duration {
        self.life().bound
    }

    /// Whether the process goes on although no database runs.
    pub(super) fn is_lasting(&self) -> bool {
        let life = self.life();
        life.lasting || life.held > 0
    }

    /// Keeps the process from ending for want of running databases while the guard lives.
    pub(crate) fn hold(&self) -> Stay {
        self.life().held += 1;
        Stay(self.clone())
    }

    /// Whether the process is ending, and begins nothing any more.
    pub(crate) fn is_stopping(&self) -> bool {
        self.0.shutdown.requested()
    }

    /// Gives a member other settings: it is stopped, everything that it committed is shipped within a time, and it is started
    /// again. One that an operator stopped stays so.
    ///
    /// # Errors
    /// When another member has its name or its place, when it was removed meanwhile, when the process is ending, and why it
    /// isn't protected.
    pub(crate) async fn exchange(
        &self,
        config: DatabaseConfig,
        origin: Origin,
        within: Duration,
    ) -> Result<(), Failure> {
        self.check_lasting(&config.name)?;
        let source = config.source();
        let rests = self.entries().by_source.get(&source).is_some_and(|entry| matches!(entry.state, State::Stopped));
        // Opened first, so that the database is away for as short a time as possible.
        let mut member = Member::open(&*self.0.databases, config, origin, false).await;
        if let Err(failure) = self.stop(&source, within).await {
            // Nothing is lost: the state record says where to go on.
            process::log_failure(&member.config.name, &failure);
        }
        self.restore_again(&source, &mut member).await?;
        // Where the other is in the way, the former one goes on.
        let swapped = self.swap(&source, member);
        let spawned = if rests { Ok(()) } else { self.spawn(&source).map(drop) };
        swapped.and(spawned)
    }

    /// Puts a member where one of the same source was, in one step and in its place in the order.
    fn swap(&self, source: &SourceName, member: Member) -> Result<(), Failure> {
        let mut entries = self.entries();
        let former = entries.forget(source);
        let failure = clash(&entries, &member.config);
        let (order, member) = match (failure, former) {
            (None, Some(former)) => (former.order, member),
            (None, None) => {
                entries.next += 1;
                (entries.next, member)
            }
            (Some(failure), former) => {
                if let Some(former) = former {
                    entries.put(source, former);
                }
                return Err(failure);
            }
        };
        entries.put(source, Entry { order, member, state: State::Stopped });
        Ok(())
    }

    /// Whether a database is a member.
    pub(crate) fn holds(&self, source: &SourceName) -> bool {
        self.entries().by_source.contains_key(source)
    }

    /// Notes who names a member now.
    pub(crate) fn name_origin(&self, source: &SourceName, origin: Origin) {
        if let Some(entry) = self.entries().by_source.get_mut(source) {
            entry.member.origin = origin;
        }
    }
}
