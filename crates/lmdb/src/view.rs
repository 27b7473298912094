//! Shows an environment or a snapshot to a [`Viewer`], entry by entry, without holding it in memory.

use std::io::{self, Read};

use crate::Stamp;
use crate::environment::Env;
use crate::error::{Error, snapshot_problem};
use crate::schema::flags::Flags;
use crate::schema::header::Stored;
use crate::schema::{Schema, is_private};
use crate::snapshot::{Item, Limits, Preamble, SnapshotReader};

/// Facts about a key beside its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Age {
    /// When it got the value.
    pub stamp: Stamp,
    /// The environment's transaction that wrote it; snapshots don't record it.
    pub transaction: Option<u64>,
    /// Whether it was deleted.
    pub deleted: bool,
}

/// Receives the entries, and prints them for instance.
pub trait Viewer {
    /// A snapshot begins.
    fn begin(&mut self, preamble: &Preamble) -> io::Result<()>;

    /// A DBI begins.
    fn database(&mut self, name: &[u8], flags: Flags, transform: &str) -> io::Result<()>;

    /// An entry of it; `age` is missing if the application's values have no header.
    fn entry(&mut self, key: &[u8], value: &[u8], age: Option<Age>) -> io::Result<()>;

    /// The end.
    fn end(&mut self) -> io::Result<()>;

    /// Whether values of an environment are shown as stored, with their headers.
    fn wants_headers(&self) -> bool {
        false
    }
}

/// Shows all DBIs of an environment, in one read transaction. `hide` leaves out the DBIs that belong to the sync
/// itself.
pub fn environment(env: &Env, schema: &Schema, hide: bool, viewer: &mut impl Viewer) -> Result<(), Error> {
    let mut txn = env.read()?;
    for name in txn.names()? {
        if hide && is_private(&name) {
            continue;
        }
        let Some(dbi) = txn.open(&name)? else { continue };
        viewer.database(&name, dbi.flags(), "").map_err(output)?;
        let headers = (schema.native || is_private(&name)) && !viewer.wants_headers();
        let mut cursor = txn.cursor(dbi)?;
        while let Some((key, bytes)) = cursor.next()? {
            // A value without a readable header is shown as it is.
            let stored = if headers { Stored::parse(bytes).ok() } else { None };
            let age = |s: &Stored<'_>| Age { stamp: s.stamp, transaction: Some(s.transaction), deleted: s.deleted };
            let value = stored.as_ref().map_or(bytes, |stored| stored.value);
            viewer.entry(key, value, stored.as_ref().map(age)).map_err(output)?;
        }
    }
    viewer.end().map_err(output)
}

/// Shows a snapshot, or only one DBI of it. It reads the whole snapshot, so that at the end the snapshot is known to be
/// whole.
pub fn snapshot(object: &str, source: impl Read, only: Option<&[u8]>, viewer: &mut impl Viewer) -> Result<(), Error> {
    let mut reader = SnapshotReader::new(source, Limits::default());
    let mut begun = false;
    while let Some(item) = reader.next().map_err(|problem| snapshot_problem(object, problem))? {
        match item {
            Item::Database(preamble, database) => {
                if !std::mem::replace(&mut begun, true) {
                    viewer.begin(preamble).map_err(output)?;
                }
                if only.is_none_or(|only| only == database.name) {
                    viewer.database(&database.name, database.flags, &database.transform).map_err(output)?;
                }
            }
            Item::Entry(database, entry) if only.is_none_or(|only| only == database.name) => {
                let age = Age { stamp: entry.stamp, transaction: None, deleted: entry.deleted };
                viewer.entry(entry.key, entry.value, Some(age)).map_err(output)?;
            }
            Item::Entry(..) => {}
        }
    }
    if !begun {
        viewer.begin(reader.preamble()).map_err(output)?;
    }
    viewer.end().map_err(output)
}

fn output(source: io::Error) -> Error {
    Error::Io { path: "standard output".into(), source }
}
