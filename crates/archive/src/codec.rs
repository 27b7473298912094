//! Compression of frames: each frame by itself, in a format that standard tools read.
//!
//! The frames of one chunk follow each other directly; `zstd -d`, `gzip -d`, `lz4 -d` and `cat` read the file as one
//! stream.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use zstd::zstd_safe::{CParameter, ParamSwitch};

use crate::gzip::Gzip;
use crate::lz4;

/// The default level of zstd. It compresses a real dump at the rate at which two connections deliver the dump, and to
/// fewer bytes than gzip at its best level.
const ZSTD_LEVEL: i32 = 1;

/// What level 1 is told beside its level. On the text of a dump each of them alone gains nothing, and together they are a
/// fifth faster than the level by itself, with 1 % fewer bytes: a hash table of twice the size finds more, so it may look
/// at fewer places, in larger steps. Steps turn the compression of literals off unless it is asked for.
const LEVEL_1: [CParameter; 3] =
    [CParameter::HashLog(15), CParameter::TargetLength(3), CParameter::LiteralCompressionMode(ParamSwitch::Enable)];

/// What level 1 is told for the pages of a database: they repeat more than the text of a dump does, and fewer bytes than
/// `zstd -1` are left of them in frames of 1 MiB.
const PAGES: [CParameter; 3] =
    [CParameter::HashLog(15), CParameter::TargetLength(2), CParameter::LiteralCompressionMode(ParamSwitch::Enable)];

/// The level of gzip that is used unless another is asked for: our own, more than twice as fast as the library's least.
const GZIP_LEVEL: i32 = 1;

/// A way to compress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Codec {
    /// Zstandard, with the content's size and a checksum in every frame.
    Zstd {
        /// 1 to 19.
        level: i32,
    },
    /// Gzip, for tools that read no other format.
    Gzip {
        /// 1 to 12.
        level: i32,
    },
    /// LZ4 in its frame format, with a checksum of the content.
    Lz4,
    /// No compression.
    None,
}

impl Default for Codec {
    fn default() -> Self {
        Self::Zstd { level: ZSTD_LEVEL }
    }
}

impl Codec {
    /// The file extension of chunks.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Zstd { .. } => "zst",
            Self::Gzip { .. } => "gz",
            Self::Lz4 => "lz4",
            Self::None => "raw",
        }
    }

    /// Whether this codec can be written and read. A codec from a vault may have any value.
    pub(crate) fn is_sound(self) -> bool {
        match self {
            Self::Zstd { level } => (1..=19).contains(&level),
            Self::Gzip { level } => (1..=12).contains(&level),
            Self::Lz4 | Self::None => true,
        }
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zstd { level } => write!(f, "zstd:{level}"),
            Self::Gzip { level } => write!(f, "gzip:{level}"),
            Self::Lz4 => f.write_str("lz4"),
            Self::None => f.write_str("none"),
        }
    }
}

impl FromStr for Codec {
    type Err = String;

    /// Reads `zstd`, `zstd:3`, `gzip`, `gzip:6`, `lz4` or `none`.
    fn from_str(text: &str) -> Result<Self, String> {
        let codec = match text.split_once(':') {
            Some(("zstd", level)) => level.parse().ok().map(|level| Self::Zstd { level }),
            Some(("gzip", level)) => level.parse().ok().map(|level| Self::Gzip { level }),
            Some(_) => None,
            None => match text {
                "zstd" => Some(Self::default()),
                "gzip" => Some(Self::Gzip { level: GZIP_LEVEL }),
                "lz4" => Some(Self::Lz4),
                "none" => Some(Self::None),
                _ => None,
            },
        };
        let codec = codec.filter(|codec| codec.is_sound());
        codec.ok_or_else(|| {
            format!("\"{text}\" is no compression: give zstd, zstd:1 to zstd:19, gzip, gzip:1 to gzip:12, lz4 or none")
        })
    }
}

/// Compresses frames. An encoder is reused, because its tables are as large as a frame's window.
pub struct Encoder(Encodes);

enum Encodes {
    Zstd(zstd::bulk::Compressor<'static>),
    Gzip(Gzip),
    Deflate(libdeflater::Compressor),
    Lz4(lz4::Writer),
    None,
}

impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoder").finish_non_exhaustive()
    }
}

impl Encoder {
    /// An encoder of frames in this codec.
    ///
    /// # Errors
    /// The library has no such codec.
    pub fn new(codec: Codec) -> std::io::Result<Self> {
        Encodes::new(codec).map(Self)
    }

    /// An encoder of frames of zstd for the pages of a database.
    ///
    /// # Errors
    /// The library's own; none is known to occur.
    pub fn of_pages() -> std::io::Result<Self> {
        zstd(ZSTD_LEVEL, &PAGES).map(Encodes::Zstd).map(Self)
    }

    /// Replaces what `stored` holds by `raw` as one frame.
    ///
    /// # Errors
    /// The library's own; none is known to occur.
    pub fn encode(&mut self, raw: &[u8], stored: &mut Vec<u8>) -> std::io::Result<()> {
        self.0.encode(raw, stored)
    }
}

fn zstd(level: i32, parameters: &[CParameter]) -> std::io::Result<zstd::bulk::Compressor<'static>> {
    let mut zstd = zstd::bulk::Compressor::new(level)?;
    parameters.iter().try_for_each(|parameter| zstd.set_parameter(*parameter))?;
    zstd.include_checksum(true)?;
    zstd.include_contentsize(true)?;
    Ok(zstd)
}

impl Encodes {
    fn new(codec: Codec) -> std::io::Result<Self> {
        Ok(match codec {
            Codec::Zstd { level } => {
                let parameters: &[CParameter] = if level == ZSTD_LEVEL { &LEVEL_1 } else { &[] };
                Self::Zstd(zstd(level, parameters)?)
            }
            Codec::Gzip { level: GZIP_LEVEL } => Self::Gzip(Gzip::new()),
            Codec::Gzip { level } => {
                let level = libdeflater::CompressionLvl::new(level);
                let level = level.map_err(|_| std::io::Error::other("there is no such level of gzip"))?;
                Self::Deflate(libdeflater::Compressor::new(level))
            }
            Codec::Lz4 => Self::Lz4(lz4::Writer::new()),
            Codec::None => Self::None,
        })
    }

    fn encode(&mut self, raw: &[u8], stored: &mut Vec<u8>) -> std::io::Result<()> {
        stored.clear();
        match self {
            Self::Zstd(zstd) => {
                stored.reserve(zstd::zstd_safe::compress_bound(raw.len()));
                zstd.compress_to_buffer(raw, stored).map(drop)
            }
            Self::Gzip(gzip) => gzip.encode(raw, stored),
            Self::Deflate(gzip) => {
                stored.resize(gzip.gzip_compress_bound(raw.len()), 0);
                let written = gzip.gzip_compress(raw, stored).map_err(std::io::Error::other)?;
                stored.truncate(written);
                Ok(())
            }
            Self::Lz4(lz4) => lz4.encode(raw, stored),
            Self::None => {
                stored.extend_from_slice(raw);
                Ok(())
            }
        }
    }
}

/// Decompresses frames. A decoder is reused.
pub struct Decoder(Decodes);

enum Decodes {
    Zstd(zstd::bulk::Decompressor<'static>),
    Gzip(libdeflater::Decompressor),
    Lz4,
    None,
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder").finish_non_exhaustive()
    }
}

impl Decoder {
    /// A decoder of frames in this codec.
    ///
    /// # Errors
    /// The library has no such codec.
    pub fn new(codec: Codec) -> std::io::Result<Self> {
        Decodes::new(codec).map(Self)
    }

    /// Replaces the content of `raw` by the content of the frame `stored`, which must be exactly `size` bytes. A frame
    /// that claims more never gets more memory than that (I11).
    ///
    /// # Errors
    /// Why it is no such frame.
    pub fn decode(&mut self, stored: &[u8], size: usize, raw: &mut Vec<u8>) -> Result<(), String> {
        self.0.decode(stored, size, raw)
    }
}

impl Decodes {
    fn new(codec: Codec) -> std::io::Result<Self> {
        Ok(match codec {
            Codec::Zstd { .. } => Self::Zstd(zstd::bulk::Decompressor::new()?),
            Codec::Gzip { .. } => Self::Gzip(libdeflater::Decompressor::new()),
            Codec::Lz4 => Self::Lz4,
            Codec::None => Self::None,
        })
    }

    fn decode(&mut self, stored: &[u8], size: usize, raw: &mut Vec<u8>) -> Result<(), String> {
        raw.clear();
        match self {
            Self::Zstd(zstd) => {
                if raw.capacity() < size {
                    raw.reserve_exact(size);
                }
                zstd.decompress_to_buffer(stored, raw).map_err(|error| error.to_string())?;
            }
            Self::Gzip(gzip) => {
                raw.resize(size, 0);
                let made = gzip.gzip_decompress(stored, raw).map_err(|error| error.to_string())?;
                raw.truncate(made);
            }
            Self::Lz4 => {
                raw.resize(size, 0);
                lz4::decode(stored, raw)?;
            }
            Self::None if stored.len() == size => raw.extend_from_slice(stored),
            Self::None => return Err(format!("it holds {} bytes instead of {size}", stored.len())),
        }
        if raw.len() == size { Ok(()) } else { Err(format!("it holds {} bytes instead of {size}", raw.len())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> [Codec; 6] {
        let gzip = |level| Codec::Gzip { level };
        [Codec::default(), Codec::Zstd { level: 9 }, gzip(1), gzip(6), Codec::Lz4, Codec::None]
    }

    #[test]
    fn what_goes_in_comes_out() {
        let text: Vec<u8> = (0..300_000_u32).flat_map(|i| (i / 7).to_le_bytes()).collect();
        for codec in all() {
            let (mut encoder, mut decoder) = (Encoder::new(codec).expect("new"), Decoder::new(codec).expect("new"));
            let (mut stored, mut raw) = (Vec::new(), Vec::new());
            for body in [&text[..], b"", b"x"] {
                encoder.encode(body, &mut stored).expect("encode");
                decoder.decode(&stored, body.len(), &mut raw).expect("decode");
                assert_eq!(raw, body, "{codec}");
            }
        }
    }

    #[test]
    fn a_frame_makes_no_more_than_it_may() {
        let bomb = vec![0_u8; 1 << 20];
        for codec in all() {
            let mut stored = Vec::new();
            Encoder::new(codec).expect("new").encode(&bomb, &mut stored).expect("encode");
            let mut decoder = Decoder::new(codec).expect("new");
            let mut raw = Vec::new();
            for claimed in [0, 1, 1000, (1 << 20) - 1, (1 << 20) + 1] {
                decoder.decode(&stored, claimed, &mut raw).expect_err("another size");
                assert!(raw.capacity() <= (2 << 20) + 64, "{codec}: {}", raw.capacity());
            }
        }
    }

    #[test]
    fn names() {
        for (text, codec) in [
            ("zstd", Some(Codec::Zstd { level: 1 })),
            ("zstd:3", Some(Codec::Zstd { level: 3 })),
            ("zstd:0", None),
            ("zstd:20", None),
            ("zstd:", None),
            ("gzip", Some(Codec::Gzip { level: 1 })),
            ("gzip:12", Some(Codec::Gzip { level: 12 })),
            ("gzip:0", None),
            ("gzip:13", None),
            ("lz4", Some(Codec::Lz4)),
            ("lz4:1", None),
            ("none", Some(Codec::None)),
            ("bzip2", None),
            ("", None),
        ] {
            assert_eq!(text.parse::<Codec>().ok(), codec, "{text}");
            if let Some(codec) = codec {
                assert_eq!(codec.to_string().parse(), Ok(codec));
            }
        }
    }
}
