//! When does a session look again, if no event wakes it?
//!
//! Where the system raises events for commits and objects, events wake the session (I6). Otherwise it polls at an
//! interval. In both cases it looks at everything now and then, so that a lost event delays a change and doesn't lose
//! it.

use std::time::Duration;

use tokio::time::Instant;

/// How often everything is looked at where events tell of changes.
pub(super) const SWEEP: Duration = Duration::from_secs(60);

/// The facts for the decision.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts {
    /// Whether every commit raises an event.
    pub(super) hears_commits: bool,
    /// Whether every new object raises an event.
    pub(super) hears_objects: bool,
    /// How often the environment is polled without events; also the least time between two snapshots.
    pub(super) poll: Duration,
    /// How often the vault is listed without events.
    pub(super) list: Duration,
    /// When the session last looked at the environment.
    pub(super) looked: Instant,
    /// When the vault was listed last.
    pub(super) listed: Option<Instant>,
    /// When a pending change may be sent.
    pub(super) held_until: Option<Instant>,
    /// When the next other work is due.
    pub(super) due: Option<Instant>,
}

/// Whether it is time to list the vault.
pub(super) fn is_listing_due(facts: &Facts) -> bool {
    next_listing(facts) <= facts.looked
}

/// When the vault is listed again.
fn next_listing(facts: &Facts) -> Instant {
    let every = if facts.hears_objects { SWEEP } else { facts.list };
    facts.listed.map_or(facts.looked, |listed| listed + every)
}

/// When the session looks again.
pub(super) fn next_look(facts: &Facts) -> Instant {
    let every = if facts.hears_commits { SWEEP } else { facts.poll };
    let others = [facts.held_until, facts.due].into_iter().flatten();
    others.fold(next_listing(facts).min(facts.looked + every), Instant::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_what_cannot_tell_is_polled() {
        let now = Instant::now();
        let seconds = Duration::from_secs;
        let quiet = Facts {
            hears_commits: true,
            hears_objects: true,
            poll: seconds(1),
            list: seconds(2),
            looked: now,
            listed: Some(now),
            held_until: None,
            due: None,
        };
        for (facts, expected) in [
            (quiet, 60),
            (Facts { hears_commits: false, ..quiet }, 1),
            (Facts { hears_objects: false, ..quiet }, 2),
            (Facts { listed: None, ..quiet }, 0),
            (Facts { held_until: Some(now + seconds(5)), ..quiet }, 5),
            (Facts { due: Some(now + seconds(7)), ..quiet }, 7),
            (Facts { due: Some(now + seconds(700)), ..quiet }, 60),
        ] {
            assert_eq!(next_look(&facts) - now, seconds(expected), "{facts:?}");
            assert_eq!(is_listing_due(&facts), expected == 0, "{facts:?}");
        }
    }
}
