//! Compression: a snapshot is a sequence of members, each compressed by itself.
//!
//! Every reader of gzip reads consecutive members as one stream, and every reader of zstd does so with frames. So
//! several threads can compress pieces, and an unchanged piece can be reused as it is.

use libdeflater::{CompressionLvl, Compressor as Deflater};

use super::Codec;

/// The level of zstd: the fastest that all its versions have.
const ZSTD_LEVEL: i32 = 1;

/// Compresses one member after the other, reusing its memory.
pub(crate) enum Compressor {
    Gzip(Deflater),
    Zstd(Box<zstd::bulk::Compressor<'static>>),
}

impl Compressor {
    pub(crate) fn new(codec: Codec) -> Self {
        if codec == Codec::Zstd
            && let Ok(mut zstd) = zstd::bulk::Compressor::new(ZSTD_LEVEL)
            && zstd.include_checksum(true).is_ok()
        {
            return Self::Zstd(Box::new(zstd));
        }
        // The library's fastest level that compresses at all; the default one stands for a library that has none.
        Self::Gzip(Deflater::new(CompressionLvl::new(1).unwrap_or_default()))
    }

    /// Appends `raw` as one member to `out`.
    pub(crate) fn member(&mut self, raw: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        let bound = match self {
            Self::Gzip(deflater) => deflater.gzip_compress_bound(raw.len()),
            Self::Zstd(_) => zstd::zstd_safe::compress_bound(raw.len()),
        };
        out.resize(start + bound, 0);
        let place = out.get_mut(start..).unwrap_or_default();
        let length = match self {
            Self::Gzip(deflater) => deflater.gzip_compress(raw, place).ok(),
            Self::Zstd(zstd) => zstd.compress_to_buffer(raw, place).ok(),
        };
        let Some(length) = length else { unreachable!("the library says itself how much room it needs") };
        out.truncate(start + length);
    }
}
