//! Merges several objects of a vault into one with the same effect, from stream to stream.
//!
//! Frames are copied unchanged: each is decompressed once, to be verified and hashed, and none is compressed again.
//! Every input is verified from its first byte to its last before the new object becomes visible. The same inputs
//! always give the same bytes. So two processes that make the same object, or one that makes it twice, agree (I2).
//!
//! Memory: [`READ_AHEAD`] for all inputs together, the vault's read buffer of each, a few MiB of pieces and parts, and
//! typically 3 (at most 8) bytes for each page of each input and of the output.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use seawall_core::Moment;
use seawall_ltx::{Batch, Batcher, CheckedBatch, CheckedFrame, Checksum, Encoder, Header, Merge, PageNo, Source};
use seawall_vault::{Upload, Vault};

use crate::belonging::{self, Facts};
use crate::error::Error;
use crate::fetch::{Fetched, Reading};
use crate::identity::Tag;
use crate::layout::{Layout, Level, Stored, file_key};
use crate::upload::{CHUNK, abandon, write_tail};
use crate::{digests, together};

/// Bytes of pages of all inputs that are read ahead.
const READ_AHEAD: usize = 4 << 20;

/// The smallest and the largest batch of pages that is read from one input at a time.
const BATCH: (usize, usize) = (32 << 10, 256 << 10);

/// Up to this many inputs are read on several threads each.
const FEW: usize = 8;

/// Inputs that are opened at a time.
const OPENING: usize = 16;

/// Bytes of frames that are handed on at once.
const PIECE: usize = 256 << 10;

/// An object that was made, and the moment of its newest change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Merged {
    pub(crate) file: Stored,
    pub(crate) moment: Moment,
    pub(crate) facts: Facts,
}

/// Merges `inputs` into an object of level `level`. If later inputs belong to another history, merges only those before
/// them. The object is durable on return. `elder` is the object that the inputs must continue, if it is known.
///
/// # Errors
/// [`seawall_vault::Error::AlreadyExists`] when another object has the name: another process merged other inputs.
/// [`Error::Mixed`] when the inputs don't belong together (I14).
pub(crate) async fn merge(
    vault: &Vault,
    level: Level,
    elder: Option<&Facts>,
    inputs: Vec<Fetched>,
    jobs: usize,
) -> Result<Merged, Error> {
    let (mut inputs, headers) = open(vault, elder, inputs, jobs).await?;
    inputs.truncate(headers.len());
    let (first, last) = (inputs.first().zip(headers.first()), inputs.last().zip(headers.last()));
    let before = first.and_then(|(_, header)| Tag::before(header));
    let after = last.and_then(|(input, header)| Tag::after(header, input.file.level));
    let merge = Merge::new(&headers).map_err(Error::ltx(vault.url()))?;
    // Like all objects of a vault it has no database checksums; its lineage is that of its inputs.
    let node_id = headers.first().map_or(0, |header| header.node_id);
    let mut header = Header { no_checksum: true, pre_apply: Checksum::NONE, node_id, ..*merge.header() };
    let before = if header.is_snapshot() { None } else { before };
    Tag::write_merged(&mut header, before, after);
    let key = file_key(Layout::of(vault), level, header.min_txid, header.max_txid);
    let moment = Moment::from_millis(header.timestamp_ms);
    let size = inputs.iter().map(|input| input.file.size).sum();
    let mut upload = vault.upload(&key, Some(moment)).expecting(size).digesting();
    let written = write(&mut upload, inputs, merge, header, &vault.object(&key)).await;
    if let Err(error) = written {
        abandon(upload).await;
        return Err(error);
    }
    let size = upload.written();
    digests::finish(upload, vault, &key).await?;
    let file = Stored { level, min: header.min_txid, max: header.max_txid, size };
    Ok(Merged { file, moment, facts: Facts::of(&file, &header) })
}

/// Opens the inputs and reads their headers, up to the first that begins another history or has another page size:
/// inputs before and after it aren't merged. Objects that don't belong together are refused.
async fn open(
    vault: &Vault,
    elder: Option<&Facts>,
    files: Vec<Fetched>,
    jobs: usize,
) -> Result<(Vec<Input>, Vec<Header>), Error> {
    // Few inputs mean large ones, for a base. Then several batches of each are decompressed at a time.
    let jobs = if files.len() <= FEW { jobs.clamp(1, FEW) } else { 1 };
    let batch = (READ_AHEAD / (files.len() * jobs).max(1)).clamp(BATCH.0, BATCH.1);
    let opening: Vec<_> = files.into_iter().map(|file| Input::open(vault, file, jobs, batch)).collect();
    let inputs: Vec<Input> = stream::iter(opening).buffered(OPENING).try_collect().await?;
    let all = inputs.iter().map(Input::header).collect::<Result<Vec<Header>, Error>>()?;
    let inputs_facts = inputs.iter().zip(&all).map(|(input, header)| Facts::of(&input.file, header));
    let facts: Vec<Facts> = elder.copied().into_iter().chain(inputs_facts).collect();
    let mut holes = BTreeMap::new();
    for (before, next) in facts.iter().zip(facts.iter().skip(1)) {
        together::note_hole(vault, &mut holes, before, next).await?;
    }
    belonging::chain(&facts, &[], &holes).map_err(|mixed| together::strangers(vault, &mixed))?;
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
    object: &str,
) -> Result<(), Error> {
    let mut output = Output::new(header, object)?;
    while let Some((page, source)) = merge.next(inputs.iter().map(Input::head)) {
        match source {
            Source::Input(at) => output.copy(inputs.get(at).and_then(Input::frame), object)?,
            Source::Zeros => output.zero(page, object)?,
            Source::Nowhere => {}
        }
        for input in inputs.iter_mut().filter(|input| input.head() == Some(page)) {
            input.advance().await?;
        }
        if output.batcher.size() >= PIECE {
            output.flush(upload, object).await?;
        }
    }
    output.flush(upload, object).await?;
    // Only now all inputs are known to be valid.
    for input in inputs {
        input.reading.finish()?;
    }
    write_tail(upload, output.encoder, output.buffer, object).await
}

/// The new object, being written.
struct Output {
    encoder: Encoder,
    batcher: Batcher,
    /// The memory of the last batch.
    used: Option<Batch>,
    zero: Vec<u8>,
    buffer: Vec<u8>,
}

impl Output {
    fn new(header: Header, object: &str) -> Result<Self, Error> {
        let mut buffer = Vec::with_capacity(2 * CHUNK);
        let encoder = Encoder::new(header, &mut buffer).map_err(Error::ltx(object))?;
        let batcher = Batcher::new(header.page_size);
        Ok(Self { encoder, batcher, used: None, zero: vec![0; header.page_size.bytes()], buffer })
    }

    fn copy(&mut self, frame: Option<CheckedFrame<'_>>, object: &str) -> Result<(), Error> {
        frame.map_or(Ok(()), |frame| self.batcher.copy_checked(&frame).map_err(Error::ltx(object)))
    }

    fn zero(&mut self, page: PageNo, object: &str) -> Result<(), Error> {
        self.batcher.push(page, &self.zero).map_err(Error::ltx(object))
    }

    /// Uploads the collected bytes.
    async fn flush(&mut self, upload: &mut Upload, object: &str) -> Result<(), Error> {
        let batch = self.batcher.take(self.used.take());
        self.encoder.append(&batch, &mut self.buffer).map_err(Error::ltx(object))?;
        self.used = Some(batch);
        if self.buffer.len() >= CHUNK {
            let full = std::mem::replace(&mut self.buffer, Vec::with_capacity(2 * CHUNK));
            upload.write(Bytes::from(full)).await?;
        }
        Ok(())
    }
}

/// An input that is read page by page.
struct Input {
    file: Stored,
    reading: Reading<CheckedBatch>,
    batch: Option<CheckedBatch>,
    at: usize,
}

impl Input {
    async fn open(vault: &Vault, fetched: Fetched, jobs: usize, batch: usize) -> Result<Self, Error> {
        let file = fetched.file;
        let reading = Reading::in_pieces(vault, fetched, jobs, batch);
        let mut input = Self { file, reading, batch: None, at: 0 };
        input.read().await?;
        Ok(input)
    }

    fn header(&self) -> Result<Header, Error> {
        let header = self.reading.header().copied();
        header.ok_or_else(|| Error::Corrupt { object: self.file.name(), what: "it has no header".to_owned() })
    }

    async fn read(&mut self) -> Result<(), Error> {
        (self.at, self.batch) = (0, self.reading.next().await?);
        Ok(())
    }

    fn frame(&self) -> Option<CheckedFrame<'_>> {
        self.batch.as_ref()?.get(self.at)
    }

    fn head(&self) -> Option<PageNo> {
        self.frame().map(|frame| frame.page())
    }

    async fn advance(&mut self) -> Result<(), Error> {
        self.at += 1;
        if self.head().is_none() { self.read().await } else { Ok(()) }
    }
}
