//! Names of objects: the keys below a vault's prefix.
//!
//! The names are Litestream's, so that either program reads the other's replica: `ltx/<level>/<min>-<max>.ltx` in
//! folders (also on SFTP and WebDAV servers), in Azure, in Google's buckets and in NATS,
//! `<level as four hex digits>/<min>-<max>.ltx` in S3 and in Alibaba Cloud. Objects that only Seawall has
//! are under `seawall/`, which Litestream never lists.

use seawall_ltx::{FileName, Txid};
use seawall_vault::several::renamed::Renames;
use seawall_vault::{ObjectKey, Prefix, Scheme, Vault};

/// How Litestream names the files of a replica, which depends on the kind of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// As in a folder: `ltx/<level>/`.
    Files,
    /// As in S3: `<level as four hex digits>/`.
    Objects,
}

impl Layout {
    /// The layout in a vault.
    pub(crate) fn of(vault: &Vault) -> Self {
        Self::in_stores(vault.scheme())
    }

    /// The layout in a kind of stores.
    pub(crate) fn in_stores(scheme: Scheme) -> Self {
        match scheme {
            Scheme::File | Scheme::Abs | Scheme::Gs | Scheme::Nats | Scheme::Sftp | Scheme::Webdav => Self::Files,
            Scheme::S3 | Scheme::B2 | Scheme::Oss => Self::Objects,
        }
    }
}

/// How the folders of a replica are called in a kind of stores, for one that names them as `outside` does.
pub fn renames(outside: Scheme, inside: Scheme) -> Renames {
    let folders = |scheme| Level::all().map(move |level| level_prefix(Layout::in_stores(scheme), level));
    let pairs = folders(outside).zip(folders(inside));
    let prefix = |(outside, inside)| Some((Prefix::new(outside).ok()?, Prefix::new(inside).ok()?));
    Renames::new(pairs.filter_map(prefix).collect())
}

/// A level of a replica: 0 holds captures, 9 complete copies, and the levels between hold merged objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Level(u8);

impl Level {
    /// Captures.
    pub(crate) const LOG: Self = Self(0);
    /// Complete copies.
    pub(crate) const BASE: Self = Self(9);

    /// All levels, captures first.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..=9).map(Self)
    }

    /// The level of that number; `None` above 9.
    pub(crate) fn new(number: usize) -> Option<Self> {
        u8::try_from(number).ok().filter(|number| *number <= 9).map(Self)
    }

    /// Its number.
    pub(crate) fn number(self) -> u8 {
        self.0
    }
}

/// An LTX file in a vault, from its listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Stored {
    pub(crate) level: Level,
    pub(crate) min: Txid,
    pub(crate) max: Txid,
    pub(crate) size: u64,
}

impl Stored {
    /// The parts of its name. They differ from those of every other file of the vault.
    pub(crate) fn key_parts(&self) -> (u8, Txid, Txid) {
        (self.level.0, self.min, self.max)
    }

    /// Its level and name, for messages.
    pub(crate) fn name(&self) -> String {
        format!("{}/{}", self.level.0, FileName { min: self.min, max: self.max })
    }

    /// Its key.
    pub(crate) fn key(&self, layout: Layout) -> ObjectKey {
        file_key(layout, self.level, self.min, self.max)
    }
}

/// Key of the LTX file that holds `min` to `max` at `level`.
pub(crate) fn file_key(layout: Layout, level: Level, min: Txid, max: Txid) -> ObjectKey {
    let name = FileName { min, max };
    key(match layout {
        Layout::Files => format!("ltx/{}/{name}", level.number()),
        Layout::Objects => format!("{:04x}/{name}", level.number()),
    })
}

/// The prefix of all keys of `level`.
pub(crate) fn level_prefix(layout: Layout, level: Level) -> String {
    match layout {
        Layout::Files => format!("ltx/{}/", level.number()),
        Layout::Objects => format!("{:04x}/", level.number()),
    }
}

/// The folder that holds all levels, and a key in it that sorts before theirs.
pub(crate) fn all_levels(layout: Layout) -> (&'static str, Option<ObjectKey>) {
    match layout {
        Layout::Files => ("ltx/", None),
        Layout::Objects => ("", Some(key("0000".to_owned()))),
    }
}

/// The levels that a listing in the order of keys, which came to `last`, hasn't seen to their ends, each with the key after
/// which it goes on.
pub(crate) fn levels_left(layout: Layout, last: &ObjectKey) -> Vec<(Level, Option<ObjectKey>)> {
    let left = |level: Level| {
        let prefix = level_prefix(layout, level);
        match last.as_str() {
            last_key if last_key.starts_with(&prefix) => Some((level, Some(last.clone()))),
            last_key if *last_key < *prefix => Some((level, None)),
            _ => None,
        }
    };
    Level::all().filter_map(left).collect()
}

/// The file under `key`, if the key names an LTX file of ours or of Litestream's. Other keys are ignored (I11).
pub(crate) fn parse_key(layout: Layout, key: &str, size: u64) -> Option<Stored> {
    let (directory, name) = key.rsplit_once('/')?;
    let level = Level::all().find(|level| level_prefix(layout, *level).strip_suffix('/') == Some(directory))?;
    let FileName { min, max } = name.parse().ok()?;
    (min <= max && min.0 > 0).then_some(Stored { level, min, max, size })
}

/// The prefix of hole records.
pub(crate) const HOLES: &str = "seawall/holes/";

/// Key of the record of the hole that ends at `to`.
pub(crate) fn hole_key(to: Txid) -> ObjectKey {
    key(format!("{HOLES}{to}.json"))
}

/// The prefix of pinned points.
pub(crate) const PINS: &str = "seawall/pins/";

/// The prefix of the marks that say up to which point history was thinned out.
pub(crate) const FLOORS: &str = "seawall/floors/";

/// The prefix of the records of times whose moments can't be trusted.
pub(crate) const CLOCKS: &str = "seawall/clocks/";

/// The prefix of the digests of whole databases.
pub(crate) const SUMS: &str = "seawall/sums/";

/// Whether an object of this name is a record of a hole or of a clock, or a digest of a whole database. These hold no content, and a
/// running host reads them long after it wrote them.
pub fn is_record(key: &ObjectKey) -> bool {
    [HOLES, CLOCKS, SUMS].iter().any(|prefix| key.as_str().starts_with(prefix))
}

/// The prefix of digests that had no room beside their objects.
const DIGESTS: &str = "seawall/digests/";

/// The key of a file's digest. It doesn't end in the file's extension, so that a search for databases by name doesn't
/// find it.
pub(crate) fn digest_key(file: &Stored) -> ObjectKey {
    key(format!("{DIGESTS}{}/{}-{}.json", file.level.number(), file.min, file.max))
}

/// Key of the mark at `txid` below `prefix`.
pub(crate) fn mark_key(prefix: &str, txid: Txid) -> ObjectKey {
    key(format!("{prefix}{txid}.json"))
}

/// The TXID of a mark below `prefix`; names that are none are ignored (I11).
pub(crate) fn parse_mark(prefix: &str, key: &str) -> Option<Txid> {
    let digits = key.strip_prefix(prefix)?.strip_suffix(".json")?;
    let txid: Txid = digits.parse().ok()?;
    (txid.to_string() == digits).then_some(txid)
}

fn key(text: String) -> ObjectKey {
    ObjectKey::new(text).expect("made of fixed words and hex digits")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn txid(n: u64) -> Txid {
        Txid(n)
    }

    #[test]
    fn keys_and_back() {
        for (layout, level, text) in [
            (Layout::Files, Level::LOG, "ltx/0/0000000000000003-00000000000000ff.ltx"),
            (Layout::Files, Level::BASE, "ltx/9/0000000000000003-00000000000000ff.ltx"),
            (Layout::Objects, Level::LOG, "0000/0000000000000003-00000000000000ff.ltx"),
            (Layout::Objects, Level::BASE, "0009/0000000000000003-00000000000000ff.ltx"),
        ] {
            let key = file_key(layout, level, txid(3), txid(255));
            assert_eq!(key.as_str(), text);
            assert!(text.starts_with(&level_prefix(layout, level)));
            assert_eq!(parse_key(layout, text, 7), Some(Stored { level, min: txid(3), max: txid(255), size: 7 }));
        }
    }

    #[test]
    fn what_a_listing_has_left() {
        let left = |layout, last: &str| -> Vec<(u8, bool)> {
            let left = levels_left(layout, &key(last.to_owned()));
            left.into_iter().map(|(level, after)| (level.number(), after.is_some())).collect()
        };
        let from = |first: u8, goes_on: bool| (first..=9).map(|n| (n, goes_on && n == first)).collect::<Vec<_>>();
        for (layout, last, expected) in [
            (Layout::Objects, "0000/0000000000000003-00000000000000ff.ltx", from(0, true)),
            (Layout::Objects, "0007/x", from(7, true)),
            (Layout::Objects, "0007-x/y", from(7, false)),
            (Layout::Objects, "00070", from(8, false)),
            (Layout::Objects, "0009/x", from(9, true)),
            (Layout::Objects, "000a/x", Vec::new()),
            (Layout::Objects, "seawall/holes/x.json", Vec::new()),
            (Layout::Files, "ltx/3/x", from(3, true)),
            (Layout::Files, "ltx/9/x", from(9, true)),
            (Layout::Files, "ltx/other", Vec::new()),
        ] {
            assert_eq!(left(layout, last), expected, "{last}");
        }
        let (folder, before) = all_levels(Layout::Objects);
        assert_eq!(left(Layout::Objects, before.expect("a key").as_str()), from(0, false));
        assert_eq!(folder, "");
    }

    #[test]
    fn marks_and_what_is_none() {
        let key = mark_key(PINS, txid(255));
        assert_eq!(key.as_str(), "seawall/pins/00000000000000ff.json");
        assert_eq!(parse_mark(PINS, key.as_str()), Some(txid(255)));
        for other in ["seawall/pins/00000000000000FF.json", "seawall/pins/ff.json", "seawall/pins/.json", "x"] {
            assert_eq!(parse_mark(PINS, other), None, "{other}");
        }
    }

    #[test]
    fn foreign_keys_are_ignored() {
        for key in [
            "ltx/0/0000000000000003-0000000000000003.ltx.tmp",
            "ltx/0/0000000000000003-00000000000000FF.ltx",
            "ltx/0/0000000000000004-0000000000000003.ltx",
            "ltx/0/0000000000000000-0000000000000003.ltx",
            "ltx/10/0000000000000003-0000000000000003.ltx",
            "ltx/00/0000000000000003-0000000000000003.ltx",
            "0000/0000000000000003-0000000000000003.ltx",
            "seawall/holes/0000000000000003.json",
            "x",
            "",
        ] {
            assert_eq!(parse_key(Layout::Files, key, 1), None, "{key}");
        }
    }
}
