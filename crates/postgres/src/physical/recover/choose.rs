//! Which base is a moment restored from, along which timeline, and what forbids it? Pure.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use seawall_archive::SetId;
use seawall_archive::log::Lsn;
use seawall_core::Moment;

/// What is to be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// All that the log has.
    Latest,
    /// The last commit at or before a moment.
    Moment(Moment),
    /// A position in the log.
    Lsn(Lsn),
    /// The commit of a transaction, by its number with or without its epoch.
    Xid(u64),
    /// A restore point, by the name that `pg_create_restore_point` gave it.
    Name(String),
    /// The end of a base.
    Base(SetId),
}

impl Target {
    /// Reads `lsn:0/2000028`, `xid:745` or `name:before-the-change`.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let target = match text.split_once(':') {
            Some(("lsn", lsn)) => lsn.parse().ok().map(Self::Lsn),
            Some(("xid", xid)) => xid.parse().ok().filter(|xid| *xid > 2).map(Self::Xid),
            Some(("name", name)) => is_name(name).then(|| Self::Name(name.to_owned())),
            _ => None,
        };
        target.ok_or_else(|| format!("\"{text}\" is no target: give lsn:16/B374D848, xid:745 or name:RESTORE-POINT"))
    }
}

/// Whether a restore point may be called so: PostgreSQL cuts longer names.
fn is_name(name: &str) -> bool {
    (1..64).contains(&name.len()) && !name.chars().any(char::is_control)
}

/// A base, and how far the log brings it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) id: SetId,
    /// When its copy had ended.
    pub(crate) ended: Moment,
    /// The end of what recovery must read before the files agree with each other.
    pub(crate) stop: Lsn,
    /// The next transaction at its end.
    pub(crate) next_xid: u64,
    /// How far its log goes without a hole along each timeline that goes on from it, the newest first; empty if the log isn't
    /// there at all.
    pub(crate) reaches: Vec<Reach>,
}

impl Candidate {
    /// The ways that bring it to its end at least.
    fn ways(&self) -> impl Iterator<Item = Choice> {
        self.reaches.iter().filter(|reach| reach.lsn >= self.stop).map(|reach| Choice { id: self.id, reach: *reach })
    }
}

/// How far a log goes from a base on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reach {
    /// The timeline to follow.
    pub(crate) timeline: u32,
    /// The position behind its last byte before a hole or the end.
    pub(crate) lsn: Lsn,
    /// When the last object before that was written, by the store's clock.
    pub(crate) until: Moment,
    /// Whether nothing of the timeline is known behind that: it ends there, and no hole begins.
    pub(crate) is_end: bool,
}

/// The base and the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) id: SetId,
    pub(crate) reach: Reach,
}

/// Why nothing can be restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refused {
    /// There is no base.
    NoBase,
    /// There is no such base.
    NoSuchBase(SetId),
    /// The moment is still to come.
    Future,
    /// It is before the end of the oldest base.
    BeforeFirst(Candidate),
    /// The log of the base that it would be restored from isn't there up to it.
    Hole(Candidate),
}

/// What is known of timelines that come from others.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Lines {
    /// When each began.
    pub(crate) begun: BTreeMap<u32, Moment>,
    /// Where each left those that it came from, by both.
    pub(crate) left: BTreeMap<(u32, u32), Lsn>,
}

/// Chooses among bases, oldest first: the base and the way that are the best for the target. For a moment several may be, the best
/// first, and only the log says which of them reaches it.
pub(crate) fn choose(bases: &[Candidate], target: &Target, now: Moment, lines: &Lines) -> Result<Vec<Choice>, Refused> {
    let Some(oldest) = bases.first() else { return Err(Refused::NoBase) };
    if matches!(target, Target::Moment(moment) if *moment > now) {
        return Err(Refused::Future);
    }
    if let Target::Base(id) = target
        && bases.iter().all(|base| base.id != *id)
    {
        return Err(Refused::NoSuchBase(*id));
    }
    let comes_before = |base: &&Candidate| match target {
        Target::Latest | Target::Name(_) => true,
        Target::Moment(moment) => base.ended <= *moment,
        Target::Lsn(lsn) => base.stop <= *lsn,
        // A number without its epoch is compared within the epoch.
        Target::Xid(xid) => match *xid > u64::from(u32::MAX) {
            true => base.next_xid <= *xid,
            false => base.next_xid & u64::from(u32::MAX) <= *xid,
        },
        Target::Base(id) => base.id == *id,
    };
    let before: Vec<&Candidate> = bases.iter().filter(comes_before).collect();
    let Some(newest) = before.last() else { return Err(Refused::BeforeFirst(oldest.clone())) };
    let ways = || before.iter().flat_map(|base| base.ways());
    let found = match target {
        Target::Moment(moment) => return along(ways().collect(), *moment, lines, newest),
        // The oldest base whose log goes as far as any: the point may be anywhere.
        Target::Name(_) => ways().max_by_key(|way| (way.reach.timeline, way.reach.lsn, Reverse(way.id))),
        Target::Latest => ways().max_by_key(|way| (way.reach.timeline, way.reach.lsn, way.id)),
        // A base of a server that was left behind comes after those of the newest timeline, also if it is younger.
        Target::Lsn(lsn) => ways().filter(|way| *lsn <= way.reach.lsn).max_by_key(|way| (way.reach.timeline, way.id)),
        Target::Xid(_) | Target::Base(_) => ways().max_by_key(|way| (way.reach.timeline, way.id)),
    };
    found.map(|way| vec![way]).ok_or_else(|| Refused::Hole((*newest).clone()))
}

/// The ways to a moment: along the newest timeline that there was then. What a later one has of that time may end earlier; but where
/// it left the older one behind all that the vault has of that, it has all of it, and more.
fn along(ways: Vec<Choice>, moment: Moment, lines: &Lines, newest: &Candidate) -> Result<Vec<Choice>, Refused> {
    let there_was = |way: &&Choice| lines.begun.get(&way.reach.timeline).is_none_or(|begun| *begun <= moment);
    let then = ways.iter().filter(there_was).map(|way| way.reach.timeline).max();
    // A base may be on none of them, if the clocks differ.
    let line = then.or_else(|| ways.iter().map(|way| way.reach.timeline).min());
    let Some(line) = line else { return Err(Refused::Hole(newest.clone())) };
    let has_more = |way: &Choice, later: &&Choice| {
        let left = lines.left.get(&(later.reach.timeline, line));
        later.id == way.id && left.is_some_and(|left| *left >= way.reach.lsn)
    };
    let its = ways.iter().filter(|way| way.reach.timeline == line);
    let best = |way: &Choice| {
        let later = ways.iter().filter(|later| has_more(way, later)).max_by_key(|later| later.reach.timeline);
        *later.unwrap_or(way)
    };
    let mut found: Vec<Choice> = its.map(best).collect();
    found.sort_by_key(|way| Reverse(way.id));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(second: i64, stop: u64, reach: Option<(u64, i64)>) -> Candidate {
        let way = |(lsn, until)| way(1, lsn, until);
        Candidate {
            id: SetId::new(Moment::from_millis(second * 1000), 1),
            ended: Moment::from_millis(second * 1000 + 500),
            stop: Lsn::new(stop),
            next_xid: stop,
            reaches: reach.map(way).into_iter().collect(),
        }
    }

    fn way(timeline: u32, lsn: u64, until: i64) -> Reach {
        Reach { timeline, lsn: Lsn::new(lsn), until: Moment::from_millis(until * 1000), is_end: true }
    }

    fn at(second: i64) -> Target {
        Target::Moment(Moment::from_millis(second * 1000))
    }

    /// The base and the timeline that are chosen first.
    fn chosen(bases: &[Candidate], target: &Target, lines: &[(u32, i64, u64)]) -> Result<(SetId, u32), Refused> {
        let begun = lines.iter().map(|(line, second, _)| (*line, Moment::from_millis(second * 1000))).collect();
        let left = lines.iter().map(|(line, _, left)| ((*line, 1), Lsn::new(*left))).collect();
        let ways = choose(bases, target, Moment::from_millis(1_000_000), &Lines { begun, left })?;
        Ok((ways[0].id, ways[0].reach.timeline))
    }

    #[test]
    fn the_newest_base_before_the_target_that_the_log_brings_there() {
        // A hole between 3000 and the base at 4000; the last base's log hasn't come yet.
        let bases = [
            base(100, 1000, Some((3000, 300))),
            base(200, 2000, Some((3000, 300))),
            base(400, 4000, Some((5000, 500))),
            base(600, 6000, None),
        ];
        let hole = |nth: usize| Err(Refused::Hole(bases[nth].clone()));
        let before = || Err(Refused::BeforeFirst(bases[0].clone()));
        let unknown = SetId::new(Moment::from_millis(5), 5);
        let lsn = |lsn| Target::Lsn(Lsn::new(lsn));
        for (target, expected) in [
            (Target::Latest, Ok(2)),
            (at(101), Ok(0)),
            (at(250), Ok(1)),
            (at(450), Ok(2)),
            (at(601), Ok(2)),
            (at(100), before()),
            (at(1001), Err(Refused::Future)),
            (lsn(999), before()),
            (lsn(1000), Ok(0)),
            (lsn(3000), Ok(1)),
            (lsn(3001), hole(1)),
            (lsn(4500), Ok(2)),
            (lsn(7000), hole(3)),
            (Target::Xid(1999), Ok(0)),
            (Target::Xid(999), before()),
            (Target::Xid(7000), Ok(2)),
            (Target::Name("x".into()), Ok(2)),
            (Target::Base(bases[1].id), Ok(1)),
            (Target::Base(bases[3].id), hole(3)),
            (Target::Base(unknown), Err(Refused::NoSuchBase(unknown))),
        ] {
            let found = chosen(&bases, &target, &[]).map(|(id, _)| id);
            let expected = expected.map(|nth: usize| bases[nth].id);
            assert_eq!(found, expected, "{target:?}");
        }
        assert_eq!(chosen(&[], &Target::Latest, &[]), Err(Refused::NoBase));
        assert_eq!(chosen(&bases[3..], &at(700), &[]), Err(Refused::Hole(bases[3].clone())));
    }

    #[test]
    fn a_moment_is_on_the_timeline_that_there_was_then() {
        // Timeline 2 began at 300; the server of timeline 1 went on, and a base was made of it.
        let mut bases = [base(100, 1000, None), base(350, 3500, Some((5000, 500))), base(400, 3400, None)];
        bases[0].reaches = vec![way(2, 4000, 600), way(1, 5000, 500)];
        bases[2].reaches = vec![way(2, 4000, 600)];
        let begun = [(2, 300, 3300)];
        let id = |nth: usize| bases[nth].id;
        for (target, expected) in [
            (at(200), (id(0), 1)),
            (at(299), (id(0), 1)),
            (at(300), (id(0), 2)),
            (at(360), (id(0), 2)),
            (at(450), (id(2), 2)),
            (Target::Lsn(Lsn::new(3600)), (id(2), 2)),
            (Target::Lsn(Lsn::new(4500)), (id(1), 1)),
            (Target::Xid(3600), (id(2), 2)),
            (Target::Latest, (id(2), 2)),
        ] {
            assert_eq!(chosen(&bases, &target, &begun), Ok(expected), "{target:?}");
        }
    }

    #[test]
    fn a_later_timeline_may_have_more_of_a_moment_than_the_older_one() {
        // The vault has the end of timeline 1 only in the first segment of timeline 2.
        let mut base = base(100, 1000, None);
        base.reaches = vec![way(3, 5000, 600), way(2, 4000, 500), way(1, 3000, 290)];
        let lines = [(2, 300, 3010), (3, 400, 3010)];
        for (second, expected) in [(299, 3), (300, 2), (500, 3)] {
            assert_eq!(chosen(std::slice::from_ref(&base), &at(second), &lines), Ok((base.id, expected)), "{second}");
        }
        let earlier = [(2, 300, 2990), (3, 400, 2990)];
        assert_eq!(chosen(std::slice::from_ref(&base), &at(299), &earlier), Ok((base.id, 1)));
    }

    #[test]
    fn a_restore_point_may_be_anywhere_in_the_log() {
        let bases = [base(100, 1000, Some((5000, 500))), base(200, 2000, Some((5000, 500)))];
        assert_eq!(chosen(&bases, &Target::Name("x".into()), &[]), Ok((bases[0].id, 1)));
        assert_eq!(chosen(&bases, &Target::Latest, &[]), Ok((bases[1].id, 1)));
    }

    #[test]
    fn targets() {
        for (text, expected) in [
            ("lsn:0/2000028", Ok(Target::Lsn(Lsn::new(0x200_0028)))),
            ("xid:745", Ok(Target::Xid(745))),
            ("name:before the change", Ok(Target::Name("before the change".into()))),
            ("xid:2", Err(())),
            ("xid:-1", Err(())),
            ("lsn:5", Err(())),
            ("name:", Err(())),
            ("name:a\nb", Err(())),
            ("time:now", Err(())),
            ("", Err(())),
        ] {
            assert_eq!(Target::parse(text).map_err(drop), expected, "{text}");
        }
    }
}
