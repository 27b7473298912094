//! Names of a set's objects, in both directions. Seawall neither reads nor deletes an object whose name isn't exactly
//! one of these.

use std::fmt;
use std::str::FromStr;

use seawall_core::Moment;
use seawall_vault::{ObjectKey, Prefix};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Codec, Error};

/// The name of a set: the moment at which its backup began, and a nonce.
///
/// `20261121T100000123Z-9f3a6c11`: it sorts as time does, and two sets that begin in one millisecond differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SetId {
    moment: Moment,
    nonce: u32,
}

impl SetId {
    /// A set that is begun at `moment`.
    pub fn new(moment: Moment, nonce: u32) -> Self {
        Self { moment, nonce }
    }

    /// When it was begun.
    pub fn moment(self) -> Moment {
        self.moment
    }
}

impl fmt::Display for SetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain: String = self.moment.to_string().chars().filter(|c| !matches!(c, '-' | ':' | '.')).collect();
        write!(f, "{plain}-{:08x}", self.nonce)
    }
}

impl FromStr for SetId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (time, nonce) = text.split_once('-').ok_or(())?;
        if time.len() != 19 || !time.is_ascii() || nonce.len() != 8 {
            return Err(());
        }
        let rfc3339 = format!(
            "{}-{}-{}T{}:{}:{}.{}Z",
            &time[..4],
            &time[4..6],
            &time[6..8],
            &time[9..11],
            &time[11..13],
            &time[13..15],
            &time[15..18]
        );
        let id = Self { moment: rfc3339.parse().map_err(drop)?, nonce: u32::from_str_radix(nonce, 16).map_err(drop)? };
        // One set has one name: leap seconds, signs and upper case have others.
        if id.to_string() == text { Ok(id) } else { Err(()) }
    }
}

impl Serialize for SetId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SetId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|()| serde::de::Error::custom("this is no name of a set"))
    }
}

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Name {
    /// A link of the chain: `chain/00000007.json`, from 1.
    Link(u64),
    /// A set's index: `sets/<id>/index.json`.
    Index(SetId),
    /// A chunk: `sets/<id>/00000012.zst`, from 0.
    Chunk(SetId, u32),
    /// A pin: `pins/<id>.json`.
    Pin(SetId),
}

impl Name {
    /// What `key` stands for; `None` when it isn't one of Seawall's names.
    pub(crate) fn parse(key: &ObjectKey) -> Option<Self> {
        let parts: Vec<&str> = key.as_str().split('/').collect();
        match parts[..] {
            ["chain", file] => {
                let number = digits(file.strip_suffix(".json")?)?;
                (number > 0).then_some(Self::Link(number))
            }
            ["pins", file] => Some(Self::Pin(file.strip_suffix(".json")?.parse().ok()?)),
            ["sets", id, "index.json"] => id.parse().ok().map(Self::Index),
            ["sets", id, file] => {
                let (number, extension) = file.split_once('.')?;
                let known = [Codec::default(), Codec::Gzip { level: 1 }, Codec::Lz4, Codec::None].map(Codec::extension);
                let number = digits(number).filter(|_| known.contains(&extension))?;
                Some(Self::Chunk(id.parse().ok()?, u32::try_from(number).ok()?))
            }
            _ => None,
        }
    }
}

/// An object of a vault of sets, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InSets {
    /// A link of the chain, by its number.
    Link(u64),
    /// The index of a set. Written last, so it shows that the set is whole.
    Index(SetId),
    /// A chunk of a set.
    Chunk(SetId),
    /// A pin.
    Pin,
}

/// The prefix of the vault of sets that an object belongs to, and what it is there; `None` if it belongs to none.
pub fn in_sets(key: &str) -> Option<(&str, InSets)> {
    let of = |segments: usize| {
        let at = key.rmatch_indices('/').nth(segments - 1).map_or(0, |(at, _)| at + 1);
        let name = Name::parse(&ObjectKey::new(key.get(at..)?).ok()?)?;
        let found = match name {
            Name::Link(number) => InSets::Link(number),
            Name::Index(id) => InSets::Index(id),
            Name::Chunk(id, _) => InSets::Chunk(id),
            Name::Pin(_) => InSets::Pin,
        };
        Some((key.get(..at)?.trim_end_matches('/'), found))
    };
    of(3).or_else(|| of(2))
}

/// Whether an object of this name belongs to a set or to the chain. Such an object shows that a vault holds sets.
pub fn is_of_sets(key: &ObjectKey) -> bool {
    matches!(Name::parse(key), Some(Name::Link(_) | Name::Index(_) | Name::Chunk(..)))
}

/// Whether an object of this name is a link of the chain. Links hold no content of a database, and a host reads all of
/// them at each backup.
pub fn is_link(key: &ObjectKey) -> bool {
    matches!(Name::parse(key), Some(Name::Link(_)))
}

/// Exactly eight digits.
fn digits(text: &str) -> Option<u64> {
    let eight = text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_digit());
    eight.then(|| text.parse().ok()).flatten()
}

/// The name of a link.
pub(crate) fn link(number: u64) -> Result<ObjectKey, Error> {
    Ok(ObjectKey::new(format!("chain/{number:08}.json"))?)
}

/// The name of a set's index.
pub(crate) fn index(id: SetId) -> Result<ObjectKey, Error> {
    Ok(ObjectKey::new(format!("sets/{id}/index.json"))?)
}

/// The name of a set's chunk.
pub(crate) fn chunk(id: SetId, number: u32, codec: Codec) -> Result<ObjectKey, Error> {
    Ok(ObjectKey::new(format!("sets/{id}/{number:08}.{}", codec.extension()))?)
}

/// The name of a set's pin.
pub(crate) fn pin(id: SetId) -> Result<ObjectKey, Error> {
    Ok(ObjectKey::new(format!("pins/{id}.json"))?)
}

/// Where the sets are.
pub(crate) fn sets() -> Result<Prefix, Error> {
    Ok(Prefix::new("sets/")?)
}

/// Where the links are.
pub(crate) fn chain() -> Result<Prefix, Error> {
    Ok(Prefix::new("chain/")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> SetId {
        SetId::new("2026-11-21T10:00:00.123Z".parse().expect("a moment"), 0x9f3a_6c11)
    }

    #[test]
    fn names_and_back() {
        assert_eq!(id().to_string(), "20261121T100000123Z-9f3a6c11");
        assert_eq!(id().to_string().parse(), Ok(id()));
        for (key, name) in [
            (link(7), Name::Link(7)),
            (index(id()), Name::Index(id())),
            (chunk(id(), 12, Codec::default()), Name::Chunk(id(), 12)),
            (chunk(id(), 0, Codec::None), Name::Chunk(id(), 0)),
            (pin(id()), Name::Pin(id())),
        ] {
            let key = key.expect("a name");
            assert_eq!(Name::parse(&key), Some(name), "{key}");
        }
    }

    #[test]
    fn objects_below_a_prefix() {
        let set = "sets/20261121T100000123Z-9f3a6c11";
        for (key, expected) in [
            ("chain/00000007.json".to_owned(), Some(("", InSets::Link(7)))),
            ("a/b/chain/00000007.json".to_owned(), Some(("a/b", InSets::Link(7)))),
            (format!("{set}/index.json"), Some(("", InSets::Index(id())))),
            (format!("a/{set}/index.json"), Some(("a", InSets::Index(id())))),
            (format!("a/b/{set}/00000001.zst"), Some(("a/b", InSets::Chunk(id())))),
            ("a/pins/20261121T100000123Z-9f3a6c11.json".to_owned(), Some(("a", InSets::Pin))),
            (format!("a/{set}/notes.txt"), None),
            ("index.json".to_owned(), None),
            ("x".to_owned(), None),
        ] {
            assert_eq!(in_sets(&key), expected, "{key}");
        }
    }

    #[test]
    fn foreign_names_are_not_ours() {
        for name in [
            "chain/00000000.json",
            "chain/7.json",
            "chain/+0000007.json",
            "chain/000000007.json",
            "chain/00000007.json.bak",
            "sets/20261121T100000123Z-9f3a6c11/notes.txt",
            "sets/20261121T100000123Z-9F3A6C11/index.json",
            "sets/20261321T100000123Z-9f3a6c11/index.json",
            "sets/20261121T100000123Z-9f3a6c11/00000001.jpg",
            "sets/20261121T100000123Z-9f3a6c11/00000001",
            "sets/ééééééééé1-9f3a6c11/index.json",
            "family-photos.tar.gz",
            "pins/00000000000000af",
            "pins/notes.json",
        ] {
            assert_eq!(Name::parse(&ObjectKey::new(name).expect("a key")), None, "{name}");
        }
    }
}
