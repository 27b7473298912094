//! Identities: of a history, of its points, of a writer.
//!
//! A [`Lineage`] names one unbroken history. It is in the node id of every LTX header, which other readers ignore. A
//! [`Nonce`] names one run of one writer: two copies of a state directory share the lineage, but never the nonce. A
//! [`Stamp`] puts both, with the checksum chain of the WAL, into a header. So position and history can be recovered
//! from the vault alone.

use std::fmt;
use std::num::NonZeroU32;

use seawall_ltx::wal::{Chain, Salts};
use seawall_ltx::{Header, crc64};
use serde::{Deserialize, Serialize};

use crate::layout::Level;

/// Identity of one unbroken history. Never zero: zero in a header means that another program wrote it.
///
/// Its text form is 16 hex digits, in JSON too: readers that take numbers for doubles would round it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(crate) struct Lineage(u64);

impl Lineage {
    /// A new lineage from a random number.
    pub(crate) fn new(random: u64) -> Self {
        Self(random.max(1))
    }
}

impl From<Lineage> for String {
    fn from(lineage: Lineage) -> Self {
        lineage.to_string()
    }
}

impl TryFrom<String> for Lineage {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let number = u64::from_str_radix(&text, 16).ok().filter(|number| *number > 0 && text.len() == 16);
        number.map(Self).ok_or_else(|| format!("{text:?} is no lineage: 16 hex digits"))
    }
}

impl fmt::Display for Lineage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Identity of one run of one writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Nonce(u32);

impl Nonce {
    /// A new nonce from a random number.
    pub(crate) fn new(random: u64) -> Self {
        Self(((random >> 32) as u32).max(1))
    }
}

/// How far the WAL was captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WalPosition {
    pub(crate) salts: Salts,
    /// File offset after the last captured frame; 32 while no frame of the generation is captured.
    pub(crate) offset: u64,
    /// The checksum chain there; `None` when another program wrote the header with the offset.
    pub(crate) chain: Option<Chain>,
}

/// The additional data in our LTX headers: the writer, and the place where it ends in the WAL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    pub(crate) lineage: Lineage,
    pub(crate) nonce: Nonce,
}

/// Marks that the reserved bytes hold a stamp, and its version.
const STAMP_MAGIC: [u8; 4] = *b"SWs1";

/// Marks that the reserved bytes hold the tags of a merged object, and its version.
const MERGED_MAGIC: [u8; 4] = *b"SWm1";

/// Names a point of one branch of one history: a hash of the header of the capture that made it.
///
/// Each header repeats the tag of the point before it, so a tag depends on all earlier objects. Two histories that
/// share TXIDs and lineage differ in their tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tag(NonZeroU32);

impl Tag {
    /// The tag of the point after a capture, or after a complete copy that is its twin.
    pub(crate) fn of(header: &Header) -> Self {
        let capture = Header { min_txid: header.max_txid, ..*header };
        Self(NonZeroU32::new(crc64(&capture.encode()) as u32).unwrap_or(NonZeroU32::MIN))
    }

    fn new(word: u32) -> Option<Self> {
        NonZeroU32::new(word).map(Self)
    }

    fn bytes(tag: Option<Self>) -> [u8; 4] {
        tag.map_or(0, |tag| tag.0.get()).to_be_bytes()
    }

    /// The tag of the point at the end of an object; `None` where its header doesn't tell.
    pub(crate) fn after(header: &Header, level: Level) -> Option<Self> {
        if is_merged(header) {
            return Self::new(reserved_word(header, 4));
        }
        // An object that another program merged or copied is no capture, and doesn't tell about the capture at its end.
        (Stamp::read(header).is_some() || level == Level::LOG && header.node_id == 0).then(|| Self::of(header))
    }

    /// The tag of the point that an object follows; `None` if its header doesn't tell.
    pub(crate) fn before(header: &Header) -> Option<Self> {
        (is_merged(header) || Stamp::read(header).is_some()).then(|| Self::new(reserved_word(header, 16))).flatten()
    }

    /// Writes the tags of a merged object into the reserved bytes of its header (`docs/formats.md`).
    pub(crate) fn write_merged(header: &mut Header, before: Option<Self>, after: Option<Self>) {
        header.reserved[..4].copy_from_slice(&MERGED_MAGIC);
        header.reserved[4..8].copy_from_slice(&Self::bytes(after));
        header.reserved[16..20].copy_from_slice(&Self::bytes(before));
    }
}

fn is_merged(header: &Header) -> bool {
    header.reserved[..4] == MERGED_MAGIC
}

/// The lineage of an object of ours, captured or merged; `None` for another program's.
pub(crate) fn lineage_of(header: &Header, level: Level) -> Option<Lineage> {
    let bare = level != Level::LOG && header.no_checksum && header.reserved == [0; 20];
    let ours = Stamp::read(header).is_some() || is_merged(header) || bare;
    (ours && header.node_id != 0).then_some(Lineage(header.node_id))
}

impl Stamp {
    /// Writes the stamp, the end of the WAL range and the tag of the point before into a header: lineage into the node id;
    /// marker, nonce, chain and tag into the reserved bytes 80 to 99 (`docs/formats.md`).
    pub(crate) fn write(&self, header: &mut Header, chain: Chain, before: Option<Tag>) {
        header.node_id = self.lineage.0;
        header.reserved[..4].copy_from_slice(&STAMP_MAGIC);
        header.reserved[4..8].copy_from_slice(&self.nonce.0.to_be_bytes());
        header.reserved[8..12].copy_from_slice(&chain.0.to_be_bytes());
        header.reserved[12..16].copy_from_slice(&chain.1.to_be_bytes());
        header.reserved[16..20].copy_from_slice(&Tag::bytes(before));
    }

    /// Reads the stamp; `None` when another program wrote the header.
    pub(crate) fn read(header: &Header) -> Option<Self> {
        let nonce = reserved_word(header, 4);
        (header.reserved[..4] == STAMP_MAGIC && header.node_id != 0 && nonce != 0)
            .then_some(Self { lineage: Lineage(header.node_id), nonce: Nonce(nonce) })
    }
}

impl WalPosition {
    /// Where the WAL range of a level-0 header ends; `None` when the header says nothing about a WAL.
    pub(crate) fn after(header: &Header) -> Option<Self> {
        let salts = Salts(header.wal_salt1, header.wal_salt2);
        if salts == Salts::default() {
            return None;
        }
        let offset = header.wal_offset.checked_add(header.wal_size)?;
        let chain = Stamp::read(header).map(|_| Chain(reserved_word(header, 8), reserved_word(header, 12)));
        Some(Self { salts, offset, chain })
    }
}

fn reserved_word(header: &Header, at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&header.reserved[at..at + 4]);
    u32::from_be_bytes(word)
}
