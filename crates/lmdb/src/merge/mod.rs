//! Whose value wins? These rules bring instances that never talk to each other to the same data.
//!
//! The newer version wins. With equal times, the version whose value sorts first wins, so that a deletion beats a
//! value. A deletion also beats a live empty value; Lightning Stream leaves this tie undecided, so that each side keeps
//! its own version until the key changes again. The order of merging doesn't matter: of all versions, the rules choose
//! the least one by a total order.

pub(crate) mod apply;
pub(crate) mod belongs;
pub(crate) mod load;
pub(crate) mod seek;
pub(crate) mod spool;
pub(crate) mod sweep;

use std::cmp::Ordering;

use crate::Stamp;

/// A version of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Version<'a> {
    /// When it was made.
    pub(crate) stamp: Stamp,
    /// The application's value; empty for a deleted key.
    pub(crate) value: &'a [u8],
    /// Whether the key is deleted.
    pub(crate) deleted: bool,
}

impl<'a> Version<'a> {
    /// The value that counts: a deleted key has none, even if its writer left bytes there.
    fn shown(&self) -> &'a [u8] {
        if self.deleted { &[] } else { self.value }
    }
}

/// What to do with an incoming version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The present version stays.
    Keep,
    /// The incoming version replaces the present one, with its own time.
    Take,
}

/// Decides between the present version and the incoming one. A deletion of an unknown key from before `cutoff` is
/// ignored, because it was swept here.
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
            // The tie that Lightning Stream leaves open.
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
        /// Merging in any order leaves the same version.
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
