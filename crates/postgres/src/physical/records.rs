//! Records of the log, in the bytes of one segment: when what was committed, and which tablespaces were made. Pure.
//!
//! A record may go over pages, and each page begins with a header. Source: PostgreSQL's `access/xlogrecord.h`,
//! `access/xlog_internal.h`, `access/xact.h` and `catalog/pg_control.h`, 15 to 18. What isn't a sound record ends the reading: it is
//! the end of the log, or the server that recovers will say what is wrong.

use std::borrow::Cow;

use seawall_archive::log::Lsn;
use seawall_core::Moment;

use super::base::control::crc32c_of;

/// Bytes of a page of the log in every build that pages are read from.
const PAGE: usize = 8192;

/// The header of a page, and that of a segment's first page.
const SHORT: usize = 24;
const LONG: usize = 40;

/// Flags of a page: it begins with the rest of a record; it has the long header.
const CONTINUED: u16 = 0x0001;
const IS_LONG: u16 = 0x0002;

/// The header of a record.
const HEADER: usize = 24;

/// Where the checksum of a record is in its header.
const CHECKSUM: usize = 20;

/// Where the manager of a record is in its header.
const MANAGER: usize = 17;

/// The manager of tablespaces.
pub(crate) const TABLESPACES: u8 = 5;

/// The bytes that are reserved for a record over several pages.
const MOST: usize = 1 << 20;

/// Microseconds from 1970 to 2000, where PostgreSQL begins to count.
const EPOCH: i64 = 946_684_800_000_000;

/// What is looked for in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// A transaction was committed or rolled back, by the server's clock. These are what a recovery to a moment stops at.
    Ended(Moment),
    /// A server began this timeline, by its clock.
    Began(Moment),
    /// A tablespace was made in a folder.
    Tablespace {
        /// Its folder.
        location: String,
    },
}

/// How reading a segment ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rest {
    /// With its last record, or with what is none.
    None,
    /// In the middle of a record that goes on in the next segment. The manager of such records, if the header has it already.
    Cut(Option<u8>),
}

/// Reads the records that begin in a segment at `from` or later, and tells what is looked for, with its position. `segment` begins
/// at `start`; after it bytes of the next segment may follow, which complete its last record.
pub(crate) fn events(segment: &[u8], start: Lsn, size: usize, from: Lsn, mut told: impl FnMut(Lsn, Event)) -> Rest {
    records(segment, start, size, from, |position, record| {
        if let Some(event) = event(record) {
            told(position, event);
        }
    })
}

/// Whether a sound record begins in a segment at `from` or later, perhaps behind one that isn't sound. The arguments are those of
/// [`events`].
pub(crate) fn is_followed(segment: &[u8], start: Lsn, size: usize, from: Lsn) -> bool {
    let first = usize::try_from(from.byte().saturating_sub(start.byte())).unwrap_or(usize::MAX);
    // A page says where the first record in it begins. In the page of a record that isn't sound, the next one may be anywhere.
    let pages = (first / PAGE + 1..size.min(segment.len()).div_ceil(PAGE)).map(|page| page * PAGE);
    let in_page = (first.next_multiple_of(8)..(first / PAGE + 1).saturating_mul(PAGE).min(segment.len())).step_by(8);
    let is_sound_at = |at: usize| {
        let mut any = false;
        start.after(at as u64).is_some_and(|from| {
            records(segment, start, size, from, |_, _| any = true);
            any
        })
    };
    in_page.chain(pages).any(is_sound_at)
}

/// Reads the sound records that begin in a segment at `from` or later.
fn records(segment: &[u8], start: Lsn, size: usize, from: Lsn, mut told: impl FnMut(Lsn, &[u8])) -> Rest {
    let mut at = usize::try_from(from.byte().saturating_sub(start.byte())).unwrap_or(usize::MAX);
    loop {
        at = at.next_multiple_of(8);
        if at >= size.min(segment.len()) {
            return Rest::None;
        }
        if at.is_multiple_of(PAGE) {
            let Some(header) = header(segment, start, at) else { return Rest::None };
            let left = if header.is_continued { header.left } else { 0 };
            let room = PAGE - header.bytes;
            at += match left >= room {
                true => PAGE,
                false => header.bytes + left,
            };
            continue;
        }
        let (record, next) = match gather(segment, start, at) {
            Gathered::Record(record, next) => (record, next),
            Gathered::Abandoned(page) => {
                at = page;
                continue;
            }
            Gathered::Cut(manager) => return Rest::Cut(manager),
            Gathered::None => return Rest::None,
        };
        if !is_sound(&record) {
            return Rest::None;
        }
        if let Some(position) = start.after(at as u64) {
            told(position, &record);
        }
        at = next;
    }
}

/// The header of a page.
struct Header {
    bytes: usize,
    is_continued: bool,
    /// Bytes that are left of a record from the page before.
    left: usize,
}

fn header(segment: &[u8], start: Lsn, at: usize) -> Option<Header> {
    let bytes = segment.get(at..at + SHORT)?;
    let flags = u16::from_le_bytes([bytes[2], bytes[3]]);
    let address = u64::from_le_bytes(bytes.get(8..16)?.try_into().ok()?);
    let left = u32::from_le_bytes(bytes.get(16..20)?.try_into().ok()?);
    let is_page = bytes[1] == 0xD1 && start.after(at as u64) == Some(Lsn::new(address));
    is_page.then_some(Header {
        bytes: if flags & IS_LONG == 0 { SHORT } else { LONG },
        is_continued: flags & CONTINUED != 0,
        left: usize::try_from(left).unwrap_or(usize::MAX).next_multiple_of(8),
    })
}

/// A record's bytes, and where the next one may begin.
enum Gathered<'a> {
    Record(Cow<'a, [u8]>, usize),
    /// A server that crashed never wrote the rest: the log goes on at this page.
    Abandoned(usize),
    Cut(Option<u8>),
    None,
}

fn gather(segment: &[u8], start: Lsn, mut at: usize) -> Gathered<'_> {
    let Some(length) = segment.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes) else {
        return Gathered::None;
    };
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if !(HEADER..=1 << 30).contains(&length) {
        return Gathered::None;
    }
    if length <= PAGE - at % PAGE
        && let Some(record) = segment.get(at..at + length)
    {
        return Gathered::Record(Cow::Borrowed(record), at + length);
    }
    let mut record = Vec::with_capacity(length.min(MOST));
    loop {
        let room = PAGE - at % PAGE;
        let Some(bytes) = segment.get(at..at + room.min(length - record.len())) else {
            return Gathered::Cut(record.get(MANAGER).copied());
        };
        record.extend_from_slice(bytes);
        at += bytes.len();
        if record.len() == length {
            return Gathered::Record(record.into(), at);
        }
        if at >= segment.len() {
            return Gathered::Cut(record.get(MANAGER).copied());
        }
        let Some(header) = header(segment, start, at) else { return Gathered::None };
        if !header.is_continued {
            return Gathered::Abandoned(at);
        }
        at += header.bytes;
    }
}

/// Whether its checksum is right: that of all behind the header, and then of the header up to the checksum.
fn is_sound(record: &[u8]) -> bool {
    let stored = record.get(CHECKSUM..HEADER).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes);
    let parts = record.get(HEADER..).zip(record.get(..CHECKSUM));
    parts.is_some_and(|(content, head)| stored == Some(crc32c_of(&[content, head])))
}

/// What a sound record says.
fn event(record: &[u8]) -> Option<Event> {
    let (info, manager) = (*record.get(16)? & 0xf0, *record.get(MANAGER)?);
    let content = || content(record.get(HEADER..)?);
    match (manager, info & 0x70) {
        // Commit, abort, and those of prepared transactions.
        (1, 0x00 | 0x20 | 0x30 | 0x40) => moment(content()?).map(Event::Ended),
        // What ends a recovery: a record of its own, or a checkpoint of a server that was recovered to a point.
        (0, _) if info == 0x90 => moment(content()?).map(Event::Began),
        (0, _) if info == 0x00 => {
            let content = content()?;
            let seconds = i64::from_le_bytes(content.get(64..72)?.try_into().ok()?);
            Some(Event::Began(Moment::from_millis(seconds.checked_mul(1000)?)))
        }
        (TABLESPACES, 0x00) => {
            // Behind its number.
            let location = content()?.get(4..)?.split(|byte| *byte == 0).next()?;
            Some(Event::Tablespace { location: String::from_utf8_lossy(location).into_owned() })
        }
        _ => None,
    }
}

/// Microseconds since 2000 at the beginning of a record's content.
fn moment(content: &[u8]) -> Option<Moment> {
    let micros = i64::from_le_bytes(content.first_chunk().copied()?);
    // Up: a transaction of the same millisecond may have ended later than a moment of whole milliseconds.
    Some(Moment::from_millis(micros.checked_add(EPOCH)?.checked_add(999)?.div_euclid(1000)))
}

/// The content of a record that names no block.
fn content(mut rest: &[u8]) -> Option<&[u8]> {
    loop {
        let (kind, more) = rest.split_first()?;
        rest = match kind {
            // The lengths of content, short and long. The content is all that follows them.
            255 => return more.get(1..),
            254 => return more.get(4..),
            // The origin of replication, and the transaction above a subtransaction.
            253 => more.get(2..)?,
            252 => more.get(4..)?,
            _ => return None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 3 << 20;

    /// A record of this manager, with content behind the lengths that it needs.
    fn record(manager: u8, info: u8, content: &[u8]) -> Vec<u8> {
        let mut rest = vec![253, 0, 0];
        match u8::try_from(content.len()) {
            Ok(length) => rest.extend([255, length]),
            Err(_) => {
                rest.push(254);
                rest.extend(u32::try_from(content.len()).expect("short").to_le_bytes());
            }
        }
        rest.extend(content);
        let mut record = u32::try_from(HEADER + rest.len()).expect("short").to_le_bytes().to_vec();
        record.resize(16, 7);
        record.extend([info, manager, 0, 0]);
        let checksum = crc32c_of(&[&rest, &record]);
        record.extend(checksum.to_le_bytes());
        record.extend(rest);
        record
    }

    fn ended(second: i64) -> Vec<u8> {
        record(1, 0x80, &(second * 1_000_000 - EPOCH + 1).to_le_bytes())
    }

    /// Pages with these records one behind another, after the rest of a record of `left` bytes.
    fn pages(left: usize, records: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes: Vec<u8> = Vec::new();
        let begin = |bytes: &mut Vec<u8>, left: usize| {
            let at = bytes.len();
            let flags = u16::from(left > 0) | if at == 0 { IS_LONG } else { 0 };
            bytes.extend([0x18, 0xD1]);
            bytes.extend(flags.to_le_bytes());
            bytes.extend(1_u32.to_le_bytes());
            bytes.extend((START + at as u64).to_le_bytes());
            bytes.extend(u32::try_from(left).expect("short").to_le_bytes());
            bytes.resize(at + if at == 0 { LONG } else { SHORT }, 0);
        };
        begin(&mut bytes, left);
        let rest = vec![9; left];
        for record in [&rest].into_iter().chain(records) {
            let mut left = &record[..];
            while !left.is_empty() {
                if bytes.len().is_multiple_of(PAGE) {
                    begin(
                        &mut bytes,
                        if left.len() < record.len() || std::ptr::eq(record, &rest) { left.len() } else { 0 },
                    );
                }
                let (now, then) = left.split_at(left.len().min(PAGE - bytes.len() % PAGE));
                bytes.extend(now);
                left = then;
            }
            bytes.resize(bytes.len().next_multiple_of(8), 0);
        }
        bytes
    }

    fn read(bytes: &[u8], size: usize) -> (Vec<Event>, Rest) {
        let mut found = Vec::new();
        let rest = events(bytes, Lsn::new(START), size, Lsn::new(START), |_, event| found.push(event));
        (found, rest)
    }

    fn at(second: i64) -> Event {
        // Up to the next millisecond.
        Event::Ended(Moment::from_millis(second * 1000 + 1))
    }

    #[test]
    fn records_are_found_over_pages_and_behind_the_rest_of_one() {
        let long = record(10, 0, &[5; 20_000]);
        let space = record(TABLESPACES, 0, b"\x10\x40\0\0/mnt/fast\0");
        let end = record(0, 0x90, &(5_000_000 - EPOCH).to_le_bytes());
        let records = [ended(1), long.clone(), ended(2), space, long, end, ended(3)];
        let expected = [
            at(1),
            at(2),
            Event::Tablespace { location: "/mnt/fast".into() },
            Event::Began(Moment::from_millis(5000)),
            at(3),
        ];
        for left in [0, 8, 100, PAGE - LONG - 8, PAGE - LONG, PAGE - LONG + 3, 3 * PAGE] {
            let mut bytes = pages(left, &records);
            bytes.resize(bytes.len().next_multiple_of(PAGE) + PAGE, 0);
            assert_eq!(read(&bytes, bytes.len()), (expected.to_vec(), Rest::None), "{left}");
        }
    }

    #[test]
    fn whether_a_record_follows() {
        let bytes = pages(0, &[ended(1), record(10, 0, &[5; 9000]), ended(2)]);
        let is_followed = |bytes: &[u8], from: usize| {
            super::is_followed(bytes, Lsn::new(START), bytes.len(), Lsn::new(START + from as u64))
        };
        let (first, end) = (LONG, bytes.len());
        let second = LONG + ended(1).len().next_multiple_of(8);
        assert!(is_followed(&bytes, 0) && is_followed(&bytes, first) && is_followed(&bytes, second));
        assert!(!is_followed(&bytes, end) && !is_followed(&bytes[..second], second));
        // The long record is damaged, and the one behind it isn't.
        let mut damaged = bytes.clone();
        damaged[second + 100] ^= 1;
        assert!(is_followed(&damaged, second));
        let mut damaged = pages(0, &[ended(1), ended(2), ended(3)]);
        damaged[second + 30] ^= 1;
        assert!(is_followed(&damaged, second));
        // It is cut, and zeros follow it.
        for kept in [PAGE, PAGE + SHORT + 50] {
            let mut cut = bytes[..kept].to_vec();
            cut.resize(4 * PAGE, 0);
            assert!(!is_followed(&cut, second), "{kept}");
        }
    }

    #[test]
    fn what_is_cut_or_damaged_ends_the_reading() {
        let bytes = pages(0, &[ended(1), record(TABLESPACES, 0, &[1; 9000]), ended(2)]);
        let (found, rest) = read(&bytes[..PAGE], PAGE);
        assert_eq!((found, rest), (vec![at(1)], Rest::Cut(Some(TABLESPACES))));
        // What follows the segment completes its last record, and no more is read.
        let (found, rest) = read(&bytes, PAGE);
        assert_eq!((found.len(), rest), (2, Rest::None));
        for place in 0..bytes.len() {
            let mut wrong = bytes.clone();
            wrong[place] ^= 1;
            assert!(read(&wrong, wrong.len()).0.len() <= 3);
            read(&bytes[..place], bytes.len());
        }
        assert_eq!(read(&[], 0), (Vec::new(), Rest::None));
    }
}
