//! Moves the hold on the WAL: to the present end, past the first frames, and off a WAL that was copied.
//!
//! [`Source::step_inside`] and [`Source::copy_ahead`] hold the WAL without a break. [`Source::advance`] and [`Source::release`] say
//! what may happen in between.

use rusqlite::Connection;

use crate::checkpoint::{Barrier, Copier};
use crate::connection::{connect, pin, unpin};
use crate::error::Error;
use crate::hold::Hold;
use crate::probe::Step;
use crate::source::Source;

impl Source {
    /// Moves the read lock forward to the present end, and gives what copies everything before it into the database file.
    ///
    /// A new connection takes the lock before the old one lets go, so that the WAL stays pinned. Should somebody copy
    /// everything just then, the new lock doesn't pin what was not captured yet: the position is not `held` after this.
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

    /// A connection for a copier, where the hold is none itself.
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

    /// Moves a hold that stands before the WAL behind its first frames, once there are some.
    ///
    /// A hold that was taken when everything was copied stands before whatever is written next. Nobody can copy then, but
    /// SQLite finds that out only after it has sorted all frames, and an application with SQLite's defaults tries it at each of
    /// its commits. A hold that stands behind a frame says at once how far copying may go.
    pub(crate) fn step_inside(&mut self) -> Result<(), Error> {
        if !self.inside {
            let _former = self.step_forward()?;
        }
        Ok(())
    }

    /// Moves the hold forward, and gives what copies everything before it, if there is something to copy. Other than
    /// with [`Self::advance`] the WAL is held without a break.
    pub(crate) fn copy_ahead(&mut self) -> Result<Option<Copier>, Error> {
        let copying = self.copying()?;
        match self.step_forward()? {
            Some(former) => self.copier(former, copying).map(Some),
            None => Ok(None),
        }
    }

    /// Moves the hold to the present end if there are frames that nobody has copied; the former one.
    ///
    /// While the former hold stands and there are such frames, nobody can restart the WAL. If that is still so once the next
    /// one stands, it stands behind a frame, or nobody can copy any more while it does: it holds the WAL from then on.
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

    /// Takes the write lock without writing: while the barrier stands, no transaction can commit.
    /// `None` when the application holds the lock for longer than the busy timeout.
    ///
    /// A writer that commits without a pause leaves the lock free for microseconds. SQLite's own waiting, up to 100 ms
    /// between attempts, would hardly ever meet one.
    pub(crate) fn barrier(&self) -> Result<Option<Barrier>, Error> {
        Barrier::take(&self.path, self.busy_timeout, &self.probe, &self.hands)
    }

    /// Lets the WAL go after everything in it was copied: the next commit starts a new generation. The barrier keeps
    /// commits from slipping in.
    pub(crate) fn release(&mut self, _barrier: &Barrier) -> Result<(), Error> {
        self.probe.at(Step::Copied);
        self.inside = false;
        match &self.hold {
            // The new one is there before the old one goes; where it can't be had the WAL stays as it is.
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

    /// Cuts a WAL file that grew huge, if nothing was committed since the barrier; answers whether it did.
    pub(crate) fn cut(&mut self, barrier: Barrier) -> Result<bool, Error> {
        barrier.cut()
    }
}
