//! A file that a recovery asks for, out of a vault: what `restore_command` needs.
//!
//! The file appears only when it is complete, checked and durable. PostgreSQL takes a failure for the end of the log unless
//! the exit code says otherwise, so the caller must tell the two apart: [`LogError::is_absence`].

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::path::Path;

use seawall_archive::log::{Cluster, Line, Log, LogError, LogFile, Lsn, SegmentName, SystemId};
use seawall_vault::Vault;
use tempfile::NamedTempFile;

use super::super::records::{Event, Rest, TABLESPACES, events};
use super::page::{HEADER, SegmentHeader};

/// What a recovery asks for.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The file.
    pub file: LogFile,
    /// Where it goes.
    pub to: &'a Path,
    /// The timeline that is recovered.
    pub line: Line,
    /// The cluster that is recovered, if it is known.
    pub system: Option<SystemId>,
    /// The position at which a restore knows that the log has a gap or ends.
    pub until: Option<Lsn>,
    /// The data directory that is recovered, if it is known: then a segment is refused that would have the server write into the
    /// tablespace of another one.
    pub data: Option<&'a Path>,
}

/// Writes the file to its place, which may exist.
///
/// # Errors
/// [`LogError::Absent`] only where it is certain that the log has no such file and nothing after it.
pub async fn fetch(vault: &Vault, request: Request<'_>) -> Result<(), LogError> {
    let Request { file, to, line, system, until, data } = request;
    let log = Log::open(vault).await?.ok_or_else(|| LogError::NoLog { vault: vault.url().to_owned() })?;
    let cluster = log.cluster();
    if let Some(ours) = system.filter(|ours| *ours != cluster.system) {
        return Err(LogError::OtherCluster { object: vault.url().to_owned(), theirs: cluster.system, ours });
    }
    let found = log.fetch_until(file, line, until).await?;
    let failed = |error: std::io::Error| LogError::io(to, &error);
    let folder = seawall_host::folder_of(to);
    let mut partial = NamedTempFile::with_prefix_in(".seawall-", folder).map_err(failed)?;
    found.write_to(&mut partial, to)?;
    partial.flush().map_err(failed)?;
    if let LogFile::Segment(name) = file {
        let header = first_page(partial.as_file_mut()).map_err(failed)?;
        of_cluster(header, name, cluster, format!("{name} of {}", vault.url()))?;
        if let Some(data) = data {
            let mut bytes = Vec::new();
            partial
                .as_file_mut()
                .rewind()
                .and_then(|()| partial.as_file_mut().read_to_end(&mut bytes))
                .map_err(failed)?;
            tablespaces(&log, name, (line, until), bytes, data).await?;
        }
    }
    partial.as_file().sync_all().map_err(failed)?;
    partial.persist(to).map_err(|error| failed(error.error))?;
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)
}

/// The bytes of a segment, for the recovery of `line` up to `until`, if it is one of this cluster.
///
/// # Errors
/// As [`fetch`].
pub(crate) async fn sound_segment(
    log: &Log,
    name: SegmentName,
    line: Line,
    until: Option<Lsn>,
) -> Result<Vec<u8>, LogError> {
    let (found, cluster) = (log.fetch_until(LogFile::Segment(name), line, until).await?, log.cluster());
    let object = format!("{name} of {}", log.vault().url());
    let unpack = move || {
        let mut bytes = Vec::new();
        found.write_to(&mut bytes, Path::new(&object))?;
        of_cluster(SegmentHeader::parse(&bytes), name, cluster, object)?;
        Ok::<_, crate::Error>(bytes)
    };
    match seawall_core::blocking(unpack).await {
        Ok(bytes) => Ok(bytes),
        Err(crate::Error::Log(error)) => Err(error),
        Err(error) => Err(LogError::NotALog { file: name.to_string(), cause: error.to_string() }),
    }
}

/// Checks that a header is that of a segment, and of this cluster.
fn of_cluster(
    header: Result<SegmentHeader, String>,
    name: SegmentName,
    cluster: Cluster,
    object: String,
) -> Result<(), LogError> {
    let header = header.and_then(|header| header.check(name).map(|()| header));
    let header = header.map_err(|cause| LogError::NotALog { file: object.clone(), cause })?;
    let theirs = Cluster { system: header.system, segment_size: header.segment_size };
    match theirs == cluster {
        true => Ok(()),
        false => Err(LogError::OtherCluster { object, theirs: theirs.system, ours: cluster.system }),
    }
}

/// Refuses a segment that makes a tablespace in a folder where files of a tablespace are: those of the server that is recovered
/// here from its own log, or old ones, whose pages the log wouldn't change because they are newer.
async fn tablespaces(
    log: &Log,
    name: SegmentName,
    (line, until): (Line, Option<Lsn>),
    mut bytes: Vec<u8>,
    data: &Path,
) -> Result<(), LogError> {
    let size = log.cluster().segment_size;
    let Some(start) = name.start(size) else { return Ok(()) };
    let length = bytes.len();
    let mut made = Vec::new();
    let mut look = |bytes: &[u8]| {
        made.clear();
        events(bytes, start, length, start, |at, event| {
            if let Event::Tablespace { location } = event {
                made.push((at, location));
            }
        })
    };
    if let Rest::Cut(None | Some(TABLESPACES)) = look(&bytes)
        && let Some(next) = start.after(length as u64)
    {
        let next = LogFile::Segment(SegmentName::of(name.timeline, next, size));
        // If it isn't there, the server doesn't read the record either.
        if let Ok(next) = log.fetch_until(next, line, until).await {
            next.write_to(&mut bytes, data)?;
            look(&bytes);
        }
    }
    let used = made.into_iter().find(|(_, location)| is_used(data, Path::new(location)));
    match used {
        Some((at, location)) => Err(LogError::TablespaceInUse { location, file: name.to_string(), at }),
        None => Ok(()),
    }
}

/// Whether files of a tablespace are in a folder that isn't this server's tablespace yet.
fn is_used(data: &Path, location: &Path) -> bool {
    // Within the data directory, or this server's already: made by this very record before a restart, or to be dropped before it.
    let mut links = std::fs::read_dir(data.join("pg_tblspc")).into_iter().flatten().flatten();
    if !location.is_absolute() || links.any(|link| std::fs::read_link(link.path()).is_ok_and(|to| to == location)) {
        return false;
    }
    let found = versioned(data).and_then(|name| std::fs::symlink_metadata(location.join(name)));
    // What can't be looked at may be there.
    !found.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

/// The folder in a tablespace that is of servers of this version: `PG_15_202209061`.
fn versioned(data: &Path) -> std::io::Result<String> {
    let major = std::fs::read_to_string(data.join("PG_VERSION"))?;
    // Behind the system identifier and the version of the control file.
    let mut control = [0; 16];
    File::open(data.join("global/pg_control"))?.read_exact(&mut control)?;
    let catalog = u32::from_le_bytes([control[12], control[13], control[14], control[15]]);
    Ok(format!("PG_{}_{catalog}", major.trim_end()))
}

fn first_page(file: &mut File) -> std::io::Result<Result<SegmentHeader, String>> {
    let mut bytes = Vec::with_capacity(HEADER);
    file.rewind()?;
    file.take(HEADER as u64).read_to_end(&mut bytes)?;
    Ok(SegmentHeader::parse(&bytes))
}
