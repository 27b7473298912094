//! A file that a recovery asks for, out of a vault: what `restore_command` needs.
//!
//! The file appears only when it is complete, checked and durable. PostgreSQL takes a failure for the end of the log unless
//! the exit code says otherwise, so the caller must tell the two apart: [`LogError::is_absence`].

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::path::Path;

use seawall_archive::log::{Cluster, Line, Log, LogError, LogFile, Lsn, SystemId};
use seawall_vault::Vault;
use tempfile::NamedTempFile;

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
}

/// Writes the file to its place, which may exist.
///
/// # Errors
/// [`LogError::Absent`] only where it is certain that the log has no such file and nothing after it.
pub async fn fetch(vault: &Vault, request: Request<'_>) -> Result<(), LogError> {
    let Request { file, to, line, system, until } = request;
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
        let wrong = |cause: String| LogError::NotALog { file: format!("{name} of {}", vault.url()), cause };
        let header = header.map_err(wrong)?;
        header.check(name).map_err(wrong)?;
        let theirs = Cluster { system: header.system, segment_size: header.segment_size };
        if theirs != cluster {
            let object = format!("{name} of {}", vault.url());
            return Err(LogError::OtherCluster { object, theirs: theirs.system, ours: cluster.system });
        }
    }
    partial.as_file().sync_all().map_err(failed)?;
    partial.persist(to).map_err(|error| failed(error.error))?;
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)
}

fn first_page(file: &mut File) -> std::io::Result<Result<SegmentHeader, String>> {
    let mut bytes = Vec::with_capacity(HEADER);
    file.rewind()?;
    file.take(HEADER as u64).read_to_end(&mut bytes)?;
    Ok(SegmentHeader::parse(&bytes))
}
