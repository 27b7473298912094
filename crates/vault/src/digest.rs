//! The digest of an object: a BLAKE3 of its bytes as they were written, kept beside the object and not in it.
//!
//! The formats have checksums of their own, which detect accidents. A digest covers all bytes of an object, and no
//! other bytes with the same digest can be made.
//!
//! A store keeps a digest where it has room: a folder in an extended attribute of the file, a bucket in the object's
//! user metadata. An object that is written in parts can't have such metadata, so its writer gets the digest from
//! [`crate::Upload::finish_digested`]. A digest doesn't protect against an attacker who can write to the store, because
//! they can change both. Only the store's own means help there (versions, locks).

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
