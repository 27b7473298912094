//! The position of a follower: its record, and the proof in the database itself.
//!
//! Each state that a follower makes has a mark. Its counter is in the database's own header, in the number by which
//! SQLite tells its readers of a change. Before a step, the record names the marks before and after it. A step happens
//! completely or not at all, so after a crash the counter tells whether it happened. Any other counter means that
//! another program wrote to the file.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use seawall_core::{Moment, Point};
use seawall_ltx::Txid;
use serde::{Deserialize, Serialize};

use crate::belonging::{Facts, Stretch};
use crate::error::Error;
use crate::identity::{Lineage, Nonce, Tag};
use crate::layout::{Level, Stored};
use crate::lock;
use crate::wal::Salts;

const FORMAT: u32 = 1;

/// A state of the database that a follower made, or is about to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    /// The point.
    #[serde(flatten)]
    pub(crate) point: Point,
    /// The counter in the database's header in that state.
    pub(crate) counter: u32,
    /// The facts that the next object must continue; `None` in a record of an older Seawall.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) end: Option<End>,
}

/// The facts of the newest object of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct End {
    lineage: Option<Lineage>,
    nonce: Option<Nonce>,
    tag: Option<Tag>,
    /// Salts and offset of the WAL.
    wal: Option<(u32, u32, u64)>,
}

impl Mark {
    /// The mark of the state that `newest` leaves. `random` must be another number for each.
    pub(crate) fn new(newest: &Facts, random: u64) -> Self {
        let moment = Moment::from_millis(newest.moment);
        // A complete copy of Litestream's has another WAL position than the one the next capture continues from.
        let told = newest.wal.filter(|_| newest.nonce.is_some() || newest.file.level == Level::LOG);
        let wal = told.map(|wal| (wal.salts.0, wal.salts.1, wal.end));
        let end = End { lineage: newest.lineage, nonce: newest.nonce, tag: newest.tag, wal };
        let point = Point { position: newest.file.max.to_string(), moment };
        Self { point, counter: (random >> 32) as u32, end: Some(end) }
    }

    /// The facts of the object that made this state, as far as `next` needs them.
    pub(crate) fn facts(&self, next: &Facts) -> Option<Facts> {
        let (txid, end) = (self.txid()?, self.end?);
        let wal = end.wal.map(|(one, two, end)| Stretch { salts: Salts(one, two), start: end, end });
        Some(Facts {
            file: Stored { level: Level::LOG, min: txid, max: txid, size: 0 },
            page_size: next.page_size,
            commit: next.commit,
            moment: self.point.moment.as_millis(),
            lineage: end.lineage,
            nonce: end.nonce,
            wal,
            follows: None,
            tag: end.tag,
            checksums: (None, None),
        })
    }

    /// Its TXID.
    pub(crate) fn txid(&self) -> Option<Txid> {
        self.point.position.parse().ok().filter(|txid: &Txid| txid.0 > 0)
    }
}

/// The record of a follower in its state directory; see `docs/formats.md`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FollowRecord {
    format: u32,
    /// The vault that is followed, without secrets.
    vault: String,
    /// The last state that was surely reached.
    reached: Option<Mark>,
    /// The state that was being made.
    next: Option<Mark>,
}

impl FollowRecord {
    /// Before a step from `reached`, if anything is there, to `next`.
    pub(crate) fn before(vault: &str, reached: Option<Mark>, next: Mark) -> Self {
        Self { format: FORMAT, vault: vault.to_owned(), reached, next: Some(next) }
    }

    /// Whether the record belongs to this vault.
    pub(crate) fn is_of(&self, vault: &str) -> bool {
        self.vault == vault
    }

    /// The state of a database with this counter; `None` if no follower made it.
    pub(crate) fn find(&self, counter: u32) -> Option<&Mark> {
        let known = [&self.next, &self.reached];
        known.into_iter().flatten().find(|mark| mark.counter == counter && mark.txid().is_some())
    }

    /// Reads the record of a state directory; `None` when there is none or it is damaged.
    pub(crate) fn load(state_dir: &Path) -> Result<Option<Self>, Error> {
        let path = path(state_dir);
        match fs::read(&path) {
            Ok(bytes) => Ok(Self::parse(&bytes)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Error::io(&path)(e)),
        }
    }

    /// Reads the text of a record.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok().filter(|record: &Self| record.format == FORMAT)
    }

    /// Writes the record, durably.
    pub(crate) fn save(&self, state_dir: &Path) -> Result<(), Error> {
        let path = path(state_dir);
        let bytes = serde_json::to_vec_pretty(self).map_err(|e| Error::Internal(e.to_string()))?;
        replace(&path, &bytes).map_err(Error::io(&path))
    }
}

/// Writes a small file as a whole, durably, for its owner alone.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".tmp");
    let partial = PathBuf::from(partial);
    let mut file = lock::private_file(&partial)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&partial, path)?;
    let folder = seawall_host::folder_of(path);
    File::open(folder)?.sync_all()
}

fn path(state_dir: &Path) -> PathBuf {
    state_dir.join("follow.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(txid: u64, counter: u32) -> Mark {
        Mark { point: Point { position: Txid(txid).to_string(), moment: Moment::from_millis(5) }, counter, end: None }
    }

    #[test]
    fn the_counter_tells_which_end_of_a_step_it_is() {
        let record = FollowRecord::before("v", Some(mark(7, 1)), mark(9, 2));
        for (counter, txid) in [(1, Some(Txid(7))), (2, Some(Txid(9))), (3, None)] {
            assert_eq!(record.find(counter).and_then(Mark::txid), txid, "{counter}");
        }
    }

    #[test]
    fn a_record_comes_back_and_damage_is_as_good_as_none() {
        let directory = tempfile::tempdir().expect("a folder");
        assert_eq!(FollowRecord::load(directory.path()).expect("read"), None);
        let record = FollowRecord::before("file:///vault", None, mark(9, u32::MAX));
        record.save(directory.path()).expect("saved");
        assert_eq!(FollowRecord::load(directory.path()).expect("read"), Some(record.clone()));
        assert!(record.is_of("file:///vault") && !record.is_of("file:///other"));
        for bytes in [&b""[..], b"{", br#"{"format":2,"vault":"v","reached":null,"next":null}"#] {
            fs::write(path(directory.path()), bytes).expect("written");
            assert_eq!(FollowRecord::load(directory.path()).expect("read"), None);
        }
    }
}
