//! Every error of this crate, and how it is reported.

use seawall_core::{Failure, Kind, Panicked};

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The vault refused a request or didn't answer.
    #[error("{0}")]
    Vault(#[from] seawall_vault::Error),
    /// An object is not what it must be.
    #[error("{object}: {cause}")]
    Corrupt {
        /// The object.
        object: String,
        /// What is wrong with it.
        cause: String,
    },
    /// A later version of Seawall wrote this object.
    #[error("{object}: it has format {format}, and this version reads format 1")]
    TooNew {
        /// The object.
        object: String,
        /// The format number that it holds.
        format: u32,
    },
    /// No set matches the request.
    #[error("{vault}: {cause}")]
    NoSet {
        /// The vault.
        vault: String,
        /// Why there is none.
        cause: String,
    },
    /// The set of the requested moment may be that of a link which can't be read.
    #[error("{object}: {cause}")]
    Hidden {
        /// The link.
        object: String,
        /// Why it can't be read.
        cause: String,
        /// The last set before it that can be restored.
        before: Option<String>,
    },
    /// The vault holds the sets of another database.
    #[error("{vault}: it holds backups of {theirs}, not of {ours}")]
    OtherDatabase {
        /// The vault.
        vault: String,
        /// The database whose sets are there.
        theirs: String,
        /// The database whose sets were expected.
        ours: String,
    },
    /// The credentials may not delete.
    #[error("{vault}: the credentials don't allow to delete ({cause}): sets that are not kept any longer stay")]
    MayNotDelete {
        /// The vault.
        vault: String,
        /// The store's refusal.
        cause: seawall_vault::Error,
    },
    /// The chain has a problem, so nothing may be deleted.
    #[error("{object}: {cause}")]
    Alarm {
        /// The link.
        object: String,
        /// The problem, with its code.
        cause: String,
    },
    /// A user acknowledged a link that isn't missing.
    #[error("{object}: the link {number} is not missing, or is known to be")]
    NotMissing {
        /// The vault.
        object: String,
        /// The link's number.
        number: u64,
    },
    /// The newest links of the chain are gone.
    #[error("{vault}: the newest links of the chain are gone: it had {known}")]
    Lost {
        /// The vault.
        vault: String,
        /// The newest link before.
        known: u64,
        /// The newest set that was told to be protected.
        newest: Option<String>,
    },
    /// The set has more chunks than chunk names can number.
    #[error("{id}: the set has more chunks than its names can number")]
    TooLarge {
        /// The set.
        id: String,
    },
    /// The memory limit is too small for the buffers.
    #[error("{memory} bytes are too little memory: {least} are needed")]
    TooLittleMemory {
        /// What was given.
        memory: u64,
        /// The least that works.
        least: u64,
    },
    /// The output file exists already.
    #[error("{path}: the file exists")]
    TargetExists {
        /// The file.
        path: String,
    },
    /// The output directory can't be made, because its path exists and isn't an empty folder. Nothing was changed.
    #[error("{path}: the directory can't be made here, because something is there")]
    FolderInUse {
        /// The folder.
        path: String,
    },
    /// A local file can't be read or written.
    #[error("{path}: {cause}")]
    Io {
        /// The file.
        path: String,
        /// What the system reported.
        cause: String,
    },
    /// An engine couldn't say whether a set can be opened.
    #[error("{0}")]
    Unchecked(Box<Failure>),
    /// A defect in Seawall.
    #[error("{0}")]
    Internal(String),
}

impl Error {
    /// An object that is not what it must be.
    pub(crate) fn corrupt(object: impl Into<String>, cause: impl Into<String>) -> Self {
        Self::Corrupt { object: object.into(), cause: cause.into() }
    }
}

impl From<Panicked> for Error {
    fn from(panicked: Panicked) -> Self {
        Self::Internal(panicked.to_string())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Vault(error) => error.into(),
            Error::Corrupt { object, cause } => Failure::new(
                Kind::Corrupt,
                "archive.corrupt",
                object,
                cause,
                "run `seawall verify` on the vault to see what else is damaged; restore another set with --at",
            ),
            Error::TooNew { object, format } => Failure::new(
                Kind::Refused,
                "archive.too-new",
                object,
                format!("it has format {format}, and this version reads format 1"),
                "use the version of Seawall that wrote it, or a later one",
            ),
            Error::NoSet { vault, cause } => Failure::new(
                Kind::NotFound,
                "archive.no-set",
                vault,
                cause,
                "see what there is with `seawall timeline`",
            ),
            Error::Hidden { object, cause, before } => Failure::new(
                Kind::Corrupt,
                "archive.unreadable-link",
                object,
                format!("the set of that moment may be the one that it names, and it can't be read: {cause}"),
                match before {
                    Some(id) => format!(
                        "restore the last set before it with --at {id}, or another one of `seawall timeline`; see all damage with `seawall verify`"
                    ),
                    None => "see all damage with `seawall verify`; restore a set of `seawall timeline` with --at ID"
                        .to_owned(),
                },
            ),
            Error::OtherDatabase { vault, theirs, ours } => Failure::new(
                Kind::Refused,
                "archive.other-database",
                vault,
                format!("it holds backups of {theirs}, not of {ours}"),
                "name another vault: each database, each server and each sample of one has its own",
            ),
            Error::Alarm { object, cause } => Failure::new(
                Kind::Refused,
                "archive.alarm",
                object,
                format!("nothing is retired or deleted while the chain has an alarm: {cause}"),
                "find out who did that, with `seawall verify`; then begin anew in another vault, or say that you know of missing links \
                 with `seawall maintain VAULT --acknowledge NUMBER`",
            ),
            Error::NotMissing { object, number } => Failure::new(
                Kind::Refused,
                "archive.not-missing",
                object,
                format!("the link {number} is not missing, or it is known already that it is"),
                "give the numbers that `seawall verify` names as archive.missing-link",
            ),
            Error::Lost { vault, known, newest } => Failure::new(
                Kind::Corrupt,
                "archive.lost",
                vault,
                format!(
                    "the newest links of the chain are gone: it had {known}, and the newest backup was {}",
                    newest.as_deref().unwrap_or("unknown")
                ),
                "find out who deleted objects, or put an older copy of the vault in its place; `seawall backup` makes a backup now",
            ),
            Error::TooLarge { id } => Failure::new(
                Kind::Refused,
                "archive.too-large",
                id,
                "the set has more chunks than its names can number",
                "give the backup more memory with --memory, so that its chunks get larger",
            ),
            Error::TooLittleMemory { memory, least } => Failure::new(
                Kind::Usage,
                "archive.memory",
                "--memory",
                format!("{memory} bytes are too little for this many jobs"),
                format!("give at least {least} bytes, or fewer --jobs"),
            ),
            Error::MayNotDelete { vault, cause } => Failure::new(
                Kind::Denied,
                "archive.may-not-delete",
                vault,
                format!("the credentials don't allow to delete ({cause}): sets that are not kept any longer stay"),
                "allow deletion, run `seawall maintain` elsewhere with credentials that may delete, or let rules of the bucket delete",
            ),
            Error::TargetExists { path } => Failure::new(
                Kind::Refused,
                "archive.target-exists",
                path,
                "the file exists",
                "name another one with -o, or replace it with --force",
            ),
            Error::FolderInUse { path } => Failure::new(
                Kind::Refused,
                "archive.folder-in-use",
                path,
                "a directory is to be made, and what has this name isn't an empty folder",
                "name another one with -o: a folder with something in it isn't replaced, even with --force",
            ),
            Error::Io { path, cause } => Failure::new(
                Kind::Unavailable,
                "archive.io",
                path,
                cause,
                "check the folder, its permissions and the space",
            ),
            Error::Unchecked(failure) => *failure,
            Error::Internal(cause) => {
                Failure::new(Kind::Internal, "archive.internal", "seawall", cause, "report this: it is a defect")
            }
        }
    }
}
