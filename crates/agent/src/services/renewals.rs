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

/// How often the databases are looked through.
const LOOK: Duration = Duration::from_secs(3600);

/// The same, after a failure.
const RETRY: Duration = Duration::from_secs(300);

/// The same, while a database isn't open yet.
const SOON: Duration = Duration::from_secs(10);

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
    let mut tried: HashMap<Place, (Instant, Tried)> = HashMap::new();
    loop {
        let members = actions.fleet().all();
        for member in &members {
            let place = place(member);
            let last = tried.get(&place).map(|(at, tried)| (at.elapsed(), *tried));
            if is_due(last) && member.engine.is_some() {
                tried.insert(place, (Instant::now(), renew_one(member).await));
            }
        }
        tried.retain(|place, _| members.iter().any(|member| self::place(member) == *place));
        let wait = match () {
            () if members.iter().any(|member| member.coming) => SOON,
            () if tried.values().any(|(_, tried)| *tried == Tried::Failed) => RETRY,
            () => LOOK,
        };
        tokio::time::sleep(wait).await;
    }
}

fn place(member: &Seen) -> Place {
    (member.config.source(), member.config.place())
}

/// Whether the locks of a database are to be looked at, after what came of the last try, so long ago.
fn is_due(last: Option<(Duration, Tried)>) -> bool {
    // A look takes a moment: at the next one it shall not be a second too early.
    last.is_none_or(|(passed, tried)| match tried {
        Tried::Renewed => passed + LOOK / 2 >= SUFFICES,
        Tried::Nothing => passed + LOOK / 2 >= LOOK,
        Tried::Failed => passed + RETRY / 2 >= RETRY,
    })
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
        let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
        for (last, expected) in [
            (None, true),
            (Some((minutes(0), Tried::Renewed)), false),
            (Some((minutes(23 * 60), Tried::Renewed)), false),
            (Some((minutes(24 * 60) - Duration::from_secs(1), Tried::Renewed)), true),
            (Some((minutes(240 * 60), Tried::Renewed)), true),
            (Some((minutes(20), Tried::Nothing)), false),
            (Some((minutes(60), Tried::Nothing)), true),
            (Some((minutes(1), Tried::Failed)), false),
            (Some((minutes(5), Tried::Failed)), true),
        ] {
            assert_eq!(is_due(last), expected, "{last:?}");
        }
    }
}
