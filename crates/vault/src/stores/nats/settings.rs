//! The settings of a place in an object store of NATS. URL queries and configuration keys both end here, so each setting has
//! one name, one reader and one default.

use std::time::Duration;

use crate::stores::cloud::endpoint::{host_of, is_near};
use crate::text::{boolean, clean_path, kebab, unknown, wrong};
use crate::{Error, PlaceSettings, Secret};

/// The longest wait for a connection that can be set.
const LONGEST: Duration = Duration::from_secs(300);

/// Where a place in NATS is, its credentials, and its options. Names are Litestream's.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NatsSettings {
    /// The server: `HOST` or `HOST:PORT`.
    pub server: String,
    /// The bucket of the object store.
    pub bucket: String,
    /// What all names begin with, without `/` at its ends; may be empty.
    pub path: String,
    /// How we prove who we are, and which servers are believed.
    pub access: Access,
}

/// What a connection needs besides the server. Places with equal access share a connection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Access {
    /// A user's JWT.
    pub jwt: Option<Secret>,
    /// The seed of the user's key, for a JWT or a public key.
    pub seed: Option<Secret>,
    /// A file with a JWT and its seed.
    pub creds: Option<String>,
    /// A user's key: its seed, or its public part beside `seed`.
    pub nkey: Option<Secret>,
    /// The user's name.
    pub username: Option<String>,
    /// The password.
    pub password: Option<Secret>,
    /// A token.
    pub token: Option<Secret>,
    /// Refuse a server without TLS.
    pub tls: bool,
    /// Files with certificate authorities that are believed in the place of the system's.
    pub root_cas: Vec<String>,
    /// A certificate of the client.
    pub client_cert: Option<String>,
    /// Its key.
    pub client_key: Option<String>,
    /// How long a connection may take.
    pub timeout: Option<Duration>,
    /// Send the password without TLS to a server outside of private networks.
    pub plain_password: bool,
}

/// All names that [`NatsSettings::set`] takes.
pub(crate) const NAMES: &[&str] = &[
    "bucket",
    "client-cert",
    "client-key",
    "creds",
    "jwt",
    "max-reconnects",
    "nkey",
    "password",
    "path",
    "plain-password",
    "reconnect-wait",
    "root-cas",
    "seed",
    "timeout",
    "tls",
    "token",
    "username",
];

impl PlaceSettings for NatsSettings {
    fn set(&mut self, name: &str, value: &str) -> Result<(), Error> {
        let name = kebab(name);
        // A JWT in a file of YAML may end with a line.
        let value = value.trim_end_matches(['\n', '\r']);
        if value.chars().any(char::is_control) {
            return Err(wrong(&name, "it holds a control character", "remove it"));
        }
        let text = || (!value.is_empty()).then(|| value.to_owned());
        let secret = || text().map(Secret::new);
        let access = &mut self.access;
        match name.as_str() {
            "bucket" => value.clone_into(&mut self.bucket),
            "path" => self.path = clean_path(value),
            "jwt" => access.jwt = secret(),
            "seed" => access.seed = secret(),
            "creds" => access.creds = text(),
            "nkey" => access.nkey = secret(),
            "username" => access.username = text(),
            "password" => access.password = secret(),
            "token" => access.token = secret(),
            "tls" => access.tls = boolean(&name, value)?,
            "root-cas" => {
                access.root_cas =
                    value.split(',').map(str::trim).filter(|file| !file.is_empty()).map(str::to_owned).collect();
            }
            "client-cert" => access.client_cert = text(),
            "client-key" => access.client_key = text(),
            "timeout" => access.timeout = Some(duration(&name, value)?),
            "plain-password" => access.plain_password = boolean(&name, value)?,
            // The vault's own retries reconnect; the values are checked and have no other effect.
            "max-reconnects" => drop(value.parse::<i64>().map_err(|_| wrong(&name, "this is no number", "write -1"))?),
            "reconnect-wait" => drop(duration(&name, value)?),
            _ => return Err(unknown("setting", &name, NAMES)),
        }
        Ok(())
    }

    fn is_set(&self, name: &str) -> bool {
        let access = &self.access;
        match name {
            "jwt" | "seed" | "creds" | "nkey" | "username" | "password" | "token" => access.has_proof(),
            "root-cas" => !access.root_cas.is_empty(),
            "client-cert" | "client-key" => access.client_cert.is_some() || access.client_key.is_some(),
            "timeout" => access.timeout.is_some(),
            "tls" => access.tls,
            "bucket" => true,
            _ => false,
        }
    }

    fn path(&self) -> &str {
        &self.path
    }

    fn url(&self) -> String {
        let path = if self.path.is_empty() { String::new() } else { format!("/{}", self.path) };
        format!("nats://{}/{}{path}", self.server, self.bucket)
    }

    fn check(&self) -> Result<(), Error> {
        let Self { access, .. } = self;
        if host_of(&self.server).is_empty() {
            return Err(wrong("server", "there is no server", "write nats://HOST/BUCKET"));
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if self.bucket.is_empty() || self.bucket.len() > 200 || !self.bucket.chars().all(plain) {
            let next = "write nats://HOST/BUCKET with letters, digits, `-` and `_`";
            return Err(wrong("bucket", "this is no bucket's name", next));
        }
        if self.path.len() > 500 {
            return Err(wrong("path", "it is longer than 500 bytes", "use a shorter one"));
        }
        if access.client_cert.is_some() != access.client_key.is_some() {
            return Err(wrong(
                "client-cert",
                "a certificate and its key belong together",
                "give client-cert and client-key",
            ));
        }
        if access.jwt.is_some() && access.seed.is_none() {
            return Err(wrong("jwt", "a JWT needs the seed of its key", "give jwt and seed, or creds"));
        }
        let ways = [
            access.jwt.is_some(),
            access.creds.is_some(),
            access.nkey.is_some(),
            access.username.is_some() || access.password.is_some(),
            access.token.is_some(),
        ];
        if ways.into_iter().filter(|given| *given).count() > 1 {
            return Err(wrong("credentials", "there are several", "give one of jwt, creds, nkey, username and token"));
        }
        Ok(())
    }
}

impl Access {
    /// Whether it says how we prove who we are.
    pub(super) fn has_proof(&self) -> bool {
        let texts = [&self.jwt, &self.seed, &self.nkey, &self.password, &self.token];
        texts.into_iter().any(Option::is_some) || self.creds.is_some() || self.username.is_some()
    }

    /// Checks that a secret is only sent where others can't read it: over TLS, or inside a private network. Keys and JWTs sign,
    /// and are never sent.
    pub(super) fn check_privacy(&self, server: &str) -> Result<(), Error> {
        let host = host_of(server);
        let open = !is_near(host) && !self.tls && self.root_cas.is_empty() && !self.plain_password;
        if open && (self.password.is_some() || self.token.is_some()) {
            let cause = "the password would be sent over the internet without encryption";
            let next = "set tls: true, or plain-password: true to send it all the same";
            return Err(wrong("password", cause, next));
        }
        Ok(())
    }
}

/// Reads `10s` or `500ms`.
fn duration(name: &str, value: &str) -> Result<Duration, Error> {
    let next = "write a time such as 10s";
    let found = seawall_core::parse_duration(value).ok_or_else(|| wrong(name, "this is no time", next))?;
    if found.is_zero() || found > LONGEST {
        return Err(wrong(name, "it is not between 1ms and 5m", next));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read() {
        for name in NAMES {
            let value = match *name {
                "tls" | "plain-password" => "true",
                "timeout" | "reconnect-wait" => "10s",
                "max-reconnects" => "-1",
                _ => "x",
            };
            assert_eq!(NatsSettings::default().set(name, value), Ok(()), "{name}");
        }
        assert!(NatsSettings::default().set("pasword", "x").is_err());
    }

    #[test]
    fn credentials_exclude_each_other() {
        for (given, sound) in [
            (&[("username", "u"), ("password", "p")][..], true),
            (&[("jwt", "j"), ("seed", "s")], true),
            (&[("nkey", "U"), ("seed", "s")], true),
            (&[("jwt", "j")], false),
            (&[("token", "t"), ("password", "p")], false),
            (&[("creds", "c"), ("token", "t")], false),
            (&[("client-cert", "c")], false),
        ] {
            let mut settings = NatsSettings { server: "h".into(), bucket: "b".into(), ..NatsSettings::default() };
            for (name, value) in given {
                settings.set(name, value).expect(name);
            }
            assert_eq!(settings.check().is_ok(), sound, "{given:?}");
        }
    }

    #[test]
    fn where_a_password_may_go() {
        for (server, setting, allowed) in [
            ("nats.example.com", None, false),
            ("nats.example.com:4222", Some("tls"), true),
            ("nats.example.com", Some("plain-password"), true),
            ("127.0.0.1:4222", None, true),
            ("10.0.0.7", None, true),
            ("nats", None, true),
        ] {
            let mut settings = NatsSettings::default();
            settings.set("password", "x").expect("a password");
            if let Some(name) = setting {
                settings.set(name, "true").expect(name);
            }
            assert_eq!(settings.access.check_privacy(server).is_ok(), allowed, "{server} {setting:?}");
        }
    }
}
