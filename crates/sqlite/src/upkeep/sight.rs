//! Looks at the vault again while a protection runs (I15): acknowledged objects may have disappeared.
//!
//! There are two depths. The *near* look lists the objects that a restore of the newest state needs, with some five
//! requests. It happens at most every [`Upkeep::sight_interval`], while changes are uploaded. The *whole* look lists
//! all levels and compares them with all known objects. It happens every [`Upkeep::validation_interval`], and when the
//! near look misses an object. If the vault is a local folder, the times of its folders tell at each sweep that names
//! came or went; then the look happens at once.
//!
//! There is no timer: the sweep asks [`Maintenance::look_is_due`]. A listing may be out of date. So an object that it
//! lacks is asked for by name before it counts as missing.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::stream::{self, StreamExt, TryStreamExt};
use seawall_core::{LastError, Moment};
use seawall_ltx::{Header, Txid};
use seawall_vault::Prefix;
use tokio::time::Instant;

use crate::catalog::{Catalog, Dated};
use crate::error::Error;
use crate::fetch::{Fetched, Reading};
use crate::headers::{is_locked, tells_nothing};
use crate::heads::Heads;
use crate::identity::{Lineage, Stamp};
use crate::known::{AHEAD, Depth, Maintenance, Sighted};
use crate::layout::{Layout, Level, Stored, file_key, level_prefix};
use crate::missing::{self, Sight};
use crate::options::Upkeep;
use crate::plan;
use crate::retention::Question;
use crate::survey::{list_dated, list_level};
use crate::together;
use crate::told::once_more;

/// Objects that a listing lacks and that are asked for by name.
const ASKED: usize = 64;

/// The shortest time between two looks while this process makes names itself: then a change of names says little about
/// others.
const OWN: Duration = Duration::from_secs(60);

/// File systems round the times of files.
const ROUNDED: Duration = Duration::from_secs(2);

/// After how long a vault from which something was lost is looked at again, whatever the settings.
const AFTER_A_LOSS: Duration = Duration::from_secs(3600);

/// The facts that decide whether to look.
#[derive(Debug, Clone, Copy)]
struct Facts {
    near: Duration,
    whole: Duration,
    /// Whether this process made or deleted an object since.
    changed: bool,
    /// Whether names came or went in a folder since.
    moved: bool,
    /// Whether the status tells of a loss.
    lost: bool,
}

/// Is it time to look?
fn due(upkeep: &Upkeep, facts: Facts) -> Option<Depth> {
    let passed = |interval: Option<Duration>, time: Duration| interval.is_some_and(|interval| time >= interval);
    // A loss that the status tells of must end when it is over, whatever the settings. Only a whole look ends a loss in the past.
    if passed(upkeep.validation_interval, facts.whole) || (facts.lost && facts.whole >= AFTER_A_LOSS) {
        return Some(Depth::Whole);
    }
    match (facts.moved, facts.changed) {
        _ if upkeep.sight_interval.is_none() => None,
        // By another process.
        (true, false) => Some(Depth::Whole),
        (true, true) => (facts.near >= OWN).then_some(Depth::Near),
        (false, changed) => (changed && passed(upkeep.sight_interval, facts.near)).then_some(Depth::Near),
    }
}

impl Maintenance {
    /// The vault was listed just now.
    pub(crate) fn sighted(&self, depth: Depth, trace: Option<u64>, changes: u64) {
        let (now, at) = (Instant::now(), self.clock.now());
        let mut state = self.state();
        let before = state.sighted.filter(|_| depth == Depth::Near);
        let whole = before.map_or(now, |before| before.whole);
        state.sighted = Some(Sighted { near: now, at, whole, trace, changes });
    }

    /// When what the newest state needs was last seen in the vault.
    pub(crate) fn seen_at(&self) -> Option<Moment> {
        self.state().sighted.map(|sighted| sighted.at)
    }

    /// The store's number for the state of this vault's folders. Blocks for a few system calls.
    pub(crate) fn trace(&self) -> Option<u64> {
        let layout = Layout::of(&self.vault);
        let prefixes: Vec<Prefix> = {
            let state = self.state();
            let used =
                |level: &Level| [Level::LOG, Level::BASE].contains(level) || !state.catalog.level(*level).is_empty();
            Level::all().filter(used).filter_map(|level| Prefix::new(level_prefix(layout, level)).ok()).collect()
        };
        self.vault.trace(&prefixes)
    }

    /// Whether a look is due, and at which depth. Blocks for a few system calls.
    pub(crate) fn look_is_due(&self) -> Option<Depth> {
        if self.is_blind() {
            return None;
        }
        let sighted = self.state().sighted?;
        let moved = self.upkeep.sight_interval.is_some() && self.trace() != sighted.trace;
        let (near, whole) = (sighted.near.elapsed(), sighted.whole.elapsed());
        let (changed, lost) = {
            let state = self.state();
            (state.changes != sighted.changes, state.loss.is_some())
        };
        due(&self.upkeep, Facts { near, whole, changed, moved, lost })
    }

    /// Checks on another thread whether the folder is there and whether a look is due. `news` reports it.
    pub(crate) fn ask_beside(self: &Arc<Self>, runtime: &tokio::runtime::Handle) {
        if self.asking.swap(true, Ordering::Relaxed) {
            return;
        }
        let upkeep = self.clone();
        runtime.spawn_blocking(move || {
            let due = upkeep.vault.check().is_err() || upkeep.look_is_due().is_some();
            upkeep.asking.store(false, Ordering::Relaxed);
            if due {
                upkeep.news.notify_one();
            }
        });
    }

    /// Whether all of our objects were seen in the vault lately.
    pub(crate) fn was_seen_lately(&self) -> bool {
        let state = self.state();
        let interval = self.upkeep.sight_interval.unwrap_or(Duration::MAX);
        state.sighted.is_some_and(|sighted| sighted.changes == state.changes && sighted.near.elapsed() < interval)
    }

    /// Looks at the vault, in which everything up to `newest` was acknowledged. Reports lost objects, and forgets them.
    ///
    /// # Errors
    /// [`Error::Lost`] if the newest state can't be restored any more, or with `strict` if any object was lost.
    /// [`Error::Stray`] with `strict` if another writer's object is in the way. Errors of the look itself.
    pub(crate) async fn look(
        self: &Arc<Self>,
        depth: Depth,
        (newest, lineage): (Option<Txid>, Lineage),
        strict: bool,
    ) -> Result<(), Error> {
        if self.is_blind() {
            return Ok(());
        }
        let changes = self.state().changes;
        let before = self.clone();
        let trace = crate::jobs::blocking(move || Ok(before.trace())).await?;
        let known = {
            let state = self.state();
            let mut known = state.catalog.clone();
            state.owed.iter().for_each(|dated| known.add(*dated));
            known
        };
        let chain = newest.and_then(|newest| plan::plan(&known.files(), newest).ok());
        if let (Depth::Near, Some(chain)) = (depth, &chain) {
            let (chain, seen) = (known_of(&known, chain), self.near(chain).await?);
            let other = self.others(&seen, lineage).await?;
            if missing::differing(&chain, &seen).is_empty() && other.is_empty() {
                return self.seen(Depth::Near, trace, changes, &seen, strict);
            }
        }
        let listed = list_dated(&self.vault).await?;
        let mut all: Vec<Dated> = listed.clone();
        let other = self.others(&listed, lineage).await?;
        all.retain(|dated| !other.contains(&dated.file));
        all.extend(self.hidden(&missing::differing(known.all(), &listed)).await?);
        let sight = {
            // An object that was made since is no stray, and an object that this process deleted since is no loss.
            let mut state = self.state();
            let owed = std::mem::take(&mut state.owed);
            let holds = |file: &Stored| state.catalog.holds(file) || owed.iter().any(|dated| dated.file == *file);
            let still = Catalog::new(known.all().filter(|dated| holds(&dated.file)).copied());
            let policy = Question {
                catalog: &still,
                policy: &self.upkeep.retention,
                levels: &self.upkeep.levels,
                pins: state.pins.as_ref().map_or(&[][..], |(_, pins)| pins),
                locks: &state.locks,
            };
            let sight = missing::judge(&still, newest, &all, &policy, self.clock.now().after(AHEAD));
            let gone = missing::differing(still.all(), &all);
            state.catalog.remove(&gone);
            state.distrusted.retain(|file| !gone.contains(file));
            state.distrusted.extend(
                gone.iter().filter(|gone| listed.iter().any(|dated| dated.file.key_parts() == gone.key_parts())),
            );
            sight
        };
        match sight {
            Sight::Whole => {
                if let Err(error) = self.belongs_together(&listed).await {
                    if !matches!(error, Error::Vault(_)) {
                        self.note_loss(Some(&error));
                        self.state().changes += 1;
                    }
                    return Err(error);
                }
                self.seen(Depth::Whole, trace, changes, &listed, strict)
            }
            Sight::Past(lost) => {
                let error = self.lost(&lost, "objects that are kept are missing or changed", false);
                self.note_loss(Some(&error));
                self.state().past = true;
                self.sighted(Depth::Whole, trace, changes);
                // Look again soon, to report the end of the loss.
                self.state().changes += 1;
                if strict { Err(error) } else { Ok(()) }
            }
            Sight::Newest(lost) => {
                let error = self.lost(
                    &lost,
                    "objects that had been acknowledged are missing or changed, and the newest state can't be restored",
                    true,
                );
                self.note_loss(Some(&error));
                self.state().past = false;
                self.state().changes += 1;
                Err(error)
            }
        }
    }

    /// Whether the newest state consists of objects of one history.
    async fn belongs_together(&self, listed: &[Dated]) -> Result<(), Error> {
        let files: Vec<Stored> = listed.iter().map(|dated| dated.file).collect();
        match plan::latest(&files) {
            Ok(Some(chain)) => together::prove(&Heads::of(&self.vault), &files, &chain).await.map(drop),
            // A stray object makes a gap, and is reported as such.
            Ok(None) | Err(_) => Ok(()),
        }
    }

    /// Notes that nothing is lost. Another writer's object is still reported.
    fn seen(
        self: &Arc<Self>,
        depth: Depth,
        trace: Option<u64>,
        changes: u64,
        listed: &[Dated],
        strict: bool,
    ) -> Result<(), Error> {
        let stray = {
            let mut state = self.state();
            let chain = plan::latest(&state.catalog.files()).ok().flatten().unwrap_or_default();
            state.heard = listed.iter().filter(|dated| chain.contains(&dated.file)).copied().collect();
            missing::stray(&state.catalog, listed)
        };
        self.sighted(depth, trace, changes);
        let stray = stray.map(|file| Error::Stray { object: self.vault.object(&file.key(Layout::of(&self.vault))) });
        // A near look can't tell that a loss in the past is over.
        let keeps = depth == Depth::Near && stray.is_none() && self.state().past;
        if !keeps {
            self.state().past = false;
            self.note_loss(stray.as_ref());
        }
        match stray {
            Some(error) => {
                self.state().changes += 1;
                if strict { Err(error) } else { Ok(()) }
            }
            None => Ok(()),
        }
    }

    /// Reports that the vault held less at the start than had been acknowledged: it ended at `newest`. The report stays until a
    /// look finds all objects that were made since. `None` if a loss is reported already.
    pub(crate) fn is_behind(&self, acknowledged: Txid, newest: Option<Txid>) -> Option<Error> {
        if self.state().loss.is_some() {
            return None;
        }
        let there = match newest {
            Some(newest) if newest < acknowledged => format!("it ends at {newest}"),
            Some(_) => "objects are missing or damaged".to_owned(),
            None => "it is empty".to_owned(),
        };
        let what = format!("{there}, and everything up to {acknowledged} had been acknowledged");
        let error = Error::Lost { vault: self.vault.url().to_owned(), what, newest: true };
        self.note_loss(Some(&error));
        let mut state = self.state();
        state.past = false;
        state.changes += 1;
        Some(error)
    }

    fn lost(&self, lost: &[Stored], what: &str, newest: bool) -> Error {
        for file in lost {
            tracing::error!(database = %self.name, object = %file.name(), "an object is missing from the vault, or isn't as it was written");
        }
        let first = lost.first().map(|file| format!(" ({} of them, the first is {})", lost.len(), file.name()));
        let what = format!("{what}{}", first.unwrap_or_default());
        Error::Lost { vault: self.vault.url().to_owned(), what, newest }
    }

    /// Keeps the loss for the status, until a later look finds all objects.
    fn note_loss(&self, error: Option<&Error>) {
        let mut state = self.state();
        if error.is_none() && state.loss.is_none() {
            return;
        }
        let noted: Option<LastError> = error.map(|error| {
            let failure = error.failure();
            let noted = once_more(state.loss.as_ref(), &failure, self.clock.now());
            if noted.count == 1 {
                tracing::error!(database = %self.name, code = failure.code, next = %failure.next, "{failure}");
            }
            noted
        });
        if noted.is_none() {
            tracing::info!(database = %self.name, "everything that is kept was seen in the vault again");
        }
        state.loss = noted;
        drop(state);
        self.news.notify_one();
    }

    /// Lists the objects that a restore of the newest state needs, and those after it: a request for each level of the
    /// chain.
    async fn near(&self, chain: &[Stored]) -> Result<Vec<Dated>, Error> {
        let newest = chain.last().map(|file| Stored { level: Level::LOG, min: file.max, ..*file });
        let level = |level: Level| {
            let first = chain.iter().filter(|file| file.level == level).min_by_key(|file| (file.min, file.max));
            let first = first.copied().or(newest.filter(|newest| newest.level == level));
            let before = first.map(|first| (first.min, Txid(first.max.0.saturating_sub(1))));
            let after = before.map(|(min, max)| file_key(Layout::of(&self.vault), level, min, max));
            async move { list_level(&self.vault, level, after.as_ref()).await }
        };
        let levels: Vec<Level> =
            Level::all().filter(|l| *l == Level::LOG || chain.iter().any(|file| file.level == *l)).collect();
        let listed: Vec<Vec<Dated>> = stream::iter(levels.into_iter().map(level)).buffered(10).try_collect().await?;
        Ok(listed.concat())
    }

    /// Asks for missing objects by name. Returns the objects that exist after all.
    async fn hidden(&self, gone: &[Stored]) -> Result<Vec<Dated>, Error> {
        let ask = |file: Stored| async move {
            let meta = self.vault.head(&file.key(Layout::of(&self.vault))).await?;
            let there = meta.filter(|meta| meta.size == file.size);
            Ok::<_, Error>(there.map(|meta| Dated { file, moment: meta.modified, written: meta.modified }))
        };
        let newest = gone.iter().rev().take(ASKED).copied();
        let found: Vec<Option<Dated>> = stream::iter(newest.map(ask)).buffered(8).try_collect().await?;
        Ok(found.into_iter().flatten().collect())
    }

    /// Objects that were seen before and now have a version that isn't sound, or belongs to another history.
    async fn others(&self, listed: &[Dated], lineage: Lineage) -> Result<Vec<Stored>, Error> {
        let heard = self.state().heard.clone();
        let same = |dated: &Dated| listed.iter().find(|other| other.file == dated.file).map(|other| (*dated, *other));
        let changed = heard.iter().filter_map(same).filter(|(before, now)| match Layout::of(&self.vault) {
            // The time of change moves when a file is linked or its mode is set.
            Layout::Files => now.moment.since(before.moment).max(before.moment.since(now.moment)) > ROUNDED,
            Layout::Objects => before.written != now.written,
        });
        let mut others = Vec::new();
        for (_, now) in changed {
            match self.read_again(now.file).await {
                Ok(header) if Stamp::read(&header).is_none_or(|stamp| stamp.lineage == lineage) => {}
                Ok(_) => others.push(now.file),
                Err(error) if tells_nothing(&error) || is_locked(&error) => others.push(now.file),
                Err(error) => return Err(error),
            }
        }
        Ok(others)
    }

    /// Reads an object to its end, with every checksum. Objects are never rewritten, so a new version is rare, and the
    /// header alone would hide a changed byte after it.
    async fn read_again(&self, file: Stored) -> Result<Header, Error> {
        let mut reading: Reading = Reading::new(&self.vault, Fetched::streamed(file), 1);
        while reading.next().await?.is_some() {}
        Ok(reading.finish()?.header)
    }
}

fn known_of(known: &Catalog, chain: &[Stored]) -> Vec<Dated> {
    known.all().filter(|dated| chain.contains(&dated.file)).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_to_look() {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        let upkeep = Upkeep::default();
        let facts = |near, whole, changed, moved| Facts {
            near: minutes(near),
            whole: minutes(whole),
            changed,
            moved,
            lost: false,
        };
        let lost = |near, changed| Facts { lost: true, ..facts(near, near, changed, false) };
        for (facts, expected) in [
            (facts(9, 9, true, false), None),
            (facts(10, 60, true, false), Some(Depth::Near)),
            (facts(600, 600, false, false), None),
            (facts(600, 1440, false, false), Some(Depth::Whole)),
            (facts(1, 1440, true, true), Some(Depth::Whole)),
            // A folder in which names came or went: our own, or another process's.
            (facts(0, 0, true, true), None),
            (facts(1, 1, true, true), Some(Depth::Near)),
            (facts(0, 0, false, true), Some(Depth::Whole)),
            (lost(59, false), None),
            (lost(60, false), Some(Depth::Whole)),
            // Near looks, which changes bring about, don't put it off.
            (Facts { lost: true, ..facts(1, 60, true, false) }, Some(Depth::Whole)),
        ] {
            assert_eq!(due(&upkeep, facts), expected, "{facts:?}");
        }
        let off = Upkeep { sight_interval: None, validation_interval: None, ..upkeep };
        assert_eq!(due(&off, facts(9999, 9999, true, true)), None);
        assert_eq!([59, 60].map(|near| due(&off, lost(near, true))), [None, Some(Depth::Whole)]);
    }
}
