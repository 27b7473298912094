//! Data that is safe on the local disk and not yet in the vault.
//!
//! Before the WAL is let go, the list of the pages that its last frames changed is written here and synced (I1). The
//! pages themselves are in the database file, which is synced as well. If the vault can't take them at once, they are
//! written here as the object to be uploaded. A crash leaves whole files, which the next start ships first. A `.tmp`
//! file is incomplete and is removed.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use seawall_ltx::{FileName, HEADER_SIZE, Header, Txid};

use crate::error::Error;
use crate::lock::{private_dir, private_file};
use crate::probe::Probe;
use crate::sealed::Sealed;

/// The name of the list of pages, see [`Sealed`].
const LIST: &str = "sealed.pages";

/// The largest list of one capture's pages. A longer file is no list (I11).
const LARGEST_LIST: u64 = 256 << 20;

/// Counts drafts of this process, for their names: another thread may still write an abandoned draft.
static DRAFTS: AtomicU64 = AtomicU64::new(0);

/// The spool of one database. All calls block.
#[derive(Debug, Clone)]
pub(crate) struct Spool {
    directory: PathBuf,
    probe: Probe,
}

impl Spool {
    /// The spool in a state directory.
    pub(crate) fn new(state_dir: &Path, probe: Probe) -> Self {
        Self { directory: state_dir.join("spool"), probe }
    }

    fn path(&self, txid: Txid) -> PathBuf {
        self.directory.join(FileName { min: txid, max: txid }.to_string())
    }

    /// The path of the list of a seal's pages. There is one at a time.
    fn list_path(&self) -> PathBuf {
        self.directory.join(LIST)
    }

    /// Begins to write the list of the pages that a seal lets go, replacing an earlier list. It counts once it is kept.
    pub(crate) fn list(&self, sealed: &[u8]) -> Result<Draft, Error> {
        let mut draft = self.begin(self.list_path())?;
        draft.write(sealed)?;
        Ok(draft)
    }

    /// The list of an earlier run; `None` if there is none, or it is unreadable or damaged.
    pub(crate) fn listed(&self) -> Option<Sealed> {
        let mut bytes = Vec::new();
        File::open(self.list_path()).ok()?.take(LARGEST_LIST).read_to_end(&mut bytes).ok()?;
        Sealed::parse(&bytes)
    }

    /// When the list was written.
    pub(crate) fn list_written(&self) -> Option<SystemTime> {
        std::fs::metadata(self.list_path()).and_then(|found| found.modified()).ok()
    }

    /// Removes the list: its pages are in the vault or in the spool, or were never let go.
    pub(crate) fn forget_list(&self) -> Result<(), Error> {
        remove(&self.list_path())
    }

    /// Begins to write a capture. It counts once it is kept.
    pub(crate) fn draft(&self, txid: Txid) -> Result<Draft, Error> {
        self.begin(self.path(txid))
    }

    fn begin(&self, path: PathBuf) -> Result<Draft, Error> {
        private_dir(&self.directory)?;
        let partial = path.with_extension(format!("{}.tmp", DRAFTS.fetch_add(1, Ordering::Relaxed)));
        let probe = self.probe.clone();
        let file = probe.write(&partial).and_then(|()| private_file(&partial)).map_err(Error::io(&partial))?;
        Ok(Draft { directory: self.directory.clone(), path, partial, file, probe, kept: false })
    }

    /// The captures in it, oldest first. Removes incomplete files of a crash.
    pub(crate) fn captures(&self) -> Result<Vec<Txid>, Error> {
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(Error::io(&self.directory)(e)),
        };
        let mut found = Vec::new();
        for entry in entries {
            let name = entry.map_err(Error::io(&self.directory))?.file_name();
            match name.to_str().map(str::parse::<FileName>) {
                Some(Ok(name)) if name.min == name.max => found.push(name.max),
                _ if name == LIST => {}
                _ => {
                    let path = self.directory.join(&name);
                    fs::remove_file(&path).map_err(Error::io(&path))?;
                }
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    /// Opens a capture for reading.
    pub(crate) fn open(&self, txid: Txid) -> Result<Kept, Error> {
        let path = self.path(txid);
        let open = || {
            let file = File::open(&path)?;
            let size = file.metadata()?.len();
            Ok((file, size))
        };
        let (file, size) = open().map_err(Error::io(&path))?;
        Ok(Kept { path, file, size })
    }

    /// The header of a capture; `None` where there is none.
    pub(crate) fn header(&self, txid: Txid) -> Result<Option<Header>, Error> {
        let bytes = self.open(txid)?.next(HEADER_SIZE)?;
        Ok(Header::parse(&bytes).ok())
    }

    /// Removes a capture: it is in the vault, or will never go there.
    pub(crate) fn remove(&self, txid: Txid) -> Result<(), Error> {
        remove(&self.path(txid))
    }
}

fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::io(path)(e)),
        _ => Ok(()),
    }
}

/// A file that is being written.
#[derive(Debug)]
pub(crate) struct Draft {
    directory: PathBuf,
    path: PathBuf,
    partial: PathBuf,
    file: File,
    probe: Probe,
    kept: bool,
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.kept {
            // If it can't be removed now, the next start removes it.
            let _gone = fs::remove_file(&self.partial);
        }
    }
}

impl Draft {
    /// Appends bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.probe.write(&self.partial).and_then(|()| self.file.write_all(bytes)).map_err(Error::io(&self.partial))
    }

    /// Gives the file its final name. It is durable on return.
    pub(crate) fn keep(mut self) -> Result<(), Error> {
        let keep = |kept: &mut bool| -> io::Result<()> {
            self.probe.write(&self.partial)?;
            self.file.sync_all()?;
            fs::rename(&self.partial, &self.path)?;
            *kept = true;
            self.probe.write(&self.path)?;
            File::open(&self.directory)?.sync_all()
        };
        let mut named = false;
        let done = keep(&mut named).map_err(Error::io(&self.path));
        self.kept = named;
        done
    }
}

/// A capture that is in the spool.
#[derive(Debug)]
pub(crate) struct Kept {
    path: PathBuf,
    file: File,
    /// Its size in bytes.
    pub(crate) size: u64,
}

impl Kept {
    /// The next bytes; fewer than `most` at the end of the file.
    pub(crate) fn next(&self, most: usize) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::with_capacity(most);
        (&self.file).take(most as u64).read_to_end(&mut bytes).map_err(Error::io(&self.path))?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_whole_captures_in_order() {
        let directory = tempfile::tempdir().expect("a folder");
        let spool = Spool::new(directory.path(), Probe::default());
        assert_eq!(spool.captures().expect("empty"), []);
        for txid in [12, 3] {
            let mut draft = spool.draft(Txid(txid)).expect("begun");
            draft.write(&[txid as u8]).expect("written");
            draft.keep().expect("kept");
        }
        fs::write(directory.path().join("spool/0000000000000004-0000000000000004.tmp"), b"half").expect("written");
        assert_eq!(spool.captures().expect("two"), [Txid(3), Txid(12)]);
        assert_eq!(spool.open(Txid(12)).expect("there").size, 1);
        assert_eq!(spool.header(Txid(12)).expect("read"), None);
        spool.remove(Txid(3)).expect("removed");
        spool.remove(Txid(3)).expect("removed already");
        assert_eq!(fs::read_dir(directory.path().join("spool")).expect("folder").count(), 1);
    }
}
