//! One connection: sends statements, returns rows and errors.

use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;

use super::answer::{self, Done};
use super::facts::Flavour;
use super::packet::{self, Fields, HEADER, LARGEST, header};
use crate::Error;

/// How much is read at once: the capacity of a socket.
const READ: usize = 256 << 10;

/// The most bytes of an answer that isn't streamed. Anything larger is no answer to our questions.
const LARGEST_ANSWER: usize = 256 << 20;

/// The most columns of an answer: a table has at most 4096.
const MOST_COLUMNS: u64 = 1 << 16;

/// How long the server may take to end a connection's farewell.
const FAREWELL: Duration = Duration::from_secs(5);

/// The command that ends a session.
const QUIT: u8 = 0x01;
/// The command that runs a statement.
const QUERY: u8 = 0x03;

/// Both directions of a byte stream.
pub(super) trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

/// A connection that is ready for statements.
pub struct Connection {
    pub(super) wire: Box<dyn Wire>,
    pub(super) inbox: BytesMut,
    pub(super) outbox: BytesMut,
    /// The number of the next packet, ours or the server's.
    pub(super) sequence: u8,
    /// What both sides can do.
    pub(super) abilities: u32,
    /// Whether an answer is still to be read.
    pub(super) in_answer: bool,
    /// The server, for messages.
    pub server: String,
    /// Whether the server's words stay in the log of this host: a proof started it.
    pub(super) is_unspoken: bool,
    /// The server's version as a number: 8.0.36 is 80036, and 10.11.6 is 101106.
    pub version: u32,
    /// The kind of server.
    pub flavour: Flavour,
    /// The number of this session on the server, as `KILL` takes it.
    pub connection_id: u32,
    /// The most bytes of a statement and of a row on this server (`max_allowed_packet`).
    pub max_packet: u64,
}

/// A row of values as bytes; `None` is NULL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row(Vec<Option<Bytes>>);

impl Row {
    /// The bytes of a column; `None` for NULL and for a missing column.
    pub fn bytes(&self, column: usize) -> Option<&[u8]> {
        self.0.get(column)?.as_deref()
    }

    /// The text of a column that may be NULL. Bytes that are no UTF-8 are an absent value as well: see [`Row::lossy`].
    pub fn optional(&self, column: usize) -> Option<&str> {
        std::str::from_utf8(self.bytes(column)?).ok()
    }

    /// The text of a column; NULL and what is no text are empty.
    pub fn text(&self, column: usize) -> &str {
        self.optional(column).unwrap_or_default()
    }

    /// The text of a column for messages: bytes that are no UTF-8 are replaced.
    pub fn lossy(&self, column: usize) -> String {
        String::from_utf8_lossy(self.bytes(column).unwrap_or_default()).into_owned()
    }

    /// The value of a column that is a number without a sign; 0 for any other value.
    pub fn number(&self, column: usize) -> u64 {
        self.text(column).parse().unwrap_or(0)
    }

    /// The value of a column that is a boolean: a number that isn't 0, or YES, ON, Y.
    pub fn flag(&self, column: usize) -> bool {
        let text = self.text(column);
        ["YES", "ON", "Y"].iter().any(|yes| text.eq_ignore_ascii_case(yes)) || self.number(column) != 0
    }

    /// How many columns it has.
    pub fn width(&self) -> usize {
        self.0.len()
    }

    /// Reads the values of a packet.
    fn read(payload: &Bytes, columns: usize) -> Option<Self> {
        let mut fields = Fields::of(payload);
        let mut values = Vec::with_capacity(columns);
        for _ in 0..columns {
            values.push(fields.value()?.map(|value| payload.slice_ref(value)));
        }
        fields.rest().is_empty().then_some(Self(values))
    }
}

/// The beginning of an answer to a statement.
pub(super) enum Answer {
    /// The statement is done.
    Done(Done),
    /// Rows of so many columns follow.
    Rows(usize),
    /// The server asks for the file of this name.
    File(Bytes),
}

impl Connection {
    /// Runs one statement and returns its rows.
    pub async fn query(&mut self, sql: &str) -> Result<Vec<Row>, Error> {
        match self.ask(sql).await? {
            Answer::Done(_) => Ok(Vec::new()),
            Answer::Rows(columns) => {
                let (mut rows, mut size) = (Vec::new(), 0);
                while let Some(payload) = self.row().await? {
                    size += payload.len();
                    if size > LARGEST_ANSWER {
                        return Err(self.confused("an answer that is too large"));
                    }
                    rows.push(Row::read(&payload, columns).ok_or_else(|| self.confused(super::line::CUT))?);
                }
                Ok(rows)
            }
            Answer::File(name) => Err(self.unasked_file(&name)),
        }
    }

    /// Runs one statement and ignores its rows.
    pub async fn execute(&mut self, sql: &str) -> Result<Done, Error> {
        self.execute_bytes(sql.as_bytes()).await
    }

    /// Runs one statement whose bytes need not be text, and ignores its rows.
    pub async fn execute_bytes(&mut self, sql: &[u8]) -> Result<Done, Error> {
        match self.ask_bytes(sql).await? {
            Answer::Done(done) => Ok(done),
            Answer::Rows(_) => loop {
                let payload = self.packet().await?;
                if let Some(done) = self.end(&payload)? {
                    return Ok(done);
                }
            },
            Answer::File(name) => Err(self.unasked_file(&name)),
        }
    }

    /// Runs a statement that returns exactly one row.
    pub async fn one(&mut self, sql: &str) -> Result<Row, Error> {
        let row = self.query(sql).await?.into_iter().next();
        row.ok_or_else(|| self.confused("no row where one must be"))
    }

    /// The warnings of the last statement: level, number, message.
    pub async fn warnings(&mut self) -> Result<Vec<Row>, Error> {
        self.query("SHOW WARNINGS").await
    }

    /// Ends the session in order. On return the server has released everything. In the middle of an answer there is no
    /// order: the connection is cut.
    pub async fn close(mut self) {
        if self.in_answer {
            return;
        }
        let farewell = async {
            if self.command(QUIT, b"").await.is_ok() {
                let mut rest = [0; 1024];
                while matches!(self.wire.read(&mut rest).await, Ok(n) if n > 0) {}
            }
        };
        // Dropped connections end as well, only later.
        let _ = timeout(FAREWELL, farewell).await;
    }

    /// Sends a statement and reads the beginning of the answer. What comes before rows is read as well.
    pub(super) async fn ask(&mut self, sql: &str) -> Result<Answer, Error> {
        self.ask_bytes(sql.as_bytes()).await
    }

    async fn ask_bytes(&mut self, sql: &[u8]) -> Result<Answer, Error> {
        if self.in_answer {
            return Err(Error::Internal("a statement in the middle of an answer".to_owned()));
        }
        if sql.len() as u64 >= self.max_packet {
            return Err(Error::Refused {
                code: "mysql.packet",
                object: self.server.clone(),
                cause: format!("a statement has {} bytes, and the server takes {}", sql.len(), self.max_packet),
                next: "raise max_allowed_packet on the server, then start again".to_owned(),
            });
        }
        self.in_answer = true;
        self.command(QUERY, sql).await?;
        let payload = self.packet().await?;
        match payload.first() {
            Some(&answer::OK) => {
                let done = answer::ok(&payload).ok_or_else(|| self.confused("an answer that is cut"))?;
                self.finished(done).map(Answer::Done)
            }
            Some(&answer::ERROR) => Err(self.refusal(&payload)),
            Some(&answer::LOCAL_INFILE) => Ok(Answer::File(payload.slice(1..))),
            _ => {
                let columns = Fields::of(&payload).number().filter(|columns| (1..=MOST_COLUMNS).contains(columns));
                let columns = columns.and_then(|columns| usize::try_from(columns).ok());
                let columns = columns.ok_or_else(|| self.confused("an answer that doesn't belong to a statement"))?;
                for _ in 0..columns {
                    let definition = self.packet().await?;
                    if definition.first() == Some(&answer::ERROR) {
                        return Err(self.refusal(&definition));
                    }
                }
                if !self.ends_with_ok() && answer::end(&self.packet().await?).is_none() {
                    return Err(self.confused("columns without an end"));
                }
                Ok(Answer::Rows(columns))
            }
        }
    }

    /// Whether rows end with an OK.
    pub(super) fn ends_with_ok(&self) -> bool {
        self.abilities & super::handshake::can::DEPRECATE_EOF != 0
    }

    /// The next row's packet; `None` behind the last.
    async fn row(&mut self) -> Result<Option<Bytes>, Error> {
        let payload = self.packet().await?;
        Ok(self.end(&payload)?.is_none().then_some(payload))
    }

    /// What the statement did, if this packet is the end of its rows.
    pub(super) fn end(&mut self, payload: &[u8]) -> Result<Option<Done>, Error> {
        let done = match payload.first() {
            Some(&answer::ERROR) => return Err(self.refusal(payload)),
            // A row may begin with this byte too, and then has a value of 16 MiB or more.
            Some(&answer::END) if payload.len() < LARGEST => match self.ends_with_ok() {
                true => answer::ok(payload),
                false => answer::end(payload),
            },
            _ => return Ok(None),
        };
        let done = done.ok_or_else(|| self.confused("an end of rows that is cut"))?;
        self.finished(done).map(Some)
    }

    /// Takes the end of an answer.
    pub(super) fn finished(&mut self, done: Done) -> Result<Done, Error> {
        // One statement was sent, and no procedure is called.
        if done.has_more() {
            return Err(self.confused("a second answer to one statement"));
        }
        self.in_answer = false;
        Ok(done)
    }

    /// The error for a server that asks for a file when no statement of ours did.
    pub(super) fn unasked_file(&self, name: &[u8]) -> Error {
        Error::Refused {
            code: "mysql.asks-for-file",
            object: self.server.clone(),
            cause: format!(
                "the server asks for the file {:?} of this machine, and no statement of ours has it read one",
                String::from_utf8_lossy(name)
            ),
            next: "don't trust this server, nor a proxy before it; nothing was sent".to_owned(),
        }
    }

    async fn command(&mut self, command: u8, argument: &[u8]) -> Result<(), Error> {
        self.sequence = 0;
        let mut payload = Vec::with_capacity(1 + argument.len());
        payload.push(command);
        payload.extend_from_slice(argument);
        self.put(&payload);
        let sent = self.flush().await;
        match sent {
            // A server that has ended the connection has said why before.
            Err(error) => Err(self.last_words().await.unwrap_or(error)),
            Ok(()) => Ok(()),
        }
    }

    /// Puts a payload into the outbox.
    pub(super) fn put(&mut self, payload: &[u8]) {
        self.outbox.clear();
        self.sequence = packet::write(payload, self.sequence, &mut self.outbox);
    }

    pub(super) async fn flush(&mut self) -> Result<(), Error> {
        let written = async {
            self.wire.write_all_buf(&mut self.outbox).await?;
            self.wire.flush().await
        };
        written.await.map_err(|error| Error::connection(&self.server, &error))
    }

    /// The error that the server sent before it went away, if it did.
    pub(super) async fn last_words(&mut self) -> Option<Error> {
        match timeout(FAREWELL, self.packet()).await {
            Ok(Ok(payload)) if payload.first() == Some(&answer::ERROR) => Some(self.refusal(&payload)),
            _ => None,
        }
    }

    /// Reads more bytes; the end of the stream is an error.
    pub(super) async fn fill(&mut self) -> Result<(), Error> {
        self.inbox.reserve(READ);
        match self.wire.read_buf(&mut self.inbox).await {
            Ok(0) => {
                let cause = "the server closed the connection".to_owned();
                Err(Error::Connection { server: self.server.clone(), cause })
            }
            Ok(_) => Ok(()),
            Err(error) => Err(Error::connection(&self.server, &error)),
        }
    }

    /// The next payload, of one packet or of several.
    pub(super) async fn packet(&mut self) -> Result<Bytes, Error> {
        let first = self.one_packet().await?;
        if first.len() < LARGEST {
            return Ok(first);
        }
        let mut whole = BytesMut::from(first);
        loop {
            let next = self.one_packet().await?;
            if whole.len() + next.len() > LARGEST_ANSWER {
                return Err(self.confused("a message that is too large"));
            }
            whole.extend_from_slice(&next);
            if next.len() < LARGEST {
                return Ok(whole.freeze());
            }
        }
    }

    async fn one_packet(&mut self) -> Result<Bytes, Error> {
        loop {
            if let Some((length, sequence)) = header(&self.inbox)
                && self.inbox.len() >= HEADER + length
            {
                self.inbox.advance(HEADER);
                let payload = self.inbox.split_to(length).freeze();
                // A server that ends a session by itself says so out of order.
                if payload.first() != Some(&answer::ERROR) {
                    self.next_is(sequence)?;
                }
                return Ok(payload);
            }
            self.fill().await?;
        }
    }

    /// Checks the number of a packet of the server's.
    pub(super) fn next_is(&mut self, sequence: u8) -> Result<(), Error> {
        if sequence != self.sequence {
            return Err(self.confused("packets out of order"));
        }
        self.sequence = self.sequence.wrapping_add(1);
        Ok(())
    }

    /// The server's error in a packet. The answer is over.
    pub(super) fn refusal(&mut self, payload: &[u8]) -> Error {
        self.in_answer = false;
        match answer::error(payload) {
            Some(error) => {
                let error = if self.is_unspoken { error.unspoken() } else { error };
                Error::Server { object: self.server.clone(), error }
            }
            None => self.confused("an error that is cut"),
        }
    }

    pub(super) fn confused(&self, what: &str) -> Error {
        Error::Protocol { object: self.server.clone(), cause: format!("the server sent {what}") }
    }
}
