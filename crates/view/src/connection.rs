//! What a file of SQLite shows of a view, and when it changes.
//!
//! A transaction begins when SQLite takes a SHARED lock, and sees one snapshot until it lets go. New transactions of the
//! vault, and another moment, count from the next lock on. SQLite keeps pages between its transactions, and notices by the
//! change counter in the header whether they still hold: each snapshot has its own.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use seawall_core::{Failure, Kind, Moment, When};
use seawall_sqlite::{Reader, Snapshot};

use crate::live::Live;

/// Where the versions of the header's format are: 1 is a rollback journal, 2 a WAL.
const FORMATS: std::ops::Range<usize> = 18..20;
/// Where the change counter is.
const COUNTER: std::ops::Range<usize> = 24..28;
/// Where the counter is for which the size in the header is right. If it is another, SQLite asks the file for its size.
const VALID_FOR: std::ops::Range<usize> = 92..96;

/// The last error of a file. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trouble(Arc<Mutex<Option<Failure>>>);

impl Trouble {
    /// The last error, if there was one.
    pub(crate) fn last(&self) -> Option<Failure> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, failure: &Failure) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure.clone());
    }
}

/// What a connection shows.
#[derive(Debug, Clone)]
enum Shows {
    /// The newest state, as it comes.
    Newest,
    /// One point, and the moment that was asked for.
    Past(Arc<Snapshot>, String),
}

/// One open file.
#[derive(Debug)]
pub struct Connection {
    live: Live,
    reader: Reader,
    shows: Shows,
    /// What is shown from the next transaction on.
    next: Option<Shows>,
    locked: bool,
    counter: u32,
    /// The last page, because SQLite reads the first page in parts.
    last: Option<(u32, Arc<[u8]>)>,
    trouble: Trouble,
    clock: fn() -> Moment,
}

/// Whether a read got all that it asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Got {
    /// All of it.
    All,
    /// The file ends before; the rest is zeros.
    Less,
}

impl Connection {
    /// Opens the newest state of a vault, to follow it. Blocks.
    ///
    /// # Errors
    /// Those of [`seawall_sqlite::View::at`].
    pub fn newest(live: Live, clock: fn() -> Moment) -> Result<Self, Failure> {
        let snapshot = live.begin(clock())?;
        Ok(Self::new(live, snapshot, Shows::Newest, clock))
    }

    /// Opens one point that was found, and stays there.
    pub fn at(live: Live, snapshot: Arc<Snapshot>, clock: fn() -> Moment) -> Self {
        let moment = snapshot.point().moment.to_string();
        Self::new(live, snapshot.clone(), Shows::Past(snapshot, moment), clock)
    }

    /// Opens the point that a text names, as [`Connection::set_time`] takes it. Blocks.
    ///
    /// # Errors
    /// Those of [`Connection::set_time`].
    pub fn at_time(live: Live, text: &str, clock: fn() -> Moment) -> Result<Self, Failure> {
        let when = when(text, clock())?;
        if when == When::Latest {
            return Self::newest(live, clock);
        }
        let snapshot = live.runtime().block_on(live.view().at(&when, clock()))?;
        let shows = Shows::Past(snapshot.clone(), text.trim().to_owned());
        Ok(Self::new(live, snapshot, shows, clock))
    }

    fn new(live: Live, snapshot: Arc<Snapshot>, shows: Shows, clock: fn() -> Moment) -> Self {
        let reader = live.view().reader(snapshot);
        Self {
            live,
            reader,
            shows,
            next: None,
            locked: false,
            counter: 1,
            last: None,
            trouble: Trouble::default(),
            clock,
        }
    }

    /// The size of the file in bytes.
    pub fn size(&self) -> u64 {
        let snapshot = self.reader.snapshot();
        u64::from(snapshot.pages()) * u64::from(snapshot.page_size())
    }

    /// Reads into `out` from an offset on. Blocks.
    ///
    /// # Errors
    /// Those of [`Reader::page`].
    pub fn read(&mut self, offset: u64, out: &mut [u8]) -> Result<Got, Failure> {
        let size = u64::from(self.reader.snapshot().page_size());
        let mut at = offset;
        let mut rest = &mut *out;
        while !rest.is_empty() {
            if at >= self.size() {
                rest.fill(0);
                return Ok(Got::Less);
            }
            let page = u32::try_from(at / size).unwrap_or(u32::MAX).saturating_add(1);
            let within = usize::try_from(at % size).unwrap_or(0);
            let bytes = self.page(page)?;
            let from = bytes.get(within..).unwrap_or_default();
            let count = from.len().min(rest.len());
            let (here, behind) = rest.split_at_mut(count);
            here.copy_from_slice(&from[..count]);
            (rest, at) = (behind, at + count as u64);
        }
        Ok(Got::All)
    }

    fn page(&mut self, number: u32) -> Result<Arc<[u8]>, Failure> {
        if let Some((last, bytes)) = &self.last
            && *last == number
        {
            return Ok(bytes.clone());
        }
        let found = self.live.runtime().block_on(self.reader.page(number));
        let found = found.inspect_err(|failure| self.trouble.note(failure))?;
        let size = usize::try_from(self.reader.snapshot().page_size()).unwrap_or(0);
        let mut bytes = found.map_or_else(|| vec![0; size], |found| found.to_vec());
        if number == 1 {
            present(&mut bytes, self.counter);
        }
        let bytes: Arc<[u8]> = bytes.into();
        self.last = Some((number, bytes.clone()));
        Ok(bytes)
    }

    /// A transaction begins: what it sees doesn't change until it ends. Blocks for a moment if it is time to look for new
    /// transactions.
    pub fn lock(&mut self) {
        if self.locked {
            return;
        }
        self.take_next();
        if matches!(self.shows, Shows::Newest) {
            self.live.freshen();
        }
        let snapshot = match &self.shows {
            Shows::Past(snapshot, _) => Some(snapshot.clone()),
            Shows::Newest => self.live.view().newest(),
        };
        if let Some(snapshot) = snapshot {
            self.turn_to(snapshot);
        }
        self.locked = true;
    }

    /// A transaction ends.
    pub fn unlock(&mut self) {
        self.locked = false;
        self.take_next();
    }

    fn take_next(&mut self) {
        if let Some(next) = self.next.take() {
            self.shows = next;
        }
    }

    fn turn_to(&mut self, snapshot: Arc<Snapshot>) {
        if Arc::ptr_eq(self.reader.snapshot(), &snapshot) {
            return;
        }
        self.reader.turn_to(snapshot);
        // 0 is what SQLite takes for a file without a counter.
        self.counter = self.counter.checked_add(1).unwrap_or(1);
        self.last = None;
    }

    /// The TXID that a transaction sees now, in 16 hexadecimal digits.
    pub fn txid(&self) -> String {
        self.reader.snapshot().point().position
    }

    /// Whole seconds since the last look for new transactions that succeeded; `None` before one, and for a point of the past.
    pub fn lag(&self) -> Option<u64> {
        self.live.lag()
    }

    /// The moment of the past that is shown, or `latest`.
    pub fn time(&self) -> String {
        match self.next.as_ref().unwrap_or(&self.shows) {
            Shows::Newest => "latest".to_owned(),
            Shows::Past(_, moment) => moment.clone(),
        }
    }

    /// Shows another moment from the next transaction on: RFC 3339, `5 minutes ago`, a TXID, or `latest`. Blocks.
    ///
    /// # Errors
    /// A text that names no moment, and those of [`seawall_sqlite::View::at`].
    pub fn set_time(&mut self, text: &str) -> Result<(), Failure> {
        let now = (self.clock)();
        let when = when(text, now)?;
        let next = match when {
            When::Latest => {
                self.live.begin(now)?;
                Shows::Newest
            }
            when => {
                let snapshot = self.live.runtime().block_on(self.live.view().at(&when, now))?;
                Shows::Past(snapshot, text.trim().to_owned())
            }
        };
        self.next = Some(next);
        if !self.locked {
            self.take_next();
        }
        Ok(())
    }

    /// How much of the copy to the local disk is done, in percent, and where it is; `None` if none was asked for.
    pub fn copied(&self) -> Option<(f64, &Path)> {
        self.live.copied()
    }

    /// The last error of this file, or of the look for new transactions.
    pub fn trouble(&self) -> Option<Failure> {
        self.trouble.last().or_else(|| self.live.trouble())
    }

    /// Where errors of reads are noted, for a caller that hands the file to SQLite.
    pub(crate) fn trouble_to_come(&self) -> Trouble {
        self.trouble.clone()
    }
}

/// What a text means: RFC 3339, `5 minutes ago`, a TXID, or `latest` in any case.
fn when(text: &str, now: Moment) -> Result<When, Failure> {
    let text = text.trim();
    if text.eq_ignore_ascii_case("latest") {
        return Ok(When::Latest);
    }
    When::parse(text, now).map_err(|error| {
        let next = "give RFC 3339, a time such as '5 minutes ago', a TXID of 16 hexadecimal digits, or latest";
        Failure::new(Kind::Usage, "usage.when", "seawall_time", error.to_string(), next)
    })
}

/// Gives the first page the form of a database with a rollback journal, and its snapshot's counter.
fn present(page: &mut [u8], counter: u32) {
    for (range, bytes) in [(FORMATS, &[1, 1][..]), (COUNTER, &counter.to_be_bytes()), (VALID_FOR, &[0; 4])] {
        if let Some(place) = page.get_mut(range) {
            place.copy_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_page_is_that_of_a_rollback_journal() {
        let mut page = vec![7; 512];
        present(&mut page, 0x0102_0304);
        assert_eq!((&page[18..20], &page[24..28], &page[92..96]), (&[1, 1][..], &[1, 2, 3, 4][..], &[0; 4][..]));
        assert_eq!(page.iter().filter(|byte| **byte == 7).count(), 512 - 10);
        let mut short = vec![7; 20];
        present(&mut short, 1);
        assert_eq!(short[..18], [7; 18]);
    }
}
