//! Does one object continue another?
//!
//! Pure. From the headers of two objects it decides "continues", "doesn't belong there" or "can't be told", each with
//! the reason. Names and TXIDs prove nothing: every first base has the same name, and a wrong copy of a vault fits by
//! its names. The proof is the tag of a point, which the next object repeats; the lineage; the place in the WAL; and
//! database checksums, where a file has them (I14).

use std::collections::BTreeMap;

use seawall_ltx::{Checksum, Header, Txid};

use crate::identity::{Lineage, Nonce, Stamp, Tag, lineage_of};
use crate::layout::{Level, Stored};
use seawall_ltx::wal::{HEADER_SIZE, Salts};

/// The fewest bytes that a page takes in an object.
const SMALLEST_FRAME: u64 = 11;

/// The facts in an object about its place in the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) file: Stored,
    pub(crate) page_size: u32,
    pub(crate) commit: u32,
    pub(crate) moment: i64,
    pub(crate) lineage: Option<Lineage>,
    pub(crate) nonce: Option<Nonce>,
    /// The stretch of the WAL that it holds.
    pub(crate) wal: Option<Stretch>,
    /// The tag of the point that it follows.
    pub(crate) follows: Option<Tag>,
    /// The tag of the point at its end.
    pub(crate) tag: Option<Tag>,
    /// The checksum of the whole database before it and after it.
    pub(crate) checksums: (Option<Checksum>, Option<Checksum>),
}

/// A stretch of a generation of the WAL, by offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) salts: Salts,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl Facts {
    /// Takes the facts of a header. The checksum after the object is at the object's end: see [`Facts::with_end`].
    pub(crate) fn of(file: &Stored, header: &Header) -> Self {
        let salts = Salts(header.wal_salt1, header.wal_salt2);
        let end = header.wal_offset.checked_add(header.wal_size).filter(|_| salts != Salts::default());
        Self {
            file: *file,
            page_size: header.page_size.get(),
            commit: header.commit,
            moment: header.timestamp_ms,
            lineage: lineage_of(header, file.level),
            nonce: Stamp::read(header).map(|stamp| stamp.nonce),
            wal: end.map(|end| Stretch { salts, start: header.wal_offset, end }),
            follows: Tag::before(header),
            tag: Tag::after(header, file.level),
            checksums: (Some(header.pre_apply).filter(|sum| !sum.is_none()), None),
        }
    }

    /// Adds the checksum of the database after the object, if it has one.
    pub(crate) fn with_end(self, post_apply: Checksum) -> Self {
        Self { checksums: (self.checksums.0, Some(post_apply).filter(|sum| !sum.is_none())), ..self }
    }

    /// Whether it begins right after `before`.
    fn is_next_to(&self, before: &Self) -> bool {
        before.file.max.next() == Some(self.file.min)
    }

    /// Where a hole ends if this object begins a history: at the first TXID of a log, at the last of a complete copy.
    pub(crate) fn beginning(&self) -> Txid {
        if self.file.min.0 == 1 { self.file.max } else { self.file.min }
    }
}

/// Why an object doesn't belong at its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// It names the point that it follows, and another point is there.
    Point,
    /// Another history wrote it, and no base at its place begins a history.
    Lineage,
    /// Its range of the WAL doesn't follow the range before it.
    Wal,
    /// The database that it changes has another checksum.
    Checksum,
    /// Its database has another page size.
    PageSize,
    /// It is too small for the pages by which the database grew.
    Size,
    /// It is older than what comes before it.
    Moment,
    /// Another run of the writer had already replaced the run that wrote it.
    Writer,
}

impl Why {
    /// The reason for people, in one sentence without a full stop.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Point => "it was written behind another point, of another history",
            Self::Lineage => "its lineage is another one, and no base was recorded there",
            Self::Wal => "it holds another stretch of the WAL than what follows",
            Self::Checksum => "it changes a database with another checksum",
            Self::PageSize => "its page size is another one",
            Self::Size => "it is too small for the pages by which the database grew",
            Self::Moment => "it is older than what it should follow",
            Self::Writer => "the run of Seawall that wrote it had ended before",
        }
    }
}

/// Why the bond of an object can't be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Doubt {
    /// Another program wrote one of the two objects, and nothing in it names its database.
    Foreign,
    /// Another program wrote one of the two, and the later one is older by its moment: its clock went back, or it is a
    /// stranger.
    Moment,
    /// It belongs to this database. But an older Seawall wrote it, which doesn't distinguish branches of one history.
    Branch,
    /// An attempt recorded a hole where its history begins, and wrote nothing else.
    Hole,
}

impl Doubt {
    /// The doubt as a sentence about `objects`, without a full stop.
    pub(crate) fn sentence(self, objects: &str) -> String {
        match self {
            Self::Foreign => format!("{objects} of another program: nothing in them names their database"),
            Self::Moment => format!("{objects} of another program: their moments go back, as after a clock was set"),
            Self::Branch => {
                format!("{objects} of an older Seawall: of this database, but branches of its history look alike")
            }
            Self::Hole => format!("{objects} behind a hole that another attempt recorded"),
        }
    }
}

/// The relation of two objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bond {
    /// The second continues the first, or both end in the same state.
    Proved,
    /// They belong to different histories.
    Stranger(Why),
    /// Their headers don't tell.
    Unknown(Doubt),
}

/// Does `next` continue `before`? `hole` is the lineage that recorded a hole ending where `next` begins; a base is
/// there then.
pub(crate) fn goes_on(before: &Facts, next: &Facts, hole: Option<Lineage>) -> Bond {
    let adjacent = next.is_next_to(before);
    if let Some((tag, follows)) = before.tag.zip(next.follows).filter(|_| adjacent) {
        return if tag == follows { Bond::Proved } else { Bond::Stranger(Why::Point) };
    }
    if let Some((after, expected)) = before.checksums.1.zip(next.checksums.0).filter(|_| adjacent) {
        return if after == expected { Bond::Proved } else { Bond::Stranger(Why::Checksum) };
    }
    match before.lineage.zip(next.lineage) {
        Some((one, other)) if one != other => return begun(other, hole),
        // Another program starts over with a complete copy, and no header says so.
        Some(_) if before.page_size != next.page_size => return Bond::Stranger(Why::PageSize),
        _ if adjacent && is_too_small(before, next) => return Bond::Stranger(Why::Size),
        _ if adjacent && !follows_in_wal(before, next) => return Bond::Stranger(Why::Wal),
        Some(_) if next.moment < before.moment => return Bond::Stranger(Why::Moment),
        Some(_) if adjacent && before.nonce.is_some() && before.nonce == next.nonce => return Bond::Proved,
        Some(_) => return Bond::Unknown(Doubt::Branch),
        None => {}
    }
    Bond::Unknown(if next.moment < before.moment { Doubt::Moment } else { Doubt::Foreign })
}

/// Do two objects that end at one TXID end in the same state?
pub(crate) fn same_end(one: &Facts, other: &Facts) -> Bond {
    if let Some((tag, other)) = one.tag.zip(other.tag) {
        return if tag == other { Bond::Proved } else { Bond::Stranger(Why::Point) };
    }
    if let Some((sum, other)) = one.checksums.1.zip(other.checksums.1) {
        return if sum == other { Bond::Proved } else { Bond::Stranger(Why::Checksum) };
    }
    match one.lineage.zip(other.lineage) {
        Some((first, second)) if first != second => Bond::Stranger(Why::Lineage),
        _ if one.page_size != other.page_size => Bond::Stranger(Why::PageSize),
        Some(_) if one.moment != other.moment || one.commit != other.commit => Bond::Stranger(Why::Moment),
        Some(_) => Bond::Unknown(Doubt::Branch),
        None => Bond::Unknown(Doubt::Foreign),
    }
}

/// Does a complete copy belong after `older`, an object that ends before it?
pub(crate) fn begins(older: &Facts, copy: &Facts, hole: Option<Lineage>) -> Bond {
    let next_to = older.file.max.next() == Some(copy.file.max);
    if let Some((tag, follows)) = older.tag.zip(copy.follows).filter(|_| next_to) {
        return if tag == follows { Bond::Proved } else { Bond::Stranger(Why::Point) };
    }
    match older.lineage.zip(copy.lineage) {
        Some((one, other)) if one != other => begun(other, hole),
        Some(_) => Bond::Proved,
        None => Bond::Unknown(Doubt::Foreign),
    }
}

/// Whether a history of this lineage began where a hole was recorded, before the base that ends the hole.
fn begun(lineage: Lineage, hole: Option<Lineage>) -> Bond {
    match hole {
        Some(by) if by == lineage => Bond::Proved,
        // The first record stays, even if the attempt ended before it wrote its base.
        Some(_) => Bond::Unknown(Doubt::Hole),
        None => Bond::Stranger(Why::Lineage),
    }
}

/// Whether an object is too small for the pages by which the database grew. It would have to hold all of them.
fn is_too_small(before: &Facts, next: &Facts) -> bool {
    // The lock page is never stored.
    let pages = u64::from(next.commit.saturating_sub(before.commit)).saturating_sub(1);
    next.file.size < pages.saturating_mul(SMALLEST_FRAME)
}

/// Whether a capture can follow in the WAL: the rest of a generation, or a generation from its start.
fn follows_in_wal(before: &Facts, next: &Facts) -> bool {
    let Some((one, two)) = before.wal.zip(next.wal).filter(|_| next.file.level == Level::LOG) else { return true };
    let ours = before.nonce.is_some() && next.nonce.is_some();
    // Litestream begins a complete copy at the start of the WAL, and its copies in level 9 name only their last frame.
    let begins = two.start <= HEADER_SIZE;
    if one.salts != two.salts {
        return begins;
    }
    two.start == one.end || !ours && (begins || before.file.level != Level::LOG)
}

/// Two objects that don't belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mixed {
    /// The object that is likely the stranger.
    pub(crate) stranger: Stored,
    /// The other object.
    pub(crate) other: Stored,
    pub(crate) why: Why,
}

impl Mixed {
    /// Chooses the stranger of two objects. It is the object whose lineage fewer objects have. If both have one
    /// lineage, it is the object whose writer wrote fewer; otherwise the `likely` one.
    pub(crate) fn new<'a>(one: &Facts, likely: &Facts, why: Why, all: impl Iterator<Item = &'a Facts> + Clone) -> Self {
        let kin = |facts: &Facts| all.clone().filter(|other| other.lineage == facts.lineage).count();
        let own =
            |facts: &Facts| all.clone().filter(|other| facts.nonce.is_some() && other.nonce == facts.nonce).count();
        let votes =
            |facts: &Facts| (kin(facts), if likely.nonce.is_some() && one.nonce.is_some() { own(facts) } else { 0 });
        let (stranger, other) = if votes(one) < votes(likely) { (one, likely) } else { (likely, one) };
        Self { stranger: stranger.file, other: other.file, why }
    }
}

/// Does a chain of objects, oldest first, belong together? Returns the doubts, or two objects that don't belong
/// together. `context` are other objects of the vault; they only help to choose the stranger.
pub(crate) fn chain(
    chain: &[Facts],
    context: &[Facts],
    holes: &BTreeMap<Txid, Lineage>,
) -> Result<Vec<(Stored, Doubt)>, Mixed> {
    let hole = |facts: &Facts| holes.get(&facts.beginning()).copied();
    let bonds: Vec<Bond> =
        chain.iter().zip(chain.iter().skip(1)).map(|(before, next)| goes_on(before, next, hole(next))).collect();
    let mut doubts = Vec::new();
    let mut writers: Vec<(Option<Lineage>, Nonce)> = Vec::new();
    for (at, (before, next)) in chain.iter().zip(chain.iter().skip(1)).enumerate() {
        match bonds[at] {
            Bond::Proved => {}
            Bond::Unknown(doubt) => doubts.push((next.file, doubt)),
            Bond::Stranger(why) => {
                // An object that fits its other neighbour belongs rather than an object that doesn't.
                let good = |at: Option<usize>| {
                    at.and_then(|at| bonds.get(at)).is_some_and(|bond| !matches!(bond, Bond::Stranger(_)))
                };
                let (one_fits, two_fits) = (good(at.checked_sub(1)), good(Some(at + 1)));
                let (one, likely) = if two_fits && !one_fits { (next, before) } else { (before, next) };
                return Err(Mixed::new(one, likely, why, chain.iter().chain(context)));
            }
        }
        // A run of Seawall that another run has replaced doesn't come back.
        for facts in [before, next] {
            let Some(nonce) = facts.nonce else { continue };
            let writer = (facts.lineage, nonce);
            match writers.iter().position(|known| *known == writer) {
                Some(place) if place + 1 == writers.len() => {}
                Some(_) if bonds[at] == Bond::Proved => {}
                Some(_) => return Err(Mixed { stranger: before.file, other: next.file, why: Why::Writer }),
                None => writers.push(writer),
            }
        }
    }
    Ok(doubts)
}

#[cfg(test)]
#[path = "belonging_tests.rs"]
mod tests;
