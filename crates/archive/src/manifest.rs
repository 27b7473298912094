//! What a set is: its manifest, which is a link of the chain, and its index. Pure: bytes in, bytes out.
//!
//! Each is two lines of JSON. The second line holds the format and the BLAKE3 digest of the first, so that the document
//! proves itself and `jq` reads it. The manifest is small and is written last; the set counts once the manifest exists.
//! The index names every item, chunk and frame, and the manifest holds the digest of the index.

use std::collections::{BTreeMap, BTreeSet};

use seawall_core::Moment;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{Codec, Digest, Error, Sample, SetId, Timetable};

/// The format that Seawall writes, and the only format that it reads.
pub(crate) const FORMAT: u32 = 1;

/// The most bytes of a frame: sixteen times the largest that Seawall writes. A reader decompresses a frame into memory.
pub(crate) const LARGEST_FRAME: u64 = 16 << 20;

/// Number and digest of the link before this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Previous {
    /// Its number.
    pub number: u64,
    /// The digest of all of its bytes.
    pub blake3: Digest,
}

/// Size and digest of an object that belongs to a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sealed {
    /// Its bytes.
    pub bytes: u64,
    /// The digest of all of them.
    pub blake3: Digest,
}

/// Sums over a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Totals {
    /// Tables and other things in it.
    pub items: u64,
    /// Rows of all of them.
    pub rows: u64,
    /// Bytes as the server sent them.
    pub raw: u64,
    /// Bytes of all chunks in the vault.
    pub stored: u64,
    /// Chunks.
    pub chunks: u64,
}

/// The summary of a set that the chain holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Its name.
    pub id: SetId,
    /// The engine that made the set: `postgres`.
    pub engine: String,
    /// Which database the set holds, in the engine's own words; all sets of one vault have the same identity.
    pub identity: String,
    /// The program that made it.
    pub tool: String,
    /// The moment whose state the set holds.
    pub point: Moment,
    /// When the vault had its last chunk.
    pub ended: Moment,
    /// How its frames are compressed.
    pub codec: Codec,
    /// Sums.
    pub totals: Totals,
    /// The index.
    pub index: Sealed,
    /// The digest of the digests of all chunks, in order: it stands for all bytes of the set.
    pub whole: Digest,
    /// If the set holds a file of the vendor's own tool: the tool's word for its format, such as `custom`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artefact: Option<String>,
    /// If the set holds only a share of the rows: the share that was asked for. Such a set is no backup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<Sample>,
    /// The schedule by which backups of the source are made, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Timetable>,
    /// What the engine needs for a restore: server version, snapshot, encoding.
    pub detail: serde_json::Value,
}

impl Manifest {
    /// Objects that a restore of the set reads beside the manifest: the index and the chunks.
    pub fn objects(&self) -> u64 {
        self.totals.chunks.saturating_add(1)
    }

    /// What can't be told of a set that holds only a share of the rows.
    pub fn doubt_of_sample(&self) -> Option<String> {
        self.sample.map(|sample| format!("the set holds only a sample of {sample} of the rows"))
    }
}

/// What the bytes of an item are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Content {
    /// Rows as lines, each ended by a newline; newlines within values are escaped.
    Lines,
    /// Rows as PostgreSQL's `COPY` writes them in binary, without its header and trailer: see [`crate::Tuples`].
    Tuples,
    /// A file: the concatenated frames are its bytes.
    File,
    /// A file of the vendor's own tool, which an export gives back unchanged. A set has one, if its manifest says so.
    Artefact,
    /// A file in a directory of the vendor's own tool, which an export gives back unchanged. The item's name is the
    /// file's name. Such a set has several members instead of one [`Content::Artefact`].
    Member,
}

/// The items that hold a vendor's artefact, by index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Artefact {
    /// One file.
    File(u32),
    /// A directory of files without folders: their names are plain, and no two are alike.
    Directory(Vec<u32>),
}

/// The most letters of a file's name in a directory.
const LONGEST_NAME: usize = 200;

/// Whether an export may make a file of this name in a new folder. The name comes from a vault, so it must neither lead
/// out of the folder nor hide a file.
fn is_plain(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(plain) && !name.starts_with(['.', '-'])
}

/// Something in a set: a table's rows, a schema, a list of sequences.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// What people call it: `public.orders`.
    pub name: String,
    /// In a set of a whole server, the database that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
    /// What its bytes are.
    pub content: Content,
    /// How to restore it, in the engine's words.
    pub detail: serde_json::Value,
}

/// A piece of one item, compressed by itself: `[item, rows, raw bytes, stored bytes]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u32, u64, u64, u64)", into = "(u32, u64, u64, u64)")]
pub struct Frame {
    /// The item, as its place in the index.
    pub item: u32,
    /// Rows in it; 0 for a file.
    pub rows: u64,
    /// Bytes when it is decompressed.
    pub raw: u64,
    /// Bytes in the chunk.
    pub stored: u64,
}

impl From<(u32, u64, u64, u64)> for Frame {
    fn from((item, rows, raw, stored): (u32, u64, u64, u64)) -> Self {
        Self { item, rows, raw, stored }
    }
}

impl From<Frame> for (u32, u64, u64, u64) {
    fn from(Frame { item, rows, raw, stored }: Frame) -> Self {
        (item, rows, raw, stored)
    }
}

/// An object with frames, one directly behind another. A chunk without frames stands for a number that an abandoned
/// attempt used: an object of that number doesn't count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chunk {
    /// The digest of all of its bytes.
    pub blake3: Digest,
    /// Its frames, in order.
    pub frames: Vec<Frame>,
    /// The chunk whose last row continues in this one. A row that is larger than a frame spans several frames, and
    /// perhaps several chunks, which are only useful together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<u32>,
}

impl Chunk {
    /// Its bytes in the vault.
    pub fn stored(&self) -> u64 {
        self.frames.iter().map(|frame| frame.stored).sum()
    }
}

/// The index: everything in a set. In memory it takes about 60 bytes for each chunk and 32 for each frame: some 20 MB
/// for a terabyte.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Index {
    /// The set.
    pub id: SetId,
    /// What is in it; frames refer to items by their place.
    pub items: Vec<Item>,
    /// Its chunks; a chunk's place is its number.
    pub chunks: Vec<Chunk>,
}

impl Index {
    /// Sums over the set.
    pub fn totals(&self) -> Totals {
        let frames = || self.chunks.iter().flat_map(|chunk| &chunk.frames);
        Totals {
            items: self.items.len() as u64,
            rows: frames().map(|frame| frame.rows).sum(),
            raw: frames().map(|frame| frame.raw).sum(),
            stored: frames().map(|frame| frame.stored).sum(),
            chunks: self.chunks.iter().filter(|chunk| !chunk.frames.is_empty()).count() as u64,
        }
    }

    /// The digest of the digests of all chunks.
    pub fn whole(&self) -> Digest {
        let mut hasher = blake3::Hasher::new();
        for chunk in &self.chunks {
            hasher.update(chunk.blake3.as_bytes());
        }
        Digest::from_hasher(&hasher)
    }

    /// Where the vendor's artefact is among the items.
    pub fn artefact(&self) -> Option<Artefact> {
        let of = |content| (0..).zip(&self.items).filter(move |(_, item)| item.content == content);
        if let Some((file, _)) = of(Content::Artefact).next() {
            return Some(Artefact::File(file));
        }
        let members: Vec<u32> = of(Content::Member).map(|(place, _)| place).collect();
        (!members.is_empty()).then_some(Artefact::Directory(members))
    }

    /// Whether the set holds the artefact that the manifest names, and an export can make all of its files.
    fn check_artefact(&self, manifest: &Manifest) -> Result<(), String> {
        let files = self.items.iter().filter(|item| item.content == Content::Artefact).count();
        let members = || self.items.iter().filter(|item| item.content == Content::Member);
        let is_there = matches!((files, members().count()), (1, 0) | (0, 1..));
        if is_there != manifest.artefact.is_some() || (!is_there && files > 0) {
            return Err(format!("it has {files} artefacts, and the manifest says otherwise"));
        }
        let mut names = BTreeSet::new();
        match members().find(|item| !is_plain(&item.name) || !names.insert(&item.name)) {
            Some(item) => Err(format!("no file can be called as its item {:?}, or two are", item.name)),
            None => Ok(()),
        }
    }

    /// For each chunk whose last row continues, the chunk in which it continues.
    pub fn continuations(&self) -> BTreeMap<u32, u32> {
        let numbered = (0..).zip(&self.chunks);
        numbered.filter_map(|(number, chunk)| Some((chunk.continues?, number))).collect()
    }

    /// All chunks, grouped into chains: in a chain, the last row of each chunk continues in the next one.
    pub(crate) fn chains(&self) -> Vec<Vec<u32>> {
        let continuations = self.continuations();
        let next = |number: &u32| continuations.get(number).copied();
        let starts = (0..).zip(&self.chunks).filter(|(_, chunk)| chunk.continues.is_none());
        starts.map(|(start, _)| std::iter::successors(Some(start), next).collect()).collect()
    }

    /// Checks that each chunk continues at most one other, which has an earlier number and holds the same item.
    fn check_continuations(&self) -> Result<(), String> {
        let continued = self.chunks.iter().filter(|chunk| chunk.continues.is_some()).count();
        if self.continuations().len() != continued {
            return Err("two of its chunks go on with the same row".to_owned());
        }
        for (from, to) in self.continuations() {
            let item = |number: u32, frame: fn(&[Frame]) -> Option<&Frame>| {
                self.chunks.get(number as usize).and_then(|chunk| frame(&chunk.frames)).map(|frame| frame.item)
            };
            let last = item(from, <[Frame]>::last);
            if from >= to || last.is_none() || last != item(to, <[Frame]>::first) {
                return Err(format!("chunk {to} goes on with chunk {from}, and can't"));
            }
        }
        Ok(())
    }

    /// Checks that the index is consistent (I11) and belongs to this set.
    pub(crate) fn check(&self, manifest: &Manifest) -> Result<(), String> {
        let known = u32::try_from(self.items.len()).map_err(|_| "it has more items than can be numbered".to_owned())?;
        let mut sum = 0_u64;
        for (number, chunk) in self.chunks.iter().enumerate() {
            for frame in &chunk.frames {
                if frame.item >= known {
                    return Err(format!("chunk {number} has a frame of item {}, and there are {known}", frame.item));
                }
                if frame.raw > LARGEST_FRAME || frame.stored > 2 * LARGEST_FRAME {
                    return Err(format!("chunk {number} has a frame of {} bytes, which none can have", frame.raw));
                }
                let both = frame.raw.checked_add(frame.stored).and_then(|both| both.checked_add(frame.rows));
                sum = both.and_then(|both| sum.checked_add(both)).ok_or("its sums are too large")?;
            }
        }
        self.check_continuations()?;
        if self.id != manifest.id {
            return Err(format!("it is the index of set {}", self.id));
        }
        self.check_artefact(manifest)?;
        if self.totals() != manifest.totals || self.whole() != manifest.whole {
            return Err("its chunks are not those of the manifest".to_owned());
        }
        Ok(())
    }
}

/// The second line of a document.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Proof {
    format: u32,
    blake3: Digest,
}

/// A document as bytes: a line of JSON, and a second line that proves it.
///
/// # Errors
/// A defect: the content has no form in JSON.
pub fn write_document<T: Serialize>(content: &T) -> Result<Vec<u8>, Error> {
    let defect = |error: serde_json::Error| Error::Internal(format!("a document can't be written: {error}"));
    let mut bytes = serde_json::to_vec(content).map_err(defect)?;
    bytes.push(b'\n');
    let proof = Proof { format: FORMAT, blake3: Digest::of(&bytes) };
    serde_json::to_writer(&mut bytes, &proof).map_err(defect)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Reads a document that `object` holds.
///
/// # Errors
/// [`Error::Corrupt`] and [`Error::TooNew`].
pub fn read_document<T: DeserializeOwned>(bytes: &[u8], object: &str) -> Result<T, Error> {
    let cut = || Error::corrupt(object, "it is cut off, or no document of a set");
    let end = bytes.iter().position(|byte| *byte == b'\n').ok_or_else(cut)? + 1;
    let (document, proof) = bytes.split_at(end);
    let proof: Proof = serde_json::from_slice(proof).map_err(|_| cut())?;
    if Digest::of(document) != proof.blake3 {
        return Err(Error::corrupt(object, "its digest is wrong: it was changed or damaged"));
    }
    if proof.format != FORMAT {
        return Err(Error::TooNew { object: object.to_owned(), format: proof.format });
    }
    let wrong = |error: serde_json::Error| Error::corrupt(object, format!("it is no document of a set: {error}"));
    serde_json::from_slice(document).map_err(wrong)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A set of one chunk with two frames.
    pub(crate) fn sample() -> (Manifest, Index) {
        let id = SetId::new(Moment::from_millis(1_000), 7);
        let item =
            |name: &str, content| Item { name: name.into(), database: None, content, detail: serde_json::json!({}) };
        let frames =
            vec![Frame { item: 1, rows: 2, raw: 100, stored: 40 }, Frame { item: 0, rows: 0, raw: 10, stored: 20 }];
        let index = Index {
            id,
            items: vec![item("schema", Content::File), item("public.orders", Content::Lines)],
            chunks: vec![Chunk { blake3: Digest::of(b"x"), frames, continues: None }],
        };
        let manifest = Manifest {
            id,
            engine: "postgres".into(),
            identity: "7/shop".into(),
            tool: "seawall test".into(),
            point: Moment::from_millis(1_000),
            ended: Moment::from_millis(2_000),
            codec: Codec::default(),
            totals: index.totals(),
            index: Sealed { bytes: 1, blake3: Digest::of(b"") },
            whole: index.whole(),
            artefact: None,
            sample: None,
            schedule: None,
            detail: serde_json::json!({ "lsn": "0/1" }),
        };
        (manifest, index)
    }

    #[test]
    fn documents_and_back() {
        let (manifest, index) = sample();
        let bytes = write_document(&manifest).expect("written");
        assert_eq!(read_document::<Manifest>(&bytes, "m").expect("read"), manifest);
        let bytes = write_document(&index).expect("written");
        assert_eq!(read_document::<Index>(&bytes, "i").expect("read"), index);
        index.check(&manifest).expect("they belong together");
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let bytes = write_document(&sample().0).expect("written");
        for at in 0..bytes.len() - 1 {
            let mut wrong = bytes.clone();
            wrong[at] ^= 1;
            assert!(read_document::<Manifest>(&wrong, "m").is_err(), "byte {at}");
            assert!(read_document::<Manifest>(&bytes[..at], "m").is_err(), "cut at {at}");
        }
    }

    #[test]
    fn a_later_format_is_named() {
        let mut bytes = b"{\"anything\":[]}\n".to_vec();
        let digest = Digest::of(&bytes);
        bytes.extend_from_slice(format!("{{\"format\":2,\"blake3\":\"{digest}\"}}\n").as_bytes());
        assert!(matches!(read_document::<Index>(&bytes, "i"), Err(Error::TooNew { format: 2, .. })));
    }

    #[test]
    fn an_index_that_cannot_be_is_refused() {
        let (manifest, index) = sample();
        let with = |change: fn(&mut Index)| {
            let mut index = index.clone();
            change(&mut index);
            index.check(&manifest)
        };
        assert!(with(|index| index.chunks[0].frames[0].item = 2).is_err());
        assert!(with(|index| index.chunks[0].frames[0].raw = u64::MAX).is_err());
        assert!(with(|index| index.chunks[0].frames[0].rows = u64::MAX).is_err());
        assert!(with(|index| index.chunks[0].frames[0].rows += 1).is_err());
        assert!(with(|index| index.chunks[0].blake3 = Digest::of(b"y")).is_err());
        assert!(with(|index| index.chunks.clear()).is_err());
        assert!(with(|index| index.items[0].content = Content::Artefact).is_err());
        assert!(with(|index| index.items[0].content = Content::Member).is_err());
        assert!(with(|index| index.chunks[0].continues = Some(0)).is_err());
        assert!(with(|index| index.id = SetId::new(Moment::from_millis(1_000), 8)).is_err());
    }
    #[test]
    fn files_of_a_directory_have_names_that_lead_nowhere_else() {
        let (manifest, index) = sample();
        let manifest = Manifest { artefact: Some("directory".into()), ..manifest };
        let with = |names: [&str; 2]| {
            let mut index = index.clone();
            for (item, name) in index.items.iter_mut().zip(names) {
                (item.name, item.content) = (name.to_owned(), Content::Member);
            }
            (index.check(&manifest), index.artefact())
        };
        assert_eq!(with(["toc.dat", "3391.dat"]), (Ok(()), Some(Artefact::Directory(vec![0, 1]))));
        let long = "x".repeat(LONGEST_NAME + 1);
        for name in ["", ".", "..", "../x", "/etc/passwd", "a/b", "a\0", ".hidden", "-rf", "é", "a b", &long, "toc.dat"]
        {
            assert!(with(["toc.dat", name]).0.is_err(), "{name}");
        }
        assert!(index.check(&manifest).is_err(), "none is there");
    }
}
