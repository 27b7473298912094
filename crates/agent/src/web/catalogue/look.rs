//! What the vaults tell. Visitors of the same time share one listing, and what one vault told.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use seawall_core::{
    Alarm, Clock as _, Description, Failure, Kind, Moment, Phase, Proof, Severity, Status, SystemClock, Timeline,
};
use seawall_engines::Opener;
use seawall_engines::catalog::{Choose, Row};
use seawall_engines::proofs::Proofs;
use seawall_vault::VaultUrl;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::web::look::{ANSWER, History, Turns, too_late};

/// How long what one vault told counts. A visitor who moves along a timeline asks again and again.
const LISTED: Duration = Duration::from_secs(10);

/// How long a failed listing counts.
const FAILED: Duration = Duration::from_secs(10);

/// How long ages and alarms count that were computed from a listing.
const AGED: Duration = Duration::from_secs(5);

/// How long a database is shown that isn't listed any more, and how many of them.
const GONE: (Duration, usize) = (Duration::from_secs(24 * 3600), 1000);

/// How long a look at a vault may take. All visitors who ask for that vault share the look.
const ASKED: Duration = Duration::from_secs(120);

/// Vaults that are asked at a time. Nothing else is done here.
const AT_A_TIME: usize = 8;

/// Vaults that are asked or wait for their turn.
const MOST_ASKED: usize = 256;

/// How long a listing may take.
const LISTING: Duration = Duration::from_secs(900);

/// Proofs of one database that are read.
const PROOFS: usize = 5;

/// Vaults that are remembered.
const REMEMBERED: usize = 32;

/// One database with what a search and an order go by.
#[derive(Debug)]
pub(super) struct Shelved {
    pub(super) row: Row,
    /// The facts of the row in the words of a status. The age of the newest point is its lag, stored bytes are its size.
    pub(super) status: Status,
    /// When it was listed for the last time, if it isn't listed any more.
    gone: Option<Moment>,
}

impl Shelved {
    fn of(row: Row, now: Moment) -> Self {
        Self { status: status(&row, now), row, gone: None }
    }
}

/// A whole listing.
#[derive(Debug)]
pub(super) struct Shelves {
    pub(super) all: Vec<Shelved>,
    pub(super) at: Moment,
    /// Requests for pages of the listing.
    pub(super) pages: u64,
    /// Objects of no database.
    pub(super) foreign: u64,
    /// Names behind which nothing was looked for.
    pub(super) passed_over: Option<Failure>,
    /// Why the listing ended before its end, if it did.
    pub(super) cut_short: Option<Failure>,
}

impl Shelves {
    /// The same listing with ages and alarms of `now`.
    fn aged(&self, now: Moment) -> Self {
        let aged = |one: &Shelved| Shelved { gone: one.gone, ..Shelved::of(one.row.clone().aged(now), now) };
        Self {
            all: self.all.iter().map(aged).collect(),
            at: self.at,
            pages: self.pages,
            foreign: self.foreign,
            passed_over: self.passed_over.clone(),
            cut_short: self.cut_short.clone(),
        }
    }
}

/// What is known now.
pub(super) struct Told {
    /// The newest whole listing.
    pub(super) shelves: Option<Arc<Shelves>>,
    /// Why the last attempt to list failed; `None` if it didn't.
    pub(super) failure: Option<Failure>,
    /// Whether a listing is under way.
    pub(super) is_listing: bool,
}

#[derive(Default)]
struct Known {
    shelves: Option<(Instant, Arc<Shelves>)>,
    /// The same, with ages and alarms of then.
    aged: Option<(Instant, Arc<Shelves>)>,
    /// How long it took.
    took: Duration,
    failure: Option<(Instant, Failure)>,
    /// Counts listings that ended. Dropped with the listing that is under way.
    listing: Option<watch::Receiver<()>>,
}

impl Known {
    /// The newest listing, with the ages and alarms of now.
    fn shown(&mut self) -> Option<Arc<Shelves>> {
        let (at, listed) = self.shelves.as_ref()?;
        let is_of_now = |at: &Instant| at.elapsed() < AGED;
        if is_of_now(at) {
            return Some(Arc::clone(listed));
        }
        if let Some((_, aged)) = self.aged.as_ref().filter(|(at, _)| is_of_now(at)) {
            return Some(Arc::clone(aged));
        }
        let aged = Arc::new(listed.aged(SystemClock.now()));
        self.aged = Some((Instant::now(), Arc::clone(&aged)));
        Some(aged)
    }
}

type ToldAt = Option<(Instant, Arc<History>)>;

/// A vault that is asked, or was.
struct Asked {
    began: Instant,
    told: watch::Receiver<ToldAt>,
}

impl Asked {
    /// Whether it is being asked, or told a moment ago.
    fn counts(&self) -> bool {
        match &*self.told.borrow() {
            Some((at, _)) => at.elapsed() < LISTED,
            None => self.told.has_changed().is_ok(),
        }
    }
}

/// What vaults told, by the vault and the name of the database.
type Histories = HashMap<(String, String), Asked>;

/// Looks at a prefix.
pub(super) struct Look {
    opener: Arc<Opener>,
    url: VaultUrl,
    /// How long a listing counts.
    fresh: Duration,
    known: Arc<Mutex<Known>>,
    /// The listing that is under way. It ends with the page.
    listing: Mutex<JoinSet<()>>,
    histories: Mutex<Histories>,
    /// The vaults that are asked. They go on without the visitor, and end with the page.
    asking: Mutex<JoinSet<()>>,
    places: Arc<Semaphore>,
    turns: Turns,
}

impl Look {
    pub(super) fn new(opener: Arc<Opener>, url: VaultUrl, fresh: Duration) -> Self {
        let (known, listing, histories, asking, turns) = Default::default();
        let places = Arc::new(Semaphore::new(AT_A_TIME));
        Self { opener, url, fresh, known, listing, histories, asking, places, turns }
    }

    /// The prefix, without secrets.
    pub(super) fn url(&self) -> String {
        self.url.to_string()
    }

    /// How long a listing counts.
    pub(super) fn fresh(&self) -> Duration {
        self.fresh
    }

    /// How long a listing counts, in milliseconds.
    pub(super) fn fresh_millis(&self) -> u64 {
        u64::try_from(self.fresh.as_millis()).unwrap_or(u64::MAX)
    }

    /// Turns of work that asks a vault.
    pub(super) fn turns(&self) -> &Turns {
        &self.turns
    }

    /// The first listing, with its failure.
    pub(super) async fn first(&self) -> Result<(), Failure> {
        if let Some(mut ended) = self.begin() {
            // Its end is told, or it is gone.
            let _ended = ended.changed().await;
        }
        let known = lock(&self.known);
        match &known.failure {
            Some((_, failure)) if known.shelves.is_none() => Err(failure.clone()),
            _ => Ok(()),
        }
    }

    /// The newest listing; a new one if it is too old. Waits for it no longer than [`ANSWER`]; the listing goes on.
    pub(super) async fn all(&self) -> Told {
        if let Some(mut ended) = self.begin() {
            let _too_late = timeout(ANSWER, ended.changed()).await;
        }
        let mut known = lock(&self.known);
        Told {
            shelves: known.shown(),
            failure: known.failure.as_ref().map(|(_, failure)| failure.clone()),
            is_listing: known.listing.is_some(),
        }
    }

    /// Begins a listing, if what is known is too old; returns what tells of its end.
    fn begin(&self) -> Option<watch::Receiver<()>> {
        let mut known = lock(&self.known);
        if known.listing.is_some() {
            return known.listing.clone();
        }
        // A prefix whose listing takes long isn't listed all the time.
        let fresh = self.fresh.max(known.took);
        let is_fresh = known.shelves.as_ref().is_some_and(|(at, _)| at.elapsed() < fresh);
        let has_failed = known.failure.as_ref().is_some_and(|(at, _)| at.elapsed() < FAILED);
        if is_fresh || has_failed {
            return None;
        }
        let (end, ended) = watch::channel(());
        known.listing = Some(ended.clone());
        let (opener, url, shared) = (Arc::clone(&self.opener), self.url.clone(), Arc::clone(&self.known));
        let mut listing = lock(&self.listing);
        while listing.try_join_next().is_some() {}
        listing.spawn(async move {
            // However it ends, the next visitor can begin another one.
            let _end = Ended(&shared, end);
            let began = Instant::now();
            let former = lock(&shared).shelves.as_ref().map(|(_, shelves)| Arc::clone(shelves));
            match list(&opener, &url, former.as_deref()).await {
                Ok(found) => {
                    let mut known = lock(&shared);
                    (known.shelves, known.failure) = (Some((Instant::now(), Arc::new(found))), None);
                    (known.aged, known.took) = (None, began.elapsed());
                }
                Err(failure) => lock(&shared).failure = Some((Instant::now(), failure)),
            }
        });
        Some(ended)
    }

    /// What the vault of a database tells. Waits no longer than [`ANSWER`]; the vault is asked on, for the next visitor.
    pub(super) async fn history(&self, row: &Row) -> Arc<History> {
        let listed_at = SystemClock.now();
        let mut told = self.ask(row);
        let told = timeout(ANSWER, told.wait_for(Option::is_some)).await;
        let told =
            told.ok().and_then(Result::ok).and_then(|told| told.as_ref().map(|(_, history)| Arc::clone(history)));
        told.unwrap_or_else(|| {
            let late = too_late(
                &row.name,
                "it isn't known what its vault tells: it is asked, or waits for its turn, and didn't tell",
            );
            Arc::new(History { listed_at, timeline: Err(late.clone()), proofs: Err(late) })
        })
    }

    /// Asks a vault, unless it is asked already or told a moment ago.
    fn ask(&self, row: &Row) -> watch::Receiver<ToldAt> {
        let key = (row.vault.clone(), row.name.clone());
        let mut all = lock(&self.histories);
        all.retain(|_, asked| asked.counts());
        if let Some(asked) = all.get(&key) {
            return asked.told.clone();
        }
        let (tell, told) = watch::channel(None);
        let mut asking = lock(&self.asking);
        while asking.try_join_next().is_some() {}
        if asking.len() >= MOST_ASKED {
            return told;
        }
        if all.len() >= REMEMBERED
            && let Some(oldest) = all.iter().min_by_key(|(_, asked)| asked.began).map(|(key, _)| key.clone())
        {
            all.remove(&oldest);
        }
        all.insert(key, Asked { began: Instant::now(), told: told.clone() });
        let (opener, url, row) = (Arc::clone(&self.opener), self.url.clone(), row.clone());
        let places = Arc::clone(&self.places);
        asking.spawn(async move {
            let _place = places.acquire().await;
            let listed_at = SystemClock.now();
            let asked = timeout(ASKED, told_by(&opener, &url, &row)).await;
            let (timeline, proofs) = asked.unwrap_or_else(|_| {
                let late = too_late(&row.name, "its vault was given up: it didn't answer");
                (Err(late.clone()), Err(late))
            });
            tell.send_replace(Some((Instant::now(), Arc::new(History { listed_at, timeline, proofs }))));
        });
        told
    }

    /// Opens vaults.
    pub(super) fn opener(&self) -> &Opener {
        &self.opener
    }

    /// The prefix.
    pub(super) fn place(&self) -> &VaultUrl {
        &self.url
    }
}

/// Tells of the end of a listing when it is dropped.
struct Ended<'a>(&'a Mutex<Known>, watch::Sender<()>);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        lock(self.0).listing = None;
        self.1.send_replace(());
    }
}

/// What is behind a lock is whole between any two statements that can panic.
fn lock<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

type OfVault = (Result<Timeline, Failure>, Result<(Vec<Proof>, Vec<String>), Failure>);

/// The timeline of a database, and its newest proofs.
async fn told_by(opener: &Opener, url: &VaultUrl, row: &Row) -> OfVault {
    let (vault, engine) = match opener.catalogued(url, row).await {
        Ok(opened) => opened,
        Err(failure) => return (Err(failure.clone()), Err(failure)),
    };
    let history = engine.history();
    let described = engine.describe();
    let proofs = async {
        let recorded = Proofs::of(vault, &described).newest(PROOFS).await?;
        Ok((recorded.proofs, recorded.doubts))
    };
    tokio::join!(history.timeline(), proofs)
}

/// The databases of a listing, with what must not be forgotten of the one before: proofs that can't be read now, and databases that are
/// gone. `is_whole` says whether the listing came to its end. Pure.
fn merged(former: Option<&Shelves>, found: Vec<Row>, is_whole: bool, now: Moment) -> Vec<Shelved> {
    let Some(former) = former else { return found.into_iter().map(|row| Shelved::of(row, now)).collect() };
    let key = |row: &Row| (row.vault.clone(), row.name.clone());
    let mut before: HashMap<_, &Shelved> = former.all.iter().map(|one| (key(&one.row), one)).collect();
    let mut all = Vec::with_capacity(found.len());
    for mut row in found {
        if let Some(one) = before.remove(&key(&row)) {
            row.keep(&one.row, former.at, now);
        }
        all.push(Shelved::of(row, now));
    }
    let is_shown =
        |one: &&Shelved| before.contains_key(&key(&one.row)) && one.gone.is_none_or(|at| now.since(at) < GONE.0);
    let gone = former.all.iter().filter(is_shown).take(GONE.1).map(|one| {
        let mut row = one.row.clone().aged(now);
        if one.gone.is_none() {
            let doubt = match is_whole {
                true => format!("it is gone: it was listed at {}, and isn't there any more", former.at),
                false => format!("it was listed at {}, and the newest listing ended before it", former.at),
            };
            row.doubts.insert(0, doubt);
        }
        Shelved { gone: one.gone.or(Some(former.at)), ..Shelved::of(row, now) }
    });
    all.extend(gone);
    all
}

async fn list(opener: &Opener, url: &VaultUrl, former: Option<&Shelves>) -> Result<Shelves, Failure> {
    let choose = Choose::default();
    let found = timeout(LISTING, opener.catalogue(url, &choose)).await.map_err(|_| {
        Failure::new(
            Kind::Unavailable,
            "agent.too-late",
            url.to_string(),
            format!("it wasn't listed within {} min", LISTING.as_secs() / 60),
            "name a prefix with fewer objects, or ask with `seawall fleet`, which waits for longer",
        )
    })??;
    let all = merged(former, found.databases, found.cut_short.is_none(), found.at);
    Ok(Shelves {
        all,
        at: found.at,
        pages: found.listed_pages,
        foreign: found.foreign_objects,
        passed_over: found.passed_over,
        cut_short: found.cut_short,
    })
}

/// The facts of a row in the words of a status. A database of which something isn't known counts as one with a warning.
fn status(row: &Row, now: Moment) -> Status {
    let described = Description { name: row.name.clone(), engine: row.engine, source: None, vault: row.vault.clone() };
    let mut alarms = row.alarms.clone();
    if alarms.is_empty() && !row.is_fine() {
        alarms.push(Alarm {
            code: String::new(),
            severity: Severity::Warning,
            cause: row.doubts.join("; "),
            next: String::new(),
            since: now,
            silenced_until: None,
        });
    }
    Status {
        protected: row.newest.clone(),
        // Without any point it is the furthest behind.
        lag_ms: row.age_s.map_or(u64::MAX, |age| age.saturating_mul(1000)),
        source_bytes: Some(row.bytes),
        proof: row.proof.clone(),
        alarms,
        // The vaults don't tell whether a process runs.
        ..Status::new(described, Phase::Stopped, now)
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests make vaults in folders")]
mod tests {
    use seawall_vault::Environment;

    use super::*;

    fn write(folder: &std::path::Path, name: &str) {
        let file = folder.join(name);
        std::fs::create_dir_all(file.parent().expect("a parent")).expect("made");
        std::fs::write(file, "x").expect("written");
    }

    fn look(folder: &std::path::Path) -> Look {
        let url = VaultUrl::parse(&format!("file://{}", folder.display())).expect("a URL");
        Look::new(Arc::new(Opener::new(Environment::default(), 1)), url, Duration::from_secs(60))
    }

    #[tokio::test]
    async fn what_was_known_is_not_forgotten() {
        const BASE: &str = "ltx/9/0000000000000001-0000000000000005.ltx";
        let folder = tempfile::tempdir().expect("a folder");
        write(folder.path(), &format!("kept/{BASE}"));
        write(folder.path(), &format!("lost/{BASE}"));
        let look = look(folder.path());
        look.first().await.expect("listed");
        let first = look.all().await.shelves.expect("listed");
        let names = |all: &[Shelved]| all.iter().map(|one| one.row.name.clone()).collect::<Vec<_>>();
        assert!(names(&first.all).contains(&"lost".to_owned()));
        std::fs::remove_dir_all(folder.path().join("lost")).expect("removed");
        let again = list(&look.opener, &look.url, Some(&first)).await.expect("listed");
        let lost = again.all.iter().find(|one| one.row.name == "lost").expect("shown");
        assert!(lost.gone.is_some() && !lost.row.is_fine(), "{lost:?}");
        assert_eq!(lost.status.alarms.len(), 1, "it counts as one with a warning");
        assert!(again.all.iter().any(|one| one.row.name == "kept" && one.status.alarms.is_empty()));
        // It stays for a day, and is told once.
        let later = merged(Some(&again), Vec::new(), true, again.at.after(GONE.0 / 2));
        let told = |one: &Shelved| one.row.doubts.iter().filter(|doubt| doubt.starts_with("it is gone")).count();
        assert_eq!(later.iter().map(told).collect::<Vec<_>>(), vec![1; later.len()]);
        let much_later = merged(Some(&again), Vec::new(), true, again.at.after(2 * GONE.0));
        assert!(!names(&much_later).contains(&"lost".to_owned()));
        // Ages are those of the moment at which somebody looks.
        let aged = again.aged(again.at.after(GONE.0));
        let kept = aged.all.iter().find(|one| one.row.name == "kept").expect("shown");
        assert!(kept.row.age_s >= Some(GONE.0.as_secs()) && kept.status.lag_ms < u64::MAX, "{kept:?}");
        let mut without = kept.row.clone();
        (without.newest, without.age_s) = (None, None);
        assert_eq!(status(&without, aged.at).lag_ms, u64::MAX);
    }

    #[tokio::test]
    async fn visitors_of_one_vault_share_one_look_at_it() {
        let folder = tempfile::tempdir().expect("a folder");
        write(folder.path(), "app/ltx/9/0000000000000001-0000000000000005.ltx");
        let look = look(folder.path());
        look.first().await.expect("listed");
        let row = look.all().await.shelves.expect("listed").all[0].row.clone();
        let (one, other) = tokio::join!(look.history(&row), look.history(&row));
        assert!(Arc::ptr_eq(&one, &other));
        let third = look.history(&row).await;
        assert!(Arc::ptr_eq(&one, &third), "what it told counts for a while");
    }
}
