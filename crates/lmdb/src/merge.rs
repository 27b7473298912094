//! Whose value wins: the rules by which instances that never talk to each other come to the same data.
//!
//! The newer one. With equal times the one whose value sorts first, so that a deletion beats a value; and a deletion
//! also beats a live empty value, which Lightning Stream leaves undecided (there each side keeps its own until the key
//! changes again). The order of merging doesn't matter: the rules choose the least of all versions by one order.

use std::cmp::Ordering;

use crate::Stamp;

/// A version of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Version<'a> {
    /// When it was made.
    pub(crate) stamp: Stamp,
    /// The application's value; of a deleted key empty.
    pub(crate) value: &'a [u8],
    /// Whether it says that the key is deleted.
    pub(crate) deleted: bool,
}

impl<'a> Version<'a> {
    /// The value that counts: a deleted key has none, whatever its writer left there.
    fn shown(&self) -> &'a [u8] {
        if self.deleted { &[] } else { self.value }
    }
}

/// What to do with a version that comes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// What is there stays.
    Keep,
    /// It takes the place of what is there, with its own time.
    Take,
}

/// Decides between what is there and what comes in. Deletions of unknown keys from before `cutoff` don't come back:
/// they were swept.
pub(crate) fn decide(old: Option<&Version<'_>>, new: &Version<'_>, cutoff: Stamp) -> Verdict {
    let Some(old) = old else {
        return if new.deleted && new.stamp < cutoff { Verdict::Keep } else { Verdict::Take };
    };
    if new.stamp != old.stamp {
        return if new.stamp > old.stamp { Verdict::Take } else { Verdict::Keep };
    }
    match new.shown().cmp(old.shown()) {
        Ordering::Less => Verdict::Take,
        Ordering::Equal if new.deleted && !old.deleted => Verdict::Take,
        _ => Verdict::Keep,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn live(stamp: u64, value: &[u8]) -> Version<'_> {
        Version { stamp: Stamp(stamp), value, deleted: false }
    }

    fn gone(stamp: u64) -> Version<'static> {
        Version { stamp: Stamp(stamp), value: b"", deleted: true }
    }

    #[test]
    fn whose_value_wins() {
        use Verdict::{Keep, Take};
        for (old, new, verdict) in [
            (None, live(5, b"x"), Take),
            (None, live(0, b"x"), Take),
            (None, gone(9), Keep),
            (None, gone(10), Take),
            (Some(live(5, b"x")), live(6, b"y"), Take),
            (Some(live(5, b"x")), live(4, b"a"), Keep),
            (Some(live(5, b"x")), live(5, b"a"), Take),
            (Some(live(5, b"x")), live(5, b"x"), Keep),
            (Some(live(5, b"x")), live(5, b"y"), Keep),
            (Some(live(5, b"x")), live(6, b"x"), Take),
            (Some(live(5, b"x")), gone(5), Take),
            (Some(live(5, b"x")), gone(6), Take),
            (Some(live(5, b"x")), gone(4), Keep),
            (Some(gone(5)), live(5, b"x"), Keep),
            (Some(gone(5)), live(6, b""), Take),
            (Some(gone(5)), gone(6), Take),
            (Some(gone(5)), gone(5), Keep),
            // The tie that the original leaves open.
            (Some(live(5, b"")), gone(5), Take),
            (Some(gone(5)), live(5, b""), Keep),
            // Without a time: equal to itself, older than anything, and by value among its like.
            (Some(live(0, b"x")), live(0, b"x"), Keep),
            (Some(live(0, b"x")), live(0, b"a"), Take),
            (Some(live(7, b"x")), live(0, b"a"), Keep),
        ] {
            assert_eq!(decide(old.as_ref(), &new, Stamp(10)), verdict, "{old:?} <- {new:?}");
        }
    }

    proptest! {
        /// Whatever the order in which versions come in, the same one is left.
        #[test]
        fn the_order_of_merging_does_not_matter(
            versions in proptest::collection::vec((0_u64..3, "[ab]{0,2}", any::<bool>()), 1..6),
            seed: u64,
        ) {
            let text: Vec<_> = versions.iter().map(|(s, v, d)| (*s, v.as_bytes(), *d)).collect();
            let all: Vec<_> = text.iter().map(|(s, v, d)| if *d { gone(*s) } else { live(*s, v) }).collect();
            let merge = |order: &[usize]| {
                let mut kept = None;
                for at in order {
                    if decide(kept.as_ref(), &all[*at], Stamp(0)) == Verdict::Take {
                        kept = Some(all[*at]);
                    }
                }
                kept
            };
            let mut order: Vec<usize> = (0..all.len()).collect();
            let first = merge(&order);
            fastrand::Rng::with_seed(seed).shuffle(&mut order);
            prop_assert_eq!(merge(&order), first);
        }
    }
}
