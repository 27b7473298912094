//! Captures that are safe on the local disk and on their way to the vault.
//!
//! Before the WAL is let go, the last frames of its generation are written here and synced (I1). A crash leaves whole
//! files, which the next start ships first; a `.tmp` is half of one and is removed.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use seawall_ltx::{FileName, Txid};

use crate::error::Error;
use crate::lock::{private_dir, private_file};

/// The spool of one database. All calls block.
#[derive(Debug, Clone)]
pub(crate) struct Spool {
    directory: PathBuf,
}

impl Spool {
    /// The spool in a state directory.
    pub(crate) fn new(state_dir: &Path) -> Self {
        Self { directory: state_dir.join("spool") }
    }

    fn path(&self, txid: Txid) -> PathBuf {
        self.directory.join(FileName { min: txid, max: txid }.to_string())
    }

    /// Keeps a capture. It is durable when this returns.
    pub(crate) fn add(&self, txid: Txid, bytes: &[u8]) -> Result<(), Error> {
        let path = self.path(txid);
        private_dir(&self.directory)?;
        let write = || -> io::Result<()> {
            let partial = path.with_extension("tmp");
            let mut file = private_file(&partial)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(&partial, &path)?;
            File::open(&self.directory)?.sync_all()
        };
        write().map_err(Error::io(&path))
    }

    /// What is in it, oldest first. Removes what a crash left half done.
    pub(crate) fn list(&self) -> Result<Vec<Txid>, Error> {
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
                _ => {
                    let path = self.directory.join(&name);
                    fs::remove_file(&path).map_err(Error::io(&path))?;
                }
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    /// Reads a capture.
    pub(crate) fn read(&self, txid: Txid) -> Result<Vec<u8>, Error> {
        let path = self.path(txid);
        fs::read(&path).map_err(Error::io(&path))
    }

    /// Forgets a capture: it is in the vault, or will never go there.
    pub(crate) fn remove(&self, txid: Txid) -> Result<(), Error> {
        let path = self.path(txid);
        match fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::io(&path)(e)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_whole_captures_in_order() {
        let directory = tempfile::tempdir().expect("a folder");
        let spool = Spool::new(directory.path());
        assert_eq!(spool.list().expect("empty"), []);
        for txid in [12, 3] {
            spool.add(Txid(txid), &[txid as u8]).expect("kept");
        }
        fs::write(directory.path().join("spool/0000000000000004-0000000000000004.tmp"), b"half").expect("written");
        assert_eq!(spool.list().expect("two"), [Txid(3), Txid(12)]);
        assert_eq!(spool.read(Txid(12)).expect("there"), [12]);
        spool.remove(Txid(3)).expect("removed");
        spool.remove(Txid(3)).expect("removed already");
        assert_eq!(fs::read_dir(directory.path().join("spool")).expect("folder").count(), 1);
    }
}
