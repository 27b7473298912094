//! Takes a snapshot of an environment: one read transaction, two passes, and unchanged pieces of the last snapshot used
//! again.
//!
//! The first pass adds up ([`crate::capture::cut`]): the length of each DBI, which the format needs before its entries, and
//! which pieces are the same as last time. The second pass reads, encodes and compresses the new pieces. The result is
//! in a file without a name. It is uploaded from there after the transaction has ended, however slow the vault is.
//!
//! The next snapshot leaves the pieces that it reuses where they are in the file and appends the others. Once more of
//! the file is unused than used, a snapshot begins a new file.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex};

use crate::Stamp;
use crate::capture::cut::{Cuts, Shapes, cut, entry, parse};
use crate::capture::shape::{Compressed, Content, Piece};
use crate::environment::{Dbi, Env, ReadTxn};
use crate::error::Error;
use crate::schema::{Schema, Tables};
use crate::snapshot::encode::{put_database, put_entry, put_preamble};
use crate::snapshot::index::{self, Index, Section, Span};
use crate::snapshot::{Codec, Compressor, Meta};

/// Unused bytes that a file may always have.
const SLACK: u64 = 64 << 20;

/// A snapshot in a file.
#[derive(Debug)]
pub struct Dumped {
    /// The file that holds it. The file has no name; the system deletes it with the last handle.
    pub file: Arc<File>,
    /// The ranges of the file that make up the snapshot, in order.
    pub stretches: Vec<Stretch>,
    /// Its bytes.
    pub bytes: u64,
    /// Entries in it.
    pub entries: u64,
    /// When the environment was read.
    pub stamp: Stamp,
    /// The transaction that it shows.
    pub transaction: u64,
    /// Bytes that were reused from the last snapshot.
    pub kept: u64,
    /// The snapshot's index.
    pub(crate) index: Index,
    /// How it is compressed.
    pub(crate) codec: Codec,
    /// The end of the file when this snapshot was taken.
    end: u64,
    /// Its pieces, by DBI.
    pub(crate) shapes: Shapes,
}

/// Bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// Where they begin.
    pub at: u64,
    /// How many.
    pub length: u64,
}

/// Whose snapshot it is, and how it is made.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    /// The instance, as in names.
    pub(crate) instance: &'a str,
    /// The host's name.
    pub(crate) hostname: &'a str,
    /// The database, as in names.
    pub(crate) database: &'a str,
    /// Where the file is made.
    pub(crate) folder: &'a Path,
    /// Threads that compress.
    pub(crate) jobs: usize,
    /// What they make.
    pub(crate) codec: Codec,
    /// An earlier cut of the versions, if there is one.
    pub(crate) cuts: Option<Cuts>,
}

/// One DBI, planned.
struct Shape {
    name: Vec<u8>,
    main: Dbi,
    versions: Option<Dbi>,
    pieces: Vec<Piece>,
}

/// Takes a snapshot. `now` is called once the transaction is open. Unchanged pieces are reused from `last`.
pub(crate) fn dump(
    env: &Env,
    schema: &Schema,
    writer: &Writer<'_>,
    now: impl FnOnce() -> Stamp,
    last: Option<&Dumped>,
) -> Result<Dumped, Error> {
    // Members of another compression can't be reused.
    let last = last.filter(|last| last.codec == writer.codec);
    let mut txn = env.read()?;
    let (stamp, transaction) = (now(), txn.id());
    let cuts = writer.cuts.as_ref().filter(|cuts| cuts.transaction == transaction);
    let mut shapes = Vec::new();
    for name in schema.names(txn.names()?) {
        let Tables { main: Some(main), versions } = Tables::open(schema, &mut txn, &name)? else { continue };
        let before = last.and_then(|last| last.shapes.get(&name)).map_or(&[][..], Vec::as_slice);
        let known = cuts.and_then(|cuts| cuts.dbis.get(&name));
        let pieces = cut(&txn, &name, versions, before, known)?;
        shapes.push(Shape { name, main, versions, pieces });
    }
    let mut preamble = Vec::new();
    let meta = Meta {
        generation: crate::snapshot::GENERATION.to_owned(),
        instance: writer.instance.to_owned(),
        hostname: writer.hostname.to_owned(),
        transaction,
        stamp,
        database: writer.database.to_owned(),
        from_transaction: 0,
    };
    put_preamble(&meta, shapes.len() as u64, &mut preamble);
    let output = Output::new(writer.folder, last, &shapes)?;
    let (mut output, places) = write(&txn, &shapes, preamble.clone(), output, (writer.jobs.max(1), writer.codec))?;
    drop(txn);
    let entries = shapes.iter().flat_map(|shape| &shape.pieces).map(|piece| piece.sum.entries).sum();
    let index = index_of(preamble, &shapes, &places);
    let mut end = Vec::new();
    index::put(&index, output.bytes, writer.codec, &mut end);
    output.write(&end)?;
    let mut places = places.into_iter().map(|(_, place)| place);
    let shapes =
        shapes.into_iter().map(|shape| (shape.name, shape.pieces.into_iter().zip(places.by_ref()).collect())).collect();
    let Output { file, stretches, bytes, kept, end, .. } = output;
    Ok(Dumped { file, stretches, bytes, entries, stamp, transaction, kept, index, codec: writer.codec, end, shapes })
}

/// The index. `places` are the places of all pieces, each with its offset in the snapshot.
fn index_of(preamble: Vec<u8>, shapes: &[Shape], places: &[(u64, Compressed)]) -> Index {
    let mut places = places.iter();
    let mut span = |piece: &Piece| {
        let (at, Compressed { length, content, .. }) = *places.next()?;
        Some(Span { first: piece.first.clone(), at, length, raw: piece.sum.bytes, content })
    };
    let mut section = |shape: &Shape| Section {
        name: shape.name.clone(),
        flags: shape.main.flags(),
        transform: Schema::transform(shape.main.flags()).to_owned(),
        pieces: shape.pieces.iter().map_while(&mut span).collect(),
    };
    Index { preamble, sections: shapes.iter().map(&mut section).collect() }
}

/// The next part of the file.
enum Part {
    /// To be compressed.
    Raw(Vec<u8>),
    /// To be reused from the last snapshot.
    Kept(Compressed),
}

/// A compressed piece: its number, the gzip member, and the digest of its content.
type Done = (usize, Vec<u8>, Content);

/// The second pass: compresses on `jobs` threads and writes in order. Returns the places of all pieces, each with its
/// offset in the snapshot.
fn write<'a>(
    txn: &ReadTxn<'_>,
    shapes: &[Shape],
    preamble: Vec<u8>,
    output: Output<'a>,
    (jobs, codec): (usize, Codec),
) -> Result<(Output<'a>, Vec<(u64, Compressed)>), Error> {
    std::thread::scope(|scope| {
        // As many pieces wait as there are threads. This keeps every thread busy and bounds the memory.
        let (work, queue) = sync_channel::<(usize, Vec<u8>)>(jobs);
        let (done, finished) = channel();
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..jobs {
            let (queue, done) = (Arc::clone(&queue), done.clone());
            scope.spawn(move || compress(&queue, codec, |made| done.send(made).is_ok()));
        }
        // Only the threads hold the sender then, so that the receiver notices their end.
        drop(done);
        // Dropped at the end of this closure, also after an error, which ends the threads.
        let mut row = Row {
            work,
            finished,
            output,
            waiting: BTreeMap::new(),
            sent: 0,
            written: 0,
            most: 2 * jobs,
            places: Vec::new(),
        };
        row.push(Part::Raw(preamble), false)?;
        for shape in shapes {
            let mut head = Vec::new();
            let bytes = shape.pieces.iter().map(|piece| piece.sum.bytes).sum();
            let flags = shape.main.flags();
            put_database(&shape.name, flags.bits(), Schema::transform(flags), bytes, &mut head);
            row.push(Part::Raw(head), false)?;
            let Some(versions) = shape.versions else { continue };
            let mut cursor = txn.cursor(versions)?;
            for piece in &shape.pieces {
                let part = match piece.kept {
                    Some(place) => Part::Kept(place),
                    None => Part::Raw(encode(txn, shape, &mut cursor, piece)?),
                };
                row.push(part, true)?;
            }
        }
        row.finish()
    })
}

/// Encodes the entries of a piece.
fn encode(
    txn: &ReadTxn<'_>,
    shape: &Shape,
    cursor: &mut crate::environment::Cursor<'_>,
    piece: &Piece,
) -> Result<Vec<u8>, Error> {
    let mut raw = Vec::with_capacity(usize::try_from(piece.sum.bytes).unwrap_or_default());
    let mut next = cursor.from(&piece.first)?;
    for _ in 0..piece.sum.entries {
        let Some((key, bytes)) = next else { break };
        put_entry(&entry(key, &parse(txn, &shape.name, bytes)?), &mut raw);
        next = cursor.next()?;
    }
    if raw.len() as u64 != piece.sum.bytes {
        return Err(Error::Internal("the second pass over a DBI found something else than the first".to_owned()));
    }
    Ok(raw)
}

/// A thread that compresses until no work is left.
fn compress(queue: &Mutex<Receiver<(usize, Vec<u8>)>>, codec: Codec, done: impl Fn(Done) -> bool) {
    let (mut compressor, mut member) = (Compressor::new(codec), Vec::new());
    loop {
        let next = match queue.lock() {
            Ok(queue) => queue.recv(),
            Err(_) => return,
        };
        let Ok((number, raw)) = next else { return };
        member.clear();
        compressor.member(&raw, &mut member);
        // Copied, because the reserved buffer is several times as long.
        if !done((number, member.clone(), content(&raw))) {
            return;
        }
    }
}

/// The digest of entries.
fn content(raw: &[u8]) -> Content {
    let mut content = Content::default();
    blake3::Hasher::new().update(raw).finalize_xof().fill(&mut content);
    content
}

/// Parts that are written to the file in order.
struct Row<'a> {
    work: SyncSender<(usize, Vec<u8>)>,
    finished: Receiver<Done>,
    output: Output<'a>,
    /// What isn't written yet: `None` where it isn't finished either. With whether its place is asked for.
    waiting: BTreeMap<usize, (Option<Ready>, bool)>,
    sent: usize,
    written: usize,
    most: usize,
    places: Vec<(u64, Compressed)>,
}

/// A part that can be written.
enum Ready {
    Member(Vec<u8>, Content),
    Kept(Compressed),
}

impl<'a> Row<'a> {
    fn push(&mut self, part: Part, piece: bool) -> Result<(), Error> {
        while self.sent - self.written >= self.most {
            self.wait()?;
        }
        let number = self.sent;
        self.sent += 1;
        match part {
            Part::Kept(place) => {
                self.waiting.insert(number, (Some(Ready::Kept(place)), piece));
                self.drain()
            }
            Part::Raw(raw) => {
                self.waiting.insert(number, (None, piece));
                self.work.send((number, raw)).map_err(|_| gone())
            }
        }
    }

    /// Waits until one part is compressed, and writes every part whose turn it is.
    fn wait(&mut self) -> Result<(), Error> {
        let (number, member, content) = self.finished.recv().map_err(|_| gone())?;
        if let Some((ready, _)) = self.waiting.get_mut(&number) {
            *ready = Some(Ready::Member(member, content));
        }
        self.drain()
    }

    fn drain(&mut self) -> Result<(), Error> {
        while let Some(first) = self.waiting.first_entry() {
            if first.get().0.is_none() {
                return Ok(());
            }
            let (ready, piece) = first.remove();
            let from = self.output.bytes;
            let place = match ready {
                Some(Ready::Member(member, content)) => {
                    let Stretch { at, length } = self.output.write(&member)?;
                    Compressed { at, length, content }
                }
                Some(Ready::Kept(place)) => self.output.keep(place)?,
                None => return Ok(()),
            };
            self.written += 1;
            if piece {
                self.places.push((from, place));
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<(Output<'a>, Vec<(u64, Compressed)>), Error> {
        while self.written < self.sent {
            self.wait()?;
        }
        Ok((self.output, self.places))
    }
}

fn gone() -> Error {
    Error::Internal("a thread that compresses ended".to_owned())
}

/// The file that is being written.
struct Output<'a> {
    file: Arc<File>,
    /// Where the next bytes go.
    end: u64,
    folder: &'a Path,
    /// The file of the last snapshot, if it is another file.
    last: Option<&'a File>,
    stretches: Vec<Stretch>,
    bytes: u64,
    kept: u64,
}

impl<'a> Output<'a> {
    /// Continues behind the last snapshot, or begins a new file if too much of the old one is unused.
    fn new(folder: &'a Path, last: Option<&'a Dumped>, shapes: &[Shape]) -> Result<Self, Error> {
        let used = shapes.iter().flat_map(|shape| &shape.pieces).filter_map(|piece| piece.kept);
        let used: u64 = used.map(|place| place.length).sum();
        let (file, end, last) = match last {
            Some(last) if last.end - used.min(last.end) <= used.max(SLACK) => (Arc::clone(&last.file), last.end, None),
            last => {
                let file = tempfile::tempfile_in(folder).map_err(Error::io(folder))?;
                (Arc::new(file), 0, last.map(|last| &*last.file))
            }
        };
        Ok(Self { file, end, folder, last, stretches: Vec::new(), bytes: 0, kept: 0 })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<Stretch, Error> {
        self.file.write_all_at(bytes, self.end).map_err(Error::io(self.folder))?;
        let stretch = Stretch { at: self.end, length: bytes.len() as u64 };
        self.end += stretch.length;
        self.take(stretch);
        Ok(stretch)
    }

    /// Makes a range of the file the next part of the snapshot.
    fn take(&mut self, stretch: Stretch) {
        self.bytes += stretch.length;
        match self.stretches.last_mut() {
            Some(before) if before.at + before.length == stretch.at => before.length += stretch.length,
            _ => self.stretches.push(stretch),
        }
    }

    /// Reuses a piece of the last snapshot.
    fn keep(&mut self, place: Compressed) -> Result<Compressed, Error> {
        self.kept += place.length;
        let Some(last) = self.last else {
            self.take(Stretch { at: place.at, length: place.length });
            return Ok(place);
        };
        let mut bytes = vec![0; usize::try_from(place.length).unwrap_or_default()];
        last.read_exact_at(&mut bytes, place.at).map_err(Error::io(self.folder))?;
        Ok(Compressed { at: self.write(&bytes)?.at, ..place })
    }
}
