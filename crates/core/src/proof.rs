//! Proofs: restores that were really done and checked, and what is remembered of them.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Failure, Kind, Moment, Point, When};

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

/// Objects of a vault, each by a number that is made from its name and size.
pub type Fingerprints = BTreeSet<u128>;

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
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Proof {
    /// The database's name.
    pub database: String,
    /// The engine: `sqlite`.
    pub engine: String,
    /// When the proof ended.
    pub at: Moment,
    /// The point that was restored; `None` if the proof failed before it knew the point.
    pub point: Option<Point>,
    /// The level that was reached, no higher than the one that was asked for. The proof holds at this level if `faults` is
    /// empty; a doubt says why it isn't higher.
    pub level: Level,
    /// How long the restore took, without the checks after it, in milliseconds: the measured recovery time.
    pub restore_ms: u64,
    /// How long everything took, in milliseconds.
    pub duration_ms: u64,
    /// Objects that were read from the vault.
    pub objects: u64,
    /// Bytes that were read from the vault.
    pub read_bytes: u64,
    /// Bytes of objects that weren't compared with their digests, because another restore of this proof, or a recent proof, had done
    /// that.
    #[serde(default)]
    pub fresh_bytes: u64,
    /// Size of what was restored, in bytes.
    pub restored_bytes: u64,
    /// Other points of the timeline that were restored and checked in the same way. The time of the restore and the size
    /// are those of `point`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moments: Vec<Point>,
    /// Everything that is wrong. Empty is a proof; anything else is a failed one.
    pub faults: Vec<Fault>,
    /// Whether the proof couldn't be made, or was ended before it was done. Then its fault says why, and it says nothing
    /// about the vault's objects.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inconclusive: bool,
    /// Questions that the proof can't answer, each one sentence without a full stop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
    /// The host that made the proof.
    pub host: String,
    /// The vault that was restored from, without secrets, where the database has several: a proof says something of that vault alone. No
    /// record says it: the vault in which a record is does.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub vault: String,
}

impl Proof {
    /// Whether the restore was done and everything that was asked for is right.
    pub fn holds(&self) -> bool {
        self.faults.is_empty() && self.point.is_some() && !self.inconclusive
    }
}

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Self {
        Self { code: failure.code.to_owned(), object: failure.object, cause: failure.cause }
    }
}

/// What to prove, and where to restore it to.
#[derive(Debug, Clone)]
pub struct ProofRequest {
    /// The moment to restore.
    pub when: When,
    /// How thoroughly to check.
    pub level: Level,
    /// An empty folder that the caller removes afterwards.
    pub scratch: PathBuf,
    /// Bytes that must stay free on its disk.
    pub spare: u64,
    /// Objects that needn't be compared with their digests, because that was done not long ago. The restore reads them all the same.
    pub fresh: Arc<Fingerprints>,
    /// Whether a server that is started for the proof must be kept from our files, our environment and the network.
    pub isolated: bool,
}

impl ProofRequest {
    /// Refuses a restore of about `needed` bytes if the scratch folder's disk has only `free` bytes. `None` is a disk that
    /// doesn't tell.
    ///
    /// # Errors
    /// `proof.no-room`.
    pub fn admit(&self, free: Option<u64>, needed: u64) -> Result<(), Failure> {
        match free.filter(|free| *free < needed.saturating_add(self.spare)) {
            None => Ok(()),
            Some(free) => Err(self.no_room(match self.spare {
                0 => format!("about {needed} bytes are needed and {free} are free"),
                spare => format!("about {needed} bytes are needed, {free} are free, and {spare} must stay free"),
            })),
        }
    }

    /// The failure of a proof for which its disk has too little room.
    pub fn no_room(&self, cause: String) -> Failure {
        let next = "free some space, or name a folder on another disk with --scratch, or prove.scratch";
        Failure::new(Kind::Unavailable, "proof.no-room", self.scratch.display().to_string(), cause, next)
    }
}

/// What an engine found when it restored and checked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Checked {
    /// The point that was restored; `None` if the engine couldn't tell which point it would be.
    pub point: Option<Point>,
    /// How long the restore took, without the checks after it, in milliseconds.
    pub restore_ms: u64,
    /// Objects that the restore needs.
    pub objects: u64,
    /// Bytes that were read from the vault, also for the checks.
    pub read_bytes: u64,
    /// Size of what was restored, in bytes.
    pub restored_bytes: u64,
    /// Everything that is wrong.
    pub faults: Vec<Fault>,
    /// Questions that the checks can't answer, each one sentence without a full stop.
    pub doubts: Vec<String>,
    /// The highest level at which the vault's objects let the engine check. A doubt says why, where it isn't the highest.
    pub reachable: Level,
    /// Other points that were restored and checked as well.
    pub moments: Vec<Point>,
    /// Objects whose bytes were compared with their digests, and are right.
    pub compared: Fingerprints,
    /// Bytes of the objects that weren't compared, because they are fresh.
    pub fresh_bytes: u64,
}

impl Checked {
    /// Adds a fault, unless one with this code is known of this object.
    pub fn fault(&mut self, fault: Fault) {
        if !self.faults.iter().any(|known| known.object == fault.object && known.code == fault.code) {
            self.faults.push(fault);
        }
    }

    /// Adds what was found at another point. The time of the restore and the size stay those of the first.
    pub fn add(&mut self, other: Self) {
        let Self {
            point,
            restore_ms: _,
            objects,
            read_bytes,
            restored_bytes: _,
            faults,
            doubts,
            reachable,
            moments,
            compared,
            fresh_bytes,
        } = other;
        self.objects = self.objects.saturating_add(objects);
        self.read_bytes = self.read_bytes.saturating_add(read_bytes);
        self.fresh_bytes = self.fresh_bytes.saturating_add(fresh_bytes);
        self.compared.extend(compared);
        self.reachable = self.reachable.min(reachable);
        faults.into_iter().for_each(|fault| self.fault(fault));
        for doubt in doubts {
            if !self.doubts.contains(&doubt) {
                self.doubts.push(doubt);
            }
        }
        self.moments.extend(point);
        self.moments.extend(moments);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_room_is_refused() {
        let request = |spare| ProofRequest {
            when: When::Latest,
            level: Level::Content,
            scratch: "/scratch".into(),
            spare,
            fresh: Arc::default(),
            isolated: true,
        };
        for (free, needed, spare, refused) in [
            (None, 9, 0, false),
            (Some(9), 9, 0, false),
            (Some(8), 9, 0, true),
            (Some(0), 0, 0, false),
            (Some(10), 9, 1, false),
            (Some(9), 9, 1, true),
            (Some(9), u64::MAX, 1, true),
        ] {
            let found = request(spare).admit(free, needed).err();
            assert_eq!(found.is_some(), refused, "{free:?} {needed} {spare}");
            assert!(found.is_none_or(|failure| failure.code == "proof.no-room" && failure.object == "/scratch"));
        }
    }

    #[test]
    fn another_point_adds_what_was_found_there() {
        let fault = |object: &str| Fault { code: "x.y".into(), object: object.into(), cause: "it is cut".into() };
        let point = |position: &str| Point { position: position.into(), moment: Moment::from_millis(1) };
        let first = Checked {
            point: Some(point("2")),
            restore_ms: 5,
            objects: 2,
            restored_bytes: 9,
            faults: vec![fault("a")],
            doubts: vec!["d".into()],
            ..Checked::default()
        };
        let mut both = first.clone();
        both.add(Checked {
            point: Some(point("1")),
            restored_bytes: 4,
            reachable: Level::Engine,
            faults: vec![fault("a"), fault("b")],
            ..first.clone()
        });
        assert_eq!((both.point, both.restore_ms, both.restored_bytes), (first.point, 5, 9));
        assert_eq!((both.objects, both.reachable, both.moments), (4, Level::Engine, vec![point("1")]));
        assert_eq!((both.faults, both.doubts), (vec![fault("a"), fault("b")], first.doubts));
    }

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
