//! The arithmetic of passwords: what a server gets instead of a password. Pure but for the padding of RSA, which is random.
//!
//! Sources: the pages of the plugins in MySQL's internals manual, and "Authentication Plugin - ed25519" and "- PARSEC" in MariaDB's
//! documentation.

use ed25519_dalek::hazmat::{ExpandedSecretKey, raw_sign};
use ed25519_dalek::{Signer as _, SigningKey, VerifyingKey};
use hmac::{Hmac, KeyInit as _, Mac as _};
use rsa::PublicKey;
use rsa::pkcs8::DecodePublicKey as _;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};

fn hash<D: Digest>(parts: &[&[u8]]) -> Vec<u8> {
    let mut digest = D::new();
    for part in parts {
        digest.update(part);
    }
    digest.finalize().to_vec()
}

fn xor(bytes: &[u8], with: &[u8]) -> Vec<u8> {
    bytes.iter().zip(with.iter().cycle()).map(|(a, b)| a ^ b).collect()
}

/// `mysql_native_password`: SHA1(password) XOR SHA1(scramble, SHA1(SHA1(password))). An empty password is sent as nothing.
pub(super) fn native(password: &str, scramble: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let once = hash::<Sha1>(&[password.as_bytes()]);
    let stored = hash::<Sha1>(&[&once]);
    xor(&once, &hash::<Sha1>(&[scramble, &stored]))
}

/// `caching_sha2_password`: SHA256(password) XOR SHA256(SHA256(SHA256(password)), scramble). An empty password is sent as
/// nothing.
pub(super) fn caching_sha2(password: &str, scramble: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let once = hash::<Sha256>(&[password.as_bytes()]);
    let stored = hash::<Sha256>(&[&once]);
    xor(&once, &hash::<Sha256>(&[&stored, scramble]))
}

/// `client_ed25519`: a signature of the scramble. The key's seed isn't random: it is the hash of the password.
pub(super) fn ed25519(password: &str, scramble: &[u8]) -> Option<Vec<u8>> {
    let secret: [u8; 64] = hash::<Sha512>(&[password.as_bytes()]).try_into().ok()?;
    let secret = ExpandedSecretKey::from_bytes(&secret);
    let public = VerifyingKey::from(&secret);
    Some(raw_sign::<Sha512>(&secret, scramble, &public).to_bytes().to_vec())
}

/// The most iterations that a server may ask of `parsec`, as a power of two above the least.
const MOST_DOUBLED: u8 = 3;

/// The fewest iterations of `parsec`.
const LEAST_ITERATIONS: u32 = 1024;

/// `parsec`: our random bytes, and a signature of the scramble with them. The key's seed is made from the password with the salt that
/// the server sends: `P`, how often 1024 iterations are doubled, and the salt. `None`: the server's bytes make no sense.
pub(super) fn parsec(password: &str, scramble: &[u8], salt: &[u8], ours: [u8; 32]) -> Option<Vec<u8>> {
    let (b'P', [doubled @ 0..=MOST_DOUBLED, salt @ ..]) = salt.split_first()? else { return None };
    if scramble.len() != 32 || salt.is_empty() {
        return None;
    }
    let key = SigningKey::from_bytes(&stretched(password.as_bytes(), salt, LEAST_ITERATIONS << doubled)?);
    let signature = key.sign(&[scramble, &ours].concat());
    Some([&ours[..], &signature.to_bytes()].concat())
}

/// PBKDF2 with HMAC-SHA512 (RFC 8018): the first 32 bytes.
fn stretched(password: &[u8], salt: &[u8], iterations: u32) -> Option<[u8; 32]> {
    let mac = Hmac::<Sha512>::new_from_slice(password).ok()?;
    let mut last = mac.clone().chain_update(salt).chain_update(1_u32.to_be_bytes()).finalize().into_bytes();
    let mut sum = last;
    for _ in 1..iterations {
        last = mac.clone().chain_update(last).finalize().into_bytes();
        sum.iter_mut().zip(&last).for_each(|(sum, last)| *sum ^= last);
    }
    sum.first_chunk().copied()
}

/// A password as it is, with its end.
pub(super) fn clear(password: &str) -> Vec<u8> {
    let mut bytes = password.as_bytes().to_vec();
    bytes.push(0);
    bytes
}

/// Why a server's key can't be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BadKey {
    /// It is no public RSA key in PEM.
    NoKey,
    /// Encryption failed: the password is too long for the key, or the system has no random numbers.
    Unfit,
}

/// A password encrypted with a server's public RSA key: XOR with the scramble, then OAEP with SHA-1.
pub(super) fn encrypted(password: &str, scramble: &[u8], pem: &str) -> Result<Vec<u8>, BadKey> {
    // MySQL's own file ends with a zero byte.
    let pem = pem.trim_matches(|c: char| c == '\0' || c.is_ascii_whitespace());
    let key = PublicKey::from_public_key_pem(pem).map_err(|_| BadKey::NoKey)?;
    // Without a scramble nothing would be encrypted but the first bytes.
    if scramble.is_empty() {
        return Err(BadKey::Unfit);
    }
    key.oaep_encrypt::<Sha1>(&xor(&clear(password), scramble)).map_err(|_| BadKey::Unfit)
}

#[cfg(test)]
mod tests {
    use rsa::PrivateKey;
    use rsa::pkcs8::{EncodePublicKey as _, LineEnding};

    use super::*;

    const SCRAMBLE: [u8; 20] = [10, 47, 74, 111, 75, 73, 34, 48, 88, 76, 114, 74, 37, 13, 3, 80, 82, 2, 23, 21];

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The hash of PASSWORD('mypass') is in MySQL's manual. A server checks by it as this test does.
    #[test]
    fn a_server_finds_the_native_password_right_by_the_hash_that_it_keeps() {
        let stored = "6c8989366eaf75bb670ad8ea7a7fc1176a95cef4";
        let sent = native("mypass", &SCRAMBLE);
        let stored_bytes = hash::<Sha1>(&[&hash::<Sha1>(&[b"mypass"])]);
        assert_eq!(hex(&stored_bytes), stored);
        let once = xor(&sent, &hash::<Sha1>(&[&SCRAMBLE, &stored_bytes]));
        assert_eq!(hex(&hash::<Sha1>(&[&once])), stored);
        assert_eq!(native("", &SCRAMBLE), b"");
    }

    /// The vectors are those of Go's MySQL driver.
    #[test]
    fn caching_sha2_scrambles() {
        for (password, expected) in [
            ("", ""),
            ("secret", "f490e76f66d9d86665ce54d98c78d0acfe2fb0b08b423da807144873d30b312c"),
            ("secret2", "abc3934a012cf342e876071c8ee202de51785b430258a7a0138bc79c4d800bc6"),
        ] {
            assert_eq!(hex(&caching_sha2(password, &SCRAMBLE)), expected, "{password}");
        }
    }

    /// MariaDB's documentation has the public key of the password "secret".
    #[test]
    fn ed25519_signs_with_the_key_whose_public_part_the_server_keeps() {
        let published = "ZIgUREUg5PVgQ6LskhXmO+eZLS0nC8be6HPjYWR4YJY";
        let signature = ed25519("secret", &[7; 32]).expect("signed");
        let secret: [u8; 64] = hash::<Sha512>(&[b"secret"]).try_into().expect("64 bytes");
        let public = VerifyingKey::from(&ExpandedSecretKey::from_bytes(&secret));
        assert_eq!(base64(public.as_bytes()), published);
        let signature = ed25519_dalek::Signature::from_slice(&signature).expect("a signature");
        public.verify_strict(&[7; 32], &signature).expect("the server finds it right");
    }

    /// The seed was made with Python's `hashlib.pbkdf2_hmac`.
    #[test]
    fn parsec_signs_with_the_key_whose_public_part_the_server_keeps() {
        let salt: Vec<u8> = (0..18).collect();
        let seed = stretched(b"s3cret", &salt, 2048).expect("a seed");
        assert_eq!(hex(&seed), "89c54b510c5dafeeafb45f786f066ab2e655b3557e7b842120c1c8ed037fd0c0");
        let asked = [&[b'P', 1], &salt[..]].concat();
        let sent = parsec("s3cret", &[7; 32], &asked, [9; 32]).expect("signed");
        assert_eq!((sent.len(), &sent[..32]), (96, &[9; 32][..]));
        let signature = ed25519_dalek::Signature::from_slice(&sent[32..]).expect("a signature");
        let message = [[7; 32], [9; 32]].concat();
        SigningKey::from_bytes(&seed).verifying_key().verify_strict(&message, &signature).expect("it is right");
        for (scramble, asked) in
            [(32, &b""[..]), (32, b"P"), (32, b"P\x00"), (32, b"P\x04salt"), (32, b"Q\x00salt"), (20, b"P\x00salt")]
        {
            assert_eq!(parsec("s3cret", &vec![7; scramble], asked, [9; 32]), None, "{asked:?}");
        }
    }

    fn base64(bytes: &[u8]) -> String {
        const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let bits: Vec<u8> = bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1)).collect();
        let letter = |six: &[u8]| {
            let number = (0..6).fold(0, |number, bit| number << 1 | six.get(bit).copied().unwrap_or(0));
            char::from(LETTERS[usize::from(number)])
        };
        bits.chunks(6).map(letter).collect()
    }

    #[test]
    fn a_server_decrypts_what_was_encrypted_for_it() {
        let private = PrivateKey::new(&mut getrandom_sys::SysRng, 2048).expect("a key");
        let pem = private.as_public_key().to_public_key_pem(LineEnding::LF).expect("PEM");
        let sent = encrypted("s3cret", &SCRAMBLE, &pem).expect("encrypted");
        let plain = private.oaep_decrypt::<Sha1>(&sent).expect("decrypted");
        assert_eq!(xor(&plain, &SCRAMBLE), b"s3cret\0");
        assert!(encrypted("x", &SCRAMBLE, &format!("{pem}\n\0")).is_ok(), "as MySQL writes the file");
        assert_eq!(encrypted("x", &SCRAMBLE, "no key"), Err(BadKey::NoKey));
        assert_eq!(encrypted("x", b"", &pem), Err(BadKey::Unfit));
        assert_eq!(encrypted(&"x".repeat(400), &SCRAMBLE, &pem), Err(BadKey::Unfit));
    }
}
