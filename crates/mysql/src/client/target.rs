//! The server, the database and the account: from `mysql://…`, option files and the environment.
//!
//! A part of the URL counts first, then the option files, then the environment, then a default, as with the vendors' own
//! programs.

use std::fmt;
use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use seawall_vault::{Environment, Secret};

use super::encryption::{self, TlsMode};
use super::url::{self, Parts, parts, wrong};
use super::{login_path, option_file, passfile};
use crate::Error;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// A Unix socket's file.
    Socket(PathBuf),
    /// A name or an address.
    Tcp(String),
}

/// Which public RSA key of the server a password may be encrypted with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeySource {
    /// None.
    None,
    /// Any that the server sends: `get-server-public-key`.
    Any,
    /// That of a file: `server-public-key-path`.
    File(PathBuf),
}

/// A database on a server, and who asks.
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    /// Where the server listens.
    pub host: Host,
    /// Its port. A socket has none.
    pub port: u16,
    /// The account's user.
    pub user: String,
    /// The database; "" is the whole server.
    pub database: String,
    /// How much of TLS.
    pub tls: TlsMode,
    /// Whether the password was in the URL, where shell histories and process lists show it.
    pub password_in_url: bool,
    password: Option<Secret>,
    password_file: Option<PathBuf>,
    /// The file of the certificates that may sign the server's.
    pub(super) authority: Option<PathBuf>,
    /// The file of the system's certificates, if one is named.
    pub(super) system_certificates: Option<PathBuf>,
    /// Our certificate and its key.
    pub(super) identity: Option<(PathBuf, PathBuf)>,
    pub(super) server_key: KeySource,
    /// Whether the server's words stay in the log of this host: a proof started it.
    pub(crate) is_unspoken: bool,
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
        let (user, database, port) = (escape(&self.user), escape(&self.database), self.port);
        match &self.host {
            Host::Socket(file) => {
                let file = utf8_percent_encode(&file.to_string_lossy(), const { &ESCAPED.remove(b'/') }).to_string();
                write!(f, "mysql://{user}@localhost/{database}?socket={file}")
            }
            Host::Tcp(name) if name.contains(':') => {
                let name = utf8_percent_encode(name, const { &ESCAPED.remove(b':') });
                write!(f, "mysql://{user}@[{name}]:{port}/{database}")
            }
            Host::Tcp(name) => write!(f, "mysql://{user}@{}:{port}/{database}", escape(name)),
        }
    }
}

/// The sockets of Debian's, Red Hat's and the vendors' packages.
const SOCKETS: [&str; 4] =
    ["/run/mysqld/mysqld.sock", "/var/run/mysqld/mysqld.sock", "/var/lib/mysql/mysql.sock", "/tmp/mysql.sock"];

impl Target {
    /// Whether `text` names a server of MySQL or MariaDB.
    pub fn is_url(text: &str) -> bool {
        url::is_url(text)
    }

    /// Reads a URL. Parts that it leaves out come from login paths (`~/.mylogin.cnf`: `client`, and the path of
    /// `login-path`), then from option files (`/etc/my.cnf`, `/etc/mysql/my.cnf`, `~/.my.cnf`, or only the file of
    /// `defaults-file`), from `MYSQL_HOST`, `MYSQL_TCP_PORT`, `MYSQL_UNIX_PORT`, `MYSQL_PWD` and
    /// `USER`, then from defaults. An unknown setting is refused, because the user may rely on it.
    pub fn parse(text: &str, environment: &Environment) -> Result<Self, Error> {
        let url = parts(text)?;
        let mut files = Parts::default();
        match &url.defaults_file {
            Some(file) => option_file::read(Path::new(file), &mut files, 0)?,
            None => option_file::read_usual(environment.get("HOME").map(Path::new), &mut files)?,
        }
        login_path::read(login_path::file(environment).as_deref(), url.login_path.as_deref(), &mut files)?;
        Self::from_parts(url, files, environment)
    }

    /// The same of parts that were read. Looks only whether sockets exist.
    pub(super) fn from_parts(url: Parts, files: Parts, environment: &Environment) -> Result<Self, Error> {
        let password_in_url = url.password.is_some();
        let variable = |name: &str| environment.get(name).map(str::to_owned);
        let has_own_port = url.port.is_some();
        // A host of the URL isn't reached through a socket of an option file.
        let (its_socket, its_port) = match url.host {
            Some(_) => (None, if url.socket.is_some() { None } else { files.port }),
            None => (files.socket, files.port),
        };
        let host = url.host.or(files.host).or(variable("MYSQL_HOST")).unwrap_or_else(|| "localhost".to_owned());
        let socket = url.socket.or(its_socket.filter(|_| host == "localhost"));
        let host = match socket {
            Some(socket) => Host::Socket(socket.into()),
            None if host.starts_with('/') => Host::Socket(host.into()),
            // The vendors' programs take the name for the socket as well.
            None if host == "localhost" && !has_own_port => Host::Socket(usual_socket(variable("MYSQL_UNIX_PORT"))),
            None => Host::Tcp(host),
        };
        if matches!(&host, Host::Tcp(name) if name.contains(',')) {
            return Err(wrong("host", "several hosts are named", "name one: a backup is of one server"));
        }
        let port = url.port.or(its_port).or(variable("MYSQL_TCP_PORT")).unwrap_or_else(|| "3306".to_owned());
        let port = port.parse().map_err(|_| wrong("port", "this is no port", "give a number up to 65535"))?;
        let user = url.user.or(files.user).or(variable("USER"));
        let user = user.ok_or_else(|| wrong("user", "no user is named", "write mysql://USER@HOST/DATABASE"))?;
        let database = url.database.or(files.database).unwrap_or_default();
        for (name, value) in [("user", &user), ("database", &database)] {
            if value.contains('\0') {
                return Err(wrong(name, "it holds a zero byte", "remove it"));
            }
        }
        let authority: Option<PathBuf> = url.ssl_ca.or(files.ssl_ca).filter(|file| !file.is_empty()).map(PathBuf::from);
        let tls = encryption::mode(url.ssl_mode.or(files.ssl_mode).as_deref(), authority.is_some())?;
        encryption::trust(tls, authority.as_ref())?;
        Ok(Self {
            host,
            port,
            user,
            database,
            tls,
            password_in_url,
            password: url.password.or(files.password).or(variable("MYSQL_PWD")).map(Secret::new),
            password_file: None,
            authority,
            system_certificates: variable("SSL_CERT_FILE").map(PathBuf::from),
            identity: identity(url.ssl_cert.or(files.ssl_cert), url.ssl_key.or(files.ssl_key))?,
            server_key: server_key(
                url.server_public_key_path.or(files.server_public_key_path),
                url.get_server_public_key.or(files.get_server_public_key),
            )?,
            is_unspoken: false,
        })
    }

    /// The same server and account, another database.
    #[must_use]
    pub fn with_database(&self, database: &str) -> Self {
        Self { database: database.to_owned(), ..self.clone() }
    }

    /// The same with a password file: its one line is the password, and counts before every other.
    #[must_use]
    pub fn with_password_file(&self, file: PathBuf) -> Self {
        Self { password_file: Some(file), ..self.clone() }
    }

    /// Whether a password is known without reading a file.
    pub fn has_password(&self) -> bool {
        self.password.is_some()
    }

    /// Whether it is reached through a socket of this host.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self.host, Host::Socket(_))
    }

    /// The password, if one is known; an error if the named file has none.
    pub(super) fn find_password(&self) -> Result<Option<String>, Error> {
        match (&self.password_file, &self.password) {
            (Some(file), _) => passfile::read(file).map(Some).map_err(|cause| Error::Password {
                server: self.to_string(),
                cause,
                next: "write the password, and nothing else, into the file (mode 0600)".to_owned(),
            }),
            (None, password) => Ok(password.as_ref().map(|password| password.reveal().to_owned())),
        }
    }

    /// Where a password would have been found.
    pub(super) fn where_passwords_are(&self) -> &'static str {
        "set it in ~/.my.cnf ([client], mode 0600), in a login path (mysql_config_editor), in a password file or in MYSQL_PWD"
    }
}

/// The socket where none is named.
#[expect(clippy::disallowed_methods, reason = "this module meets the file system")]
fn usual_socket(named: Option<String>) -> PathBuf {
    let there = SOCKETS.into_iter().find(|socket| std::fs::metadata(socket).is_ok());
    named.unwrap_or_else(|| there.unwrap_or(SOCKETS[0]).to_owned()).into()
}

/// Our certificate and its key: both or none.
fn identity(certificate: Option<String>, key: Option<String>) -> Result<Option<(PathBuf, PathBuf)>, Error> {
    let named = |file: Option<String>| file.filter(|file| !file.is_empty()).map(PathBuf::from);
    match (named(certificate), named(key)) {
        (Some(certificate), Some(key)) => Ok(Some((certificate, key))),
        (None, None) => Ok(None),
        _ => Err(wrong(
            "ssl-cert",
            "a certificate needs its key, and a key its certificate",
            "give ssl-cert and ssl-key",
        )),
    }
}

fn server_key(file: Option<String>, any: Option<String>) -> Result<KeySource, Error> {
    let any = match any.as_deref() {
        None | Some("0") => false,
        Some("1") => true,
        Some(_) => return Err(wrong("get-server-public-key", "this is no answer", "give 1 or 0")),
    };
    Ok(match file.filter(|file| !file.is_empty()) {
        Some(file) => KeySource::File(file.into()),
        None if any => KeySource::Any,
        None => KeySource::None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Environment {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn parsed(url: &str, files: Parts, variables: &[(&str, &str)]) -> Result<Target, Error> {
        Target::from_parts(parts(url)?, files, &environment(variables))
    }

    const ME: &[(&str, &str)] = &[("USER", "me"), ("MYSQL_UNIX_PORT", "/s")];

    #[test]
    fn urls_and_how_they_are_shown() {
        for (url, shown) in [
            ("mysql://app@db/shop", "mysql://app@db:3306/shop"),
            ("mariadb://app:secret@db:3307/shop", "mysql://app@db:3307/shop"),
            ("mysql://db", "mysql://me@db:3306/"),
            ("mysql://app@[::1]:3307/shop", "mysql://app@[::1]:3307/shop"),
            ("mysql://app@localhost/shop", "mysql://app@localhost/shop?socket=/s"),
            ("mysql://app@localhost:3306/shop", "mysql://app@localhost:3306/shop"),
            ("mysql://", "mysql://me@localhost/?socket=/s"),
            ("mysql://app@%2Frun%2Fdb.sock/shop", "mysql://app@localhost/shop?socket=/run/db.sock"),
            ("mysql://app@db/shop?socket=/a%20b&user=a%40b", "mysql://a%40b@localhost/shop?socket=/a%20b"),
            ("mysql:///my%20db?host=h&port=1", "mysql://me@h:1/my%20db"),
        ] {
            let target = parsed(url, Parts::default(), ME).expect(url);
            assert_eq!(target.to_string(), shown);
            assert_eq!(parsed(shown, Parts::default(), &[]).expect(shown).to_string(), shown, "it is a URL again");
            assert!(!format!("{target:?}").contains("secret"), "{target:?}");
        }
    }

    #[test]
    fn what_a_url_leaves_out_comes_from_files_then_the_environment() {
        let some = |text: &str| Some(text.to_owned());
        let files = || Parts {
            host: some("filehost"),
            port: some("2"),
            user: some("fileuser"),
            password: some("filepw"),
            ssl_ca: some("/ca"),
            ..Parts::default()
        };
        let all = [("MYSQL_HOST", "envhost"), ("MYSQL_TCP_PORT", "3"), ("USER", "me"), ("MYSQL_PWD", "envpw")];
        for (url, files, variables, shown, password, tls) in [
            ("mysql://", files(), &all[..], "mysql://fileuser@filehost:2/", Some("filepw"), TlsMode::VerifyCa),
            ("mysql://", Parts::default(), &all, "mysql://me@envhost:3/", Some("envpw"), TlsMode::Preferred),
            ("mysql://u:p@h:1/d?ssl-mode=REQUIRED", files(), &all, "mysql://u@h:1/d", Some("p"), TlsMode::Required),
            ("mysql://u:@h/d?ssl_mode=disabled", files(), &all, "mysql://u@h:2/d", Some(""), TlsMode::Disabled),
            ("mysql://u@h/d", Parts::default(), &[], "mysql://u@h:3306/d", None, TlsMode::Preferred),
            // The socket of a file is for whom no other host is named.
            (
                "mysql://u@h/d",
                Parts { socket: some("/f"), ..Parts::default() },
                &[],
                "mysql://u@h:3306/d",
                None,
                TlsMode::Preferred,
            ),
            (
                "mysql://u@/d",
                Parts { socket: some("/f"), ..Parts::default() },
                &[],
                "mysql://u@localhost/d?socket=/f",
                None,
                TlsMode::Preferred,
            ),
        ] {
            let target = parsed(url, files, variables).expect(url);
            assert_eq!((target.to_string().as_str(), target.tls), (shown, tls));
            assert_eq!(target.find_password().expect("no file").as_deref(), password, "{url}");
        }
        assert!(parsed("mysql://u:p@h/d", Parts::default(), &[]).expect("parsed").password_in_url);
    }

    #[test]
    fn what_is_refused() {
        for url in [
            "postgresql://u@h/d",
            "mysql://h/d",
            "mysql://u@h:port/d",
            "mysql://u@h:99999/d",
            "mysql://u@h/d?ssl-mode=maybe",
            "mysql://u@h/d?ssl-mode=VERIFY_CA",
            "mysql://u@h/d?ssl-cert=/c",
            "mysql://u@h/d?get-server-public-key=perhaps",
            "mysql://u@h/d?compress=1",
            "mysql://u@a,b/d",
            "mysql://u@[::1/d",
            "mysql://u@h/%ff",
            "mysql://u@h/%00",
        ] {
            assert!(matches!(parsed(url, Parts::default(), &[]), Err(Error::Url { .. })), "{url}");
        }
    }

    #[test]
    fn a_password_file_counts_first() {
        let target = parsed("mysql://u:p@h/d", Parts::default(), &[]).expect("parsed");
        let target = target.with_password_file("/nowhere/file".into());
        assert!(matches!(target.find_password(), Err(Error::Password { .. })));
        assert_eq!(target.with_database("e").to_string(), "mysql://u@h:3306/e");
    }
}
