//! Which server, which database, as whom: `postgresql://…` and the environment that PostgreSQL's own tools read.

use std::fmt;
use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use seawall_vault::{Environment, Secret};

use crate::Error;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// The folder of a Unix socket.
    Socket(PathBuf),
    /// A name or an address.
    Tcp(String),
}

/// How much of TLS is asked for, in the words of `sslmode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TlsMode {
    /// None.
    Disable,
    /// If the server has it, whatever its certificate; else without.
    #[default]
    Prefer,
    /// Encrypted, whatever the certificate.
    Require,
    /// The certificate's chain is checked.
    VerifyCa,
    /// The certificate's chain and name are checked.
    VerifyFull,
}

impl TlsMode {
    const ALL: [(&'static str, Self); 5] = [
        ("disable", Self::Disable),
        ("prefer", Self::Prefer),
        ("require", Self::Require),
        ("verify-ca", Self::VerifyCa),
        ("verify-full", Self::VerifyFull),
    ];

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(name, _)| *name == text).map(|(_, mode)| mode)
    }

    /// As `sslmode` spells it.
    pub fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(_, mode)| *mode == self).map_or("prefer", |(name, _)| name)
    }
}

/// A database on a server, and who asks.
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    /// Where the server listens.
    pub host: Host,
    /// Its port, which is part of a socket's name too.
    pub port: u16,
    /// The role.
    pub user: String,
    /// The database.
    pub database: String,
    /// The role's password, if any is known.
    pub(crate) password: Option<Secret>,
    /// How much of TLS.
    pub tls: TlsMode,
    /// The certificates that sign the server's, instead of the system's.
    pub root_certificates: Option<PathBuf>,
    /// Whether the password stood in the URL, where shell histories and process lists show it.
    pub password_in_url: bool,
    /// `~/.pgpass` or what `PGPASSFILE` names.
    password_file: Option<PathBuf>,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Target").field(&self.to_string()).finish()
    }
}

/// What must be escaped in a part of a URL.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

fn escape(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

impl fmt::Display for Target {
    /// The URL without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = match &self.host {
            Host::Socket(folder) => escape(&folder.display().to_string()),
            Host::Tcp(name) if name.contains(':') => {
                format!("[{}]", utf8_percent_encode(name, const { &ESCAPED.remove(b':') }))
            }
            Host::Tcp(name) => escape(name),
        };
        write!(f, "postgresql://{}@{host}:{}/{}", escape(&self.user), self.port, escape(&self.database))
    }
}

/// What a URL says, before the environment fills the rest.
#[derive(Default)]
struct Parts {
    host: Option<String>,
    port: Option<String>,
    user: Option<String>,
    password: Option<String>,
    database: Option<String>,
    sslmode: Option<String>,
    sslrootcert: Option<String>,
}

impl Target {
    /// Whether `text` names a PostgreSQL server.
    pub fn is_url(text: &str) -> bool {
        text.starts_with("postgresql://") || text.starts_with("postgres://")
    }

    /// Reads a URL; what it leaves out comes from `PGHOST`, `PGPORT`, `PGUSER`, `PGPASSWORD`, `PGDATABASE`, `PGSSLMODE`
    /// and `PGSSLROOTCERT`, then from defaults. An unknown setting is refused: it might have been meant.
    pub fn parse(text: &str, environment: &Environment) -> Result<Self, Error> {
        let parts = parts(text)?;
        let given = |own: &Option<String>, variable: &str| {
            own.clone().filter(|text| !text.is_empty()).or_else(|| environment.get(variable).map(str::to_owned))
        };
        let host = given(&parts.host, "PGHOST").unwrap_or_else(|| "/var/run/postgresql".to_owned());
        if host.contains(',') {
            return Err(wrong("host", "several hosts are named", "name one: a backup is of one server"));
        }
        let host = if host.starts_with('/') { Host::Socket(host.into()) } else { Host::Tcp(host) };
        let port = given(&parts.port, "PGPORT").unwrap_or_else(|| "5432".to_owned());
        let port = port.parse().map_err(|_| wrong("port", "this is no port", "give a number up to 65535"))?;
        let user = given(&parts.user, "PGUSER").or_else(|| environment.get("USER").map(str::to_owned));
        let user = user.ok_or_else(|| wrong("user", "no role is named", "write postgresql://ROLE@HOST/DATABASE"))?;
        let database = given(&parts.database, "PGDATABASE").unwrap_or_default();
        let tls = match given(&parts.sslmode, "PGSSLMODE") {
            None => TlsMode::default(),
            Some(mode) => TlsMode::parse(&mode).ok_or_else(|| {
                wrong("sslmode", "there is no such mode", "give disable, prefer, require, verify-ca or verify-full")
            })?,
        };
        let root_certificates = given(&parts.sslrootcert, "PGSSLROOTCERT").filter(|file| file != "system");
        let home = environment.get("HOME").map(|home| Path::new(home).join(".pgpass"));
        for (name, value) in [("user", &user), ("database", &database)] {
            if value.contains('\0') {
                return Err(wrong(name, "it holds a zero byte", "remove it"));
            }
        }
        Ok(Self {
            host,
            port,
            user,
            database,
            password_in_url: parts.password.is_some(),
            password: given(&parts.password, "PGPASSWORD").map(Secret::new),
            tls,
            root_certificates: root_certificates.map(PathBuf::from),
            password_file: environment.get("PGPASSFILE").map(PathBuf::from).or(home),
        })
    }

    /// The same server and role, another database.
    #[must_use]
    pub fn with_database(&self, database: &str) -> Self {
        Self { database: database.to_owned(), ..self.clone() }
    }

    /// Whether a password is known without looking into a file.
    pub fn has_password(&self) -> bool {
        self.password.is_some()
    }

    /// The same, with another file to look for a password in, in the form of `.pgpass`.
    #[must_use]
    pub fn with_password_file(&self, file: PathBuf) -> Self {
        Self { password_file: Some(file), ..self.clone() }
    }

    /// The file to look for a password in, when none is known.
    pub(crate) fn password_file(&self) -> Option<&Path> {
        self.password_file.as_deref().filter(|_| self.password.is_none())
    }

    /// What PostgreSQL's own tools are told, by their environment: arguments can be seen by every user (I13).
    pub(crate) fn child_environment(&self) -> Vec<(&'static str, String)> {
        let host = match &self.host {
            Host::Socket(folder) => folder.display().to_string(),
            Host::Tcp(name) => name.clone(),
        };
        let mut variables = vec![
            ("PGHOST", host),
            ("PGPORT", self.port.to_string()),
            ("PGUSER", self.user.clone()),
            ("PGDATABASE", self.database.clone()),
            ("PGSSLMODE", self.tls.name().to_owned()),
            ("PGAPPNAME", "seawall".to_owned()),
            ("PGCONNECT_TIMEOUT", "30".to_owned()),
        ];
        if let Some(password) = &self.password {
            variables.push(("PGPASSWORD", password.reveal().to_owned()));
        }
        if let Some(file) = &self.root_certificates {
            variables.push(("PGSSLROOTCERT", file.display().to_string()));
        }
        if let Some(file) = &self.password_file {
            variables.push(("PGPASSFILE", file.display().to_string()));
        }
        variables
    }
}

fn wrong(object: &str, cause: &str, next: &str) -> Error {
    Error::Url { object: object.to_owned(), cause: cause.to_owned(), next: next.to_owned() }
}

fn decode(text: &str) -> Result<String, Error> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded
        .map(std::borrow::Cow::into_owned)
        .map_err(|_| wrong("URL", "it holds bytes that are no text", "check what stands behind `%`"))
}

fn parts(text: &str) -> Result<Parts, Error> {
    let next = "write postgresql://ROLE@HOST:PORT/DATABASE";
    let rest = text.strip_prefix("postgresql://").or_else(|| text.strip_prefix("postgres://"));
    let rest = rest.ok_or_else(|| wrong("URL", "it names no PostgreSQL server", next))?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
    let (user, place) = authority.rsplit_once('@').map_or((None, authority), |(user, place)| (Some(user), place));
    let (host, port) = match place.strip_prefix('[') {
        Some(v6) => {
            let (host, rest) = v6.split_once(']').ok_or_else(|| wrong("host", "a bracket isn't closed", next))?;
            (host, rest.strip_prefix(':').unwrap_or(""))
        }
        None => place.split_once(':').unwrap_or((place, "")),
    };
    let mut parts = Parts {
        host: Some(decode(host)?),
        port: Some(port.to_owned()),
        database: Some(decode(database)?),
        ..Parts::default()
    };
    if let Some(user) = user {
        let (user, password) = user.split_once(':').map_or((user, None), |(user, password)| (user, Some(password)));
        parts.user = Some(decode(user)?);
        parts.password = password.map(decode).transpose()?;
    }
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let place = match &*name {
            "host" => &mut parts.host,
            "port" => &mut parts.port,
            "user" => &mut parts.user,
            "password" => &mut parts.password,
            "dbname" => &mut parts.database,
            "sslmode" => &mut parts.sslmode,
            "sslrootcert" => &mut parts.sslrootcert,
            _ => {
                let known = "known are host, port, user, password, dbname, sslmode and sslrootcert";
                return Err(wrong(&name.escape_debug().to_string(), "there is no such setting", known));
            }
        };
        *place = Some(value.into_owned());
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Environment {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn urls_and_how_they_are_shown() {
        let none = environment(&[("USER", "me")]);
        for (url, shown) in [
            ("postgresql://app@db/shop", "postgresql://app@db:5432/shop"),
            ("postgres://app:secret@db:6432/shop", "postgresql://app@db:6432/shop"),
            ("postgresql://db", "postgresql://me@db:5432/"),
            ("postgresql://app@[::1]:5433/shop", "postgresql://app@[::1]:5433/shop"),
            ("postgresql://app@%2Frun%2Fpg/shop", "postgresql://app@%2Frun%2Fpg:5432/shop"),
            ("postgresql:///shop?host=/run/pg&user=a%40b", "postgresql://a%40b@%2Frun%2Fpg:5432/shop"),
            ("postgresql:///my%20db", "postgresql://me@%2Fvar%2Frun%2Fpostgresql:5432/my%20db"),
        ] {
            let target = Target::parse(url, &none).expect(url);
            assert_eq!(target.to_string(), shown);
            assert_eq!(Target::parse(shown, &none).expect(shown).to_string(), shown, "it is a URL again");
            assert!(!format!("{target:?}").contains("secret"), "{target:?}");
        }
    }

    #[test]
    fn what_a_url_leaves_out_comes_from_the_environment() {
        let all = environment(&[
            ("PGHOST", "db"),
            ("PGPORT", "1"),
            ("PGUSER", "u"),
            ("PGDATABASE", "d"),
            ("PGPASSWORD", "p"),
            ("PGSSLMODE", "verify-full"),
        ]);
        let target = Target::parse("postgresql://", &all).expect("parsed");
        assert_eq!((target.to_string().as_str(), target.tls), ("postgresql://u@db:1/d", TlsMode::VerifyFull));
        assert!(target.password.is_some() && !target.password_in_url);
        let target = Target::parse("postgresql://x:y@h:2/e?sslmode=disable", &all).expect("parsed");
        assert_eq!((target.to_string().as_str(), target.tls), ("postgresql://x@h:2/e", TlsMode::Disable));
        assert!(target.password_in_url);
    }

    #[test]
    fn what_is_refused() {
        let none = environment(&[]);
        for url in [
            "mysql://u@h/d",
            "postgresql://h/d",
            "postgresql://u@h:port/d",
            "postgresql://u@h:99999/d",
            "postgresql://u@h/d?sslmode=maybe",
            "postgresql://u@h/d?service=x",
            "postgresql://u@a,b/d",
            "postgresql://u@[::1/d",
            "postgresql://u@h/%ff",
            "postgresql://u@h/%00",
        ] {
            assert!(matches!(Target::parse(url, &none), Err(Error::Url { .. })), "{url}");
        }
    }
}
