//! The errors of one database, and how they are reported.

use std::io;
use std::path::{Path, PathBuf};

use seawall_core::{Failure, Kind, Panicked};
use seawall_ltx::Txid;

use crate::layout::Stored;

/// The code of [`Error::SeveralNames`].
pub(crate) const SEVERAL_NAMES: &str = "sqlite.several-names";

/// The code of [`Error::DeletedWal`].
pub(crate) const DELETED_WAL: &str = "sqlite.deleted-wal";

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{0}")]
    Vault(#[from] seawall_vault::Error),
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
    #[error("{path}: {source}")]
    Sqlite { path: PathBuf, source: rusqlite::Error },
    #[error("{object}: {source}")]
    Ltx { object: String, source: seawall_ltx::Error },
    #[error("{path}: there is no such file")]
    Missing { path: PathBuf },
    #[error("{path}: the file is empty")]
    Empty { path: PathBuf },
    #[error("{path}: the file was cut: it is shorter than the database in it")]
    Cut { path: PathBuf },
    #[error("{path}: {what}")]
    SeveralNames { path: PathBuf, what: String },
    #[error("{path}: a program that has the database open uses a WAL that was deleted")]
    DeletedWal { path: PathBuf },
    #[error("{database}: {what}")]
    Clock { database: String, what: String },
    #[error("{vault}: {target} can't be restored: {why}")]
    MomentsInDoubt { vault: String, target: String, why: String, next: String },
    #[error("{path}: {what}")]
    NotADatabase { path: PathBuf, what: &'static str },
    #[error("{path}: a frame behind offset {offset} was committed, and is damaged")]
    DamagedWal { path: PathBuf, offset: u64 },
    #[error("{path}: the database file was removed or replaced")]
    Vanished { path: PathBuf },
    #[error("{path}: another Seawall holds {what}")]
    Locked { path: PathBuf, what: String },
    #[error("{path}: it is not a folder that belongs to this user alone")]
    UnsafeFolder { path: PathBuf },
    #[error("{key}: another writer has written this object")]
    Conflict { key: String },
    #[error("{key}: an earlier attempt of our own got into the vault late")]
    OwnObject { key: String },
    #[error("{vault}: nothing to restore")]
    NothingThere { vault: String },
    #[error("{vault}: {target} can't be restored: {why}")]
    Unreachable { vault: String, target: String, why: String, next: String },
    #[error("{object}: {what}")]
    Corrupt { object: String, what: String },
    #[error("{object}: it doesn't belong to {other}: {why}")]
    Mixed { object: String, stranger: Stored, other: String, why: &'static str, next: String },
    #[error("{vault}: it ends at {newest}, and everything up to {recorded} had been acknowledged")]
    EndsEarly { vault: String, newest: Txid, recorded: Txid },
    #[error("{path}: {what}")]
    TargetOpen { path: PathBuf, what: &'static str },
    #[error("{digest}: it is no digest, so {file} can't be compared")]
    BadDigest { digest: String, file: String },
    #[error("{vault}: the objects of {point} are gone: they were merged, or retention deleted them")]
    PointGone { vault: String, point: Txid },
    #[error("{vault}: Litestream before 0.5 wrote what would be read, and its files have no index of pages")]
    NoPageIndex { vault: String },
    #[error("{path}: somebody else wrote to it, and it follows a vault")]
    Diverged { path: PathBuf },
    #[error("{vault}: it ends at {newest}, and the database that follows it is at {at}")]
    WentBack { vault: String, at: Txid, newest: Txid },
    #[error("{path}: {what}")]
    TargetExists { path: PathBuf, what: &'static str },
    #[error("{path}: SQLite can't check it alone: {why}")]
    Uncheckable { path: PathBuf, why: String },
    #[error("{path}: the process may have {files} files open, which is enough for {databases} databases")]
    NoRoom { path: PathBuf, files: u64, databases: u64 },
    #[error("{path}: the WAL grew by more than {limit} bytes because the vault is away or too slow")]
    GaveUp { path: PathBuf, limit: u64 },
    #[error("{vault}: the credentials don't allow to delete ({cause}): objects that are not kept any longer stay")]
    MayNotDelete { vault: String, cause: seawall_vault::Error },
    #[error("{vault}: the credentials don't allow to list ({cause}), and {what}")]
    MayNotList { vault: String, cause: seawall_vault::Error, what: &'static str },
    #[error("{vault}: {what}")]
    Lost { vault: String, what: String, newest: bool },
    #[error("{object}: it isn't ours, and reaches past everything that was captured")]
    Stray { object: String },
    #[error("{vault}: {point} is not pinned")]
    NotPinned { vault: String, point: Txid },
    #[error("{vault}: no database was named")]
    NoSource { vault: String },
    #[error("the WAL was restarted while its pages were read")]
    Restarted,
    #[error("the transaction ids are used up after {0}")]
    OutOfTxids(Txid),
    #[error("stopped before everything was shipped")]
    Interrupted,
    #[error("{0}")]
    Internal(String),
}

impl Error {
    /// An I/O error with its path.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }

    /// A SQLite error with its database.
    pub(crate) fn sqlite(path: &Path) -> impl FnOnce(rusqlite::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Sqlite { path, source }
    }

    /// An LTX error with its object.
    pub(crate) fn ltx(object: impl ToString) -> impl FnOnce(seawall_ltx::Error) -> Self {
        let object = object.to_string();
        move |source| Self::Ltx { object, source }
    }

    /// Whether a retry is useless before a person acts.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, Self::Conflict { .. } | Self::Locked { .. } | Self::OutOfTxids(_) | Self::Internal(_))
    }

    /// Whether the machine is short of something, or doesn't answer, as it may for a while: no descriptor left, a disk that
    /// fails, a file that may not be read now. It says nothing about the database.
    pub(crate) fn is_passing(&self) -> bool {
        use rusqlite::ErrorCode;
        match self {
            Self::Io { source, .. } => source.kind() != io::ErrorKind::NotFound,
            Self::Sqlite { source, .. } => matches!(
                source.sqlite_error_code(),
                Some(
                    ErrorCode::CannotOpen
                        | ErrorCode::SystemIoFailure
                        | ErrorCode::OutOfMemory
                        | ErrorCode::DiskFull
                        | ErrorCode::PermissionDenied
                )
            ),
            _ => false,
        }
    }

    /// Whether the process, or the system, has no descriptor left for now.
    pub(crate) fn is_shortage(&self) -> bool {
        match self {
            Self::Io { source, .. } => is_descriptor_shortage(source),
            // SQLite doesn't say why; whatever it is, nothing is held that helps.
            Self::Sqlite { source, .. } => source.sqlite_error_code() == Some(rusqlite::ErrorCode::CannotOpen),
            _ => false,
        }
    }

    /// Whether the vault is missing or doesn't answer, perhaps only for a while. Then protection continues by itself.
    pub(crate) fn is_away(&self) -> bool {
        use seawall_vault::Error as Vault;
        matches!(
            self,
            Self::Vault(
                Vault::Vanished { .. }
                    | Vault::Missing { .. }
                    | Vault::Unavailable { .. }
                    | Vault::Timeout { .. }
                    | Vault::Denied { .. }
            )
        )
    }

    /// Whether there is just no database yet.
    pub(crate) fn is_absent(&self) -> bool {
        matches!(self, Self::Missing { .. } | Self::Empty { .. })
    }
}

impl From<Panicked> for Error {
    fn from(panicked: Panicked) -> Self {
        // The runtime ends: the process was told to stop.
        if panicked.is_cancelled() { Self::Interrupted } else { Self::Internal(panicked.to_string()) }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        error.failure()
    }
}

impl Error {
    /// The error as people and programs see it.
    pub(crate) fn failure(&self) -> Failure {
        let cause = self.to_string();
        let fail = |kind, code, object: &dyn std::fmt::Display, next: &str| {
            let object = object.to_string();
            let cause = cause.strip_prefix(&format!("{object}: ")).unwrap_or(&cause).to_owned();
            Failure::new(kind, code, object, cause, next)
        };
        match self {
            Error::Vault(error) => error.clone().into(),
            Error::Io { path, source } => {
                let (kind, code, next) = io_advice(source);
                fail(kind, code, &path.display(), next)
            }
            Error::Sqlite { path, source } => {
                let (kind, code, next) = sqlite_advice(source);
                fail(kind, code, &path.display(), next)
            }
            Error::Ltx { object, .. } => fail(
                Kind::Corrupt,
                "sqlite.corrupt-object",
                object,
                "run `seawall verify` to see what else is damaged, and restore an earlier point with --at",
            ),
            Error::Missing { path } => {
                fail(Kind::NotFound, "sqlite.missing", &path.display(), "check the path, or create the database")
            }
            Error::Empty { path } => fail(
                Kind::NotFound,
                "sqlite.empty",
                &path.display(),
                "let the application create its tables; it is protected from then on",
            ),
            Error::Cut { path } => fail(
                Kind::Corrupt,
                "sqlite.cut",
                &path.display(),
                "if it is being copied here, wait; else restore it: everything up to the protected point is in the vault",
            ),
            Error::SeveralNames { path, .. } => fail(
                Kind::Refused,
                SEVERAL_NAMES,
                &path.display(),
                "leave the file one name, and share its folder rather than the file: a writer through another name has a WAL of its \
                 own, whose commits can't be seen from here",
            ),
            Error::DeletedWal { path } => fail(
                Kind::Refused,
                DELETED_WAL,
                &path.display(),
                "restart that program: what it commits until then goes into a file that has no name, and can't be seen from here",
            ),
            Error::Clock { database, .. } => fail(
                Kind::Unavailable,
                "sqlite.clock",
                database,
                "set the clock right, by NTP; until then name points by their ids, as `seawall timeline` shows them",
            ),
            Error::MomentsInDoubt { vault, next, .. } => fail(Kind::Refused, "sqlite.moments-in-doubt", vault, next),
            Error::NotADatabase { path, .. } => {
                fail(Kind::Usage, "sqlite.not-a-database", &path.display(), "name a SQLite database file")
            }
            Error::DamagedWal { path, .. } => fail(
                Kind::Corrupt,
                "sqlite.damaged-wal",
                &path.display(),
                "check the disk, and the database with `PRAGMA integrity_check`; `PRAGMA wal_checkpoint` gets the frame out of the \
                 way, and a new base follows",
            ),
            Error::Vanished { path } => fail(
                Kind::Unavailable,
                "sqlite.vanished",
                &path.display(),
                "nothing, if this was intended: protection starts over with the file that takes its place",
            ),
            Error::Locked { path, .. } => fail(
                Kind::Conflict,
                "sqlite.locked",
                &path.display(),
                "stop the other process, or give this database another vault and state directory",
            ),
            Error::UnsafeFolder { path } => fail(
                Kind::Denied,
                "sqlite.unsafe-folder",
                &path.display(),
                "remove it, or set TMPDIR to a folder that only this user can write to",
            ),
            Error::Conflict { key } => fail(
                Kind::Conflict,
                "sqlite.two-writers",
                key,
                "make sure that only one Seawall or Litestream writes to this vault prefix, then start this one again: \
                 it will begin with a full base",
            ),
            Error::OwnObject { key } => {
                fail(Kind::Unavailable, "sqlite.own-object", key, "nothing: it is found and continued by itself")
            }
            Error::NothingThere { vault } => fail(
                Kind::NotFound,
                "sqlite.nothing-there",
                vault,
                "check the vault's URL; `seawall timeline` shows what a vault holds",
            ),
            Error::Unreachable { vault, next, .. } => fail(Kind::Refused, "sqlite.unreachable", vault, next),
            Error::Corrupt { object, .. } => fail(
                Kind::Corrupt,
                "sqlite.corrupt",
                object,
                "run `seawall verify` to see what else is damaged, and restore an earlier point with --at",
            ),
            Error::Mixed { object, next, .. } => fail(Kind::Corrupt, "sqlite.mixed", object, next),
            Error::EndsEarly { vault, newest, .. } => fail(
                Kind::Refused,
                "sqlite.ends-early",
                vault,
                &format!("find out what became of the objects; `--at {newest}` restores what is there"),
            ),
            Error::TargetOpen { path, .. } => fail(
                Kind::Refused,
                "sqlite.target-open",
                &path.display(),
                "stop what uses it, then restore again, or name another file with -o",
            ),
            Error::BadDigest { digest, .. } => fail(
                Kind::Corrupt,
                "sqlite.bad-digest",
                digest,
                "find out who writes there; nothing else reads this object, and without it the file counts as one that has none",
            ),
            Error::PointGone { vault, .. } => fail(
                Kind::Unavailable,
                "sqlite.point-gone",
                vault,
                "begin the transaction again: at the newest state it continues with the newest objects; see `seawall timeline` for \
                 the points of the past that are left",
            ),
            Error::NoPageIndex { vault } => fail(
                Kind::Refused,
                "sqlite.no-page-index",
                vault,
                "restore it with `seawall restore`, and read the file",
            ),
            Error::Diverged { path } => fail(
                Kind::Refused,
                "sqlite.diverged",
                &path.display(),
                "copy the data that you need, then make the file again with --force; its readers must not write to it",
            ),
            Error::WentBack { vault, .. } => fail(
                Kind::Refused,
                "sqlite.went-back",
                vault,
                "check that it is the right vault; --force makes the database again from the vault",
            ),
            Error::TargetExists { path, .. } => fail(
                Kind::Refused,
                "sqlite.target-exists",
                &path.display(),
                "name another file with -o, or replace it with --force",
            ),
            Error::Uncheckable { path, .. } => fail(
                Kind::Refused,
                "sqlite.not-checked",
                &path.display(),
                "restore it with --integrity quick or none, and let the application check it: the check needs what only the application has",
            ),
            Error::GaveUp { path, .. } => fail(
                Kind::Unavailable,
                "sqlite.gave-up",
                &path.display(),
                "bring the vault back or raise wal-limit: protection goes on by itself, and the timeline shows a hole if there is one",
            ),
            Error::NoRoom { path, .. } => fail(Kind::Unavailable, "sqlite.no-room", &path.display(), RAISE_THE_LIMIT),
            Error::MayNotDelete { vault, .. } => fail(
                Kind::Denied,
                "sqlite.may-not-delete",
                vault,
                "allow deletion, or set retention.enabled to false and let rules of the bucket delete",
            ),
            Error::MayNotList { vault, .. } => fail(
                Kind::Denied,
                "sqlite.may-not-list",
                vault,
                "run `seawall replicate --once` on this machine with credentials that may list; after that these credentials are enough. \
                 Or allow them to list",
            ),
            Error::Lost { vault, .. } => fail(
                Kind::Corrupt,
                "sqlite.lost",
                vault,
                "find out who deletes or writes there; `seawall timeline` shows what can be restored. What was committed last is \
                 protected anew by itself, with a base where one is needed",
            ),
            Error::Stray { object } => fail(
                Kind::Conflict,
                "sqlite.stray",
                object,
                "find out who wrote it, stop that writer, and remove the object: what is newest can't be told from it",
            ),
            Error::NotPinned { vault, .. } => {
                fail(Kind::NotFound, "sqlite.not-pinned", vault, "see `seawall timeline` for the pinned points")
            }
            Error::NoSource { vault } => {
                fail(Kind::Usage, "sqlite.no-source", vault, "name the database as well as the vault")
            }
            Error::Restarted => {
                fail(Kind::Unavailable, "sqlite.restarted", &"WAL", "nothing: Seawall repeats the capture by itself")
            }
            Error::OutOfTxids(_) => fail(Kind::Internal, "sqlite.out-of-txids", &"vault", "use another vault prefix"),
            Error::Interrupted => fail(
                Kind::Interrupted,
                "sqlite.interrupted",
                &"seawall",
                "start it again: it continues where the vault ends",
            ),
            Error::Internal(_) => {
                fail(Kind::Internal, "sqlite.internal", &"seawall", "report this with the log: it is a defect")
            }
        }
    }
}

/// Kind, code and next step of an I/O error, by its kind and never by its words.
fn io_advice(error: &io::Error) -> (Kind, &'static str, &'static str) {
    match error.kind() {
        io::ErrorKind::NotFound => (Kind::NotFound, "sqlite.io-missing", "check the path"),
        io::ErrorKind::PermissionDenied => {
            (Kind::Denied, "sqlite.io-denied", "give the user that runs Seawall access to this file and its folder")
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            (Kind::Unavailable, "sqlite.disk-full", "free some space; Seawall goes on by itself")
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            (Kind::Denied, "sqlite.read-only", "set state-dir to a folder that can be written")
        }
        _ if is_descriptor_shortage(error) => (Kind::Unavailable, "sqlite.too-many-files", RAISE_THE_LIMIT),
        _ => (Kind::Unavailable, "sqlite.io", "check the disk and the system's log"),
    }
}

/// The next step when descriptors run out.
const RAISE_THE_LIMIT: &str = "raise the limit of open files (`ulimit -n`, or `LimitNOFILE=` of a systemd unit): a process needs \
                               four for each database, and 512. Seawall goes on by itself when some are free";

/// Whether the process, or the system, had no descriptor left: an error without a kind of its own.
fn is_descriptor_shortage(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(error.raw_os_error().map(Errno::from_raw_os_error), Some(Errno::MFILE | Errno::NFILE))
}

/// Kind, code and next step of a SQLite error.
fn sqlite_advice(error: &rusqlite::Error) -> (Kind, &'static str, &'static str) {
    use rusqlite::ErrorCode;
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            (Kind::Unavailable, "sqlite.busy", "nothing: Seawall tries again when the application releases its lock")
        }
        Some(ErrorCode::NotADatabase) => {
            (Kind::Usage, "sqlite.not-a-database", "name a SQLite database file that is not encrypted")
        }
        Some(ErrorCode::DatabaseCorrupt) => (
            Kind::Corrupt,
            "sqlite.corrupt-source",
            "the database itself is damaged: check it with `PRAGMA integrity_check`, and restore an earlier point",
        ),
        // SQLite says so both of a file that may not be opened and of a shortage of descriptors.
        Some(ErrorCode::CannotOpen) => (
            Kind::Denied,
            "sqlite.denied",
            "give the user that runs Seawall write access to the database, its -wal and -shm files and their folder; where it has that, \
             raise the limit of open files",
        ),
        Some(ErrorCode::PermissionDenied | ErrorCode::ReadOnly) => (
            Kind::Denied,
            "sqlite.denied",
            "give the user that runs Seawall write access to the database, its -wal and -shm files and their folder",
        ),
        Some(ErrorCode::DiskFull) => {
            (Kind::Unavailable, "sqlite.disk-full", "free some space; Seawall goes on by itself")
        }
        _ => (Kind::Unavailable, "sqlite.failed", "see the cause; it is tried again"),
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn io_errors_have_advice_of_their_own() {
        let advice = |error: io::Error| io_advice(&error);
        for (errno, kind, code, word) in [
            (Errno::MFILE, Kind::Unavailable, "sqlite.too-many-files", "LimitNOFILE"),
            (Errno::NFILE, Kind::Unavailable, "sqlite.too-many-files", "ulimit -n"),
            (Errno::IO, Kind::Unavailable, "sqlite.io", "the disk"),
            (Errno::NOSPC, Kind::Unavailable, "sqlite.disk-full", "space"),
            (Errno::ACCESS, Kind::Denied, "sqlite.io-denied", "access"),
        ] {
            let (found, told, next) = advice(errno.into());
            assert_eq!((found, told), (kind, code), "{errno:?}");
            assert!(next.contains(word), "{next}");
        }
    }
}
