//! The list of the pages that a seal let go. It is needed after a crash between letting a WAL generation go and
//! capturing its last frames.
//!
//! A seal copies the whole WAL into the database file and lets it go. Pages that aren't in the vault yet are read from
//! that file, which can't change before the hold moves on. If this process ends first, the pages are still in the file,
//! in this version or a newer one; only their numbers would be lost. So the list is written first.

use seawall_ltx::{HEADER_SIZE, Header};

use crate::identity::{Lineage, Stamp, WalPosition};
use crate::state::Position;
use crate::wal::{Chain, Salts, WordOrder};

/// The pages that the last capture of a generation consists of, and its header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sealed {
    /// As the object in the vault will have it.
    pub(crate) header: Header,
    /// Ascending.
    pub(crate) pages: Vec<u32>,
}

/// Bytes of the checksum at the end.
const SUM: usize = 8;

impl Sealed {
    /// The file: the header, the pages as big-endian words, and SQLite's checksum over both (`docs/formats.md`).
    pub(crate) fn encode(header: &Header, pages: impl ExactSizeIterator<Item = u32>) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_SIZE + 4 * pages.len() + 2 * SUM);
        bytes.extend(header.encode());
        pages.for_each(|page| bytes.extend(page.to_be_bytes()));
        // The checksum takes eight bytes at a time.
        bytes.resize(bytes.len().next_multiple_of(SUM), 0);
        let Chain(first, second) = sum(&bytes);
        bytes.extend(first.to_be_bytes());
        bytes.extend(second.to_be_bytes());
        bytes
    }

    /// Reads a list; `None` if it is damaged.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let (body, found) = bytes.split_at_checked(bytes.len().checked_sub(SUM)?)?;
        let Chain(first, second) = sum(body.get(..body.len() / SUM * SUM)?);
        if body.len() % SUM != 0 || found[..4] != first.to_be_bytes() || found[4..] != second.to_be_bytes() {
            return None;
        }
        let header = Header::parse(body).ok()?;
        let words = body.get(HEADER_SIZE..)?.chunks_exact(4).filter_map(|word| word.try_into().ok());
        // A zero fills the last eight bytes: no page has that number.
        let pages: Vec<u32> = words.map(u32::from_be_bytes).take_while(|page| *page != 0).collect();
        pages.is_sorted_by(|a, b| a < b).then_some(Self { header, pages })
    }
}

impl Sealed {
    /// Whether the listed pages come right after `position`, or end there.
    pub(crate) fn is_of(&self, position: &Position, lineage: Lineage) -> bool {
        let ends = Stamp::read(&self.header).is_some_and(|stamp| stamp.lineage == lineage)
            && position.txid == self.header.max_txid;
        ends || self.follows(position, lineage)
    }

    /// Whether the listed pages come right after `position` in that history. Pages of any other list belong to another
    /// vault, or are in this vault already.
    pub(crate) fn follows(&self, position: &Position, lineage: Lineage) -> bool {
        let Header { wal_salt1, wal_salt2, wal_offset, min_txid, .. } = self.header;
        let begins = |wal: WalPosition| (wal.salts, wal.offset) == (Salts(wal_salt1, wal_salt2), wal_offset);
        Stamp::read(&self.header).is_some_and(|stamp| stamp.lineage == lineage)
            && position.txid.next() == Some(min_txid)
            && position.wal.is_none_or(begins)
    }
}

fn sum(bytes: &[u8]) -> Chain {
    Chain::default().over(WordOrder::Big, bytes)
}

#[cfg(test)]
mod tests {
    use seawall_ltx::{PageSize, Txid};

    use super::*;

    #[test]
    fn damage_is_noticed() {
        let header = Header::new(PageSize::new(4096).expect("a page size"), 9, Txid(7), Txid(7));
        for pages in [vec![], vec![3], vec![1, 4], vec![1, 4, 9]] {
            let bytes = Sealed::encode(&header, pages.iter().copied());
            let read = Sealed::parse(&bytes).expect("whole");
            assert_eq!((read.header.max_txid, &read.pages), (Txid(7), &pages));
            for at in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1;
                assert_eq!(Sealed::parse(&damaged), None, "byte {at} of {pages:?}");
                assert_eq!(Sealed::parse(&bytes[..at]), None, "{at} bytes of {pages:?}");
            }
        }
        assert_eq!(Sealed::parse(&Sealed::encode(&header, [4, 4].into_iter())), None);
    }
}
