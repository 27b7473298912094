//! Is this file a SQLite database, and is it whole as far as its header tells?

use std::fs::File;
use std::path::Path;

use seawall_ltx::PageSize;

use crate::error::Error;
use crate::files::{is_there, read_up_to, sidecar};

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
    let mut header = [0; 100];
    let length = read_up_to(file, &mut header, 0).map_err(Error::io(path))?;
    if &header[..16] != b"SQLite format 3\0" {
        return not("the file is no SQLite database, or it is encrypted");
    }
    let size = u32::from(u16::from_be_bytes([header[16], header[17]]));
    let Some(page_size) = PageSize::new(if size == 1 { 65_536 } else { size }) else {
        return not("its page size is none that SQLite has");
    };
    // With a WAL or a journal beside it the file may be on its way from one size to another.
    let alone = || !["-wal", "-journal"].iter().any(|suffix| is_there(&sidecar(path, suffix)));
    let says = if length < header.len() { u64::MAX } else { size_in(&header, page_size) };
    if metadata.len() < says && alone() {
        return Err(Error::Cut { path: path.to_owned() });
    }
    Ok(page_size)
}

/// How large a database is at least, as its header says.
fn size_in(header: &[u8; 100], page_size: PageSize) -> u64 {
    let word = |at: usize| header[at..at + 4].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    // The size in pages counts only if the last writer knew of it.
    let pages = if word(24) == word(92) { word(28).max(1) } else { 1 };
    pages * u64::from(page_size.get())
}
