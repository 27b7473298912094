//! How an environment's DBIs are laid out, and which of them take part.

pub(crate) mod dupsort;
pub(crate) mod flags;
pub(crate) mod header;
pub(crate) mod migrate;
pub(crate) mod order;

use std::collections::BTreeMap;
use std::path::Path;

use crate::environment::{Dbi, ReadTxn};
use crate::error::Error;
use crate::schema::flags::Flags;
use crate::snapshot::{DUPSORT_HACK, Rule};

/// The prefix of DBIs that belong to the sync itself. They are never sent, and ignored when they are received.
const PRIVATE: &[u8] = b"_sync";

/// The prefix of a shadow's name.
const SHADOW: &[u8] = b"_sync_shadow_";

/// How versions of keys are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    /// The application puts a header before every value. Otherwise versions are kept in a shadow of each DBI.
    pub native: bool,
    /// Include DBIs with several values to a key. Only with shadows.
    pub dupsort_hack: bool,
    /// Write an empty extension block into every header, to test readers.
    pub padding: bool,
    /// Flags with which missing DBIs are made, instead of those of the snapshot.
    pub create_flags: BTreeMap<String, Flags>,
}

impl Schema {
    /// The DBIs of the application.
    pub(crate) fn names(&self, mut names: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        names.retain(|name| !is_private(name));
        names
    }

    /// Where the versions of a DBI are kept: in itself, or in its shadow.
    pub(crate) fn versions(&self, name: &[u8]) -> Vec<u8> {
        if self.native { name.to_vec() } else { [SHADOW, name].concat() }
    }

    /// The flags of the DBI that keeps the versions.
    pub(crate) fn version_flags(&self, flags: Flags) -> Flags {
        if self.native { flags } else { flags.and(Flags::INTEGER_KEY) }
    }

    /// The transform of a DBI with these flags.
    pub(crate) fn transform(flags: Flags) -> &'static str {
        if flags.contains(Flags::DUPSORT) { DUPSORT_HACK } else { "" }
    }

    /// Refuses DBIs with several values to a key unless the configuration includes them.
    pub(crate) fn admit(&self, path: &Path, name: &[u8], flags: Flags) -> Result<(), Error> {
        if flags.contains(Flags::DUPSORT) && (self.native || !self.dupsort_hack) {
            return Err(Error::schema(path, name, "it has several values to a key, and dupsort_hack is not set"));
        }
        Ok(())
    }

    /// Whether a snapshot's DBI can be merged here: its flags and transform must fit the schema.
    pub(crate) fn accepts(&self, format: u64, flags: Flags, transform: &str) -> Result<(), Rule> {
        let hack = match transform {
            "" => false,
            DUPSORT_HACK => true,
            _ => return Err(Rule::Transform),
        };
        if hack && self.native {
            return Err(Rule::Transform);
        }
        // Before format 3, flags weren't the flags of the application's DBI.
        if hack && !self.dupsort_hack || format >= 3 && flags.contains(Flags::DUPSORT) != hack {
            return Err(Rule::Dupsort);
        }
        Ok(())
    }

    /// The flags with which a missing DBI is made; `None` if neither the schema nor the snapshot gives them.
    pub(crate) fn flags_for(&self, name: &[u8], format: u64, flags: Flags) -> Option<Flags> {
        let text = std::str::from_utf8(name).ok();
        let set = text.and_then(|name| self.create_flags.get(name)).copied();
        set.or((format >= 3 || self.native).then_some(flags))
    }
}

/// Whether a DBI belongs to the sync itself.
pub(crate) fn is_private(name: &[u8]) -> bool {
    name.starts_with(PRIVATE)
}

/// A DBI of the application and the DBI that keeps its versions, if they exist.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tables {
    /// The application's DBI. In a native schema the same as `versions`.
    pub(crate) main: Option<Dbi>,
    /// The DBI with headers.
    pub(crate) versions: Option<Dbi>,
}

impl Tables {
    /// Opens the DBIs that exist.
    pub(crate) fn open(schema: &Schema, txn: &mut ReadTxn<'_>, name: &[u8]) -> Result<Self, Error> {
        let main = txn.open(name)?;
        if let Some(dbi) = main {
            schema.admit(txn.env().path(), name, dbi.flags())?;
        }
        let versions = if schema.native { main } else { txn.open(&schema.versions(name))? };
        Ok(Self { main, versions })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(native: bool, dupsort_hack: bool) -> Schema {
        let create_flags = BTreeMap::from([("set".to_owned(), Flags::INTEGER_KEY)]);
        Schema { native, dupsort_hack, padding: false, create_flags }
    }

    #[test]
    fn which_dbis_can_be_merged() {
        let (plain, dups) = (Flags::default(), Flags::DUPSORT);
        for (native, hack, format, flags, transform, result) in [
            (true, false, 3, plain, "", Ok(())),
            (true, false, 3, plain, "zstd_v9", Err(Rule::Transform)),
            (true, false, 3, dups, DUPSORT_HACK, Err(Rule::Transform)),
            (true, false, 3, dups, "", Err(Rule::Dupsort)),
            (true, false, 2, dups, "", Ok(())),
            (false, true, 3, dups, DUPSORT_HACK, Ok(())),
            (false, true, 3, plain, DUPSORT_HACK, Err(Rule::Dupsort)),
            (false, true, 3, dups, "", Err(Rule::Dupsort)),
            (false, false, 3, dups, DUPSORT_HACK, Err(Rule::Dupsort)),
        ] {
            assert_eq!(schema(native, hack).accepts(format, flags, transform), result, "{native} {flags} {transform}");
        }
    }

    #[test]
    fn with_which_flags_a_dbi_is_made() {
        let dups = Flags::DUPSORT;
        for (native, name, format, flags) in [
            (true, "x", 3, Some(dups)),
            (true, "set", 3, Some(Flags::INTEGER_KEY)),
            (true, "x", 2, Some(dups)),
            (false, "x", 3, Some(dups)),
            (false, "x", 2, None),
            (false, "set", 2, Some(Flags::INTEGER_KEY)),
        ] {
            assert_eq!(schema(native, true).flags_for(name.as_bytes(), format, dups), flags, "{native} {name}");
        }
    }

    #[test]
    fn private_dbis_take_no_part() {
        let names = ["_sync_shadow_a", "_synchronous", "a", "b_sync"].map(|name| name.as_bytes().to_vec());
        assert_eq!(schema(true, false).names(names.to_vec()), [b"a".to_vec(), b"b_sync".to_vec()]);
        assert_eq!(schema(false, false).versions(b"a"), b"_sync_shadow_a");
    }
}
