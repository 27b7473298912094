//! Is the folder at a path still the same folder?
//!
//! The path alone doesn't tell. A folder may be renamed, or a disk unmounted, and then writes would go to the folder
//! underneath. So a writer remembers the folder's identity (device, number, time of birth) and checks it before each
//! operation with one `stat`. [`judge`] decides; the rest gathers facts. What an earlier process knew is in `memory.rs`.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use super::memory::Memory;
use crate::Error;

/// The identity of a folder: differs between two folders that had the same path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    /// `None` on file systems that give a folder another number now and then.
    inode: Option<u64>,
    /// The system may reuse the number of a removed folder, but not its time of birth.
    born: Option<SystemTime>,
}

/// The facts about the folder at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Found {
    /// The folder; `None` where there is none.
    root: Option<Identity>,
    /// The device of the nearest folder above that exists, or of the folder itself.
    device: u64,
    /// The folder on the way at which a file system is mounted; `None` where everything is on the system's own.
    mount: Option<PathBuf>,
    /// The mount in which that folder is, where the system tells.
    within: Option<Mount>,
}

/// A mount, by the system's numbers: of a folder of the same disk, too, as `mount --bind` makes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mount {
    id: u64,
    /// The mount in which it is; `None` for the topmost one.
    around: Option<u64>,
}

/// What became of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Nothing.
    Same,
    /// It was made since, where there was none.
    Made,
    /// Nothing is there any more.
    Gone,
    /// Its file system isn't mounted any more.
    Unmounted,
    /// Another folder is there.
    Other,
}

/// What became of the folder that was found `before`? `still_mounted`: a file system is mounted where one was.
fn judge(before: &Found, now: &Found, still_mounted: bool) -> Standing {
    let moved = before.device != now.device;
    if moved && before.mount.is_some() && !still_mounted {
        return Standing::Unmounted;
    }
    // The folder seen now is in the mount that surrounded the earlier one.
    if let (Some(Mount { id, around: Some(around) }), Some(seen)) = (before.within, now.within)
        && before.root.is_some()
        && before.root != now.root
        && id != around
        && seen.id == around
    {
        return Standing::Unmounted;
    }
    match (before.root, now.root) {
        (None, None) if !moved => Standing::Same,
        (None, Some(_)) if !moved => Standing::Made,
        (Some(_), None) => Standing::Gone,
        (Some(before), Some(now)) if before == now => Standing::Same,
        _ => Standing::Other,
    }
}

/// Which folder a store works in.
#[derive(Debug, Default)]
pub(super) struct Anchor {
    state: Mutex<State>,
    /// What earlier processes knew of the folder.
    memory: Option<Memory>,
}

#[derive(Debug, Default)]
struct State {
    found: Option<Found>,
    /// Whether a caller uses [`Anchor::enter`] before it continues in another folder.
    attended: bool,
    /// Whether a reader found what earlier processes knew to be still so.
    begun: bool,
    /// Whether the folder is noted for later processes.
    noted: bool,
}

impl Anchor {
    /// An anchor that knows where earlier processes wrote, and notes where this one does.
    pub(super) fn remembering(memory: Memory) -> Self {
        Self { memory: Some(memory), ..Self::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Two plain values, whole between any two statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts the folder that is there now, unless the earlier folder is gone or unmounted. Blocks.
    pub(super) fn enter(&self, root: &Path) -> Result<(), Error> {
        let now = look(root)?;
        let mut state = self.state();
        state.attended = true;
        match &state.found {
            Some(before) => {
                if let standing @ (Standing::Gone | Standing::Unmounted) = judge(before, &now, is_mounted(before)) {
                    return Err(told(root, standing, before.mount.as_deref()));
                }
            }
            None => self.begin(root)?,
        }
        (state.found, state.noted) = (Some(now), false);
        Ok(())
    }

    /// Before a write: the folder must be the folder of the first write. Blocks.
    pub(super) fn before_writing(&self, root: &Path) -> Result<(), Error> {
        let mut state = self.state();
        match state.found {
            Some(_) => check(&mut state, root)?,
            None => {
                self.begin(root)?;
                state.found = Some(look(root)?);
            }
        }
        // The first write makes a folder that isn't there, and the next one notes it.
        if let Some(memory) = self.memory.as_ref().filter(|_| !state.noted && root.is_dir()) {
            state.noted = memory.note(root);
        }
        Ok(())
    }

    /// Before any other operation: the same check, for a store that has written. Blocks.
    pub(super) fn check(&self, root: &Path) -> Result<(), Error> {
        let mut state = self.state();
        if state.found.is_none() && !state.begun {
            self.begin(root)?;
            state.begun = true;
        }
        check(&mut state, root)
    }

    /// Compares the path with what earlier processes knew of it.
    fn begin(&self, root: &Path) -> Result<(), Error> {
        let Some(memory) = &self.memory else { return Ok(()) };
        let Some((standing, mount)) = memory.standing(root) else { return Ok(()) };
        match told(root, standing, mount.as_deref()) {
            Error::Vanished { object, cause } => {
                let cause = format!("{cause} (it was written to before, as {} notes)", memory.file().display());
                Err(Error::Vanished { object, cause })
            }
            error => Err(error),
        }
    }
}

fn check(state: &mut State, root: &Path) -> Result<(), Error> {
    let Some(before) = &state.found else { return Ok(()) };
    // Nearly always this is all.
    if let (Some(known), Ok(metadata)) = (before.root, root.metadata())
        && same(&known, &metadata)
    {
        return Ok(());
    }
    let now = look(root)?;
    let (standing, mount) = (judge(before, &now, is_mounted(before)), before.mount.clone());
    match standing {
        Standing::Same => return Ok(()),
        Standing::Made => {}
        // Told once, where no operator has to decide.
        Standing::Other if !state.attended => {}
        _ => return Err(told(root, standing, mount.as_deref())),
    }
    (state.found, state.noted) = (Some(now), false);
    if standing == Standing::Made { Ok(()) } else { Err(told(root, standing, None)) }
}

fn same(known: &Identity, metadata: &std::fs::Metadata) -> bool {
    metadata.is_dir()
        && known.device == metadata.dev()
        && known.inode.is_none_or(|inode| inode == metadata.ino())
        && (known.born.is_none() || known.born == metadata.created().ok())
}

/// What became of a folder, as an error. `mount`: where its disk was mounted.
fn told(root: &Path, standing: Standing, mount: Option<&Path>) -> Error {
    let object = root.display().to_string();
    match standing {
        Standing::Gone => Error::Vanished { object, cause: "the vault's folder isn't there any more".to_owned() },
        Standing::Unmounted => {
            let at = mount.map_or_else(String::new, |mount| format!(": nothing is mounted at {}", mount.display()));
            Error::Vanished { object, cause: format!("the file system that held the vault isn't mounted any more{at}") }
        }
        _ => Error::Replaced { object, cause: "another folder took the place of the vault's".to_owned() },
    }
}

/// Gathers the facts about a path.
fn look(root: &Path) -> Result<Found, Error> {
    let failed = |error: io::Error| super::failed(root, &error);
    let absent = |error: &io::Error| matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
    let found = match root.metadata() {
        Ok(metadata) => Some(metadata).filter(std::fs::Metadata::is_dir),
        Err(error) if absent(&error) => None,
        Err(error) => return Err(failed(error)),
    };
    let nearest = match &found {
        Some(metadata) => (root.to_owned(), metadata.dev()),
        None => above(root)
            .find_map(|folder| folder.metadata().ok().map(|metadata| (folder, metadata.dev())))
            .unwrap_or_default(),
    };
    let identity = |metadata: &std::fs::Metadata| {
        let firm = has_firm_numbers(root);
        Identity {
            device: metadata.dev(),
            inode: firm.then(|| metadata.ino()),
            born: metadata.created().ok().filter(|_| firm),
        }
    };
    let (folder, device) = nearest;
    let mount = mount_of(&folder, device);
    Ok(Found { root: found.as_ref().map(identity), device, mount, within: mounted_in(&folder) })
}

/// The mount in which a folder is.
fn mounted_in(folder: &Path) -> Option<Mount> {
    let id = mount_id(folder)?;
    Some(Mount { id, around: above(folder).filter_map(|above| mount_id(&above)).find(|other| *other != id) })
}

#[cfg(target_os = "linux")]
fn mount_id(folder: &Path) -> Option<u64> {
    use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
    let found = statx(CWD, folder, AtFlags::empty(), StatxFlags::MNT_ID).ok()?;
    // Before Linux 5.8 the kernel doesn't tell.
    (found.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(found.stx_mnt_id)
}

#[cfg(not(target_os = "linux"))]
fn mount_id(_folder: &Path) -> Option<u64> {
    None
}

/// The folder at which the file system of `folder` is mounted: the last on the way up that is on the same device.
fn mount_of(folder: &Path, device: u64) -> Option<PathBuf> {
    let mut inside = folder.to_owned();
    for above in above(folder) {
        match above.metadata() {
            Ok(metadata) if metadata.dev() == device => inside = above,
            _ => return Some(inside),
        }
    }
    None
}

/// The folder at which the disk is mounted that holds `folder`; `None` for the system's own disk.
pub(super) fn disk_of(folder: &Path) -> Option<PathBuf> {
    let folder = folder.canonicalize().ok()?;
    let device = folder.metadata().ok()?.dev();
    let mount = mount_of(&folder, device)?;
    // A unit of systemd with ProtectHome=tmpfs has memory around each folder that is bound into it. Outside the unit nothing is
    // mounted there.
    let around = above(&mount).next()?;
    (is_memory(&mount) || !is_memory(&around)).then_some(mount)
}

/// Whether a folder is in memory.
#[cfg(target_os = "linux")]
fn is_memory(folder: &Path) -> bool {
    const TMPFS: u64 = 0x0102_1994;
    const RAMFS: u64 = 0x8584_58f6;
    rustix::fs::statfs(folder).is_ok_and(|facts| {
        // The field is signed on some machines, and wider than the number on others.
        let kind = u64::try_from(facts.f_type).unwrap_or_default() & 0xffff_ffff;
        kind == TMPFS || kind == RAMFS
    })
}

/// Whether a folder is in memory; where the system doesn't tell, it isn't.
#[cfg(not(target_os = "linux"))]
fn is_memory(_folder: &Path) -> bool {
    false
}

/// Whether a folder is on another device than the folder around it.
pub(super) fn has_own_device(folder: &Path) -> bool {
    let device = |folder: &Path| folder.metadata().map(|metadata| metadata.dev()).ok();
    let outside = above(folder).next().and_then(|outside| device(&outside));
    device(folder).is_some_and(|inside| outside.is_some_and(|outside| inside != outside))
}

/// Whether a file system is mounted where one was.
fn is_mounted(before: &Found) -> bool {
    let device = |folder: &Path| folder.metadata().map(|metadata| metadata.dev()).ok();
    before.mount.as_ref().is_some_and(|mount| {
        let outside = above(mount).next();
        device(mount).is_some_and(|here| outside.is_some_and(|outside| device(&outside) != Some(here)))
    })
}

/// The folders above a path, from the nearest on.
fn above(path: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    path.ancestors().skip(1).map(Path::to_owned).collect::<Vec<_>>().into_iter()
}

/// Whether the file system's numbers are stable. FUSE, 9p and SMB may give the same folder another number later.
#[cfg(target_os = "linux")]
fn has_firm_numbers(root: &Path) -> bool {
    const OTHERS: [u64; 4] = [0x6573_5546, 0x0102_1997, 0xFF53_4D42, 0xFE53_4D42];
    rustix::fs::statfs(root).is_ok_and(|found| !OTHERS.contains(&(found.f_type.cast_unsigned() & 0xFFFF_FFFF)))
}

#[cfg(not(target_os = "linux"))]
fn has_firm_numbers(_root: &Path) -> bool {
    true
}

/// A number that changes when names in these folders come or go. Blocks.
pub(super) fn trace(folders: impl Iterator<Item = PathBuf>) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hash = DefaultHasher::new();
    for folder in folders {
        let found = folder.metadata().ok();
        found.map(|found| (found.dev(), found.ino(), found.mtime(), found.mtime_nsec())).hash(&mut hash);
    }
    hash.finish()
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests are an edge")]
mod tests {
    use super::*;

    #[test]
    fn what_became_of_a_folder() {
        let one = |inode| Some(Identity { device: 7, inode: Some(inode), born: None });
        let on = |device, root: Option<Identity>, mount: Option<&str>| Found {
            root: root.map(|root| Identity { device, ..root }),
            device,
            mount: mount.map(PathBuf::from),
            within: None,
        };
        let within =
            |found: Found, id: u64, around: u64| Found { within: Some(Mount { id, around: Some(around) }), ..found };
        // A folder of the same disk that is mounted there.
        let bound = || within(on(1, one(5), None), 40, 30);
        let disk = Some("/backup");
        for (before, now, still_mounted, expected) in [
            (on(1, one(5), None), on(1, one(5), None), false, Standing::Same),
            (on(1, one(5), None), on(1, one(6), None), false, Standing::Other),
            (on(1, one(5), None), on(1, None, None), false, Standing::Gone),
            (on(1, None, None), on(1, None, None), false, Standing::Same),
            (on(1, None, None), on(1, one(5), None), false, Standing::Made),
            // Something was mounted over a folder of the system's own disk.
            (on(1, one(5), None), on(2, one(9), disk), false, Standing::Other),
            (on(1, None, None), on(2, one(9), disk), false, Standing::Other),
            // A disk of its own.
            (on(2, one(5), disk), on(2, one(5), disk), true, Standing::Same),
            (on(2, one(5), disk), on(1, one(5), None), false, Standing::Unmounted),
            (on(2, one(5), disk), on(1, None, None), false, Standing::Unmounted),
            (on(2, None, disk), on(1, None, None), false, Standing::Unmounted),
            (on(2, None, disk), on(1, one(5), None), false, Standing::Unmounted),
            // Another disk, or the same one with another number.
            (on(2, one(5), disk), on(3, one(5), disk), true, Standing::Other),
            (on(2, one(5), disk), on(3, None, disk), true, Standing::Gone),
            (on(2, one(5), disk), on(2, one(6), disk), true, Standing::Other),
            (bound(), within(on(1, one(9), None), 30, 20), false, Standing::Unmounted),
            (bound(), within(on(1, None, None), 30, 20), false, Standing::Unmounted),
            // Mounted again, another one mounted there or over it, and another folder in the same mount.
            (bound(), within(on(1, one(5), None), 41, 30), false, Standing::Same),
            (bound(), within(on(1, one(7), None), 41, 30), false, Standing::Other),
            (bound(), within(on(1, one(7), None), 41, 40), false, Standing::Other),
            (bound(), within(on(1, one(7), None), 40, 30), false, Standing::Other),
            (bound(), within(on(1, None, None), 40, 30), false, Standing::Gone),
            // The mount around is unmounted with it.
            (bound(), within(on(1, one(9), None), 20, 10), false, Standing::Other),
            // A system that doesn't report mounts.
            (bound(), on(1, one(9), None), false, Standing::Other),
        ] {
            assert_eq!(judge(&before, &now, still_mounted), expected, "{before:?} {now:?}");
        }
    }

    #[test]
    fn a_folder_that_is_made_renamed_and_replaced() {
        let directory = tempfile::tempdir().expect("a folder");
        let (root, aside) = (directory.path().join("vault"), directory.path().join("aside"));
        let make = || std::fs::create_dir(&root).expect("made");
        for attended in [false, true] {
            let anchor = Anchor::default();
            anchor.check(&root).expect("no other process wrote");
            if attended {
                anchor.enter(&root).expect("entered");
            }
            anchor.before_writing(&root).expect("to be made");
            make();
            anchor.check(&root).expect("made by us");
            std::fs::rename(&root, &aside).expect("renamed");
            for _ in 0..2 {
                assert!(matches!(anchor.before_writing(&root), Err(Error::Vanished { .. })));
                assert!(matches!(anchor.check(&root), Err(Error::Vanished { .. })));
            }
            anchor.enter(&root).expect_err("still gone");
            anchor.state().attended = attended;
            std::fs::rename(&aside, &root).expect("back");
            anchor.before_writing(&root).expect("the same one");
            std::fs::rename(&root, &aside).expect("renamed");
            make();
            assert!(matches!(anchor.check(&root), Err(Error::Replaced { .. })));
            assert_eq!(anchor.before_writing(&root).is_err(), attended, "told once, or until it is entered");
            anchor.enter(&root).expect("entered");
            anchor.before_writing(&root).expect("taken up");
            std::fs::remove_dir(&root).expect("removed");
            std::fs::remove_dir(&aside).expect("removed");
        }
    }

    #[test]
    fn names_that_come_and_go_leave_a_trace() {
        let directory = tempfile::tempdir().expect("a folder");
        let folder = directory.path().join("0");
        let now = || trace([folder.clone()].into_iter());
        let before = now();
        std::fs::create_dir(&folder).expect("made");
        assert_ne!(now(), before);
        std::fs::write(folder.join("a"), b"x").expect("written");
        let with = now();
        assert_eq!(now(), with);
        // The kernel's clock moves in steps of some milliseconds.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while now() == with && std::time::Instant::now() < deadline {
            let _is_gone = std::fs::remove_file(folder.join("a"));
            std::fs::write(folder.join("b"), b"x").expect("written");
            std::fs::remove_file(folder.join("b")).expect("removed");
        }
        assert_ne!(now(), with);
    }
}
