//! Moves the hold on the WAL: to the present end, past the first frames, and off a WAL that was copied.
//!
//! [`Source::step_inside`] and [`Source::copy_ahead`] take the new lock before they drop the old one, and no process can
//! restart the WAL in between. With [`Source::advance`] and [`Source::release`] a process can; each says when.

use rusqlite::Connection;

use crate::checkpoint::{Barrier, Copier};
use crate::connection::{connect, pin, unpin};
use crate::error::Error;
use crate::hold::Hold;
use crate::probe::Step;
use crate::source::Source;

impl Source {
    /// Moves the read lock forward to the present end. Returns a copier for all frames before it.
    ///
    /// A new connection takes the lock before the old one drops its lock, so the WAL stays pinned. But if another process
    /// copies all frames just then, the new lock doesn't pin the frames that were not captured yet. So the position is
    /// not `held` after this.
    pub(crate) fn advance(&mut self) -> Result<Copier, Error> {
        let next = connect(&self.path, self.busy_timeout)?;
        let copying = self.copying()?;
        self.probe.at(Step::Advancing);
        pin(&self.path, &next)?;
        self.probe.at(Step::Advancing);
        let next = Hold::of(next, &self.hands, &self.probe, false);
        self.inside = false;
        let former = std::mem::replace(&mut self.hold, next);
        self.copier(former, copying)
    }

    /// A connection for a copier, if the hold isn't a connection itself.
    fn copying(&self) -> Result<Option<Connection>, Error> {
        match &self.hold {
            Hold::Grip(_) => connect(&self.path, self.busy_timeout).map(Some),
            Hold::Reader(_) => Ok(None),
        }
    }

    fn copier(&self, former: Hold, copying: Option<Connection>) -> Result<Copier, Error> {
        let (connection, grip) = match (former, copying) {
            (Hold::Reader(connection), _) => (connection, None),
            (Hold::Grip(grip), Some(connection)) => (connection, Some(grip)),
            (Hold::Grip(_), None) => return Err(Error::Internal("a hold changed while it was looked at".to_owned())),
        };
        Ok(Copier::new(&self.path, connection, grip, self.busy_timeout, &self.probe, &self.hands))
    }

    /// Moves the hold from before the WAL to behind its first frames, as soon as the WAL has frames.
    ///
    /// A hold that was taken when all frames were copied stands before the next frame. It prevents all copying. SQLite
    /// notices that only after it has sorted all frames, and an application with SQLite's defaults tries to copy at each
    /// commit. A hold behind a frame tells SQLite at once how far it may copy.
    pub(crate) fn step_inside(&mut self) -> Result<(), Error> {
        if !self.inside {
            let _former = self.step_forward()?;
        }
        Ok(())
    }

    /// Moves the hold forward. Returns a copier for all frames before it; `None` if there are none to copy. Unlike with
    /// [`Self::advance`], the WAL is held without a break.
    pub(crate) fn copy_ahead(&mut self) -> Result<Option<Copier>, Error> {
        let copying = self.copying()?;
        match self.step_forward()? {
            Some(former) => self.copier(former, copying).map(Some),
            None => Ok(None),
        }
    }

    /// Moves the hold to the present end, if the WAL has frames that aren't copied yet. Returns the old hold.
    ///
    /// While uncopied frames exist, the old hold prevents a restart of the WAL. If some still exist once the new hold is
    /// taken, the new hold is enough: it stands behind a frame, or it prevents all copying.
    fn step_forward(&mut self) -> Result<Option<Hold>, Error> {
        self.check_identity()?;
        let Some(salts) = self.uncopied()? else { return Ok(None) };
        let next = connect(&self.path, self.busy_timeout)?;
        self.probe.at(Step::Advancing);
        pin(&self.path, &next)?;
        self.probe.at(Step::Advancing);
        let next = Hold::of(next, &self.hands, &self.probe, false);
        self.check_identity()?;
        if self.uncopied()? != Some(salts) {
            return Ok(None);
        }
        self.inside = true;
        Ok(Some(std::mem::replace(&mut self.hold, next)))
    }

    /// Takes the write lock without writing. Until the barrier is dropped, no transaction can commit.
    /// `None` when the application holds the lock for longer than the busy timeout. See [`Barrier::take`].
    pub(crate) fn barrier(&self) -> Result<Option<Barrier>, Error> {
        Barrier::take(&self.path, self.busy_timeout, &self.probe, &self.hands)
    }

    /// Releases the WAL after all its frames were copied: the next commit starts a new generation. The barrier prevents
    /// commits meanwhile.
    pub(crate) fn release(&mut self, _barrier: &Barrier) -> Result<(), Error> {
        self.probe.at(Step::Copied);
        self.inside = false;
        match &self.hold {
            // The new grip is taken before the old one is dropped. If the new one can't be taken, the WAL stays held.
            Hold::Grip(_) => {
                if let Some(grip) = self.hands.grip(true) {
                    self.hold = Hold::Grip(grip);
                }
            }
            Hold::Reader(reader) => {
                unpin(&self.path, reader)?;
                self.probe.at(Step::Released);
                pin(&self.path, reader)?;
            }
        }
        self.probe.at(Step::Released);
        Ok(())
    }

    /// Cuts a WAL file that grew huge, if nothing was committed since the barrier. Returns whether it did.
    pub(crate) fn cut(&mut self, barrier: Barrier) -> Result<bool, Error> {
        barrier.cut()
    }
}
