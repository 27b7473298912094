//! When was each set made, if its clock was wrong? Pure.
//!
//! A set has the moment that the clock of its host told. A clock that was ahead would make the set the newest one until that moment comes,
//! and hide each later backup. Three witnesses may contradict a set: the store's time of its link, a set behind it in the chain, which
//! must have been made later, and the clock of this host. Each of them may be wrong itself: a store may boot without a clock, and so may this
//! host. So a moment is wrong only if two of the three say so. Then the set gets the moment that they allow, and keeps its place in the chain.

use std::time::Duration;

use seawall_core::Moment;

/// How far sound clocks differ.
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

/// The sets whose moment can't be, by the numbers of their links, each with the moment that it gets. `links` are in order, and `now` is
/// the clock of this host.
pub(crate) fn corrected(links: &[Written], now: Moment) -> Vec<(u64, Moment)> {
    // A store that tells no time tells the first one.
    let known = |at: Moment| (at > Moment::default() && at <= now.after(USUAL)).then_some(at);
    let (mut wrong, mut behind): (Vec<(usize, Moment)>, Option<Moment>) = (Vec::new(), None);
    for (place, link) in links.iter().enumerate().rev() {
        let Some(point) = link.point else { continue };
        let is_later = |other: Moment| point > other.after(USUAL);
        let witnesses = [known(link.at).is_some_and(is_later), behind.is_some_and(is_later), is_later(now)];
        if witnesses.into_iter().filter(|says_so| *says_so).count() >= 2 {
            let allowed = known(link.at).into_iter().chain(behind).min();
            wrong.push((place, allowed.unwrap_or(now)));
            behind = behind.or(allowed);
        } else {
            behind = Some(behind.map_or(point, |behind| behind.min(point)));
        }
    }
    wrong.reverse();
    let mut next = wrong.into_iter().peekable();
    let (mut before, mut given) = (Moment::default(), Vec::new());
    for (place, link) in links.iter().enumerate() {
        match next.next_if(|(wrong, _)| *wrong == place) {
            Some((_, allowed)) => {
                before = allowed.max(before);
                given.push((link.number, before));
            }
            None => before = link.point.map_or(before, |point| point.max(before)),
        }
    }
    given
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
            (&[(Some(1), 1), (Some(24), 24)], &[]),
            // The clock of the host was ahead for the first, and for the last.
            (&[(Some(9600), 1), (Some(24), 24)], &[(1, 1)]),
            (&[(Some(1), 1), (Some(9600), 24)], &[(2, 24)]),
            // By hours: what is behind it and the store tell.
            (&[(Some(8), 2)], &[]),
            (&[(Some(8), 2), (Some(3), 3)], &[(1, 2)]),
            (&[(Some(8), 2), (None, 3)], &[]),
            // So was the store's clock, because both are those of one machine.
            (&[(Some(9600), 9600), (Some(24), 24)], &[(1, 24)]),
            (&[(Some(9600), 9600)], &[]),
            // A copy of the vault is written later than its sets; of two at once the one that was begun first may be linked last.
            (&[(Some(1), 900), (Some(24), 900)], &[]),
            (&[(Some(2), 3), (Some(1), 3)], &[]),
            // The store's clock is behind, or tells nothing, for one link or for all: the sets' own moments count.
            (&[(Some(24), 23), (Some(48), 47)], &[]),
            (&[(Some(24), 19), (None, 19), (Some(48), 43), (None, 43)], &[]),
            (&[(Some(24), 24), (Some(48), 48), (Some(72), 0), (Some(96), 96)], &[]),
            (&[(Some(24), 24), (Some(48), 48), (Some(72), 1), (Some(96), 96)], &[]),
            (&[(Some(24), 0), (Some(48), 0), (Some(72), 0)], &[]),
            // The clock of this host is behind.
            (&[(Some(2000), 2000), (Some(2024), 2024), (None, 2024)], &[]),
            // So is that of the store, for the last: it keeps its place.
            (&[(Some(990), 990), (Some(2000), 1)], &[(2, 990)]),
        ] {
            let expected: Vec<_> = expected.iter().map(|(number, hours)| (*number, at(*hours))).collect();
            assert_eq!(corrected(&links(all), at(1000)), expected, "{all:?}");
        }
    }
}
