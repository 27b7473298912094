//! The records of proofs in a vault.
//!
//! Anybody who can write to the vault can put other objects between them. A thousand newer names are read past, and no true record goes because of them: only what
//! was read and is a true record of this database is shown, or deleted. In a folder that was filled with other objects, the newest records are looked for by their
//! time: names sort by it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use seawall_core::{Clock as _, Description, Failure, Fingerprints, Kind, Moment, Proof, SystemClock, When};
use seawall_vault::{ObjectKey, Prefix, Vault};

use super::{beyond, compared, record};

/// Records that are read at once.
const AT_ONCE: usize = 8;

/// Records that are kept for each database.
const KEPT: usize = 100;

/// More records than are kept, before the oldest ones are deleted: then not every proof reads all records.
const SLACK: usize = 20;

/// The newest names that are read at most. A stranger would have to write as many to hide a record.
const MOST_READ: usize = 1000;

/// Objects that are listed at most, from one place on.
const MOST_LISTED: usize = 100_000;

/// In a folder with more objects: how long before now the listings begin that look for the newest records.
const RECENT: [Duration; 5] = [hours(1), hours(24), hours(8 * 24), hours(40 * 24), hours(400 * 24)];

const fn hours(number: u64) -> Duration {
    Duration::from_secs(number * 3600)
}

/// Lists of compared objects that are read at most. Older ones don't spare anything then.
const MOST_LISTS: usize = 64;

/// Records that are read where the newest doesn't say all.
pub(crate) const EARLIER: usize = 8;

/// Doubts that are told one by one.
const MOST_DOUBTS: usize = 5;

/// Whether an object of this name is the record of a proof.
pub fn is_record(key: &ObjectKey) -> bool {
    record::is_in_folder(key.as_str())
}

/// The records of proofs of one database, in its vault.
#[derive(Debug)]
pub struct Proofs {
    vault: Vault,
    folder: String,
    database: Description,
    /// [`MOST_LISTED`]; tests can't make as many objects.
    most_listed: usize,
}

/// The proofs that are recorded in a vault.
#[derive(Debug, Default)]
pub struct Recorded {
    /// The newest, newest first.
    pub proofs: Vec<Proof>,
    /// What is wrong with records that were left out, each one sentence without a full stop.
    pub doubts: Vec<String>,
}

impl Recorded {
    /// What the vaults of a database hold, each by its URL with what came of looking there. Of several vaults each proof says which one it
    /// is of.
    ///
    /// # Errors
    /// When none of them can be reached.
    pub fn together(told: impl IntoIterator<Item = (String, Result<Self, Failure>)>) -> Result<Self, Failure> {
        let (mut all, mut reached, mut last) = (Self::default(), false, None);
        let told: Vec<_> = told.into_iter().collect();
        let are_several = told.len() > 1;
        for (url, told) in told {
            match told {
                Ok(Self { proofs, doubts }) => {
                    reached = true;
                    let vault = |proof| if are_several { Proof { vault: url.clone(), ..proof } } else { proof };
                    all.proofs.extend(proofs.into_iter().map(vault));
                    all.doubts.extend(doubts);
                }
                Err(failure) => last = Some(failure),
            }
        }
        match last.filter(|_| !reached) {
            Some(failure) => Err(failure),
            None => {
                all.proofs.sort_by_key(|proof| std::cmp::Reverse(proof.at));
                Ok(all)
            }
        }
    }
}

/// The names of the folder's records.
#[derive(Debug, Default)]
struct Names {
    /// The newest, in order.
    newest: BTreeSet<String>,
    /// How many there are.
    count: usize,
    /// The newest lists of compared objects, by the names of their records.
    compared: BTreeSet<String>,
    /// Names with a moment of the future.
    later: usize,
    /// Whether the folder holds more objects than are listed.
    cut: bool,
}

impl Names {
    /// Adds those of another listing of the same folder.
    fn add(&mut self, other: Self) {
        self.newest.extend(other.newest);
        self.compared.extend(other.compared);
        bound(&mut self.newest);
        bound(&mut self.compared);
        (self.count, self.later) = (self.count.max(other.count), self.later.max(other.later));
    }
}

/// Keeps the newest.
fn bound(names: &mut BTreeSet<String>) {
    while names.len() > MOST_READ {
        names.pop_first();
    }
}

impl Proofs {
    /// The records of a database, which `vault` holds.
    pub fn of(vault: Vault, database: &Description) -> Self {
        let folder = record::folder(database.engine, &database.name);
        Self { vault, folder, database: database.clone(), most_listed: MOST_LISTED }
    }

    /// The newest records, at most `most`. A record that can't be read, or is one of another database, is left out, with a doubt: it
    /// says nothing about the database.
    ///
    /// # Errors
    /// When the vault can't be listed.
    pub async fn newest(&self, most: usize) -> Result<Recorded, Failure> {
        self.newest_while(|proofs| proofs.len() < most, |_| true).await
    }

    /// The newest records, at most `most`. If none of these says anything about the objects, because the proofs couldn't be made, also
    /// the newest that does. A failure then isn't hidden by later proofs that say nothing, and these take no memory.
    ///
    /// # Errors
    /// When the vault can't be listed.
    pub async fn newest_that_tell(&self, most: usize) -> Result<Recorded, Failure> {
        let says_nothing = |proof: &Proof| proof.inconclusive;
        let more = |proofs: &[Proof]| proofs.len() < most || proofs.iter().all(says_nothing);
        self.newest_while(more, |proofs| proofs.last().is_none_or(|last| proofs.len() <= most || !says_nothing(last)))
            .await
    }

    /// Writes a record as [`Proofs::write`] does. A proof of the newest point gets a doubt before, if an earlier proof restored a later
    /// point: the vault was set back, and each later proof would hide that otherwise.
    ///
    /// # Errors
    /// When the record can't be written.
    pub async fn record(&self, proof: &mut Proof, when: &When, compared: &Fingerprints) -> Result<String, Failure> {
        if *when == When::Latest {
            self.doubt_what_is_beyond(proof).await;
        }
        self.write(proof, compared).await
    }

    async fn doubt_what_is_beyond(&self, proof: &mut Proof) {
        let Some(point) = proof.point.clone() else { return };
        // If the records can't be read, this one can't be written, which is told.
        let Ok(earlier) = self.newest_that_tell(EARLIER).await else { return };
        let gone = beyond(&earlier.proofs, Some(&point), proof.at, self.vault.url());
        proof.doubts.extend(gone.map(|failure| format!("{} ({})", failure.cause, failure.code)));
    }

    /// The newest records, for as long as `more` of those read so far says so. The last one read is dropped if `keeps` says no.
    async fn newest_while(
        &self,
        more: impl Fn(&[Proof]) -> bool,
        keeps: impl Fn(&[Proof]) -> bool,
    ) -> Result<Recorded, Failure> {
        let Names { newest, later, cut, .. } = self.names().await?;
        let mut recorded = Recorded::default();
        let mut all = Box::pin(stream::iter(newest.into_iter().rev()).map(|name| self.look(name)).buffered(AT_ONCE));
        let mut left_out = 0;
        while more(&recorded.proofs)
            && let Some((name, read)) = all.next().await
        {
            match read {
                Ok(proof) => {
                    recorded.proofs.push(proof);
                    if !keeps(&recorded.proofs) {
                        recorded.proofs.pop();
                    }
                }
                Err(_) if left_out >= MOST_DOUBTS => left_out += 1,
                Err(why) => {
                    left_out += 1;
                    let doubt = format!("{}{name}: this record of a proof is left out: {why}", self.folder);
                    recorded.doubts.push(doubt);
                }
            }
        }
        let folder = &self.folder;
        let counted = [
            (later, format!("{folder}: records of proofs of the future are left out: {later}")),
            (
                left_out.saturating_sub(MOST_DOUBTS),
                format!("{folder}: more records of proofs are left out: {}", left_out.saturating_sub(MOST_DOUBTS)),
            ),
            (
                usize::from(cut),
                format!("{folder}: it holds more than {} objects, and not all are looked at", self.most_listed),
            ),
        ];
        recorded.doubts.extend(counted.into_iter().filter(|(count, _)| *count > 0).map(|(_, doubt)| doubt));
        Ok(recorded)
    }

    async fn look(&self, name: String) -> (String, Result<Proof, String>) {
        let read = self.read(&name).await;
        (name, read)
    }

    async fn read(&self, name: &str) -> Result<Proof, String> {
        let bytes = self.vault.read(&self.key(name)?, None, record::MOST).await.map_err(|error| error.to_string())?;
        let proof = record::parse(name, &bytes)?;
        record::belongs(&proof, &self.database)?;
        Ok(proof)
    }

    /// The objects that proofs compared with their digests less than `fresh` ago; none if it is `None`. A list that can't be read
    /// spares nothing.
    ///
    /// # Errors
    /// When the vault can't be listed.
    pub async fn fresh(&self, fresh: Option<Duration>) -> Result<Arc<Fingerprints>, Failure> {
        let Some(fresh) = fresh else { return Ok(Arc::default()) };
        let (names, now) = (self.names().await?, SystemClock.now());
        let counts = |record: &str| {
            names.newest.contains(record)
                && record::moment_of(record).is_some_and(|at| compared::counts(at, fresh, now))
        };
        let lists = names.compared.iter().rev().filter(|record| counts(record.as_str())).take(MOST_LISTS);
        let lists: Vec<String> = lists.cloned().collect();
        let mut all = Fingerprints::new();
        let read = |record: String| async move { self.compared(&record).await };
        let mut read = Box::pin(stream::iter(lists).map(read).buffered(AT_ONCE));
        while let Some(list) = read.next().await {
            match list {
                Ok(list) if all.len() < compared::MOST_FRESH => all.extend(list),
                // Hostile lists may name countless objects. The rest is compared again.
                Ok(_) => break,
                Err(why) => tracing::debug!(folder = self.folder, "a list of compared objects is left out: {why}"),
            }
        }
        Ok(Arc::new(all))
    }

    async fn compared(&self, record: &str) -> Result<Fingerprints, String> {
        let name = compared::name(record).ok_or("it belongs to no record")?;
        let key = self.key(&name)?;
        let bytes = self.vault.read(&key, None, compared::MOST_BYTES).await.map_err(|error| error.to_string())?;
        compared::parse(&bytes).map_err(|why| format!("{name}: {why}"))
    }

    /// Writes a record, and beside it which objects were compared. Then deletes the oldest records where that is allowed. Returns the
    /// record's key.
    ///
    /// # Errors
    /// When the record can't be written.
    pub async fn write(&self, proof: &Proof, compared: &Fingerprints) -> Result<String, Failure> {
        let internal = |cause: String| {
            Failure::new(Kind::Internal, "proof.internal", proof.database.clone(), cause, "report this: it is a defect")
        };
        let name = record::name(proof.at, nonce(proof.at));
        let key = self.key(&name).map_err(internal)?;
        let bytes = record::bytes(proof).map_err(|error| internal(error.to_string()))?;
        self.vault.create(&key, Bytes::from(bytes), None).await?;
        if let Some(list) = compared::name(&name).filter(|_| !compared.is_empty()) {
            let list = self.key(&list).map_err(internal)?;
            if let Err(error) = self.vault.create(&list, Bytes::from(compared::bytes(compared)), None).await {
                tracing::debug!("{list} isn't written, so the next proof compares all objects: {error}");
            }
        }
        if let Err(failure) = self.prune().await {
            tracing::debug!(folder = self.folder, "old records of proofs stay: {failure}");
        }
        Ok(key.to_string())
    }

    /// Deletes the oldest records but for the newest [`KEPT`], each after it was read. Credentials that may not delete leave them.
    async fn prune(&self) -> Result<(), Failure> {
        let names = self.names().await?;
        if names.count <= KEPT + SLACK {
            return Ok(());
        }
        let newest = names.newest.into_iter().rev();
        let mut read = Box::pin(stream::iter(newest).map(|name| self.look(name)).buffered(AT_ONCE));
        let (mut kept, mut due) = (0, Vec::new());
        while let Some((name, read)) = read.next().await {
            match read {
                Ok(_) if kept < KEPT => kept += 1,
                Ok(_) => {
                    let list = compared::name(&name).filter(|_| names.compared.contains(&name));
                    due.extend(list.into_iter().chain([name]).filter_map(|name| self.key(&name).ok()));
                }
                Err(_) => {}
            }
        }
        if !due.is_empty() {
            self.vault.delete(&due).await?;
        }
        Ok(())
    }

    /// The names of the records in the folder. In one with too many objects the first ones, and the newest that can be found.
    async fn names(&self) -> Result<Names, Failure> {
        let now = SystemClock.now();
        let mut names = self.names_after(None, now).await?;
        if !names.cut {
            return Ok(names);
        }
        for span in RECENT {
            let after = self.key(&record::name(now.before(span), 0)).ok();
            let recent = self.names_after(after.as_ref(), now).await?;
            // What begins earlier ends earlier.
            let is_cut = recent.cut;
            names.add(recent);
            if is_cut {
                break;
            }
        }
        Ok(names)
    }

    /// The names of records that sort behind a key, in a listing of bounded length. Behind a key nothing of the future is listed.
    async fn names_after(&self, after: Option<&ObjectKey>, now: Moment) -> Result<Names, Failure> {
        let limit = now.after(record::AHEAD);
        let end = after.map(|_| format!("{}{}", self.folder, record::name(limit, u32::MAX)));
        let mut names = Names::default();
        let mut entries = Box::pin(self.vault.entries(&Prefix::new(&self.folder)?, after));
        let mut listed = 0;
        while let Some(entry) = entries.try_next().await? {
            if end.as_deref().is_some_and(|end| entry.key.as_str() > end) {
                break;
            }
            if listed >= self.most_listed {
                names.cut = true;
                break;
            }
            listed += 1;
            let name = entry.key.as_str().strip_prefix(&self.folder);
            if let Some(record) = name.and_then(compared::record_of) {
                names.compared.insert(record);
                bound(&mut names.compared);
                continue;
            }
            let Some((name, at)) = name.and_then(|name| Some((name, record::moment_of(name)?))) else { continue };
            if at > limit {
                names.later += 1;
                continue;
            }
            names.count += 1;
            names.newest.insert(name.to_owned());
            bound(&mut names.newest);
        }
        Ok(names)
    }

    fn key(&self, name: &str) -> Result<ObjectKey, String> {
        ObjectKey::new(format!("{}{name}", self.folder)).map_err(|error| error.to_string())
    }
}

/// Keeps records of one instant apart.
fn nonce(at: Moment) -> u32 {
    let mut bytes = [0; 4];
    #[expect(clippy::disallowed_methods, reason = "this is the edge where randomness enters")]
    let filled = getrandom::fill(&mut bytes);
    match filled {
        Ok(()) => u32::from_ne_bytes(bytes),
        // Two records of one millisecond are then refused instead of written over.
        Err(_) => u32::try_from(at.as_millis().unsigned_abs() % u64::from(u32::MAX)).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use seawall_core::Fault;
    use seawall_vault::{Environment, Policy, VaultUrl};

    use super::*;

    fn proof(millis: i64) -> Proof {
        Proof {
            database: "app".into(),
            engine: "sqlite".into(),
            at: Moment::from_millis(millis),
            restore_ms: 1,
            duration_ms: 2,
            objects: 3,
            read_bytes: 4,
            restored_bytes: 5,
            host: "here".into(),
            ..Proof::default()
        }
    }

    async fn vault(folder: &tempfile::TempDir) -> Vault {
        let url: VaultUrl = format!("file://{}", folder.path().display()).parse().expect("a URL");
        Vault::open(&url, &Environment::default(), Policy::default()).await.expect("a vault")
    }

    fn described(engine: &'static str, name: &str) -> Description {
        Description { name: name.into(), engine, source: Some("/x".into()), vault: String::new() }
    }

    fn seconds(recorded: &Recorded) -> Vec<i64> {
        recorded.proofs.iter().map(|proof| proof.at.as_millis() / 1000).collect()
    }

    #[tokio::test]
    async fn the_newest_records_stay_whatever_strangers_write() {
        let folder = tempfile::tempdir().expect("a folder");
        let vault = vault(&folder).await;
        let proofs = Proofs::of(vault.clone(), &described("sqlite", "app"));
        // A stranger's objects, older and newer than every record.
        let mut strange = Vec::new();
        for number in 0..110_i64 {
            let at = Moment::from_millis(if number < 100 { number } else { 10_000_000 + number });
            let key = format!("seawall/proofs/{}", record::name(at, 7));
            strange.push(ObjectKey::new(key).expect("a key"));
        }
        strange.push(ObjectKey::new("seawall/proofs/99990101T000000000Z-00000001.json").expect("a key"));
        for key in &strange {
            vault.create(key, Bytes::from_static(b"{}"), None).await.expect("written");
        }
        for second in 1..=90 {
            proofs.write(&proof(second * 1000), &Fingerprints::new()).await.expect("written");
        }
        let found = proofs.newest(200).await.expect("listed");
        assert_eq!(seconds(&found), (1..=90).rev().collect::<Vec<_>>(), "no record goes before there are too many");
        assert_eq!(found.doubts.len(), MOST_DOUBTS + 2, "{:?}", found.doubts);
        assert!(found.doubts.iter().any(|doubt| doubt.contains("of the future are left out: 1")), "{:?}", found.doubts);
        assert!(found.doubts.iter().any(|doubt| doubt.ends_with("left out: 105")), "{:?}", found.doubts);
        assert_eq!(seconds(&proofs.newest(1).await.expect("listed")), [90]);

        for second in 91..=103 {
            proofs.write(&proof(second * 1000), &Fingerprints::new()).await.expect("written");
        }
        assert_eq!(seconds(&proofs.newest(200).await.expect("listed")), (4..=103).rev().collect::<Vec<_>>());
        for key in &strange {
            assert!(vault.head(key).await.expect("asked").is_some(), "{key}: a stranger's object is left alone");
        }
        assert!(is_record(&strange[0]));
    }

    #[test]
    fn the_records_of_several_vaults() {
        let at = |at| Ok(Recorded { proofs: vec![proof(at)], doubts: vec![format!("of {at}")] });
        let away = || Err(Failure::new(seawall_core::Kind::Unavailable, "vault.unavailable", "o", "c", "n"));
        let of = |told: Vec<Result<Recorded, Failure>>| {
            Recorded::together(told.into_iter().enumerate().map(|(number, told)| (format!("v{number}"), told)))
        };
        let all = of(vec![at(1), away(), at(5), at(3)]).expect("some can be reached");
        let by = |vault: &str, at| Proof { vault: vault.into(), ..proof(at) };
        assert_eq!(all.proofs, [by("v2", 5), by("v3", 3), by("v0", 1)]);
        assert_eq!(all.doubts, ["of 1", "of 5", "of 3"]);
        let none = of(vec![away(), away()]).expect_err("none can");
        assert_eq!(none.code, "vault.unavailable");
        assert!(of(vec![away(), Ok(Recorded::default())]).is_ok_and(|none| none.proofs.is_empty()));
        assert!(of(vec![at(4)]).is_ok_and(|one| one.proofs == [proof(4)]), "a vault alone needs no name");
    }

    #[tokio::test]
    async fn a_folder_full_of_other_objects_hides_no_record() {
        let folder = tempfile::tempdir().expect("a folder");
        let vault = vault(&folder).await;
        let proofs = Proofs { most_listed: 20, ..Proofs::of(vault.clone(), &described("sqlite", "app")) };
        let now = SystemClock.now();
        let ago = |span: Duration| proof(now.before(span).as_millis());
        let made = [hours(30), hours(6 * 24), hours(300 * 24)].map(ago);
        for proof in &made {
            proofs.write(proof, &Fingerprints::new()).await.expect("written");
        }
        let junk = async |name: String| {
            let key = ObjectKey::new(format!("seawall/proofs/{name}")).expect("a key");
            vault.create(&key, Bytes::from_static(b"{}"), None).await.expect("written");
        };
        // Before all records, and behind them.
        for number in 0..25 {
            junk(format!("0-{number}")).await;
            junk(format!("x-{number}")).await;
        }
        let found = proofs.newest(9).await.expect("listed");
        assert_eq!(found.proofs.first(), made.first(), "{found:?}");
        assert_eq!(found.proofs.len(), 3, "{found:?}");
        assert!(found.doubts.iter().any(|doubt| doubt.contains("more than 20 objects")), "{found:?}");
        // Between them.
        for number in 0..25 {
            junk(record::name(now.before(hours(10 * 24)), number)).await;
        }
        let found = proofs.newest(9).await.expect("listed");
        assert_eq!(found.proofs, made[..2], "{found:?}");
    }

    #[tokio::test]
    async fn a_failure_is_found_behind_proofs_that_say_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let proofs = Proofs::of(vault(&folder).await, &described("sqlite", "app"));
        let fault = Fault { code: "a.b".into(), object: "o".into(), cause: "c".into() };
        proofs
            .write(&Proof { faults: vec![fault.clone()], ..proof(1000) }, &Fingerprints::new())
            .await
            .expect("written");
        for second in 2..=30 {
            let made = Proof { inconclusive: true, faults: vec![fault.clone()], ..proof(second * 1000) };
            proofs.write(&made, &Fingerprints::new()).await.expect("written");
        }
        let found = proofs.newest_that_tell(3).await.expect("listed").proofs;
        let nothing: Vec<bool> = found.iter().map(|proof| proof.inconclusive).collect();
        assert_eq!(nothing, [true, true, true, false], "those between say nothing, and take no memory");
        assert_eq!(proofs.newest(3).await.expect("listed").proofs.len(), 3);
        proofs.write(&proof(31_000), &Fingerprints::new()).await.expect("written");
        assert_eq!(proofs.newest_that_tell(3).await.expect("listed").proofs.len(), 3);
    }

    /// A clock that was hours ahead made it, or a stranger.
    #[tokio::test]
    async fn a_sound_proof_of_the_future_hides_no_failure() {
        let folder = tempfile::tempdir().expect("a folder");
        let proofs = Proofs::of(vault(&folder).await, &described("sqlite", "app"));
        let now = SystemClock.now().as_millis();
        let fault = Fault { code: "sqlite.corrupt".into(), object: "o".into(), cause: "c".into() };
        let failed = Proof { faults: vec![fault], ..proof(now) };
        let write = async |proof: &Proof| proofs.write(proof, &Fingerprints::new()).await.expect("written");
        write(&proof(now + 20 * 3_600_000)).await;
        write(&failed).await;
        let found = proofs.newest_that_tell(3).await.expect("listed");
        assert_eq!(super::super::due::standing(&found.proofs), Some(&failed), "{found:?}");
        assert!(found.doubts.iter().any(|doubt| doubt.contains("of the future are left out: 1")), "{:?}", found.doubts);
        // Clocks differ by some minutes.
        let next = Proof { level: seawall_core::Level::Content, ..proof(now + 120_000) };
        write(&next).await;
        let found = proofs.newest_that_tell(3).await.expect("listed");
        assert_eq!(super::super::due::standing(&found.proofs), Some(&next), "{found:?}");
    }

    #[tokio::test]
    async fn records_of_other_databases_are_left_out() {
        let folder = tempfile::tempdir().expect("a folder");
        let vault = vault(&folder).await;
        let own = Proofs::of(vault.clone(), &described("sqlite", "app"));
        own.write(&proof(1000), &Fingerprints::new()).await.expect("written");
        own.write(&Proof { database: "file:///v".into(), ..proof(2000) }, &Fingerprints::new()).await.expect("written");
        own.write(&Proof { database: "other".into(), ..proof(3000) }, &Fingerprints::new()).await.expect("written");
        own.write(&Proof { engine: "mysql".into(), ..proof(4000) }, &Fingerprints::new()).await.expect("written");
        let found = own.newest(9).await.expect("listed");
        assert_eq!((seconds(&found), found.doubts.len()), (vec![2, 1], 2), "{:?}", found.doubts);
        // A vault alone doesn't know what hosts call its database.
        let alone = Proofs::of(vault.clone(), &Description { source: None, ..described("sqlite", "file:///v") });
        assert_eq!(seconds(&alone.newest(9).await.expect("listed")), [3, 2, 1]);
        let shard = Proofs::of(vault.clone(), &described("lmdb", "shard"));
        let of_shard = Proof { database: "shard".into(), engine: "lmdb".into(), ..proof(7) };
        shard.write(&of_shard, &Fingerprints::new()).await.expect("written");
        assert_eq!(shard.newest(9).await.expect("listed").proofs, [of_shard]);
    }

    #[tokio::test]
    async fn what_was_compared_is_remembered_as_long_as_its_record() {
        let folder = tempfile::tempdir().expect("a folder");
        let vault = vault(&folder).await;
        let proofs = Proofs::of(vault.clone(), &described("sqlite", "app"));
        let now = SystemClock.now().as_millis();
        let day = Duration::from_secs(86_400);
        for (ago, compared) in [(40, [1, 2]), (20, [3, 4]), (1, [4, 5])] {
            let made = proof(now - i64::try_from(day.as_millis()).expect("small") * ago);
            proofs.write(&made, &compared.into()).await.expect("written");
        }
        // Lists without a record, and such that are none.
        for (name, bytes) in [
            (record::name(Moment::from_millis(now - 1), 9), compared::bytes(&[6].into())),
            (record::name(Moment::from_millis(now - 2), 9), b"no list".to_vec()),
        ] {
            let key = format!("seawall/proofs/{}", compared::name(&name).expect("a name"));
            vault.create(&ObjectKey::new(key).expect("a key"), Bytes::from(bytes), None).await.expect("written");
        }
        for (days, expected) in [(0, vec![]), (10, vec![4, 5]), (30, vec![3, 4, 5]), (90, vec![1, 2, 3, 4, 5])] {
            assert_eq!(
                *proofs.fresh(Some(day * days)).await.expect("listed"),
                expected.into_iter().collect(),
                "{days}"
            );
        }
        assert_eq!(proofs.newest(9).await.expect("listed").doubts, Vec::<String>::new());
        for second in 1..=KEPT + SLACK {
            let made = proof(now - 1000 + i64::try_from(second).expect("small"));
            proofs.write(&made, &Fingerprints::new()).await.expect("written");
        }
        assert_eq!(
            *proofs.fresh(Some(day * 90)).await.expect("listed"),
            Fingerprints::new(),
            "lists go with their records"
        );
    }
}
