//! What a user can say about a place on an SFTP server.

use russh::keys::PublicKey;

use super::path::Root;
use crate::place::PlaceSettings;
use crate::text::{boolean, kebab, unknown, wrong};
use crate::{Error, Secret};

/// The port of SSH.
pub(super) const PORT: u16 = 22;

/// The form of a URL.
pub(super) const EXAMPLE: &str = "write sftp://USER@HOST/PATH";

/// A folder on an SFTP server, and how to log in there. Debug output shows no secrets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SftpSettings {
    /// The server's name or address.
    pub host: String,
    /// Its port, where it isn't 22.
    pub port: Option<u16>,
    /// Who logs in.
    pub user: Option<String>,
    /// The folder on the server: an absolute path, or one from the folder in which a login begins.
    pub root: Root,
    /// The password.
    pub password: Option<Secret>,
    /// A file with the password.
    pub password_file: Option<String>,
    /// A file with a private key.
    pub key_path: Option<String>,
    /// The passphrase of that key.
    pub key_passphrase: Option<Secret>,
    /// A file with the passphrase of that key.
    pub key_passphrase_file: Option<String>,
    /// Whether an agent is asked, if one is there; it is unless this says no.
    pub agent: Option<bool>,
    /// The server's public key, as in `authorized_keys`.
    pub host_key: Option<String>,
    /// A file with the keys of servers, in the place of the user's and the system's.
    pub known_hosts: Option<String>,
    /// Whether several writes of one file are under way at once; they are unless this says no.
    pub concurrent_writes: Option<bool>,
}

/// All names that [`SftpSettings::set`] takes.
pub(crate) const NAMES: &[&str] = &[
    "agent",
    "concurrent-writes",
    "host",
    "host-key",
    "key-passphrase",
    "key-passphrase-file",
    "key-path",
    "known-hosts",
    "password",
    "password-file",
    "path",
    "user",
];

impl SftpSettings {
    /// The server as `known_hosts` names it.
    pub(super) fn server(&self) -> String {
        let host = self.host.to_lowercase();
        match self.port.unwrap_or(PORT) {
            PORT => host,
            port => format!("[{host}]:{port}"),
        }
    }

    /// The server and who logs in there, for people.
    pub(super) fn login(&self) -> String {
        let user = self.user.as_ref().map(|user| format!("{}@", encoded(user))).unwrap_or_default();
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let port = self.port.map(|port| format!(":{port}")).unwrap_or_default();
        format!("sftp://{user}{host}{port}")
    }
}

impl PlaceSettings for SftpSettings {
    fn set(&mut self, name: &str, value: &str) -> Result<(), Error> {
        let name = kebab(name);
        if value.trim_end().chars().any(char::is_control) {
            return Err(wrong(&name, "it holds a control character", "remove it"));
        }
        let text = || (!value.is_empty()).then(|| value.to_owned());
        let secret = || text().map(Secret::new);
        match name.as_str() {
            "host" => (self.host, self.port) = host(value)?,
            "user" => self.user = text(),
            "path" => self.root = Root::of_setting(value)?,
            "password" => self.password = secret(),
            "password-file" => self.password_file = text(),
            "key-path" => self.key_path = text(),
            "key-passphrase" => self.key_passphrase = secret(),
            "key-passphrase-file" => self.key_passphrase_file = text(),
            "agent" => self.agent = Some(boolean(&name, value)?),
            "host-key" => {
                let next = "write it as in the server's ssh_host_ed25519_key.pub: ssh-ed25519 AAAA…";
                PublicKey::from_openssh(value.trim()).map_err(|_| wrong(&name, "this is no public key", next))?;
                self.host_key = Some(value.trim().to_owned());
            }
            "known-hosts" => self.known_hosts = text(),
            "concurrent-writes" => self.concurrent_writes = Some(boolean(&name, value)?),
            _ => return Err(unknown("setting", &name, NAMES)),
        }
        Ok(())
    }

    fn is_set(&self, name: &str) -> bool {
        match name {
            "host" => !self.host.is_empty(),
            "user" => self.user.is_some(),
            "password" | "password-file" => self.password.is_some() || self.password_file.is_some(),
            "key-path" => self.key_path.is_some(),
            "key-passphrase" | "key-passphrase-file" => {
                self.key_passphrase.is_some() || self.key_passphrase_file.is_some()
            }
            "agent" => self.agent.is_some(),
            "host-key" | "known-hosts" => self.host_key.is_some() || self.known_hosts.is_some(),
            "concurrent-writes" => self.concurrent_writes.is_some(),
            _ => false,
        }
    }

    /// The user may still come from another place, so a missing one is found when the store is opened.
    fn check(&self) -> Result<(), Error> {
        if self.host.is_empty() {
            return Err(wrong("host", "there is no host", EXAMPLE));
        }
        self.root.check()?;
        for (one, other, names) in [
            (self.password.is_some(), self.password_file.is_some(), "password or password-file"),
            (
                self.key_passphrase.is_some(),
                self.key_passphrase_file.is_some(),
                "key-passphrase or key-passphrase-file",
            ),
            (self.host_key.is_some(), self.known_hosts.is_some(), "host-key or known-hosts"),
        ] {
            if one && other {
                return Err(wrong(names, "both are given", &format!("give {names}")));
            }
        }
        Ok(())
    }

    fn url(&self) -> String {
        format!("{}{}", self.login(), self.root.in_url())
    }

    /// Where it doesn't begin with `/`, it begins in the folder in which a login begins.
    fn path(&self) -> &str {
        self.root.path()
    }

    /// Objects are files below the path: their names begin with nothing.
    fn root(&self) -> String {
        String::new()
    }
}

/// A name as it stands in a URL.
fn encoded(name: &str) -> String {
    percent_encoding::utf8_percent_encode(name, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// Reads `HOST`, `HOST:PORT` and `[ADDRESS]:PORT`.
pub(super) fn host(text: &str) -> Result<(String, Option<u16>), Error> {
    let no = |cause: &str| wrong("host", cause, "write HOST or HOST:PORT");
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, "")) => (address, None),
        Some((address, port)) => (address, Some(port.strip_prefix(':').ok_or_else(|| no("its port can't be read"))?)),
        // An address of IPv6 without brackets has no port.
        None if text.matches(':').count() > 1 => (text, None),
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let port = match port {
        None | Some("") => None,
        Some(port) => Some(port.parse().ok().filter(|port| *port != 0).ok_or_else(|| no("its port is no number"))?),
    };
    let sound = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '%');
    if host.is_empty() || host.len() > 255 || host.starts_with('-') || !host.chars().all(sound) {
        return Err(no(if host.is_empty() { "there is no host" } else { "this is no host's name" }));
    }
    Ok((host.to_owned(), port.filter(|port| *port != PORT)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read() {
        for name in NAMES {
            let value = match *name {
                "agent" | "concurrent-writes" => "true",
                "host-key" => "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ",
                _ => "x",
            };
            assert_eq!(SftpSettings::default().set(name, value), Ok(()), "{name}");
        }
        for (name, value) in [("user", "a\nb"), ("pasword", "x"), ("host", ""), ("host-key", "x"), ("agent", "maybe")] {
            assert!(SftpSettings::default().set(name, value).is_err(), "{name}");
        }
    }

    #[test]
    fn hosts() {
        for (text, expected) in [
            ("h", Some(("h", None))),
            ("h:22", Some(("h", None))),
            ("h:2222", Some(("h", Some(2222)))),
            ("h:", Some(("h", None))),
            ("192.0.2.1:23", Some(("192.0.2.1", Some(23)))),
            ("::1", Some(("::1", None))),
            ("[::1]", Some(("::1", None))),
            ("[::1]:2222", Some(("::1", Some(2222)))),
            ("", None),
            (":1", None),
            ("h:0", None),
            ("h:99999", None),
            ("h:x", None),
            ("[::1]x", None),
            ("-oProxy", None),
            ("a b", None),
            ("a/b", None),
        ] {
            let found = host(text).ok();
            assert_eq!(found.as_ref().map(|(host, port)| (host.as_str(), *port)), expected, "{text}");
        }
    }

    #[test]
    fn settings_that_exclude_each_other() {
        for names in [["password", "password-file"], ["key-passphrase", "key-passphrase-file"]] {
            let mut settings = SftpSettings::default();
            for (name, value) in [("host", "h"), ("user", "u"), ("path", "/p")] {
                settings.set(name, value).expect("a setting");
            }
            assert_eq!(settings.check(), Ok(()));
            names.iter().for_each(|name| settings.set(name, "x").expect("a setting"));
            assert!(settings.check().is_err(), "{names:?}");
        }
    }
}
