//! Export of a vendor's artefact from a set, byte for byte. The file or directory appears under its name only when it
//! is whole (I8).

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::TryStreamExt as _;
use seawall_core::{Panicked, PlannedObject, Progress, RestoreRequest, Restored};
use seawall_vault::Vault;
use tempfile::{NamedTempFile, TempDir};
use tokio::time::Instant;

use crate::manifest::Artefact;
use crate::{Error, Manifest, SetReader, layout, timeline};

/// Writes the artefact of a set to the file or directory that `request` names. A dry run only reports the objects that
/// it would read.
pub(crate) async fn export(
    vault: &Vault,
    manifest: &Manifest,
    request: &RestoreRequest,
    progress: Arc<dyn Progress>,
) -> Result<Restored, Error> {
    let started = Instant::now();
    let reader = Arc::new(SetReader::open(vault.clone(), manifest.clone()).await?);
    let Some(artefact) = reader.index().artefact() else {
        return Err(Error::Internal(format!("set {} has no artefact", manifest.id)));
    };
    let items = match &artefact {
        Artefact::File(item) => BTreeSet::from([*item]),
        Artefact::Directory(items) => items.iter().copied().collect(),
    };
    let mut restored = Restored {
        point: timeline::point(manifest),
        output: request.output.clone(),
        bytes: 0,
        objects: objects(&reader, &items)?,
        duration_ms: 0,
        dry_run: request.dry_run,
        doubts: Vec::new(),
    };
    match &artefact {
        Artefact::File(_) => check_target(&request.output, request.force)?,
        Artefact::Directory(_) => check_folder(&request.output)?,
    }
    if request.dry_run {
        return Ok(restored);
    }
    let frames = reader.index().chunks.iter().flat_map(|chunk| &chunk.frames);
    progress.begin("restore", Some(frames.filter(|frame| items.contains(&frame.item)).map(|frame| frame.raw).sum()));
    let folder = request.output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut draft = Draft::new(folder, &reader, &artefact)?;
    let mut content = Box::pin(reader.contents(items));
    while let Some((item, raw)) = content.try_next().await? {
        let size = raw.len() as u64;
        let job = tokio::task::spawn_blocking(move || draft.write(item, &raw).map(|()| draft));
        draft = job.await.map_err(Panicked::from)??;
        restored.bytes += size;
        progress.advance(size);
    }
    let (output, force, folder) = (request.output.clone(), request.force, folder.to_owned());
    let named = tokio::task::spawn_blocking(move || draft.take_the_name(&output, &folder, force));
    named.await.map_err(Panicked::from)??;
    progress.finish();
    restored.duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(restored)
}

/// The chunks that hold some items.
fn objects(reader: &SetReader, items: &BTreeSet<u32>) -> Result<Vec<PlannedObject>, Error> {
    let Manifest { id, codec, .. } = reader.manifest();
    let numbered = (0..).zip(&reader.index().chunks);
    let holding = numbered.filter(|(_, chunk)| chunk.frames.iter().any(|frame| items.contains(&frame.item)));
    let object = |(number, chunk): (u32, &crate::Chunk)| {
        Ok(PlannedObject { key: layout::chunk(*id, number, *codec)?.as_str().to_owned(), bytes: chunk.stored() })
    };
    holding.map(object).collect()
}

/// Refuses an existing target, except a file that `--force` may replace.
fn check_target(output: &Path, force: bool) -> Result<(), Error> {
    match std::fs::symlink_metadata(output) {
        Ok(found) if found.is_dir() => {
            Err(Error::Io { path: output.display().to_string(), cause: "it is a folder".to_owned() })
        }
        Ok(_) if !force => Err(Error::TargetExists { path: output.display().to_string() }),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(io_error(output, &error)),
    }
}

/// Refuses an existing target, except an empty folder. Export never replaces a folder that has content, because Seawall
/// can't know what the content is worth.
fn check_folder(output: &Path) -> Result<(), Error> {
    match std::fs::read_dir(output).map(|mut found| found.next().is_none()) {
        Ok(true) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound && std::fs::symlink_metadata(output).is_err() => Ok(()),
        Ok(false) | Err(_) => Err(Error::FolderInUse { path: output.display().to_string() }),
    }
}

/// Output without a name yet. Only this user can read it, and dropping it deletes it, until it gets its name.
enum Draft {
    File(NamedTempFile),
    Folder { place: TempDir, names: Vec<Option<String>>, open: Option<(u32, File)>, begun: BTreeSet<u32> },
}

impl Draft {
    fn new(folder: &Path, reader: &SetReader, artefact: &Artefact) -> Result<Self, Error> {
        match artefact {
            Artefact::File(_) => {
                Ok(Self::File(NamedTempFile::new_in(folder).map_err(|error| io_error(folder, &error))?))
            }
            Artefact::Directory(items) => {
                let mut names = vec![None; reader.index().items.len()];
                for item in items {
                    names[*item as usize] = reader.index().items.get(*item as usize).map(|item| item.name.clone());
                }
                let mut private = tempfile::Builder::new();
                private.prefix(".seawall-").permissions(Permissions::from_mode(0o700));
                let place = private.tempdir_in(folder).map_err(|error| io_error(folder, &error))?;
                Ok(Self::Folder { place, names, open: None, begun: BTreeSet::new() })
            }
        }
    }

    /// Writes the next bytes of an item. Blocks.
    fn write(&mut self, item: u32, raw: &[u8]) -> Result<(), Error> {
        match self {
            Self::File(file) => file.write_all(raw).map_err(|error| io_error(file.path(), &error)),
            Self::Folder { place, names, open, begun } => {
                let name = names.get(item as usize).cloned().flatten().unwrap_or_default();
                let path = place.path().join(name);
                let mut file = match open.take() {
                    Some((same, file)) if same == item => file,
                    _ => begin(&path, begun.insert(item)).map_err(|error| io_error(&path, &error))?,
                };
                file.write_all(raw).map_err(|error| io_error(&path, &error))?;
                *open = Some((item, file));
                Ok(())
            }
        }
    }

    /// Gives the finished output its name, durably, so that it survives a power cut. Blocks.
    fn take_the_name(self, output: &Path, folder: &Path, force: bool) -> Result<(), Error> {
        match self {
            Self::File(file) => {
                file.as_file().sync_all().map_err(|error| io_error(output, &error))?;
                let named = if force { file.persist(output) } else { file.persist_noclobber(output) };
                named.map_err(|failed| match failed.error.kind() {
                    io::ErrorKind::AlreadyExists => Error::TargetExists { path: output.display().to_string() },
                    _ => io_error(output, &failed.error),
                })?;
            }
            Self::Folder { place, names, begun, .. } => {
                let empty = (0..).zip(&names).filter(|(item, _)| !begun.contains(item));
                let empty: Vec<PathBuf> =
                    empty.filter_map(|(_, name)| Some(place.path().join(name.as_ref()?))).collect();
                for path in empty {
                    begin(&path, true).map_err(|error| io_error(&path, &error))?;
                }
                sync(place.path()).map_err(|error| io_error(output, &error))?;
                // The rename replaces a folder only if the folder is still empty.
                std::fs::rename(place.path(), output).map_err(|error| match error.kind() {
                    io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::NotADirectory => {
                        Error::FolderInUse { path: output.display().to_string() }
                    }
                    _ => io_error(output, &error),
                })?;
                let _named = place.keep();
            }
        }
        let synced = File::open(folder).and_then(|folder| folder.sync_all());
        synced.map_err(|error| io_error(folder, &error))
    }
}

/// Opens a file to write behind what is in it; the first time it must not be there.
fn begin(path: &Path, first: bool) -> io::Result<File> {
    OpenOptions::new().append(true).create_new(first).mode(0o600).open(path)
}

/// Waits until a folder's files are on the disk: all with one call where there is one, for there may be 100,000.
fn sync(folder: &Path) -> io::Result<()> {
    let opened = File::open(folder)?;
    #[cfg(target_os = "linux")]
    rustix::fs::syncfs(&opened)?;
    #[cfg(not(target_os = "linux"))]
    for file in std::fs::read_dir(folder)? {
        File::open(file?.path())?.sync_all()?;
    }
    opened.sync_all()
}

fn io_error(path: &Path, error: &io::Error) -> Error {
    Error::Io { path: path.display().to_string(), cause: error.to_string() }
}
