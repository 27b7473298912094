//! Errors of a file, in the same form for every command.

use std::io::ErrorKind;
use std::path::Path;

use seawall_core::{Failure, Kind};
use seawall_ltx::Error;
use seawall_ltx::file::FileError;

/// A failure of the file that is shown as `object`.
pub(super) fn of(error: &FileError, object: impl Into<String>) -> Failure {
    let text = error.to_string();
    // The output names the file before the cause anyway.
    let cause = text.strip_prefix(&format!("{}: ", error.path().display())).unwrap_or(&text).to_owned();
    let (kind, code, next) = class(error);
    Failure::new(kind, code, object, cause, next)
}

/// A failure of the file that the error names.
pub(super) fn plain(error: &FileError) -> Failure {
    of(error, error.path().display().to_string())
}

/// A failure of one of these files. It shows the file's name as the user wrote it.
pub(super) fn among(error: &FileError, inputs: &[super::input::Input]) -> Failure {
    let named = inputs.iter().find(|input| input.path() == error.path());
    named.map_or_else(|| plain(error), |input| of(error, input.shown.clone()))
}

fn class(error: &FileError) -> (Kind, &'static str, &'static str) {
    match error {
        FileError::Io { source, .. } => match source.kind() {
            ErrorKind::NotFound => (Kind::NotFound, "ltx.not-found", "check the name"),
            ErrorKind::PermissionDenied => {
                (Kind::Denied, "ltx.denied", "check the permissions of the file and its folder")
            }
            _ => (Kind::Unavailable, "ltx.io", "check the disk, then try again"),
        },
        FileError::Output(_) => (Kind::Unavailable, "ltx.io", "check where the output goes"),
        FileError::Format { source, .. } => format(source),
        FileError::Database { .. } => (Kind::Corrupt, "ltx.database", "name a SQLite database"),
        FileError::Beside { .. } => (
            Kind::Refused,
            "ltx.beside",
            "open the database once with SQLite and run `PRAGMA wal_checkpoint(TRUNCATE)`, which settles both",
        ),
        FileError::SameFile { .. } => (Kind::Usage, "ltx.same-file", "name another output"),
        FileError::Gap { .. } => (Kind::Refused, "ltx.gap", "name the files in their order, with those between them"),
        FileError::PageSize { .. } => (Kind::Refused, "ltx.page-size", "name files of one database"),
        FileError::NoBase { .. } => (Kind::Refused, "ltx.no-base", "apply a snapshot first, or name the database"),
        FileError::NoSnapshot { .. } => {
            (Kind::Refused, "ltx.no-snapshot", "use `seawall ltx apply` for a file that changes a database")
        }
        FileError::PreApply { .. } => {
            (Kind::Refused, "ltx.pre-apply", "apply the files between the database's state and this one first")
        }
        FileError::PostApply { .. } => (
            Kind::Corrupt,
            "ltx.post-apply",
            "the database is another one, or the file is damaged: begin with a snapshot",
        ),
        FileError::Changed { .. } => (Kind::Unavailable, "ltx.changed", "try again while no process writes to it"),
        _ => (Kind::Internal, "ltx.other", "report this"),
    }
}

fn format(error: &Error) -> (Kind, &'static str, &'static str) {
    const FETCH: &str = "take another copy of the file";
    let code = match error {
        Error::Header(_) => "ltx.header",
        Error::Page { .. } | Error::SnapshotHole { .. } => "ltx.pages",
        Error::PageFlags { .. } | Error::FrameLength { .. } | Error::Lz4 { .. } => "ltx.frame",
        Error::Index { .. } => "ltx.index",
        Error::PostApply { .. } | Error::FileChecksum { .. } | Error::DatabaseChecksum { .. } => "ltx.checksum",
        Error::Truncated { .. } => "ltx.truncated",
        Error::Trailing { .. } => "ltx.trailing",
        Error::Generation(_) => {
            return (Kind::Refused, "ltx.generation", "make a current one of it with `seawall ltx compact`");
        }
        Error::Merge(_) => return (Kind::Refused, "ltx.merge", "name files of one history, in their order"),
        Error::TooLarge => "ltx.limit",
        _ => return (Kind::Internal, "ltx.other", "report this"),
    };
    (Kind::Corrupt, code, FETCH)
}

/// A failure of the file system beside the library.
pub(super) fn io(path: &Path, source: std::io::Error) -> Failure {
    plain(&FileError::Io { path: path.to_owned(), source })
}
