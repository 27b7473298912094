//! May an environment that only sends go on with the snapshots of its name?
//!
//! Of each instance only the newest snapshot is restored. An instance that receives merges its own last snapshot first, so
//! that a new or older environment doesn't take its place with less in it. One that only sends reads nothing. So a small file
//! beside the data records the transaction that was sent last: without it, or behind it, the environment isn't the one that
//! sent them.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use crate::error::Error;

/// The file, for data in `data`.
pub(crate) fn file(data: &Path) -> PathBuf {
    let mut name = data.as_os_str().to_owned();
    name.push("-seawall-sent");
    name.into()
}

/// Whether an environment whose last transaction is `last` may send. `noted` is what was sent last from here as the
/// instance, and `listed` says that the vault holds snapshots of it.
pub(crate) fn may(noted: Option<u64>, last: u64, listed: bool) -> bool {
    !listed || noted.is_some_and(|noted| noted <= last)
}

/// The transaction that was sent last as `instance`; `None` if there is no record of it.
pub(crate) fn read(file: &Path, instance: &str) -> Result<Option<u64>, Error> {
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io(file)(error)),
    };
    let parts = text.trim().split_once(' ').filter(|(_, name)| *name == instance);
    Ok(parts.and_then(|(transaction, _)| transaction.parse().ok()))
}

/// Writes the record. A crash leaves the old file or the new one.
pub(crate) fn write(file: &Path, instance: &str, transaction: u64) -> Result<(), Error> {
    let folder = seawall_host::folder_of(file);
    let mut draft = tempfile::NamedTempFile::new_in(folder).map_err(Error::io(folder))?;
    writeln!(draft, "{transaction} {instance}").map_err(Error::io(file))?;
    draft.as_file().sync_all().map_err(Error::io(file))?;
    draft.persist(file).map_err(|error| Error::io(file)(error.error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_send() {
        for (noted, last, listed, expected) in [
            (None, 0, false, true),
            (None, 9, true, false),
            (Some(9), 9, true, true),
            (Some(9), 12, true, true),
            (Some(9), 8, true, false),
            (Some(9), 8, false, true),
        ] {
            assert_eq!(may(noted, last, listed), expected, "{noted:?} {last} {listed}");
        }
    }

    #[test]
    fn what_is_written_down_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = file(&folder.path().join("data.mdb"));
        assert_eq!(read(&file, "a").expect("nothing yet"), None);
        write(&file, "a", 7).expect("written");
        assert_eq!(read(&file, "a").expect("readable"), Some(7));
        assert_eq!(read(&file, "b").expect("readable"), None, "another instance's");
        fs::write(&file, "nonsense").expect("written");
        assert_eq!(read(&file, "a").expect("readable"), None);
    }
}
