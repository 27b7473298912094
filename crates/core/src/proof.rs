//! Proofs: restores that were really done and checked, and what is remembered of them.

use serde::{Deserialize, Serialize};

use crate::{Moment, Point};

/// How thoroughly a proof checks what it restored. A level includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Every object that the restore needs was read, and digests and chain are right.
    Bytes,
    /// The objects were decoded, and manifests and checksums are right.
    Structure,
    /// The database engine's own check accepts what was restored.
    Engine,
    /// What was restored equals what was recorded when it was taken.
    #[default]
    Content,
}

impl Level {
    /// Every level, from the weakest to the strongest.
    pub const ALL: [Self; 4] = [Self::Bytes, Self::Structure, Self::Engine, Self::Content];

    /// The level's name in configurations, arguments and documents; the same as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Structure => "structure",
            Self::Engine => "engine",
            Self::Content => "content",
        }
    }

    /// The level of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }
}

/// Something that a proof found wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Stable code.
    pub code: String,
    /// The object, file or table.
    pub object: String,
    /// What is wrong with it.
    pub cause: String,
}

/// The record of a restore that was really done and checked: an object in the vault, so that every host sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    /// The database's name.
    pub database: String,
    /// The engine: `sqlite`.
    pub engine: String,
    /// When the proof ended.
    pub at: Moment,
    /// The point that was restored; `None` if the proof failed before it knew the point.
    pub point: Option<Point>,
    /// The level that was asked for. The proof holds at this level if `faults` is empty.
    pub level: Level,
    /// How long the restore took, without the checks after it, in milliseconds: the measured recovery time.
    pub restore_ms: u64,
    /// How long everything took, in milliseconds.
    pub duration_ms: u64,
    /// Objects that were read from the vault.
    pub objects: u64,
    /// Bytes that were read from the vault.
    pub read_bytes: u64,
    /// Bytes that weren't read, because a recent proof had read the same objects.
    #[serde(default)]
    pub fresh_bytes: u64,
    /// Size of what was restored, in bytes.
    pub restored_bytes: u64,
    /// Everything that is wrong. Empty is a proof; anything else is a failed one.
    pub faults: Vec<Fault>,
    /// Questions that the proof can't answer, each one sentence without a full stop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
    /// The host that made the proof.
    pub host: String,
}

impl Proof {
    /// Whether the restore was done and everything that was asked for is right.
    pub fn holds(&self) -> bool {
        self.faults.is_empty() && self.point.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_one_name_everywhere() {
        for level in Level::ALL {
            assert_eq!(Level::parse(level.name()), Some(level));
            assert_eq!(serde_json::to_value(level).expect("JSON"), level.name());
        }
        assert_eq!(Level::parse("Content"), None);
        assert!(Level::Bytes < Level::Content);
    }
}
