//! Copies one object from a vault to another: its bytes, its stamp and its digest, in bounded memory, verified.

use std::fmt;

use bytes::Bytes;
use futures::TryStreamExt as _;

use crate::reading;
use crate::{Created, Digest, Digester, Error, Meta, ObjectKey, Vault};

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
