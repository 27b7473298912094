//! Takes the log of a server into a vault, as it is written, until it is stopped.
//!
//! A session: connect, learn what the server and the vault have, decide where to begin, stream. Each fault ends the session,
//! and the next one begins where the vault's log ends: nothing but the vault is remembered. The server's slot keeps the log
//! until the vault has it, because it is told "flushed" only behind the store's answer (I1).

use std::sync::Arc;
use std::time::Duration;

use seawall_archive::log::{Cluster, History, Hole, Log, LogError, LogFile, Lsn, TimelineId};
use seawall_core::{Clock, Failure, Kind, Moment, Shutdown};
use seawall_vault::Vault;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use super::decide::{Decision, Facts, Start, decide, following};
use super::stream::{Ended, Mode, Stream};
use super::synchronous::{Named, Waits, named, waits, without_us};
use super::tries;
use crate::client::Connection;
use crate::{Error, Target};

/// How long the server may take for one answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// The SQLSTATE of a slot that another process uses.
const IN_USE: &str = "55006";

/// The SQLSTATE of a log that the server has removed already.
const REMOVED: &str = "58P01";

/// The SQLSTATE of a slot that the server has given up.
const GIVEN_UP: &str = "55000";

/// How the log is received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiveOptions {
    /// The name of the slot.
    pub slot: String,
    /// The shortest time between two ranges.
    pub interval: Duration,
    /// The timeline to receive although the vault has a later one: that is a branch which isn't followed.
    pub timeline: Option<TimelineId>,
    /// Whether the server's commits are to wait for the vault. Then each range is stored at once.
    pub synchronous: bool,
    /// How long commits may wait before that is told.
    pub commit_wait: Duration,
}

impl Default for ReceiveOptions {
    fn default() -> Self {
        let interval = Duration::from_secs(1);
        let commit_wait = Duration::from_secs(30);
        Self { slot: "seawall".to_owned(), interval, timeline: None, synchronous: false, commit_wait }
    }
}

/// How a receiver stands.
#[derive(Debug, Clone, Default)]
pub struct Standing {
    /// Whether the log streams now.
    pub streaming: bool,
    /// The timeline.
    pub timeline: Option<TimelineId>,
    /// Up to here the vault has the log.
    pub durable: Lsn,
    /// When the vault had all of what the server had sent.
    pub durable_at: Option<Moment>,
    /// How far the server's log goes.
    pub server: Lsn,
    /// Why the last session ended, until the next one streams.
    pub failure: Option<Failure>,
    /// When it ended.
    pub failed_at: Option<Moment>,
    /// What is wrong with the server's settings, although the log streams.
    pub warning: Option<Failure>,
    /// Where the log may not go on from what was there before.
    pub seams: Seams,
    /// Since when the vault lacks something that the server had; while nothing streams, since when the server waits for that. `None`
    /// while the server itself is away.
    pub waits_since: Option<Moment>,
    /// When this session had received all that the server had, for the first time.
    pub caught_up_at: Option<Moment>,
    /// The server whose commits wait for this receiver, as far as that is known; `None` where they don't.
    pub holds: Option<Holds>,
}

/// A server whose commits wait for the vault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holds {
    /// Its name, for messages.
    pub server: String,
    /// How long a commit may wait before that is told.
    pub within: Duration,
    /// When they wait.
    pub when: Waits,
    /// Its `synchronous_standby_names` without this receiver.
    pub others: String,
}

/// Where the log may not go on from what was there before. After each of these, the newest base may not lead to the log's end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seams {
    /// The newest hole that this receiver recorded.
    pub hole: Option<Hole>,
    /// How often the log went on elsewhere: on another timeline, at an earlier position, or in a vault that had lost objects.
    pub breaks: u64,
    /// How often the slot was made although the vault had log already.
    pub slots: u64,
}

impl Standing {
    /// Whether a session begins where the log ended. If it doesn't, that is a seam.
    fn begins(&mut self, start: &Start) {
        let goes_on = match self.timeline {
            // A session that was to begin there, and failed, is followed by another one.
            Some(timeline) => {
                let continues = start.continues || start.durable == self.durable;
                timeline == start.timeline && continues && start.durable >= self.durable
            }
            None => start.continues,
        };
        if !goes_on {
            self.seams.breaks += 1;
            (self.timeline, self.durable) = (Some(start.timeline), start.durable);
        }
    }
}

/// Receives the log of one server.
#[derive(Debug)]
pub struct Receiver {
    target: Target,
    vault: Vault,
    pub(super) options: ReceiveOptions,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) standing: watch::Sender<Standing>,
    /// Ends the waits for another try.
    hurries: Notify,
}

/// What the next session has to know of the last one.
#[derive(Debug, Default)]
struct Memory {
    /// The log that follows the vault's was removed.
    removed: bool,
    /// The slot was given up.
    given_up: bool,
    /// The last session asked for the log from where the slot keeps it.
    from_slot: bool,
    /// The session asks for a segment that the vault has, to compare it.
    compares: bool,
    /// The server has no such segment any more.
    nothing_to_compare: bool,
}

impl Memory {
    /// Learns from a refusal; false if that is known already, or tells nothing.
    fn learn(&mut self, sqlstate: Option<&str>) -> bool {
        if std::mem::take(&mut self.compares) && sqlstate == Some(REMOVED) {
            self.nothing_to_compare = true;
            return true;
        }
        let (removed, given_up) = (sqlstate == Some(REMOVED), sqlstate == Some(GIVEN_UP));
        // What the slot should keep isn't there: another one has to be made.
        let given_up = given_up || removed && self.from_slot;
        let new = removed && !self.removed || given_up && !self.given_up;
        self.removed |= removed;
        self.given_up |= given_up;
        new
    }
}

impl Receiver {
    /// A receiver of the log of `target` into `vault`.
    pub fn new(target: Target, vault: Vault, options: ReceiveOptions, clock: Arc<dyn Clock>) -> Self {
        let standing = watch::Sender::new(Standing::default());
        Self { target, vault, options, clock, standing, hurries: Notify::new() }
    }

    /// Has it try again at once, if it waits after a failure.
    pub(in crate::physical) fn hurry(&self) {
        self.hurries.notify_waiters();
    }

    /// Waits after so many failures in a row, of which the last one may pass by itself (`passes`) or not. Returns whether to go on.
    pub(in crate::physical) async fn pause(&self, failures: u32, passes: bool, shutdown: &Shutdown) -> bool {
        let commits_wait = self.standing.borrow().holds.is_some();
        tokio::select! {
            () = shutdown.graceful() => false,
            () = self.hurries.notified() => true,
            () = tokio::time::sleep(tries::wait(failures, passes, commits_wait)) => true,
        }
    }

    /// Tells how it stands, from now on.
    pub fn standing(&self) -> watch::Receiver<Standing> {
        self.standing.subscribe()
    }

    /// Receives until a stop is asked for. What came until then is in the vault when this returns, unless the stop is at once.
    /// Faults that may pass are waited for.
    ///
    /// # Errors
    /// When trying again can't help: another cluster's vault, other content in the vault, wrong settings or rights.
    pub async fn run(&self, shutdown: &Shutdown) -> Result<(), Failure> {
        // Failures in a row that pass by themselves, and others.
        let (mut passing, mut others, mut memory) = (0_u32, 0_u32, Memory::default());
        loop {
            let ended = tokio::select! {
                biased;
                () = shutdown.immediate() => return Ok(()),
                ended = self.session(shutdown, &mut memory) => ended,
            };
            let Err(error) = ended else { return Ok(()) };
            let (busy, streamed) = (error.sqlstate() == Some(IN_USE), self.standing.borrow().streaming);
            let waits = busy || matches!(error, Error::Log(LogError::Demoted { .. } | LogError::Behind { .. }));
            let vanished = matches!(error, Error::Log(LogError::Vanished { .. }));
            let learnt = memory.learn(error.sqlstate());
            self.waits(matches!(error, Error::Archive(_) | Error::Log(_)));
            let failure = Failure::from(error);
            if !(failure.kind.may_pass() || busy || learnt) {
                self.standing.send_modify(|standing| standing.streaming = false);
                return Err(failure);
            }
            // Each gap that the server can't fill is learnt of by itself.
            if streamed || learnt {
                (passing, others) = (0, 0);
            }
            let failures = if waits { &mut others } else { &mut passing };
            *failures = failures.saturating_add(1);
            let failures = *failures;
            tracing::warn!(code = failure.code, cause = failure.cause, failures, "the log isn't received");
            let now = self.clock.now();
            self.standing.send_modify(|standing| {
                standing.streaming = false;
                standing.seams.breaks += u64::from(vanished);
                (standing.failure, standing.failed_at) = (Some(failure), Some(now));
            });
            if !self.pause(failures, !waits, shutdown).await {
                return Ok(());
            }
        }
    }

    /// Nothing streams now: what is committed waits, if the server is there (`is_there`) and the vault is the reason. While the server is
    /// away, nothing is known of its commits.
    fn waits(&self, is_there: bool) {
        let now = self.clock.now();
        self.standing.send_modify(|standing| {
            standing.waits_since = is_there.then(|| standing.waits_since.unwrap_or(now));
        });
    }

    async fn session(&self, shutdown: &Shutdown, memory: &mut Memory) -> Result<(), Error> {
        let opening = async {
            let mut connection = Connection::open_stream(&self.target).await?;
            let prepared = self.prepare(&mut connection, memory).await?;
            Ok::<_, Error>((connection, prepared))
        };
        let (mut connection, (log, mut start, mut history)) = tokio::select! {
            biased;
            // Nothing came yet.
            () = shutdown.graceful() => return Ok(()),
            opened = opening => opened?,
        };
        loop {
            let compares = !memory.nothing_to_compare;
            memory.compares = compares && start.continues && start.durable == start.from;
            let is_old = start.timeline < history.timeline;
            let mut stream = Stream::begin(self, &mut connection, &log, &start, Mode { compares, is_old }).await?;
            let ended = stream.run(shutdown).await;
            memory.compares = stream.only_compares();
            // Another server, or the next segment, may have something to compare.
            memory.nothing_to_compare &= !stream.came();
            match ended? {
                Ended::Stopped => {
                    connection.close().await;
                    return Ok(());
                }
                Ended::Switched(switch) => {
                    tracing::info!(timeline = switch.timeline.number(), at = %switch.position, "the server is on another timeline");
                    // A standby that was promoted has commits of its own from now on.
                    self.bounded(self.learn(&mut connection)).await?;
                    let newest = history.timeline.max(switch.timeline);
                    history = self.histories(&mut connection, &log, newest).await?;
                    start = following(&history, start.timeline, switch.position, log.cluster().segment_size);
                    self.standing.send_modify(|standing| standing.begins(&start));
                }
            }
        }
    }

    /// What the server and the vault have, and where the stream begins.
    async fn prepare(&self, connection: &mut Connection, memory: &mut Memory) -> Result<(Log, Start, History), Error> {
        let identity = self.bounded(connection.identify()).await?;
        let server = Cluster { system: identity.system, segment_size: self.bounded(connection.segment_size()).await? };
        // Before the vault is asked: while it is away, it must be known whether commits wait for it.
        self.bounded(self.learn(connection)).await?;
        self.waits(true);
        let log = Log::claim(&self.vault, server).await?;
        let contents = log.contents().await?;
        // A demoted server's histories must not be looked for first: it may have none.
        let is_left =
            |newest: &TimelineId| *newest > identity.timeline && self.options.timeline != Some(identity.timeline);
        let history = match contents.newest().filter(is_left) {
            Some(_) => History::first(identity.timeline),
            None => self.histories(connection, &log, identity.timeline).await?,
        };
        let has_log = contents.timelines.values().any(|held| !held.spans.is_empty());
        let kept = self.bounded(self.slot(connection, identity.flushed, memory, has_log)).await?;
        let facts = Facts {
            server,
            history: &history,
            flushed: identity.flushed,
            contents: &contents,
            removed: memory.removed,
            kept,
            follows: self.options.timeline,
        };
        let start = match decide(&facts) {
            Decision::Stream(start) => start,
            Decision::Demoted { newest, switch } => return Err(self.demoted(identity.timeline, newest, switch)),
            Decision::Behind { ours } => return Err(self.behind(identity.flushed, ours)),
        };
        let mut lost = None;
        if let Some((timeline, from, to)) = start.hole {
            let cause = "the server removed it before the vault had it".to_owned();
            let hole = Hole { timeline, start: from, end: to, at: self.clock.now(), cause };
            log.put_hole(&hole).await?;
            lost = Some(hole);
            tracing::error!(from = %from, to = %to, "a hole: the server removed this part of its log before the vault had it");
        }
        // In one step, so that one base answers every seam that this session begins with.
        self.standing.send_modify(|standing| {
            standing.begins(&start);
            standing.server = identity.flushed;
            standing.seams.hole = lost.or(standing.seams.hole.take());
        });
        let from_slot = start.begins_at(kept, server.segment_size);
        memory.from_slot = std::mem::take(&mut memory.removed) && from_slot;
        Ok((log, start, history))
    }

    /// Takes the history files of a timeline and of those that it came from into the vault. Without them a recovery would stop
    /// on an older timeline.
    async fn histories(&self, connection: &mut Connection, log: &Log, timeline: TimelineId) -> Result<History, Error> {
        if timeline.number() == 1 {
            return Ok(History::first(timeline));
        }
        let history = self.one_history(connection, log, timeline).await?;
        for ancestor in history.ancestors.iter().filter(|ancestor| ancestor.timeline.number() > 1) {
            if log.history(ancestor.timeline).await?.is_some() {
                continue;
            }
            match self.one_history(connection, log, ancestor.timeline).await {
                // A server that began on a later timeline has no older histories, and a recovery of this one needs none.
                Err(Error::Log(LogError::NoHistory { timeline, .. })) => {
                    tracing::warn!(
                        timeline = timeline.number(),
                        "the server lacks the history file of an older timeline"
                    );
                }
                stored => drop(stored?),
            }
        }
        Ok(history)
    }

    async fn one_history(
        &self,
        connection: &mut Connection,
        log: &Log,
        timeline: TimelineId,
    ) -> Result<History, Error> {
        let content =
            self.bounded(connection.timeline_history(timeline)).await.map_err(|error| match error.sqlstate() {
                // Not its log is removed, but this file.
                Some(REMOVED) => {
                    let (vault, later) = (self.server(), "the server's log on it".to_owned());
                    Error::Log(LogError::NoHistory { vault, timeline, later })
                }
                _ => error,
            })?;
        let history = History::parse(timeline, &content);
        let history = history.map_err(|cause| Error::Protocol { object: self.target.to_string(), cause })?;
        log.put_file(LogFile::History(timeline), content.into()).await?;
        Ok(history)
    }

    /// Has the slot that keeps the log for us. Returns from where on it keeps it. A new one is a seam if the vault has log (`has_log`),
    /// whatever becomes of this session.
    async fn slot(
        &self,
        connection: &mut Connection,
        flushed: Lsn,
        memory: &mut Memory,
        has_log: bool,
    ) -> Result<Lsn, Error> {
        let name = &self.options.slot;
        let found = connection.slot(name).await?;
        if let Some(restart) = found.and_then(|slot| slot.restart).filter(|_| !memory.given_up) {
            return Ok(restart);
        }
        if found.is_some() {
            // The server gave it up: it keeps nothing.
            connection.drop_slot(name).await?;
        }
        connection.make_slot(name).await?;
        memory.given_up = false;
        self.standing.send_modify(|standing| standing.seams.slots += u64::from(has_log));
        tracing::info!(slot = name, "the slot was made");
        let made = connection.slot(name).await?;
        Ok(made.and_then(|slot| slot.restart).unwrap_or(flushed))
    }

    /// Learns what the server's settings lack, and whether its commits wait for this receiver.
    async fn learn(&self, connection: &mut Connection) -> Result<(), Error> {
        let found = Settings::of(connection, self.options.synchronous).await?;
        self.knows(&found);
        Ok(())
    }

    /// Takes note of a server's settings. They may change while the log streams.
    pub(in crate::physical) fn knows(&self, found: &Settings) {
        let warning = settings(self.options.synchronous, found, &self.server());
        let is_known = self.standing.borrow().warning.as_ref() == warning.as_ref();
        if let Some(failure) = warning.as_ref().filter(|_| !is_known) {
            tracing::warn!(code = failure.code, next = failure.next, "{failure}");
        }
        // A standby's list has no effect.
        let list = found.waits_for.as_deref().filter(|_| !found.is_standby);
        let holds = list.and_then(|list| {
            let (server, within) = (self.server(), self.options.commit_wait);
            Some(Holds { server, within, when: waits(list)?, others: without_us(list) })
        });
        self.standing.send_modify(|standing| (standing.warning, standing.holds) = (warning, holds));
    }

    /// The name of its slot.
    pub(in crate::physical) fn slot_name(&self) -> &str {
        &self.options.slot
    }

    /// Whether the server's commits are to wait for the vault.
    pub(in crate::physical) fn is_synchronous(&self) -> bool {
        self.options.synchronous
    }

    pub(super) async fn bounded<T>(&self, answer: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        match timeout(PATIENCE, answer).await {
            Ok(answer) => answer,
            Err(_) => Err(self.silent(PATIENCE)),
        }
    }

    /// The server sends nothing any more.
    pub(super) fn silent(&self, after: Duration) -> Error {
        let cause = format!("no answer within {} seconds", after.as_secs());
        Error::Connection { server: self.target.to_string(), cause }
    }

    /// The server's name, for messages.
    pub(super) fn server(&self) -> String {
        self.target.to_string()
    }

    pub(super) fn demoted(&self, own: TimelineId, newest: TimelineId, switch: Option<Lsn>) -> Error {
        let (own, newest) = (own.number(), newest.number());
        let left = switch.map_or_else(
            || format!("timeline {newest} in the vault didn't come from it"),
            |switch| format!("timeline {newest} left it at {switch}"),
        );
        let server = self.server();
        Error::Log(LogError::Demoted { server, cause: format!("it is on timeline {own}, and {left}") })
    }

    fn behind(&self, flushed: Lsn, ours: Lsn) -> Error {
        let cause = format!("its log ends at {flushed}, and the vault has it up to {ours}");
        Error::Log(LogError::Behind { server: self.server(), cause })
    }
}

/// What a server says of itself.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Its `max_slot_wal_keep_size`; `None` where it has no such setting.
    kept: Option<String>,
    /// Its `synchronous_standby_names`, if that matters.
    waits_for: Option<String>,
    /// Whether it is a standby, if that matters.
    is_standby: bool,
}

impl Settings {
    /// Asks a server. `synchronous` says whether its commits are to wait.
    pub(in crate::physical) async fn of(connection: &mut Connection, synchronous: bool) -> Result<Self, Error> {
        let kept = connection.setting("max_slot_wal_keep_size").await?;
        if !synchronous {
            return Ok(Self { kept, ..Self::default() });
        }
        let waits_for = connection.setting("synchronous_standby_names").await?;
        let is_standby = match connection.setting("in_hot_standby").await? {
            Some(setting) => setting,
            // Before version 14, each transaction of a standby is read-only, and few others are.
            None => connection.setting("transaction_read_only").await?.unwrap_or_default(),
        };
        Ok(Self { kept, waits_for, is_standby: is_standby == "on" })
    }
}

/// The code of a server whose commits don't wait for the vault, though they are meant to.
pub(in crate::physical) const NOT_SYNCHRONOUS: &str = "postgres.not-synchronous";

/// What is wrong with a server's settings. Pure.
pub(in crate::physical) fn settings(synchronous: bool, found: &Settings, server: &str) -> Option<Failure> {
    let Settings { kept, waits_for, is_standby } = found;
    let told = |code, cause: &str, next: &str| Some(Failure::new(Kind::Refused, code, server, cause, next));
    if synchronous && *is_standby {
        let cause = "commits don't wait for the vault: the server is a standby, and its primary doesn't wait for what it sends on";
        let next = "name the primary, or set `synchronous: false`";
        return told(NOT_SYNCHRONOUS, cause, next);
    }
    let list = waits_for.as_deref().unwrap_or_default();
    let named = named(list);
    if synchronous && named != Some(Named::Ours) {
        let cause = match named {
            None => "its commits don't wait for the vault: synchronous_standby_names doesn't name seawall",
            Some(_) => {
                "its commits may not wait for the vault: synchronous_standby_names has *, so that any other standby is enough"
            }
        };
        let next = match list.trim().is_empty() || list.trim() == "*" {
            true => {
                "as a superuser: ALTER SYSTEM SET synchronous_standby_names = 'seawall'; SELECT pg_catalog.pg_reload_conf(); or set \
                 `synchronous: false`"
                    .to_owned()
            }
            false => {
                format!("name seawall beside the others in synchronous_standby_names, which is {list}; or set `synchronous: false`")
            }
        };
        return told(NOT_SYNCHRONOUS, cause, &next);
    }
    if kept.as_deref() == Some("-1") {
        let cause = "max_slot_wal_keep_size is -1: while the vault is away, the server keeps its log without a bound, until its disk is full";
        let next = "as a superuser: ALTER SYSTEM SET max_slot_wal_keep_size = '10GB'; SELECT pg_catalog.pg_reload_conf(); choose what its disk can spare";
        return told("postgres.slot-unbounded", cause, next);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_does_not_go_on_is_a_seam() {
        let id = |number| TimelineId::new(number).expect("a timeline");
        let start = |timeline, durable, continues| Start {
            timeline: id(timeline),
            from: Lsn::new(0),
            durable: Lsn::new(durable),
            continues,
            hole: None,
        };
        for (before, start, expected) in [
            (None, start(1, 0, true), 0),
            // The first session of a process may begin behind a promotion.
            (None, start(2, 100, false), 1),
            (Some(1), start(1, 100, true), 0),
            // Another process stored more meanwhile.
            (Some(1), start(1, 120, true), 0),
            (Some(1), start(1, 99, true), 1),
            (Some(1), start(1, 120, false), 1),
            (Some(1), start(2, 100, false), 1),
            (Some(2), start(1, 100, true), 1),
        ] {
            let mut standing = Standing { timeline: before.map(id), durable: Lsn::new(100), ..Standing::default() };
            standing.begins(&start);
            assert_eq!(standing.seams.breaks, expected, "{before:?} {start:?}");
            // What is known now isn't another seam at the next try.
            standing.begins(&start);
            assert_eq!(standing.seams.breaks, expected, "{before:?} {start:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn commits_do_not_wait_for_a_long_pause_and_a_person_ends_it() {
        let target = Target::parse("postgresql://x@db/", &seawall_vault::Environment::default()).expect("a URL");
        let store = seawall_vault::memory::MemoryStore::new();
        let vault = Vault::new(Arc::new(store), seawall_vault::Policy::default());
        let receiver = Receiver::new(target, vault, ReceiveOptions::default(), Arc::new(seawall_core::SystemClock));
        let shutdown = Shutdown::new();
        let paused = async |passes: bool| {
            let begun = tokio::time::Instant::now();
            assert!(receiver.pause(99, passes, &shutdown).await);
            begun.elapsed().as_secs()
        };
        assert_eq!((paused(false).await, paused(true).await), (600, 30));
        let holds = Holds { server: "s".into(), within: Duration::ZERO, when: Waits::Always, others: String::new() };
        receiver.standing.send_modify(|standing| standing.holds = Some(holds));
        assert_eq!(paused(false).await, 30);
        let hurry = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            receiver.hurry();
        };
        assert_eq!(tokio::join!(paused(false), hurry).0, 5);
        // Nothing of that is left for the next one.
        receiver.hurry();
        assert_eq!(paused(false).await, 30);
        shutdown.begin();
        assert!(!receiver.pause(1, true, &shutdown).await);
    }

    #[test]
    fn what_settings_lack() {
        for (synchronous, kept, waits_for, is_standby, expected) in [
            (false, Some("-1"), None, false, Some("postgres.slot-unbounded")),
            (false, Some("10GB"), None, false, None),
            // A server from before version 13 has no such setting.
            (false, None, None, false, None),
            (true, Some("10GB"), None, false, Some("postgres.not-synchronous")),
            (true, Some("10GB"), Some(""), false, Some("postgres.not-synchronous")),
            (true, Some("10GB"), Some("other, seawall2"), false, Some("postgres.not-synchronous")),
            (true, Some("10GB"), Some("other, seawall"), false, None),
            (true, Some("10GB"), Some("ANY 1 (*)"), false, Some("postgres.not-synchronous")),
            (true, Some("10GB"), Some("seawall"), true, Some("postgres.not-synchronous")),
            (true, Some("-1"), Some("seawall"), false, Some("postgres.slot-unbounded")),
        ] {
            let [kept, waits_for] = [kept, waits_for].map(|setting: Option<&str>| setting.map(str::to_owned));
            let found = Settings { kept, waits_for, is_standby };
            let told = settings(synchronous, &found, "s").map(|failure| failure.code);
            assert_eq!(told, expected, "{synchronous} {found:?}");
        }
    }
}
