//! The object that says how a vault is encrypted, and the records of its writers.
//!
//! `seawall/encryption.json` is in the clear: what it is for, which recipients, how long headers are. It is hostile like
//! everything in a vault: a writer takes its recipients from its configuration, never from here.
//!
//! `seawall/encryption/<writer>.age` is for the owner alone: a sealed object of that writer, which holds the secret of
//! the writer's seals. So only the owner and the writer can tell whether the writer sealed an object.

use seawall_core::Moment;
use serde::{Deserialize, Serialize};

use super::header::{Id, SIZES, SealKey};
use super::{Fault, fault};
use crate::vault::PROBES;
use crate::{Error, ObjectKey};

/// The marker's name.
pub(crate) const NAME: &str = "seawall/encryption.json";

/// The folder of the writers' records.
pub(crate) const WRITERS: &str = "seawall/encryption/";

/// The most bytes of a marker or a record.
pub(crate) const MOST: u64 = 64 << 10;

/// Whether a name is one of this module's, and none of an engine's.
pub(crate) fn is_ours(name: &str) -> bool {
    name == NAME || name.starts_with(WRITERS)
}

/// Whether a name is an object of an engine's, neither one of this module's nor of a probe's.
pub(super) fn is_content(name: &str) -> bool {
    !is_ours(name) && !name.starts_with(PROBES)
}

/// The name of a writer's record.
pub(crate) fn record_name(writer: Id) -> Result<ObjectKey, Error> {
    ObjectKey::new(format!("{WRITERS}{writer}.age"))
}

/// How a vault is encrypted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Marker {
    /// The vault's identity.
    pub(crate) vault: Id,
    /// Bytes of each header.
    pub(crate) header: usize,
    /// The owner's recipients, sorted.
    pub(crate) recipients: Vec<String>,
    /// When the vault was made.
    pub(crate) created: Moment,
}

#[derive(Serialize, Deserialize)]
struct MarkerText {
    format: u32,
    encryption: String,
    vault: String,
    header: usize,
    recipients: Vec<String>,
    created: Moment,
}

impl Marker {
    /// Reads a marker. `object` names it in errors.
    pub(crate) fn parse(bytes: &[u8], object: &str) -> Result<Self, Error> {
        let refused =
            |cause: &str| fault(Fault::Marker, object, format!("it doesn't say how the vault is encrypted: {cause}"));
        let text: MarkerText = serde_json::from_slice(bytes).map_err(|error| refused(&error.to_string()))?;
        if text.format != 1 || text.encryption != "age" {
            return Err(refused("a later version of Seawall wrote it"));
        }
        let vault = Id::parse(&text.vault).ok_or_else(|| refused("`vault` is no identifier"))?;
        if !SIZES.contains(&text.header) {
            return Err(refused("`header` is no length of headers"));
        }
        let shown = |text: &String| !text.is_empty() && text.len() <= 4096 && !text.chars().any(char::is_control);
        if text.recipients.is_empty() || text.recipients.len() > 64 || !text.recipients.iter().all(shown) {
            return Err(refused("`recipients` are none"));
        }
        let mut recipients = text.recipients;
        recipients.sort();
        Ok(Self { vault, header: text.header, recipients, created: text.created })
    }

    /// The marker as it is written.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let text = MarkerText {
            format: 1,
            encryption: "age".to_owned(),
            vault: self.vault.to_string(),
            header: self.header,
            recipients: self.recipients.clone(),
            created: self.created,
        };
        let mut bytes = serde_json::to_vec_pretty(&text).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }
}

/// A writer of a vault, as its record and the host's own note hold it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Writer {
    pub(crate) vault: Id,
    pub(crate) writer: Id,
    pub(crate) secret: SealKey,
    pub(crate) created: Moment,
    /// Whether its record is known to be in the vault; only in the host's note.
    pub(crate) published: bool,
}

#[derive(Serialize, Deserialize)]
struct WriterText {
    format: u32,
    vault: String,
    writer: String,
    secret: String,
    created: Moment,
    #[serde(default)]
    published: bool,
}

impl Writer {
    /// Reads a writer.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let text: WriterText = serde_json::from_slice(bytes).ok().filter(|text: &WriterText| text.format == 1)?;
        let mut secret = [0; 32];
        if text.secret.len() != 64 {
            return None;
        }
        for (index, byte) in secret.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.secret.get(2 * index..2 * index + 2)?, 16).ok()?;
        }
        let (vault, writer) = (Id::parse(&text.vault)?, Id::parse(&text.writer)?);
        Some(Self { vault, writer, secret: SealKey(secret), created: text.created, published: text.published })
    }

    /// The writer as it is written.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let text = WriterText {
            format: 1,
            vault: self.vault.to_string(),
            writer: self.writer.to_string(),
            secret: self.secret.0.iter().map(|byte| format!("{byte:02x}")).collect(),
            created: self.created,
            published: self.published,
        };
        serde_json::to_vec(&text).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marker() -> Marker {
        Marker {
            vault: Id(7),
            header: 1024,
            recipients: vec!["age1a".into(), "age1b".into()],
            created: Moment::from_millis(1_795_255_200_123),
        }
    }

    #[test]
    fn markers() {
        let text = String::from_utf8(marker().to_bytes()).expect("text");
        assert_eq!(Marker::parse(text.as_bytes(), "x"), Ok(marker()));
        for (from, to) in [
            ("\"format\": 1", "\"format\": 2"),
            ("\"age\"", "\"pgp\""),
            ("0000000000000007", "7"),
            ("1024", "12"),
            ("1024", "99999999"),
            ("1024", "-1"),
            ("\"age1a\"", "\"\""),
            ("age1a", "a\\u001b[2J"),
            ("created", "made"),
            ("{", "["),
        ] {
            let bad = text.replacen(from, to, 1);
            assert!(Marker::parse(bad.as_bytes(), "x").is_err(), "{bad}");
        }
        assert!(Marker::parse(b"", "x").is_err());
    }

    #[test]
    fn writers() {
        let writer = Writer {
            vault: Id(7),
            writer: Id(8),
            secret: SealKey([0xab; 32]),
            created: marker().created,
            published: true,
        };
        let text = String::from_utf8(writer.to_bytes()).expect("text");
        assert_eq!(Writer::parse(text.as_bytes()), Some(writer));
        for (from, to) in [("\"format\":1", "\"format\":2"), ("abab", "ab"), ("abab", "éb"), ("000008", "8")] {
            let bad = text.replacen(from, to, 1);
            assert_eq!(Writer::parse(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn names_of_ours() {
        for (name, ours) in [
            (NAME, true),
            ("seawall/encryption/0000000000000008.age", true),
            ("seawall/encryption", false),
            ("seawall/holes/x.json", false),
            ("x/seawall/encryption.json", false),
        ] {
            assert_eq!(is_ours(name), ours, "{name}");
        }
        assert_eq!(record_name(Id(8)).expect("a key").as_str(), "seawall/encryption/0000000000000008.age");
    }
}
