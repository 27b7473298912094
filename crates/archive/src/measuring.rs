//! Entry points of the benches: compression and decompression alone.

use std::io::Result;

use crate::Codec;
use crate::codec::{Decoder, Encoder};

/// Compresses a frame and replaces the buffer's content by the result.
pub type Encode = Box<dyn FnMut(&[u8], &mut Vec<u8>) -> Result<()>>;

/// Decompresses a frame of the given size and replaces the buffer's content by the result.
pub type Decode = Box<dyn FnMut(&[u8], usize, &mut Vec<u8>) -> std::result::Result<(), String>>;

/// How sets compress and decompress frames with a codec.
///
/// # Errors
/// The library has no such codec.
pub fn coder(codec: Codec) -> Result<(Encode, Decode)> {
    let (mut encoder, mut decoder) = (Encoder::new(codec)?, Decoder::new(codec)?);
    let encode = move |raw: &[u8], stored: &mut Vec<u8>| encoder.encode(raw, stored);
    let decode = move |stored: &[u8], size: usize, raw: &mut Vec<u8>| decoder.decode(stored, size, raw);
    Ok((Box::new(encode), Box::new(decode)))
}
