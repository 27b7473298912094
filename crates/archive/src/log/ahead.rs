//! The segments that a recovery asks for next, so that they can be got before it asks.
//!
//! Only what can't change counts: whole segments whose objects are there, and of which the recovery needs every byte.

use bytes::Bytes;
use futures::TryStreamExt as _;
use seawall_vault::Vault;

use super::fetch::{Content, Fetched};
use super::line::{Place, place};
use super::object::Piece;
use super::{
    Cluster, Head, History, Line, Log, LogError, LogFile, LogObject, Lsn, PieceKind, SegmentName, SystemId, name,
};

/// Names of other objects that may stand between those of segments, before a listing is given up.
const PASSED: usize = 200;

/// How much is got ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Most {
    /// Segments.
    pub segments: usize,
    /// Bytes of their objects in the store.
    pub bytes: u64,
}

impl Log {
    /// The log of a cluster in a vault. The vault isn't asked: the caller has an object of this log.
    pub fn known(vault: &Vault, cluster: Cluster) -> Self {
        Self { vault: vault.clone(), cluster }
    }

    /// The segments that follow `segment` on its timeline, in their order: complete ones whose objects are there, up to the first
    /// that isn't, and of which the recovery of `line` up to `until` needs every byte. One listing.
    ///
    /// # Errors
    /// When the vault can't be asked. That no segment follows is no proof of an absence.
    pub async fn following(
        &self,
        segment: SegmentName,
        (line, until): (Line, Option<Lsn>),
        most: Most,
    ) -> Result<Vec<SegmentName>, LogError> {
        let (system, size) = (self.cluster.system, self.cluster.segment_size);
        let Some(history) = self.history_of(segment, line).await? else { return Ok(Vec::new()) };
        let key = LogObject::File(LogFile::Segment(segment)).key(system)?;
        let mut entries = Box::pin(self.vault.entries(&name::log_on(system, segment.timeline)?, Some(&key)));
        let mut next = end_of(segment, self.cluster);
        let (mut found, mut bytes, mut passed) = (Vec::new(), 0_u64, 0);
        while found.len() < most.segments
            && let Some(entry) = entries.try_next().await?
        {
            let Some((_, LogObject::File(LogFile::Segment(name)))) = LogObject::parse(&entry.key) else {
                passed += 1;
                if passed > PASSED {
                    break;
                }
                continue;
            };
            bytes = bytes.saturating_add(entry.size);
            if name.start(size) != next || bytes > most.bytes || !is_whole(&history, name, self.cluster, until) {
                break;
            }
            found.push(name);
            next = end_of(name, self.cluster);
        }
        Ok(found)
    }

    /// Whether the recovery of `line` up to `until` needs every byte of a segment: what [`Log::fetch_until`] gives is then the
    /// segment's object, as it is.
    ///
    /// # Errors
    /// When the vault can't be asked.
    pub async fn gives_whole(&self, segment: SegmentName, line: Line, until: Option<Lsn>) -> Result<bool, LogError> {
        let history = self.history_of(segment, line).await?;
        Ok(history.is_some_and(|history| is_whole(&history, segment, self.cluster, until)))
    }

    /// The object of a segment as the store has it. Its content isn't checked.
    ///
    /// # Errors
    /// When it isn't there, or can't be read.
    pub async fn stored(&self, segment: SegmentName) -> Result<Bytes, LogError> {
        let key = LogObject::File(LogFile::Segment(segment)).key(self.cluster.system)?;
        Ok(self.vault.read(&key, None, self.largest()).await?)
    }

    /// The history of the line that is recovered; `None` if the log lacks it. It asks for nothing where the segment's timeline is the
    /// one that was named.
    async fn history_of(&self, segment: SegmentName, line: Line) -> Result<Option<History>, LogError> {
        match line {
            Line::Of(timeline) if timeline == segment.timeline => Ok(Some(History::first(timeline))),
            Line::Of(timeline) => self.history(timeline).await,
            Line::Latest => self.newest(segment.timeline).await.map(Some),
        }
    }
}

impl Fetched {
    /// A complete segment of the cluster `system`, from the bytes of its object, and the cluster with the size of its segments.
    /// `object` names the bytes in errors.
    ///
    /// # Errors
    /// When they are those of something else. Their content is checked when it is written.
    pub fn of_stored(
        segment: SegmentName,
        system: SystemId,
        object: &str,
        bytes: Bytes,
    ) -> Result<(Self, Cluster), LogError> {
        let piece = Piece::parse(object, bytes)?;
        let Head { segment_size, blake3, .. } = piece.head;
        let expected = segment.start(segment_size).map(|start| Head {
            kind: PieceKind::Segment,
            system,
            timeline: segment.timeline,
            start,
            length: segment_size.bytes().into(),
            segment_size,
            blake3,
        });
        match expected.as_ref() == Some(&piece.head) {
            true => Ok((Self(Content::Piece(piece, None)), Cluster { system, segment_size })),
            false => Err(crate::Error::corrupt(object, "its head isn't that of its name").into()),
        }
    }
}

/// The position behind a segment.
fn end_of(segment: SegmentName, cluster: Cluster) -> Option<Lsn> {
    segment.start(cluster.segment_size)?.after(cluster.segment_size.bytes().into())
}

/// Whether every byte of a segment is part of the line of `history`, and before `until`. Pure.
fn is_whole(history: &History, segment: SegmentName, cluster: Cluster, until: Option<Lsn>) -> bool {
    let bounds = segment.start(cluster.segment_size).zip(end_of(segment, cluster));
    bounds.is_some_and(|(start, end)| {
        until.is_none_or(|until| end <= until) && place(history, segment.timeline, start, end) == Place::Within
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use seawall_vault::memory::MemoryStore;
    use seawall_vault::{ObjectKey, Policy};

    use super::super::{SegmentSize, TimelineId};
    use super::*;

    const SIZE: u64 = 1 << 20;

    fn vault() -> Vault {
        Vault::new(Arc::new(MemoryStore::new()), Policy::default())
    }

    fn cluster() -> Cluster {
        Cluster { system: SystemId::new(7), segment_size: SegmentSize::new(1 << 20).expect("a size") }
    }

    fn segment(timeline: u32, number: u64) -> SegmentName {
        let timeline = TimelineId::new(timeline).expect("a timeline");
        SegmentName::of(timeline, Lsn::new(number * SIZE), cluster().segment_size)
    }

    #[test]
    fn only_whole_segments_of_the_line_are_given_as_they_are() {
        let third = TimelineId::new(3).expect("a timeline");
        let history = History::parse(third, b"1\t0/500150\tx\n").expect("a history");
        for (timeline, number, until, expected) in [
            (1, 4, None, true),
            // Timeline 3 begins in it, or before it.
            (1, 5, None, false),
            (1, 6, None, false),
            // Another branch.
            (2, 4, None, false),
            (3, 5, None, true),
            (3, 5, Some(6 * SIZE), true),
            (3, 5, Some(6 * SIZE - 1), false),
        ] {
            let found = is_whole(&history, segment(timeline, number), cluster(), until.map(Lsn::new));
            assert_eq!(found, expected, "{timeline} {number} {until:?}");
        }
    }

    #[tokio::test]
    async fn what_follows_is_found_up_to_what_is_missing() {
        let vault = vault();
        let log = Log::claim(&vault, cluster()).await.expect("a log");
        for number in [3, 4, 5, 6, 8] {
            log.put_whole(segment(1, number), Bytes::from(vec![7; 1 << 20])).await.expect("stored");
        }
        log.put_range(TimelineId::new(1).expect("one"), Lsn::new(7 * SIZE), Bytes::from_static(b"range"))
            .await
            .expect("stored");
        let partial = format!("physical/7/log/00000001/{}.partial.zst", segment(1, 4));
        vault.create(&ObjectKey::new(partial).expect("a key"), Bytes::from_static(b"x"), None).await.expect("stored");
        let one = Line::Of(TimelineId::new(1).expect("one"));
        let many = Most { segments: 9, bytes: 1 << 30 };
        for (from, line, until, most, expected) in [
            (3, one, None, many, vec![4, 5, 6]),
            (3, Line::Latest, None, many, vec![4, 5, 6]),
            (2, one, None, many, vec![3, 4, 5, 6]),
            (3, one, None, Most { segments: 2, ..many }, vec![4, 5]),
            (3, one, None, Most { segments: 0, ..many }, vec![]),
            (3, one, None, Most { bytes: 1, ..many }, vec![]),
            (3, one, Some(6 * SIZE), many, vec![4, 5]),
            (6, one, None, many, vec![]),
            (9, one, None, many, vec![]),
        ] {
            let found = log.following(segment(1, from), (line, until.map(Lsn::new)), most).await.expect("asked");
            let expected: Vec<_> = expected.into_iter().map(|number| segment(1, number)).collect();
            assert_eq!(found, expected, "{from} {line:?} {until:?} {most:?}");
        }
        // A later timeline begins in the segment 5.
        let history = Bytes::from_static(b"1\t0/500150\tx\n");
        log.put_file(LogFile::History(TimelineId::new(2).expect("two")), history).await.expect("stored");
        let found = log.following(segment(1, 3), (Line::Latest, None), many).await.expect("asked");
        assert_eq!(found, [segment(1, 4)]);
        assert!(!log.gives_whole(segment(1, 5), Line::Latest, None).await.expect("asked"));
        assert!(log.gives_whole(segment(1, 5), one, None).await.expect("asked"));
    }

    #[tokio::test]
    async fn a_stored_object_is_that_of_its_name_or_none() {
        let vault = vault();
        let log = Log::claim(&vault, cluster()).await.expect("a log");
        log.put_whole(segment(1, 3), Bytes::from(vec![7; 1 << 20])).await.expect("stored");
        let bytes = log.stored(segment(1, 3)).await.expect("read");
        for (name, system, expected) in
            [(segment(1, 3), 7, true), (segment(1, 4), 7, false), (segment(2, 3), 7, false), (segment(1, 3), 8, false)]
        {
            let parsed = Fetched::of_stored(name, SystemId::new(system), "it", bytes.clone());
            assert_eq!(parsed.is_ok_and(|(_, found)| found == cluster()), expected, "{name} {system}");
        }
        // Content that was changed is found when it is written.
        let mut damaged = bytes.to_vec();
        let at = damaged.len() - 3;
        damaged[at] ^= 1;
        let parsed = Fetched::of_stored(segment(1, 3), SystemId::new(7), "it", damaged.into());
        let (parsed, _) = parsed.expect("its head is whole");
        let written = parsed.write_to(&mut Vec::new(), std::path::Path::new("to"));
        assert!(written.is_err());
    }
}
