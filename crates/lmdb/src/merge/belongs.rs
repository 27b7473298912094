//! Is a snapshot's content what its name says?
//!
//! A snapshot names its database and its instance inside. An object that was copied or renamed to another name would
//! be merged into a database that it doesn't belong to. Empty fields are accepted: not every writer fills them.

use crate::error::Error;
use crate::snapshot::{Meta, SnapshotName};

/// Compares the content's own words with the name.
pub(crate) fn belongs(meta: &Meta, name: &SnapshotName, object: &str) -> Result<(), Error> {
    let foreign = |what: &str, found: &str, named: &str| {
        let [found, named] = [found, named].map(|word| format!("{what} {}", word.escape_debug()));
        Err(Error::Foreign { object: object.to_owned(), found, named })
    };
    if !meta.database.is_empty() && meta.database != name.database {
        return foreign("database", &meta.database, &name.database);
    }
    // The name has the instance in its clean form; the content may have it as it was configured.
    let clean = SnapshotName::clean_instance;
    if !meta.instance.is_empty() && clean(&meta.instance) != clean(&name.instance) {
        return foreign("instance", &meta.instance, &name.instance);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_a_name() {
        let name = SnapshotName::parse("main__ns-1__20260810-080000-000000000__GX.pb.gz").expect("a name");
        for (database, instance, code) in [
            ("main", "ns-1", None),
            ("", "", None),
            ("main", "ns.1", None),
            ("other", "ns-1", Some("lmdb.foreign-snapshot")),
            ("main", "two", Some("lmdb.foreign-snapshot")),
        ] {
            let meta = Meta { database: database.to_owned(), instance: instance.to_owned(), ..Meta::default() };
            let found = belongs(&meta, &name, "x").err().map(|error| seawall_core::Failure::from(error).code);
            assert_eq!(found, code, "{database} {instance}");
        }
    }
}
