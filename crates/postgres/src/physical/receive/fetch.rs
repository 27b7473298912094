//! A file that a recovery asks for, out of a vault: what `restore_command` needs.
//!
//! The file appears only when it is complete, checked and durable. PostgreSQL takes a failure for the end of the log unless
//! the exit code says otherwise, so the caller must tell the two apart: [`LogError::is_absence`].

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::path::Path;

use bytes::Bytes;
use seawall_archive::log::{Cluster, Fetched, Line, Log, LogError, LogFile, Lsn, SegmentName, SystemId};
use seawall_vault::Vault;
use tempfile::NamedTempFile;
use tokio::time::Instant;

use super::super::records::{Event, Rest, TABLESPACES, events};
use super::page::{HEADER, SegmentHeader};
use super::spool::Spool;

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

/// Writes the file to its place, which may exist. With a spool, the next segments are got ahead.
///
/// # Errors
/// [`LogError::Absent`] only where it is certain that the log has no such file and nothing after it.
pub async fn fetch(vault: &Vault, request: Request<'_>, spool: Option<&Spool>) -> Result<(), LogError> {
    if hand_over(request, spool, Some(vault)).await {
        return Ok(());
    }
    let begun = Instant::now();
    let fetched = fetch_alone(vault, request).await;
    // On a full disk, what was got ahead makes room for what the recovery waits for.
    if matches!(fetched, Err(LogError::Io { .. })) && spool.is_some_and(Spool::clear) {
        return fetch_alone(vault, request).await.map(drop);
    }
    match (spool, request.file, &fetched) {
        (Some(spool), LogFile::Segment(name), Ok(log)) => spool.fill(log, name, begun.elapsed()).await,
        // PostgreSQL asks for a history when a recovery begins or ends, and a standby when it has read all that there is.
        (Some(spool), LogFile::History(_), _) => drop(spool.clear()),
        (Some(spool), _, Err(error)) if error.is_absence() => drop(spool.clear()),
        _ => {}
    }
    fetched.map(drop)
}

/// Hands over a segment that was got ahead. False if none was that is sound and still what the recovery gets: then the vault has to
/// be asked. Without a vault, only a segment is handed over of which no other timeline can change that.
pub async fn hand_over(request: Request<'_>, spool: Option<&Spool>, vault: Option<&Vault>) -> bool {
    let (Some(spool), LogFile::Segment(name)) = (spool, request.file) else { return false };
    if vault.is_none() && spool.line == Line::Latest {
        return false;
    }
    let Some(bytes) = spool.take(name) else { return false };
    let handed = handed_over(request, name, bytes, spool, vault).await.unwrap_or(false);
    spool.forget(name);
    handed
}

async fn handed_over(
    request: Request<'_>,
    name: SegmentName,
    bytes: Bytes,
    spool: &Spool,
    vault: Option<&Vault>,
) -> Result<bool, LogError> {
    let Request { to, line, system, until, data, .. } = request;
    let Some(system) = system else { return Ok(false) };
    let object = format!("{name}, got ahead");
    let (found, cluster) = Fetched::of_stored(name, system, &object, bytes)?;
    // A timeline may have begun since.
    if let Some(vault) = vault
        && !Log::known(vault, cluster).gives_whole(name, line, until).await?
    {
        return Ok(false);
    }
    let mut partial = Partial::of(to)?;
    found.write_to(&mut partial.0, to)?;
    let header = partial.first_page()?;
    of_cluster(header, name, cluster, object)?;
    if let Some(data) = data {
        let (mut bytes, size) = (partial.content()?, cluster.segment_size);
        let (start, length) = (name.start(size).unwrap_or_default(), bytes.len());
        let (mut made, mut rest) = made_in(&bytes, start, length);
        if may_make(rest)
            && let Some(next) = start.after(length as u64).map(|next| SegmentName::of(name.timeline, next, size))
            && let Some(more) = spool.take(next)
        {
            let object = format!("{next}, got ahead");
            Fetched::of_stored(next, system, &object, more)?.0.write_to(&mut bytes, to)?;
            (made, rest) = made_in(&bytes, start, length);
        }
        // What needs the vault, and a refusal with its reason, go the way of all other segments.
        if may_make(rest) || first_used(made, data).is_some() {
            return Ok(false);
        }
    }
    partial.keep()?;
    Ok(true)
}

/// A file that appears in its place when it is complete and durable.
struct Partial<'a>(NamedTempFile, &'a Path);

impl<'a> Partial<'a> {
    fn of(to: &'a Path) -> Result<Self, LogError> {
        let made = NamedTempFile::with_prefix_in(".seawall-", seawall_host::folder_of(to));
        made.map(|file| Self(file, to)).map_err(|error| LogError::io(to, &error))
    }

    fn first_page(&mut self) -> Result<Result<SegmentHeader, String>, LogError> {
        let mut bytes = Vec::with_capacity(HEADER);
        let file = self.0.as_file_mut();
        let read = file.rewind().and_then(|()| file.take(HEADER as u64).read_to_end(&mut bytes));
        read.map(|_| SegmentHeader::parse(&bytes)).map_err(|error| LogError::io(self.1, &error))
    }

    fn content(&mut self) -> Result<Vec<u8>, LogError> {
        let mut bytes = Vec::new();
        let file = self.0.as_file_mut();
        let read = file.rewind().and_then(|()| file.read_to_end(&mut bytes));
        read.map(|_| bytes).map_err(|error| LogError::io(self.1, &error))
    }

    fn keep(self) -> Result<(), LogError> {
        let failed = |error: std::io::Error| LogError::io(self.1, &error);
        self.0.as_file().sync_all().map_err(failed)?;
        self.0.persist(self.1).map_err(|error| failed(error.error))?;
        File::open(seawall_host::folder_of(self.1)).and_then(|folder| folder.sync_all()).map_err(failed)
    }
}

/// Fetches the file, and nothing else.
async fn fetch_alone(vault: &Vault, request: Request<'_>) -> Result<Log, LogError> {
    let Request { file, to, line, system, until, data } = request;
    let log = Log::open(vault).await?.ok_or_else(|| LogError::NoLog { vault: vault.url().to_owned() })?;
    let cluster = log.cluster();
    if let Some(ours) = system.filter(|ours| *ours != cluster.system) {
        return Err(LogError::OtherCluster { object: vault.url().to_owned(), theirs: cluster.system, ours });
    }
    let found = log.fetch_until(file, line, until).await?;
    let mut partial = Partial::of(to)?;
    found.write_to(&mut partial.0, to)?;
    if let LogFile::Segment(name) = file {
        let header = partial.first_page()?;
        of_cluster(header, name, cluster, format!("{name} of {}", vault.url()))?;
        if let Some(data) = data {
            let bytes = partial.content()?;
            tablespaces(&log, name, (line, until), bytes, data).await?;
        }
    }
    partial.keep()?;
    Ok(log)
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
    let (mut made, rest) = made_in(&bytes, start, length);
    if may_make(rest)
        && let Some(next) = start.after(length as u64)
    {
        let next = LogFile::Segment(SegmentName::of(name.timeline, next, size));
        // If it isn't there, the server doesn't read the record either.
        if let Ok(next) = log.fetch_until(next, line, until).await {
            next.write_to(&mut bytes, data)?;
            (made, _) = made_in(&bytes, start, length);
        }
    }
    match first_used(made, data) {
        Some((at, location)) => Err(LogError::TablespaceInUse { location, file: name.to_string(), at }),
        None => Ok(()),
    }
}

/// Whether a segment ends in a record that may make a tablespace: only the next one completes it.
fn may_make(rest: Rest) -> bool {
    matches!(rest, Rest::Cut(None | Some(TABLESPACES)))
}

/// The tablespaces that records make which begin in the first `length` bytes, and how these end.
fn made_in(bytes: &[u8], start: Lsn, length: usize) -> (Vec<(Lsn, String)>, Rest) {
    let mut made = Vec::new();
    let rest = events(bytes, start, length, start, |at, event| {
        if let Event::Tablespace { location } = event {
            made.push((at, location));
        }
    });
    (made, rest)
}

/// The first of these tablespaces in whose folder there are files.
fn first_used(made: Vec<(Lsn, String)>, data: &Path) -> Option<(Lsn, String)> {
    made.into_iter().find(|(_, location)| is_used(data, Path::new(location)))
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
