//! Tells people of alarms: looks at the databases now and then, and hands what it sees to the channels.
//!
//! This is the one timer that a process has for it, and it has it only if a channel is configured. Which messages are due, and
//! how they get there, is the room of `seawall-notify`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use seawall_core::{Phase, Shutdown, Status};
use seawall_notify::{Channel, Sender, Store, Watched, keep_telling};
use tokio::sync::watch;

use crate::control::Actions;

/// How often the alarms are looked at.
const LOOK: Duration = Duration::from_secs(15);

/// Tells the channels until the shutdown.
pub(crate) async fn notify(
    (channels, sender, store): (Vec<Channel>, Sender, Arc<Store>),
    actions: Arc<Actions>,
    shutdown: Shutdown,
) {
    let mut eyes = Eyes::default();
    let (seen, seeing) = watch::channel(eyes.see(&statuses(&actions).await));
    let looking = async {
        loop {
            tokio::time::sleep(LOOK).await;
            let new = eyes.see(&statuses(&actions).await);
            seen.send_if_modified(|old| {
                let differs = *old != new;
                *old = new;
                differs
            });
        }
    };
    tokio::select! {
        () = looking => {}
        () = keep_telling(channels, sender, seeing, store, shutdown.clone()) => {}
    }
}

/// The status of each database, as far as it is known without asking a vault, and of each folder of databases.
async fn statuses(actions: &Actions) -> Vec<Status> {
    let mut all = actions.known_status(&actions.members()).await;
    all.extend(actions.folders().await);
    all
}

/// What was seen at the last look.
#[derive(Debug, Default)]
struct Eyes {
    names: BTreeSet<String>,
}

impl Eyes {
    /// The alarms of all databases. A database that starts isn't judged yet. One that is gone isn't judged at its first absence
    /// either: a reload exchanges a database in two steps.
    fn see(&mut self, all: &[Status]) -> Vec<Watched> {
        let names: BTreeSet<String> = all.iter().map(|status| status.name.clone()).collect();
        let is_open = |status: &Status| status.phase == Phase::Starting && status.alarms.is_empty();
        let one = |status: &Status| Watched {
            database: status.name.clone(),
            alarms: (!is_open(status)).then(|| status.alarms.clone()),
        };
        let absent = self.names.difference(&names).map(|name| Watched { database: name.clone(), alarms: None });
        let mut seen: Vec<Watched> = all.iter().map(one).chain(absent).collect();
        seen.sort_by(|a, b| a.database.cmp(&b.database));
        self.names = names;
        seen
    }
}

#[cfg(test)]
mod tests {
    use seawall_core::{Alarm, Description, Moment, Severity};

    use super::*;

    fn status(name: &str, phase: Phase, alarms: usize) -> Status {
        let description =
            Description { name: name.into(), engine: "stub", source: Some("/app.db".into()), vault: "/v".into() };
        let alarm = Alarm {
            code: "alarm.lag".to_owned(),
            severity: Severity::Warning,
            cause: String::new(),
            next: String::new(),
            since: Moment::default(),
            silenced_until: None,
        };
        Status { alarms: vec![alarm; alarms], ..Status::new(description, phase, Moment::default()) }
    }

    #[test]
    fn what_is_judged() {
        let mut eyes = Eyes::default();
        for (all, expected) in [
            (vec![status("b", Phase::Protecting, 1), status("a", Phase::Starting, 0)], "a? b1"),
            (vec![status("b", Phase::Starting, 1), status("a", Phase::Waiting, 0)], "a0 b1"),
            (vec![status("a", Phase::Waiting, 0)], "a0 b?"),
            (vec![status("a", Phase::Waiting, 0)], "a0"),
        ] {
            let seen = eyes.see(&all);
            let word = |one: &Watched| match &one.alarms {
                Some(alarms) => format!("{}{}", one.database, alarms.len()),
                None => format!("{}?", one.database),
            };
            assert_eq!(seen.iter().map(word).collect::<Vec<_>>().join(" "), expected);
        }
    }
}
