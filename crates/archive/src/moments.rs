//! When was each set made, if its clock was wrong? Pure.
//!
//! A set has the moment that the clock of its host told. A clock that was ahead would make the set the newest one until that moment comes,
//! and hide each later backup. Links are written one after the other, and the store notes when it wrote each of them. So a set isn't later
//! than a link behind its own was written, nor a day later than its own link. One that says so gets the moment of the store's clock.

use std::time::Duration;

use seawall_core::Moment;

/// How far the clocks of a host and of a store differ that nobody looks after.
const SKEW: Duration = Duration::from_secs(24 * 3600);

/// How far they differ otherwise.
const USUAL: Duration = Duration::from_secs(15 * 60);

/// A link of the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Written {
    /// Its number.
    pub(crate) number: u64,
    /// The moment of its set; `None` if it is the link of no set, or can't be read.
    pub(crate) point: Option<Moment>,
    /// When the store wrote it.
    pub(crate) at: Moment,
}

/// The sets whose moment can't be, by the numbers of their links, each with the moment that it gets. `links` are in order.
pub(crate) fn corrected(links: &[Written]) -> Vec<(u64, Moment)> {
    let (mut wrong, mut behind): (Vec<(u64, Moment)>, Option<Moment>) = (Vec::new(), None);
    for link in links.iter().rev() {
        let own = link.at.after(SKEW);
        let latest = behind.map_or(own, |behind| own.min(behind.after(USUAL)));
        let written = behind.map_or(link.at, |behind| link.at.min(behind));
        if link.point.is_some_and(|point| point > latest) {
            wrong.push((link.number, written));
        }
        behind = Some(written);
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_not_later_than_what_was_written_behind_it() {
        let at = |hours: i64| Moment::from_millis(hours * 3_600_000);
        let links = |all: &[(Option<i64>, i64)]| -> Vec<Written> {
            let link = |(number, (point, written)): (u64, &(Option<i64>, i64))| Written {
                number,
                point: point.map(at),
                at: at(*written),
            };
            (1..).zip(all).map(link).collect()
        };
        for (all, expected) in [
            (&[][..], &[][..]),
            (&[(Some(0), 0), (Some(24), 24)][..], &[]),
            // The clock of the host was ahead for the first, and for the last.
            (&[(Some(9600), 0), (Some(24), 24)], &[(1, 0)]),
            (&[(Some(0), 0), (Some(9600), 24)], &[(2, 24)]),
            // By hours: only what is behind it tells.
            (&[(Some(8), 0)], &[]),
            (&[(Some(8), 0), (Some(1), 1)], &[(1, 0)]),
            (&[(Some(8), 0), (None, 1)], &[(1, 0)]),
            // So was the store's clock, because both are those of one machine.
            (&[(Some(9600), 9600), (Some(24), 24)], &[(1, 24)]),
            (&[(Some(9600), 9600)], &[]),
            // A copy of the vault is written later than its sets; of two at once the one that was begun first may be linked last.
            (&[(Some(0), 900), (Some(24), 900)], &[]),
            (&[(Some(2), 3), (Some(1), 3)], &[]),
            // The store's clock is behind, for less than the time between two backups.
            (&[(Some(24), 23), (Some(48), 47)], &[]),
        ] {
            let expected: Vec<_> = expected.iter().map(|(number, hours)| (*number, at(*hours))).collect();
            assert_eq!(corrected(&links(all)), expected, "{all:?}");
        }
    }
}
