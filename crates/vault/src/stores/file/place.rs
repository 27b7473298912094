//! Folders, and the metadata of files: modes, times, versions.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::fs::{DirBuilder, File, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::XattrFlags;
use seawall_core::Moment;

use crate::{Digest, Meta, Tag};

/// The extended attribute with the digest, as text.
const DIGEST: &str = "user.seawall.blake3";

/// The mode of a vault's root that we make. Its content is as secret as the database.
const PRIVATE: u32 = 0o700;

/// The metadata of a file for [`crate::Store::head`], without its digest. The mtime is the stamp.
pub(super) fn meta(metadata: &Metadata) -> Meta {
    let modified = moment(metadata.mtime(), metadata.mtime_nsec());
    Meta { size: metadata.len(), modified, tag: Some(tag(metadata)), stamp: Some(modified), digest: None }
}

/// Keeps a file's digest beside its bytes. Not every file system has room for it, and an object is valid without a
/// digest.
pub(super) fn keep_digest(file: &File, digest: Digest) {
    let kept = rustix::fs::fsetxattr(file, DIGEST, digest.to_string().as_bytes(), XattrFlags::empty());
    if let Err(error) = kept {
        tracing::debug!(%error, "a file's digest can't be kept here");
    }
}

/// The digest that was kept.
pub(super) fn digest(path: &Path) -> Option<Digest> {
    let mut text = [0; 64];
    let len = rustix::fs::lgetxattr(path, DIGEST, &mut text).ok()?;
    std::str::from_utf8(text.get(..len)?).ok()?.parse().ok()
}

/// When a file was renamed to its place, or touched after that: its change time, which no process can set.
pub(super) fn changed(metadata: &Metadata) -> Moment {
    moment(metadata.ctime(), metadata.ctime_nsec())
}

fn moment(seconds: i64, nanoseconds: i64) -> Moment {
    Moment::from_millis(seconds.saturating_mul(1000).saturating_add(nanoseconds / 1_000_000))
}

/// A file's version: its inode and its change time, which no process can set. So two files of equal content have
/// different versions. The swap in `write` makes sure that the change time grows from one version of a key to the next.
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

/// The mode of files in a vault: the permissions of its root, without the right to execute.
pub(super) fn file_mode(root: &Path) -> u32 {
    root.metadata().map_or(0o600, |metadata| metadata.permissions().mode() & 0o666)
}

/// Makes the names in a folder durable.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
