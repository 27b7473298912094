//! The timeline of a vault: all points that can be restored, and the holes between them.

use std::collections::{BTreeMap, VecDeque};

use seawall_core::{Hole, LevelSummary, Moment, Note, Point, Span, Timeline};
use seawall_ltx::Txid;
use seawall_vault::Vault;

use crate::doubts;
use crate::error::Error;
use crate::headers::tells_nothing;
use crate::heads::Heads;
use crate::holes::{self, HoleRecord};
use crate::layout::Stored;
use crate::marks;
use crate::moments::in_the_future;
use crate::plan::{cut_at_holes, plan, stretches};
use crate::survey::list;
use crate::target::moment_of;
use crate::{generations, legacy, together};

/// The most ends of stretches that are passed over because their objects can't be read: each costs a request.
const MOST_UNREADABLE: usize = 256;

/// The most objects that can't be read that are named.
const MOST_NAMED: usize = 5;

/// The timeline of a vault: one listing, and the header of one object for each end of a stretch. Points at an end whose object can't
/// be read are left out, each with a doubt: anybody who can write to the vault can put such an object there.
///
/// # Errors
/// When the vault can't be read, or very many objects can't.
pub(crate) async fn timeline(vault: &Vault, now: Moment) -> Result<Timeline, Error> {
    let (files, records, doubts, floor, pins, old) = tokio::try_join!(
        list(vault),
        holes::list(vault),
        doubts::list(vault),
        marks::floor(vault),
        marks::pins(vault),
        async { Ok(legacy::list(vault).await) }
    )?;
    let (old, passed_over) = legacy::or_doubt(old, !files.is_empty())?;
    let ends: Vec<Txid> = records.iter().filter_map(HoleRecord::to_txid).collect();
    let mut spans = Vec::new();
    let (mut mixed, mut unread) = (Vec::new(), Unread::default());
    for points in cut_at_holes(stretches(&files), &ends) {
        let (points, left_out) = shown(vault, &files, points, &mut unread).await?;
        mixed.extend(left_out.map(|(last, why)| (points.last().copied(), last, why)));
        if let (Some(first), Some(last)) = (points.first(), points.last()) {
            let from = point(vault, &files, *first).await?;
            let to = if last == first { from.clone() } else { point(vault, &files, *last).await? };
            spans.push(Span { from, to, points: u64::try_from(points.len()).unwrap_or(u64::MAX) });
        }
    }
    let mut holes = holes_between(&spans, &records, floor);
    for (before, last, reason) in mixed {
        let from = match before {
            Some(before) => Some(point(vault, &files, before).await?),
            None => None,
        };
        holes.push(Hole { from, to: point(vault, &files, last).await?, reason, restored: false });
    }
    let listed_to = holes.iter().filter_map(|hole| hole.to.position.parse().ok()).max();
    let end: Option<Txid> = spans.last().and_then(|span| span.to.position.parse().ok()).max(listed_to);
    if let Some(newest) = files.iter().map(|file| file.max).max().filter(|newest| Some(*newest) > end) {
        let from = spans.last().map(|span| span.to.clone());
        let reason = "objects are missing from the vault: nothing up to this point can be restored".to_owned();
        let to = unread.point(vault, &files, newest).await?;
        holes.extend(to.map(|to| Hole { from, to, reason, restored: false }));
    }
    let mut levels = levels(&files);
    let old = old.objects;
    if !old.is_empty() {
        // Replicas of Litestream before 0.5 come before everything else.
        spans.splice(0..0, generations::spans(&old));
        levels.push(generations::level(&old));
    }
    let notes = spans.iter().filter_map(|span| in_the_future(span.to.moment, now).map(|_| &span.to.position));
    let notes = notes.map(|position| Note {
        position: position.clone(),
        note: "its moment is later than this machine's clock: the clock jumped, here or where it was captured"
            .to_owned(),
    });
    let doubtful = doubts.iter().map(|(point, doubtful)| Note {
        position: point.to_string(),
        note: format!(
            "the clock was wrong: which changes were made between {} and {} can't be told, and `--at` such a moment is refused",
            doubtful.from,
            doubtful.end()
        ),
    });
    let doubts = unread.doubts().into_iter().chain(passed_over).collect();
    let (notes, pins) = (notes.chain(doubtful).collect(), pins.iter().map(Txid::to_string).collect());
    Ok(Timeline { holes, spans, levels, pins, notes, doubts, ..Timeline::default() })
}

/// Points whose moment can't be told, with the reason, which names the object.
#[derive(Default)]
struct Unread(BTreeMap<Txid, String>);

impl Unread {
    /// A point; `None` if the object that ends at it can't be read.
    async fn point(&mut self, vault: &Vault, files: &[Stored], txid: Txid) -> Result<Option<Point>, Error> {
        if self.0.contains_key(&txid) {
            return Ok(None);
        }
        match point(vault, files, txid).await {
            Err(error) if tells_nothing(&error) && self.0.len() < MOST_UNREADABLE => {
                self.0.insert(txid, error.to_string());
                Ok(None)
            }
            read => read.map(Some),
        }
    }

    /// Leaves out the points at both ends that can't be read. Whether there were some.
    async fn trim(&mut self, vault: &Vault, files: &[Stored], points: &mut Vec<Txid>) -> Result<bool, Error> {
        let mut left: VecDeque<Txid> = std::mem::take(points).into();
        let before = left.len();
        while let Some(last) = left.back().copied()
            && self.point(vault, files, last).await?.is_none()
        {
            left.pop_back();
        }
        while let Some(first) = left.front().copied()
            && self.point(vault, files, first).await?.is_none()
        {
            left.pop_front();
        }
        let trimmed = left.len() < before;
        *points = left.into();
        Ok(trimmed)
    }

    fn doubts(self) -> Vec<String> {
        let more = self.0.len().saturating_sub(MOST_NAMED);
        let line = |(point, why): (&Txid, &String)| format!("{point}: this point is left out: {why}");
        let mut doubts: Vec<String> = self.0.iter().rev().take(MOST_NAMED).map(line).collect();
        if more > 0 {
            doubts.push(format!("{more} more points are left out, because their objects can't be read"));
        }
        doubts
    }
}

/// The points of a stretch that are shown, and the last of those that don't belong to them, with the reason. The objects of the first
/// and the last point can be read.
async fn shown(
    vault: &Vault,
    files: &[Stored],
    mut points: Vec<Txid>,
    unread: &mut Unread,
) -> Result<(Vec<Txid>, Option<(Txid, String)>), Error> {
    let mut first_left_out = None;
    unread.trim(vault, files, &mut points).await?;
    loop {
        let (mut believed, left_out) = believed(vault, files, points).await?;
        first_left_out = first_left_out.or(left_out);
        if !unread.trim(vault, files, &mut believed).await? {
            return Ok((believed, first_left_out));
        }
        points = believed;
    }
}

/// The points of a stretch whose objects belong together (I14), and the last of the other points, with the reason.
async fn believed(
    vault: &Vault,
    files: &[Stored],
    mut points: Vec<Txid>,
) -> Result<(Vec<Txid>, Option<(Txid, String)>), Error> {
    let mut left_out = None;
    while let Some(last) = points.last().copied() {
        let Ok(chain) = plan(files, last) else { break };
        let mixed = match together::check(&Heads::of(vault), files, &chain).await {
            Ok(Ok(_)) => break,
            Ok(Err(mixed)) => mixed,
            // A damaged object is reported by the commands that read it.
            Err(error) if tells_nothing(&error) => break,
            Err(error) => return Err(error),
        };
        let cause = together::strangers(vault, &mixed).to_string();
        left_out.get_or_insert((last, cause));
        let at = [mixed.stranger, mixed.other].iter().find_map(|file| chain.iter().position(|of| of == file));
        let before = at.and_then(|at| at.checked_sub(1)).and_then(|at| chain.get(at));
        let whole = |point: &Txid| match (before, chain.first()) {
            (Some(before), _) => *point <= before.max,
            (None, first) => first.is_some_and(|first| *point < first.max),
        };
        points.retain(|point| whole(point) && *point < last);
    }
    Ok((points, left_out))
}

async fn point(vault: &Vault, files: &[Stored], txid: Txid) -> Result<Point, Error> {
    Ok(Point { position: txid.to_string(), moment: moment_of(&Heads::of(vault), files, txid).await? })
}

/// The holes between the stretches: recorded holes, history that retention thinned out up to `floor`, and gaps without
/// a record because objects were removed.
fn holes_between(spans: &[Span], records: &[HoleRecord], floor: Option<Txid>) -> Vec<Hole> {
    let hole = |before: Option<&Span>, after: &Span| -> Option<Hole> {
        let record = records.iter().find(|record| record.to == after.from.position);
        let from = before.map(|span| span.to.clone());
        match (record, before) {
            (Some(record), _) => Some(Hole {
                from: from.or_else(|| record.from.clone()),
                to: after.from.clone(),
                reason: record.reason.clone(),
                restored: record.restored,
            }),
            (None, Some(_)) => {
                let thinned = after.from.position.parse::<Txid>().is_ok_and(|txid| Some(txid) <= floor);
                let reason = if thinned {
                    "the points in between are not kept any longer"
                } else {
                    "objects between these points are missing from the vault"
                };
                Some(Hole { from, to: after.from.clone(), reason: reason.to_owned(), restored: false })
            }
            (None, None) => None,
        }
    };
    let before = std::iter::once(None).chain(spans.iter().map(Some));
    before.zip(spans).filter_map(|(before, after)| hole(before, after)).collect()
}

fn levels(files: &[Stored]) -> Vec<LevelSummary> {
    let mut sums: BTreeMap<u8, (u64, u64)> = BTreeMap::new();
    for file in files {
        let (objects, bytes) = sums.entry(file.level.number()).or_default();
        *objects += 1;
        *bytes += file.size;
    }
    let summary = |(level, (objects, bytes)): (u8, _)| LevelSummary { level: level.to_string(), objects, bytes };
    sums.into_iter().map(summary).collect()
}
