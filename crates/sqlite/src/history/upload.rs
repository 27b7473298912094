//! Writes LTX objects to the vault piece by piece.

use bytes::Bytes;
use seawall_ltx::{Checksum, Encoder};
use seawall_vault::Upload;

use crate::error::Error;

/// Bytes of a streamed object that are handed to the vault at once.
pub(crate) const CHUNK: usize = 1 << 20;

/// Aborts an upload. The store frees its space if it answers; nothing of it is visible either way.
pub(crate) async fn abandon(upload: Upload) {
    if let Err(left) = upload.abort().await {
        tracing::debug!(error = %left, "an aborted upload may leave parts behind");
    }
}

/// Ends an object: uploads the bytes that `encoder` has left, in pieces.
pub(crate) async fn write_tail(
    upload: &mut Upload,
    encoder: Encoder,
    mut buffer: Vec<u8>,
    object: &str,
) -> Result<(), Error> {
    let mut tail = encoder.close(Checksum::NONE).map_err(Error::ltx(object))?;
    loop {
        let done = tail.write(&mut buffer).is_some();
        if done || buffer.len() >= CHUNK {
            upload.write(Bytes::from(std::mem::take(&mut buffer))).await?;
        }
        if done {
            return Ok(());
        }
    }
}
