//! What people asked for on the page: each goes on when nobody waits for it any more, and its result is remembered.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use seawall_core::{Clock as _, Failure, Kind, Moment, SystemClock};
use tokio::task::JoinHandle;

/// Errands that are under way at a time.
const AT_A_TIME: usize = 4;

/// Errands that are remembered.
const REMEMBERED: usize = 100;

/// One errand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Errand {
    pub(crate) number: u64,
    /// What was asked for, in a word.
    pub(crate) what: &'static str,
    /// The database's name.
    pub(crate) database: String,
    pub(crate) asked: Moment,
    /// When it ended, and what came of it; `None` while it is under way.
    pub(crate) ended: Option<(Moment, Result<String, Failure>)>,
}

/// The errands of a process.
#[derive(Debug, Default)]
pub(crate) struct Errands(Arc<Mutex<Book>>);

#[derive(Debug, Default)]
struct Book {
    last: u64,
    /// The oldest first.
    all: VecDeque<Errand>,
}

impl Errands {
    /// Begins an errand. Its number, and what ends with it.
    ///
    /// # Errors
    /// `agent.busy` while the same is under way for this database, or too many errands are.
    pub(crate) fn begin(
        &self,
        what: &'static str,
        database: &str,
        work: impl Future<Output = Result<String, Failure>> + Send + 'static,
    ) -> Result<(u64, JoinHandle<()>), Failure> {
        let number = {
            let mut book = self.book();
            let under_way = || book.all.iter().filter(|errand| errand.ended.is_none());
            let cause = if under_way().any(|errand| errand.what == what && errand.database == database) {
                format!("its {what} is under way already")
            } else if under_way().count() >= AT_A_TIME {
                format!("{AT_A_TIME} requests of the page are under way")
            } else {
                String::new()
            };
            if !cause.is_empty() {
                let next = "wait until it is done; the page shows it under Activity";
                return Err(Failure::new(Kind::Refused, "agent.busy", database, cause, next));
            }
            book.last += 1;
            let (number, database, asked) = (book.last, database.to_owned(), SystemClock.now());
            book.all.push_back(Errand { number, what, database, asked, ended: None });
            if book.all.len() > REMEMBERED
                && let Some(oldest) = book.all.iter().position(|errand| errand.ended.is_some())
            {
                book.all.remove(oldest);
            }
            number
        };
        let end = End { book: Arc::clone(&self.0), number };
        let task = tokio::spawn(async move {
            let result = work.await;
            end.with(result);
        });
        Ok((number, task))
    }

    /// The errand with a number, if it is remembered.
    pub(crate) fn get(&self, number: u64) -> Option<Errand> {
        self.book().all.iter().find(|errand| errand.number == number).cloned()
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        // Whole between any two statements that can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Notes the end of an errand, also if its work panics.
struct End {
    book: Arc<Mutex<Book>>,
    number: u64,
}

impl End {
    fn with(&self, result: Result<String, Failure>) {
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        let errand = book.all.iter_mut().find(|errand| errand.number == self.number);
        if let Some(errand) = errand.filter(|errand| errand.ended.is_none()) {
            errand.ended = Some((SystemClock.now(), result));
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.with(Err(crate::process::defect("errand")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn errands_are_few_and_remembered() {
        let errands = Errands::default();
        let begin = |what, database: &str| errands.begin(what, database, std::future::pending());
        let done = errands.begin("sync", "app", async { Ok("done".to_owned()) }).expect("begun");
        done.1.await.expect("ended");
        let errand = errands.get(done.0).expect("it is remembered");
        assert_eq!(errand.ended.map(|(_, result)| result), Some(Ok("done".to_owned())));
        let panics = errands.begin("sync", "app", async { panic!("it was told to") }).expect("begun");
        assert!(panics.1.await.is_err());
        let ended = errands.get(panics.0).and_then(|errand| errand.ended).expect("ended");
        assert_eq!(ended.1.map_err(|failure| failure.code), Err("agent.defect"));
        begin("proof", "app").expect("begun");
        let refused = |what, database: &str| begin(what, database).map(|_| ()).map_err(|failure| failure.code);
        assert_eq!(refused("proof", "app"), Err("agent.busy"));
        for number in 1..AT_A_TIME {
            assert_eq!(refused("proof", &number.to_string()), Ok(()));
        }
        assert_eq!(refused("restore", "app"), Err("agent.busy"));
        assert_eq!(errands.get(99), None);
    }

    #[tokio::test]
    async fn what_is_remembered_is_bounded() {
        let errands = Errands::default();
        let (slow, _) = errands.begin("proof", "app", std::future::pending()).expect("begun");
        for _ in 0..2 * REMEMBERED {
            let (_, task) = errands.begin("sync", "app", async { Ok(String::new()) }).expect("begun");
            task.await.expect("ended");
        }
        assert_eq!(errands.book().all.len(), REMEMBERED);
        assert!(errands.get(slow).is_some() && errands.get(slow + 1).is_none());
    }
}
