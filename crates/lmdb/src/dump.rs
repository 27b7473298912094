//! An environment as a snapshot: one read transaction, two passes, and pieces of the last snapshot used again.
//!
//! The first pass adds up: how long each DBI is, which the format wants to know ahead, and which pieces are the same as
//! last time. The second one reads, encodes and compresses what is new. The result is a file without a name, from which it
//! is uploaded after the transaction is over, however slow the vault is, and from which the next one takes its pieces.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex};

use crate::Stamp;
use crate::environment::{Dbi, Env, ReadTxn};
use crate::error::Error;
use crate::header::Stored;
use crate::order::compare;
use crate::schema::{Schema, Tables};
use crate::shape::{Cutter, Piece, Place};
use crate::snapshot::encode::{entry_size, put_database, put_entry, put_preamble};
use crate::snapshot::{Compressor, Entry, Meta};

/// A snapshot in a file.
#[derive(Debug)]
pub struct Dumped {
    /// The snapshot. It has no name, and is gone with the last handle.
    pub file: Arc<File>,
    /// Its bytes.
    pub bytes: u64,
    /// Entries in it.
    pub entries: u64,
    /// When it was read.
    pub stamp: Stamp,
    /// The transaction that it shows.
    pub transaction: u64,
    /// Bytes that were taken from the last one.
    pub kept: u64,
    /// Its pieces, by DBI.
    shapes: BTreeMap<Vec<u8>, Vec<(Piece, Place)>>,
}

/// Who dumps what.
#[derive(Debug, Clone)]
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
}

/// One DBI, planned.
struct Shape {
    name: Vec<u8>,
    main: Dbi,
    versions: Option<Dbi>,
    pieces: Vec<Piece>,
}

/// Takes a snapshot. `now` is asked once the transaction is open. With `last` unchanged pieces come from there.
pub(crate) fn dump(
    env: &Env,
    schema: &Schema,
    writer: &Writer<'_>,
    now: impl FnOnce() -> Stamp,
    last: Option<&Dumped>,
) -> Result<Dumped, Error> {
    let mut txn = env.read()?;
    let (stamp, transaction) = (now(), txn.id());
    let mut shapes = Vec::new();
    for name in schema.names(txn.names()?) {
        let Tables { main: Some(main), versions } = Tables::open(schema, &mut txn, &name)? else { continue };
        let before = last.and_then(|last| last.shapes.get(&name)).map_or(&[][..], Vec::as_slice);
        let pieces = cut(&txn, &name, versions, before)?;
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
    let file = tempfile::tempfile_in(writer.folder).map_err(Error::io(writer.folder))?;
    let output = Output { file, at: 0, folder: writer.folder, last, kept: 0 };
    let (output, places) = write(&txn, &shapes, preamble, output, writer.jobs.max(1))?;
    let mut places = places.into_iter();
    let entries = shapes.iter().flat_map(|shape| &shape.pieces).map(|piece| piece.sum.entries).sum();
    let shapes =
        shapes.into_iter().map(|shape| (shape.name, shape.pieces.into_iter().zip(places.by_ref()).collect())).collect();
    Ok(Dumped { file: Arc::new(output.file), bytes: output.at, entries, stamp, transaction, kept: output.kept, shapes })
}

/// The first pass over a DBI.
fn cut(txn: &ReadTxn<'_>, name: &[u8], versions: Option<Dbi>, before: &[(Piece, Place)]) -> Result<Vec<Piece>, Error> {
    let mut cutter = Cutter::new(before);
    let Some(dbi) = versions else { return Ok(cutter.finish()) };
    let mut cursor = txn.cursor(dbi)?;
    let mut next = cursor.next()?;
    while let Some((key, bytes)) = next {
        let stored = parse(txn, name, bytes)?;
        cutter.take(key, &stored, entry_size(&entry(key, &stored)), |other| compare(dbi.flags(), key, other).is_ge());
        next = cursor.next()?;
    }
    Ok(cutter.finish())
}

fn parse<'b>(txn: &ReadTxn<'_>, name: &[u8], bytes: &'b [u8]) -> Result<Stored<'b>, Error> {
    Stored::parse(bytes).map_err(|what| Error::schema(txn.env().path(), name, what))
}

fn entry<'a>(key: &'a [u8], stored: &Stored<'a>) -> Entry<'a> {
    Entry { key, value: stored.value, stamp: stored.stamp, deleted: stored.deleted }
}

/// What comes next in the file.
enum Part {
    /// To be compressed.
    Raw(Vec<u8>),
    /// To be taken from the last snapshot.
    Kept(Place),
}

/// The second pass: compresses on `jobs` threads, and writes in order. Gives the places of all pieces.
fn write<'a>(
    txn: &ReadTxn<'_>,
    shapes: &[Shape],
    preamble: Vec<u8>,
    output: Output<'a>,
    jobs: usize,
) -> Result<(Output<'a>, Vec<Place>), Error> {
    std::thread::scope(|scope| {
        // As many wait as are worked on: enough that nobody idles, and a bound on the memory.
        let (work, queue) = sync_channel::<(usize, Vec<u8>)>(jobs);
        let (done, finished) = channel();
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..jobs {
            let (queue, done) = (Arc::clone(&queue), done.clone());
            scope.spawn(move || compress(&queue, |number, member| done.send((number, member)).is_ok()));
        }
        // Only the threads have it then, so that their end is noticed.
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

/// A thread that compresses until there is nothing more to do.
fn compress(queue: &Mutex<Receiver<(usize, Vec<u8>)>>, done: impl Fn(usize, Vec<u8>) -> bool) {
    let mut compressor = Compressor::new();
    loop {
        let next = match queue.lock() {
            Ok(queue) => queue.recv(),
            Err(_) => return,
        };
        let Ok((number, raw)) = next else { return };
        let mut member = Vec::new();
        compressor.member(&raw, &mut member);
        if !done(number, member) {
            return;
        }
    }
}

/// Parts on their way into the file, in order.
struct Row<'a> {
    work: SyncSender<(usize, Vec<u8>)>,
    finished: Receiver<(usize, Vec<u8>)>,
    output: Output<'a>,
    /// What isn't written yet: `None` where it isn't finished either. With whether its place is asked for.
    waiting: BTreeMap<usize, (Option<Ready>, bool)>,
    sent: usize,
    written: usize,
    most: usize,
    places: Vec<Place>,
}

/// A part that can be written.
enum Ready {
    Member(Vec<u8>),
    Kept(Place),
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

    /// Waits for one part to be finished, and writes what can be.
    fn wait(&mut self) -> Result<(), Error> {
        let (number, member) = self.finished.recv().map_err(|_| gone())?;
        if let Some((ready, _)) = self.waiting.get_mut(&number) {
            *ready = Some(Ready::Member(member));
        }
        self.drain()
    }

    fn drain(&mut self) -> Result<(), Error> {
        while let Some(first) = self.waiting.first_entry() {
            if first.get().0.is_none() {
                return Ok(());
            }
            let (ready, piece) = first.remove();
            let place = match ready {
                Some(Ready::Member(member)) => self.output.write(&member)?,
                Some(Ready::Kept(place)) => self.output.copy(place)?,
                None => return Ok(()),
            };
            self.written += 1;
            if piece {
                self.places.push(place);
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<(Output<'a>, Vec<Place>), Error> {
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
    file: File,
    at: u64,
    folder: &'a Path,
    last: Option<&'a Dumped>,
    kept: u64,
}

impl Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<Place, Error> {
        self.file.write_all(bytes).map_err(Error::io(self.folder))?;
        let place = Place { at: self.at, length: bytes.len() as u64 };
        self.at += place.length;
        Ok(place)
    }

    /// Takes bytes from the last snapshot.
    fn copy(&mut self, from: Place) -> Result<Place, Error> {
        let last = self.last.ok_or_else(|| Error::Internal("a piece is kept from nothing".to_owned()))?;
        let mut bytes = vec![0; usize::try_from(from.length).unwrap_or_default()];
        last.file.read_exact_at(&mut bytes, from.at).map_err(Error::io(self.folder))?;
        self.kept += from.length;
        self.write(&bytes)
    }
}
