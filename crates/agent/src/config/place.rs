//! Where a database's objects go, as a configuration or a command line says it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::absolute;

/// A place, before it is opened as a vault.
#[derive(Clone, PartialEq, Eq)]
pub struct Place {
    /// Which store.
    pub target: Target,
    /// Settings of the store, by the names that a URL's query has. Some are secrets.
    pub settings: BTreeMap<&'static str, String>,
    /// The line that names it; 0 for a command line.
    pub line: usize,
}

/// The store of a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A folder, absolute.
    Folder(PathBuf),
    /// A URL as written.
    Url(String),
    /// A bucket by its name, and the path of the objects in it.
    Bucket {
        /// The bucket.
        bucket: String,
        /// The path of the objects.
        path: String,
    },
}

impl Place {
    /// Reads a place: a URL, or the path of a folder relative to `directory`.
    pub fn from_text(text: &str, directory: &Path, line: usize) -> Self {
        let target = match text.split_once("://") {
            Some(_) => Target::Url(text.to_owned()),
            None => Target::Folder(absolute(Path::new(text), directory)),
        };
        Self { target, settings: BTreeMap::new(), line }
    }

    /// The place below this one.
    #[must_use]
    pub fn below(&self, name: &str) -> Self {
        let target = match &self.target {
            Target::Folder(folder) => Target::Folder(folder.join(name)),
            Target::Bucket { bucket, path } => {
                Target::Bucket { bucket: bucket.clone(), path: format!("{}/{name}", path.trim_end_matches('/')) }
            }
            Target::Url(url) => {
                let end = url.find(['?', '#']).unwrap_or(url.len());
                let (path, query) = url.split_at(end);
                Target::Url(format!("{}/{name}{query}", path.trim_end_matches('/')))
            }
        };
        Self { target, ..self.clone() }
    }

    /// Whether its store is one that S3 settings are about.
    pub fn is_s3(&self) -> bool {
        match &self.target {
            Target::Folder(_) => false,
            Target::Url(url) => url.starts_with("s3://"),
            Target::Bucket { .. } => true,
        }
    }
}

impl fmt::Display for Place {
    /// The place without settings and without whatever a URL's user part or query may hide (I13).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.target {
            Target::Folder(folder) => write!(f, "{}", folder.display()),
            Target::Bucket { bucket, path } => write!(f, "s3://{bucket}/{}", path.trim_start_matches('/')),
            Target::Url(url) => {
                let plain = &url[..url.find(['?', '#']).unwrap_or(url.len())];
                match plain.split_once("://") {
                    Some((scheme, rest)) => {
                        let authority = &rest[..rest.find('/').unwrap_or(rest.len())];
                        let host = authority.rfind('@').map_or(0, |at| at + 1);
                        write!(f, "{scheme}://{}", &rest[host..])
                    }
                    None => f.write_str(plain),
                }
            }
        }
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings: Vec<_> = self.settings.keys().collect();
        write!(f, "Place({self}, settings: {settings:?})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_becomes_a_place() {
        for (text, below, shown) in [
            ("./vault", "/work/vault/app", "/work/vault"),
            ("file:///backup", "file:///backup/app", "file:///backup"),
            ("s3://bucket", "s3://bucket/app", "s3://bucket"),
            ("s3://bucket/a/?endpoint=http://h", "s3://bucket/a/app", "s3://bucket/a/"),
            ("sftp://user:word@host/a", "sftp://host/a/app", "sftp://host/a"),
        ] {
            let place = Place::from_text(text, Path::new("/work"), 1);
            assert_eq!(place.to_string(), shown, "{text}");
            assert_eq!(place.below("app").to_string(), below, "{text}");
        }
        let place = Place::from_text("s3://bucket/a?endpoint=http://h", Path::new("/"), 1).below("app");
        assert_eq!(place.target, Target::Url("s3://bucket/a/app?endpoint=http://h".into()));
    }

    #[test]
    fn secrets_are_not_shown() {
        let mut place = Place::from_text("sftp://user:hush@host/a?token=hush", Path::new("/"), 1);
        place.settings.insert("secret-access-key", "hush".into());
        assert!(!format!("{place:?} {place}").contains("hush"));
    }
}
