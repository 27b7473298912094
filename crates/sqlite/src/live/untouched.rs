//! Did something other than a checkpoint write to the database file?
//!
//! In WAL mode only checkpoints write to the database file, and the wal-index counts what they copied. A program that puts a
//! backup back into the same file (`dd`, `rsync --inplace`, `cp`) leaves no trace in the WAL: later captures would go on from
//! a base that isn't in the file any more. So a size or a time of change that differs, without a checkpoint since, means that
//! the content isn't the captured one.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;

use crate::identity::WalPosition;
use crate::wal::{HEADER_SIZE, Salts};

/// What the wal-index says of checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Copying {
    pub(crate) salts: Salts,
    /// Committed frames.
    pub(crate) frames: u32,
    /// Frames that checkpoints have copied.
    pub(crate) copied: u32,
    /// Frames that the last checkpoint was to copy. While a checkpoint is under way, or after one that failed, they are more
    /// than were copied.
    pub(crate) attempted: u32,
}

/// Size and time of change of the file. Its mode and owner don't matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outside {
    size: u64,
    modified: FileTime,
}

impl Outside {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self { size: metadata.len(), modified: (metadata.mtime(), metadata.mtime_nsec()) }
    }
}

/// By how many seconds a file system may tell the time of a write late.
const LATE: i64 = 10;

/// Seconds and nanoseconds since 1970, as files have them.
pub(crate) type FileTime = (i64, i64);

/// The file and its checkpoints at one moment, while no checkpoint was under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    outside: Outside,
    copying: Copying,
    looked: FileTime,
}

/// What is known of the file from one look to the next.
#[derive(Debug, Default)]
pub(crate) struct Untouched {
    mark: Option<Mark>,
    /// The file when a base of it was begun.
    base: Option<Mark>,
    overwritten: bool,
}

impl Untouched {
    /// Takes note of the file as it is at `looked`. `copying` is `None` while checkpoints can't be told from other writers;
    /// `frame` is the size of a frame in bytes.
    pub(crate) fn look(
        &mut self,
        outside: Outside,
        copying: Option<Copying>,
        looked: FileTime,
        captured: Option<&WalPosition>,
        frame: u64,
    ) {
        let now = at_rest(outside, copying, looked);
        let (Some(before), Some(after)) = (self.mark, now) else {
            self.mark = now;
            return;
        };
        // Some file systems tell the time of a write late: one from before the last look isn't news.
        let oldest = before.outside.modified.max((before.looked.0 - LATE, before.looked.1));
        let late = (oldest..=before.looked).contains(&outside.modified);
        let changed = before.outside != outside && !late;
        if changed && !is_explained(&before.copying, &after.copying, captured, frame) {
            self.overwritten = true;
            return;
        }
        self.mark = now;
    }

    /// Takes note of the file of which a base begins now.
    pub(crate) fn begin_base(&mut self, outside: Outside, copying: Option<Copying>, looked: FileTime) {
        self.base = at_rest(outside, copying, looked);
    }

    /// A base was captured: its content is that of the file as it was when the base began.
    pub(crate) fn end_base(&mut self) {
        *self = Self { mark: self.base, ..Self::default() };
    }

    /// Whether the content of the file isn't the captured one.
    pub(crate) fn is_overwritten(&self) -> bool {
        self.overwritten
    }
}

fn at_rest(outside: Outside, copying: Option<Copying>, looked: FileTime) -> Option<Mark> {
    let copying = copying.filter(|copying| copying.attempted <= copying.copied)?;
    Some(Mark { outside, copying, looked })
}

/// Whether checkpoints between two looks explain that the file changed. `frame` is the size of a frame in bytes.
fn is_explained(before: &Copying, now: &Copying, captured: Option<&WalPosition>, frame: u64) -> bool {
    if before.salts == now.salts {
        return (before.copied, before.attempted) != (now.copied, now.attempted);
    }
    // The WAL was restarted once, nothing of the new generation was copied, and the former one got no frame that wasn't
    // copied before: there was nothing to copy.
    let end = HEADER_SIZE + u64::from(before.frames) * frame;
    let ended = captured.is_some_and(|wal| wal.salts == before.salts && wal.offset == end);
    let once = before.salts.0.wrapping_add(1) == now.salts.0;
    !(once && ended && before.copied == before.frames && (now.copied, now.attempted) == (0, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: u64 = 4120;

    fn outside(time: i64) -> Outside {
        Outside { size: 4096, modified: (time, 0) }
    }

    fn copying(salt: u32, frames: u32, copied: u32, attempted: u32) -> Option<Copying> {
        Some(Copying { salts: Salts(salt, 9), frames, copied, attempted })
    }

    fn captured(salt: u32, frames: u64) -> WalPosition {
        WalPosition { salts: Salts(salt, 9), offset: HEADER_SIZE + frames * FRAME, chain: None }
    }

    #[test]
    fn only_checkpoints_explain_a_change() {
        let all = copying(1, 5, 5, 5);
        for (what, before, now, at, expected) in [
            ("nothing was copied", all, all, captured(1, 5), true),
            ("frames came, and none was copied", all, copying(1, 7, 5, 5), captured(1, 7), true),
            ("frames were copied", copying(1, 7, 5, 5), copying(1, 7, 7, 7), captured(1, 7), false),
            ("a checkpoint is under way", copying(1, 7, 5, 5), copying(1, 7, 5, 7), captured(1, 7), false),
            ("it can't be told", all, None, captured(1, 5), false),
            ("a restart with nothing to copy", all, copying(2, 3, 0, 0), captured(1, 5), true),
            ("a restart of an empty generation", copying(1, 0, 0, 0), copying(2, 3, 0, 0), captured(1, 0), true),
            ("a restart behind frames that came since", all, copying(2, 3, 0, 0), captured(1, 6), false),
            (
                "a restart of a generation that wasn't copied",
                copying(1, 5, 4, 4),
                copying(2, 3, 0, 0),
                captured(1, 5),
                false,
            ),
            ("a restart, and copied since", all, copying(2, 3, 3, 3), captured(1, 5), false),
            ("two restarts", all, copying(3, 3, 0, 0), captured(1, 5), false),
        ] {
            let mut file = Untouched::default();
            file.look(outside(1), before, (2, 0), Some(&at), FRAME);
            file.look(outside(3), now, (4, 0), Some(&at), FRAME);
            assert_eq!(file.is_overwritten(), expected, "{what}");
        }
    }

    #[test]
    fn a_time_that_is_told_late_is_no_change_and_an_older_one_is() {
        let (all, at) = (copying(1, 5, 5, 5), captured(1, 5));
        for (time, expected) in [(10, false), (11, false), (12, false), (13, true), (9, true)] {
            let mut file = Untouched::default();
            file.look(outside(10), all, (12, 0), Some(&at), FRAME);
            file.look(outside(time), all, (20, 0), Some(&at), FRAME);
            assert_eq!(file.is_overwritten(), expected, "{time}");
        }
    }

    #[test]
    fn a_base_is_of_the_file_as_it_was_when_the_base_began() {
        let (all, at) = (copying(1, 5, 5, 5), captured(1, 5));
        for (time, expected) in [(3, false), (7, true)] {
            let mut file = Untouched::default();
            file.look(outside(1), all, (2, 0), Some(&at), FRAME);
            file.look(outside(3), all, (4, 0), Some(&at), FRAME);
            assert!(file.is_overwritten());
            file.begin_base(outside(3), all, (5, 0));
            assert!(file.is_overwritten(), "until the base is in the vault");
            file.end_base();
            assert!(!file.is_overwritten());
            file.look(outside(time), all, (8, 0), Some(&at), FRAME);
            assert_eq!(file.is_overwritten(), expected, "{time}");
        }
    }
}
