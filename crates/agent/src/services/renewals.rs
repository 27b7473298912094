//! Renews the locks of the objects that newest points need, once a day, where the settings of a vault ask for it.
//!
//! A vault without such a setting costs no request. A failure is in the status of the database, as something that its vault
//! lacks, until a renewal succeeds.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::config::SourceName;
use crate::control::Actions;
use crate::fleet::Seen;

/// How often the databases are looked through at least.
const LOOK: Duration = Duration::from_secs(3600);

/// How long after a failure it is tried again.
const RETRY: Duration = Duration::from_secs(300);

/// How soon a database is looked at again that isn't open yet, or has nothing to renew.
const SOON: Duration = Duration::from_secs(10);

/// The shortest time between two looks.
const LEAST: Duration = Duration::from_secs(1);

/// How long a renewal suffices. Each look leaves a lock that lasts a day longer than what is asked.
const SUFFICES: Duration = Duration::from_secs(24 * 3600);

/// How long the renewal of one database may take.
const BOUND: Duration = Duration::from_secs(600);

/// What came of the last try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tried {
    /// The locks last long enough.
    Renewed,
    /// There is nothing to renew now.
    Nothing,
    /// They weren't renewed.
    Failed,
}

/// A database in its vault.
type Place = (SourceName, String);

/// Renews until the task ends.
pub(super) async fn renew(actions: Arc<Actions>) {
    let mut due: HashMap<Place, (Instant, u32)> = HashMap::new();
    loop {
        let members = actions.fleet().all();
        for member in members.iter().filter(|member| member.engine.is_some()) {
            let (at, empty) = due.get(&place(member)).copied().unwrap_or((Instant::now(), 0));
            if at <= Instant::now() {
                let (tried, empty) = (renew_one(member).await, empty.saturating_add(1));
                due.insert(place(member), (Instant::now() + wait(tried, empty), empty));
            }
        }
        due.retain(|place, _| members.iter().any(|member| self::place(member) == *place));
        let first = due.values().map(|(at, _)| at.saturating_duration_since(Instant::now())).min();
        let coming = members.iter().any(|member| member.coming || member.engine.is_none()).then_some(SOON);
        tokio::time::sleep(first.into_iter().chain(coming).min().unwrap_or(LOOK).clamp(LEAST, LOOK)).await;
    }
}

fn place(member: &Seen) -> Place {
    (member.config.source(), member.config.place())
}

/// How long to wait after a try, the `number`-th of this database. A database may have no object yet: it is looked at again soon,
/// and ever more seldom.
fn wait(tried: Tried, number: u32) -> Duration {
    match tried {
        Tried::Renewed => SUFFICES,
        Tried::Nothing => SOON.saturating_mul(2_u32.saturating_pow(number.saturating_sub(1))).min(LOOK),
        Tried::Failed => RETRY,
    }
}

/// Renews the locks of a database.
async fn renew_one(member: &Seen) -> Tried {
    let Some(engine) = &member.engine else { return Tried::Nothing };
    let database = &member.config.name;
    match timeout(BOUND, engine.history().renew_locks()).await {
        Ok(Ok(Some(until))) => {
            tracing::info!(database, %until, "the objects of the newest point are locked");
            Tried::Renewed
        }
        Ok(Ok(None)) => Tried::Nothing,
        Ok(Err(failure)) => {
            tracing::warn!(database, code = failure.code, next = failure.next, "locks were not renewed: {failure}");
            Tried::Failed
        }
        Err(_) => {
            tracing::warn!(database, "locks were not renewed within {} s", BOUND.as_secs());
            Tried::Failed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn once_a_day_and_sooner_after_a_failure() {
        let seconds = Duration::from_secs;
        for (tried, number, expected) in [
            (Tried::Renewed, 1, seconds(24 * 3600)),
            (Tried::Failed, 9, seconds(300)),
            (Tried::Nothing, 1, seconds(10)),
            (Tried::Nothing, 3, seconds(40)),
            (Tried::Nothing, 99, seconds(3600)),
        ] {
            assert_eq!(wait(tried, number), expected, "{tried:?} {number}");
        }
    }
}
