//! dbbackup's encryption: a nonce of 12 bytes, then chunks of 64 KiB, each as its length (32 bits, the highest byte first) and its
//! bytes under AES-256-GCM. The nonce is one higher for each chunk.
//!
//! The form has no magic, no version and no mark of the last chunk. So the end of a file says nothing: whether the content is
//! whole is known from the content, which the layers above check.

use std::io::{self, Read};

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use seawall_core::{Failure, Kind};

use crate::key::Key;
use crate::layers::{cut_off, damaged, failed};

/// The bytes of a nonce.
const NONCE: usize = 12;

/// The bytes of a chunk's proof.
const PROOF: usize = 16;

/// The most bytes of a chunk. A length is checked before anything is allocated for it.
const CHUNK: usize = 64 << 10;

/// A file that is decrypted as it is read.
pub(crate) struct Unsealed<R> {
    inner: R,
    key: LessSafeKey,
    nonce: Option<[u8; NONCE]>,
    /// The chunk at hand, and how much of it is used.
    chunk: Vec<u8>,
    at: usize,
    /// Chunks that were read.
    number: u64,
    object: String,
}

impl<R: Read> Unsealed<R> {
    pub(crate) fn new(inner: R, key: &Key, object: &str) -> Result<Self, Failure> {
        let key = UnboundKey::new(&AES_256_GCM, key.bytes());
        let key =
            key.map_err(|_| Failure::new(Kind::Internal, "dump.internal", object, "a key was refused", "report this"))?;
        let (chunk, object) = (Vec::new(), object.to_owned());
        Ok(Self { inner, key: LessSafeKey::new(key), nonce: None, chunk, at: 0, number: 0, object })
    }

    /// Fills a buffer; fewer bytes at the end of the file.
    fn take(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.inner.read(rest) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn cut(&self) -> io::Error {
        failed(cut_off(&self.object, "its encryption ends within a chunk"))
    }

    /// Reads the next chunk; false at the end.
    fn next(&mut self) -> io::Result<bool> {
        let mut nonce = match self.nonce {
            Some(nonce) => nonce,
            None => {
                let mut nonce = [0; NONCE];
                if self.take(&mut nonce)? < NONCE {
                    return Err(self.cut());
                }
                nonce
            }
        };
        let mut length = [0; 4];
        match self.take(&mut length)? {
            0 if self.number > 0 => return Ok(false),
            4 => {}
            _ => return Err(self.cut()),
        }
        let length = u32::from_be_bytes(length) as usize;
        if !(PROOF..=CHUNK + PROOF).contains(&length) {
            let cause = format!("chunk {} of its encryption has an impossible length", self.number + 1);
            return Err(failed(match self.number {
                0 => wrong_key(&self.object),
                _ => damaged(&self.object, cause),
            }));
        }
        let mut chunk = std::mem::take(&mut self.chunk);
        chunk.resize(length, 0);
        if self.take(&mut chunk)? < length {
            return Err(self.cut());
        }
        let opened = self.key.open_in_place(Nonce::assume_unique_for_key(nonce), Aad::empty(), &mut chunk);
        let size = opened.map(|plain| plain.len());
        let size = size.map_err(|_| {
            failed(match self.number {
                0 => wrong_key(&self.object),
                number => damaged(&self.object, format!("chunk {} of its encryption was changed", number + 1)),
            })
        })?;
        chunk.truncate(size);
        (self.chunk, self.at) = (chunk, 0);
        self.number += 1;
        next_nonce(&mut nonce);
        self.nonce = Some(nonce);
        Ok(true)
    }
}

/// The nonce of the next chunk: one more, the last byte first.
fn next_nonce(nonce: &mut [u8; NONCE]) {
    for byte in nonce.iter_mut().rev() {
        *byte = byte.wrapping_add(1);
        if *byte != 0 {
            return;
        }
    }
}

fn wrong_key(object: &str) -> Failure {
    let cause = "the key doesn't fit: the file was encrypted with another one, or isn't encrypted by dbbackup";
    let next = "give the key file with which this backup was made";
    Failure::new(Kind::Denied, "dump.key", object, cause, next)
}

impl<R: Read> Read for Unsealed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.chunk.len() {
            if !self.next()? {
                return Ok(0);
            }
        }
        let rest = self.chunk.get(self.at..).unwrap_or_default();
        let size = rest.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..size), rest.get(..size)) {
            to.copy_from_slice(from);
        }
        self.at += size;
        Ok(size)
    }
}

/// Encrypts as dbbackup is described to do, in chunks of `chunk` bytes.
#[cfg(test)]
pub(crate) fn seal(plain: &[u8], key: &Key, mut nonce: [u8; NONCE], chunk: usize) -> Vec<u8> {
    let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key.bytes()).expect("a key"));
    let mut sealed = nonce.to_vec();
    for part in plain.chunks(chunk) {
        let mut part = part.to_vec();
        key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::empty(), &mut part).expect("sealed");
        sealed.extend_from_slice(&u32::try_from(part.len()).expect("small").to_be_bytes());
        sealed.extend_from_slice(&part);
        next_nonce(&mut nonce);
    }
    sealed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layers::failure;

    fn open(sealed: &[u8], key: &Key) -> Result<Vec<u8>, &'static str> {
        let mut out = Vec::new();
        let mut reader = Unsealed::new(sealed, key, "f").map_err(|failure| failure.code)?;
        reader.read_to_end(&mut out).map(|_| out).map_err(|error| failure(error, "f").code)
    }

    #[test]
    fn chunks_come_back_and_no_other_key_opens_them() {
        let (key, other) = (Key::of([1; 32]), Key::of([2; 32]));
        let plain: Vec<u8> = (0..200_000_u32).map(|number| (number % 251) as u8).collect();
        // A nonce that overflows into its next byte.
        let sealed = seal(&plain, &key, [0xff; 12], CHUNK);
        assert_eq!(open(&sealed, &key).as_deref(), Ok(&plain[..]));
        assert_eq!(open(&sealed, &other), Err("dump.key"));
        assert_eq!(open(b"", &key), Err("dump.cut-off"));
        assert_eq!(open(&[0; 12], &key), Err("dump.cut-off"));
        // Exactly behind a chunk nothing tells: the content must.
        let behind = 12 + 4 + CHUNK + PROOF;
        assert_eq!(open(&sealed[..behind], &key).map(|plain| plain.len()), Ok(CHUNK));
        for cut in [behind - 1, behind + 1, behind + 3, behind + 4, behind + 100] {
            assert_eq!(open(&sealed[..cut], &key), Err("dump.cut-off"), "{cut}");
        }
        let mut changed = sealed.clone();
        changed[behind + 100] ^= 1;
        assert_eq!(open(&changed, &key), Err("dump.damaged"));
        // A length of 4 GiB is refused before anything is allocated.
        let mut long = sealed.clone();
        long[behind..behind + 4].copy_from_slice(&u32::MAX.to_be_bytes());
        assert_eq!(open(&long, &key), Err("dump.damaged"));
        let mut swapped = sealed[..12].to_vec();
        swapped.extend_from_slice(&sealed[behind..2 * behind - 12]);
        assert_eq!(open(&swapped, &key), Err("dump.key"), "chunks in another order");
    }
}
