//! The one place where text becomes a place: parsed once, at the edge, into a type that can't hold nonsense.
//!
//! Secrets in a URL are taken and never shown: not by `Display`, not by `Debug`, not by an error.

use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use percent_encoding::percent_decode_str;

use crate::provider::{self, Place};
use crate::settings::{S3Settings, clean_path, kebab, unknown, wrong};
use crate::{Error, Layout};

/// Schemes that are built.
const BUILT: &[&str] = &["file", "s3"];

/// Schemes that Litestream and Lightning Stream users have, and that are not built yet.
const LATER: &[&str] = &["gs", "abs", "az", "sftp", "webdav", "webdavs", "nats", "oss"];

/// A place, parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum VaultUrl {
    /// A folder.
    File(PathBuf),
    /// A prefix in a bucket.
    S3(Box<S3Settings>),
}

impl VaultUrl {
    /// Reads what a user typed: a path, `file:///path`, or `s3://…` in all of Litestream's forms.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let shown = redact(text);
        let located = |error: Error| match error {
            Error::InvalidUrl { object, cause, next } if object != shown => {
                Error::InvalidUrl { object: shown.clone(), cause: format!("{object}: {cause}"), next }
            }
            error => error,
        };
        if text.chars().any(char::is_control) {
            return Err(wrong(&shown, "it holds a control character", "remove it"));
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return bare(text);
        };
        match scheme.to_ascii_lowercase().as_str() {
            "file" => file(rest, &shown),
            "s3" => s3(rest).map_err(located),
            scheme if LATER.contains(&scheme) => Err(later(scheme, &shown)),
            scheme => {
                let known: Vec<&str> = BUILT.iter().chain(LATER).copied().collect();
                Err(located(unknown("scheme", scheme, &known)))
            }
        }
    }

    /// Builds a place from the keys of a configuration: `type` (or none), `url`, `path`, and the settings of that type.
    /// Keys that say something else than the URL are refused rather than merged.
    pub fn from_parts<'a>(
        kind: Option<&str>,
        parts: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, Error> {
        let parts: Vec<(String, &str)> = parts.into_iter().map(|(name, value)| (kebab(name), value)).collect();
        let find = |name: &str| parts.iter().find(|(n, _)| n == name).map(|(_, value)| *value);
        let url = find("url").map(Self::parse).transpose()?;
        let kind = match (kind, &url) {
            (Some(kind), _) => kind.to_ascii_lowercase(),
            (None, Some(Self::S3(_))) => "s3".to_owned(),
            (None, _) => "file".to_owned(),
        };
        let rest = || parts.iter().filter(|(name, _)| name != "url").map(|(name, value)| (name.as_str(), *value));
        match (kind.as_str(), url) {
            ("file", Some(Self::File(path))) => match rest().next() {
                None => Ok(Self::File(path)),
                Some((name, _)) => Err(wrong(name, "the URL says that already", "give the URL or the parts")),
            },
            ("file", None) => match (find("path"), rest().find(|(name, _)| *name != "path")) {
                (_, Some((name, _))) => Err(unknown("setting of a folder", name, &["path", "url"])),
                (Some(path), None) => Self::parse(path),
                (None, None) => Err(wrong("path", "there is no path", "give the folder of the replica")),
            },
            ("s3", None) => s3_from(S3Settings::default(), rest()),
            ("s3", Some(Self::S3(settings))) => {
                for name in ["bucket", "path", "region", "endpoint"] {
                    if find(name).is_some() {
                        return Err(wrong(name, "the URL says that already", "give the URL or the parts"));
                    }
                }
                s3_from(*settings, rest())
            }
            (kind, _) if LATER.contains(&kind) => Err(later(kind, kind)),
            (kind @ ("s3" | "file"), Some(other)) => {
                Err(wrong(&other.to_string(), &format!("this is no URL of type {kind}"), "make type and URL agree"))
            }
            (kind, _) => {
                let known: Vec<&str> = BUILT.iter().chain(LATER).copied().collect();
                Err(unknown("type", kind, &known))
            }
        }
    }

    /// The place `below` this one, for a database of a folder of databases.
    pub fn join(&self, below: &str) -> Result<Self, Error> {
        let relative = Path::new(below).components().all(|part| matches!(part, Component::Normal(_)));
        if below.is_empty() || !relative || below.chars().any(char::is_control) {
            return Err(wrong(&below.escape_debug().to_string(), "this leads elsewhere", "use a plain relative path"));
        }
        match self {
            Self::File(path) => Ok(Self::File(path.join(below))),
            Self::S3(settings) => {
                let mut settings = settings.clone();
                settings.path = clean_path(&format!("{}/{below}", settings.path));
                settings.check()?;
                Ok(Self::S3(settings))
            }
        }
    }

    /// How objects are named in such a place.
    pub fn layout(&self) -> Layout {
        match self {
            Self::File(_) => Layout::Files,
            Self::S3(_) => Layout::Objects,
        }
    }
}

impl FromStr for VaultUrl {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text)
    }
}

impl fmt::Display for VaultUrl {
    /// The URL without secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) if path.is_absolute() => write!(f, "file://{}", path.display()),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::S3(settings) => {
                f.write_str(&settings.url())?;
                match &settings.endpoint {
                    Some(endpoint) => write!(f, "?endpoint={endpoint}"),
                    None => Ok(()),
                }
            }
        }
    }
}

/// A URL as it may be shown, before anything about it is known: no user part and no query.
fn redact(text: &str) -> String {
    let (plain, query) = text.split_once('?').map_or((text, ""), |(plain, _)| (plain, "?…"));
    let plain = match plain.split_once("://") {
        Some((scheme, rest)) => match rest.rsplit_once('@') {
            Some((_, rest)) => format!("{scheme}://…@{rest}"),
            None => format!("{scheme}://{rest}"),
        },
        None => plain.to_owned(),
    };
    let shown: String = plain.chars().take(200).collect();
    format!("{}{query}", shown.escape_debug())
}

fn later(scheme: &str, shown: &str) -> Error {
    Error::Unsupported {
        object: shown.to_owned(),
        cause: format!("`{scheme}` is not built yet; a folder, file:///… and s3://… are"),
    }
}

fn bare(text: &str) -> Result<VaultUrl, Error> {
    if text.is_empty() {
        return Err(wrong("vault", "there is no place", "give a folder, file:///path or s3://bucket/path"));
    }
    // A scheme with its slashes forgotten must not become a folder of that name. What follows may hold a secret.
    if let Some((scheme, _)) = text.split_once(':')
        && (BUILT.contains(&scheme) || LATER.contains(&scheme))
    {
        let next = format!("write {scheme}://…, or ./{scheme}:… for a folder");
        return Err(wrong(&format!("{scheme}:…"), "the slashes behind the scheme are missing", &next));
    }
    Ok(VaultUrl::File(text.into()))
}

fn file(rest: &str, shown: &str) -> Result<VaultUrl, Error> {
    let path = rest.strip_prefix("localhost/").map_or_else(|| rest.to_owned(), |path| format!("/{path}"));
    if !path.starts_with('/') {
        return Err(wrong(shown, "a file URL has three slashes", "write file:///path, or a plain path"));
    }
    if path.contains('?') {
        return Err(wrong(shown, "a folder has no settings", "leave `?` and what follows away"));
    }
    let path = decode(&path, shown)?;
    Ok(VaultUrl::File(path.into()))
}

fn decode(text: &str, shown: &str) -> Result<String, Error> {
    match percent_decode_str(text).decode_utf8() {
        Ok(decoded) if !decoded.chars().any(char::is_control) => Ok(decoded.into_owned()),
        _ => Err(wrong(shown, "it holds bytes that are no text", "check what stands behind `%`")),
    }
}

fn s3(rest: &str) -> Result<VaultUrl, Error> {
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (user, authority) =
        authority.rsplit_once('@').map_or((None, authority), |(user, authority)| (Some(user), authority));
    let path = decode(path, "path")?;
    let mut settings = S3Settings::default();
    let (place, path) = if authority.starts_with("arn:") {
        let (name, path) = path.split_once('/').unwrap_or((&path, ""));
        let next = "write s3://arn:aws:s3:REGION:ACCOUNT:accesspoint/NAME/PATH";
        let place =
            provider::access_point(authority, name).ok_or_else(|| wrong("bucket", "this is no access point", next))?;
        (place, path.to_owned())
    } else {
        let next = "write s3://BUCKET/PATH or s3://BUCKET.HOST:PORT/PATH";
        let place = provider::place(authority).ok_or_else(|| wrong("bucket", "there is no bucket", next))?;
        (place, path)
    };
    apply(&mut settings, place)?;
    settings.path = clean_path(&path);
    if let Some(user) = user {
        let (id, secret) = user.split_once(':').unwrap_or((user, ""));
        settings.set("access-key-id", &decode(id, "user")?)?;
        settings.set("secret-access-key", &decode(secret, "user")?)?;
    }
    let pairs: Vec<_> = form_urlencoded::parse(query.as_bytes()).collect();
    for (name, _) in &pairs {
        let name = kebab(name);
        if name == "bucket" || name == "path" {
            return Err(wrong(&name, "the URL says that already", "leave it away"));
        }
    }
    s3_from(settings, pairs.iter().map(|(name, value)| (name.as_ref(), value.as_ref())))
}

fn apply(settings: &mut S3Settings, place: Place) -> Result<(), Error> {
    settings.bucket = place.bucket;
    settings.region = place.region;
    settings.force_path_style = place.path_style;
    if let Some(endpoint) = place.endpoint {
        settings.set("endpoint", &endpoint)?;
    }
    Ok(())
}

fn s3_from<'a>(mut settings: S3Settings, pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Result<VaultUrl, Error> {
    let mut seen = Vec::new();
    for (name, value) in pairs {
        let name = kebab(name);
        settings.set(&name, value)?;
        if seen.contains(&name) {
            return Err(wrong(&name, "it is given twice", "give it once"));
        }
        seen.push(name);
    }
    settings.check()?;
    Ok(VaultUrl::S3(Box::new(settings)))
}

#[cfg(test)]
#[path = "url_tests.rs"]
mod tests;
