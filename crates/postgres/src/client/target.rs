//! The server, the database and the role: from `postgresql://…` and the environment that PostgreSQL's own tools read.

use std::fmt;
use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use seawall_vault::{Environment, Secret};

use super::encryption::{self, Roots, TlsMode};
use super::passfile;
use super::url::{parts, wrong};
use crate::Error;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// The folder of a Unix socket.
    Socket(PathBuf),
    /// A name or an address.
    Tcp(String),
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
    /// Where the certificates are that may sign the server's.
    pub(crate) roots: Roots,
    /// The file of the system's certificates, if one is named.
    pub(crate) system_certificates: Option<PathBuf>,
    /// The channel binding setting for PostgreSQL's own programs.
    pub(crate) channel_binding: Option<String>,
    /// Whether the password was in the URL, where shell histories and process lists show it.
    pub password_in_url: bool,
    /// `~/.pgpass`, or the file that `PGPASSFILE` names.
    password_file: Option<PathBuf>,
    /// Settings that PostgreSQL's own programs begin their sessions with.
    pub(crate) options: Vec<(String, String)>,
    /// The database of the original target. It exists even if `postgres` doesn't.
    pub(crate) named: String,
    /// The superuser beside a plain role, on a server that a proof started.
    pub(crate) keeper: Option<Login>,
    /// Whether the server's words stay in the log of this host: a proof started it.
    pub(crate) is_unspoken: bool,
}

/// A role and its password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Login {
    pub(crate) user: String,
    pub(crate) password: Secret,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Target").field(&self.to_string()).finish()
    }
}

/// The characters that must be escaped in a part of a URL.
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

impl Target {
    /// Whether `text` names a PostgreSQL server.
    pub fn is_url(text: &str) -> bool {
        text.starts_with("postgresql://") || text.starts_with("postgres://")
    }

    /// Reads a URL. Parts that it leaves out come from `PGHOST`, `PGPORT`, `PGUSER`, `PGPASSWORD`, `PGDATABASE`,
    /// `PGSSLMODE` and `PGSSLROOTCERT`, then from defaults. An unknown setting is refused, because the user may rely on
    /// it.
    pub fn parse(text: &str, environment: &Environment) -> Result<Self, Error> {
        let parts = parts(text)?;
        let given = |own: &Option<String>, variable: &str| {
            own.clone().filter(|text| !text.is_empty()).or_else(|| environment.get(variable).map(str::to_owned))
        };
        let host = given(&parts.host, "PGHOST").unwrap_or_else(|| passfile::SOCKETS.to_owned());
        if host.contains(',') {
            return Err(wrong("host", "several hosts are named", "name one: a backup is of one server"));
        }
        let host = if host.starts_with('/') { Host::Socket(host.into()) } else { Host::Tcp(host) };
        let port = given(&parts.port, "PGPORT").unwrap_or_else(|| "5432".to_owned());
        let port = port.parse().map_err(|_| wrong("port", "this is no port", "give a number up to 65535"))?;
        let user = given(&parts.user, "PGUSER").or_else(|| environment.get("USER").map(str::to_owned));
        let user = user.ok_or_else(|| wrong("user", "no role is named", "write postgresql://ROLE@HOST/DATABASE"))?;
        let database = given(&parts.database, "PGDATABASE").unwrap_or_default();
        let home = environment.get("HOME").map(Path::new);
        let roots = Roots::named(given(&parts.sslrootcert, "PGSSLROOTCERT").as_deref(), home);
        let tls = encryption::mode(given(&parts.sslmode, "PGSSLMODE").as_deref(), &roots)?;
        let channel_binding = given(&parts.channel_binding, "PGCHANNELBINDING");
        encryption::channel_binding(channel_binding.as_deref())?;
        nothing_is_ignored(environment)?;
        for (name, value) in [("user", &user), ("database", &database)] {
            if value.contains('\0') {
                return Err(wrong(name, "it holds a zero byte", "remove it"));
            }
        }
        Ok(Self {
            host,
            port,
            user,
            named: database.clone(),
            database,
            password_in_url: parts.password.is_some(),
            password: given(&parts.password, "PGPASSWORD").map(Secret::new),
            tls,
            roots,
            system_certificates: environment.get("SSL_CERT_FILE").map(PathBuf::from),
            channel_binding,
            password_file: environment.get("PGPASSFILE").map(PathBuf::from).or(home.map(|home| home.join(".pgpass"))),
            options: Vec::new(),
            keeper: None,
            is_unspoken: false,
        })
    }

    /// The same server and role, another database.
    #[must_use]
    pub fn with_database(&self, database: &str) -> Self {
        Self { database: database.to_owned(), ..self.clone() }
    }

    /// The same server and database, as the superuser beside a plain role; `None` if there is no such superuser.
    pub(crate) fn keeper(&self) -> Option<Self> {
        let Login { user, password } = self.keeper.clone()?;
        Some(Self { user, password: Some(password), keeper: None, ..self.clone() })
    }

    /// The roles of ours on a server of a proof's own.
    pub(crate) fn logins(&self) -> Vec<String> {
        let keeper = self.keeper.as_ref().map(|keeper| keeper.user.clone());
        keeper.into_iter().flat_map(|keeper| [keeper, self.user.clone()]).collect()
    }

    /// The same server and database, as who may make and remove databases there.
    pub(crate) fn for_databases(&self) -> Self {
        self.keeper().unwrap_or_else(|| self.clone())
    }

    /// The same, where sessions and PostgreSQL's own programs begin with these settings too.
    #[must_use]
    pub(crate) fn with_options(&self, options: Vec<(String, String)>) -> Self {
        Self { options: self.options.iter().cloned().chain(options).collect(), ..self.clone() }
    }

    /// Whether a password is known without reading a file.
    pub fn has_password(&self) -> bool {
        self.password.is_some()
    }

    /// The same, with another password file in the form of `.pgpass`.
    #[must_use]
    pub fn with_password_file(&self, file: PathBuf) -> Self {
        Self { password_file: Some(file), ..self.clone() }
    }

    /// Whether it is reached through a socket of this host.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self.host, Host::Socket(_))
    }

    /// The database if none is named: the role's own.
    pub(crate) fn database_or_own(&self) -> &str {
        if self.database.is_empty() { &self.user } else { &self.database }
    }

    /// The password, or why none is known.
    pub(crate) fn find_password(&self) -> Result<String, String> {
        if let Some(password) = &self.password {
            return Ok(password.reveal().to_owned());
        }
        let Some(file) = &self.password_file else {
            return Err("neither PGPASSWORD nor PGPASSFILE is set, nor HOME, where .pgpass would be".to_owned());
        };
        let host = match &self.host {
            Host::Socket(folder) => passfile::host_of_socket(folder),
            Host::Tcp(name) => name.clone(),
        };
        passfile::look(file, [&host, &self.port.to_string(), self.database_or_own(), &self.user])
    }
}

/// Refuses environment variables with demands that `psql` would meet and this client doesn't implement.
fn nothing_is_ignored(environment: &Environment) -> Result<(), Error> {
    // Without a value any is a demand.
    let demands = [
        ("PGSERVICE", None, "services aren't read: unset it, and name host, port, role and database in the URL"),
        ("PGHOSTADDR", None, "addresses beside names aren't known: unset it, and name one of them as the host"),
        ("PGREQUIREAUTH", None, "it isn't checked how a server has roles log in: unset it"),
        ("PGREQUIREPEER", None, "it isn't checked who owns a socket: unset it"),
        ("PGSSLCRL", None, "revocation lists aren't read: unset it"),
        ("PGSSLCRLDIR", None, "revocation lists aren't read: unset it"),
        ("PGGSSENCMODE", Some("require"), "GSSAPI isn't built: unset it, and give sslmode=verify-full"),
        ("PGREQUIRESSL", Some("1"), "unset it, and give sslmode=require"),
        ("PGSSLNEGOTIATION", Some("direct"), "TLS is asked for in PostgreSQL's own way: unset it"),
    ];
    let is_set = |name: &str, demand: Option<&str>| {
        environment.get(name).is_some_and(|value| demand.is_none_or(|demand| demand == value))
    };
    let ignored = demands.into_iter().find(|(name, demand, _)| is_set(name, *demand));
    ignored.map_or(Ok(()), |(name, _, next)| Err(wrong(name, "it is set, and can't be kept to", next)))
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
            "postgresql://u@h/d?sslmode=require&sslrootcert=system",
            "postgresql://u@h/d?channel_binding=require",
            "postgresql://u@h/d?channel_binding=sometimes",
            "postgresql://u@h/d?service=x",
            "postgresql://u@a,b/d",
            "postgresql://u@[::1/d",
            "postgresql://u@h/%ff",
            "postgresql://u@h/%00",
        ] {
            assert!(matches!(Target::parse(url, &none), Err(Error::Url { .. })), "{url}");
        }
    }

    #[test]
    fn what_the_environment_demands_and_is_not_built_is_refused() {
        for (name, value, refused) in [
            ("PGCHANNELBINDING", "require", true),
            ("PGCHANNELBINDING", "disable", false),
            ("PGSERVICE", "shop", true),
            ("PGHOSTADDR", "127.0.0.1", true),
            ("PGREQUIREAUTH", "scram-sha-256", true),
            ("PGREQUIREPEER", "postgres", true),
            ("PGSSLCRL", "/crl", true),
            ("PGSSLCRLDIR", "/crls", true),
            ("PGGSSENCMODE", "require", true),
            ("PGGSSENCMODE", "disable", false),
            ("PGREQUIRESSL", "1", true),
            ("PGSSLNEGOTIATION", "direct", true),
            ("PGSSLNEGOTIATION", "postgres", false),
        ] {
            let parsed = Target::parse("postgresql://u@h/d", &environment(&[(name, value)]));
            assert_eq!(matches!(parsed, Err(Error::Url { .. })), refused, "{name}={value}");
        }
    }
}
