//! What can be restored: points, their timeline, and the holes in the timeline.

use serde::{Deserialize, Serialize};

use crate::{Moment, Proof};

/// A moment that a database can be restored to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// The position in the engine's own notation: a TXID of 16 hex digits for SQLite.
    pub position: String,
    /// When the newest change in it was captured.
    pub moment: Moment,
}

/// An unbroken stretch of points; every point listed by the engine between its ends can be restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// The oldest point.
    pub from: Point,
    /// The newest point.
    pub to: Point,
    /// How many distinct points the stretch holds, both ends included.
    pub points: u64,
}

/// A stretch that can't be restored (I3): Seawall never saw the changes between `from` and `to`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hole {
    /// The last point before the hole; `None` when nothing before it is left.
    pub from: Option<Point>,
    /// The first point after it.
    pub to: Point,
    /// Why the changes in between are unknown, in one sentence.
    pub reason: String,
    /// Whether a restore with Seawall is the reason: then its user expects the hole.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub restored: bool,
}

/// How many objects and bytes one level of a vault holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LevelSummary {
    /// The engine's name of the level (`0` to `9` for SQLite).
    pub level: String,
    /// Number of objects.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A note on a point that differs from the others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// The point's position.
    pub position: String,
    /// How the point differs, for people.
    pub note: String,
}

/// All points of a database as ranges, with the holes between them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Timeline {
    /// Stretches that can be restored, oldest first.
    pub spans: Vec<Span>,
    /// Stretches that can't be restored, oldest first.
    pub holes: Vec<Hole>,
    /// Objects and bytes by level.
    pub levels: Vec<LevelSummary>,
    /// Positions of pinned points: retention doesn't delete the objects that they need.
    #[serde(default)]
    pub pins: Vec<String>,
    /// Notes on points that differ from the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
    /// The newest proofs that are recorded in the vault, newest first. An engine leaves this empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proofs: Vec<Proof>,
    /// What is wrong with records of proofs, each one sentence without a full stop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
}

impl Timeline {
    /// The newest point, if there is any.
    pub fn newest(&self) -> Option<&Point> {
        self.spans.last().map(|span| &span.to)
    }
}
