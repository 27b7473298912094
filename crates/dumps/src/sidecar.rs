//! What the files beside a backup say of it, and whether that is so. Pure but for reading two small files.
//!
//! `F.meta.json` and `F.sha256` are read. `F.info` has nothing that these two haven't. All of it is as hostile as the backup: it
//! decides what is checked and what is told, never what is run.

use std::path::{Path, PathBuf};

use seawall_core::{Failure, Kind};
use serde::Deserialize;

/// The most databases of a server.
const MOST_DATABASES: usize = 100_000;

/// The most bytes of a file beside a backup.
const LARGEST: u64 = 8 << 20;

/// The metadata, as far as anything here needs it. A value of another type is as if it weren't there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sidecar {
    /// `1.0` is of dbbackup's own engine, `2.0` of the vendors' programs.
    pub version: Option<String>,
    /// `postgres`, `mysql` or `mariadb`.
    pub database_type: Option<String>,
    /// The server's version.
    pub database_version: Option<String>,
    /// When it was made, as it is written there.
    pub timestamp: Option<String>,
    /// Whether it says that the backup is encrypted.
    pub encrypted: bool,
    /// `full` or `incremental`.
    pub backup_type: Option<String>,
    /// Of a whole server's backup: its databases.
    pub databases: Vec<String>,
    /// The digests that are written down, with the size that the file had then.
    pub(crate) recorded: Vec<Recorded>,
}

/// The most bytes that a compressor keeps back until its end.
const KEPT_BACK: u64 = 16 << 20;

/// A digest that is written down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Recorded {
    pub(crate) sha256: [u8; 32],
    pub(crate) size: Option<u64>,
    /// The file that says it.
    pub(crate) by: String,
}

/// What was compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checked {
    /// The file has the SHA-256 that is written beside it.
    Sha256,
    /// dbbackup's own engine wrote the digest before the file was complete. The file's beginning has it. That proves nothing of the rest.
    Beginning,
    /// No digest is beside it.
    Nothing,
}

/// Digests of a file as it was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Digests {
    /// Of the file, and of its content without encryption.
    pub(crate) whole: Vec<[u8; 32]>,
    /// Of the bytes that it had when its metadata was written.
    pub(crate) beginning: Option<[u8; 32]>,
    pub(crate) size: u64,
    pub(crate) is_sealed: bool,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Document {
    version: serde_json::Value,
    database_type: serde_json::Value,
    database_version: serde_json::Value,
    timestamp: serde_json::Value,
    encrypted: serde_json::Value,
    backup_type: serde_json::Value,
    sha256: serde_json::Value,
    size_bytes: serde_json::Value,
    databases: serde_json::Value,
}

impl Sidecar {
    /// Reads what is beside a file. A file that can't be read as such counts as absent, and the log says so.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let meta = beside(path, ".meta.json");
        let sums = beside(path, ".sha256");
        let mut sidecar = match small(&meta)? {
            Some(text) => Self::parse(&text, &meta.display().to_string())?,
            None => Self::default(),
        };
        if let Some(text) = small(&sums)? {
            let by = sums.display().to_string();
            let digest = digest_of_line(&text).ok_or_else(|| {
                let next = "mend it, as `sha256sum` writes it, or remove it";
                Failure::new(Kind::Corrupt, "dump.sidecar", &by, "it doesn't begin with a SHA-256", next)
            })?;
            sidecar.recorded.push(Recorded { sha256: digest, size: None, by });
        }
        Ok(sidecar)
    }

    /// Reads metadata.
    pub(crate) fn parse(text: &[u8], by: &str) -> Result<Self, Failure> {
        // An object: a list would be taken for its values in order.
        let document = serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(text);
        let document = document.and_then(|fields| serde_json::from_value::<Document>(fields.into()));
        let document = document.map_err(|error| {
            let next = "mend it, or move it away: then the backup is read without what it says";
            Failure::new(Kind::Corrupt, "dump.sidecar", by, format!("it is no JSON document: {error}"), next)
        })?;
        let word = |value: &serde_json::Value| value.as_str().map(|text| text.chars().take(200).collect::<String>());
        let digest = document.sha256.as_str().and_then(|text| digest_of_line(text.as_bytes()));
        let recorded = digest.map(|sha256| Recorded { sha256, size: document.size_bytes.as_u64(), by: by.to_owned() });
        Ok(Self {
            version: word(&document.version),
            database_type: word(&document.database_type),
            database_version: word(&document.database_version),
            timestamp: word(&document.timestamp),
            encrypted: document.encrypted.as_bool().unwrap_or(false),
            backup_type: word(&document.backup_type),
            databases: databases(&document.databases),
            recorded: recorded.into_iter().collect(),
        })
    }

    /// Whether dbbackup's own engine made the backup.
    pub fn is_native(&self) -> bool {
        self.version.as_deref() == Some("1.0")
    }

    /// The size at which the beginning of a file of `size` bytes is looked at: all but what a compressor had kept back.
    pub(crate) fn beginning(&self, size: u64) -> Option<u64> {
        let sizes = self.recorded.iter().filter_map(|recorded| recorded.size);
        let is_one =
            |recorded: &u64| self.is_native() && *recorded > 0 && *recorded < size && size - recorded <= KEPT_BACK;
        sizes.filter(is_one).max()
    }

    /// Whether a file is what is written beside it.
    pub(crate) fn judge(&self, digests: &Digests, object: &str) -> Result<Checked, Failure> {
        let mut checked = Checked::Nothing;
        for Recorded { sha256, size, by } in &self.recorded {
            // The digest of a file to which nothing had been written yet says nothing.
            if self.is_native() && *size == Some(0) && digests.size <= KEPT_BACK {
                continue;
            }
            let is_beginning = self.is_native() && digests.beginning.as_ref() == Some(sha256);
            if digests.whole.contains(sha256) {
                checked = if checked == Checked::Beginning { checked } else { Checked::Sha256 };
            } else if is_beginning {
                checked = Checked::Beginning;
            } else {
                let sizes = match size {
                    Some(size) if *size != digests.size && !digests.is_sealed => {
                        format!("; it has {} bytes, and {size} are written there", digests.size)
                    }
                    _ => String::new(),
                };
                let cause = format!("its SHA-256 isn't the one in {by}{sizes}");
                let next = "take another copy of the backup, or another backup; if the file beside it is wrong, move that away";
                return Err(Failure::new(Kind::Corrupt, "dump.checksum", object, cause, next));
            }
        }
        Ok(checked)
    }
}

/// The names in a list of databases: texts, or documents with the name.
fn databases(list: &serde_json::Value) -> Vec<String> {
    let name = |value: &serde_json::Value| {
        let name =
            value.as_str().or_else(|| value.get("database")?.as_str()).or_else(|| value.get("name")?.as_str())?;
        (!name.is_empty() && name.len() <= 256).then(|| name.to_owned())
    };
    list.as_array().map(|list| list.iter().take(MOST_DATABASES).filter_map(name).collect()).unwrap_or_default()
}

/// A file beside another.
fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// All of a small file; `None` where it isn't there.
#[expect(clippy::disallowed_methods, reason = "this function meets the file system")]
fn small(path: &Path) -> Result<Option<Vec<u8>>, Failure> {
    use std::io::Read as _;
    let failed = |cause: String| {
        let next = "make it readable, or move it away";
        Failure::new(Kind::Unavailable, "dump.io", path.display().to_string(), cause, next)
    };
    // To open a pipe waits for somebody who writes into it.
    match std::fs::metadata(path) {
        Ok(facts) if facts.is_file() => {}
        Ok(_) => return Err(failed("it is no file".to_owned())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error.to_string())),
    }
    let file = std::fs::File::open(path).map_err(|error| failed(error.to_string()))?;
    let mut text = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut text).map_err(|error| failed(error.to_string()))?;
    if text.len() as u64 > LARGEST {
        return Err(failed(format!("it has more than {LARGEST} bytes")));
    }
    Ok(Some(text))
}

/// The digest at the beginning of `HEX  PATH`. The path is of the machine that made it, and says nothing.
fn digest_of_line(text: &[u8]) -> Option<[u8; 32]> {
    let word = text.trim_ascii().split(u8::is_ascii_whitespace).next()?;
    let word = std::str::from_utf8(word).ok().filter(|word| word.len() == 64 && word.is_ascii())?;
    let mut digest = [0; 32];
    for (place, byte) in digest.iter_mut().enumerate() {
        *byte = u8::from_str_radix(word.get(2 * place..2 * place + 2)?, 16).ok()?;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(byte: u8) -> String {
        format!("{byte:02x}").repeat(32)
    }

    #[test]
    fn metadata_of_both_versions() {
        let text = format!(
            r#"{{"version":"1.0","timestamp":"2026-11-28T08:00:00Z","database":"shop","database_type":"postgres",
                "database_version":"PostgreSQL 15.18","size_bytes":10,"sha256":"{}","encrypted":false,"extra_info":{{}},"duration_seconds":0.1}}"#,
            hex(7)
        );
        let sidecar = Sidecar::parse(text.as_bytes(), "m").expect("metadata");
        assert!(sidecar.is_native() && !sidecar.encrypted);
        assert_eq!(sidecar.database_type.as_deref(), Some("postgres"));
        assert_eq!(sidecar.recorded, [Recorded { sha256: [7; 32], size: Some(10), by: "m".into() }]);
        // Other types, and fields that nothing here needs, are no error.
        let odd = Sidecar::parse(br#"{"version":2,"encrypted":"yes","sha256":"short","databases":[1]}"#, "m");
        assert_eq!(odd, Ok(Sidecar::default()));
        let of_server = Sidecar::parse(br#"{"databases":["a",{"database":"b"},{"name":"c"},{},""]}"#, "m");
        assert_eq!(of_server.map(|sidecar| sidecar.databases), Ok(vec!["a".into(), "b".into(), "c".into()]));
        let native = |size| Sidecar {
            version: Some("1.0".into()),
            recorded: vec![Recorded { sha256: [0; 32], size: Some(size), by: "m".into() }],
            ..Sidecar::default()
        };
        for (recorded, size, expected) in
            [(90, 100, Some(90)), (0, 100, None), (100, 100, None), (10, 5_000_000_000, None), (200, 100, None)]
        {
            assert_eq!(native(recorded).beginning(size), expected, "{recorded} of {size}");
        }
        let digests = |size| Digests { whole: vec![[1; 32]], beginning: None, size, is_sealed: false };
        assert_eq!(native(0).judge(&digests(100), "f"), Ok(Checked::Nothing));
        assert!(native(0).judge(&digests(5_000_000_000), "f").is_err());
        for wrong in [&b""[..], b"{", b"[]", b"\xff"] {
            assert_eq!(Sidecar::parse(wrong, "m").map_err(|failure| failure.code), Err("dump.sidecar"));
        }
    }

    #[test]
    fn digests_with_a_path_of_another_machine() {
        for (text, is_one) in [
            (format!("{}  /var/backups/db shop.dump\n", hex(9)), true),
            (hex(0xab).to_uppercase(), true),
            (hex(9)[1..].to_owned(), false),
            (format!("x{}", hex(9)), false),
            (String::new(), false),
            ("é".repeat(32), false),
        ] {
            assert_eq!(digest_of_line(text.as_bytes()).is_some(), is_one, "{text}");
        }
    }

    #[test]
    fn a_file_is_what_is_written_beside_it_or_it_is_refused() {
        let recorded = |byte, size| Recorded { sha256: [byte; 32], size, by: "m".into() };
        let digests = |whole: &[u8], beginning: Option<u8>| Digests {
            whole: whole.iter().map(|byte| [*byte; 32]).collect(),
            beginning: beginning.map(|byte| [byte; 32]),
            size: 60,
            is_sealed: whole.len() > 1,
        };
        let native = Some("1.0".to_owned());
        for (version, written, found, expected) in [
            (None, vec![], digests(&[1], None), Ok(Checked::Nothing)),
            (None, vec![recorded(1, Some(60))], digests(&[1], None), Ok(Checked::Sha256)),
            (None, vec![recorded(2, None)], digests(&[1, 2], None), Ok(Checked::Sha256)),
            (None, vec![recorded(1, None), recorded(3, None)], digests(&[1], None), Err("dump.checksum")),
            (None, vec![recorded(3, Some(10))], digests(&[1], Some(3)), Err("dump.checksum")),
            (native.clone(), vec![recorded(3, Some(10))], digests(&[1], Some(3)), Ok(Checked::Beginning)),
            (
                native.clone(),
                vec![recorded(3, Some(10)), recorded(1, None)],
                digests(&[1], Some(3)),
                Ok(Checked::Beginning),
            ),
            (native, vec![recorded(4, Some(10))], digests(&[1], Some(3)), Err("dump.checksum")),
        ] {
            let sidecar = Sidecar { version, recorded: written, ..Sidecar::default() };
            assert_eq!(sidecar.judge(&found, "f").map_err(|failure| failure.code), expected, "{sidecar:?}");
        }
        let failure =
            Sidecar { recorded: vec![recorded(3, Some(10))], ..Sidecar::default() }.judge(&digests(&[1], None), "f");
        assert!(failure.is_err_and(|failure| failure.cause.ends_with("it has 60 bytes, and 10 are written there")));
    }
}
