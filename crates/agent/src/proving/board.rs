//! What a process knows of the proofs of its databases.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use seawall_core::{Backoff, Failure, Moment, Proof};
use seawall_engines::proofs::{Last, Proving, due, standing, standings, successor_due};
use tokio::sync::Notify;

use crate::config::{DatabaseConfig, SourceName};

/// When records that couldn't be read are read again.
const AGAIN: Backoff = Backoff::new(Duration::from_secs(10), Duration::from_secs(3600));

/// After this time records are read again: another host may have proved the database, and found a fault. That is a listing and some reads for
/// each database.
const AFRESH: Duration = Duration::from_secs(6 * 3600);

/// How long records can't be read before a person hears of it: a store may be away for a moment.
const TOLD_AFTER: Duration = Duration::from_secs(300);

/// How long records can't be read before proofs are made without them. A person may have forbidden that they are read.
const BLIND_AFTER: Duration = Duration::from_secs(3600);

/// How far the clock of another host may be ahead. A later proof is of a wrong clock, and says nothing of when the next one is due.
const AHEAD: Duration = Duration::from_secs(300);

/// When a database without a point is looked at again.
const EMPTY: Backoff = Backoff::new(Duration::from_secs(2), Duration::from_secs(60));

/// The longest wait that is made before anything is tried again.
const LONGEST_WAIT: Duration = Duration::from_secs(2 * 3600);

/// What is known of each database that is proved by itself.
#[derive(Debug, Default)]
pub(crate) struct Board {
    all: Mutex<HashMap<SourceName, Known>>,
    changed: Notify,
    /// Held while a proof is made.
    turn: tokio::sync::Mutex<()>,
}

/// What is known of one database.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Known {
    /// The place of the records: another one has others.
    place: String,
    /// When the records were read last.
    read_at: Option<Moment>,
    /// The newest proof.
    newest: Option<Proof>,
    /// Whether a person had it made here, of a database without scheduled proofs. The others' records are then not read.
    by_hand: bool,
    /// The proofs that tell how each vault stands: its newest, or an earlier failure that still stands.
    standings: Vec<Proof>,
    /// When the newest proof ended that said something about the objects.
    concluded: Option<Moment>,
    /// Since when it is known that there is no proof: by this process, by an earlier one, or by the records of proofs that couldn't be
    /// made.
    since: Moment,
    /// How often in a row they couldn't be read.
    unread: u32,
    /// Since when they can't be read, and why.
    unreadable: Option<(Moment, Failure)>,
    /// How often in a row it had no point.
    empty: u32,
    /// What came of the last try.
    last: Option<Last>,
    /// No proof is made before this moment.
    not_before: Option<Moment>,
    /// When the records are read again that couldn't be read.
    read_again: Option<Moment>,
    /// When the next proof is due, by these settings.
    due: Option<(Arc<Proving>, Moment)>,
    /// When the successor of the newest proof that said something is due, by these settings.
    successor: Option<(Arc<Proving>, Moment)>,
}

impl Known {
    /// Whether the records can't be read for so long.
    fn is_unreadable_for(&self, time: Duration, now: Moment) -> bool {
        self.unreadable.as_ref().is_some_and(|(since, _)| now.since(*since) >= time)
    }

    /// Forgets what seems to have happened later than now: the clock was set back since.
    fn forget_the_future(&mut self, now: Moment) {
        let latest = now.after(AHEAD);
        let is_later = |at: Option<Moment>| at.is_some_and(|at| at > latest);
        if is_later(self.last.map(|last| last.at)) {
            (self.last, self.due) = (None, None);
        }
        if is_later(self.concluded) {
            (self.concluded, self.successor) = (None, None);
            self.since = self.since.min(now);
        }
        self.newest = self.newest.take().filter(|proof| proof.at <= latest);
        self.standings.retain(|proof| proof.at <= latest);
        self.read_at = self.read_at.filter(|at| *at <= latest);
        if let Some((since, _)) = &mut self.unreadable {
            *since = (*since).min(now);
        }
        // A wait that was computed by the other clock.
        self.not_before = self.not_before.filter(|at| *at <= now.after(LONGEST_WAIT));
        self.read_again = self.read_again.filter(|at| *at <= now.after(LONGEST_WAIT));
    }
}

/// What is to be done next with a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// Its records are to be read at a moment.
    Read(Moment),
    /// It is to be proved.
    Prove {
        /// When.
        at: Moment,
        /// Since when it waits: since its last proof, or since it is known that there is none.
        since: Moment,
    },
}

impl Board {
    /// Lets the proofs be looked at at once: the configuration changed.
    pub(crate) fn look_again(&self) {
        self.changed.notify_one();
    }

    /// Returns when the proofs are to be looked at at once.
    pub(super) async fn looked_for(&self) {
        self.changed.notified().await;
    }

    /// Waits until no other proof is being made. None begins while the guard lives.
    pub(super) async fn turn_to_prove(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// The proof that tells how a database stands, and when the next conclusive proof is or was due. Of a database without
    /// scheduled proofs only a proof that a person had made here.
    pub(crate) fn of(&self, config: &DatabaseConfig) -> (Option<Proof>, Option<Moment>) {
        let Some(proving) = &config.prove else {
            let known = self.known(config).filter(|known| known.by_hand);
            return (known.and_then(|known| standing(&known.standings).cloned()), None);
        };
        let Some(known) = self.known(config).filter(|known| known.since != Moment::default()) else {
            return (None, None);
        };
        let Known { concluded, since, .. } = known;
        let standing = standing(&known.standings).cloned();
        let due = match known.successor {
            Some((by, at)) if Arc::ptr_eq(&by, proving) => at,
            _ => {
                let at = successor_due(&proving.schedule(&config.name), concluded, since);
                if let Some(known) = self.lock().get_mut(&config.source()).filter(|known| known.concluded == concluded)
                {
                    known.successor = Some((Arc::clone(proving), at));
                }
                at
            }
        };
        (standing, Some(due))
    }

    /// Why the records of a database can't be read, and since when, if that is so for a while.
    pub(crate) fn unreadable(&self, config: &DatabaseConfig, now: Moment) -> Option<(Moment, Failure)> {
        config.prove.as_ref()?;
        self.known(config).filter(|known| known.is_unreadable_for(TOLD_AFTER, now))?.unreadable
    }

    /// The newest proof of a database.
    pub(super) fn newest(&self, config: &DatabaseConfig) -> Option<Proof> {
        self.known(config)?.newest
    }

    /// What is to be done next with a database.
    pub(super) fn turn(&self, config: &DatabaseConfig, proving: &Arc<Proving>, now: Moment) -> Turn {
        let mut all = self.lock();
        let Some(known) = all.get_mut(&config.source()).filter(|known| known.place == config.place()) else {
            return Turn::Read(now);
        };
        known.forget_the_future(now);
        let read = match known.read_at {
            Some(at) if known.unreadable.is_none() => at.after(AFRESH),
            _ => {
                let again = known.read_again.unwrap_or(now);
                if !known.is_unreadable_for(BLIND_AFTER, now) {
                    return Turn::Read(again);
                }
                again
            }
        };
        if !proving.here {
            return Turn::Read(read);
        }
        let at = match &known.due {
            Some((by, at)) if Arc::ptr_eq(by, proving) => *at,
            // There may be thousands of databases, so that it is kept.
            _ => {
                let at = due(&proving.schedule(&config.name), known.last, now);
                known.due = Some((Arc::clone(proving), at));
                at
            }
        };
        let at = at.max(known.not_before.unwrap_or(now));
        if now < at && read < at {
            return Turn::Read(read);
        }
        Turn::Prove { at, since: known.last.map_or(known.since, |last| last.at) }
    }

    /// What is known of a database; `None` if nothing was tried yet.
    fn known(&self, config: &DatabaseConfig) -> Option<Known> {
        self.lock().get(&config.source()).filter(|known| known.place == config.place()).cloned()
    }

    /// Forgets the databases that the process doesn't have any more.
    pub(crate) fn keep(&self, is_there: impl Fn(&SourceName) -> bool) {
        self.lock().retain(|source, _| is_there(source));
    }

    /// Notes since when this machine knows that there is no proof.
    pub(super) fn unproved_since(&self, config: &DatabaseConfig, since: Moment) {
        self.change(config, |known| {
            known.since = if known.since == Moment::default() { since } else { known.since.min(since) };
        });
    }

    /// Notes the records of a database, newest first.
    pub(super) fn read(&self, config: &DatabaseConfig, mut proofs: Vec<Proof>, now: Moment) {
        proofs.retain(|proof| proof.at <= now.after(AHEAD));
        self.change(config, |known| {
            known.forget_the_future(now);
            (known.read_at, known.by_hand) = (Some(now), false);
            (known.not_before, known.read_again) = (None, None);
            (known.unread, known.unreadable) = (0, None);
            known.since = if known.since == Moment::default() { now } else { known.since.min(now) };
            let concluded = proofs.iter().find(|proof| !proof.inconclusive).map(|proof| proof.at);
            known.concluded = known.concluded.max(concluded);
            if let (None, Some(oldest)) = (known.concluded, proofs.last()) {
                known.since = known.since.min(oldest.at);
            }
            // What couldn't be recorded is newer than each record.
            let own = known.newest.iter().filter(|own| proofs.iter().all(|proof| proof.at < own.at));
            known.standings = standings(own.chain(&proofs)).into_iter().cloned().collect();
            let newest = proofs.into_iter().next();
            // What couldn't be recorded is newer.
            let is_newer = newest.as_ref().map(|proof| proof.at) > known.last.map(|last| last.at);
            if let Some(newest) = newest.filter(|_| is_newer) {
                known.last = Some(Last::of(&newest));
                known.newest = Some(newest);
            }
        });
    }

    /// Notes that the records can't be read now. They are read again later, and later after each failure. That there is a proof isn't known
    /// then, so its successor is counted from now on if nothing else is known.
    pub(super) fn unread(&self, config: &DatabaseConfig, failure: &Failure, now: Moment) {
        self.change(config, |known| {
            let since = known.unreadable.take().map_or(now, |(since, _)| since.min(now));
            known.unreadable = Some((since, failure.clone()));
            if known.since == Moment::default() {
                known.since = now;
            }
            known.unread = known.unread.saturating_add(1);
            known.read_again = Some(now.after(AGAIN.after(known.unread)));
        });
    }

    /// Notes a proof that ended without a result.
    pub(super) fn passed(&self, config: &DatabaseConfig, now: Moment) {
        self.change(config, |known| {
            let failures = known.last.and_then(|last| last.failures).unwrap_or(0).saturating_add(1);
            known.last = Some(Last { at: now, failures: Some(failures) });
        });
    }

    /// Notes that a database has no point yet. It is looked at again later, and ever more seldom.
    pub(super) fn pass_over(&self, config: &DatabaseConfig, now: Moment) {
        self.change(config, |known| {
            known.empty = known.empty.saturating_add(1);
            known.not_before = Some(now.after(EMPTY.after(known.empty)));
        });
    }

    /// Notes a proof that was made now.
    pub(super) fn proved(&self, config: &DatabaseConfig, proof: Proof) {
        self.change(config, |known| {
            if config.prove.is_none() && !known.by_hand {
                // What a schedule found is too old to tell anything.
                *known = Known { place: known.place.clone(), by_hand: true, ..Known::default() };
            }
            let failures = known.last.and_then(|last| last.failures).unwrap_or(0);
            let last = Last::of(&proof);
            known.last = Some(Last { failures: last.failures.map(|_| failures.saturating_add(1)), ..last });
            if !proof.inconclusive {
                known.concluded = Some(proof.at);
            }
            known.standings = standings(std::iter::once(&proof).chain(&known.standings)).into_iter().cloned().collect();
            known.newest = Some(proof);
            known.empty = 0;
        });
    }

    fn change(&self, config: &DatabaseConfig, change: impl FnOnce(&mut Known)) {
        let mut all = self.lock();
        let known = all.entry(config.source()).or_default();
        if known.place != config.place() {
            *known = Known { place: config.place(), ..Known::default() };
        }
        (known.due, known.successor) = (None, None);
        change(known);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SourceName, Known>> {
        // Whole between any two statements that can panic.
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::database;
    use seawall_core::{Fault, Point};

    fn config() -> DatabaseConfig {
        let text = "prove: { schedule: 0 5 * * * }";
        let tree = seawall_config::document::parse(text).expect("YAML");
        let mut fields = seawall_config::Fields::new("databases", tree).expect("a mapping");
        let proving = Proving::take(&mut fields, "work", "/".as_ref()).expect("read").flatten();
        DatabaseConfig { prove: proving.map(Arc::new), ..database("work") }
    }

    fn at(text: &str) -> Moment {
        format!("2026-11-{text}:00Z").parse().expect("a moment")
    }

    fn proof(moment: &str, inconclusive: bool) -> Proof {
        let fault = Fault { code: "vault.unavailable".into(), object: String::new(), cause: String::new() };
        Proof {
            database: "work".into(),
            engine: "sqlite".into(),
            at: at(moment),
            point: (!inconclusive).then(|| Point { position: "1".into(), moment: at(moment) }),
            faults: if inconclusive { vec![fault] } else { Vec::new() },
            inconclusive,
            ..Proof::default()
        }
    }

    fn away() -> Failure {
        Failure::new(seawall_core::Kind::Denied, "vault.denied", "s3://b", "no right to list", "grant it")
    }

    #[test]
    fn records_are_read_again_and_proofs_are_made_without_them() {
        let (board, config) = (Board::default(), config());
        let proving = config.prove.clone().expect("it is proved");
        let turn = |now| board.turn(&config, &proving, at(now));
        board.read(&config, vec![proof("20T05:10", false)], at("20T12:00"));
        assert_eq!(turn("20T12:00"), Turn::Read(at("20T18:00")), "another host may prove it meanwhile");
        board.read(&config, vec![proof("20T05:10", false)], at("21T04:30"));
        let due = |since| Turn::Prove { at: at("21T05:00"), since: at(since) };
        assert_eq!(turn("21T04:30"), due("20T05:10"), "they are read before the proof");
        // What another host found is known without a restart.
        let failed = Proof { inconclusive: false, ..proof("21T04:31", true) };
        board.read(&config, vec![failed.clone(), proof("20T05:10", false)], at("21T04:40"));
        assert_eq!(board.of(&config).0, Some(failed));
        // They can't be read any more: for an hour they are waited for.
        board.unread(&config, &away(), at("22T05:00"));
        assert_eq!(turn("22T05:00"), Turn::Read(at("22T05:00").after(AGAIN.after(1))));
        board.unread(&config, &away(), at("22T05:59"));
        assert!(matches!(turn("22T05:59"), Turn::Read(_)));
        let Turn::Prove { at: now, .. } = turn("22T06:05") else { panic!("it is proved without them") };
        assert_eq!(now, at("22T06:05"));
        board.proved(&config, proof("22T06:06", false));
        assert!(matches!(turn("22T06:06"), Turn::Read(_)), "until the next proof they are tried again");
        assert_eq!(board.of(&config).0.map(|proof| proof.at), Some(at("22T06:06")));
    }

    #[test]
    fn proofs_that_another_machine_makes_are_read_and_missed() {
        let board = Board::default();
        let made_there = |config: DatabaseConfig| {
            let mut proving = config.prove.as_deref().cloned().expect("it is proved");
            proving.here = false;
            DatabaseConfig { prove: Some(Arc::new(proving)), ..config }
        };
        let config = made_there(config());
        let proving = config.prove.clone().expect("it is proved");
        let turn = |now| board.turn(&config, &proving, at(now));
        assert_eq!(turn("20T12:00"), Turn::Read(at("20T12:00")));
        board.read(&config, vec![proof("20T05:10", false)], at("20T12:00"));
        assert_eq!(board.of(&config).1, Some(at("21T05:00")), "when one is missing");
        let Turn::Read(next) = turn("21T05:01") else { panic!("none is made here") };
        assert!(next <= at("21T05:01"), "they are read each hour");
        board.unread(&config, &away(), at("21T06:00"));
        assert!(matches!(turn("23T06:00"), Turn::Read(_)), "nor without the records");
        assert_eq!(board.of(&config).1, Some(at("21T05:00")));
    }

    #[test]
    fn a_proof_by_hand_is_shown_without_a_schedule() {
        let (board, scheduled) = (Board::default(), config());
        let config = DatabaseConfig { prove: None, ..scheduled.clone() };
        assert_eq!(board.of(&config), (None, None));
        board.read(&scheduled, vec![proof("20T05:10", false)], at("20T12:00"));
        assert_eq!(board.of(&config), (None, None), "its schedule was taken away");
        board.proved(&config, proof("20T13:00", false));
        assert_eq!(board.of(&config), (Some(proof("20T13:00", false)), None));
        board.read(&scheduled, vec![], at("20T14:00"));
        assert_eq!(board.of(&config), (None, None));
    }

    #[test]
    fn each_vault_stands_for_itself() {
        let (board, config) = (Board::default(), config());
        let of = |vault: &str, proof| Proof { vault: vault.into(), ..proof };
        let failed = |vault, moment| of(vault, Proof { inconclusive: false, ..proof(moment, true) });
        board.read(&config, vec![failed("v2", "20T06:00"), failed("v1", "20T05:00")], at("20T12:00"));
        board.proved(&config, of("v2", proof("21T05:00", false)));
        assert_eq!(board.of(&config).0, Some(failed("v1", "20T05:00")));
        board.proved(&config, of("v2", proof("22T05:00", false)));
        assert_eq!(board.of(&config).0, Some(failed("v1", "20T05:00")));
        board.proved(&config, of("v1", proof("23T05:00", false)));
        assert_eq!(board.of(&config).0, Some(of("v1", proof("23T05:00", false))));
    }

    #[test]
    fn what_the_status_shows_of_proofs() {
        let (board, config) = (Board::default(), config());
        assert_eq!(board.of(&config), (None, None), "nothing is known yet");
        board.unread(&config, &away(), at("20T11:00"));
        assert_eq!(board.of(&config), (None, Some(at("20T11:00"))), "the records aren't known, so there may be none");
        assert_eq!(board.unreadable(&config, at("20T11:04")), None, "the store may be away for a moment");
        assert_eq!(board.unreadable(&config, at("20T11:05")), Some((at("20T11:00"), away())));
        assert_eq!(board.known(&config).and_then(|known| known.read_again), Some(at("20T11:00").after(AGAIN.after(1))));
        board.read(&config, Vec::new(), at("20T12:00"));
        assert_eq!(board.of(&config), (None, Some(at("20T11:00"))), "there is none");
        assert_eq!(board.unreadable(&config, at("20T13:05")), None);
        // Another process of this machine knew it before, and so do records of proofs that couldn't be made.
        board.unproved_since(&config, at("20T13:00"));
        board.unproved_since(&config, at("20T09:00"));
        assert_eq!(board.of(&config), (None, Some(at("20T09:00"))));
        board.read(&config, vec![proof("19T07:00", true), proof("18T07:00", true)], at("20T12:00"));
        assert_eq!(board.of(&config), (Some(proof("19T07:00", true)), Some(at("18T07:00"))));
        board.read(&config, vec![proof("19T07:00", true), proof("19T06:00", false)], at("20T12:00"));
        assert_eq!(board.of(&config), (Some(proof("19T07:00", true)), Some(at("20T05:00"))));
        board.proved(&config, proof("20T12:01", false));
        assert_eq!(board.of(&config), (Some(proof("20T12:01", false)), Some(at("21T05:00"))));
        // What couldn't be recorded stays the newest.
        board.proved(&config, proof("20T13:00", true));
        board.proved(&config, proof("20T13:05", true));
        board.read(&config, vec![proof("20T12:01", false)], at("20T13:06"));
        assert_eq!(board.of(&config), (Some(proof("20T13:05", true)), Some(at("21T05:00"))));
        assert_eq!(board.known(&config).and_then(|known| known.last?.failures), Some(2));
        // A failure stands while later proofs say nothing about the objects.
        let failed = Proof { inconclusive: false, ..proof("20T14:00", true) };
        board.proved(&config, failed.clone());
        board.proved(&config, proof("20T15:00", true));
        assert_eq!(board.of(&config).0, Some(failed.clone()));
        assert_eq!(board.newest(&config), Some(proof("20T15:00", true)));
        board.read(&config, vec![failed.clone(), proof("20T12:01", false)], at("20T15:06"));
        assert_eq!(board.of(&config).0, Some(failed));
        board.proved(&config, proof("20T16:00", false));
        assert_eq!(board.of(&config).0, Some(proof("20T16:00", false)));
        // The clock was set back, and another host's is ahead.
        let proving = config.prove.clone().expect("it is proved");
        board.read(&config, vec![proof("25T08:00", false), proof("20T16:00", false)], at("20T16:01"));
        assert_eq!(board.of(&config), (Some(proof("20T16:00", false)), Some(at("21T05:00"))));
        assert_eq!(
            board.turn(&config, &proving, at("21T05:00")),
            Turn::Prove { at: at("21T05:00"), since: at("20T16:00") }
        );
        board.read(&config, vec![proof("25T08:00", false), proof("20T16:00", false)], at("21T05:00"));
        assert_eq!(
            board.turn(&config, &proving, at("21T05:00")),
            Turn::Prove { at: at("21T05:00"), since: at("20T16:00") }
        );
        board.proved(&config, proof("25T09:00", false));
        let Turn::Prove { at: due, .. } = board.turn(&config, &proving, at("21T06:00")) else { panic!("it is read") };
        assert_eq!(due, at("21T06:00"), "the proof of the future counts for nothing");
        // Proofs that were switched off, and another vault.
        assert_eq!(board.of(&DatabaseConfig { prove: None, ..config.clone() }), (None, None));
        let moved = DatabaseConfig { vault: database("other").vault, ..config.clone() };
        assert_eq!(board.of(&moved), (None, None));
        board.keep(|_| false);
        assert_eq!(board.of(&config), (None, None));
    }
}
