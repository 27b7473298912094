//! Which key holds what: the names below a vault's prefix.
//!
//! The names are Litestream's, so that either program reads the other's replica: `ltx/<level>/<min>-<max>.ltx` on
//! stores with folders, `<level as four hex digits>/<min>-<max>.ltx` on object stores. Our own objects stand
//! under `seawall/`, which Litestream never lists.

use seawall_ltx::{FileName, Txid};
use seawall_vault::{Layout, ObjectKey};

/// A level of a replica: 0 holds captures, 9 complete copies, those between what compaction made.
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

    /// Its number.
    pub(crate) fn number(self) -> u8 {
        self.0
    }
}

/// An LTX file in a vault, as its listing tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) level: Level,
    pub(crate) min: Txid,
    pub(crate) max: Txid,
    pub(crate) size: u64,
}

impl Stored {
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

/// The prefix under which all keys of `level` stand.
pub(crate) fn level_prefix(layout: Layout, level: Level) -> String {
    match layout {
        Layout::Files => format!("ltx/{}/", level.number()),
        Layout::Objects => format!("{:04x}/", level.number()),
    }
}

/// What stands under `key`, if it is an LTX file of ours or of Litestream's; anything else is ignored (I11).
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
