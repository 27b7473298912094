//! Which deletions are old enough to be swept?
//!
//! A deletion is kept so that it can win over older values of other instances. Once it is older than the retention,
//! every instance has either seen it or may not take part again; see `docs/operating.md`. This module writes nothing.

use std::path::Path;

use crate::Stamp;
use crate::environment::Env;
use crate::error::Error;
use crate::merge::apply::Table;
use crate::merge::spool::Spool;
use crate::schema::header::Stored;
use crate::schema::{Schema, Tables};
use crate::snapshot::Entry;

/// What a sweep found.
#[derive(Debug)]
pub(crate) struct Old {
    /// The DBIs that the entries belong to.
    pub(crate) tables: Vec<Table>,
    /// Keys whose deletions are to be removed.
    pub(crate) spool: Spool,
    /// Versions that the sweep read.
    pub(crate) entries: u64,
    /// Deletions among them.
    pub(crate) deleted: u64,
}

/// Looks for deletions from before `cutoff`.
pub(crate) fn old(env: &Env, schema: &Schema, cutoff: Stamp, folder: &Path, limit: u64) -> Result<Old, Error> {
    let mut txn = env.read()?;
    let mut found = Old { tables: Vec::new(), spool: Spool::new(folder, limit), entries: 0, deleted: 0 };
    for name in schema.names(txn.names()?) {
        let Tables { main: Some(main), versions: Some(versions) } = Tables::open(schema, &mut txn, &name)? else {
            continue;
        };
        let number = u16::try_from(found.tables.len())
            .map_err(|_| Error::schema(env.path(), &name, "there are too many DBIs"))?;
        let mut cursor = txn.cursor(versions)?;
        let mut next = cursor.next()?;
        while let Some((key, bytes)) = next {
            let stored = Stored::parse(bytes).map_err(|what| Error::schema(env.path(), &name, what))?;
            found.entries += 1;
            found.deleted += u64::from(stored.deleted);
            if stored.deleted && stored.stamp < cutoff {
                found.spool.push(number, &Entry { key, value: &[], stamp: stored.stamp, deleted: true })?;
            }
            next = cursor.next()?;
        }
        found.tables.push(Table { name, flags: main.flags(), missing: false });
    }
    Ok(found)
}
