//! The facts of an alarm that only this machine knows, and where they are.

use std::path::PathBuf;

use seawall_core::{Failure, Moment, Status};

use super::{Facts, Keeper, Limits, alarms, silence};

/// Where a database's facts are on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    /// The folder with the record of its protection; `None` if there is none on this machine.
    pub state: Option<PathBuf>,
    /// The file that says until when its alarms are silenced; `None` if there is no folder for it.
    pub silence: Option<PathBuf>,
}

/// What this machine knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Local {
    /// Bytes that can be written to the disk of the state directory; `None` if that isn't known.
    pub free: Option<u64>,
    /// Until when a person has silenced the database's alarms; a moment that passed ends it.
    pub silenced_until: Option<Moment>,
    /// When the successor of the newest proof is or was due; `None` if the database isn't proved by a schedule, or if that isn't known.
    pub proof_due: Option<Moment>,
}

impl Place {
    /// The place of a database with this state folder, whose name `silence.json` says.
    pub fn in_folder(state: PathBuf) -> Self {
        Self { silence: Some(state.join("silence.json")), state: Some(state) }
    }

    /// Reads the facts. Blocks. A silence that can't be read, or is longer than any can be at `now`, is none.
    pub fn read(&self, now: Moment) -> Local {
        Local {
            free: self.state.as_deref().and_then(seawall_host::free_space),
            silenced_until: self.silence.as_deref().and_then(|file| silence::read(file, now)),
            proof_due: None,
        }
    }

    /// Silences the database's alarms until a moment, or ends the silence. Blocks.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn silence(&self, name: &str, until: Option<Moment>) -> Result<(), Failure> {
        match &self.silence {
            Some(file) => silence::write(file, until),
            None => Err(silence::nowhere(name)),
        }
    }
}

/// The status with its alarms.
pub fn judged(status: Status, keeper: Keeper, database: Judged<'_>, local: Local, now: Moment) -> Status {
    let Judged { is_scheduled, limits } = database;
    let alarms = alarms(&Facts { status: &status, keeper, is_scheduled, local }, limits, now);
    Status { alarms, silenced_until: local.silenced_until.filter(|until| *until > now), ..status }
}

/// What a configuration says of a database that is judged.
#[derive(Debug, Clone, Copy)]
pub struct Judged<'a> {
    /// Whether it is backed up by a schedule.
    pub is_scheduled: bool,
    /// Where its alarms begin.
    pub limits: &'a Limits,
}
