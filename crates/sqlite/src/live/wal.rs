//! Parses the bytes of a wal-index. [`seawall_ltx::wal`] parses the write-ahead log itself.

pub(crate) use seawall_ltx::wal::{
    Chain, FRAME_HEADER_SIZE, FrameHeader, HEADER_SIZE, PageVersion, Salts, Scan, WalHeader, WordOrder, frame_size,
};

/// The header of the wal-index. It has two copies at the start of `-shm`.
///
/// Source: "WAL-Index Header" in <https://www.sqlite.org/walformat.html>. Numbers are in the machine's own order; the
/// salts are the bytes of the WAL's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IndexHeader {
    /// Number of committed frames.
    pub(crate) frames: u32,
    pub(crate) salts: Salts,
}

/// Where the wal-index says how many frames were copied: behind both copies of its header.
pub(crate) const COPIED_AT: usize = 2 * IndexHeader::SIZE;

/// How many frames were copied into the database file, by the bytes of a wal-index. It grows only, until the WAL is restarted.
///
/// Source: "WAL-Index Checkpoint Information" (`nBackfill`) in <https://www.sqlite.org/walformat.html>.
pub(crate) fn copied(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(COPIED_AT..COPIED_AT + 4)?.try_into().ok()?))
}

/// Where the wal-index says how many frames the last checkpoint was to copy.
pub(crate) const ATTEMPTED_AT: usize = COPIED_AT + 32;

/// How many frames the last checkpoint was to copy, by the bytes of a wal-index.
///
/// Source: "WAL-Index Checkpoint Information" (`nBackfillAttempted`) in <https://www.sqlite.org/walformat.html>.
pub(crate) fn attempted(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(ATTEMPTED_AT..ATTEMPTED_AT + 4)?.try_into().ok()?))
}

impl IndexHeader {
    /// Size of one copy, in bytes.
    pub(crate) const SIZE: usize = 48;

    /// Reads both copies. `None` unless they are equal and valid; while a writer changes them they aren't.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let copy = bytes.get(..Self::SIZE)?;
        if bytes.get(Self::SIZE..2 * Self::SIZE)? != copy {
            return None;
        }
        let native = |at: usize| Some(u32::from_ne_bytes(copy.get(at..at + 4)?.try_into().ok()?));
        let order = if cfg!(target_endian = "big") { WordOrder::Big } else { WordOrder::Little };
        let sum = Chain::default().over(order, &copy[..40]);
        let in_order = native(0)? == 3_007_000 && copy[12] == 1 && sum == Chain(native(40)?, native(44)?);
        in_order.then_some(Self { frames: native(16)?, salts: Salts(word(copy, 32)?, word(copy, 36)?) })
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}
