//! The settings of a place in Google Cloud Storage. URL queries and configuration keys both end here, so each setting has
//! one name, one reader and one default.

use crate::stores::cloud::endpoint::endpoint;
use crate::text::{boolean, clean_path, kebab, unknown, wrong};
use crate::{Error, PlaceSettings, Secret};

/// Where a place in Google Cloud Storage is, its credentials, and its options.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GsSettings {
    /// The bucket.
    pub bucket: String,
    /// The prefix of all names, without `/` at its ends.
    pub path: String,
    /// The server with its scheme, for anything but Google itself.
    pub endpoint: Option<String>,
    /// A file with credentials as Google writes them, read again whenever a token is needed.
    pub credentials_file: Option<String>,
    /// The text of such a file.
    pub credentials: Option<Secret>,
    /// The storage class of new objects.
    pub storage_class: Option<String>,
    /// A file with certificate authorities that are trusted beside the system's.
    pub ca_file: Option<String>,
    /// Take any certificate.
    pub skip_verify: bool,
}

/// All names that `set` takes.
pub(crate) const NAMES: &[&str] =
    &["bucket", "ca-file", "credentials", "credentials-file", "endpoint", "path", "skip-verify", "storage-class"];

impl PlaceSettings for GsSettings {
    fn set(&mut self, name: &str, value: &str) -> Result<(), Error> {
        let name = kebab(name);
        // The text of a credentials file has lines.
        if name != "credentials" && value.chars().any(char::is_control) {
            return Err(wrong(&name, "it holds a control character", "remove it"));
        }
        let text = || (!value.is_empty()).then(|| value.to_owned());
        match name.as_str() {
            "bucket" => value.clone_into(&mut self.bucket),
            "path" => self.path = clean_path(value),
            "endpoint" => self.endpoint = if value.is_empty() { None } else { Some(endpoint(value)?) },
            "credentials" => self.credentials = text().map(Secret::new),
            "credentials-file" => self.credentials_file = text(),
            "storage-class" => self.storage_class = text(),
            "ca-file" => self.ca_file = text(),
            "skip-verify" => self.skip_verify = boolean(&name, value)?,
            _ => return Err(unknown("setting", &name, NAMES)),
        }
        Ok(())
    }

    fn is_set(&self, name: &str) -> bool {
        match name {
            "credentials" | "credentials-file" => self.credentials.is_some() || self.credentials_file.is_some(),
            "endpoint" => self.endpoint.is_some(),
            "storage-class" => self.storage_class.is_some(),
            "ca-file" => self.ca_file.is_some(),
            _ => false,
        }
    }

    /// Names of buckets are checked as the manual has them ("Bucket names").
    fn check(&self) -> Result<(), Error> {
        let bucket = &self.bucket;
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '-' | '_');
        let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        if bucket.is_empty() {
            return Err(wrong("bucket", "there is no bucket", "write gs://BUCKET/PATH"));
        }
        let sound = bucket.chars().all(plain) && bucket.starts_with(edge) && bucket.ends_with(edge);
        if !sound || bucket.len() > 222 || bucket.contains("..") {
            let next = "use small letters, digits, `-`, `_` and `.`";
            return Err(wrong("bucket", "this is no bucket's name", next));
        }
        if self.path.len() > 500 {
            return Err(wrong("path", "it is longer than 500 bytes", "use a shorter one"));
        }
        if self.credentials.is_some() && self.credentials_file.is_some() {
            let next = "give credentials or credentials-file";
            return Err(wrong("credentials", "they are given twice", next));
        }
        Ok(())
    }

    fn url(&self) -> String {
        format!("gs://{}/{}", self.bucket, self.path)
    }

    fn path(&self) -> &str {
        &self.path
    }

    fn endpoint(&self) -> Option<&str> {
        self.endpoint.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read() {
        for name in NAMES {
            let value = match *name {
                "endpoint" => "https://h",
                "skip-verify" => "true",
                _ => "x",
            };
            assert_eq!(GsSettings::default().set(name, value), Ok(()), "{name}");
        }
        assert!(GsSettings::default().set("credential", "x").is_err());
        assert!(GsSettings::default().set("credentials", "{\n}").is_ok());
    }

    #[test]
    fn credentials_are_given_once() {
        let mut settings = GsSettings { bucket: "b".into(), ..GsSettings::default() };
        settings.set("credentials-file", "/f").expect("a file");
        assert!(settings.is_set("credentials") && settings.check().is_ok());
        settings.set("credentials", "{}").expect("a text");
        assert!(settings.check().is_err());
    }
}
