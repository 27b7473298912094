//! Proves that the objects of a plan belong together: gathers the facts for `belonging`.
//!
//! It reads 100 bytes of each object, or all of a small one that a restore needs anyway (`heads`), and 16 more of files with
//! database checksums (Litestream writes none). It reads a hole record only where a lineage begins.

use std::collections::BTreeMap;

use futures::stream::{self, StreamExt, TryStreamExt};
use seawall_ltx::Txid;
use seawall_vault::Vault;

use crate::belonging::{self, Bond, Doubt, Facts, Mixed, Why};
use crate::error::Error;
use crate::headers::{is_locked, tells_nothing};
use crate::heads::Heads;
use crate::holes::{self, HoleRecord};
use crate::identity::Lineage;
use crate::layout::{Layout, Stored};
use crate::plan::latest;

/// How many objects before a complete copy are compared with it.
const ELDERS: usize = 8;

/// Refuses a chain of objects, oldest first, that doesn't belong together or to the other `files` of its vault. Returns
/// the doubts.
///
/// # Errors
/// [`Error::Mixed`], with advice.
pub(crate) async fn prove(heads: &Heads, files: &[Stored], chain: &[Stored]) -> Result<Vec<(Stored, Doubt)>, Error> {
    let facts = gather(heads, chain).await?;
    match judge(heads, files, &facts).await? {
        Ok(doubts) => Ok(doubts),
        Err(mixed) => Err(refusal(heads, files, chain, &mixed).await),
    }
}

/// As [`prove`], without an error for objects that don't belong together.
pub(crate) async fn check(heads: &Heads, files: &[Stored], chain: &[Stored]) -> Result<Judged, Error> {
    judge(heads, files, &gather(heads, chain).await?).await
}

/// The error that names both objects and the next step.
async fn refusal(heads: &Heads, files: &[Stored], chain: &[Stored], mixed: &Mixed) -> Error {
    let vault = heads.vault();
    let stranger = vault.object(&mixed.stranger.key(Layout::of(vault)));
    let rest: Vec<Stored> = files.iter().filter(|file| **file != mixed.stranger).copied().collect();
    let first = chain.iter().position(|file| *file == mixed.stranger || *file == mixed.other);
    let before = first.and_then(|at| if chain[at] == mixed.stranger { at.checked_sub(1) } else { Some(at) });
    let before = match before {
        Some(at) if is_proved(heads, files, &chain[..=at]).await => Some(chain[at].max),
        _ => None,
    };
    let next = if is_whole_without(heads, &rest).await {
        "find out how it came there, and delete it: without it the newest state can be restored".to_owned()
    } else if let Some(before) = before {
        format!("find out how it came there; `--at {before}` restores the last point before it")
    } else {
        "find out which of the two is of this database, and delete the other one; `seawall timeline` shows what can be \
         restored"
            .to_owned()
    };
    mixed_error(vault, mixed, stranger, next)
}

fn mixed_error(vault: &Vault, mixed: &Mixed, object: String, next: String) -> Error {
    let stranger = mixed.stranger;
    let other = mixed.other.key(Layout::of(vault)).to_string();
    Error::Mixed { object, stranger, other, why: mixed.why.reason(), next }
}

/// The error for objects that no restore asks for just now.
pub(crate) fn strangers(vault: &Vault, mixed: &Mixed) -> Error {
    let object = vault.object(&mixed.stranger.key(Layout::of(vault)));
    let next = "find out how it came there, and delete it if it is of another database: `seawall verify` names all such objects, \
                and what can be restored without them";
    mixed_error(vault, mixed, object, next.to_owned())
}

/// Whether a proved chain leads to the newest state of these files.
async fn is_whole_without(heads: &Heads, files: &[Stored]) -> bool {
    let Ok(Some(chain)) = latest(files) else { return false };
    is_proved(heads, files, &chain).await
}

async fn is_proved(heads: &Heads, files: &[Stored], chain: &[Stored]) -> bool {
    matches!(check(heads, files, chain).await, Ok(Ok(_)))
}

/// The facts of objects, in their order.
pub(crate) async fn gather(heads: &Heads, files: &[Stored]) -> Result<Vec<Facts>, Error> {
    let reading: Vec<_> = files.iter().map(|file| facts_of(heads, file)).collect();
    stream::iter(reading).buffered(heads.at_once()).try_collect().await
}

/// The facts of one object.
pub(crate) async fn facts_of(heads: &Heads, file: &Stored) -> Result<Facts, Error> {
    let header = heads.header(file).await?;
    let facts = Facts::of(file, &header);
    if header.no_checksum {
        return Ok(facts);
    }
    let trailer = heads.trailer(file).await?;
    Ok(trailer.map_or(facts, |trailer| facts.with_end(trailer.post_apply)))
}

/// The facts of an object that isn't needed but helps to decide; `None` if it is damaged or gone.
pub(crate) async fn helper(heads: &Heads, file: &Stored) -> Result<Option<Facts>, Error> {
    match facts_of(heads, file).await {
        Ok(facts) => Ok(Some(facts)),
        Err(error) if tells_nothing(&error) || is_locked(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(crate) type Judged = Result<Vec<(Stored, Doubt)>, Mixed>;

/// Whether a chain belongs together, and to its vault: to other objects that end where it begins and ends, to the
/// objects before its complete copy, and to the objects that continue from its end.
async fn judge(heads: &Heads, files: &[Stored], chain: &[Facts]) -> Result<Judged, Error> {
    let vault = heads.vault();
    let (Some(first), Some(last)) = (chain.first(), chain.last()) else { return Ok(Ok(Vec::new())) };
    let mut holes = BTreeMap::new();
    for (before, next) in chain.iter().zip(chain.iter().skip(1)) {
        note_hole(vault, &mut holes, before, next).await?;
    }
    let is_twin = |file: &&Stored| file.max == first.file.max || file.max == last.file.max;
    let mut context = Vec::new();
    for file in files.iter().filter(is_twin).filter(|file| chain.iter().all(|facts| facts.file != **file)) {
        context.extend(helper(heads, file).await?);
    }
    let mut elders: Vec<Facts> = Vec::new();
    let root = is_rooted(heads, files, first, &mut elders, &mut holes).await?;
    context.extend(elders);
    let doubts = match belonging::chain(chain, &context, &holes) {
        Ok(doubts) => doubts,
        Err(mixed) => return Ok(Err(mixed)),
    };
    let all = || chain.iter().chain(&context);
    for end in [first, last] {
        for twin in context.iter().filter(|twin| twin.file.max == end.file.max) {
            if let Bond::Stranger(why) = belonging::same_end(end, twin) {
                return Ok(Err(Mixed::new(twin, end, why, all())));
            }
        }
    }
    if let Some((elder, why)) = root {
        return Ok(Err(Mixed::new(&elder, first, why, all())));
    }
    let heirs = heirs(heads, files, last, &mut holes).await?;
    let mixed = heirs.first().map(|(heir, why)| {
        let heirs = heirs.iter().map(|(heir, _)| heir);
        Mixed::new(heir, last, *why, all().chain(heirs))
    });
    // A stranger after the end does no harm. A stranger at the end does, even if it fits the objects before it.
    if let Some(mixed) = mixed.filter(|mixed| mixed.stranger == last.file) {
        return Ok(Err(mixed));
    }
    Ok(Ok(doubts))
}

/// The objects that begin right after `last`, if none of them continues it.
async fn heirs(
    heads: &Heads,
    files: &[Stored],
    last: &Facts,
    holes: &mut BTreeMap<Txid, Lineage>,
) -> Result<Vec<(Facts, Why)>, Error> {
    let mut strangers = Vec::new();
    for file in files.iter().filter(|file| last.file.max.next() == Some(file.min)) {
        let Some(heir) = helper(heads, file).await? else { continue };
        note_hole(heads.vault(), holes, last, &heir).await?;
        match belonging::goes_on(last, &heir, holes.get(&heir.beginning()).copied()) {
            Bond::Stranger(why) => strangers.push((heir, why)),
            Bond::Proved | Bond::Unknown(_) => return Ok(Vec::new()),
        }
    }
    Ok(strangers)
}

/// Looks up which lineage recorded a hole where another lineage begins: right where a log begins, or anywhere before a
/// complete copy, which may be merged from objects after the hole.
pub(crate) async fn note_hole(
    vault: &Vault,
    holes: &mut BTreeMap<Txid, Lineage>,
    before: &Facts,
    next: &Facts,
) -> Result<(), Error> {
    let begins = before.lineage.zip(next.lineage).is_some_and(|(one, other)| one != other);
    let at = next.beginning();
    if !begins || holes.contains_key(&at) {
        return Ok(());
    }
    let found = if next.file.min.0 > 1 {
        holes::at(vault, at).await?.map(|record| record.lineage())
    } else {
        let records = holes::list(vault).await?;
        let between = |to: Txid| to > before.file.max && to <= at;
        let found = records.iter().filter(|record| record.to_txid().is_some_and(between)).map(HoleRecord::lineage);
        found.max_by_key(|lineage| Some(*lineage) == next.lineage)
    };
    holes.extend(found.map(|lineage| (at, lineage)));
    Ok(())
}

/// Compares a complete copy with the objects before it, newest first, until one of them surely belongs to it. Returns
/// the newest of them if none belongs, and some surely don't.
async fn is_rooted(
    heads: &Heads,
    files: &[Stored],
    copy: &Facts,
    elders: &mut Vec<Facts>,
    holes: &mut BTreeMap<Txid, Lineage>,
) -> Result<Option<(Facts, Why)>, Error> {
    if copy.file.min.0 != 1 || copy.lineage.is_none() {
        return Ok(None);
    }
    let mut older: Vec<&Stored> = files.iter().filter(|file| file.max < copy.file.max).collect();
    older.sort_unstable_by_key(|file| (std::cmp::Reverse(file.max), file.level));
    older.dedup_by_key(|file| file.max);
    let mut stranger = None;
    for file in older.into_iter().take(ELDERS) {
        let Some(elder) = helper(heads, file).await? else { continue };
        elders.push(elder);
        note_hole(heads.vault(), holes, &elder, copy).await?;
        match belonging::begins(&elder, copy, holes.get(&copy.beginning()).copied()) {
            Bond::Stranger(why) => stranger = stranger.or(Some((elder, why))),
            Bond::Proved | Bond::Unknown(_) => return Ok(None),
        }
    }
    Ok(stranger)
}

/// Whether an object continues another. Reads the record of a hole where that decides.
pub(crate) async fn bond(vault: &Vault, before: &Facts, next: &Facts) -> Result<Bond, Error> {
    let mut holes = BTreeMap::new();
    note_hole(vault, &mut holes, before, next).await?;
    let hole = holes.get(&next.beginning()).copied();
    Ok(if next.file.min.0 == 1 {
        belonging::begins(before, next, hole)
    } else {
        belonging::goes_on(before, next, hole)
    })
}
