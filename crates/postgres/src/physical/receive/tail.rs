//! The end of the log as it comes: the segment that is being filled, and the complete ones that wait to be stored.

use std::collections::VecDeque;

use bytes::Bytes;
use seawall_archive::log::{Lsn, SegmentName, SegmentSize, TimelineId};

use super::decide::Start;

/// A complete segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Complete {
    pub(super) name: SegmentName,
    pub(super) end: Lsn,
    pub(super) bytes: Bytes,
    /// Its ranges in the vault, which aren't needed any more once it is stored.
    pub(super) ranges: Vec<(Lsn, Lsn)>,
}

/// Why bytes can't be part of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Misfit {
    /// They begin at another position than the last ones ended.
    Elsewhere {
        /// Where they must begin.
        expected: Lsn,
    },
    /// They differ from those that are in the vault.
    Differs {
        /// The segment's begin.
        segment: Lsn,
    },
}

/// The most bytes that are reserved for a segment at once.
const MOST_RESERVED: usize = 64 << 20;

/// The end of the log. Pure.
#[derive(Debug)]
pub(super) struct Tail {
    timeline: TimelineId,
    size: SegmentSize,
    /// The begin of the segment that is being filled.
    start: Lsn,
    bytes: Vec<u8>,
    /// How many of these bytes are in the vault, or on their way there.
    shipped: usize,
    /// The bytes of this segment that the vault had at the begin.
    known: Vec<u8>,
    /// The segment's ranges in the vault, or on their way there.
    ranges: Vec<(Lsn, Lsn)>,
    complete: VecDeque<Complete>,
}

impl Tail {
    /// Begins at `start`, where the vault has these `known` bytes of the segment in these `ranges`.
    pub(super) fn new(start: &Start, size: SegmentSize, known: Vec<u8>, ranges: Vec<(Lsn, Lsn)>) -> Self {
        let shipped = known.len();
        let Start { timeline, from, .. } = *start;
        Self { timeline, size, start: from, bytes: Vec::new(), shipped, known, ranges, complete: VecDeque::new() }
    }

    /// The position after the last byte that came.
    pub(super) fn received(&self) -> Lsn {
        self.start.after(self.bytes.len() as u64).unwrap_or(self.start)
    }

    /// Bytes that wait to be stored as a range.
    pub(super) fn waiting(&self) -> usize {
        self.bytes.len().saturating_sub(self.shipped)
    }

    /// Complete segments that wait to be stored.
    pub(super) fn segments(&self) -> usize {
        self.complete.len()
    }

    /// Takes the next bytes.
    pub(super) fn append(&mut self, at: Lsn, mut bytes: &[u8]) -> Result<(), Misfit> {
        if at != self.received() {
            return Err(Misfit::Elsewhere { expected: self.received() });
        }
        let size = self.size.bytes() as usize;
        while !bytes.is_empty() {
            let (now, rest) = bytes.split_at(bytes.len().min(size - self.bytes.len()));
            let from = self.bytes.len();
            if self.bytes.capacity() == 0 {
                // Memory that isn't written to costs nothing, and a buffer that grows is copied.
                self.bytes.reserve_exact(size.min(MOST_RESERVED));
            }
            self.bytes.extend_from_slice(now);
            let known = self.known.len().min(self.bytes.len());
            if from < known && self.known.get(from..known) != self.bytes.get(from..known) {
                return Err(Misfit::Differs { segment: self.start });
            }
            bytes = rest;
            if self.bytes.len() == size {
                self.turn();
            }
        }
        Ok(())
    }

    /// The segment is complete: the next one begins.
    fn turn(&mut self) {
        let end = self.received();
        let name = SegmentName::of(self.timeline, self.start, self.size);
        let bytes = std::mem::take(&mut self.bytes).into();
        let ranges = std::mem::take(&mut self.ranges);
        self.complete.push_back(Complete { name, end, bytes, ranges });
        self.known = Vec::new();
        (self.start, self.shipped) = (end, 0);
    }

    /// Takes the oldest complete segment to store it.
    pub(super) fn next_segment(&mut self) -> Option<Complete> {
        self.complete.pop_front()
    }

    /// Takes the bytes that wait, to store them as a range: its first position, and the bytes.
    pub(super) fn next_range(&mut self) -> Option<(Lsn, Bytes)> {
        let waiting = self.bytes.get(self.shipped..).filter(|bytes| !bytes.is_empty())?;
        let (bytes, start) = (Bytes::copy_from_slice(waiting), self.start.after(self.shipped as u64)?);
        self.shipped = self.bytes.len();
        self.ranges.push((start, self.received()));
        Some((start, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 1 << 20;

    fn tail(from: u64, known: &[u8]) -> Tail {
        let timeline = TimelineId::new(1).expect("a timeline");
        let from = Lsn::new(from);
        let durable = from.after(known.len() as u64).expect("a position");
        let start = Start { timeline, from, durable, continues: !known.is_empty(), hole: None };
        let ranges = if known.is_empty() { Vec::new() } else { vec![(from, durable)] };
        Tail::new(&start, SegmentSize::new(1 << 20).expect("a size"), known.to_vec(), ranges)
    }

    #[test]
    fn ranges_then_the_segment() {
        let whole: Vec<u8> = (0..SIZE + 100).map(|byte| byte as u8).collect();
        let mut tail = tail(3 * SIZE, &[]);
        let at = |offset: u64| Lsn::new(3 * SIZE + offset);
        tail.append(at(0), &whole[..100]).expect("the first");
        assert_eq!(tail.next_range(), Some((at(0), Bytes::copy_from_slice(&whole[..100]))));
        assert_eq!((tail.next_range(), tail.waiting()), (None, 0));
        tail.append(at(100), &whole[100..300]).expect("the next");
        tail.append(at(300), &whole[300..400]).expect("the next");
        assert_eq!(tail.next_range(), Some((at(100), Bytes::copy_from_slice(&whole[100..400]))));
        assert_eq!(tail.append(at(300), &whole[300..400]), Err(Misfit::Elsewhere { expected: at(400) }));
        tail.append(at(400), &whole[400..]).expect("beyond the segment");
        let complete = tail.next_segment().expect("a segment");
        assert!(complete.bytes == whole[..SIZE as usize]);
        assert_eq!((complete.end, complete.name.to_string()), (at(SIZE), "000000010000000000000003".to_owned()));
        assert_eq!(complete.ranges, [(at(0), at(100)), (at(100), at(400))]);
        assert_eq!((tail.segments(), tail.waiting(), tail.received()), (0, 100, at(SIZE + 100)));
    }

    #[test]
    fn what_is_known_must_come_again() {
        let whole: Vec<u8> = (0..SIZE).map(|byte| (byte / 3) as u8).collect();
        let mut same = tail(0, &whole[..1000]);
        same.append(Lsn::new(0), &whole[..900]).expect("known");
        assert_eq!(same.next_range(), None, "it is in the vault");
        same.append(Lsn::new(900), &whole[900..1100]).expect("known, and new");
        assert_eq!(same.next_range(), Some((Lsn::new(1000), Bytes::copy_from_slice(&whole[1000..1100]))));
        let mut other = tail(0, &whole[..1000]);
        other.append(Lsn::new(0), &whole[..900]).expect("known");
        let mut changed = whole[900..1100].to_vec();
        changed[50] ^= 1;
        assert_eq!(other.append(Lsn::new(900), &changed), Err(Misfit::Differs { segment: Lsn::new(0) }));
    }
}
