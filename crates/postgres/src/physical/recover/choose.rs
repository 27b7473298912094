//! Which base is a moment restored from, along which timeline, and what forbids it? Pure.

use seawall_archive::SetId;
use seawall_core::Moment;

use seawall_archive::log::Lsn;

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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) id: SetId,
    /// When its copy had ended.
    pub(crate) ended: Moment,
    /// The end of what recovery must read before the files agree with each other.
    pub(crate) stop: Lsn,
    /// The next transaction at its end.
    pub(crate) next_xid: u64,
    /// How far its log goes without a hole, if it is there at all.
    pub(crate) reach: Option<Reach>,
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

/// Chooses among bases, oldest first.
pub(crate) fn choose(bases: &[Candidate], target: &Target, now: Moment) -> Result<Choice, Refused> {
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
    let is_reached = |base: &Candidate| {
        let reach = base.reach.filter(|reach| reach.lsn >= base.stop)?;
        let is_there = match target {
            Target::Moment(moment) => *moment <= reach.until,
            Target::Lsn(lsn) => *lsn <= reach.lsn,
            Target::Latest | Target::Xid(_) | Target::Name(_) | Target::Base(_) => true,
        };
        is_there.then_some(Choice { id: base.id, reach })
    };
    let before: Vec<&Candidate> = bases.iter().filter(comes_before).collect();
    let Some(newest) = before.last() else { return Err(Refused::BeforeFirst(*oldest)) };
    let mut reached = before.iter().filter_map(|base| is_reached(base));
    let found = match target {
        // The oldest base whose log goes as far as any: the point may be anywhere.
        Target::Name(_) => reached.max_by(|one, other| {
            (one.reach.timeline, one.reach.lsn)
                .cmp(&(other.reach.timeline, other.reach.lsn))
                .then(other.id.cmp(&one.id))
        }),
        Target::Latest => reached.max_by_key(|choice| (choice.reach.timeline, choice.reach.lsn, choice.id)),
        _ => reached.next_back(),
    };
    found.ok_or(Refused::Hole(**newest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(second: i64, stop: u64, reach: Option<(u64, i64)>) -> Candidate {
        Candidate {
            id: SetId::new(Moment::from_millis(second * 1000), 1),
            ended: Moment::from_millis(second * 1000 + 500),
            stop: Lsn::new(stop),
            next_xid: stop,
            reach: reach.map(|(lsn, until)| Reach {
                timeline: 1,
                lsn: Lsn::new(lsn),
                until: Moment::from_millis(until * 1000),
            }),
        }
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
        let at = |second: i64| Target::Moment(Moment::from_millis(second * 1000));
        let lsn = |lsn| Target::Lsn(Lsn::new(lsn));
        for (target, expected) in [
            (Target::Latest, Ok(2)),
            (at(101), Ok(0)),
            (at(250), Ok(1)),
            (at(300), Ok(1)),
            (at(450), Ok(2)),
            (at(500), Ok(2)),
            (at(100), Err(Refused::BeforeFirst(bases[0]))),
            (at(301), Err(Refused::Hole(bases[1]))),
            (at(501), Err(Refused::Hole(bases[2]))),
            (at(601), Err(Refused::Hole(bases[3]))),
            (at(1001), Err(Refused::Future)),
            (lsn(999), Err(Refused::BeforeFirst(bases[0]))),
            (lsn(1000), Ok(0)),
            (lsn(3000), Ok(1)),
            (lsn(3001), Err(Refused::Hole(bases[1]))),
            (lsn(4500), Ok(2)),
            (lsn(7000), Err(Refused::Hole(bases[3]))),
            (Target::Xid(1999), Ok(0)),
            (Target::Xid(999), Err(Refused::BeforeFirst(bases[0]))),
            (Target::Xid(7000), Ok(2)),
            (Target::Name("x".into()), Ok(2)),
            (Target::Base(bases[1].id), Ok(1)),
            (Target::Base(bases[3].id), Err(Refused::Hole(bases[3]))),
            (
                Target::Base(SetId::new(Moment::from_millis(5), 5)),
                Err(Refused::NoSuchBase(SetId::new(Moment::from_millis(5), 5))),
            ),
        ] {
            let found = choose(&bases, &target, Moment::from_millis(1_000_000)).map(|choice| choice.id);
            let expected = expected.map(|nth: usize| bases[nth].id);
            assert_eq!(found, expected, "{target:?}");
        }
        assert_eq!(choose(&[], &Target::Latest, Moment::from_millis(0)), Err(Refused::NoBase));
    }

    #[test]
    fn a_restore_point_may_be_anywhere_in_the_log() {
        let bases = [base(100, 1000, Some((5000, 500))), base(200, 2000, Some((5000, 500)))];
        let choice = choose(&bases, &Target::Name("x".into()), Moment::from_millis(1_000_000)).expect("chosen");
        assert_eq!(choice.id, bases[0].id);
        let latest = choose(&bases, &Target::Latest, Moment::from_millis(1_000_000)).expect("chosen");
        assert_eq!(latest.id, bases[1].id);
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
