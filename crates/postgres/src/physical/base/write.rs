//! Frames into packs, extents into parts of the index, and both into the vault.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use seawall_archive::{Codec, Digest, Encoder, SetId};
use seawall_vault::Vault;
use tokio::task::JoinSet;

use super::chunk::{Made, Placed};
use super::index::{self, Block, Entry, Extent, Frame};
use super::layout;
use super::manifest::{BaseManifest, Part, Sealed, Uses};
use crate::Error;

/// Packs that are on their way to the vault at once.
const UPLOADS: usize = super::budget::PACKS as usize - 1;

/// What is written of a base.
pub(crate) struct Writer {
    vault: Vault,
    system: u64,
    id: SetId,
    /// Bytes at which a pack is full.
    full: usize,
    pack: Vec<u8>,
    begun: u32,
    packs: BTreeMap<u32, Sealed>,
    uploads: JoinSet<Result<(u32, Sealed), Error>>,
    uses: Vec<Uses>,
    extent: Option<Building>,
    part: Vec<u8>,
    part_blocks: u64,
    first: Option<(String, u64)>,
    parts: Vec<Part>,
    encoder: Encoder,
}

/// An extent that is being put together.
struct Building {
    extent: Extent,
    known: HashMap<Frame, u32>,
}

/// All that was written.
pub(crate) struct Written {
    pub(crate) packs: Vec<Sealed>,
    pub(crate) uses: Vec<Uses>,
    pub(crate) index: Vec<Part>,
}

impl Writer {
    /// Writes a base whose packs are full at so many bytes.
    pub(crate) fn new(vault: &Vault, system: u64, id: SetId, full: usize) -> Result<Self, Error> {
        let defect = |error: std::io::Error| Error::Internal(format!("zstd: {error}"));
        Ok(Self {
            vault: vault.clone(),
            system,
            id,
            full,
            pack: Vec::new(),
            begun: 0,
            packs: BTreeMap::new(),
            uploads: JoinSet::new(),
            uses: Vec::new(),
            extent: None,
            part: index::begin(),
            part_blocks: 0,
            first: None,
            parts: Vec::new(),
            encoder: Encoder::new(Codec::default()).map_err(defect)?,
        })
    }

    /// Puts new frames into packs; returns where each of them is.
    pub(crate) async fn place(&mut self, frames: &[Made]) -> Result<Vec<Frame>, Error> {
        let mut placed = Vec::with_capacity(frames.len());
        for Made { raw, stored } in frames {
            if self.pack.len() >= self.full {
                self.upload().await?;
            }
            let small = |value: usize| u32::try_from(value).map_err(|_| Error::Internal("a large frame".to_owned()));
            let at = self.pack.len() as u64;
            placed.push(Frame { base: 0, pack: self.begun, at, stored: small(stored.len())?, raw: *raw });
            self.pack.extend_from_slice(stored);
        }
        Ok(placed)
    }

    /// Sends the pack that was filled.
    async fn upload(&mut self) -> Result<(), Error> {
        while self.uploads.len() >= UPLOADS {
            self.uploaded().await?;
        }
        let bytes = Bytes::from(std::mem::replace(&mut self.pack, Vec::with_capacity(self.full)));
        let number = self.begun;
        self.begun = number.checked_add(1).filter(|next| *next < 100_000_000).ok_or_else(|| too_large(self.id))?;
        let (vault, key) = (self.vault.clone(), layout::pack(self.system, self.id, number)?);
        self.uploads.spawn(async move {
            let sealed = create(&vault, &key, bytes).await?;
            Ok((number, sealed))
        });
        Ok(())
    }

    async fn uploaded(&mut self) -> Result<bool, Error> {
        let Some(ended) = self.uploads.join_next().await else { return Ok(false) };
        let (number, sealed) = ended.map_err(seawall_core::Panicked::from)??;
        self.packs.insert(number, sealed);
        Ok(true)
    }

    /// Begins an extent, and ends the one before.
    pub(crate) async fn begin(&mut self, entry: Entry, path: &str, modified: u64, offset: u64) -> Result<(), Error> {
        self.end_extent().await?;
        let extent = Extent {
            entry,
            path: path.to_owned(),
            modified,
            offset,
            length: 0,
            frames: Vec::new(),
            blocks: Vec::new(),
        };
        self.extent = Some(Building { extent, known: HashMap::new() });
        Ok(())
    }

    /// Appends blocks to the present extent. `new` says where the new frames are, and `before` is the manifest that old
    /// frames are numbered by.
    pub(crate) fn append(
        &mut self,
        blocks: &[Placed],
        bytes: usize,
        new: &[Frame],
        before: Option<&Arc<BaseManifest>>,
    ) -> Result<(), Error> {
        let Some(mut building) = self.extent.take() else { return Err(Error::Internal("no extent".to_owned())) };
        let lost = || Error::Internal("a block of a frame that isn't known".to_owned());
        for placed in blocks {
            let (hash, frame, at) = match *placed {
                Placed::Zero => {
                    building.extent.blocks.push(Block::Zero);
                    continue;
                }
                Placed::New { hash, frame, at } => (hash, *new.get(frame as usize).ok_or_else(lost)?, at),
                Placed::Old { hash, frame, at } => {
                    (hash, self.adopt(frame, before.ok_or_else(lost)?).ok_or_else(lost)?, at)
                }
            };
            let frames = &mut building.extent.frames;
            let frame = *building.known.entry(frame).or_insert_with(|| {
                frames.push(frame);
                u32::try_from(frames.len() - 1).unwrap_or(u32::MAX)
            });
            building.extent.blocks.push(Block::Stored { hash, frame, at });
        }
        building.extent.length += bytes as u64;
        self.extent = Some(building);
        Ok(())
    }

    /// A frame of the base before, by the numbers of this base.
    fn adopt(&mut self, frame: Frame, before: &BaseManifest) -> Option<Frame> {
        let (id, sealed) = before.pack(frame.base, frame.pack)?;
        let place = match self.uses.iter().position(|uses| uses.base == id) {
            Some(place) => place,
            None => {
                self.uses.push(Uses { base: id, packs: BTreeMap::new() });
                self.uses.len() - 1
            }
        };
        self.uses[place].packs.insert(frame.pack, sealed);
        Some(Frame { base: u32::try_from(place).ok()?.checked_add(1)?, ..frame })
    }

    async fn end_extent(&mut self) -> Result<(), Error> {
        let Some(Building { extent, .. }) = self.extent.take() else { return Ok(()) };
        let more = extent.blocks.len() as u64;
        if !index::has_room(self.part.len(), self.part_blocks, more) {
            self.send_part().await?;
        }
        self.first.get_or_insert_with(|| (extent.path.clone(), extent.offset));
        extent.write(&mut self.part);
        self.part_blocks += more;
        Ok(())
    }

    /// Ends the present part of the index, so that what follows is in another one.
    pub(crate) async fn end_part(&mut self) -> Result<(), Error> {
        self.end_extent().await?;
        self.send_part().await
    }

    async fn send_part(&mut self) -> Result<(), Error> {
        let Some((first, offset)) = self.first.take() else { return Ok(()) };
        let part = std::mem::replace(&mut self.part, index::begin());
        self.part_blocks = 0;
        let mut stored = Vec::new();
        let defect = |error: std::io::Error| Error::Internal(format!("zstd: {error}"));
        self.encoder.encode(&part, &mut stored).map_err(defect)?;
        let number = u32::try_from(self.parts.len()).unwrap_or(u32::MAX);
        let key = layout::index(self.system, self.id, number)?;
        let sealed = create(&self.vault, &key, stored.into()).await?;
        self.parts.push(Part { first, offset, raw: part.len() as u64, sealed });
        Ok(())
    }

    /// Waits until everything is in the vault.
    pub(crate) async fn finish(mut self) -> Result<Written, Error> {
        self.end_part().await?;
        if !self.pack.is_empty() {
            self.upload().await?;
        }
        while self.uploaded().await? {}
        Ok(Written { packs: self.packs.into_values().collect(), uses: self.uses, index: self.parts })
    }
}

/// Writes an object that has no other content under its name.
async fn create(vault: &Vault, key: &seawall_vault::ObjectKey, bytes: Bytes) -> Result<Sealed, Error> {
    let content = bytes.clone();
    let blake3 = seawall_core::blocking(move || Ok::<_, Error>(Digest::of(&content))).await?;
    let digest = seawall_vault::Digest::from_bytes(*blake3.as_bytes());
    let size = bytes.len() as u64;
    vault.create_digested(key, bytes, digest).await.map_err(seawall_archive::Error::from)?;
    Ok(Sealed { bytes: size, blake3 })
}

fn too_large(id: SetId) -> Error {
    seawall_archive::Error::TooLarge { id: id.to_string() }.into()
}
