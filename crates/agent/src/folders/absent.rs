//! Folders of the configuration in which nothing is protected, in the words of a status: its disk may not be mounted, and then no database
//! says that it isn't protected.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use seawall_core::{Description, Failure, Kind, LastError, Moment, Phase, Status};
use seawall_engines::alarms::{Keeper, Local, judged};
use tokio::task::spawn_blocking;

use super::NOTHING_FOUND;
use crate::config::DirectoryConfig;

/// What the status of a folder has for an engine.
pub const FOLDER: &str = "folder";

/// The code of a folder that isn't there, or can't be read.
const MISSING: &str = "agent.folder-missing";

/// How long a folder may take to answer.
const ANSWER: Duration = Duration::from_secs(2);

/// What a folder is that holds no protected database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Absence {
    /// It is there, and no database is in it.
    Empty,
    /// The same, and this process protected some in it.
    Emptied,
    /// It isn't there, or can't be read.
    Missing,
}

/// What a process remembers of the folders of its configuration.
#[derive(Debug, Default)]
pub(crate) struct Remembered {
    /// Since when nothing of a folder is protected.
    since: BTreeMap<PathBuf, Moment>,
    /// Folders of which something was protected.
    protected: BTreeSet<PathBuf>,
}

impl Remembered {
    /// Forgets the folders that the configuration doesn't have any more.
    fn keep(&mut self, directories: &[DirectoryConfig]) {
        let is_there = |folder: &Path| directories.iter().any(|config| config.dir == folder);
        self.since.retain(|folder, _| is_there(folder));
        self.protected.retain(|folder| is_there(folder));
    }
}

/// The status of each folder: with an error if no database in it is among `sources`.
pub(crate) async fn statuses(
    directories: &[DirectoryConfig],
    sources: &[PathBuf],
    remembered: &mut Remembered,
    now: Moment,
) -> Vec<Status> {
    let mut all = Vec::with_capacity(directories.len());
    remembered.keep(directories);
    for config in directories {
        let absence = match sources.iter().any(|source| source.starts_with(&config.dir)) {
            true => {
                remembered.since.remove(&config.dir);
                remembered.protected.insert(config.dir.clone());
                None
            }
            false => Some(match look(config.dir.clone()).await {
                Absence::Empty if remembered.protected.contains(&config.dir) => Absence::Emptied,
                absence => absence,
            }),
        };
        let since = absence.map_or(now, |_| *remembered.since.entry(config.dir.clone()).or_insert(now));
        let status = status(config, absence, since, now);
        all.push(judged(status, Keeper::Running, config.template.judged(), Local::default(), now));
    }
    all
}

/// Why a folder holds no protected database. A disk that hangs counts as missing.
async fn look(folder: PathBuf) -> Absence {
    let read = spawn_blocking(move || std::fs::read_dir(&folder).is_ok());
    match tokio::time::timeout(ANSWER, read).await {
        Ok(Ok(true)) => Absence::Empty,
        _ => Absence::Missing,
    }
}

fn status(config: &DirectoryConfig, absence: Option<Absence>, since: Moment, now: Moment) -> Status {
    let folder = config.dir.display().to_string();
    let description = Description {
        name: folder.clone(),
        engine: FOLDER,
        source: Some(folder),
        vault: config.template.vault.to_string(),
    };
    let phase = if absence.is_some() { Phase::Waiting } else { Phase::Protecting };
    let error = absence.map(|absence| LastError::new(&failure(&config.dir, absence), since));
    Status { error, ..Status::new(description, phase, now) }
}

/// What to say of such a folder.
fn failure(folder: &Path, absence: Absence) -> Failure {
    let (code, cause) = match absence {
        Absence::Empty => (NOTHING_FOUND, "there is no database in it, so nothing of this folder is protected"),
        Absence::Emptied => {
            (MISSING, "the databases that were protected in it are gone, so nothing of this folder is protected")
        }
        Absence::Missing => (MISSING, "it isn't there, or can't be read, so nothing of this folder is protected"),
    };
    let next = "mount its disk if it isn't mounted, and check the path and the pattern; databases that come are found by themselves";
    Failure::new(Kind::NotFound, code, folder.display().to_string(), cause, next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::folder;

    #[tokio::test]
    async fn a_folder_without_a_database_is_told_and_since_when() {
        let place = tempfile::tempdir().expect("a folder");
        let data = place.path().join("data");
        let directories = [folder(&data, true)];
        let (mut remembered, at) = (Remembered::default(), |seconds: i64| Moment::from_millis(seconds * 1000));
        let app = [data.join("deep/app.db")];
        let mut alarm = async |sources: &[PathBuf], now: i64| {
            let all = statuses(&directories, sources, &mut remembered, at(now)).await;
            let [status] = &all[..] else { panic!("one folder") };
            assert_eq!((status.engine.as_str(), status.alarms.len() < 2), (FOLDER, true));
            status.alarms.first().map(|alarm| (alarm.code.clone(), alarm.severity.name(), alarm.since))
        };
        let told = |severity, since| Some(("alarm.folder".to_owned(), severity, at(since)));
        assert_eq!(alarm(&[], 1).await, told("critical", 1));
        assert_eq!(alarm(&[], 5).await, told("critical", 1));
        std::fs::create_dir(&data).expect("made");
        assert_eq!(alarm(&[place.path().join("data2/app.db")], 6).await, told("warning", 1));
        assert_eq!(alarm(&app, 7).await, None);
        assert_eq!(alarm(&[], 9).await, told("critical", 9), "what was protected is gone");
    }
}
