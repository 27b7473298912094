//! Bases and log of a vault together: what can be restored, and whether all of it can be read.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;

use futures::TryStreamExt as _;
use seawall_archive::SetId;
use seawall_archive::log::{Contents, Line, Log, LogError, LogFile, LogObject, Lsn, SegmentName, TimelineId};
use seawall_core::{Failure, Finding, Hole, LevelSummary, Moment, Point, Progress, Span, Timeline, Verification};
use seawall_vault::{ObjectKey, Vault};

use super::base::store::Present;
use super::base::{self, BaseManifest, Listed, Sealed, layout, store};
use super::receive::SegmentHeader;
use super::recover::choose::Reach;
use super::recover::line;
use crate::Error;

/// A base, and how far its log goes.
struct Held {
    manifest: BaseManifest,
    /// `None` where the vault lacks log that it needs, or an object.
    reach: Option<Reach>,
    /// An object that it needs, and that the vault lacks or has with another size.
    lacks: Option<ObjectKey>,
}

/// What a vault holds of a cluster.
struct All {
    /// Bases with their log, oldest first.
    held: Vec<Held>,
    /// Bases that can't be read, by their manifests.
    unread: Vec<(String, Error)>,
    /// What its log holds, if there is one.
    log: Option<Contents>,
}

/// Reads the manifests of all bases, and lists the log.
async fn all_of(vault: &Vault) -> Result<All, Error> {
    let (listed, present) = base::look(vault).await?;
    let contents = match &Log::open(vault).await? {
        Some(log) => Some(line::survey(log).await?),
        None => None,
    };
    let (mut held, mut unread) = (Vec::new(), Vec::new());
    for (listed, _) in listed {
        match base::manifest(vault, listed).await {
            Ok(manifest) => {
                let BaseManifest { timeline, start, stop, .. } = manifest;
                let marks = store::marks(listed.system, &manifest)?;
                let lacks = store::lacks(vault, listed, &marks, &present).await?;
                let reach = contents
                    .as_ref()
                    .filter(|_| lacks.is_none())
                    .and_then(|(contents, written)| line::reach(contents, written, timeline, start, stop))
                    .filter(|reach| reach.lsn >= stop);
                held.push(Held { manifest, reach, lacks });
            }
            Err(error) => unread.push((layout::manifest(listed.system, listed.id)?.to_string(), error)),
        }
    }
    Ok(All { held, unread, log: contents.map(|(contents, _)| contents) })
}

/// What can be restored: a span goes from the end of a base to where its log has its first hole, or ends. Bases whose log ends
/// at the same position are one span.
///
/// # Errors
/// When the vault can't be listed, or the log's own documents can't be read.
pub async fn timeline(vault: &Vault) -> Result<Timeline, Error> {
    let All { held, unread, log } = all_of(vault).await?;
    let (spans, holes, mut doubts) = join(&held, |timeline| trimmed(log.as_ref(), timeline));
    doubts.extend(unread.iter().map(|(object, error)| format!("{object} can't be read: {error}")));
    let mut levels = Vec::new();
    if !held.is_empty() {
        let objects = held.iter().map(|held| (held.manifest.packs.len() + held.manifest.index.len() + 1) as u64).sum();
        levels.push(LevelSummary { level: "bases".to_owned(), objects, bytes: bytes_of_bases(&held) });
    }
    if let Some(contents) = log {
        levels.push(LevelSummary {
            level: "log".to_owned(),
            objects: contents.timelines.values().map(|held| held.objects).sum(),
            bytes: contents.timelines.values().map(|held| held.bytes).sum(),
        });
    }
    Ok(Timeline { spans, holes, levels, doubts, ..Timeline::default() })
}

/// The newest base of a vault that restores something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Newest {
    /// Its name.
    pub(super) id: SetId,
    /// When its copy had ended.
    pub(super) ended: Moment,
    /// The newest timeline that it leads to.
    pub(super) timeline: u32,
    /// Where recovery begins to read the log.
    pub(super) start: Lsn,
    /// The end of the log that it needs.
    pub(super) stop: Lsn,
    /// Bytes of its files.
    pub(super) bytes: u64,
    /// The newest point that it restores.
    pub(super) point: Point,
    /// Whether the log goes on behind a hole, so that only another base restores what is newest.
    pub(super) is_cut_off: bool,
}

/// What looks need of a base's manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Brief {
    id: SetId,
    ended: Moment,
    timeline: u32,
    /// Where the log begins that the base needs.
    pub(super) start: Lsn,
    /// The end of the log that the base needs.
    pub(super) stop: Lsn,
    /// Bytes of a segment of the log.
    pub(super) segment: u64,
    bytes: u64,
}

/// The manifests that earlier looks read, each with what the listing said of it then: a manifest never changes, so it is read once.
#[derive(Debug, Default)]
pub(super) struct Known(BTreeMap<Listed, Read>);

/// A manifest that was read.
#[derive(Debug)]
struct Read {
    /// What the listing said of it.
    mark: u128,
    brief: Brief,
    /// What stands for each object that the base needs.
    needs: Vec<u64>,
}

/// What a look at a vault finds.
#[derive(Debug)]
pub(super) struct Found {
    /// The newest base that restores something, with the newest point; `None` if none restores anything.
    pub(super) newest: Option<Newest>,
    /// An object that a newer base needs, of which the log is there, and that the vault lacks or has with another size.
    pub(super) lacking: Option<(SetId, ObjectKey)>,
    /// The newest base whose manifest can be read, whether it restores anything or not.
    pub(super) last: Option<Brief>,
    /// How far the log goes from the start of the base `last` on.
    pub(super) reached: Option<Lsn>,
    /// The log, if there is one.
    pub(super) log: Option<Log>,
}

/// Looks at the `listed` bases, of which these objects are `present`, and at the log. A base that lacks an object restores nothing.
///
/// # Errors
/// When the vault can't be listed, or a manifest can't be read because the vault is away for a moment.
pub(super) async fn find(
    vault: &Vault,
    listed: &[(Listed, u128)],
    present: &Present,
    known: &mut Known,
) -> Result<Found, Error> {
    let (mut written, mut contents) = (line::Written::default(), None);
    let log = Log::open(vault).await?;
    if let Some(log) = &log {
        let size = log.cluster().segment_size;
        let mut see = |object: LogObject, at: Moment| written.add(object, at, size);
        contents = Some(log.contents_beside(&mut see).await?);
    }
    known.0.retain(|base, read| listed.binary_search(&(*base, read.mark)).is_ok());
    for (base, mark) in listed {
        if known.0.contains_key(base) {
            continue;
        }
        match base::manifest(vault, *base).await {
            Ok(manifest) => {
                let BaseManifest { id, ended, timeline, start, stop, segment, .. } = manifest;
                let brief = Brief { id, ended, timeline, start, stop, segment, bytes: manifest.totals.bytes };
                let needs = store::marks(base.system, &manifest)?;
                known.0.insert(*base, Read { mark: *mark, brief, needs });
            }
            Err(error) if is_unavailable(&error) => return Err(error),
            // The next look tries again.
            Err(error) => tracing::debug!(base = %base.id, "{error}"),
        }
    }
    let reach = |contents, brief: &Brief| line::reach(contents, &written, brief.timeline, brief.start, brief.stop);
    let (mut newest, mut lacking) = (None, None);
    if let Some(contents) = &contents {
        for (base, Read { brief, needs, .. }) in known.0.iter().rev() {
            let Some(its) = reach(contents, brief).filter(|reach| reach.lsn >= brief.stop) else { continue };
            match store::lacks(vault, *base, needs, present).await? {
                Some(key) => lacking = lacking.or(Some((base.id, key))),
                None => {
                    newest = Some(Newest {
                        id: brief.id,
                        ended: brief.ended,
                        timeline: its.timeline,
                        start: brief.start,
                        stop: brief.stop,
                        bytes: brief.bytes,
                        point: Point { position: its.lsn.to_string(), moment: its.until.max(brief.ended) },
                        is_cut_off: is_cut_off(contents, its),
                    });
                    break;
                }
            }
        }
    }
    let last = known.0.values().next_back().map(|read| read.brief);
    let reached = last.zip(contents.as_ref()).and_then(|(brief, contents)| Some(reach(contents, &brief)?.lsn));
    Ok(Found { newest, lacking, last, reached, log })
}

/// The newest base that restores something; `None` if none does.
///
/// # Errors
/// As [`find`].
pub(super) async fn newest(vault: &Vault) -> Result<Option<Newest>, Error> {
    let (listed, present) = base::look(vault).await?;
    Ok(find(vault, &listed, &present, &mut Known::default()).await?.newest)
}

/// Whether an object may be read a moment later.
fn is_unavailable(error: &Error) -> bool {
    use seawall_vault::Error::{Timeout, Unavailable};
    matches!(error, Error::Archive(seawall_archive::Error::Vault(Unavailable { .. } | Timeout { .. })))
}

/// Whether log is behind what a base reaches, or is recorded as lost there.
fn is_cut_off(log: &Contents, reach: Reach) -> bool {
    // The base may lead to a timeline of which only the history is there yet.
    let newest = log.timelines.iter().rev().find(|(_, held)| !held.spans.is_empty());
    !reach.is_end || newest.is_some_and(|(timeline, _)| timeline.number() > reach.timeline)
}

fn bytes_of_bases(held: &[Held]) -> u64 {
    let parts = |manifest: &BaseManifest| manifest.index.iter().map(|part| part.sealed.bytes).sum::<u64>();
    held.iter().map(|held| held.manifest.totals.stored + parts(&held.manifest)).sum()
}

/// The position before which retention deleted log of a line.
fn trimmed(log: Option<&Contents>, timeline: u32) -> Option<Lsn> {
    log.zip(TimelineId::new(timeline)).and_then(|(log, timeline)| log.trimmed(timeline))
}

/// Spans, the holes between them, and what can't be restored. What retention deleted is no hole: `trimmed` says how far it deleted
/// a timeline. Pure.
fn join(held: &[Held], trimmed: impl Fn(u32) -> Option<Lsn>) -> (Vec<Span>, Vec<Hole>, Vec<String>) {
    let (mut spans, mut holes, mut doubts): (Vec<(Span, Reach)>, Vec<Hole>, Vec<String>) = Default::default();
    for Held { manifest, reach, lacks } in held {
        let Some(reach) = *reach else {
            let id = manifest.id;
            doubts.push(match lacks {
                Some(key) => {
                    format!("the base {id} restores nothing: {key}, which it needs, is missing or has another size")
                }
                None => {
                    format!("the base {id} restores nothing: its log, up to {}, isn't in the vault", manifest.stop)
                }
            });
            continue;
        };
        let from = Point { position: manifest.id.to_string(), moment: manifest.ended };
        // A store's clock may be behind the server's host.
        let to = Point { position: reach.lsn.to_string(), moment: reach.until.max(manifest.ended) };
        match spans.last_mut() {
            Some((span, its)) if (its.timeline, its.lsn) == (reach.timeline, reach.lsn) => {
                span.points += 1;
                span.to.moment = span.to.moment.max(to.moment);
            }
            last => {
                if let Some((span, its)) = last
                    && trimmed(its.timeline).is_none_or(|trimmed| its.lsn >= trimmed)
                {
                    let reason = format!(
                        "the log goes to {} without a hole, and on with the base {}",
                        span.to.position, manifest.id
                    );
                    holes.push(Hole { from: Some(span.to.clone()), to: from.clone(), reason, restored: false });
                }
                // Both ends are points.
                spans.push((Span { from, to, points: 2 }, reach));
            }
        }
    }
    (spans.into_iter().map(|(span, _)| span).collect(), holes, doubts)
}

/// Reads everything back: every pack and part of an index that a base needs, and every file of the log.
///
/// # Errors
/// When the vault can't be reached. What is wrong with an object is a finding.
pub async fn verify(vault: &Vault, now: Moment, progress: Arc<dyn Progress>) -> Result<Verification, Error> {
    let All { held, unread, log } = all_of(vault).await?;
    let mut verification =
        Verification { at: now, newest: None, objects: 0, bytes: 0, findings: Vec::new(), doubts: Vec::new() };
    for (object, error) in unread {
        let (code, cause) = tolerated(error)?;
        verification.findings.push(Finding { code, object, cause });
    }
    progress.begin("bases", Some(held.iter().flat_map(|held| objects(&held.manifest)).map(|(_, it)| it.bytes).sum()));
    let mut read: BTreeMap<Object, bool> = BTreeMap::new();
    let mut sound: BTreeSet<SetId> = BTreeSet::new();
    for Held { manifest, .. } in &held {
        let system = manifest.system.parse().unwrap_or(0);
        let mut is_sound = true;
        for (object, sealed) in objects(manifest) {
            if let Some(was_sound) = read.get(&object) {
                is_sound &= *was_sound;
                continue;
            }
            let (key, checked) = match object {
                Object::Pack(id, number) => {
                    let key = layout::pack(system, id, number)?;
                    let checked = store::sealed(vault, &key, sealed).await.map(drop);
                    (key, checked)
                }
                Object::Part(id, number) => {
                    let read = store::part(vault, system, manifest, number as usize).await;
                    (layout::index(system, id, number)?, read.map(drop))
                }
            };
            verification.objects += 1;
            verification.bytes += sealed.bytes;
            progress.advance(sealed.bytes);
            let this = checked.is_ok();
            if let Err(error) = checked {
                let (code, cause) = tolerated(error)?;
                verification.findings.push(Finding { code, object: key.to_string(), cause });
            }
            read.insert(object, this);
            is_sound &= this;
        }
        if is_sound {
            sound.insert(manifest.id);
        }
    }
    progress.finish();
    verify_log(vault, &mut verification, &progress).await?;
    let (spans, _, doubts) = join(&held, |timeline| trimmed(log.as_ref(), timeline));
    verification.doubts = doubts;
    // A damaged segment may be anywhere: then only what is sound as a whole is told to be.
    let newest_is_sound =
        held.iter().rev().find(|held| held.reach.is_some()).is_some_and(|held| sound.contains(&held.manifest.id));
    if verification.findings.is_empty() && newest_is_sound {
        verification.newest = spans.last().map(|span| span.to.clone());
    }
    Ok(verification)
}

/// An object of bases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Object {
    Pack(SetId, u32),
    Part(SetId, u32),
}

/// The objects that a base needs.
fn objects(manifest: &BaseManifest) -> impl Iterator<Item = (Object, Sealed)> {
    let parts = (0..).zip(&manifest.index).map(|(nth, part)| (Object::Part(manifest.id, nth), part.sealed));
    let own = (0..).zip(&manifest.packs).map(|(nth, sealed)| (Object::Pack(manifest.id, nth), *sealed));
    let others = manifest
        .uses
        .iter()
        .flat_map(|uses| uses.packs.iter().map(|(nth, sealed)| (Object::Pack(uses.base, *nth), *sealed)));
    parts.chain(own).chain(others)
}

/// Gives every file of the log back, and forgets it.
async fn verify_log(vault: &Vault, verification: &mut Verification, progress: &Arc<dyn Progress>) -> Result<(), Error> {
    let Some(log) = Log::open(vault).await? else { return Ok(()) };
    let cluster = log.cluster();
    progress.begin("log", None);
    let mut entries = Box::pin(vault.entries(&log.prefix()?, None));
    let mut last: Option<LogFile> = None;
    while let Some(entry) = entries.try_next().await.map_err(seawall_archive::Error::from)? {
        let Some((_, object)) = LogObject::parse(&entry.key) else { continue };
        verification.objects += 1;
        verification.bytes += entry.size;
        progress.advance(entry.size);
        let file = match object {
            LogObject::File(file) => file,
            LogObject::Range { timeline, start, .. } => {
                LogFile::Segment(SegmentName::of(timeline, start, cluster.segment_size))
            }
            // They are read with the log's contents.
            LogObject::Hole { .. } | LogObject::Trimmed { .. } => continue,
        };
        // The ranges of a segment are read together.
        if last.replace(file) == Some(file) {
            continue;
        }
        if let Err(error) = given_back(&log, file).await {
            let (code, cause) = tolerated(error.into())?;
            verification.findings.push(Finding { code, object: entry.key.to_string(), cause });
        }
    }
    progress.finish();
    Ok(())
}

/// Gives a file of the log back as a recovery gets it: all of its content is read and compared with its digest.
async fn given_back(log: &Log, file: LogFile) -> Result<(), LogError> {
    let found = log.fetch(file, Line::Of(file.timeline())).await?;
    let object = format!("{file} of {}", log.vault().url());
    let read = seawall_core::blocking(move || {
        let mut read = Begin::default();
        Ok::<_, seawall_archive::Error>(found.write_to(&mut read, Path::new("")).map(|()| read.0))
    });
    let begin = read.await??;
    if let LogFile::Segment(name) | LogFile::Partial(name) = file {
        let header = SegmentHeader::parse(&begin).and_then(|header| header.check(name).map(|()| header));
        let header = header.map_err(|cause| LogError::NotALog { file: object.clone(), cause })?;
        let (theirs, ours) = (header.system, log.cluster().system);
        if theirs != ours {
            return Err(LogError::OtherCluster { object, theirs, ours });
        }
    }
    Ok(())
}

/// Keeps the first bytes of what is written, as far as a header may go.
#[derive(Default)]
struct Begin(Vec<u8>);

impl io::Write for Begin {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        const MOST: usize = 512;
        let room = MOST.saturating_sub(self.0.len()).min(bytes.len());
        self.0.extend_from_slice(&bytes[..room]);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Code and cause of an object's error, unless it is the vault that can't be reached.
fn tolerated(error: Error) -> Result<(&'static str, String), Error> {
    let is_away = match &error {
        Error::Archive(seawall_archive::Error::Vault(error))
        | Error::Log(seawall_archive::log::LogError::Vault(error)) => !error.is_not_found(),
        _ => false,
    };
    if is_away {
        return Err(error);
    }
    let failure = Failure::from(error);
    Ok((failure.code, failure.cause))
}

#[cfg(test)]
mod tests {
    use seawall_archive::log::{
        Cluster, Held as Part, SegmentName, SegmentSize, Span as Stretch, SystemId, TimelineId,
    };

    use seawall_archive::write_document;
    use seawall_vault::Policy;
    use seawall_vault::memory::MemoryStore;

    use super::super::base::manifest::tests::sample;
    use super::*;

    #[tokio::test]
    async fn a_manifest_is_read_once_and_again_if_it_was_written_over() {
        let store = MemoryStore::new();
        let vault = Vault::new(Arc::new(store.clone()), Policy::default());
        let put = async |second: i64, stop: u64| {
            let manifest = sample(second, stop - 10, stop);
            let key = layout::manifest(7, manifest.id).expect("a key");
            vault.delete(std::slice::from_ref(&key)).await.expect("deleted");
            vault.create(&key, write_document(&manifest).expect("written").into(), None).await.expect("stored");
        };
        put(100, 1000).await;
        put(200, 2000).await;
        let mut known = Known::default();
        let mut look = async || {
            let (listed, present) = base::look(&vault).await.expect("listed");
            let before = vault.counts().get;
            let found = find(&vault, &listed, &present, &mut known).await.expect("found");
            // One more asks whose log it is.
            (vault.counts().get - before - 1, found.last.map(|last| last.stop.byte()), known.0.len())
        };
        assert_eq!(look().await, (2, Some(2000), 2));
        assert_eq!(look().await, (0, Some(2000), 2));
        put(200, 2001).await;
        assert_eq!(look().await, (1, Some(2001), 2));
        put(300, 3000).await;
        let key = layout::manifest(7, sample(100, 990, 1000).id).expect("a key");
        vault.delete(&[key]).await.expect("deleted");
        assert_eq!(look().await, (1, Some(3000), 2));
    }

    #[tokio::test]
    async fn a_base_of_which_an_object_is_gone_counts_for_none_and_the_object_is_named() {
        const SIZE: u64 = 1 << 20;
        let vault = Vault::new(Arc::new(MemoryStore::new()), Policy::default());
        let cluster = Cluster { system: SystemId::new(7), segment_size: SegmentSize::new(1 << 20).expect("a size") };
        let log = Log::claim(&vault, cluster).await.expect("its log");
        let (mut ids, mut used) = (Vec::new(), Vec::new());
        for (second, start) in [(100, SIZE), (200, 2 * SIZE)] {
            let manifest = sample(second, start + 0x28, start + 0x100);
            for (key, bytes) in store::needed(7, &manifest).expect("keys") {
                let content = vec![0; usize::try_from(bytes).expect("small")];
                vault.put(&key, content.into(), None).await.expect("stored");
            }
            let key = layout::manifest(7, manifest.id).expect("a key");
            vault.create(&key, write_document(&manifest).expect("written").into(), None).await.expect("stored");
            let name = SegmentName::of(TimelineId::new(1).expect("one"), Lsn::new(start), cluster.segment_size);
            log.put_whole(name, bytes::Bytes::from_static(b"log")).await.expect("stored");
            ids.push(manifest.id);
            // A pack of an earlier base, as a lifecycle rule of the store takes it.
            used.push(layout::pack(7, manifest.uses[0].base, 5).expect("a key"));
        }
        let mut known = Known::default();
        let mut look = async || {
            let (listed, present) = base::look(&vault).await.expect("listed");
            let found = find(&vault, &listed, &present, &mut known).await.expect("found");
            let timeline = timeline(&vault).await.expect("a timeline");
            let named = timeline.doubts.iter().filter(|doubt| doubt.contains("missing")).count();
            (found.newest.map(|newest| newest.id), found.lacking, timeline.spans.len(), named)
        };
        assert_eq!(look().await, (Some(ids[1]), None, 1, 0));
        vault.delete(&used[1..]).await.expect("deleted");
        assert_eq!(look().await, (Some(ids[0]), Some((ids[1], used[1].clone())), 1, 1));
        vault.delete(&used[..1]).await.expect("deleted");
        assert_eq!(look().await, (None, Some((ids[1], used[1].clone())), 0, 2));
        vault.put(&used[1], vec![0; 30].into(), None).await.expect("stored");
        assert_eq!(look().await, (Some(ids[1]), None, 1, 1));
    }

    #[test]
    fn a_base_is_cut_off_where_log_is_behind_what_it_reaches() {
        let id = |number| TimelineId::new(number).expect("a timeline");
        let part = |end: Option<u64>| Part {
            spans: end.map(|end| Stretch { start: Lsn::new(0), end: Lsn::new(end) }).into_iter().collect(),
            ..Part::default()
        };
        for (reached, is_end, first, second, expected) in [
            (1, true, Some(100), None, false),
            // A hole is behind it; perhaps nothing came behind that so far.
            (1, false, Some(100), None, true),
            // A server was promoted before the base ended, and its log is there.
            (1, true, Some(100), Some(Some(100)), true),
            // The base leads to a timeline of which only the history is there.
            (2, true, Some(100), Some(None), false),
            (2, true, Some(100), Some(Some(100)), false),
        ] {
            let timelines = [(id(1), part(first))].into_iter().chain(second.map(|second| (id(2), part(second))));
            let contents = Contents {
                cluster: Cluster { system: SystemId::new(7), segment_size: SegmentSize::new(1 << 20).expect("a size") },
                timelines: timelines.collect(),
                histories: BTreeMap::new(),
                holes: Vec::new(),
            };
            let reach = Reach { timeline: reached, lsn: Lsn::new(100), until: Moment::from_millis(0), is_end };
            assert_eq!(is_cut_off(&contents, reach), expected, "{reached} {is_end} {second:?}");
        }
    }

    #[test]
    fn bases_and_log_are_spans_with_the_holes_between_them() {
        let held = |second: i64, stop: u64, reach: Option<(u64, i64)>| Held {
            manifest: sample(second, stop - 10, stop),
            lacks: None,
            reach: reach.map(|(lsn, until)| Reach {
                timeline: 1,
                lsn: Lsn::new(lsn),
                until: Moment::from_millis(until * 1000),
                is_end: true,
            }),
        };
        let all = [
            held(100, 1000, Some((3000, 300))),
            held(200, 2000, Some((3000, 300))),
            held(400, 4000, Some((5000, 500))),
            held(600, 6000, None),
        ];
        let (spans, holes, doubts) = join(&all, |_| None);
        let told: Vec<(String, String, u64)> =
            spans.iter().map(|span| (span.from.position.clone(), span.to.position.clone(), span.points)).collect();
        let id = |nth: usize| all[nth].manifest.id.to_string();
        assert_eq!(told, [(id(0), "0/BB8".to_owned(), 3), (id(2), "0/1388".to_owned(), 2)]);
        assert_eq!((holes.len(), &holes[0].to.position), (1, &id(2)));
        assert!(doubts.len() == 1 && doubts[0].contains(&id(3)), "{doubts:?}");
        assert_eq!(objects(&all[0].manifest).count(), 4);
        assert_eq!(join(&[], |_| None), (Vec::new(), Vec::new(), Vec::new()));
        // What retention deleted is told by what is left.
        for (on, trimmed, expected) in [(1, 3000, 1), (1, 3001, 0), (2, 9000, 1)] {
            let trimmed_of = |timeline: u32| (timeline == on).then_some(Lsn::new(trimmed));
            assert_eq!(join(&all, trimmed_of).1.len(), expected, "{on} {trimmed}");
        }
    }
}
