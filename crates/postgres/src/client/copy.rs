//! COPY in both directions, at the speed of the socket: no allocation for a row, and one copy of its bytes.

use bytes::Buf as _;
use postgres_protocol::message::backend::{
    COPY_DATA_TAG, COPY_DONE_TAG, ERROR_RESPONSE_TAG, Message, NOTICE_RESPONSE_TAG, PARAMETER_STATUS_TAG,
};
use postgres_protocol::message::frontend;

use super::binary::{self, Part};
use super::connection::{self, Connection, rows_of};
use crate::{CopyFormat, Error};

/// The header of a message: its tag, and its length without the tag.
const HEADER: usize = 5;

/// The largest piece in which rows are sent. The server holds a whole piece in memory.
const PIECE: usize = 64 << 10;

/// Why [`CopyOut::fill`] stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Filled {
    /// There are more rows, and the buffer has no room for the next one.
    Full,
    /// The last row isn't complete: it is larger than the buffer's room.
    Within,
    /// That was the last row.
    Done,
}

/// Rows on their way from the server.
pub(crate) struct CopyOut<'c> {
    connection: &'c mut Connection,
    /// Bytes that are still to come of a row that has begun.
    left: usize,
    stream: Stream,
}

/// Where a stream of rows is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stream {
    /// Text: each message is a row.
    Text,
    /// Binary, before its header.
    Header,
    /// Its rows come, or its trailer.
    Rows,
    /// Its trailer has come.
    Ended,
}

impl Stream {
    /// The parts of a message of `length` bytes, of which some have arrived; `None` while these are too few.
    fn part(self, arrived: &[u8], length: usize) -> Result<Option<Part>, &'static str> {
        match self {
            Self::Text => Ok(Some(Part::default())),
            Self::Header | Self::Rows => binary::part(self == Self::Header, arrived, length),
            Self::Ended => Err("rows behind the last one"),
        }
    }

    /// The state after such a message.
    fn behind(self, part: Part) -> Self {
        match self {
            Self::Header | Self::Rows if part.ends => Self::Ended,
            Self::Header => Self::Rows,
            other => other,
        }
    }
}

impl Connection {
    /// Begins `COPY … TO STDOUT` of rows in the format that `sql` asks for.
    pub(crate) async fn copy_out(&mut self, sql: &str, format: CopyFormat) -> Result<CopyOut<'_>, Error> {
        let (code, stream) = match format {
            CopyFormat::Text => (0, Stream::Text),
            CopyFormat::Binary => (1, Stream::Header),
        };
        if self.begin_copy_out(sql).await?.format() != code {
            return Err(self.confused("rows in another format than was asked for"));
        }
        Ok(CopyOut { connection: self, left: 0, stream })
    }

    /// Begins `COPY … FROM STDIN`.
    pub(crate) async fn copy_in(&mut self, sql: &str) -> Result<CopyIn<'_>, Error> {
        self.send_query(sql).await?;
        match self.message().await? {
            Message::CopyInResponse(_) => Ok(CopyIn { connection: self }),
            Message::ErrorResponse(body) => {
                let error = self.refusal(&body);
                self.until_ready().await?;
                Err(error)
            }
            _ => Err(self.confused("no copy where one was asked for")),
        }
    }
}

impl Connection {
    /// Runs one statement in the chosen encoding. The server refuses several statements in a message of this kind, so a
    /// second one can't be hidden in the text. Rows are skipped.
    pub(crate) async fn run_one(&mut self, sql: &[u8]) -> Result<(), Error> {
        self.outbox.clear();
        connection::one_statement(sql, &mut self.outbox)?;
        self.flush().await?;
        let mut failed = None;
        loop {
            match self.message().await? {
                Message::ErrorResponse(body) => failed = Some(self.refusal(&body)),
                Message::ReadyForQuery(_) => break,
                Message::ParseComplete
                | Message::BindComplete
                | Message::DataRow(_)
                | Message::CommandComplete(_)
                | Message::EmptyQueryResponse => {}
                _ => return Err(self.confused("an answer that doesn't belong to a statement")),
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Runs a statement of a script in the encoding that the script has chosen. If it expects rows, they must be sent
    /// next.
    pub(crate) async fn run(&mut self, sql: &[u8]) -> Result<Option<CopyIn<'_>>, Error> {
        self.outbox.clear();
        connection::query(sql, &mut self.outbox)?;
        self.flush().await?;
        let mut failed = None;
        loop {
            match self.message().await? {
                Message::CopyInResponse(_) => return Ok(Some(CopyIn { connection: self })),
                Message::ErrorResponse(body) => failed = Some(self.refusal(&body)),
                Message::ReadyForQuery(_) => break,
                Message::RowDescription(_)
                | Message::DataRow(_)
                | Message::CommandComplete(_)
                | Message::EmptyQueryResponse => {}
                _ => return Err(self.confused("an answer that doesn't belong to a statement")),
            }
        }
        failed.map_or(Ok(None), Err)
    }
}

/// Rows on their way to the server. Dropped before [`CopyIn::finish`], the connection is of no more use.
pub(crate) struct CopyIn<'c> {
    connection: &'c mut Connection,
}

impl CopyIn<'_> {
    /// Sends bytes of rows, which may begin and end anywhere, and returns their buffer.
    pub(crate) async fn send(&mut self, rows: Vec<u8>) -> Result<Vec<u8>, Error> {
        self.send_bytes(&rows).await?;
        Ok(rows)
    }

    /// The same, of bytes that stay where they are.
    pub(crate) async fn send_bytes(&mut self, mut rest: &[u8]) -> Result<(), Error> {
        while !rest.is_empty() {
            let (part, others) = rest.split_at(rest.len().min(PIECE));
            let length = u32::try_from(part.len() + 4).unwrap_or(u32::MAX).to_be_bytes();
            let header = [b'd', length[0], length[1], length[2], length[3]];
            if let Err(error) = self.connection.send((&header[..]).chain(part)).await {
                // A server that has ended the connection has said why before.
                return Err(self.connection.last_words().await.unwrap_or(error));
            }
            rest = others;
        }
        Ok(())
    }

    /// Ends it; returns how many rows the server took.
    pub(crate) async fn finish(self) -> Result<u64, Error> {
        let connection = self.connection;
        connection.outbox.clear();
        frontend::copy_done(&mut connection.outbox);
        connection.flush().await?;
        let tag = connection.until_ready().await?;
        rows_of(tag.as_deref()).ok_or_else(|| connection.confused("no number of rows"))
    }
}

impl CopyOut<'_> {
    /// Appends rows to `buffer` until its capacity has no room for the next one, or until there are no more. A row that
    /// doesn't fit into an empty buffer is taken in pieces, one per call. Also returns the number of completed rows.
    pub(crate) async fn fill(&mut self, buffer: &mut Vec<u8>) -> Result<(Filled, u64), Error> {
        let mut rows = 0;
        loop {
            if self.left > 0 {
                if !self.take(buffer).await? {
                    return Ok((Filled::Within, rows));
                }
                rows += 1;
            }
            let Some(header) = self.connection.inbox.first_chunk::<HEADER>() else {
                self.connection.fill().await?;
                continue;
            };
            let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
            match header[0] {
                COPY_DATA_TAG => {
                    let body = length.saturating_sub(4);
                    let part = self.stream.part(&self.connection.inbox[HEADER..], body);
                    let Some(part) = part.map_err(|wrong| self.connection.confused(wrong))? else {
                        self.connection.fill().await?;
                        continue;
                    };
                    let row = body - part.skipped;
                    if buffer.len() + row > buffer.capacity() && !buffer.is_empty() {
                        return Ok((Filled::Full, rows));
                    }
                    self.connection.inbox.advance(HEADER + part.skipped);
                    self.stream = self.stream.behind(part);
                    self.left = row;
                    rows += u64::from(row == 0 && self.stream == Stream::Text);
                }
                COPY_DONE_TAG if matches!(self.stream, Stream::Header | Stream::Rows) => {
                    return Err(self.connection.confused("rows in binary without their end"));
                }
                COPY_DONE_TAG | ERROR_RESPONSE_TAG => {
                    self.connection.until_ready().await?;
                    return Ok((Filled::Done, rows));
                }
                NOTICE_RESPONSE_TAG | PARAMETER_STATUS_TAG => {
                    if self.connection.inbox.len() > length {
                        self.connection.inbox.advance(1 + length);
                    } else {
                        self.connection.fill().await?;
                    }
                }
                _ => return Err(self.connection.confused("an answer that doesn't belong to a copy")),
            }
        }
    }

    /// Takes bytes of the present row, as many as there is room for. Returns whether the row is complete.
    async fn take(&mut self, buffer: &mut Vec<u8>) -> Result<bool, Error> {
        loop {
            let inbox = &mut self.connection.inbox;
            let part = self.left.min(inbox.len()).min(buffer.capacity() - buffer.len());
            buffer.extend_from_slice(&inbox[..part]);
            inbox.advance(part);
            self.left -= part;
            if self.left == 0 || buffer.len() == buffer.capacity() {
                return Ok(self.left == 0);
            }
            self.connection.fill().await?;
        }
    }
}
