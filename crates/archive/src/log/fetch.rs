//! Gives a file of the log back, or says with certainty that there is none.

use std::io::Write;

use bytes::Bytes;
use futures::TryStreamExt as _;
use seawall_vault::ObjectKey;

use super::line::{Answer, Place, answer, is_needed, place};
use super::object::{CopyError, Piece};
use super::{History, Line, Log, LogError, LogFile, LogObject, Lsn, PieceKind, SegmentName, TimelineId, history, name};

/// A file of the log that was found.
#[derive(Debug)]
pub struct Fetched(pub(super) Content);

#[derive(Debug)]
pub(super) enum Content {
    /// A history file, or what a base backup notes of itself.
    Plain(Bytes),
    /// An object, and where it ends if not all of it is given.
    Piece(Piece, Option<u64>),
    /// A segment that was put together from ranges, and how many bytes these have.
    Assembled(Vec<u8>, usize),
}

impl Fetched {
    /// Writes it. What was written counts only if this succeeds. Blocks while it decompresses.
    ///
    /// # Errors
    /// When the object is damaged or `to` can't be written; `path` is its name in the error.
    pub fn write_to(&self, to: &mut dyn Write, path: &std::path::Path) -> Result<(), LogError> {
        let written = match &self.0 {
            Content::Plain(bytes) => to.write_all(bytes).map_err(CopyError::Target),
            Content::Assembled(bytes, _) => to.write_all(bytes).map_err(CopyError::Target),
            Content::Piece(piece, None) => piece.copy_to(to),
            Content::Piece(piece, Some(end)) => piece.copy_to(&mut ZerosAfter { to, left: *end }),
        };
        written.map_err(|error| match error {
            CopyError::Content(error) => error.into(),
            CopyError::Target(error) => LogError::io(path, &error),
        })
    }

    /// Whether it isn't the segment as the server archived it: it was put together from ranges, or ends where the next
    /// timeline begins.
    pub fn is_filled(&self) -> bool {
        matches!(self.0, Content::Assembled(..) | Content::Piece(_, Some(_)))
    }
}

/// Writes so many bytes as they are, and zeros for the others.
struct ZerosAfter<'a> {
    to: &'a mut dyn Write,
    left: u64,
}

impl Write for ZerosAfter<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let kept = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
        let (kept_bytes, rest) = bytes.split_at(kept);
        self.to.write_all(kept_bytes)?;
        self.to.write_all(&vec![0; rest.len()])?;
        self.left -= kept as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.to.flush()
    }
}

impl Log {
    /// A file of the log, for the recovery of `line`.
    ///
    /// # Errors
    /// [`LogError::Absent`] only where it is certain that the log has no such file and nothing after it. A gap, a missing
    /// history file and a segment of another branch are other errors.
    pub async fn fetch(&self, file: LogFile, line: Line) -> Result<Fetched, LogError> {
        self.fetch_until(file, line, None).await
    }

    /// The same for a recovery that ends at `until`, because it is known that the log has a gap there or ends: what is behind isn't
    /// part of it, and a gap there stops nothing.
    ///
    /// # Errors
    /// As [`Log::fetch`]. A segment that begins at `until` or later is absent. What the recovery needs before `until` was there when
    /// that was decided, so it isn't absent: [`LogError::Shortened`].
    pub async fn fetch_until(&self, file: LogFile, line: Line, until: Option<Lsn>) -> Result<Fetched, LogError> {
        let content = match file {
            LogFile::Segment(name) => return self.segment(name, line, until).await,
            LogFile::Partial(_) => {
                Content::Piece(self.checked(file).await?.ok_or_else(|| self.absent(file, "it was not archived"))?, None)
            }
            LogFile::History(timeline) => Content::Plain(self.plain_history(timeline, line).await?),
            LogFile::Backup(..) => {
                let key = LogObject::File(file).key(self.cluster.system)?;
                match self.vault.read(&key, None, history::LARGEST).await {
                    Ok(bytes) => Content::Plain(bytes),
                    Err(error) if error.is_not_found() => return Err(self.absent(file, "it was not archived")),
                    Err(error) => return Err(error.into()),
                }
            }
        };
        Ok(Fetched(content))
    }

    /// The history of a timeline; `None` if the log has none.
    ///
    /// # Errors
    /// When it can't be read, or isn't a history.
    pub async fn history(&self, timeline: TimelineId) -> Result<Option<History>, LogError> {
        if timeline.number() == 1 {
            return Ok(Some(History::first(timeline)));
        }
        let key = LogObject::File(LogFile::History(timeline)).key(self.cluster.system)?;
        match self.vault.read(&key, None, history::LARGEST).await {
            Ok(bytes) => {
                let parsed = History::parse(timeline, &bytes);
                let parsed = parsed.map_err(|cause| crate::Error::corrupt(self.vault.object(&key), cause))?;
                Ok(Some(parsed))
            }
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The newest timeline from `from` on, as PostgreSQL finds it: the last before the first number without a history.
    pub(super) async fn newest(&self, from: TimelineId) -> Result<History, LogError> {
        let mut newest = None;
        let mut next = from.next();
        while let Some(timeline) = next {
            let Some(history) = self.history(timeline).await? else { break };
            (newest, next) = (Some(history), timeline.next());
        }
        // Where no later one is, its own history isn't needed.
        Ok(newest.unwrap_or_else(|| History::first(from)))
    }

    async fn plain_history(&self, timeline: TimelineId, line: Line) -> Result<Bytes, LogError> {
        let file = LogFile::History(timeline);
        let key = LogObject::File(file).key(self.cluster.system)?;
        match self.vault.read(&key, None, history::LARGEST).await {
            Ok(bytes) => return Ok(bytes),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
        // PostgreSQL asks for it at the end of a recovery, although the first timeline came from no other one.
        if timeline.number() == 1 {
            return Err(self.absent(file, "the first timeline has no history"));
        }
        // It asks for later ones too, to find a number for the timeline that it begins. The one that is recovered was named, so a
        // history that is lost takes nothing away.
        if matches!(line, Line::Of(named) if timeline > named) {
            return Err(self.absent(file, "it is of a later timeline than the one that is recovered"));
        }
        // PostgreSQL takes a missing history for the end of all timelines.
        let after = name::before_timeline(self.cluster.system, timeline)?;
        let prefix = self.prefix()?;
        let mut entries = Box::pin(self.vault.entries(&prefix, Some(&after)));
        while let Some(entry) = entries.try_next().await? {
            if LogObject::parse(&entry.key).is_some() {
                // It may have been written since.
                if let Ok(bytes) = self.vault.read(&key, None, history::LARGEST).await {
                    return Ok(bytes);
                }
                let (vault, later) = (self.vault.url().to_owned(), entry.key.to_string());
                return Err(LogError::NoHistory { vault, timeline, later });
            }
        }
        Err(self.absent(file, "there is no timeline with this number or a higher one"))
    }

    async fn segment(&self, segment: SegmentName, line: Line, until: Option<Lsn>) -> Result<Fetched, LogError> {
        let file = LogFile::Segment(segment);
        let size = self.cluster.segment_size;
        let absurd = || self.absent(file, "no cluster with segments of its size has this one");
        let start = segment.start(size).ok_or_else(absurd)?;
        let end = start.after(size.bytes().into()).ok_or_else(absurd)?;
        if let Some(until) = until.filter(|until| start >= *until) {
            return Err(self.absent(file, &format!("the restore was made of the log up to {until}")));
        }
        let history = match line {
            Line::Latest => self.newest(segment.timeline).await?,
            Line::Of(timeline) => self.history(timeline).await?.ok_or_else(|| self.no_history(timeline))?,
        };
        let place = place(&history, segment.timeline, start, end);
        let needs_from = |from: Lsn| until.filter(|until| is_needed(&history, segment.timeline, (from, end), *until));
        let within = until.filter(|until| *until < end);
        let Some(found) = self.at(segment, start, within).await? else {
            return self.missing(segment, (start, end), &history, place, needs_from(start)).await;
        };
        let needed = match place {
            Place::Until(switch) => switch.byte() - start.byte(),
            _ => u64::from(size.bytes()),
        };
        let needed = within.map_or(needed, |until| needed.min(until.byte() - start.byte()));
        // PostgreSQL takes the zeros for the end of the log: they must not stand for a hole.
        let found = match found {
            Content::Assembled(_, reached) if (reached as u64) < needed => {
                let needs = needs_from(start.after(reached as u64).unwrap_or(end));
                match self.missing(segment, (start, end), &history, place, needs).await {
                    Err(LogError::Absent { .. }) => found,
                    decided => return decided,
                }
            }
            found => found,
        };
        let goes_on = place != Place::Within && self.first_after(segment.timeline, end).await?.is_some();
        let off = |cause: String| Err(LogError::OffLine { file: file.to_string(), cause });
        let (own, target) = (segment.timeline.number(), history.timeline.number());
        match answer(place, matches!(line, Line::Of(_)), goes_on) {
            Answer::Give if within.is_none() => Ok(Fetched(found)),
            Answer::Give | Answer::GiveUntil(_) => Ok(Fetched(cut(found, needed))),
            Answer::Absent(switch) => {
                Err(self.absent(file, &format!("timeline {target} left timeline {own} at {switch}")))
            }
            Answer::Unclear(switch) => off(format!(
                "timeline {target} left timeline {own} at {switch}, and the log of {own} goes on: it isn't known which one is recovered"
            )),
            Answer::Refuse => off(format!("timeline {target} didn't come from timeline {own}")),
        }
    }

    /// The segment, from its object or from ranges; `None` if there is neither.
    async fn at(&self, segment: SegmentName, start: Lsn, until: Option<Lsn>) -> Result<Option<Content>, LogError> {
        let file = LogFile::Segment(segment);
        if let Some(piece) = self.checked(file).await? {
            return Ok(Some(Content::Piece(piece, None)));
        }
        let found = match self.assembled(segment, start, until).await {
            Ok(Some((bytes, reached))) if reached == bytes.len() => {
                return Ok(Some(Content::Assembled(bytes, reached)));
            }
            found => found,
        };
        // A segment is stored before its ranges are deleted. So if it still isn't there, none of them was deleted meanwhile, and what
        // was found of them is all that there was.
        if let Some(piece) = self.checked(file).await? {
            return Ok(Some(Content::Piece(piece, None)));
        }
        Ok(found?.map(|(bytes, reached)| Content::Assembled(bytes, reached)))
    }

    /// A segment's object whose head is what its name says; `None` if there is none.
    async fn checked(&self, file: LogFile) -> Result<Option<Piece>, LogError> {
        let key = LogObject::File(file).key(self.cluster.system)?;
        let piece = match self.piece(&key).await {
            Ok(piece) => piece,
            Err(LogError::Vault(error)) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error),
        };
        let (kind, name) = match file {
            LogFile::Segment(name) => (PieceKind::Segment, name),
            LogFile::Partial(name) => (PieceKind::Partial, name),
            LogFile::Backup(..) | LogFile::History(_) => return Ok(None),
        };
        let length = u64::from(self.cluster.segment_size.bytes());
        let start = name.start(self.cluster.segment_size);
        self.check(&key, &piece, kind, name.timeline, start)?;
        match kind == PieceKind::Segment && piece.head.length != length {
            true => Err(crate::Error::corrupt(self.vault.object(&key), "it is no complete segment").into()),
            false => Ok(Some(piece)),
        }
    }

    fn check(
        &self,
        key: &ObjectKey,
        piece: &Piece,
        kind: PieceKind,
        timeline: TimelineId,
        start: Option<Lsn>,
    ) -> Result<(), LogError> {
        let (head, ours) = (&piece.head, self.cluster.system);
        if head.system != ours {
            return Err(LogError::OtherCluster { object: self.vault.object(key), theirs: head.system, ours });
        }
        let same = head.kind == kind && head.timeline == timeline && Some(head.start) == start;
        match same && head.segment_size == self.cluster.segment_size {
            true => Ok(()),
            false => Err(crate::Error::corrupt(self.vault.object(key), "its head isn't that of its name").into()),
        }
    }

    /// The ranges of one segment, or those before `until`, as its bytes, with zeros behind the last one. `None` if there is none.
    async fn assembled(
        &self,
        segment: SegmentName,
        start: Lsn,
        until: Option<Lsn>,
    ) -> Result<Option<(Vec<u8>, usize)>, LogError> {
        let mut ranges = self.ranges(segment.timeline, start).await?;
        ranges.retain(|(from, _)| until.is_none_or(|until| *from < until));
        match ranges.is_empty() {
            true => Ok(None),
            false => self.joined(segment.timeline, start, &ranges).await.map(Some),
        }
    }

    /// The bytes of a segment that begins at `start` and of which these ranges are there, in their order, with zeros behind the
    /// last one; and how many bytes the ranges have together.
    ///
    /// # Errors
    /// When there is a gap between them, or they differ where they overlap.
    pub async fn joined(
        &self,
        timeline: TimelineId,
        start: Lsn,
        ranges: &[(Lsn, Lsn)],
    ) -> Result<(Vec<u8>, usize), LogError> {
        let size = self.cluster.segment_size;
        let mut bytes = vec![0; size.bytes() as usize];
        let mut reached = 0;
        for &(from, to) in ranges {
            let object = LogObject::Range { timeline, start: from, end: to };
            let key = object.key(self.cluster.system)?;
            let at = usize::try_from(from.byte() - start.byte()).unwrap_or(usize::MAX);
            if at > reached {
                let file = SegmentName::of(timeline, start, size).to_string();
                return Err(LogError::Hole { vault: self.vault.url().to_owned(), file, later: from });
            }
            let piece = self.piece(&key).await?;
            self.check(&key, &piece, PieceKind::Range, timeline, Some(from))?;
            let content = piece.content()?;
            let corrupt = |cause: &str| Err(crate::Error::corrupt(self.vault.object(&key), cause).into());
            if content.len() as u64 != to.byte() - from.byte() {
                return corrupt("it has another length than its name says");
            }
            let Some(there) = bytes.get_mut(at..at + content.len()) else {
                return corrupt("it goes beyond its segment");
            };
            let (known, new) = content.split_at((reached - at).min(content.len()));
            if there.get(..known.len()) != Some(known) {
                return corrupt("where it overlaps an earlier range, the bytes differ");
            }
            if let Some(place) = there.get_mut(known.len()..) {
                place.copy_from_slice(new);
            }
            reached = reached.max(at + content.len());
        }
        Ok((bytes, reached))
    }

    /// The ranges in the segment that begins at `start`, in their order.
    ///
    /// # Errors
    /// When the vault can't be listed.
    pub async fn ranges(&self, timeline: TimelineId, start: Lsn) -> Result<Vec<(Lsn, Lsn)>, LogError> {
        let end = start.after(self.cluster.segment_size.bytes().into()).unwrap_or(start);
        let prefix = name::log_on(self.cluster.system, timeline)?;
        let after = name::before_ranges(self.cluster.system, timeline, start)?;
        let behind = name::before_ranges(self.cluster.system, timeline, end)?;
        let mut entries = Box::pin(self.vault.entries(&prefix, Some(&after)));
        let mut ranges = Vec::new();
        while let Some(entry) = entries.try_next().await? {
            if entry.key > behind {
                break;
            }
            if let Some((_, LogObject::Range { start: from, end: to, .. })) = LogObject::parse(&entry.key) {
                ranges.push((from, to));
            }
        }
        ranges.sort_unstable();
        Ok(ranges)
    }

    /// Whether the vault has the log of a timeline from the begin of a segment to a position in it, or to its end: its object is there,
    /// or ranges without a gap. Nothing is read.
    ///
    /// # Errors
    /// When the vault can't be asked.
    pub async fn is_there(&self, timeline: TimelineId, start: Lsn, end: Lsn) -> Result<bool, LogError> {
        let segment = SegmentName::of(timeline, start, self.cluster.segment_size);
        let key = LogObject::File(LogFile::Segment(segment)).key(self.cluster.system)?;
        let before = ObjectKey::new(key.as_str().trim_end_matches(".zst"))?;
        let ranges = self.ranges(timeline, start).await?;
        let mut reached = start;
        for (from, to) in ranges {
            if from <= reached {
                reached = reached.max(to);
            }
        }
        if reached >= end {
            return Ok(true);
        }
        let mut entries = Box::pin(self.vault.entries(&name::log_on(self.cluster.system, timeline)?, Some(&before)));
        Ok(entries.try_next().await?.is_some_and(|entry| entry.key == key))
    }

    /// Why there is no such segment: the end of the log, a hole, or a loss since it was known that the log goes to `needed`.
    async fn missing(
        &self,
        segment: SegmentName,
        (start, end): (Lsn, Lsn),
        history: &History,
        place: Place,
        needed: Option<Lsn>,
    ) -> Result<Fetched, LogError> {
        let file = LogFile::Segment(segment);
        let own = segment.timeline;
        if let Place::Beyond(switch) = place {
            return Err(self.absent(
                file,
                &format!("timeline {} left timeline {} at {switch}", history.timeline.number(), own.number()),
            ));
        }
        let mut later = self.first_after(own, end).await?;
        let mut timeline = own;
        while let (None, Some(child)) = (later, history.child_of(timeline)) {
            // The next timeline has a copy of the segment in which it began.
            let copy = SegmentName::of(child, start, self.cluster.segment_size);
            if matches!(place, Place::Until(_)) && self.at(copy, start, None).await?.is_some() {
                return Err(self.absent(file, &format!("timeline {} begins in it, and has all of it", child.number())));
            }
            later = self.first_after(child, start).await?;
            timeline = child;
        }
        match (later, needed) {
            (None, None) => Err(self.absent(file, "it is the end of the log")),
            (None, Some(until)) => {
                Err(LogError::Shortened { vault: self.vault.url().to_owned(), file: file.to_string(), until })
            }
            // The segment may have been stored between the two questions.
            (Some(later), _) => match self.at(segment, start, None).await? {
                Some(found @ Content::Piece(..)) if place == Place::Within => Ok(Fetched(found)),
                _ => Err(LogError::Hole { vault: self.vault.url().to_owned(), file: file.to_string(), later }),
            },
        }
    }

    /// Where the first part of a timeline is that begins at `position` or later; `None` if there is none.
    async fn first_after(&self, timeline: TimelineId, position: Lsn) -> Result<Option<Lsn>, LogError> {
        let (system, size) = (self.cluster.system, self.cluster.segment_size);
        let prefix = name::log_on(system, timeline)?;
        let first = SegmentName::of(timeline, position, size);
        let before = LogObject::File(LogFile::Segment(first)).key(system)?;
        // It sorts before the segment's own key, which has an ending.
        let before = ObjectKey::new(before.as_str().trim_end_matches(".zst"))?;
        let after_ranges = name::before_ranges(system, timeline, position)?;
        for after in [before, after_ranges] {
            let mut entries = Box::pin(self.vault.entries(&prefix, Some(&after)));
            // Names of segments may stand before those of ranges, and are all too early then. The end of the listing proves an absence,
            // and not their number.
            while let Some(entry) = entries.try_next().await? {
                let start = match LogObject::parse(&entry.key) {
                    Some((_, LogObject::File(LogFile::Segment(name)))) => name.start(size),
                    Some((_, LogObject::Range { start, .. })) => Some(start),
                    _ => None,
                };
                if let Some(start) = start.filter(|start| *start >= position) {
                    return Ok(Some(start));
                }
            }
        }
        Ok(None)
    }

    fn absent(&self, file: LogFile, cause: &str) -> LogError {
        LogError::Absent { vault: self.vault.url().to_owned(), file: file.to_string(), cause: cause.to_owned() }
    }

    fn no_history(&self, timeline: TimelineId) -> LogError {
        let later = "the recovery of this timeline was asked for".to_owned();
        LogError::NoHistory { vault: self.vault.url().to_owned(), timeline, later }
    }
}

/// The first `length` bytes of a segment, with zeros behind them.
fn cut(content: Content, length: u64) -> Content {
    match content {
        Content::Piece(piece, _) => Content::Piece(piece, Some(length)),
        Content::Assembled(mut bytes, reached) => {
            let from = usize::try_from(length).unwrap_or(usize::MAX).min(bytes.len());
            bytes.iter_mut().skip(from).for_each(|byte| *byte = 0);
            Content::Assembled(bytes, reached)
        }
        Content::Plain(bytes) => Content::Plain(bytes),
    }
}
