//! Folders of the configuration in which nothing is protected, in the words of a status: its disk may not be mounted, and then no database
//! says that it isn't protected.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use seawall_core::{Description, Failure, Kind, LastError, Moment, Phase, Status};
use seawall_engines::alarms::{Keeper, Local, Place, judged};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::Instant;

use super::NOTHING_FOUND;
use crate::config::DirectoryConfig;

/// What the status of a folder has for an engine.
pub const FOLDER: &str = "folder";

/// The code of a folder that isn't there, or can't be read.
const MISSING: &str = "agent.folder-missing";

/// How long a status waits for the answer of a folder.
const ANSWER: Duration = Duration::from_secs(2);

/// How long a folder may take to answer before its disk counts as one that hangs. The process may just be busy.
const HANGS: Duration = Duration::from_secs(30);

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
    /// Looks that weren't answered yet, and since when. One for each folder, because each holds a thread while a disk hangs.
    open: BTreeMap<PathBuf, (Instant, JoinHandle<Seen>)>,
    /// What the last answered look at a folder found.
    seen: BTreeMap<PathBuf, Seen>,
}

/// What a look at a folder found.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    is_readable: bool,
    silenced_until: Option<Moment>,
}

impl Remembered {
    /// Forgets the folders that the configuration doesn't have any more.
    fn keep(&mut self, directories: &[DirectoryConfig]) {
        let is_there = |folder: &Path| directories.iter().any(|config| config.dir == folder);
        self.since.retain(|folder, _| is_there(folder));
        self.protected.retain(|folder| is_there(folder));
        self.open.retain(|folder, _| is_there(folder));
        self.seen.retain(|folder, _| is_there(folder));
    }

    /// Looks at a folder, or waits for the look that is open. Without an answer in time, what the last one said; `None` if a disk hangs,
    /// or said nothing yet.
    async fn look(&mut self, folder: &Path, place: Place, now: Moment) -> Option<Seen> {
        let (since, mut look) = self.open.remove(folder).unwrap_or_else(|| {
            let folder = folder.to_owned();
            let look = move || Seen {
                is_readable: std::fs::read_dir(&folder).is_ok(),
                silenced_until: place.read(now).silenced_until,
            };
            (Instant::now(), spawn_blocking(look))
        });
        if let Ok(answer) = tokio::time::timeout(ANSWER, &mut look).await {
            let seen = answer.unwrap_or_default();
            self.seen.insert(folder.to_owned(), seen);
            return Some(seen);
        }
        let hangs = since.elapsed() >= HANGS;
        self.open.insert(folder.to_owned(), (since, look));
        if hangs { None } else { self.seen.get(folder).copied() }
    }
}

/// The status of each folder: with an error if no database in it is among `sources`.
///
/// `place` says where the silence of a folder is.
pub(crate) async fn statuses(
    directories: &[DirectoryConfig],
    sources: &[PathBuf],
    remembered: &mut Remembered,
    place: impl Fn(&Path) -> Place,
    now: Moment,
) -> Vec<Status> {
    let mut all = Vec::with_capacity(directories.len());
    remembered.keep(directories);
    for config in directories {
        let (absence, local) = if sources.iter().any(|source| source.starts_with(&config.dir)) {
            remembered.since.remove(&config.dir);
            remembered.protected.insert(config.dir.clone());
            (None, Local::default())
        } else {
            let seen = remembered.look(&config.dir, place(&config.dir), now).await;
            let silenced_until = seen.and_then(|seen| seen.silenced_until);
            let absence = match seen {
                Some(Seen { is_readable: true, .. }) if !remembered.protected.contains(&config.dir) => Absence::Empty,
                Some(Seen { is_readable: true, .. }) => Absence::Emptied,
                _ => Absence::Missing,
            };
            (Some(absence), Local { silenced_until, ..Local::default() })
        };
        let since = absence.map_or(now, |_| *remembered.since.entry(config.dir.clone()).or_insert(now));
        let status = status(config, absence, since, now);
        all.push(judged(status, Keeper::Running, config.template.judged(), local, now));
    }
    all
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
        let silence = Place { state: None, silence: Some(place.path().join("silences/folder.json")) };
        let mut alarm = async |sources: &[PathBuf], now: i64| {
            let all = statuses(&directories, sources, &mut remembered, |_| silence.clone(), at(now)).await;
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

    #[tokio::test]
    async fn a_silence_of_a_folder_is_read() {
        let place = tempfile::tempdir().expect("a folder");
        let directories = [folder(&place.path().join("data"), true)];
        let silence = Place { state: None, silence: Some(place.path().join("silences/folder.json")) };
        let mut remembered = Remembered::default();
        // A file's own time bounds its silence.
        let begun = seawall_core::Clock::now(&seawall_core::SystemClock);
        let at = |seconds: u64| begun.after(Duration::from_secs(seconds));
        silence.silence("data", Some(at(60))).expect("written");
        for (now, expected) in [(1, Some(at(60))), (59, Some(at(60))), (61, None)] {
            let all = statuses(&directories, &[], &mut remembered, |_| silence.clone(), at(now)).await;
            let [Status { alarms, silenced_until, .. }] = &all[..] else { panic!("one folder") };
            let [alarm] = &alarms[..] else { panic!("one alarm") };
            assert_eq!((alarm.silenced_until, *silenced_until), (expected, expected));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_disk_that_hangs_takes_one_thread_and_is_told_after_a_while() {
        let data = PathBuf::from("/data");
        let mut remembered = Remembered::default();
        let readable = Seen { is_readable: true, silenced_until: None };
        remembered.seen.insert(data.clone(), readable);
        let (end, ending) = tokio::sync::oneshot::channel::<()>();
        let hanging = tokio::spawn(async move {
            let _ended = ending.await;
            readable
        });
        remembered.open.insert(data.clone(), (Instant::now(), hanging));
        let now = Moment::default();
        for round in 0..20 {
            let seen = remembered.look(&data, Place::default(), now).await;
            // Each waits for two seconds.
            assert_eq!(seen.is_some(), round < 14, "{round}");
            assert_eq!(remembered.open.len(), 1);
        }
        end.send(()).expect("it waits");
        assert!(remembered.look(&data, Place::default(), now).await.is_some_and(|seen| seen.is_readable));
        assert!(remembered.open.is_empty());
    }
}
