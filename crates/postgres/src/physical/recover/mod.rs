//! A cluster out of a base and the log, as a folder that a server recovers in.
//!
//! A pure function (`choose`) decides which base and which timeline lead to the target, and refuses before anything is
//! written. Files are restored in parallel into folders of other names (`folder`, `fill`), which get their own names when
//! all of it is durable. A server that is started there fetches its log with Seawall itself (`settings`), and ends
//! recovery at the target.
//!
//! The rooms beside these: `listing` (PostgreSQL's own manifest of a backup), `line` (how far the log goes),
//! `moment` (what the log says of a moment), `start` (runs a server to the target), `windows` (which blocks go together), `over` (a
//! folder that is there, with `--delta`) and its `lock`, `handed` (what the recovery needs of the restore).

pub(crate) mod choose;
mod fill;
mod folder;
mod handed;
pub(crate) mod line;
mod listing;
mod lock;
mod moment;
mod over;
mod settings;
mod start;
mod windows;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use seawall_archive::SetId;
use seawall_archive::log::{Contents, Log, Lsn, TimelineId};
use seawall_core::{Moment, Progress};
use seawall_host::folder_of;
use seawall_vault::Vault;
use tokio::time::Instant;

pub use self::choose::Target;
pub use self::handed::{Delivery, HANDED_OVER, HandedOver, Handover};
pub(super) use self::moment::on as timelines_of;
pub(super) use self::over::MARK as UNFINISHED;
pub use self::settings::resets;
pub(super) use self::settings::sizes;
pub use self::start::Reached;
pub(super) use self::start::{connect, find as find_server, own as own_settings, until_recovered};

use self::choose::{Candidate, Choice, Lines, Refused, choose};
use self::fill::{Filling, fill, kept, steps};
use self::folder::{Folders, apart, check, mapped};
use self::listing::{Listing, Restored};
use super::base::{self, BaseManifest, Listed};
use crate::{Error, Limits, World};

/// How long to wait before looking again whether a thread still writes.
const PAUSE: Duration = Duration::from_millis(5);

/// How to recover.
#[derive(Debug, Clone)]
pub struct RecoverOptions {
    /// What to reach.
    pub target: Target,
    /// The base to begin with, if another one than the best is wanted.
    pub from: Option<SetId>,
    /// The timeline to follow, if another one than the newest is wanted: of a moment, the newest that there was then.
    pub timeline: Option<u32>,
    /// The data directory to make.
    pub output: PathBuf,
    /// Where tablespaces go: old and new place.
    pub tablespaces: Vec<(PathBuf, PathBuf)>,
    /// How much of the machine.
    pub limits: Limits,
    /// Restore over what is there: what equals the base stays.
    pub delta: bool,
    /// Only say what would be done.
    pub dry_run: bool,
    /// Start a server and have it recover to the target.
    pub start: bool,
    /// How it gets its log.
    pub delivery: Delivery,
}

/// What was done, or would be.
#[derive(Debug, Clone)]
pub struct Recovered {
    /// The base.
    pub manifest: BaseManifest,
    /// The timeline that is followed.
    pub timeline: u32,
    /// How far the log goes without a hole.
    pub reach: Lsn,
    /// When the last object of that was written, by the store's clock.
    pub until: Moment,
    /// Whether a moment is asked for after which the vault has nothing: what the server committed between `until` and the moment, and
    /// the vault never got, isn't known.
    pub is_doubtful: bool,
    /// Files that were made.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes that were written, which are fewer where zeros are, or what was there stays.
    pub written: u64,
    /// Wall time in milliseconds.
    pub duration_ms: u64,
    /// Where a server that was started got to.
    pub reached: Option<Reached>,
}

/// Restores a cluster.
///
/// # Errors
/// When the target can't be reached, which is known before anything is written; and everything that goes wrong later:
/// then nothing is left of it.
pub async fn recover(
    vault: &Vault,
    options: &RecoverOptions,
    world: &World,
    progress: Arc<dyn Progress>,
) -> Result<Recovered, Error> {
    let plan = plan(vault, options, world).await?;
    carry_out(vault, plan, options, world, progress).await
}

/// Restores a cluster as planned.
///
/// # Errors
/// As [`recover`].
pub(super) async fn carry_out(
    vault: &Vault,
    Plan { manifest, choice, target, is_doubtful }: Plan,
    options: &RecoverOptions,
    world: &World,
    progress: Arc<dyn Progress>,
) -> Result<Recovered, Error> {
    let clock = Instant::now();
    let system = manifest.system.parse().map_err(|_| Error::Internal("a system identifier".to_owned()))?;
    let places = mapped(&manifest.tablespaces, &options.tablespaces)?;
    match options.delta {
        true => {
            let there = over::check(&options.output, &places, &options.tablespaces, &needed(vault, options), system)?;
            room_over(&options.output, there, &manifest)?;
        }
        false => [&options.output].into_iter().chain(places.iter().map(|(_, to)| to)).try_for_each(|to| check(to))?,
    }
    apart(&options.output, &places)?;
    let mut recovered = Recovered {
        timeline: choice.reach.timeline,
        reach: choice.reach.lsn,
        until: choice.reach.until,
        is_doubtful,
        files: manifest.totals.files,
        bytes: manifest.totals.bytes,
        written: 0,
        duration_ms: 0,
        reached: None,
        manifest,
    };
    // Only a base whose objects are there lets anything be written or removed.
    if let Some(key) = base::lacking(vault, system, &recovered.manifest).await? {
        let cause = format!("the base {} needs it, and it is missing or has another size", recovered.manifest.id);
        return Err(base::corrupt(vault.object(&key), cause));
    }
    if options.dry_run {
        return Ok(recovered);
    }
    let server = match options.start {
        true => Some(start::find(recovered.manifest.version, &options.limits, world).await?),
        false => None,
    };
    let output = options.output.clone();
    let folders = match options.delta {
        true => {
            // Only a base whose index can be read, too, lets anything be removed.
            let kept = kept(vault, system, &recovered.manifest).await?;
            seawall_core::blocking(move || Folders::over(&output, &places, system, &kept)).await?
        }
        false => {
            let folders = seawall_core::blocking(move || Folders::new(&output, &places)).await?;
            room(&folders, &recovered.manifest, &options.output)?;
            folders
        }
    };
    let manifest = Arc::new(recovered.manifest.clone());
    let filling = Arc::new(Filling {
        vault: vault.clone(),
        system,
        manifest: Arc::clone(&manifest),
        folders: Arc::new(folders),
        decoders: Mutex::default(),
        memory: Mutex::default(),
        written: AtomicU64::new(0),
    });
    // What is restored over isn't whole from here on.
    let in_place = |error: Error| if options.delta { error.in_place(&options.output) } else { error };
    progress.begin("files", Some(manifest.totals.bytes));
    let (mut listing, begin) = Listing::begin(&manifest);
    let mut written = listing_file(&filling.folders, &begin).map_err(in_place)?;
    let steps = steps(options.limits.memory, options.limits.jobs);
    (recovered.files, recovered.bytes) = (0, 0);
    let filled = fill(&filling, steps, &progress, |file| {
        recovered.files += 1;
        recovered.bytes += file.bytes;
        append(&mut written, &listing.file(&file), &options.output)
    })
    .await;
    if let Err(error) = filled {
        // Threads may still write. The folders go when nobody holds them any more, and the process may end with this error.
        drop(alone(alone(filling).await.folders).await);
        return Err(in_place(error));
    }
    let Some(filling) = Arc::into_inner(filling) else {
        return Err(Error::Internal("files are still being written".to_owned()));
    };
    let Some(folders) = Arc::into_inner(filling.folders) else {
        return Err(Error::Internal("folders are still being written".to_owned()));
    };
    recovered.written = filling.written.into_inner();
    let (these, done) = (options.clone(), manifest);
    progress.begin("sync", None);
    let output = options.output.clone();
    seawall_core::blocking(move || {
        for file in describe(&folders, &done, &these, &choice, &target)? {
            append(&mut written, &listing.file(&file), &these.output)?;
        }
        append(&mut written, &listing.end(&done), &these.output)?;
        written.end(&these.output)?;
        // What is thrown away needn't be durable, and a live database may use the same disk.
        folders.finish(matches!(these.delivery, Delivery::Fetched(_)))
    })
    .await
    .map_err(in_place)?;
    progress.finish();
    if let Some(server) = server {
        progress.begin("recovery", None);
        let libraries = world.environment.get("LD_LIBRARY_PATH");
        recovered.reached = Some(start::run(&server, &output, &recovered.manifest, libraries).await?);
        progress.finish();
    }
    recovered.duration_ms = u64::try_from(clock.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(recovered)
}

/// Files and folders of this host that a restore and the recovery behind it read.
fn needed(vault: &Vault, options: &RecoverOptions) -> Vec<PathBuf> {
    let handed = match &options.delivery {
        Delivery::Fetched(handover) => [Some(&handover.program), handover.config.as_ref(), handover.identity.as_ref()],
        Delivery::Copied(log) => [Some(log), None, None],
    };
    vault.folder().into_iter().chain(handed.into_iter().flatten().cloned()).collect()
}

/// Waits until nobody else holds it.
async fn alone<T>(mut shared: Arc<T>) -> T {
    loop {
        match Arc::try_unwrap(shared) {
            Ok(alone) => return alone,
            Err(held) => shared = held,
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// How a target is reached.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// The base.
    pub(super) manifest: BaseManifest,
    /// The way.
    pub(super) choice: Choice,
    /// What the server is told to reach.
    pub(super) target: Target,
    /// As of [`Recovered`].
    pub(super) is_doubtful: bool,
}

/// The base, the way, and what the server is told to reach.
///
/// # Errors
/// When the target can't be reached.
pub(super) async fn plan(vault: &Vault, options: &RecoverOptions, world: &World) -> Result<Plan, Error> {
    let listed = base::list(vault).await?;
    let log = Log::open(vault).await?;
    let mut systems: Vec<u64> = listed.iter().map(|base| base.system).collect();
    systems.dedup();
    if let Some(other) = systems.iter().find(|system| **system != systems[0]) {
        return Err(Error::Refused {
            code: "postgres.several-clusters",
            object: vault.url().to_owned(),
            cause: format!("it holds bases of the clusters {} and {other}", systems[0]),
            next: "give each cluster a vault of its own: move the objects below physical/SYSTEM/ of one of them"
                .to_owned(),
        });
    }
    let contents = match &log {
        Some(log) => Some(line::survey(log).await?),
        None => None,
    };
    if let Some((contents, _)) = &contents {
        has_histories(contents, vault, options.timeline)?;
    }
    let (mut candidates, mut manifests, mut unread) = (Vec::new(), Vec::new(), None);
    for base in listed.into_iter().filter(|base| options.from.is_none_or(|from| from == base.id)) {
        let manifest = match base::manifest(vault, base).await {
            Ok(manifest) => manifest,
            // One that is damaged doesn't keep the others from being restored.
            Err(error) => {
                unread = Some(error);
                continue;
            }
        };
        let BaseManifest { timeline, start, stop, .. } = manifest;
        let mut reaches = contents
            .as_ref()
            .map_or_else(Vec::new, |(contents, written)| line::reaches(contents, written, timeline, start, stop));
        reaches.retain(|reach| options.timeline.is_none_or(|timeline| timeline == reach.timeline));
        let BaseManifest { id, ended, next_xid, .. } = manifest;
        candidates.push(Candidate { id, ended, stop, next_xid, reaches });
        manifests.push(Listed { id: manifest.id, system: base.system });
    }
    let lines = match (&options.target, &log, &contents) {
        (Target::Moment(_), Some(log), Some((contents, written))) => lines(log, contents, written, &candidates).await?,
        _ => Lines::default(),
    };
    let ways = match choose(&candidates, &options.target, world.clock.now(), &lines) {
        Ok(ways) => ways,
        Err(Refused::NoBase | Refused::NoSuchBase(_)) if unread.is_some() => {
            return Err(unread.unwrap_or_else(|| Error::Internal("an error".to_owned())));
        }
        Err(refused) => return Err(refusal(vault, &options.target, options.from, &refused)),
    };
    let (choice, target) = match (&options.target, &log) {
        (Target::Moment(moment), Some(log)) => match to_moment(log, &candidates, &ways, *moment).await? {
            Ok(found) => found,
            Err(refused) => return Err(refusal(vault, &options.target, options.from, &refused)),
        },
        (target, _) => (ways[0], target.clone()),
    };
    let chosen = manifests.into_iter().find(|base| base.id == choice.id);
    let chosen = chosen.ok_or_else(|| Error::Internal("a base that isn't one".to_owned()))?;
    if let Some(error) = unread {
        tracing::warn!("a base can't be read, and another one is used: {error}");
    }
    let is_later = matches!(options.target, Target::Moment(moment) if moment > choice.reach.until);
    let is_doubtful = is_later && target == Target::Latest;
    Ok(Plan { manifest: base::manifest(vault, chosen).await?, choice, target, is_doubtful })
}

/// Refuses a log of whose timelines one has no history: it may be the one to follow, and an older one would be restored instead.
fn has_histories(contents: &Contents, vault: &Vault, timeline: Option<u32>) -> Result<(), Error> {
    let is_needed = |id: &&TimelineId| timeline.is_none_or(|timeline| timeline == id.number());
    let lacks = |id: &&TimelineId| contents.history(**id).is_none();
    let with_log = contents.timelines.iter().filter(|(_, held)| !held.spans.is_empty()).map(|(id, _)| id);
    match with_log.filter(is_needed).find(lacks) {
        Some(timeline) => {
            let later = format!("log of timeline {timeline}");
            let vault = vault.url().to_owned();
            Err(seawall_archive::log::LogError::NoHistory { vault, timeline: *timeline, later }.into())
        }
        None => Ok(()),
    }
}

/// When timelines began, where there are several to choose from: by the clock of their servers, or else by the store's. And where
/// they left those that they came from.
async fn lines(log: &Log, contents: &Contents, written: &line::Written, bases: &[Candidate]) -> Result<Lines, Error> {
    let numbers: BTreeSet<u32> = bases.iter().flat_map(|base| &base.reaches).map(|reach| reach.timeline).collect();
    let mut lines = Lines::default();
    for timeline in numbers.iter().skip(1).copied().filter_map(TimelineId::new) {
        let told = moment::begun(log, timeline).await?.or_else(|| written.begun(timeline));
        lines.begun.extend(told.map(|moment| (timeline.number(), moment)));
        let ancestors = contents.history(timeline).map(|history| history.ancestors).unwrap_or_default();
        let left = ancestors.iter().map(|one| ((timeline.number(), one.timeline.number()), one.switch));
        lines.left.extend(left);
    }
    Ok(lines)
}

/// The way that has a moment, and what the server is told to reach.
async fn to_moment(
    log: &Log,
    bases: &[Candidate],
    ways: &[Choice],
    moment: Moment,
) -> Result<Result<(Choice, Target), Refused>, Error> {
    let mut refused = Refused::NoBase;
    for way in ways {
        let Some(base) = bases.iter().find(|base| base.id == way.id) else { continue };
        if moment::ended_after(log, base, way, moment).await? {
            return Ok(Ok((*way, Target::Moment(moment))));
        }
        // Nothing ended later, and nothing is missing behind it: all of the log is what there was.
        if way.reach.is_end {
            return Ok(Ok((*way, Target::Latest)));
        }
        if refused == Refused::NoBase {
            refused = Refused::Hole(Candidate { reaches: vec![way.reach], ..base.clone() });
        }
    }
    Ok(Err(refused))
}

/// Why the target can't be reached, and what to do.
fn refusal(vault: &Vault, target: &Target, from: Option<SetId>, refused: &Refused) -> Error {
    let told = |code, cause: String, next: String| Error::Refused { code, object: vault.url().to_owned(), cause, next };
    let see = "see what there is with `seawall timeline`";
    match refused {
        Refused::NoBase => match from {
            Some(id) => told("postgres.no-base", format!("it holds no base {id}"), see.to_owned()),
            None => told(
                "postgres.no-base",
                "it holds no base of a cluster that counts".to_owned(),
                "make one with `seawall backup postgresql://… VAULT --physical`".to_owned(),
            ),
        },
        Refused::NoSuchBase(id) => told("postgres.no-base", format!("it holds no base {id}"), see.to_owned()),
        Refused::Future => told(
            "postgres.target-future",
            format!("{} is still to come", shown(target)),
            "leave --at out to restore all that the log has".to_owned(),
        ),
        Refused::BeforeFirst(base) => told(
            "postgres.target-before",
            format!("{} is before the end of the first base, {} at {}", shown(target), base.stop, base.ended),
            format!("restore the end of that base with --at {}, or something later", base.id),
        ),
        Refused::Hole(base) => match base.reaches.iter().find(|reach| reach.lsn >= base.stop) {
            Some(reach) => told(
                "postgres.target-hole",
                format!(
                    "{} isn't in the log: from the base {} on it goes to {} without a hole, and that was written at {}",
                    shown(target),
                    base.id,
                    reach.lsn,
                    reach.until
                ),
                format!("restore that with --target lsn:{}, or all of the newest part with --at latest; {see}", reach.lsn),
            ),
            None => told(
                "postgres.no-log",
                format!("the log of the base {}, which it needs up to {}, isn't there", base.id, base.stop),
                "have the server ship its log (`seawall wal push` as archive_command), and wait until the segments of the base \
                 have come"
                    .to_owned(),
            ),
        },
    }
}

/// A target for people.
fn shown(target: &Target) -> String {
    match target {
        Target::Latest => "the newest state".to_owned(),
        Target::Moment(moment) => moment.to_string(),
        Target::Lsn(lsn) => lsn.to_string(),
        Target::Xid(xid) => format!("transaction {xid}"),
        Target::Name(name) => format!("the restore point {name}"),
        Target::Base(id) => format!("the end of the base {id}"),
    }
}

/// Refuses a disk that has no room.
fn room(folders: &Folders, manifest: &BaseManifest, output: &Path) -> Result<(), Error> {
    let needed = manifest.totals.bytes;
    match folders.free().filter(|free| *free < needed) {
        Some(free) => Err(no_room(output, needed, free)),
        None => Ok(()),
    }
}

/// The same for a folder that is restored over, in which `there` bytes are. Where tablespaces go, isn't looked at.
fn room_over(output: &Path, there: u64, manifest: &BaseManifest) -> Result<(), Error> {
    let needed = manifest.totals.bytes;
    let place = if output.exists() { output } else { folder_of(output) };
    let room = seawall_host::free_space(place).map(|free| free.saturating_add(there));
    match room.filter(|room| *room < needed && manifest.tablespaces.is_empty()) {
        Some(room) => Err(no_room(output, needed, room)),
        None => Ok(()),
    }
}

fn no_room(output: &Path, needed: u64, room: u64) -> Error {
    Error::Refused {
        code: "postgres.no-space",
        object: output.display().to_string(),
        cause: format!("the files have {needed} bytes, and the disk has room for {room}"),
        next: "name a folder on a larger disk".to_owned(),
    }
}

/// The manifest for `pg_verifybackup`, in the folder.
fn listing_file(folders: &Folders, begin: &str) -> Result<Growing, Error> {
    let file = folders.create("backup_manifest")?;
    let mut written = Growing { file: std::io::BufWriter::new(file) };
    append(&mut written, begin, Path::new("backup_manifest"))?;
    Ok(written)
}

/// A file that is appended to.
struct Growing {
    file: std::io::BufWriter<std::fs::File>,
}

impl Growing {
    /// Writes the rest.
    fn end(mut self, path: &Path) -> Result<(), Error> {
        let flushed = std::io::Write::flush(&mut self.file);
        flushed.map_err(|error| Error::Io { path: path.display().to_string(), cause: error.to_string() })
    }
}

fn append(written: &mut Growing, text: &str, path: &Path) -> Result<(), Error> {
    use std::io::Write as _;
    let appended = written.file.write_all(text.as_bytes());
    appended.map_err(|error| Error::Io { path: path.display().to_string(), cause: error.to_string() })
}

/// Writes what makes a server recover, and returns the files that belong into PostgreSQL's manifest. Blocks.
fn describe(
    folders: &Folders,
    manifest: &BaseManifest,
    options: &RecoverOptions,
    choice: &Choice,
    target: &Target,
) -> Result<Vec<Restored>, Error> {
    let modified = u64::try_from(manifest.ended.as_millis() / 1000).unwrap_or(0);
    let mut files = vec![("backup_label", manifest.label.clone().into_bytes())];
    if let Delivery::Fetched(handover) = &options.delivery {
        let document = handover.document(&manifest.system, choice.reach.timeline, choice.reach.lsn)?;
        files.push((HANDED_OVER, document));
    }
    let mut made = Vec::new();
    for (path, content) in files {
        folders.write(path, &content)?;
        let crc = base::control::crc32c(&content);
        made.push(Restored { path: path.to_owned(), bytes: content.len() as u64, modified, crc });
    }
    for folder in ["pg_wal", "pg_wal/archive_status"] {
        if !folders.has(folder) {
            folders.folder(folder)?;
        }
    }
    folders.write("recovery.signal", b"")?;
    let command = options.delivery.command();
    let lines = settings::lines(target, choice, &command);
    match options.delivery {
        Delivery::Fetched(_) => folders.append("postgresql.auto.conf", &lines)?,
        Delivery::Copied(_) => folders.replace("postgresql.auto.conf", &lines)?,
    }
    Ok(made)
}

/// Whether the log that a base needs up to its end isn't in the vault.
///
/// # Errors
/// When the vault can't be read.
pub async fn lacks_log(vault: &Vault, manifest: &BaseManifest) -> Result<bool, Error> {
    let Some(log) = Log::open(vault).await? else { return Ok(true) };
    let (contents, written) = line::survey(&log).await?;
    let reach = line::reach(&contents, &written, manifest.timeline, manifest.start, manifest.stop);
    Ok(reach.is_none_or(|reach| reach.lsn < manifest.stop))
}
