//! Does one object go on from another?
//!
//! Pure: from what the headers of two objects say to "it goes on", "it doesn't belong there" or "that can't be told", each with
//! the reason. Names and TXIDs prove nothing: every first base has the same name, and a wrong copy of a vault fits by its
//! names. What proves is the tag of a point, which the next object repeats; the lineage; the place in the WAL; and
//! database checksums, where a file has them (I14).

use std::collections::BTreeMap;

use seawall_ltx::{Checksum, Header, Txid};

use crate::identity::{Lineage, Nonce, Stamp, Tag, lineage_of};
use crate::layout::{Level, Stored};
use crate::wal::{HEADER_SIZE, Salts};

/// The fewest bytes that a page takes in an object.
const SMALLEST_FRAME: u64 = 11;

/// What an object says about where it belongs.
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
    /// The tag of the point behind which it was written.
    pub(crate) follows: Option<Tag>,
    /// The tag of the point at its end.
    pub(crate) tag: Option<Tag>,
    /// The checksum of the whole database before it and behind it.
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
    /// What a header says. The checksum behind the object stands at its end: see [`Facts::with_end`].
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

    /// Adds the checksum of the database behind the object, where it has one.
    pub(crate) fn with_end(self, post_apply: Checksum) -> Self {
        Self { checksums: (self.checksums.0, Some(post_apply).filter(|sum| !sum.is_none())), ..self }
    }

    /// Whether it begins right behind `before`.
    fn is_next_to(&self, before: &Self) -> bool {
        before.file.max.next() == Some(self.file.min)
    }

    /// Where a hole ends if this object begins a history: at the first TXID of a log, at the last of a complete copy.
    pub(crate) fn beginning(&self) -> Txid {
        if self.file.min.0 == 1 { self.file.max } else { self.file.min }
    }
}

/// Why an object doesn't belong where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// It says which point it follows, and that is another one.
    Point,
    /// Another history wrote it, and no base begins one there.
    Lineage,
    /// It holds another stretch of the WAL than what follows.
    Wal,
    /// The database that it changes has another checksum.
    Checksum,
    /// Its database has another page size.
    PageSize,
    /// It is too small for the pages by which the database grew.
    Size,
    /// It is older than what comes before it.
    Moment,
    /// Its writer had been replaced by another one before.
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

/// Why it can't be told whether an object belongs where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Doubt {
    /// Another program wrote one of the two: nothing in it names its database.
    Foreign,
    /// Another program wrote one of the two, and it is older than what it follows: its clock went back, or it is a stranger.
    Moment,
    /// It is of this database; an older Seawall wrote it, which doesn't tell branches of one history apart.
    Branch,
    /// A hole was recorded where its history begins, by an attempt that wrote nothing else.
    Hole,
}

impl Doubt {
    /// What can't be told, for people, of `objects`, without a full stop.
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

/// What two objects are to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bond {
    /// The second goes on from the first, or both end in the same state.
    Proved,
    /// They are not of one history.
    Stranger(Why),
    /// Nothing in them tells.
    Unknown(Doubt),
}

/// Does `next` go on from `before`? `hole` is who recorded a hole that ends where `next` begins: a base stands there.
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
        // Another program begins anew with a complete copy, which no header tells.
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

/// Do two objects that end at one TXID end in one state?
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

/// Does a complete copy belong behind `older`, an object that ends before it?
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

/// Whether a history of this lineage was begun where a hole was recorded, before the base that ends it.
fn begun(lineage: Lineage, hole: Option<Lineage>) -> Bond {
    match hole {
        Some(by) if by == lineage => Bond::Proved,
        // The first record stands, also where the attempt ended before its base.
        Some(_) => Bond::Unknown(Doubt::Hole),
        None => Bond::Stranger(Why::Lineage),
    }
}

/// Whether the pages by which the database grew, all of which an object must have, can't be in it.
fn is_too_small(before: &Facts, next: &Facts) -> bool {
    // The lock page is never stored.
    let pages = u64::from(next.commit.saturating_sub(before.commit)).saturating_sub(1);
    next.file.size < pages.saturating_mul(SMALLEST_FRAME)
}

/// Whether a capture can hold what follows in the WAL: the rest of a generation, or a generation from its start.
fn follows_in_wal(before: &Facts, next: &Facts) -> bool {
    let Some((one, two)) = before.wal.zip(next.wal).filter(|_| next.file.level == Level::LOG) else { return true };
    let ours = before.nonce.is_some() && next.nonce.is_some();
    // Litestream begins a complete copy at the start, and its copies in level 9 tell their last frame alone.
    let begins = two.start <= HEADER_SIZE;
    if one.salts != two.salts {
        return begins;
    }
    two.start == one.end || !ours && (begins || before.file.level != Level::LOG)
}

/// Two objects of which one doesn't belong to the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mixed {
    /// The object that is likely the stranger.
    pub(crate) stranger: Stored,
    /// The other one.
    pub(crate) other: Stored,
    pub(crate) why: Why,
}

impl Mixed {
    /// Of two objects the stranger is the one whose lineage fewer objects have; of two with one lineage the one whose writer
    /// wrote fewer of them; else the `likely` one.
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

/// Does a chain of objects, oldest first, belong together? Gives what can't be told, or two objects that don't. `context` are
/// other objects of the vault, which only help to say which of two is the stranger.
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
                // What goes on well with its other neighbour belongs rather than what doesn't.
                let good = |at: Option<usize>| {
                    at.and_then(|at| bonds.get(at)).is_some_and(|bond| !matches!(bond, Bond::Stranger(_)))
                };
                let (one_fits, two_fits) = (good(at.checked_sub(1)), good(Some(at + 1)));
                let (one, likely) = if two_fits && !one_fits { (next, before) } else { (before, next) };
                return Err(Mixed::new(one, likely, why, chain.iter().chain(context)));
            }
        }
        // A run of Seawall that was followed by another one doesn't come back.
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
