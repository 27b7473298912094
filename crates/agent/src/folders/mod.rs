//! Follows folders of databases: databases that come, go, or get another name while the process runs.
//!
//! Events say where to look; the file system says what is there (`look`). A sweep looks everywhere from time to time,
//! so that a lost event only delays a change. A look opens a file only if no engine can have it open, because closing a
//! descriptor would drop the engine's locks on the file.

pub(crate) mod absent;
mod changes;
mod events;
mod followers;
mod look;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use seawall_core::{Backoff, Failure, Kind, Shutdown};
use tokio::time::Instant;

use self::changes::{Changes, changes};
use self::events::{Events, Heard};
pub(crate) use self::followers::Followers;
use self::followers::{Asks, asked};
use self::look::{Identity, Look, Verdict, look, walk};
use crate::config::{DatabaseConfig, DirectoryConfig, SourceName};
use crate::fleet::{DUPLICATE, Fleet, Looking, duplicate};

/// Events collect for this long before a look: a file is made in several steps, and a thousand files may come together.
const CALM: Duration = Duration::from_millis(20);

/// A file that isn't a database yet is looked at again after this time, which doubles from the first to the last.
const AGAIN: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1));

/// For how long such a file is looked at again. After that an event or the sweep finds it.
const YOUNG: Duration = Duration::from_secs(60);

/// How often a folder without events is looked at: a folder on a network, or one that doesn't exist yet.
const POLL: Duration = Duration::from_secs(1);

/// The code of a warning: nothing is found in a folder.
const NOTHING_FOUND: &str = "agent.nothing-found";

/// The code of a file that may be a database, and can't be read.
const UNREAD: &str = "agent.unread";

/// How long the protection of a file that is gone may take to end.
const ENDING: Duration = Duration::from_secs(5);

/// Follows one folder.
pub(crate) struct Follower {
    config: Arc<DirectoryConfig>,
    /// What was found, by path in the folder.
    found: BTreeMap<PathBuf, Identity>,
    /// Files that may become databases, and since when they are waited for.
    young: BTreeMap<PathBuf, Instant>,
    events: Option<Events>,
    /// Requests to look everywhere.
    asks: Asks,
    /// Whether the folder could be read when all of it was looked at last.
    is_there: bool,
    sweep: Duration,
    /// What can't be protected, and why.
    unprotected: BTreeMap<PathBuf, Failure>,
}

impl Follower {
    /// A follower of a folder, which looks at all of it once in each `sweep`.
    pub(crate) fn new(config: DirectoryConfig, sweep: Duration) -> Self {
        let config = Arc::new(config);
        Self {
            config,
            found: BTreeMap::new(),
            young: BTreeMap::new(),
            events: None,
            asks: None,
            is_there: true,
            sweep,
            unprotected: BTreeMap::new(),
        }
    }

    /// The databases that are in the folder now. If the folder is watched, no change is missed from here on.
    pub(crate) async fn begin(&mut self) -> Vec<DatabaseConfig> {
        if self.config.watch {
            self.events = Events::open();
        }
        let found = self.changed(None, HashSet::new(), None).await;
        let (folder, count) = (self.config.dir.display(), found.new.len());
        tracing::info!(%folder, databases = count, watch = self.config.watch, "a folder");
        if count == 0 {
            let what = if self.is_there { "there is no database in it" } else { "it isn't there, or can't be read" };
            tracing::warn!(%folder, code = NOTHING_FOUND, "nothing of this folder is protected: {what}");
        }
        let mut usable = Vec::new();
        for relative in &found.new {
            match self.of(relative) {
                Ok(config) => usable.push(config),
                Err(failure) => drop(self.unprotected.insert(relative.clone(), failure)),
            }
        }
        usable
    }

    /// Whether changes of the folder are followed.
    pub(crate) fn follows(&self) -> bool {
        self.config.watch
    }

    /// The databases that [`Self::begin`] found, and that can't be protected.
    pub(crate) fn take_unusable(&mut self) -> Vec<Failure> {
        std::mem::take(&mut self.unprotected).into_values().filter(|failure| failure.code != UNREAD).collect()
    }

    /// Lets the fleet tell what of the folder can't be protected, once the fleet has taken in what [`Self::begin`] found.
    pub(crate) fn tell_beginning(&mut self, fleet: &Fleet) {
        for relative in self.found.keys() {
            let Ok(database) = self.config.database(relative) else { continue };
            if !fleet.holds(&database.source()) {
                let failure = duplicate("its name, or its place in a vault,", "another database", &database.source());
                self.unprotected.insert(relative.clone(), failure);
            }
        }
        self.tell(fleet);
    }

    /// Lets the fleet tell what of the folder can't be protected.
    pub(crate) fn tell(&self, fleet: &Fleet) {
        let path = |(relative, failure): (&PathBuf, &Failure)| (self.config.dir.join(relative), failure.clone());
        fleet.tell_unprotected(&self.config.dir, self.unprotected.iter().map(path).collect());
    }

    /// Follows the folder until the shutdown.
    pub(crate) async fn follow(mut self, fleet: Fleet, shutdown: Shutdown) {
        let mut again = AGAIN;
        let mut last_sweep = Instant::now();
        loop {
            let evented = self.events.as_ref().is_some_and(Events::is_complete);
            let until_sweep = (last_sweep + self.sweep).saturating_duration_since(Instant::now());
            let wait = if evented { until_sweep } else { POLL };
            let wait = if self.young.is_empty() { wait } else { wait.min(again.wait()) };
            let (heard, ask) = tokio::select! {
                () = shutdown.graceful() => return,
                heard = hear(self.events.as_mut()) => (heard, None),
                ask = asked(&mut self.asks) => (Heard::Everything, Some(ask)),
                () = tokio::time::sleep(wait) => (Heard::Nothing, None),
            };
            let heard = match heard {
                Heard::Nothing => Heard::Nothing,
                heard => {
                    tokio::time::sleep(CALM).await;
                    heard.and(self.events.as_mut().map_or(Heard::Nothing, Events::take))
                }
            };
            let swept = !evented || last_sweep.elapsed() >= self.sweep;
            let where_to = match heard {
                Heard::Everything => None,
                _ if swept => None,
                Heard::Paths(paths) => Some(self.relevant(paths)),
                Heard::Nothing => Some(self.young.keys().cloned().collect()),
            };
            if where_to.is_none() {
                last_sweep = Instant::now();
            }
            if where_to.as_ref().is_some_and(BTreeSet::is_empty) {
                continue;
            }
            let before = self.young.len();
            self.catch_up(&fleet, where_to).await;
            if let Some(ask) = ask {
                // The asker may have given up waiting.
                let _told = ask.send(self.offer(&fleet).await);
            }
            match self.young.len() > before {
                true => again.worked(),
                false => drop(again.failed()),
            }
        }
    }

    /// What of the paths that events named can be about a database. An event on a side file is about its database,
    /// which matters only as long as that is none yet.
    fn relevant(&self, paths: BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
        let about = |path: PathBuf| {
            let name = path.file_name()?.to_str()?;
            let owner = ["-wal", "-shm", "-journal"].iter().find_map(|end| name.strip_suffix(end));
            match owner {
                Some(owner) => Some(path.with_file_name(owner)).filter(|owner| self.young.contains_key(owner)),
                None => (self.config.is_meant(name) || self.config.enters(name)).then_some(path),
            }
        };
        paths.into_iter().filter_map(about).collect()
    }

    /// Looks at `paths`, or everywhere, and brings the fleet in line with what is there.
    async fn catch_up(&mut self, fleet: &Fleet, paths: Option<BTreeSet<PathBuf>>) {
        let everywhere = paths.is_none();
        let changes = self.look_around(fleet, paths).await;
        // First the databases that are gone, so that a renamed file never belongs to two databases.
        let gone = changes.gone.iter().map(|relative| {
            let path = self.config.dir.join(relative);
            async move {
                let ended = fleet.remove(&SourceName::Path(path.clone()), ENDING).await;
                tracing::info!(database = %path.display(), "gone: no longer protected");
                if let Err(failure) = ended {
                    tracing::debug!(database = %path.display(), %failure, "its protection ended badly");
                }
            }
        });
        join_all(gone).await;
        for relative in &changes.new {
            let config = match self.of(relative) {
                Ok(config) => config,
                Err(failure) => {
                    self.unprotected.insert(relative.clone(), failure);
                    continue;
                }
            };
            let (name, source) = (config.name.clone(), config.source());
            match fleet.find_new(config).await {
                Ok(()) => {}
                // Named in the configuration as well, or registered. Otherwise another file has its name or its place.
                Err(failure) if failure.code == DUPLICATE && fleet.holds(&source) => {
                    tracing::debug!(database = name, %failure, "found, and known already");
                }
                Err(failure) => {
                    tracing::error!(
                        database = name,
                        code = failure.code,
                        next = failure.next,
                        "found, and not protected: {failure}"
                    );
                    self.unprotected.insert(relative.clone(), failure);
                }
            }
        }
        for relative in &changes.replaced {
            // A running engine notices a replaced file by itself.
            let path = self.config.dir.join(relative);
            if let Err(failure) = fleet.start(&SourceName::Path(path.clone())).await {
                tracing::debug!(database = %path.display(), %failure, "replaced, and not started");
            }
        }
        let is_member = |relative: &Path| {
            let database = self.config.database(relative);
            database.is_ok_and(|database| fleet.holds(&database.source()))
        };
        self.unprotected.retain(|relative, failure| failure.code == UNREAD || !is_member(relative));
        self.tell(fleet);
        if everywhere {
            for path in fleet.unopened_in(&self.config.dir) {
                if let Err(failure) = fleet.start(&SourceName::Path(path.clone())).await {
                    tracing::debug!(database = %path.display(), %failure, "it still can't be opened");
                }
            }
        }
    }

    /// The same as [`Follower::changed`], in a fleet.
    async fn look_around(&mut self, fleet: &Fleet, paths: Option<BTreeSet<PathBuf>>) -> Changes {
        let looking = fleet.look_into(&self.config.dir);
        let members = fleet.all().into_iter().filter_map(|member| member.config.path().map(Path::to_owned)).collect();
        self.changed(paths, members, Some(looking)).await
    }

    /// Looks at `paths`, or everywhere, and takes note of what changed since the last look.
    async fn changed(
        &mut self,
        paths: Option<BTreeSet<PathBuf>>,
        members: HashSet<PathBuf>,
        looking: Option<Looking>,
    ) -> Changes {
        let everywhere = paths.is_none();
        let (config, known) = (self.config.clone(), self.found.values().copied().collect::<HashSet<_>>());
        let events = self.events.take();
        let job = move || {
            let mut events = events;
            let known = Look::new(config.dir.clone(), members, known, looking);
            let mut verdicts = BTreeMap::new();
            let all = paths.unwrap_or_else(|| BTreeSet::from([PathBuf::new()]));
            for relative in all {
                match look(&config, &known, &relative) {
                    Verdict::Folder => walk(&config, &known, &relative, events.as_mut(), &mut verdicts),
                    verdict => drop(verdicts.insert(relative, verdict)),
                }
            }
            (events, verdicts)
        };
        let Ok((events, verdicts)) = tokio::task::spawn_blocking(job).await else { return Changes::default() };
        self.events = events;
        if everywhere {
            self.is_there = !verdicts.contains_key(Path::new(""));
        }
        let changes = changes(&self.found, &verdicts, everywhere);
        for relative in &changes.gone {
            self.found.remove(relative);
        }
        if everywhere {
            self.unprotected.retain(|relative, _| verdicts.contains_key(relative));
        }
        let now = Instant::now();
        for (relative, verdict) in verdicts {
            match (verdict, self.unprotected.get(&relative).map(|failure| failure.code == UNREAD)) {
                (Verdict::Denied, None) => {
                    let failure = unread(&self.config.dir.join(&relative));
                    tracing::warn!(code = failure.code, next = failure.next, "not protected: {failure}");
                    self.unprotected.insert(relative.clone(), failure);
                }
                (Verdict::Denied | Verdict::Unseen, Some(_)) | (Verdict::Database(_), Some(false)) | (_, None) => {}
                (_, Some(_)) => drop(self.unprotected.remove(&relative)),
            }
            match verdict {
                Verdict::Database(identity) => {
                    self.young.remove(&relative);
                    self.found.insert(relative, identity);
                }
                Verdict::NotYet | Verdict::Denied => drop(self.young.entry(relative).or_insert(now)),
                Verdict::Gone | Verdict::Other | Verdict::Folder => drop(self.young.remove(&relative)),
                // It is looked at again.
                Verdict::Unseen => {}
            }
        }
        self.young.retain(|_, since| since.elapsed() < YOUNG);
        changes
    }

    fn of(&self, relative: &Path) -> Result<DatabaseConfig, Failure> {
        self.config.database(relative).inspect_err(|failure| {
            tracing::error!(code = failure.code, next = failure.next, "found, and not protected: {failure}");
        })
    }
}

/// The databases that are in a folder now, for a command that looks at them, and why others can't be protected. No event is waited for.
pub async fn databases_in(config: &DirectoryConfig) -> (Vec<DatabaseConfig>, Vec<Failure>) {
    let mut follower = Follower::new(config.clone(), Duration::MAX);
    let found = follower.changed(None, HashSet::new(), None).await;
    let mut unprotected: Vec<Failure> = follower.unprotected.into_values().collect();
    let mut usable = Vec::new();
    for relative in &found.new {
        match follower.config.database(relative) {
            Ok(database) => usable.push(database),
            Err(failure) => unprotected.push(failure),
        }
    }
    (usable, unprotected)
}

/// Why a file or a folder isn't protected that our user may not read.
fn unread(path: &Path) -> Failure {
    let cause = "this user may not read it, so it isn't protected if it is a database, or holds some";
    let next = "let the user of the process read and write it (its owner, group and mode: ls -ld); a pattern can leave out a file that is no database";
    Failure::new(Kind::Denied, UNREAD, path.display().to_string(), cause, next)
}

async fn hear(events: Option<&mut Events>) -> Heard {
    match events {
        Some(events) => events.next().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
