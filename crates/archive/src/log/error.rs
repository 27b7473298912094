//! Every error of the log, and how it is reported.

use seawall_core::{Failure, Kind};

use super::{Lsn, SystemId, TimelineId};

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The vault refused a request or didn't answer.
    #[error("{0}")]
    Vault(#[from] seawall_vault::Error),
    /// An object or a document is not what it must be.
    #[error("{0}")]
    Archive(#[from] crate::Error),
    /// The vault, a file or a server belongs to another cluster than the other side.
    #[error("{object}: it belongs to the cluster {theirs}, and not to {ours}")]
    OtherCluster {
        /// The vault, the object or the file.
        object: String,
        /// The cluster that it belongs to.
        theirs: SystemId,
        /// The cluster that was expected.
        ours: SystemId,
    },
    /// The vault holds segments of another size.
    #[error("{vault}: its segments have {theirs} bytes, and not {ours}")]
    OtherSize {
        /// The vault.
        vault: String,
        /// The size in the vault, in bytes.
        theirs: u32,
        /// The size of the segment that came, in bytes.
        ours: u32,
    },
    /// The vault holds other content under this name.
    #[error("{object}: it holds other content")]
    Conflict {
        /// The object.
        object: String,
        /// How it differs.
        cause: String,
    },
    /// A file is not what its name says.
    #[error("{file}: {cause}")]
    NotALog {
        /// The file.
        file: String,
        /// What is wrong.
        cause: String,
    },
    /// The vault holds no log at all.
    #[error("{vault}: it holds no log")]
    NoLog {
        /// The vault.
        vault: String,
    },
    /// The log of this cluster has no such file: everything that is there is older.
    #[error("{vault}: it holds no {file}")]
    Absent {
        /// The vault.
        vault: String,
        /// The name that was asked for.
        file: String,
        /// How that is known.
        cause: String,
    },
    /// The file is missing although later ones are there.
    #[error("{vault}: {file} is missing, and the log goes on at {later}")]
    Hole {
        /// The vault.
        vault: String,
        /// The name that was asked for.
        file: String,
        /// Where the log goes on.
        later: Lsn,
    },
    /// The file, or its end, is missing, although the log had it when the restore was made. Nothing later is there.
    #[error("{vault}: {file} isn't all there, and the log went to {until} when the restore was made")]
    Shortened {
        /// The vault.
        vault: String,
        /// The name that was asked for.
        file: String,
        /// Where the log ended.
        until: Lsn,
    },
    /// A history file is missing although the log of its timeline, or of a later one, is there.
    #[error("{vault}: {timeline}.history is missing, and {later} is there")]
    NoHistory {
        /// The vault.
        vault: String,
        /// The timeline whose history is missing.
        timeline: TimelineId,
        /// An object of that timeline or of a later one.
        later: String,
    },
    /// The server is on a timeline that another one left.
    #[error("{server}: {cause}")]
    Demoted {
        /// The server.
        server: String,
        /// Which timelines.
        cause: String,
    },
    /// The server's log ends before the vault's.
    #[error("{server}: {cause}")]
    Behind {
        /// The server.
        server: String,
        /// Where they end.
        cause: String,
    },
    /// The segment isn't part of the timeline that is recovered.
    #[error("{file}: {cause}")]
    OffLine {
        /// The name that was asked for.
        file: String,
        /// Why it isn't.
        cause: String,
    },
    /// The log makes a tablespace in a folder of this host in which files of one are already.
    #[error("{location}: files of a tablespace are in it")]
    TablespaceInUse {
        /// The folder.
        location: String,
        /// The segment that has the record.
        file: String,
        /// Where the record is.
        at: Lsn,
    },
    /// Objects of the log that were there are gone.
    #[error("{vault}: its log from {from} on is gone")]
    Vanished {
        /// The vault.
        vault: String,
        /// A position from which on something is gone.
        from: Lsn,
    },
    /// A local file can't be read or written.
    #[error("{path}: {cause}")]
    Io {
        /// The file.
        path: String,
        /// What the system reported.
        cause: String,
    },
}

impl LogError {
    /// Whether the log was read and it is certain that the file isn't part of it.
    pub fn is_absence(&self) -> bool {
        matches!(self, Self::Absent { .. })
    }

    /// A local file that can't be read or written.
    pub fn io(path: &std::path::Path, error: &std::io::Error) -> Self {
        Self::Io { path: path.display().to_string(), cause: error.to_string() }
    }
}

impl From<LogError> for Failure {
    fn from(error: LogError) -> Self {
        let (kind, code, object, cause, next) = match error {
            LogError::Vault(error) => return error.into(),
            LogError::Archive(error) => return error.into(),
            LogError::OtherCluster { object, theirs, ours } => (
                Kind::Refused,
                "log.other-cluster",
                object,
                format!("it belongs to the cluster with the system identifier {theirs}, and not to {ours}"),
                "name the vault of this cluster: each cluster has its own, also after pg_upgrade",
            ),
            LogError::OtherSize { vault, theirs, ours } => (
                Kind::Refused,
                "log.other-size",
                vault,
                format!("its segments have {theirs} bytes, and this one has {ours}"),
                "name another vault: a cluster whose --wal-segsize was changed begins anew",
            ),
            LogError::Conflict { object, cause } => (
                Kind::Conflict,
                "log.conflict",
                object,
                format!("it exists, and {cause}; nothing was written over"),
                "find out which other server archives into this vault, and give one of them a vault of its own",
            ),
            LogError::NotALog { file, cause } => (
                Kind::Refused,
                "log.not-a-segment",
                file,
                cause,
                "look at the file with pg_waldump; PostgreSQL keeps it and tries again",
            ),
            LogError::NoLog { vault } => (
                Kind::Refused,
                "log.none",
                vault,
                "no log of a cluster is in it".to_owned(),
                "check the name of the vault; the first `seawall wal push` begins its log",
            ),
            LogError::Absent { vault, file, cause } => (
                Kind::NotFound,
                "log.absent",
                vault,
                format!("it holds no {file}: {cause}"),
                "nothing: PostgreSQL takes this as the end of the archive",
            ),
            LogError::Hole { vault, file, later } => (
                Kind::Refused,
                "log.hole",
                vault,
                format!("{file} is missing, and the log goes on at {later}"),
                "recover to a moment before the hole, or from a base after it",
            ),
            LogError::Shortened { vault, file, until } => (
                Kind::Refused,
                "log.shortened",
                vault,
                format!("{file} isn't all there, and the log went to {until} when the restore was made"),
                "find out what deletes objects of the vault, and bring them back; or restore again, up to where the log ends now",
            ),
            LogError::NoHistory { vault, timeline, later } => (
                Kind::Corrupt,
                "log.no-history",
                vault,
                format!("{timeline}.history is missing, and {later} is there"),
                "copy the file from pg_wal of a server on that timeline with `seawall wal push`",
            ),
            LogError::Demoted { server, cause } => (
                Kind::Unavailable,
                "log.demoted",
                server,
                cause,
                "name the server that was promoted; or give the server's timeline with --timeline, if the later one is a branch \
                 that isn't followed",
            ),
            LogError::Behind { server, cause } => (
                Kind::Unavailable,
                "log.behind",
                server,
                cause,
                "find out whether an older copy of the server was started; if so, protect it into another vault",
            ),
            LogError::OffLine { file, cause } => (
                Kind::Refused,
                "log.off-line",
                file,
                cause,
                "give `seawall wal fetch` the number of recovery_target_timeline with --timeline",
            ),
            LogError::TablespaceInUse { location, file, at } => (
                Kind::Refused,
                "log.tablespace-in-use",
                location,
                format!(
                    "at {at} in {file} a tablespace is made there, and files of a tablespace are in it: the server that recovers would \
                     change them"
                ),
                "recover on another host, or empty the folder if no server uses it; or recover to a position before, or from a base \
                 after it",
            ),
            LogError::Vanished { vault, from } => (
                Kind::Unavailable,
                "log.vanished",
                vault,
                format!(
                    "objects of the log that were stored are gone: those at {from}, or the one that says whose log it is"
                ),
                "find out what deletes objects of the vault; Seawall stores again what the server still has. Then make a new base",
            ),
            LogError::Io { path, cause } => {
                (Kind::Unavailable, "log.io", path, cause, "check the folder, its permissions and the space")
            }
        };
        Failure::new(kind, code, object, cause, next)
    }
}
