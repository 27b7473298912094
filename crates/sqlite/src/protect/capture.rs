//! The commits since the last capture, as an object to be made.
//!
//! Blocking steps on a [`Source`], without the vault: [`look`] finds new commits, [`prepare_base`] a complete state.
//! Each proves its place with [`judge`] before it reads further.

use seawall_core::Moment;
use seawall_ltx::{Header, Txid};

use crate::continuity::{Verdict, judge};
use crate::error::Error;
use crate::identity::{Stamp, Tag, WalPosition};
use crate::pages::PageSet;
use crate::probe::{Defect, Step};
use crate::reader::PageReader;
use crate::resume::Break;
use crate::sealed::Sealed;
use crate::ship::Shipment;
use crate::source::{End, Source};
use crate::state::Position;
use crate::survey::next_txid;
use crate::wal::{Chain, HEADER_SIZE, Salts, Scan, WalHeader};

/// At most this much WAL goes into one object, unless one transaction is larger.
const CAPTURE_LIMIT: u64 = 256 << 20;

/// The writer and the moment: the inputs of a capture from outside.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Author {
    pub(crate) stamp: Stamp,
    pub(crate) now: Moment,
}

/// New commits: an object to be made, and the position once it is durable.
pub(crate) struct Capture {
    pub(crate) shipment: Shipment,
    pub(crate) after: Position,
    /// Whether it ended before the last commit, so that there is more.
    pub(crate) partial: bool,
}

impl Capture {
    /// The same capture, read from the database file alone. All of it was copied there, and no process can copy again.
    pub(crate) fn copied(self) -> Self {
        let Shipment { header, pages, reader, .. } = self.shipment;
        Self { shipment: Shipment { header, pages: pages.copied(), reader, salts: None }, ..self }
    }
}

/// The result of a look at the WAL.
pub(crate) enum Look {
    /// Nothing new. The position may be `held` now.
    Clean(Position),
    /// New commits.
    New(Box<Capture>),
    /// The WAL is changing, so nothing can be said yet.
    Unfinished,
    /// The place can't be proved; pages must be compared first.
    Unproved,
    /// The history is broken.
    Broken(Break),
}

/// The part of the WAL that was read before the capture, so that only the rest must be read then.
pub(crate) struct Ahead {
    salts: Salts,
    scan: Scan,
}

impl Ahead {
    /// Reads the WAL to its present end, from where the last read ended. `None` if nothing can be said, or if there is
    /// more than one object takes.
    pub(crate) fn read(source: &mut Source, position: Position, ahead: Option<Self>) -> Result<Option<Self>, Error> {
        let Begin::At(header, offset, chain) = begin(source, &position)? else { return Ok(None) };
        let (scan, end) = source.scan(&header, go_on(ahead, &header, offset, chain), CAPTURE_LIMIT)?;
        Ok((end == End::Committed).then_some(Self { salts: header.salts, scan }))
    }

    /// The place where reading continues.
    pub(crate) fn end(&self) -> WalPosition {
        WalPosition { salts: self.salts, offset: self.scan.end, chain: Some(self.scan.chain) }
    }
}

/// A scan from a proved place, or the rest of it if most was read already.
fn go_on(ahead: Option<Ahead>, header: &WalHeader, offset: u64, chain: Chain) -> Scan {
    match ahead {
        Some(ahead) if ahead.salts == header.salts && ahead.scan.start == offset => ahead.scan.rewound(),
        _ => Scan::new(offset, chain),
    }
}

/// How much of the WAL is captured at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// As much as one object should hold.
    Some,
    /// Everything that is committed.
    All,
}

/// Looks for commits after `position`.
pub(crate) fn look(source: &mut Source, position: Position, author: Author) -> Result<Look, Error> {
    look_on(source, position, author, None, Extent::Some)
}

/// Looks for commits after `position`, when some were read ahead.
pub(crate) fn look_on(
    source: &mut Source,
    position: Position,
    author: Author,
    ahead: Option<Ahead>,
    extent: Extent,
) -> Result<Look, Error> {
    let (header, offset, chain) = match begin(source, &position)? {
        Begin::At(header, offset, chain) => (header, offset, chain),
        Begin::Nowhere(look) => return Ok(look),
    };
    let limit = if extent == Extent::All { u64::MAX } else { CAPTURE_LIMIT };
    let (scan, end) = source.scan(&header, go_on(ahead, &header, offset, chain), limit)?;
    source.probe().at(Step::Scanned);
    let complete = end == End::Committed;
    // The read lock was held before the scan began. If the scan read every commit and the generation is still the same,
    // nothing in it was lost, and nothing can be lost from now on.
    let held = position.held || complete && same_generation(source, &header)?;
    if scan.is_empty() {
        match end {
            End::Damaged => return Err(source.damaged(offset)),
            End::Unknown => return Ok(Look::Unfinished),
            End::Committed | End::Limit => {}
        }
        let captured = WalPosition { salts: header.salts, offset, chain: Some(chain) };
        if source.is_cut(Some(&captured), position.commit)? {
            return Err(source.cut_short());
        }
        let wal = Some(captured);
        return Ok(Look::Clean(Position { held, wal, file: Some(source.identity()), ..position }));
    }
    capture(source, position, author, &header, scan, held, !complete).map(|capture| Look::New(Box::new(capture)))
}

/// A capture of the pages that an earlier run had sealed after `position` and not shipped, together with the commits
/// since. The pages are in the database file, in the sealed version or in one that the WAL's present generation holds
/// as well. `None` if the WAL doesn't continue right after the seal, or still has all of it itself.
pub(crate) fn look_behind_seal(
    source: &mut Source,
    position: Position,
    sealed: &Sealed,
    author: Author,
) -> Result<Option<Capture>, Error> {
    let end = WalPosition::after(&sealed.header);
    let gone = source.wal_header()?.zip(end).is_some_and(|(header, end)| header.salts != end.salts);
    if !gone {
        return Ok(None);
    }
    // A checkpoint copies only up to our read lock, and all frames before it are read. Pages that were cut off and came
    // back without being written are needed as well.
    let at_end = Position { wal: end, commit: position.commit.min(sealed.header.commit), ..position };
    match look_on(source, at_end, author, None, Extent::All)? {
        Look::New(capture) if !capture.partial => {
            let Capture { shipment, after, partial } = *capture;
            let pages = shipment.pages.and_of_file(&sealed.pages);
            Ok(Some(Capture { shipment: Shipment { pages, ..shipment }, after, partial }))
        }
        Look::Clean(now) => {
            let Header { page_size, commit, timestamp_ms, max_txid, .. } = sealed.header;
            let pages = PageSet::changed(page_size, position.commit, commit, Vec::new()).and_of_file(&sealed.pages);
            let shipment = Shipment { header: sealed.header, pages, reader: source.pages()?, salts: None };
            let tag = Some(Tag::of(&sealed.header));
            let after = Position { txid: max_txid, moment: Moment::from_millis(timestamp_ms), commit, tag, ..now };
            Ok(Some(Capture { shipment, after, partial: false }))
        }
        Look::New(_) | Look::Unfinished | Look::Unproved | Look::Broken(_) => Ok(None),
    }
}

/// Where new commits begin.
enum Begin {
    /// At this offset, with this chain before it.
    At(WalHeader, u64, Chain),
    /// Nowhere: this is the answer.
    Nowhere(Look),
}

fn begin(source: &mut Source, position: &Position) -> Result<Begin, Error> {
    source.check_identity()?;
    let mut observed = source.observe(position.wal.as_ref())?;
    source.probe().at(Step::Observed);
    if source.probe().has(Defect::SkipsTheChain) {
        observed.frame = position.wal.and_then(|wal| Some((wal.salts, wal.chain?)));
    }
    let nowhere = |look| Ok(Begin::Nowhere(look));
    let (offset, chain) = match judge(&position.captured(), &observed) {
        Verdict::Continue { offset, chain } => (offset, chain),
        Verdict::Idle if source.has_lost_its_header()? => return Err(source.damaged(0)),
        Verdict::Idle => return nowhere(Look::Clean(*position)),
        Verdict::ComparePages => return nowhere(Look::Unproved),
        Verdict::Base(why) => return nowhere(Look::Broken(why)),
    };
    let Some(header) = observed.header else { return nowhere(Look::Clean(*position)) };
    if source.is_published(header.salts, offset)? == Some(false) {
        return nowhere(Look::Broken(Break::WalRewound));
    }
    if !position.held && source.is_left_behind(header.salts)? {
        // It is no longer known how many of the frames in the file were committed.
        return nowhere(Look::Broken(Break::WalRestarted));
    }
    Ok(Begin::At(header, offset, chain))
}

fn same_generation(source: &mut Source, header: &WalHeader) -> Result<bool, Error> {
    Ok(source.wal_header()?.is_some_and(|now| now.salts == header.salts))
}

fn capture(
    source: &mut Source,
    position: Position,
    author: Author,
    header: &WalHeader,
    scan: Scan,
    held: bool,
    partial: bool,
) -> Result<Capture, Error> {
    let txid = next_txid(Some(position.txid))?;
    let range = WalRange { start: scan.start, end: scan.end, header: *header, chain: scan.chain };
    // Timestamps never go back within a history, whatever the clock does: a point in time is found by searching.
    let moment = author.now.max(position.moment);
    let after = Position {
        txid,
        moment,
        page_size: source.page_size(),
        commit: scan.commit,
        wal: Some(range.after()),
        file: Some(source.identity()),
        state: None,
        held,
        tag: None,
    };
    let commit = scan.commit;
    let made = object_header(&after, txid, author.stamp, Some(&range), position.tag);
    let after = Position { tag: Some(Tag::of(&made)), ..after };
    let shipment = Shipment {
        header: made,
        pages: PageSet::changed(source.page_size(), position.commit, commit, scan.newest()),
        reader: source.pages()?,
        salts: Some(header.salts),
    };
    Ok(Capture { shipment, after, partial })
}

/// A stretch of the WAL.
struct WalRange {
    start: u64,
    end: u64,
    header: WalHeader,
    chain: Chain,
}

impl WalRange {
    fn after(&self) -> WalPosition {
        WalPosition { salts: self.header.salts, offset: self.end, chain: Some(self.chain) }
    }
}

/// The header of an object that ends at `after`, and follows the point with the tag `before`.
fn object_header(after: &Position, min: Txid, stamp: Stamp, range: Option<&WalRange>, before: Option<Tag>) -> Header {
    let mut header = Header::new(after.page_size, after.commit, min, after.txid);
    header.timestamp_ms = after.moment.as_millis();
    // Without a WAL position in the header, Litestream would fail permanently when it takes over. Offset 32 and size 0
    // make it begin with a snapshot.
    header.wal_offset = HEADER_SIZE;
    if let Some(range) = range {
        header.wal_offset = range.start;
        header.wal_size = range.end - range.start;
        header.wal_salt1 = range.header.salts.0;
        header.wal_salt2 = range.header.salts.1;
    }
    stamp.write(&mut header, range.map_or(Chain::default(), |range| range.chain), before);
    header
}

/// A complete state of the database.
pub(crate) struct Base {
    pages: PageSet,
    reader: PageReader,
    range: Option<WalRange>,
    stamp: Stamp,
    /// The tag of the point before it, if it is known.
    before: Option<Tag>,
    /// The position once the base is durable.
    pub(crate) after: Position,
}

impl Base {
    /// The object with the whole state that holds TXIDs `min` to that of [`Base::after`].
    pub(crate) fn shipment(&self, min: Txid) -> Shipment {
        Shipment {
            header: self.header(min),
            pages: self.pages.clone(),
            reader: self.reader.clone(),
            salts: self.range.as_ref().filter(|range| range.end > range.start).map(|range| range.header.salts),
        }
    }

    fn header(&self, min: Txid) -> Header {
        object_header(&self.after, min, self.stamp, self.range.as_ref(), self.before)
    }

    /// The empty capture after the first base, so that level 0 always has a newest file.
    pub(crate) fn seed(&self, txid: Txid) -> Capture {
        let after = Position { txid, ..self.after };
        let header = object_header(&after, txid, self.stamp, None, self.after.tag);
        let after = Position { tag: Some(Tag::of(&header)), ..after };
        let shipment = Shipment {
            header,
            pages: PageSet::changed(after.page_size, after.commit, after.commit, Vec::new()),
            reader: self.reader.clone(),
            salts: None,
        };
        Capture { shipment, after, partial: false }
    }
}

/// Finds the complete state for TXID `txid`: the commits in the WAL, and the database file for the rest.
///
/// The read lock makes this one consistent state. A checkpoint copies frames into the file only up to our lock, and all
/// of those frames are read from the WAL instead. If the WAL was fully copied before, no process can copy any more, but
/// a writer may restart the WAL once. Then the frames are overwritten, the shipment notices it, and the next attempt
/// reads a generation that can't be restarted.
pub(crate) fn prepare_base(
    source: &mut Source,
    txid: Txid,
    author: Author,
    not_before: Moment,
    before: Option<Tag>,
) -> Result<Base, Error> {
    source.check_identity()?;
    if source.is_overwritten() {
        source.check_header()?;
    }
    source.begin_base()?;
    let page_size = source.page_size();
    let (range, set) = match source.live_header()? {
        Some(header) => {
            let (scan, end) = source.scan(&header, Scan::new(HEADER_SIZE, header.chain), u64::MAX)?;
            source.probe().at(Step::Scanned);
            if end == End::Damaged {
                return Err(source.damaged(scan.end));
            }
            if end != End::Committed || !same_generation(source, &header)? {
                return Err(Error::Restarted);
            }
            let range = WalRange { start: HEADER_SIZE, end: scan.end, header, chain: scan.chain };
            // SQLite reads the file alone where every frame was copied into it. Another program has written there since.
            let file_alone = source.is_overwritten() && source.to_copy()? == Some(0);
            let commit = if scan.is_empty() || file_alone { source.file_pages()? } else { scan.commit };
            let newest = if file_alone { Vec::new() } else { scan.newest() };
            (Some(range), PageSet::whole(page_size, commit, newest))
        }
        // The file alone doesn't hold all commits, and the WAL can't be read.
        None if source.has_lost_its_header()? => return Err(source.damaged(0)),
        None => (None, PageSet::whole(page_size, source.file_pages()?, Vec::new())),
    };
    let after = Position {
        txid,
        moment: author.now.max(not_before),
        page_size,
        commit: set.commit(),
        wal: range.as_ref().map(WalRange::after),
        file: Some(source.identity()),
        state: if range.is_none() { source.file_at_rest(author.now)? } else { None },
        held: true,
        tag: None,
    };
    source.probe().at(Step::Stocked);
    let mut base = Base { pages: set, reader: source.pages()?, range, stamp: author.stamp, before, after };
    base.after.tag = Some(Tag::of(&base.header(txid)));
    Ok(base)
}
