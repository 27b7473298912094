//! Is this file a SQLite database, and is it whole as far as its header tells?

use std::fs::File;
use std::path::Path;

use seawall_ltx::PageSize;

use crate::error::Error;
use crate::files::{is_there, read_up_to, sidecar};

/// How every SQLite database begins.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Bytes of the header: as much of a database as says how large it is.
pub const HEADER: usize = 100;

/// What the header of a file says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginning {
    /// It is a database, and as large as its header says.
    Whole,
    /// It is a database that is shorter than its header says, such as one that is being copied here.
    Part,
    /// It is no SQLite database, or it is encrypted.
    Other,
}

impl Beginning {
    /// Judges a file of `size` bytes.
    pub fn of(header: &[u8; HEADER], size: u64) -> Self {
        if !header.starts_with(MAGIC) {
            Self::Other
        } else if size >= size_in(header, page_size(header)) {
            Self::Whole
        } else {
            Self::Part
        }
    }
}

/// Checks the file's header, and gives the page size in it (bytes 16 and 17; 1 stands for 65536).
pub(super) fn check_is_database(path: &Path, file: &File) -> Result<PageSize, Error> {
    let not = |what| Err::<PageSize, _>(Error::NotADatabase { path: path.to_owned(), what });
    let metadata = file.metadata().map_err(Error::io(path))?;
    if !metadata.is_file() {
        return not("it is no regular file");
    }
    if metadata.len() == 0 {
        return Err(Error::Empty { path: path.to_owned() });
    }
    let mut header = [0; HEADER];
    let length = read_up_to(file, &mut header, 0).map_err(Error::io(path))?;
    if !header.starts_with(MAGIC) {
        return not("the file is no SQLite database, or it is encrypted");
    }
    let Some(page_size) = PageSize::new(page_size(&header)) else {
        return not("its page size is none that SQLite has");
    };
    // With a WAL or a journal beside it the file may be on its way from one size to another.
    let alone = || !["-wal", "-journal"].iter().any(|suffix| is_there(&sidecar(path, suffix)));
    let says = if length < header.len() { u64::MAX } else { size_in(&header, page_size.get()) };
    if metadata.len() < says && alone() {
        return Err(Error::Cut { path: path.to_owned() });
    }
    Ok(page_size)
}

/// The page size in a header, which may be none that SQLite has.
fn page_size(header: &[u8; HEADER]) -> u32 {
    match u16::from_be_bytes([header[16], header[17]]) {
        1 => 65_536,
        size => size.into(),
    }
}

/// How large a database is at least, as its header says.
fn size_in(header: &[u8; HEADER], page_size: u32) -> u64 {
    let word = |at: usize| header[at..at + 4].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    // The size in pages counts only if the last writer knew of it.
    let pages = if word(24) == word(92) { word(28).max(1) } else { 1 };
    pages * u64::from(page_size)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(pages: u32, counter: u32, valid_for: u32) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        header[..16].copy_from_slice(MAGIC);
        header[16..18].copy_from_slice(&4096_u16.to_be_bytes());
        header[24..28].copy_from_slice(&counter.to_be_bytes());
        header[28..32].copy_from_slice(&pages.to_be_bytes());
        header[92..96].copy_from_slice(&valid_for.to_be_bytes());
        header
    }

    #[test]
    fn a_file_that_is_not_all_there_is_no_database_yet() {
        for (header, size, expected) in [
            (header(3, 7, 7), 3 * 4096, Beginning::Whole),
            (header(3, 7, 7), 3 * 4096 - 1, Beginning::Part),
            (header(3, 7, 6), 4096, Beginning::Whole),
            (header(3, 7, 6), 4095, Beginning::Part),
            ([0; HEADER], 1 << 20, Beginning::Other),
        ] {
            assert_eq!(Beginning::of(&header, size), expected, "{size}");
        }
    }
}
