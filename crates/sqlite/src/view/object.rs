//! An object of a snapshot: its header and its page index, which are read with one or two ranges of it.

use bytes::Bytes;
use seawall_ltx::{Header, Index, decode_all};
use seawall_vault::Vault;

use crate::error::Error;
use crate::headers::check_names;
use crate::heads::{Heads, SMALL, is_whole};
use crate::layout::{Layout, Stored};
use crate::places::Place;

/// The largest index that is read: that of a database of 50 million pages.
const LARGEST_INDEX: u64 = 512 << 20;

/// The share of an object that its index takes at most, as a rule: about 9 bytes for a page of 4096 bytes, compressed.
const INDEX_SHARE: u64 = 128;

/// The least and the most bytes that are read to find an index in them.
const TAIL: (u64, u64) = (32 << 10, 8 << 20);

/// An object of which pages are read.
#[derive(Debug)]
pub(crate) struct Object {
    /// Differs from that of every other object of the view, also from one that had its name.
    pub(crate) id: u64,
    pub(crate) file: Stored,
    /// All of it, if it is small and there is room.
    pub(crate) whole: Option<Bytes>,
}

/// What was read of an object.
pub(crate) struct Opened {
    pub(crate) file: Stored,
    pub(crate) header: Header,
    pub(crate) index: Index,
    pub(crate) whole: Option<Bytes>,
}

impl Opened {
    /// Reads the header and the index of an object. A small one is read whole, and all its checksums are checked. Bytes
    /// that `heads` has aren't asked for again.
    pub(crate) async fn read(heads: &Heads, file: Stored) -> Result<Self, Error> {
        let vault = heads.vault();
        let key = file.key(Layout::of(vault));
        if file.size <= SMALL {
            let whole = match heads.take(&file).filter(|bytes| is_whole(&file, bytes)) {
                Some(whole) => whole,
                None => vault.read(&key, None, SMALL).await?,
            };
            return Self::of_whole(vault, file, whole);
        }
        let header = heads.header(&file).await?;
        let index = read_index(vault, &file).await?;
        index.check(&header).map_err(Error::ltx(vault.object(&key)))?;
        Ok(Self { file, header, index, whole: None })
    }

    /// An object that is in memory.
    pub(crate) fn of_whole(vault: &Vault, file: Stored, whole: Bytes) -> Result<Self, Error> {
        let object = vault.object(&file.key(Layout::of(vault)));
        let header = decode_all(&whole, |_, _| ()).map_err(Error::ltx(&object))?.header;
        check_names(&file, &header, object.clone())?;
        let index = Index::parse(&whole, whole.len() as u64).map_err(Error::ltx(&object))?;
        index.check(&header).map_err(Error::ltx(&object))?;
        Ok(Self { file, header, index, whole: Some(whole) })
    }

    /// Where its pages are, as those of object `number` of a snapshot.
    pub(crate) fn places(&self, vault: &Vault, number: u32) -> Result<Vec<Place>, Error> {
        let places = self.index.entries().iter().map(|entry| Place::new(number, entry)).collect::<Option<_>>();
        places.ok_or_else(|| corrupt(vault, &self.file, "its index names offsets that no object has"))
    }
}

/// Reads the index at the end of an object. Most often one range has all of it.
async fn read_index(vault: &Vault, file: &Stored) -> Result<Index, Error> {
    let key = file.key(Layout::of(vault));
    let mut length = first_tail(file.size);
    loop {
        let tail = vault.read(&key, Some(file.size.saturating_sub(length)..file.size), length).await?;
        if (tail.len() as u64) < length {
            return Err(corrupt(vault, file, "it is shorter than its listing says"));
        }
        match Index::parse(&tail, file.size) {
            Err(seawall_ltx::Error::TailTooShort { needed }) if needed > length && needed <= LARGEST_INDEX => {
                length = needed;
            }
            Err(seawall_ltx::Error::TailTooShort { .. }) => {
                return Err(corrupt(vault, file, "its index is larger than that of any database"));
            }
            parsed => return parsed.map_err(Error::ltx(vault.object(&key))),
        }
    }
}

/// How many of the last bytes of an object are read first.
fn first_tail(size: u64) -> u64 {
    (size / INDEX_SHARE).clamp(TAIL.0, TAIL.1).min(size)
}

pub(crate) fn corrupt(vault: &Vault, file: &Stored, what: &str) -> Error {
    Error::Corrupt { object: vault.object(&file.key(Layout::of(vault))), what: what.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_tail_is_likely_to_hold_the_index() {
        let cases = [(100, 100), (300 << 10, 32 << 10), (128 << 20, 1 << 20), (1 << 40, 8 << 20)];
        for (size, expected) in cases {
            assert_eq!(first_tail(size), expected, "{size}");
        }
    }
}
