//! Each alarm, on both sides of its border.

use seawall_core::{Description, Fault, Hole, Limit, Point, Proof, VaultStatus};

use super::*;

const NOW: Moment = Moment::from_millis(10 * 86_400_000);
const MINUTE: u64 = 60_000;

fn at(phase: Phase) -> Status {
    let database =
        Description { name: "app".into(), engine: "stub", source: Some("/app.db".into()), vault: "/v".into() };
    Status::new(database, phase, NOW)
}

fn error(code: &str, count: u64) -> Option<LastError> {
    let (message, next) = (format!("{code} happened"), "act".to_owned());
    Some(LastError { code: code.to_owned(), message, next, at: Moment::from_millis(5), count })
}

fn proof(faults: usize, inconclusive: bool) -> Option<Proof> {
    let fault =
        |number| Fault { code: "ltx.checksum".into(), object: format!("o{number}"), cause: "it differs".into() };
    Some(Proof {
        database: "app".into(),
        engine: "stub".into(),
        at: NOW,
        point: (!inconclusive).then(|| Point { position: "1".into(), moment: NOW }),
        restore_ms: 1,
        duration_ms: 2,
        objects: 1,
        read_bytes: 1,
        restored_bytes: 1,
        faults: (0..faults).map(fault).collect(),
        inconclusive,
        host: "h".into(),
        ..Proof::default()
    })
}

fn vault(lag_ms: u64) -> VaultStatus {
    VaultStatus {
        url: "file:///b".into(),
        in_step: lag_ms == 0,
        leads: false,
        behind_since: (lag_ms > 0).then(|| NOW.before(Duration::from_millis(lag_ms))),
        lag_ms,
        set_back: None,
        last_object: None,
        last_written: None,
        objects_left: None,
        bytes_left: None,
        error: None,
        requests: Default::default(),
        limits: Vec::new(),
    }
}

fn lacks(what: &str) -> Vec<Limit> {
    vec![Limit { lacks: what.to_owned(), effect: "two writers aren't noticed".to_owned() }]
}

fn facts(status: &Status) -> Facts<'_> {
    Facts { status, keeper: Keeper::Running, is_scheduled: false, local: Local::default() }
}

fn codes(facts: &Facts<'_>, limits: &Limits) -> Vec<(String, Severity)> {
    let found = alarms(facts, limits, NOW);
    assert!(found.iter().all(|alarm| !alarm.cause.is_empty() && !alarm.next.is_empty()), "{found:?}");
    assert!(found.iter().all(|alarm| limits::CODES.contains(&&*alarm.code)), "{found:?}");
    found.into_iter().map(|alarm| (alarm.code, alarm.severity)).collect()
}

#[test]
fn what_each_status_means() {
    use Phase::{Base, Failing, Halted, Protecting, Stopped, Waiting};
    use Severity::{Critical, Warning};
    let plain = Limits::default();
    for (status, limits, expected) in [
        (at(Protecting), &plain, None),
        (at(Base), &plain, None),
        (at(Halted), &plain, Some(("alarm.halted", Critical))),
        (Status { error: error("vault.denied", 9), ..at(Failing) }, &plain, Some(("alarm.failing", Critical))),
        (at(Waiting), &plain, None),
        (Status { error: error("agent.nothing-found", 1), ..at(Waiting) }, &plain, Some(("alarm.folder", Warning))),
        (Status { error: error("agent.folder-missing", 1), ..at(Waiting) }, &plain, Some(("alarm.folder", Critical))),
        (Status { error: error("sqlite.missing", 1), ..at(Waiting) }, &plain, Some(("alarm.failing", Critical))),
        (Status { lag_ms: 5 * MINUTE, ..at(Protecting) }, &plain, None),
        (Status { lag_ms: 5 * MINUTE + 1, ..at(Protecting) }, &plain, Some(("alarm.lag", Critical))),
        (Status { lag_ms: 5 * MINUTE + 1, ..at(Waiting) }, &plain, None),
        (Status { error: error("vault.vanished", 1), ..at(Protecting) }, &plain, Some(("alarm.unsafe", Critical))),
        (Status { error: error("vault.unavailable", 1), ..at(Protecting) }, &plain, Some(("alarm.error", Warning))),
        (
            Status { error: error("postgres.slot-unbounded", 1), ..at(Protecting) },
            &plain,
            Some(("alarm.slot-unbounded", Warning)),
        ),
        (
            Status { error: error("postgres.commits-wait", 1), ..at(Base) },
            &plain,
            Some(("alarm.commits-wait", Critical)),
        ),
        (Status { error: error("sqlite.disk-full", 1), ..at(Protecting) }, &plain, Some(("alarm.disk", Critical))),
        (Status { error: error("sqlite.clock", 1), ..at(Protecting) }, &plain, Some(("alarm.clock", Warning))),
        (Status { upkeep: error("vault.denied", 2), ..at(Protecting) }, &plain, None),
        (Status { upkeep: error("vault.denied", 3), ..at(Protecting) }, &plain, Some(("alarm.retention", Warning))),
        (Status { upkeep: error("archive.alarm", 1), ..at(Protecting) }, &plain, Some(("alarm.chain", Critical))),
        (Status { proof: proof(0, false), ..at(Protecting) }, &plain, None),
        (Status { proof: proof(2, false), ..at(Protecting) }, &plain, Some(("alarm.proof-failed", Critical))),
        (Status { proof: proof(1, true), ..at(Protecting) }, &plain, Some(("alarm.proof-failed", Warning))),
        (Status { vaults: vec![vault(0), vault(60 * MINUTE)], ..at(Protecting) }, &plain, None),
        (
            Status { vaults: vec![vault(60 * MINUTE + 1)], ..at(Protecting) },
            &plain,
            Some(("alarm.vault-behind", Warning)),
        ),
        (
            Status { vaults: vec![VaultStatus { error: error("vault.differs", 1), ..vault(1) }], ..at(Protecting) },
            &plain,
            Some(("alarm.vault-differs", Critical)),
        ),
        (
            Status { vaults: vec![VaultStatus { set_back: Some(at(Protecting).at), ..vault(0) }], ..at(Protecting) },
            &plain,
            Some(("alarm.vault-set-back", Warning)),
        ),
        (Status { limits: lacks("stamps"), ..at(Protecting) }, &plain, None),
        (Status { limits: lacks("create-only"), ..at(Protecting) }, &plain, Some(("alarm.vault-weak", Warning))),
        (
            Status { limits: lacks("renewed-locks"), ..at(Protecting) },
            &plain,
            Some(("alarm.locks-not-renewed", Critical)),
        ),
        (at(Stopped), &plain, None),
    ] {
        let expected: Vec<(String, Severity)> =
            expected.into_iter().map(|(code, severity)| (code.into(), severity)).collect();
        assert_eq!(codes(&facts(&status), limits), expected, "{status:?}");
    }
}

#[test]
fn what_else_decides() {
    use Severity::{Critical, Warning};
    let plain = Limits::default();
    let stopped = at(Phase::Stopped);
    for (keeper, expected) in [
        (Keeper::Running, None),
        (Keeper::Resting, Some(("alarm.stopped".to_owned(), Warning))),
        (Keeper::Nobody, Some(("alarm.stopped".to_owned(), Critical))),
    ] {
        assert_eq!(codes(&Facts { keeper, ..facts(&stopped) }, &plain).into_iter().next(), expected, "{keeper:?}");
    }
    for (lag_ms, expected) in
        [(60 * MINUTE, None), (60 * MINUTE + 1, Some(("alarm.backup-overdue".to_owned(), Critical)))]
    {
        let status = Status { lag_ms, ..at(Phase::Protecting) };
        let found = codes(&Facts { is_scheduled: true, ..facts(&status) }, &plain);
        assert_eq!(found.into_iter().next(), expected, "{lag_ms}");
    }
    // That the application waits is told beside what fails.
    let failing = Status { error: error("postgres.commits-wait", 1), ..at(Phase::Failing) };
    let both = ["alarm.failing", "alarm.commits-wait"].map(|code| (code.to_owned(), Critical));
    assert_eq!(codes(&facts(&failing), &plain), both);
    let protecting = at(Phase::Protecting);
    for (free, expected) in [
        (None, None),
        (Some(plain.state_free), None),
        (Some(plain.state_free - 1), Some(("alarm.disk".to_owned(), Warning))),
    ] {
        let local = Local { free, ..Local::default() };
        assert_eq!(codes(&Facts { local, ..facts(&protecting) }, &plain).into_iter().next(), expected, "{free:?}");
    }
}

#[test]
fn a_proof_may_be_late_for_a_while() {
    let plain = Limits::default();
    let point = Some(Point { position: "1".into(), moment: NOW });
    let protected = Status { protected: point, ..at(Phase::Protecting) };
    let late = vec![("alarm.proof-age".to_owned(), Severity::Warning)];
    let off = Limits { proof_age: None, ..plain.clone() };
    let day = Duration::from_secs(86_400);
    for (status, due, limits, expected) in [
        (&protected, None, &plain, Vec::new()),
        (&protected, Some(NOW.after(day)), &plain, Vec::new()),
        (&protected, Some(NOW.before(day)), &plain, Vec::new()),
        (&protected, Some(NOW.before(day + Duration::from_millis(1))), &plain, late.clone()),
        (&protected, Some(NOW.before(day * 7)), &plain, late.clone()),
        (&protected, Some(NOW.before(day * 8)), &plain, vec![("alarm.proof-age".to_owned(), Severity::Critical)]),
        (&protected, Some(NOW.before(day * 9)), &off, Vec::new()),
        (&at(Phase::Protecting), Some(NOW.before(day * 9)), &plain, Vec::new()),
    ] {
        let local = Local { proof_due: due, ..Local::default() };
        assert_eq!(codes(&Facts { local, ..facts(status) }, limits), expected, "{due:?}");
    }
}

#[test]
fn a_backup_that_hangs_is_overdue() {
    let underway = seawall_core::Underway { stage: "rows".into(), done_bytes: 7, total_bytes: None };
    let plain = Limits::default();
    let hour = Duration::from_secs(3600);
    let overdue = vec![("alarm.backup-overdue".to_owned(), Severity::Critical)];
    for (minutes, progress, unmoved, expected) in [
        (61, None, Duration::ZERO, overdue.clone()),
        (61, Some(underway.clone()), Duration::ZERO, Vec::new()),
        (61, Some(underway.clone()), hour, Vec::new()),
        (61, Some(underway.clone()), hour + Duration::from_secs(1), overdue),
        (59, Some(underway), hour * 9, Vec::new()),
    ] {
        let point = Point { position: "1".into(), moment: Moment::from_millis(0) };
        let status = Status { lag_ms: minutes * MINUTE, progress, protected: Some(point), ..at(Phase::Protecting) };
        let local = Local { unmoved, ..Local::default() };
        let found = codes(&Facts { is_scheduled: true, local, ..facts(&status) }, &plain);
        assert_eq!(found, expected, "{minutes} {unmoved:?}");
        // The first one: nothing is late before it.
        let first = Status { lag_ms: 0, protected: None, ..status.clone() };
        let found = codes(&Facts { is_scheduled: true, local, ..facts(&first) }, &plain);
        assert_eq!(found.len(), usize::from(first.progress.is_some() && unmoved > hour), "{unmoved:?}");
        // Before its first row a program of the user's may run for ever.
        let begun = Status { phase: Phase::Base, progress: None, ..first };
        let found = codes(&Facts { is_scheduled: true, local, ..facts(&begun) }, &plain);
        assert_eq!(found.len(), usize::from(unmoved > hour), "{unmoved:?}");
    }
}

#[test]
fn an_error_that_has_its_own_alarm_is_told_once() {
    let status = Status { error: error("postgres.commits-wait", 1), ..at(Phase::Failing) };
    let told = alarms(&facts(&status), &Limits::default(), NOW);
    let message = &status.error.as_ref().expect("an error").message;
    assert_eq!(told.iter().map(|alarm| &*alarm.code).collect::<Vec<_>>(), ["alarm.failing", "alarm.commits-wait"]);
    assert_eq!(told.iter().filter(|alarm| alarm.cause.contains(&**message)).count(), 1, "{told:?}");
}

#[test]
fn a_hole_is_told_for_a_while_and_credentials_before_they_end() {
    let plain = Limits::default();
    let (day, milli) = (Duration::from_secs(86_400), Duration::from_millis(1));
    let point = |moment| Point { position: "1".into(), moment };
    let hole_of = |to, restored| Status {
        hole: Some(Hole {
            from: Some(point(Moment::from_millis(0))),
            to: point(to),
            reason: "it was cut".into(),
            restored,
        }),
        ..at(Phase::Protecting)
    };
    let (hole, hour) = (|to| hole_of(to, false), Duration::from_secs(3600));
    let ends = |end| Status { credentials_end: Some(end), ..at(Phase::Protecting) };
    let warning = |code: &str| vec![(code.to_owned(), Severity::Warning)];
    let off = Limits { hole: None, credentials: None, ..plain.clone() };
    for (status, limits, expected) in [
        (hole(NOW), &plain, warning("alarm.hole")),
        (hole(NOW.before(day - milli)), &plain, warning("alarm.hole")),
        (hole(NOW.before(day)), &plain, Vec::new()),
        // The clock was set back.
        (hole(NOW.after(day)), &plain, warning("alarm.hole")),
        (hole(NOW), &off, Vec::new()),
        (hole_of(NOW, true), &plain, warning("alarm.hole")),
        (hole_of(NOW.before(hour - milli), true), &plain, warning("alarm.hole")),
        (hole_of(NOW.before(hour), true), &plain, Vec::new()),
        (ends(NOW.after(day * 3 + milli)), &plain, Vec::new()),
        (ends(NOW.after(day * 3)), &plain, warning("alarm.credentials")),
        (ends(NOW.after(milli)), &plain, warning("alarm.credentials")),
        (ends(NOW), &plain, vec![("alarm.credentials".to_owned(), Severity::Critical)]),
        (ends(NOW), &off, Vec::new()),
    ] {
        assert_eq!(codes(&facts(&status), limits), expected, "{status:?}");
    }
}

#[test]
fn a_silence_marks_and_ends_and_severities_are_the_configurations() {
    let halted = Status { limits: lacks("create-only"), ..at(Phase::Halted) };
    let until = NOW.after(Duration::from_secs(1));
    for (end, now, silenced) in [(Some(until), NOW, true), (Some(until), until, false), (None, NOW, false)] {
        let local = Local { silenced_until: end, ..Local::default() };
        let found = alarms(&Facts { local, ..facts(&halted) }, &Limits::default(), now);
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|alarm| alarm.silenced_until.is_some() == silenced), "{found:?}");
        assert_eq!(is_urgent(&found), !silenced);
    }
    let severity = [("alarm.halted", Some(Severity::Warning)), ("alarm.vault-weak", None)].into();
    let limits = Limits { severity, ..Limits::default() };
    assert_eq!(codes(&facts(&halted), &limits), [("alarm.halted".to_owned(), Severity::Warning)]);
}

#[test]
fn an_alarm_keeps_its_beginning_for_as_long_as_it_lasts() {
    let begun = alarm("alarm.lag", Severity::Critical, "c", "n", Moment::from_millis(3));
    let mut now = vec![
        Alarm { since: Moment::from_millis(9), ..begun.clone() },
        alarm("alarm.disk", Severity::Warning, "c", "n", Moment::from_millis(9)),
    ];
    keep_since(&[begun], &mut now);
    assert_eq!(now.iter().map(|alarm| alarm.since.as_millis()).collect::<Vec<_>>(), [3, 9]);
    let hole = |since| alarm("alarm.hole", Severity::Warning, "a", "b", Moment::from_millis(since));
    let mut second = [hole(9)];
    keep_since(&[hole(3)], &mut second);
    assert_eq!(second, [hole(9)], "another hole is no longer one of before");
}
