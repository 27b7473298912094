//! The BLAKE3 digest of an LTX file, as an object of its own where the vault has no room beside the file.
//!
//! A store normally keeps an object's digest beside it. A bucket can't for an object that is written in parts, because
//! metadata go before the bytes. Then the digest is a second object, written after the first: one request more for an
//! object of many requests, and none for any other object. A file without a digest is as good, but can't be compared.
//! So a failure to write a digest never fails the file.

use bytes::Bytes;
use seawall_core::Failure;
use seawall_vault::{Created, Digest, ObjectKey, Upload, Vault};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::layout::{Layout, Stored, digest_key, parse_key};

/// Anything larger is no digest of ours (I11).
const MAX_SIZE: u64 = 1 << 10;

/// The format of the object; see `docs/formats.md`.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    format: u32,
    /// As `b3sum` prints it.
    blake3: String,
}

/// Makes an upload visible. Keeps its digest as an object if there is no room beside the file.
pub(crate) async fn finish(upload: Upload, vault: &Vault, key: &ObjectKey) -> Result<Created, seawall_vault::Error> {
    let size = upload.written();
    let (created, digest) = upload.finish_digested().await?;
    if let Some((digest, file)) = digest.zip(parse_key(Layout::of(vault), key.as_str(), size))
        && let Err(error) = keep(vault, &file, digest).await
    {
        let object = vault.object(key);
        tracing::warn!(%object, %error, "its digest could not be kept: `verify --strong` can't compare it");
    }
    Ok(created)
}

async fn keep(vault: &Vault, file: &Stored, digest: Digest) -> Result<(), Error> {
    let record = Record { format: 1, blake3: digest.to_string() };
    let bytes = Bytes::from(serde_json::to_vec(&record).map_err(|e| Error::Internal(e.to_string()))?);
    let key = digest_key(file);
    match vault.create(&key, bytes.clone(), None).await {
        Ok(_) => return Ok(()),
        Err(seawall_vault::Error::AlreadyExists { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    // Another process removed the file of this digest, and left the digest behind.
    vault.delete(std::slice::from_ref(&key)).await?;
    vault.create(&key, bytes, None).await?;
    Ok(())
}

/// The companion to delete with a file: its digest, if the file may have been written in parts.
pub(crate) fn companion(vault: &Vault, file: &Stored) -> Option<ObjectKey> {
    may_be_apart(vault, file.size).then(|| digest_key(file))
}

fn may_be_apart(vault: &Vault, size: u64) -> bool {
    let abilities = vault.abilities();
    !abilities.digests_of_parts && size >= abilities.smallest_part as u64
}

/// The recorded digest of a file, wherever it is kept; `None` if there is none. [`Error::BadDigest`] says nothing about
/// the file.
pub(crate) async fn kept(vault: &Vault, file: &Stored) -> Result<Option<Digest>, Error> {
    let key = file.key(Layout::of(vault));
    match vault.head(&key).await?.and_then(|meta| meta.digest) {
        Some(digest) => Ok(Some(digest)),
        None => apart(vault, file).await,
    }
}

async fn apart(vault: &Vault, file: &Stored) -> Result<Option<Digest>, Error> {
    let Some(key) = companion(vault, file) else { return Ok(None) };
    let bytes = match vault.read(&key, None, MAX_SIZE).await {
        Ok(bytes) => bytes,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(seawall_vault::Error::TooLarge { .. }) => Bytes::new(),
        Err(error) => return Err(error.into()),
    };
    let record = serde_json::from_slice::<Record>(&bytes).ok().filter(|record| record.format == 1);
    let digest = record.and_then(|record| record.blake3.parse().ok());
    let bad = || Error::BadDigest { digest: vault.object(&key), file: file.key(Layout::of(vault)).to_string() };
    digest.map(Some).ok_or_else(bad)
}

/// The digest object of a replica's object; `key` is below the replica's own prefix. `None` if there is none, or if the
/// key isn't an LTX file of a replica.
///
/// # Errors
/// When the vault can't be asked, or the object there isn't a digest.
pub async fn digest_of_object(vault: &Vault, key: &ObjectKey, size: u64) -> Result<Option<Digest>, Failure> {
    match parse_key(Layout::of(vault), key.as_str(), size) {
        Some(file) => apart(vault, &file).await.map_err(|error| error.failure()),
        None => Ok(None),
    }
}
