//! The errors of a server, and how they are reported: classified by SQLSTATE and errno, never by words.

use std::fmt;
use std::io;

use seawall_archive::Error as Archive;
use seawall_archive::names::ProofName;
use seawall_archive::preflight::Lack;
use seawall_core::{Failure, Kind, Panicked};

use crate::quote::ident;

/// A server's refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerError {
    /// The five letters of SQLSTATE.
    pub code: String,
    /// The primary message.
    pub message: String,
    /// More of it.
    pub detail: Option<String>,
    /// The server's hint.
    pub hint: Option<String>,
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)?;
        if let Some(detail) = &self.detail {
            write!(f, " ({detail})")?;
        }
        write!(f, " [SQLSTATE {}]", self.code)
    }
}

/// What is told in the place of the words of a server that was started for a proof. The source's owner decides what runs there, and
/// what it says goes into records, alarms and notifications that other people read.
pub(crate) const UNSPOKEN: &str = "its words are in the log of this host";

impl ServerError {
    /// The same without words: the SQLSTATE alone. The log of this host gets the words.
    pub(crate) fn unspoken(self) -> Self {
        let Self { code, message, detail, hint } = self;
        tracing::warn!(code, detail, hint, "the server of a proof says: {message}");
        let is_code = code.len() == 5 && code.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
        let code = if is_code { code } else { "XX000".to_owned() };
        Self { code, message: UNSPOKEN.to_owned(), detail: None, hint: None }
    }
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The backup set, or the vault below it.
    #[error("{0}")]
    Archive(#[from] seawall_archive::Error),
    /// The log of a cluster in a vault.
    #[error("{0}")]
    Log(#[from] seawall_archive::log::LogError),
    /// A URL or a setting is wrong. Nothing was tried.
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
        /// `postgres.certificate`: the certificate isn't trusted; `postgres.tls`: any other error.
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
    /// A tool of PostgreSQL's ended with an error.
    #[error("{tool}: {cause}")]
    ToolFailed {
        /// The program.
        tool: String,
        /// How it ended, and its message.
        cause: String,
    },
    /// A tool of PostgreSQL's is missing, of the wrong version, or can't be run.
    #[error("{tool}: {cause}")]
    Tool {
        /// The program.
        tool: String,
        /// What happened.
        cause: String,
        /// What to do.
        next: String,
    },
    /// The role lacks the right to do or see something.
    #[error("{object}: {cause}")]
    Denied {
        /// The role or object concerned.
        object: String,
        /// The missing right.
        cause: String,
        /// The statements that mend it.
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
    /// The restored content differs from the set.
    #[error("{object}: {cause}")]
    Different {
        /// The table or the object.
        object: String,
        /// What differs.
        cause: String,
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
    /// The restore failed. Databases that it made stay, so that the same restore can continue.
    #[error("{error}")]
    Unfinished {
        /// The databases.
        databases: Vec<String>,
        /// What.
        error: Box<Self>,
    },
    /// A restore over a folder failed after the folder was changed.
    #[error("{error}")]
    InPlace {
        /// The folder.
        folder: String,
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

    /// What SQLSTATE says, when it was the server that said no.
    pub(crate) fn sqlstate(&self) -> Option<&str> {
        match self {
            Self::Server { error, .. } => Some(&error.code),
            Self::During { error, .. } | Self::Unfinished { error, .. } | Self::InPlace { error, .. } => {
                error.sqlstate()
            }
            _ => None,
        }
    }

    /// The cause alone, without the object.
    pub(crate) fn cause(&self) -> String {
        match self {
            Self::Server { error, .. } => error.to_string(),
            other => other.to_string(),
        }
    }

    /// The same without words of a server that was started for a proof, or of a tool that asked it.
    #[must_use]
    pub(crate) fn unspoken(self) -> Self {
        match self {
            Self::Server { object, error } => Self::Server { object, error: error.unspoken() },
            Self::ToolFailed { tool, cause } => {
                tracing::warn!(tool, "the tool of a proof says: {cause}");
                Self::ToolFailed { tool, cause: format!("it failed on the server of the proof; {UNSPOKEN}") }
            }
            Self::During { side, error } => error.unspoken().during(side),
            Self::Unfinished { databases, error } => Self::Unfinished { databases, error: Box::new(error.unspoken()) },
            Self::InPlace { folder, error } => Self::InPlace { folder, error: Box::new(error.unspoken()) },
            other => other,
        }
    }

    /// The same without words of a tool that asked such a server, where the connection has kept the server's own.
    #[must_use]
    pub(crate) fn unspoken_by_tools(self) -> Self {
        match self {
            Self::Server { .. } => self,
            Self::During { side, error } => error.unspoken_by_tools().during(side),
            Self::Unfinished { databases, error } => {
                Self::Unfinished { databases, error: Box::new(error.unspoken_by_tools()) }
            }
            other => other.unspoken(),
        }
    }

    /// The same, said of a backup or a restore.
    #[must_use]
    pub(crate) fn during(self, side: Side) -> Self {
        Self::During { side, error: Box::new(self) }
    }

    /// The same, where the folder that is restored over isn't whole.
    #[must_use]
    pub(crate) fn in_place(self, folder: &std::path::Path) -> Self {
        Self::InPlace { folder: folder.display().to_string(), error: Box::new(self) }
    }

    /// The same, where a database that was made stays.
    #[must_use]
    pub(crate) fn leaves(self, database: &str) -> Self {
        match self {
            Self::Unfinished { mut databases, error } => {
                databases.push(database.to_owned());
                Self::Unfinished { databases, error }
            }
            error => Self::Unfinished { databases: vec![database.to_owned()], error: Box::new(error) },
        }
    }

    /// The same, for when everything that was made is removed again.
    #[must_use]
    pub(crate) fn without_what_stays(self) -> Self {
        match self {
            Self::Unfinished { error, .. } => *error,
            Self::During { side, error } => error.without_what_stays().during(side),
            other => other,
        }
    }

    /// The same, of one database of several.
    #[must_use]
    pub(crate) fn in_database(self, name: &str) -> Self {
        let of = |object: String| format!("{object} in database {name}");
        match self {
            Self::Server { object, error } => Self::Server { object: of(object), error },
            Self::Refused { code, object, cause, next } => Self::Refused { code, object: of(object), cause, next },
            Self::Denied { object, cause, next } => Self::Denied { object: of(object), cause, next },
            Self::Different { object, cause } => Self::Different { object: of(object), cause },
            // The object is one of the vault, and its name stays as it is.
            Self::Archive(Archive::Corrupt { object, cause }) => {
                Archive::Corrupt { object, cause: format!("{cause} (read for database {name})") }.into()
            }
            Self::ToolFailed { tool, cause } => Self::ToolFailed { tool: of(tool), cause },
            Self::During { side, error } => error.in_database(name).during(side),
            Self::Unfinished { databases, error } => {
                Self::Unfinished { databases, error: Box::new(error.in_database(name)) }
            }
            other => other,
        }
    }

    /// The same, with the name of the database that contains the object.
    #[must_use]
    pub(crate) fn within(self, database: &str) -> Self {
        // The name of a proof's own database says nothing to a person.
        if ProofName::of(database).is_some() {
            return self;
        }
        let also = |object: String| match object.contains(" in database ") || object.starts_with("database ") {
            true => object,
            false => format!("{object} in database {database}"),
        };
        match self {
            Self::Server { object, error } if !object.starts_with("postgresql://") => {
                Self::Server { object: also(object), error }
            }
            other => other,
        }
    }

    /// The same, with another next step where the server denied a right.
    #[must_use]
    pub(crate) fn denied_with(self, next: &str) -> Self {
        match self {
            Self::Server { object, error } if error.code == "42501" => {
                Self::Denied { object, cause: error.to_string(), next: next.to_owned() }
            }
            Self::During { error, .. } | Self::Unfinished { error, .. } if error.sqlstate() == Some("42501") => {
                error.denied_with(next)
            }
            other => other,
        }
    }

    /// The same, said about `object`.
    #[must_use]
    pub(crate) fn about(self, object: impl Into<String>) -> Self {
        match self {
            Self::Server { error, .. } => Self::Server { object: object.into(), error },
            other => other,
        }
    }
}

/// Refuses a target that lacks anything.
pub(crate) fn refuse(target: &str, lacks: &[Lack]) -> Result<(), Error> {
    let Some((cause, next)) = Lack::told(lacks) else { return Ok(()) };
    Err(Error::Refused { code: "postgres.not-ready", object: target.to_owned(), cause, next })
}

/// The report for a SQLSTATE: kind, code, and the next step. The most exact row counts.
fn of_sqlstate(code: &str, side: Option<Side>) -> (Kind, &'static str, &'static str) {
    match code {
        "28P01" | "28000" => (
            Kind::Denied,
            "postgres.login",
            "check role and password (PGPASSWORD, .pgpass), and the server's pg_hba.conf",
        ),
        "3D000" => (Kind::NotFound, "postgres.no-database", "check the name; list what there is with `psql -l`"),
        "42501" => {
            let next = match side {
                Some(Side::Backup) => {
                    "GRANT pg_read_all_data TO the role, and ALTER ROLE … BYPASSRLS where tables have row security"
                }
                Some(Side::Restore) => {
                    "restore as a superuser, or GRANT the role what the server names; --no-owner leaves owners and grants out"
                }
                None => "GRANT the role what the server names",
            };
            (Kind::Denied, "postgres.permission", next)
        }
        // What `search_path` would find isn't found where it is empty, as in every restore.
        "42883" | "42P01" | "42704" if side == Some(Side::Restore) => (
            Kind::Refused,
            "postgres.refused",
            "where a function finds this by search_path, which is empty in a restore: ALTER FUNCTION … SET search_path = … \
             here and in the source, then start the same again",
        ),
        "55P03" => (
            Kind::Unavailable,
            "postgres.locked",
            "another session holds or waits for a lock on it: let that end, then start again",
        ),
        "55006" => (
            Kind::Refused,
            "postgres.in-use",
            "end every other session in the database, then run the same command again: it continues from here",
        ),
        "53200" => (
            Kind::Unavailable,
            "postgres.locks",
            "raise max_locks_per_transaction on the server (it needs a restart), then start again",
        ),
        "53100" => (Kind::Unavailable, "postgres.disk-full", "make space for the server, then start the same again"),
        "53300" => {
            (Kind::Unavailable, "postgres.connections", "give fewer --jobs, or raise max_connections on the server")
        }
        "40001" | "40P01" => (Kind::Unavailable, "postgres.conflict", "start the same again"),
        "57014" => (
            Kind::Unavailable,
            "postgres.cancelled",
            "the server or an operator ended the statement: look into the server's log, then start again",
        ),
        "0A000" => (Kind::Refused, "postgres.unsupported", "the server can't do this: see what it says"),
        _ => match code.get(..2) {
            Some("08" | "57") => (Kind::Unavailable, "postgres.away", "check that the server is up, then start again"),
            Some("53") => {
                (Kind::Unavailable, "postgres.resources", "see what the server is short of, then start again")
            }
            Some("23") => (
                Kind::Refused,
                "postgres.constraint",
                "where the target had rows before, name another database; else the rows were so in the source: mend them there and \
                 back up again, or restore the other tables with --table",
            ),
            Some("XX") => (
                Kind::Corrupt,
                "postgres.damaged",
                "the server's own data is damaged: look into its log, and check it with pg_amcheck",
            ),
            _ => (Kind::Refused, "postgres.refused", "see what the server says"),
        },
    }
}

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
            Self::Unfinished { databases, error } => {
                let failure = error.told(side);
                let names: Vec<String> = databases.iter().map(|name| ident(name)).collect();
                let drops: Vec<String> = names.iter().map(|name| format!("DROP DATABASE {name};")).collect();
                let next = format!(
                    "{}; what is restored so far stays in {} until the same command has done the rest, or until {}",
                    failure.next,
                    names.join(", "),
                    drops.join(" ")
                );
                Failure { next, ..failure }
            }
            Self::InPlace { folder, error } => {
                let failure = error.told(side);
                let next = format!(
                    "{}; then give the same command again: until it has ended well, {folder} isn't whole and no server starts there",
                    failure.next
                );
                Failure { next, ..failure }
            }
            error => error.told_plainly(side),
        }
    }

    fn told_plainly(self, side: Option<Side>) -> Failure {
        match self {
            Error::During { .. } | Error::Unfinished { .. } | Error::InPlace { .. } => self.told(side),
            Error::Archive(error) => error.into(),
            Error::File(failure) => *failure,
            Error::Log(error) => error.into(),
            Error::Url { object, cause, next } => Failure::new(Kind::Usage, "postgres.url", object, cause, next),
            Error::Connection { server, cause } => Failure::new(
                Kind::Unavailable,
                "postgres.connection",
                server,
                cause,
                "check that the server is up and can be reached, then start again",
            ),
            Error::Tls { code, server, cause, next } => Failure::new(Kind::Denied, code, server, cause, next),
            Error::Password { server, cause } => Failure::new(
                Kind::Denied,
                "postgres.password",
                server,
                cause,
                "set PGPASSWORD, or put the password into ~/.pgpass or the file that PGPASSFILE names (mode 0600)",
            ),
            Error::Server { object, error } => {
                let (kind, code, next) = of_sqlstate(&error.code, side);
                let next =
                    error.hint.as_ref().map_or(next.to_owned(), |hint| format!("{next}; the server says: {hint}"));
                Failure::new(kind, code, object, error.to_string(), next)
            }
            Error::Protocol { object, cause } => Failure::new(
                Kind::Internal,
                "postgres.protocol",
                object,
                cause,
                "check that this is a PostgreSQL server and not a pooler, then report this",
            ),
            Error::Tool { tool, cause, next } => Failure::new(Kind::Unavailable, "postgres.tool", tool, cause, next),
            Error::ToolFailed { tool, cause } => Failure::new(
                Kind::Unavailable,
                "postgres.tool-failed",
                tool,
                cause,
                "mend what it complains about, then start again",
            ),
            Error::Denied { object, cause, next } => {
                Failure::new(Kind::Denied, "postgres.permission", object, cause, next)
            }
            Error::Refused { code, object, cause, next } => Failure::new(Kind::Refused, code, object, cause, next),
            Error::Different { object, cause } => Failure::new(
                Kind::Corrupt,
                "postgres.different",
                object,
                cause,
                "don't use the target; run `seawall verify` on the vault, then restore again",
            ),
            Error::Io { path, cause } => Failure::new(
                Kind::Unavailable,
                "postgres.io",
                path,
                cause,
                "check the file, its permissions and the space",
            ),
            Error::Internal(cause) => {
                Failure::new(Kind::Internal, "postgres.internal", "seawall", cause, "report this: it is a defect")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_server_says_becomes_a_decision() {
        for (code, kind, expected) in [
            ("28P01", Kind::Denied, "postgres.login"),
            ("3D000", Kind::NotFound, "postgres.no-database"),
            ("42501", Kind::Denied, "postgres.permission"),
            ("53200", Kind::Unavailable, "postgres.locks"),
            ("53100", Kind::Unavailable, "postgres.disk-full"),
            ("53400", Kind::Unavailable, "postgres.resources"),
            ("57P01", Kind::Unavailable, "postgres.away"),
            ("23505", Kind::Refused, "postgres.constraint"),
            ("42P07", Kind::Refused, "postgres.refused"),
            ("XX001", Kind::Corrupt, "postgres.damaged"),
            ("", Kind::Refused, "postgres.refused"),
        ] {
            let error = ServerError { code: code.into(), message: "no".into(), detail: None, hint: None };
            let failure = Failure::from(Error::Server { object: "o".into(), error });
            assert_eq!((failure.kind, failure.code), (kind, expected), "{code}");
        }
    }

    #[test]
    fn what_mends_it_depends_on_the_side_and_names_what_stays() {
        let server = |code: &str| {
            let error = ServerError { code: code.into(), message: "no".into(), detail: None, hint: None };
            Error::Server { object: "o".into(), error }
        };
        for (error, begins) in [
            (server("42501"), "GRANT the role what"),
            (server("42501").during(Side::Backup), "GRANT pg_read_all_data"),
            (server("42501").during(Side::Restore), "restore as a superuser"),
            (server("42501").leaves("seawall-1").during(Side::Restore), "restore as a superuser"),
            (server("42883").during(Side::Backup), "see what the server says"),
            (server("42883").during(Side::Restore), "where a function finds this by search_path"),
        ] {
            assert!(error.sqlstate().is_some());
            let failure = Failure::from(error);
            assert!(failure.next.starts_with(begins), "{failure:?}");
        }
        let failure = Failure::from(server("42501").leaves("seawall-1").leaves("seawall-2").during(Side::Restore));
        let stays = "; what is restored so far stays in \"seawall-1\", \"seawall-2\" until the same command has done the \
                     rest, or until DROP DATABASE \"seawall-1\"; DROP DATABASE \"seawall-2\";";
        assert!(failure.next.ends_with(stays), "{}", failure.next);
    }
}
