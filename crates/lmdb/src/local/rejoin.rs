//! May an environment that was away take part again?
//!
//! Deletions are swept after the retention. An environment that was away for longer may still have keys that all others
//! deleted and swept, and would bring the keys back; so it is refused. A small file beside the data records when the
//! environment was last in step. Neither the environment nor the vault could tell: the application writes to the
//! environment too, and old snapshots are deleted.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Stamp;
use crate::error::Error;

/// The file, for data in `data`.
pub(crate) fn file(data: &Path) -> PathBuf {
    let mut name = data.as_os_str().to_owned();
    name.push("-in-step");
    name.into()
}

/// Whether an environment that was last in step at `last` may take part; an environment that never was in step may.
pub(crate) fn may(last: Option<Stamp>, now: Stamp, retention: Duration) -> bool {
    last.is_none_or(|last| Duration::from_nanos(now.0.saturating_sub(last.0)) < retention)
}

/// When the environment was last in step; `None` if no record exists.
pub(crate) fn read(file: &Path) -> Result<Option<Stamp>, Error> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(text.trim().parse().ok().map(Stamp)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io(file)(error)),
    }
}

/// Writes the record. A crash leaves the old file or the new one.
pub(crate) fn write(file: &Path, now: Stamp) -> Result<(), Error> {
    let folder = seawall_host::folder_of(file);
    let mut draft = tempfile::NamedTempFile::new_in(folder).map_err(Error::io(folder))?;
    writeln!(draft, "{}", now.0).map_err(Error::io(file))?;
    draft.persist(file).map_err(|error| Error::io(file)(error.error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_take_part_again() {
        let day = 86_400_000_000_000;
        for (last, now, expected) in [
            (None, 100 * day, true),
            (Some(Stamp(95 * day)), 100 * day, true),
            (Some(Stamp(90 * day)), 100 * day, false),
            (Some(Stamp(1)), 100 * day, false),
            (Some(Stamp(101 * day)), 100 * day, true),
        ] {
            assert_eq!(may(last, Stamp(now), Duration::from_secs(10 * 86_400)), expected, "{last:?}");
        }
    }

    #[test]
    fn what_is_written_down_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = file(&folder.path().join("data.mdb"));
        assert_eq!(read(&file).expect("nothing yet"), None);
        for stamp in [Stamp(7), Stamp(u64::MAX)] {
            write(&file, stamp).expect("written");
            assert_eq!(read(&file).expect("readable"), Some(stamp));
        }
        fs::write(&file, "nonsense").expect("written");
        assert_eq!(read(&file).expect("readable"), None);
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }
}
