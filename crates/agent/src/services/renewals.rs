//! Renews the locks of the objects that newest points need, once a day, where the settings of a vault ask for it.
//!
//! A vault without such a setting costs no request. A failure is in the status of the database, as something that its vault
//! lacks, until a renewal succeeds.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::control::Actions;
use crate::fleet::Seen;

/// How often the databases are looked through.
const LOOK: Duration = Duration::from_secs(3600);

/// The same, while a database isn't open yet.
const SOON: Duration = Duration::from_secs(10);

/// How long a renewal suffices. A lock lasts at least a day longer than what is asked.
const SUFFICES: Duration = Duration::from_secs(24 * 3600);

/// Renews until the task ends.
pub(super) async fn renew(actions: Arc<Actions>) {
    let mut renewed: HashMap<String, Instant> = HashMap::new();
    loop {
        let members = actions.fleet().all();
        let is_due = |member: &&Seen| is_due(renewed.get(&member.config.name).map(Instant::elapsed));
        let due: Vec<Seen> = members.iter().filter(is_due).cloned().collect();
        for member in due {
            if renew_one(&member).await {
                renewed.insert(member.config.name, Instant::now());
            }
        }
        renewed.retain(|name, _| members.iter().any(|member| member.config.name == *name));
        tokio::time::sleep(if members.iter().any(|member| member.coming) { SOON } else { LOOK }).await;
    }
}

/// Whether the locks of a database are to be looked at, whose locks were renewed so long ago.
fn is_due(passed: Option<Duration>) -> bool {
    // A look takes a moment: a day later it shall not be a second too early.
    passed.is_none_or(|passed| passed + LOOK / 2 >= SUFFICES)
}

/// Renews the locks of a database. Returns whether there is anything to renew, and it was.
async fn renew_one(member: &Seen) -> bool {
    let Some(engine) = &member.engine else { return false };
    let database = &member.config.name;
    match engine.history().renew_locks().await {
        Ok(Some(until)) => {
            tracing::info!(database, %until, "the objects of the newest point are locked");
            true
        }
        Ok(None) => false,
        Err(failure) => {
            tracing::warn!(database, code = failure.code, next = failure.next, "locks were not renewed: {failure}");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn once_a_day() {
        let hours = |hours: u64| Duration::from_secs(hours * 3600);
        for (passed, expected) in [
            (None, true),
            (Some(hours(0)), false),
            (Some(hours(23)), false),
            (Some(hours(24) - Duration::from_secs(1)), true),
            (Some(hours(24)), true),
            (Some(hours(240)), true),
        ] {
            assert_eq!(is_due(passed), expected, "{passed:?}");
        }
    }
}
