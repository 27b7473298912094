//! How does a follower get from its point to the newest one?
//!
//! Pure: from a listing and a point to the next objects. Captures, compacted objects and complete copies all serve, so
//! a follower never stalls because level 0 was emptied in the meantime.

use seawall_ltx::Txid;

use crate::layout::Stored;
use crate::plan::{extend, plan, stretches};

/// The ways that a listing offers to a follower.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Bridge {
    /// There is nothing newer.
    Level,
    /// These objects, oldest first. The first of them follows the point, or is a complete copy.
    Objects(Vec<Stored>),
    /// Newer objects exist up to this point, but objects on the way to them are missing.
    Broken(Txid),
    /// The vault ends before the point: it is another vault, or has lost objects. Holds its newest point, if it has
    /// any.
    Behind(Option<Txid>),
}

/// Decides for a follower at the point `at`: the way that leads farthest, and among equal ways the one with fewer
/// bytes.
pub(crate) fn bridge(files: &[Stored], at: Txid) -> Bridge {
    let newest = match files.iter().map(|file| file.max).max() {
        Some(newest) if newest >= at => newest,
        newest => return Bridge::Behind(newest),
    };
    if newest == at {
        return Bridge::Level;
    }
    // A complete copy reaches far, but costs as much as a new restore. It is weighed below.
    let increments: Vec<Stored> = files.iter().filter(|file| file.min.0 > 1).copied().collect();
    let mut steps = Vec::new();
    let stepped = extend(&mut steps, &increments, at, newest);
    let anew = stretches(files).concat().last().copied().filter(|point| *point > at);
    let anew = anew.and_then(|point| Some((point, plan(files, point).ok()?)));
    let bytes = |chain: &[Stored]| chain.iter().map(|file| file.size).fold(0_u64, u64::saturating_add);
    match anew {
        Some((point, chain)) if point > stepped || (point == stepped && bytes(&chain) < bytes(&steps)) => {
            Bridge::Objects(chain)
        }
        _ if stepped > at => Bridge::Objects(steps),
        _ => Bridge::Broken(newest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Level;

    fn file(level: u8, min: u64, max: u64, size: u64) -> Stored {
        let level = Level::all().find(|l| l.number() == level).expect("a level");
        Stored { level, min: Txid(min), max: Txid(max), size }
    }

    fn log(range: std::ops::RangeInclusive<u64>) -> Vec<Stored> {
        range.map(|n| file(0, n, n, 10)).collect()
    }

    #[test]
    fn ways_on() {
        let base = file(9, 1, 1, 1000);
        let objects = |files: &[Stored], at: u64| match bridge(files, Txid(at)) {
            Bridge::Objects(chain) => chain.iter().map(|f| (f.level.number(), f.min.0, f.max.0)).collect::<Vec<_>>(),
            other => unreachable!("{other:?}"),
        };
        let mut files = vec![base];
        files.extend(log(2..=9));
        assert_eq!(objects(&files, 7), [(0, 8, 8), (0, 9, 9)]);
        // Level 0 was emptied; level 1 and 2 lead on, also from their middle.
        let mut files = vec![base, file(1, 2, 5, 20), file(1, 6, 8, 20), file(2, 2, 8, 30)];
        files.extend(log(9..=9));
        assert_eq!(objects(&files, 2), [(2, 2, 8), (0, 9, 9)]);
        assert_eq!(objects(&files, 6), [(2, 2, 8), (0, 9, 9)]);
        // Only a later base leads on.
        let mut files = vec![file(9, 1, 7, 1000)];
        files.extend(log(8..=9));
        assert_eq!(objects(&files, 3), [(9, 1, 7), (0, 8, 8), (0, 9, 9)]);
        // A way that ends at a gap, and a base after it.
        let mut files = log(2..=4);
        files.extend([file(9, 1, 8, 1000)]);
        assert_eq!(objects(&files, 2), [(9, 1, 8)]);
        // As far as it goes.
        let mut files = log(2..=4);
        files.extend(log(6..=6));
        assert_eq!(objects(&files, 2), [(0, 3, 3), (0, 4, 4)]);
        // A long way with more bytes than a new restore.
        let mut files = log(2..=2000);
        files.push(file(9, 1, 1990, 1000));
        assert_eq!(objects(&files, 2)[0], (9, 1, 1990));
        assert_eq!(objects(&files, 1985)[0], (0, 1986, 1986));
    }

    #[test]
    fn no_way_on() {
        assert_eq!(bridge(&[], Txid(3)), Bridge::Behind(None));
        assert_eq!(bridge(&log(1..=2), Txid(3)), Bridge::Behind(Some(Txid(2))));
        assert_eq!(bridge(&log(1..=3), Txid(3)), Bridge::Level);
        assert_eq!(bridge(&log(5..=6), Txid(3)), Bridge::Broken(Txid(6)));
    }

    /// For any listing, a way leads past the point and begins where it may.
    #[test]
    fn every_way_leads_on() {
        let pool = [
            file(9, 1, 1, 9),
            file(9, 1, 3, 9),
            file(0, 2, 2, 1),
            file(0, 3, 3, 1),
            file(1, 2, 4, 2),
            file(0, 5, 5, 1),
            file(2, 4, 6, 2),
        ];
        for mask in 0..1_u32 << pool.len() {
            let files: Vec<Stored> = (0..pool.len()).filter(|i| mask >> i & 1 == 1).map(|i| pool[i]).collect();
            for at in 1..=6 {
                let Bridge::Objects(chain) = bridge(&files, Txid(at)) else { continue };
                let mut reached = if chain[0].min.0 == 1 { 0 } else { at };
                for file in &chain {
                    assert!(file.min.0 <= reached + 1 && file.max.0 > reached, "{chain:?} from {at}");
                    reached = file.max.0;
                }
                assert!(reached > at, "{chain:?} from {at}");
            }
        }
    }
}
