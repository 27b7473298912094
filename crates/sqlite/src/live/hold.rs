//! Keeps other processes from restarting a WAL, from the moment the database is opened.
//!
//! A [`Hold`] is a [`Grip`]. On systems without grips it is a connection with an open read transaction. [`KeptFiles`] are
//! the plain handles on the files, which live from one opening of the database to the next.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;

use crate::error::Error;
use crate::files::FileIdentity;
use crate::grip::{Grip, Hands, is_in_use};
use crate::probe::Probe;

/// Keeps other processes from restarting or cutting a WAL that has frames.
pub(crate) enum Hold {
    /// The locks of a read transaction, without one.
    Grip(Grip),
    /// A read transaction.
    Reader(Connection),
}

impl Hold {
    /// Takes the locks of a read transaction that just began, and closes its connection if grips are possible.
    /// `done` says that every commit was captured, and that no process can commit now.
    pub(crate) fn of(reader: Connection, hands: &Arc<Hands>, probe: &Probe, done: bool) -> Self {
        let grip = if probe.has_grips() { hands.grip(done) } else { None };
        grip.map_or(Self::Reader(reader), Self::Grip)
    }
}

/// Handles on a database file and its wal-index, kept from one [`Source`] of it to the next. Closing a handle while
/// another one is in use would drop the other's locks, so a handle is closed only once its file is another one.
#[derive(Debug, Default)]
pub(crate) struct KeptFiles {
    pub(crate) database: KeptFile,
    pub(crate) index: KeptFile,
    hands: Option<Arc<Hands>>,
    /// The database file to which the wal-index belongs.
    indexed: Option<FileIdentity>,
    /// Wal-indexes of that file that were deleted while they were used, and still are.
    deleted: Vec<Arc<File>>,
}

impl KeptFiles {
    /// The hands on two handles: the same ones for the same handles.
    pub(crate) fn hands(&mut self, database: Arc<File>, index: Arc<File>) -> Arc<Hands> {
        match self.hands.as_ref().filter(|hands| hands.are(&database, &index)) {
            Some(hands) => hands.clone(),
            None => self.hands.insert(Arc::new(Hands::new(database, index))).clone(),
        }
    }

    /// The handle on the wal-index of a database, under `path`. If the file there is another one than before, the handle on
    /// the old wal-index is kept for as long as another process uses it.
    pub(crate) fn open_index(
        &mut self,
        path: &Path,
        database: FileIdentity,
    ) -> Result<(FileIdentity, Arc<File>), Error> {
        let former = self.index.0.as_ref().map(|(_, file)| file.clone());
        let opened = self.index.open(path)?;
        if self.indexed.replace(database) == Some(database) {
            self.deleted.extend(former.filter(|former| !Arc::ptr_eq(former, &opened.1)));
            self.deleted.retain(|index| is_in_use(index));
        } else {
            self.deleted.clear();
        }
        Ok(opened)
    }

    /// Wal-indexes that were deleted while they were used, and still were when the database was opened.
    pub(crate) fn deleted(&self) -> Vec<Arc<File>> {
        self.deleted.clone()
    }

    /// The hands on the files that are kept, if something of this process holds these.
    pub(crate) fn holding(&self) -> Option<Arc<Hands>> {
        self.hands.clone().filter(|hands| hands.hold_something())
    }
}

/// One file and the handle on it.
#[derive(Debug, Default)]
pub(crate) struct KeptFile(Option<(FileIdentity, Arc<File>)>);

impl KeptFile {
    /// The handle on the file under `path`: the kept one if it still is that file.
    pub(crate) fn open(&mut self, path: &Path) -> Result<(FileIdentity, Arc<File>), Error> {
        let missing = |e: io::Error| match e.kind() {
            io::ErrorKind::NotFound => Error::Missing { path: path.to_owned() },
            _ => Error::io(path)(e),
        };
        let now = std::fs::metadata(path).map_err(missing)?;
        if let Some((identity, file)) = self.0.as_ref().filter(|(kept, _)| *kept == FileIdentity::of(&now)) {
            return Ok((*identity, file.clone()));
        }
        if now.is_dir() {
            return Err(Error::NotADatabase { path: path.to_owned(), what: "it is a directory" });
        }
        let file = Arc::new(File::open(path).map_err(missing)?);
        let identity = FileIdentity::of(&file.metadata().map_err(Error::io(path))?);
        self.0 = Some((identity, file.clone()));
        Ok((identity, file))
    }
}
