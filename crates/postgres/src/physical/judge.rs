//! How does the protection stand, does the newest base lead to the log's end, and when is the next base due? Pure.

use std::time::Duration;

use seawall_archive::log::{self, Lsn};
use seawall_archive::{Schedule, SetId};
use seawall_core::{Failure, Kind, LastError, Moment, Phase, Point};

use super::history::Newest;
use super::receive::{NOT_SYNCHRONOUS, Seams, Standing, Waits};

/// A base may be so much newer than the clock says, because the clock was set back a little.
const AHEAD: Duration = Duration::from_secs(3600);

/// How the protection is.
#[derive(Debug, Clone, Default)]
pub(super) struct State {
    /// Whether it runs.
    pub(super) runs: bool,
    /// Whether the vault was looked at.
    pub(super) looked: bool,
    /// The newest base, and what was known of the log when it was made or found.
    pub(super) newest: Option<Newest>,
    /// Why the last base wasn't made.
    pub(super) base: Option<LastError>,
    /// Why the log isn't received.
    pub(super) log: Option<LastError>,
    /// What the last look at the vault found wrong, or why it failed.
    pub(super) look: Option<LastError>,
    /// When the vault was last listed.
    pub(super) seen_at: Option<Moment>,
    /// What the server keeps for slots of ours that nothing reads.
    pub(super) slots: Option<LastError>,
    /// The last error of retention.
    pub(super) upkeep: Option<LastError>,
    /// The seams of the log that a look or a base has answered, or is about to.
    pub(super) seams: Seams,
    /// What the server heard of its primary, if it is a standby.
    pub(super) standby: Option<Standby>,
    /// Bytes of whole segments that the server has and the vault lacked at the last look, where the server pushes its log.
    pub(super) unpushed: u64,
}

/// After so long without a message a standby's primary may be away. It sends one every 30 seconds.
const SILENT: Duration = Duration::from_secs(60);

/// What a standby heard of its primary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Standby {
    /// When it last heard of it; `None` if the role may not see that.
    pub(super) heard: Option<Moment>,
    /// Whether its primary is silent.
    pub(super) is_silent: bool,
    /// What it means that it receives nothing; `None` while it does.
    pub(super) alone: Option<LastError>,
}

/// What is known of a standby whose last message came `age` ago, if that is known, whose log is only shipped to it if it `ships`, and
/// which has lost its primary if there is an `alone`. `before` is what was known.
pub(super) fn standby(
    before: Option<&Standby>,
    age: Option<Duration>,
    ships: bool,
    alone: Option<LastError>,
    now: Moment,
) -> Standby {
    let known = before.and_then(|before| before.heard);
    let heard = match (age, &alone) {
        (Some(age), _) => Some(now.before(age)),
        // It keeps what it has, and nothing is heard any more.
        (None, Some(_)) => known.or(Some(now)),
        // It has replayed no commit since it started.
        (None, None) => known.or(Some(now)).filter(|_| ships),
    };
    let is_silent = alone.is_some() || age.map_or(ships, |age| age > SILENT);
    Standby { heard, is_silent, alone }
}

/// What the state means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Judged {
    pub(super) phase: Phase,
    pub(super) protected: Option<Point>,
    pub(super) lag_ms: u64,
    pub(super) lag_bytes: u64,
    pub(super) error: Option<LastError>,
}

/// Judges how the protection stands. `standing` is the receiver's; there is none where the server pushes its log.
pub(super) fn judge(state: &State, standing: Option<&Standing>, now: Moment) -> Judged {
    let streams = standing.is_none_or(|standing| standing.streaming);
    let of_session = standing.and_then(|standing| standing.failure.as_ref()).filter(|_| !streams);
    let log = state.log.clone().filter(|_| !streams).or_else(|| {
        let at = standing.and_then(|standing| standing.failed_at).unwrap_or(now);
        of_session.map(|failure| LastError::new(failure, at))
    });
    let warning = standing.and_then(|standing| standing.warning.as_ref()).map(|failure| LastError::new(failure, now));
    let alone = state.standby.as_ref().and_then(|standby| standby.alone.clone());
    // A standby's log goes no further than what its primary sent.
    let heard = state.standby.as_ref().filter(|standby| standby.is_silent).and_then(|standby| standby.heard);
    let durable_at = |standing: &Standing| standing.durable_at.map(|at| heard.map_or(at, |heard| heard.min(at)));
    let newest = state.newest.as_ref();
    let leads = newest.is_some_and(|newest| {
        let goes_on = |standing: &Standing| standing.seams == state.seams && leads(newest, Some(standing));
        !newest.is_cut_off && standing.is_none_or(goes_on)
    });
    // What the base needs must be there before anything is protected.
    let is_whole = |newest: &Newest| standing.is_none_or(|standing| standing.durable >= newest.stop);
    let whole = newest.filter(|newest| leads && is_whole(newest));
    let phase = match state {
        State { runs: false, .. } => Phase::Stopped,
        _ if log.is_some() => Phase::Failing,
        State { base: Some(error), .. } if error.code != "postgres.damaged-pages" => Phase::Failing,
        State { look: Some(_), .. } => Phase::Failing,
        State { looked: false, .. } => Phase::Starting,
        State { newest: None, .. } => Phase::Base,
        _ if !streams => Phase::Starting,
        _ if whole.is_none() => Phase::Base,
        _ => Phase::Protecting,
    };
    let streamed = whole.zip(standing).and_then(|(newest, standing)| {
        let moment = durable_at(standing)?.max(newest.point.moment);
        Some(Point { position: standing.durable.to_string(), moment })
    });
    let protected = streamed.or_else(|| newest.map(|newest| newest.point.clone()));
    let lag = |since: Option<Moment>, in_step: bool| {
        let since = since.filter(|_| !in_step && state.runs);
        since.map_or(0, |since| u64::try_from(now.since(since).as_millis()).unwrap_or(u64::MAX))
    };
    let behind = |standing: &Standing| {
        let since = durable_at(standing).or_else(|| newest.map(|newest| newest.point.moment));
        let in_step = standing.streaming && standing.durable >= standing.server && alone.is_none();
        (lag(since, in_step), standing.server.byte().saturating_sub(standing.durable.byte()))
    };
    let pushed = || (lag(newest.map(|newest| newest.point.moment), state.unpushed == 0), state.unpushed);
    let (lag_ms, lag_bytes) = standing.map_or_else(pushed, behind);
    let holds = standing.filter(|_| state.runs).and_then(|standing| holds(standing, log.as_ref(), now));
    Judged {
        phase,
        protected,
        lag_ms,
        lag_bytes,
        error: holds
            .or(log)
            .or_else(|| state.base.clone())
            .or_else(|| state.look.clone())
            .or_else(|| state.upkeep.clone())
            .or_else(|| alone.clone())
            .or_else(|| warning.clone().filter(|warning| warning.code == NOT_SYNCHRONOUS))
            .or_else(|| state.slots.clone())
            .or(warning),
    }
}

/// What it means that commits of the server wait for the vault longer than they may. `log` says why the log isn't received.
fn holds(standing: &Standing, log: Option<&LastError>, now: Moment) -> Option<LastError> {
    let holds = standing.holds.as_ref()?;
    let since = match holds.when {
        Waits::Always => standing.waits_since?,
        // Before the stream has caught up, the server counts on another one.
        Waits::Connected => standing.waits_since?.max(standing.caught_up_at.filter(|_| standing.streaming)?),
    };
    if now.since(since) <= holds.within {
        return None;
    }
    let why = match (log, standing.streaming) {
        (Some(error), false) => format!("the log isn't received: {} ({})", error.message, error.code),
        (_, false) => "the log isn't received yet".to_owned(),
        (_, true) => {
            format!("the vault has the log up to {}, and the server is at {}", standing.durable, standing.server)
        }
    };
    let cause = format!("each commit waits for the vault, as synchronous_standby_names asks, since {since}; {why}");
    let others = holds.others.replace('\'', "''");
    let next = format!(
        "bring the vault back (`seawall vault probe`); or let commits go on without it, as a superuser: ALTER SYSTEM SET \
         synchronous_standby_names = '{others}'; SELECT pg_catalog.pg_reload_conf()"
    );
    let failure = Failure::new(Kind::Unavailable, "postgres.commits-wait", holds.server.clone(), cause, next);
    Some(LastError::new(&failure, since))
}

/// Whether a base leads to the end of the log: no hole is behind it, and the receiver follows no timeline that left before it ended.
fn leads(newest: &Newest, standing: Option<&Standing>) -> bool {
    let followed = standing.and_then(|standing| standing.timeline);
    !newest.is_cut_off && followed.is_none_or(|followed| followed.number() <= newest.timeline)
}

/// What a look at the vault found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Looked<'a> {
    /// The newest base that restores something.
    pub(super) found: Option<&'a Newest>,
    /// Whether a newer one with its log lacks an object.
    pub(super) lacks: bool,
    /// The newest base of all.
    pub(super) listed: Option<SetId>,
    /// Whether no key at hand opens the manifest of the newest base.
    pub(super) is_sealed: bool,
    /// The end of the log that the base needs which this process made since a base last led to the log's end.
    pub(super) made: Option<Lsn>,
    /// Whether it was made a short while ago, or its last segment was still written then.
    pub(super) is_fresh: bool,
    /// Whether the server, which pushes its log, still writes the segment in which the log ends that the newest base needs.
    pub(super) is_written: bool,
    /// The receiver's standing; there is none where the server pushes its log.
    pub(super) standing: Option<&'a Standing>,
}

/// What that means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The newest base leads to the log's end.
    Leads,
    /// Another base is needed.
    Due,
    /// A base was made, and its log is on its way.
    Waits,
    /// A base was made, and its log doesn't come.
    Lost,
    /// A base was made that can't be read here.
    Unknown,
}

/// Judges what a look found.
pub(super) fn verdict(looked: &Looked<'_>) -> Verdict {
    let Looked { found, lacks, listed, is_sealed, made, is_fresh, is_written, standing } = *looked;
    // An older base would be slow, and shows that objects go: another one is made.
    let leading = found.filter(|found| !lacks && leads(found, standing));
    match (leading, standing, made) {
        (Some(_), Some(_), _) => Verdict::Leads,
        // An earlier base may restore all that was pushed so far, while the newest one lacks its log.
        (Some(found), None, _) if is_sealed || is_written || listed.is_none_or(|listed| listed <= found.id) => {
            Verdict::Leads
        }
        // Nothing is wrong: a server pushes a segment when it is complete, and a moment ago it was not.
        (None, None, _) if is_written || is_fresh => Verdict::Waits,
        (None, _, None) => Verdict::Due,
        (None, _, Some(_)) if is_sealed => Verdict::Unknown,
        (None, Some(standing), Some(stop)) if !standing.streaming || standing.durable < stop => Verdict::Waits,
        (_, None, _) if is_fresh => Verdict::Waits,
        _ => Verdict::Lost,
    }
}

/// When the next base is due, by the schedule. `last` is when the last one was begun; `None` where one is due now.
pub(super) fn due(schedule: &Schedule, last: Option<Moment>, now: Moment) -> Moment {
    // A base of the future was made while the clock was wrong: it would keep all others away until then.
    schedule.due(last.filter(|last| !is_of_future(*last, now)), now)
}

/// Whether a moment is too far ahead to be one that passed.
pub(super) fn is_of_future(moment: Moment, now: Moment) -> bool {
    moment > now.after(AHEAD)
}

/// Bytes of whole segments of `size` bytes that a server has, which is at `flushed`, and a log lacks that ends at `reached`.
pub(super) fn unpushed(flushed: Lsn, reached: Lsn, size: log::SegmentSize) -> u64 {
    flushed.segment_start(size).byte().saturating_sub(reached.byte())
}

/// Whether nothing of the log from `start` to `stop`, which a base needs, is missing but the last segment, and the server, which is at
/// `flushed`, still writes that. `reached` is how far the log in the vault goes from `start` on.
pub(super) fn is_written(start: Lsn, stop: Lsn, reached: Option<Lsn>, flushed: Lsn, size: log::SegmentSize) -> bool {
    let last = Lsn::new(stop.byte().saturating_sub(1)).segment_start(size);
    let has_rest = start.segment_start(size) >= last || reached.is_some_and(|reached| reached >= last);
    has_rest && last.after(size.bytes().into()).is_some_and(|end| flushed < end)
}

#[cfg(test)]
mod tests {
    use seawall_archive::log::{SegmentSize, TimelineId};

    use super::super::receive::Holds;
    use super::*;

    const NOW: i64 = 1_000_000;

    fn at(ms: i64) -> Moment {
        Moment::from_millis(ms)
    }

    /// A base whose log was there up to 0/80 when it was looked at.
    fn newest() -> Newest {
        Newest {
            id: SetId::new(at(500_000), 1),
            ended: at(510_000),
            timeline: 1,
            start: Lsn::new(0x20),
            stop: Lsn::new(0x40),
            bytes: 100,
            point: Point { position: "0/80".into(), moment: at(600_000) },
            is_cut_off: false,
        }
    }

    /// A receiver on timeline 1 that has all up to 0/90.
    fn standing() -> Standing {
        Standing {
            streaming: true,
            timeline: TimelineId::new(1),
            durable: Lsn::new(0x90),
            durable_at: Some(at(990_000)),
            server: Lsn::new(0x90),
            ..Standing::default()
        }
    }

    fn failed(code: &'static str) -> Failure {
        Failure::new(Kind::Unavailable, code, "it", "no", "next")
    }

    fn state() -> State {
        State { runs: true, looked: true, newest: Some(newest()), ..State::default() }
    }

    fn error(code: &'static str) -> Option<LastError> {
        Some(LastError::new(&failed(code), at(NOW)))
    }

    #[test]
    fn how_protection_stands() {
        type Row = (&'static str, fn(&mut State, &mut Standing), Phase, Option<(&'static str, i64)>, u64, u64);
        let streamed = Some(("0/90", 990_000));
        let looked = Some(("0/80", 600_000));
        let rows: [Row; 17] = [
            ("in step", |_, _| {}, Phase::Protecting, streamed, 0, 0),
            ("behind", |_, at| at.server = Lsn::new(0xa0), Phase::Protecting, streamed, 10_000, 0x10),
            ("it doesn't run", |state, _| state.runs = false, Phase::Stopped, streamed, 0, 0),
            ("not looked yet", |state, _| (state.looked, state.newest) = (false, None), Phase::Starting, None, 0, 0),
            ("no base", |state, _| state.newest = None, Phase::Base, None, 0, 0),
            ("not connected yet", |_, at| at.streaming = false, Phase::Starting, streamed, 10_000, 0),
            (
                "the session ended",
                |_, at| (at.streaming, at.failure) = (false, Some(failed("x"))),
                Phase::Failing,
                streamed,
                10_000,
                0,
            ),
            ("an old failure", |_, at| at.failure = Some(failed("x")), Phase::Protecting, streamed, 0, 0),
            ("an old fatal failure", |state, _| state.log = error("x"), Phase::Protecting, streamed, 0, 0),
            ("no base could be made", |state, _| state.base = error("x"), Phase::Failing, streamed, 0, 0),
            (
                "a base has damaged pages",
                |state, _| state.base = error("postgres.damaged-pages"),
                Phase::Protecting,
                streamed,
                0,
                0,
            ),
            ("a look found something", |state, _| state.look = error("x"), Phase::Failing, streamed, 0, 0),
            (
                "the log of the base isn't there yet",
                |_, at| at.durable = Lsn::new(0x30),
                Phase::Base,
                looked,
                10_000,
                0x60,
            ),
            ("a hole is behind the base", |state, _| cut_off(state), Phase::Base, looked, 0, 0),
            ("a hole that isn't answered yet", |_, at| at.seams.breaks = 1, Phase::Base, looked, 0, 0),
            (
                "a hole that a base was made behind",
                |state, at| (state.seams.breaks, at.seams.breaks) = (1, 1),
                Phase::Protecting,
                streamed,
                0,
                0,
            ),
            ("a timeline to which no base leads", |_, at| at.timeline = TimelineId::new(2), Phase::Base, looked, 0, 0),
        ];
        let rows = rows.into_iter().chain([
            (
                "a standby that hears of its primary",
                (|state, _| state.standby = Some(heard(50, None))) as fn(&mut State, &mut Standing),
                Phase::Protecting,
                streamed,
                0,
                0,
            ),
            (
                "a standby that heard of it a while ago",
                |state, _| state.standby = Some(heard(61, None)),
                Phase::Protecting,
                Some(("0/90", NOW - 61_000)),
                0,
                0,
            ),
            (
                "a standby that lost it",
                |state, _| state.standby = Some(heard(61, error("x"))),
                Phase::Protecting,
                Some(("0/90", NOW - 61_000)),
                61_000,
                0,
            ),
        ]);
        for (what, change, phase, protected, lag_ms, lag_bytes) in rows {
            let (mut state, mut standing) = (state(), standing());
            change(&mut state, &mut standing);
            let judged = judge(&state, Some(&standing), at(NOW));
            let point = judged.protected.as_ref().map(|point| (point.position.as_str(), point.moment.as_millis()));
            assert_eq!(
                (judged.phase, point, judged.lag_ms, judged.lag_bytes),
                (phase, protected, lag_ms, lag_bytes),
                "{what}"
            );
        }
        // An older timeline is caught up with.
        let on_second = State { newest: Some(Newest { timeline: 2, ..newest() }), ..state() };
        assert_eq!(judge(&on_second, Some(&standing()), at(NOW)).phase, Phase::Protecting);
    }

    fn heard(seconds: u64, alone: Option<LastError>) -> Standby {
        standby(None, Some(Duration::from_secs(seconds)), false, alone, at(NOW))
    }

    #[test]
    fn what_is_known_of_a_standby() {
        let alone = || error("x");
        let before = Standby { heard: Some(at(900_000)), is_silent: false, alone: None };
        let unknown = Standby { heard: None, ..before.clone() };
        let second = Some(Duration::from_secs(1));
        for (before, age, ships, alone, expected, is_silent) in [
            (None, second, false, None, Some(NOW - 1000), false),
            (Some(&before), second, false, None, Some(NOW - 1000), false),
            (Some(&before), second, true, None, Some(NOW - 1000), false),
            // The role may not see it.
            (Some(&before), None, false, None, None, false),
            (Some(&before), None, false, alone(), Some(900_000), true),
            (Some(&unknown), None, false, alone(), Some(NOW), true),
            (None, None, false, alone(), Some(NOW), true),
            // Its log is shipped, and no commit came since it started.
            (Some(&before), None, true, None, Some(900_000), true),
            (None, None, true, None, Some(NOW), true),
        ] {
            let known = standby(before, age, ships, alone, at(NOW));
            assert_eq!((known.heard, known.is_silent), (expected.map(at), is_silent), "{before:?} {age:?} {ships}");
        }
    }

    fn cut_off(state: &mut State) {
        if let Some(newest) = &mut state.newest {
            newest.is_cut_off = true;
        }
    }

    #[test]
    fn how_a_pushed_log_stands() {
        type Row = (fn(&mut State), Phase, u64, u64);
        let rows: [Row; 4] = [
            (|_| {}, Phase::Protecting, 0, 0),
            (|state| state.unpushed = 0x100, Phase::Protecting, 400_000, 0x100),
            (cut_off, Phase::Base, 0, 0),
            (|state| state.look = error("postgres.no-log"), Phase::Failing, 0, 0),
        ];
        for (nth, (change, phase, lag_ms, lag_bytes)) in rows.into_iter().enumerate() {
            let mut state = state();
            change(&mut state);
            let judged = judge(&state, None, at(NOW));
            assert_eq!((judged.phase, judged.lag_ms, judged.lag_bytes), (phase, lag_ms, lag_bytes), "{nth}");
            assert_eq!(judged.protected, Some(newest().point), "{nth}");
        }
    }

    #[test]
    fn errors_in_their_order() {
        let mut state = State { base: error("b"), look: error("c"), upkeep: error("d"), slots: error("s"), ..state() };
        state.standby = Some(heard(1, error("e")));
        let mut standing = Standing { warning: Some(failed("f")), ..standing() };
        (standing.streaming, standing.failure) = (false, Some(failed("a")));
        let clear: [fn(&mut State, &mut Standing); 7] = [
            |_, standing| standing.streaming = true,
            |state, _| state.base = None,
            |state, _| state.look = None,
            |state, _| state.upkeep = None,
            |state, _| state.standby = None,
            |state, _| state.slots = None,
            |_, standing| standing.warning = None,
        ];
        for (code, clear) in ["a", "b", "c", "d", "e", "s", "f"].iter().zip(clear) {
            let error = judge(&state, Some(&standing), at(NOW)).error;
            assert_eq!(error.map(|error| error.code).as_deref(), Some(*code));
            clear(&mut state, &mut standing);
        }
        assert_eq!(judge(&state, Some(&standing), at(NOW)).error, None);
        // That commits don't wait is worse than a slot that nothing reads.
        (state.slots, standing.warning) = (error("s"), Some(failed(NOT_SYNCHRONOUS)));
        let told = judge(&state, Some(&standing), at(NOW)).error;
        assert_eq!(told.map(|error| error.code).as_deref(), Some(NOT_SYNCHRONOUS));
    }

    #[test]
    fn commits_that_wait_too_long_are_told_with_the_reason() {
        let within = Duration::from_secs(30);
        let waits = |seconds: i64| Some(at(NOW - seconds * 1000));
        let of = |when| Some(Holds { server: "s".into(), within, when, others: "FIRST 1 (\"it's\")".into() });
        let (holds, first) = (of(Waits::Always), of(Waits::Connected));
        for (what, holds, waits_since, streaming, failure, expected) in [
            ("in step", holds.clone(), None, true, None, None),
            ("for a short while", holds.clone(), waits(30), true, None, None),
            ("too long", holds.clone(), waits(31), true, None, Some("the vault has the log up to 0/90")),
            ("the vault is away", holds.clone(), waits(31), false, Some(failed("vault.away")), Some("(vault.away)")),
            ("nothing streamed yet", holds, waits(31), false, None, Some("the log isn't received yet")),
            ("first of several", first.clone(), waits(31), true, None, Some("the vault has the log up to 0/90")),
            ("another one takes its place", first, waits(31), false, Some(failed("vault.away")), None),
            ("the server is away", of(Waits::Always), None, false, Some(failed("postgres.unreachable")), None),
            ("they don't wait", None, waits(31), false, Some(failed("vault.away")), None),
        ] {
            let caught_up_at = Some(at(0));
            let standing = Standing { holds, waits_since, streaming, failure, caught_up_at, ..standing() };
            let error = judge(&state(), Some(&standing), at(NOW)).error;
            let told = error.filter(|error| error.code == "postgres.commits-wait");
            assert_eq!(told.is_some(), expected.is_some(), "{what}");
            if let (Some(told), Some(expected)) = (told, expected) {
                assert!(
                    told.message.contains(expected) && told.next.contains("= 'FIRST 1 (\"it''s\")';"),
                    "{what}: {told:?}"
                );
                assert_eq!(Some(told.at), waits_since, "{what}");
            }
        }
        // The first of several: what waited before the stream caught up was confirmed by another one.
        for (caught_up, expected) in [(None, false), (Some(NOW - 30_000), false), (Some(NOW - 31_000), true)] {
            let caught_up_at = caught_up.map(at);
            let (holds, waits_since) = (of(Waits::Connected), waits(600));
            let standing = Standing { holds, waits_since, caught_up_at, ..standing() };
            let error = judge(&state(), Some(&standing), at(NOW)).error;
            assert_eq!(error.is_some(), expected, "{caught_up:?}");
        }
        let stopped = State { runs: false, ..state() };
        let standing = Standing { holds: of(Waits::Always), waits_since: waits(90), ..standing() };
        assert_eq!(judge(&stopped, Some(&standing), at(NOW)).error, None, "it doesn't run");
    }

    #[test]
    fn what_a_look_means() {
        let (base, standing) = (newest(), standing());
        let cut = Newest { is_cut_off: true, ..newest() };
        let promoted = Standing { timeline: TimelineId::new(2), ..standing.clone() };
        let away = Standing { streaming: false, ..standing.clone() };
        let later = SetId::new(at(700_000), 1);
        let received = Looked {
            found: Some(&base),
            lacks: false,
            listed: Some(base.id),
            is_sealed: false,
            made: None,
            is_fresh: false,
            is_written: false,
            standing: Some(&standing),
        };
        let pushed = Looked { standing: None, ..received };
        let (there, coming) = (Some(Lsn::new(0x90)), Some(Lsn::new(0x91)));
        for (looked, expected) in [
            (received, Verdict::Leads),
            (Looked { made: there, ..received }, Verdict::Leads),
            // All of it is restored by an earlier base still.
            (Looked { listed: Some(later), ..received }, Verdict::Leads),
            (Looked { found: None, listed: None, ..received }, Verdict::Due),
            (Looked { found: Some(&cut), ..received }, Verdict::Due),
            (Looked { found: Some(&cut), is_sealed: true, ..received }, Verdict::Due),
            (Looked { standing: Some(&promoted), ..received }, Verdict::Due),
            // The newest base lacks an object: one is made, and if that lacks something, too, the wait grows.
            (Looked { lacks: true, listed: Some(later), ..received }, Verdict::Due),
            (Looked { lacks: true, found: None, ..received }, Verdict::Due),
            (Looked { lacks: true, made: coming, ..received }, Verdict::Waits),
            (Looked { lacks: true, made: there, ..received }, Verdict::Lost),
            (Looked { found: None, made: coming, ..received }, Verdict::Waits),
            (Looked { found: None, made: there, standing: Some(&away), ..received }, Verdict::Waits),
            (Looked { found: None, made: there, ..received }, Verdict::Lost),
            (Looked { found: Some(&cut), made: there, is_fresh: true, ..received }, Verdict::Lost),
            (Looked { found: None, made: there, is_sealed: true, ..received }, Verdict::Unknown),
            (pushed, Verdict::Leads),
            (Looked { found: None, listed: None, ..pushed }, Verdict::Due),
            (Looked { found: Some(&cut), ..pushed }, Verdict::Due),
            (Looked { lacks: true, listed: Some(later), ..pushed }, Verdict::Due),
            (Looked { found: None, made: there, is_fresh: true, ..pushed }, Verdict::Waits),
            (Looked { found: None, made: there, ..pushed }, Verdict::Lost),
            (Looked { found: Some(&cut), made: there, ..pushed }, Verdict::Lost),
            (Looked { listed: Some(later), made: there, is_fresh: true, ..pushed }, Verdict::Waits),
            (Looked { listed: Some(later), ..pushed }, Verdict::Lost),
            (Looked { listed: Some(later), is_sealed: true, ..pushed }, Verdict::Leads),
            // The server is quiet, and hasn't ended the segment of the base's end.
            (Looked { found: None, made: there, is_written: true, ..pushed }, Verdict::Waits),
            (Looked { found: None, is_written: true, ..pushed }, Verdict::Waits),
            (Looked { listed: Some(later), made: there, is_written: true, ..pushed }, Verdict::Leads),
            (Looked { found: Some(&cut), is_written: true, ..pushed }, Verdict::Waits),
        ] {
            assert_eq!(verdict(&looked), expected, "{looked:?}");
        }
    }

    #[test]
    fn when_a_base_is_due() {
        let schedule = Schedule::parse("0 3 * * *", "a").expect("a schedule");
        let at = |text: &str| text.parse::<Moment>().expect("RFC 3339");
        let now = "2026-11-22T12:00:00Z";
        for (last, expected) in [
            (None, now),
            (Some("2026-11-22T03:00:02Z"), "2026-11-23T03:00:00Z"),
            (Some("2026-11-20T03:00:02Z"), now),
            // The clock was set back a little, or was wrong by a year.
            (Some("2026-11-22T12:59:00Z"), "2026-11-23T03:00:00Z"),
            (Some("2027-11-22T12:00:00Z"), now),
        ] {
            assert_eq!(due(&schedule, last.map(at), at(now)), at(expected), "{last:?}");
        }
    }

    #[test]
    fn which_segment_is_still_written() {
        let size = SegmentSize::new(1 << 20).expect("a size");
        let mega = 1 << 20;
        for (start, stop, reached, flushed, expected) in [
            (3 * mega + 0x28, 3 * mega + 0x100, None, 3 * mega + 0x100, true),
            (3 * mega + 0x28, 3 * mega + 0x100, None, 4 * mega - 1, true),
            (3 * mega + 0x28, 3 * mega + 0x100, None, 4 * mega, false),
            // The last byte is in the segment before.
            (3 * mega + 0x28, 4 * mega, None, 4 * mega - 8, true),
            (3 * mega + 0x28, 4 * mega, None, 4 * mega, false),
            // A segment before the last one was never pushed.
            (2 * mega + 0x28, 3 * mega + 0x100, None, 3 * mega + 0x100, false),
            (mega, 3 * mega + 0x100, Some(2 * mega), 3 * mega + 0x100, false),
            (mega, 3 * mega + 0x100, Some(3 * mega), 3 * mega + 0x100, true),
        ] {
            let (start, stop, flushed) = (Lsn::new(start), Lsn::new(stop), Lsn::new(flushed));
            let found = is_written(start, stop, reached.map(Lsn::new), flushed, size);
            assert_eq!(found, expected, "{start} {stop} {reached:?} {flushed}");
        }
    }

    #[test]
    fn what_is_not_pushed() {
        let size = SegmentSize::new(1 << 20).expect("a size");
        let mega = 1 << 20;
        for (flushed, reached, expected) in [
            (3 * mega, 3 * mega, 0),
            // The segment that is written now is pushed when it is complete.
            (4 * mega - 1, 3 * mega, 0),
            (4 * mega + 5, 3 * mega, mega),
            (3 * mega, 4 * mega, 0),
        ] {
            assert_eq!(unpushed(Lsn::new(flushed), Lsn::new(reached), size), expected, "{flushed} {reached}");
        }
    }
}
