//! Hands a database from one engine to the next in the same process, as when its settings change while it runs.
//!
//! Between the end of the old engine and the start of the new one the application may commit, copy its WAL and restart it. So
//! the old engine leaves its hold on the WAL to its successor. The hold ends when the successor has a hold of its own, when
//! the successor ends, or after 10 s. Both engines share their handles on the files.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::sleep;

use crate::grip::Grip;
use crate::hold::KeptFiles;
use crate::untouched::Untouched;

/// How long a hold stays for a successor. A successor that waits for its turn must not prevent the WAL from being emptied.
const LEFT: Duration = Duration::from_secs(10);

/// The handles of all databases of a process, by path. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Handles(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    by_path: HashMap<PathBuf, Weak<Shared>>,
    /// The number of entries at which the entries of databases without an engine are removed.
    full: usize,
}

impl Handles {
    /// The handles of a database for a new engine. An earlier engine's handles, if it still exists.
    pub(crate) fn of(&self, path: &Path) -> Heir {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known.by_path.get(path).and_then(Weak::upgrade);
        let shared = found.unwrap_or_else(|| {
            if known.by_path.len() >= known.full {
                known.by_path.retain(|_, kept| kept.strong_count() > 0);
                known.full = 2 * known.by_path.len() + 64;
            }
            let shared = Arc::<Shared>::default();
            known.by_path.insert(path.to_owned(), Arc::downgrade(&shared));
            shared
        });
        Heir::new(shared)
    }
}

/// The state that the engines of one database share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// Locked while a database is opened, which takes as long as its disk takes.
    files: Arc<Mutex<KeptFiles>>,
    /// What is known of the file from its metadata. Locked for moments only.
    untouched: Arc<Mutex<Untouched>>,
    /// Locked for moments only, because the thread for events asks for it.
    line: Mutex<Line>,
}

/// The engines that share handles, by number, in the order in which they were made.
#[derive(Debug, Default)]
struct Line {
    living: BTreeSet<u64>,
    next: u64,
    /// The hold that an engine left to its successor, with the number of that engine.
    left: Option<(u64, Grip)>,
}

/// One engine's share of the handles on its database.
#[derive(Debug)]
pub(crate) struct Heir {
    shared: Arc<Shared>,
    number: u64,
}

impl Heir {
    /// Adds an engine to those that share `shared`.
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let number = {
            let mut line = shared.line.lock().unwrap_or_else(PoisonError::into_inner);
            line.next += 1;
            let number = line.next;
            line.living.insert(number);
            number
        };
        Self { shared, number }
    }

    /// The handles.
    pub(crate) fn kept(&self) -> &Arc<Mutex<KeptFiles>> {
        &self.shared.files
    }

    /// What is known of the file from outside.
    pub(crate) fn untouched(&self) -> &Arc<Mutex<Untouched>> {
        &self.shared.untouched
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.shared.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Releases the hold that a predecessor left: this engine has a hold of its own.
    pub(crate) fn take_over(&self) {
        self.line().left = None;
    }

    /// Whether a newer engine of this database exists.
    pub(crate) fn has_successor(&self) -> bool {
        self.line().living.last().is_some_and(|newest| *newest != self.number)
    }

    /// Leaves a hold to the successor for at most 10 s. Without a successor the hold is released.
    pub(crate) fn leave(&self, hold: Grip) {
        let Ok(runtime) = Handle::try_current() else { return };
        if !self.has_successor() {
            return;
        }
        self.line().left = Some((self.number, hold));
        let (shared, number) = (Arc::downgrade(&self.shared), self.number);
        runtime.spawn(async move {
            sleep(LEFT).await;
            let Some(shared) = shared.upgrade() else { return };
            let mut line = shared.line.lock().unwrap_or_else(PoisonError::into_inner);
            line.left.take_if(|(left_by, _)| *left_by == number);
        });
    }

    /// Releases the hold that a predecessor left, unless a successor needs it.
    pub(crate) fn let_go(&self) {
        if !self.has_successor() {
            self.line().left = None;
        }
    }
}

impl Drop for Heir {
    fn drop(&mut self) {
        let mut line = self.line();
        let was_newest = line.living.last() == Some(&self.number);
        line.living.remove(&self.number);
        if was_newest {
            line.left = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_of_one_database_share_its_handles_while_one_lives() {
        let handles = Handles::default();
        let first = handles.of(Path::new("/a.db"));
        assert!(!first.has_successor());
        let other = handles.of(Path::new("/b.db"));
        assert!(!Arc::ptr_eq(first.kept(), other.kept()) && !first.has_successor());
        let second = handles.clone().of(Path::new("/a.db"));
        assert!(Arc::ptr_eq(first.kept(), second.kept()));
        assert!(first.has_successor() && !second.has_successor());
        // A successor that never came to run leaves things as they were.
        drop(second);
        assert!(!first.has_successor());
        let third = handles.of(Path::new("/a.db"));
        let kept = Arc::downgrade(third.kept());
        drop(first);
        assert!(!third.has_successor() && kept.upgrade().is_some());
        drop(third);
        assert!(kept.upgrade().is_none());
        for n in 0..1000 {
            drop(handles.of(Path::new(&format!("/{n}.db"))));
        }
        assert!(handles.0.lock().expect("whole").by_path.len() <= 128);
    }
}
