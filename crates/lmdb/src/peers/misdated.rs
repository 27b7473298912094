//! Which snapshots were made while the clock of their host was ahead? Pure.
//!
//! The newest snapshot of an instance is the one whose name has the latest moment. One that was made while the clock was wrong would stay the
//! newest until that moment comes: each later snapshot of the instance would be taken for an old one, not be restored, and be deleted. So
//! a snapshot of the future doesn't count once its instance has another one, which isn't of the future and which the store got later.
//! An instance whose clock is always ahead has none: its snapshots count as they are. The clocks of the store and of this host may be wrong, too: a
//! snapshot is of the future only by both, and a store's time that this host's clock can't believe says nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use seawall_core::Moment;

/// How far the moment of a name may be ahead of the store's own time of the object.
const SKEW: Duration = Duration::from_secs(24 * 3600);

/// How far the store's time may be ahead of this host's. A later time is of a clock that was wrong.
const AHEAD: Duration = Duration::from_secs(15 * 60);

/// A snapshot of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dated<'a> {
    pub(crate) instance: &'a str,
    /// The moment in its name.
    pub(crate) stamp: Moment,
    /// When the store got it.
    pub(crate) written: Moment,
}

/// The store's time of an object, if this host's clock can believe it. A store that tells no time tells the first one.
fn known(written: Moment, now: Moment) -> Option<Moment> {
    (written > Moment::default() && written <= now.after(AHEAD)).then_some(written)
}

/// Whether a snapshot is of the future: for longer than `span` by this host's clock, and for more than a day by the store's.
pub(crate) fn is_ahead(stamp: Moment, written: Moment, now: Moment, span: Duration) -> bool {
    stamp > now.after(span) && known(written, now).is_some_and(|written| stamp > written.after(SKEW))
}

/// Whether a snapshot may be misdated, judged without the others of its instance.
pub(crate) fn may_be_misdated(stamp: Moment, written: Moment, now: Moment) -> bool {
    is_ahead(stamp, written, now, AHEAD)
}

/// The places of the snapshots that don't count, in order.
pub(crate) fn misdated(all: &[Dated<'_>], now: Moment) -> Vec<usize> {
    let known = |written| known(written, now);
    let is_ahead = |one: &Dated<'_>| may_be_misdated(one.stamp, one.written, now);
    let mut last: BTreeMap<&str, Moment> = BTreeMap::new();
    for one in all.iter().filter(|one| !is_ahead(one)) {
        let Some(written) = known(one.written) else { continue };
        let newest = last.entry(one.instance).or_insert(written);
        *newest = written.max(*newest);
    }
    let is_refuted = |one: &Dated<'_>| {
        let newest = last.get(one.instance);
        newest.is_some_and(|newest| known(one.written).is_some_and(|written| *newest > written))
    };
    (0..all.len()).filter(|at| is_ahead(&all[*at]) && is_refuted(&all[*at])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_of_the_future_counts_until_its_instance_sends_another() {
        let at = |days: i64| Moment::from_millis(days * 86_400_000);
        for (all, expected) in [
            (&[][..], &[][..]),
            (&[("a", 1, 1), ("a", 2, 2)][..], &[]),
            // The clock was ahead once: before another snapshot it is the only one that tells the state of then.
            (&[("a", 1, 1), ("a", 400, 2)], &[]),
            (&[("a", 1, 1), ("a", 400, 2), ("a", 3, 3)], &[1]),
            (&[("a", 400, 2), ("b", 3, 3)], &[]),
            (&[("a", 400, 2), ("a", 401, 3), ("a", 3, 4)], &[0, 1]),
            // It is always ahead.
            (&[("a", 400, 2), ("a", 401, 3)], &[]),
            // So was the store's clock, that of a folder of the same host: as if this host's clock were behind.
            (&[("a", 400, 400), ("a", 3, 3)], &[]),
            (&[("a", 400, 400)], &[]),
            (&[("a", 3, 3), ("a", 20, 20), ("a", 21, 21)], &[]),
            // The store's clock is behind, or tells nothing.
            (&[("a", 3, 3), ("a", 8, 1), ("a", 9, 1)], &[]),
            (&[("a", 3, 3), ("a", 8, 0), ("a", 9, 0)], &[]),
            (&[("a", 3, 3), ("a", 20, 0), ("a", 21, 0)], &[]),
            // A copy of the vault was written later than everything in it, in any order.
            (&[("a", 1, 9), ("a", 2, 8), ("a", 3, 7)], &[]),
        ] {
            let all: Vec<Dated<'_>> = all
                .iter()
                .map(|(instance, stamp, written)| Dated { instance, stamp: at(*stamp), written: at(*written) })
                .collect();
            assert_eq!(misdated(&all, at(10)), expected, "{all:?}");
        }
    }
}
