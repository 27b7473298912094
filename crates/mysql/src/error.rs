//! The errors of a server, and how they are reported: classified by error number, then by SQLSTATE, never by words.

use std::fmt;
use std::io;

use seawall_core::{Failure, Kind, Panicked};

/// A server's refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerError {
    /// The server's error number.
    pub number: u16,
    /// The five letters of SQLSTATE.
    pub state: String,
    /// The message.
    pub message: String,
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [error {}, SQLSTATE {}]", self.message, self.number, self.state)
    }
}

impl ServerError {
    /// The same without words: the number and the SQLSTATE alone. The source's owner decides what runs in a server that was started for
    /// a proof, and what it says goes into records, alarms and notifications that other people read. The log of this host gets it.
    pub(crate) fn unspoken(self) -> Self {
        let Self { number, state, message } = self;
        tracing::warn!(number, state, "the server of a proof says: {message}");
        let is_state = state.len() == 5 && state.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
        let state = if is_state { state } else { "HY000".to_owned() };
        Self { number, state, message: "its words are in the log of this host".to_owned() }
    }
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The backup set, or the vault below it.
    #[error("{0}")]
    Archive(#[from] seawall_archive::Error),
    /// A URL, an option file or a setting is wrong. Nothing was tried.
    #[error("{object}: {cause}")]
    Url {
        /// Which part.
        object: String,
        /// What is wrong with it.
        cause: String,
        /// What to write instead.
        next: String,
    },
    /// The server can't be reached, or the connection broke.
    #[error("{server}: {cause}")]
    Connection {
        /// The server.
        server: String,
        /// What happened.
        cause: String,
    },
    /// The connection can't be encrypted as requested.
    #[error("{server}: {cause}")]
    Tls {
        /// `mysql.certificate`: the certificate isn't trusted; `mysql.tls`: any other error.
        code: &'static str,
        /// The server.
        server: String,
        /// What is wrong.
        cause: String,
        /// What to do.
        next: String,
    },
    /// The server wants a password and there is none, or none that may be sent.
    #[error("{server}: {cause}")]
    Password {
        /// The server.
        server: String,
        /// Why.
        cause: String,
        /// What to do.
        next: String,
    },
    /// The server said no.
    #[error("{object}: {error}")]
    Server {
        /// The object of the request.
        object: String,
        /// The server's answer.
        error: ServerError,
    },
    /// The server's answers make no sense.
    #[error("{object}: {cause}")]
    Protocol {
        /// The server.
        object: String,
        /// What is wrong with them.
        cause: String,
    },
    /// The account lacks the right to do or see something.
    #[error("{object}: {cause}")]
    Denied {
        /// The account or object concerned.
        object: String,
        /// The missing right.
        cause: String,
        /// The statements that mend it.
        next: String,
    },
    /// A lock isn't free, or would be held for too long.
    #[error("{object}: {cause}")]
    Blocked {
        /// The server.
        object: String,
        /// Which lock, and which statement of which user holds it up.
        cause: String,
        /// What to do.
        next: String,
    },
    /// The request would destroy or contradict something.
    #[error("{object}: {cause}")]
    Refused {
        /// A code of [`Kind::Refused`].
        code: &'static str,
        /// The object concerned.
        object: String,
        /// Why.
        cause: String,
        /// What to do.
        next: String,
    },
    /// What was restored isn't what the set says.
    #[error("{object}: {cause}")]
    Different {
        /// The table or the object.
        object: String,
        /// What differs.
        cause: String,
    },
    /// A restore didn't end, and what it has made stays, so that the same restore can go on.
    #[error("{error}")]
    Unfinished {
        /// The database that it made.
        database: String,
        /// Why it didn't end.
        error: Box<Self>,
    },
    /// A local file.
    #[error("{path}: {cause}")]
    Io {
        /// The file.
        path: String,
        /// What happened.
        cause: String,
    },
    /// It went wrong on one side, which decides what mends it.
    #[error("{error}")]
    During {
        /// Which.
        side: Side,
        /// What.
        error: Box<Self>,
    },
    /// A file that another program left isn't whole, or isn't what it says.
    #[error("{0}")]
    File(Box<Failure>),
    /// A defect.
    #[error("{0}")]
    Internal(String),
}

/// The operation under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// A backup.
    Backup,
    /// A restore.
    Restore,
}

impl Error {
    /// A broken connection.
    pub(crate) fn connection(server: impl Into<String>, error: &io::Error) -> Self {
        Self::Connection { server: server.into(), cause: error.to_string() }
    }

    /// The server's error, when it was the server that said no.
    pub fn server(&self) -> Option<&ServerError> {
        match self {
            Self::Server { error, .. } => Some(error),
            Self::During { error, .. } | Self::Unfinished { error, .. } => error.server(),
            _ => None,
        }
    }

    /// The server's error number, when it was the server that said no.
    pub fn number(&self) -> Option<u16> {
        self.server().map(|error| error.number)
    }

    /// The cause alone, without the object.
    pub fn cause(&self) -> String {
        match self {
            Self::Server { error, .. } => error.to_string(),
            other => other.to_string(),
        }
    }

    /// The same, where a database of an unfinished name stays.
    #[must_use]
    pub(crate) fn leaves(self, database: &str) -> Self {
        match self {
            Self::Unfinished { .. } => self,
            error => Self::Unfinished { database: database.to_owned(), error: Box::new(error) },
        }
    }

    /// The same, for when everything that was made is removed again.
    #[must_use]
    pub(crate) fn without_what_stays(self) -> Self {
        match self {
            Self::Unfinished { error, .. } => *error,
            error => error,
        }
    }

    /// The same, said of a backup or a restore.
    #[must_use]
    pub fn during(self, side: Side) -> Self {
        Self::During { side, error: Box::new(self) }
    }

    /// The same, said about `object`.
    #[must_use]
    pub fn about(self, object: impl Into<String>) -> Self {
        match self {
            Self::Server { error, .. } => Self::Server { object: object.into(), error },
            other => other,
        }
    }
}

/// The report for an answer of the server: kind, code, and the next step. The most exact row counts.
fn of_answer(error: &ServerError, side: Option<Side>) -> (Kind, &'static str, &'static str) {
    match error.number {
        // Access denied; an account of a socket; a password that has expired or must be changed.
        1045 | 1251 | 1275 | 1698 | 1820 | 1862 => (
            Kind::Denied,
            "mysql.login",
            "check user and password (the URL, MYSQL_PWD, ~/.my.cnf), and from which host the account may log in",
        ),
        // The host is blocked, or has no account.
        1129 | 1130 => (
            Kind::Denied,
            "mysql.login",
            "CREATE USER for this machine's host name or address on the server; if it is blocked: FLUSH HOSTS",
        ),
        1044 | 1142 | 1143 | 1227 | 1370 | 1419 => (
            Kind::Denied,
            "mysql.permission",
            match side {
                Some(Side::Backup) => {
                    "GRANT SELECT, SHOW VIEW, TRIGGER, EVENT, LOCK TABLES and RELOAD to the account, as the server names them"
                }
                Some(Side::Restore) => "restore with an account that has the right that the server names",
                None => "GRANT the account what the server names",
            },
        ),
        1049 => (Kind::NotFound, "mysql.no-database", "check the name; list what there is with SHOW DATABASES"),
        1040 | 1203 | 1226 => (
            Kind::Unavailable,
            "mysql.connections",
            "give fewer --jobs, or raise max_connections, or max_user_connections of the account",
        ),
        1205 => (
            Kind::Unavailable,
            "mysql.locked",
            "another session holds or waits for a lock on it: let that end, then start again",
        ),
        1213 | 1020 => (Kind::Unavailable, "mysql.conflict", "start the same again"),
        1412 => (Kind::Unavailable, "mysql.conflict", "start the same again when no definition is being changed"),
        1153 | 1301 => (
            Kind::Refused,
            "mysql.packet",
            "raise max_allowed_packet on the server above twice the largest row, then start again",
        ),
        1021 | 1114 | 1026 => {
            (Kind::Unavailable, "mysql.disk-full", "make space for the server, then start the same again")
        }
        1290 | 1792 | 1836 | 1874 | 3707 => (
            Kind::Refused,
            "mysql.read-only",
            "the server runs with the option that it names: write to another, or change it",
        ),
        1317 | 1969 | 3024 => (
            Kind::Unavailable,
            "mysql.cancelled",
            "the server or an operator ended the statement: look into the server's log, then start again",
        ),
        1053 | 1077..=1080 | 1152 | 1158..=1161 | 1184 | 1927 | 4031 => {
            (Kind::Unavailable, "mysql.away", "check that the server is up, then start again")
        }
        1148 | 3948 | 4166 => {
            (Kind::Refused, "mysql.local-infile", "SET GLOBAL local_infile = ON on the target while the restore runs")
        }
        3159 => (Kind::Denied, "mysql.tls", "give ssl-mode=REQUIRED, or better VERIFY_IDENTITY with ssl-ca"),
        126 | 127 | 144 | 145 | 1033 | 1034 | 1194 | 1195 | 1712 => (
            Kind::Corrupt,
            "mysql.damaged",
            "the server's own data is damaged: look into its log, and CHECK TABLE what it names",
        ),
        1235 => (Kind::Refused, "mysql.unsupported", "the server can't do this: see what it says"),
        3819 | 4025 => CONSTRAINT,
        // MySQL makes no text of a value of JSON that is larger than its limit.
        3140 if side == Some(Side::Restore) => (
            Kind::Refused,
            "mysql.constraint",
            "if the column has values that are larger than max_allowed_packet of the server, raise that, then start the same again; \
             else a row has no valid JSON in the source: mend it there and back up again, or restore the other tables with --table",
        ),
        _ => match error.state.get(..2) {
            Some("08") => (Kind::Unavailable, "mysql.away", "check that the server is up, then start again"),
            Some("22" | "23") => CONSTRAINT,
            Some("40") => (Kind::Unavailable, "mysql.conflict", "start the same again"),
            _ => (Kind::Refused, "mysql.refused", "see what the server says"),
        },
    }
}

const CONSTRAINT: (Kind, &str, &str) = (
    Kind::Refused,
    "mysql.constraint",
    "where the target had rows before, name another database; else the rows were so in the source: mend them there and back \
     up again, or restore the other tables with --table",
);

impl From<Panicked> for Error {
    fn from(panicked: Panicked) -> Self {
        Self::Internal(panicked.to_string())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        error.told(None)
    }
}

impl Error {
    /// As a failure of that side.
    fn told(self, side: Option<Side>) -> Failure {
        match self {
            Self::During { side, error } => error.told(Some(side)),
            Self::Archive(error) => error.into(),
            Self::File(failure) => *failure,
            Self::Url { object, cause, next } => Failure::new(Kind::Usage, "mysql.url", object, cause, next),
            Self::Connection { server, cause } => Failure::new(
                Kind::Unavailable,
                "mysql.connection",
                server,
                cause,
                "check that the server is up and can be reached, then start again",
            ),
            Self::Tls { code, server, cause, next } => Failure::new(Kind::Denied, code, server, cause, next),
            Self::Password { server, cause, next } => Failure::new(Kind::Denied, "mysql.password", server, cause, next),
            Self::Server { object, error } => {
                let (kind, code, next) = of_answer(&error, side);
                Failure::new(kind, code, object, error.to_string(), next)
            }
            Self::Protocol { object, cause } => Failure::new(
                Kind::Internal,
                "mysql.protocol",
                object,
                cause,
                "check that this is a MySQL or MariaDB server and that no proxy changes its answers, then report this",
            ),
            Self::Denied { object, cause, next } => Failure::new(Kind::Denied, "mysql.permission", object, cause, next),
            Self::Blocked { object, cause, next } => {
                Failure::new(Kind::Unavailable, "mysql.blocked", object, cause, next)
            }
            Self::Refused { code, object, cause, next } => Failure::new(Kind::Refused, code, object, cause, next),
            Self::Different { object, cause } => Failure::new(
                Kind::Corrupt,
                "mysql.different",
                object,
                cause,
                "don't use the target; run `seawall verify` on the vault, then restore again",
            ),
            Self::Unfinished { database, error } => {
                let mut failure = error.told(side);
                failure.next = format!(
                    "{} (what is restored so far stays in database {database}: the same command goes on with it; to give it up, \
                     DROP DATABASE {})",
                    failure.next,
                    crate::client::quote::name(&database)
                );
                failure
            }
            Self::Io { path, cause } => Failure::new(
                Kind::Unavailable,
                "mysql.io",
                path,
                cause,
                "check the file, its permissions and the space",
            ),
            Self::Internal(cause) => {
                Failure::new(Kind::Internal, "mysql.internal", "seawall", cause, "report this: it is a defect")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(number: u16, state: &str) -> Error {
        let error = ServerError { number, state: state.into(), message: "no".into() };
        Error::Server { object: "o".into(), error }
    }

    #[test]
    fn what_the_server_says_becomes_a_decision() {
        for (number, state, kind, expected) in [
            (1045, "28000", Kind::Denied, "mysql.login"),
            (1698, "28000", Kind::Denied, "mysql.login"),
            (1044, "42000", Kind::Denied, "mysql.permission"),
            (1049, "42000", Kind::NotFound, "mysql.no-database"),
            (1040, "08004", Kind::Unavailable, "mysql.connections"),
            (1205, "HY000", Kind::Unavailable, "mysql.locked"),
            (1213, "40001", Kind::Unavailable, "mysql.conflict"),
            (1412, "HY000", Kind::Unavailable, "mysql.conflict"),
            (1153, "08S01", Kind::Refused, "mysql.packet"),
            (1114, "HY000", Kind::Unavailable, "mysql.disk-full"),
            (1290, "HY000", Kind::Refused, "mysql.read-only"),
            (1317, "70100", Kind::Unavailable, "mysql.cancelled"),
            (1927, "70100", Kind::Unavailable, "mysql.away"),
            (1159, "08S01", Kind::Unavailable, "mysql.away"),
            (4166, "HY000", Kind::Refused, "mysql.local-infile"),
            (3159, "HY000", Kind::Denied, "mysql.tls"),
            (1062, "23000", Kind::Refused, "mysql.constraint"),
            (1366, "22007", Kind::Refused, "mysql.constraint"),
            (145, "HY000", Kind::Corrupt, "mysql.damaged"),
            (1146, "42S02", Kind::Refused, "mysql.refused"),
            (0, "", Kind::Refused, "mysql.refused"),
        ] {
            let failure = Failure::from(server(number, state));
            assert_eq!((failure.kind, failure.code), (kind, expected), "{number} {state}");
        }
    }

    #[test]
    fn what_mends_it_depends_on_the_side() {
        for (error, begins) in [
            (server(1142, "42000"), "GRANT the account what"),
            (server(1142, "42000").during(Side::Backup), "GRANT SELECT"),
            (server(1142, "42000").during(Side::Restore), "restore with an account"),
        ] {
            assert_eq!(error.number(), Some(1142));
            let failure = Failure::from(error);
            assert!(failure.next.starts_with(begins), "{failure:?}");
        }
    }
}
