//! Where a database's objects go: from the words of a configuration or a command line to a [`VaultUrl`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use seawall_core::{Failure, Kind};
use seawall_vault::{Scheme, VaultUrl};

use crate::absolute;
use crate::error::{Location, Problem};
use crate::fields::{At, Fields};
use crate::kinds;

/// Settings of a kind of stores, by name. Some are secrets, so this is never printed.
pub type Keys = BTreeMap<&'static str, String>;

/// Keys of Litestream's format whose value is a list.
const LISTS: [&str; 1] = ["root-cas"];

/// Settings of places, for each kind of stores that has some.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Settings(BTreeMap<Scheme, Keys>);

impl Settings {
    /// Those of one kind.
    pub fn of(scheme: Scheme, keys: Keys) -> Self {
        Self(BTreeMap::from([(scheme, keys)]))
    }

    /// The settings of a kind.
    pub fn get(&self, scheme: Scheme) -> Option<&Keys> {
        self.0.get(&scheme)
    }

    /// Adds those of another one that this one doesn't have.
    pub fn fill(&mut self, others: &Self) {
        for (scheme, others) in &others.0 {
            let own = self.0.entry(*scheme).or_default();
            for (key, value) in others {
                own.entry(key).or_insert_with(|| value.clone());
            }
        }
    }

    /// Takes the sections of our own format, one for each kind of stores; files are relative to `here`.
    ///
    /// # Errors
    /// A key is unknown, or a value is no text.
    pub fn take_native(fields: &mut Fields, here: &Path) -> Result<Self, Location> {
        let mut settings = Self::default();
        for section in sections(fields)? {
            settings.0.insert(section.kind.scheme, section.read(here)?);
        }
        Ok(settings)
    }

    /// Takes the keys of a replica in Litestream's format. A key that several kinds have counts for each of them.
    ///
    /// # Errors
    /// A value is no text.
    pub fn take_litestream(fields: &mut Fields) -> Result<Self, Location> {
        let mut settings = Self::default();
        let mut taken = Keys::new();
        let mut looked = BTreeSet::new();
        for kind in kinds::ALL {
            let Some(litestream) = &kind.litestream else { continue };
            let common = kind.common.iter().map(|name| (*name, *name));
            for (key, name) in common.chain(litestream.keys.iter().copied()) {
                if looked.insert(key)
                    && let Some(At { value, .. }) =
                        if LISTS.contains(&key) { fields.joined(key)? } else { fields.text(key)? }
                {
                    taken.insert(key, value);
                }
                if let Some(value) = taken.get(key) {
                    settings.0.entry(kind.scheme).or_default().insert(name, value.clone());
                }
            }
        }
        Ok(settings)
    }
}

/// A section of our own format with the settings of one kind of stores.
#[derive(Debug)]
pub struct Section {
    kind: &'static kinds::Kind,
    fields: Fields,
}

/// Takes all such sections that a mapping has.
///
/// # Errors
/// One is no mapping.
pub fn sections(fields: &mut Fields) -> Result<Vec<Section>, Location> {
    let mut found = Vec::new();
    for kind in kinds::ALL {
        if let Some(section) = fields.section(kind.scheme.as_str())? {
            found.push(Section { kind, fields: section });
        }
    }
    Ok(found)
}

impl Section {
    /// The settings as those of `url`, with the line where they stand.
    ///
    /// # Errors
    /// The place is of another kind, a key is unknown, or a value is no text.
    pub fn for_place(self, url: &VaultUrl, here: &Path) -> Result<(usize, Settings), Location> {
        let (line, scheme) = (self.fields.line, self.kind.scheme);
        if url.scheme() != scheme {
            let cause = format!("{scheme} settings for {url}, which is no {scheme} vault");
            return Err(Problem::Contradiction(cause).at(line));
        }
        Ok((line, Settings::of(scheme, self.read(here)?)))
    }

    fn read(mut self, here: &Path) -> Result<Keys, Location> {
        let mut settings = Keys::new();
        for key in self.kind.common.iter().chain(self.kind.native) {
            if let Some(At { value, .. }) = self.fields.text(key)? {
                settings.insert(key, value);
            }
        }
        for key in self.kind.files {
            if let Some(At { value, .. }) = self.fields.text(key)? {
                settings.insert(key, absolute(Path::new(&value), here).display().to_string());
            }
        }
        self.fields.finish()?;
        Ok(settings)
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
pub fn with_settings(mut url: VaultUrl, settings: &Settings, precedence: Precedence) -> Result<VaultUrl, Failure> {
    let of_url = url.clone();
    if let (Some(keys), Some(before), Some(place)) = (settings.get(url.scheme()), of_url.settings(), url.settings_mut())
    {
        for (name, value) in keys {
            if precedence == Precedence::Setting || !before.is_set(name) {
                place.set(name, value)?;
            }
        }
        place.check()?;
    }
    Ok(url)
}

/// Refuses a place whose objects Litestream would name otherwise than Seawall does: at the top of a bucket of S3 its names
/// begin with `/`.
///
/// # Errors
/// It is such a place.
pub fn as_litestream(url: VaultUrl) -> Result<VaultUrl, Failure> {
    let bare =
        matches!(url.scheme(), Scheme::S3 | Scheme::Oss) && url.settings().is_some_and(|at| at.path().is_empty());
    if !bare {
        return Ok(url);
    }
    let cause =
        "there is no path: at the top of a bucket Litestream's names begin with `/`, and Seawall writes none that do";
    let next = format!("give a path: {}://BUCKET/PATH", url.scheme());
    Err(Failure::new(Kind::Usage, "vault.url", url.to_string(), cause, next))
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
    fn names_at_the_top_of_a_bucket_are_not_litestreams() {
        for (text, refused) in [
            ("s3://b", true),
            ("oss://bkt", true),
            ("s3://b/p", false),
            ("gs://b", false),
            ("b2://b", false),
            ("/v", false),
        ] {
            let url = VaultUrl::parse(text).expect("a place");
            assert_eq!(as_litestream(url).is_err(), refused, "{text}");
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
            let settings = Settings::of(Scheme::S3, s3);
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
        let mut settings = Settings::of(Scheme::Abs, abs);
        settings.fill(&Settings::of(Scheme::S3, s3));
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
