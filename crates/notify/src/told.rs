//! What each channel was told, kept over a restart.
//!
//! A small JSON file, replaced as a whole after each message; see docs/formats.md. If it is lost or damaged, alarms that are
//! still there are told once more, and nothing else happens. A process that is killed between a message and the write tells the
//! message twice.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use crate::due::{Record, Records};

/// The version of the file; see docs/formats.md.
const FORMAT: u32 = 1;

/// A larger file isn't read.
const LARGEST: u64 = 64 << 20;

#[derive(Debug, Serialize, Deserialize)]
struct File {
    format: u32,
    channels: BTreeMap<String, Vec<Record>>,
}

/// What each channel was told.
#[derive(Debug)]
pub struct Store {
    file: Option<PathBuf>,
    told: Mutex<BTreeMap<String, Records>>,
}

impl Store {
    /// Reads what an earlier process left in `file`; without a file, all is forgotten with the process. Blocks.
    pub fn open(file: Option<PathBuf>) -> Arc<Self> {
        let told = file.as_deref().map(load).unwrap_or_default();
        Arc::new(Self { file, told: Mutex::new(told) })
    }

    /// What a channel was told.
    pub(crate) async fn of(&self, channel: &str) -> Records {
        self.told.lock().await.get(channel).cloned().unwrap_or_default()
    }

    /// Notes what a channel was told. If it can't be written, the log says so, and it is kept until the process ends.
    pub(crate) async fn keep(&self, channel: &str, records: &Records) {
        let mut told = self.told.lock().await;
        let known = told.get(channel);
        if known == Some(records) || known.is_none() && records.is_empty() {
            return;
        }
        told.insert(channel.to_owned(), records.clone());
        let Some(path) = self.file.clone() else { return };
        let channels = told.iter().map(|(name, records)| (name.clone(), records.values().cloned().collect())).collect();
        // The lock is held, so that an older write never replaces a newer one.
        let shown = path.display().to_string();
        let written = tokio::task::spawn_blocking(move || save(&path, &File { format: FORMAT, channels })).await;
        let problem =
            written.map_err(|error| error.to_string()).and_then(|done| done.map_err(|error| error.to_string()));
        if let Err(problem) = problem {
            tracing::warn!(file = shown, problem, "a restart will tell the same alarms again");
        }
    }

    /// Forgets channels that don't exist any more.
    pub(crate) async fn only(&self, channels: &[&str]) {
        self.told.lock().await.retain(|name, _| channels.contains(&name.as_str()));
    }
}

fn load(path: &Path) -> BTreeMap<String, Records> {
    let read = || -> io::Result<File> {
        let mut bytes = Vec::new();
        std::fs::File::open(path)?.take(LARGEST).read_to_end(&mut bytes)?;
        Ok(serde_json::from_slice(&bytes)?)
    };
    match read() {
        Ok(file) if file.format == FORMAT => {
            let key = |record: Record| ((record.database.clone(), record.alarm.code.clone()), record);
            let records = |(name, records): (String, Vec<Record>)| (name, records.into_iter().map(key).collect());
            return file.channels.into_iter().map(records).collect();
        }
        Ok(file) => {
            tracing::warn!(file = %path.display(), format = file.format, "another version wrote it: alarms are told again");
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => {
            tracing::warn!(file = %path.display(), %error, "what was told can't be read: alarms are told again");
        }
    }
    BTreeMap::new()
}

fn save(path: &Path, file: &File) -> io::Result<()> {
    let parent = path.parent().unwrap_or(Path::new("/"));
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    let partial = path.with_extension("tmp");
    let mut options = std::fs::OpenOptions::new();
    let mut out = options.create(true).truncate(true).write(true).mode(0o600).open(&partial)?;
    out.write_all(&serde_json::to_vec_pretty(file)?)?;
    out.sync_all()?;
    std::fs::rename(&partial, path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use seawall_core::{Moment, Severity};

    use super::*;
    use crate::due::Notice;
    use crate::message::Event;
    use crate::message::tests::alarm;

    fn records(databases: &[&str]) -> Records {
        let alarms = databases.iter().map(|name| ((*name).to_owned(), alarm("alarm.lag", Severity::Warning))).collect();
        let mut records = Records::new();
        Notice { event: Event::Raised, alarms }.note(&mut records, Moment::from_millis(1_800_000_000_000));
        records
    }

    #[tokio::test]
    async fn what_was_told_survives_and_damage_is_as_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("state/x.told.json");
        let store = Store::open(Some(file.clone()));
        store.keep("ops", &Records::new()).await;
        assert!(!file.exists(), "nothing is nothing to keep");
        store.keep("ops", &records(&["app", "shop"])).await;
        store.keep("pager", &records(&["app"])).await;
        assert_eq!(std::fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o600);
        let again = Store::open(Some(file.clone()));
        assert_eq!(again.of("ops").await, records(&["app", "shop"]));
        again.only(&["ops"]).await;
        assert_eq!(again.of("pager").await, Records::new());
        again.keep("ops", &Records::new()).await;
        assert_eq!(Store::open(Some(file.clone())).of("ops").await, Records::new());
        for damage in ["", "{", "{\"format\":2,\"channels\":{}}", "[]"] {
            std::fs::write(&file, damage).expect("written");
            assert_eq!(Store::open(Some(file.clone())).of("ops").await, Records::new(), "{damage}");
        }
        let nowhere = Store::open(Some("/proc/nowhere/told.json".into()));
        nowhere.keep("ops", &records(&["app"])).await;
        assert_eq!(nowhere.of("ops").await, records(&["app"]), "kept until the process ends");
    }
}
