//! Entry points of the fuzz targets: every parser here reads bytes from a vault.

use seawall_vault::ObjectKey;

use crate::chain::Link;
use crate::codec::{Decoder, Encoder};
use crate::layout::Name;
use crate::manifest::read_document;
use crate::{Codec, Digest, Index, Tuples};

/// Parses `bytes` as a link, an index, an object name, an object and a history of a log, binary rows and frames. No parser may panic or allocate more
/// memory than its limit.
pub fn parse(bytes: &[u8]) {
    let _ = read_document::<Link>(bytes, "link");
    // With a proof of its own, so that what stands behind it is reached too.
    let mut proved = bytes.to_vec();
    proved.retain(|byte| *byte != b'\n');
    proved.push(b'\n');
    let digest = Digest::of(&proved);
    proved.extend_from_slice(format!("{{\"format\":1,\"blake3\":\"{digest}\"}}\n").as_bytes());
    if let Ok(Link { record: crate::Record::Set(manifest), .. }) = read_document::<Link>(&proved, "link") {
        let _ = (manifest.codec.is_sound(), manifest.id.to_string());
    }
    if let Ok(index) = read_document::<Index>(&proved, "index") {
        let sums = index.chunks.iter().flat_map(|chunk| &chunk.frames).all(|frame| frame.stored < 1 << 40);
        assert!(!sums || index.chunks.len() <= bytes.len());
    }
    if let Some(key) = std::str::from_utf8(bytes).ok().and_then(|text| ObjectKey::new(text).ok()) {
        let _ = (Name::parse(&key), crate::log::LogObject::parse(&key));
    }
    crate::log::parse_object(bytes);
    if let Some(second) = crate::log::TimelineId::new(2) {
        let _ = crate::log::History::parse(second, bytes);
    }
    cut(bytes);
    for codec in [Codec::default(), Codec::Gzip { level: 1 }, Codec::Lz4, Codec::None] {
        let Ok(mut decoder) = Decoder::new(codec) else { continue };
        let mut raw = Vec::new();
        let _ = decoder.decode(bytes, 4096, &mut raw);
        assert!(raw.len() <= 4097, "{codec}: {}", raw.len());
    }
}

/// Compresses `bytes` with each codec that is ours, and reads them back.
pub fn round_trip(bytes: &[u8]) {
    for codec in [Codec::Gzip { level: 1 }, Codec::Lz4] {
        let (Ok(mut encoder), Ok(mut decoder)) = (Encoder::new(codec), Decoder::new(codec)) else { continue };
        let (mut stored, mut raw) = (Vec::new(), Vec::new());
        let compressed = encoder.encode(bytes, &mut stored).map_err(|error| error.to_string());
        let read = compressed.and_then(|()| decoder.decode(&stored, bytes.len(), &mut raw));
        assert!(read.is_ok() && raw == bytes, "{codec}: {read:?}");
        assert!(stored.len() <= bytes.len() + bytes.len() / 1000 + 64, "{codec}: {}", stored.len());
    }
}

/// Takes `bytes` as rows in binary, whole and in two pieces: the same rows end in them, or neither can be read.
fn cut(bytes: &[u8]) {
    let (mut whole, mut parts) = (Tuples::default(), Tuples::default());
    let (first, second) = bytes.split_at(bytes.first().map_or(0, |byte| usize::from(*byte) % (bytes.len() + 1)));
    let rows = parts.count(first).and_then(|rows| Ok(rows + parts.count(second)?));
    assert_eq!(whole.count(bytes), rows);
    assert!(rows.is_err() || whole == parts);
}
