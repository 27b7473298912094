//! Reads an LTX object of a vault: fetched in one stream, decompressed and hashed on several cores, returned in order.

use std::collections::VecDeque;

use bytes::{Buf, Bytes};
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use seawall_core::Panicked;
use seawall_ltx::{CheckedBatch, DecodedBatch, HEADER_SIZE, Header, RawBatch, Splitter, Summary, Txid};
use seawall_vault::{Digest, Digester, ObjectKey, Vault};
use tokio::task::JoinHandle;

use crate::error::Error;
use crate::headers::{check_names, read_header};
use crate::heads::{Heads, SMALL, is_whole};
use crate::layout::{Layout, Level, Stored, file_key};

/// Over a network a large object is read in ranges of this size, because one connection seldom fills the line.
const RANGE: u64 = 8 << 20;

/// Ranges of one object that are in memory or on their way.
const RANGES: usize = 3;

/// An object's bytes: here, or to come.
pub(crate) struct Fetched {
    pub(crate) file: Stored,
    content: Content,
}

/// The part of an object that is in memory.
enum Content {
    Whole(Bytes),
    /// Its first bytes. The others are read as they come.
    Begun(Bytes),
}

impl Fetched {
    /// An object whose bytes are already in memory, if they are.
    pub(crate) fn at_hand(file: Stored, content: Option<Bytes>) -> Self {
        Self { file, content: content.map_or_else(|| Content::Begun(Bytes::new()), Content::Whole) }
    }

    /// An object that is read as it comes.
    pub(crate) fn streamed(file: Stored) -> Self {
        Self::at_hand(file, None)
    }

    /// All of its bytes, if they are in memory.
    pub(crate) fn whole(&self) -> Option<&Bytes> {
        match &self.content {
            Content::Whole(bytes) => Some(bytes),
            Content::Begun(_) => None,
        }
    }

    /// Its header.
    pub(crate) async fn header(&self, vault: &Vault) -> Result<Header, Error> {
        let bytes = match &self.content {
            Content::Whole(bytes) => bytes,
            Content::Begun(bytes) if bytes.len() >= HEADER_SIZE => bytes,
            Content::Begun(_) => return read_header(vault, &self.file).await,
        };
        let object = vault.object(&self.file.key(Layout::of(vault)));
        let header = Header::parse(bytes).map_err(Error::ltx(&object))?;
        check_names(&self.file, &header, object)?;
        Ok(header)
    }
}

/// The capture of one TXID, if the vault has it. One request, which also fetches a small object.
pub(crate) async fn capture(vault: Vault, txid: Txid) -> Result<Option<Fetched>, Error> {
    let file = |size| Stored { level: Level::LOG, min: txid, max: txid, size };
    let key = file_key(Layout::of(&vault), Level::LOG, txid, txid);
    match vault.read(&key, None, SMALL).await {
        Ok(bytes) => Ok(Some(Fetched { file: file(bytes.len() as u64), content: Content::Whole(bytes) })),
        Err(seawall_vault::Error::TooLarge { size, .. }) => Ok(Some(Fetched::streamed(file(size)))),
        Err(seawall_vault::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Fetches objects in order, with small ones prefetched. What `heads` kept isn't asked for again.
pub(crate) fn ahead(heads: &Heads, files: Vec<Stored>) -> BoxStream<'static, Result<Fetched, (Stored, Error)>> {
    let (heads, at_once) = (heads.clone(), heads.at_once());
    let fetch = move |file: Stored| {
        let heads = heads.clone();
        async move {
            let begun = heads.take(&file);
            if let Some(whole) = begun.clone().filter(|bytes| is_whole(&file, bytes)) {
                return Ok(Fetched { file, content: Content::Whole(whole) });
            }
            if file.size > SMALL {
                return Ok(Fetched { file, content: Content::Begun(begun.unwrap_or_default()) });
            }
            let read = heads.vault().read(&file.key(Layout::of(heads.vault())), None, SMALL).await;
            read.map(|bytes| Fetched { file, content: Content::Whole(bytes) }).map_err(|e| (file, e.into()))
        }
    };
    stream::iter(files).map(fetch).buffered(at_once).boxed()
}

/// An object being read from its first byte to its last.
///
/// Batches of pages come in order, before the object is known to be valid. Only the summary at the end says that it is.
pub(crate) struct Reading<B = DecodedBatch> {
    file: Stored,
    object: String,
    jobs: usize,
    pieces: Pieces,
    piece: Bytes,
    ended: bool,
    named: bool,
    splitter: Splitter,
    /// Hashes the bytes if the caller asks for the digest.
    digester: Option<Digester>,
    working: VecDeque<JoinHandle<seawall_ltx::Result<B>>>,
}

type Pieces = BoxStream<'static, Result<Bytes, seawall_vault::Error>>;

/// How the bytes of an object from an offset on are read; the last number is the object's size.
type Rest = fn(&Vault, &ObjectKey, u64, u64) -> Pieces;

/// One request. Many objects can be read side by side like this.
fn one_stream(vault: &Vault, key: &ObjectKey, start: u64, _size: u64) -> Pieces {
    vault.stream(key, (start > 0).then_some(start..u64::MAX)).boxed()
}

/// Ranges over a network, some of them ahead. The checksum of the file notices if the object was exchanged in between.
fn ranges(vault: &Vault, key: &ObjectKey, start: u64, size: u64) -> Pieces {
    if vault.folder().is_some() || size.saturating_sub(start) <= 2 * RANGE {
        return one_stream(vault, key, start, size);
    }
    let (vault, key) = (vault.clone(), key.clone());
    let starts =
        (0..).map(move |n: u64| start.saturating_add(n.saturating_mul(RANGE))).take_while(move |at| *at < size);
    let range = move |from: u64| {
        let end = from.saturating_add(RANGE);
        // One byte more than the listing names shows an object that is longer.
        let end = if end >= size { size.saturating_add(1) } else { end };
        vault.stream(&key, Some(from..end)).boxed().try_collect::<Vec<Bytes>>()
    };
    let read = stream::iter(starts).map(range).buffered(RANGES);
    read.map_ok(|chunks| stream::iter(chunks.into_iter().map(Ok))).try_flatten().boxed()
}

/// How batches are processed as they are read.
pub(crate) trait Read: Send + Sized + 'static {
    /// Does the expensive part. Blocks.
    fn work(raw: RawBatch) -> seawall_ltx::Result<Self>;

    /// Adds the batch to the checks of the object.
    fn join(&self, splitter: &mut Splitter) -> seawall_ltx::Result<()>;
}

/// For callers that need the pages.
impl Read for DecodedBatch {
    fn work(raw: RawBatch) -> seawall_ltx::Result<Self> {
        raw.decode()
    }

    fn join(&self, splitter: &mut Splitter) -> seawall_ltx::Result<()> {
        splitter.join(self)
    }
}

/// For callers that need the frames as they are in the object, verified.
impl Read for CheckedBatch {
    fn work(raw: RawBatch) -> seawall_ltx::Result<Self> {
        raw.check()
    }

    fn join(&self, splitter: &mut Splitter) -> seawall_ltx::Result<()> {
        splitter.join_checked(self)
    }
}

impl Reading {
    /// Begins to read; `jobs` batches are decompressed at a time.
    pub(crate) fn new(vault: &Vault, fetched: Fetched, jobs: usize) -> Self {
        Self::with_splitter(vault, fetched, jobs, Splitter::new(), ranges)
    }

    /// Has the digest of the bytes computed too.
    pub(crate) fn digesting(self) -> Self {
        Self { digester: Some(Digester::default()), ..self }
    }

    /// The digest of the bytes so far; after the last pages, of all bytes.
    pub(crate) fn digest(&self) -> Option<Digest> {
        self.digester.as_ref().map(Digester::digest)
    }
}

impl<B: Read> Reading<B> {
    /// Begins to read batches of `bytes` bytes of pages: for many objects that are read side by side.
    pub(crate) fn in_pieces(vault: &Vault, fetched: Fetched, jobs: usize, bytes: usize) -> Self {
        Self::with_splitter(vault, fetched, jobs, Splitter::with_batch_size(bytes), one_stream)
    }

    fn with_splitter(vault: &Vault, fetched: Fetched, jobs: usize, splitter: Splitter, rest: Rest) -> Self {
        let key = fetched.file.key(Layout::of(vault));
        let pieces = match fetched.content {
            Content::Whole(bytes) => stream::iter([Ok(bytes)]).boxed(),
            Content::Begun(bytes) => {
                let start = bytes.len() as u64;
                let begun = stream::iter(Some(bytes).filter(|bytes| !bytes.is_empty()).map(Ok));
                begun.chain(rest(vault, &key, start, fetched.file.size)).boxed()
            }
        };
        Self {
            file: fetched.file,
            object: vault.object(&key),
            jobs: jobs.max(1),
            pieces,
            piece: Bytes::new(),
            ended: false,
            named: false,
            splitter,
            digester: None,
            working: VecDeque::new(),
        }
    }

    /// The next batch; `None` after the last.
    pub(crate) async fn next(&mut self) -> Result<Option<B>, Error> {
        loop {
            if self.working.len() >= self.jobs || self.ended {
                let Some(next) = self.working.pop_front() else { return Ok(None) };
                let batch = next.await.map_err(Panicked::from)?;
                let batch = batch.map_err(Error::ltx(&self.object))?;
                batch.join(&mut self.splitter).map_err(Error::ltx(&self.object))?;
                return Ok(Some(batch));
            }
            if self.piece.is_empty() {
                match self.pieces.next().await.transpose()? {
                    Some(piece) => {
                        self.digester.iter_mut().for_each(|digester| digester.update(&piece));
                        self.piece = piece;
                    }
                    None => self.ended = true,
                }
            }
            self.take_piece()?;
        }
    }

    /// Takes bytes from the piece until a batch is complete, and starts work on it.
    fn take_piece(&mut self) -> Result<(), Error> {
        let mut rest = &self.piece[..];
        let raw = self.splitter.feed(&mut rest).map_err(Error::ltx(&self.object))?;
        let taken = self.piece.len() - rest.len();
        self.piece.advance(taken);
        if let Some(raw) = raw {
            self.working.push_back(tokio::task::spawn_blocking(move || B::work(raw)));
        }
        if !self.named
            && let Some(header) = self.splitter.header()
        {
            check_names(&self.file, header, self.object.clone())?;
            self.named = true;
        }
        Ok(())
    }

    /// The header; there when the first pages are.
    pub(crate) fn header(&self) -> Option<&Header> {
        self.splitter.header()
    }

    /// Whether the whole object was valid. Call it after the last pages.
    pub(crate) fn finish(self) -> Result<Summary, Error> {
        self.splitter.finish().map_err(Error::ltx(&self.object))
    }
}
