//! What a process knows of its vaults beyond its end: which ones are behind, and what was deleted or left unfinished
//! meanwhile.
//!
//! A file of the database's state directory, replaced as a whole, 0600. Without it nothing acknowledged is lost: then the
//! names in all vaults are compared, and those that differ from the leading vault's are reported instead of settled. While a
//! record that can't be read is there, no vault leads unless all can be compared.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::prints::Print;

/// More than this is none of our records.
const LARGEST: u64 = 64 << 20;

/// The record.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Record {
    /// The vaults, in the order of the configuration.
    pub(crate) vaults: Vec<Noted>,
    /// Names whose last write or deletion may have been cut off, with the digest of what was written.
    #[serde(default)]
    pub(crate) unfinished: BTreeMap<String, Option<String>>,
    /// Names that are written over.
    #[serde(default)]
    pub(crate) overwritten: BTreeSet<String>,
    /// The newest acknowledged name of each folder, with the print of its object.
    #[serde(default)]
    pub(crate) newest: BTreeMap<String, Option<Print>>,
    /// Whether it began while a vault was away, and the vaults could not all be compared since. Then nothing is deleted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) unproved: bool,
}

/// One vault.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Noted {
    /// Its URL without secrets, by which it is known again.
    pub(crate) url: String,
    /// Whether it keeps what is deleted elsewhere.
    #[serde(default)]
    pub(crate) keeps: bool,
    /// Since when it is behind, in milliseconds since 1970; `None` while it holds everything.
    #[serde(default)]
    pub(crate) behind_since_ms: Option<i64>,
    /// Whether the record began without it: it was away, or didn't agree with the others. It may hold a newer history.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) unmet: bool,
    /// The identity of an encrypted vault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) identity: Option<String>,
    /// Why it is neither read nor written, if it holds what isn't of this database's history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) differs: Option<Differing>,
    /// When it was found last that it lacks what it held before, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) set_back_ms: Option<i64>,
    /// Objects and bytes that it never got, because no key opened them when it caught up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sealed: Option<(u64, u64)>,
    /// The newest acknowledged name of each folder when it fell behind, with the print of its object.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) held: BTreeMap<String, Option<Print>>,
    /// Names that were deleted elsewhere since then.
    #[serde(default)]
    pub(crate) deleted: BTreeSet<String>,
    /// Names that an unfinished write may have left in it, with the digest of what was written.
    #[serde(default)]
    pub(crate) unfinished: BTreeMap<String, Option<String>>,
}

/// An object that isn't of this database's history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Differing {
    pub(crate) object: String,
    pub(crate) cause: String,
}

impl Noted {
    /// Whether it never got some objects.
    pub(crate) fn is_sealed(&self) -> bool {
        self.sealed.is_some()
    }
}

impl Record {
    /// What is known of a vault.
    pub(crate) fn of(&self, url: &str) -> Option<&Noted> {
        self.vaults.iter().find(|noted| noted.url == url)
    }
}

/// Reads the record at `path`; `None` when there is none. Blocks.
///
/// # Errors
/// When there is one that can't be read.
pub(crate) fn load(path: &Path) -> io::Result<Option<Record>> {
    let size = match fs::metadata(path) {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if size > LARGEST {
        return Err(io::Error::other("it is too large"));
    }
    serde_json::from_slice(&fs::read(path)?).map(Some).map_err(io::Error::other)
}

/// Replaces the record at `path`, and makes its folder if there is none. Blocks.
pub(crate) fn save(path: &Path, record: &Record) -> io::Result<()> {
    let bytes = serde_json::to_vec(record).map_err(io::Error::other)?;
    if let Some(folder) = path.parent().filter(|folder| !folder.exists()) {
        use std::os::unix::fs::DirBuilderExt as _;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let partial = PathBuf::from(format!("{}.tmp", path.display()));
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&partial)?;
    file.write_all(&bytes)?;
    file.sync_data()?;
    fs::rename(&partial, path)?;
    // Without this a power loss may bring back a record that calls a vault whole which fell behind.
    match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => fs::File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn it_comes_back_and_is_private() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("state/several.json");
        assert_eq!(load(&path).expect("none"), None);
        let record = Record {
            vaults: vec![
                Noted { url: "s3://a".into(), ..Noted::default() },
                Noted {
                    url: "file:///b".into(),
                    keeps: true,
                    behind_since_ms: Some(7),
                    unmet: true,
                    set_back_ms: Some(8),
                    identity: Some("7".into()),
                    sealed: Some((1, 2)),
                    held: [("0000/w".to_owned(), None)].into(),
                    differs: Some(Differing { object: "x".into(), cause: "y".into() }),
                    deleted: ["0000/x".to_owned()].into(),
                    unfinished: BTreeMap::new(),
                },
            ],
            unfinished: [("0000/y".to_owned(), None)].into(),
            overwritten: ["lock.json".to_owned()].into(),
            newest: [("0000/x".to_owned(), Some(Print::of_bytes(&bytes::Bytes::from_static(b"x"))))].into(),
            unproved: true,
        };
        save(&path, &record).expect("saved");
        save(&path, &record).expect("saved over");
        assert_eq!(load(&path).expect("read"), Some(record.clone()));
        assert_eq!(record.of("file:///b").and_then(|noted| noted.behind_since_ms), Some(7));
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        fs::write(&path, "{").expect("written");
        assert!(load(&path).is_err(), "damaged");
    }
}
