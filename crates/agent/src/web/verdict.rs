//! What does a badge say of a database? Pure. Green is only what is known to be well: never green over nothing.

use seawall_core::{Phase, Severity, Status};

use crate::figures::span;

/// How a badge looks. Its text says the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tone {
    Quiet,
    Good,
    Warn,
    Bad,
}

/// A short text with its tone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Badge {
    pub(super) tone: Tone,
    pub(super) text: String,
}

impl Badge {
    fn new(tone: Tone, text: impl Into<String>) -> Self {
        Self { tone, text: text.into() }
    }
}

/// How the protection of a database stands.
pub(super) fn state(status: &Status) -> Badge {
    let phase = status.phase.name();
    let worst = status.alarms.iter().map(|alarm| alarm.severity).max();
    match (worst, status.phase) {
        (Some(Severity::Critical), _) | (_, Phase::Failing | Phase::Halted) => Badge::new(Tone::Bad, phase),
        (Some(Severity::Warning), _) => Badge::new(Tone::Warn, phase),
        (None, Phase::Stopped) => Badge::new(Tone::Quiet, phase),
        (None, _) if status.protected.is_none() => Badge::new(Tone::Warn, format!("{phase}, no point yet")),
        (None, Phase::Protecting) => Badge::new(Tone::Good, phase),
        (None, _) => Badge::new(Tone::Quiet, phase),
    }
}

/// What the newest known proof says.
pub(super) fn proof(status: &Status) -> Badge {
    let Some(proof) = &status.proof else { return Badge::new(Tone::Quiet, "no proof is known") };
    let date = proof.at.to_string();
    let date = date.split('T').next().unwrap_or_default();
    if proof.inconclusive {
        return Badge::new(Tone::Warn, format!("not made, {date}"));
    }
    if !proof.holds() {
        return Badge::new(Tone::Bad, format!("failed, {date}"));
    }
    let is_late = status.alarms.iter().any(|alarm| alarm.code == "alarm.proof-age");
    match is_late {
        true => Badge::new(Tone::Warn, format!("restored {date}, next one is late")),
        false => Badge::new(Tone::Good, format!("restored {date}")),
    }
}

/// How far the vault is behind, for people.
pub(super) fn lag(status: &Status) -> String {
    match (status.lag_bytes, status.lag_ms) {
        (0, 0) if status.protected.is_none() => "unknown".to_owned(),
        (0, 0) => "none".to_owned(),
        (0, millis) => span(millis),
        (bytes, millis) => format!("{}, {}", crate::figures::bytes(bytes), span(millis)),
    }
}

#[cfg(test)]
mod tests {
    use seawall_core::{Alarm, Description, Fault, Level, Moment, Point, Proof};

    use super::*;

    fn status(phase: Phase, protected: bool, severity: Option<Severity>) -> Status {
        let described = Description { name: "a".into(), engine: "x", source: None, vault: String::new() };
        let mut status = Status::new(described, phase, Moment::default());
        status.protected = protected.then(|| Point { position: "1".into(), moment: Moment::default() });
        status.alarms.extend(severity.map(|severity| Alarm {
            code: "alarm.proof-age".into(),
            severity,
            cause: String::new(),
            next: String::new(),
            since: Moment::default(),
            silenced_until: None,
        }));
        status
    }

    #[test]
    fn only_what_is_well_is_green() {
        use Tone::{Bad, Good, Quiet, Warn};
        let (warning, critical) = (Some(Severity::Warning), Some(Severity::Critical));
        for (phase, protected, alarm, tone) in [
            (Phase::Protecting, true, None, Good),
            (Phase::Protecting, false, None, Warn),
            (Phase::Protecting, true, warning, Warn),
            (Phase::Protecting, true, critical, Bad),
            (Phase::Stopped, true, None, Quiet),
            (Phase::Stopped, false, critical, Bad),
            (Phase::Starting, true, None, Quiet),
            (Phase::Starting, false, None, Warn),
            (Phase::Base, true, None, Quiet),
            (Phase::Waiting, false, None, Warn),
            (Phase::Failing, true, None, Bad),
            (Phase::Halted, true, warning, Bad),
        ] {
            assert_eq!(state(&status(phase, protected, alarm)).tone, tone, "{phase:?} {protected} {alarm:?}");
        }
    }

    #[test]
    fn proofs() {
        let point = Point { position: "1".into(), moment: Moment::default() };
        let proof_of = |faults: bool, inconclusive: bool| Proof {
            database: "a".into(),
            engine: "x".into(),
            at: Moment::from_millis(86_400_000),
            point: Some(point.clone()),
            level: Level::Content,
            restore_ms: 1,
            duration_ms: 2,
            objects: 3,
            read_bytes: 4,
            fresh_bytes: 0,
            restored_bytes: 5,
            moments: Vec::new(),
            faults: faults
                .then(|| Fault { code: "x".into(), object: "o".into(), cause: "c".into() })
                .into_iter()
                .collect(),
            inconclusive,
            doubts: Vec::new(),
            host: "h".into(),
            vault: String::new(),
        };
        let late = Some(Severity::Warning);
        for (made, alarm, tone, text) in [
            (None, None, Tone::Quiet, "no proof is known"),
            (Some((false, false)), None, Tone::Good, "restored 1970-01-02"),
            (Some((false, false)), late, Tone::Warn, "restored 1970-01-02, next one is late"),
            (Some((true, false)), None, Tone::Bad, "failed, 1970-01-02"),
            (Some((true, true)), None, Tone::Warn, "not made, 1970-01-02"),
        ] {
            let mut status = status(Phase::Protecting, true, alarm);
            status.proof = made.map(|(faults, inconclusive)| proof_of(faults, inconclusive));
            assert_eq!(proof(&status), Badge::new(tone, text), "{made:?}");
        }
    }

    #[test]
    fn a_lag_is_told_and_nothing_is_no_lag() {
        for (protected, bytes, millis, text) in [
            (true, 0, 0, "none"),
            (false, 0, 0, "unknown"),
            (true, 2048, 1500, "2.0 KiB, 1.5 s"),
            (true, 0, 61_000, "1 min 1 s"),
        ] {
            let mut status = status(Phase::Protecting, protected, None);
            (status.lag_bytes, status.lag_ms) = (bytes, millis);
            assert_eq!(lag(&status), text);
        }
    }
}
