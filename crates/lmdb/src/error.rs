//! Every error of this crate, and how it is reported.

use std::io;
use std::path::{Path, PathBuf};

use seawall_core::{Failure, Kind, Panicked};

use crate::environment::{LmdbError, Meaning};
use crate::snapshot::{Fault, Problem};

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A request to the vault failed.
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
    /// liblmdb reported an error.
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
    /// The credentials may not delete.
    #[error("{vault}: the credentials don't allow to delete ({cause}): snapshots that are not kept any longer stay")]
    MayNotDelete {
        /// The vault.
        vault: String,
        /// The store's refusal.
        cause: seawall_vault::Error,
    },
    /// The environment doesn't exist.
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
    /// A snapshot is damaged, or holds something that can't be merged.
    #[error("{object}: {fault}")]
    Snapshot {
        /// The object.
        object: String,
        /// What is wrong, and where.
        fault: Fault,
    },
    /// The snapshot's DBI can't be made in the environment.
    #[error("{object}: the flags of DBI {dbi} are not known")]
    UnknownFlags {
        /// The object.
        object: String,
        /// The DBI.
        dbi: String,
    },
    /// A snapshot changes more data than the spool may put on the disk.
    #[error("{path}: what one snapshot changes takes more than {limit} bytes")]
    SpoolFull {
        /// The folder of the spool.
        path: PathBuf,
        /// The bound in bytes.
        limit: u64,
    },
    /// The environment may still have keys that all other instances deleted and swept.
    #[error("{path}: it was away for longer than deletions are kept, and may bring back what was deleted meanwhile")]
    TooLongAway {
        /// The environment.
        path: PathBuf,
        /// The file that records when the environment was last in step.
        file: PathBuf,
    },
    /// The vault holds snapshots of this instance that another environment sent, and this one only sends.
    #[error(
        "{path}: the vault holds snapshots of {instance} that this environment didn't send: its own would take their place"
    )]
    NotTheSender {
        /// The environment.
        path: PathBuf,
        /// The instance.
        instance: String,
    },
    /// The output file exists already.
    #[error("{path}: the file exists already")]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The name isn't a snapshot name, so that no instance would read the object.
    #[error("{name}: this is no name of a snapshot")]
    BadName {
        /// The name.
        name: String,
    },
    /// The data file was deleted or renamed during a session.
    #[error("{path}: the data file was deleted or renamed while it was kept in step")]
    Gone {
        /// The data.
        path: PathBuf,
    },
    /// Another data file replaced the file of the session.
    #[error("{path}: {what} while it was kept in step")]
    Replaced {
        /// The data.
        path: PathBuf,
        /// What happened.
        what: &'static str,
    },
    /// A process has the environment open that a restore is to replace.
    #[error("{path}: {holder} has it open")]
    InUse {
        /// The data.
        path: PathBuf,
        /// The process.
        holder: String,
    },
    /// Another process keeps the environment in step.
    #[error("{path}: another process keeps it in step")]
    Locked {
        /// The data.
        path: PathBuf,
    },
    /// The environment is empty, and no snapshot was received.
    #[error("{path}: it is empty, and nothing was received, so that there is no point")]
    Empty {
        /// The environment.
        path: PathBuf,
    },
    /// The vault has no snapshot, or none that is old enough.
    #[error("{vault}: there is no such snapshot of {database}")]
    NothingThere {
        /// The vault.
        vault: String,
        /// The database.
        database: String,
    },
    /// All usable snapshots are damaged.
    #[error("{object}: {cause}")]
    AllDamaged {
        /// The first damaged snapshot.
        object: String,
        /// What is wrong with it.
        cause: String,
    },
    /// The command named only a vault, and the vault holds several databases.
    #[error("{vault}: it holds snapshots of several databases: {names}")]
    SeveralDatabases {
        /// The vault.
        vault: String,
        /// Their names.
        names: String,
    },
    /// The command named only a vault, and snapshots don't say how an environment is laid out.
    #[error("{vault}: its snapshots don't say how the application keeps its data")]
    UnknownSchema {
        /// The vault.
        vault: String,
    },
    /// Our newest snapshot is no longer in the vault as it was written.
    #[error("{object}: the newest snapshot was lost from the vault: {what}")]
    Lost {
        /// The object.
        object: String,
        /// What is wrong with it.
        what: String,
    },
    /// Another process sends snapshots under our instance's name.
    #[error("{object}: another process sent this snapshot under our name, {instance}")]
    TwoWriters {
        /// The object.
        object: String,
        /// The instance.
        instance: String,
    },
    /// The content of a snapshot belongs to another database or instance than its name says.
    #[error("{object}: it is a snapshot of {found}, and its name says {named}")]
    Foreign {
        /// The object.
        object: String,
        /// The database or instance in the content.
        found: String,
        /// The database or instance in the name.
        named: String,
    },
    /// Pages of the data file are missing, or it is shorter than it was.
    #[error("{path}: the data file was cut: it has {bytes} of {before} bytes")]
    Cut {
        /// The data.
        path: PathBuf,
        /// Its bytes.
        bytes: u64,
        /// The bytes that it had, or that its pages need.
        before: u64,
    },
    /// The environment was closed to be opened anew, and couldn't be.
    #[error("{path}: the environment isn't open")]
    Closed {
        /// The environment.
        path: PathBuf,
    },
    /// A signal stopped the work at once.
    #[error("stopped at once, before everything was sent")]
    Interrupted,
    /// A defect in Seawall.
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

    /// The meaning of liblmdb's error, if this is one.
    pub fn meaning(&self) -> Option<Meaning> {
        if let Self::Lmdb { source, .. } = self { Some(source.meaning()) } else { None }
    }

    /// Whether the snapshot itself is the cause, so that a retry can't help.
    pub fn is_bad_snapshot(&self) -> bool {
        matches!(self, Self::Snapshot { .. } | Self::UnknownFlags { .. } | Self::Foreign { .. })
    }
}

/// A name with arbitrary bytes, made readable.
pub(crate) fn shown(name: &[u8]) -> String {
    name.escape_ascii().to_string()
}

impl From<Panicked> for Error {
    fn from(panicked: Panicked) -> Self {
        Self::Internal(panicked.to_string())
    }
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
            Error::NotTheSender { path, .. } => fail(
                Kind::Refused,
                "lmdb.not-the-sender",
                &path.display(),
                "if the environment was lost, restore it with `seawall restore`; then let it send under another `instance`, or take out \
                 `send-only` (an encrypted vault needs an identity then)",
            ),
            Error::Exists { path } => {
                fail(Kind::Refused, "lmdb.exists", &path.display(), "name another file, or move this one away")
            }
            Error::BadName { name } => fail(
                Kind::Usage,
                "lmdb.bad-name",
                name,
                "name it database__instance__time__GX.pb.gz, or use --force if no instance is to read it",
            ),
            Error::Gone { path } => fail(
                Kind::Unavailable,
                "lmdb.gone",
                &path.display(),
                "put the file back, or let the application make a new one: Seawall goes on with it; to have it made from \
                 the vault, stop Seawall and use `seawall restore`",
            ),
            Error::Replaced { path, .. } => fail(
                Kind::Conflict,
                "lmdb.replaced",
                &path.display(),
                "restart every application that has the old file open: what it writes there is lost; Seawall goes on with \
                 the new file",
            ),
            Error::InUse { path, .. } => fail(
                Kind::Refused,
                "lmdb.in-use",
                &path.display(),
                "stop the application and Seawall first: they would go on with the old file, and lose what they write to it",
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
            Error::MayNotDelete { vault, .. } => fail(
                Kind::Denied,
                "lmdb.may-not-delete",
                vault,
                "allow deletion, or turn cleanup off and let rules of the bucket delete",
            ),
            Error::Lost { object, .. } => fail(
                Kind::Corrupt,
                "lmdb.lost",
                object,
                "find out what removes or overwrites objects there; Seawall sends a new snapshot by itself",
            ),
            Error::TwoWriters { object, .. } => fail(
                Kind::Conflict,
                "lmdb.two-writers",
                object,
                "give each instance its own name: a restore and the other instances take only the newest snapshot of a name",
            ),
            Error::Foreign { object, .. } => fail(
                Kind::Corrupt,
                "lmdb.foreign-snapshot",
                object,
                "nothing was merged from it; remove the object, or give it back its own name",
            ),
            Error::Cut { path, .. } => fail(
                Kind::Unavailable,
                "lmdb.cut",
                &path.display(),
                "stop the application and put a whole copy in place by renaming it; Seawall goes on with it",
            ),
            Error::Closed { path } => fail(
                Kind::Unavailable,
                "lmdb.closed",
                &path.display(),
                "see the error before this one; Seawall opens the environment again by itself",
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

/// The error of reading a snapshot, with the object.
pub(crate) fn snapshot_problem(object: &str, problem: Problem) -> Error {
    match problem {
        Problem::Fault(fault) => Error::Snapshot { object: object.to_owned(), fault },
        Problem::Io(source) => match source.downcast::<seawall_vault::Error>() {
            Ok(error) => Error::Vault(error),
            Err(source) => Error::Io { path: object.into(), source },
        },
    }
}
