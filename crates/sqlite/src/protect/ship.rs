//! From a set of pages to an object in the vault.
//!
//! Small objects are made in memory and written at once. Large ones are compressed in jobs on the blocking pool and
//! streamed, with a few MiB in memory for any size. Both are create-only (I2). The pages come from a pinned WAL. If the
//! pin isn't proved yet, the WAL's salts are checked after the last page was read and before the object becomes
//! visible. So a restart of the WAL during the reading can't get into an object.

use std::sync::Arc;

use bytes::Bytes;
use futures::TryFutureExt as _;
use futures::stream::{self, StreamExt};
use seawall_core::{Moment, NoProgress, Progress};
use seawall_ltx::{Batch, Checksum, Encoder, HEADER_SIZE, Header, compress_batch};
use seawall_vault::{ObjectKey, Upload, Vault};

use crate::digests;
use crate::error::Error;
use crate::fetch::{Fetched, Reading};
use crate::fresh;
use crate::headers::read_header;
use crate::identity::Stamp;
use crate::jobs::blocking;
use crate::layout::{Layout, Level, Stored, file_key};
use crate::pages::{self, LocatedPage, PageSet};
use crate::reader::PageReader;
use crate::spool::{Kept, Spool};
use crate::upload::{CHUNK, abandon, write_tail};
use crate::wal::Salts;

/// Objects with at most this many bytes of pages are made in memory.
pub(crate) const SMALL: u64 = 4 << 20;

/// An object to be made.
pub(crate) struct Shipment {
    pub(crate) header: Header,
    pub(crate) pages: PageSet,
    pub(crate) reader: PageReader,
    /// The generation of the WAL that `pages` refers to; `None` when it refers to none.
    pub(crate) salts: Option<Salts>,
}

impl Shipment {
    /// Makes the object, and gives it in pieces of about a MiB. Blocks.
    pub(crate) fn encode(&self, mut write: impl FnMut(&[u8]) -> Result<(), Error>) -> Result<(), Error> {
        let mut bytes = Vec::new();
        let object = || format!("{}-{}", self.header.min_txid, self.header.max_txid);
        let mut encoder = Encoder::new(self.header, &mut bytes).map_err(|e| Error::ltx(object())(e))?;
        for places in self.pages.batches() {
            let batch = pages::compress(&self.reader, &places)?;
            encoder.append(&batch, &mut bytes).map_err(|e| Error::ltx(object())(e))?;
            write(&bytes)?;
            bytes.clear();
        }
        self.check_generation()?;
        encoder.finish(Checksum::NONE, &mut bytes).map_err(|e| Error::ltx(object())(e))?;
        write(&bytes)
    }

    fn encode_in_memory(&self) -> Result<Vec<u8>, Error> {
        let mut object = Vec::new();
        self.encode(|bytes| {
            object.extend_from_slice(bytes);
            Ok(())
        })?;
        Ok(object)
    }

    fn check_generation(&self) -> Result<(), Error> {
        match self.salts {
            Some(salts) if !self.reader.is_generation(salts)? => Err(Error::Restarted),
            _ => Ok(()),
        }
    }

    fn stamp(&self) -> Moment {
        Moment::from_millis(self.header.timestamp_ms)
    }
}

/// The result of a shipment.
pub(crate) struct Shipped {
    /// The object's size in bytes.
    pub(crate) size: u64,
    /// The bytes of the object, if it is small.
    pub(crate) bytes: Option<Bytes>,
}

/// Ships an object, which is durable on return. `jobs` batches are compressed at a time. Shipping the same shipment
/// again offers the same bytes.
pub(crate) async fn ship(
    vault: &Vault,
    key: &ObjectKey,
    shipment: Arc<Shipment>,
    jobs: usize,
) -> Result<Shipped, Error> {
    ship_told(vault, key, shipment, jobs, &NoProgress).await
}

/// As [`ship`], and tells `progress` the bytes of the pages that are compressed.
pub(crate) async fn ship_told(
    vault: &Vault,
    key: &ObjectKey,
    shipment: Arc<Shipment>,
    jobs: usize,
    progress: &dyn Progress,
) -> Result<Shipped, Error> {
    if shipment.pages.bytes() > SMALL {
        let size = stream_out(vault, key, &shipment, jobs, progress).await?;
        return Ok(Shipped { size, bytes: None });
    }
    let stamp = shipment.stamp();
    let bytes = blocking(move || shipment.encode_in_memory()).await?;
    put(vault, key, bytes, stamp).await
}

/// Ships a capture from the spool, which is durable in the vault on return. Returns its size in bytes.
pub(crate) async fn ship_spooled(vault: &Vault, key: &ObjectKey, spool: &Spool, header: &Header) -> Result<u64, Error> {
    let (spool, txid) = (spool.clone(), header.max_txid);
    let kept = blocking(move || spool.open(txid)).await?;
    let size = kept.size;
    let upload = vault.upload(key, Some(Moment::from_millis(header.timestamp_ms))).expecting(size).digesting();
    complete(upload, vault, key, Stamp::read(header), async |upload| write_kept(upload, kept).await).await
}

async fn write_kept(upload: &mut Upload, mut kept: Kept) -> Result<(), Error> {
    loop {
        let read = move || kept.next(CHUNK).map(|bytes| (kept, bytes));
        let (rest, bytes) = blocking(read).await?;
        if bytes.is_empty() {
            return Ok(());
        }
        kept = rest;
        upload.write(Bytes::from(bytes)).await?;
    }
}

/// Writes an object from memory. It is durable on return.
async fn put(vault: &Vault, key: &ObjectKey, mut bytes: Vec<u8>, stamp: Moment) -> Result<Shipped, Error> {
    let size = bytes.len() as u64;
    let writer = Header::parse(&bytes).ok().and_then(|header| Stamp::read(&header));
    if size <= fresh::LARGEST {
        bytes.shrink_to_fit();
    }
    let bytes = Bytes::from(bytes);
    match vault.create(key, bytes.clone(), Some(stamp)).await {
        Ok(_fresh_or_our_own) => Ok(Shipped { size, bytes: Some(bytes).filter(|_| size <= fresh::LARGEST) }),
        Err(error) => Err(refused(vault, key, error, writer).await),
    }
}

async fn stream_out(
    vault: &Vault,
    key: &ObjectKey,
    shipment: &Shipment,
    jobs: usize,
    progress: &dyn Progress,
) -> Result<u64, Error> {
    let upload = vault.upload(key, Some(shipment.stamp())).expecting(shipment.pages.bytes()).digesting();
    let object = vault.object(key);
    let write = async |upload: &mut Upload| write_pages(upload, shipment, jobs, &object, progress).await;
    complete(upload, vault, key, Stamp::read(&shipment.header), write).await
}

/// Lets `write` write an upload, and makes it visible. Returns its size.
async fn complete(
    mut upload: Upload,
    vault: &Vault,
    key: &ObjectKey,
    writer: Option<Stamp>,
    write: impl AsyncFnOnce(&mut Upload) -> Result<(), Error>,
) -> Result<u64, Error> {
    if let Err(error) = write(&mut upload).await {
        abandon(upload).await;
        return Err(error);
    }
    let size = upload.written();
    match digests::finish(upload, vault, key).await {
        Ok(_fresh_or_our_own) => Ok(size),
        Err(error) => Err(refused(vault, key, error, writer).await),
    }
}

async fn write_pages(
    upload: &mut Upload,
    shipment: &Shipment,
    jobs: usize,
    object: &str,
    progress: &dyn Progress,
) -> Result<(), Error> {
    let mut buffer = Vec::with_capacity(2 * CHUNK);
    let mut encoder = Encoder::new(shipment.header, &mut buffer).map_err(Error::ltx(object))?;
    let page_size = u64::from(shipment.header.page_size.get());
    let jobs_in_order = shipment.pages.batches().map(|places| {
        let bytes = places.len() as u64 * page_size;
        compress(shipment.reader.clone(), places).map_ok(move |batch| (batch, bytes))
    });
    let mut batches = std::pin::pin!(stream::iter(jobs_in_order).buffered(jobs.max(1)));
    while let Some(compressed) = batches.next().await {
        let (batch, bytes) = compressed?;
        encoder.append(&batch, &mut buffer).map_err(Error::ltx(object))?;
        progress.advance(bytes);
        if buffer.len() >= CHUNK {
            let full = std::mem::replace(&mut buffer, Vec::with_capacity(2 * CHUNK));
            upload.write(Bytes::from(full)).await?;
        }
    }
    shipment.check_generation()?;
    write_tail(upload, encoder, buffer, object).await
}

/// Makes the capture beside a complete copy, from the copy: the same pages, and the same header except for its first
/// TXID. The content of the copy is verified on the way.
pub(crate) async fn pair_up(vault: &Vault, copy: Stored, jobs: usize) -> Result<(), Error> {
    let header = Header { min_txid: copy.max, ..read_header(vault, &copy).await? };
    let key = file_key(Layout::of(vault), Level::LOG, copy.max, copy.max);
    let object = vault.object(&key);
    let upload = vault.upload(&key, Some(Moment::from_millis(header.timestamp_ms))).expecting(copy.size);
    let mut upload = upload.digesting();
    let mut reading = Reading::new(vault, Fetched::streamed(copy), jobs);
    let mut buffer = Vec::with_capacity(2 * CHUNK);
    let mut encoder = Encoder::new(header, &mut buffer).map_err(Error::ltx(&object))?;
    while let Some(pages) = reading.next().await? {
        let batch =
            blocking(move || compress_batch(header.page_size, pages.pages()).map_err(Error::ltx("batch"))).await?;
        encoder.append(&batch, &mut buffer).map_err(Error::ltx(&object))?;
        if buffer.len() >= CHUNK {
            upload.write(Bytes::from(std::mem::take(&mut buffer))).await?;
        }
    }
    reading.finish()?;
    write_tail(&mut upload, encoder, buffer, &object).await?;
    match digests::finish(upload, vault, &key).await {
        Ok(_fresh_or_our_own) => Ok(()),
        // The capture beside a copy has the nonce of the copy, whichever was written first.
        Err(error) => Err(refused(vault, &key, error, Stamp::read(&header)).await),
    }
}

async fn compress(reader: PageReader, places: Vec<LocatedPage>) -> Result<Batch, Error> {
    blocking(move || pages::compress(&reader, &places)).await
}

/// A refused create is another writer's object (I9), unless the object's stamp is of this run: then an earlier attempt
/// with other content succeeded, and its answer was lost. Any other error stays as it is.
async fn refused(vault: &Vault, key: &ObjectKey, error: seawall_vault::Error, writer: Option<Stamp>) -> Error {
    if !matches!(error, seawall_vault::Error::AlreadyExists { .. }) {
        return error.into();
    }
    let object = vault.object(key);
    match vault.read(key, Some(0..HEADER_SIZE as u64), HEADER_SIZE as u64).await {
        Ok(head) => {
            let found = Header::parse(&head).ok().and_then(|header| Stamp::read(&header));
            let ours = found.zip(writer).is_some_and(|(found, writer)| found.nonce == writer.nonce);
            if ours { Error::OwnObject { key: object } } else { Error::Conflict { key: object } }
        }
        // An object of this run would open.
        Err(seawall_vault::Error::Sealing { fault, .. }) if fault.is_of_object() => Error::Conflict { key: object },
        Err(unread) => unread.into(),
    }
}
