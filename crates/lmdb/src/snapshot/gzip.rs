//! Compression: a snapshot as a row of gzip members, each a piece of the stream by itself.
//!
//! Every reader of gzip takes members in a row for one stream. Pieces that are compressed apart can be compressed by
//! several threads, and a piece whose content hasn't changed can be used again as it is.

use libdeflater::{CompressionLvl, Compressor as Deflater};

/// Compresses one member after the other, with the same memory.
pub(crate) struct Compressor {
    deflater: Deflater,
}

impl Compressor {
    pub(crate) fn new() -> Self {
        // The library's fastest level that compresses at all; the default one stands for a library that has none.
        Self { deflater: Deflater::new(CompressionLvl::new(1).unwrap_or_default()) }
    }

    /// Appends `raw` as one member to `out`.
    pub(crate) fn member(&mut self, raw: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + self.deflater.gzip_compress_bound(raw.len()), 0);
        let length = match self.deflater.gzip_compress(raw, out.get_mut(start..).unwrap_or_default()) {
            Ok(length) => length,
            Err(error) => unreachable!("the library says itself how much room it needs: {error:?}"),
        };
        out.truncate(start + length);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::MultiGzDecoder;

    use super::*;

    #[test]
    fn members_in_a_row_are_one_stream() {
        let mut random = fastrand::Rng::with_seed(3);
        let noise: Vec<u8> = (0..300_000).map(|_| random.u8(..)).collect();
        let text = b"some text ".repeat(30_000);
        let (mut out, mut compressor) = (Vec::new(), Compressor::new());
        for piece in [&noise[..], &text, b"", b"x"] {
            compressor.member(piece, &mut out);
        }
        let mut back = Vec::new();
        MultiGzDecoder::new(&out[..]).read_to_end(&mut back).expect("gzip");
        assert_eq!(back, [&noise[..], &text, b"", b"x"].concat());
        assert!(out.len() < noise.len() + 20_000, "{}", out.len());
    }
}
