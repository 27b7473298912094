//! Did something other than a checkpoint write to the database file?
//!
//! In WAL mode only checkpoints write to the database file, and the wal-index counts what they copied. A program that puts a
//! backup back into the same file (`dd`, `rsync --inplace`, `cp`) leaves no trace in the WAL: later captures would go on from
//! a base that isn't in the file any more. So a file that looks different from outside, without a checkpoint since, doesn't
//! have the captured content.
//!
//! The counts last as long as the wal-index, which ends with its last user. So they explain a change only while this process
//! held the wal-index. Between two openings, and since the state record was written, any change is another program's.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;

use serde::{Deserialize, Serialize};

use crate::files::FileIdentity;
use crate::identity::WalPosition;
use crate::wal::{HEADER_SIZE, Salts};

/// How far checkpoints got, by the wal-index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Copying {
    pub(crate) salts: Salts,
    /// Committed frames.
    pub(crate) frames: u32,
    /// Frames that checkpoints have copied.
    pub(crate) copied: u32,
    /// Frames that the last checkpoint was to copy. During a checkpoint, and after one that failed, there are more of them than
    /// copied frames.
    pub(crate) attempted: u32,
}

/// The file's metadata and its change counter. Mode and owner don't matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Outside {
    file: FileIdentity,
    size: u64,
    modified: FileTime,
    /// SQLite's change counter, at byte 24 of the file.
    counter: u32,
}

impl Outside {
    pub(crate) fn of(metadata: &Metadata, counter: u32) -> Self {
        Self {
            file: FileIdentity::of(metadata),
            size: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            counter,
        }
    }
}

/// By how many seconds a file system may tell the time of a write late.
const LATE: i64 = 10;

/// The longest that times from another clock are waited for, in seconds.
const LATEST: i64 = 3600;

/// Seconds and nanoseconds since 1970, as files have them.
pub(crate) type FileTime = (i64, i64);

/// Whose clock gives a file its times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Times {
    /// This machine's.
    Own,
    /// Another machine's, which may give them some time after a write: a network mount.
    Foreign,
}

/// One look at the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sight {
    pub(crate) outside: Outside,
    /// `None` during a checkpoint: its writes can't be told from another program's writes.
    pub(crate) copying: Option<Copying>,
    pub(crate) at: FileTime,
    pub(crate) times: Times,
}

/// What the state record keeps from one process to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Noted {
    /// The file when only checkpoints had written to it; `None` where it was never seen at rest.
    seen: Option<Outside>,
    /// Whether another program has written to it, and no base was taken since.
    overwritten: bool,
}

/// The file at one moment, while no checkpoint was under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    outside: Outside,
    /// `None` if those counts can't be compared with the present ones.
    copying: Option<Copying>,
    looked: FileTime,
}

impl Mark {
    /// Of a file at rest.
    fn of(sight: &Sight) -> Option<Self> {
        sight.copying.map(|copying| Self { outside: sight.outside, copying: Some(copying), looked: sight.at })
    }
}

/// What is known of the file from one look to the next.
#[derive(Debug)]
pub(crate) struct Untouched {
    mark: Option<Mark>,
    /// The file when a base of it was begun.
    base: Option<Mark>,
    overwritten: bool,
    /// What the state record of an earlier process says, until the file is opened.
    earlier: Option<Noted>,
    /// What the state record says.
    recorded: Option<Noted>,
    /// When the counts were last seen to have changed.
    counted: Option<FileTime>,
    /// For how many seconds after that times of a foreign clock are waited for.
    patience: i64,
}

impl Default for Untouched {
    fn default() -> Self {
        let (mark, base, counted) = (None, None, None);
        Self { mark, base, overwritten: false, earlier: None, recorded: None, counted, patience: LATE }
    }
}

impl Untouched {
    /// What an earlier process noted, for the next opening.
    pub(crate) fn remember(&mut self, noted: Option<Noted>) {
        // What this process wrote there itself, or read before, is no newer than what it knows.
        if self.recorded != noted || self.mark.is_none() {
            (self.earlier, self.recorded) = (noted, noted);
        }
    }

    /// The file was opened. Unless this process `held` the wal-index until then, the wal-index may be a rebuilt one.
    pub(crate) fn open(&mut self, held: bool) {
        let earlier = self.earlier.take();
        if held {
            return;
        }
        if let Some(Noted { seen, overwritten }) = earlier {
            self.mark = seen.map(|outside| Mark { outside, copying: None, looked: outside.modified });
            self.overwritten |= overwritten;
        }
        self.mark = self.mark.map(|mark| Mark { copying: None, ..mark });
        self.base = None;
    }

    /// The facts to record for a later process.
    pub(crate) fn noted(&self) -> Noted {
        let known = Noted { seen: self.mark.map(|mark| mark.outside), overwritten: self.overwritten };
        self.earlier.unwrap_or(known)
    }

    /// The state record says this now.
    pub(crate) fn is_recorded(&mut self, noted: Noted) {
        self.recorded = Some(noted);
    }

    /// Whether the state record holds the facts for a later process.
    pub(crate) fn was_recorded(&self) -> bool {
        self.recorded == Some(self.noted())
    }

    /// Takes note of the file as it is now. `frame` is the size of a frame in bytes.
    pub(crate) fn look(&mut self, sight: &Sight, captured: Option<&WalPosition>, frame: u64) {
        if self.overwritten {
            return;
        }
        let now = Mark::of(sight);
        let Some(before) = self.mark else {
            self.mark = now;
            return;
        };
        let counts = (before.copying, sight.copying);
        if let (Some(known), Some(found)) = counts
            && known != found
        {
            self.counted = Some(sight.at);
        }
        let explained = match counts {
            (Some(known), Some(found)) => is_explained(&known, &found, captured, frame),
            (Some(_), None) => true,
            (None, _) => false,
        };
        let explained = explained && before.outside.file == sight.outside.file;
        if explained || !self.is_another(&before, sight) {
            self.mark = now.or(self.mark);
            return;
        }
        self.overwritten = true;
        if sight.times == Times::Foreign {
            self.patience = (self.patience * 2).min(LATEST);
        }
    }

    /// Whether the file differs from before, and not only because the file system reported a time late.
    fn is_another(&self, before: &Mark, sight: &Sight) -> bool {
        let (was, is) = (before.outside, sight.outside);
        let same_but_times = was == Outside { modified: was.modified, ..is };
        if !same_but_times || was.modified == is.modified || before.copying.is_none() {
            return was != is;
        }
        let late = match sight.times {
            // A time from before the last look belongs to a write that the look has seen.
            Times::Own => {
                let oldest = was.modified.max((before.looked.0 - LATE, before.looked.1));
                (oldest..=before.looked).contains(&is.modified)
            }
            Times::Foreign => self.counted.is_some_and(|counted| sight.at.0 - counted.0 <= self.patience),
        };
        !late
    }

    /// Accepts the file as the one that was noted before it was opened: a checkpoint of ours explains the change.
    pub(crate) fn excuse(&mut self, sight: &Sight) {
        let Some(mark) = self.mark.filter(|mark| mark.copying.is_none() && mark.outside.file == sight.outside.file)
        else {
            return;
        };
        self.mark = Mark::of(sight).or(Some(Mark { outside: sight.outside, ..mark }));
    }

    /// Notes the state of the file: a base of it begins now.
    pub(crate) fn begin_base(&mut self, sight: &Sight) {
        self.base = Mark::of(sight);
    }

    /// A base was captured. Its content is the file as it was when the base began.
    pub(crate) fn end_base(&mut self) {
        self.mark = self.base.take();
        self.overwritten = false;
    }

    /// The next content of the file comes from another program.
    pub(crate) fn doubt(&mut self) {
        self.overwritten = true;
    }

    /// Whether the content of the file isn't the captured one.
    pub(crate) fn is_overwritten(&self) -> bool {
        self.overwritten
    }
}

/// Whether checkpoints between two looks explain that the file changed. `frame` is the size of a frame in bytes.
fn is_explained(before: &Copying, now: &Copying, captured: Option<&WalPosition>, frame: u64) -> bool {
    if before.salts == now.salts {
        // Counts that went back belong to a rebuilt wal-index, and explain nothing.
        return now.copied > before.copied || now.copied == before.copied && now.attempted != before.attempted;
    }
    // There was nothing to copy if all of this holds: the WAL was restarted once, no frame of the new generation was copied,
    // and all frames of the old one had been copied before.
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
        Outside { file: FileIdentity { device: 1, inode: 2 }, size: 4096, modified: (time, 0), counter: 7 }
    }

    fn copying(salt: u32, frames: u32, copied: u32, attempted: u32) -> Option<Copying> {
        Some(Copying { salts: Salts(salt, 9), frames, copied, attempted })
    }

    fn captured(salt: u32, frames: u64) -> WalPosition {
        WalPosition { salts: Salts(salt, 9), offset: HEADER_SIZE + frames * FRAME, chain: None }
    }

    fn sight(outside: Outside, copying: Option<Copying>, at: i64) -> Sight {
        Sight { outside, copying, at: (at, 0), times: Times::Own }
    }

    /// A file that was looked at.
    fn seen(sight: &Sight) -> Untouched {
        let mut file = Untouched::default();
        file.look(sight, Some(&captured(1, 5)), FRAME);
        file
    }

    #[test]
    fn only_checkpoints_explain_a_change() {
        let all = copying(1, 5, 5, 5);
        for (what, before, now, at, expected) in [
            ("nothing was copied", all, all, captured(1, 5), true),
            ("frames came, and none was copied", all, copying(1, 7, 5, 5), captured(1, 7), true),
            ("frames were copied", copying(1, 7, 5, 5), copying(1, 7, 7, 7), captured(1, 7), false),
            ("a checkpoint failed", copying(1, 7, 5, 5), copying(1, 7, 5, 7), captured(1, 7), false),
            ("nothing since one failed", copying(1, 7, 5, 7), copying(1, 7, 5, 7), captured(1, 7), true),
            ("the wal-index was made anew", copying(1, 7, 5, 5), copying(1, 7, 0, 7), captured(1, 7), true),
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
            file.look(&sight(outside(1), before, 2), Some(&at), FRAME);
            file.look(&sight(outside(3), now, 4), Some(&at), FRAME);
            assert_eq!(file.is_overwritten(), expected, "{what}");
        }
    }

    #[test]
    fn a_checkpoint_that_was_under_way_hides_nothing_once_it_is_over() {
        let (all, at) = (copying(1, 5, 5, 5), captured(1, 5));
        for (counts, expected) in [(all, true), (copying(1, 7, 7, 7), false)] {
            let mut file = seen(&sight(outside(1), all, 2));
            file.look(&sight(outside(3), None, 4), Some(&at), FRAME);
            file.look(&sight(outside(3), counts, 4), Some(&at), FRAME);
            assert_eq!(file.is_overwritten(), expected);
        }
    }

    #[test]
    fn a_time_that_is_told_late_is_no_change_and_an_older_one_is() {
        let (all, at) = (copying(1, 5, 5, 5), captured(1, 5));
        for (time, expected) in [(10, false), (11, false), (12, false), (13, true), (9, true)] {
            let mut file = seen(&sight(outside(10), all, 12));
            file.look(&sight(outside(time), all, 20), Some(&at), FRAME);
            assert_eq!(file.is_overwritten(), expected, "{time}");
        }
        for changed in [
            Outside { size: 8192, ..outside(11) },
            Outside { counter: 8, ..outside(10) },
            Outside { file: FileIdentity { device: 1, inode: 3 }, ..outside(10) },
        ] {
            let mut file = seen(&sight(outside(10), all, 12));
            file.look(&sight(changed, all, 20), Some(&at), FRAME);
            assert!(file.is_overwritten(), "{changed:?}");
        }
    }

    #[test]
    fn a_base_is_of_the_file_as_it_was_when_the_base_began() {
        let (all, at) = (copying(1, 5, 5, 5), captured(1, 5));
        for (time, expected) in [(3, false), (7, true)] {
            let mut file = seen(&sight(outside(1), all, 2));
            file.look(&sight(outside(3), all, 4), Some(&at), FRAME);
            assert!(file.is_overwritten());
            file.begin_base(&sight(outside(3), all, 5));
            assert!(file.is_overwritten(), "until the base is in the vault");
            file.end_base();
            assert!(!file.is_overwritten());
            file.look(&sight(outside(time), all, 8), Some(&at), FRAME);
            assert_eq!(file.is_overwritten(), expected, "{time}");
        }
    }

    #[test]
    fn counts_of_another_life_of_the_index_explain_nothing() {
        let (all, more, at) = (copying(1, 7, 5, 5), copying(1, 7, 7, 7), captured(1, 7));
        for (what, time, now, held, expected) in [
            ("as it was", 1, all, false, false),
            ("copied, as far as the counts tell", 3, more, false, true),
            ("a checkpoint is under way", 3, None, false, true),
            ("copied while the index was held", 3, more, true, false),
            ("written to while the index was held", 3, all, true, true),
        ] {
            let mut file = seen(&sight(outside(1), all, 2));
            let noted = file.noted();
            file.open(held);
            file.look(&sight(outside(time), now, 4), Some(&at), FRAME);
            assert_eq!(file.is_overwritten(), expected, "{what}");
            // Another process knows the same by the record.
            let mut file = Untouched::default();
            file.remember(Some(noted));
            assert_eq!(file.noted(), noted, "before it is opened");
            file.open(false);
            file.look(&sight(outside(time), now, 4), Some(&at), FRAME);
            assert_eq!(file.is_overwritten(), expected || held && time == 3, "{what}");
            assert_eq!(file.noted().overwritten, file.is_overwritten(), "{what}");
        }
    }

    #[test]
    fn what_was_noticed_is_remembered_until_a_base_was_taken() {
        let (all, at) = (copying(1, 5, 5, 5), captured(1, 5));
        let mut file = seen(&sight(outside(1), all, 2));
        file.look(&sight(outside(3), all, 4), Some(&at), FRAME);
        let mut later = Untouched::default();
        later.remember(Some(file.noted()));
        later.open(false);
        assert!(later.is_overwritten());
        later.begin_base(&sight(outside(3), all, 5));
        later.end_base();
        assert_eq!(later.noted(), Noted { seen: Some(outside(3)), overwritten: false });
    }

    /// A mount whose times come from another clock, and some time after each checkpoint.
    #[test]
    fn times_of_another_clock_make_a_few_bases_at_most() {
        let at = captured(1, 5);
        for (late, most) in [(0, 0), (9, 0), (15, 1), (45, 3), (200, 5)] {
            let (mut file, mut bases) = (Untouched::default(), 0);
            for round in 0..100 {
                let (began, counts) = (i64::from(round) * 300, copying(1, 1000, round, round));
                for second in 0..300 {
                    // An hour ahead, and told when it is told.
                    let time = if second < late { (began - 300).max(0) } else { began } + 3600;
                    let sight = Sight { times: Times::Foreign, ..sight(outside(time), counts, began + second) };
                    file.look(&sight, Some(&at), FRAME);
                    if file.is_overwritten() {
                        bases += 1;
                        file.begin_base(&sight);
                        file.end_base();
                    }
                }
            }
            assert_eq!(bases, most, "{late} s late");
        }
        // What changes more than times is no late time, and neither is what comes later.
        for (now, wait, expected) in
            [(outside(9), 5, false), (outside(9), 11, true), (Outside { size: 1, ..outside(9) }, 5, true)]
        {
            let mut file = Untouched::default();
            for (outside, copied, when) in [(outside(1), 4, 100), (outside(1), 5, 200), (now, 5, 200 + wait)] {
                let sight = sight(outside, copying(1, 5, copied, copied), when);
                file.look(&Sight { times: Times::Foreign, ..sight }, Some(&at), FRAME);
            }
            assert_eq!(file.is_overwritten(), expected, "{now:?} after {wait} s");
        }
    }
}
