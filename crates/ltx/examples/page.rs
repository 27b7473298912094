//! Writes one page of an LTX file to standard output. It reads only the header, the index and the page's own frame, so
//! the same steps serve an object in a bucket, with four ranged reads.
//!
//! ```text
//! cargo run --example page -- 0000000000000001-0000000000000001.ltx 1 | head -c 15
//! SQLite format 3
//! ```
//!
//! The file checksum covers the whole file, so nothing verifies a single page but the shape of its LZ4 block. Verify a
//! file once, as the example `info` does, before you trust its pages.

#![allow(clippy::disallowed_methods, reason = "an example reads files and arguments")]

use std::error::Error;
use std::io::{Read, Seek, SeekFrom, Write};

use seawall_ltx::{HEADER_SIZE, Header, Index, PageNo, decode_frame};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(path), Some(number)) = (arguments.next(), arguments.next()) else {
        return Err("usage: page FILE NUMBER".into());
    };
    let number = PageNo(number.to_str().unwrap_or_default().parse()?);
    let page = page(&mut std::fs::File::open(path)?, number)?.ok_or("the file doesn't have this page")?;
    std::io::stdout().write_all(&page)?;
    Ok(())
}

/// A page of a file; `None` if the file doesn't have it.
pub(crate) fn page(file: &mut (impl Read + Seek), number: PageNo) -> Result<Option<Vec<u8>>, Box<dyn Error>> {
    let len = file.seek(SeekFrom::End(0))?;
    let header = Header::parse(&read_at(file, 0, len.min(HEADER_SIZE as u64))?)?;

    // The last 24 bytes tell how long the index is. A second read fetches all of it.
    let mut needed = len.min(24);
    let index = loop {
        let tail = read_at(file, len - needed, needed)?;
        match Index::parse(&tail, len) {
            Err(seawall_ltx::Error::TailTooShort { needed: more }) if (needed + 1..=len).contains(&more) => {
                needed = more
            }
            parsed => break parsed?,
        }
    };
    index.check(&header)?;

    let Some(entry) = index.find(number) else { return Ok(None) };
    let frame = read_at(file, entry.offset, entry.size.into())?;
    let (found, page) = decode_frame(header.page_size, &frame)?;
    if found != number {
        return Err(format!("the index leads to page {found} instead of page {number}").into());
    }
    Ok(Some(page))
}

fn read_at(file: &mut (impl Read + Seek), offset: u64, len: u64) -> Result<Vec<u8>, Box<dyn Error>> {
    // `len` is at most the length of the file, or of one frame.
    let mut bytes = vec![0; usize::try_from(len)?];
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}
