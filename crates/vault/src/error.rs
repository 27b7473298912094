//! The errors of a vault. Each variant is a decision for the caller.
//!
//! A backend chooses the variant by codes (an errno, an HTTP status, a protocol error code), never by the words of a
//! message. No variant holds a secret: objects are redacted URLs, and causes are our own words or the code's.

use std::io;
use std::time::Duration;

use seawall_core::{Failure, Kind};

use crate::Fault;

/// An error of a store. `object` is the URL without secrets, or the key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The object does not exist.
    #[error("{object}: there is no such object")]
    NotFound {
        /// The object.
        object: String,
    },
    /// The bucket, container or share itself does not exist.
    #[error("{object}: {cause}")]
    Missing {
        /// The place.
        object: String,
        /// The store's message.
        cause: String,
    },
    /// A folder of the vault can't be made.
    #[error("{object}: the folder can't be made: {cause}")]
    NoFolder {
        /// The folder.
        object: String,
        /// The system's message.
        cause: String,
    },
    /// The vault's folder, or the disk that holds it, was there before and is missing now. Nothing was written.
    #[error("{object}: {cause}")]
    Vanished {
        /// The folder.
        object: String,
        /// What is missing.
        cause: String,
    },
    /// Another folder is at the path of the vault's folder. Nothing was written.
    #[error("{object}: {cause}")]
    Replaced {
        /// The folder.
        object: String,
        /// What is there.
        cause: String,
    },
    /// A create-only write found another writer's object (I9).
    #[error("{object}: the object exists already, with other content")]
    AlreadyExists {
        /// The object.
        object: String,
    },
    /// One of several vaults holds something that isn't of this database's history. Nothing is written there, and nothing is
    /// copied from there.
    #[error("{object}: {cause}")]
    Differs {
        /// The object.
        object: String,
        /// What shows it.
        cause: String,
    },
    /// Several vaults hold different histories, and nothing tells which one is the database's. None of them is written to.
    #[error("{object}: {cause}")]
    Unsure {
        /// The vaults.
        object: String,
        /// What shows it.
        cause: String,
    },
    /// A compare-and-swap found another version than the expected one (I9).
    #[error("{object}: the object is not the expected version any more")]
    Precondition {
        /// The object.
        object: String,
    },
    /// Credentials are wrong or not sufficient.
    #[error("{object}: access was denied: {cause}")]
    Denied {
        /// The object or place.
        object: String,
        /// The store's message.
        cause: String,
    },
    /// The server's own key is not known, or not the known one. Nothing was sent to it.
    #[error("{object}: {cause}")]
    HostKey {
        /// The server.
        object: String,
        /// What it showed.
        cause: String,
        /// What to do.
        next: String,
    },
    /// The store is away, overloaded or gave an unusable answer.
    #[error("{object}: the store is not available: {cause}")]
    Unavailable {
        /// The object or place.
        object: String,
        /// What happened.
        cause: String,
        /// Whether the same request can succeed when it is repeated soon.
        retryable: bool,
    },
    /// No answer within the deadline. The store may have carried the request out all the same.
    #[error("{object}: no answer within {after:?}")]
    Timeout {
        /// The object or place.
        object: String,
        /// The deadline.
        after: Duration,
    },
    /// No space, or a quota is used up.
    #[error("{object}: the store is full: {cause}")]
    Full {
        /// The object or place.
        object: String,
        /// The store's message.
        cause: String,
    },
    /// The store returned bytes that aren't valid.
    #[error("{object}: {cause}")]
    Corrupt {
        /// The object.
        object: String,
        /// What is wrong.
        cause: String,
    },
    /// A listing names more objects than one database can have. A server may make it endless (I11).
    #[error("{object}: the listing names more than {most} objects")]
    Endless {
        /// The place that was listed.
        object: String,
        /// How many it may name.
        most: usize,
    },
    /// The object is larger than the caller allows.
    #[error("{object}: the object has {size} bytes, more than the {max} that it may have")]
    TooLarge {
        /// The object.
        object: String,
        /// Its size in bytes.
        size: u64,
        /// The caller's bound in bytes.
        max: u64,
    },
    /// A range begins after the end of the object.
    #[error("{object}: the range from byte {start} begins behind the end of the object")]
    OutOfRange {
        /// The object.
        object: String,
        /// First byte of the range.
        start: u64,
    },
    /// This store, or this version of Seawall, can't do that.
    #[error("{object}: {cause}")]
    Unsupported {
        /// The object or place.
        object: String,
        /// What can't be done.
        cause: String,
    },
    /// A place was to be read as of a moment, and the versions of its objects aren't kept, or can't be read.
    #[error("{object}: {cause}")]
    NoVersions {
        /// The place.
        object: String,
        /// Why not.
        cause: String,
    },
    /// The place is open as of a moment in the past, where nothing can be written.
    #[error("{object}: the place is open as of a moment in the past, and nothing is written there")]
    ReadOnly {
        /// The object or place.
        object: String,
    },
    /// A URL or a setting is wrong. Nothing was tried.
    #[error("{object}: {cause}")]
    InvalidUrl {
        /// The URL without secrets, or the setting's name.
        object: String,
        /// What is wrong.
        cause: String,
        /// What to write instead.
        next: String,
    },
    /// A name is no [`crate::ObjectKey`]. Nothing was tried.
    #[error("{object}: not an object key: {cause}")]
    InvalidKey {
        /// The name, with control characters escaped.
        object: String,
        /// What is wrong.
        cause: String,
    },
    /// Encryption: the vault, an object or a key isn't as it has to be.
    #[error("{object}: {cause}")]
    Sealing {
        /// The object, the vault, or where a key was read.
        object: String,
        /// What kind of fault it is.
        fault: Fault,
        /// What is wrong.
        cause: String,
    },
}

impl Error {
    /// Whether the same request may succeed when it is repeated soon.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Unavailable { retryable: true, .. } | Self::Timeout { .. })
    }

    /// Whether the request may have taken effect although it failed. Then only a read-back tells.
    pub fn is_ambiguous(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Timeout { .. } | Self::Corrupt { .. })
    }

    /// Whether the object was not there.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// Maps an error of the operating system to a variant.
    pub(crate) fn from_io(object: impl Into<String>, error: &io::Error) -> Self {
        let object = object.into();
        let cause = error.to_string();
        match error.kind() {
            io::ErrorKind::NotFound => Self::NotFound { object },
            io::ErrorKind::AlreadyExists => Self::AlreadyExists { object },
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Self::Denied { object, cause },
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                Self::Full { object, cause }
            }
            io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory | io::ErrorKind::InvalidFilename => {
                Self::InvalidKey { object, cause }
            }
            io::ErrorKind::Unsupported => Self::Unsupported { object, cause },
            io::ErrorKind::Interrupted
            | io::ErrorKind::ResourceBusy
            | io::ErrorKind::StaleNetworkFileHandle
            | io::ErrorKind::WouldBlock
            | io::ErrorKind::TimedOut => Self::Unavailable { object, cause, retryable: true },
            _ => Self::Unavailable { object, cause, retryable: false },
        }
    }

    /// The object it happened to.
    pub fn object(&self) -> &str {
        match self {
            Self::NotFound { object }
            | Self::Missing { object, .. }
            | Self::NoFolder { object, .. }
            | Self::Vanished { object, .. }
            | Self::Replaced { object, .. }
            | Self::AlreadyExists { object }
            | Self::Differs { object, .. }
            | Self::Unsure { object, .. }
            | Self::Precondition { object }
            | Self::Denied { object, .. }
            | Self::HostKey { object, .. }
            | Self::Unavailable { object, .. }
            | Self::Timeout { object, .. }
            | Self::Full { object, .. }
            | Self::Corrupt { object, .. }
            | Self::Endless { object, .. }
            | Self::TooLarge { object, .. }
            | Self::OutOfRange { object, .. }
            | Self::Unsupported { object, .. }
            | Self::NoVersions { object, .. }
            | Self::ReadOnly { object }
            | Self::InvalidUrl { object, .. }
            | Self::InvalidKey { object, .. }
            | Self::Sealing { object, .. } => object,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let object = error.object().to_owned();
        let (kind, code, cause, next) = match error {
            Error::NotFound { .. } => (
                Kind::NotFound,
                "vault.not-found",
                "there is no such object".to_owned(),
                "check the name; `seawall timeline` lists what there is".to_owned(),
            ),
            // Not `NotFound`: a place that isn't there proves nothing of what it should hold.
            Error::Missing { cause, .. } => {
                (Kind::Refused, "vault.missing", cause, "create the bucket, or check its name and region".to_owned())
            }
            Error::NoFolder { cause, .. } => (
                Kind::Unavailable,
                "vault.no-folder",
                format!("the folder can't be made: {cause}"),
                "name a place that leads through folders only, and in which a folder can be made".to_owned(),
            ),
            Error::Vanished { cause, .. } => (
                Kind::Unavailable,
                "vault.vanished",
                format!("{cause}; nothing is written to what is there now"),
                "mount the disk, or put the folder back: it goes on by itself. If the vault was moved here, or is to begin anew \
                 here, make the folder, delete the note that the message names, if it names one, and start Seawall again"
                    .to_owned(),
            ),
            Error::Replaced { cause, .. } => (
                Kind::Unavailable,
                "vault.replaced",
                cause,
                "nothing, if this was intended: what is there now is looked at, and protection begins anew with a base if \
                 it isn't the vault's. The former folder still holds what was kept until then"
                    .to_owned(),
            ),
            Error::AlreadyExists { .. } => (
                Kind::Conflict,
                "vault.exists",
                "the object exists already, with other content: another writer uses this place".to_owned(),
                "stop the other writer, or give this database a place of its own".to_owned(),
            ),
            Error::Differs { cause, .. } => (
                Kind::Conflict,
                "vault.differs",
                format!("{cause}; nothing is written to this vault, and nothing is copied from it"),
                "look at the vault: if another Seawall writes there, stop one of the two. Otherwise put its own folder back, or move what is there \
                 away. Then it catches up by itself"
                    .to_owned(),
            ),
            Error::Unsure { cause, .. } => (
                Kind::Refused,
                "vault.unsure",
                cause,
                "look at them (`seawall timeline URL`), then leave those that aren't the database's, or that are away for good, out of \
                 `vaults`"
                    .to_owned(),
            ),
            Error::Precondition { .. } => (
                Kind::Conflict,
                "vault.changed",
                "another writer changed the object in between".to_owned(),
                "stop the other writer, or give this database a place of its own".to_owned(),
            ),
            Error::Denied { cause, .. } => (
                Kind::Denied,
                "vault.denied",
                format!("access was denied: {cause}"),
                "check the credentials and what they allow (read, write, list, delete)".to_owned(),
            ),
            Error::HostKey { cause, next, .. } => (Kind::Denied, "vault.host-key", cause, next),
            Error::Unavailable { cause, .. } => (
                Kind::Unavailable,
                "vault.unavailable",
                format!("the store is not available: {cause}"),
                "check the address and that the store is up, then try again".to_owned(),
            ),
            Error::Timeout { after, .. } => (
                Kind::Unavailable,
                "vault.timeout",
                format!("no answer within {after:?}"),
                "check the network to the store, then try again".to_owned(),
            ),
            Error::Full { cause, .. } => (
                Kind::Unavailable,
                "vault.full",
                format!("the store is full: {cause}"),
                "make space or raise the quota".to_owned(),
            ),
            Error::Corrupt { cause, .. } => (
                Kind::Corrupt,
                "vault.corrupt",
                cause,
                "run `seawall verify` on the vault to see what else is damaged".to_owned(),
            ),
            Error::Endless { most, .. } => (
                Kind::Corrupt,
                "vault.endless",
                format!("the listing names more than {most} objects, which no database has here; it may never end"),
                "see whether this server is the store, and what writes there; give the database a place of its own. If all of \
                 them are captures of SQLite, protect into a new prefix with an `l0-retention` that isn't `forever`; if they are \
                 snapshots of Lightning Stream, delete old ones (`storage.cleanup`)"
                    .to_owned(),
            ),
            Error::TooLarge { size, max, .. } => (
                Kind::Corrupt,
                "vault.too-large",
                format!("the object has {size} bytes, more than the {max} that it may have"),
                "look at what wrote it; it is none of Seawall's objects".to_owned(),
            ),
            Error::OutOfRange { start, .. } => (
                Kind::Corrupt,
                "vault.short",
                format!("the object ends before byte {start}"),
                "run `seawall verify` on the vault to see what else is damaged".to_owned(),
            ),
            Error::Unsupported { cause, .. } => {
                (Kind::Usage, "vault.unsupported", cause, "use another place for this vault".to_owned())
            }
            Error::NoVersions { cause, .. } => (
                Kind::Refused,
                "vault.no-versions",
                cause,
                "name a place in a bucket of S3 that keeps versions, or leave --as-stored-at out".to_owned(),
            ),
            Error::ReadOnly { .. } => (
                Kind::Refused,
                "vault.read-only",
                "the place is open as of a moment in the past, and nothing is written there".to_owned(),
                "leave --as-stored-at out".to_owned(),
            ),
            Error::InvalidUrl { cause, next, .. } => (Kind::Usage, "vault.url", cause, next),
            Error::Sealing { fault, cause, .. } => return fault.failure(object, cause),
            Error::InvalidKey { cause, .. } => (
                Kind::Refused,
                "vault.key",
                format!("not an object key: {cause}"),
                "use names without `..`, empty segments or control characters".to_owned(),
            ),
        };
        Failure::new(kind, code, object, cause, next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_operating_system_says_becomes_a_decision() {
        let decide = |kind: io::ErrorKind| Error::from_io("x", &io::Error::from(kind));
        assert!(matches!(decide(io::ErrorKind::NotFound), Error::NotFound { .. }));
        assert!(matches!(decide(io::ErrorKind::StorageFull), Error::Full { .. }));
        assert!(matches!(decide(io::ErrorKind::PermissionDenied), Error::Denied { .. }));
        assert!(decide(io::ErrorKind::Interrupted).is_retryable());
        assert!(!decide(io::ErrorKind::Other).is_retryable());
    }

    #[test]
    fn failures_say_what_to_do() {
        let error = Error::Missing { object: "s3://nope".into(), cause: "the bucket does not exist".into() };
        let failure = Failure::from(error);
        assert_eq!((failure.kind, failure.code), (Kind::Refused, "vault.missing"));
        assert!(failure.next.contains("create the bucket"), "{}", failure.next);
        let failure = Failure::from(Error::Endless { object: "s3://b/ltx/0/".into(), most: 5 });
        assert!(failure.next.contains("l0-retention"), "{}", failure.next);
    }
}
