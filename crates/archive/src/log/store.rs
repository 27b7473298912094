//! Writes the objects of a log, create-only.

use std::io::Read;

use bytes::Bytes;
use seawall_vault::{Created, ObjectKey, Prefix, Vault};

use super::object::{At, LARGEST, Packed, Piece, pack};
use super::{Cluster, Hole, LogError, LogFile, LogObject, Lsn, PieceKind, SegmentName, TimelineId, history, name};
use crate::manifest::write_document;

/// The most bytes of a file that is kept as it is.
const LARGEST_FILE: u64 = history::LARGEST;

/// The log of one cluster in a vault. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Log {
    pub(super) vault: Vault,
    pub(super) cluster: Cluster,
}

/// What became of a file that was to be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// It was written.
    New,
    /// It was there already, with the same content.
    Already,
}

impl Log {
    /// The log that `vault` holds; `None` if it holds none.
    ///
    /// # Errors
    /// When the vault can't be read.
    pub async fn open(vault: &Vault) -> Result<Option<Self>, LogError> {
        Ok(Cluster::of(vault).await?.map(|cluster| Self { vault: vault.clone(), cluster }))
    }

    /// The log of `cluster` in `vault`, which becomes this cluster's if it isn't any cluster's yet.
    ///
    /// # Errors
    /// When it is another cluster's, or can't be read or written.
    pub async fn claim(vault: &Vault, cluster: Cluster) -> Result<Self, LogError> {
        cluster.claim(vault).await?;
        Ok(Self { vault: vault.clone(), cluster })
    }

    /// Whose log it is.
    pub fn cluster(&self) -> Cluster {
        self.cluster
    }

    /// The folder of its objects.
    ///
    /// # Errors
    /// None but a defect of Seawall's.
    pub fn prefix(&self) -> Result<Prefix, LogError> {
        name::log_of(self.cluster.system)
    }

    /// The vault that it is in.
    pub fn vault(&self) -> &Vault {
        &self.vault
    }

    /// Stores a segment, complete or not, whose bytes `content` gives. When this returns, the store has confirmed them
    /// (I1). Takes the processor while they are compressed.
    ///
    /// # Errors
    /// [`LogError::Conflict`] when other content has the name; nothing is written over.
    pub async fn put_segment(
        &self,
        name: SegmentName,
        complete: bool,
        content: &mut (dyn Read + Send),
    ) -> Result<Stored, LogError> {
        let (kind, file) = match complete {
            true => (PieceKind::Segment, LogFile::Segment(name)),
            false => (PieceKind::Partial, LogFile::Partial(name)),
        };
        let Some(start) = name.start(self.cluster.segment_size) else {
            let cause = format!("there is no such segment of {} bytes", self.cluster.segment_size.bytes());
            return Err(LogError::NotALog { file: file.to_string(), cause });
        };
        let packed = self.pack(kind, name.timeline, start, content);
        let packed = packed.map_err(|error| LogError::Io { path: file.to_string(), cause: error.to_string() })?;
        let (length, size) = (packed.head.length, self.cluster.segment_size.bytes());
        if length != u64::from(size) {
            let cause = format!("{length} bytes of it were read, and a segment of this cluster has {size}");
            return Err(LogError::NotALog { file: file.to_string(), cause });
        }
        self.put(&LogObject::File(file).key(self.cluster.system)?, packed).await
    }

    /// Stores a complete segment that is in memory, as [`Log::put_segment`] does. Compresses beside the runtime.
    ///
    /// # Errors
    /// [`LogError::Conflict`] when other content has the name; nothing is written over.
    pub async fn put_whole(&self, name: SegmentName, content: Bytes) -> Result<Stored, LogError> {
        let start = name.start(self.cluster.segment_size);
        let start = start.ok_or_else(|| crate::Error::Internal("there is no such segment".to_owned()))?;
        let packed = self.pack_beside(PieceKind::Segment, name.timeline, start, content).await?;
        self.put(&LogObject::File(LogFile::Segment(name)).key(self.cluster.system)?, packed).await
    }

    /// Stores the bytes of a range. When this returns, the store has confirmed them (I1). Compresses beside the runtime.
    ///
    /// # Errors
    /// [`LogError::Conflict`] when other content has the name; nothing is written over.
    pub async fn put_range(&self, timeline: TimelineId, start: Lsn, content: Bytes) -> Result<Stored, LogError> {
        let end = start.after(content.len() as u64).filter(|end| *end > start);
        let end = end.ok_or_else(|| crate::Error::Internal("a range is empty or too long".to_owned()))?;
        let packed = self.pack_beside(PieceKind::Range, timeline, start, content).await?;
        self.put(&LogObject::Range { timeline, start, end }.key(self.cluster.system)?, packed).await
    }

    /// Records that the log from `start` to `end` is lost (I3). The first record stays.
    ///
    /// # Errors
    /// When the store refuses.
    pub async fn put_hole(&self, hole: &Hole) -> Result<(), LogError> {
        let Hole { timeline, start, end, .. } = *hole;
        let key = LogObject::Hole { timeline, start, end }.key(self.cluster.system)?;
        match self.vault.create(&key, write_document(hole)?.into(), None).await {
            Ok(_) | Err(seawall_vault::Error::AlreadyExists { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Deletes objects of a timeline that no base needs, which end before `end`, after a record that says so: what is missing then is
    /// no hole. Older records of the same timeline go.
    ///
    /// # Errors
    /// When the store refuses.
    pub async fn trim(
        &self,
        timeline: TimelineId,
        end: Lsn,
        keys: &[ObjectKey],
        older: Option<Lsn>,
    ) -> Result<(), LogError> {
        let record = |end| LogObject::Trimmed { timeline, end }.key(self.cluster.system);
        let what = Bytes::from_static(b"{\"format\":1,\"what\":\"retention deleted log before this position\"}\n");
        match self.vault.create(&record(end)?, what, None).await {
            Ok(_) | Err(seawall_vault::Error::AlreadyExists { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        for some in keys.chunks(1000) {
            self.vault.delete(some).await?;
        }
        match older.filter(|older| *older < end) {
            Some(older) => Ok(self.vault.delete(&[record(older)?]).await?),
            None => Ok(()),
        }
    }

    /// Stores a history file, or what a base backup notes of itself, as it is.
    ///
    /// # Errors
    /// [`LogError::Conflict`] when other content has the name; nothing is written over.
    pub async fn put_file(&self, file: LogFile, content: Bytes) -> Result<Stored, LogError> {
        let key = LogObject::File(file).key(self.cluster.system)?;
        if content.len() as u64 > LARGEST_FILE {
            let cause = format!("it has {} bytes, more than such a file may have", content.len());
            return Err(LogError::NotALog { file: file.to_string(), cause });
        }
        match self.vault.create(&key, content, None).await {
            Ok(created) => Ok(stored(created)),
            Err(seawall_vault::Error::AlreadyExists { object }) => {
                Err(LogError::Conflict { object, cause: "its content differs".to_owned() })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Deletes ranges whose segment is complete.
    ///
    /// # Errors
    /// When the store refuses.
    pub async fn remove_ranges(&self, timeline: TimelineId, ranges: &[(Lsn, Lsn)]) -> Result<(), LogError> {
        let key = |(start, end): &(Lsn, Lsn)| {
            LogObject::Range { timeline, start: *start, end: *end }.key(self.cluster.system)
        };
        let keys: Vec<ObjectKey> = ranges.iter().map(key).collect::<Result<_, _>>()?;
        Ok(self.vault.delete(&keys).await?)
    }

    async fn pack_beside(
        &self,
        kind: PieceKind,
        timeline: TimelineId,
        start: Lsn,
        content: Bytes,
    ) -> Result<Packed, LogError> {
        let log = self.clone();
        let packing = move || {
            let packed = log.pack(kind, timeline, start, &mut &content[..]);
            packed.map_err(|error| crate::Error::Internal(error.to_string()))
        };
        Ok(seawall_core::blocking(packing).await?)
    }

    fn pack(
        &self,
        kind: PieceKind,
        timeline: TimelineId,
        start: Lsn,
        content: &mut dyn Read,
    ) -> std::io::Result<Packed> {
        let Cluster { system, segment_size } = self.cluster;
        pack(At { kind, system, timeline, start, segment_size }, content)
    }

    async fn put(&self, key: &ObjectKey, packed: Packed) -> Result<Stored, LogError> {
        let head = packed.head;
        match self.vault.create(key, packed.bytes, None).await {
            Ok(created) => return Ok(stored(created)),
            Err(seawall_vault::Error::AlreadyExists { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        // Another version of zstd makes other bytes of the same content.
        let there = self.piece(key).await?;
        if there.head == head {
            // An object whose content is damaged is no archived segment.
            there.content()?;
            return Ok(Stored::Already);
        }
        let object = self.vault.object(key);
        let cause = match (there.head.system == head.system, there.head.length == head.length) {
            (false, _) => format!("it is of the cluster {}", there.head.system),
            (true, false) => format!("it has {} bytes of content, and not {}", there.head.length, head.length),
            (true, true) => "its content differs".to_owned(),
        };
        Err(LogError::Conflict { object, cause })
    }

    /// The most bytes of an object. Content that doesn't shrink has a little more bytes in frames.
    pub(super) fn largest(&self) -> u64 {
        LARGEST.min(2 * u64::from(self.cluster.segment_size.bytes()))
    }

    /// Reads an object and proves its head.
    pub(super) async fn piece(&self, key: &ObjectKey) -> Result<Piece, LogError> {
        let bytes = self.vault.read(key, None, self.largest()).await?;
        Ok(Piece::parse(&self.vault.object(key), bytes)?)
    }
}

fn stored(created: Created) -> Stored {
    match created {
        Created::Fresh => Stored::New,
        Created::Adopted => Stored::Already,
    }
}
