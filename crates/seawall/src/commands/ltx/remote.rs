//! Reads objects by URL, without a copy on this machine. Metadata are read by ranges; the content is verified as it
//! arrives.
//!
//! An object of an older version of the format has no index, so its version is only known by its whole length. It is
//! fetched to a file first.

use std::path::PathBuf;

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use seawall_core::Failure;
use seawall_ltx::file::{FileError, Verified};
use seawall_ltx::{Error, Generation, Header, Index, Splitter, Summary};
use seawall_vault::{ObjectKey, Vault, VaultUrl};

use super::input::{Name, missing, object, open};
use super::{Meter, WorkArguments, failure};
use crate::edge::Edge;
use crate::runtime;

/// The bytes from which the header and the generation are known.
const HEAD: u64 = 132;
/// The bytes at the end that are asked for first: enough for the index of some thousand pages.
const TAIL: u64 = 32 << 10;

/// An object, with the facts that are known before it is read.
struct Object {
    vault: Vault,
    key: ObjectKey,
    size: u64,
}

/// Its displayed name and its metadata; `None` if it must be read as a file.
pub(super) fn describe(name: &Name, edge: &Edge) -> Result<Option<(String, Verified)>, Failure> {
    if !is_remote(name)? {
        return Ok(None);
    }
    runtime::run(async {
        let object = Object::find(name, edge).await?;
        let head = object.range(0, HEAD).await?;
        if object.checked(Generation::detect_start(&head, object.size))?.is_some() {
            return Ok(None);
        }
        let header = object.checked(Header::parse(&head))?;
        let index = object.index().await?;
        object.checked(index.check(&header))?;
        let summary = Summary { header, trailer: index.trailer(), pages: index.entries().len() as u64 };
        Ok(Some((object.shown(), Verified::new(summary, object.size, None))))
    })
}

/// Its displayed name and its content, verified to the end; `None` if it must be read as a file.
pub(super) fn verify(
    name: &Name,
    work: WorkArguments,
    edge: &Edge,
    json: bool,
) -> Result<Option<(String, Verified)>, Failure> {
    if !is_remote(name)? {
        return Ok(None);
    }
    runtime::run(async {
        let object = Object::find(name, edge).await?;
        let mut pieces = std::pin::pin!(object.vault.stream(&object.key, None));
        let start = gather(&mut pieces, HEAD).await?;
        if object.checked(Generation::detect_start(&start, object.size))?.is_some() {
            return Ok(None);
        }
        let meter = Meter::begin("verify", object.size, work, edge, json);
        let mut splitter = Splitter::new();
        let mut piece = Some(Bytes::from(start));
        while let Some(bytes) = piece {
            let mut rest = &bytes[..];
            while let Some(batch) = object.checked(splitter.feed(&mut rest))? {
                let batch = object.checked(batch.decode())?;
                object.checked(splitter.join(&batch))?;
            }
            (meter.advance)(bytes.len() as u64);
            piece = pieces.next().await.transpose()?;
        }
        let summary = object.checked(splitter.finish())?;
        Ok(Some((object.shown(), Verified::new(summary, object.size, None))))
    })
}

/// Whether it is an object that isn't a file of this machine.
fn is_remote(name: &Name) -> Result<bool, Failure> {
    Ok(!matches!(object(&name.0)?, None | Some((VaultUrl::File(_), _))))
}

impl Object {
    async fn find(name: &Name, edge: &Edge) -> Result<Object, Failure> {
        let Some((url, key)) = object(&name.0)? else { return Err(missing(name.0.clone())) };
        let (vault, key) = open(&name.0, url, key, edge).await?;
        let Some(meta) = vault.head(&key).await? else { return Err(missing(vault.object(&key))) };
        Ok(Object { vault, key, size: meta.size })
    }

    fn shown(&self) -> String {
        self.vault.object(&self.key)
    }

    /// A defect as one of this object.
    fn checked<T>(&self, result: seawall_ltx::Result<T>) -> Result<T, Failure> {
        result.map_err(|source| failure::plain(&FileError::Format { path: PathBuf::from(self.shown()), source }))
    }

    /// At most `len` bytes from `offset` on; fewer at the end.
    async fn range(&self, offset: u64, len: u64) -> Result<Bytes, Failure> {
        let end = offset.saturating_add(len).min(self.size);
        if offset >= end {
            return Ok(Bytes::new());
        }
        Ok(self.vault.read(&self.key, Some(offset..end), end - offset).await?)
    }

    async fn index(&self) -> Result<Index, Failure> {
        let mut wanted = TAIL;
        loop {
            let tail = self.range(self.size.saturating_sub(wanted), wanted).await?;
            match Index::parse(&tail, self.size) {
                Err(Error::TailTooShort { needed }) if needed > wanted && needed <= self.size => wanted = needed,
                other => return self.checked(other),
            }
        }
    }
}

/// The first bytes of a stream: at least `len`, if it has as many.
async fn gather(
    pieces: &mut (impl Stream<Item = Result<Bytes, seawall_vault::Error>> + Unpin),
    len: u64,
) -> Result<Vec<u8>, Failure> {
    let mut start = Vec::new();
    while (start.len() as u64) < len {
        let Some(piece) = pieces.next().await.transpose()? else { break };
        start.extend_from_slice(&piece);
    }
    Ok(start)
}
