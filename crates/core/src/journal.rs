//! What a process does now and what it did, for people who ask: backups, proofs, restores and requests.
//!
//! It is kept in memory and bounded: of each kind the newest tasks. A task that is dropped before its end, for example because the
//! process stops, is in the journal as one that was given up.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Clock as _, Failure, Gauge, LastError, Moment, Progress, SystemClock, Underway};

/// Past tasks that are kept of each kind.
const KEPT: usize = 40;

/// The longest text of a task that is kept, in bytes.
const LONGEST: usize = 2000;

/// What a task does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskKind {
    /// Ships what is committed.
    Sync,
    /// Backs up a server, or one of its databases.
    Backup,
    /// Restores into a place that is thrown away, and checks the result.
    Proof,
    /// Restores.
    Restore,
    /// Pins a point.
    Pin,
    /// Removes a pin.
    Unpin,
    /// Silences alarms, or ends the silence.
    Silence,
    /// Starts protection.
    Start,
    /// Stops protection.
    Stop,
    /// Takes a database in.
    Register,
    /// Lets a database go.
    Unregister,
}

impl TaskKind {
    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Backup => "backup",
            Self::Proof => "proof",
            Self::Restore => "restore",
            Self::Pin => "pin",
            Self::Unpin => "unpin",
            Self::Silence => "silence",
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Register => "register",
            Self::Unregister => "unregister",
        }
    }
}

/// How a task ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It did what it was to do; in a few words for people.
    Done(String),
    /// It failed, or was refused.
    Failed(LastError),
    /// It was dropped before its end.
    GivenUp,
}

/// A task of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Its number: a later task has a larger one.
    pub number: u64,
    /// What it does.
    pub kind: TaskKind,
    /// The database's name.
    pub database: String,
    /// What else there is to say of what was asked for: a target, a moment. May be empty.
    pub about: String,
    /// When it began.
    pub began: Moment,
    /// Where it is; `None` if it is over, or doesn't tell.
    pub progress: Option<Underway>,
    /// When and how it ended; `None` while it runs.
    pub ended: Option<(Moment, Outcome)>,
}

/// The tasks of a process. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Journal(Arc<Mutex<Book>>);

#[derive(Debug, Default)]
struct Book {
    last: u64,
    running: Vec<(Task, Arc<Gauge>)>,
    /// The oldest first.
    past: VecDeque<Task>,
}

impl Journal {
    fn book(&self) -> MutexGuard<'_, Book> {
        // Whole between any two statements that can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A task begins.
    pub fn begin(&self, kind: TaskKind, database: &str, about: &str) -> Running {
        let (gauge, began) = (Arc::<Gauge>::default(), SystemClock.now());
        let mut book = self.book();
        book.last += 1;
        let number = book.last;
        let (database, about) = (short(database), short(about));
        let task = Task { number, kind, database, about, began, progress: None, ended: None };
        book.running.push((task, Arc::clone(&gauge)));
        Running { journal: self.clone(), number, gauge, outcome: Outcome::GivenUp }
    }

    /// The tasks that run, and those that are over, each the newest first.
    pub fn tasks(&self) -> (Vec<Task>, Vec<Task>) {
        let book = self.book();
        let running = book.running.iter().rev();
        let running = running.map(|(task, gauge)| Task { progress: gauge.now(), ..task.clone() }).collect();
        (running, book.past.iter().rev().cloned().collect())
    }

    /// How many tasks began, and how many are over. Both differ after any change but progress.
    pub fn counts(&self) -> (u64, u64) {
        let book = self.book();
        (book.last, book.last - book.running.len() as u64)
    }

    /// The task with a number, if it isn't forgotten.
    pub fn task(&self, number: u64) -> Option<Task> {
        let (running, past) = self.tasks();
        running.into_iter().chain(past).find(|task| task.number == number)
    }

    fn end(&self, number: u64, outcome: Outcome) {
        let now = SystemClock.now();
        let mut book = self.book();
        let Some(place) = book.running.iter().position(|(task, _)| task.number == number) else { return };
        let (task, _) = book.running.remove(place);
        let kind = task.kind;
        book.past.push_back(Task { ended: Some((now, outcome)), ..task });
        if book.past.iter().filter(|task| task.kind == kind).count() > KEPT
            && let Some(oldest) = book.past.iter().position(|task| task.kind == kind)
        {
            book.past.remove(oldest);
        }
    }
}

/// A task that runs. It is over when this is dropped.
#[derive(Debug)]
#[must_use = "the task is over when this is dropped"]
pub struct Running {
    journal: Journal,
    number: u64,
    gauge: Arc<Gauge>,
    outcome: Outcome,
}

impl Running {
    /// Its number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Where its progress goes.
    pub fn progress(&self) -> Arc<dyn Progress> {
        Arc::clone(&self.gauge) as Arc<dyn Progress>
    }

    /// Notes the end. `told` says in a few words what was done.
    pub fn end<T>(mut self, result: &Result<T, Failure>, told: impl FnOnce(&T) -> String) {
        self.outcome = match result {
            Ok(done) => Outcome::Done(short(&told(done))),
            Err(failure) => {
                let error = LastError::new(failure, SystemClock.now());
                Outcome::Failed(LastError { message: short(&error.message), next: short(&error.next), ..error })
            }
        };
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.journal.end(self.number, std::mem::replace(&mut self.outcome, Outcome::GivenUp));
    }
}

/// A text of bounded length.
fn short(text: &str) -> String {
    let mut end = text.len().min(LONGEST);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let cut = if end < text.len() { "…" } else { "" };
    format!("{}{cut}", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    fn failure() -> Failure {
        Failure::new(Kind::Refused, "stub.refused", "app", "ä".repeat(LONGEST), "wait")
    }

    #[test]
    fn tasks_run_and_end() {
        let journal = Journal::default();
        let (one, two) =
            (journal.begin(TaskKind::Sync, "app", ""), journal.begin(TaskKind::Restore, "shop", "/back.db"));
        let (first, second) = (one.number(), two.number());
        two.progress().begin("pages", Some(10));
        two.progress().advance(4);
        let (running, past) = journal.tasks();
        assert_eq!(running.iter().map(|task| task.number).collect::<Vec<_>>(), [second, first]);
        assert_eq!(running[0].progress.as_ref().map(|underway| underway.done_bytes), Some(4));
        assert!(past.is_empty() && running[0].about == "/back.db");
        assert_eq!(journal.counts(), (2, 0));
        one.end(&Ok(7), |seven| format!("did {seven}"));
        two.end(&Err::<(), _>(failure()), |()| String::new());
        drop(journal.begin(TaskKind::Proof, "app", ""));
        assert_eq!(journal.counts(), (3, 3));
        let (running, past) = journal.tasks();
        assert!(running.is_empty());
        let outcomes: Vec<_> = past.iter().filter_map(|task| task.ended.as_ref()).map(|(_, outcome)| outcome).collect();
        let [Outcome::GivenUp, Outcome::Failed(error), Outcome::Done(done)] = outcomes[..] else {
            panic!("{outcomes:?}")
        };
        assert_eq!((error.code.as_str(), error.next.as_str(), done.as_str()), ("stub.refused", "wait", "did 7"));
        assert!(error.message.len() <= LONGEST + 3 && error.message.ends_with('…'));
        assert_eq!(journal.task(first).map(|task| task.kind), Some(TaskKind::Sync));
        assert_eq!(journal.task(99), None);
    }

    /// A script that syncs all day pushes no proof out.
    #[test]
    fn of_each_kind_the_newest_are_kept() {
        let journal = Journal::default();
        journal.begin(TaskKind::Proof, "app", "").end(&Ok(()), |()| String::new());
        for number in 0..10 * KEPT {
            journal.begin(TaskKind::Sync, &number.to_string(), "").end(&Ok(()), |()| String::new());
        }
        let (_, past) = journal.tasks();
        assert_eq!(past.len(), KEPT + 1);
        assert_eq!(past[0].database, (10 * KEPT - 1).to_string());
        assert_eq!(past[KEPT].kind, TaskKind::Proof);
    }
}
