//! Files that killed uploads left behind: seen by listings, removed by later writes.
//!
//! A file counts as left behind a day after it last changed, by the server's own clock: an upload that lives writes to
//! its file all the time. An upload whose file is removed all the same begins again; nothing is lost.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::link::Lease;
use super::wire::Attributes;

/// What the names of files being written end in. No key ends so.
pub(super) const SUFFIX: &str = ".seawall.tmp";

/// How long a file must have been at rest, in seconds.
const REST: u32 = 24 * 60 * 60;

/// The most files that are remembered.
const REMEMBERED: usize = 1000;

/// The most files that one write removes.
const AT_ONCE: usize = 8;

/// Files that may be left behind, by path, with the time of their last change.
#[derive(Debug, Default)]
pub(super) struct Leftovers(Mutex<BTreeMap<String, u32>>);

impl Leftovers {
    fn files(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers a file that a listing of `folder` shows.
    pub(super) fn saw(&self, folder: &str, name: &[u8], attributes: &Attributes) {
        let (Ok(name), Some(modified)) = (std::str::from_utf8(name), attributes.modified) else { return };
        let mut files = self.files();
        // Nothing leads out of the folder: the name comes from the server.
        if files.len() < REMEMBERED && !name.contains('/') && attributes.is_file() == Some(true) {
            files.insert(format!("{folder}/{name}"), modified);
        }
    }

    /// Takes some of the files out that changed long before `now`, the server's time.
    fn due(&self, now: u32) -> Vec<(String, u32)> {
        let mut files = self.files();
        let is_due = |modified: u32| modified.checked_add(REST).is_some_and(|end| end < now);
        let due: Vec<_> =
            files.iter().filter(|(_, at)| is_due(**at)).take(AT_ONCE).map(|(path, at)| (path.clone(), *at)).collect();
        files.retain(|path, _| !due.iter().any(|(other, _)| other == path));
        due
    }

    /// Removes some, after `fresh` was written just now. Best effort.
    pub(super) async fn sweep(&self, lease: &Lease, fresh: &str) {
        if self.files().is_empty() {
            return;
        }
        let Ok(Attributes { modified: Some(now), .. }) = lease.lstat(fresh).await else { return };
        for (path, seen) in self.due(now) {
            if lease.lstat(&path).await.is_ok_and(|there| there.modified == Some(seen)) {
                tracing::debug!(path, "removing what a killed upload left");
                let _ = lease.remove(&path).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_at_rest_for_a_day() {
        let leftovers = Leftovers::default();
        for (name, modified) in [("old", 1000), ("young", 2000), ("future", u32::MAX)] {
            leftovers.files().insert(name.to_owned(), modified);
        }
        assert_eq!(leftovers.due(1000 + REST), []);
        assert_eq!(leftovers.due(1001 + REST), [("old".to_owned(), 1000)]);
        assert_eq!(leftovers.due(1001 + REST), [], "each is tried once");
    }
}
