//! A file that PostgreSQL archives, into a vault: what `archive_command` needs.
//!
//! PostgreSQL asks for two things. Success only if the file is stored durably; and success again if the same file comes
//! again, because the server may not have noted the first success. Another file of the same name must not be stored.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::path::Path;

use seawall_archive::log::{Cluster, History, Log, LogError, LogFile, SegmentName, Stored, TimelineId};
use seawall_vault::Vault;

use super::page::{HEADER, SegmentHeader, system_of};

/// The most bytes of a history file and of the note of a base backup.
const LARGEST_FILE: u64 = 4 << 20;

/// A file that is in the vault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pushed {
    /// Which file.
    pub file: LogFile,
    /// Whether it was there before.
    pub stored: Stored,
    /// Its cluster.
    pub cluster: Cluster,
}

/// Stores the file at `path`, whose name says what it is. The first file makes the vault its cluster's. When this returns,
/// the store has confirmed it (I1).
///
/// # Errors
/// When the name is none of PostgreSQL's, the file isn't what its name says, the vault is another cluster's or holds other
/// content under this name, or the store fails.
pub async fn push(vault: &Vault, path: &Path) -> Result<Pushed, LogError> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let file: LogFile =
        name.parse().map_err(|()| not_a_log(path, "its name is none of a file that PostgreSQL archives"))?;
    match file {
        LogFile::Segment(name) => segment(vault, path, file, name, true).await,
        LogFile::Partial(name) => segment(vault, path, file, name, false).await,
        LogFile::History(_) | LogFile::Backup(..) => text(vault, path, file).await,
    }
}

async fn segment(
    vault: &Vault,
    path: &Path,
    file: LogFile,
    name: SegmentName,
    complete: bool,
) -> Result<Pushed, LogError> {
    let failed = |error: std::io::Error| LogError::io(path, &error);
    let mut content = File::open(path).map_err(failed)?;
    let header = header_of(&mut content).map_err(failed)?.map_err(|cause| not_a_log(path, &cause))?;
    header.check(name).map_err(|cause| not_a_log(path, &cause))?;
    let (length, size) = (content.metadata().map_err(failed)?.len(), header.segment_size);
    if length != u64::from(size.bytes()) {
        let cause = format!("it has {length} bytes, and a segment of this cluster has {}", size.bytes());
        return Err(not_a_log(path, &cause));
    }
    let cluster = Cluster { system: header.system, segment_size: size };
    let log = Log::claim(vault, cluster).await?;
    histories(&log, seawall_host::folder_of(path), name.timeline).await?;
    let stored = log.put_segment(name, complete, &mut content).await?;
    Ok(Pushed { file, stored, cluster })
}

/// Stores the histories of a segment's timeline before the segment, if the vault lacks them. A server archives the history file when it
/// is promoted, and not later: one whose archiving was off then, as after a restore, never does.
async fn histories(log: &Log, folder: &Path, timeline: TimelineId) -> Result<(), LogError> {
    let mut wanted = vec![timeline];
    while let Some(timeline) = wanted.pop() {
        if log.history(timeline).await?.is_some() {
            continue;
        }
        let path = folder.join(LogFile::History(timeline).to_string());
        let content = match File::open(&path) {
            Ok(file) => {
                let mut content = Vec::new();
                file.take(LARGEST_FILE + 1).read_to_end(&mut content).map_err(|error| LogError::io(&path, &error))?;
                content
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                tracing::warn!(file = %path.display(), "neither the vault nor the folder of the segment has it: no recovery gets to this timeline");
                continue;
            }
            Err(error) => return Err(LogError::io(&path, &error)),
        };
        let history = History::parse(timeline, &content).map_err(|cause| not_a_log(&path, &cause))?;
        wanted.extend(history.ancestors.iter().map(|ancestor| ancestor.timeline));
        log.put_file(LogFile::History(timeline), content.into()).await?;
    }
    Ok(())
}

/// A history file, or what a base backup notes of itself. It doesn't say its cluster: the data directory does.
async fn text(vault: &Vault, path: &Path, file: LogFile) -> Result<Pushed, LogError> {
    let failed = |error: std::io::Error| LogError::io(path, &error);
    let mut content = Vec::new();
    let opened = File::open(path).map_err(failed)?;
    opened.take(LARGEST_FILE + 1).read_to_end(&mut content).map_err(failed)?;
    if let LogFile::History(timeline) = file {
        History::parse(timeline, &content).map_err(|cause| not_a_log(path, &cause))?;
    }
    let log_folder = seawall_host::folder_of(path);
    let known = system_of(seawall_host::folder_of(log_folder)).map_err(failed)?;
    let log = match Log::open(vault).await? {
        Some(log) => log,
        // The first file of all: the segments beside it say whose it is.
        None => {
            Log::claim(
                vault,
                beside(log_folder).map_err(failed)?.ok_or_else(|| {
                    not_a_log(
                        path,
                        "the vault holds no log yet, and no segment beside this file says which cluster it is of",
                    )
                })?,
            )
            .await?
        }
    };
    let cluster = log.cluster();
    if let Some(ours) = known.filter(|ours| *ours != cluster.system) {
        return Err(LogError::OtherCluster { object: vault.url().to_owned(), theirs: cluster.system, ours });
    }
    let stored = log.put_file(file, content.into()).await?;
    Ok(Pushed { file, stored, cluster })
}

/// The cluster of a segment in this folder.
fn beside(folder: &Path) -> std::io::Result<Option<Cluster>> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name: Option<LogFile> = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let Some(LogFile::Segment(name)) = name else { continue };
        // A segment that is prepared for later holds another one's bytes.
        if let Ok(header) = header_of(&mut File::open(entry.path())?)?
            && header.check(name).is_ok()
        {
            return Ok(Some(Cluster { system: header.system, segment_size: header.segment_size }));
        }
    }
    Ok(None)
}

/// The header of a file's first page; the file is at its begin again.
fn header_of(file: &mut File) -> std::io::Result<Result<SegmentHeader, String>> {
    let mut bytes = Vec::with_capacity(HEADER);
    file.take(HEADER as u64).read_to_end(&mut bytes)?;
    file.rewind()?;
    Ok(SegmentHeader::parse(&bytes))
}

fn not_a_log(path: &Path, cause: &str) -> LogError {
    LogError::NotALog { file: path.display().to_string(), cause: cause.to_owned() }
}
