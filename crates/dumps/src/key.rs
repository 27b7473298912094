//! The key of an encrypted file: 32 bytes, or their base64.

use std::fmt;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use seawall_core::{Failure, Kind};

/// The bytes of a key.
const SIZE: usize = 32;

/// The largest file that may hold a key.
pub(crate) const LARGEST: u64 = 4096;

/// A key of dbbackup. Nothing shows it (I13).
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; SIZE]);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    /// Reads the content of a key file or of a variable. `object` is its name, for messages.
    ///
    /// # Errors
    /// `dump.passphrase` for anything that is no key: dbbackup takes that for a passphrase, and keeps the salt nowhere.
    pub fn parse(content: &[u8], object: &str) -> Result<Self, Failure> {
        if let Ok(key) = content.try_into() {
            return Ok(Self(key));
        }
        if let Ok(decoded) = STANDARD.decode(content.trim_ascii())
            && let Ok(key) = decoded.as_slice().try_into()
        {
            return Ok(Self(key));
        }
        let cause = "it holds neither 32 bytes nor their base64, so dbbackup took it for a passphrase; it keeps the salt of \
                     a passphrase nowhere, and nothing can decrypt such a file";
        let next = "give the key file with which the backup was made; if that was a passphrase, restore another backup";
        Err(Failure::new(Kind::Refused, "dump.passphrase", object, cause, next))
    }

    /// Reads a key file.
    ///
    /// # Errors
    /// The file can't be read, or holds no key.
    #[expect(clippy::disallowed_methods, reason = "this function meets the file system")]
    pub fn read(path: &Path) -> Result<Self, Failure> {
        use std::io::Read as _;
        let object = path.display().to_string();
        let mut content = Vec::new();
        let read = std::fs::File::open(path).and_then(|file| file.take(LARGEST).read_to_end(&mut content));
        read.map_err(|error| {
            let next = "name the key file with which the backup was made";
            Failure::new(Kind::Unavailable, "dump.io", &object, error.to_string(), next)
        })?;
        Self::parse(&content, &object)
    }

    pub(crate) fn bytes(&self) -> &[u8; SIZE] {
        &self.0
    }

    #[cfg(test)]
    pub(crate) fn of(bytes: [u8; SIZE]) -> Self {
        Self(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_bytes_or_base64_and_nothing_shows_them() {
        let bytes = [7; 32];
        let text = STANDARD.encode(bytes);
        for (content, is_key) in [
            (&bytes[..], true),
            (text.as_bytes(), true),
            (format!(" {text}\n").as_bytes(), true),
            (b"correct horse battery staple", false),
            (b"", false),
            (&[7; 33], false),
            (STANDARD.encode([7; 16]).as_bytes(), false),
        ] {
            let key = Key::parse(content, "k").map_err(|failure| failure.code);
            assert_eq!(key, if is_key { Ok(Key(bytes)) } else { Err("dump.passphrase") });
        }
        assert_eq!(format!("{:?}", Key(bytes)), "Key");
    }
}
