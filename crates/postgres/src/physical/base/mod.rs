//! A base: all files of a data directory, read over ordinary SQL connections.
//!
//! One session holds the backup (`pg_backup_start` to `pg_backup_stop`), and others read files in parallel. The files
//! don't agree with each other; the log from the backup's start to its end makes them agree. Blocks that the base before
//! has are referred to, and all others go into packs. The manifest is written last, and the base counts from then on
//! (I2).
//!
//! The rooms: `rights` (may the role?), `facts` (what is the server? the session of the backup), `list` (which files?),
//! `read`, `pages` (are they sound?), `chunk` (what is new?), `previous` (the base before), `write` (packs and index),
//! `index` and `manifest` (the formats), `layout` (names), `label`, `control`, `budget`, `store` (reading bases back).

mod budget;
pub(crate) mod chunk;
pub(crate) mod control;
mod facts;
pub(crate) mod index;
pub(crate) mod label;
pub(crate) mod layout;
pub(crate) mod list;
pub(crate) mod manifest;
mod pages;
mod previous;
mod read;
pub(super) mod rights;
pub(crate) mod store;
mod walk;
mod write;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use seawall_archive::log::{Cluster, Log, LogError, Lsn, SegmentSize, SystemId, TimelineId};
use seawall_archive::{Encoder, SetId, write_document};
use seawall_core::Progress;
use seawall_vault::Vault;
use tokio::time::Instant;

pub(super) use self::facts::NEEDED;
pub use self::label::Tablespace;
pub use self::layout::{InBases, in_bases};
pub use self::manifest::{BaseManifest, Damaged, Part, Sealed, Totals, Uses};
pub use self::store::{Listed, list, manifest};
pub(super) use self::store::{corrupt, lacking, look};

use self::budget::Budget;
use self::chunk::{Rules, Suspect, Work};
use self::control::Control;
use self::facts::Facts;
use self::pages::PAGE;
use self::previous::Previous;
use self::read::{Piece, Raw, Readers};
use self::write::Writer;
use crate::client::{Connection, Target};
use crate::{Error, Limits, World};

/// How often a page or a file is read again that was being written when it was read.
const TRIES: u32 = 5;

/// How long to wait before reading again.
const PAUSE: Duration = Duration::from_millis(20);

/// The database that is connected to if the URL names none.
const DATABASE: &str = "postgres";

/// A base that was made.
#[derive(Debug, Clone)]
pub struct Made {
    /// Its manifest.
    pub manifest: BaseManifest,
    /// The base that it refers to for blocks that didn't change, if any.
    pub before: Option<SetId>,
    /// Wall time in milliseconds.
    pub duration_ms: u64,
}

/// Makes a base of a cluster and lets it count.
///
/// # Errors
/// Everything that keeps it from being whole: then it doesn't count, and what was written of it is never read.
pub async fn back_up(
    target: &Target,
    vault: &Vault,
    limits: &Limits,
    world: &World,
    progress: Arc<dyn Progress>,
) -> Result<Made, Error> {
    back_up_with(Options::default(), target, vault, limits, world, progress).await
}

/// How a base is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// The server's timeline, if it is made although the vault has a later one: that is a branch which isn't followed.
    pub followed: Option<TimelineId>,
    /// Whether everything is sent, and nothing of earlier bases is referred to.
    pub full: bool,
}

/// The same, with options.
///
/// # Errors
/// As [`back_up`].
pub async fn back_up_with(
    options: Options,
    target: &Target,
    vault: &Vault,
    limits: &Limits,
    world: &World,
    progress: Arc<dyn Progress>,
) -> Result<Made, Error> {
    let Options { followed, full } = options;
    let (began, clock) = (world.clock.now(), Instant::now());
    let budget = Budget::new(limits.memory, limits.jobs)?;
    let target = named(target);
    let server = target.to_string();
    let mut session = Connection::open(&target).await?;
    rights::check(&mut session, &server).await?;
    let facts = Facts::ask(&mut session, &server).await?;
    claim(vault, &facts).await?;
    // Before anything is read; of a standby it is known only at the end.
    if let Some((timeline, at)) = facts::written(&mut session).await? {
        refuse_demoted(vault, &server, followed, (timeline, at)).await?;
    }
    let readers = Readers::open(&target, limits.jobs, &mut session).await?;
    let previous = if full { None } else { Previous::find(vault, facts.system).await? };
    let id = SetId::new(began, world.nonce);
    let start = facts::begin(&mut session, &format!("seawall {id}")).await?;
    let rules = Rules {
        judged_from: facts.checksums.then_some(start),
        segment_pages: facts.segment_pages,
        gone: previous.as_ref().map(|previous| previous.gone.clone()).unwrap_or_default(),
    };
    let mut run = Run {
        readers: Arc::new(readers),
        rules: Arc::new(rules),
        encoders: Arc::default(),
        writer: Writer::new(vault, facts.system, id, budget.pack)?,
        stretches: budget.stretches,
        before: previous.as_ref().map(|previous| Arc::clone(&previous.manifest)),
        totals: Totals::default(),
        damaged: Vec::new(),
        open: None,
        progress: Arc::clone(&progress),
    };
    progress.begin("base", None);
    let versioned = facts.folder_in_tablespaces(session.version);
    let has_configuration = walk::walk(&mut session, &versioned, previous, &mut run).await?;
    run.control(&mut session, facts.system).await?;
    let stopped = facts::end(&mut session, &server).await?;
    let version = session.version;
    session.close().await;
    refuse_demoted(vault, &server, followed, (stopped.parsed.timeline, stopped.stop)).await?;
    let Run { readers, writer, mut totals, damaged, before, .. } = run;
    if let Ok(readers) = Arc::try_unwrap(readers) {
        readers.close().await;
    }
    let written = writer.finish().await?;
    totals.stored = written.packs.iter().map(|sealed| sealed.bytes).sum();
    let manifest = BaseManifest {
        id,
        system: facts.system.to_string(),
        tool: concat!("seawall ", env!("CARGO_PKG_VERSION")).to_owned(),
        version,
        began,
        ended: stopped.ended,
        timeline: stopped.parsed.timeline,
        start: stopped.parsed.start,
        stop: stopped.stop,
        next_xid: stopped.next_xid,
        from_standby: stopped.parsed.from_standby,
        segment: facts.segment,
        checksums: facts.checksums,
        label: stopped.label,
        tablespace_map: stopped.map,
        tablespaces: stopped.tablespaces,
        in_place: stopped.in_place,
        superuser: facts.superuser,
        settings: facts.settings,
        notes: notes(&facts.elsewhere, has_configuration),
        damaged,
        totals,
        packs: written.packs,
        uses: written.uses,
        index: written.index,
    };
    commit(vault, facts.system, &manifest).await?;
    progress.finish();
    let duration_ms = u64::try_from(clock.elapsed().as_millis()).unwrap_or(u64::MAX);
    let before = before.filter(|_| !manifest.uses.is_empty()).map(|before| before.id);
    Ok(Made { manifest, before, duration_ms })
}

/// A session of the database that the URL names, or of the one that every cluster has.
pub(super) async fn connect(target: &Target) -> Result<Connection, Error> {
    Connection::open(&named(target)).await
}

fn named(target: &Target) -> Target {
    if target.database.is_empty() { target.with_database(DATABASE) } else { target.clone() }
}

/// Makes the vault this cluster's, or refuses that of another one.
async fn claim(vault: &Vault, facts: &Facts) -> Result<(), Error> {
    let size = u32::try_from(facts.segment).ok().and_then(SegmentSize::new);
    let segment_size = size.ok_or_else(|| Error::Internal(format!("segments of {} bytes", facts.segment)))?;
    Ok(Cluster { system: SystemId::new(facts.system), segment_size }.claim(vault).await?)
}

/// Refuses a server that is at a position of a timeline which a later one in the vault had left before: its base would lead to
/// another state than that of the server that was promoted.
async fn refuse_demoted(
    vault: &Vault,
    server: &str,
    followed: Option<TimelineId>,
    (timeline, at): (u32, Lsn),
) -> Result<(), Error> {
    let (Some(log), Some(own)) = (Log::open(vault).await?, TimelineId::new(timeline)) else { return Ok(()) };
    if followed == Some(own) {
        return Ok(());
    }
    let contents = log.contents().await?;
    let Some((newest, switch)) = contents.left(own, at) else { return Ok(()) };
    let newest = newest.number();
    let left = switch.map_or_else(
        || format!("timeline {newest} in the vault didn't come from it"),
        |switch| format!("timeline {newest} in the vault left it at {switch}"),
    );
    let cause = format!("it is on timeline {timeline} at {at}, and {left}");
    Err(LogError::Demoted { server: server.to_owned(), cause }.into())
}

/// Lets a base count, after a last look whether all that it needs is there. A base takes hours, and meanwhile something may have
/// deleted packs, or set the vault back.
async fn commit(vault: &Vault, system: u64, manifest: &BaseManifest) -> Result<(), Error> {
    let key = layout::manifest(system, manifest.id)?;
    if let Some(gone) = store::lacking(vault, system, manifest).await? {
        return Err(Error::Refused {
            code: "postgres.base-gone",
            object: vault.object(&gone),
            cause: "it was deleted, or changed, while a base was made that needs it".to_owned(),
            next: "start the backup again: it sends what the object held; find out what deletes objects of the vault"
                .to_owned(),
        });
    }
    let bytes = Bytes::from(write_document(manifest)?);
    if bytes.len() as u64 > store::MOST_OF_MANIFEST {
        return Err(Error::Refused {
            code: "postgres.base-too-large",
            object: vault.object(&key),
            cause: format!(
                "its manifest would have {} bytes, and no reader takes it: the base has too many packs",
                bytes.len()
            ),
            next: "give more --memory, which makes larger packs, and a vault of its own".to_owned(),
        });
    }
    vault.create(&key, bytes, None).await.map_err(seawall_archive::Error::from)?;
    Ok(())
}

/// What a server needs beside the base.
fn notes(elsewhere: &[String], has_configuration: bool) -> Vec<String> {
    let one = |path: &String| format!("{path} lies outside the data directory and isn't in the base");
    let mut notes: Vec<String> = elsewhere.iter().map(one).collect();
    if notes.is_empty() && !has_configuration {
        notes.push("the server's configuration lies outside the data directory and isn't in the base".to_owned());
    }
    notes
}

/// A base that is being made.
struct Run {
    readers: Arc<Readers>,
    rules: Arc<Rules>,
    encoders: Arc<Mutex<Vec<Encoder>>>,
    writer: Writer,
    /// Stretches in work.
    stretches: usize,
    before: Option<Arc<BaseManifest>>,
    totals: Totals,
    damaged: Vec<Damaged>,
    /// The file that is being written, and whether more of it may come.
    open: Option<Open>,
    progress: Arc<dyn Progress>,
}

/// A file that is being written.
struct Open {
    path: String,
    /// Bytes so far.
    length: u64,
    /// Whether it ended before its end: it was cut meanwhile.
    is_cut: bool,
}

impl Run {
    /// Takes over what was worked through, in order.
    async fn take(&mut self, pieces: &[Piece], worked: &Done) -> Result<(), Error> {
        let placed = self.writer.place(&worked.work.frames).await?;
        self.totals.sent += worked.work.sent;
        for (piece, result) in pieces.iter().zip(&worked.work.pieces) {
            let is_next = |open: &Open| open.path == piece.path && open.length == piece.offset && !open.is_cut;
            if piece.offset > 0 && !self.open.as_ref().is_some_and(is_next) {
                continue;
            }
            let Some(length) = result.length else {
                // A file that was there before is kept as far as it was read: the log says what became of it.
                match piece.offset {
                    0 => self.open = None,
                    _ => self.open.iter_mut().for_each(|open| open.is_cut = true),
                }
                continue;
            };
            if piece.offset.is_multiple_of(index::EXTENT) {
                self.writer.begin(index::Entry::File, &piece.path, piece.modified, piece.offset).await?;
            }
            self.writer.append(&result.blocks, length, &placed, self.before.as_ref())?;
            let is_cut = length < piece.length;
            match &mut self.open {
                Some(open) if piece.offset > 0 => {
                    open.length += length as u64;
                    open.is_cut = is_cut;
                }
                open => {
                    self.totals.files += 1;
                    *open = Some(Open { path: piece.path.clone(), length: length as u64, is_cut });
                }
            }
            self.totals.bytes += length as u64;
            self.progress.advance(length as u64);
        }
        for suspect in &worked.damaged {
            self.note_damage(&pieces[suspect.piece].path, suspect.page);
        }
        Ok(())
    }

    fn note_damage(&mut self, path: &str, page: u32) {
        const NAMED: usize = 100;
        let is_known = self.damaged.last().is_some_and(|last| last.path == path);
        if !is_known {
            self.damaged.push(Damaged { path: path.to_owned(), pages: Vec::new(), count: 0 });
        }
        if let Some(last) = self.damaged.last_mut() {
            last.count += 1;
            if last.pages.len() < NAMED {
                last.pages.push(page);
            }
        }
    }

    /// Reads `pg_control`, when everything else is read, until it is whole.
    async fn control(&mut self, session: &mut Connection, system: u64) -> Result<(), Error> {
        let piece = Piece {
            path: list::CONTROL.to_owned(),
            modified: 0,
            offset: 0,
            length: PAGE,
            relation: None,
            before: None,
        };
        let pieces = [piece];
        for _ in 0..TRIES {
            let raw = read::read(session, &pieces).await?;
            let bytes = raw.places.first().cloned().flatten().map(|place| &raw.bytes[place]);
            let Some(control) = bytes.and_then(Control::parse) else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            if control.system != system {
                return Err(session.confused("files of another cluster, or of a machine with another order of bytes"));
            }
            self.writer.end_part().await?;
            let done =
                done(pieces.to_vec(), raw, Arc::clone(&self.rules), Arc::clone(&self.encoders), Vec::new()).await?;
            return self.take(&pieces, &done).await;
        }
        Err(session.confused("a pg_control that is never whole"))
    }
}

/// What became of a statement's pieces.
struct Done {
    work: Work,
    damaged: Vec<Suspect>,
}

/// Reads pieces and works them through. Pages that look damaged are read again: they may have been read while they were
/// written.
async fn read_and_work(
    readers: Arc<Readers>,
    rules: Arc<Rules>,
    encoders: Arc<Mutex<Vec<Encoder>>>,
    pieces: Vec<Piece>,
) -> Result<(Vec<Piece>, Done), Error> {
    let mut raw = readers.read(&pieces).await?;
    let mut suspects = Vec::new();
    if rules.judged_from.is_some() && pieces.iter().any(|piece| piece.relation.is_some()) {
        let (its, judged) = (Arc::clone(&rules), pieces.clone());
        (raw, suspects) = seawall_core::blocking(move || {
            let suspects = chunk::suspects(&judged, &raw, &its);
            Ok::<_, Error>((raw, suspects))
        })
        .await?;
    }
    let mut damaged = Vec::new();
    for suspect in suspects {
        if !read_again(&readers, &rules, &pieces[suspect.piece], &mut raw, suspect).await? {
            damaged.push(suspect);
        }
    }
    let done = done(pieces.clone(), raw, rules, encoders, damaged).await?;
    Ok((pieces, done))
}

/// Reads one page again until it is sound or known to be changing; returns whether it became so.
async fn read_again(
    readers: &Readers,
    rules: &Rules,
    piece: &Piece,
    raw: &mut Raw,
    suspect: Suspect,
) -> Result<bool, Error> {
    let page = Piece { offset: piece.offset + suspect.at as u64, length: PAGE, before: None, ..piece.clone() };
    let pages = [page];
    for _ in 0..TRIES {
        tokio::time::sleep(PAUSE).await;
        let again = readers.read(&pages).await?;
        let Some(place) = again.places.first().cloned().flatten().filter(|place| place.len() == PAGE) else {
            // Cut off meanwhile: the log says so.
            return Ok(true);
        };
        if chunk::suspects(&pages, &again, rules).is_empty() {
            if let Some(Some(all)) = raw.places.get(suspect.piece) {
                let at = all.start + suspect.at;
                raw.bytes[at..at + PAGE].copy_from_slice(&again.bytes[place]);
            }
            return Ok(true);
        }
    }
    Ok(false)
}

/// Works pieces through on a blocking thread.
async fn done(
    pieces: Vec<Piece>,
    raw: Raw,
    rules: Arc<Rules>,
    encoders: Arc<Mutex<Vec<Encoder>>>,
    damaged: Vec<Suspect>,
) -> Result<Done, Error> {
    seawall_core::blocking(move || {
        let kept = encoders.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let defect = |error: std::io::Error| Error::Internal(format!("zstd: {error}"));
        let mut encoder = kept.map_or_else(Encoder::of_pages, Ok).map_err(defect)?;
        let work = chunk::work(&pieces, &raw, &rules, &mut encoder)?;
        encoders.lock().unwrap_or_else(PoisonError::into_inner).push(encoder);
        Ok(Done { work, damaged })
    })
    .await
}

#[cfg(test)]
mod tests {
    use seawall_vault::memory::MemoryStore;
    use seawall_vault::{ObjectKey, Policy};

    use super::manifest::tests::sample;
    use super::*;

    #[tokio::test]
    async fn a_base_counts_only_if_all_that_it_needs_is_there() {
        let manifest = sample(100, 1, 2);
        let key = layout::manifest(7, manifest.id).expect("a key");
        let needed = store::needed(7, &manifest).expect("keys");
        assert_eq!(needed.len(), 4, "two packs of its own, one of the base before, and its index: {needed:?}");
        let put = async |vault: &Vault, key: &ObjectKey, bytes: u64| {
            let content = vec![0; usize::try_from(bytes).expect("small")];
            vault.put(key, content.into(), None).await.expect("written");
        };
        for gone in needed.keys() {
            for cut in [false, true] {
                let vault = Vault::new(Arc::new(MemoryStore::new()), Policy::default());
                for (key, bytes) in &needed {
                    match key == gone {
                        true if cut => put(&vault, key, bytes - 1).await,
                        true => {}
                        false => put(&vault, key, *bytes).await,
                    }
                }
                let refused = commit(&vault, 7, &manifest).await.expect_err("it can't be restored");
                assert!(matches!(&refused, Error::Refused { code: "postgres.base-gone", .. }), "{refused:?}");
                assert!(vault.head(&key).await.expect("asked").is_none());
                put(&vault, gone, needed[gone]).await;
                commit(&vault, 7, &manifest).await.expect("now it is whole");
            }
        }
    }

    #[test]
    fn configurations_elsewhere_are_noted() {
        assert!(notes(&[], true).is_empty());
        assert_eq!(notes(&["/etc/pg/pg_hba.conf".into()], true).len(), 1);
        assert!(notes(&[], false)[0].contains("configuration"));
    }
}
