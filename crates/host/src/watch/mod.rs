//! Noticing that a database changed, without opening it.
//!
//! The process has one inotify descriptor and one watch for each distinct folder. A watch on a WAL file would miss the
//! file that replaces it, and many databases in one folder cost one watch. An event is only a hint that wakes the task
//! that protects the database; the truth is in the database's files.
//!
//! A periodic sweep looks at every database. Lost events, an overflowed queue or a file system without events therefore
//! delay a change and never lose it. The sweep costs one timer and one thread for the process, and it wakes only the
//! tasks whose database changed (I6). It also watches a folder again that was missing, or whose watch was lost. A
//! subscriber to a vault in a local folder gets the names that came and went in the whole folder.

#[cfg(target_os = "linux")]
mod inotify;
mod names;

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

#[cfg(target_os = "linux")]
pub use self::inotify::tells_of_changes;
use self::names::Listener;
pub use self::names::{FolderSubscription, Heard};
use crate::folder::folder_of;

/// Wakes the task that protects a database when something happened to its files. Cheap to clone.
#[derive(Clone)]
pub struct Watcher {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    folders: Mutex<Folders>,
    #[cfg(target_os = "linux")]
    events: Option<Arc<std::os::fd::OwnedFd>>,
}

#[derive(Default)]
struct Folders {
    by_path: HashMap<PathBuf, Folder>,
    #[cfg(target_os = "linux")]
    /// The paths of the folder behind each watch; one folder may have several.
    by_watch: HashMap<i32, Vec<PathBuf>>,
}

#[derive(Default)]
struct Folder {
    /// By the name of the database file.
    databases: HashMap<OsString, Vec<Arc<Waiting>>>,
    /// Subscribers to the whole folder.
    listeners: Vec<Arc<Listener>>,
    watched: Watched,
}

/// Whether the system raises events for a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Watched {
    /// Not now: the folder doesn't exist yet, or was removed. The sweep tries again.
    #[default]
    Lost,
    /// Never: the folder's file system can't raise them.
    Never,
    /// Yes.
    Yes,
}

/// A waiting task that protects a database.
#[derive(Default)]
struct Waiting {
    notify: Notify,
    /// Decides whether the sweep wakes the task; without a glance it always does.
    glance: Mutex<Option<Glance>>,
}

/// A quick check of a database that costs a few system calls. May block.
pub type Glance = Box<dyn Fn() -> bool + Send>;

impl Waiting {
    fn glance(&self) -> MutexGuard<'_, Option<Glance>> {
        self.glance.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sweep(&self) {
        if self.glance().as_ref().is_none_or(|glance| glance()) {
            self.notify.notify_one();
        }
    }
}

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watcher").field("folders", &self.shared.lock().by_path.len()).finish()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Folders> {
        // Every statement leaves the maps consistent, so a panic of another thread can't have broken them.
        self.folders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self, matches: impl Fn(&Path, &OsStr) -> bool) {
        for (path, folder) in &self.lock().by_path {
            for (name, waiting) in &folder.databases {
                if matches(path, name) {
                    waiting.iter().for_each(|waiting| waiting.notify.notify_one());
                }
            }
        }
    }

    /// Wakes every subscriber of the folders that match: a change happened, and no event says which.
    fn wake_all_of(&self, matches: impl Fn(&Path) -> bool) {
        self.wake(|path, _| matches(path));
        for (path, folder) in &self.lock().by_path {
            if matches(path) {
                folder.listeners.iter().for_each(|listener| listener.lost());
            }
        }
    }

    /// Stops watching folders that are gone.
    fn lose(&self, paths: &[PathBuf]) {
        let mut folders = self.lock();
        for path in paths {
            if let Some(folder) = folders.by_path.get_mut(path) {
                folder.watched = Watched::Lost;
            }
        }
    }

    /// Tries again to watch folders that were not there, or went. Blocks.
    fn watch_again(&self) {
        let mut folders = self.lock();
        let is_lost = |(path, folder): (&PathBuf, &Folder)| (folder.watched == Watched::Lost).then(|| path.clone());
        let lost: Vec<PathBuf> = folders.by_path.iter().filter_map(is_lost).collect();
        for path in lost {
            self.watch(&mut folders, &path);
            let back = folders.by_path.get(&path).filter(|folder| folder.watched == Watched::Yes);
            // The new watch doesn't report changes from before it was set.
            back.iter().for_each(|folder| folder.listeners.iter().for_each(|listener| listener.lost()));
        }
    }

    fn is_watched(&self, folder: &Path) -> bool {
        self.lock().by_path.get(folder).is_some_and(|folder| folder.watched == Watched::Yes)
    }

    /// Forgets a folder that has no subscription any more.
    fn forget_if_silent(&self, folders: &mut Folders, path: &Path) {
        let silent = |folder: &Folder| folder.databases.is_empty() && folder.listeners.is_empty();
        if folders.by_path.get(path).is_some_and(silent) {
            folders.by_path.remove(path);
            self.unwatch(folders, path);
        }
    }
}

impl Watcher {
    /// Starts watching for this process. Must be called inside the runtime, whose tasks deliver the events and the
    /// sweep (every `sweep`).
    ///
    /// # Errors
    ///
    /// When the system has no inotify instance left (`fs.inotify.max_user_instances`).
    pub fn start(sweep: Duration) -> io::Result<Self> {
        let watcher = Self { shared: Arc::new(Shared::open()?) };
        tokio::spawn(sweeping(Arc::downgrade(&watcher.shared), sweep));
        #[cfg(target_os = "linux")]
        if let Some(events) = watcher.shared.events.clone() {
            tokio::spawn(inotify::deliver(Arc::downgrade(&watcher.shared), events));
        }
        Ok(watcher)
    }

    /// Begins to watch the files of one database, which need not exist yet.
    pub fn subscribe(&self, database: &Path) -> Subscription {
        self.subscribe_with(database, &[])
    }

    /// The same, for the links that lead to the database too: a switched link is also a hint.
    pub fn subscribe_with(&self, database: &Path, links: &[PathBuf]) -> Subscription {
        let waiting = Arc::new(Waiting::default());
        let mut folders = self.shared.lock();
        let mut enter = |path: &Path| {
            let folder = folder_of(path).to_owned();
            let name = path.file_name().unwrap_or_default().to_owned();
            let entry = folders.by_path.entry(folder.clone()).or_default();
            entry.databases.entry(name.clone()).or_default().push(waiting.clone());
            if entry.watched == Watched::Lost {
                self.shared.watch(&mut folders, &folder);
            }
            (folder, name)
        };
        let place = enter(database);
        let links = links.iter().map(|link| enter(link)).collect();
        Subscription { shared: self.shared.clone(), place, links, waiting }
    }

    /// Subscribes to the names in a folder, which need not exist yet. The subscriber gets only the names that
    /// `concerns` accepts.
    pub fn subscribe_folder(&self, folder: &Path, concerns: fn(&OsStr) -> bool) -> FolderSubscription {
        let folder = folder.to_owned();
        let listener = Arc::new(Listener::new(concerns));
        let mut folders = self.shared.lock();
        let entry = folders.by_path.entry(folder.clone()).or_default();
        entry.listeners.push(listener.clone());
        if entry.watched == Watched::Lost {
            self.shared.watch(&mut folders, &folder);
        }
        drop(folders);
        FolderSubscription::new(self.shared.clone(), folder, listener)
    }
}

/// Waits for hints about one database.
pub struct Subscription {
    shared: Arc<Shared>,
    /// Folder and name of the database.
    place: (PathBuf, OsString),
    /// Folder and name of each link that leads to the database.
    links: Vec<(PathBuf, OsString)>,
    waiting: Arc<Waiting>,
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("place", &self.place).field("links", &self.links).finish()
    }
}

impl Subscription {
    /// Returns at the next hint, at once if there was one since the last call.
    pub async fn changed(&self) {
        self.waiting.notify.notified().await;
    }

    /// Like [`Subscription::changed`], but the sweep is a hint only if `glance` finds something.
    pub async fn changed_unless_idle(&self, glance: Glance) {
        // The glance, and the open database that it holds, must not outlive the wait.
        struct Clear<'a>(&'a Waiting);
        impl Drop for Clear<'_> {
            fn drop(&mut self) {
                self.0.glance().take();
            }
        }
        *self.waiting.glance() = Some(glance);
        let _clear = Clear(&self.waiting);
        self.changed().await;
    }

    /// Whether events come from the database's folder now; otherwise it must be polled.
    pub fn has_events(&self) -> bool {
        self.shared.is_watched(&self.place.0)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut folders = self.shared.lock();
        for (path, name) in std::iter::once(&self.place).chain(&self.links) {
            let Some(folder) = folders.by_path.get_mut(path) else { continue };
            if let Some(waiting) = folder.databases.get_mut(name) {
                waiting.retain(|other| !Arc::ptr_eq(other, &self.waiting));
                if waiting.is_empty() {
                    folder.databases.remove(name);
                }
            }
            self.shared.forget_if_silent(&mut folders, path);
        }
    }
}

async fn sweeping(shared: std::sync::Weak<Shared>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        let Some(shared) = shared.upgrade() else { return };
        if tokio::task::spawn_blocking({
            let shared = shared.clone();
            move || shared.watch_again()
        })
        .await
        .is_err()
        {
            tracing::error!("folders could not be watched again");
        }
        let mut everyone: Vec<Arc<Waiting>> =
            shared.lock().by_path.values().flat_map(|folder| folder.databases.values().flatten().cloned()).collect();
        // A database that links lead to is listed in several folders.
        everyone.sort_unstable_by_key(|waiting| Arc::as_ptr(waiting).addr());
        everyone.dedup_by(|one, other| Arc::ptr_eq(one, other));
        let sweep = move || everyone.iter().for_each(|waiting| waiting.sweep());
        if let Err(error) = tokio::task::spawn_blocking(sweep).await {
            tracing::error!(%error, "the sweep ended early");
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl Shared {
    fn open() -> io::Result<Self> {
        Ok(Self::default())
    }

    fn watch(&self, _: &mut Folders, _: &Path) {}

    fn unwatch(&self, _: &mut Folders, _: &Path) {}
}

/// Whether the file system of a folder tells of every change that is made to it, also by other hosts.
#[cfg(not(target_os = "linux"))]
pub fn tells_of_changes(_: &Path) -> bool {
    false
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests are an edge")]
mod tests {
    use super::*;

    #[tokio::test]
    async fn writes_to_the_wal_and_a_replaced_file_wake_only_their_database() {
        let directory = tempfile::tempdir().expect("a folder");
        let watcher = Watcher::start(Duration::from_secs(3600)).expect("inotify");
        let (one, two) = (directory.path().join("one.db"), directory.path().join("two.db"));
        let (first, second) = (watcher.subscribe(&one), watcher.subscribe(&two));
        for file in ["one.db-wal", "one.db"] {
            std::fs::write(directory.path().join(file), b"x").expect("written");
            tokio::time::timeout(Duration::from_secs(10), first.changed()).await.expect("woken");
        }
        std::fs::write(directory.path().join("one.db-shm"), b"x").expect("written");
        std::fs::write(directory.path().join("two.db-wal"), b"x").expect("written");
        tokio::time::timeout(Duration::from_secs(10), second.changed()).await.expect("woken");
        drop((first, second));
        assert!(watcher.shared.lock().by_path.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn the_sweep_wakes_everyone() {
        let watcher = Watcher::start(Duration::from_secs(60)).expect("inotify");
        let waiting = watcher.subscribe(Path::new("/nowhere/at/all.db"));
        waiting.changed().await;
        assert!(!waiting.has_events());
    }
}
