//! Reading events: one inotify descriptor for the process.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Weak;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::{Arc, Duration, Folders, OsStr, Path, Shared, Watched, io};

/// How long to wait before the next read of events after a read failed.
const REST: Duration = Duration::from_secs(10);

/// How long to let events collect after some were read.
const CALM: Duration = Duration::from_millis(10);

/// File systems on which changes made elsewhere raise no event here: NFS, SMB, FUSE (virtiofs too), 9p, Ceph, Lustre.
const WITHOUT_EVENTS: [u64; 7] = [0x6969, 0xFF53_4D42, 0xFE53_4D42, 0x6573_5546, 0x0102_1997, 0x00C3_6400, 0x0BD0_0BD0];

/// Whether the file system of a folder raises an event for every change, including changes by other hosts.
pub fn tells_of_changes(folder: &Path) -> bool {
    let found = rustix::fs::statfs(folder);
    found.is_ok_and(|found| !WITHOUT_EVENTS.contains(&(found.f_type.cast_unsigned() & 0xFFFF_FFFF)))
}

impl Shared {
    pub(super) fn open() -> io::Result<Self> {
        let events = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        Ok(Self { folders: Default::default(), events: Some(Arc::new(events)) })
    }

    pub(super) fn watch(&self, folders: &mut Folders, folder: &Path) {
        let Some(events) = &self.events else { return };
        let local = tells_of_changes(folder);
        let flags = WatchFlags::MODIFY
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVE_SELF;
        let watched = match inotify::add_watch(events, folder, flags | WatchFlags::ONLYDIR) {
            Ok(watch) if local => {
                let paths = folders.by_watch.entry(watch).or_default();
                if !paths.iter().any(|path| path == folder) {
                    paths.push(folder.to_owned());
                }
                Watched::Yes
            }
            Ok(_) => {
                tracing::info!(folder = %folder.display(), "a file system without events: polling");
                Watched::Never
            }
            Err(Errno::NOENT | Errno::NOTDIR) => Watched::Lost,
            Err(error) => {
                tracing::warn!(
                    folder = %folder.display(), %error,
                    "no events for this folder: polling; raising fs.inotify.max_user_watches helps"
                );
                Watched::Never
            }
        };
        if let Some(entry) = folders.by_path.get_mut(folder) {
            entry.watched = watched;
        }
    }

    pub(super) fn unwatch(&self, folders: &mut Folders, folder: &Path) {
        let Some(events) = &self.events else { return };
        folders.by_watch.retain(|watch, paths| {
            paths.retain(|path| path != folder);
            if paths.is_empty() {
                // Fails when the folder is gone, because the watch is gone too.
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
                self.wake_all_of(|_| true);
                continue;
            }
            let paths = self.lock().by_watch.get(&event.wd()).cloned().unwrap_or_default();
            if event.events().intersects(ReadFlags::IGNORED | ReadFlags::MOVE_SELF) {
                // The folder was removed, unmounted or renamed. Its databases are looked at now, and polled until the
                // folder is back.
                self.lock().by_watch.remove(&event.wd());
                if event.events().contains(ReadFlags::MOVE_SELF) {
                    // The old watch would report changes of another folder now. The removal fails if the folder is gone
                    // as well.
                    let _gone_anyway = inotify::remove_watch(events, event.wd());
                }
                self.lose(&paths);
                self.wake_all_of(|path| paths.iter().any(|gone| gone == path));
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
        entry.listeners.iter().for_each(|listener| listener.heard(file));
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
        // Unread events that are equal merge into one. So a fast writer wakes this task a hundred times a second, not
        // at each of its writes. The first event after silence is not delayed.
        tokio::time::sleep(CALM).await;
    }
}

/// Waits until there is an event. The descriptor is registered with the runtime only during this wait: the runtime
/// would otherwise wake at each event, even while no task reads them.
async fn readable(events: &Arc<OwnedFd>) -> io::Result<()> {
    // SAFETY: the descriptor stays open while the AsyncFd has its share of it, nothing else closes or replaces it, and an
    // `OwnedFd` gives the same descriptor at every call.
    let events = unsafe { AsyncFd::register_with_interest(events.clone(), Interest::READABLE) }
        .map_err(|error| error.into_parts().1)?;
    events.readable().await?.retain_ready();
    Ok(())
}
