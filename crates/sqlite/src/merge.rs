//! Several objects of a vault become one that does the same, from stream to stream.
//!
//! Frames are copied as they are and not compressed again; every input is verified from its first byte to its last before
//! the new object becomes visible. The same inputs always give the same bytes, so that two who make the same object, or
//! one who makes it twice, agree (I2).
//!
//! Memory: [`READ_AHEAD`] for all inputs together, a few MiB of pieces and parts, and typically 3 (at most 8) bytes for
//! each page of each input and of the output.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use seawall_core::Moment;
use seawall_ltx::{Batch, Batcher, Checksum, Encoder, Header, Merge, PageNo, PageSize, RawBatch, Source};
use seawall_vault::{Upload, Vault};
use tokio::task::JoinHandle;

use crate::compaction::Job;
use crate::error::Error;
use crate::fetch::{Fetched, Reading};
use crate::layout::{Stored, file_key};
use crate::ship::{CHUNK, abandon, write_tail};

/// Bytes of pages of all inputs that are read ahead.
const READ_AHEAD: usize = 8 << 20;

/// The smallest and the largest batch of pages that is read of one input at a time.
const BATCH: (usize, usize) = (64 << 10, 256 << 10);

/// Up to this many inputs are read on several threads each.
const FEW: usize = 8;

/// Inputs that are opened at a time.
const OPENING: usize = 16;

/// Bytes of frames that are hashed as one piece of work.
const PIECE: usize = 256 << 10;

/// An object that was made, and the moment of its newest change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Merged {
    pub(crate) file: Stored,
    pub(crate) moment: Moment,
}

/// Makes the object of `job`, or of the first of its inputs where those behind them belong to another history; it is
/// durable when this returns.
///
/// # Errors
/// [`seawall_vault::Error::AlreadyExists`] when another object has the name: somebody made the same from other inputs.
pub(crate) async fn merge(vault: &Vault, job: &Job, jobs: usize) -> Result<Merged, Error> {
    let (mut inputs, headers) = open(vault, &job.inputs, jobs).await?;
    inputs.truncate(headers.len());
    let merge = Merge::new(&headers).map_err(Error::ltx(vault.url()))?;
    // Like all objects of a vault it has no database checksums; its lineage is that of its inputs.
    let node_id = headers.first().map_or(0, |header| header.node_id);
    let header = Header { no_checksum: true, pre_apply: Checksum::NONE, node_id, ..*merge.header() };
    let key = file_key(vault.layout(), job.level, header.min_txid, header.max_txid);
    let moment = Moment::from_millis(header.timestamp_ms);
    let size = inputs.iter().map(|input| input.file.size).sum();
    let mut upload = vault.upload(&key, Some(moment)).expecting(size);
    let written = write(&mut upload, inputs, merge, header, jobs, &vault.object(&key)).await;
    if let Err(error) = written {
        abandon(upload).await;
        return Err(error);
    }
    let size = upload.written();
    upload.finish().await?;
    Ok(Merged { file: Stored { level: job.level, min: header.min_txid, max: header.max_txid, size }, moment })
}

/// Opens the inputs and reads their headers, up to the first one that belongs to another history or has another page
/// size: what is before it and behind it stay apart.
async fn open(vault: &Vault, files: &[Stored], jobs: usize) -> Result<(Vec<Input>, Vec<Header>), Error> {
    // Few inputs are large ones, of a base: several batches of each are decompressed at a time.
    let jobs = if files.len() <= FEW { jobs.clamp(1, FEW) } else { 1 };
    let batch = (READ_AHEAD / (files.len() * jobs).max(1)).clamp(BATCH.0, BATCH.1);
    let opening: Vec<_> = files.iter().map(|file| Input::open(vault, *file, jobs, batch)).collect();
    let inputs: Vec<Input> = stream::iter(opening).buffered(OPENING).try_collect().await?;
    let all = inputs.iter().map(Input::header).collect::<Result<Vec<Header>, Error>>()?;
    let history = |header: &Header| (header.page_size, header.node_id);
    let first = all.first().map(history);
    let headers = all.into_iter().take_while(|header| Some(history(header)) == first).collect();
    Ok((inputs, headers))
}

async fn write(
    upload: &mut Upload,
    mut inputs: Vec<Input>,
    mut merge: Merge,
    header: Header,
    jobs: usize,
    object: &str,
) -> Result<(), Error> {
    let mut buffer = Vec::with_capacity(2 * CHUNK);
    let mut output = Output {
        encoder: Encoder::new(header, &mut buffer).map_err(Error::ltx(object))?,
        buffer,
        pieces: VecDeque::new(),
        jobs: jobs.max(1),
    };
    let mut piece = Piece::default();
    while let Some((page, source)) = merge.next(inputs.iter().map(Input::head)) {
        match source {
            Source::Input(at) => piece.frames.extend_from_slice(inputs.get(at).map_or(&[][..], Input::frame)),
            Source::Zeros => piece.zero(page),
            Source::Nowhere => {}
        }
        for input in inputs.iter_mut().filter(|input| input.head() == Some(page)) {
            input.advance().await?;
        }
        if piece.is_full(header.page_size) {
            output.push(std::mem::take(&mut piece), header.page_size);
            output.flush(upload, false, object).await?;
        }
    }
    output.push(piece, header.page_size);
    output.flush(upload, true, object).await?;
    // Only now it is known that what was read is right.
    for input in inputs {
        input.reading.finish()?;
    }
    write_tail(upload, output.encoder, output.buffer, object).await
}

/// Pages of the new object that are hashed as one piece of work.
#[derive(Default)]
struct Piece {
    /// Frames of inputs, one behind the other; those of pages of zeros are left out.
    frames: Vec<u8>,
    /// Pages of zeros, each with its place in `frames`.
    zeros: Vec<(usize, PageNo)>,
}

impl Piece {
    fn zero(&mut self, page: PageNo) {
        self.zeros.push((self.frames.len(), page));
    }

    fn is_full(&self, size: PageSize) -> bool {
        self.frames.len() + self.zeros.len() * size.bytes() >= PIECE
    }

    /// Checks and hashes the frames. Blocks.
    fn seal(&self, size: PageSize) -> seawall_ltx::Result<Batch> {
        let mut batcher = Batcher::new(size);
        let zero = vec![0; size.bytes()];
        let mut zeros = self.zeros.iter().peekable();
        let frames = seawall_ltx::frames(size, &self.frames);
        let mut at = 0;
        for frame in frames {
            while let Some((_, page)) = zeros.next_if(|(place, _)| *place <= at) {
                batcher.push(*page, &zero)?;
            }
            let (_, frame) = frame?;
            batcher.copy(frame)?;
            at += frame.len();
        }
        for (_, page) in zeros {
            batcher.push(*page, &zero)?;
        }
        Ok(batcher.take(None))
    }
}

/// The new object on its way.
struct Output {
    encoder: Encoder,
    buffer: Vec<u8>,
    /// Pieces that are being hashed, in order.
    pieces: VecDeque<JoinHandle<seawall_ltx::Result<Batch>>>,
    jobs: usize,
}

impl Output {
    fn push(&mut self, piece: Piece, size: PageSize) {
        self.pieces.push_back(tokio::task::spawn_blocking(move || piece.seal(size)));
    }

    /// Hands on what is hashed, as much as there are jobs too many, or all.
    async fn flush(&mut self, upload: &mut Upload, all: bool, object: &str) -> Result<(), Error> {
        while all || self.pieces.len() > self.jobs {
            let Some(piece) = self.pieces.pop_front() else { break };
            let batch = piece.await.map_err(|e| Error::Internal(format!("a job ended in a panic: {e}")))?;
            let batch = batch.map_err(Error::ltx(object))?;
            self.encoder.append(&batch, &mut self.buffer).map_err(Error::ltx(object))?;
            if self.buffer.len() >= CHUNK {
                let full = std::mem::replace(&mut self.buffer, Vec::with_capacity(2 * CHUNK));
                upload.write(Bytes::from(full)).await?;
            }
        }
        Ok(())
    }
}

/// An input that is read page by page.
struct Input {
    file: Stored,
    reading: Reading,
    batch: Option<RawBatch>,
    /// Where the frames of the batch are, and which page each holds.
    frames: Vec<(PageNo, Range<usize>)>,
    at: usize,
}

impl Input {
    async fn open(vault: &Vault, file: Stored, jobs: usize, batch: usize) -> Result<Self, Error> {
        let reading = Reading::in_pieces(vault, Fetched::streamed(file), jobs, batch);
        let mut input = Self { file, reading, batch: None, frames: Vec::new(), at: 0 };
        input.read().await?;
        Ok(input)
    }

    fn header(&self) -> Result<Header, Error> {
        let header = self.reading.header().copied();
        header.ok_or_else(|| Error::Corrupt { object: self.file.name(), what: "it has no header".to_owned() })
    }

    async fn read(&mut self) -> Result<(), Error> {
        (self.at, self.batch) = (0, self.reading.next_frames().await?);
        self.frames.clear();
        let mut end = 0;
        for frame in self.batch.iter().flat_map(RawBatch::frames) {
            let (page, bytes) = frame.map_err(Error::ltx(self.file.name()))?;
            self.frames.push((page, end..end + bytes.len()));
            end += bytes.len();
        }
        Ok(())
    }

    fn head(&self) -> Option<PageNo> {
        self.frames.get(self.at).map(|(page, _)| *page)
    }

    fn frame(&self) -> &[u8] {
        let range = self.frames.get(self.at).map(|(_, range)| range.clone());
        let bytes = self.batch.as_ref().map(RawBatch::bytes).unwrap_or_default();
        range.and_then(|range| bytes.get(range)).unwrap_or_default()
    }

    async fn advance(&mut self) -> Result<(), Error> {
        self.at += 1;
        if self.at >= self.frames.len() { self.read().await } else { Ok(()) }
    }
}
