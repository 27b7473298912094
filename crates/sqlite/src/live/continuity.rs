//! Does the WAL continue from the place that was captured last?
//!
//! One pure question, [`judge`]. If the continuation can't be proved, Seawall takes a new base at the next TXID, and the
//! commits that may have been missed in between become a hole (I3). I/O code gathers the facts and carries the verdict
//! out.

use crate::files::{FileIdentity, FileState};
use crate::identity::WalPosition;
use crate::resume::Break;
use crate::wal::{Chain, HEADER_SIZE, Salts, WalHeader};

/// The facts about the last capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Captured {
    pub(crate) wal: Option<WalPosition>,
    pub(crate) page_size: u32,
    /// `None` if the position comes only from the vault.
    pub(crate) file: Option<FileIdentity>,
    /// The state of the database file when there was no WAL, if it was at rest.
    pub(crate) state: Option<FileState>,
    /// Whether everything up to `wal` was captured and the read lock has been held without a break since. Only then a
    /// restart of the WAL can't have lost a commit. Never true for a position that was read from disk.
    pub(crate) held: bool,
}

/// The content of the WAL file where the next frame would be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// A frame with these salts.
    Frame(Salts),
    /// The file ends exactly there.
    End,
    /// The file ends before that place: it was cut, and its earlier content is unknown.
    Cut,
}

/// The facts about the files now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Observed {
    pub(crate) file: FileIdentity,
    /// Whether something other than a checkpoint has written to the file.
    pub(crate) overwritten: bool,
    pub(crate) state: FileState,
    pub(crate) page_size: u32,
    /// The WAL's header; `None` when there is no WAL or an empty one.
    pub(crate) header: Option<WalHeader>,
    /// Salts and chain of the frame that ends at the captured offset, as far as the file reaches.
    pub(crate) frame: Option<(Salts, Chain)>,
    /// The content after it.
    pub(crate) next: Next,
}

/// Does the WAL continue from the captured place?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Yes; read on from here.
    Continue { offset: u64, chain: Chain },
    /// Salts agree, but only a comparison of pages can prove the place (its header was written by another program).
    ComparePages,
    /// Nothing was written since.
    Idle,
    /// No: take a base.
    Base(Break),
}

/// Does the WAL continue from the last capture?
pub(crate) fn judge(captured: &Captured, now: &Observed) -> Verdict {
    if captured.file.is_some_and(|file| file != now.file) {
        return Verdict::Base(Break::Replaced);
    }
    if now.overwritten {
        // Only a process that held the WAL can tell a checkpoint's writes from another program's.
        return Verdict::Base(if captured.held { Break::Overwritten } else { Break::Written });
    }
    if captured.page_size != now.page_size {
        return Verdict::Base(Break::PageSize);
    }
    // There was no WAL and the file is unchanged. So all commits since are in the WAL's present generation: an earlier
    // generation would have been copied into the file.
    let untouched = captured.wal.is_none() && captured.state == Some(now.state);
    let Some(header) = now.header else {
        return if captured.held || untouched { Verdict::Idle } else { Verdict::Base(Break::WalGone) };
    };
    if header.page_size.get() != now.page_size {
        return Verdict::Base(Break::PageSize);
    }
    let from_start = Verdict::Continue { offset: HEADER_SIZE, chain: header.chain };
    let Some(wal) = captured.wal else {
        return if captured.held || untouched { from_start } else { Verdict::Base(Break::WalRestarted) };
    };
    if wal.salts != header.salts {
        // While the read lock is held, a generation that holds a frame can't be restarted. Empty generations can, any
        // number of times, when an application checkpoints without writing.
        let safe = captured.held || restarted_once_behind(&wal, &header, now);
        return if safe { from_start } else { Verdict::Base(Break::WalRestarted) };
    }
    if wal.offset <= HEADER_SIZE {
        return match wal.chain {
            Some(chain) if chain != header.chain => Verdict::Base(Break::WalRewound),
            _ => from_start,
        };
    }
    match (now.frame, wal.chain) {
        (Some((salts, chain)), Some(known)) if salts == wal.salts && chain == known => {
            Verdict::Continue { offset: wal.offset, chain }
        }
        (Some((salts, _)), None) if salts == wal.salts => Verdict::ComparePages,
        _ => Verdict::Base(Break::WalRewound),
    }
}

/// Whether the WAL was restarted exactly once, right after the captured place, while no read lock was held.
///
/// The first salt counts restarts. A new generation overwrites the file from its beginning. Until it reaches the last
/// captured frame, the file still shows where the old generation ended: if there was another frame of it after the
/// captured place, that frame is still there.
fn restarted_once_behind(wal: &WalPosition, header: &WalHeader, now: &Observed) -> bool {
    let once = wal.salts.0.wrapping_add(1) == header.salts.0;
    let intact = wal.chain.is_some() && now.frame == wal.chain.map(|chain| (wal.salts, chain));
    let ended = match now.next {
        Next::Frame(salts) => salts != wal.salts,
        Next::End => true,
        Next::Cut => false,
    };
    once && intact && ended
}

#[cfg(test)]
mod tests {
    use seawall_ltx::PageSize;

    use super::*;
    use crate::wal::WordOrder;

    const FILE: FileIdentity = FileIdentity { device: 1, inode: 2 };
    const OTHER: FileIdentity = FileIdentity { device: 1, inode: 3 };
    const END: Chain = Chain(7, 8);

    fn state(size: u64) -> FileState {
        serde_json::from_value(serde_json::json!({"size": size, "modified": [1, 2], "changed": [3, 4]}))
            .expect("a state")
    }

    fn header(salt: u32) -> WalHeader {
        WalHeader {
            order: WordOrder::Little,
            page_size: PageSize::new(4096).expect("a page size"),
            salts: Salts(salt, 99),
            chain: Chain(salt, 1),
        }
    }

    fn at(offset: u64, chain: Option<Chain>) -> Option<WalPosition> {
        Some(WalPosition { salts: Salts(5, 99), offset, chain })
    }

    #[test]
    fn does_the_wal_go_on() {
        let far = HEADER_SIZE + 4120;
        let captured =
            Captured { wal: at(far, Some(END)), page_size: 4096, file: Some(FILE), state: None, held: false };
        let frame = Some((Salts(5, 99), END));
        let now = Observed {
            file: FILE,
            overwritten: false,
            state: state(1),
            page_size: 4096,
            header: Some(header(5)),
            frame,
            next: Next::End,
        };
        let held = Captured { held: true, ..captured };
        let start = |salt| Verdict::Continue { offset: HEADER_SIZE, chain: Chain(salt, 1) };
        let cases = [
            ("same place", captured, now, Verdict::Continue { offset: far, chain: END }),
            ("another file", captured, Observed { file: OTHER, ..now }, Verdict::Base(Break::Replaced)),
            ("file unknown", Captured { file: None, ..captured }, now, Verdict::Continue { offset: far, chain: END }),
            ("overwritten", held, Observed { overwritten: true, ..now }, Verdict::Base(Break::Overwritten)),
            ("written, not held", captured, Observed { overwritten: true, ..now }, Verdict::Base(Break::Written)),
            ("page size", captured, Observed { page_size: 512, ..now }, Verdict::Base(Break::PageSize)),
            ("no WAL", captured, Observed { header: None, ..now }, Verdict::Base(Break::WalGone)),
            ("no WAL, held", held, Observed { header: None, ..now }, Verdict::Idle),
            (
                "restart, cut behind the place",
                captured,
                Observed { header: Some(header(6)), next: Next::Cut, ..now },
                Verdict::Base(Break::WalRestarted),
            ),
            (
                "restart, older frames behind",
                captured,
                Observed { header: Some(header(6)), next: Next::Frame(Salts(4, 99)), ..now },
                start(6),
            ),
            ("restart right behind", captured, Observed { header: Some(header(6)), ..now }, start(6)),
            (
                "restart after more frames",
                captured,
                Observed { header: Some(header(6)), next: Next::Frame(Salts(5, 99)), ..now },
                Verdict::Base(Break::WalRestarted),
            ),
            (
                "restart, overwritten already",
                captured,
                Observed { header: Some(header(6)), frame: Some((Salts(6, 99), END)), ..now },
                Verdict::Base(Break::WalRestarted),
            ),
            (
                "restart, file cut",
                captured,
                Observed { header: Some(header(6)), frame: None, ..now },
                Verdict::Base(Break::WalRestarted),
            ),
            ("two restarts", captured, Observed { header: Some(header(7)), ..now }, Verdict::Base(Break::WalRestarted)),
            ("restart, held", held, Observed { header: Some(header(6)), ..now }, start(6)),
            ("empty restarts, held", held, Observed { header: Some(header(7)), ..now }, start(7)),
            ("short", captured, Observed { frame: None, ..now }, Verdict::Base(Break::WalRewound)),
            ("short, held", held, Observed { frame: None, ..now }, Verdict::Base(Break::WalRewound)),
            (
                "other frames in the same generation",
                held,
                Observed { frame: Some((Salts(5, 99), Chain(7, 9))), ..now },
                Verdict::Base(Break::WalRewound),
            ),
            (
                "stale frame",
                captured,
                Observed { frame: Some((Salts(4, 99), END)), ..now },
                Verdict::Base(Break::WalRewound),
            ),
            ("only pages can tell", Captured { wal: at(far, None), ..captured }, now, Verdict::ComparePages),
            (
                "nothing captured of this generation",
                Captured { wal: at(32, Some(Chain(5, 1))), ..captured },
                now,
                start(5),
            ),
            (
                "header rewritten",
                Captured { wal: at(32, Some(Chain(5, 2))), ..captured },
                now,
                Verdict::Base(Break::WalRewound),
            ),
            ("no chain at the header", Captured { wal: at(32, None), ..captured }, now, start(5)),
            ("first WAL, held", Captured { wal: None, ..held }, now, start(5)),
            ("first WAL", Captured { wal: None, ..captured }, now, Verdict::Base(Break::WalRestarted)),
            ("first WAL, file untouched", Captured { wal: None, state: Some(state(1)), ..captured }, now, start(5)),
            (
                "first WAL, file touched",
                Captured { wal: None, state: Some(state(2)), ..captured },
                now,
                Verdict::Base(Break::WalRestarted),
            ),
            (
                "still no WAL, file untouched",
                Captured { wal: None, state: Some(state(1)), ..captured },
                Observed { header: None, ..now },
                Verdict::Idle,
            ),
            (
                "WAL gone, file untouched",
                Captured { state: Some(state(1)), ..captured },
                Observed { header: None, ..now },
                Verdict::Base(Break::WalGone),
            ),
        ];
        for (name, captured, now, expected) in cases {
            assert_eq!(judge(&captured, &now), expected, "{name}");
        }
    }
}
