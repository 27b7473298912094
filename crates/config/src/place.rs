//! Where a database's objects go: from the words of a configuration or a command line to a [`VaultUrl`].

use std::collections::BTreeMap;
use std::path::Path;

use seawall_core::Failure;
use seawall_vault::VaultUrl;

use crate::error::Problem;
use crate::{abs, absolute, s3};

/// Settings of a kind of stores, by name. Some are secrets, so this is never printed.
pub type Keys = BTreeMap<&'static str, String>;

/// Settings of places, for each kind of stores that has some.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// Those of containers in Azure.
    pub abs: Keys,
    /// Those of buckets of S3.
    pub s3: Keys,
}

impl Settings {
    /// Adds those of another one that this one doesn't have.
    pub fn fill(&mut self, others: &Self) {
        for (own, others) in [(&mut self.abs, &others.abs), (&mut self.s3, &others.s3)] {
            for (key, value) in others {
                own.entry(key).or_insert_with(|| value.clone());
            }
        }
    }
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings").finish_non_exhaustive()
    }
}

/// Reads a place: a URL, or the path of a folder relative to `directory`.
///
/// # Errors
/// When it is no place, with the vault's own code.
pub fn read_place(text: &str, directory: &Path) -> Result<VaultUrl, Failure> {
    match VaultUrl::parse(text)? {
        VaultUrl::File(path) => Ok(VaultUrl::File(absolute(&path, directory))),
        url => Ok(url),
    }
}

/// The text of the place `name` below the one that `text` names.
pub fn below(text: &str, name: &str) -> String {
    let end = if text.contains("://") { text.find(['?', '#']).unwrap_or(text.len()) } else { text.len() };
    let (path, query) = text.split_at(end);
    format!("{}/{name}{query}", path.trim_end_matches('/'))
}

/// Which side wins when a URL and a setting beside it speak of the same thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precedence {
    /// The setting, because it was given for this very place.
    Setting,
    /// The URL, because the setting is a default for all places.
    Url,
}

/// Applies settings to a place: those of its kind.
///
/// # Errors
/// A value is wrong, or settings exclude each other.
pub fn with_settings(url: VaultUrl, settings: &Settings, precedence: Precedence) -> Result<VaultUrl, Failure> {
    match url {
        VaultUrl::Abs(mut abs) => {
            let of_url = abs.clone();
            for (name, value) in &settings.abs {
                if precedence == Precedence::Setting || !abs::is_set(&of_url, name) {
                    abs.set(name, value)?;
                }
            }
            abs.check()?;
            Ok(VaultUrl::Abs(abs))
        }
        VaultUrl::S3(mut s3) => {
            let of_url = s3.clone();
            for (name, value) in &settings.s3 {
                if precedence == Precedence::Setting || !s3::is_set(&of_url, name) {
                    s3.set(name, value)?;
                }
            }
            s3.check()?;
            Ok(VaultUrl::S3(s3))
        }
        url => Ok(url),
    }
}

/// An error of the vault about a place, as a problem of a configuration.
pub fn problem(failure: Failure) -> Problem {
    Problem::Vault { cause: format!("{}: {}", failure.object, failure.cause), next: failure.next }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_goes_below_the_path_and_before_the_query() {
        for (text, expected) in [
            ("./vault", "./vault/app"),
            ("/odd?name/", "/odd?name/app"),
            ("file:///backup/", "file:///backup/app"),
            ("s3://bucket", "s3://bucket/app"),
            ("s3://bucket/a/?endpoint=http://h/x", "s3://bucket/a/app?endpoint=http://h/x"),
        ] {
            assert_eq!(below(text, "app"), expected);
        }
    }

    #[test]
    fn folders_begin_where_they_are_named() {
        for (text, expected) in [("./vault", "file:///srv/vault"), ("file:///backup", "file:///backup")] {
            assert_eq!(read_place(text, Path::new("/srv")).expect("a place").to_string(), expected);
        }
        assert!(read_place("gopher://x", Path::new("/srv")).is_err());
    }

    #[test]
    fn a_setting_for_this_place_wins_over_its_url_and_a_default_does_not() {
        for (precedence, expected) in [
            (Precedence::Setting, "s3://bucket/app?endpoint=https://setting.example"),
            (Precedence::Url, "s3://bucket/app?endpoint=https://url.example"),
        ] {
            let url = VaultUrl::parse("s3://bucket/app?endpoint=https://url.example").expect("a place");
            let s3 = Keys::from([("endpoint", "setting.example".into()), ("region", "eu".into())]);
            let settings = Settings { s3, ..Settings::default() };
            let url = with_settings(url, &settings, precedence).expect("a place");
            assert_eq!(url.to_string(), expected);
            let VaultUrl::S3(s3) = url else { panic!("{url}") };
            assert_eq!(s3.region.as_deref(), Some("eu"));
        }
    }

    #[test]
    fn each_kind_takes_its_own_settings() {
        let abs = Keys::from([("account-name", "acct".into()), ("endpoint", "https://azure.example".into())]);
        let s3 = Keys::from([("endpoint", "https://s3.example".into())]);
        let settings = Settings { abs, s3 };
        for (url, expected) in [
            ("abs://c/p", "abs://acct@c/p?endpoint=https://azure.example"),
            ("abs://own@c/p", "abs://own@c/p?endpoint=https://azure.example"),
            ("s3://b/p", "s3://b/p?endpoint=https://s3.example"),
            ("file:///p", "file:///p"),
        ] {
            let url = VaultUrl::parse(url).expect("a place");
            assert_eq!(with_settings(url, &settings, Precedence::Url).expect("a place").to_string(), expected);
        }
    }
}
