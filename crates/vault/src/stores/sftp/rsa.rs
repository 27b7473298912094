//! Signatures by RSA keys, made by ring. The SSH library's own need a crate that isn't finished, and another version of
//! it than the rest of the program.

use num_bigint::BigUint;
use ring::rand::SystemRandom;
use ring::rsa::{KeyPair, KeyPairComponents, PublicKeyComponents};
use ring::signature::{RSA_PKCS1_SHA256, RSA_PKCS1_SHA512};
use russh::keys::agent::AgentIdentity;
use russh::keys::ssh_key::private::KeypairData;
use russh::keys::{HashAlg, PrivateKey};
use russh::{SendError, Signer};

/// Signs with an RSA key.
pub(super) struct RsaSigner {
    key: KeyPair,
    hash: HashAlg,
}

/// Why there is no signature.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotSigned {
    /// The connection ended.
    #[error("the connection ended")]
    Ended,
    /// The key doesn't sign.
    #[error("the key doesn't sign")]
    Refused,
}

impl From<SendError> for NotSigned {
    fn from(_: SendError) -> Self {
        Self::Ended
    }
}

impl RsaSigner {
    /// A signer, if the key is one that ring takes: RSA, of 2048 to 4096 bits.
    pub(super) fn new(key: &PrivateKey, hash: HashAlg) -> Option<Self> {
        let KeypairData::Rsa(pair) = key.key_data() else { return None };
        let (public, private) = (pair.public(), pair.private());
        let (n, e) = (public.n().as_positive_bytes()?, public.e().as_positive_bytes()?);
        let (d, p, q) =
            (private.d().as_positive_bytes()?, private.p().as_positive_bytes()?, private.q().as_positive_bytes()?);
        let exponent = |prime: &[u8]| {
            let below = BigUint::from_bytes_be(prime) - 1_u32;
            (BigUint::from_bytes_be(d) % below).to_bytes_be()
        };
        if BigUint::from_bytes_be(p) <= BigUint::from(1_u32) || BigUint::from_bytes_be(q) <= BigUint::from(1_u32) {
            return None;
        }
        let components = KeyPairComponents {
            public_key: PublicKeyComponents { n, e },
            d,
            p,
            q,
            dP: &exponent(p)[..],
            dQ: &exponent(q)[..],
            qInv: private.iqmp().as_positive_bytes()?,
        };
        Some(Self { key: KeyPair::from_components(&components).ok()?, hash })
    }
}

impl Signer for RsaSigner {
    type Error = NotSigned;

    /// The text and behind it the signature, as an agent's answer is taken.
    async fn auth_sign(
        &mut self,
        _key: &AgentIdentity,
        _hash: Option<HashAlg>,
        mut text: Vec<u8>,
    ) -> Result<Vec<u8>, NotSigned> {
        let (padding, name): (&dyn ring::signature::RsaEncoding, &[u8]) = match self.hash {
            HashAlg::Sha512 => (&RSA_PKCS1_SHA512, b"rsa-sha2-512"),
            _ => (&RSA_PKCS1_SHA256, b"rsa-sha2-256"),
        };
        let mut signature = vec![0; self.key.public().modulus_len()];
        let signed = self.key.sign(padding, &SystemRandom::new(), &text, &mut signature);
        signed.map_err(|_| NotSigned::Refused)?;
        let length = |bytes: usize| u32::try_from(bytes).map(u32::to_be_bytes).map_err(|_| NotSigned::Refused);
        text.extend(length(8 + name.len() + signature.len())?);
        for part in [name, &signature] {
            text.extend(length(part.len())?);
            text.extend_from_slice(part);
        }
        Ok(text)
    }
}
