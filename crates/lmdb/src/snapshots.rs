//! Snapshots as objects of a vault: commands that list, show, fetch, upload and remove them.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;

use futures::TryStreamExt as _;
use seawall_core::blocking;
use seawall_vault::{ObjectKey, Prefix, Vault};

use crate::Stamp;
use crate::capture::dump::Stretch;
use crate::error::{Error, snapshot_problem};
use crate::peers::marker;
use crate::peers::transfer;
use crate::snapshot::{Limits, SnapshotName, SnapshotReader};
use crate::view::{self, Viewer};

/// An object of a vault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Its name.
    pub name: String,
    /// Its bytes.
    pub bytes: u64,
    /// The time in its name; `None` if it isn't a snapshot name.
    pub stamp: Option<Stamp>,
}

/// Lists the objects with `prefix`, by name or by the time in the name. Objects without a time come first then.
pub async fn list(vault: &Vault, prefix: &str, by_time: bool) -> Result<Vec<Object>, Error> {
    let mut entries = Box::pin(vault.entries(&Prefix::all(), None));
    let mut objects = Vec::new();
    while let Some(entry) = entries.try_next().await? {
        let name = entry.key.as_str();
        if name.starts_with(prefix) && name != marker::NAME {
            let stamp = SnapshotName::parse(name).map(|name| name.stamp);
            objects.push(Object { name: name.to_owned(), bytes: entry.size, stamp });
        }
    }
    if by_time {
        objects.sort_by(|a, b| (a.stamp, &a.name).cmp(&(b.stamp, &b.name)));
    }
    Ok(objects)
}

/// Fetches an object into a file, which appears when it is whole. An existing file is refused; with `overwrite` it is
/// replaced.
pub async fn get(vault: &Vault, name: &str, output: &Path, overwrite: bool) -> Result<u64, Error> {
    let key = ObjectKey::new(name)?;
    let folder = seawall_host::folder_of(output).to_owned();
    if !overwrite && output.exists() {
        return Err(Error::Exists { path: output.to_owned() });
    }
    let mut draft = tempfile::NamedTempFile::new_in(&folder).map_err(Error::io(&folder))?;
    let mut stream = Box::pin(vault.stream(&key, None));
    let mut bytes = 0;
    while let Some(chunk) = stream.try_next().await? {
        bytes += chunk.len() as u64;
        draft.write_all(&chunk).map_err(Error::io(output))?;
    }
    draft.as_file().sync_all().map_err(Error::io(output))?;
    let persisted = if overwrite { draft.persist(output) } else { draft.persist_noclobber(output) };
    persisted.map_err(|error| match error.error.kind() {
        io::ErrorKind::AlreadyExists => Error::Exists { path: output.to_owned() },
        _ => Error::io(output)(error.error),
    })?;
    Ok(bytes)
}

/// Uploads a file. Unless `force` is given, it must be a whole snapshot with a snapshot name. An object of the same
/// name with other content is never replaced.
pub async fn put(vault: &Vault, file: &Path, name: &str, force: bool) -> Result<u64, Error> {
    if !force && SnapshotName::parse(name).is_none() {
        return Err(Error::BadName { name: name.to_owned() });
    }
    let key = ObjectKey::new(name)?;
    let path = file.to_owned();
    let opened = blocking(move || {
        let file = File::open(&path).map_err(Error::io(&path))?;
        let bytes = file.metadata().map_err(Error::io(&path))?.len();
        if !force {
            check(&path.display().to_string(), &file)?;
        }
        Ok::<_, Error>((file, bytes))
    });
    let (opened, bytes) = opened.await?;
    let all = [Stretch { at: 0, length: bytes }];
    transfer::upload(vault, &key, &Arc::new(opened), &all, file).await?;
    Ok(bytes)
}

/// Shows a snapshot of the vault, as [`view::snapshot`] does. Returns the viewer.
pub async fn show<V: Viewer + Send + 'static>(
    vault: &Vault,
    name: &str,
    only: Option<Vec<u8>>,
    mut viewer: V,
) -> Result<V, Error> {
    let key = ObjectKey::new(name)?;
    let object = vault.object(&key);
    transfer::read(vault, &key, vec![transfer::Part::Whole], move |source| {
        view::snapshot(&object, source, only.as_deref(), &mut viewer).map(|()| viewer)
    })
    .await?
}

/// Shows a snapshot in a local file.
pub fn show_file(file: &Path, only: Option<&[u8]>, viewer: &mut impl Viewer) -> Result<(), Error> {
    let source = File::open(file).map_err(Error::io(file))?;
    view::snapshot(&file.display().to_string(), source, only, viewer)
}

/// Removes an object, which must exist.
pub async fn remove(vault: &Vault, name: &str) -> Result<(), Error> {
    let key = ObjectKey::new(name)?;
    if vault.head(&key).await?.is_none() {
        return Err(seawall_vault::Error::NotFound { object: vault.object(&key) }.into());
    }
    Ok(vault.delete(&[key]).await?)
}

/// Reads a whole snapshot.
fn check(object: &str, source: impl io::Read) -> Result<(), Error> {
    let mut reader = SnapshotReader::new(source, Limits::default());
    while reader.next().map_err(|problem| snapshot_problem(object, problem))?.is_some() {}
    Ok(())
}
