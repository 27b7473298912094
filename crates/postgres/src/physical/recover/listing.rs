//! PostgreSQL's own manifest of a backup, which `pg_verifybackup` reads. Written while files are restored.

use std::fmt::Write as _;

use ring::digest::{Context, SHA256};
use seawall_core::Moment;

use super::super::base::BaseManifest;

/// The first version whose manifest names the cluster.
const NAMES_SYSTEM: u32 = 170_000;

/// A manifest that is being written.
pub(crate) struct Listing {
    sum: Context,
    is_first: bool,
}

/// A file that was restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Restored {
    pub(crate) path: String,
    pub(crate) bytes: u64,
    /// Seconds since 1970.
    pub(crate) modified: u64,
    /// Its CRC-32C.
    pub(crate) crc: u32,
}

impl Listing {
    /// Begins one; returns its first bytes too.
    pub(crate) fn begin(manifest: &BaseManifest) -> (Self, String) {
        let mut listing = Self { sum: Context::new(&SHA256), is_first: true };
        let text = match manifest.version >= NAMES_SYSTEM {
            true => {
                let system = &manifest.system;
                format!("{{ \"PostgreSQL-Backup-Manifest-Version\": 2,\n\"System-Identifier\": {system},\n\"Files\": [")
            }
            false => "{ \"PostgreSQL-Backup-Manifest-Version\": 1,\n\"Files\": [".to_owned(),
        };
        listing.sum.update(text.as_bytes());
        (listing, text)
    }

    /// The bytes for a file.
    pub(crate) fn file(&mut self, file: &Restored) -> String {
        let comma = if std::mem::take(&mut self.is_first) { "" } else { "," };
        let modified = Moment::from_millis(i64::try_from(file.modified.saturating_mul(1000)).unwrap_or(0)).to_string();
        let modified = modified.get(..19).unwrap_or_default().replace('T', " ");
        let crc: String = file.crc.to_le_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        let text = format!(
            "{comma}\n{{ \"Path\": {}, \"Size\": {}, \"Last-Modified\": \"{modified} GMT\", \
             \"Checksum-Algorithm\": \"CRC32C\", \"Checksum\": \"{crc}\" }}",
            serde_json::Value::from(file.path.as_str()),
            file.bytes
        );
        self.sum.update(text.as_bytes());
        text
    }

    /// Its last bytes.
    pub(crate) fn end(mut self, manifest: &BaseManifest) -> String {
        let text = format!(
            "\n],\n\"WAL-Ranges\": [\n{{ \"Timeline\": {}, \"Start-LSN\": \"{}\", \"End-LSN\": \"{}\" }}\n],\n",
            manifest.timeline, manifest.start, manifest.stop
        );
        self.sum.update(text.as_bytes());
        let mut sum = String::new();
        for byte in self.sum.finish().as_ref() {
            let _ = write!(sum, "{byte:02x}");
        }
        format!("{text}\"Manifest-Checksum\": \"{sum}\"}}\n")
    }
}
