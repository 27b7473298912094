//! Until when a person has silenced the alarms of a database: a small file in its state directory, so that it outlives the
//! process, and works whether one runs or not.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

use seawall_core::{Failure, Kind, Moment};
use serde::{Deserialize, Serialize};

/// The longest silence. What is to be quiet for longer has a severity in the configuration.
const LONGEST_SILENCE: Duration = Duration::from_secs(30 * 86_400);

/// How far the clock of a file's disk may be from this machine's.
const SKEW: Duration = Duration::from_secs(300);

/// The version of the file; see docs/formats.md.
const FORMAT: u32 = 1;

/// More is never read.
const LONGEST_FILE: u64 = 4096;

#[derive(Debug, Serialize, Deserialize)]
struct Silence {
    format: u32,
    until: Moment,
}

/// The end of the silence that a file holds; `None` for a file that is missing, can't be understood or says what no command of `now`
/// or before can have said.
pub(super) fn read(file: &Path, now: Moment) -> Option<Moment> {
    let (bytes, written) = content(file)?;
    let silence: Silence = serde_json::from_slice(&bytes).ok()?;
    if silence.format != FORMAT {
        return None;
    }
    let written = written.duration_since(std::time::UNIX_EPOCH).ok()?;
    bounded(silence.until, Moment::from_millis(i64::try_from(written.as_millis()).ok()?), now)
}

/// The end of a silence that a file of this time has: at most 30 days after it was written. Nothing is believed of a file that was
/// written by a clock that was ahead: otherwise it would silence for as long as that. Pure.
fn bounded(until: Moment, written: Moment, now: Moment) -> Option<Moment> {
    let is_possible = written <= now.after(SKEW) && until <= now.after(LONGEST_SILENCE + SKEW);
    is_possible.then(|| until.min(written.after(LONGEST_SILENCE)))
}

/// Writes the end of a silence, or removes the file. The file belongs to the owner of its folder, so that the process that
/// protects can read it if another user wrote it.
pub(super) fn write(file: &Path, until: Option<Moment>) -> Result<(), Failure> {
    let Some(until) = until else {
        return match std::fs::remove_file(file) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(failed(file, &error)),
            _ => Ok(()),
        };
    };
    let bytes = serde_json::to_vec(&Silence { format: FORMAT, until }).map_err(io::Error::from);
    let written = bytes.and_then(|bytes| {
        make_folder(file)?;
        replace(file, &bytes)
    });
    written.map_err(|error| failed(file, &error))
}

/// What a small file holds, and when it was written; `None` for what is no file, or can't be read.
pub(super) fn content(file: &Path) -> Option<(Vec<u8>, SystemTime)> {
    // The owner of the folder may have put something else there, on which opening or reading would wait.
    if !std::fs::symlink_metadata(file).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    let open = File::open(file).ok()?;
    let written = open.metadata().ok()?.modified().ok()?;
    open.take(LONGEST_FILE).read_to_end(&mut bytes).ok()?;
    Some((bytes, written))
}

/// Makes the folder of a file.
pub(super) fn make_folder(file: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(file.parent().unwrap_or(Path::new("/")))
}

/// Replaces a small file as a whole, in a folder that is there.
pub(super) fn replace(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("/"));
    let owner = std::fs::metadata(folder)?;
    let partial = file.with_extension("tmp");
    // Another user may own the folder. A link that this user planted must neither be written through nor given away, so
    // the file is always a new one.
    match std::fs::remove_file(&partial) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut new = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&partial)?;
    if owner.uid() != new.metadata()?.uid() {
        std::os::unix::fs::fchown(&new, Some(owner.uid()), Some(owner.gid()))?;
    }
    new.write_all(bytes)?;
    new.sync_all()?;
    std::fs::rename(&partial, file)?;
    File::open(folder)?.sync_all()
}

/// The moment at which a silence that begins now ends by itself.
///
/// # Errors
/// When it would last no time, or for longer than 30 days.
pub fn silence_until(name: &str, span: Duration, now: Moment) -> Result<Moment, Failure> {
    if span.is_zero() || span > LONGEST_SILENCE {
        let cause = "alarms are silenced for a time above zero and of at most 30d";
        let next = "give such a time (--for 2h); for longer, set the alarm's severity in the configuration";
        return Err(Failure::new(Kind::Usage, "usage.silence", name, cause, next));
    }
    Ok(now.after(span))
}

fn failed(file: &Path, error: &io::Error) -> Failure {
    let (kind, next) = match error.kind() {
        ErrorKind::PermissionDenied => (Kind::Denied, "run the command as the user that protects the database"),
        _ => (Kind::Unavailable, "make the folder writable"),
    };
    let cause = format!("the silence can't be kept here: {error}");
    Failure::new(kind, "agent.silence", file.display().to_string(), cause, next)
}

/// The failure of a database that has no folder on this machine.
pub(super) fn nowhere(name: &str) -> Failure {
    let cause = "there is no folder for its state on this machine, so no silence can be kept";
    let next = "set STATE_DIRECTORY, XDG_STATE_HOME or HOME";
    Failure::new(Kind::Unavailable, "agent.silence", name, cause, next)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use seawall_core::{Clock as _, SystemClock};

    use super::*;

    #[test]
    fn no_silence_is_longer_than_a_person_can_make_it() {
        let at = |days: i64| Moment::from_millis((1_000 + days) * 86_400_000);
        for (until, written, expected) in [
            (1, 0, Some(1)),
            (30, 0, Some(30)),
            (-1, -2, Some(-1)),
            // Somebody wrote another end, or the clock was ahead.
            (31, 0, None),
            (1_000_000, 0, None),
            (29, -20, Some(10)),
            (20, -40, Some(-10)),
            (29, 1, None),
        ] {
            assert_eq!(bounded(at(until), at(written), at(0)), expected.map(at), "until {until}, written {written}");
        }
    }

    #[test]
    fn it_is_kept_and_ended_and_damage_is_none() {
        let (now, read) = (SystemClock.now(), |file: &Path| read(file, SystemClock.now()));
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("state/silence.json");
        assert_eq!(read(&file), None);
        assert_eq!(write(&file, None), Ok(()));
        let until = now.after(Duration::from_secs(3_600));
        assert_eq!(write(&file, Some(until)), Ok(()));
        assert_eq!(read(&file), Some(until));
        assert_eq!(std::fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o600);
        assert_eq!((write(&file, None), read(&file)), (Ok(()), None));
        let forever = r#"{"format":1,"until":"9999-01-01T00:00:00Z"}"#;
        let long = format!("{}{{\"format\":1,\"until\":\"2026-01-01T00:00:00Z\"}}", " ".repeat(5000));
        for damage in
            ["", "{", "{\"format\":2,\"until\":\"2026-01-01T00:00:00Z\"}", "{\"format\":1,\"until\":5}", forever, &long]
        {
            std::fs::write(&file, damage).expect("written");
            assert_eq!(read(&file), None, "{damage}");
        }
        let victim = folder.path().join("victim");
        std::fs::write(&victim, "precious").expect("written");
        std::os::unix::fs::symlink(&victim, file.with_extension("tmp")).expect("a link");
        assert_eq!((write(&file, Some(until)), read(&file)), (Ok(()), Some(until)));
        assert_eq!(std::fs::read_to_string(&victim).expect("there"), "precious");
        std::fs::remove_file(&file).expect("removed");
        std::os::unix::fs::symlink("/dev/zero", &file).expect("a link");
        assert_eq!(read(&file), None);
        std::fs::remove_file(&file).expect("removed");
        std::fs::create_dir(&file).expect("in the way");
        assert_eq!(write(&file, Some(until)).map_err(|failure| failure.code), Err("agent.silence"));
    }
}
