//! The settings of a place on a WebDAV server. URL queries and configuration keys both end here, so each setting has one
//! name, one reader and one default.

use crate::stores::cloud::endpoint::{endpoint, host_of, is_near};
use crate::text::{boolean, clean_path, decode, kebab, unknown, wrong};
use crate::{Error, PlaceSettings, Secret};

/// Where a place on a WebDAV server is, its credentials, and its options.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WebdavSettings {
    /// The server with its scheme (`http` or `https`), without a path.
    pub server: String,
    /// The folder of all objects, without `/` at its ends.
    pub path: String,
    /// The user's name.
    pub username: Option<String>,
    /// The password.
    pub password: Option<Secret>,
    /// A bearer token in place of name and password.
    pub token: Option<Secret>,
    /// Take any certificate.
    pub skip_verify: bool,
    /// A file with certificate authorities that are trusted beside the system's.
    pub ca_file: Option<String>,
    /// Send the password without TLS to a server outside of private networks.
    pub plain_password: bool,
}

/// All names that [`WebdavSettings::set`] takes.
pub(crate) const NAMES: &[&str] =
    &["ca-file", "password", "path", "plain-password", "skip-verify", "token", "url", "username"];

impl PlaceSettings for WebdavSettings {
    fn set(&mut self, name: &str, value: &str) -> Result<(), Error> {
        let name = kebab(name);
        if value.chars().any(char::is_control) {
            return Err(wrong(&name, "it holds a control character", "remove it"));
        }
        let text = || (!value.is_empty()).then(|| value.to_owned());
        match name.as_str() {
            "url" if value.is_empty() => {}
            "url" => self.check_url(value)?,
            "path" => self.path = clean_path(value),
            "username" => self.username = text(),
            "password" => self.password = text().map(Secret::new),
            "token" => self.token = text().map(Secret::new),
            "ca-file" => self.ca_file = text(),
            "skip-verify" => self.skip_verify = boolean(&name, value)?,
            "plain-password" => self.plain_password = boolean(&name, value)?,
            _ => return Err(unknown("setting", &name, NAMES)),
        }
        Ok(())
    }

    fn is_set(&self, name: &str) -> bool {
        match name {
            "username" | "password" | "token" => {
                self.username.is_some() || self.password.is_some() || self.token.is_some()
            }
            "ca-file" => self.ca_file.is_some(),
            "url" => true,
            _ => false,
        }
    }

    fn path(&self) -> &str {
        &self.path
    }

    fn url(&self) -> String {
        let (scheme, host) = self.server.split_once("://").unwrap_or(("http", &self.server));
        let scheme = if scheme == "https" { "webdavs" } else { "webdav" };
        format!("{scheme}://{host}/{}", self.path)
    }

    fn check(&self) -> Result<(), Error> {
        if self.server.is_empty() {
            return Err(wrong("url", "there is no server", "write webdavs://HOST/PATH"));
        }
        if self.path.is_empty() {
            return Err(wrong("path", "there is no path", "give a path: webdavs://HOST/PATH"));
        }
        if self.path.contains(['?', ';']) {
            return Err(wrong("path", "some WebDAV servers cut paths off at `?` and `;`", "use a path without"));
        }
        if self.path.len() > 500 {
            return Err(wrong("path", "it is longer than 500 bytes", "use a shorter one"));
        }
        if self.token.is_some() && (self.username.is_some() || self.password.is_some()) {
            return Err(wrong("token", "a token and a password are given", "give one of them"));
        }
        if self.username.as_ref().is_some_and(|name| name.contains(':')) {
            return Err(wrong("username", "it holds a colon, which ends a name in HTTP", "use another user"));
        }
        Ok(())
    }
}

impl WebdavSettings {
    /// Checks a server as Litestream's `webdav-url` has it: the place's URL was made of it, or stands beside it.
    fn check_url(&self, value: &str) -> Result<(), Error> {
        let (named, _) = split(value)?;
        if named == self.server {
            return Ok(());
        }
        Err(wrong("webdav-url", "the replica's URL names another server", "give url, or webdav-url and path"))
    }

    /// Checks that a secret is only sent where others can't read it: over TLS, or inside a private network.
    pub(super) fn check_privacy(&self, has_secret: bool) -> Result<(), Error> {
        let open = self.server.starts_with("http://") && !is_near(host_of(&self.server));
        if has_secret && open && !self.plain_password {
            let cause = "the password would be sent over the internet without encryption";
            return Err(wrong(
                "password",
                cause,
                "write webdavs://…, or set plain-password: true to send it all the same",
            ));
        }
        Ok(())
    }
}

/// The server and the folder of an address as Litestream's `webdav-url` has it.
fn split(value: &str) -> Result<(String, String), Error> {
    let next = "write https://HOST or https://HOST:PORT/FOLDER";
    let Some((scheme, rest)) = value.split_once("://") else {
        return Err(wrong("webdav-url", "it has no scheme", next));
    };
    if rest.contains(['?', '#', '@']) {
        return Err(wrong("webdav-url", "it is more than a server and a folder", next));
    }
    let (host, folder) = rest.split_once('/').unwrap_or((rest, ""));
    Ok((server(scheme, host)?, decode(folder, "webdav-url")?))
}

/// A server's address from the scheme of a URL.
pub(super) fn server(scheme: &str, host: &str) -> Result<String, Error> {
    let scheme = match scheme {
        "webdav" | "http" => "http",
        "webdavs" | "https" => "https",
        _ => return Err(wrong("url", "its scheme is neither http nor https", "write https://HOST")),
    };
    if host.is_empty() {
        return Err(wrong("url", "there is no server", "write webdavs://HOST/PATH"));
    }
    endpoint(&format!("{scheme}://{host}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read() {
        for name in NAMES {
            let value = match *name {
                "url" => "http://h/x",
                "skip-verify" | "plain-password" => "true",
                _ => "x",
            };
            let mut settings = WebdavSettings { server: "http://h".into(), ..WebdavSettings::default() };
            assert_eq!(settings.set(name, value), Ok(()), "{name}");
        }
        assert!(WebdavSettings::default().set("pasword", "x").is_err());
    }

    #[test]
    fn a_server_of_another_setting_is_the_same() {
        for (url, taken) in [
            ("http://h:81/a%20b/", true),
            ("http://h:81", true),
            ("http://h", false),
            ("https://h:81", false),
            ("h:81/a", false),
            ("ftp://h:81", false),
            ("http://u@h:81", false),
            ("http://h:81/a?b", false),
        ] {
            let mut settings = WebdavSettings { server: "http://h:81".into(), ..WebdavSettings::default() };
            assert_eq!(settings.set("url", url).is_ok(), taken, "{url}");
        }
    }

    #[test]
    fn where_a_password_may_go() {
        for (server, plain, allowed) in [
            ("https://nas.example.com", false, true),
            ("http://nas.example.com", false, false),
            ("http://nas.example.com", true, true),
            ("http://203.0.113.7:81", false, false),
            ("http://[2001:db8::1]:81", false, false),
            ("http://127.0.0.1:81", false, true),
            ("http://[::1]:81", false, true),
            ("http://192.168.1.2", false, true),
            ("http://nas", false, true),
            ("http://nas.local", false, true),
        ] {
            let settings = WebdavSettings { server: server.into(), plain_password: plain, ..WebdavSettings::default() };
            assert_eq!(settings.check_privacy(true).is_ok(), allowed, "{server}");
            assert_eq!(settings.check_privacy(false), Ok(()), "{server}");
        }
    }
}
