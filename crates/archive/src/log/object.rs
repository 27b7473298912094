//! One object of the log: a head that says what it is, and the content in compressed frames.
//!
//! The head is in a frame that zstd skips, so `zstd -d` gives the content. A reader checks the head's own digest first, and
//! then the content's length and digest (I11).

use std::io::{self, Read, Write};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{Lsn, SegmentSize, SystemId, TimelineId};
use crate::codec::{Codec, Encoder};
use crate::manifest::{read_document, write_document};
use crate::{Digest, Error};

/// The number that begins a frame which zstd skips.
const SKIPPED: u32 = 0x184D_2A50;

/// The bytes before the head: that number, and the head's size.
const BEFORE: usize = 8;

/// The most bytes of a head.
const LARGEST_HEAD: usize = 4096;

/// The content of one frame, in bytes.
const FRAME: usize = 4 << 20;

/// The largest window that a decoder keeps, as a power of two: that of a frame, and a reserve.
const WINDOW: u32 = 23;

/// The most bytes of an object: a segment of 1 GiB that doesn't compress, its frames and its head.
pub(super) const LARGEST: u64 = (1 << 30) + (16 << 20);

/// What an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PieceKind {
    /// A complete segment.
    Segment,
    /// The last segment of a timeline that ended in the middle of it.
    Partial,
    /// A range that was shipped before its segment was complete.
    Range,
}

/// What an object says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// What it is.
    pub kind: PieceKind,
    /// The cluster.
    pub system: SystemId,
    /// The timeline.
    pub timeline: TimelineId,
    /// The position of its first byte.
    pub start: Lsn,
    /// The bytes of its content.
    pub length: u64,
    /// The size of the cluster's segments.
    pub segment_size: SegmentSize,
    /// The digest of its content.
    pub blake3: Digest,
}

/// An object to write.
#[derive(Debug, Clone)]
pub(super) struct Packed {
    pub(super) head: Head,
    pub(super) bytes: Bytes,
}

/// Where a piece of the log is.
#[derive(Debug, Clone, Copy)]
pub(super) struct At {
    pub(super) kind: PieceKind,
    pub(super) system: SystemId,
    pub(super) timeline: TimelineId,
    pub(super) start: Lsn,
    pub(super) segment_size: SegmentSize,
}

/// Makes an object of all that `content` gives. Takes the processor for as long as that is compressed.
pub(super) fn pack(at: At, content: &mut dyn Read) -> io::Result<Packed> {
    let mut encoder = Encoder::new(Codec::default())?;
    let (mut hasher, mut length) = (blake3::Hasher::new(), 0_u64);
    let (mut raw, mut stored, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        raw.clear();
        let read = content.take(FRAME as u64).read_to_end(&mut raw)?;
        // No content is one empty frame.
        if read == 0 && !bytes.is_empty() {
            break;
        }
        hasher.update(&raw);
        length += read as u64;
        encoder.encode(&raw, &mut stored)?;
        bytes.extend_from_slice(&stored);
    }
    let At { kind, system, timeline, start, segment_size } = at;
    let head = Head { kind, system, timeline, start, length, segment_size, blake3: Digest::from_hasher(&hasher) };
    let document = write_document(&head).map_err(io::Error::other)?;
    let size = u32::try_from(document.len()).map_err(io::Error::other)?;
    // In place: a second copy of a segment would count against the memory of the receiver.
    bytes.splice(0..0, SKIPPED.to_le_bytes().into_iter().chain(size.to_le_bytes()).chain(document));
    Ok(Packed { head, bytes: bytes.into() })
}

/// An object that was read: its head is proved, its content not yet.
#[derive(Debug, Clone)]
pub(super) struct Piece {
    pub(super) head: Head,
    object: String,
    frames: Bytes,
}

impl Piece {
    /// Reads the head of the object that `object` names.
    pub(super) fn parse(object: &str, mut bytes: Bytes) -> Result<Self, Error> {
        let wrong = |cause: &str| Error::corrupt(object, cause);
        let (number, size) = match bytes.first_chunk::<BEFORE>() {
            Some([a, b, c, d, e, f, g, h]) => {
                (u32::from_le_bytes([*a, *b, *c, *d]), u32::from_le_bytes([*e, *f, *g, *h]))
            }
            None => return Err(wrong("it is cut off")),
        };
        let size = size as usize;
        if number != SKIPPED || size > LARGEST_HEAD {
            return Err(wrong("it doesn't begin as an object of a log does"));
        }
        let body = bytes.split_off(BEFORE.saturating_add(size).min(bytes.len()));
        let head: Head = read_document(bytes.get(BEFORE..).unwrap_or_default(), object)?;
        if head.length > u64::from(head.segment_size.bytes()) {
            return Err(wrong("its head says more bytes than a segment has"));
        }
        Ok(Self { head, object: object.to_owned(), frames: body })
    }

    /// Writes the content. What was written counts only if this succeeds.
    pub(super) fn copy_to(&self, to: &mut dyn Write) -> Result<(), CopyError> {
        let corrupt = |cause: String| CopyError::Content(Error::corrupt(self.object.clone(), cause));
        let unreadable = |error: io::Error| corrupt(format!("its content can't be read: {error}"));
        let mut decoder = zstd::stream::read::Decoder::with_buffer(&self.frames[..]).map_err(unreadable)?;
        decoder.window_log_max(WINDOW).map_err(unreadable)?;
        let (mut hasher, mut left) = (blake3::Hasher::new(), self.head.length);
        let mut buffer = vec![0; 256 << 10];
        loop {
            let read = decoder.read(&mut buffer).map_err(unreadable)?;
            let bytes = buffer.get(..read).unwrap_or_default();
            if bytes.is_empty() {
                break;
            }
            left = left
                .checked_sub(read as u64)
                .ok_or_else(|| corrupt("it has more content than its head says".into()))?;
            hasher.update(bytes);
            to.write_all(bytes).map_err(CopyError::Target)?;
        }
        if left > 0 {
            return Err(corrupt("it has less content than its head says".into()));
        }
        if Digest::from_hasher(&hasher) != self.head.blake3 {
            return Err(corrupt("the digest of its content is wrong".into()));
        }
        Ok(())
    }

    /// The content in memory.
    pub(super) fn content(&self) -> Result<Vec<u8>, Error> {
        let mut content = Vec::with_capacity(usize::try_from(self.head.length).unwrap_or_default());
        match self.copy_to(&mut content) {
            Ok(()) => Ok(content),
            Err(CopyError::Content(error)) => Err(error),
            Err(CopyError::Target(error)) => Err(Error::Internal(error.to_string())),
        }
    }
}

/// Why content wasn't copied.
#[derive(Debug)]
pub(super) enum CopyError {
    /// The object isn't what its head says.
    Content(Error),
    /// The bytes couldn't be written.
    Target(io::Error),
}

/// Reads `bytes` as an object and its content: for fuzzing.
pub(crate) fn parse_object(bytes: &[u8]) {
    if let Ok(piece) = Piece::parse("object", Bytes::copy_from_slice(bytes)) {
        let _ = piece.copy_to(&mut io::sink());
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn at(kind: PieceKind, start: u64) -> At {
        At {
            kind,
            system: SystemId::new(7),
            timeline: TimelineId::new(1).expect("a timeline"),
            start: Lsn::new(start),
            segment_size: SegmentSize::new(16 << 20).expect("a size"),
        }
    }

    fn segment() -> Vec<u8> {
        (0..4_u32 << 20).flat_map(|i| (i / 5).to_le_bytes()).collect()
    }

    #[test]
    fn what_goes_in_comes_out() {
        for content in [segment(), b"x".to_vec(), Vec::new()] {
            let packed = pack(at(PieceKind::Segment, 16 << 20), &mut &content[..]).expect("packed");
            assert_eq!(packed.head.length, content.len() as u64);
            let piece = Piece::parse("o", packed.bytes.clone()).expect("an object");
            assert_eq!(piece.head, packed.head);
            assert!(piece.content().expect("its content") == content);
        }
    }

    #[test]
    fn tools_of_others_read_the_content() {
        let content = segment();
        let packed = pack(at(PieceKind::Segment, 16 << 20), &mut &content[..]).expect("packed");
        let mut zstd = std::process::Command::new("zstd");
        let run =
            zstd.args(["-q", "-d", "-c"]).stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut run = run.spawn().expect("zstd runs");
        let mut input = run.stdin.take().expect("piped");
        let writing = std::thread::scope(|scope| {
            scope.spawn(|| {
                input.write_all(&packed.bytes).expect("written");
                drop(input);
            });
            let mut read = Vec::new();
            run.stdout.take().expect("piped").read_to_end(&mut read).expect("read");
            read
        });
        assert!(writing == content);
        assert!(run.wait().expect("ended").success());
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let packed = pack(at(PieceKind::Range, 16 << 20), &mut &b"some bytes of a log, some bytes of a log"[..]);
        let bytes = packed.expect("packed").bytes;
        for place in 0..bytes.len() {
            let mut wrong = bytes.to_vec();
            wrong[place] ^= 1;
            let read = Piece::parse("o", wrong.into()).and_then(|piece| piece.content());
            assert!(read.is_err(), "byte {place}");
            let cut = Piece::parse("o", bytes.slice(..place)).and_then(|piece| piece.content());
            assert!(cut.is_err(), "cut at {place}");
        }
        let mut longer = bytes.to_vec();
        longer.extend_from_slice(&pack(at(PieceKind::Range, 1 << 24), &mut &b"more"[..]).expect("packed").bytes);
        assert!(Piece::parse("o", longer.into()).and_then(|piece| piece.content()).is_err(), "a second one behind it");
    }
}
