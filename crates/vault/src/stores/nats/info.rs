//! The message that describes an object (NATS's ADR-20, "JetStream based Object Stores"), and the subjects of a bucket.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use serde::{Deserialize, Serialize};

/// The header with the logical time; Litestream's.
pub(super) const STAMP: &str = "Litestream-Timestamp";

/// The metadata with our digest.
pub(super) const DIGEST: &str = "seawall-blake3";

/// The metadata with the place of the first chunk in the stream.
pub(super) const FIRST: &str = "seawall-first-chunk";

/// The most chunks that an object may claim: 16 TiB in chunks of 128 KiB.
const MOST_CHUNKS: u64 = 1 << 27;

/// What is known about an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ObjectInfo {
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) headers: Option<BTreeMap<String, Vec<String>>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) metadata: Option<BTreeMap<String, String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) options: Option<Options>,
    pub(super) bucket: String,
    /// The part of the subject of its chunks that no other object has.
    pub(super) nuid: String,
    #[serde(default)]
    pub(super) size: u64,
    #[serde(default)]
    pub(super) mtime: String,
    #[serde(default)]
    pub(super) chunks: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) digest: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) deleted: bool,
}

/// How an object is kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Options {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) link: Option<serde_json::Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) max_chunk_size: Option<u64>,
}

impl ObjectInfo {
    /// Reads a description of `name`. What comes out of a store is hostile until it is checked (I11).
    pub(super) fn read(bytes: &[u8], name: &str) -> Result<Self, &'static str> {
        let info: Self = serde_json::from_slice(bytes).map_err(|_| "its description is no JSON of an object store")?;
        if info.name != name {
            return Err("its description is that of another object");
        }
        let token = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if !info.deleted && (info.nuid.is_empty() || info.nuid.len() > 100 || !info.nuid.chars().all(token)) {
            return Err("its description names no chunks");
        }
        if info.chunks > MOST_CHUNKS || (info.chunks == 0) != (info.size == 0) || info.chunks > info.size {
            return Err("its description claims a wrong number of chunks");
        }
        Ok(info)
    }

    /// Whether it points to another object, which other programs may make.
    pub(super) fn is_link(&self) -> bool {
        self.options.as_ref().is_some_and(|options| options.link.is_some())
    }

    /// The first value of a header.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.as_ref()?.get(name)?.first().map(String::as_str)
    }

    /// A value of its metadata.
    pub(super) fn metadata(&self, name: &str) -> Option<&str> {
        self.metadata.as_ref()?.get(name).map(String::as_str)
    }

    /// The size of all chunks but the last, where chunks of ours tell their numbers.
    pub(super) fn chunk_size(&self) -> Option<u64> {
        self.options.as_ref()?.max_chunk_size.filter(|size| *size > 0)
    }
}

/// The subject of an object's description.
pub(super) fn subject(bucket: &str, name: &str) -> String {
    format!("$O.{bucket}.M.{}", URL_SAFE.encode(name))
}

/// The subject of an object's chunks.
pub(super) fn chunks(bucket: &str, nuid: &str) -> String {
    format!("$O.{bucket}.C.{nuid}")
}

/// The name of the object whose description has that subject.
pub(super) fn name(bucket: &str, subject: &str) -> Option<String> {
    let encoded = subject.strip_prefix("$O.")?.strip_prefix(bucket)?.strip_prefix(".M.")?;
    String::from_utf8(URL_SAFE.decode(encoded).ok()?).ok()
}

/// The digest of an object as its description has it.
pub(super) fn digest(sha256: &[u8]) -> String {
    format!("SHA-256={}", URL_SAFE.encode(sha256))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_and_back() {
        for object in ["ltx/0/0000000000000001-0000000000000001.ltx", "a", "z z/ä?.>*"] {
            let subject = subject("b", object);
            assert!(!subject.contains(' '), "{subject}");
            assert_eq!(name("b", &subject).as_deref(), Some(object));
        }
        for other in ["$O.b.C.x", "$O.c.M.YQ==", "$O.b.M.*", "$O.b.M._w==", ""] {
            assert_eq!(name("b", other), None, "{other}");
        }
    }

    #[test]
    fn what_an_official_client_writes() {
        let text = r#"{"name":"a/b","headers":{"Litestream-Timestamp":["2026-01-02T03:04:05.006Z"]},
            "options":{"max_chunk_size":131072},"bucket":"b","nuid":"wFHZ5Gx9TbWzLZ8IYqXWRG","size":200000,
            "mtime":"0001-01-01T00:00:00Z","chunks":2,"digest":"SHA-256=x"}"#;
        let info = ObjectInfo::read(text.as_bytes(), "a/b").expect("a description");
        assert_eq!(info.header(STAMP), Some("2026-01-02T03:04:05.006Z"));
        assert_eq!((info.size, info.chunks, info.chunk_size()), (200_000, 2, Some(131_072)));
        let again = serde_json::to_vec(&info).expect("JSON");
        assert_eq!(ObjectInfo::read(&again, "a/b"), Ok(info));
    }

    #[test]
    fn hostile_descriptions() {
        for text in [
            "",
            "[]",
            r#"{"name":"x","bucket":"b","nuid":"n","size":1,"chunks":1}"#,
            r#"{"name":"a","bucket":"b","nuid":"","size":1,"chunks":1}"#,
            r#"{"name":"a","bucket":"b","nuid":"n.>","size":1,"chunks":1}"#,
            r#"{"name":"a","bucket":"b","nuid":"n","size":5,"chunks":0}"#,
            r#"{"name":"a","bucket":"b","nuid":"n","size":0,"chunks":1}"#,
            r#"{"name":"a","bucket":"b","nuid":"n","size":5,"chunks":6}"#,
            r#"{"name":"a","bucket":"b","nuid":"n","size":-5,"chunks":6}"#,
            r#"{"name":"a","bucket":"b","nuid":"n","size":999999999999999,"chunks":999999999999}"#,
        ] {
            assert!(ObjectInfo::read(text.as_bytes(), "a").is_err(), "{text}");
        }
    }
}
