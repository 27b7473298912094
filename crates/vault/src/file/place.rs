//! Folders and what the file system knows about a file: modes, times, versions.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::fs::{DirBuilder, File, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

use seawall_core::Moment;

use crate::{Meta, Tag};

/// The mode of a vault's root where we make it: what is in it is as secret as the database.
const PRIVATE: u32 = 0o700;

/// What [`crate::Store::head`] tells about a file. The mtime is the stamp.
pub(super) fn meta(metadata: &Metadata) -> Meta {
    let modified = moment(metadata.mtime(), metadata.mtime_nsec());
    Meta { size: metadata.len(), modified, tag: Some(tag(metadata)), stamp: Some(modified) }
}

/// When a file was renamed to its place, or touched after that: its change time, which no one can set.
pub(super) fn changed(metadata: &Metadata) -> Moment {
    moment(metadata.ctime(), metadata.ctime_nsec())
}

fn moment(seconds: i64, nanoseconds: i64) -> Moment {
    Moment::from_millis(seconds.saturating_mul(1000).saturating_add(nanoseconds / 1_000_000))
}

/// A file's version. The inode and its change time, which no one can set, tell two files of equal content apart; the
/// swap in `write` sees to it that the change time of one key's successive versions grows.
pub(super) fn tag(metadata: &Metadata) -> Tag {
    Tag::new(format!("{:x}-{:x}-{:x}.{:x}", metadata.ino(), metadata.size(), metadata.ctime(), metadata.ctime_nsec()))
}

/// Makes a folder of the vault with all that lead to it, durably. Folders below the root have the root's mode, and
/// the root that we make is private.
pub(super) fn make_folder(root: &Path, folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let inside = folder != root && folder.starts_with(root);
    if let Some(parent) = folder.parent()
        && !parent.as_os_str().is_empty()
    {
        make_folder(root, parent)?;
    }
    let mode = if inside { root.metadata()?.permissions().mode() & 0o777 } else { PRIVATE };
    match DirBuilder::new().mode(mode).create(folder) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => return Ok(()),
        Err(error) => return Err(error),
    }
    match folder.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync_folder(parent),
        _ => sync_folder(Path::new(".")),
    }
}

/// The mode of files in a vault: what its root allows, without the right to run them.
pub(super) fn file_mode(root: &Path) -> u32 {
    root.metadata().map_or(0o600, |metadata| metadata.permissions().mode() & 0o666)
}

/// Makes the names in a folder durable.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
