//! Events of a folder and the folders in it: names that came, went or belong to another file now. Writes raise no
//! events here; each engine watches its own database for writes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What events say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Nothing happened.
    Nothing,
    /// Something happened at these places in the folder.
    Paths(BTreeSet<PathBuf>),
    /// Something happened, and it is unknown where.
    Everything,
}

impl Heard {
    /// Both together.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Everything, _) | (_, Self::Everything) => Self::Everything,
            (Self::Nothing, heard) | (heard, Self::Nothing) => heard,
            (Self::Paths(mut paths), Self::Paths(more)) => {
                paths.extend(more);
                Self::Paths(paths)
            }
        }
    }
}

#[cfg(target_os = "linux")]
pub(crate) use linux::Events;

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::HashMap;
    use std::ffi::{OsStr, OsString};
    use std::mem::MaybeUninit;
    use std::os::fd::OwnedFd;
    use std::os::unix::ffi::OsStrExt as _;

    use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
    use rustix::io::Errno;
    use seawall_host::links_on;
    use tokio::io::unix::AsyncFd;

    use super::{BTreeSet, Heard, Path, PathBuf};

    /// What is asked for: names, and the end of the folder itself.
    fn names() -> WatchFlags {
        WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR
    }

    /// The events of a folder.
    #[derive(Debug)]
    pub(crate) struct Events {
        descriptor: AsyncFd<OwnedFd>,
        folders: HashMap<i32, PathBuf>,
        /// The links that lead to the folder, by the folder in which each stands.
        links: HashMap<i32, BTreeSet<OsString>>,
        /// Whether every folder that was asked for is watched.
        complete: bool,
    }

    impl Events {
        /// None yet; `None` where the system has no more to give. Must be called inside the runtime.
        pub(crate) fn open() -> Option<Self> {
            let descriptor = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok()?;
            // SAFETY: the descriptor is owned by the AsyncFd from here on, nothing else closes or replaces it, and an
            // `OwnedFd` gives the same descriptor at every call.
            let descriptor = unsafe { AsyncFd::register(descriptor) }.ok()?;
            Some(Self { descriptor, folders: HashMap::new(), links: HashMap::new(), complete: false })
        }

        /// Whether events come from every folder; otherwise the folder must be polled.
        pub(crate) fn is_complete(&self) -> bool {
            self.complete && !self.folders.is_empty()
        }

        /// Asks for the events of a folder, which is `relative` in the one that is followed.
        pub(crate) fn watch(&mut self, folder: &Path, relative: &Path) {
            if relative.as_os_str().is_empty() {
                self.complete = true;
                self.watch_links(folder);
            }
            let local = seawall_host::tells_of_changes(folder);
            match inotify::add_watch(self.descriptor.get_ref(), folder, names()) {
                Ok(watch) => {
                    self.forget_others(watch, relative);
                    self.folders.insert(watch, relative.to_owned());
                    self.complete &= local;
                }
                // It went in between, which is an event of the folder above.
                Err(Errno::NOENT | Errno::NOTDIR) => self.complete &= !relative.as_os_str().is_empty(),
                Err(error) => {
                    if std::mem::take(&mut self.complete) {
                        tracing::warn!(
                            folder = %folder.display(), %error,
                            "no events for this folder: polling; raising fs.inotify.max_user_watches helps"
                        );
                    }
                }
            }
        }

        /// A link that led to a folder leads to another one now, `watch`: what was watched under that name isn't meant
        /// any more.
        fn forget_others(&mut self, watch: i32, relative: &Path) {
            let is_stale = |(other, name): (&i32, &PathBuf)| (*other != watch && name == relative).then_some(*other);
            for stale in self.folders.iter().filter_map(is_stale).collect::<Vec<_>>() {
                self.folders.remove(&stale);
                if !self.links.contains_key(&stale) {
                    // It fails when the folder is gone as well.
                    let _gone = inotify::remove_watch(self.descriptor.get_ref(), stale);
                }
            }
        }

        /// Asks for the events of the links that lead to the folder: one that is switched makes it another folder.
        fn watch_links(&mut self, folder: &Path) {
            self.links.clear();
            for link in links_on(folder) {
                let (Some(above), Some(name)) = (link.parent(), link.file_name()) else { continue };
                match inotify::add_watch(self.descriptor.get_ref(), above, names()) {
                    Ok(watch) => drop(self.links.entry(watch).or_default().insert(name.to_owned())),
                    // The sweep sees it later.
                    Err(error) => tracing::debug!(link = %link.display(), %error, "no events for this link"),
                }
            }
        }

        /// Waits until something happens.
        pub(crate) async fn next(&mut self) -> Heard {
            loop {
                let Ok(mut ready) = self.descriptor.readable().await else { return std::future::pending().await };
                ready.clear_ready();
                drop(ready);
                match self.take() {
                    Heard::Nothing => {}
                    heard => return heard,
                }
            }
        }

        /// What happened and wasn't told yet.
        pub(crate) fn take(&mut self) -> Heard {
            let mut buffer = [MaybeUninit::uninit(); 16 << 10];
            let mut reader = Reader::new(self.descriptor.get_ref(), &mut buffer);
            let (mut paths, mut lost) = (BTreeSet::new(), Vec::new());
            loop {
                let event = match reader.next() {
                    Ok(event) => event,
                    Err(Errno::INTR) => continue,
                    Err(_) => break,
                };
                let what = event.events();
                if what.contains(ReadFlags::QUEUE_OVERFLOW) {
                    return Heard::Everything;
                }
                let is_link = |names: &BTreeSet<OsString>| {
                    event.file_name().is_some_and(|name| names.contains(OsStr::from_bytes(name.to_bytes())))
                };
                if self.links.get(&event.wd()).is_some_and(is_link) {
                    return Heard::Everything;
                }
                let Some(folder) = self.folders.get(&event.wd()) else { continue };
                if what.intersects(ReadFlags::IGNORED | ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF) {
                    lost.push((event.wd(), folder.clone(), what.contains(ReadFlags::MOVE_SELF)));
                } else if let Some(name) = event.file_name() {
                    paths.insert(folder.join(OsStr::from_bytes(name.to_bytes())));
                }
            }
            for (watch, folder, moved) in lost {
                self.folders.remove(&watch);
                if moved {
                    // What happens there now is not ours any more. It fails when the folder is gone as well.
                    let _gone = inotify::remove_watch(self.descriptor.get_ref(), watch);
                }
                if folder.as_os_str().is_empty() {
                    // The folder itself: it is looked for until it is back.
                    self.complete = false;
                    return Heard::Everything;
                }
                paths.insert(folder);
            }
            if paths.is_empty() { Heard::Nothing } else { Heard::Paths(paths) }
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::Events;

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use super::{Heard, Path};

    /// No events: every folder is polled.
    #[derive(Debug)]
    pub(crate) enum Events {}

    impl Events {
        pub(crate) fn open() -> Option<Self> {
            None
        }

        pub(crate) fn is_complete(&self) -> bool {
            match *self {}
        }

        pub(crate) fn watch(&mut self, _: &Path, _: &Path) {
            match *self {}
        }

        pub(crate) async fn next(&mut self) -> Heard {
            match *self {}
        }

        pub(crate) fn take(&mut self) -> Heard {
            match *self {}
        }
    }
}
