//! Compression: a snapshot as a row of gzip members, each a piece of the stream by itself.
//!
//! Every reader of gzip takes members in a row for one stream. Pieces that are compressed apart can be compressed by
//! several threads, and a piece whose content hasn't changed can be used again as it is.

use flate2::{Compress, Compression, Crc, FlushCompress, Status};

/// What a member begins with: deflate, no name, no time, fastest, unknown system.
const HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255];

/// Compresses one member after the other, with the same memory.
#[derive(Debug)]
pub(crate) struct Compressor {
    deflate: Compress,
}

impl Compressor {
    pub(crate) fn new() -> Self {
        Self { deflate: Compress::new(Compression::new(1), false) }
    }

    /// Appends `raw` as one member to `out`.
    pub(crate) fn member(&mut self, raw: &[u8], out: &mut Vec<u8>) {
        let mut crc = Crc::new();
        crc.update(raw);
        out.extend_from_slice(&HEAD);
        self.deflate.reset();
        let mut rest = raw;
        loop {
            // Room for what can't be compressed, so that one round is nearly always enough.
            out.reserve(rest.len() + rest.len() / 64 + 64);
            let before = self.deflate.total_in();
            let status = self.deflate.compress_vec(rest, out, FlushCompress::Finish);
            let taken = usize::try_from(self.deflate.total_in() - before).unwrap_or(usize::MAX);
            rest = rest.get(taken..).unwrap_or_default();
            match status {
                Ok(Status::StreamEnd) => break,
                Ok(Status::Ok | Status::BufError) => {}
                Err(error) => unreachable!("deflate takes any bytes: {error}"),
            }
        }
        out.extend_from_slice(&crc.sum().to_le_bytes());
        out.extend_from_slice(&crc.amount().to_le_bytes());
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
