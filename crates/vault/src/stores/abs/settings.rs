//! The settings of a place in Azure. URL queries and configuration keys both end here, so each setting has one name, one
//! reader and one default.

use crate::stores::cloud::limits::{concurrency, part_size};
use crate::text::{boolean, clean_path, kebab, unknown, wrong};
use crate::{Error, PlaceSettings, Secret, Tls};

/// Where a place in Azure is, its credentials, and its options. Names are Litestream's; `set` reads each of them from text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AbsSettings {
    /// The container.
    pub container: String,
    /// The prefix of all names, without `/` at its ends.
    pub path: String,
    /// What all names begin with instead of a path: any text, also none. So Lightning Stream names its objects.
    pub prefix: Option<String>,
    /// The storage account.
    pub account: Option<String>,
    /// The account's key.
    pub account_key: Option<Secret>,
    /// A file with the account's key, read again when it may have changed.
    pub account_key_file: Option<String>,
    /// A shared access signature.
    pub sas_token: Option<Secret>,
    /// The server with its scheme, for anything but Azure itself; the account's name may be its path.
    pub endpoint: Option<String>,
    /// A file with certificate authorities that are trusted beside the system's.
    pub ca_file: Option<String>,
    /// Take any certificate.
    pub skip_verify: bool,
    /// Trusted authorities and a client certificate.
    pub tls: Tls,
    /// Make the container if it isn't there.
    pub create_container: bool,
    /// Size of the parts of streamed uploads.
    pub part_size: Option<usize>,
    /// Parts of one streamed upload in flight.
    pub concurrency: Option<usize>,
}

/// All names that `set` takes.
pub(crate) const NAMES: &[&str] = &[
    "account-key",
    "account-key-file",
    "account-name",
    "bucket",
    "ca-file",
    "concurrency",
    "endpoint",
    "part-size",
    "path",
    "sas-token",
    "skip-verify",
];

impl PlaceSettings for AbsSettings {
    fn set(&mut self, name: &str, value: &str) -> Result<(), Error> {
        let name = kebab(name);
        if value.chars().any(char::is_control) {
            return Err(wrong(&name, "it holds a control character", "remove it"));
        }
        let text = || (!value.is_empty()).then(|| value.to_owned());
        let secret = || text().map(Secret::new);
        match name.as_str() {
            "bucket" => value.clone_into(&mut self.container),
            "path" => self.path = clean_path(value),
            "account-name" => self.account = text(),
            "account-key" => self.account_key = secret(),
            "account-key-file" => self.account_key_file = text(),
            // As portals show it: with the `?` of a query.
            "sas-token" => self.sas_token = text().map(|text| Secret::new(text.trim_start_matches('?'))),
            "endpoint" => self.endpoint = if value.is_empty() { None } else { Some(endpoint(value)?) },
            "ca-file" => self.ca_file = text(),
            "skip-verify" => self.skip_verify = boolean(&name, value)?,
            "part-size" => self.part_size = Some(part_size(value)?),
            "concurrency" => self.concurrency = Some(concurrency(value)?),
            _ => return Err(unknown("setting", &name, NAMES)),
        }
        Ok(())
    }

    fn is_set(&self, name: &str) -> bool {
        match name {
            "account-name" => self.account.is_some(),
            "ca-file" => self.ca_file.is_some(),
            "account-key" | "account-key-file" | "sas-token" => {
                self.account_key.is_some() || self.account_key_file.is_some() || self.sas_token.is_some()
            }
            "concurrency" => self.concurrency.is_some(),
            "endpoint" => self.endpoint.is_some(),
            "part-size" => self.part_size.is_some(),
            _ => false,
        }
    }

    fn path(&self) -> &str {
        &self.path
    }

    fn endpoint(&self) -> Option<&str> {
        self.endpoint.as_deref()
    }

    fn url(&self) -> String {
        let account = self.account.as_ref().map(|account| format!("{account}@")).unwrap_or_default();
        format!("abs://{account}{}/{}", self.container, self.prefix.as_ref().unwrap_or(&self.path))
    }

    /// Names are checked as the manual has them ("Naming and referencing containers, blobs, and metadata").
    fn check(&self) -> Result<(), Error> {
        let container = &self.container;
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let sound = container.chars().all(plain) && container.len() <= 63 && !container.contains("--");
        if !sound || container.is_empty() || container.starts_with('-') || container.ends_with('-') {
            let cause = if container.is_empty() { "there is no container" } else { "this is no container's name" };
            return Err(wrong(
                "container",
                cause,
                "write abs://ACCOUNT@CONTAINER/PATH, with small letters, digits and `-`",
            ));
        }
        let is_name = |text: &String| {
            !text.is_empty() && text.len() <= 63 && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
        };
        if self.account.as_ref().is_some_and(|account| !is_name(account)) {
            return Err(wrong("account-name", "this is no account's name", "use small letters and digits"));
        }
        if let Some(prefix) = &self.prefix {
            if prefix.starts_with('/') || prefix.contains("//") || prefix.trim_start() != prefix {
                let cause = "it begins with a slash or a space, or has two slashes in a row";
                return Err(wrong("prefix", cause, "use a prefix without"));
            }
        } else if self.path.is_empty() {
            return Err(wrong("path", "there is no path", "give a path: abs://ACCOUNT@CONTAINER/PATH"));
        }
        if self.path.len() > 500 || self.prefix.as_ref().is_some_and(|prefix| prefix.len() > 500) {
            return Err(wrong("path", "it is longer than 500 bytes", "use a shorter one"));
        }
        if self.account_key.is_some() && self.account_key_file.is_some() {
            return Err(wrong("account-key", "it is given twice", "give account-key or account-key-file"));
        }
        Ok(())
    }
}

/// Completes an endpoint; behind the server may stand the account's name.
fn endpoint(value: &str) -> Result<String, Error> {
    let (scheme, rest) = value.split_once("://").map_or(("", value), |(scheme, rest)| (scheme, rest));
    let (server, account) = rest.split_once('/').map_or((rest, ""), |(server, account)| (server, account));
    let server = if scheme.is_empty() { server.to_owned() } else { format!("{scheme}://{server}") };
    let server = crate::stores::cloud::endpoint::endpoint(&server)?;
    let account = account.trim_end_matches('/');
    if !account.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
        return Err(wrong(
            "endpoint",
            "its path is no account's name",
            "write https://HOST or http://HOST:PORT/ACCOUNT",
        ));
    }
    Ok(if account.is_empty() { server } else { format!("{server}/{account}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read() {
        for name in NAMES {
            let value = match *name {
                "part-size" => "6MiB",
                "concurrency" => "3",
                "endpoint" => "https://h",
                "skip-verify" => "true",
                _ => "x",
            };
            assert_eq!(AbsSettings::default().set(name, value), Ok(()), "{name}");
        }
        assert!(AbsSettings::default().set("acount-name", "x").is_err());
    }

    #[test]
    fn endpoints_may_have_an_account() {
        for (given, expected) in [
            ("http://127.0.0.1:10000/devstoreaccount1", Some("http://127.0.0.1:10000/devstoreaccount1")),
            ("127.0.0.1:10000/devstoreaccount1/", Some("http://127.0.0.1:10000/devstoreaccount1")),
            ("https://a.blob.core.windows.net", Some("https://a.blob.core.windows.net")),
            ("https://h/a/b", None),
            ("https://h/a?b", None),
            ("ftp://h", None),
        ] {
            assert_eq!(endpoint(given).ok().as_deref(), expected, "{given}");
        }
    }
}
