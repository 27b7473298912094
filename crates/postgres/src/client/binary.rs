//! Which part of a message of a binary COPY is a row? Pure.
//!
//! The stream begins with a header and ends with a trailer, which belong to no row. The server sends the header in one
//! message with the first row, and the trailer in a message of its own. If there are no rows, it sends both together.

/// The beginning of a stream: its signature, no flags, and no extension of the header.
pub(crate) const HEADER: [u8; 19] = *b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// The end of a stream, in place of a row's number of columns.
pub(crate) const TRAILER: [u8; 2] = [0xff, 0xff];

/// How many bytes of the header are its signature.
const SIGNATURE: usize = 11;

/// The largest header extension that is skipped. No version of PostgreSQL has one yet.
const LARGEST_EXTENSION: usize = 1 << 10;

/// The flags that a reader must know.
const CRITICAL: u32 = 0xffff_0000;

/// The parts of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Part {
    /// How many of its bytes belong to the header or the trailer. The others, if any, are one row.
    pub(crate) skipped: usize,
    /// Whether it contains the trailer.
    pub(crate) ends: bool,
}

/// The parts of a message of `length` bytes, of which `arrived` are here; `None` while these are too few. `first` says
/// whether it is the first message of its stream.
pub(crate) fn part(first: bool, arrived: &[u8], length: usize) -> Result<Option<Part>, &'static str> {
    let arrived = &arrived[..arrived.len().min(length)];
    let header = match first {
        true => header(arrived, length)?,
        false => Some(0),
    };
    let Some(skipped) = header else { return Ok(None) };
    let row = length - skipped;
    match arrived.get(skipped..).unwrap_or_default() {
        _ if row == 0 && first => Ok(Some(Part { skipped, ends: false })),
        _ if row < TRAILER.len() => Err("a row without columns"),
        [a, b, ..] if [*a, *b] != TRAILER => Ok(Some(Part { skipped, ends: false })),
        [_, _, ..] if row == TRAILER.len() => Ok(Some(Part { skipped: length, ends: true })),
        [_, _, ..] => Err("more behind the trailer"),
        _ => Ok(None),
    }
}

/// The number of header bytes at the beginning of a message.
fn header(arrived: &[u8], length: usize) -> Result<Option<usize>, &'static str> {
    if length < HEADER.len() {
        return Err("no header");
    }
    let Some(fixed) = arrived.first_chunk::<{ HEADER.len() }>() else { return Ok(None) };
    if fixed[..SIGNATURE] != HEADER[..SIGNATURE] {
        return Err("no header");
    }
    let number = |at: usize| u32::from_be_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]);
    if number(SIGNATURE) & CRITICAL != 0 {
        return Err("a header with unknown flags");
    }
    let extension = number(SIGNATURE + 4) as usize;
    if extension > LARGEST_EXTENSION || extension > length - HEADER.len() {
        return Err("a header that is too large");
    }
    Ok(Some(HEADER.len() + extension))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(parts: &[&[u8]]) -> Vec<u8> {
        parts.concat()
    }

    #[test]
    fn header_rows_and_trailer_are_told_apart() {
        let row = [0, 1, 0, 0, 0, 1, 7];
        let extended = [&HEADER[..15], &[0, 0, 0, 3], b"abc"].concat();
        let flagged = [&HEADER[..11], &[0, 0, 0, 9], &HEADER[15..]].concat();
        for (first, message, expected) in [
            (true, with(&[&HEADER, &row]), Ok((19, false))),
            (true, with(&[&HEADER]), Ok((19, false))),
            (true, with(&[&HEADER, &TRAILER]), Ok((21, true))),
            (true, with(&[&extended, &row]), Ok((22, false))),
            (true, with(&[&flagged, &row]), Ok((19, false))),
            (false, row.to_vec(), Ok((0, false))),
            (false, vec![0, 0], Ok((0, false))),
            (false, TRAILER.to_vec(), Ok((2, true))),
            (true, row.to_vec(), Err("no header")),
            (true, b"1\ttext as it is, and more of it".to_vec(), Err("no header")),
            (true, with(&[&HEADER[..11], &[0, 1, 0, 0], &[0; 4]]), Err("a header with unknown flags")),
            (true, with(&[&HEADER[..15], &[0, 0, 0, 9]]), Err("a header that is too large")),
            (true, with(&[&HEADER[..15], &[0xff; 4], &[0; 9000]]), Err("a header that is too large")),
            (true, with(&[&HEADER, &[0]]), Err("a row without columns")),
            (false, vec![], Err("a row without columns")),
            (false, vec![0], Err("a row without columns")),
            (false, with(&[&TRAILER, &row]), Err("more behind the trailer")),
            (true, with(&[&HEADER, &TRAILER, &row]), Err("more behind the trailer")),
        ] {
            let expected = expected.map(|(skipped, ends)| Part { skipped, ends });
            assert_eq!(part(first, &message, message.len()), expected.map(Some), "{message:?}");
            // For every prefix, the answer is either the final one or none yet.
            for arrived in 0..message.len() {
                let known = part(first, &message[..arrived], message.len());
                assert!(known == Ok(None) || known == expected.map(Some), "{message:?} {arrived}: {known:?}");
            }
            let longer = [&message[..], b"the next message"].concat();
            assert_eq!(part(first, &longer, message.len()), expected.map(Some));
        }
    }
}
