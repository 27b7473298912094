//! The payload of a sealed object: age's STREAM of ChaCha20-Poly1305. Each chunk has its number and whether it is the last
//! in its nonce, so chunks can't change places, and an object that was cut behind a chunk shows.
//!
//! Pure: bytes in, bytes out. ring does the arithmetic, at twice the speed of the age crate.

use bytes::{Bytes, BytesMut};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};

use super::lengths::{CHUNK, TAG};

/// The key of one object's payload.
#[derive(Debug)]
pub(crate) struct Payload(LessSafeKey);

/// Why a chunk is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BadChunk {
    /// Its bytes were changed, or it is another object's or stands in another place.
    Changed,
    /// It is sound, and others came after it once.
    NotTheLast,
}

impl Payload {
    /// The payload under a key.
    pub(crate) fn new(key: &[u8; 32]) -> Self {
        let key = UnboundKey::new(&CHACHA20_POLY1305, key).expect("the key has the algorithm's length");
        Self(LessSafeKey::new(key))
    }

    /// Appends a chunk, sealed. At most [`CHUNK`] bytes; fewer only in the last.
    pub(crate) fn seal(&self, index: u64, last: bool, plain: &[&[u8]], out: &mut BytesMut) {
        let begin = out.len();
        plain.iter().for_each(|piece| out.extend_from_slice(piece));
        let chunk = out.get_mut(begin..).unwrap_or_default();
        let tag = self.0.seal_in_place_separate_tag(nonce(index, last), Aad::empty(), chunk);
        out.extend_from_slice(tag.expect("a chunk is far below the algorithm's bound").as_ref());
    }

    /// Opens chunks that follow each other, in place: `bytes` holds them whole, only the last may be short. `last` says
    /// that the object ends with them. The error names the chunk.
    pub(crate) fn open(&self, first: u64, last: bool, mut bytes: BytesMut) -> Result<Vec<Bytes>, (u64, BadChunk)> {
        let mut opened = Vec::with_capacity(bytes.len() / (CHUNK + TAG) + 1);
        let mut index = first;
        loop {
            let mut chunk = bytes.split_to(bytes.len().min(CHUNK + TAG));
            let end = bytes.is_empty();
            // Opening destroys a chunk that it refuses, so the copy comes first where it may be needed.
            let kept = (last && end).then(|| chunk.clone());
            let Ok(plain) = self.0.open_in_place(nonce(index, last && end), Aad::empty(), &mut chunk) else {
                let cut = kept
                    .is_some_and(|mut kept| self.0.open_in_place(nonce(index, false), Aad::empty(), &mut kept).is_ok());
                return Err((index, if cut { BadChunk::NotTheLast } else { BadChunk::Changed }));
            };
            let size = plain.len();
            chunk.truncate(size);
            opened.push(chunk.freeze());
            if end {
                return Ok(opened);
            }
            index += 1;
        }
    }
}

/// The nonce of a chunk: its number in eleven bytes, and whether it is the last.
fn nonce(index: u64, last: bool) -> Nonce {
    let mut nonce = [0; 12];
    nonce[3..11].copy_from_slice(&index.to_be_bytes());
    nonce[11] = u8::from(last);
    Nonce::assume_unique_for_key(nonce)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(payload: &Payload, plain: &[u8]) -> BytesMut {
        let mut out = BytesMut::new();
        let chunks: Vec<&[u8]> = if plain.is_empty() { vec![plain] } else { plain.chunks(CHUNK).collect() };
        for (index, chunk) in chunks.iter().enumerate() {
            let (one, two) = chunk.split_at(chunk.len() / 3);
            payload.seal(index as u64, index + 1 == chunks.len(), &[one, two], &mut out);
        }
        out
    }

    fn pattern(size: usize) -> Vec<u8> {
        (0..size).map(|i| (i % 251) as u8 ^ (i >> 16) as u8).collect()
    }

    #[test]
    fn there_and_back() {
        let payload = Payload::new(&[3; 32]);
        for size in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 3 * CHUNK + 100] {
            let plain = pattern(size);
            let bytes = sealed(&payload, &plain);
            assert_eq!(payload.open(0, true, bytes.clone()).expect("whole").concat(), plain, "{size}");
            if size > 2 * CHUNK {
                let middle = BytesMut::from(&bytes[CHUNK + TAG..2 * (CHUNK + TAG)]);
                assert_eq!(payload.open(1, false, middle).expect("a chunk").concat(), plain[CHUNK..2 * CHUNK]);
            }
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        use BadChunk::{Changed, NotTheLast};
        let payload = Payload::new(&[3; 32]);
        let good = sealed(&payload, &pattern(2 * CHUNK + 9));
        let whole = CHUNK + TAG;
        let flipped = |at: usize| {
            let mut bytes = good.clone();
            bytes[at] ^= 1;
            bytes
        };
        let swapped = BytesMut::from(&[&good[whole..2 * whole], &good[..whole], &good[2 * whole..]].concat()[..]);
        for (bytes, first, last, expected) in [
            (flipped(0), 0, true, (0, Changed)),
            (flipped(whole + 5), 0, true, (1, Changed)),
            (flipped(good.len() - 1), 0, true, (2, Changed)),
            (BytesMut::from(&good[..2 * whole]), 0, true, (1, NotTheLast)),
            (BytesMut::from(&good[..whole]), 0, true, (0, NotTheLast)),
            (BytesMut::from(&good[..whole + 3]), 0, true, (1, Changed)),
            (BytesMut::from(&good[..good.len() - 1]), 0, true, (2, Changed)),
            (good.clone(), 0, false, (2, Changed)),
            (good.clone(), 1, true, (1, Changed)),
            (swapped, 0, true, (0, Changed)),
            (BytesMut::new(), 0, true, (0, Changed)),
        ] {
            assert_eq!(payload.open(first, last, bytes).expect_err("refused"), expected);
        }
        assert!(Payload::new(&[4; 32]).open(0, true, good).is_err(), "another object's key");
    }
}
