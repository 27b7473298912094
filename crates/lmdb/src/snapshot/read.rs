//! Reads DBIs and entries from a stream in turn, and holds one entry at a time.
//!
//! Unknown fields are skipped at every level, so that snapshots of newer writers can be read. Every known writer puts a
//! property before the fields that it applies to. If a property comes later, the snapshot is refused, because the
//! reader would have to start again.

use std::io::{self, Read};

use super::fault::{Fault, Rule};
use super::wire::{Fields, MAX_VARINT, Tag, WireType, varint};
use super::{DATABASES, DELETED, Decompressor, Entry, READABLE};
use crate::Stamp;
use crate::schema::flags::Flags;

/// Bytes that are requested at once.
const CHUNK: usize = 128 << 10;

/// The longest key that LMDB takes.
pub(crate) const MAX_KEY: usize = 511;

/// The longest `meta` and the longest property of a DBI.
const MAX_PROPERTY: u64 = 64 << 10;

/// Limits that a snapshot must keep.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The largest entry in bytes. The reader holds an entry in memory.
    pub entry: u64,
}

impl Default for Limits {
    /// Entries of at most 256 MiB.
    fn default() -> Self {
        Self { entry: 256 << 20 }
    }
}

/// Why reading ended.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The snapshot is damaged, or isn't one.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The source failed to deliver its bytes.
    #[error(transparent)]
    Io(io::Error),
}

/// The author and the database of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Meta {
    /// The generation, as in the name.
    pub generation: String,
    /// The instance, as in the name.
    pub instance: String,
    /// The writer's host name.
    pub hostname: String,
    /// The transaction that the snapshot shows.
    pub transaction: u64,
    /// When the environment was read.
    pub stamp: Stamp,
    /// The database, as in the name.
    pub database: String,
    /// For partial snapshots: the transaction after which it begins.
    pub from_transaction: u64,
}

/// The fields before the first DBI.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Preamble {
    /// The version of the format; 0 if the field is missing.
    pub format: u64,
    /// The oldest format version whose readers can read it.
    pub compat: u64,
    /// The author.
    pub meta: Meta,
}

/// The head of a DBI.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Database {
    /// Its name; not always text.
    pub name: Vec<u8>,
    /// The flags of the application's DBI, as LMDB knows them. Only since format 3.
    pub flags: Flags,
    /// The transform of its keys: empty or `dupsort_hack_v1`.
    pub transform: String,
}

/// The next element of a snapshot.
#[derive(Debug)]
pub enum Item<'a> {
    /// A DBI begins; it may have no entries.
    Database(&'a Preamble, &'a Database),
    /// An entry of it.
    Entry(&'a Database, Entry<'a>),
}

/// Where the reader is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Top,
    /// In a DBI that ends there; whether its head was returned already.
    Database {
        end: u64,
        told: bool,
    },
}

/// A snapshot that is being read.
pub struct SnapshotReader<R: Read> {
    source: Decompressor<R>,
    buffer: Vec<u8>,
    /// The unread part of the buffer.
    start: usize,
    filled: usize,
    /// The stream position of the buffer's first byte.
    before: u64,
    limits: Limits,
    preamble: Preamble,
    database: Database,
    /// Length of the integer keys of this DBI, once the first one was seen.
    integers: Option<usize>,
    /// DBIs returned so far, and how many there must be, if the writer recorded it.
    databases: u64,
    promised: Option<u64>,
    at: At,
}

impl<R: Read> SnapshotReader<R> {
    /// Reads the compressed stream `source`.
    pub fn new(source: R, limits: Limits) -> Self {
        Self {
            source: Decompressor::new(source),
            buffer: vec![0; CHUNK],
            start: 0,
            filled: 0,
            before: 0,
            limits,
            preamble: Preamble::default(),
            database: Database::default(),
            integers: None,
            databases: 0,
            promised: None,
            at: At::Top,
        }
    }

    /// The fields of the whole snapshot that were read so far.
    pub fn preamble(&self) -> &Preamble {
        &self.preamble
    }

    /// Whether a field says, in what was read so far, that Seawall wrote the snapshot. Then it has an index.
    pub(crate) fn is_ours(&self) -> bool {
        self.promised.is_some()
    }

    /// Bytes read so far, decompressed.
    pub fn offset(&self) -> u64 {
        self.before + self.start as u64
    }

    /// The next DBI or entry; `None` at the end of a whole snapshot.
    ///
    /// # Errors
    /// The snapshot's fault. Nothing is known about the bytes after it.
    #[expect(clippy::should_implement_trait, reason = "what it gives borrows from the reader")]
    pub fn next(&mut self) -> Result<Option<Item<'_>>, Problem> {
        loop {
            let at = self.offset();
            match self.at {
                At::Top => {
                    if !self.fill(1)? {
                        let whole = self.promised.is_none_or(|promised| promised == self.databases);
                        return if whole { Ok(None) } else { Err(Rule::Truncated.at(at).into()) };
                    }
                    self.top()?;
                }
                At::Database { end, told } if at == end => {
                    self.at = At::Top;
                    if !told {
                        self.begin()?;
                        return Ok(Some(Item::Database(&self.preamble, &self.database)));
                    }
                }
                At::Database { end, told } => {
                    // Only peek at the tag: it is consumed once its DBI was returned.
                    let (raw, length) = self.peek(end)?;
                    let tag = Tag::new(raw).map_err(|rule| rule.at(at))?;
                    if tag.field == 2 && !told {
                        tag.must_be(WireType::Bytes).map_err(|rule| rule.at(at))?;
                        self.begin()?;
                        self.at = At::Database { end, told: true };
                        return Ok(Some(Item::Database(&self.preamble, &self.database)));
                    }
                    self.start += length;
                    if tag.field != 2 {
                        self.property(tag, end, told)?;
                        continue;
                    }
                    tag.must_be(WireType::Bytes).map_err(|rule| rule.at(at))?;
                    let range = self.message(end)?;
                    return self.entry(range, at).map(Some);
                }
            }
        }
    }

    /// Reads a field of the snapshot itself.
    fn top(&mut self) -> Result<(), Problem> {
        let at = self.offset();
        let fault = |rule: Rule| Problem::from(rule.at(at));
        let tag = Tag::new(self.number(u64::MAX)?).map_err(fault)?;
        match tag.field {
            1 | 4 => {
                tag.must_be(WireType::Varint).map_err(fault)?;
                let value = self.number(u64::MAX)?;
                let slot = if tag.field == 1 { &mut self.preamble.format } else { &mut self.preamble.compat };
                if self.databases > 0 && *slot != value {
                    return Err(fault(Rule::LateProperty));
                }
                *slot = value;
            }
            2 => {
                tag.must_be(WireType::Bytes).map_err(fault)?;
                let meta = self.short(u64::MAX)?;
                self.preamble.meta = parse_meta(&meta).map_err(fault)?;
            }
            3 => {
                tag.must_be(WireType::Bytes).map_err(fault)?;
                let length = self.number(u64::MAX)?;
                let end = self.offset().checked_add(length).ok_or_else(|| fault(Rule::Overrun))?;
                self.database = Database::default();
                self.at = At::Database { end, told: false };
            }
            DATABASES if tag.wire == WireType::Varint => self.promised = Some(self.number(u64::MAX)?),
            _ => self.skip(tag, u64::MAX)?,
        }
        Ok(())
    }

    /// Reads a field of a DBI other than an entry.
    fn property(&mut self, tag: Tag, end: u64, told: bool) -> Result<(), Problem> {
        let at = self.offset();
        let fault = |rule: Rule| Problem::from(rule.at(at));
        let before = self.database.clone();
        match tag.field {
            1 => {
                tag.must_be(WireType::Bytes).map_err(fault)?;
                self.database.name = self.short(end)?;
            }
            3 => {
                tag.must_be(WireType::Varint).map_err(fault)?;
                // LMDB keeps the low 16 bits in a DBI; no reader uses more.
                let bits = self.number(end)? & 0xffff;
                self.database.flags = Flags::parse(bits as u16).ok_or_else(|| fault(Rule::DbiFlags))?;
            }
            4 => {
                tag.must_be(WireType::Bytes).map_err(fault)?;
                let text = String::from_utf8(self.short(end)?);
                self.database.transform = text.map_err(|_| fault(Rule::Transform))?;
            }
            _ => self.skip(tag, end)?,
        }
        if told && self.database != before { Err(fault(Rule::LateProperty)) } else { Ok(()) }
    }

    /// The head of a DBI is complete.
    fn begin(&mut self) -> Result<(), Fault> {
        let at = self.offset();
        self.databases += 1;
        self.integers = None;
        // A name ends at its first NUL, as LMDB reads it.
        let end = self.database.name.iter().position(|byte| *byte == 0).unwrap_or(self.database.name.len());
        self.database.name.truncate(end);
        if self.preamble.format == 0 {
            return Err(Rule::NoFormat.at(at));
        }
        if self.preamble.compat > READABLE.into() {
            return Err(Rule::TooNew.at(at));
        }
        if self.database.name.is_empty() || self.database.name.len() > MAX_KEY {
            return Err(Rule::DbiName.at(at));
        }
        Ok(())
    }

    fn entry(&mut self, range: std::ops::Range<usize>, at: u64) -> Result<Item<'_>, Problem> {
        let message = self.buffer.get(range).unwrap_or_default();
        let entry = parse_entry(message, self.preamble.format).map_err(|rule| rule.at(at))?;
        if self.database.flags.contains(Flags::INTEGER_KEY) {
            let length = *self.integers.get_or_insert(entry.key.len());
            if !matches!(length, 4 | 8) || length != entry.key.len() {
                return Err(Rule::IntegerKey.at(at).into());
            }
        }
        Ok(Item::Entry(&self.database, entry))
    }

    /// Makes sure that `wanted` bytes are in the buffer, unless the stream ends earlier. The buffer grows only by bytes
    /// that arrived.
    fn fill(&mut self, wanted: usize) -> Result<bool, Problem> {
        while self.filled - self.start < wanted {
            if self.start > 0 {
                self.buffer.copy_within(self.start..self.filled, 0);
                self.before += self.start as u64;
                self.filled -= self.start;
                self.start = 0;
            }
            if self.filled == self.buffer.len() {
                self.buffer.resize(self.buffer.len() * 2, 0);
            }
            let free = self.buffer.get_mut(self.filled..).unwrap_or_default();
            match self.source.read(free) {
                Ok(0) => return Ok(false),
                Ok(count) => self.filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.broken(error)),
            }
        }
        // Frees the memory of an unusually large entry.
        if self.buffer.len() > 8 * CHUNK && self.filled - self.start < CHUNK && wanted < CHUNK {
            self.buffer.copy_within(self.start..self.filled, 0);
            self.before += self.start as u64;
            self.filled -= self.start;
            self.start = 0;
            self.buffer.truncate(CHUNK);
            self.buffer.shrink_to_fit();
        }
        Ok(true)
    }

    /// Errors of the decompressor are faults of the snapshot; any other error is the source's.
    fn broken(&self, error: io::Error) -> Problem {
        match error.kind() {
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => Rule::Gzip.at(self.offset()).into(),
            io::ErrorKind::UnexpectedEof => Rule::Truncated.at(self.offset()).into(),
            _ => Problem::Io(error),
        }
    }

    fn unread(&self) -> &[u8] {
        self.buffer.get(self.start..self.filled).unwrap_or_default()
    }

    /// Peeks at the next number, and its length. It must end before `end`.
    fn peek(&mut self, end: u64) -> Result<(u64, usize), Problem> {
        let at = self.offset();
        if let Some(&byte) = self.unread().first()
            && byte < 0x80
            && at < end
        {
            return Ok((byte.into(), 1));
        }
        // The stream may end earlier; then the remaining bytes must hold the number.
        self.fill(MAX_VARINT)?;
        let (value, length) =
            varint(self.unread()).map_err(|rule| rule.at(at))?.ok_or_else(|| Rule::Truncated.at(at))?;
        if length as u64 > end.saturating_sub(at) {
            return Err(Rule::Overrun.at(at).into());
        }
        Ok((value, length))
    }

    fn number(&mut self, end: u64) -> Result<u64, Problem> {
        let (value, length) = self.peek(end)?;
        self.start += length;
        Ok(value)
    }

    /// The next length, checked against the enclosing message.
    fn length(&mut self, end: u64) -> Result<u64, Problem> {
        let at = self.offset();
        let length = self.number(end)?;
        if length > end.saturating_sub(self.offset()) {
            return Err(Rule::Overrun.at(at).into());
        }
        Ok(length)
    }

    /// Consumes a message with its length; returns its range in the buffer.
    fn message(&mut self, end: u64) -> Result<std::ops::Range<usize>, Problem> {
        let at = self.offset();
        let length = self.length(end)?;
        let wanted = usize::try_from(length).ok().filter(|_| length <= self.limits.entry);
        let wanted = wanted.ok_or_else(|| Rule::EntrySize.at(at))?;
        if !self.fill(wanted)? {
            return Err(Rule::Truncated.at(at).into());
        }
        let start = self.start;
        self.start += wanted;
        Ok(start..self.start)
    }

    /// Consumes a message whose length has a small limit.
    fn short(&mut self, end: u64) -> Result<Vec<u8>, Problem> {
        let at = self.offset();
        let length = self.length(end)?;
        let wanted = usize::try_from(length).ok().filter(|_| length <= MAX_PROPERTY);
        let wanted = wanted.ok_or_else(|| Rule::TooLong.at(at))?;
        if !self.fill(wanted)? {
            return Err(Rule::Truncated.at(at).into());
        }
        let bytes = self.unread().get(..wanted).unwrap_or_default().to_vec();
        self.start += wanted;
        Ok(bytes)
    }

    /// Skips an unknown field.
    fn skip(&mut self, tag: Tag, end: u64) -> Result<(), Problem> {
        let at = self.offset();
        let mut left = match tag.wire {
            WireType::Varint => return self.number(end).map(drop),
            WireType::Fixed64 => 8,
            WireType::Fixed32 => 4,
            WireType::Bytes => self.length(end)?,
        };
        if left > end.saturating_sub(self.offset()) {
            return Err(Rule::Overrun.at(at).into());
        }
        while left > 0 {
            if !self.fill(1)? {
                return Err(Rule::Truncated.at(at).into());
            }
            let step = usize::try_from(left).unwrap_or(usize::MAX).min(self.filled - self.start);
            self.start += step;
            left -= step as u64;
        }
        Ok(())
    }
}

/// The fields of an entry; if a field occurs twice, the last one counts.
fn parse_entry(message: &[u8], format: u64) -> Result<Entry<'_>, Rule> {
    let (mut key, mut value, mut stamp, mut flags) = (&[][..], &[][..], 0, 0);
    let mut fields = Fields::new(message);
    while let Some((field, found)) = fields.next()? {
        match field {
            1 => key = found.bytes()?,
            2 => value = found.bytes()?,
            3 => stamp = found.fixed()?,
            4 => flags = found.number()?,
            _ => {}
        }
    }
    if key.is_empty() || key.len() > MAX_KEY {
        return Err(Rule::Key);
    }
    // The first format had no flags: an empty value meant a deletion.
    let deleted = flags & DELETED != 0 || (format == 1 && value.is_empty());
    Ok(Entry { key, value: if deleted { &[] } else { value }, stamp: Stamp(stamp), deleted })
}

fn parse_meta(message: &[u8]) -> Result<Meta, Rule> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut meta = Meta::default();
    let mut fields = Fields::new(message);
    while let Some((field, found)) = fields.next()? {
        match field {
            1 => meta.generation = text(found.bytes()?),
            2 => meta.instance = text(found.bytes()?),
            3 => meta.hostname = text(found.bytes()?),
            4 => meta.transaction = found.number()?,
            5 => meta.stamp = Stamp(found.fixed()?),
            7 => meta.database = text(found.bytes()?),
            8 => meta.from_transaction = found.number()?,
            _ => {}
        }
    }
    Ok(meta)
}
