//! Looks again at what the session sent: is it still there, and is it the newest of its name?
//!
//! Each listing answers both questions; it costs no further request. A snapshot that a listing lacks is asked for once
//! more by its name, because an event may come before the listing does. What is lost is sent again by itself.

use std::collections::BTreeSet;
use std::time::Duration;

use seawall_core::Failure;
use seawall_vault::ObjectKey;
use tokio::time::Instant;

use super::{Session, rest};
use crate::Stamp;
use crate::error::Error;
use crate::peers::latest::snapshots;
use crate::peers::own::{self, Fate};

/// Names of our own snapshots that are kept, whether they are in the vault or not.
const NAMES: usize = 256;

/// How long a rival is told after its last snapshot.
const RIVAL: Duration = Duration::from_secs(600);

/// What the session knows about its own snapshots.
#[derive(Debug, Default)]
pub(super) struct Own {
    /// The newest one; `None` before the first, and while a lost one isn't sent again.
    pub(super) sent: Option<own::Sent>,
    /// The time of the first one.
    first: Option<Stamp>,
    /// Names with our instance that were there at the start, or that we sent.
    names: BTreeSet<String>,
    /// When the loss of one was noticed, until it is told no more.
    lost: Option<Instant>,
    /// The last snapshot of another process with our name, and when it was seen.
    rival: Option<(String, Instant)>,
}

impl Session {
    /// Takes the snapshots with our name that are there at the start for our own.
    pub(super) fn adopt_own(&mut self) {
        let instance = &self.options.author.instance;
        let own = self.listing.snapshots.iter().filter(|snapshot| snapshot.name.instance == *instance);
        self.own.names.extend(own.map(|snapshot| snapshot.key.clone()));
    }

    /// Notes a snapshot that is about to be sent. It may appear although its upload seems to fail, also later.
    pub(super) fn note_sending(&mut self, key: &str, stamp: Stamp) {
        self.own.first.get_or_insert(stamp);
        self.own.names.insert(key.to_owned());
    }

    /// Notes a snapshot that was sent just now.
    pub(super) fn note_sent(&mut self, sent: own::Sent) {
        let listed = snapshots(&self.options.author.database, [(sent.key.as_str(), sent.bytes)]);
        self.listing.snapshots.extend(listed);
        self.own.sent = Some(sent);
    }

    /// Compares a new listing with what was sent.
    pub(super) async fn check_own(&mut self) -> Result<(), Error> {
        self.forget_names();
        self.look_for_rival();
        let Some(sent) = self.own.sent.clone() else { return Ok(()) };
        let (instance, gone) = (&self.options.author.instance, self.options.clean.map(|rules| rules.gone));
        let mut fate = own::fate(&sent, instance, &self.listing.snapshots, gone, (self.clock)());
        if fate == Fate::Missing
            && let Some(found) = self.vault.head(&ObjectKey::new(&sent.key)?).await?
        {
            let listed = snapshots(&self.options.author.database, [(sent.key.as_str(), found.size)]);
            self.listing.snapshots.extend(listed);
            fate = if found.size == sent.bytes { Fate::There } else { Fate::Cut(found.size) };
        }
        let what = match fate {
            Fate::There => return Ok(()),
            Fate::Cleaned => {
                let rivals = self.own.rival.is_some();
                tracing::info!(object = sent.key, "our newest snapshot was deleted because it is old");
                // Beside a rival it would only be deleted again.
                (self.own.sent, self.unsent) = (None, self.unsent || !rivals);
                return Ok(());
            }
            Fate::Cut(found) => format!("it has {found} bytes, and {} were written", sent.bytes),
            Fate::Missing => "it is gone".to_owned(),
        };
        self.lose(Error::Lost { object: self.vault.object(&ObjectKey::new(&sent.key)?), what });
        Ok(())
    }

    /// Tells of a loss, and has a snapshot sent.
    pub(super) fn lose(&mut self, error: Error) {
        let failure = Failure::from(error);
        self.alarm(&failure);
        self.own.lost = Some(Instant::now());
        self.status.send_modify(|status| status.lost += 1);
        // A session that sent nothing has nothing to send again.
        self.unsent |= self.own.sent.take().is_some();
    }

    /// Forgets old names that the vault doesn't have. The newest ones may still appear.
    fn forget_names(&mut self) {
        let Some(oldest) = self.own.names.iter().rev().nth(NAMES).cloned() else { return };
        let listed: BTreeSet<&str> = self.listing.snapshots.iter().map(|snapshot| snapshot.key.as_str()).collect();
        self.own.names.retain(|name| *name > oldest || listed.contains(name.as_str()));
    }

    fn look_for_rival(&mut self) {
        let Some(first) = self.own.first else { return };
        let instance = &self.options.author.instance;
        let Some(rival) = own::rival(&self.listing.snapshots, instance, &self.own.names, first) else { return };
        if self.own.rival.as_ref().is_some_and(|(key, _)| *key == rival.key) {
            return;
        }
        let key = rival.key.clone();
        let object = ObjectKey::new(&key).map(|key| self.vault.object(&key)).unwrap_or_else(|_| key.clone());
        let failure = Failure::from(Error::TwoWriters { object, instance: instance.clone() });
        self.own.rival = Some((key, Instant::now()));
        self.alarm(&failure);
    }

    /// Records an error with which the session goes on.
    fn alarm(&mut self, failure: &Failure) {
        let Failure { code, object, cause, next, .. } = failure;
        tracing::error!(database = self.options.author.database, code, object, cause, next, "going on");
        let now = (self.clock)();
        self.status.send_modify(|status| {
            let count = status.alarms.get(code).map_or(0, |(_, _, count)| *count);
            let since = status.alarms.get(code).map_or(now, |(_, since, _)| *since);
            status.alarms.insert(code, (failure.clone(), since, count + 1));
        });
    }

    /// Ends what is told no more: a loss once a later look has found the new snapshot, a rival once it is silent.
    pub(super) fn end_alarms(&mut self) {
        let mut over = Vec::new();
        if self.own.lost.is_some_and(|at| at.elapsed() >= rest::SWEEP) && !self.unsent {
            self.own.lost = None;
            over.extend(["lmdb.lost", "vault.replaced"]);
        }
        let newest = self.own.sent.as_ref().map(|sent| sent.key.as_str());
        if let Some((key, at)) = &self.own.rival
            && at.elapsed() >= RIVAL
            && newest.is_some_and(|newest| newest > key.as_str())
        {
            self.own.rival = None;
            over.push("lmdb.two-writers");
        }
        if !over.is_empty() {
            self.status.send_modify(|status| status.alarms.retain(|code, _| !over.contains(code)));
        }
    }

    /// The failure of another writer with our name, while it is there.
    pub(super) fn rival(&self) -> Option<Failure> {
        self.status.borrow().alarms.get("lmdb.two-writers").map(|(failure, _, _)| failure.clone())
    }
}
