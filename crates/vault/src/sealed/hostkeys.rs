//! Keys of the host's own, so that it can read back what it wrote lately without any key of the owner.
//!
//! A key is made when an object is written and the newest key is a day old. It is forgotten, and its file removed, two days
//! after the next one was made. So an idle host keeps the key of its newest objects and makes none, and what opens the
//! history of last month is nowhere on the host.
//!
//! While the disk takes no new key, the key of yesterday serves for another day.
//!
//! Each key is a file `<moment>-<random>.key` (0600) that is written, synced, and only then used. Two processes of one
//! database make two files, and each finds the other's. Without a folder the keys live as long as the process.
//!
//! A copy of a vault makes its keys of the day for itself (`<moment>-<random>.copy.key`), and removes them when it is whole: nothing
//! may be written to that place again, so no newer key would end them. They are files, so that a copy that was cut off goes on.
//!
//! One more key, `lasting.key`, is never forgotten. It is for the few objects that a host has to read as long as they
//! exist, and that hold no content: [`super::Sealing::lasting`].

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use age::Identity as _;
use age::secrecy::ExposeSecret as _;
use age_core::format::{FileKey, Stanza};
use seawall_core::{Clock, Moment};

use super::{Fault, fault};
use crate::Error;

/// How long a key is used for new objects.
const USED: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a key is kept after the next one was made.
const KEPT: Duration = Duration::from_secs(2 * 24 * 60 * 60);

/// The file of the key that is never forgotten.
const LASTING: &str = "lasting.key";

/// What the file of a key ends with that was made for a copy.
const OF_A_COPY: &str = ".copy.key";

/// The ring of keys of one database, or of one process.
#[derive(Debug)]
pub struct HostKeys {
    folder: Option<PathBuf>,
    /// Whether the keys of the day are for a copy, which ends.
    of_a_copy: bool,
    clock: Arc<dyn Clock>,
    ring: Mutex<Option<Vec<HostKey>>>,
    /// The key that is never forgotten, once it is read or made.
    lasting: Mutex<Option<HostKey>>,
    /// Held while a key is made, so that several objects at once make one.
    making: Mutex<()>,
}

/// A key and when it was made.
#[derive(Clone)]
struct HostKey {
    made: Moment,
    /// Its file's name; empty in memory.
    name: String,
    key: age::x25519::Identity,
}

impl std::fmt::Debug for HostKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "[hidden, made {}]", self.made)
    }
}

impl HostKeys {
    /// The ring in a folder, which is made when it is needed; without one, in memory. Touches nothing yet.
    pub fn new(folder: Option<PathBuf>, clock: Arc<dyn Clock>) -> Self {
        let (ring, lasting, making) = Default::default();
        Self { folder, of_a_copy: false, clock, ring, lasting, making }
    }

    /// The same for a copy of a vault: [`HostKeys::forget_copy`] ends its keys of the day.
    #[must_use]
    pub fn of_a_copy(self) -> Self {
        Self { of_a_copy: true, ..self }
    }

    /// Removes the keys that were made for copies to this vault, also those of a run that was cut off. Blocks.
    ///
    /// # Errors
    /// [`Error::Sealing`] if a key's file can't be removed: it opens all of the copy.
    pub fn forget_copy(&self) -> Result<(), Error> {
        let Some(folder) = &self.folder else { return Ok(()) };
        for key in read_keys(folder).map_err(|error| self.trouble(&error))? {
            if key.name.ends_with(OF_A_COPY)
                && let Err(error) = std::fs::remove_file(folder.join(&key.name))
                && error.kind() != io::ErrorKind::NotFound
            {
                return Err(self.trouble(&error));
            }
        }
        self.lock().iter_mut().for_each(|keys| keys.retain(|key| !key.name.ends_with(OF_A_COPY)));
        Ok(())
    }

    /// Gives a copy's place the key that is never forgotten and the notes of writers, if this host has them for the vault that was copied. Nothing
    /// is written over. Blocks.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn take_along(from: &Path, to: &Path) -> io::Result<()> {
        let found = match std::fs::read_dir(from) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            found => found?,
        };
        for file in found {
            let file = file?;
            let name = file.file_name().to_string_lossy().into_owned();
            if (name == LASTING || name.ends_with(".json")) && !name.starts_with('.') && file.file_type()?.is_file() {
                match write_private(to, &name, &std::fs::read(file.path())?) {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// The folder.
    pub(super) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    pub(super) fn now(&self) -> Moment {
        self.clock.now()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Vec<HostKey>>> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_lasting(&self) -> MutexGuard<'_, Option<HostKey>> {
        self.lasting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The key for a new object, if one is held that is young enough; with `lasting` the one that stays. Doesn't block.
    pub(super) fn present(&self, lasting: bool) -> Option<age::x25519::Identity> {
        if lasting {
            return self.lock_lasting().as_ref().map(|key| key.key.clone());
        }
        let (ring, now) = (self.lock(), self.clock.now());
        // A copy and a process beside it may meet in one folder. The keys of the copy end with it.
        let ours = ring.as_deref()?.iter().filter(|key| key.name.ends_with(OF_A_COPY) == self.of_a_copy);
        let ours: Vec<&HostKey> = ours.collect();
        usable(ours.iter().map(|key| key.made), now).and_then(|at| ours.get(at)).map(|key| key.key.clone())
    }

    /// Makes a key for new objects, and forgets old ones; with `lasting` the one that stays. Blocks.
    pub(super) fn make(&self, lasting: bool) -> Result<age::x25519::Identity, Error> {
        let _turn = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        self.load()?;
        if let Some(key) = self.present(lasting) {
            return Ok(key);
        }
        let name = if self.of_a_copy { OF_A_COPY } else { "" };
        let mut made = HostKey { made: self.clock.now(), name: name.into(), key: age::x25519::Identity::generate() };
        if let Some(folder) = &self.folder {
            made.name = match lasting {
                true => LASTING.to_owned(),
                false => {
                    let end = if self.of_a_copy { OF_A_COPY } else { ".key" };
                    format!("{:014}-{:08x}{end}", made.made.as_millis(), fastrand::u32(..))
                }
            };
            let opens = match (lasting, self.of_a_copy) {
                (true, _) => "the list of backups and the records of holes, and no content. It stays",
                (false, false) => "what the host wrote lately, and goes by itself",
                (false, true) => {
                    "a copy that isn't whole yet, and goes once it is: run `seawall copy` again, or remove this file"
                }
            };
            let secret = made.key.to_string();
            let text =
                format!("# A key of this host, made {}. It opens {opens}.\n{}\n", made.made, secret.expose_secret());
            match write_private(folder, &made.name, text.as_bytes()) {
                Ok(()) => {}
                // Another process of this database was quicker.
                Err(error) if lasting && error.kind() == io::ErrorKind::AlreadyExists => {
                    self.load()?;
                    return self.present(true).ok_or_else(|| self.trouble(&error));
                }
                Err(error) => return self.stand_in(lasting, &error),
            }
        }
        let key = made.key.clone();
        if lasting {
            *self.lock_lasting() = Some(made);
            return Ok(key);
        }
        let mut ring = self.lock();
        let keys = ring.get_or_insert_default();
        keys.push(made);
        keys.sort_by_key(|key| key.made);
        self.forget(keys);
        Ok(key)
    }

    /// The key of yesterday, while a new one can't be kept: a full disk on this host is no reason to protect nothing.
    fn stand_in(&self, lasting: bool, error: &io::Error) -> Result<age::x25519::Identity, Error> {
        let (ring, now) = (self.lock(), self.clock.now());
        let ring = ring.as_deref().filter(|_| !lasting).unwrap_or_default();
        let key = younger(ring.iter().map(|key| key.made), now, KEPT).and_then(|at| ring.get(at));
        let Some(key) = key else { return Err(self.trouble(error)) };
        tracing::error!(
            folder = %self.folder.as_deref().unwrap_or(Path::new("")).display(),
            "no new key of this host can be kept, so the key of {} is used until it is two days old: {error}",
            key.made
        );
        Ok(key.key.clone())
    }

    /// Reads the folder, so that keys of another process are found too. Blocks.
    pub(super) fn load(&self) -> Result<(), Error> {
        let Some(folder) = &self.folder else {
            self.lock().get_or_insert_default();
            return Ok(());
        };
        let mut keys = read_keys(folder).map_err(|error| self.trouble(&error))?;
        if let Some(at) = keys.iter().position(|key| key.name == LASTING) {
            *self.lock_lasting() = Some(keys.remove(at));
        }
        keys.sort_by_key(|key| key.made);
        self.forget(&mut keys);
        *self.lock() = Some(keys);
        Ok(())
    }

    /// Whether the folder was read.
    pub(super) fn is_loaded(&self) -> bool {
        self.lock().is_some()
    }

    /// The file key, by the newest key that opens a stanza.
    pub(super) fn unwrap(&self, stanzas: &[Stanza]) -> Option<FileKey> {
        let mut keys: Vec<_> = self.lock().iter().flatten().rev().map(|key| key.key.clone()).collect();
        keys.extend(self.present(true));
        // The host's stanza is the first of a header.
        keys.iter().find_map(|key| key.unwrap_stanzas(stanzas)?.ok())
    }

    fn forget(&self, keys: &mut Vec<HostKey>) {
        let made: Vec<Moment> = keys.iter().map(|key| key.made).collect();
        let gone = forgotten(&made, self.clock.now());
        let mut index = 0;
        keys.retain(|key| {
            let gone = gone.get(index).copied().unwrap_or_default();
            index += 1;
            if gone && let Some(folder) = &self.folder {
                let path = folder.join(&key.name);
                if let Err(error) = std::fs::remove_file(&path)
                    && error.kind() != io::ErrorKind::NotFound
                {
                    tracing::warn!(key = %path.display(), "an old key of this host can't be removed: {error}");
                }
            }
            !gone
        });
    }

    fn trouble(&self, error: &io::Error) -> Error {
        let folder = self.folder.as_deref().unwrap_or(Path::new(""));
        fault(Fault::HostKeys, folder.display().to_string(), format!("the keys of this host: {error}"))
    }
}

/// Which of these keys, oldest first, is for new objects: the newest, if it is younger than a day. A key from the future
/// was made while the clock was wrong.
fn usable(made: impl Iterator<Item = Moment>, now: Moment) -> Option<usize> {
    younger(made, now, USED)
}

/// The same with another age.
fn younger(made: impl Iterator<Item = Moment>, now: Moment, age: Duration) -> Option<usize> {
    let keys = made.enumerate().filter(|(_, made)| *made <= now.after(USED));
    keys.last().filter(|(_, made)| now.since(*made) < age).map(|(index, _)| index)
}

/// Which of these keys, oldest first, are forgotten.
fn forgotten(made: &[Moment], now: Moment) -> Vec<bool> {
    let next = made.iter().skip(1).map(|next| now.since(*next) >= KEPT);
    next.chain([false]).take(made.len()).collect()
}

fn read_keys(folder: &Path) -> io::Result<Vec<HostKey>> {
    let found = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        found => found?,
    };
    let mut keys = Vec::new();
    for file in found {
        let file = file?;
        let name = file.file_name().to_string_lossy().into_owned();
        let made = |stem: &str| stem.split_once('-')?.0.parse().ok();
        let millis = if name == LASTING { Some(0) } else { name.strip_suffix(".key").and_then(made) };
        let Some(millis) = millis else { continue };
        let text = match std::fs::read_to_string(file.path()) {
            // Another process forgot it just now.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            text => text?,
        };
        let key = text.lines().find_map(|line| line.trim().parse::<age::x25519::Identity>().ok());
        match key {
            Some(key) => keys.push(HostKey { made: Moment::from_millis(millis), name, key }),
            None => {
                tracing::warn!(key = %file.path().display(), "this is no key of this host; nothing is read with it")
            }
        }
    }
    Ok(keys)
}

/// Writes a file that only this user can read, whole or not at all, and never over another.
pub(super) fn write_private(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let place = folder.join(format!(".{name}.{:08x}.tmp", fastrand::u32(..)));
    let outcome = (|| {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&place)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::hard_link(&place, folder.join(name))?;
        File::open(folder)?.sync_all()
    })();
    let _ = std::fs::remove_file(&place);
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 60 * 60 * 1000;

    fn moments(hours: &[i64]) -> Vec<Moment> {
        hours.iter().map(|hour| Moment::from_millis(hour * HOUR)).collect()
    }

    #[test]
    fn keys_of_a_copy_end_with_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let keys = || HostKeys::new(Some(folder.path().to_owned()), Arc::new(seawall_core::SystemClock));
        let names = || {
            let mut names: Vec<_> = read_keys(folder.path()).expect("read").into_iter().map(|key| key.name).collect();
            names.sort();
            names
        };
        let cut_off = keys().of_a_copy();
        cut_off.make(false).expect("a key");
        cut_off.make(true).expect("the lasting key");
        let again = keys().of_a_copy();
        again.load().expect("read");
        assert!(again.present(false).is_some(), "a copy that was cut off goes on");
        again.forget_copy().expect("removed");
        assert_eq!(names(), [LASTING]);
        assert!(again.present(false).is_none() && again.present(true).is_some());
        keys().make(false).expect("a key of the host");
        again.forget_copy().expect("nothing to remove");
        assert_eq!(names().len(), 2, "a key of a running process stays");
    }

    #[test]
    fn a_copy_takes_along_what_reads_the_list_and_no_key_of_a_day() {
        let [from, to] = [(), ()].map(|()| tempfile::tempdir().expect("a folder"));
        HostKeys::take_along(&from.path().join("none"), to.path()).expect("nothing there");
        let keys = HostKeys::new(Some(from.path().to_owned()), Arc::new(seawall_core::SystemClock));
        keys.make(false).expect("a key");
        keys.make(true).expect("the lasting key");
        std::fs::write(from.path().join("0123.json"), "a note").expect("written");
        std::fs::write(to.path().join("4567.json"), "of its own").expect("written");
        for _ in 0..2 {
            HostKeys::take_along(from.path(), to.path()).expect("taken along");
            let mut names: Vec<_> =
                std::fs::read_dir(to.path()).expect("read").map(|file| file.expect("a file").file_name()).collect();
            names.sort();
            assert_eq!(names, ["0123.json", "4567.json", LASTING]);
        }
        let read = |folder: &tempfile::TempDir| std::fs::read(folder.path().join(LASTING)).expect("read");
        assert_eq!(read(&from), read(&to));
    }

    #[test]
    fn which_key_is_used_and_which_is_forgotten() {
        for (made, now, expected, gone) in [
            (&[][..], 0, None, &[][..]),
            (&[0], 0, Some(0), &[false]),
            (&[0], 23, Some(0), &[false]),
            (&[0], 24, None, &[false]),
            (&[0], 24 * 365, None, &[false]),
            (&[0, 24], 30, Some(1), &[false, false]),
            (&[0, 24], 71, None, &[false, false]),
            (&[0, 24], 72, None, &[true, false]),
            (&[0, 24, 48, 72], 73, Some(3), &[true, false, false, false]),
            // The clock was set back by a day and more, and by less.
            (&[100], 20, None, &[false]),
            (&[100], 80, Some(0), &[false]),
            (&[20, 1000], 21, Some(0), &[false, false]),
        ] {
            let (made, now) = (moments(made), moments(&[now])[0]);
            assert_eq!(usable(made.iter().copied(), now), expected, "{made:?} {now}");
            assert_eq!(forgotten(&made, now), gone, "{made:?} {now}");
        }
    }
}
