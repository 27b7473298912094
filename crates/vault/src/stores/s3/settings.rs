//! The settings of an S3 place. URL queries and configuration keys both end here, so each setting has one name, one
//! reader and one default.

use std::time::Duration;

use seawall_core::{Moment, parse_duration};

use crate::stores::cloud::endpoint::{endpoint, host_of, is_private};
use crate::stores::cloud::limits::{concurrency, part_size};
use crate::text::{boolean, clean_path, kebab, unknown, wrong};
use crate::{Error, PlaceSettings, Secret, Tls};

/// Where an S3 place is, its credentials, and its options. Names are Litestream's; `set` reads each of them from text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct S3Settings {
    /// The bucket.
    pub bucket: String,
    /// The prefix of all keys, without `/` at its ends.
    pub path: String,
    /// What all keys begin with instead of a path: any text, also none. So Lightning Stream names its objects.
    pub prefix: Option<String>,
    /// The region; found out when it is missing and there is no endpoint.
    pub region: Option<String>,
    /// The server with its scheme, for anything but AWS itself.
    pub endpoint: Option<String>,
    /// Key id of static credentials.
    pub access_key_id: Option<Secret>,
    /// Key of static credentials.
    pub secret_access_key: Option<Secret>,
    /// Token of temporary credentials.
    pub session_token: Option<Secret>,
    /// A file with the key id, read again when it may have changed.
    pub access_key_id_file: Option<String>,
    /// A file with the key, read again when it may have changed.
    pub secret_access_key_file: Option<String>,
    /// A profile of the usual AWS files.
    pub profile: Option<String>,
    /// Bucket in the path (`true`) or in the host name.
    pub force_path_style: Option<bool>,
    /// A file with certificate authorities that are trusted beside the system's.
    pub ca_file: Option<String>,
    /// Take any certificate.
    pub skip_verify: bool,
    /// Trusted authorities and a client certificate.
    pub tls: Tls,
    /// Make the bucket if it isn't there.
    pub create_bucket: bool,
    /// Send checksums of objects and parts, or none, whatever the provider is known to take.
    pub checksums: Option<bool>,
    /// The storage class of new objects.
    pub storage_class: Option<String>,
    /// How long the objects that the newest point needs stay locked from now on, at least.
    pub object_lock_keep: Option<Duration>,
    /// Size of the parts of streamed uploads.
    pub part_size: Option<usize>,
    /// Parts of one streamed upload in flight.
    pub concurrency: Option<usize>,
    /// Encryption with the customer's key: the algorithm, `AES256`.
    pub sse_customer_algorithm: Option<String>,
    /// The customer's key, base64.
    pub sse_customer_key: Option<Secret>,
    /// A file with the customer's key.
    pub sse_customer_key_path: Option<String>,
    /// Encryption with this key of AWS KMS.
    pub sse_kms_key_id: Option<String>,
    /// Show the place, read only, as it was stored at this moment. No text sets it; see [`crate::VaultUrl::as_stored_at`].
    pub as_stored_at: Option<Moment>,
}

/// The unit of Object Lock.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// A renewed lock lasts an eighth longer than the setting asks, and S3's own bound is a hundred years.
const LONGEST_LOCK: Duration = Duration::from_secs(32_000 * 24 * 3600);

/// All names that `set` takes.
pub(crate) const NAMES: &[&str] = &[
    "access-key-id",
    "access-key-id-file",
    "bucket",
    "ca-file",
    "checksums",
    "concurrency",
    "endpoint",
    "force-path-style",
    "object-lock-keep",
    "part-size",
    "path",
    "profile",
    "put-object-content-md5",
    "region",
    "require-content-md5",
    "secret-access-key",
    "secret-access-key-file",
    "session-token",
    "sign-accept-encoding",
    "sign-payload",
    "skip-verify",
    "sse-customer-algorithm",
    "sse-customer-key",
    "sse-customer-key-md5",
    "sse-customer-key-path",
    "sse-kms-key-id",
    "storage-class",
];

impl PlaceSettings for S3Settings {
    /// `put-object-content-md5: true` asks for checksums, unless `checksums` decided before. `sign-payload`, `sign-accept-encoding`,
    /// `require-content-md5` and `sse-customer-key-md5` are checked and change nothing: payloads are covered by TLS instead of the signature, `Accept-Encoding` is not sent, batch deletes
    /// always carry an MD5, and the key's MD5 is computed.
    fn set(&mut self, name: &str, value: &str) -> Result<(), Error> {
        let name = kebab(name);
        if value.chars().any(char::is_control) {
            return Err(wrong(&name, "it holds a control character", "remove it"));
        }
        let text = || (!value.is_empty()).then(|| value.to_owned());
        let secret = || text().map(Secret::new);
        match name.as_str() {
            "bucket" => value.clone_into(&mut self.bucket),
            "path" => self.path = clean_path(value),
            "region" => self.region = text(),
            "endpoint" => self.endpoint = if value.is_empty() { None } else { Some(server(value)?) },
            "access-key-id" => self.access_key_id = secret(),
            "secret-access-key" => self.secret_access_key = secret(),
            "session-token" => self.session_token = secret(),
            "access-key-id-file" => self.access_key_id_file = text(),
            "secret-access-key-file" => self.secret_access_key_file = text(),
            "profile" => self.profile = text(),
            "force-path-style" => self.force_path_style = Some(boolean(&name, value)?),
            "ca-file" => self.ca_file = text(),
            "skip-verify" => self.skip_verify = boolean(&name, value)?,
            "checksums" => self.checksums = Some(boolean(&name, value)?),
            // A CRC-32C does what the MD5 does that this setting asks for.
            "put-object-content-md5" => {
                if boolean(&name, value)? {
                    self.checksums.get_or_insert(true);
                }
            }
            "require-content-md5" => drop(boolean(&name, value)?),
            "sign-payload" | "sign-accept-encoding" => drop(boolean(&name, value)?),
            "storage-class" => self.storage_class = text(),
            "object-lock-keep" => self.object_lock_keep = Some(lock_span(value)?),
            "part-size" => self.part_size = Some(part_size(value)?),
            "concurrency" => self.concurrency = Some(concurrency(value)?),
            "sse-customer-algorithm" => self.sse_customer_algorithm = text(),
            "sse-customer-key" => self.sse_customer_key = secret(),
            "sse-customer-key-md5" => {}
            "sse-customer-key-path" => self.sse_customer_key_path = text(),
            "sse-kms-key-id" => self.sse_kms_key_id = text(),
            _ => return Err(unknown("setting", &name, NAMES)),
        }
        Ok(())
    }

    fn is_set(&self, name: &str) -> bool {
        match name {
            "access-key-id"
            | "access-key-id-file"
            | "secret-access-key"
            | "secret-access-key-file"
            | "session-token"
            | "profile" => self.access_key_id.is_some() || self.access_key_id_file.is_some() || self.profile.is_some(),
            "ca-file" => self.ca_file.is_some(),
            "checksums" => self.checksums.is_some(),
            "concurrency" => self.concurrency.is_some(),
            "endpoint" => self.endpoint.is_some(),
            "force-path-style" => self.force_path_style.is_some(),
            "object-lock-keep" => self.object_lock_keep.is_some(),
            "part-size" => self.part_size.is_some(),
            "region" => self.region.is_some(),
            "sse-customer-algorithm" => self.sse_customer_algorithm.is_some(),
            "sse-customer-key" | "sse-customer-key-path" => {
                self.sse_customer_key.is_some() || self.sse_customer_key_path.is_some()
            }
            "sse-kms-key-id" => self.sse_kms_key_id.is_some(),
            "storage-class" => self.storage_class.is_some(),
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
        format!("s3://{}/{}", self.bucket, self.prefix.as_ref().unwrap_or(&self.path))
    }

    fn check(&self) -> Result<(), Error> {
        let bucket = &self.bucket;
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if bucket.is_empty() {
            return Err(wrong("bucket", "there is no bucket", "write s3://BUCKET/PATH"));
        }
        if !bucket.chars().all(plain) || bucket.len() > 255 || bucket.starts_with('.') || bucket.ends_with('.') {
            return Err(wrong("bucket", "this is no bucket's name", "use letters, digits, `-`, `_` and `.`"));
        }
        if let Some(prefix) = &self.prefix {
            // Combinations that would write something else than the user means.
            if prefix.starts_with('/') || prefix.contains("//") || prefix.trim_start() != prefix {
                let cause = "it begins with a slash or a space, or has two slashes in a row";
                return Err(wrong("prefix", cause, "use a prefix without; objects there must be copied"));
            }
        }
        if self.path.len() > 500 || self.prefix.as_ref().is_some_and(|prefix| prefix.len() > 500) {
            return Err(wrong("path", "it is longer than 500 bytes", "use a shorter one"));
        }
        for (one, other, one_name, other_name) in [
            (self.access_key_id.is_some(), self.secret_access_key.is_some(), "access-key-id", "secret-access-key"),
            (
                self.access_key_id_file.is_some(),
                self.secret_access_key_file.is_some(),
                "access-key-id-file",
                "secret-access-key-file",
            ),
        ] {
            if one != other {
                let (has, lacks) = if one { (one_name, other_name) } else { (other_name, one_name) };
                return Err(wrong(has, "half of the credentials is missing", &format!("give {lacks} too")));
            }
        }
        let sse = self.sse_customer_key.is_some() || self.sse_customer_key_path.is_some();
        let plaintext = self.endpoint.as_deref().is_some_and(|e| e.starts_with("http://") && !is_private(host_of(e)));
        if sse && plaintext {
            return Err(wrong("sse-customer-key", "the key would travel unencrypted", "use an https endpoint"));
        }
        Ok(())
    }
}

/// Reads how long a lock lasts.
fn lock_span(value: &str) -> Result<Duration, Error> {
    let next = "write a time such as 30d";
    let found = parse_duration(value).ok_or_else(|| wrong("object-lock-keep", "this is no time", next))?;
    if found < DAY || found > LONGEST_LOCK {
        return Err(wrong("object-lock-keep", "it is not between 1d and 32000d", next));
    }
    Ok(found)
}

/// Completes an endpoint. Behind the server may stand a path, as Supabase has it.
fn server(value: &str) -> Result<String, Error> {
    let (scheme, rest) = value.split_once("://").map_or(("", value), |(scheme, rest)| (scheme, rest));
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let host = if scheme.is_empty() { host.to_owned() } else { format!("{scheme}://{host}") };
    let server = endpoint(&host)?;
    let path = path.trim_end_matches('/');
    if path.is_empty() {
        return Ok(server);
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '~');
    let sound = |segment: &str| !segment.is_empty() && segment.chars().all(plain) && segment != "." && segment != "..";
    if !path.split('/').all(sound) {
        return Err(wrong("endpoint", "its path can't be one of a server", "write https://HOST or https://HOST/PATH"));
    }
    Ok(format!("{server}/{path}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::bytes;

    #[test]
    fn names_in_both_spellings() {
        for (given, name) in [
            ("forcePathStyle", "force-path-style"),
            ("force-path-style", "force-path-style"),
            ("sseCustomerKeyMD5", "sse-customer-key-md5"),
            ("putObjectContentMD5", "put-object-content-md5"),
            ("sseKmsKeyId", "sse-kms-key-id"),
            ("partSize", "part-size"),
        ] {
            assert_eq!(kebab(given), name);
            assert!(NAMES.contains(&name));
        }
        for name in NAMES {
            let value = match *name {
                "part-size" => "6MiB",
                "object-lock-keep" => "30d",
                "concurrency" => "3",
                "endpoint" => "https://h",
                n if ["chec", "skip", "put-", "requ", "sign"].contains(&&n[..4]) || n.starts_with("force") => "true",
                _ => "x",
            };
            assert_eq!(S3Settings::default().set(name, value), Ok(()), "{name}");
        }
    }

    #[test]
    fn locks_last_for_days() {
        for (text, days) in
            [("30d", Some(30)), ("24h", Some(1)), ("23h", None), ("36501d", None), ("x", None), ("", None)]
        {
            assert_eq!(lock_span(text).ok(), days.map(|days| days * DAY), "{text}");
        }
    }

    #[test]
    fn unknown_names_get_the_nearest_one() {
        let error = S3Settings::default().set("forcePathStile", "true").expect_err("unknown");
        let Error::InvalidUrl { next, .. } = &error else { panic!("{error:?}") };
        assert_eq!(next, "did you mean `force-path-style`?");
    }

    #[test]
    fn endpoints_may_have_a_path() {
        for (given, expected) in [
            ("https://ref.supabase.co/storage/v1/s3", Some("https://ref.supabase.co/storage/v1/s3")),
            ("ref.supabase.co/storage/v1/s3/", Some("https://ref.supabase.co/storage/v1/s3")),
            ("https://h/", Some("https://h")),
            ("https://h//", Some("https://h")),
            ("https://h/a b", None),
            ("https://h/../x", None),
            ("https://h/a?b", None),
            ("https://h/a//b", None),
        ] {
            assert_eq!(server(given).ok().as_deref(), expected, "{given}");
        }
    }

    #[test]
    fn sizes() {
        for (text, size) in [
            ("5242880", Some(5 << 20)),
            ("5MiB", Some(5 << 20)),
            ("16 MiB", Some(16 << 20)),
            ("10MB", Some(10_000_000)),
            ("1.5gib", Some(3 << 29)),
            ("", None),
            (".", None),
            ("5.", None),
            ("-5", None),
            ("5 elephants", None),
            ("99999999999999999999", None),
            ("99999999999999GiB", None),
        ] {
            assert_eq!(bytes(text), size, "{text}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let mut settings = S3Settings::default();
        for name in ["access-key-id", "secret-access-key", "session-token", "sse-customer-key"] {
            settings.set(name, "hunter2").expect("set");
        }
        assert!(!format!("{settings:?} {settings:#?}").contains("hunter2"));
    }
}
