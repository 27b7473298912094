//! When is the next proof of a database due, and is the newest one older than it should be? Pure functions from the schedule, the
//! newest record and the time.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use seawall_archive::{Schedule, retry_after};
use seawall_core::{Level, Moment, Proof};

/// The code of a proof that took too long. It isn't repeated before its schedule says so: it would take as long again.
pub const TOO_LONG: &str = "proof.too-long";

/// What came of the last try to prove a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Last {
    /// When it ended.
    pub at: Moment,
    /// If it couldn't be made and is to be repeated soon: how often that has happened in a row.
    pub failures: Option<u32>,
}

impl Last {
    /// What a record says of the last try.
    pub fn of(proof: &Proof) -> Self {
        let is_repeated = proof.inconclusive && proof.faults.iter().all(|fault| fault.code != TOO_LONG);
        Self { at: proof.at, failures: is_repeated.then_some(1) }
    }
}

/// When the next proof is due. A database that was never proved is due now. A proof that couldn't be made is tried again after a
/// while that grows with each failure, but never later than its schedule says.
pub fn due(schedule: &Schedule, last: Option<Last>, now: Moment) -> Moment {
    let regular = schedule.due(last.map(|last| last.at), now);
    match last {
        Some(Last { at, failures: Some(failures) }) if at <= now => {
            regular.min(at.after(retry_after(failures))).max(now)
        }
        _ => regular,
    }
}

/// When the successor of the newest proof is or was due by the schedule. `proved` is the newest proof that said something about the
/// objects, and `since` is when it became known that there is none.
pub fn successor_due(schedule: &Schedule, proved: Option<Moment>, since: Moment) -> Moment {
    proved.map_or(since, |at| schedule.after(at).unwrap_or(at))
}

/// The proof that tells how a database stands, of its newest proofs, newest first: the newest, unless an earlier failure still
/// stands. A failure ends with a proof of the same vault that holds, is as thorough as the failed one or as the engine's own check, and
/// restored no earlier moment.
pub fn standing<'a>(newest_first: impl IntoIterator<Item = &'a Proof>) -> Option<&'a Proof> {
    let all = standings(newest_first);
    let failed = all.iter().find(|proof| !proof.inconclusive && !proof.holds());
    failed.or(all.first()).copied()
}

/// The same of each vault alone, the newest first.
pub fn standings<'a>(newest_first: impl IntoIterator<Item = &'a Proof>) -> Vec<&'a Proof> {
    let mut by_vault: BTreeMap<&str, Vec<&Proof>> = BTreeMap::new();
    for proof in newest_first {
        by_vault.entry(&proof.vault).or_default().push(proof);
    }
    let mut all: Vec<&Proof> = by_vault.into_values().filter_map(|proofs| standing_of_one(&proofs)).collect();
    all.sort_by_key(|proof| Reverse(proof.at));
    all
}

/// The proof that tells how one vault stands.
fn standing_of_one<'a>(all: &[&'a Proof]) -> Option<&'a Proof> {
    let failed = all.iter().position(|proof| !proof.inconclusive && !proof.holds());
    let newest = all.first().copied();
    let Some(at) = failed else { return newest };
    let refutes = |later: &&Proof| {
        let moment = |proof: &Proof| proof.point.as_ref().map(|point| point.moment);
        later.holds() && later.level >= all[at].level.min(Level::Engine) && moment(later) >= moment(all[at])
    };
    if all[..at].iter().any(refutes) { newest } else { Some(all[at]) }
}

/// Whether a proof is worth a record. One that couldn't be made is recorded once for each time that the schedule asks for one, so that
/// repeated tries don't displace the records of proofs.
pub(super) fn is_recorded(proof: &Proof, before: Option<&Proof>, schedule: &Schedule) -> bool {
    let code = |proof: &Proof| proof.faults.first().map(|fault| fault.code.clone());
    match before.filter(|before| proof.inconclusive && before.inconclusive && code(before) == code(proof)) {
        Some(before) => schedule.after(before.at).is_none_or(|next| next <= proof.at),
        None => true,
    }
}

#[cfg(test)]
mod tests {
    use seawall_core::{Fault, Point};

    use super::*;

    fn at(text: &str) -> Moment {
        format!("2026-11-{text}:00Z").parse().expect("a moment")
    }

    #[test]
    fn when_the_next_proof_is_due() {
        let daily = Schedule::parse("0 5 * * *", "app").expect("a schedule");
        let last = |text: &str, failures| Some(Last { at: at(text), failures });
        for (last, now, expected) in [
            (None, "20T12:00", "20T12:00"),
            (last("20T05:40", None), "20T12:00", "21T05:00"),
            // Nothing ran when it was due.
            (last("18T05:40", None), "20T12:00", "20T12:00"),
            // A proof that ended after the next due time counts as that proof.
            (last("20T05:00", None), "20T05:00", "21T05:00"),
            // What couldn't be made is tried again.
            (last("20T12:00", Some(1)), "20T12:00", "20T12:01"),
            (last("20T12:00", Some(3)), "20T12:01", "20T12:04"),
            (last("20T12:00", Some(99)), "20T12:01", "20T13:00"),
            (last("20T12:00", Some(1)), "20T13:00", "20T13:00"),
            (last("20T04:30", Some(99)), "20T04:40", "20T05:00"),
            // The clock was set back.
            (last("25T05:00", None), "20T12:00", "21T05:00"),
            (last("25T05:00", Some(1)), "20T12:00", "21T05:00"),
        ] {
            assert_eq!(due(&daily, last, at(now)), at(expected), "{last:?} {now}");
        }
    }

    #[test]
    fn when_a_successor_is_due() {
        let weekly = Schedule::parse("0 5 * * 0", "app").expect("a schedule");
        for (proved, expected) in [
            // The 22nd is a Sunday.
            (Some("17T12:00"), "22T05:00"),
            (Some("22T05:10"), "29T05:00"),
            (None, "20T12:00"),
        ] {
            assert_eq!(successor_due(&weekly, proved.map(at), at("20T12:00")), at(expected), "{proved:?}");
        }
    }

    fn proof(moment: &str, code: &str, inconclusive: bool) -> Proof {
        Proof {
            database: "app".into(),
            engine: "sqlite".into(),
            at: at(moment),
            faults: vec![Fault { code: code.into(), object: String::new(), cause: String::new() }],
            inconclusive,
            ..Proof::default()
        }
    }

    #[test]
    fn a_failure_stands_until_a_proof_as_thorough_refutes_it() {
        let sound = |moment, level, of| Proof {
            level,
            faults: Vec::new(),
            point: Some(Point { position: "1".into(), moment: at(of) }),
            ..proof(moment, "", false)
        };
        let failed = |moment, of| Proof {
            point: Some(Point { position: "1".into(), moment: at(of) }),
            ..proof(moment, "sqlite.corrupt", false)
        };
        let away = |moment| proof(moment, "vault.unavailable", true);
        use Level::{Bytes, Content, Engine};
        for (newest_first, expected) in [
            (vec![], None),
            (vec![sound("20T12:00", Bytes, "20T11:00")], Some(0)),
            (vec![away("20T12:00"), sound("20T11:00", Engine, "20T11:00")], Some(0)),
            (vec![away("20T12:00"), failed("20T11:00", "20T11:00")], Some(1)),
            (vec![sound("20T12:00", Bytes, "20T12:00"), failed("20T11:00", "20T11:00")], Some(1)),
            (vec![sound("20T12:00", Content, "01T12:00"), failed("20T11:00", "20T11:00")], Some(1)),
            (vec![sound("20T12:00", Engine, "20T11:00"), failed("20T11:00", "20T11:00")], Some(0)),
            (vec![sound("20T12:00", Engine, "20T11:00"), proof("20T11:00", "sqlite.corrupt", false)], Some(0)),
            (vec![away("20T13:00"), sound("20T12:00", Content, "20T12:00"), failed("20T11:00", "20T11:00")], Some(0)),
            (vec![failed("20T13:00", "20T12:00"), sound("20T12:00", Content, "20T12:00")], Some(0)),
        ] {
            let found = standing(&newest_first);
            assert_eq!(found, expected.map(|at: usize| &newest_first[at]), "{newest_first:#?}");
        }
        // A proof of another vault says nothing of the one that failed.
        let of = |vault: &str, proof| Proof { vault: vault.into(), ..proof };
        let hold = |moment| sound(moment, Content, moment);
        for (newest_first, expected) in [
            (vec![of("v1", hold("20T12:00")), of("v2", failed("20T11:00", "20T11:00"))], 1),
            (vec![of("v2", hold("20T12:00")), of("v2", failed("20T11:00", "20T11:00"))], 0),
            (vec![away("20T13:00"), of("v1", hold("20T12:00")), of("v2", failed("20T11:00", "20T11:00"))], 2),
            (vec![of("v2", hold("20T12:00")), of("v1", hold("20T11:00"))], 0),
            (vec![of("v2", failed("20T12:00", "20T12:00")), of("v1", failed("20T11:00", "20T11:00"))], 0),
        ] {
            assert_eq!(standing(&newest_first), Some(&newest_first[expected]), "{newest_first:#?}");
        }
        let both = [of("v2", failed("20T12:00", "20T12:00")), of("v1", failed("20T11:00", "20T11:00"))];
        assert_eq!(standings(&both), [&both[0], &both[1]]);
    }

    #[test]
    fn what_is_recorded_and_what_is_repeated_soon() {
        let daily = Schedule::parse("0 5 * * *", "app").expect("a schedule");
        let away = |moment| proof(moment, "vault.unavailable", true);
        for (new, before, expected) in [
            (away("20T12:00"), None, true),
            (away("20T12:00"), Some(away("20T11:00")), false),
            (away("21T05:00"), Some(away("20T11:00")), true),
            (away("20T12:00"), Some(proof("20T11:00", "proof.no-room", true)), true),
            (away("20T12:00"), Some(proof("20T11:00", "vault.unavailable", false)), true),
            (proof("20T12:00", "sqlite.corrupt", false), Some(proof("20T11:00", "sqlite.corrupt", false)), true),
        ] {
            assert_eq!(is_recorded(&new, before.as_ref(), &daily), expected, "{new:?} {before:?}");
        }
        for (proof, failures) in [
            (away("20T12:00"), Some(1)),
            (proof("20T12:00", TOO_LONG, true), None),
            (proof("20T12:00", "sqlite.corrupt", false), None),
        ] {
            assert_eq!(Last::of(&proof), Last { at: proof.at, failures });
        }
    }
}
