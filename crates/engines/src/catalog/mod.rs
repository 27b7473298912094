//! Every database below a prefix, from the vault alone: no process is asked, and nothing is remembered.
//!
//! One listing of everything tells the most: names have engines, positions, instances and moments, and a listing has sizes and times.
//! `names` reads a name, `tally` adds up what a database's objects say, and `trend` finds growth and regularity. Objects are read only for
//! the rows that are shown, and only where there is something to read: the newest proof, and the newest links of backup sets (`linked`).
//! `choose` filters and sorts.
//!
//! Memory is that of the databases, not of their objects, and what is remembered of a prefix is bounded (`bound`): anybody who can write
//! there can make up millions of databases. So is the time that the objects of one database, and of all of them, are read for.

mod bound;
mod choose;
mod linked;
mod names;
mod tally;
mod trend;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use seawall_archive::{Link, SetId, Timetable};
use seawall_core::{
    Alarm, Clock as _, Description, Engine, Failure, LastError, Level, Moment, Phase, Point, Proof, Status, SystemClock,
};
use seawall_vault::{Access, Noted, ObjectKey, Prefix, Vault, VaultUrl};
use serde::Serialize;
use tokio::time::{Instant, timeout_at};

use self::bound::Bound;
pub use self::choose::{Choose, Filter, Order};
use self::names::named;
use self::tally::{Form, Sum, Tally};
use crate::alarms::{Facts, Keeper, Limits, Local, alarms};
use crate::bench::is_scratch;
use crate::lmdb;
use crate::open::Opener;
use crate::proofs::{EARLIER, Proofs, beyond, standing};
use crate::recognise::is_there;

/// Databases whose objects are read at once.
const AT_ONCE: usize = 16;

/// How long the objects of one database are read.
const ONE_WITHIN: Duration = Duration::from_secs(60);

/// How long those of all databases are read: 50,000 databases in a store that answers within 50 ms.
const ALL_WITHIN: Duration = Duration::from_secs(600);

/// The largest link of a chain that is read.
const MOST_OF_LINK: u64 = 1 << 20;

/// Alarms that a vault alone can tell. The others are about a process or a machine, of which a vault knows nothing.
const TOLD: [&str; 3] = ["alarm.backup-overdue", "alarm.proof-failed", "alarm.unsafe"];

/// One database, as its vault tells of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Its path below the prefix; of an environment of LMDB also its name. Empty for a database at the prefix itself.
    pub name: String,
    /// The URL of its vault, without secrets.
    pub vault: String,
    /// `sqlite`, `lmdb`, `postgres`, `mysql`; `server` if nothing could be read that says which.
    pub engine: &'static str,
    /// The newest point that its names tell of; of a server the newest set that a link of the chain names.
    pub newest: Option<Point>,
    /// How long ago that was, in seconds.
    pub age_s: Option<u64>,
    /// The schedule by which its backups are made, if its newest set records one.
    pub schedule: Option<String>,
    /// The time between two backups in seconds: by the schedule, or the usual one, where there are three backups of a server.
    pub every_s: Option<u64>,
    /// Of the newest backups: how many were due by the schedule and weren't made. Without a schedule: how often the time between two was more
    /// than twice as long as usual.
    pub gaps: Option<u64>,
    /// How many objects it has.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Stored bytes of the newest complete copy.
    pub copy_bytes: Option<u64>,
    /// Bytes a day by which complete copies grow.
    pub growth_bytes_per_day: Option<i64>,
    /// Stored bytes of a complete copy in 30 days, if it grows on so.
    pub forecast_bytes: Option<u64>,
    /// How many holes are recorded; `None` where the engine knows none.
    pub holes: Option<u64>,
    /// When the newest proof ended, by its name.
    pub proved_at: Option<Moment>,
    /// The newest proof, if it could be read.
    pub proof: Option<Proof>,
    /// The instances that write, where names have them.
    pub writers: Vec<String>,
    /// Whether its objects are encrypted.
    pub encrypted: bool,
    /// What a person should know, as far as a vault tells it.
    pub alarms: Vec<Alarm>,
    /// What isn't known, each one sentence without a full stop.
    pub doubts: Vec<String>,
    /// The prefix of its vault.
    #[serde(skip)]
    root: String,
    /// The name of an environment of LMDB; empty for other databases.
    #[serde(skip)]
    database: String,
    /// The last link of its chain.
    #[serde(skip)]
    link: u64,
    /// Its whole backup sets with their bytes, oldest first.
    #[serde(skip)]
    sets: Vec<(SetId, u64)>,
    /// The schedule that the newest set records.
    #[serde(skip)]
    timetable: Option<Timetable>,
    /// When a backup was due, if that is over.
    #[serde(skip)]
    due: Option<Moment>,
    /// The failure of a vault that ends before the point of a proof.
    #[serde(skip)]
    beyond: Option<Failure>,
}

/// The databases below a prefix.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Catalogued {
    /// The databases that were chosen, in the order that was asked for.
    pub databases: Vec<Row>,
    /// How many there are, chosen or not.
    pub found: u64,
    /// Objects that belong to no database.
    pub foreign_objects: u64,
    /// Their bytes.
    pub foreign_bytes: u64,
    /// Names that can't be objects, and behind which nothing was looked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passed_over: Option<Failure>,
    /// Why the listing ended before its end, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut_short: Option<Failure>,
    /// When the vault was listed.
    pub at: Moment,
    /// Requests for pages of the listing.
    pub listed_pages: u64,
}

impl Opener {
    /// Finds every database below a prefix, and reads objects of the databases that `choose` shows.
    ///
    /// # Errors
    /// When the prefix can't be listed, or is a folder that isn't there. What can't be read of one database is a doubt of that database.
    pub async fn catalogue(&self, url: &VaultUrl, choose: &Choose) -> Result<Catalogued, Failure> {
        self.catalogue_within(url, choose, Bound::default(), (ONE_WITHIN, ALL_WITHIN)).await
    }

    /// The same. `times` say how long the objects of one database are read, and those of all.
    async fn catalogue_within(
        &self,
        url: &VaultUrl,
        choose: &Choose,
        mut bound: Bound,
        times: (Duration, Duration),
    ) -> Result<Catalogued, Failure> {
        is_there(url)?;
        let now = SystemClock.now();
        // Each database has a marker of its own, and a listing needs no key.
        let vault = self.vault_with(url, Access::Names).await?;
        let mut tallies: BTreeMap<(String, String), Tally> = BTreeMap::new();
        let noted = Noted::default();
        let mut catalogued = Catalogued { at: now, ..Catalogued::default() };
        let mut entries = Box::pin(vault.entries_noting(&Prefix::all(), None, &noted));
        let mut cut = None;
        while let Some(entry) = entries.try_next().await? {
            if !bound.takes_another() {
                cut = Some(entry.key);
                break;
            }
            let Some(named) = named(vault.scheme(), entry.key.as_str()) else {
                catalogued.foreign_objects += 1;
                catalogued.foreign_bytes = catalogued.foreign_bytes.saturating_add(entry.size);
                continue;
            };
            let key = (named.root.to_owned(), named.database.unwrap_or_default());
            let names = key.0.len() + key.1.len();
            let tally = match tallies.entry(key) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => {
                    bound.begin(names);
                    new.insert(Tally::default())
                }
            };
            bound.add(tally.add(named.fact, entry.size, entry.modified));
        }
        catalogued.passed_over = noted.so_far().failure(&url.to_string());
        catalogued.listed_pages = vault.counts().list;
        let mut rows = rows(tallies, url, now);
        catalogued.found = u64::try_from(rows.len()).unwrap_or(u64::MAX);
        if let Some(key) = cut {
            bound::leave_open(&mut rows, key.as_str());
            catalogued.cut_short = Some(bound.failure(&vault.object(&key), rows.len()));
        }
        let (one, all) = times;
        let end = Instant::now() + all;
        let read = |row: Row| async {
            let own_end = end.min(Instant::now() + one);
            let whose = if own_end < end { Ok(one) } else { Err(all) };
            if own_end <= Instant::now() {
                return late(row, whose, now);
            }
            let read = timeout_at(own_end, self.read_more(row.clone(), url, now)).await;
            read.unwrap_or_else(|_| late(row, whose, now))
        };
        let rows = if choose.needs_content() { rows } else { choose.choose(rows) };
        let all = stream::iter(rows).map(read).buffered(AT_ONCE).collect().await;
        // What was read may change the order.
        catalogued.databases = choose.choose(all);
        Ok(catalogued)
    }

    /// Opens a database that [`Opener::catalogue`] found below `url`.
    ///
    /// # Errors
    /// When its vault can't be opened or listed.
    pub async fn catalogued(&self, url: &VaultUrl, row: &Row) -> Result<(Vault, Arc<dyn Engine>), Failure> {
        let place = place(url, &row.root)?;
        if row.database.is_empty() {
            return self.vault_and_engine(&place).await;
        }
        // Several environments may share a vault.
        let vault = self.vault_alone(&place).await?;
        Ok((vault.clone(), lmdb::of_vault(vault, row.database.clone())))
    }

    /// What only objects tell: the newest proof, which backup sets count, and which server they are of.
    async fn read_more(&self, mut row: Row, url: &VaultUrl, now: Moment) -> Row {
        if row.proved_at.is_none() && row.link == 0 {
            return judged(row, now);
        }
        let vault = async { self.vault_alone(&place(url, &row.root)?).await };
        let vault = match vault.await {
            Ok(vault) => vault,
            Err(failure) => {
                row.doubts.push(format!("its objects can't be read: {} ({})", failure.cause, failure.code));
                return judged(row, now);
            }
        };
        if row.link > 0 {
            match newest_links(&vault, &row).await {
                Ok(links) => row.count_linked(&links, now),
                Err(failure) => row.doubts.push(format!(
                    "which server it is of, and whether its newest backup counts, isn't known: {} ({})",
                    failure.cause, failure.code
                )),
            }
        }
        if row.proved_at.is_some() {
            let name = row.name.rsplit('/').next().unwrap_or_default().to_owned();
            let described = Description { name, engine: row.engine, source: None, vault: row.vault.clone() };
            let proofs = Proofs::of(vault, &described);
            let mut read = proofs.newest(1).await;
            // One that says little may hide an earlier failure.
            let is_beyond = |doubt: &String| doubt.ends_with("(proof.beyond)");
            let says_all =
                |proof: &Proof| proof.holds() && proof.level >= Level::Engine && !proof.doubts.iter().any(is_beyond);
            if read.as_ref().is_ok_and(|recorded| !recorded.proofs.iter().any(says_all)) {
                read = proofs.newest_that_tell(EARLIER).await;
            }
            match read {
                Ok(recorded) => {
                    row.beyond = beyond(&recorded.proofs, row.newest.as_ref(), now, &row.vault);
                    row.proof = standing(&recorded.proofs).cloned();
                    row.doubts.extend(recorded.doubts);
                }
                Err(failure) => row.doubts.push(format!("its proofs can't be read: {}", failure.cause)),
            }
        }
        judged(row, now)
    }
}

impl Row {
    /// Whether all is known of it that a vault tells, it has a point, and no alarm.
    pub fn is_fine(&self) -> bool {
        self.alarms.is_empty() && self.doubts.is_empty() && self.newest.is_some()
    }

    /// What it is at `now`, of an earlier listing: ages and alarms go on.
    #[must_use]
    pub fn aged(mut self, now: Moment) -> Self {
        match self.newest.as_ref().map(|newest| newest.moment) {
            Some(_) if self.link > 0 => {
                let schedule = self.timetable.as_ref().and_then(Timetable::schedule);
                self.take(tally::of_sets(&self.sets, schedule.as_ref(), now), now);
            }
            newest => self.age_s = newest.map(|newest| now.since(newest).as_secs()),
        }
        judged(self, now)
    }

    /// Keeps the newest proof that was read at an earlier listing, where that proof is there and couldn't be read now: its alarm isn't over
    /// because the store is away.
    pub fn keep(&mut self, former: &Self, at: Moment, now: Moment) {
        if self.engine == "server" {
            self.engine = former.engine;
        }
        if self.proved_at.is_none() || self.proof.is_some() || former.proof.is_none() {
            return;
        }
        (self.proof, self.beyond) = (former.proof.clone(), former.beyond.clone());
        self.doubts.push(format!("its newest proof couldn't be read, and the one that is shown was known before {at}"));
        *self = judged(self.clone(), now);
    }

    /// Takes over what points and copies come to.
    fn take(&mut self, sum: Sum, now: Moment) {
        let seconds = |time: std::time::Duration| time.as_secs();
        (self.age_s, self.forecast_bytes) = (sum.age(now).map(seconds), sum.forecast());
        (self.newest, self.copy_bytes, self.growth_bytes_per_day) = (sum.newest, sum.copy_bytes, sum.growth);
        self.every_s = sum.rhythm.map(|rhythm| seconds(rhythm.every));
        self.gaps = sum.rhythm.map(|rhythm| rhythm.gaps);
        self.due = sum.rhythm.and_then(|rhythm| rhythm.due);
    }

    /// Leaves out newer sets than the newest that a link names. `links` are the newest ones, newest first.
    fn count_linked(&mut self, links: &[Link], now: Moment) {
        let manifests: Vec<_> = links.iter().filter_map(Link::set).collect();
        self.engine = manifests.first().and_then(|set| of_server(&set.engine)).unwrap_or(self.engine);
        let named: Vec<SetId> = manifests.iter().map(|set| set.id).collect();
        let doubt = linked::unlinked(&mut self.sets, &named);
        let newest = self.sets.last().map(|(id, _)| *id);
        self.timetable = manifests.iter().find(|set| Some(set.id) == newest).and_then(|set| set.schedule.clone());
        let schedule = self.timetable.as_ref().and_then(Timetable::schedule);
        if doubt.is_some() || schedule.is_some() {
            self.take(tally::of_sets(&self.sets, schedule.as_ref(), now), now);
        }
        self.schedule = schedule.map(|schedule| schedule.text().to_owned());
        self.doubts.extend(doubt);
    }
}

/// A row whose objects weren't read in time: its own time, or that of all.
fn late(mut row: Row, time: Result<Duration, Duration>, now: Moment) -> Row {
    row.doubts.push(match time {
        Ok(own) => format!("its objects weren't read within {} s, so its alarms aren't known", own.as_secs()),
        Err(all) => format!(
            "its objects weren't read: those of the databases of this prefix took longer than {} s in all. Ask for fewer: `seawall fleet --filter NAME`, or a longer prefix",
            all.as_secs()
        ),
    });
    judged(row, now)
}

/// The newest link, and the one before it where that doesn't name the newest set.
async fn newest_links(vault: &Vault, row: &Row) -> Result<Vec<Link>, Failure> {
    let read = async |number: u64| {
        let key = ObjectKey::new(format!("chain/{number:08}.json"))?;
        Ok::<_, Failure>(Link::read(&vault.read(&key, None, MOST_OF_LINK).await?, number)?)
    };
    let mut links = vec![read(row.link).await?];
    let names_newest = |link: &Link| link.set().is_some_and(|set| Some(set.id) == row.sets.last().map(|(id, _)| *id));
    if !names_newest(&links[0]) && row.link > 1 {
        // Retention may have deleted that one.
        match read(row.link - 1).await {
            Ok(link) => links.push(link),
            Err(failure) if failure.code == "vault.not-found" => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(links)
}

/// The place of a vault below a prefix.
fn place(url: &VaultUrl, root: &str) -> Result<VaultUrl, Failure> {
    if root.is_empty() { Ok(url.clone()) } else { Ok(url.join(root)?) }
}

/// The name of an engine of servers. What a vault says is only believed if Seawall has such an engine.
fn of_server(engine: &str) -> Option<&'static str> {
    ["postgres", "mysql"].into_iter().find(|known| *known == engine)
}

/// What a replica or the sets of a server lack, if nothing of them can be restored. Pure.
fn lacks_all(form: Form, has_first: bool, whole: &[(SetId, u64)]) -> Option<String> {
    let lacks = match form {
        Form::Ltx if !has_first => "it has no base",
        Form::Sets if whole.is_empty() => "it has no complete backup",
        _ => return None,
    };
    Some(format!("nothing can be restored: {lacks}"))
}

/// A row for each database. Objects that any engine may have make no database.
fn rows(tallies: BTreeMap<(String, String), Tally>, url: &VaultUrl, now: Moment) -> Vec<Row> {
    let sealed: BTreeSet<String> = tallies
        .iter()
        .filter(|((_, database), tally)| database.is_empty() && tally.is_encrypted)
        .map(|((root, _), _)| root.clone())
        .collect();
    let row = |((root, database), tally): ((String, String), Tally)| {
        let form = tally.form?;
        let (sum, sets) = (tally.sum(now), tally.whole());
        let name = match (&*root, &*database) {
            (root, "") => root.to_owned(),
            ("", database) => database.to_owned(),
            (root, database) => format!("{root}/{database}"),
        };
        let vault = place(url, &root).map_or_else(|_| format!("{url}/{root}"), |place| place.to_string());
        let mut doubts: Vec<String> = linked::without_chain(sets.len(), tally.link).into_iter().collect();
        if form == Form::Cluster && (tally.base.is_none() || tally.logged.is_none()) {
            let lacks = if tally.base.is_none() { "base" } else { "log" };
            doubts.push(format!("nothing can be restored: it has no {lacks}"));
        }
        doubts.extend(lacks_all(form, tally.has_first, &sets));
        if is_scratch(&root) {
            doubts.insert(
                0,
                "`seawall bench` made it to be measured, and left it behind: delete everything below it".to_owned(),
            );
        }
        if tally.later > 0 {
            doubts.push(format!("{} names have moments of the future, and are left out", tally.later));
        }
        let mut row = Row {
            name,
            vault,
            engine: match form {
                Form::Ltx | Form::Generations => "sqlite",
                Form::Snapshots => "lmdb",
                Form::Sets => "server",
                Form::Cluster => "postgres",
            },
            newest: None,
            age_s: None,
            schedule: None,
            every_s: None,
            gaps: None,
            objects: tally.objects,
            bytes: tally.bytes,
            copy_bytes: None,
            growth_bytes_per_day: None,
            forecast_bytes: None,
            holes: (form == Form::Ltx).then_some(tally.holes),
            proved_at: tally.proof,
            proof: None,
            writers: tally.instances.into_iter().collect(),
            encrypted: sealed.contains(&root),
            alarms: Vec::new(),
            doubts,
            root,
            database,
            link: tally.link,
            sets,
            timetable: None,
            due: None,
            beyond: None,
        };
        row.take(sum, now);
        Some(row)
    };
    tallies.into_iter().filter_map(row).collect()
}

/// The row with its alarms. They come from the function that judges everywhere; a vault tells few of its facts.
fn judged(mut row: Row, now: Moment) -> Row {
    let described = Description { name: row.name.clone(), engine: row.engine, source: None, vault: row.vault.clone() };
    let status = Status {
        protected: row.newest.clone(),
        proof: row.proof.clone(),
        error: row.beyond.as_ref().map(|failure| LastError::new(failure, now)),
        lag_ms: row.due.map_or(0, |due| u64::try_from(now.since(due).as_millis()).unwrap_or(u64::MAX)),
        ..Status::new(described, Phase::Protecting, now)
    };
    let is_scheduled = row.every_s.is_some();
    let facts = Facts { status: &status, keeper: Keeper::Running, is_scheduled, local: Local::default() };
    row.alarms = alarms(&facts, &Limits::default(), now);
    row.alarms.retain(|alarm| TOLD.contains(&&*alarm.code));
    row
}

#[cfg(test)]
mod tests {
    use super::names::Fact;
    use super::*;

    fn at(hours: i64) -> Moment {
        Moment::from_millis(hours * 3_600_000)
    }

    fn row(root: &str, facts: &[(Fact, i64)], now: i64) -> Row {
        let mut tally = Tally::default();
        for (fact, hours) in facts {
            tally.add(fact.clone(), 10, at(*hours));
        }
        let tallies = BTreeMap::from([((root.to_owned(), String::new()), tally)]);
        rows(tallies, &VaultUrl::parse("file:///backups").expect("a URL"), at(now)).remove(0)
    }

    fn sets() -> Vec<(Fact, i64)> {
        let set = |hours| (Fact::Index(SetId::new(at(hours), 1)), hours);
        vec![set(0), set(24), set(48), (Fact::Link(3), 48)]
    }

    /// A prefix in a folder, with a replica of two objects for each name.
    fn prefix(names: &[&str]) -> (tempfile::TempDir, VaultUrl) {
        let folder = tempfile::tempdir().expect("a folder");
        for name in names {
            for object in ["ltx/9/0000000000000001-0000000000000005.ltx", "ltx/0/0000000000000006-0000000000000006.ltx"]
            {
                let file = folder.path().join(name).join(object);
                #[expect(clippy::disallowed_methods, reason = "tests are an edge")]
                let made =
                    std::fs::create_dir_all(file.parent().expect("a folder")).and_then(|()| std::fs::write(&file, "x"));
                made.expect("written");
            }
        }
        let url = VaultUrl::parse(&format!("file://{}", folder.path().display())).expect("a URL");
        (folder, url)
    }

    #[tokio::test]
    async fn a_prefix_with_more_than_is_remembered_is_shown_as_far_as_it_goes() {
        let (_folder, url) = prefix(&["a", "b", "c"]);
        let opener = Opener::new(seawall_vault::Environment::default(), 1);
        let times = (ONE_WITHIN, ALL_WITHIN);
        let whole = opener.catalogue_within(&url, &Choose::default(), Bound::default(), times).await.expect("listed");
        assert_eq!((whole.found, whole.cut_short), (3, None));
        for (most, found, open) in [(6, 3, false), (5, 3, true), (3, 2, true)] {
            let bound = Bound::new(usize::MAX, most);
            let cut = opener.catalogue_within(&url, &Choose::default(), bound, times).await.expect("listed");
            assert_eq!((cut.found, cut.cut_short.is_some()), (found, open), "{most}");
            let told = cut.databases.last().expect("a row").doubts.iter().any(|doubt| doubt.contains("ended among"));
            assert_eq!(told, open, "{most}: {:?}", cut.databases);
            assert!(cut.databases[0].is_fine(), "what came before is whole");
        }
        let bound = Bound::new(1, u64::MAX);
        let cut = opener.catalogue_within(&url, &Choose::default(), bound, times).await.expect("listed");
        assert_eq!((cut.found, cut.cut_short.map(|failure| failure.code)), (1, Some("fleet.cut-short")));
    }

    #[tokio::test]
    async fn objects_that_are_not_read_in_time_are_told() {
        let (folder, url) = prefix(&["a"]);
        let record = folder.path().join("a/seawall/proofs/20261120T101112123Z-0000000a.json");
        #[expect(clippy::disallowed_methods, reason = "tests are an edge")]
        let made =
            std::fs::create_dir_all(record.parent().expect("a folder")).and_then(|()| std::fs::write(&record, "{}"));
        made.expect("written");
        let opener = Opener::new(seawall_vault::Environment::default(), 1);
        for (times, told) in [
            ((Duration::ZERO, ALL_WITHIN), "weren't read within 0 s"),
            ((ONE_WITHIN, Duration::ZERO), "longer than 0 s in all"),
        ] {
            let late =
                opener.catalogue_within(&url, &Choose::default(), Bound::default(), times).await.expect("listed");
            let doubts = &late.databases[0].doubts;
            assert!(doubts.iter().any(|doubt| doubt.contains(told)), "{doubts:?}");
            assert!(!late.databases[0].is_fine());
        }
    }

    #[test]
    fn what_cannot_be_restored_is_told() {
        let id = SetId::new(at(1), 1);
        let run = "eu/seawall-bench-00000000000000ff";
        for (root, facts, told) in [
            ("a", vec![(Fact::Ltx(9, 1, 5), 1), (Fact::Ltx(0, 6, 6), 2)], None),
            (
                "a",
                vec![(Fact::Ltx(0, 5, 5), 1), (Fact::Ltx(1, 2, 6), 2)],
                Some("nothing can be restored: it has no base"),
            ),
            ("a", vec![(Fact::Chunk(id), 1)], Some("nothing can be restored: it has no complete backup")),
            ("a", sets(), None),
            (
                run,
                sets(),
                Some("`seawall bench` made it to be measured, and left it behind: delete everything below it"),
            ),
        ] {
            let row = row(root, &facts, 50);
            assert_eq!(row.doubts.first().map(String::as_str), told, "{facts:?}");
            assert_eq!(row.is_fine(), told.is_none());
        }
    }

    #[test]
    fn ages_and_alarms_go_on_after_a_listing() {
        let listed = judged(row("a", &sets(), 49), at(49));
        assert!(listed.is_fine() && listed.age_s == Some(3600), "{listed:?}");
        let later = listed.aged(at(48 + 40));
        assert_eq!(later.age_s, Some(40 * 3600));
        assert_eq!(later.alarms.iter().map(|alarm| &*alarm.code).collect::<Vec<_>>(), ["alarm.backup-overdue"]);
        let replica = row("a", &[(Fact::Ltx(9, 1, 5), 1)], 2);
        assert_eq!(replica.aged(at(11)).age_s, Some(36_000));
    }

    #[test]
    fn a_proof_that_cannot_be_read_now_keeps_its_alarm() {
        let facts = [(Fact::Ltx(9, 1, 5), 1), (Fact::Proof(at(2)), 2)];
        let failed = Proof {
            database: "a".into(),
            engine: "sqlite".into(),
            at: at(2),
            point: None,
            level: Level::Content,
            restore_ms: 1,
            duration_ms: 2,
            objects: 3,
            read_bytes: 4,
            fresh_bytes: 0,
            restored_bytes: 5,
            moments: Vec::new(),
            faults: vec![seawall_core::Fault { code: "x".into(), object: "o".into(), cause: "c".into() }],
            inconclusive: false,
            doubts: Vec::new(),
            host: "h".into(),
            vault: String::new(),
        };
        let former = judged(Row { proof: Some(failed), ..row("a", &facts, 3) }, at(3));
        assert_eq!(former.alarms.len(), 1, "{former:?}");
        let mut now = judged(row("a", &facts, 4), at(4));
        assert!(now.alarms.is_empty());
        now.keep(&former, at(3), at(4));
        assert_eq!((now.alarms.len(), now.doubts.len(), now.is_fine()), (1, 1, false), "{now:?}");
        let mut without = row("a", &facts[..1], 4);
        without.keep(&former, at(3), at(4));
        assert_eq!(without.proof, None, "a record that is gone says nothing");
    }
}
