//! The facts of an alarm that only this machine knows, and where they are.

use std::path::{Path, PathBuf};
use std::time::Duration;

use seawall_core::{Alarm, Failure, Moment, Status};

use super::{Facts, Keeper, Limits, alarms, of_unread_proofs, silence, unproved};

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
    /// For how long the work that the status shows hasn't moved, as far as this process was asked.
    pub unmoved: Duration,
}

impl Place {
    /// The place of a database with this state folder, whose name `silence.json` says.
    pub fn in_folder(state: PathBuf) -> Self {
        Self { silence: Some(state.join("silence.json")), state: Some(state) }
    }

    /// The place of an environment, by its data file: the facts are beside it.
    pub fn beside_data(data: &Path) -> Self {
        let mut silence = data.as_os_str().to_owned();
        silence.push("-seawall-silence.json");
        Self { state: data.parent().map(Path::to_owned), silence: Some(silence.into()) }
    }

    /// The file called `name` in the folder that holds the file of the silence.
    pub fn beside(&self, name: &str) -> Option<PathBuf> {
        let silence = self.silence.as_deref()?;
        let text = silence.file_name()?.to_str()?;
        let stem = text.strip_suffix("silence.json").or_else(|| text.strip_suffix("json"))?;
        Some(silence.with_file_name(format!("{stem}{name}")))
    }

    /// The file that notes where the vaults of the database are that are folders.
    pub fn vault_notes(&self) -> Option<PathBuf> {
        self.beside("vault-place.json")
    }

    /// Since when this machine knows that the database has no proof that says anything; `None` if it doesn't. Blocks.
    pub fn unproved(&self, now: Moment) -> Option<Moment> {
        unproved::read(&self.beside("unproved.json")?, now)
    }

    /// Notes that the database has a proof, or that it has none, and returns since when this machine knows that it has none. Blocks.
    pub fn note_proved(&self, is_proved: bool, now: Moment) -> Moment {
        match (self.beside("unproved.json"), is_proved) {
            (Some(file), true) => unproved::end(&file),
            // The folder of what isn't a file is Seawall's alone.
            (Some(file), false) => return unproved::begin(&file, self.state.is_none(), now),
            (None, _) => {}
        }
        now
    }

    /// Reads the facts. Blocks. A silence that can't be read, or is longer than any can be at `now`, is none.
    pub fn read(&self, now: Moment) -> Local {
        Local {
            free: self.state.as_deref().and_then(seawall_host::free_space),
            silenced_until: self.silence.as_deref().and_then(|file| silence::read(file, now)),
            proof_due: None,
            unmoved: Duration::ZERO,
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

/// A judged status with one more alarm: the records of its proofs can't be read, so its other alarms say nothing of them.
pub fn with_unread_proofs(mut status: Status, failure: &Failure, limits: &Limits, now: Moment) -> Status {
    let alarm = of_unread_proofs(failure, now);
    if let Some(severity) = limits.severity(&alarm.code, alarm.severity) {
        status.alarms.push(Alarm { severity, silenced_until: status.silenced_until, ..alarm });
        status.alarms.sort_by_key(|alarm| std::cmp::Reverse(alarm.severity));
    }
    status
}

/// What a configuration says of a database that is judged.
#[derive(Debug, Clone, Copy)]
pub struct Judged<'a> {
    /// Whether it is backed up by a schedule.
    pub is_scheduled: bool,
    /// Where its alarms begin.
    pub limits: &'a Limits,
}

#[cfg(test)]
mod tests {
    use seawall_core::{Description, Kind, Phase, Severity};

    use super::*;

    #[test]
    fn what_lies_beside_a_silence_has_its_own_name() {
        for (silence, expected) in [
            ("/data/.app.db-seawall/silence.json", "/data/.app.db-seawall/vault-place.json"),
            ("/env/data.mdb-seawall-silence.json", "/env/data.mdb-seawall-vault-place.json"),
            ("/var/lib/seawall/silences/00af.json", "/var/lib/seawall/silences/00af.vault-place.json"),
        ] {
            let place = Place { state: None, silence: Some(silence.into()) };
            assert_eq!(place.vault_notes(), Some(expected.into()));
        }
        assert_eq!(Place::default().vault_notes(), None);
    }

    #[test]
    fn proofs_that_cannot_be_read_are_an_alarm_of_a_severity_that_is_set() {
        let description =
            Description { name: "app".into(), engine: "sqlite", source: None, vault: "s3://b/app".into() };
        let now = Moment::from_millis(61_000);
        let status = Status { silenced_until: Some(now), ..Status::new(description, Phase::Protecting, now) };
        let failure = Failure::new(Kind::Unavailable, "vault.timeout", "s3://b/app", "no answer", "see to the store");
        for (set, expected) in [
            (None, Some(Severity::Warning)),
            (Some(Some(Severity::Critical)), Some(Severity::Critical)),
            (Some(None), None),
        ] {
            let severity = set.map(|severity| ("alarm.proof-unknown", severity)).into_iter().collect();
            let limits = Limits { severity, ..Limits::default() };
            let told = with_unread_proofs(status.clone(), &failure, &limits, now).alarms;
            assert_eq!(told.first().map(|alarm| alarm.severity), expected);
            let said =
                |alarm: &Alarm| alarm.cause.contains("no answer (vault.timeout)") && alarm.next == "see to the store";
            assert!(told.iter().all(|alarm| said(alarm) && alarm.silenced_until == Some(now)), "{told:?}");
        }
    }
}
