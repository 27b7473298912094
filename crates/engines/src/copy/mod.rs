//! `copy`: copies a vault, or a part of its history, to another place.
//!
//! Every write is create-only, so a copy that was cut off is continued by the next one, and nothing is written over. The
//! order of the objects (`plan`) makes each moment of the copy a vault that claims no more than it holds. At the end
//! everything is read back from the other place, and what can be restored there is compared with what was asked for
//! (`outcome`).
//!
//! What a crash leaves: whole objects, in the order of the plan.

mod outcome;
mod plan;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _};
use seawall_core::{
    Clock as _, Failure, Finding, IntegrityCheck, Kind, Point, Progress, RestoreRequest, SystemClock, When,
};
use seawall_vault::several::transfer::{self, Copied as Done};
use seawall_vault::{Access, HostKeys, Noted, ObjectKey, Prefix, Sealing, Vault, VaultUrl};
use serde::Serialize;

use self::plan::{Clash, Class, Item, Plan};
use crate::encryption::{Encryption, keys_of};
use crate::open::Opener;
use crate::recognise::{self, Held};

/// Objects that are copied at once. Memory is bounded by this many objects in parts.
const AT_ONCE: usize = 4;

/// How often the vault is listed again because objects vanished from it.
const ROUNDS: usize = 5;

/// The part of a history that is copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    All,
    /// What a restore of this point needs.
    At(When),
    /// The same, and everything that is newer.
    Since(When),
}

/// How the copy is encrypted.
#[derive(Debug, Clone)]
pub enum Protected {
    /// As the vault is: the bytes stay the same.
    AsItIs,
    /// Anew, for these recipients.
    For(Encryption),
    /// Not at all, although the vault is.
    Plain,
}

/// What to copy.
#[derive(Debug, Clone)]
pub struct CopyRequest {
    /// From here.
    pub from: VaultUrl,
    /// To here.
    pub to: VaultUrl,
    /// Which part of it.
    pub part: Part,
    /// How the copy is encrypted.
    pub protected: Protected,
    /// Only say what would be done.
    pub dry_run: bool,
}

/// Objects and their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Count {
    /// The number of objects.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Count {
    fn of<'a>(items: impl IntoIterator<Item = &'a Item>) -> Self {
        items.into_iter().fold(Self::default(), |sum, item| sum.with(item.size))
    }

    fn with(self, bytes: u64) -> Self {
        Self { objects: self.objects + 1, bytes: self.bytes.saturating_add(bytes) }
    }
}

/// A database in the copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CopiedDatabase {
    /// Its path below the vault; empty for the vault's own database.
    pub name: String,
    /// The oldest point that the copy can restore.
    pub earliest: Option<Point>,
    /// The newest one.
    pub newest: Option<Point>,
    /// Everything that is wrong in the copy; empty when all is well.
    pub findings: Vec<Finding>,
}

/// What a copy did, or would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Copied {
    /// From here, without secrets.
    pub from: String,
    /// To here, without secrets.
    pub to: String,
    /// Whether nothing was written because only the plan was asked for.
    pub dry_run: bool,
    /// What was copied, or would be.
    pub copied: Count,
    /// What was there already.
    pub present: Count,
    /// What the copy can restore, by database; empty for a dry run, and for an encrypted copy without the owner's key.
    pub databases: Vec<CopiedDatabase>,
    /// Whether the copy was opened and read by its engine; without the owner's key only bytes are compared.
    pub opened: bool,
    /// Names in the vault that can't be objects, and weren't copied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passed_over: Option<Failure>,
}

/// Both ends of a copy.
struct Ends {
    from: Vault,
    to: Vault,
    /// Markers are copied too: the bytes stay as they are.
    raw: bool,
    /// How a copy is encrypted anew.
    sealing: Option<Arc<Sealing>>,
}

impl Opener {
    /// Copies a vault to another place, and compares what both can restore.
    ///
    /// # Errors
    /// When the places don't allow it, an object can't be copied, or the copy can restore less than was asked for.
    pub async fn copy(&self, request: &CopyRequest, progress: Arc<dyn Progress>) -> Result<Copied, Failure> {
        let CopyRequest { from, to, .. } = request;
        if plan::overlap(&real(from), &real(to)) {
            let next = "name a place that is neither the vault nor inside of it nor around it";
            return Err(refused("copy.same-place", to.to_string(), format!("it overlaps with {from}"), next));
        }
        let ends = self.ends(request).await?;
        let noted = Noted::default();
        let here = items(&ends, &noted).await?;
        if !here.iter().any(|item| matches!(item.class, Class::Data | Class::Link)) {
            let (cause, next) = ("there is nothing to copy here", "check the place");
            return Err(Failure::new(Kind::NotFound, "copy.empty", from.to_string(), cause, next));
        }
        let opened = !ends.raw || self.reads(from).await?;
        let wanted = match &request.part {
            Part::All => None,
            Part::At(when) | Part::Since(when) if opened => Some(self.part(request, when, &here).await?),
            Part::At(_) | Part::Since(_) => {
                let cause = "a part of an encrypted history is found with the owner's key alone";
                return Err(refused(
                    "copy.no-part",
                    from.to_string(),
                    cause,
                    "give --identity FILE, or copy all of it",
                ));
            }
        };
        let keys = wanted.as_ref().map(|(keys, _)| keys);
        let first = decide(&ends, &here, &there(&ends).await?, keys)?;
        let mut copied = Copied {
            from: from.to_string(),
            to: to.to_string(),
            dry_run: request.dry_run,
            copied: Count::of(&first.missing),
            present: Count::of(&first.there),
            databases: Vec::new(),
            opened,
            passed_over: noted.so_far().failure(&from.to_string()),
        };
        compare(&ends, &first.there, &*progress).await?;
        if request.dry_run {
            return Ok(copied);
        }
        let before = match &wanted {
            _ if !opened => Vec::new(),
            Some((_, point)) => vec![(String::new(), Some(point.clone()), Some(point.clone()))],
            None => self.points(from, &ends).await?,
        };
        if ends.to.needs_probe() {
            ends.to.probe().await?;
        }
        let mut next = first;
        copied.copied = Count::default();
        for round in 0.. {
            let (done, vanished) = carry(&ends, &next.missing, &*progress).await?;
            copied.copied.objects += done.objects;
            copied.copied.bytes += done.bytes;
            if vanished.is_empty() {
                break;
            }
            if round == ROUNDS || wanted.is_some() {
                let cause = format!("{} objects vanished while they were copied", vanished.len());
                let object = ends.from.object(vanished.first().map_or(&here_or(&here)?.key, |key| key));
                let next = "run the command again; it copies what is missing";
                return Err(Failure::new(Kind::Unavailable, "copy.vanished", object, cause, next));
            }
            // What was merged away is covered by newer objects.
            next = decide(&ends, &items(&ends, &Noted::default()).await?, &there(&ends).await?, None)?;
        }
        if !opened {
            let now = decide(&ends, &items(&ends, &Noted::default()).await?, &there(&ends).await?, keys)?;
            reread(&ends, &now.there, &*progress).await?;
            self.finish(request, &ends).await?;
            return Ok(copied);
        }
        let after = match &wanted {
            Some(_) => before.clone(),
            None => self.points(from, &ends).await?,
        };
        copied.databases = self.prove(request, &ends, &before, &after, progress).await?;
        self.finish(request, &ends).await?;
        Ok(copied)
    }

    /// Ends the keys of this host that open the copy; and a copy as it is gets what a host of this vault reads for ever, so that a server's database
    /// goes on there under the new URL.
    async fn finish(&self, request: &CopyRequest, ends: &Ends) -> Result<(), Failure> {
        let along = [&request.from, &request.to].map(|vault| keys_of(vault, &self.environment));
        let (sealing, raw, to) = (ends.sealing.clone(), ends.raw, request.to.to_string());
        let work = move || {
            sealing.map_or(Ok(()), |sealing| sealing.forget_copy())?;
            if let (true, [Some(from), Some(to)]) = (raw, along)
                && let Err(error) = HostKeys::take_along(&from, &to)
            {
                tracing::warn!(from = %from.display(), to = %to.display(), "this host's keys for the copy: {error}");
            }
            Ok::<(), seawall_vault::Error>(())
        };
        let stopped = |_| {
            let cause = "the process is shutting down".to_owned();
            seawall_vault::Error::Unavailable { object: to, cause, retryable: false }
        };
        Ok(tokio::task::spawn_blocking(work).await.map_err(stopped)??)
    }

    /// Opens both ends, as the vault's encryption and the request demand.
    async fn ends(&self, request: &CopyRequest) -> Result<Ends, Failure> {
        let CopyRequest { from, to, protected, .. } = request;
        let names = self.open(from, Access::Names).await?;
        let (mut marked, mut nested, mut renames) = (false, false, false);
        let mut entries = Box::pin(names.entries(&Prefix::all(), None));
        while let Some(entry) = entries.try_next().await? {
            marked |= plan::is_marker(&entry.key);
            nested |= plan::is_marker(&entry.key) && entry.key.as_str().matches('/').count() > 1;
            renames |= plan::renamed(&entry.key, from.scheme(), to.scheme()) != entry.key;
        }
        let target = self.open(to, Access::Names).await?;
        in_use(&target).await?;
        let raw = matches!(protected, Protected::AsItIs);
        if raw {
            if marked && renames {
                let cause =
                    "its objects are sealed under their names, and objects have other names in that kind of place";
                let next = "encrypt the copy anew: give --identity FILE and --recipient";
                return Err(refused("copy.sealed-names", from.to_string(), cause, next));
            }
            let mut entries = Box::pin(target.entries(&Prefix::all(), None));
            while let Some(entry) = entries.try_next().await? {
                if plan::is_marker(&entry.key) && !marked {
                    let cause = format!("it is encrypted ({}), and {from} is not", entry.key);
                    let next = "name its recipients with --recipient, or take another place";
                    return Err(refused("copy.encrypted", to.to_string(), cause, next));
                }
            }
            return Ok(Ends { from: names, to: target, raw: true, sealing: None });
        }
        let several = self.databases_below(from).await?.databases.iter().any(|(below, _)| !below.is_empty());
        if several || nested {
            let cause = "it holds several databases, and each has its own encryption";
            let next = "copy each database by itself";
            return Err(refused("copy.several", from.to_string(), cause, next));
        }
        let here = if marked { self.access_for(from, None)? } else { Access::Plain };
        let sealing = match protected {
            Protected::For(encryption) => Some(self.owner_keys.of_a_copy(encryption, keys_of(to, &self.environment))?),
            Protected::AsItIs | Protected::Plain => None,
        };
        let there = sealing.clone().map_or(Access::Plain, Access::Sealed);
        Ok(Ends { from: self.open(from, here).await?, to: self.open(to, there).await?, raw: false, sealing })
    }

    /// Whether the objects of a vault can be read here: it is not encrypted, or there is a key of the owner.
    async fn reads(&self, place: &VaultUrl) -> Result<bool, Failure> {
        let names = self.open(place, Access::Names).await?;
        let mut entries = Box::pin(names.entries(&Prefix::all(), None));
        while let Some(entry) = entries.try_next().await? {
            if plan::is_marker(&entry.key) {
                return Ok(matches!(self.access_for(place, None)?, Access::Sealed(_)));
            }
        }
        Ok(true)
    }

    /// The databases of a vault: for each its path, and its vault to read from.
    async fn databases(&self, place: &VaultUrl, vault: &Vault, raw: bool) -> Result<Vec<(String, Vault)>, Failure> {
        if !raw {
            return Ok(vec![(String::new(), vault.clone())]);
        }
        let own = recognise::look(&self.open(place, Access::Names).await?).await?;
        let found = match own {
            Held::Lmdb | Held::Sets | Held::Cluster => vec![(String::new(), place.clone())],
            Held::Sqlite | Held::Nothing => self.databases_below(place).await?.databases,
        };
        let mut all = Vec::new();
        for (below, place) in found {
            let names = self.open(&place, Access::Names).await?;
            let marked = names.head(&ObjectKey::new("seawall/encryption.json")?).await?.is_some();
            let access = if marked { self.access_for(&place, None)? } else { Access::Plain };
            all.push((below, self.open(&place, access).await?));
        }
        Ok(all)
    }

    /// The oldest and the newest point of each database.
    async fn points(&self, place: &VaultUrl, ends: &Ends) -> Result<Vec<outcome::Points>, Failure> {
        let mut all = Vec::new();
        for (name, vault) in self.databases(place, &ends.from, ends.raw).await? {
            let engine = self.engine_in(vault, Arc::default(), None).await?;
            let timeline = engine.history().timeline().await?;
            let earliest = timeline.spans.first().map(|span| span.from.clone());
            all.push((name, earliest, timeline.newest().cloned()));
        }
        Ok(all)
    }

    /// The objects that a part of a history needs, and the point that begins it.
    async fn part(
        &self,
        request: &CopyRequest,
        when: &When,
        here: &[Item],
    ) -> Result<(BTreeSet<ObjectKey>, Point), Failure> {
        let Ends { from, .. } = self.ends(request).await?;
        let databases = self.databases(&request.from, &from, true).await?;
        let one = match databases.into_iter().next() {
            Some((below, vault)) if below.is_empty() => Some(vault),
            _ => None,
        };
        let sqlite = match &one {
            Some(vault) => recognise::look(vault).await? == Held::Sqlite,
            None => false,
        };
        let (Some(vault), true) = (one, sqlite) else {
            let cause = "a part of a history can be copied of one SQLite database";
            return Err(refused("copy.no-part", request.from.to_string(), cause, "copy all of it"));
        };
        let engine = self.engine_in(vault, Arc::default(), None).await?;
        let plan = RestoreRequest {
            output: PathBuf::from("copy.db"),
            when: when.clone(),
            force: true,
            dry_run: true,
            integrity: IntegrityCheck::None,
        };
        let files = crate::ask::files(&*engine)?;
        let restored = files.restore(&plan, Arc::new(seawall_core::NoProgress)).await?;
        let mut keys: BTreeSet<ObjectKey> = BTreeSet::new();
        for object in &restored.objects {
            keys.insert(ObjectKey::new(&object.key)?);
        }
        if let (Part::Since(_), Ok(point)) = (&request.part, u64::from_str_radix(&restored.point.position, 16)) {
            let newer = |item: &&Item| plan::transactions(&item.key).is_some_and(|(_, max)| max > point);
            keys.extend(here.iter().filter(newer).map(|item| item.key.clone()));
        }
        Ok((keys, restored.point))
    }

    /// Reads everything back, and compares what the copy can restore with what was asked for.
    async fn prove(
        &self,
        request: &CopyRequest,
        ends: &Ends,
        before: &[outcome::Points],
        after: &[outcome::Points],
        progress: Arc<dyn Progress>,
    ) -> Result<Vec<CopiedDatabase>, Failure> {
        let mut all = Vec::new();
        for (name, vault) in self.databases(&request.to, &ends.to, ends.raw).await? {
            let engine = self.engine_in(vault, Arc::default(), None).await?;
            let verified = engine.history().verify(progress.clone()).await?;
            let timeline = engine.history().timeline().await?;
            all.push(CopiedDatabase {
                name,
                earliest: timeline.spans.first().map(|span| span.from.clone()),
                newest: timeline.newest().cloned(),
                findings: verified.findings,
            });
        }
        // Findings tell more than the points that they take away.
        if all.iter().all(|database| database.findings.is_empty())
            && let Err(cause) = outcome::judge(&request.part, before, after, &all)
        {
            let next = "run the command again; if it says the same, run `seawall verify` on both places";
            return Err(Failure::new(Kind::Corrupt, "copy.incomplete", request.to.to_string(), cause, next));
        }
        Ok(all)
    }
}

/// A failure that leaves both places as they are.
fn refused(code: &'static str, object: String, cause: impl Into<String>, next: &str) -> Failure {
    Failure::new(Kind::Refused, code, object, cause.into(), next)
}

fn here_or(here: &[Item]) -> Result<&Item, Failure> {
    let none =
        || Failure::new(Kind::NotFound, "copy.empty", "copy", "there is nothing to copy here", "check the place");
    here.first().ok_or_else(none)
}

/// A place as a text; of a folder the real one, as far as it exists. Blocks for a system call or two.
fn real(place: &VaultUrl) -> String {
    let VaultUrl::File(path) = place else { return place.to_string() };
    let (mut there, mut rest): (&Path, PathBuf) = (path, PathBuf::new());
    loop {
        if let Ok(real) = there.canonicalize() {
            return format!("file://{}", real.join(rest).display());
        }
        let (Some(parent), Some(name)) = (there.parent(), there.file_name()) else { return place.to_string() };
        rest = if rest.as_os_str().is_empty() { PathBuf::from(name) } else { Path::new(name).join(rest) };
        there = parent;
    }
}

/// What is copied of a vault. `noted` gets the names that can't be objects.
async fn items(ends: &Ends, noted: &Noted) -> Result<Vec<Item>, Failure> {
    let (from, to) = (ends.from.scheme(), ends.to.scheme());
    let mut all = Vec::new();
    let mut entries = Box::pin(ends.from.entries_noting(&Prefix::all(), None, noted));
    while let Some(entry) = entries.try_next().await? {
        if let Some(class) = plan::class(&entry.key)
            && (ends.raw || class != Class::Marker)
        {
            let name = plan::renamed(&entry.key, from, to);
            all.push(Item { class, name, key: entry.key, size: entry.size });
        }
    }
    Ok(all)
}

/// The objects of the other place.
async fn there(ends: &Ends) -> Result<BTreeMap<ObjectKey, u64>, Failure> {
    let entries = ends.to.entries(&Prefix::all(), None).map_ok(|entry| (entry.key, entry.size));
    Ok(entries.try_collect().await?)
}

fn decide(
    ends: &Ends,
    here: &[Item],
    there: &BTreeMap<ObjectKey, u64>,
    wanted: Option<&BTreeSet<ObjectKey>>,
) -> Result<Plan, Failure> {
    const NEXT: &str = "take an empty place, or one with an earlier copy of the same vault";
    plan::plan(here, there, wanted).map_err(|clash| match clash {
        Clash::Differs(key, name) => differs(ends, &key, &name),
        Clash::Ahead(name) => {
            let cause = format!("it is newer than everything in {}: another writer uses this place", ends.from.url());
            Failure::new(Kind::Conflict, "copy.ahead", ends.to.object(&name), cause, NEXT)
        }
        Clash::Other(name) => {
            let cause = format!("it is there, and no object of {}: this place holds another history", ends.from.url());
            Failure::new(Kind::Conflict, "copy.other-history", ends.to.object(&name), cause, NEXT)
        }
    })
}

fn differs(ends: &Ends, key: &ObjectKey, name: &ObjectKey) -> Failure {
    let cause = format!("it differs from {}; nothing was written over", ends.from.object(key));
    let next = "take an empty place, or one with an earlier copy of the same vault";
    Failure::new(Kind::Conflict, "copy.differs", ends.to.object(name), cause, next)
}

/// Refuses a place whose lease a process holds.
async fn in_use(to: &Vault) -> Result<(), Failure> {
    let mut entries = Box::pin(to.entries(&Prefix::all(), None));
    while let Some(entry) = entries.try_next().await? {
        if entry.key.file_name() != "lock.json" {
            continue;
        }
        let bytes = to.read(&entry.key, None, 64 << 10).await?;
        if outcome::holds(&bytes, SystemClock.now()) {
            let cause = "a process holds the lease of this place".to_owned();
            let next = "stop the process that protects a database there, or take another place";
            return Err(Failure::new(Kind::Conflict, "copy.in-use", to.object(&entry.key), cause, next));
        }
    }
    Ok(())
}

/// Compares objects that both places have.
async fn compare(ends: &Ends, there: &[Item], progress: &dyn Progress) -> Result<(), Failure> {
    progress.begin("comparing", Some(Count::of(there).bytes));
    let one = |item: Item| async move {
        let (here, there) = (ends.from.head(&item.key).await?, ends.to.head(&item.name).await?);
        if let (Some(here), Some(there)) = (here, there)
            && !transfer::same_as(&ends.from, &ends.to, &item.key, &item.name, &here, &there).await?
        {
            return Err(differs(ends, &item.key, &item.name));
        }
        progress.advance(item.size);
        Ok(())
    };
    let compared = futures::stream::iter(there.to_vec()).map(one).buffer_unordered(AT_ONCE).try_collect::<()>().await;
    progress.finish();
    compared
}

/// Reads the objects of both places, and compares all of their bytes.
async fn reread(ends: &Ends, there: &[Item], progress: &dyn Progress) -> Result<(), Failure> {
    progress.begin("reading back", Some(Count::of(there).bytes));
    for item in there {
        if transfer::digest_of(&ends.to, &item.name).await? != transfer::digest_of(&ends.from, &item.key).await? {
            return Err(differs(ends, &item.key, &item.name));
        }
        progress.advance(item.size);
    }
    progress.finish();
    Ok(())
}

/// Copies objects: one class after the other, and links in their order. Returns what was copied, and what vanished.
async fn carry(ends: &Ends, missing: &[Item], progress: &dyn Progress) -> Result<(Count, Vec<ObjectKey>), Failure> {
    let (mut done, mut vanished) = (Count::default(), Vec::new());
    progress.begin("copying", Some(Count::of(missing).bytes));
    for group in missing.chunk_by(|one, other| one.class == other.class) {
        let links = group.first().is_some_and(|item| item.class == Class::Link);
        // A set whose objects vanished doesn't count.
        if links && !vanished.is_empty() {
            break;
        }
        let one = |item: Item| async move {
            let became = transfer::copy_as(&ends.from, &ends.to, &item.key, &item.name).await;
            became.map(|became| (item, became))
        };
        let at_once = if links { 1 } else { AT_ONCE };
        let mut copies = Box::pin(futures::stream::iter(group.to_vec()).map(one).buffered(at_once));
        while let Some((item, became)) = copies.try_next().await? {
            progress.advance(item.size);
            match became {
                Done::Fresh(bytes) => done = done.with(bytes),
                Done::There(_) => {}
                Done::Gone => vanished.push(item.key),
                Done::Differs => return Err(differs(ends, &item.key, &item.name)),
            }
        }
    }
    progress.finish();
    Ok((done, vanished))
}
