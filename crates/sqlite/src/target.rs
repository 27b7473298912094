//! Which point does the user mean?

use seawall_core::{Moment, When};
use seawall_ltx::Txid;
use seawall_vault::Vault;

use crate::error::Error;
use crate::holes::{self, HoleRecord};
use crate::layout::Stored;
use crate::plan::{NoPlan, latest, plan, stretches};
use crate::survey::{list, read_header};

/// The objects that restore what was asked for, oldest first.
pub(crate) async fn find(vault: &Vault, when: &When) -> Result<Vec<Stored>, Error> {
    let files = list(vault).await?;
    let chain = match when {
        When::Latest => latest(&files).map_err(|why| unreachable(vault, "the newest state", why))?,
        When::Position(text) => {
            let txid: Txid = text.parse().map_err(|e: seawall_ltx::TextError| {
                refuse(vault, text, e.to_string(), "give a TXID of 16 hex digits")
            })?;
            match files.iter().map(|file| file.max).max() {
                Some(newest) if txid > newest => {
                    let why = format!("the newest point is {newest}");
                    return Err(refuse(vault, text, why, "leave out --at for the newest point"));
                }
                Some(_) => Some(plan(&files, txid).map_err(|why| unreachable(vault, text, why))?),
                None => None,
            }
        }
        When::Moment(moment) => at_moment(vault, &files, *moment).await?,
    };
    chain.ok_or_else(|| Error::NothingThere { vault: vault.url().to_owned() })
}

/// The last point at or before a moment, if it is not in a hole.
async fn at_moment(vault: &Vault, files: &[Stored], moment: Moment) -> Result<Option<Vec<Stored>>, Error> {
    if files.is_empty() {
        return Ok(None);
    }
    let stretches = stretches(files);
    let points = stretches.concat();
    // The first point behind the moment, by bisection: moments don't decrease within a vault (docs/formats.md).
    let (mut low, mut high) = (0, points.len());
    let mut exact = None;
    while low < high {
        let middle = low + (high - low) / 2;
        let found = moment_of(vault, files, points[middle]).await?;
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
            Some(first) => format!("the oldest point is of {}", moment_of(vault, files, *first).await?),
            None => "there is no complete copy".to_owned(),
        };
        return Err(refuse(vault, &text, why, "see `seawall timeline` for what can be restored"));
    };
    if exact != Some(point) {
        if let Some(next) = points.get(low) {
            check_hole(vault, &holes::list(vault).await?, &text, point, *next)?;
        }
        // Behind the last point of a stretch there is either nothing at all, or a gap.
        let ends = stretches.iter().any(|points| points.last() == Some(&point));
        if ends && files.iter().any(|file| file.max > point) {
            return Err(unreachable(vault, &text, NoPlan::Gap { reached: point }));
        }
    }
    plan(files, point).map(Some).map_err(|why| unreachable(vault, &text, why))
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

/// When the newest change of a point was captured: what the header of an object that ends there says.
pub(crate) async fn moment_of(vault: &Vault, files: &[Stored], point: Txid) -> Result<Moment, Error> {
    let file = files.iter().filter(|file| file.max == point).min_by_key(|file| (file.level, file.size));
    let file = file.ok_or_else(|| Error::Internal(format!("no object ends at {point}")))?;
    Ok(Moment::from_millis(read_header(vault, file).await?.timestamp_ms))
}

fn refuse(vault: &Vault, target: &str, why: String, next: impl Into<String>) -> Error {
    Error::Unreachable { vault: vault.url().to_owned(), target: target.to_owned(), why, next: next.into() }
}

/// Why a target has no chain of objects, and what to ask for instead.
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
