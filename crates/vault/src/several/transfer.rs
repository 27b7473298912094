//! Copies one object from a vault to another: its bytes, its stamp and its digest, in bounded memory, verified.

use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use futures::TryStreamExt as _;

use super::prints::Held;
use crate::settle::SAMPLE;
use crate::{Created, Digest, Digester, Error, Fault, Meta, ObjectKey, Vault, reading};

/// Objects up to this size are copied in one request.
const WHOLE: u64 = 8 << 20;

/// What became of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copied {
    /// The object is there now; so many bytes were written.
    Fresh(u64),
    /// The same object was there already.
    There(u64),
    /// The object is not in the vault that it was to come from.
    Gone,
    /// Another object has the name in the vault that it was to go to. Nothing was changed.
    Differs,
}

impl fmt::Display for Copied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fresh(_) => "copied",
            Self::There(_) => "there already",
            Self::Gone => "gone",
            Self::Differs => "differs",
        })
    }
}

/// Copies an object under the same name.
pub async fn copy(from: &Vault, to: &Vault, key: &ObjectKey) -> Result<Copied, Error> {
    copy_as(from, to, key, key).await
}

/// Copies an object, which is called `name` in the other vault.
pub async fn copy_as(from: &Vault, to: &Vault, key: &ObjectKey, name: &ObjectKey) -> Result<Copied, Error> {
    let Some(meta) = from.head(key).await? else { return Ok(Copied::Gone) };
    let copied = if meta.size <= WHOLE {
        whole(from, to, key, name, &meta).await
    } else {
        in_parts(from, to, key, name, &meta).await
    };
    match copied {
        Err(Error::NotFound { object }) if object == from.object(key) => Ok(Copied::Gone),
        Err(Error::AlreadyExists { .. }) => Ok(Copied::Differs),
        copied => copied,
    }
}

async fn whole(from: &Vault, to: &Vault, key: &ObjectKey, name: &ObjectKey, meta: &Meta) -> Result<Copied, Error> {
    let bytes = match from.read(key, None, meta.size).await {
        Ok(bytes) => bytes,
        Err(Error::NotFound { .. }) => return Ok(Copied::Gone),
        Err(error) => return Err(error),
    };
    let digest = Digest::of(&bytes);
    check(from, key, meta, bytes.len() as u64, digest)?;
    let size = bytes.len() as u64;
    Ok(match to.create_as(name, bytes, meta.stamp, Some(digest)).await? {
        Created::Fresh => Copied::Fresh(size),
        Created::Adopted => Copied::There(size),
    })
}

async fn in_parts(from: &Vault, to: &Vault, key: &ObjectKey, name: &ObjectKey, meta: &Meta) -> Result<Copied, Error> {
    // A large object isn't sent again to learn that it is there.
    if let Some(there) = to.head(name).await? {
        return Ok(match same_as(from, to, key, name, meta, &there).await? {
            true => Copied::There(meta.size),
            false => Copied::Differs,
        });
    }
    let mut upload = to.upload(name, meta.stamp).expecting(meta.size);
    let mut chunks = Box::pin(reading::stream(from.clone(), key.clone(), None, Some(meta.size)));
    let mut digester = Digester::default();
    let (mut size, mut pending) = (0, Vec::new());
    while let Some(chunk) = chunks.try_next().await? {
        size += chunk.len() as u64;
        digester = hashed(digester, chunk.clone()).await?;
        pending.push(chunk);
        for chunk in pending.drain(..) {
            upload.write(chunk).await?;
        }
    }
    let digest = digester.digest();
    if let Err(error) = check(from, key, meta, size, digest) {
        let _ = upload.abort().await;
        return Err(error);
    }
    upload.finish().await.map(|created| match created {
        Created::Fresh => Copied::Fresh(size),
        Created::Adopted => Copied::There(size),
    })
}

/// Hashes a chunk. Chunks of a stream are small, so this is as quick as handing them to another thread.
async fn hashed(mut digester: Digester, chunk: Bytes) -> Result<Digester, Error> {
    digester.update(&chunk);
    Ok(digester)
}

/// Whether both vaults hold the same bytes: by their digests where both keep one, otherwise by reading both.
pub async fn same(from: &Vault, to: &Vault, key: &ObjectKey, meta: &Meta, there: &Meta) -> Result<bool, Error> {
    same_as(from, to, key, key, meta, there).await
}

/// The same for an object that is called `name` in the other vault.
pub async fn same_as(
    from: &Vault,
    to: &Vault,
    key: &ObjectKey,
    name: &ObjectKey,
    meta: &Meta,
    there: &Meta,
) -> Result<bool, Error> {
    if meta.size != there.size {
        return Ok(false);
    }
    let digest = async |vault: &Vault, key: &ObjectKey, known: Option<Digest>| match known {
        Some(digest) => Ok(digest),
        None => digest_of(vault, key).await,
    };
    Ok(digest(from, key, meta.digest).await? == digest(to, name, there.digest).await?)
}

/// What two vaults hold under a name, one compared with the other, from few bytes: by the digests where both keep one, otherwise by
/// sizes, first and last bytes. Formats of ours carry a nonce in the head and a checksum in the tail. An object that one of them lacks ([`Held::Gone`]), or
/// that no key at hand opens ([`Held::Locked`]), tells no difference.
pub(crate) async fn compared(from: &Vault, to: &Vault, key: &ObjectKey) -> Result<Held, Error> {
    let (Some(one), Some(other)) = (from.head(key).await?, to.head(key).await?) else { return Ok(Held::Gone) };
    let judged = |is_same: bool| if is_same { Held::Same } else { Held::Other };
    if one.size != other.size {
        return Ok(Held::Other);
    }
    if let (Some(one), Some(other)) = (one.digest, other.digest) {
        return Ok(judged(one == other));
    }
    let sample = SAMPLE as u64;
    let ranges = [0..one.size.min(sample), one.size.saturating_sub(sample)..one.size];
    for range in ranges.into_iter().filter(|range| !range.is_empty()) {
        match (bytes(from, key, range.clone()).await, bytes(to, key, range).await) {
            (Ok(one), Ok(other)) if one == other => {}
            (Ok(_), Ok(_)) => return Ok(Held::Other),
            (Err(Error::Sealing { fault: Fault::NoKey, .. }), _)
            | (_, Err(Error::Sealing { fault: Fault::NoKey, .. })) => {
                return Ok(Held::Locked);
            }
            (Err(Error::NotFound { .. }), _) | (_, Err(Error::NotFound { .. })) => return Ok(Held::Gone),
            (Err(error), _) | (_, Err(error)) => return Err(error),
        }
    }
    Ok(Held::Same)
}

async fn bytes(vault: &Vault, key: &ObjectKey, range: Range<u64>) -> Result<Vec<u8>, Error> {
    let chunks = reading::stream(vault.clone(), key.clone(), Some(range), Some(SAMPLE as u64));
    Ok(chunks.try_collect::<Vec<Bytes>>().await?.concat())
}

/// The digest of an object's bytes as they are read now.
pub async fn digest_of(vault: &Vault, key: &ObjectKey) -> Result<Digest, Error> {
    let mut digester = Digester::default();
    let mut chunks = Box::pin(vault.stream(key, None));
    while let Some(chunk) = chunks.try_next().await? {
        digester.update(&chunk);
    }
    Ok(digester.digest())
}

fn check(from: &Vault, key: &ObjectKey, meta: &Meta, size: u64, digest: Digest) -> Result<(), Error> {
    let corrupt = |cause: String| Err(Error::Corrupt { object: from.object(key), cause });
    if size != meta.size {
        return corrupt(format!("{size} of {} bytes could be read", meta.size));
    }
    match meta.digest {
        Some(kept) if kept != digest => {
            corrupt(format!("its bytes have the digest {digest}, but {kept} was kept beside it"))
        }
        _ => Ok(()),
    }
}
