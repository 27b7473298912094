//! Noticing that a database changed, without asking it.
//!
//! One inotify descriptor for the process and one watch for each distinct folder: a new WAL file escapes a watch on
//! the old one, and many databases in one folder cost one watch. An event is only a hint that wakes whoever protects
//! the database; the truth is in the WAL. A sweep looks at everyone now and then, so that lost events, an overflowed
//! queue or a file system without events delay a change and never lose it (I6: one timer and one thread for the process,
//! which wake only whom there is something for).

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

/// Wakes whoever protects a database when something happened to its files. Cheap to clone.
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
    /// One folder may have several names.
    by_watch: HashMap<i32, Vec<PathBuf>>,
}

#[derive(Default)]
struct Folder {
    /// By the name of the database file.
    databases: HashMap<OsString, Vec<Arc<Waiting>>>,
    /// Whether events come from this folder.
    watched: bool,
}

/// Whoever protects a database, waiting.
#[derive(Default)]
struct Waiting {
    notify: Notify,
    /// Whether it is worth waking for the sweep; without one it always is.
    glance: Mutex<Option<Glance>>,
}

/// A look at a database that costs a few system calls. May block.
pub(crate) type Glance = Box<dyn Fn() -> bool + Send>;

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
        // The maps are whole between any two statements, so a panic elsewhere leaves nothing to be afraid of.
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
    pub(crate) fn subscribe(&self, database: &Path) -> Subscription {
        let folder = match database.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        let name = database.file_name().unwrap_or_default().to_owned();
        let waiting = Arc::new(Waiting::default());
        let mut folders = self.shared.lock();
        let entry = folders.by_path.entry(folder.clone()).or_default();
        entry.databases.entry(name.clone()).or_default().push(waiting.clone());
        if !entry.watched {
            self.shared.watch(&mut folders, &folder);
        }
        let evented = folders.by_path.get(&folder).is_some_and(|folder| folder.watched);
        Subscription { shared: self.shared.clone(), folder, name, waiting, evented }
    }
}

/// Waits for hints about one database.
pub(crate) struct Subscription {
    shared: Arc<Shared>,
    folder: PathBuf,
    name: OsString,
    waiting: Arc<Waiting>,
    evented: bool,
}

impl Subscription {
    /// Returns at the next hint, at once if there was one since the last call.
    pub(crate) async fn changed(&self) {
        self.waiting.notify.notified().await;
    }

    /// Like [`Subscription::changed`], but the sweep is a hint only if `glance` finds something.
    pub(crate) async fn changed_unless_idle(&self, glance: Glance) {
        // What the glance holds, the open database among it, may not outlive the wait.
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

    /// Whether events come from the database's folder; otherwise it must be polled.
    pub(crate) fn has_events(&self) -> bool {
        self.evented
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut folders = self.shared.lock();
        let Some(folder) = folders.by_path.get_mut(&self.folder) else { return };
        if let Some(waiting) = folder.databases.get_mut(&self.name) {
            waiting.retain(|other| !Arc::ptr_eq(other, &self.waiting));
            if waiting.is_empty() {
                folder.databases.remove(&self.name);
            }
        }
        if folder.databases.is_empty() {
            folders.by_path.remove(&self.folder);
            self.shared.unwatch(&mut folders, &self.folder);
        }
    }
}

async fn sweeping(shared: std::sync::Weak<Shared>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        let Some(shared) = shared.upgrade() else { return };
        let everyone: Vec<Arc<Waiting>> =
            shared.lock().by_path.values().flat_map(|folder| folder.databases.values().flatten().cloned()).collect();
        let sweep = move || everyone.iter().for_each(|waiting| waiting.sweep());
        if let Err(error) = tokio::task::spawn_blocking(sweep).await {
            tracing::error!(%error, "the sweep ended early");
        }
    }
}

#[cfg(target_os = "linux")]
mod inotify {
    use std::mem::MaybeUninit;
    use std::os::fd::OwnedFd;
    use std::os::unix::ffi::OsStrExt;
    use std::sync::Weak;

    use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
    use rustix::io::Errno;
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    use super::{Arc, Duration, Folders, OsStr, Path, Shared, io};

    /// How long to wait before events are asked for again after that failed.
    const REST: Duration = Duration::from_secs(10);

    /// How long to let events collect after some were read.
    const CALM: Duration = Duration::from_millis(10);

    /// File systems on which changes made elsewhere raise no event here: NFS, SMB, FUSE (virtiofs too), 9p, Ceph, Lustre.
    const WITHOUT_EVENTS: [u64; 7] =
        [0x6969, 0xFF53_4D42, 0xFE53_4D42, 0x6573_5546, 0x0102_1997, 0x00C3_6400, 0x0BD0_0BD0];

    impl Shared {
        pub(super) fn open() -> io::Result<Self> {
            let events = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
            Ok(Self { folders: Default::default(), events: Some(Arc::new(events)) })
        }

        pub(super) fn watch(&self, folders: &mut Folders, folder: &Path) {
            let Some(events) = &self.events else { return };
            let local = rustix::fs::statfs(folder)
                .is_ok_and(|found| !WITHOUT_EVENTS.contains(&(found.f_type.cast_unsigned() & 0xFFFF_FFFF)));
            let flags = WatchFlags::MODIFY
                | WatchFlags::CREATE
                | WatchFlags::DELETE
                | WatchFlags::MOVED_FROM
                | WatchFlags::MOVED_TO;
            match inotify::add_watch(events, folder, flags | WatchFlags::ONLYDIR) {
                Ok(watch) if local => {
                    folders.by_watch.entry(watch).or_default().push(folder.to_owned());
                    if let Some(entry) = folders.by_path.get_mut(folder) {
                        entry.watched = true;
                    }
                }
                Ok(_) => tracing::info!(folder = %folder.display(), "a file system without events: polling"),
                Err(Errno::NOENT | Errno::NOTDIR) => {}
                Err(error) => tracing::warn!(
                    folder = %folder.display(), %error,
                    "no events for this folder: polling; raising fs.inotify.max_user_watches helps"
                ),
            }
        }

        pub(super) fn unwatch(&self, folders: &mut Folders, folder: &Path) {
            let Some(events) = &self.events else { return };
            folders.by_watch.retain(|watch, paths| {
                paths.retain(|path| path != folder);
                if paths.is_empty() {
                    // Fails when the folder is gone, and with it the watch.
                    let _gone_anyway = inotify::remove_watch(events, *watch);
                }
                !paths.is_empty()
            });
        }

        fn take_events(&self, events: &OwnedFd) -> io::Result<()> {
            let mut buffer = [MaybeUninit::uninit(); 16 << 10];
            let mut reader = Reader::new(events, &mut buffer);
            loop {
                let event = match reader.next() {
                    Ok(event) => event,
                    Err(Errno::INTR) => continue,
                    Err(Errno::WOULDBLOCK) => return Err(io::ErrorKind::WouldBlock.into()),
                    Err(error) => return Err(error.into()),
                };
                if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                    self.wake(|_, _| true);
                    continue;
                }
                let paths = self.lock().by_watch.get(&event.wd()).cloned().unwrap_or_default();
                if event.events().contains(ReadFlags::IGNORED) {
                    // The folder was removed or unmounted: its databases are looked at, and polled by the sweep.
                    self.lock().by_watch.remove(&event.wd());
                    self.wake(|path, _| paths.iter().any(|gone| gone == path));
                    continue;
                }
                if let Some(file) = event.file_name() {
                    let file = OsStr::from_bytes(file.to_bytes());
                    paths.iter().for_each(|folder| self.wake_one(folder, file));
                }
            }
        }

        fn wake_one(&self, folder: &Path, file: &OsStr) {
            let folders = self.lock();
            let Some(entry) = folders.by_path.get(folder) else { return };
            // An event on `x-wal` is about `x`, unless a database itself has that name.
            let base = file.as_bytes().strip_suffix(b"-wal").map(OsStr::from_bytes);
            for name in [Some(file), base].into_iter().flatten() {
                if let Some(waiting) = entry.databases.get(name) {
                    waiting.iter().for_each(|waiting| waiting.notify.notify_one());
                }
            }
        }
    }

    pub(super) async fn deliver(shared: Weak<Shared>, events: Arc<OwnedFd>) {
        loop {
            let ready = readable(&events).await;
            let Some(shared) = shared.upgrade() else { return };
            match ready.and_then(|()| shared.take_events(&events)) {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                    tracing::error!(%error, "reading file events failed: relying on the sweep until they come again");
                    tokio::time::sleep(REST).await;
                }
                Ok(()) | Err(_) => {}
            }
            drop(shared);
            // Equal events that nobody has read yet are one: a fast writer wakes us a hundred times a second, not at
            // each of its writes. The first event after silence is not held up.
            tokio::time::sleep(CALM).await;
        }
    }

    /// Waits until there is an event. The runtime knows of the descriptor for that long only: it would wake at each event,
    /// also while nobody wants to read them.
    async fn readable(events: &Arc<OwnedFd>) -> io::Result<()> {
        // SAFETY: the descriptor stays open while the AsyncFd has its share of it, nothing else closes or replaces it, and an
        // `OwnedFd` gives the same descriptor at every call.
        let events = unsafe { AsyncFd::register_with_interest(events.clone(), Interest::READABLE) }
            .map_err(|error| error.into_parts().1)?;
        events.readable().await?.retain_ready();
        Ok(())
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
