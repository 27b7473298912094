//! Keys of the kind `ecdsa-sha2-nistp256` whose private number is short.
//!
//! OpenSSH writes the number without the zero bytes in front of it, so one key in 512 has fewer than 32 bytes there. The library
//! reads such a number for larger curves only. Everything else about the file (PEM, key derivation, cipher) stays the
//! library's work. Source: OpenSSH's PROTOCOL.key, and RFC 4251 section 5 (`mpint`).

use base64::Engine as _;
use russh::keys::PrivateKey;
use russh::keys::ssh_key::private::{EcdsaKeypair, KeypairData};
use russh::keys::ssh_key::public::EcdsaPublicKey;

use crate::Secret;

/// How the content of a file with a private key begins.
const MAGIC: &[u8] = b"openssh-key-v1\0";

/// The kind of key, and its curve.
const KIND: [&[u8]; 2] = [b"ecdsa-sha2-nistp256", b"nistp256"];

/// Bytes of a private number on that curve.
const NUMBER: usize = 32;

/// The key in a file's text, if the file holds a key with a short number; `None` for any other text, and for a wrong passphrase.
pub(super) fn short_key(text: &str, passphrase: Option<&Secret>) -> Option<PrivateKey> {
    let plain = match passphrase {
        None => plain(text)?,
        Some(passphrase) => decrypted(text, passphrase)?,
    };
    parse(&plain)
}

/// The private section of a file without a passphrase.
fn plain(text: &str) -> Option<Vec<u8>> {
    let body: String = text.lines().map(str::trim).filter(|line| !line.starts_with('-')).collect();
    let bytes = base64::engine::general_purpose::STANDARD.decode(body).ok()?;
    let mut rest = bytes.strip_prefix(MAGIC)?;
    let [cipher, _, _] = [string(&mut rest)?, string(&mut rest)?, string(&mut rest)?];
    let keys = rest.split_off(..4)?;
    let _public = string(&mut rest)?;
    (cipher == b"none" && keys == [0, 0, 0, 1]).then(|| string(&mut rest).map(<[u8]>::to_vec))?
}

/// The private section of a file with a passphrase.
fn decrypted(text: &str, passphrase: &Secret) -> Option<Vec<u8>> {
    let key = PrivateKey::from_openssh(text).ok()?;
    let mut bytes = key.key_data().encrypted()?.to_vec();
    let (secret, start) = key.kdf().derive_key_and_iv(key.cipher(), passphrase.reveal()).ok()?;
    key.cipher().decrypt(&secret, &start, &mut bytes, None).ok()?;
    Some(bytes)
}

/// The key of a private section. Pure.
fn parse(mut rest: &[u8]) -> Option<PrivateKey> {
    // Two equal numbers tell that the passphrase was right.
    let check = rest.split_off(..8)?;
    let is_kind = string(&mut rest)? == KIND[0] && string(&mut rest)? == KIND[1];
    let (point, number) = (string(&mut rest)?, string(&mut rest)?);
    if check[..4] != check[4..] || !is_kind || number.len() >= NUMBER {
        return None;
    }
    let Ok(EcdsaPublicKey::NistP256(public)) = EcdsaPublicKey::from_sec1_bytes(point) else { return None };
    let mut padded = [0; NUMBER];
    padded[NUMBER - number.len()..].copy_from_slice(number);
    PrivateKey::try_from(KeypairData::Ecdsa(EcdsaKeypair::NistP256 { public, private: padded.into() })).ok()
}

/// The next string: its length in four bytes, and its bytes.
fn string<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = u32::from_be_bytes(rest.split_off(..4)?.try_into().ok()?);
    rest.split_off(..usize::try_from(length).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by `ssh-keygen -t ecdsa` for this test: the first of many whose number has 31 bytes.
    const OPEN: &str = include_str!("../../../tests/keys/short_ecdsa");

    /// The same key with a passphrase.
    const LOCKED: &str = include_str!("../../../tests/keys/short_ecdsa_locked");

    const PUBLIC: &str = include_str!("../../../tests/keys/short_ecdsa.pub");

    #[test]
    fn a_short_number_is_read() {
        let word = |word: &str| Some(Secret::new(word));
        let public = |text: &str, passphrase: Option<Secret>| {
            short_key(text, passphrase.as_ref()).map(|key| key.public_key().to_openssh().expect("written"))
        };
        assert_eq!(public(OPEN, None).as_deref(), Some(PUBLIC.trim()));
        assert_eq!(public(LOCKED, word("open sesame")).as_deref(), Some(PUBLIC.trim()));
        assert_eq!(public(LOCKED, word("hunter2")), None);
        assert_eq!(public(LOCKED, None), None);
        assert_eq!(public(OPEN, word("open sesame")), None);
        for end in 0..OPEN.len() - 80 {
            assert_eq!(public(&OPEN[..end], None), None, "cut off at {end}");
        }
    }
}
