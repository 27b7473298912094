//! The index at the end of a snapshot: where its pieces are and what they hold. A reader that has merged most pieces
//! fetches only the rest.
//!
//! The index is one more field of the snapshot, in a gzip member of its own, which every other reader skips. An empty
//! last member holds the index's place in its extra field. Pure: bytes in, bytes out.

use std::io::Read as _;
use std::ops::Range;

use super::fault::Rule;
use super::read::MAX_KEY;
use super::wire::{Fields, put_bytes, put_number, put_varint};
use super::{Codec, Compressor, Decompressor, INDEX};
use crate::capture::shape::Content;
use crate::schema::flags::Flags;

/// The fewest bytes of the last member.
pub(crate) const FOOTER: usize = FRAME.len() + NUMBERS;

/// Bytes of its two numbers.
const NUMBERS: usize = 16;

/// The last member up to its two numbers: gzip with an extra field, which holds only our part.
const HEAD: [u8; 16] = [0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 255, 20, 0, b'S', b'W', 16, 0];

/// The rest of the last member: compressed nothing, with its checksum and its length.
const TAIL: [u8; 10] = [3, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// The same in zstd: a skippable frame with our mark.
const FRAME: [u8; 10] = [0x50, 0x2a, 0x4d, 0x18, 18, 0, 0, 0, b'S', b'W'];

/// The most bytes that an index may have, compressed or not: enough for a terabyte.
pub(crate) const MOST: u64 = 64 << 20;

/// What is in a snapshot, and where.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Index {
    /// The bytes before the first DBI, not compressed.
    pub(crate) preamble: Vec<u8>,
    /// The DBIs, in order.
    pub(crate) sections: Vec<Section>,
}

/// One DBI.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Section {
    /// Its name.
    pub(crate) name: Vec<u8>,
    /// The flags of the application's DBI.
    pub(crate) flags: Flags,
    /// What was done to its keys.
    pub(crate) transform: String,
    /// Its pieces. They follow each other directly and cover the DBI.
    pub(crate) pieces: Vec<Span>,
}

/// One piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    /// Its first key.
    pub(crate) first: Vec<u8>,
    /// Where its member begins in the object.
    pub(crate) at: u64,
    /// Bytes of the member.
    pub(crate) length: u64,
    /// Bytes of its entries, not compressed.
    pub(crate) raw: u64,
    /// What it holds.
    pub(crate) content: Content,
}

/// Appends the index of an object that has `at` bytes so far, and the last member.
pub(crate) fn put(index: &Index, at: u64, codec: Codec, out: &mut Vec<u8>) {
    let mut message = Vec::new();
    put_bytes(1, &index.preamble, &mut message);
    for section in &index.sections {
        let bytes = section_bytes(section);
        put_bytes(2, &bytes, &mut message);
    }
    let mut raw = Vec::with_capacity(message.len() + 8);
    put_varint(INDEX << 3 | 2, &mut raw);
    put_varint(message.len() as u64, &mut raw);
    raw.extend_from_slice(&message);
    let start = out.len();
    Compressor::new(codec).member(&raw, out);
    let length = (out.len() - start) as u64;
    let (head, tail): (&[u8], &[u8]) = match codec {
        Codec::Gzip => (&HEAD, &TAIL),
        Codec::Zstd => (&FRAME, &[]),
    };
    out.extend_from_slice(head);
    out.extend_from_slice(&at.to_le_bytes());
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(tail);
}

fn section_bytes(section: &Section) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_bytes(1, &section.name, &mut bytes);
    put_number(2, section.flags.bits().into(), &mut bytes);
    put_bytes(3, section.transform.as_bytes(), &mut bytes);
    put_number(4, section.pieces.first().map_or(0, |piece| piece.at), &mut bytes);
    for piece in &section.pieces {
        let mut span = Vec::new();
        put_bytes(1, &piece.content, &mut span);
        put_number(2, piece.length, &mut span);
        put_number(3, piece.raw, &mut span);
        put_bytes(4, &piece.first, &mut span);
        put_bytes(5, &span, &mut bytes);
    }
    bytes
}

/// The index's place in an object of `size` bytes that ends with `tail`; `None` if the object has no index.
pub(crate) fn find(tail: &[u8], size: u64) -> Option<Range<u64>> {
    let numbers = |head: &[u8], end: &[u8]| {
        let numbers = tail.strip_suffix(end)?.last_chunk::<NUMBERS>()?;
        let before = tail.len().checked_sub(end.len() + NUMBERS)?;
        tail.get(..before)?.ends_with(head).then_some((*numbers, head.len() + NUMBERS + end.len()))
    };
    let (numbers, footer) = numbers(&HEAD, &TAIL).or_else(|| numbers(&FRAME, &[]))?;
    let (at, length) = numbers.split_first_chunk::<8>()?;
    let (at, length) = (u64::from_le_bytes(*at), u64::from_le_bytes(length.try_into().ok()?));
    let end = at.checked_add(length)?;
    (length <= MOST && end.checked_add(footer as u64)? == size).then_some(at..end)
}

/// Reads the member with the index, which begins at `at`; `None` if it is damaged or inconsistent.
pub(crate) fn parse(member: &[u8], at: u64) -> Option<Index> {
    let mut raw = Vec::new();
    let read = Decompressor::new(member).take(MOST + 1).read_to_end(&mut raw);
    if read.is_err() || raw.len() as u64 > MOST {
        return None;
    }
    parse_raw(&raw, at).ok().flatten()
}

fn parse_raw(raw: &[u8], end: u64) -> Result<Option<Index>, Rule> {
    let Some((INDEX, value)) = Fields::new(raw).next()? else { return Ok(None) };
    let mut index = Index::default();
    let mut fields = Fields::new(value.bytes()?);
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => index.preamble = value.bytes()?.to_vec(),
            2 => match parse_section(value.bytes()?, end)? {
                Some(section) => index.sections.push(section),
                None => return Ok(None),
            },
            _ => {}
        }
    }
    Ok(Some(index))
}

fn parse_section(bytes: &[u8], end: u64) -> Result<Option<Section>, Rule> {
    let (mut section, mut at) = (Section::default(), 0_u64);
    let mut fields = Fields::new(bytes);
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => section.name = value.bytes()?.to_vec(),
            2 => {
                let flags = u16::try_from(value.number()?).ok().and_then(Flags::parse);
                section.flags = flags.ok_or(Rule::DbiFlags)?;
            }
            3 => section.transform = String::from_utf8_lossy(value.bytes()?).into_owned(),
            4 => at = value.number()?,
            5 => {
                let Some(span) = parse_span(value.bytes()?, at)? else { return Ok(None) };
                at = match at.checked_add(span.length) {
                    Some(next) if next <= end => next,
                    _ => return Ok(None),
                };
                section.pieces.push(span);
            }
            _ => {}
        }
    }
    let whole = !section.name.is_empty() && section.name.len() <= MAX_KEY;
    Ok(whole.then_some(section))
}

fn parse_span(bytes: &[u8], at: u64) -> Result<Option<Span>, Rule> {
    let mut span = Span { first: Vec::new(), at, length: 0, raw: 0, content: Content::default() };
    let mut fields = Fields::new(bytes);
    let mut content = None;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => content = value.bytes()?.try_into().ok(),
            2 => span.length = value.number()?,
            3 => span.raw = value.number()?,
            4 => span.first = value.bytes()?.to_vec(),
            _ => {}
        }
    }
    let Some(content) = content else { return Ok(None) };
    span.content = content;
    let whole = span.length > 0 && span.raw > 0 && (1..=MAX_KEY).contains(&span.first.len());
    Ok(whole.then_some(span))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Read as _;

    use flate2::read::MultiGzDecoder;

    use super::*;

    /// An index of DBIs, each of pieces with a first key and what they hold, 10 bytes each.
    pub(crate) fn index(databases: &[(&str, &[(&str, u8)])]) -> Index {
        let mut at = 100;
        let mut span = |(first, content): &(&str, u8)| {
            at += 10;
            Span { first: first.as_bytes().to_vec(), at: at - 10, length: 10, raw: 40, content: [*content; 16] }
        };
        let mut section = |(name, pieces): &(&str, &[(&str, u8)])| Section {
            name: name.as_bytes().to_vec(),
            flags: Flags::default(),
            transform: String::new(),
            pieces: pieces.iter().map(&mut span).collect(),
        };
        Index { preamble: b"preamble".to_vec(), sections: databases.iter().map(&mut section).collect() }
    }

    #[test]
    fn an_index_is_found_behind_a_snapshot() {
        let mut wanted = index(&[("a", &[("k1", 1), ("k2", 2)]), ("empty", &[])]);
        wanted.sections[0].flags = Flags::DUPSORT;
        wanted.sections[0].transform = "dupsort_hack_v1".to_owned();
        let mut object = vec![7; 300];
        for codec in [Codec::Zstd, Codec::Gzip] {
            object.truncate(300);
            put(&wanted, 300, codec, &mut object);
            let size = object.len() as u64;
            let footer = if codec == Codec::Gzip { HEAD.len() + NUMBERS + TAIL.len() } else { FOOTER };
            for from in [0, 200, object.len() - footer] {
                assert_eq!(find(&object[from..], size), Some(300..size - footer as u64), "{from}");
            }
            assert_eq!(parse(&object[300..object.len() - footer], 300), Some(wanted.clone()));
            let mut raw = Vec::new();
            Decompressor::new(&object[300..]).read_to_end(&mut raw).expect("a stream");
            assert_eq!(raw[..2], [0xaa, 6], "field 101, as bytes");
        }
        // To other readers of gzip both are ordinary members, and the last one is empty.
        let mut raw = Vec::new();
        MultiGzDecoder::new(&object[300..]).read_to_end(&mut raw).expect("gzip");
        assert_eq!(raw[..2], [0xaa, 6], "field 101, as bytes");
    }

    #[test]
    fn what_is_no_index_is_left_alone() {
        let mut object = vec![7; 300];
        put(&index(&[("a", &[("k1", 1)])]), 300, Codec::Gzip, &mut object);
        let size = object.len() as u64;
        assert_eq!(find(&object, size + 1), None);
        assert_eq!(find(&object[..object.len() - 1], size - 1), None);
        assert_eq!(find(b"short", 5), None);
        let footer = HEAD.len() + NUMBERS + TAIL.len();
        let member = &object[300..object.len() - footer];
        // Pieces beyond the index.
        assert_eq!(parse(member, 105), None);
        for length in 0..member.len() {
            assert_eq!(parse(&member[..length], 300), None, "{length}");
        }
        let mut random = fastrand::Rng::with_seed(4);
        for _ in 0..2000 {
            let raw: Vec<u8> = (0..random.usize(..60)).map(|_| random.u8(..)).collect();
            let mut damaged = vec![0xaa, 6, raw.len() as u8];
            damaged.extend(raw);
            let _ = parse_raw(&damaged, 300);
        }
    }
}
