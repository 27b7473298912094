//! What a store was found to do with conditions, and what isn't offered where it lacks something. Decided from facts alone.

use seawall_core::Limit;

use crate::Abilities;

/// The findings of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// A create-only write of a new object is taken.
    pub create: bool,
    /// A create-only write over an object is refused, also if two writers meet.
    pub rejects_create: bool,
    /// A compare-and-swap with the present version is taken.
    pub update: bool,
    /// A compare-and-swap with an old version is refused, also if two writers meet.
    pub rejects_stale_update: bool,
}

impl Capabilities {
    /// What a backend promises that needs no probe.
    pub(crate) fn promised(Abilities { create, update, .. }: Abilities) -> Self {
        Self { create, rejects_create: create, update, rejects_stale_update: update }
    }

    /// What two places can that hold the same objects.
    #[must_use]
    pub(crate) fn both(self, other: Self) -> Self {
        Self {
            create: self.create && other.create,
            rejects_create: self.rejects_create && other.rejects_create,
            update: self.update && other.update,
            rejects_stale_update: self.rejects_stale_update && other.rejects_stale_update,
        }
    }

    /// Whether the store itself refuses a second writer. If not, [`crate::Vault::create`] looks before it writes, and
    /// doesn't notice two writers in the same moment.
    pub fn exclusive_create(&self) -> bool {
        self.create && self.rejects_create
    }

    /// Whether compare-and-swap can be trusted.
    pub fn exclusive_update(&self) -> bool {
        self.update && self.rejects_stale_update
    }

    /// Why compare-and-swap can't be trusted; `None` if it can.
    pub fn lack_of_update(&self) -> Option<&'static str> {
        match (self.update, self.rejects_stale_update) {
            (true, true) => None,
            (false, _) => Some(
                "it has no compare-and-swap (If-Match): it doesn't replace an object under the condition that it is the \
                 expected version",
            ),
            (true, false) => Some(
                "its compare-and-swap (If-Match) can't be trusted: it replaces an object although the expected version \
                 is an old one",
            ),
        }
    }
}

/// The missing abilities of a place, by the promises of its backend and the findings of a probe, if there was one.
pub(crate) fn limits(abilities: Abilities, found: Option<Capabilities>) -> Vec<Limit> {
    let create = abilities.create && found.is_none_or(|found| found.exclusive_create());
    let update = abilities.update && found.is_none_or(|found| found.exclusive_update());
    [
        (
            create,
            "create-only",
            "two writers in the same moment aren't caught: let only one process write to this place",
        ),
        (update, "compare-and-swap", "no leases: a database with `lease` isn't protected here"),
        (
            abilities.stamps,
            "stamps",
            "objects keep no time of their commit: a tool that goes by the times of objects, such as Litestream, sees \
             the time of their upload",
        ),
    ]
    .into_iter()
    .filter(|(able, ..)| !able)
    .map(|(_, lacks, effect)| Limit { lacks: lacks.to_owned(), effect: effect.to_owned() })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Abilities = Abilities { create: true, update: true, stamps: true, ..Abilities::LEAST };

    fn found(bits: [bool; 4]) -> Capabilities {
        let [create, rejects_create, update, rejects_stale_update] = bits;
        Capabilities { create, rejects_create, update, rejects_stale_update }
    }

    #[test]
    fn what_is_missing() {
        let (yes, no) = (true, false);
        for (abilities, probed, expected) in [
            (ALL, None, &[][..]),
            (ALL, Some([yes, yes, yes, yes]), &[]),
            // A server that ignores conditions takes every write.
            (ALL, Some([yes, no, yes, no]), &["create-only", "compare-and-swap"]),
            (ALL, Some([no, yes, yes, yes]), &["create-only"]),
            (ALL, Some([yes, yes, no, yes]), &["compare-and-swap"]),
            (Abilities { stamps: no, ..ALL }, Some([yes; 4]), &["stamps"]),
            // What the backend doesn't promise, no probe of one writer can find.
            (Abilities { update: no, ..ALL }, Some([yes; 4]), &["compare-and-swap"]),
            (Abilities::LEAST, None, &["create-only", "compare-and-swap", "stamps"]),
        ] {
            let limits = limits(abilities, probed.map(found));
            let lacks: Vec<&str> = limits.iter().map(|limit| limit.lacks.as_str()).collect();
            assert_eq!(lacks, expected, "{abilities:?} {probed:?}");
            assert!(limits.iter().all(|limit| !limit.effect.is_empty()));
        }
    }

    #[test]
    fn a_missing_compare_and_swap_is_named() {
        for (bits, named) in [
            ([true; 4], None),
            ([true, true, false, true], Some("has no compare-and-swap")),
            ([true, true, false, false], Some("has no compare-and-swap")),
            ([true, true, true, false], Some("can't be trusted")),
        ] {
            let lack = found(bits).lack_of_update();
            assert_eq!(lack.is_some(), named.is_some());
            assert!(named.is_none_or(|named| lack.is_some_and(|lack| lack.contains(named))), "{lack:?}");
            assert_eq!(found(bits).exclusive_update(), lack.is_none());
        }
    }

    #[test]
    fn two_places_can_what_each_of_them_can() {
        let (one, other) = (found([true, true, true, false]), found([true, false, true, true]));
        assert_eq!(one.both(other), found([true, false, true, false]));
        assert_eq!(one.both(other), other.both(one));
        assert_eq!(Capabilities::promised(ALL), found([true; 4]));
        assert_eq!(Capabilities::promised(Abilities::LEAST), found([false; 4]));
    }
}
