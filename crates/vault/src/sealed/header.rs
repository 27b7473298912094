//! The header of a sealed object: an age v1 header that any age reader reads, of one length in the whole vault.
//!
//! ```text
//! age-encryption.org/v1
//! -> X25519 <share>                     one stanza for each recipient, as age writes them
//! <wrapped file key>
//! -> seawall/for <digest>               of the list of recipients
//!
//! -> seawall/v1 <vault> <writer> ....   the last argument fills the header up to its length
//! <seal: 32 bytes>
//! --- <MAC over everything before>
//! ```
//!
//! The first stanza is always the host's. Readers that don't know our two ignore them, as the format asks them to. What is here is pure: bytes in, a checked
//! value out. Everything in a header is hostile until [`Header::authentic`] and [`Seal::check`] said otherwise (I11).

use age_core::format::{FileKey, Stanza};
use age_core::secrecy::ExposeSecret as _;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD_NO_PAD;
use ring::{digest, hkdf, hmac};

use super::lengths::NONCE;
use crate::ObjectKey;

/// The first line.
pub(crate) const INTRO: &[u8] = b"age-encryption.org/v1\n";

/// The type of the stanza with the seal.
const OURS: &str = "seawall/v1";

/// The type of the stanza that says for which list of recipients a header is.
const FOR: &str = "seawall/for";

/// The characters in a line of a stanza's body.
const COLUMNS: usize = 64;

/// The shortest and longest header that a vault may have.
pub(crate) const SIZES: std::ops::RangeInclusive<usize> = 512..=64 << 10;

/// Bytes of each half of a seal.
const HALF: usize = 16;

/// An identifier of 16 lowercase hexadecimal digits: of a vault, or of a writer in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Id(pub(crate) u64);

impl Id {
    /// Reads one.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let sound = text.len() == 16 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        sound.then(|| u64::from_str_radix(text, 16).ok()).flatten().map(Self)
    }
}

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A list of recipients, by its digest. So a header tells for which list it is, although stanzas of age don't.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Audience(String);

impl Audience {
    /// Characters of a digest.
    const DIGITS: usize = 32;

    /// The digest of a list, whose order doesn't matter.
    pub(crate) fn of(names: &[String]) -> Self {
        let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
        names.sort_unstable();
        let found = digest::digest(&digest::SHA256, names.join("\n").as_bytes());
        Self(found.as_ref().iter().take(Self::DIGITS / 2).map(|byte| format!("{byte:02x}")).collect())
    }

    fn read(stanza: &Stanza) -> Option<Self> {
        let [digest] = &stanza.args[..] else { return None };
        let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let sound = digest.len() == Self::DIGITS && digest.bytes().all(digit) && stanza.body.is_empty();
        sound.then(|| Self(digest.clone()))
    }
}

/// The secret with which a writer seals. Not shown.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SealKey(pub(crate) [u8; 32]);

impl std::fmt::Debug for SealKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[hidden]")
    }
}

/// Says whose object it is and what its name was: two codes under the writer's secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seal {
    /// The vault.
    pub(crate) vault: Id,
    /// The writer in it.
    pub(crate) writer: Id,
    body: Vec<u8>,
}

/// What a seal says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sealed {
    /// The writer sealed this object under this name.
    Here,
    /// The writer sealed it under another name.
    Elsewhere,
    /// The writer didn't seal it.
    Not,
}

impl Seal {
    /// Seals an object.
    pub(crate) fn new(vault: Id, writer: Id, secret: &SealKey, key: &ObjectKey, file: &FileKey) -> Self {
        let body = [code(secret, vault, None, file), code(secret, vault, Some(key), file)].concat();
        Self { vault, writer, body }
    }

    /// Checks the codes.
    pub(crate) fn check(&self, secret: &SealKey, key: &ObjectKey, file: &FileKey) -> Sealed {
        let (whose, name) = self.body.split_at(HALF.min(self.body.len()));
        if !equal(whose, &code(secret, self.vault, None, file)) {
            return Sealed::Not;
        }
        if equal(name, &code(secret, self.vault, Some(key), file)) { Sealed::Here } else { Sealed::Elsewhere }
    }
}

/// Half a seal: over the vault and the file key, and for the second half over the name.
fn code(secret: &SealKey, vault: Id, name: Option<&ObjectKey>, file: &FileKey) -> [u8; HALF] {
    let key = hmac::Key::new(hmac::HMAC_SHA256, &secret.0);
    let mut context = hmac::Context::with_key(&key);
    context.update(if name.is_some() { b"seawall/v1 name\0" } else { b"seawall/v1 file\0" });
    context.update(&vault.0.to_be_bytes());
    context.update(file.expose_secret());
    context.update(name.map_or(&[][..], |key| key.as_str().as_bytes()));
    let mut half = [0; HALF];
    half.copy_from_slice(&context.sign().as_ref()[..HALF]);
    half
}

/// Compares without telling by its duration where the two differ.
fn equal(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |found, (a, b)| found | (a ^ b)) == 0
}

/// A header that was read, not yet believed.
#[derive(Debug)]
pub(crate) struct Header {
    /// The stanzas of the recipients; the first is the host's.
    pub(crate) stanzas: Vec<Stanza>,
    /// For which list of recipients it is; `None` in a header of an earlier version.
    pub(crate) audience: Option<Audience>,
    /// Our stanza; `None` in a file of another program.
    pub(crate) seal: Option<Seal>,
    covered: Vec<u8>,
    mac: Vec<u8>,
}

/// Why bytes are no header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoHeader {
    /// They are no age file at all.
    Plain,
    /// They begin like one, and break its rules.
    Broken(&'static str),
    /// A whole header, of another length than the vault's headers have.
    Length(usize),
}

impl Header {
    /// Reads a header that must fill `bytes`: as long as the vault's headers are, or all that there is of a short object.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, NoHeader> {
        use NoHeader::Broken;
        let rest = bytes.strip_prefix(INTRO).ok_or(NoHeader::Plain)?;
        let mut lines = Lines(rest);
        let (mut stanzas, mut audience, mut seal) = (Vec::new(), None, None);
        loop {
            let at = bytes.len() - lines.0.len();
            let line = lines.next().ok_or(Broken("its header has no end"))?;
            if let Some(mac) = line.strip_prefix("--- ") {
                let mac = decode(mac).filter(|mac| mac.len() == 32).ok_or(Broken("its header's MAC is none"))?;
                if stanzas.is_empty() {
                    return Err(Broken("its header has no recipients"));
                }
                let covered = bytes.get(..at + 3).unwrap_or_default().to_vec();
                return match lines.0.len() {
                    0 => Ok(Self { stanzas, audience, seal, covered, mac }),
                    left => Err(NoHeader::Length(bytes.len() - left)),
                };
            }
            let stanza = lines.stanza(line)?;
            if stanza.tag == FOR {
                let read = Audience::read(&stanza).ok_or(Broken("its list of recipients can't be read"))?;
                if audience.replace(read).is_some() {
                    return Err(Broken("it has two lists of recipients"));
                }
            } else if stanza.tag != OURS {
                stanzas.push(stanza);
            } else if seal.replace(read_seal(&stanza).ok_or(Broken("its seal can't be read"))?).is_some() {
                return Err(Broken("it has two seals"));
            }
        }
    }

    /// Whether the header is as whoever knew the file key wrote it.
    pub(crate) fn authentic(&self, file: &FileKey) -> bool {
        hmac::verify(&mac_key(file), &self.covered, &self.mac).is_ok()
    }
}

/// Writes a header of exactly `size` bytes; `None` where the stanzas need more.
pub(crate) fn write(
    stanzas: &[Stanza],
    audience: &Audience,
    seal: &Seal,
    file: &FileKey,
    size: usize,
) -> Option<Vec<u8>> {
    let mut out = beginning(stanzas, audience);
    let fill = size.checked_sub(out.len() + OVERHEAD)?;
    let args = [seal.vault.to_string(), seal.writer.to_string(), ".".repeat(fill.checked_add(1)?)];
    push(&mut out, OURS, &args, &seal.body);
    out.extend_from_slice(b"---");
    let mac = hmac::sign(&mac_key(file), &out);
    out.extend_from_slice(b" ");
    out.extend_from_slice(BASE64_STANDARD_NO_PAD.encode(mac).as_bytes());
    out.push(b'\n');
    (out.len() == size).then_some(out)
}

/// The bytes that the seal's stanza and the last line need, with one byte to fill.
const OVERHEAD: usize =
    "-> ".len() + OURS.len() + 2 * " 0123456789abcdef".len() + " .\n".len() + 44 + "--- ".len() + 44;

/// The bytes that a header of these stanzas needs at least.
pub(crate) fn needed(stanzas: &[Stanza], audience: &Audience) -> usize {
    beginning(stanzas, audience).len() + OVERHEAD
}

/// A header up to the seal.
fn beginning(stanzas: &[Stanza], audience: &Audience) -> Vec<u8> {
    let mut out = INTRO.to_vec();
    stanzas.iter().for_each(|stanza| push(&mut out, &stanza.tag, &stanza.args, &stanza.body));
    push(&mut out, FOR, std::slice::from_ref(&audience.0), &[]);
    out
}

/// The same header for other recipients, in the same length: the seal and the first `kept` stanzas stay, of which the first
/// is the host's. `None` where it has no seal, or `owners`, the stanzas of the recipients, need more room. To be called for
/// authentic headers only, because the new one is authentic whatever the old one was.
pub(crate) fn rewrapped(
    header: &Header,
    kept: usize,
    owners: &[Stanza],
    audience: &Audience,
    file: &FileKey,
    size: usize,
) -> Option<Vec<u8>> {
    let copy = |one: &Stanza| Stanza { tag: one.tag.clone(), args: one.args.clone(), body: one.body.clone() };
    let stanzas: Vec<Stanza> = header.stanzas.iter().take(kept).chain(owners).map(copy).collect();
    write(&stanzas, audience, header.seal.as_ref()?, file, size)
}

/// The key of the payload in an object.
pub(crate) fn payload_key(file: &FileKey, nonce: &[u8; NONCE]) -> [u8; 32] {
    derive(nonce, file, b"payload")
}

fn mac_key(file: &FileKey) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, &derive(&[], file, b"header"))
}

fn derive(salt: &[u8], file: &FileKey, info: &[u8]) -> [u8; 32] {
    let mut key = [0; 32];
    let info = [info];
    let filled = hkdf::Salt::new(hkdf::HKDF_SHA256, salt)
        .extract(file.expose_secret())
        .expand(&info, hkdf::HKDF_SHA256)
        .and_then(|okm| okm.fill(&mut key));
    debug_assert!(filled.is_ok(), "the length is the hash's");
    key
}

fn push(out: &mut Vec<u8>, tag: &str, args: &[String], body: &[u8]) {
    out.extend_from_slice(b"-> ");
    out.extend_from_slice(tag.as_bytes());
    for arg in args {
        out.push(b' ');
        out.extend_from_slice(arg.as_bytes());
    }
    out.push(b'\n');
    let text = BASE64_STANDARD_NO_PAD.encode(body);
    let mut lines = text.as_bytes().chunks_exact(COLUMNS);
    for line in &mut lines {
        out.extend_from_slice(line);
        out.push(b'\n');
    }
    // The last line is shorter than the others, and may be empty.
    out.extend_from_slice(lines.remainder());
    out.push(b'\n');
}

fn decode(text: &str) -> Option<Vec<u8>> {
    BASE64_STANDARD_NO_PAD.decode(text).ok()
}

fn read_seal(stanza: &Stanza) -> Option<Seal> {
    let [vault, writer, fill] = &stanza.args[..] else { return None };
    let sound = stanza.body.len() == 2 * HALF && fill.bytes().all(|byte| byte == b'.');
    sound.then_some(Seal { vault: Id::parse(vault)?, writer: Id::parse(writer)?, body: stanza.body.clone() })
}

/// The lines of a header that weren't read yet.
struct Lines<'a>(&'a [u8]);

impl<'a> Lines<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let end = self.0.iter().position(|byte| *byte == b'\n')?;
        let (line, rest) = self.0.split_at(end);
        self.0 = rest.get(1..).unwrap_or_default();
        std::str::from_utf8(line).ok()
    }

    fn stanza(&mut self, line: &str) -> Result<Stanza, NoHeader> {
        use NoHeader::Broken;
        let args = line.strip_prefix("-> ").ok_or(Broken("a line of its header is neither a stanza nor the end"))?;
        let mut words = args.split(' ').map(str::to_owned);
        let sound = args.split(' ').all(|word| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_graphic()));
        let (true, Some(tag)) = (sound, words.next()) else {
            return Err(Broken("a stanza of its header has no words"));
        };
        let mut text = String::new();
        loop {
            let line = self.next().ok_or(Broken("a stanza of its header has no end"))?;
            if line.len() > COLUMNS {
                return Err(Broken("a line of its header is too long"));
            }
            text.push_str(line);
            if line.len() < COLUMNS {
                break;
            }
        }
        let body = decode(&text).ok_or(Broken("a stanza of its header is no base64"))?;
        Ok(Stanza { tag, args: words.collect(), body })
    }
}

#[cfg(test)]
#[path = "header_tests.rs"]
mod tests;
