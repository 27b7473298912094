//! Folders of the configuration in which nothing is protected, or not everything, in the words of a status. The disk of a folder may not be
//! mounted, or a file in it not be readable: then no database says that it isn't protected.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use seawall_core::{Description, Failure, Kind, LastError, Moment, Phase, Status};
use seawall_engines::alarms::{Keeper, Local, Place, judged};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::Instant;

use super::{NOTHING_FOUND, UNREAD};
use crate::config::DirectoryConfig;

/// What the status of a folder has for an engine.
pub const FOLDER: &str = "folder";

/// The code of a folder that isn't there, or can't be read.
const MISSING: &str = "agent.folder-missing";

/// The code of a folder with a database that can't be protected.
const UNPROTECTED: &str = "agent.unprotected";

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
    /// Since when nothing, or not all, of a folder is protected.
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
/// `unprotected` says what of a folder can't be protected, and why, and `place` where the silence of a folder is.
pub(crate) async fn statuses(
    directories: &[DirectoryConfig],
    sources: &[PathBuf],
    remembered: &mut Remembered,
    unprotected: impl Fn(&Path) -> BTreeMap<PathBuf, Failure>,
    place: impl Fn(&Path) -> Place,
    now: Moment,
) -> Vec<Status> {
    let mut all = Vec::with_capacity(directories.len());
    remembered.keep(directories);
    for config in directories {
        let is_protected = sources.iter().any(|source| source.starts_with(&config.dir));
        let unprotected = if is_protected { unprotected(&config.dir) } else { BTreeMap::new() };
        if is_protected {
            remembered.protected.insert(config.dir.clone());
        }
        let is_whole = is_protected && unprotected.is_empty();
        let seen = if is_whole { None } else { remembered.look(&config.dir, place(&config.dir), now).await };
        let failure = match seen {
            _ if is_whole => None,
            _ if is_protected => Some(partly(&config.dir, &unprotected)),
            Some(Seen { is_readable: true, .. }) if !remembered.protected.contains(&config.dir) => {
                Some(failure(&config.dir, Absence::Empty))
            }
            Some(Seen { is_readable: true, .. }) => Some(failure(&config.dir, Absence::Emptied)),
            _ => Some(failure(&config.dir, Absence::Missing)),
        };
        let since = match failure {
            None => {
                remembered.since.remove(&config.dir);
                now
            }
            Some(_) => *remembered.since.entry(config.dir.clone()).or_insert(now),
        };
        let local = Local { silenced_until: seen.and_then(|seen| seen.silenced_until), ..Local::default() };
        let phase = if is_protected { Phase::Protecting } else { Phase::Waiting };
        let status = status(config, phase, failure.map(|failure| LastError::new(&failure, since)), now);
        all.push(judged(status, Keeper::Running, config.template.judged(), local, now));
    }
    all
}

fn status(config: &DirectoryConfig, phase: Phase, error: Option<LastError>, now: Moment) -> Status {
    let folder = config.dir.display().to_string();
    let description = Description {
        name: folder.clone(),
        engine: FOLDER,
        source: Some(folder),
        vault: config.template.vault.to_string(),
    };
    Status { error, ..Status::new(description, phase, now) }
}

/// What to say of a folder of which a part isn't protected.
fn partly(folder: &Path, unprotected: &BTreeMap<PathBuf, Failure>) -> Failure {
    const NAMED: usize = 3;
    // What is known to be a database first.
    let (unread, known): (Vec<_>, Vec<_>) = unprotected.iter().partition(|(_, failure)| failure.code == UNREAD);
    let (code, kind) = if known.is_empty() { (UNREAD, Kind::Denied) } else { (UNPROTECTED, Kind::Refused) };
    let all = known.iter().chain(&unread);
    let named: Vec<String> = all
        .clone()
        .take(NAMED)
        .map(|(path, failure)| {
            let name = path.strip_prefix(folder).unwrap_or(path).display();
            format!("{name}: {} ({})", failure.cause, failure.code)
        })
        .collect();
    let more = match unprotected.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(", and {more} more (the log names each)"),
    };
    let cause = format!("not all of it is protected: {}{more}", named.join("; "));
    let next = all.clone().next().map(|(_, failure)| failure.next.clone()).unwrap_or_default();
    Failure::new(kind, code, folder.display().to_string(), cause, next)
}

/// What to say of a folder in which nothing is protected.
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
        let mut alarm = async |sources: &[PathBuf], unprotected: &BTreeMap<PathBuf, Failure>, now: i64| {
            let all =
                statuses(&directories, sources, &mut remembered, |_| unprotected.clone(), |_| silence.clone(), at(now))
                    .await;
            let [status] = &all[..] else { panic!("one folder") };
            assert_eq!((status.engine.as_str(), status.alarms.len() < 2), (FOLDER, true));
            status.alarms.first().map(|alarm| (alarm.code.clone(), alarm.severity.name(), alarm.since))
        };
        let told = |severity, since| Some(("alarm.folder".to_owned(), severity, at(since)));
        let none = BTreeMap::new();
        assert_eq!(alarm(&[], &none, 1).await, told("critical", 1));
        assert_eq!(alarm(&[], &none, 5).await, told("critical", 1));
        std::fs::create_dir(&data).expect("made");
        assert_eq!(alarm(&[place.path().join("data2/app.db")], &none, 6).await, told("warning", 1));
        assert_eq!(alarm(&app, &none, 7).await, None);
        let refused = |code| {
            let failure = Failure::new(Kind::Denied, code, "b.db", "why", "do it");
            BTreeMap::from([(data.join("b.db"), failure.clone()), (data.join("c.db"), failure)])
        };
        assert_eq!(alarm(&app, &refused(UNREAD), 8).await, told("warning", 8), "it may be no database");
        assert_eq!(alarm(&app, &refused("vault.url"), 8).await, told("critical", 8));
        assert_eq!(alarm(&app, &none, 8).await, None);
        assert_eq!(alarm(&[], &none, 9).await, told("critical", 9), "what was protected is gone");
    }

    #[test]
    fn what_is_said_of_a_part() {
        let failure = |code, cause: &str| Failure::new(Kind::Denied, code, "x", cause, format!("mend {code}"));
        let file = |name: &str, code, cause: &str| (Path::new("/d").join(name), failure(code, cause));
        let mut all = BTreeMap::from([file("a.db", UNREAD, "no"), file("x/b.db", "vault.url", "a name")]);
        let told = partly(Path::new("/d"), &all);
        assert_eq!((told.code, told.next.as_str()), (UNPROTECTED, "mend vault.url"));
        assert_eq!(told.cause, "not all of it is protected: x/b.db: a name (vault.url); a.db: no (agent.unread)");
        all.extend(["c", "d", "e"].map(|name| file(name, UNREAD, "no")));
        assert!(partly(Path::new("/d"), &all).cause.ends_with(", and 2 more (the log names each)"));
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
            let all =
                statuses(&directories, &[], &mut remembered, |_| BTreeMap::new(), |_| silence.clone(), at(now)).await;
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
