//! Which point does the user mean?

use std::collections::BTreeMap;

use seawall_core::{Moment, When};
use seawall_ltx::Txid;
use seawall_vault::Vault;

use crate::belonging::Doubt;
use crate::doubts;
use crate::doubts::Doubtful;
use crate::error::Error;
use crate::heads::Heads;
use crate::holes::{self, HoleRecord};
use crate::layout::{Layout, Stored};
use crate::moments::in_the_future;
use crate::plan::{NoPlan, latest, plan, stretches};
use crate::survey::list;
use crate::together;

/// How many objects of a doubt are named.
const NAMED: usize = 3;

/// The objects for the requested point, oldest first. They belong together (I14). `now` is the present by this
/// machine's clock.
pub(crate) async fn find(heads: &Heads, when: &When, now: Moment) -> Result<Vec<Stored>, Error> {
    Ok(find_with_doubts(heads, when, now).await?.0)
}

/// Like [`find`], with the doubts about these objects: sentences without a full stop.
pub(crate) async fn find_with_doubts(
    heads: &Heads,
    when: &When,
    now: Moment,
) -> Result<(Vec<Stored>, Vec<String>), Error> {
    let vault = heads.vault();
    let files = list(vault).await?;
    let chain = find_among(heads, &files, when, now).await?;
    let doubts = together::prove(heads, &files, &chain).await?;
    let told = |(doubt, count)| {
        let told = sentence(vault, doubt, count, &doubts);
        // A doubt that applies to every vault of another program or of an older Seawall isn't logged.
        if matches!(doubt, Doubt::Branch | Doubt::Foreign) {
            tracing::debug!("can't be told of {told}");
        } else {
            tracing::warn!(vault = vault.url(), "it can't be told whether these belong together: {told}");
        }
        told
    };
    let told = counted(&doubts).into_iter().map(told).collect();
    Ok((chain, told))
}

/// A doubt about so many objects, with the first of their names.
fn sentence(vault: &Vault, doubt: Doubt, count: usize, doubts: &[(Stored, Doubt)]) -> String {
    let names = doubts.iter().filter(|(_, of)| *of == doubt).take(NAMED);
    let names: Vec<String> = names.map(|(file, _)| file.key(Layout::of(vault)).to_string()).collect();
    let more = if count > NAMED { format!(" and {} more", count - NAMED) } else { String::new() };
    format!("{} ({}{more})", doubt.sentence(&objects(count)), names.join(", "))
}

/// How many objects there are of each doubt.
pub(crate) fn counted(doubts: &[(Stored, Doubt)]) -> BTreeMap<Doubt, usize> {
    let mut counts = BTreeMap::new();
    doubts.iter().for_each(|(_, doubt)| *counts.entry(*doubt).or_default() += 1);
    counts
}

/// A number of objects, for people.
pub(crate) fn objects(count: usize) -> String {
    format!("{count} {}", if count == 1 { "object" } else { "objects" })
}

/// The objects for the requested point, chosen by their names.
async fn find_among(heads: &Heads, files: &[Stored], when: &When, now: Moment) -> Result<Vec<Stored>, Error> {
    let vault = heads.vault();
    let chain = match when {
        When::Latest => latest(files).map_err(|why| unreachable(vault, "the newest state", why))?,
        When::Position(text) => {
            let txid: Txid = text.parse().map_err(|e: seawall_ltx::TextError| {
                refuse(vault, text, e.to_string(), "give a TXID of 16 hex digits")
            })?;
            match files.iter().map(|file| file.max).max() {
                Some(newest) if txid > newest => {
                    let why = format!("the newest point is {newest}");
                    return Err(refuse(vault, text, why, "name a point of `seawall timeline`; `latest` is the newest"));
                }
                Some(_) => Some(plan(files, txid).map_err(|why| unreachable(vault, text, why))?),
                None => None,
            }
        }
        When::Moment(moment) => at_moment(heads, files, *moment, now).await?,
    };
    chain.ok_or_else(|| Error::NothingThere { vault: vault.url().to_owned() })
}

/// The last point at or before a moment, if it is not in a hole.
async fn at_moment(heads: &Heads, files: &[Stored], moment: Moment, now: Moment) -> Result<Option<Vec<Stored>>, Error> {
    let vault = heads.vault();
    if files.is_empty() {
        return Ok(None);
    }
    let stretches = stretches(files);
    let points = stretches.concat();
    // Bisects for the first point after the moment. Moments don't decrease within a vault (docs/formats.md).
    let (mut low, mut high) = (0, points.len());
    let mut exact = None;
    while low < high {
        let middle = low + (high - low) / 2;
        let found = moment_of(heads, files, points[middle]).await?;
        if found <= moment {
            low = middle + 1;
            exact = (found == moment).then_some(points[middle]);
        } else {
            high = middle;
        }
    }
    let text = moment.to_string();
    let Some(point) = low.checked_sub(1).map(|at| points[at]) else {
        let why = match points.first() {
            Some(first) => format!("the oldest point is of {}", moment_of(heads, files, *first).await?),
            None => "there is no complete copy".to_owned(),
        };
        return Err(refuse(vault, &text, why, "see `seawall timeline` for what can be restored"));
    };
    if exact == Some(point) {
        // A point's own moment names it, unless another point has the same moment.
        if let Some(before) = low.checked_sub(2).map(|at| points[at])
            && moment_of(heads, files, before).await? == moment
        {
            check_shared(vault, &text, (moment, now), [before, point], &doubts::list(vault).await?)?;
        }
    } else {
        let was = (point, moment_of(heads, files, point).await?);
        let mut says = None;
        if let Some(next) = points.get(low) {
            check_hole(vault, &holes::list(vault).await?, &text, point, *next)?;
            let next = (*next, moment_of(heads, files, *next).await?);
            check_future(vault, &text, [was, next], now)?;
            says = Some(next);
        }
        check_doubts(vault, moment, was, says, &doubts::list(vault).await?)?;
        // After the last point of a stretch there is nothing, or a gap.
        let ends = stretches.iter().any(|points| points.last() == Some(&point));
        if ends && files.iter().any(|file| file.max > point) {
            return Err(unreachable(vault, &text, NoPlan::Gap { reached: point }));
        }
    }
    plan(files, point).map(Some).map_err(|why| unreachable(vault, &text, why))
}

/// Refuses a moment between a point of the past and a point that claims to be of the future. The latter was captured
/// before the present, but perhaps not before the moment (I17). If both claim the future, this machine's clock is
/// behind.
fn check_future(vault: &Vault, moment: &str, sides: [(Txid, Moment); 2], now: Moment) -> Result<(), Error> {
    let [(before, was), (after, says)] = sides;
    let Some(ahead) = in_the_future(says, now).filter(|_| in_the_future(was, now).is_none()) else { return Ok(()) };
    Err(Error::MomentsInDoubt {
        vault: vault.url().to_owned(),
        target: moment.to_owned(),
        why: format!(
            "the moment of {after}, {says}, is {} s later than this machine's clock, because the clock here or where it was \
             captured was wrong; so what was committed before that moment can't be told",
            ahead.as_secs()
        ),
        next: format!(
            "set the clock right if it is the one of this machine; or name a point: --at {before}, --at {after}, --at latest"
        ),
    })
}

/// Refuses a moment between two points, or after the last one, if a record says that their moments can't be trusted
/// (I17).
fn check_doubts(
    vault: &Vault,
    moment: Moment,
    (before, was): (Txid, Moment),
    next: Option<(Txid, Moment)>,
    doubts: &[(Txid, Doubtful)],
) -> Result<(), Error> {
    let Some(doubtful) = doubts::between(doubts, moment, was, next.map(|(_, says)| says)) else { return Ok(()) };
    let after = next.map_or_else(String::new, |(after, _)| format!("--at {after}, "));
    let next = format!("name a point: --at {before}, {after}--at latest; `seawall timeline` shows them");
    Err(in_doubt(vault, &moment.to_string(), doubtful, next))
}

/// Refuses a moment that several points share because the clock was wrong: it can't be told which was the newest then
/// (I17). Points captured within one millisecond share their moment too.
fn check_shared(
    vault: &Vault,
    text: &str,
    (shared, now): (Moment, Moment),
    [before, point]: [Txid; 2],
    doubts: &[(Txid, Doubtful)],
) -> Result<(), Error> {
    let future = in_the_future(shared, now).map(|_| Doubtful { from: now, until: shared, behind: true });
    let Some(doubtful) = doubts::among(doubts, shared).or(future) else { return Ok(()) };
    let next = format!("{before}, {point} and perhaps others share it; name one: --at {before}, --at {point}");
    Err(in_doubt(vault, text, doubtful, next))
}

fn in_doubt(vault: &Vault, moment: &str, doubtful: Doubtful, next: String) -> Error {
    let (from, until) = (doubtful.from, doubtful.end());
    Error::MomentsInDoubt {
        vault: vault.url().to_owned(),
        target: moment.to_owned(),
        why: format!(
            "the clock of the machine that captured it was wrong: which changes were made between {from} and {until} can't be told"
        ),
        next,
    }
}

/// Refuses a moment between the two sides of a hole (I3).
fn check_hole(vault: &Vault, holes: &[HoleRecord], moment: &str, before: Txid, after: Txid) -> Result<(), Error> {
    match holes.iter().find(|hole| hole.to_txid() == Some(after)) {
        Some(hole) => Err(refuse(
            vault,
            moment,
            format!("it lies in a hole: {}", hole.reason),
            format!(
                "restore the last point before the hole with --at {before}, or the first behind it with --at {after}"
            ),
        )),
        None => Ok(()),
    }
}

/// When the newest change of a point was captured, by the header of an object that ends there.
pub(crate) async fn moment_of(heads: &Heads, files: &[Stored], point: Txid) -> Result<Moment, Error> {
    let file = files.iter().filter(|file| file.max == point).min_by_key(|file| (file.level, file.size));
    let file = file.ok_or_else(|| Error::Internal(format!("no object ends at {point}")))?;
    Ok(Moment::from_millis(heads.header(file).await?.timestamp_ms))
}

fn refuse(vault: &Vault, target: &str, why: String, next: impl Into<String>) -> Error {
    Error::Unreachable { vault: vault.url().to_owned(), target: target.to_owned(), why, next: next.into() }
}

/// Why a target has no chain of objects, and which target to ask for instead.
pub(crate) fn unreachable(vault: &Vault, target: &str, why: NoPlan) -> Error {
    match why {
        NoPlan::NoBase => refuse(
            vault,
            target,
            "there is no complete copy at or before it".to_owned(),
            "see `seawall timeline` for what can be restored",
        ),
        NoPlan::Gap { reached } => refuse(
            vault,
            target,
            format!("objects behind {reached} are missing"),
            format!("restore the last point before the gap with --at {reached}"),
        ),
        NoPlan::NotAPoint { before, after } => refuse(
            vault,
            target,
            "it is inside an object that was compacted".to_owned(),
            format!("restore the point before it with --at {before}, or the one behind it with --at {after}"),
        ),
    }
}
