//! Which objects restore this point?
//!
//! Pure: from a listing and a target to the chain of objects, oldest first, or to the reason why there is none.

use std::collections::BTreeMap;

use seawall_ltx::Txid;

use crate::layout::Stored;

/// Why a point can't be restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoPlan {
    /// There is no complete copy at or before the target.
    NoBase,
    /// The chain from the newest complete copy ends at `reached`; the next object begins after a gap.
    Gap { reached: Txid },
    /// No chain ends exactly at the target; the nearest points on both sides.
    NotAPoint { before: Txid, after: Txid },
}

/// The objects that restore exactly `target`, oldest first.
///
/// The plan starts with the newest complete copy. Each step then takes the object that reaches farthest; among equals
/// the object of the highest level, which retention keeps longest. This gives the fewest objects: an object that
/// reaches past a gap from an older copy also reaches past it from a newer one. One sort and one sweep, for any number
/// of objects.
pub(crate) fn plan(files: &[Stored], target: Txid) -> Result<Vec<Stored>, NoPlan> {
    let base = files
        .iter()
        .filter(|file| file.min.0 == 1 && file.max <= target)
        .max_by_key(|file| (file.max, file.level))
        .ok_or(NoPlan::NoBase)?;
    let mut chain = vec![*base];
    let reached = extend(&mut chain, files, base.max, target);
    if reached < target {
        let swallowed = files.iter().filter(|file| file.min <= target && file.max > target);
        return Err(match swallowed.map(|file| file.max).min() {
            Some(after) => NoPlan::NotAPoint { before: reached, after },
            None => NoPlan::Gap { reached },
        });
    }
    Ok(chain)
}

/// Adds to a chain that has reached `from` the objects that take it as far as they go, at most to `target`; gives the
/// point that is reached then.
pub(crate) fn extend(chain: &mut Vec<Stored>, files: &[Stored], from: Txid, target: Txid) -> Txid {
    let mut rest: Vec<&Stored> = files.iter().filter(|file| file.max > from && file.max <= target).collect();
    rest.sort_unstable_by_key(|file| file.min);
    let mut rest = rest.into_iter().peekable();
    let mut reached = from;
    let mut best: Option<&Stored> = None;
    while reached < target {
        while let Some(file) = rest.next_if(|file| file.min.0 <= reached.0.saturating_add(1)) {
            best =
                best.into_iter().chain([file]).max_by_key(|file| (file.max, file.level, std::cmp::Reverse(file.size)));
        }
        let Some(next) = best.filter(|file| file.max > reached) else { break };
        chain.push(*next);
        reached = next.max;
    }
    reached
}

/// The chain to the newest point. `Ok(None)` for an empty vault. A gap before the newest object is an error, because
/// then the newest state isn't "latest".
pub(crate) fn latest(files: &[Stored]) -> Result<Option<Vec<Stored>>, NoPlan> {
    match files.iter().map(|file| file.max).max() {
        None => Ok(None),
        Some(newest) => plan(files, newest).map(Some),
    }
}

/// Stretches of points that can be restored, oldest first; each is ascending and never empty.
///
/// In the order of their ends, an object is a point if it is complete, or if the newest point before it reaches its
/// beginning. Only in the second case does it continue a stretch.
pub(crate) fn stretches(files: &[Stored]) -> Vec<Vec<Txid>> {
    let mut ends: BTreeMap<Txid, (bool, Txid)> = BTreeMap::new();
    for file in files {
        let (complete, reach) = ends.entry(file.max).or_insert((false, Txid(u64::MAX)));
        if file.min.0 == 1 {
            *complete = true;
        } else {
            *reach = (*reach).min(file.min);
        }
    }
    let mut found: Vec<Vec<Txid>> = Vec::new();
    for (end, (complete, reach)) in ends {
        match found.last_mut() {
            Some(points) if points.last().is_some_and(|last| last.0.saturating_add(1) >= reach.0) => points.push(end),
            _ if complete => found.push(vec![end]),
            _ => {}
        }
    }
    found
}

/// Stretches cut where a recorded hole ends: the base that ends it begins a stretch of its own.
pub(crate) fn cut_at_holes(stretches: Vec<Vec<Txid>>, hole_ends: &[Txid]) -> Vec<Vec<Txid>> {
    let mut cut = Vec::new();
    for mut points in stretches {
        for end in hole_ends {
            if let Some(at) = points.iter().position(|point| point == end).filter(|at| *at > 0) {
                let behind = points.split_off(at);
                cut.push(std::mem::replace(&mut points, behind));
            }
        }
        cut.push(points);
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Level;

    fn file(level: u8, min: u64, max: u64) -> Stored {
        let level = Level::all().find(|l| l.number() == level).expect("a level");
        Stored { level, min: Txid(min), max: Txid(max), size: max - min + 1 }
    }

    fn chain(files: &[Stored], target: u64) -> Result<Vec<(u8, u64, u64)>, NoPlan> {
        plan(files, Txid(target)).map(|chain| chain.iter().map(|f| (f.level.number(), f.min.0, f.max.0)).collect())
    }

    #[test]
    fn chains() {
        let log: Vec<Stored> = (2..=9).map(|n| file(0, n, n)).collect();
        let mut files = vec![file(9, 1, 1)];
        files.extend(&log);
        assert_eq!(chain(&files, 1), Ok(vec![(9, 1, 1)]));
        assert_eq!(chain(&files, 3), Ok(vec![(9, 1, 1), (0, 2, 2), (0, 3, 3)]));
        files.extend([file(1, 2, 5), file(1, 6, 8), file(2, 2, 8)]);
        assert_eq!(chain(&files, 9), Ok(vec![(9, 1, 1), (2, 2, 8), (0, 9, 9)]));
        assert_eq!(chain(&files, 6), Ok(vec![(9, 1, 1), (1, 2, 5), (0, 6, 6)]));
        files.push(file(9, 1, 7));
        assert_eq!(chain(&files, 9), Ok(vec![(9, 1, 7), (2, 2, 8), (0, 9, 9)]));
        assert_eq!(chain(&files, 6), Ok(vec![(9, 1, 1), (1, 2, 5), (0, 6, 6)]));
    }

    #[test]
    fn no_chain() {
        assert_eq!(chain(&[], 1), Err(NoPlan::NoBase));
        assert_eq!(chain(&[file(9, 1, 4)], 3), Err(NoPlan::NoBase));
        assert_eq!(chain(&[file(0, 3, 3)], 3), Err(NoPlan::NoBase));
        let gap = [file(9, 1, 4), file(0, 6, 6)];
        assert_eq!(chain(&gap, 6), Err(NoPlan::Gap { reached: Txid(4) }));
        assert_eq!(chain(&gap, 5), Err(NoPlan::Gap { reached: Txid(4) }));
        let swallowed = [file(9, 1, 4), file(1, 5, 8)];
        assert_eq!(chain(&swallowed, 6), Err(NoPlan::NotAPoint { before: Txid(4), after: Txid(8) }));
        assert_eq!(latest(&gap), Err(NoPlan::Gap { reached: Txid(4) }));
        assert_eq!(latest(&[]), Ok(None));
    }

    #[test]
    fn what_can_be_restored() {
        let all = |files: &[Stored]| -> Vec<(u64, u64, u64)> {
            stretches(files).iter().map(|s| (s[0].0, s[s.len() - 1].0, s.len() as u64)).collect()
        };
        assert_eq!(all(&[]), []);
        assert_eq!(all(&[file(0, 2, 2)]), []);
        assert_eq!(all(&[file(9, 1, 1), file(0, 2, 2), file(0, 3, 3)]), [(1, 3, 3)]);
        assert_eq!(all(&[file(9, 1, 1), file(0, 3, 3), file(9, 1, 5), file(0, 6, 6)]), [(1, 1, 1), (5, 6, 2)]);
        assert_eq!(all(&[file(9, 1, 1), file(1, 2, 5), file(0, 4, 4), file(0, 5, 5), file(9, 1, 5)]), [(1, 5, 2)]);
        assert_eq!(all(&[file(9, 1, 3), file(1, 2, 5), file(0, 6, 6)]), [(3, 6, 3)]);
    }

    #[test]
    fn holes_cut_stretches() {
        let points = |range: std::ops::RangeInclusive<u64>| range.map(Txid).collect::<Vec<_>>();
        let all = vec![points(1..=6), points(9..=10)];
        assert_eq!(cut_at_holes(all.clone(), &[]), all);
        assert_eq!(cut_at_holes(all.clone(), &[Txid(1), Txid(7), Txid(9)]), all);
        let cut = vec![points(1..=2), points(3..=3), points(4..=6), points(9..=9), points(10..=10)];
        assert_eq!(cut_at_holes(all, &[Txid(3), Txid(4), Txid(10)]), cut);
    }

    /// Every point of every stretch has a plan, and no other TXID has one. Tried on all small listings.
    #[test]
    fn stretches_and_plans_agree() {
        let pool =
            [file(9, 1, 1), file(9, 1, 3), file(0, 2, 2), file(0, 3, 3), file(1, 2, 4), file(0, 5, 5), file(2, 4, 6)];
        for mask in 0..1_u32 << pool.len() {
            let files: Vec<Stored> = (0..pool.len()).filter(|i| mask >> i & 1 == 1).map(|i| pool[i]).collect();
            let planned = (1..=6).filter(|n| plan(&files, Txid(*n)).is_ok()).count() as u64;
            assert_eq!(stretches(&files).iter().map(|s| s.len() as u64).sum::<u64>(), planned, "{files:?}");
        }
    }
}
