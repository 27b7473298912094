//! Entries that wait to be written: in memory while they are few, in a file without a name once they are many.
//!
//! The changes of a snapshot are written only after the whole snapshot was read without a fault. No other process sees
//! the file, and the system deletes it when the process ends.

use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::Stamp;
use crate::error::Error;
use crate::snapshot::Entry;

/// What stays in memory.
const IN_MEMORY: usize = 1 << 20;

/// Bytes before key and value: table, flags, lengths, stamp.
const HEAD: usize = 2 + 1 + 2 + 4 + 8;

/// Entries in the order in which they were added, each with the number of its table.
#[derive(Debug)]
pub(crate) struct Spool {
    folder: PathBuf,
    limit: u64,
    buffer: Vec<u8>,
    file: Option<File>,
    bytes: u64,
    entries: u64,
    /// The rest of the buffer when reading began.
    rest: Bytes,
}

impl Spool {
    /// A spool that holds at most `limit` bytes. It makes its file in `folder`, if it needs one.
    pub(crate) fn new(folder: &Path, limit: u64) -> Self {
        Self {
            folder: folder.to_owned(),
            limit,
            buffer: Vec::new(),
            file: None,
            bytes: 0,
            entries: 0,
            rest: Bytes::new(),
        }
    }

    /// Adds an entry of `table`.
    pub(crate) fn push(&mut self, table: u16, entry: &Entry<'_>) -> Result<(), Error> {
        let (Ok(key), Ok(value)) = (u16::try_from(entry.key.len()), u32::try_from(entry.value.len())) else {
            return Err(Error::Internal("an entry is larger than LMDB takes".to_owned()));
        };
        self.buffer.extend_from_slice(&table.to_le_bytes());
        self.buffer.push(entry.deleted.into());
        self.buffer.extend_from_slice(&key.to_le_bytes());
        self.buffer.extend_from_slice(&value.to_le_bytes());
        self.buffer.extend_from_slice(&entry.stamp.0.to_le_bytes());
        self.buffer.extend_from_slice(entry.key);
        self.buffer.extend_from_slice(entry.value);
        self.entries += 1;
        if self.buffer.len() > IN_MEMORY { self.spill() } else { Ok(()) }
    }

    fn spill(&mut self) -> Result<(), Error> {
        self.bytes += self.buffer.len() as u64;
        if self.bytes > self.limit {
            return Err(Error::SpoolFull { path: self.folder.clone(), limit: self.limit });
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(tempfile::tempfile_in(&self.folder).map_err(Error::io(&self.folder))?),
        };
        file.write_all(&self.buffer).map_err(Error::io(&self.folder))?;
        self.buffer.clear();
        // Frees the memory of an unusually large entry.
        self.buffer.shrink_to(2 * IN_MEMORY);
        Ok(())
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Reads the entries from the first one on. No entry can be added after that. Reading can start again once the
    /// previous reader is dropped.
    pub(crate) fn read(&mut self) -> Result<Waiting, Error> {
        if !self.buffer.is_empty() {
            self.rest = std::mem::take(&mut self.buffer).into();
        }
        // The bytes in the buffer follow the bytes in the file.
        let rest = io::Cursor::new(self.rest.clone());
        let source: Box<dyn Read + Send> = match &mut self.file {
            Some(file) => {
                file.seek(SeekFrom::Start(0)).map_err(Error::io(&self.folder))?;
                Box::new(file.try_clone().map_err(Error::io(&self.folder))?.chain(rest))
            }
            None => Box::new(rest),
        };
        let source = io::BufReader::with_capacity(256 << 10, source);
        Ok(Waiting { folder: self.folder.clone(), source, left: self.entries })
    }
}

/// Entries of a [`Spool`], in order.
pub(crate) struct Waiting {
    folder: PathBuf,
    source: io::BufReader<Box<dyn Read + Send>>,
    left: u64,
}

impl Waiting {
    /// Fills `batch` with the next entries, up to about `bytes`; it is empty at the end.
    pub(crate) fn fill(&mut self, batch: &mut Batch, bytes: usize) -> Result<(), Error> {
        batch.clear();
        while self.left > 0 && batch.data.len() < bytes {
            self.next(batch).map_err(Error::io(&self.folder))?;
            self.left -= 1;
        }
        Ok(())
    }

    fn next(&mut self, batch: &mut Batch) -> io::Result<()> {
        let mut head = [0; HEAD];
        self.source.read_exact(&mut head)?;
        let [t0, t1, deleted, k0, k1, v0, v1, v2, v3, stamp @ ..] = head;
        let key = usize::from(u16::from_le_bytes([k0, k1]));
        let value = u32::from_le_bytes([v0, v1, v2, v3]) as usize;
        let start = batch.data.len();
        batch.data.resize(start + key + value, 0);
        self.source.read_exact(batch.data.get_mut(start..).unwrap_or_default())?;
        let (table, stamp) = (u16::from_le_bytes([t0, t1]), Stamp(u64::from_le_bytes(stamp)));
        batch.slots.push(Slot { table, key: start + key, end: batch.data.len(), stamp, deleted: deleted != 0 });
        Ok(())
    }
}

/// Some entries in memory.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    data: Vec<u8>,
    slots: Vec<Slot>,
}

/// An entry in a [`Batch`]: where its key and its value end.
#[derive(Debug)]
struct Slot {
    table: u16,
    key: usize,
    end: usize,
    stamp: Stamp,
    deleted: bool,
}

impl Batch {
    pub(crate) fn clear(&mut self) {
        self.data.clear();
        self.slots.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Bytes of keys and values.
    pub(crate) fn bytes(&self) -> usize {
        self.data.len()
    }

    pub(crate) fn push(&mut self, table: u16, entry: &Entry<'_>) {
        self.data.extend_from_slice(entry.key);
        let key = self.data.len();
        self.data.extend_from_slice(entry.value);
        let (stamp, deleted) = (entry.stamp, entry.deleted);
        self.slots.push(Slot { table, key, end: self.data.len(), stamp, deleted });
    }

    /// The entries from index `from` on, each with its table.
    pub(crate) fn entries(&self, from: usize) -> impl Iterator<Item = (u16, Entry<'_>)> {
        let start = match from.checked_sub(1) {
            Some(before) => self.slots.get(before).map_or(self.data.len(), |slot| slot.end),
            None => 0,
        };
        self.slots.iter().skip(from).scan(start, |start, slot| {
            let key = self.data.get(*start..slot.key).unwrap_or_default();
            let value = self.data.get(slot.key..slot.end).unwrap_or_default();
            *start = slot.end;
            Some((slot.table, Entry { key, value, stamp: slot.stamp, deleted: slot.deleted }))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry with its table, owned.
    type Owned = (u16, Vec<u8>, Vec<u8>, Stamp, bool);

    fn entries(count: u32) -> Vec<Owned> {
        (0..count)
            .map(|n| {
                let value = vec![n as u8; (n as usize * 37) % 900];
                ((n % 3) as u16, n.to_be_bytes().to_vec(), value, Stamp(n.into()), n % 5 == 0)
            })
            .collect()
    }

    #[test]
    fn what_waits_comes_back_in_order() {
        let folder = tempfile::tempdir().expect("a folder");
        for count in [0, 1, 50, 9_000] {
            let expected = entries(count);
            let mut spool = Spool::new(folder.path(), 1 << 30);
            for (table, key, value, stamp, deleted) in &expected {
                let entry = Entry { key, value, stamp: *stamp, deleted: *deleted };
                spool.push(*table, &entry).expect("room");
            }
            let mut waiting = spool.read().expect("readable");
            let (mut batch, mut found) = (Batch::default(), Vec::new());
            loop {
                waiting.fill(&mut batch, 10_000).expect("readable");
                if batch.len() == 0 {
                    break;
                }
                let owned = |(t, e): (u16, Entry<'_>)| (t, e.key.to_vec(), e.value.to_vec(), e.stamp, e.deleted);
                // In two parts, as if a slice had ended in between.
                let half = batch.len() / 2;
                found.extend(batch.entries(0).take(half).map(owned));
                found.extend(batch.entries(half).map(owned));
            }
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_spool_has_a_limit() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut spool = Spool::new(folder.path(), 3 << 20);
        let value = vec![1; 100_000];
        let entry = Entry { key: b"k", value: &value, stamp: Stamp(1), deleted: false };
        let pushed = (0..100).take_while(|_| spool.push(0, &entry).is_ok()).count();
        assert!((30..45).contains(&pushed), "{pushed}");
    }
}
