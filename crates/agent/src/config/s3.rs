//! The settings of S3 stores: one list of keys for both formats.

use std::collections::BTreeMap;
use std::path::Path;

use super::absolute;
use super::error::{Location, Problem};
use super::fields::{At, Fields};

/// Settings with a plain value, by the names that both formats and a URL's query have.
pub(crate) const PLAIN: [&str; 12] = [
    "endpoint",
    "region",
    "force-path-style",
    "skip-verify",
    "storage-class",
    "part-size",
    "concurrency",
    "require-content-md5",
    "put-object-content-md5",
    "sse-customer-algorithm",
    "sse-kms-key-id",
    "access-key-id",
];

/// Settings that are secrets. In our own format each can be read from a file instead.
pub(crate) const SECRET: [(&str, &str); 4] = [
    ("access-key-id", "access-key-id-file"),
    ("secret-access-key", "secret-access-key-file"),
    ("session-token", "session-token-file"),
    ("sse-customer-key", "sse-customer-key-file"),
];

/// Settings by name.
pub(crate) type Settings = BTreeMap<&'static str, String>;

/// Reads the `s3` section of our own format; files with secrets are relative to `here`.
pub(crate) fn read_native(mut fields: Fields, here: &Path) -> Result<Settings, Location> {
    let mut settings = Settings::new();
    for key in PLAIN {
        if let Some(At { value, .. }) = fields.text(key)? {
            settings.insert(key, value);
        }
    }
    for (key, file_key) in SECRET {
        if let Some(At { value, .. }) = fields.text(key)? {
            settings.insert(key, value);
        }
        if let Some(At { line, value }) = fields.text(file_key)? {
            if settings.contains_key(key) {
                return Err(Problem::Contradiction(format!("{key} and {file_key} are both given")).at(line));
            }
            settings.insert(key, secret_file(file_key, &absolute(Path::new(&value), here)).map_err(|p| p.at(line))?);
        }
    }
    fields.finish()?;
    Ok(settings)
}

/// A secret's content, without the line end that editors put behind it.
fn secret_file(key: &str, file: &Path) -> Result<String, Problem> {
    let problem = |cause: String| Problem::SecretFile { key: key.into(), file: file.display().to_string(), cause };
    let content = std::fs::read_to_string(file).map_err(|error| problem(error.to_string()))?;
    match content.trim_end_matches(['\r', '\n']) {
        "" => Err(problem("it is empty".into())),
        secret => Ok(secret.to_owned()),
    }
}
