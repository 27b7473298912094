//! Is the end of the last capture in the WAL unchanged?
//!
//! The sweep asks this once a minute for every idle database. It takes a few reads of the WAL. So a WAL that was overwritten,
//! cut or rewound is reported within the minute, even without a commit.

use crate::continuity::{Captured, Verdict, judge};
use crate::error::Error;
use crate::source::Source;
use crate::wal::{HEADER_SIZE, WalHeader, frame_size};

/// The state of the captured place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Unchanged.
    AsItWas,
    /// The next capture can't simply continue from there. It finds out what happened.
    Changed,
    /// The frame that ends there has changed since it was captured; it begins at this offset. The capture is right, but readers
    /// of the database now read something else.
    Damaged(u64),
}

/// Looks at the place. Blocks.
pub(crate) fn standing(source: &mut Source, captured: &Captured) -> Result<Standing, Error> {
    let observed = source.observe(captured.wal.as_ref())?;
    let (Verdict::Continue { .. } | Verdict::Idle) = judge(captured, &observed) else { return Ok(Standing::Changed) };
    if source.has_lost_its_header()? {
        return Ok(Standing::Changed);
    }
    let (Some(wal), Some(header)) = (captured.wal, observed.header) else { return Ok(Standing::AsItWas) };
    let frame = wal.offset.checked_sub(frame_size(source.page_size())).filter(|frame| *frame >= HEADER_SIZE);
    match frame {
        Some(frame) if wal.salts == header.salts && !is_whole(source, &header, frame)? => Ok(Standing::Damaged(frame)),
        _ => Ok(Standing::AsItWas),
    }
}

/// Whether the frame at `offset` has the page that its checksum covers.
fn is_whole(source: &mut Source, header: &WalHeader, offset: u64) -> Result<bool, Error> {
    let size = frame_size(source.page_size());
    let before = match offset - size.min(offset) {
        before if before < HEADER_SIZE => Some(header.chain),
        before => source.frame_header(before)?.map(|frame| frame.chain),
    };
    let (Some(before), Some(frame)) = (before, source.frame_header(offset)?) else {
        return Ok(source.wal_header()?.is_none_or(|now| now.salts != header.salts));
    };
    let number = u32::try_from((offset - HEADER_SIZE) / size).unwrap_or(u32::MAX);
    let mut page = vec![0; source.page_size().bytes()];
    source.pages()?.read_frame(number, &mut page)?;
    let mut head = [0; 8];
    head[..4].copy_from_slice(&frame.page.0.to_be_bytes());
    head[4..].copy_from_slice(&frame.commit.to_be_bytes());
    // If another process restarted the WAL meanwhile, the frames of the old generation no longer matter.
    let same = source.wal_header()?.is_some_and(|now| now.salts == header.salts);
    Ok(!same || before.over(header.order, &head).over(header.order, &page) == frame.chain)
}
