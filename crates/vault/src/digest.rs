//! What an object's bytes were when it was written: a BLAKE3 that is kept beside the object, not in it.
//!
//! Formats have checksums of their own, which find accidents. A digest is of the bytes as a whole, whatever they are, and
//! nobody makes other bytes that fit it. It is kept where a store has room for it: in a folder as an extended attribute
//! of the file, in a bucket as user metadata, which an object that is written in parts can't have: whoever writes one is
//! told its digest ([`crate::Upload::finish_digested`]). Whoever may write to the store may change both; against that only
//! the store's own means help (versions, locks).

use std::fmt;
use std::str::FromStr;

/// The BLAKE3 of an object's bytes. Its text form is 64 lowercase hexadecimal digits, as `b3sum` prints it.
///
/// ```
/// use seawall_vault::Digest;
///
/// let digest = Digest::of(b"an object");
/// assert_eq!(digest.to_string().parse(), Ok(digest));
/// assert_ne!(digest, Digest::of(b"another"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

/// A text that is no digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a digest is 64 hexadecimal digits")]
pub struct NoDigest;

impl Digest {
    /// A digest that was computed elsewhere.
    pub fn from_bytes(bytes: [u8; 32]) -> Digest {
        Digest(bytes)
    }

    /// The digest of bytes that are all there.
    pub fn of(bytes: &[u8]) -> Digest {
        Digest(blake3::hash(bytes).into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Digest {
    type Err = NoDigest;

    fn from_str(text: &str) -> Result<Self, NoDigest> {
        blake3::Hash::from_hex(text).map(|hash| Digest(hash.into())).map_err(|_| NoDigest)
    }
}

/// A digest of bytes that come in pieces.
///
/// ```
/// use seawall_vault::{Digest, Digester};
///
/// let mut digester = Digester::default();
/// digester.update(b"an ");
/// digester.update(b"object");
/// assert_eq!(digester.digest(), Digest::of(b"an object"));
/// ```
///
/// 2 KB on the heap.
#[derive(Clone, Debug, Default)]
pub struct Digester(Box<blake3::Hasher>);

impl Digester {
    /// Adds bytes at the end.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of the bytes so far.
    pub fn digest(&self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_b3sum_prints() {
        let empty = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
        assert_eq!(Digest::of(b"").to_string(), empty);
        assert_eq!(empty.parse(), Ok(Digest::of(b"")));
        for bad in ["", "af13", &empty[1..], &format!("{empty}0"), &empty.replace('a', "g"), &"é".repeat(32)] {
            assert_eq!(bad.parse::<Digest>(), Err(NoDigest), "{bad}");
        }
    }
}
