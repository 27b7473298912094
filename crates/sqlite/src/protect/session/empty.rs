//! Empties the WAL: when it tries, how often, and what follows from an attempt. One attempt is a seal (`seal`).
//!
//! While writers pause, everything is shipped first. While they write, the WAL is copied in rounds, and its content is
//! shipped from the database file afterwards. If something prevents it, the next attempt is put off, and the hold
//! stays.

use std::time::Duration;

use seawall_core::Phase;
use tokio::time::{Instant, timeout};

use super::{Patience, Session};
use crate::capture::Ahead;
use crate::checkpoint::{Copied, Copier};
use crate::error::Error;
use crate::jobs::blocking;
use crate::seal::{self, Prepared};
use crate::source::Source;
use crate::spool::Draft;
use crate::state::Position;

/// How long the WAL is left alone when it could not be emptied because of the disk.
const PUT_OFF: Duration = Duration::from_secs(30);

/// The result of an attempt to empty the WAL.
enum Attempt {
    /// Everything was copied and let go. Holds the number of bytes.
    Emptied(u64),
    /// The WAL stays as it is, and another attempt now wouldn't help.
    LeftAlone,
    /// Not yet. The part of the WAL that was read may be of use at the next attempt.
    NotNow(Option<Ahead>),
    /// The application held its write lock for longer than Seawall waits.
    Locked,
}

impl Session<'_> {
    /// A copier that copies the WAL into the database file before shipping, if writers write and the WAL is due to be
    /// emptied.
    ///
    /// Only from a proved place: to prove another place, the file may have to be unchanged.
    pub(super) async fn copy_ahead(&self) -> Option<Copier> {
        let position = self.position.filter(|position| position.held && self.patience == Patience::Protecting)?;
        if self.is_put_off(&position) {
            return None;
        }
        let busy = self.facts(&position).busy();
        // The last attempt copied this generation as far as its readers allow, and couldn't release it.
        let stuck = self.emptied.map(|wal| wal.salts);
        let copier = self.on_source(move |source| {
            let fresh = source.wal_header()?.is_some_and(|header| Some(header.salts) != stuck);
            if fresh && source.is_behind(None, busy)? { source.copy_ahead() } else { Ok(None) }
        });
        copier.await.unwrap_or_else(|error| {
            tracing::debug!(database = %self.database.name(), "nothing is copied ahead: {error}");
            None
        })
    }

    /// One round of copying. Returns whether it came further than the last round, or to the end. If not, a reader is in
    /// the way.
    async fn copy_round(&self, copier: Copier) -> Result<bool, Error> {
        let before = self.on_source(|source| source.copied()).await?;
        let copied = blocking(move || copier.copy()).await?;
        Ok(copied != Copied::Part || self.on_source(|source| source.copied()).await? != before)
    }

    /// Empties the WAL while writers write, and ships its content afterwards from the database file. So a page that was
    /// written several times goes into one object, once. Returns whether the WAL was emptied.
    ///
    /// Rounds of copying come before the barrier, so that writers wait for little. The backlog of a fast writer shrinks
    /// from round to round, because each round reads only which pages changed.
    pub(super) async fn empty_busy_wal(&mut self, first: Copier) -> Result<bool, Error> {
        let (mut copier, mut ahead) = (Some(first), None);
        for attempt in 0..seal::ATTEMPTS {
            let Some(position) = self.position.filter(|position| position.held) else { break };
            let began = Instant::now();
            let former = ahead.take();
            let read = self.on_source(move |source| Ahead::read(source, position, former));
            let copy = async {
                match copier.take() {
                    Some(copier) => self.copy_round(copier).await,
                    None => Ok(true),
                }
            };
            let (moved, read) = futures::join!(copy, read);
            match moved {
                Ok(true) => {}
                Ok(false) => {
                    self.emptied = position.wal;
                    break;
                }
                Err(error) => {
                    self.uncopied(error).await?;
                    break;
                }
            }
            let Some(read) = read? else { break };
            match self.seal(position, attempt, Some(read)).await? {
                Attempt::Emptied(bytes) => {
                    self.emptied(bytes, began);
                    return Ok(true);
                }
                // The commits are shipped before any writer waits again.
                Attempt::LeftAlone | Attempt::Locked => break,
                Attempt::NotNow(read) => ahead = read,
            }
            tracing::debug!(database = %self.database.name(), attempt, "the WAL can't be emptied now");
            copier = self.on_source(Source::copy_ahead).await?;
        }
        Ok(false)
    }

    /// Empties the WAL if it is due. A run that takes only one point leaves the WAL as it is: an emptied WAL would be
    /// restarted, and the next point might need a base.
    ///
    /// Most of the WAL is copied into the database file and shipped before the barrier is taken, so that writers wait
    /// for little. The backlog of a fast writer shrinks from attempt to attempt.
    pub(super) async fn empty_wal(&mut self) -> Result<(), Error> {
        for attempt in 0..seal::ATTEMPTS {
            let Some(position) = self.position.filter(|_| self.patience == Patience::Protecting) else { return Ok(()) };
            let put_off = self.is_put_off(&position);
            let limit = self.database.options().wal_limit;
            if put_off && position.wal.is_some_and(|wal| wal.offset > limit) {
                let (path, _) = self.database.place()?;
                return Err(Error::GaveUp { path, limit });
            }
            let idle = position.wal.is_some()
                && self.emptied == position.wal
                && !(attempt == 0 && seal::is_large(self.on_source(Source::wal_size).await?));
            if put_off || idle || attempt == 0 && !self.is_full(&position).await? {
                return Ok(());
            }
            let began = Instant::now();
            let copier = match self.on_source(Source::advance).await {
                Ok(copier) => copier,
                Err(error) => return self.uncopied(error).await,
            };
            self.position = Some(Position { held: false, ..position });
            let before = self.on_source(|source| source.copied()).await?;
            let (copied, shipped) = futures::join!(blocking(move || copier.copy()), self.ship_all());
            shipped?;
            let Some(position) = self.position else { return Ok(()) };
            let copied = match copied {
                Ok(copied) => copied,
                Err(error) => return self.uncopied(error).await,
            };
            if copied == Copied::Part && self.on_source(|source| source.copied()).await? == before {
                // A reader is in the way. Another attempt is useless before the next commit.
                self.emptied = position.wal;
                return Ok(());
            }
            match self.seal(position, attempt, None).await? {
                Attempt::Emptied(bytes) => {
                    self.emptied(bytes, began);
                    return Ok(());
                }
                Attempt::LeftAlone => return Ok(()),
                Attempt::NotNow(_) | Attempt::Locked => {}
            }
            tracing::debug!(database = %self.database.name(), attempt, "the WAL can't be emptied now");
        }
        Ok(())
    }

    /// Counts the emptied WAL, and logs it in Litestream's words, because some programs look for them.
    fn emptied(&self, bytes: u64, began: Instant) {
        self.database.activity().checkpoints.done(bytes, began.elapsed());
        tracing::debug!(database = %self.database.name(), msg = %"checkpoint", mode = %"PASSIVE", bytes, "the WAL was emptied");
    }

    /// One attempt to empty the WAL, of which some may have been read `ahead`. Commits that aren't in the vault yet are
    /// shipped afterwards.
    async fn seal(&mut self, position: Position, attempt: usize, ahead: Option<Ahead>) -> Result<Attempt, Error> {
        let (author, spool) = (self.author(), self.spool.clone());
        let wal = ahead.as_ref().map(Ahead::end).or(position.wal).map_or(0, |wal| wal.offset);
        let price = seal::price(self.is_urgent(wal, &position), attempt, self.bounds);
        let prepare = move |source: &mut Source| seal::prepare(source, &spool, position, author, ahead, price.left);
        let (mut sealing, copier) = match self.on_source(prepare).await? {
            Prepared::NotNow(ahead) => return Ok(Attempt::NotNow(ahead)),
            Prepared::Locked => return Ok(Attempt::Locked),
            Prepared::Unkept(error) => return self.unkept(&error).await,
            Prepared::Ready(ready) => *ready,
        };
        // If everything was copied when the hold moved, the hold doesn't protect frames that aren't captured.
        self.position = Some(Position { held: sealing.holds, ..position });
        let (capture, list) = sealing.last.take().map(|last| (last.capture, last.list)).unzip();
        let keep = blocking(move || list.map(Draft::keep).transpose());
        let work = async { futures::join!(blocking(move || copier.copy()), keep) };
        let (copied, kept) = match timeout(price.wait, work).await {
            Ok((Ok(copied), kept)) => (copied, kept),
            Ok((Err(error), _)) => {
                drop(sealing);
                return self.uncopied(error).await.map(|()| Attempt::LeftAlone);
            }
            Err(_elapsed) => {
                drop(sealing);
                if self.bounds.after_timeout(price) {
                    return Ok(Attempt::NotNow(None));
                }
                self.put_off("the disk takes longer than its users can wait", price.urgent);
                return Ok(Attempt::LeftAlone);
            }
        };
        if let Err(error) = kept {
            drop(sealing);
            return self.unkept(&error).await;
        }
        self.bounds.after_success(price);
        let (after, bytes) = (sealing.after, sealing.after.wal.map_or(0, |wal| wal.offset));
        // If another process prevented our copying, it may have copied everything itself.
        let all = copied == Copied::All || self.on_source(|source| source.to_copy()).await? == Some(0);
        if all {
            // From here on the WAL may be another generation, for which this position proves nothing.
            self.position = Some(Position { held: false, ..position });
            self.on_source(move |source| sealing.finish(source)).await?;
        } else {
            // Another process is in the way: the WAL stays as it is, and no writer waits any longer.
            drop(sealing);
            if price.urgent && copied == Copied::Part {
                self.urgency_put_off = Some(Instant::now() + PUT_OFF);
            }
        }
        match capture {
            Some(capture) if all => self.ship_sealed(capture.copied()).await?,
            Some(capture) => {
                self.forget_list().await?;
                self.ship(capture).await?;
            }
            None => self.position = Some(after),
        }
        if all || copied != Copied::Busy {
            self.emptied = after.wal;
        }
        Ok(match (all, copied) {
            (true, _) => Attempt::Emptied(bytes),
            (false, Copied::Busy) => Attempt::NotNow(None),
            (false, _) => Attempt::LeftAlone,
        })
    }

    /// The WAL can't be copied now. If the error may pass by itself, the WAL and the hold stay as they are.
    async fn uncopied(&mut self, error: Error) -> Result<(), Error> {
        if !error.is_passing() {
            return Err(error);
        }
        self.tell(Phase::Protecting, Some(&error)).await;
        self.put_off("it can't be copied", true);
        Ok(())
    }

    /// The list can't be kept on the local disk: the WAL stays.
    async fn unkept(&mut self, error: &Error) -> Result<Attempt, Error> {
        self.tell(Phase::Protecting, Some(error)).await;
        self.put_off("what was changed last can't be kept on the local disk", true);
        Ok(Attempt::LeftAlone)
    }

    async fn is_full(&self, position: &Position) -> Result<bool, Error> {
        let facts = seal::Facts { file: self.on_source(Source::wal_size).await?, ..self.facts(position) };
        Ok(seal::due(facts) && seal::due(seal::Facts { behind: self.is_behind(0).await?, ..facts }))
    }

    /// The facts that decide whether to empty the WAL, if there are no writes since the last capture.
    fn facts(&self, position: &Position) -> seal::Facts {
        let options = self.database.options();
        seal::Facts {
            captured: position.wal.map_or(0, |wal| wal.offset),
            behind: false,
            threshold: u64::from(options.checkpoint_pages).saturating_mul(u64::from(position.page_size.get())),
            limit: options.wal_limit,
            file: 0,
        }
    }

    /// Whether emptying is put off. At the lower price it no longer is once the higher price is due.
    fn is_put_off(&self, position: &Position) -> bool {
        let wal = position.wal.map_or(0, |wal| wal.offset);
        is_ahead(self.emptying_put_off) && !self.is_urgent(wal, position)
    }

    fn is_urgent(&self, wal: u64, position: &Position) -> bool {
        seal::is_urgent(wal, &self.facts(position)) && !is_ahead(self.urgency_put_off)
    }

    /// Leaves the WAL as it is for a while, either at any price or only at the lower one. Its content is still shipped.
    fn put_off(&mut self, why: &str, urgency: bool) {
        tracing::warn!(database = %self.database.name(), "the WAL is not emptied now: {why}");
        let until = Some(Instant::now() + PUT_OFF);
        self.emptying_put_off = until;
        if urgency {
            self.urgency_put_off = until;
        }
    }
}

fn is_ahead(until: Option<Instant>) -> bool {
    until.is_some_and(|until| Instant::now() < until)
}
