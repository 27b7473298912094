//! Does a recovery cross what a server wrote while no slot kept its log?
//!
//! A server whose `wal_level` is `minimal` starts only where there is no slot. So while the slot of a receiver stands, the log is one
//! that a recovery can read. A slot that was dropped, or that a promoted server never had, says nothing of the log since. The
//! receiver records that part of the log before it makes a slot, and here it is read: a recovery crosses it unless a record says
//! that the server began to run with that level. PostgreSQL 15 to 18 write one (`XLogReportParameters` in `xlog.c`).

use std::collections::BTreeMap;

use seawall_archive::log::{Line, Log, LogError, LogFile, Lsn, SegmentName, TimelineId};

use super::receive::sound_segment;
use super::records::{Event, PARAMETERS, Rest, events};
use super::recover::timelines_of;
use crate::Error;

/// Bytes of a segment behind another that complete its last record.
const MORE: usize = 64 << 10;

/// So much of the log is read in any case.
const LITTLE: u64 = 1 << 30;

/// A part of the log that no slot kept: the server's timeline, the begin and the end.
pub(super) type Part = (TimelineId, Lsn, Lsn);

/// Whether a recovery gets from a base to the end of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Crossing {
    /// It does.
    Free,
    /// It doesn't, or reading the log would cost more than another base.
    Blocked,
    /// The log isn't there yet up to here.
    Waits(Lsn),
    /// This part has to be read.
    Unread(Part),
}

/// Decides. `read` says of parts that were read whether a recovery crosses them, `start` is where the base's log begins, `reached`
/// where the log ends, and `bytes` are those of a base. Pure.
pub(super) fn crossing(parts: &[Part], read: &BTreeMap<Part, bool>, start: Lsn, reached: Lsn, bytes: u64) -> Crossing {
    let mut found = Crossing::Free;
    for part in parts.iter().filter(|(_, _, end)| *end > start) {
        let (_, begin, end) = *part;
        let this = match read.get(part) {
            Some(true) => continue,
            Some(false) => return Crossing::Blocked,
            None if end.byte().saturating_sub(begin.byte()) > bytes.max(LITTLE) => return Crossing::Blocked,
            None if end > reached => Crossing::Waits(end),
            None => Crossing::Unread(*part),
        };
        if found == Crossing::Free {
            found = this;
        }
    }
    found
}

/// Reads a part of the log: whether a recovery crosses it.
///
/// # Errors
/// When the log has a gap there, or can't be read.
pub(super) async fn is_crossed(log: &Log, part: Part) -> Result<bool, Error> {
    let ((timeline, begin, end), size) = (part, log.cluster().segment_size);
    let no_history = || {
        let later = "the log that no slot kept is of this timeline".to_owned();
        LogError::NoHistory { vault: log.vault().url().to_owned(), timeline, later }
    };
    let history = log.history(timeline).await?.ok_or_else(no_history)?;
    let mut next = Some(begin.segment_start(size));
    // A record that a segment doesn't end goes on in the next one.
    let mut cut: Option<(Vec<u8>, Lsn)> = None;
    while let Some(start) = next.filter(|start| *start < end) {
        let mut found = Err(absent(log, SegmentName::of(timeline, start, size)));
        for on in timelines_of(&history, start, size.bytes().into()) {
            found = sound_segment(log, SegmentName::of(on, start, size), Line::Of(timeline), None).await;
            if !found.as_ref().is_err_and(LogError::is_absence) {
                break;
            }
        }
        let bytes = found?;
        let before = cut.take();
        let (is_minimal, rest) = seawall_core::blocking(move || {
            let mut is_minimal = false;
            let mut look = |bytes: &[u8], start: Lsn, size: usize| {
                events(bytes, start, size, start, |_, event| is_minimal |= event == Event::Minimal)
            };
            if let Some((mut before, at)) = before {
                let size = before.len();
                before.extend_from_slice(&bytes[..MORE.min(bytes.len())]);
                look(&before, at, size);
            }
            let rest = look(&bytes, start, bytes.len());
            let is_cut = matches!(rest, Rest::Cut(None | Some(PARAMETERS)));
            Ok::<_, Error>((is_minimal, is_cut.then_some((bytes, start))))
        })
        .await?;
        if is_minimal {
            return Ok(false);
        }
        (cut, next) = (rest, start.after(size.bytes().into()));
    }
    Ok(true)
}

fn absent(log: &Log, name: SegmentName) -> LogError {
    let cause = "no timeline has it".to_owned();
    LogError::Absent { vault: log.vault().url().to_owned(), file: LogFile::Segment(name).to_string(), cause }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whether_a_recovery_gets_to_the_end() {
        let one = TimelineId::new(1).expect("one");
        let part = |begin: u64, end: u64| (one, Lsn::new(begin), Lsn::new(end));
        let (first, second) = (part(100, 150), part(200, 260));
        let large = part(300, 300 + LITTLE + 1);
        let parts = [first, second];
        for (what, read, start, reached, bytes, expected) in [
            ("nothing is known", vec![], 50, 300, 1000, Crossing::Unread(first)),
            ("the first was read", vec![(first, true)], 50, 300, 1000, Crossing::Unread(second)),
            ("both", vec![(first, true), (second, true)], 50, 300, 1000, Crossing::Free),
            ("one stops a recovery", vec![(second, false)], 50, 300, 1000, Crossing::Blocked),
            ("the base is behind the first", vec![(first, false)], 150, 300, 1000, Crossing::Unread(second)),
            ("the base is behind both", vec![], 260, 300, 1000, Crossing::Free),
            ("the base began within one", vec![(first, true)], 210, 300, 1000, Crossing::Unread(second)),
            ("the log isn't there yet", vec![(first, true)], 50, 259, 1000, Crossing::Waits(second.2)),
        ] {
            let read = read.into_iter().collect();
            let found = crossing(&parts, &read, Lsn::new(start), Lsn::new(reached), bytes);
            assert_eq!(found, expected, "{what}");
        }
        let none = BTreeMap::new();
        assert_eq!(crossing(&[], &none, Lsn::new(0), Lsn::new(0), 0), Crossing::Free);
        // A base may cost less than reading that.
        for (bytes, expected) in [(LITTLE, Crossing::Blocked), (LITTLE + 1, Crossing::Unread(large))] {
            assert_eq!(crossing(&[large], &none, Lsn::new(0), large.2, bytes), expected, "{bytes}");
        }
    }
}
