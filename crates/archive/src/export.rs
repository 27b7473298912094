//! The vendor's own artefact back out of a set, byte for byte: a file appears under its name when it is whole (I8).

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;

use futures::TryStreamExt as _;
use seawall_core::{PlannedObject, Progress, RestoreRequest, Restored};
use seawall_vault::Vault;
use tempfile::NamedTempFile;
use tokio::time::Instant;

use crate::{Error, Manifest, SetReader, layout, timeline};

/// Writes the artefact of a set to the file that `request` names, or only says from what it would.
pub(crate) async fn export(
    vault: &Vault,
    manifest: &Manifest,
    request: &RestoreRequest,
    progress: Arc<dyn Progress>,
) -> Result<Restored, Error> {
    let started = Instant::now();
    let reader = Arc::new(SetReader::open(vault.clone(), manifest.clone()).await?);
    let Some(item) = reader.index().artefact() else {
        return Err(Error::Internal(format!("set {} has no artefact", manifest.id)));
    };
    let mut restored = Restored {
        point: timeline::point(manifest),
        output: request.output.clone(),
        bytes: 0,
        objects: objects(&reader, item)?,
        duration_ms: 0,
        dry_run: request.dry_run,
    };
    check_target(&request.output, request.force)?;
    if request.dry_run {
        return Ok(restored);
    }
    let of_item = |frame: &&crate::Frame| frame.item == item;
    let frames = reader.index().chunks.iter().flat_map(|chunk| &chunk.frames);
    progress.begin("restore", Some(frames.filter(of_item).map(|frame| frame.raw).sum()));
    let folder = request.output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Made for this user alone, and gone with its handle until it has its name.
    let mut file = NamedTempFile::new_in(folder).map_err(|error| io_error(folder, &error))?;
    let mut content = Box::pin(reader.content(item));
    while let Some(raw) = content.try_next().await? {
        let output = request.output.clone();
        let size = raw.len() as u64;
        let job = tokio::task::spawn_blocking(move || {
            file.write_all(&raw).map_err(|error| io_error(&output, &error)).map(|()| file)
        });
        file = job.await.map_err(panicked)??;
        restored.bytes += size;
        progress.advance(size);
    }
    let (output, force, folder) = (request.output.clone(), request.force, folder.to_owned());
    let named = tokio::task::spawn_blocking(move || take_the_name(file, &output, &folder, force));
    named.await.map_err(panicked)??;
    progress.finish();
    restored.duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(restored)
}

/// The chunks that hold an item.
fn objects(reader: &SetReader, item: u32) -> Result<Vec<PlannedObject>, Error> {
    let Manifest { id, codec, .. } = reader.manifest();
    let numbered = (0..).zip(&reader.index().chunks);
    let holding = numbered.filter(|(_, chunk)| chunk.frames.iter().any(|frame| frame.item == item));
    let object = |(number, chunk): (u32, &crate::Chunk)| {
        Ok(PlannedObject { key: layout::chunk(*id, number, *codec)?.as_str().to_owned(), bytes: chunk.stored() })
    };
    holding.map(object).collect()
}

/// Refuses to touch what is there, unless it is a file that may be replaced.
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

/// Gives the finished file its name, so that it is there after a power cut too.
fn take_the_name(file: NamedTempFile, output: &Path, folder: &Path, force: bool) -> Result<(), Error> {
    file.as_file().sync_all().map_err(|error| io_error(output, &error))?;
    let named = if force { file.persist(output) } else { file.persist_noclobber(output) };
    named.map_err(|failed| match failed.error.kind() {
        io::ErrorKind::AlreadyExists => Error::TargetExists { path: output.display().to_string() },
        _ => io_error(output, &failed.error),
    })?;
    let synced = std::fs::File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|error| io_error(folder, &error))
}

fn io_error(path: &Path, error: &io::Error) -> Error {
    Error::Io { path: path.display().to_string(), cause: error.to_string() }
}

fn panicked(error: tokio::task::JoinError) -> Error {
    Error::Internal(format!("a job ended in a panic: {error}"))
}
