//! One stretch of the stream: bytes of the log come in, and go into the vault as ranges and segments.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use seawall_archive::log::{Cluster, Line, Log, LogError, LogFile, Lsn, SegmentName, TimelineId};
use seawall_core::{Moment, Shutdown};
use tokio::time::{Instant, sleep_until, timeout};

use super::decide::Start;
use super::marks::Marks;
use super::pace::{Pace, Waiting, pace};
use super::receiver::{ReceiveOptions, Receiver};
use super::tail::{Misfit, Tail};
use crate::Error;
use crate::client::Connection;
use crate::client::replication::{Begun, Streamed, Switch};

/// How long the server may be silent before it is asked whether it lives.
const SILENCE: Duration = Duration::from_secs(60);

/// How long it may take for that answer, and for taking a message.
const ANSWER: Duration = Duration::from_secs(30);

/// How often the server hears of us while we read nothing.
const SIGN_OF_LIFE: Duration = Duration::from_secs(10);

/// How often the vault is looked at again while something is stored.
const LOOK: Duration = Duration::from_secs(10);

/// Complete segments that wait for the store before no more is read: the memory is bounded by that (I5). One comes while another one
/// is stored.
const MOST_SEGMENTS: usize = 1;

/// Microseconds from 1970 to 2000, where PostgreSQL begins to count.
const EPOCH: i64 = 946_684_800_000_000;

/// How a stretch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// A stop was asked for, and everything that came is in the vault.
    Stopped,
    /// The timeline has ended, and all of it is in the vault.
    Switched(Switch),
}

/// What a stretch is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mode {
    /// Whether the segment before is compared, where the vault's log ends at a border.
    pub(super) compares: bool,
    /// Whether the server has a later timeline, so that the end of this one isn't the end of what it has.
    pub(super) is_old: bool,
}

/// Up to where something is stored, and the ranges that aren't needed then.
type Storing = Pin<Box<dyn Future<Output = Result<Lsn, LogError>> + Send>>;

/// A stretch of the stream.
pub(super) struct Stream<'a> {
    receiver: &'a Receiver,
    connection: &'a mut Connection,
    log: &'a Log,
    timeline: TimelineId,
    tail: Tail,
    /// Up to here the vault has the log.
    durable: Lsn,
    /// The end of what was stored last.
    stored: Lsn,
    /// Whether it begins with a segment that the vault has, to be compared.
    compares: bool,
    /// When the vault was looked at again.
    looked: Instant,
    /// Whether anything came. Before that the server isn't told of a position: it would move the slot there.
    came: bool,
    storing: Option<Storing>,
    last_range: Option<Instant>,
    heard: Instant,
    /// When the server last said how far its log goes.
    heard_at: Moment,
    /// Whether the server has a later timeline.
    is_old: bool,
    said: Instant,
    asked: bool,
    /// Whether the server ended the timeline.
    ended: bool,
    /// Where the next timeline begins, if the server told at once.
    switch: Option<Switch>,
    /// When the server's log went how far.
    marks: Marks,
    /// Whether messages of the server are read.
    reads: bool,
    /// When all was received that the server had, for the first time.
    caught_up_at: Option<Moment>,
}

impl<'a> Stream<'a> {
    pub(super) async fn begin(
        receiver: &'a Receiver,
        connection: &'a mut Connection,
        log: &'a Log,
        start: &Start,
        mode: Mode,
    ) -> Result<Self, Error> {
        let known = Known::of(log, start, mode.compares).await?;
        let slot = &receiver.options.slot;
        let begun = receiver.bounded(connection.start_stream(slot, known.from, start.timeline)).await?;
        let durable = match known.from.after(known.bytes.len() as u64) {
            Some(end) if start.continues && !known.bytes.is_empty() => start.durable.min(end),
            _ => start.durable,
        };
        let known_from = known.from;
        let first = Start { from: known.from, ..*start };
        let tail = Tail::new(&first, log.cluster().segment_size, known.bytes, known.ranges);
        let (ended, switch) = match begun {
            Begun::Streaming => (false, None),
            Begun::Ended(switch) => (true, switch),
        };
        let now = Instant::now();
        let marks = {
            let standing = receiver.standing.borrow();
            Marks::behind(standing.server, standing.waits_since)
        };
        Ok(Self {
            receiver,
            connection,
            log,
            timeline: start.timeline,
            tail,
            durable,
            stored: Lsn::default(),
            compares: known_from < start.from,
            looked: now,
            came: false,
            storing: None,
            last_range: None,
            heard: now,
            heard_at: receiver.clock.now(),
            is_old: mode.is_old,
            said: now,
            asked: false,
            ended,
            switch,
            marks,
            reads: true,
            caught_up_at: None,
        })
    }

    /// Whether only the segment that was to be compared was asked for yet.
    pub(super) fn only_compares(&self) -> bool {
        self.compares && !self.came
    }

    /// Whether anything of the log came.
    pub(super) fn came(&self) -> bool {
        self.came
    }

    /// Streams until the timeline ends or a stop is asked for.
    pub(super) async fn run(&mut self, shutdown: &Shutdown) -> Result<Ended, Error> {
        loop {
            let ending = self.ended || shutdown.requested();
            let later = self.store(ending);
            if ending && self.storing.is_none() {
                return self.end().await;
            }
            let reads = !ending && self.tail.segments() < MOST_SEGMENTS;
            if reads && !std::mem::replace(&mut self.reads, reads) {
                // While nothing was read, the server's silence meant nothing.
                (self.heard, self.asked) = (Instant::now(), false);
            }
            self.reads = reads;
            let (wakes, silent) = self.wakes(reads);
            tokio::select! {
                biased;
                stored = stored(&mut self.storing), if self.storing.is_some() => {
                    self.storing = None;
                    self.stored = stored?;
                    self.durable = self.durable.max(self.stored);
                    self.tell(false).await?;
                    self.look().await?;
                }
                () = shutdown.graceful(), if !ending => {}
                message = self.connection.streamed(), if reads => self.take(message?).await?,
                () = sleep_until(later.unwrap_or(wakes)), if later.is_some() => {}
                () = sleep_until(wakes) => {
                    if silent && self.asked {
                        return Err(self.receiver.silent(SILENCE + ANSWER));
                    }
                    self.asked = silent;
                    self.tell(silent).await?;
                }
            }
        }
    }

    /// Begins to store what is due. Returns when the next range is, if it isn't yet.
    fn store(&mut self, ending: bool) -> Option<Instant> {
        let waiting = Waiting {
            busy: self.storing.is_some(),
            segments: self.tail.segments(),
            bytes: self.tail.waiting(),
            since: self.last_range.map(|at| at.elapsed()),
        };
        let (log, timeline) = (self.log.clone(), self.timeline);
        let ReceiveOptions { interval, synchronous, .. } = self.receiver.options;
        match pace(waiting, if synchronous { Duration::ZERO } else { interval }, ending) {
            Pace::Rest => None,
            Pace::Later(wait) => Some(Instant::now() + wait),
            Pace::Segment => {
                let complete = self.tail.next_segment()?;
                self.storing = Some(Box::pin(async move {
                    log.put_whole(complete.name, complete.bytes).await?;
                    // The segment is in the vault: ranges that stay do no harm.
                    if let Err(error) = log.remove_ranges(timeline, &complete.ranges).await {
                        tracing::warn!(%error, "ranges of a complete segment stay in the vault");
                    }
                    Ok(complete.end)
                }));
                None
            }
            Pace::Range => {
                let (start, bytes) = self.tail.next_range()?;
                self.last_range = Some(Instant::now());
                self.storing = Some(Box::pin(async move {
                    let end = start.after(bytes.len() as u64).unwrap_or(start);
                    put_range(&log, timeline, start, bytes).await?;
                    Ok(end)
                }));
                None
            }
        }
    }

    /// Looks at the vault again, while something is stored (I15): what this session found or stored there must still be there.
    async fn look(&mut self) -> Result<(), Error> {
        if self.looked.elapsed() < LOOK {
            return Ok(());
        }
        self.looked = Instant::now();
        let vault = self.log.vault();
        match Cluster::of(vault).await? {
            Some(cluster) if cluster == self.log.cluster() => {}
            Some(theirs) => {
                let (object, ours) = (vault.url().to_owned(), self.log.cluster().system);
                return Err(LogError::OtherCluster { object, theirs: theirs.system, ours }.into());
            }
            None => return Err(LogError::Vanished { vault: vault.url().to_owned(), from: self.stored }.into()),
        }
        let size = self.log.cluster().segment_size;
        let start = Lsn::new(self.stored.byte().saturating_sub(1)).segment_start(size);
        if !self.log.is_there(self.timeline, start, self.stored).await? {
            return Err(LogError::Vanished { vault: vault.url().to_owned(), from: start }.into());
        }
        self.is_followed().await
    }

    /// Ends the stretch if a server was promoted that left this timeline before what is stored here, and ships its log into the same
    /// vault: this server's log leads nowhere then.
    async fn is_followed(&mut self) -> Result<(), Error> {
        let Some(next) = self.timeline.number().checked_add(1).and_then(TimelineId::new) else { return Ok(()) };
        // The server itself has left an old timeline: where it did, it says.
        if self.is_old || self.receiver.options.timeline == Some(self.timeline) {
            return Ok(());
        }
        let switch = self.log.history(next).await?.and_then(|history| history.switch_of(self.timeline));
        match switch.filter(|switch| *switch < self.durable) {
            Some(switch) => Err(self.receiver.demoted(self.timeline, next, Some(switch))),
            None => Ok(()),
        }
    }

    async fn take(&mut self, message: Streamed) -> Result<(), Error> {
        (self.heard, self.asked) = (Instant::now(), false);
        if !matches!(message, Streamed::End) {
            self.heard_at = self.receiver.clock.now();
        }
        match message {
            Streamed::Log { start, end, bytes } => {
                self.tail.append(start, &bytes).map_err(|misfit| self.misfit(start, misfit))?;
                self.came = true;
                self.show(end);
                Ok(())
            }
            Streamed::Alive { end, reply } => {
                self.show(end);
                if reply { self.tell(false).await } else { Ok(()) }
            }
            Streamed::End => {
                self.ended = true;
                Ok(())
            }
        }
    }

    /// When the next sign of life is due, and whether the server's silence is the reason.
    fn wakes(&self, reads: bool) -> (Instant, bool) {
        match (reads, self.asked) {
            (false, _) => (self.said + SIGN_OF_LIFE, false),
            (true, false) => (self.heard + SILENCE, true),
            (true, true) => (self.heard + SILENCE + ANSWER, true),
        }
    }

    /// Tells the server how far the vault has the log.
    async fn tell(&mut self, reply: bool) -> Result<(), Error> {
        self.said = Instant::now();
        self.show(Lsn::default());
        if self.ended {
            return Ok(());
        }
        let durable = if self.came { self.durable } else { Lsn::default() };
        let received = if self.came { self.tail.received().max(durable) } else { durable };
        let now = self.receiver.clock.now().as_millis().saturating_mul(1000).saturating_sub(EPOCH);
        match timeout(ANSWER, self.connection.feedback(received, durable, now, reply)).await {
            Ok(said) => said,
            Err(_) => Err(self.receiver.silent(ANSWER)),
        }
    }

    /// Shows how the receiver stands. `server` is how far the server's log goes, as it just said.
    fn show(&mut self, server: Lsn) {
        // Of what the server did since its last message, nothing is known.
        self.marks.add(server, self.heard_at);
        let durable_at = self.marks.passed(self.durable, self.heard_at).filter(|_| !self.is_old);
        let waits_since = self.marks.waits_since();
        if server > Lsn::default() && self.tail.received() >= server {
            self.caught_up_at.get_or_insert(self.heard_at);
        }
        let caught_up_at = self.caught_up_at;
        self.receiver.standing.send_modify(|standing| {
            standing.streaming = true;
            (standing.failure, standing.failed_at) = (None, None);
            standing.timeline = Some(self.timeline);
            standing.durable = self.durable;
            standing.server = standing.server.max(server);
            standing.durable_at = durable_at.or(standing.durable_at);
            standing.waits_since = waits_since;
            standing.caught_up_at = caught_up_at;
        });
    }

    async fn end(&mut self) -> Result<Ended, Error> {
        if !self.ended {
            self.tell(false).await?;
            let _ = timeout(ANSWER, self.connection.end_stream()).await;
            return Ok(Ended::Stopped);
        }
        let switch = match self.switch {
            Some(switch) => Some(switch),
            None => self.receiver.bounded(self.connection.end_stream()).await?,
        };
        let confused = |cause: String| Error::Protocol { object: self.receiver.server(), cause };
        match switch {
            // What is before the next timeline must have come.
            Some(switch) if self.tail.received() < switch.position => {
                let (received, position) = (self.tail.received(), switch.position);
                Err(confused(format!(
                    "the server ended its timeline at {received}, and the next one begins at {position}"
                )))
            }
            Some(switch) => Ok(Ended::Switched(switch)),
            None => Err(confused("the server ended the stream and named no next timeline".to_owned())),
        }
    }

    fn misfit(&self, at: Lsn, misfit: Misfit) -> Error {
        match misfit {
            Misfit::Elsewhere { expected } => Error::Protocol {
                object: self.receiver.server(),
                cause: format!("the server sent its log from {at}, and {expected} was expected"),
            },
            Misfit::Differs { segment } => Error::Log(LogError::Conflict {
                object: format!("the segment at {segment} in {}", self.log.vault().url()),
                cause: format!("the bytes that {} sends for it differ", self.receiver.server()),
            }),
        }
    }
}

/// Stores a range. Where another host stored one of the same name, which can't be read here, the bytes are stored in two parts, which
/// have other names.
async fn put_range(log: &Log, timeline: TimelineId, start: Lsn, bytes: Bytes) -> Result<(), LogError> {
    let half = bytes.len() / 2;
    match (log.put_range(timeline, start, bytes.clone()).await, start.after(half as u64)) {
        (Err(LogError::Vault(seawall_vault::Error::Sealing { .. })), Some(middle)) if half > 0 => {
            log.put_range(timeline, start, bytes.slice(..half)).await?;
            log.put_range(timeline, middle, bytes.slice(half..)).await?;
            Ok(())
        }
        (stored, _) => stored.map(drop),
    }
}

/// What the vault has of the segment with which a stretch begins: the same bytes must come again.
#[derive(Default)]
struct Known {
    /// The begin of the segment.
    from: Lsn,
    bytes: Vec<u8>,
    ranges: Vec<(Lsn, Lsn)>,
}

impl Known {
    /// Asks the vault. `compares` says that the segment before is of use, where the vault ends with a whole one.
    async fn of(log: &Log, start: &Start, compares: bool) -> Result<Self, Error> {
        let mut known = Self { from: start.from, ..Self::default() };
        if !start.continues {
            return Ok(known);
        }
        if start.durable == start.from {
            // Without a byte in common, the log of a copy that went its own way would be taken for the continuation.
            let before = if compares { Self::before(log, start).await? } else { None };
            return Ok(before.unwrap_or(known));
        }
        known.ranges = log.ranges(start.timeline, start.from).await?;
        let mut reached = start.from;
        let together = known.ranges.iter().take_while(|(from, to)| {
            let follows = *from <= reached;
            reached = reached.max(*to);
            follows
        });
        // What is behind a gap is stored again.
        let together: Vec<(Lsn, Lsn)> = together.copied().collect();
        if together.len() < known.ranges.len() {
            tracing::warn!(segment = %start.from, "ranges of the last segment are gone, and are stored again");
        }
        match log.joined(start.timeline, start.from, &together).await {
            Ok((bytes, length)) => {
                known.bytes = bytes;
                known.bytes.truncate(length);
            }
            // The host's key for them is gone, or another receiver removed them: this segment is stored anew from its begin.
            Err(LogError::Vault(error))
                if error.is_not_found() || matches!(error, seawall_vault::Error::Sealing { .. }) =>
            {
                tracing::warn!(%error, "the ranges of the last segment can't be read, and are stored again");
            }
            Err(error) => return Err(error.into()),
        }
        Ok(known)
    }

    /// The segment before, if the vault has it and this host can read it.
    async fn before(log: &Log, start: &Start) -> Result<Option<Self>, Error> {
        let size = log.cluster().segment_size;
        let Some(from) = start.from.byte().checked_sub(size.bytes().into()).map(Lsn::new) else { return Ok(None) };
        let name = LogFile::Segment(SegmentName::of(start.timeline, from, size));
        let fetched = match log.fetch(name, Line::Of(start.timeline)).await {
            Ok(fetched) => fetched,
            Err(LogError::Absent { .. } | LogError::Hole { .. }) => return Ok(None),
            Err(LogError::Vault(seawall_vault::Error::Sealing { .. })) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let unpack = move || {
            let mut bytes = Vec::new();
            fetched.write_to(&mut bytes, std::path::Path::new("segment"))?;
            Ok::<_, Error>(bytes)
        };
        Ok(Some(Self { from, bytes: seawall_core::blocking(unpack).await?, ranges: Vec::new() }))
    }
}

/// Waits for what is being stored.
async fn stored(storing: &mut Option<Storing>) -> Result<Lsn, LogError> {
    match storing {
        Some(storing) => storing.await,
        None => std::future::pending().await,
    }
}
