//! Changes by a reload: databases that get other settings, and settings of the fleet itself.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use seawall_core::Failure;

use super::{Entry, Fleet, Member, Origin, State, clash};
use crate::config::{DatabaseConfig, SourceName};
use crate::process;

/// Settings of the fleet that a reload may change.
#[derive(Debug, Default)]
pub(super) struct Life {
    /// How long a graceful stop may take.
    bound: Duration,
    /// Whether the process goes on when no database runs, because databases may still come.
    lasting: bool,
    /// How many changes are under way. While one is, the process goes on although no database may run for a moment.
    held: usize,
}

/// Keeps the process from ending because no database runs.
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

    /// Keeps the process from ending because no database runs, until the guard is dropped.
    pub(crate) fn hold(&self) -> Stay {
        self.life().held += 1;
        Stay(self.clone())
    }

    /// Whether the process is ending. Then nothing new begins.
    pub(crate) fn is_stopping(&self) -> bool {
        self.0.shutdown.requested()
    }

    /// Gives a member other settings: stops it, ships everything that was committed, at the longest for `within`, and
    /// starts it again. A member that an operator stopped stays stopped.
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
        // If another member has the new name or place, the member goes on with its former settings.
        let swapped = self.swap(&source, member);
        let spawned = if rests { Ok(()) } else { self.spawn(&source).map(drop) };
        swapped.and(spawned)
    }

    /// Replaces the member of the same source in one step. The new member keeps the place in the order.
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

    /// Sets the origin of a member.
    pub(crate) fn name_origin(&self, source: &SourceName, origin: Origin) {
        if let Some(entry) = self.entries().by_source.get_mut(source) {
            entry.member.origin = origin;
        }
    }

    /// Gives a member what takes effect without a restart of its protection: the limits of its alarms, and when it is proved. Returns
    /// the keys of the configuration of which it has another value now.
    pub(crate) fn adjust(&self, config: &DatabaseConfig) -> Vec<&'static str> {
        let mut entries = self.entries();
        let Some(entry) = entries.by_source.get_mut(&config.source()) else { return Vec::new() };
        // A person may have mended what it waits for.
        if let Some(protection) = entry.member.engine.as_ref().ok().and_then(|engine| engine.protection()) {
            protection.hurry();
        }
        let held = &mut entry.member.config;
        let alarms = std::mem::replace(&mut held.alarms, Arc::clone(&config.alarms)) != config.alarms;
        let prove = std::mem::replace(&mut held.prove, config.prove.clone()) != config.prove;
        [("alarms", alarms), ("prove", prove)].into_iter().filter(|(_, changed)| *changed).map(|(key, _)| key).collect()
    }
}
