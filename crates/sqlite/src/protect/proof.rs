//! Does the WAL hold the last capture of another program?
//!
//! Litestream's headers have the place in the WAL where a capture ends, but not the checksum chain there. The content
//! proves the place: the WAL must hold an unbroken chain up to it, and exactly the pages of the object, in the same
//! versions.

use std::collections::BTreeMap;

use bytes::Bytes;
use seawall_ltx::{Header, decode_all};

use crate::error::Error;
use crate::identity::WalPosition;
use crate::source::Source;
use crate::wal::{Chain, HEADER_SIZE, Scan};

/// Compares the newest capture with the WAL. Returns the chain at `position` if it is proved. Blocks.
pub(crate) fn chain_by_pages(
    source: &mut Source,
    position: WalPosition,
    header: &Header,
    object: &Bytes,
) -> Result<Option<Chain>, Error> {
    let Some(wal) = source.wal_header()?.filter(|wal| wal.salts == position.salts) else { return Ok(None) };
    let Some(bytes) = position.offset.checked_sub(HEADER_SIZE).filter(|bytes| *bytes > 0) else {
        return Ok(Some(wal.chain));
    };
    let (scan, _) = source.scan(&wal, Scan::new(HEADER_SIZE, wal.chain), bytes)?;
    if scan.end != position.offset || scan.commit != header.commit {
        return Ok(None);
    }
    let chain = scan.chain;
    let first_frame = header.wal_offset.saturating_sub(HEADER_SIZE) / wal.frame_size();
    let mut expected: BTreeMap<u32, u32> = scan
        .newest()
        .into_iter()
        .filter(|version| u64::from(version.frame) >= first_frame)
        .map(|version| (version.page.0, version.frame))
        .collect();
    if expected.is_empty() {
        return Ok(None);
    }
    let reader = source.pages()?;
    let mut page_in_wal = vec![0; reader.page_size().bytes()];
    let mut equal = true;
    let mut failure = None;
    let decoded = decode_all(object, |page, content| {
        // Pages that are not in this stretch of the WAL were taken from the database file.
        let Some(frame) = expected.remove(&page.0) else { return };
        match reader.read_frame(frame, &mut page_in_wal) {
            Ok(()) => equal &= page_in_wal == content,
            Err(error) => failure = Some(error),
        }
    });
    if let Some(error) = failure {
        return Err(error);
    }
    // A damaged object proves nothing.
    Ok((decoded.is_ok() && equal && expected.is_empty()).then_some(chain))
}
