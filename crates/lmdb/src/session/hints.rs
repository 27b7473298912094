//! Hints that wake a session: events of its data file, and of a vault that is a folder.

use std::ffi::OsStr;
use std::path::Path;

use seawall_host::{FolderSubscription, Heard, Subscription, Watcher};

use crate::snapshot::SnapshotName;

/// The sources of hints. Without any of them a session polls at intervals.
#[derive(Debug, Default)]
pub(super) struct Hints {
    data: Option<Subscription>,
    objects: Option<FolderSubscription>,
    /// A commit was found that raised no event, so events of its writer don't arrive.
    missed: bool,
    /// A process writes through memory.
    silent: bool,
}

impl Hints {
    /// Subscribes to the data and, if the vault is a folder, to its objects.
    pub(super) fn new(watcher: Option<&Watcher>, data: &Path, vault: Option<&Path>) -> Self {
        let Some(watcher) = watcher else { return Self::default() };
        let objects = vault.map(|folder| watcher.subscribe_folder(folder, is_snapshot));
        Self { data: Some(watcher.subscribe(data)), objects, missed: false, silent: false }
    }

    /// Returns at the next event.
    pub(super) async fn next(&self) {
        let data = async {
            match &self.data {
                // Only events wake here. The session has a sweep of its own, which distinguishes a commit without an
                // event from a commit with one.
                Some(data) => data.changed_unless_idle(Box::new(|| false)).await,
                None => std::future::pending().await,
            }
        };
        let objects = async {
            match &self.objects {
                Some(objects) => objects.changed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = data => {}
            () = objects => {}
        }
    }

    /// Objects that changed since the last call; `None` if the vault raises no events.
    pub(super) fn objects(&self) -> Option<Heard> {
        self.objects.as_ref().filter(|objects| objects.has_events()).map(FolderSubscription::take)
    }

    /// Whether every commit raises an event.
    pub(super) fn tells_of_commits(&self) -> bool {
        !self.missed && !self.silent && self.data.as_ref().is_some_and(Subscription::has_events)
    }

    /// Whether every new object raises an event.
    pub(super) fn tells_of_objects(&self) -> bool {
        self.objects.as_ref().is_some_and(FolderSubscription::has_events)
    }

    /// Notes that a commit was found that raised no event.
    pub(super) fn missed_a_commit(&mut self) {
        self.missed = true;
    }

    /// Whether a process writes through memory now.
    pub(super) fn has_silent_writers(&mut self, silent: bool) {
        self.silent = silent;
    }
}

fn is_snapshot(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| SnapshotName::parse(name).is_some())
}
