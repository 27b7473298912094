//! The compression of a snapshot. A reader recognises it by the first bytes; the name shows it in a listing.

use std::io::{self, Cursor, ErrorKind, Read};

use flate2::read::MultiGzDecoder;

/// How a snapshot is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Codec {
    /// Gzip, which every reader can read.
    #[default]
    Gzip,
    /// Zstd, which only Seawall can read.
    Zstd,
}

/// The first bytes of a frame of zstd, and of one that is skipped but for its lowest bits.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const SKIPPED: [u8; 3] = [0x2a, 0x4d, 0x18];

/// The largest window that a frame may ask for, as a power of two: more than any piece that we write needs.
const WINDOW: u32 = 23;

impl Codec {
    /// The suffix of a snapshot's name; the first dot begins it.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Self::Gzip => "pb.gz",
            Self::Zstd => "pb.zstd",
        }
    }

    /// The compression of an object with this suffix.
    pub(crate) fn of_suffix(suffix: &str) -> Option<Self> {
        [Self::Gzip, Self::Zstd].into_iter().find(|codec| codec.suffix() == suffix)
    }

    /// Reads a name of it.
    pub fn from_text(text: &str) -> Option<Self> {
        match text {
            "gzip" => Some(Self::Gzip),
            "zstd" => Some(Self::Zstd),
            _ => None,
        }
    }

    fn of_bytes(first: &[u8]) -> Self {
        let skipped = first.get(1..4) == Some(SKIPPED.as_slice());
        if first == ZSTD || skipped { Self::Zstd } else { Self::Gzip }
    }
}

/// A stream with its first bytes put back.
type Whole<R> = io::Chain<Cursor<Vec<u8>>, R>;

/// Decompresses either format. Faults of the stream are `InvalidData`, `InvalidInput` or `UnexpectedEof`; any other
/// error is the source's.
pub(crate) struct Decompressor<R: Read>(State<R>);

enum State<R: Read> {
    Begin(Option<R>),
    Gzip(Box<MultiGzDecoder<Whole<R>>>),
    Zstd(zstd::stream::read::Decoder<'static, io::BufReader<Watched<Whole<R>>>>),
}

/// Tells errors of the source from those of the stream.
struct Watched<R> {
    source: R,
    failed: bool,
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer);
        self.failed |= read.is_err();
        read
    }
}

impl<R: Read> Decompressor<R> {
    pub(crate) fn new(source: R) -> Self {
        Self(State::Begin(Some(source)))
    }

    fn begin(mut source: R) -> io::Result<State<R>> {
        let mut first = Vec::with_capacity(ZSTD.len());
        (&mut source).take(ZSTD.len() as u64).read_to_end(&mut first)?;
        let codec = Codec::of_bytes(&first);
        let whole = Cursor::new(first).chain(source);
        Ok(match codec {
            Codec::Gzip => State::Gzip(Box::new(MultiGzDecoder::new(whole))),
            Codec::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::new(Watched { source: whole, failed: false })?;
                decoder.window_log_max(WINDOW)?;
                State::Zstd(decoder)
            }
        })
    }
}

impl<R: Read> Read for Decompressor<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let State::Begin(source) = &mut self.0 {
            let Some(source) = source.take() else { return Err(ErrorKind::UnexpectedEof.into()) };
            self.0 = Self::begin(source)?;
        }
        match &mut self.0 {
            State::Begin(_) => Ok(0),
            State::Gzip(decoder) => decoder.read(buffer),
            State::Zstd(decoder) => decoder.read(buffer).map_err(|error| {
                let foreign = decoder.get_ref().get_ref().failed;
                if foreign || error.kind() == ErrorKind::UnexpectedEof {
                    return error;
                }
                ErrorKind::InvalidData.into()
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Compressor;

    #[test]
    fn members_in_a_row_are_one_stream() {
        let mut random = fastrand::Rng::with_seed(3);
        let noise: Vec<u8> = (0..300_000).map(|_| random.u8(..)).collect();
        let text = b"some text ".repeat(30_000);
        for codec in [Codec::Gzip, Codec::Zstd] {
            let (mut out, mut compressor) = (Vec::new(), Compressor::new(codec));
            for piece in [&noise[..], &text, b"", b"x"] {
                compressor.member(piece, &mut out);
            }
            assert_eq!(Codec::of_bytes(&out[..4]), codec);
            let read = |bytes: &[u8]| {
                let mut back = Vec::new();
                Decompressor::new(bytes).read_to_end(&mut back).map(|_| back)
            };
            assert_eq!(read(&out).expect("whole"), [&noise[..], &text, b"", b"x"].concat());
            assert!(out.len() < noise.len() + 20_000, "{}", out.len());
            for length in [1, 3, 20, 1000, out.len() - 1] {
                let error = read(&out[..length]).expect_err("cut");
                assert!(matches!(
                    error.kind(),
                    ErrorKind::UnexpectedEof | ErrorKind::InvalidData | ErrorKind::InvalidInput
                ));
            }
            for at in [4, 10, 1000, out.len() - 3] {
                let mut damaged = out.clone();
                damaged[at] ^= 0x55;
                let faults = [ErrorKind::UnexpectedEof, ErrorKind::InvalidData, ErrorKind::InvalidInput];
                assert!(
                    read(&damaged).is_ok_and(|back| back.len() > noise.len())
                        || read(&damaged).is_err_and(|error| faults.contains(&error.kind())),
                    "{codec:?} {at}"
                );
            }
        }
    }

    #[test]
    fn the_sources_errors_are_its_own() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(ErrorKind::ConnectionReset.into())
            }
        }
        for codec in [Codec::Gzip, Codec::Zstd] {
            let mut out = Vec::new();
            Compressor::new(codec).member(&[7; 100_000], &mut out);
            out.truncate(out.len() / 2);
            let error =
                Decompressor::new(Cursor::new(out).chain(Broken)).read_to_end(&mut Vec::new()).expect_err("broken");
            assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{codec:?}");
        }
    }
}
