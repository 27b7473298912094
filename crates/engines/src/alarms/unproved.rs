//! Since when this machine knows that a database has no proof: a small file beside its silence, so that a process that restarts
//! again and again doesn't begin anew each time.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::path::Path;

use seawall_core::Moment;
use serde::{Deserialize, Serialize};

use super::silence::{content, make_folder, replace};

/// The version of the file; see docs/formats.md.
const FORMAT: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
struct Unproved {
    format: u32,
    since: Moment,
}

/// The moment that a file holds; `None` for a file that is missing or can't be understood, and for a moment of the future. Blocks.
pub(super) fn read(file: &Path, now: Moment) -> Option<Moment> {
    let (bytes, _) = content(file)?;
    let unproved: Unproved = serde_json::from_slice(&bytes).ok()?;
    (unproved.format == FORMAT && unproved.since <= now).then_some(unproved.since)
}

/// The moment that a file holds, or else `now`, which is noted. The folder is made only where it is Seawall's alone (`own_folder`): that
/// of a database that is away isn't. Blocks.
pub(super) fn begin(file: &Path, own_folder: bool, now: Moment) -> Moment {
    if let Some(since) = read(file, now) {
        return since;
    }
    let bytes = serde_json::to_vec(&Unproved { format: FORMAT, since: now }).unwrap_or_default();
    let made = if own_folder { make_folder(file) } else { Ok(()) };
    if let Err(error) = made.and_then(|()| replace(file, &bytes)) {
        tracing::debug!(file = %file.display(), %error, "since when there is no proof can't be noted");
    }
    now
}

/// Forgets the moment: there is a proof. Blocks.
pub(super) fn end(file: &Path) {
    let _none_or_gone = std::fs::remove_file(file);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_outlives_a_process_and_ends_with_a_proof() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = folder.path().join("data/state");
        let file = state.join("unproved.json");
        let at = |seconds: i64| Moment::from_millis(seconds * 1000);
        assert_eq!(read(&file, at(5)), None);
        assert_eq!((begin(&file, false, at(5)), read(&file, at(9))), (at(5), None));
        assert!(!folder.path().join("data").exists(), "a database that is away leaves no folders");
        assert_eq!((begin(&file, true, at(5)), read(&file, at(9))), (at(5), Some(at(5))));
        let begin = |now| begin(&file, false, now);
        assert_eq!(begin(at(9)), at(5));
        // The clock was set back.
        assert_eq!((read(&file, at(4)), begin(at(4)), begin(at(9))), (None, at(4), at(4)));
        end(&file);
        assert_eq!(read(&file, at(9)), None);
        for damage in ["", "{", r#"{"format":2,"since":"1970-01-01T00:00:00Z"}"#] {
            std::fs::write(&file, damage).expect("written");
            assert_eq!(read(&file, at(9)), None, "{damage}");
        }
    }
}
