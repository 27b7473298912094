//! Which set holds the state at a moment, and may a link that can't be read hide a better one? Pure.
//!
//! A damaged link may be that of a set, and nothing else says so. Links are numbered in the order in which sets were written, so
//! that the set of such a link comes between its neighbours. A state that it may hold is refused, instead of an older one given.

use seawall_core::{Moment, When};

/// A set, as far as it decides: the number of its link, its moment, and its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) number: u64,
    pub(crate) point: Moment,
    pub(crate) id: String,
}

/// What there is at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Held {
    /// The set at this place of the list.
    Set(usize),
    /// The link of this number can't be read, and its set may be the one. The last readable set before it, if any.
    Hidden(u64, Option<usize>),
    /// No set is it.
    None,
}

/// What of `sets`, oldest first, holds the state at `when`, where the links `hidden` can't be read or are missing.
pub(crate) fn find(sets: &[Known], hidden: &[u64], when: &When) -> Held {
    let place = match when {
        When::Latest => sets.len().checked_sub(1),
        When::Moment(moment) => sets.iter().rposition(|set| set.point <= *moment),
        When::Position(id) => sets.iter().position(|set| set.id == *id),
    };
    let (after, before) = match (when, place) {
        // It has been named, and so has its moment: what is hidden is later.
        (When::Position(_), Some(place)) => return Held::Set(place),
        (When::Moment(moment), Some(place)) if sets[place].point == *moment => return Held::Set(place),
        (When::Position(_), None) => (0, u64::MAX),
        (When::Latest, place) => (place.map_or(0, |place| sets[place].number), u64::MAX),
        (When::Moment(_), place) => {
            let next = sets.get(place.map_or(0, |place| place + 1));
            (place.map_or(0, |place| sets[place].number), next.map_or(u64::MAX, |next| next.number))
        }
    };
    match hidden.iter().rev().find(|number| (after + 1..before).contains(number)) {
        Some(number) => Held::Hidden(*number, sets.iter().rposition(|set| set.number < *number)),
        None => place.map_or(Held::None, Held::Set),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> When {
        When::Moment(Moment::from_millis(seconds * 1000))
    }

    fn id(id: &str) -> When {
        When::Position(id.to_owned())
    }

    #[test]
    fn a_link_that_cannot_be_read_hides_what_may_be_its_own_and_nothing_else() {
        // Links 1, 2 and 4 are sets of seconds 10, 20 and 40.
        let known = |number: u64| Known {
            number,
            point: Moment::from_millis(i64::try_from(number).expect("small") * 10_000),
            id: number.to_string(),
        };
        let three = [known(1), known(2), known(4)];
        for (sets, hidden, when, held) in [
            (&three[..], &[][..], When::Latest, Held::Set(2)),
            (&three, &[], at(39), Held::Set(1)),
            (&three, &[], at(9), Held::None),
            (&three, &[], id("3"), Held::None),
            (&[], &[], When::Latest, Held::None),
            // The newest link is damaged.
            (&three, &[5], When::Latest, Held::Hidden(5, Some(2))),
            (&three, &[5], at(41), Held::Hidden(5, Some(2))),
            (&three, &[5], at(40), Held::Set(2)),
            (&three, &[5], at(39), Held::Set(1)),
            (&three, &[5], id("4"), Held::Set(2)),
            (&three, &[5], id("5"), Held::Hidden(5, Some(2))),
            // One in the middle.
            (&three, &[3], When::Latest, Held::Set(2)),
            (&three, &[3], at(50), Held::Set(2)),
            (&three, &[3], at(39), Held::Hidden(3, Some(1))),
            (&three, &[3], at(20), Held::Set(1)),
            (&three, &[3], at(19), Held::Set(0)),
            // The first, and the only one.
            (&three[1..], &[1], at(15), Held::Hidden(1, None)),
            (&three[1..], &[1], When::Latest, Held::Set(1)),
            (&[], &[1], When::Latest, Held::Hidden(1, None)),
            (&[], &[1], at(15), Held::Hidden(1, None)),
            // Several: the newest is told.
            (&three, &[5, 6], When::Latest, Held::Hidden(6, Some(2))),
        ] {
            assert_eq!(find(sets, hidden, &when), held, "{sets:?} without {hidden:?} at {when:?}");
        }
    }
}
