//! Which databases have their objects below a prefix?

use std::collections::BTreeSet;

use futures::TryStreamExt;
use seawall_core::Failure;
use seawall_ltx::Txid;
use seawall_vault::{Noted, ObjectKey, Prefix, Scheme, Vault};

use crate::error::Error;
use crate::generations::{self, GENERATIONS};
use crate::layout::{Layout, parse_key};

/// The databases of a vault that holds several, each as its prefix below the vault, in order. Empty for the vault's own
/// database, if it has one. `noted` gets the names that are passed over.
///
/// Everything is listed once; memory is that of the names.
///
/// # Errors
/// When the vault can't be listed.
pub async fn databases_below(vault: &Vault, noted: &Noted) -> Result<Vec<String>, Failure> {
    let mut found = BTreeSet::new();
    let mut entries = Box::pin(vault.entries_noting(&Prefix::all(), None, noted));
    while let Some(entry) = entries.try_next().await.map_err(Error::from)? {
        if let Some(database) = database_of(Layout::of(vault), entry.key.as_str())
            && !found.contains(database)
        {
            found.insert(database.to_owned());
        }
    }
    Ok(found.into_iter().collect())
}

/// Whether an object belongs to the own database of a vault in such a store.
pub fn is_of_database(scheme: Scheme, key: &ObjectKey) -> bool {
    database_of(Layout::in_stores(scheme), key.as_str()) == Some("")
}

/// An object of a replica, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replicated {
    /// An LTX file.
    Ltx {
        /// 0 holds captures, 9 complete copies.
        level: u8,
        /// The last transaction in it.
        max: Txid,
    },
    /// A file of a replica as Litestream made them before 0.5.
    Generation,
}

/// The prefix of the database that an object in such a store belongs to, and what it is there; `None` if it belongs to no
/// replica.
pub fn replicated(scheme: Scheme, key: &str) -> Option<(&str, Replicated)> {
    let layout = Layout::in_stores(scheme);
    let database = database_of(layout, key)?;
    let file = key.get(database.len()..)?.trim_start_matches('/');
    let replicated = match parse_key(layout, file, 0) {
        Some(file) => Replicated::Ltx { level: file.level.number(), max: file.max },
        None => Replicated::Generation,
    };
    Some((database, replicated))
}

/// The prefix of the database that an object belongs to; `None` if it belongs to no database.
fn database_of(layout: Layout, key: &str) -> Option<&str> {
    let segments = match layout {
        Layout::Files => 3,
        Layout::Objects => 2,
    };
    if let Some((at, _)) = key.match_indices(GENERATIONS).find(|(at, _)| *at == 0 || key[..*at].ends_with('/')) {
        return generations::parse_key(key.get(at..)?).and_then(|_| Some(key.get(..at)?.trim_end_matches('/')));
    }
    let at = key.rmatch_indices('/').nth(segments - 1).map_or(0, |(at, _)| at + 1);
    parse_key(layout, key.get(at..)?, 0)?;
    Some(key.get(..at)?.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_object_is() {
        let ltx = |level, max| Some(Replicated::Ltx { level, max: Txid(max) });
        const NAME: &str = "0000000000000001-000000000000000a.ltx";
        for (scheme, key, database, expected) in [
            (Scheme::Oss, format!("a/b/0009/{NAME}"), "a/b", ltx(9, 10)),
            (Scheme::Oss, format!("0000/{NAME}"), "", ltx(0, 10)),
            (Scheme::File, format!("a/ltx/3/{NAME}"), "a", ltx(3, 10)),
            (
                Scheme::Oss,
                "a/generations/5e21ff9be28275d2/snapshots/00000001.snapshot.lz4".to_owned(),
                "a",
                Some(Replicated::Generation),
            ),
            (Scheme::Oss, format!("a/ltx/3/{NAME}"), "", None),
        ] {
            assert_eq!(replicated(scheme, &key), expected.map(|expected| (database, expected)), "{key}");
        }
    }

    #[test]
    fn whose_object_it_is() {
        const NAME: &str = "0000000000000001-0000000000000001.ltx";
        for (layout, key, database) in [
            (Layout::Files, format!("ltx/9/{NAME}"), Some("")),
            (Layout::Files, format!("app/ltx/9/{NAME}"), Some("app")),
            (Layout::Files, format!("tenants/eu/a.db/ltx/0/{NAME}"), Some("tenants/eu/a.db")),
            (Layout::Files, format!("app/ltx/10/{NAME}"), None),
            (Layout::Files, format!("app/0009/{NAME}"), None),
            (Layout::Files, "app/seawall/holes/0000000000000002.json".to_owned(), None),
            (Layout::Files, "x".to_owned(), None),
            (Layout::Files, "a/generations/5e21ff9be28275d2/snapshots/00000001.snapshot.lz4".to_owned(), Some("a")),
            (Layout::Objects, "generations/5e21ff9be28275d2/wal/00000001_00000000.wal.lz4".to_owned(), Some("")),
            (Layout::Objects, "a/generations/x".to_owned(), None),
            (Layout::Objects, format!("0009/{NAME}"), Some("")),
            (Layout::Objects, format!("app/0009/{NAME}"), Some("app")),
            (Layout::Objects, format!("a/b/0000/{NAME}"), Some("a/b")),
            (Layout::Objects, format!("a/ltx/0/{NAME}"), None),
        ] {
            assert_eq!(database_of(layout, &key), database, "{key}");
        }
    }
}
