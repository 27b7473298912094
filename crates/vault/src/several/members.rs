//! The vaults of one database and what is known of each: whether it is in step, since when it is not, and what it
//! misses.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use seawall_core::{Clock, Limit, Moment};
use tokio::sync::{Notify, OnceCell, RwLock};
use tokio::task::AbortHandle;

use super::Settings;
use super::judge::Judge;
use super::lately::Lately;
use super::prints::{Newest, Print, telling};
use super::record::{self, Differing, Noted, Record};
use crate::{Digest, Error, ObjectKey, Scheme, Store, Throttle, Vault};

/// The most names that are noted of one vault. What is beyond stays in a vault that was away, and is reported.
const MOST_NAMES: usize = 20_000;

/// Written names with their content, to know our own version again when another vault leads.
const MOST_VERSIONS: usize = 64;

/// One vault.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) vault: Vault,
    /// Whether it keeps what is deleted in the others.
    pub(crate) keeps: AtomicBool,
    /// Whether the server behind it was asked how it handles conditions.
    pub(crate) probed: OnceCell<()>,
}

/// What holds several vaults together. The store and the tasks that let a vault catch up share it.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) members: Vec<Member>,
    pub(crate) scheme: Scheme,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) throttle: Option<Throttle>,
    /// What the engine knows of whole histories.
    pub(crate) judge: Option<Arc<dyn Judge>>,
    record: Option<PathBuf>,
    /// Whether the record is written, and not only read.
    notes: bool,
    state: Mutex<State>,
    /// Writers share it; a vault that comes back in step has it alone.
    pub(crate) gate: RwLock<()>,
    /// Writes over an object come one after the other, so that every vault has the last one.
    pub(crate) overwriting: tokio::sync::Mutex<()>,
    /// Held while the vaults are compared; true once they were.
    pub(crate) started: tokio::sync::Mutex<bool>,
    /// One save of the record at a time, so that an older state never replaces a newer one.
    saving: tokio::sync::Mutex<()>,
    pub(crate) tasks: Mutex<Vec<Option<AbortHandle>>>,
    /// How often each vault in step is looked at.
    pub(crate) look: Option<Duration>,
    /// By what looks of many databases are spread.
    pub(crate) seed: u64,
    looker: Mutex<Option<AbortHandle>>,
    /// An object was streamed: a good moment to look at the vaults.
    pub(crate) streamed: Notify,
    /// Where vaults catch up: the runtime of the first call.
    pub(crate) runtime: OnceLock<tokio::runtime::Handle>,
}

/// What changes.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) standings: Vec<Standing>,
    /// Names that a write or a deletion has to do with now, or was cut off.
    pub(crate) unsettled: BTreeMap<ObjectKey, Unsettled>,
    pub(crate) overwritten: BTreeSet<ObjectKey>,
    pub(crate) versions: BTreeMap<ObjectKey, Digest>,
    /// The newest acknowledged name of each folder.
    pub(crate) newest: Newest,
    /// What was acknowledged lately.
    pub(crate) lately: Lately,
    /// Names beyond ours that are no strangers.
    pub(crate) judged: BTreeSet<ObjectKey>,
    /// What the record said, until the vaults were compared.
    pub(crate) before: Option<Record>,
    /// Why there is a record that can't be read.
    pub(crate) unreadable: Option<String>,
    /// Whether no record told at the first start which vaults are the database's, and not all could be compared since.
    pub(crate) unproved: bool,
}

/// What is done to a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// It is made, if it isn't there.
    Create,
    /// It is made or written over.
    Overwrite,
    /// It is deleted.
    Delete,
}

/// Work on a name that is not known to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unsettled {
    pub(crate) work: Work,
    /// The digest of what is written, where it is known.
    pub(crate) digest: Option<Digest>,
    /// The print of a streamed object, once all of it was sent.
    pub(crate) print: Option<Print>,
    /// Whether a task is at it.
    pub(crate) running: bool,
}

/// How one vault stands.
#[derive(Debug, Clone, Default)]
pub(crate) struct Standing {
    pub(crate) behind: Option<Behind>,
    /// Objects and bytes that could not be copied to it, because no key at hand opens them.
    pub(crate) sealed: Option<(u64, u64)>,
    /// The identity of an encrypted vault when it was in step.
    pub(crate) identity: Option<String>,
    /// When it was found to lack what it held before.
    pub(crate) set_back: Option<Moment>,
    /// The last object that was written to it, and when.
    pub(crate) last: Option<(ObjectKey, Moment)>,
    /// When a look found last that it holds what was acknowledged.
    pub(crate) confirmed: Option<tokio::time::Instant>,
}

/// A vault that doesn't hold everything.
#[derive(Debug, Clone)]
pub(crate) struct Behind {
    pub(crate) since: Moment,
    pub(crate) error: Option<Error>,
    /// Whether the record began without it.
    pub(crate) unmet: bool,
    /// Some of the objects that it held when it was in step last.
    pub(crate) held: BTreeSet<ObjectKey>,
    /// The newest ones of these, with their prints.
    pub(crate) newest: Newest,
    /// Names that were deleted elsewhere meanwhile.
    pub(crate) deleted: BTreeSet<ObjectKey>,
    /// Names under which an unfinished write may have left an object with this digest in it. That of a streamed one isn't known.
    pub(crate) unfinished: BTreeMap<ObjectKey, Option<Digest>>,
    /// Names that were written since the last comparison began.
    pub(crate) recent: BTreeSet<ObjectKey>,
    /// Whether `recent` is complete.
    pub(crate) complete: bool,
    /// Objects and bytes that it lacks, once it was compared.
    pub(crate) lacks: Option<(u64, u64)>,
}

impl Behind {
    pub(crate) fn new(since: Moment, error: Option<Error>) -> Self {
        let (held, deleted, unfinished, recent) = Default::default();
        let newest = Newest::default();
        Self { since, error, unmet: false, held, newest, deleted, unfinished, recent, complete: true, lacks: None }
    }
}

impl Behind {
    /// Keeps at most so many deleted names: first go those that are newer than all it held, which it can have only by an unfinished write.
    fn bound_deleted(&mut self, most: usize) {
        if self.deleted.len() <= most {
            return;
        }
        let Self { deleted, newest, unfinished, .. } = self;
        let is_newer = |key: &ObjectKey| {
            let newest = telling(key).and_then(|folder| newest.of(folder));
            newest.is_some_and(|newest| newest < key) && !unfinished.contains_key(key)
        };
        deleted.retain(|key| !is_newer(key));
        while deleted.len() > most {
            deleted.pop_first();
        }
    }
}

/// The state of one vault of several, for people and machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberState {
    /// Its URL without secrets.
    pub url: String,
    /// Whether it holds everything that was acknowledged, but for `objects_left` that no key at hand opens.
    pub in_step: bool,
    /// Whether it is read first and decides who may write.
    pub leads: bool,
    /// Since when it is behind.
    pub behind_since: Option<Moment>,
    /// What keeps it behind.
    pub error: Option<Error>,
    /// The name of the last object that was written to it, and when.
    pub last: Option<(String, Moment)>,
    /// When it was found last that it lacks what it held before: it was emptied, or set back to an earlier state.
    pub set_back: Option<Moment>,
    /// Objects that it lacks, once it was compared.
    pub objects_left: Option<u64>,
    /// Bytes of these objects.
    pub bytes_left: Option<u64>,
    /// Requests to it, and bytes.
    pub requests: seawall_core::Requests,
    /// What it can't do, as far as this process knows.
    pub limits: Vec<Limit>,
}

impl Shared {
    pub(crate) fn new(
        members: Vec<Member>,
        Settings { record, notes, clock, judge, look }: Settings,
        throttle: Option<Throttle>,
        seed: u64,
    ) -> Self {
        let scheme = members.first().map_or(Scheme::File, |member| member.vault.scheme());
        let state = State { standings: vec![Standing::default(); members.len()], ..State::default() };
        let tasks = Mutex::new(members.iter().map(|_| None).collect());
        Self {
            members,
            scheme,
            clock,
            throttle,
            judge,
            record,
            notes,
            state: Mutex::new(state),
            gate: RwLock::default(),
            overwriting: tokio::sync::Mutex::default(),
            started: tokio::sync::Mutex::default(),
            saving: tokio::sync::Mutex::default(),
            tasks,
            look,
            seed,
            looker: Mutex::default(),
            streamed: Notify::new(),
            runtime: OnceLock::new(),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        // The state is consistent between any two statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The task that looks at the vaults now and then.
    pub(crate) fn looker(&self) -> MutexGuard<'_, Option<AbortHandle>> {
        self.looker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes which encrypted vault is at a place.
    pub(crate) fn note_identity(&self, i: usize, identity: Option<String>) {
        if let Some(standing) = self.state().standings.get_mut(i) {
            standing.identity = identity;
        }
    }

    /// The error of a place where another encrypted vault is than the one that was in step.
    pub(crate) fn other_identity(&self, i: usize) -> Option<Error> {
        let noted = self.state().standings.get(i).and_then(|standing| standing.identity.clone());
        is_other_vault(self.vault(i), noted.as_deref())
    }

    /// Notes it if a vault that is behind lacks what it held when it was in step, and what wasn't deleted since.
    pub(crate) fn note_loss<'a>(&self, i: usize, mut missing: impl Iterator<Item = &'a ObjectKey>) {
        let lost = {
            let mut state = self.state();
            let state = &mut *state;
            let Some(behind) = state.standings.get_mut(i).and_then(|standing| standing.behind.as_mut()) else { return };
            let held = std::mem::take(&mut behind.held);
            missing.any(|key| held.contains(key) && state.lately.has(key))
        };
        if lost && !self.keeps(i) {
            self.set_back(i);
        }
    }

    /// Notes that a name beyond ours is no stranger's.
    pub(crate) fn judged(&self, key: &ObjectKey) {
        let mut state = self.state();
        state.judged.insert(key.clone());
        while state.judged.len() > MOST_VERSIONS {
            state.judged.pop_first();
        }
    }

    /// Notes that a vault lacks what it held before.
    pub(crate) fn set_back(&self, i: usize) {
        let now = self.clock.now();
        if let Some(standing) = self.state().standings.get_mut(i) {
            standing.set_back = Some(now);
        }
    }

    /// The vaults in step, the leading one first.
    pub(crate) fn in_step(&self) -> Vec<usize> {
        let state = self.state();
        let standings = state.standings.iter().enumerate();
        standings.filter(|(_, standing)| standing.behind.is_none()).map(|(i, _)| i).collect()
    }

    pub(crate) fn member(&self, i: usize) -> &Member {
        // Numbers come from this list only.
        &self.members[i]
    }

    pub(crate) fn vault(&self, i: usize) -> &Vault {
        &self.member(i).vault
    }

    pub(crate) fn store(&self, i: usize) -> &Arc<dyn Store> {
        &self.vault(i).inner.store
    }

    /// Whether a vault keeps what is deleted in the others.
    pub(crate) fn keeps(&self, i: usize) -> bool {
        self.member(i).keeps.load(Ordering::Relaxed)
    }

    /// A vault refuses deletions, and keeps everything from now on.
    pub(crate) fn keeps_from_now_on(&self, i: usize) {
        if !self.member(i).keeps.swap(true, Ordering::Relaxed) {
            let vault = self.vault(i).url();
            tracing::warn!(vault, "this vault doesn't allow deletions: it keeps what the others delete");
        }
    }

    /// The error of a database none of whose leading vaults can be reached.
    pub(crate) fn nobody(&self) -> Error {
        let cause = "no vault that holds everything can be reached".to_owned();
        Error::Unavailable { object: self.all_urls(), cause, retryable: true }
    }

    /// The URLs of all vaults.
    pub(crate) fn all_urls(&self) -> String {
        self.members.iter().map(|member| member.vault.url()).collect::<Vec<_>>().join(", ")
    }

    /// Notes that a vault is behind from now on, unless no other one is in step. Returns whether it is behind.
    pub(crate) fn leave(&self, i: usize, error: &Error) -> bool {
        let mut state = self.state();
        let others = state.standings.iter().enumerate().filter(|(j, standing)| *j != i && standing.behind.is_none());
        if others.count() == 0 {
            return state.standings.get(i).is_some_and(|standing| standing.behind.is_some());
        }
        self.falls(&mut state, i, Some(error.clone()));
        true
    }

    /// Notes that a vault is behind from now on. Returns whether it wasn't before.
    pub(crate) fn fell_behind(&self, i: usize, error: Option<Error>) -> bool {
        self.falls(&mut self.state(), i, error)
    }

    fn falls(&self, state: &mut State, i: usize, error: Option<Error>) -> bool {
        let now = self.clock.now();
        let (held, newest) = (state.lately.names(), state.newest.clone());
        let Some(standing) = state.standings.get_mut(i) else { return false };
        match &mut standing.behind {
            Some(behind) => {
                behind.error = error.or(behind.error.take());
                false
            }
            None => {
                // It may never have got some of them.
                let held = if standing.sealed.is_some() { BTreeSet::new() } else { held };
                standing.behind = Some(Behind { held, newest, ..Behind::new(now, error.clone()) });
                let (vault, differs) = (self.vault(i).url(), matches!(error, Some(Error::Differs { .. })));
                let cause = error.map(|error| error.to_string()).unwrap_or_default();
                match differs {
                    true => tracing::error!(vault, code = "vault.differs", "this vault is left alone: {cause}"),
                    false => tracing::warn!(vault, "this vault is behind, and catches up by itself: {cause}"),
                }
                true
            }
        }
    }

    /// Begins work on names, which the record has before any vault is asked.
    pub(crate) async fn begin(&self, keys: &[ObjectKey], work: Work, digest: Option<Digest>) {
        {
            let mut state = self.state();
            for key in keys {
                state.unsettled.insert(key.clone(), Unsettled { work, digest, print: None, running: true });
            }
            if work == Work::Overwrite {
                state.overwritten.extend(keys.iter().cloned());
            }
        }
        self.save().await;
    }

    /// Work on names was done: every vault in step has it. Vaults that are behind will need it.
    ///
    /// `print`: of the object that was made.
    pub(crate) fn done(&self, keys: &[ObjectKey], work: Work, print: Option<Print>) {
        let now = self.clock.now();
        let mut state = self.state();
        for key in keys {
            state.unsettled.remove(key);
            match (work, &print) {
                (Work::Create, Some(print)) => {
                    state.newest.note(key, print.clone());
                    state.lately.note(key, print.clone());
                }
                (Work::Create, None) => {}
                (Work::Overwrite | Work::Delete, _) => {
                    state.newest.forget(key);
                    state.lately.forget(key);
                }
            }
        }
        for (standing, member) in state.standings.iter_mut().zip(&self.members) {
            if standing.behind.is_none() && standing.identity.is_none() {
                standing.identity = member.vault.identity();
            }
            match (&mut standing.behind, work) {
                (Some(behind), Work::Delete) => behind.deleted.extend(keys.iter().cloned()),
                (Some(behind), _) => behind.recent.extend(keys.iter().cloned()),
                (None, Work::Delete) => {}
                (None, _) => standing.last = keys.last().map(|key| (key.clone(), now)),
            }
            if let Some(behind) = &mut standing.behind {
                behind.bound_deleted(MOST_NAMES);
                if behind.recent.len() > MOST_NAMES {
                    behind.recent.clear();
                    behind.complete = false;
                }
            }
        }
    }

    /// The work on names was cut off, or failed everywhere.
    pub(crate) fn cut_off(&self, keys: &[ObjectKey]) {
        let mut state = self.state();
        for key in keys {
            if let Some(unsettled) = state.unsettled.get_mut(key) {
                unsettled.running = false;
            }
        }
    }

    /// Remembers what we wrote over an object.
    pub(crate) fn remember(&self, key: &ObjectKey, digest: Digest) {
        let mut state = self.state();
        if state.versions.len() >= MOST_VERSIONS {
            state.versions.pop_first();
        }
        state.versions.insert(key.clone(), digest);
    }

    /// Keeps the record, if there is a place for it. A record that can't be kept costs a comparison, and nothing else.
    pub(crate) async fn save(&self) {
        let Some(path) = self.record.clone().filter(|_| self.notes) else { return };
        let _one = self.saving.lock().await;
        let record = self.record();
        let shown = path.clone();
        let saved = tokio::task::spawn_blocking(move || record::save(&path, &record)).await;
        if let Ok(Err(error)) = saved {
            tracing::warn!(record = %shown.display(), "the record of several vaults can't be kept: {error}");
        }
    }

    /// Reads the record of an earlier process.
    pub(crate) async fn load(&self) {
        let Some(path) = self.record.clone() else { return };
        let shown = path.display().to_string();
        let loaded = tokio::task::spawn_blocking(move || record::load(&path)).await.unwrap_or(Ok(None));
        let mut state = self.state();
        match loaded {
            Ok(before) => (state.before, state.unreadable) = (before, None),
            Err(error) => {
                if state.unreadable.is_none() {
                    tracing::warn!(record = shown, "the record of several vaults can't be read: {error}");
                }
                (state.before, state.unreadable) =
                    (None, Some(format!("their record {shown} can't be read ({error})")));
            }
        }
    }

    /// Whether this process writes to the vaults and notes that.
    pub(crate) fn notes(&self) -> bool {
        self.notes
    }

    fn record(&self) -> Record {
        let names = |keys: &BTreeSet<ObjectKey>| keys.iter().map(ToString::to_string).collect();
        let digests = |keys: &BTreeMap<ObjectKey, Option<Digest>>| {
            keys.iter().map(|(key, digest)| (key.to_string(), digest.map(|digest| digest.to_string()))).collect()
        };
        let state = self.state();
        let vaults = self.members.iter().zip(&state.standings).map(|(member, standing)| {
            let (url, keeps) = (member.vault.url().to_owned(), member.keeps.load(Ordering::Relaxed));
            let set_back_ms = standing.set_back.map(Moment::as_millis);
            let identity = standing.identity.clone();
            match &standing.behind {
                None => Noted {
                    url,
                    keeps,
                    set_back_ms,
                    sealed: standing.sealed,
                    identity: identity.or_else(|| member.vault.identity()),
                    ..Noted::default()
                },
                Some(behind) => Noted {
                    url,
                    keeps,
                    set_back_ms,
                    identity,
                    sealed: standing.sealed,
                    held: behind.newest.noted(),
                    behind_since_ms: Some(behind.since.as_millis()),
                    unmet: behind.unmet,
                    differs: behind.error.as_ref().and_then(differing),
                    deleted: names(&behind.deleted),
                    unfinished: digests(&behind.unfinished),
                },
            }
        });
        Record {
            vaults: vaults.collect(),
            unfinished: state
                .unsettled
                .iter()
                .map(|(key, unsettled)| (key.to_string(), unsettled.digest.map(|digest| digest.to_string())))
                .collect(),
            overwritten: names(&state.overwritten),
            newest: state.newest.noted(),
            unproved: state.unproved,
        }
    }

    /// The state of every vault.
    pub(crate) fn states(&self) -> Vec<MemberState> {
        let state = self.state();
        let leader = state.standings.iter().position(|standing| standing.behind.is_none());
        let members = self.members.iter().zip(&state.standings).enumerate();
        let one = |(i, (member, standing)): (usize, (&Member, &Standing))| {
            let behind = standing.behind.as_ref();
            let lacks = behind.and_then(|behind| behind.lacks).or(standing.sealed);
            MemberState {
                url: member.vault.url().to_owned(),
                in_step: behind.is_none(),
                leads: leader == Some(i),
                behind_since: behind.map(|behind| behind.since),
                error: behind.and_then(|behind| behind.error.clone()),
                set_back: standing.set_back,
                last: standing.last.as_ref().map(|(key, at)| (key.to_string(), *at)),
                objects_left: lacks.map(|(objects, _)| objects),
                bytes_left: lacks.map(|(_, bytes)| bytes),
                requests: member.vault.counts(),
                limits: member.vault.limits(),
            }
        };
        members.map(one).collect()
    }
}

/// The error of a place where another encrypted vault is than the noted one.
pub(crate) fn is_other_vault(vault: &Vault, noted: Option<&str>) -> Option<Error> {
    let (noted, now) = (noted?, vault.identity()?);
    let cause = format!("the encrypted vault {now} is here, and this database's one is {noted}");
    (noted != now).then(|| Error::Differs { object: vault.url().to_owned(), cause })
}

fn differing(error: &Error) -> Option<Differing> {
    match error {
        Error::Differs { object, cause } => Some(Differing { object: object.clone(), cause: cause.clone() }),
        _ => None,
    }
}

/// The state of each vault as the record at `path` has it; nothing where there is none. Blocks.
pub fn recorded(path: &Path) -> Vec<MemberState> {
    let Ok(Some(record)) = record::load(path) else { return Vec::new() };
    let leads = record.vaults.iter().position(|noted| noted.behind_since_ms.is_none());
    let one = |(i, noted): (usize, &Noted)| MemberState {
        url: noted.url.clone(),
        in_step: noted.behind_since_ms.is_none(),
        leads: leads == Some(i),
        behind_since: noted.behind_since_ms.map(Moment::from_millis),
        error: noted.differs.clone().map(|Differing { object, cause }| Error::Differs { object, cause }),
        set_back: noted.set_back_ms.map(Moment::from_millis),
        last: None,
        objects_left: None,
        bytes_left: None,
        requests: seawall_core::Requests::default(),
        limits: Vec::new(),
    };
    record.vaults.iter().enumerate().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was made and deleted while a vault was away isn't in it; what it holds is forgotten last.
    #[test]
    fn deleted_names_that_a_vault_cannot_have_are_forgotten_first() {
        let key = |nth: u32| ObjectKey::new(format!("0000/{nth}")).expect("a key");
        let mut behind = Behind::new(Moment::from_millis(0), None);
        behind.newest.note(&key(15), Print::of_bytes(&bytes::Bytes::from_static(b"x")));
        behind.unfinished.insert(key(16), None);
        behind.deleted.extend((10..30).map(key));
        behind.bound_deleted(20);
        assert_eq!(behind.deleted.len(), 20);
        behind.bound_deleted(10);
        assert_eq!(behind.deleted, (10..17).map(key).collect());
        behind.bound_deleted(3);
        assert_eq!(behind.deleted, (14..17).map(key).collect());
    }
}
