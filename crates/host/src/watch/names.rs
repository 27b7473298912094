//! Subscriptions to a whole folder: which names came, went or were written.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::Shared;

/// The changes in a folder since the last call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// Only these names changed; none if the set is empty.
    Names(BTreeSet<OsString>),
    /// Events were lost: anything may have happened.
    Anything,
}

/// The most names that are kept. After more, the subscriber must look at the whole folder.
const MOST: usize = 1000;

/// The changes that a folder's subscriber hasn't fetched yet.
pub(super) struct Listener {
    notify: Notify,
    concerns: fn(&OsStr) -> bool,
    heard: Mutex<Heard>,
}

impl Listener {
    pub(super) fn new(concerns: fn(&OsStr) -> bool) -> Self {
        // No event reports changes from before the subscription.
        Self { notify: Notify::new(), concerns, heard: Mutex::new(Heard::Anything) }
    }

    fn lock(&self) -> MutexGuard<'_, Heard> {
        // Every statement leaves the content consistent.
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a change of a name.
    pub(super) fn heard(&self, name: &OsStr) {
        if !(self.concerns)(name) {
            return;
        }
        let mut heard = self.lock();
        if let Heard::Names(names) = &mut *heard {
            names.insert(name.to_owned());
            if names.len() > MOST {
                *heard = Heard::Anything;
            }
        }
        drop(heard);
        self.notify.notify_one();
    }

    /// Notes that events were lost.
    pub(super) fn lost(&self) {
        *self.lock() = Heard::Anything;
        self.notify.notify_one();
    }
}

/// Listens to the names in one folder.
pub struct FolderSubscription {
    shared: Arc<Shared>,
    folder: PathBuf,
    listener: Arc<Listener>,
}

impl FolderSubscription {
    pub(super) fn new(shared: Arc<Shared>, folder: PathBuf, listener: Arc<Listener>) -> Self {
        Self { shared, folder, listener }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns when a name changed; at once if a name changed since the last call.
    pub async fn changed(&self) {
        self.listener.notify.notified().await;
    }

    /// The changes since the last call. The first answer is [`Heard::Anything`].
    pub fn take(&self) -> Heard {
        std::mem::replace(&mut *self.listener.lock(), Heard::Names(BTreeSet::new()))
    }

    /// Whether events come from the folder now; otherwise it must be polled.
    pub fn has_events(&self) -> bool {
        self.shared.is_watched(&self.folder)
    }
}

impl fmt::Debug for FolderSubscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FolderSubscription").field("folder", &self.folder).finish()
    }
}

impl Drop for FolderSubscription {
    fn drop(&mut self) {
        let mut folders = self.shared.lock();
        if let Some(folder) = folders.by_path.get_mut(&self.folder) {
            folder.listeners.retain(|other| !Arc::ptr_eq(other, &self.listener));
            self.shared.forget_if_silent(&mut folders, &self.folder);
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests are an edge")]
mod tests {
    use std::time::Duration;

    use super::super::Watcher;
    use super::*;

    const SOON: Duration = Duration::from_secs(60);

    fn is_object(name: &OsStr) -> bool {
        name.as_encoded_bytes().ends_with(b".gz")
    }

    #[tokio::test]
    async fn names_that_concern_the_subscriber_are_told_once() {
        let directory = tempfile::tempdir().expect("a folder");
        let watcher = Watcher::start(Duration::from_secs(3600)).expect("inotify");
        let folder = watcher.subscribe_folder(directory.path(), is_object);
        assert!(folder.has_events());
        assert_eq!(folder.take(), Heard::Anything, "what was there before");
        std::fs::write(directory.path().join("other"), "x").expect("written");
        std::fs::write(directory.path().join("draft"), "x").expect("written");
        std::fs::rename(directory.path().join("draft"), directory.path().join("a.gz")).expect("renamed");
        tokio::time::timeout(SOON, folder.changed()).await.expect("woken");
        assert_eq!(folder.take(), Heard::Names(BTreeSet::from(["a.gz".into()])));
        assert_eq!(folder.take(), Heard::Names(BTreeSet::new()));
    }

    #[tokio::test]
    async fn a_folder_that_is_renamed_is_not_heard_until_it_is_back() {
        let directory = tempfile::tempdir().expect("a folder");
        let (here, there) = (directory.path().join("here"), directory.path().join("there"));
        std::fs::create_dir(&here).expect("made");
        let watcher = Watcher::start(Duration::from_millis(20)).expect("inotify");
        let folder = watcher.subscribe_folder(&here, is_object);
        folder.take();
        std::fs::rename(&here, &there).expect("renamed");
        tokio::time::timeout(SOON, folder.changed()).await.expect("woken");
        assert_eq!((folder.take(), folder.has_events()), (Heard::Anything, false));
        std::fs::create_dir(&here).expect("made");
        std::fs::write(here.join("a.gz"), "x").expect("written");
        tokio::time::timeout(SOON, folder.changed()).await.expect("the sweep watches it again");
        assert_eq!((folder.take(), folder.has_events()), (Heard::Anything, true));
    }
}
