//! Everything that can go wrong with one environment, and how it is told.

use std::io;
use std::path::{Path, PathBuf};

use seawall_core::{Failure, Kind};

use crate::environment::{LmdbError, Meaning};
use crate::snapshot::{Fault, Problem};

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The vault can't do what was asked.
    #[error("{0}")]
    Vault(#[from] seawall_vault::Error),
    /// A file can't be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// liblmdb refuses.
    #[error("{path}: {source}")]
    Lmdb {
        /// The environment.
        path: PathBuf,
        /// What it says.
        source: LmdbError,
    },
    /// The program runs with a liblmdb that can't share environments with others.
    #[error("liblmdb {version} is not of the 0.9 branch, and can't share environments with programs that use that")]
    WrongLibrary {
        /// Its version.
        version: String,
    },
    /// This process has the environment open already.
    #[error("{path}: this process has the environment open already")]
    OpenTwice {
        /// The environment.
        path: PathBuf,
    },
    /// There is no environment.
    #[error("{path}: there is no such environment")]
    Missing {
        /// The environment.
        path: PathBuf,
    },
    /// The data isn't laid out as the schema says.
    #[error("{path}: DBI {dbi}: {what}")]
    Schema {
        /// The environment.
        path: PathBuf,
        /// The DBI.
        dbi: String,
        /// What is wrong, without content.
        what: &'static str,
    },
    /// A snapshot is damaged, or asks for what can't be.
    #[error("{object}: {fault}")]
    Snapshot {
        /// The object.
        object: String,
        /// What is wrong, and where.
        fault: Fault,
    },
    /// The snapshot's DBI can't be made.
    #[error("{object}: the flags of DBI {dbi} are not known")]
    UnknownFlags {
        /// The object.
        object: String,
        /// The DBI.
        dbi: String,
    },
    /// A snapshot changes more than the disk may be used for while it is merged.
    #[error("{path}: what one snapshot changes takes more than {limit} bytes")]
    SpoolFull {
        /// The folder of the spool.
        path: PathBuf,
        /// The bound in bytes.
        limit: u64,
    },
    /// The environment may have what all others deleted and forgot.
    #[error("{path}: it was away for longer than deletions are kept, and may bring back what was deleted meanwhile")]
    TooLongAway {
        /// The environment.
        path: PathBuf,
        /// Where it is written down when it was last in step.
        file: PathBuf,
    },
    /// A file that would be written is there already.
    #[error("{path}: the file exists already")]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A name that no instance would look at.
    #[error("{name}: this is no name of a snapshot")]
    BadName {
        /// The name.
        name: String,
    },
    /// Another process keeps the environment in step.
    #[error("{path}: another process keeps it in step")]
    Locked {
        /// The data.
        path: PathBuf,
    },
    /// The environment holds nothing, and nothing was received.
    #[error("{path}: it is empty, and nothing was received, so that there is no point")]
    Empty {
        /// The environment.
        path: PathBuf,
    },
    /// No snapshot is there, or none so old.
    #[error("{vault}: there is no such snapshot of {database}")]
    NothingThere {
        /// The vault.
        vault: String,
        /// The database.
        database: String,
    },
    /// All snapshots that could be used are damaged.
    #[error("{object}: {cause}")]
    AllDamaged {
        /// The first of them.
        object: String,
        /// What is wrong with it.
        cause: String,
    },
    /// A vault alone was named, and it holds several databases.
    #[error("{vault}: it holds snapshots of several databases: {names}")]
    SeveralDatabases {
        /// The vault.
        vault: String,
        /// Their names.
        names: String,
    },
    /// A vault alone was named, and snapshots don't say what an environment looks like.
    #[error("{vault}: its snapshots don't say how the application keeps its data")]
    UnknownSchema {
        /// The vault.
        vault: String,
    },
    /// Stopped at once.
    #[error("stopped at once, before everything was sent")]
    Interrupted,
    /// A defect.
    #[error("{0}")]
    Internal(String),
}

impl Error {
    /// An I/O error with its path.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }

    /// An error of liblmdb with its environment.
    pub(crate) fn lmdb(path: &Path) -> impl FnOnce(LmdbError) -> Self {
        let path = path.to_owned();
        move |source| Self::Lmdb { path, source }
    }

    /// A DBI that isn't laid out as the schema says.
    pub(crate) fn schema(path: &Path, dbi: &[u8], what: &'static str) -> Self {
        Self::Schema { path: path.to_owned(), dbi: shown(dbi), what }
    }

    /// What liblmdb's answer means, where it is one.
    pub fn meaning(&self) -> Option<Meaning> {
        if let Self::Lmdb { source, .. } = self { Some(source.meaning()) } else { None }
    }

    /// Whether the snapshot itself is to blame, so that trying again can't help.
    pub fn is_bad_snapshot(&self) -> bool {
        matches!(self, Self::Snapshot { .. } | Self::UnknownFlags { .. })
    }
}

/// A name that may hold anything, for people.
pub(crate) fn shown(name: &[u8]) -> String {
    name.escape_ascii().to_string()
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let cause = error.to_string();
        let fail = |kind, code, object: &dyn std::fmt::Display, next: &str| {
            let object = object.to_string();
            let cause = cause.strip_prefix(&format!("{object}: ")).unwrap_or(&cause).to_owned();
            Failure::new(kind, code, object, cause, next)
        };
        match &error {
            Error::Vault(error) => error.clone().into(),
            Error::Io { path, source } => {
                let (kind, code, next) = io_advice(source);
                fail(kind, code, &path.display(), next)
            }
            Error::Lmdb { path, source } => {
                let (kind, code, next) = lmdb_advice(source.meaning());
                fail(kind, code, &path.display(), next)
            }
            Error::WrongLibrary { .. } => {
                fail(Kind::Refused, "lmdb.wrong-library", &"liblmdb", "run Seawall with liblmdb 0.9")
            }
            Error::OpenTwice { path } => {
                fail(Kind::Usage, "lmdb.open-twice", &path.display(), "name each environment once")
            }
            Error::Missing { path } => fail(
                Kind::NotFound,
                "lmdb.missing",
                &path.display(),
                "check the path and no_subdir, or set create to make it",
            ),
            Error::Schema { path, .. } => fail(
                Kind::Refused,
                "lmdb.schema",
                &path.display(),
                "check schema_tracks_changes and dupsort_hack against what the application stores",
            ),
            Error::Snapshot { object, .. } => fail(
                Kind::Corrupt,
                "lmdb.bad-snapshot",
                object,
                "nothing was merged from it; remove the object, or let its instance write a new one",
            ),
            Error::UnknownFlags { object, .. } => fail(
                Kind::Refused,
                "lmdb.unknown-flags",
                object,
                "say in dbi_options with override_create_flags how the DBI is to be made",
            ),
            Error::SpoolFull { path, .. } => fail(
                Kind::Unavailable,
                "lmdb.spool-full",
                &path.display(),
                "raise the bound of the spool, if the snapshot is meant to be this large",
            ),
            Error::TooLongAway { path, file } => {
                let next = format!(
                    "move the environment away, so that it is filled from the vault; or delete {} to have it take part as it is",
                    file.display()
                );
                fail(Kind::Refused, "lmdb.too-long-away", &path.display(), &next)
            }
            Error::Exists { path } => {
                fail(Kind::Refused, "lmdb.exists", &path.display(), "name another file, or move this one away")
            }
            Error::BadName { name } => fail(
                Kind::Usage,
                "lmdb.bad-name",
                name,
                "name it database__instance__time__GX.pb.gz, or use --force if no instance is to read it",
            ),
            Error::Locked { path } => {
                fail(Kind::Conflict, "lmdb.locked", &path.display(), "end the other process, or ask it: `seawall sync`")
            }
            Error::Empty { path } => fail(
                Kind::NotFound,
                "lmdb.empty",
                &path.display(),
                "nothing: it is sent once the application wrote to it",
            ),
            Error::NothingThere { vault, .. } => {
                fail(Kind::NotFound, "lmdb.nothing-there", vault, "see `seawall timeline` for what there is")
            }
            Error::AllDamaged { object, .. } => {
                fail(Kind::Corrupt, "lmdb.bad-snapshot", object, "restore another one; `seawall timeline` lists them")
            }
            Error::SeveralDatabases { vault, .. } => fail(
                Kind::Usage,
                "lmdb.several-databases",
                vault,
                "list the database in a seawall.yml with this vault, and give its name",
            ),
            Error::UnknownSchema { vault } => fail(
                Kind::Usage,
                "lmdb.unknown-schema",
                vault,
                "list it in a seawall.yml with this vault and an lmdb section, and give its name",
            ),
            Error::Interrupted => {
                fail(Kind::Interrupted, "lmdb.interrupted", &"seawall", "start it again; it goes on from where it was")
            }
            Error::Internal(_) => {
                fail(Kind::Internal, "lmdb.internal", &"seawall", "report this with the log: it is a defect")
            }
        }
    }
}

/// Kind, code and next step of an I/O error, by its kind and never by its words.
fn io_advice(error: &io::Error) -> (Kind, &'static str, &'static str) {
    match error.kind() {
        io::ErrorKind::NotFound => (Kind::NotFound, "lmdb.io-missing", "check the path"),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            (Kind::Denied, "lmdb.io-denied", "give the user that runs Seawall access to the environment and its folder")
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            (Kind::Unavailable, "lmdb.disk-full", "free some space; Seawall goes on by itself")
        }
        _ => (Kind::Unavailable, "lmdb.io", "check the disk and the system's log"),
    }
}

/// Kind, code and next step of an answer of liblmdb.
fn lmdb_advice(meaning: Meaning) -> (Kind, &'static str, &'static str) {
    match meaning {
        Meaning::MapFull => (
            Kind::Unavailable,
            "lmdb.map-full",
            "raise map_size here and in the application; nothing was merged halfway",
        ),
        Meaning::ReadersFull => {
            (Kind::Unavailable, "lmdb.readers-full", "end processes that read the environment, or raise its readers")
        }
        Meaning::Version => (
            Kind::Refused,
            "lmdb.version",
            "a program with another branch of liblmdb has the environment open: end it, or use 0.9 everywhere",
        ),
        Meaning::Corrupt => {
            (Kind::Corrupt, "lmdb.corrupt", "the environment itself is damaged: make it anew from the vault")
        }
        Meaning::TooManyDbis => (Kind::Refused, "lmdb.too-many-dbis", "raise max_dbs"),
        Meaning::Incompatible => (
            Kind::Refused,
            "lmdb.unnamed",
            "only named DBIs can be kept in step; this environment holds data outside of them",
        ),
        Meaning::Denied => (
            Kind::Denied,
            "lmdb.denied",
            "give the user that runs Seawall write access to the environment and its lock file",
        ),
        Meaning::DiskFull => (Kind::Unavailable, "lmdb.disk-full", "free some space; Seawall goes on by itself"),
        Meaning::MapResized | Meaning::Stale | Meaning::NotFound | Meaning::Other => {
            (Kind::Unavailable, "lmdb.failed", "see the cause; it is tried again")
        }
    }
}

/// What reading a snapshot came to, with the object.
pub(crate) fn snapshot_problem(object: &str, problem: Problem) -> Error {
    match problem {
        Problem::Fault(fault) => Error::Snapshot { object: object.to_owned(), fault },
        Problem::Io(source) => match source.downcast::<seawall_vault::Error>() {
            Ok(error) => Error::Vault(error),
            Err(source) => Error::Io { path: object.into(), source },
        },
    }
}
