//! A database on its way into the fleet. It takes its file, its name and its place at once. So no other request has to
//! wait while the database is opened, or restored for hours.

use seawall_core::{Failure, Shutdown};

use super::{Entry, Fleet, Member, Origin, State, clash, starting, stopping, unknown};
use crate::config::{DatabaseConfig, SourceName};
use crate::process::protect::restore_missing;

/// A member that is being opened. Dropped before [`Coming::settle`], it leaves no member.
pub(crate) struct Coming {
    fleet: Fleet,
    config: DatabaseConfig,
    origin: Origin,
    order: u64,
    shutdown: Shutdown,
}

impl Drop for Coming {
    fn drop(&mut self) {
        let (mut entries, source) = (self.fleet.entries(), self.config.source());
        if entries.by_source.get(&source).is_some_and(|entry| self.is_mine(entry)) {
            entries.forget(&source);
        }
    }
}

impl Coming {
    /// Whether `entry` is the entry of this database, and still coming.
    fn is_mine(&self, entry: &Entry) -> bool {
        entry.order == self.order && entry.is_coming()
    }

    /// Opens the database, once no look into a folder can open its file any more.
    pub(crate) async fn open(&self) -> Member {
        let (config, origin) = (self.config.clone(), self.origin);
        match self.fleet.0.looks.end_before(&config).await {
            Ok(()) => Member::open(&*self.fleet.0.databases, config, origin, false).await,
            Err(failure) => {
                crate::process::log_failure(&config.name, &failure);
                Member { config, origin, engine: Err(failure) }
            }
        }
    }

    /// Makes the database a member like any other, and starts it.
    ///
    /// # Errors
    /// When it was removed meanwhile, and why it isn't protected.
    pub(super) fn settle(self, member: Member) -> Result<(), Failure> {
        let source = self.config.source();
        {
            let mut entries = self.fleet.entries();
            let entry = entries.by_source.get_mut(&source).filter(|entry| self.is_mine(entry));
            let entry = entry.ok_or_else(|| unknown(&source.to_string()))?;
            // A reload may have changed the origin meanwhile.
            (entry.member, entry.state) = (Member { origin: entry.member.origin, ..member }, State::Stopped);
        }
        self.fleet.spawn(&source).map(drop)
    }

    /// Opens the database, restores it if its file is missing and `restore-if-missing` says so, and starts it. A
    /// database that can't be opened or restored becomes a member with its failure, so that the status shows it.
    ///
    /// # Errors
    /// When it was removed meanwhile, when the process is ending, and why it isn't protected.
    pub(crate) async fn arrive(self) -> Result<(), Failure> {
        let member = self.open().await;
        self.finish(member).await
    }

    /// The same for a database that is open already, or could not be opened.
    pub(crate) async fn finish(self, mut member: Member) -> Result<(), Failure> {
        self.fleet.restore(&mut member, &self.shutdown).await?;
        self.settle(member)
    }
}

/// Marks a stopped member as coming. When this is dropped, the member is stopped again.
struct Again<'a> {
    fleet: &'a Fleet,
    source: &'a SourceName,
    order: u64,
}

impl Drop for Again<'_> {
    fn drop(&mut self) {
        let mut entries = self.fleet.entries();
        let entry = entries.by_source.get_mut(self.source);
        if let Some(entry) = entry.filter(|entry| entry.order == self.order && entry.is_coming()) {
            entry.state = State::Stopped;
        }
    }
}

impl Fleet {
    /// Restores a member that isn't running, if its file is missing, before it is started. Meanwhile the member is
    /// coming: it can be removed, and no other request starts it. Afterwards it is stopped again, also if the request
    /// is dropped.
    ///
    /// # Errors
    /// When it runs or is coming already, when it was removed meanwhile, and when the process is ending.
    pub(super) async fn restore_again(&self, source: &SourceName, member: &mut Member) -> Result<(), Failure> {
        let shutdown = self.0.shutdown.child();
        let order = {
            let mut entries = self.entries();
            let entry = entries.by_source.get_mut(source).ok_or_else(|| unknown(&source.to_string()))?;
            if entry.is_coming() || entry.is_running() {
                return Err(starting(&entry.member.config.name));
            }
            entry.state = State::Coming(shutdown.clone());
            entry.order
        };
        let _again = Again { fleet: self, source, order };
        self.restore(member, &shutdown).await
    }

    /// Takes in a database that is still to be opened.
    ///
    /// # Errors
    /// When another member has its file, its name or its place, and when the process is ending.
    pub(crate) fn expect(&self, config: DatabaseConfig, origin: Origin) -> Result<Coming, Failure> {
        self.check_lasting(&config.name)?;
        let shutdown = self.0.shutdown.child();
        let mut entries = self.entries();
        if let Some(failure) = clash(&entries, &config) {
            return Err(failure);
        }
        entries.next += 1;
        let order = entries.next;
        let member = Member { config: config.clone(), origin, engine: Err(starting(&config.name)) };
        entries.put(&config.source(), Entry { order, member, state: State::Coming(shutdown.clone()) });
        drop(entries);
        Ok(Coming { fleet: self.clone(), config, origin, order, shutdown })
    }

    /// [`Fleet::expect`], and [`Coming::arrive`].
    pub(crate) async fn bring(&self, config: DatabaseConfig, origin: Origin) -> Result<(), Failure> {
        self.expect(config, origin)?.arrive().await
    }

    /// Removes a member that is still coming; answers whether it was coming.
    pub(super) fn give_up(&self, source: &SourceName) -> bool {
        let mut entries = self.entries();
        let Some(State::Coming(shutdown)) = entries.by_source.get(source).map(|entry| entry.state.clone()) else {
            return false;
        };
        shutdown.begin();
        entries.forget(source).is_some()
    }

    /// Restores a member if its file is missing and `restore-if-missing` says so. Ends at `shutdown`.
    pub(super) async fn restore(&self, member: &mut Member, shutdown: &Shutdown) -> Result<(), Failure> {
        let name = member.config.name.clone();
        let opener = self.prover();
        let restoring = (self.journal(), opener.as_deref());
        tokio::select! {
            biased;
            () = restore_missing(std::slice::from_mut(member), &self.0.restores, restoring) => Ok(()),
            () = shutdown.graceful() => Err(if self.is_stopping() { stopping(&name) } else { unknown(&name) }),
        }
    }
}
