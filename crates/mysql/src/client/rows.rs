//! Rows as lines for `LOAD DATA`, at the speed of the socket: no allocation for a row, and one copy of its bytes.

use bytes::Buf as _;

use super::answer::{self, Done};
use super::connection::{Answer, Connection};
use super::line::{self, CUT, Line, longest};
use super::packet::{HEADER, LARGEST, header};
use crate::Error;

/// The least room in a buffer: one value's marks.
const LEAST: usize = 64;

/// Why [`Rows::fill`] stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filled {
    /// There are more rows, and the buffer has no room for the next one.
    Full,
    /// The last row isn't complete: it is larger than the buffer's room.
    Within,
    /// That was the last row.
    Done,
}

/// Rows on their way from the server. Dropped before the last, the connection is of no more use.
pub struct Rows<'c> {
    connection: &'c mut Connection,
    columns: usize,
    /// A row that has begun and isn't complete.
    open: Option<Open>,
    done: Option<Done>,
}

/// A row that is taken in pieces.
struct Open {
    line: Line,
    /// Bytes that are still to come of the present packet.
    left: usize,
    /// Whether the row goes on in another packet.
    more: bool,
}

impl Connection {
    /// Begins to read the rows of a statement. [`super::Purpose::Rows`] is how the connection should have been opened: else the
    /// server converts texts.
    pub async fn rows(&mut self, sql: &str) -> Result<Rows<'_>, Error> {
        match self.ask(sql).await? {
            Answer::Rows(columns) => Ok(Rows { connection: self, columns, open: None, done: None }),
            Answer::Done(_) => Err(self.confused("no rows where some were asked for")),
            Answer::File(name) => Err(self.unasked_file(&name)),
        }
    }
}

impl Rows<'_> {
    /// How many columns a row has.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// What the statement did, with the number of its warnings; `None` before [`Filled::Done`].
    pub fn done(&self) -> Option<&Done> {
        self.done.as_ref()
    }

    /// Appends lines to `buffer` until its capacity has no room for the next one, or until there are no more. A row whose line
    /// may not fit into an empty buffer is taken in pieces, one per call. Also returns the number of completed rows.
    pub async fn fill(&mut self, buffer: &mut Vec<u8>) -> Result<(Filled, u64), Error> {
        let mut rows = 0;
        if buffer.is_empty() && buffer.capacity() < LEAST {
            buffer.reserve(LEAST);
        }
        loop {
            if self.done.is_some() {
                return Ok((Filled::Done, rows));
            }
            if let Some(open) = self.open.take() {
                if !self.take(open, buffer).await? {
                    return Ok((Filled::Within, rows));
                }
                rows += 1;
            }
            rows += self.whole_rows(buffer)?;
            let inbox = &self.connection.inbox;
            let Some(((length, sequence), first)) = header(inbox).zip(inbox.get(HEADER)) else {
                // A packet without any byte is no row, and nothing follows it.
                if header(inbox).is_some_and(|(length, _)| length == 0) {
                    return Err(self.connection.confused(CUT));
                }
                self.connection.fill().await?;
                continue;
            };
            if *first == answer::ERROR || (*first == answer::END && length < LARGEST) {
                let payload = self.connection.packet().await?;
                self.done = self.connection.end(&payload)?;
                continue;
            }
            let fits = length < LARGEST && longest(length, self.columns) <= buffer.capacity() - buffer.len();
            if fits {
                // It hasn't arrived yet.
                self.connection.fill().await?;
            } else if !buffer.is_empty() {
                return Ok((Filled::Full, rows));
            } else {
                self.connection.next_is(sequence)?;
                self.connection.inbox.advance(HEADER);
                self.open = Some(Open { line: Line::new(self.columns), left: length, more: length == LARGEST });
            }
        }
    }

    /// Appends the rows that have arrived whole and have room.
    fn whole_rows(&mut self, buffer: &mut Vec<u8>) -> Result<u64, Error> {
        let (mut rows, mut behind) = (0, 0);
        loop {
            let arrived = self.connection.inbox.get(behind..).unwrap_or_default();
            let Some((length, sequence)) = header(arrived) else { break };
            let Some(row) = arrived.get(HEADER..HEADER + length) else { break };
            let is_row = length < LARGEST && row.first().is_some_and(|first| *first < answer::END);
            if !is_row || longest(length, self.columns) > buffer.capacity() - buffer.len() {
                break;
            }
            if sequence != self.connection.sequence || line::append(row, self.columns, buffer).is_none() {
                return Err(self.connection.confused(CUT));
            }
            self.connection.sequence = sequence.wrapping_add(1);
            behind += HEADER + length;
            rows += 1;
        }
        self.connection.inbox.advance(behind);
        Ok(rows)
    }

    /// Takes bytes of the open row, as many as there is room for. Returns whether the row is complete; if not, it stays open.
    async fn take(&mut self, mut open: Open, buffer: &mut Vec<u8>) -> Result<bool, Error> {
        loop {
            let here = self.connection.inbox.len().min(open.left);
            let arrived = self.connection.inbox.get(..here).unwrap_or_default();
            let taken = open.line.feed(arrived, buffer).map_err(|wrong| self.connection.confused(wrong))?;
            self.connection.inbox.advance(taken);
            open.left -= taken;
            match (open.left, open.more) {
                (0, false) if open.line.is_complete() => return Ok(true),
                (0, false) if has_room(buffer) => return Err(self.connection.confused(CUT)),
                (0, true) => {
                    if let Some((length, sequence)) = header(&self.connection.inbox) {
                        self.connection.next_is(sequence)?;
                        self.connection.inbox.advance(HEADER);
                        (open.left, open.more) = (length, length == LARGEST);
                        continue;
                    }
                }
                _ if open.line.is_complete() => return Err(self.connection.confused(CUT)),
                _ => {}
            }
            if !has_room(buffer) {
                self.open = Some(open);
                return Ok(false);
            }
            if taken == here {
                self.connection.fill().await?;
            }
        }
    }
}

/// Whether any piece of a row fits.
fn has_room(buffer: &Vec<u8>) -> bool {
    buffer.capacity() - buffer.len() >= line::MARKS
}
