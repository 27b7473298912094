//! Carries out retention over the bases and the log of a vault. A note beside its manifest gives a base up, and a grace later
//! its objects are deleted, but for packs that other bases refer to. Then the log that no base needs any longer goes. If a
//! manifest can't be read, nothing is deleted: its base may need anything. Nothing is deleted either if no base restores
//! something.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt as _;
use seawall_archive::log::{Contents, Log, LogError, LogObject, Lsn, TimelineId};
use seawall_archive::{MaintenancePass, RetentionPolicy, SetId, deleted_from, pins, write_document};
use seawall_core::{Maintained, Moment, PlannedObject, RemovedObject};
use seawall_vault::{ObjectKey, Vault};
use serde::Serialize;

use super::base::store::{self, Objects};
use super::base::{self, BaseManifest, Listed, layout};
use super::recover::line::{self, Written};
use super::retention::{Candidate, Needed, extent, removals, returns};
use crate::Error;

/// Keys that are deleted with one call.
const AT_ONCE: usize = 1000;

/// After this time, content without a manifest belongs to a base that was interrupted.
const LEFT_OVER: Duration = Duration::from_secs(7 * 24 * 3600);

/// For this time, content without a manifest may belong to a base that is being made, and that refers to packs of others.
const IN_THE_MAKING: Duration = Duration::from_secs(24 * 3600);

/// How long to wait before looking again while a base is being made.
const LOOK_AGAIN: Duration = Duration::from_secs(3600);

/// Why a base's objects are deleted.
const GIVEN_UP: &str = "given up, and the grace is over";

/// The note that gives a base up.
#[derive(Debug, Serialize)]
struct GivenUp {
    /// When retention decided.
    at: Moment,
    /// The rule that it followed.
    rule: String,
}

/// What a vault holds of one cluster, as retention sees it.
struct Held {
    log: Log,
    contents: Contents,
    written: Written,
    surveyed: BTreeMap<Listed, Objects>,
    manifests: BTreeMap<SetId, BaseManifest>,
    /// The bases of which an object is missing.
    broken: BTreeSet<SetId>,
    system: u64,
}

/// Gives bases up that the policy doesn't keep, and deletes what was given up a grace ago and the log that no base needs.
/// With `dry_run` it only reports them.
///
/// # Errors
/// When the vault can't be read or written, or a manifest is damaged.
pub(super) async fn maintain(
    vault: &Vault,
    policy: &RetentionPolicy,
    now: Moment,
    dry_run: bool,
) -> Result<MaintenancePass, Error> {
    let done = Maintained { dry_run, ..Maintained::default() };
    let mut pass = MaintenancePass { done, ..MaintenancePass::default() };
    let Some(mut held) = Held::read(vault, &mut pass).await?.filter(|_| policy.enabled) else { return Ok(pass) };
    // A clock that runs ahead would make everything old.
    let here = now;
    let now = held.newest().map_or(now, |newest| now.min(newest));
    let lock = vault.protection().await.map_err(seawall_archive::Error::from)?.span();
    let rules = Rules { vault, policy, now, lock };
    let notes = held.take_back(&rules, &pins(vault).await?)?;
    let restores = held.candidates(&BTreeSet::new()).iter().any(|base| base.restores() && !base.retired);
    let gone = if restores { held.gone(&rules, &mut pass).await? } else { BTreeSet::new() };
    let deleted = async {
        if !dry_run {
            for note in &notes {
                tracing::info!(object = note.as_str(), "its base counts again: by today's decision it stays");
            }
            rules.delete(&notes).await?;
        }
        if restores {
            let are_gone = rules.delete_bases(&held, &gone, &mut pass).await?;
            // Bases that are there still may be needed again, and their log with them.
            let gone = if are_gone { gone } else { BTreeSet::new() };
            rules.delete_log(&held, &gone, &mut pass).await?;
        }
        Ok(())
    };
    let deleted: Result<(), Error> = deleted.await;
    match deleted {
        Err(
            Error::Archive(seawall_archive::Error::Vault(cause @ seawall_vault::Error::Denied { .. }))
            | Error::Log(LogError::Vault(cause @ seawall_vault::Error::Denied { .. })),
        ) => {
            // The last one was noted before it was tried.
            pass.done.removed.pop();
            pass.denied = Some(cause);
        }
        done => done?,
    }
    rules.give_up(&held, &mut pass).await?;
    Ok(pass.later_than(here))
}

impl Held {
    /// Reads what there is; `None` if there is no log, or a manifest that no key at hand opens.
    async fn read(vault: &Vault, pass: &mut MaintenancePass) -> Result<Option<Self>, Error> {
        let Some(log) = Log::open(vault).await? else { return Ok(None) };
        let system = log.cluster().system.number();
        let mut surveyed = store::survey(vault).await?;
        surveyed.retain(|base, _| base.system == system);
        let mut manifests = BTreeMap::new();
        for base in surveyed.iter().filter(|(_, objects)| objects.manifest).map(|(base, _)| *base) {
            match base::manifest(vault, base).await {
                Ok(manifest) => drop(manifests.insert(base.id, manifest)),
                Err(Error::Archive(seawall_archive::Error::Vault(seawall_vault::Error::Sealing { .. }))) => {
                    pass.sealed += 1;
                }
                Err(error) => return Err(error),
            }
        }
        if pass.sealed > 0 {
            return Ok(None);
        }
        let is_there: BTreeSet<(&ObjectKey, u64)> =
            surveyed.values().flat_map(|objects| &objects.content).map(|(key, bytes)| (key, *bytes)).collect();
        let mut broken = BTreeSet::new();
        for (id, manifest) in &manifests {
            if store::needed(system, manifest)?.iter().any(|(key, bytes)| !is_there.contains(&(key, *bytes))) {
                broken.insert(*id);
            }
        }
        let (contents, written) = line::survey(&log).await?;
        Ok(Some(Self { log, contents, written, surveyed, manifests, broken, system }))
    }

    /// When the newest of all objects was written.
    fn newest(&self) -> Option<Moment> {
        let bases = self.surveyed.values().map(|objects| objects.written);
        bases.chain(self.contents.timelines.values().filter_map(|held| held.written)).max()
    }

    /// The bases that count for decisions: all with a manifest, but for those that are deleted now.
    fn candidates(&self, gone: &BTreeSet<SetId>) -> Vec<Candidate> {
        let of_base = |(base, objects): (&Listed, &Objects)| {
            let manifest = self.manifests.get(&base.id).filter(|_| !gone.contains(&base.id))?;
            let BaseManifest { timeline, start, stop, began, ended, .. } = *manifest;
            let mut reaches = line::reaches(&self.contents, &self.written, timeline, start, stop);
            reaches.retain(|reach| reach.lsn >= stop && !self.broken.contains(&base.id));
            Some(Candidate {
                id: base.id,
                // The server's clock may be far behind.
                ended: ended.max(began),
                timeline,
                start,
                stop,
                reaches,
                retired: objects.retired.is_some(),
            })
        };
        self.surveyed.iter().filter_map(of_base).collect()
    }

    /// Lets those given up count again that would stay by today's decision. Returns the notes to delete.
    fn take_back(&mut self, rules: &Rules<'_>, pins: &[SetId]) -> Result<Vec<ObjectKey>, Error> {
        let returned = returns(&self.candidates(&BTreeSet::new()), pins, rules.policy, rules.now);
        let mut notes = Vec::with_capacity(returned.len());
        for (base, objects) in self.surveyed.iter_mut().filter(|(base, _)| returned.contains(&base.id)) {
            objects.retired = None;
            notes.push(layout::retired(base.system, base.id)?);
        }
        Ok(notes)
    }

    /// The bases whose grace is over.
    async fn gone(&self, rules: &Rules<'_>, pass: &mut MaintenancePass) -> Result<BTreeSet<SetId>, Error> {
        let mut gone = BTreeSet::new();
        for (base, objects) in &self.surveyed {
            let Some(at) = objects.retired else { continue };
            let mut over = deleted_from(at, objects.written, rules.lock, rules.policy.grace);
            if over <= rules.now && objects.manifest {
                // Locks may last longer than the bucket's own setting says.
                let manifest = [layout::manifest(base.system, base.id)?];
                let kept =
                    rules.vault.locked_until(&manifest, rules.now).await.map_err(seawall_archive::Error::from)?;
                over = kept.into_iter().flatten().fold(over, Moment::max);
            }
            if over <= rules.now {
                gone.insert(base.id);
            } else {
                pass.next = Some(pass.next.map_or(over, |next| next.min(over)));
            }
        }
        Ok(gone)
    }
}

/// The log of a timeline that no base needs.
#[derive(Default)]
struct Old {
    keys: Vec<ObjectKey>,
    bytes: u64,
    /// Behind the last of it.
    end: Lsn,
}

/// What every step needs to know.
struct Rules<'a> {
    vault: &'a Vault,
    policy: &'a RetentionPolicy,
    now: Moment,
    lock: Duration,
}

impl Rules<'_> {
    /// Deletes the objects of bases whose grace is over, and what interrupted bases left long ago. Returns whether it did: while a base
    /// is being made, it waits.
    async fn delete_bases(
        &self,
        held: &Held,
        gone: &BTreeSet<SetId>,
        pass: &mut MaintenancePass,
    ) -> Result<bool, Error> {
        let stays = held.manifests.iter().filter(|(id, _)| !gone.contains(id)).map(|(_, manifest)| manifest);
        let referred: BTreeSet<(SetId, u32)> = stays.flat_map(store::others).map(|(pack, _)| pack).collect();
        let (mut left_over, mut in_the_making) = (Vec::new(), false);
        for (base, objects) in held.surveyed.iter().filter(|(_, it)| !it.manifest && it.retired.is_none()) {
            let written = objects.written.max(base.id.moment());
            in_the_making |= written.after(IN_THE_MAKING) >= self.now;
            if written.after(LEFT_OVER.max(self.lock)) < self.now {
                left_over.push((base, objects));
            }
        }
        if in_the_making && !gone.is_empty() {
            let again = self.now.after(LOOK_AGAIN);
            pass.next = Some(pass.next.map_or(again, |next| next.min(again)));
            return Ok(false);
        }
        for (base, objects) in held.surveyed.iter().filter(|(base, _)| gone.contains(&base.id)) {
            self.delete_base(*base, objects, &referred, GIVEN_UP, pass).await?;
        }
        for (base, objects) in left_over {
            self.delete_base(*base, objects, &referred, "left by a base that was interrupted", pass).await?;
        }
        Ok(true)
    }

    /// Deletes a base: the manifest first, so that a base that counts is always whole. The note goes last, so that the next
    /// call finds what an interrupted one left.
    async fn delete_base(
        &self,
        base: Listed,
        objects: &Objects,
        referred: &BTreeSet<(SetId, u32)>,
        reason: &'static str,
        pass: &mut MaintenancePass,
    ) -> Result<(), Error> {
        let is_referred = |key: &ObjectKey| pack_of(key).is_some_and(|pack| referred.contains(&(base.id, pack)));
        let content: Vec<&(ObjectKey, u64)> = objects.content.iter().filter(|(key, _)| !is_referred(key)).collect();
        if !objects.manifest && content.is_empty() && objects.content.len() > content.len() {
            // Other bases refer to all that is left.
            return Ok(());
        }
        let bytes = content.iter().map(|(_, bytes)| bytes).sum();
        let object = PlannedObject { key: layout::base(base.system, base.id)?.as_str().to_owned(), bytes };
        pass.done.removed.push(RemovedObject { object, reason });
        if pass.done.dry_run {
            return Ok(());
        }
        if objects.manifest {
            self.delete(&[layout::manifest(base.system, base.id)?]).await?;
        }
        let keys: Vec<ObjectKey> = content.iter().map(|(key, _)| key.clone()).collect();
        self.delete(&keys).await?;
        if objects.retired.is_some() && content.len() == objects.content.len() {
            self.delete(&[layout::retired(base.system, base.id)?]).await?;
        }
        Ok(())
    }

    /// Deletes the parts of the log that no base needs.
    async fn delete_log(&self, held: &Held, gone: &BTreeSet<SetId>, pass: &mut MaintenancePass) -> Result<(), Error> {
        let bases = held.candidates(gone);
        let Some(needed) = Needed::of(&held.contents, &bases, self.policy, self.now) else { return Ok(()) };
        let size = held.contents.cluster.segment_size;
        let mut entries = Box::pin(self.vault.entries(&held.log.prefix()?, None));
        let mut old: BTreeMap<TimelineId, Old> = BTreeMap::new();
        while let Some(entry) = entries.try_next().await.map_err(seawall_archive::Error::from)? {
            let Some((_, object)) = LogObject::parse(&entry.key) else { continue };
            let Some((timeline, _, end)) = extent(object, size) else { continue };
            let is_locked = !self.lock.is_zero() && entry.written.after(self.lock) > self.now;
            if is_locked || needed.has(object, entry.written, self.policy, self.now) {
                continue;
            }
            let old = old.entry(timeline).or_default();
            old.bytes += entry.size;
            old.end = old.end.max(end);
            old.keys.push(entry.key);
        }
        for (timeline, Old { keys, bytes, end }) in old {
            let object = PlannedObject { key: format!("{}{timeline}/", held.log.prefix()?.as_str()), bytes };
            pass.done.removed.push(RemovedObject { object, reason: "log that no base needs" });
            if !pass.done.dry_run {
                let trimmed = held.contents.timelines.get(&timeline).and_then(|held| held.trimmed);
                held.log.trim(timeline, trimmed.map_or(end, |trimmed| trimmed.max(end)), &keys, trimmed).await?;
            }
        }
        Ok(())
    }

    /// Gives up the bases that the policy doesn't keep.
    async fn give_up(&self, held: &Held, pass: &mut MaintenancePass) -> Result<(), Error> {
        let pins = pins(self.vault).await?;
        let gone = removals(&held.candidates(&BTreeSet::new()), &pins, self.policy, self.now);
        for id in gone {
            let bytes = held.manifests.get(&id).map_or(0, |manifest| manifest.totals.stored);
            let object = PlannedObject { key: layout::base(held.system, id)?.as_str().to_owned(), bytes };
            let reason = "older than what is kept; deleted when the grace is over";
            pass.done.retired.push(RemovedObject { object, reason });
            if pass.done.dry_run {
                continue;
            }
            let note = GivenUp { at: self.now, rule: self.policy.rule() };
            let key = layout::retired(held.system, id)?;
            match self.vault.create(&key, Bytes::from(write_document(&note)?), None).await {
                // Another process gave it up too.
                Ok(_) | Err(seawall_vault::Error::AlreadyExists { .. }) => {}
                Err(error) => return Err(seawall_archive::Error::from(error).into()),
            }
            let over = self.now.after(self.policy.grace);
            pass.next = Some(pass.next.map_or(over, |next| next.min(over)));
        }
        Ok(())
    }

    async fn delete(&self, keys: &[ObjectKey]) -> Result<(), Error> {
        for some in keys.chunks(AT_ONCE) {
            self.vault.delete(some).await.map_err(seawall_archive::Error::from)?;
        }
        Ok(())
    }
}

/// The number of a pack, by its name; `None` for a part of an index.
fn pack_of(key: &ObjectKey) -> Option<u32> {
    key.file_name().strip_suffix(".zst")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    use seawall_archive::log::{Cluster, SegmentName, SegmentSize, SystemId};
    use seawall_archive::pin;
    use seawall_core::{Clock, Steady, SystemClock, Thinning};
    use seawall_vault::memory::MemoryStore;
    use seawall_vault::{Policy, Prefix, Scheme};

    use super::super::base::Uses;
    use super::super::base::manifest::tests::sample;
    use super::super::history;
    use super::*;

    const HOUR: i64 = 3600;
    const SIZE: u64 = 1 << 20;
    const SYSTEM: u64 = 7;

    #[derive(Debug, Default)]
    struct Hands(AtomicI64);

    impl Clock for Hands {
        fn now(&self) -> Moment {
            Moment::from_millis(self.0.load(Ordering::Relaxed) * 1000)
        }

        fn steady(&self) -> Steady {
            SystemClock.steady()
        }
    }

    /// A vault whose store has the time of these hands.
    struct Site {
        hands: Arc<Hands>,
        vault: Vault,
        log: Log,
    }

    impl Site {
        async fn new() -> Self {
            let hands = Arc::new(Hands::default());
            let store = MemoryStore::with(Scheme::File, hands.clone());
            let vault = Vault::new(Arc::new(store), Policy::default());
            let size = SegmentSize::new(1 << 20).expect("a size");
            let cluster = Cluster { system: SystemId::new(SYSTEM), segment_size: size };
            let log = Log::claim(&vault, cluster).await.expect("its vault");
            Self { hands, vault, log }
        }

        fn at(&self, hour: i64) {
            self.hands.0.store(hour * HOUR, Ordering::Relaxed);
        }

        /// The log of an hour: one segment.
        async fn segment(&self, hour: i64) {
            self.at(hour);
            let start = Lsn::new(u64::try_from(hour).expect("an hour") * SIZE);
            let name = SegmentName::of(TimelineId::new(1).expect("one"), start, self.log.cluster().segment_size);
            self.log.put_whole(name, Bytes::from_static(b"log")).await.expect("stored");
        }

        /// A base of an hour with one pack of its own, which refers to packs of the base of another hour.
        async fn base(&self, hour: i64, before: Option<i64>) -> SetId {
            self.at(hour);
            let from = u64::try_from(hour).expect("an hour") * SIZE;
            let mut manifest = sample(hour * HOUR, from + 0x28, from + 0x100);
            let sealed = manifest.packs[0];
            manifest.packs = vec![sealed];
            manifest.uses = before
                .map(|before| Uses { base: sample(before * HOUR, 0, 1).id, packs: BTreeMap::from([(0, sealed)]) })
                .into_iter()
                .collect();
            for (key, content) in [
                (layout::pack(SYSTEM, manifest.id, 0), &b"ten bytes!"[..]),
                (layout::index(SYSTEM, manifest.id, 0), b"four"),
            ] {
                self.vault.put(&key.expect("a key"), Bytes::from_static(content), None).await.expect("written");
            }
            let bytes = write_document(&manifest).expect("a document");
            let key = layout::manifest(SYSTEM, manifest.id).expect("a key");
            self.vault.create(&key, bytes.into(), None).await.expect("written");
            manifest.id
        }

        async fn upkeep(&self) -> MaintenancePass {
            maintain(&self.vault, &policy(), self.hands.now(), false).await.expect("done")
        }

        async fn names(&self) -> Vec<String> {
            let entries = self.vault.list(&Prefix::all(), None).await.expect("listed");
            entries.into_iter().map(|entry| entry.key.to_string()).collect()
        }

        async fn has(&self, name: &str) -> bool {
            self.names().await.iter().any(|key| key.contains(name))
        }

        /// The hours whose segments are there.
        async fn hours(&self) -> Vec<u64> {
            let names = self.names().await;
            let hour =
                |name: &String| u64::from_str_radix(name.strip_suffix(".zst")?.rsplit_once('/')?.1.get(8..)?, 16).ok();
            let number = |segment: u64| (segment >> 32) * 4096 + (segment & 0xffff_ffff);
            names.iter().filter(|name| name.contains("/log/00000001/")).filter_map(hour).map(number).collect()
        }
    }

    fn policy() -> RetentionPolicy {
        RetentionPolicy {
            enabled: true,
            window: Some(Duration::from_secs(100 * 3600)),
            thinning: Thinning { minimum: 1, ..Thinning::default() },
            grace: Duration::from_secs(5 * 3600),
        }
    }

    #[tokio::test]
    async fn bases_and_log_go_when_nothing_needs_them() {
        let site = Site::new().await;
        let (mut ids, mut before) = (BTreeMap::new(), None);
        for hour in 1..=301 {
            site.segment(hour).await;
            if hour % 50 == 0 {
                // Each base refers to the first one.
                ids.insert(hour, site.base(hour, before).await);
                before = Some(50);
            }
        }
        let shown = |hour: i64| ids[&hour].to_string();
        // The window begins at hour 201: the base of hour 200 restores it.
        let first = site.upkeep().await;
        let retired: Vec<&str> = first.done.retired.iter().map(|gone| gone.object.key.as_str()).collect();
        assert_eq!(retired.len(), 3, "{retired:?}");
        // What no base needs goes now.
        assert_eq!(site.hours().await.first(), Some(&50));
        assert_eq!(first.next, Some(Moment::from_millis(306 * HOUR * 1000)));
        let listed = base::list(&site.vault).await.expect("listed");
        assert_eq!(listed.len(), 3, "what was given up isn't restored any more");
        // Before the grace is over, nothing more happens.
        site.segment(304).await;
        let second = site.upkeep().await;
        assert!(second.done.removed.is_empty() && second.done.retired.is_empty(), "{second:?}");
        site.segment(306).await;
        // A dry run changes nothing.
        let names = site.names().await;
        let dry = maintain(&site.vault, &policy(), site.hands.now(), true).await.expect("planned");
        assert_eq!((dry.done.removed.len(), site.names().await), (4, names), "{:?}", dry.done.removed);
        let third = site.upkeep().await;
        assert_eq!(third.done.removed, dry.done.removed);
        for (hour, object, is_there) in [
            (50, "manifest.json", false),
            (50, "index-00000000.zst", false),
            // Later bases refer to it.
            (50, "/00000000.zst", true),
            (50, "retired.json", true),
            (100, "manifest.json", false),
            (100, "/00000000.zst", false),
            (100, "retired.json", false),
            (200, "manifest.json", true),
            (200, "/00000000.zst", true),
        ] {
            let names = site.names().await;
            let found = names.iter().any(|name| name.contains(&shown(hour)) && name.contains(object));
            assert_eq!(found, is_there, "{hour} {object}");
        }
        assert_eq!(site.hours().await.first(), Some(&200));
        assert_eq!(site.hours().await.len(), 104);
        assert!(site.has(".trimmed").await);
        let timeline = history::timeline(&site.vault).await.expect("a timeline");
        assert!(timeline.holes.is_empty() && timeline.doubts.is_empty(), "{timeline:?}");
        assert_eq!(timeline.spans.len(), 1);
        assert_eq!(site.upkeep().await.done.removed, Vec::new(), "a second pass finds nothing");
    }

    #[tokio::test]
    async fn points_keep_the_log_that_they_need() {
        let site = Site::new().await;
        for hour in 1..=301 {
            site.segment(hour).await;
            if hour % 50 == 0 {
                let id = site.base(hour, None).await;
                if hour == 50 {
                    pin(&site.vault, id, true).await.expect("pinned");
                }
            }
        }
        site.upkeep().await;
        site.segment(306).await;
        site.upkeep().await;
        // The pinned base has its segment; then comes the window.
        let hours = site.hours().await;
        assert_eq!(hours[..3], [50, 200, 201], "{hours:?}");
        let timeline = history::timeline(&site.vault).await.expect("a timeline");
        assert_eq!(timeline.spans.len(), 2, "{timeline:?}");
        assert!(timeline.holes.is_empty(), "retention left the gap: {timeline:?}");
    }

    #[tokio::test]
    async fn a_base_in_the_making_and_what_is_unreadable_keep_everything() {
        let site = Site::new().await;
        for hour in 1..=301 {
            site.segment(hour).await;
            if hour % 100 == 0 {
                site.base(hour, None).await;
            }
        }
        site.upkeep().await;
        site.segment(306).await;
        // A pack without a manifest: another process makes a base, which may refer to anything.
        let making = layout::pack(SYSTEM, SetId::new(site.hands.now(), 9), 0).expect("a key");
        site.vault.put(&making, Bytes::from_static(b"content"), None).await.expect("written");
        let waits = site.upkeep().await;
        assert!(waits.done.removed.iter().all(|gone| gone.reason != GIVEN_UP), "{waits:?}");
        assert!(waits.next.is_some());
        // It was interrupted.
        site.segment(306 + 8 * 24).await;
        site.upkeep().await;
        assert!(!site.names().await.contains(&making.to_string()));
        // A manifest that is damaged may need anything.
        let newest = base::list(&site.vault).await.expect("listed").pop().expect("a base");
        let key = layout::manifest(SYSTEM, newest.id).expect("a key");
        site.vault.put(&key, Bytes::from_static(b"{}\n"), None).await.expect("written");
        let names = site.names().await;
        maintain(&site.vault, &policy(), site.hands.now(), false).await.expect_err("nothing is deleted");
        assert_eq!(site.names().await, names);
    }

    /// Twelve days of log with a base every fifty hours; the pass at its end gave those of hour 50, 100 and 150 up. The base of hour
    /// 200 restores the begin of the window.
    async fn given_up() -> (Site, BTreeMap<i64, SetId>) {
        let site = Site::new().await;
        let mut ids = BTreeMap::new();
        for hour in 1..=301 {
            site.segment(hour).await;
            if hour % 50 == 0 {
                ids.insert(hour, site.base(hour, None).await);
            }
        }
        assert_eq!(site.upkeep().await.done.retired.len(), 3);
        (site, ids)
    }

    impl Site {
        /// The hours of the bases that count.
        async fn counting(&self) -> Vec<i64> {
            let listed = base::list(&self.vault).await.expect("listed");
            listed.iter().map(|base| base.id.moment().as_millis() / HOUR / 1000).collect()
        }

        async fn lose(&self, keys: &[Result<ObjectKey, Error>]) {
            let keys: Vec<ObjectKey> = keys.iter().map(|key| key.as_ref().expect("a key").clone()).collect();
            self.vault.delete(&keys).await.expect("deleted");
        }
    }

    #[tokio::test]
    async fn a_base_that_lost_an_object_replaces_none() {
        type Lost = fn(SetId) -> Result<ObjectKey, Error>;
        let lost: [Lost; 2] = [|id| layout::pack(SYSTEM, id, 0), |id| layout::index(SYSTEM, id, 0)];
        for key in lost {
            let site = Site::new().await;
            let mut ids = BTreeMap::new();
            for hour in 1..=101 {
                site.segment(hour).await;
                if hour % 50 == 0 {
                    ids.insert(hour, site.base(hour, None).await);
                }
            }
            site.lose(&[key(ids[&100])]).await;
            // Both bases leave the window, and each grace ends.
            for hour in [250, 260, 500, 510] {
                site.segment(hour).await;
                let pass = site.upkeep().await;
                assert!(
                    pass.done.retired.iter().all(|gone| !gone.object.key.contains(&ids[&50].to_string())),
                    "{pass:?}"
                );
            }
            assert_eq!(site.counting().await, [50], "it alone can be restored");
            assert_eq!(site.hours().await.first(), Some(&50), "with its log");
        }
    }

    #[tokio::test]
    async fn a_grace_that_is_over_deletes_nothing_that_is_needed_by_then() {
        // Until the grace is over, all newer bases lose their manifests.
        let (site, ids) = given_up().await;
        let newer: Vec<_> = [200, 250, 300].iter().map(|hour| layout::manifest(SYSTEM, ids[hour])).collect();
        site.lose(&newer).await;
        site.segment(330).await;
        let dry = maintain(&site.vault, &policy(), site.hands.now(), true).await.expect("planned");
        let goes = |hour: i64| dry.done.removed.iter().any(|gone| gone.object.key.contains(&ids[&hour].to_string()));
        assert_eq!([50, 100, 150].map(goes), [true, true, false], "{dry:?}");
        assert_eq!(site.counting().await, Vec::<i64>::new(), "a dry run changes nothing");
        site.upkeep().await;
        assert_eq!(site.counting().await, [150], "the newest that is left");
        assert_eq!(site.hours().await[..2], [150, 151], "with its log");

        // They lose a segment instead, and the old ones have theirs.
        let (site, ids) = given_up().await;
        let segment = |hour| format!("physical/{SYSTEM}/log/00000001/0000000100000000{hour:08X}.zst");
        let segments = [200, 250, 300].map(|hour| Ok(ObjectKey::new(segment(hour)).expect("a key")));
        site.lose(&segments).await;
        site.segment(330).await;
        site.upkeep().await;
        assert!(site.counting().await.contains(&150), "{:?}", site.counting().await);
        assert!(site.has(&format!("{}/manifest.json", ids[&150])).await);
    }

    #[tokio::test]
    async fn a_base_that_was_pinned_while_it_was_given_up_stays() {
        let (site, ids) = given_up().await;
        // The pin came between the pass's look at the pins and its note.
        pin(&site.vault, ids[&100], true).await.expect("pinned");
        for hour in [302, 310, 320] {
            site.segment(hour).await;
            site.upkeep().await;
            assert_eq!(site.counting().await, [100, 200, 250, 300]);
        }
        assert!(site.has(&format!("{}/00000000.zst", ids[&100])).await && site.hours().await.contains(&100));
        assert!(!site.has(&ids[&50].to_string()).await, "the others go");
    }

    #[tokio::test]
    async fn while_nothing_is_written_the_next_pass_is_in_the_future() {
        let (site, _) = given_up().await;
        let making = layout::pack(SYSTEM, SetId::new(site.hands.now(), 9), 0).expect("a key");
        for is_made in [false, true] {
            if is_made {
                site.segment(306).await;
                site.vault.put(&making, Bytes::from_static(b"content"), None).await.expect("written");
            }
            // The store's clock stands still at the newest object, and this host's goes on.
            for hour in [305, 306, 307, 9000] {
                let here = Moment::from_millis(hour * HOUR * 1000);
                let pass = maintain(&site.vault, &policy(), here, false).await.expect("done");
                assert!(
                    pass.done.removed.iter().all(|gone| gone.reason != GIVEN_UP),
                    "by the store's clock it isn't over"
                );
                assert!(pass.next.is_some_and(|next| next > here), "{hour}: {:?}", pass.next);
            }
        }
    }
}
