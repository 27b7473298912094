//! One connection: sends statements, returns rows and errors.

use std::time::Duration;

use bytes::{Buf, BufMut as _, BytesMut};
use fallible_iterator::FallibleIterator as _;
use postgres_protocol::message::backend::{CopyOutResponseBody, ErrorResponseBody, Message};
use postgres_protocol::message::frontend;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;

use super::{Guard, TextEncoding};
use crate::Error;
use crate::error::ServerError;

/// How much is read at once: the capacity of a socket.
const READ: usize = 256 << 10;

/// The most bytes of a message that is no row of COPY: anything larger is no PostgreSQL server's.
const LARGEST_MESSAGE: usize = 256 << 20;

/// The SQLSTATE of a letter that another encoding doesn't have.
const UNTRANSLATABLE: &str = "22P05";

/// How long the server may take to end a connection's farewell.
const FAREWELL: Duration = Duration::from_secs(5);

/// Both directions of a byte stream.
pub(crate) trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

/// A connection that is ready for statements.
pub(crate) struct Connection {
    pub(super) wire: Box<dyn Wire>,
    pub(super) inbox: BytesMut,
    pub(super) outbox: BytesMut,
    /// The server, for messages.
    pub(super) server: String,
    /// The server's version as a number: 150018.
    pub(crate) version: u32,
    /// The encoding of sent and received text.
    pub(crate) encoding: TextEncoding,
    /// The server's warning about a grant that it skipped without an error.
    pub(crate) not_granted: Option<String>,
    /// Whether the server's words stay in the log of this host: a proof started it.
    pub(super) is_unspoken: bool,
    /// The superuser's session beside this one, while a proof restores a set on a server of its own.
    pub(crate) guard: Option<Box<Guard>>,
}

/// A row of text values; `None` is NULL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row(pub(super) Vec<Option<String>>);

impl Row {
    /// The value of a column; NULL and a missing column are the empty text.
    pub(crate) fn text(&self, column: usize) -> &str {
        self.optional(column).unwrap_or_default()
    }

    /// The value of a column that may be NULL.
    pub(crate) fn optional(&self, column: usize) -> Option<&str> {
        self.0.get(column)?.as_deref()
    }

    /// The value of a numeric column; 0 for any other value.
    pub(crate) fn number(&self, column: usize) -> u64 {
        self.text(column).parse().unwrap_or(0)
    }

    /// The value of a column that is a boolean.
    pub(crate) fn flag(&self, column: usize) -> bool {
        self.text(column) == "t"
    }
}

impl Connection {
    /// Runs one statement, or several, and returns the rows of the last that has any.
    pub(crate) async fn query(&mut self, sql: &str) -> Result<Vec<Row>, Error> {
        self.send_query(sql).await?;
        let (mut rows, mut failed) = (Vec::new(), None);
        loop {
            match self.message().await? {
                Message::RowDescription(_) => rows.clear(),
                Message::DataRow(body) => rows.push(self.row(&body)?),
                Message::ErrorResponse(body) => failed = Some(self.refusal(&body)),
                Message::ReadyForQuery(_) => break,
                Message::CommandComplete(_) | Message::EmptyQueryResponse => {}
                _ => return Err(self.confused("an answer that doesn't belong to a statement")),
            }
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(rows),
        }
    }

    /// Runs statements and ignores their rows.
    pub(crate) async fn execute(&mut self, sql: &str) -> Result<(), Error> {
        self.query(sql).await.map(drop)
    }

    /// Runs a statement that returns exactly one row.
    pub(crate) async fn one(&mut self, sql: &str) -> Result<Row, Error> {
        let row = self.query(sql).await?.into_iter().next();
        row.ok_or_else(|| self.confused("no row where one must be"))
    }

    /// Ends the session in order. On return the server has released everything.
    pub(crate) async fn close(mut self) {
        if let Some(guard) = self.guard.take() {
            Box::pin(guard.close()).await;
        }
        self.outbox.clear();
        frontend::terminate(&mut self.outbox);
        let farewell = async {
            if self.flush().await.is_ok() {
                let mut rest = [0; 1024];
                while matches!(self.wire.read(&mut rest).await, Ok(n) if n > 0) {}
            }
        };
        // Dropped connections end as well, only later.
        let _ = timeout(FAREWELL, farewell).await;
    }

    pub(super) async fn send_query(&mut self, sql: &str) -> Result<(), Error> {
        self.outbox.clear();
        let bytes = self.encoding.encode(sql).map_err(|letter| self.no_letter(letter))?;
        query(&bytes, &mut self.outbox)?;
        self.flush().await
    }

    /// Has the server send and read texts in another encoding.
    pub(crate) async fn speak(&mut self, encoding: TextEncoding) -> Result<(), Error> {
        if self.encoding != encoding {
            self.execute(&format!("SET client_encoding = '{}'", encoding.name())).await?;
            self.encoding = encoding;
        }
        Ok(())
    }

    /// The error for a value that all databases of a server share and that was written in a database of another
    /// encoding.
    fn foreign(&self, bytes: &[u8]) -> Error {
        let shown = bytes.utf8_chunks().flat_map(|chunk| {
            let bytes = chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}"));
            std::iter::once(chunk.valid().to_owned()).chain(bytes)
        });
        Error::Refused {
            code: "postgres.other-encoding",
            object: self.server.clone(),
            cause: format!("a name or a comment in its catalogs is not in the database's encoding: {}", shown.collect::<String>()),
            next: "give it another one in a database that has the encoding in which it was written: ALTER ROLE … RENAME TO, \
                   ALTER DATABASE … RENAME TO, COMMENT ON …"
                .to_owned(),
        }
    }

    /// The server's error for a character that an encoding doesn't have.
    fn no_letter(&self, letter: char) -> Error {
        let (code, encoding) = (UNTRANSLATABLE.to_owned(), self.encoding.name());
        let message = format!("character {letter:?} of a name has no equivalent in encoding {encoding:?}");
        let error = ServerError { code, message, detail: None, hint: None };
        Error::Server { object: self.server.clone(), error }
    }

    pub(super) async fn flush(&mut self) -> Result<(), Error> {
        let written = async {
            self.wire.write_all_buf(&mut self.outbox).await?;
            self.wire.flush().await
        };
        written.await.map_err(|error| Error::connection(&self.server, &error))
    }

    /// Sends bytes where they are.
    pub(super) async fn send(&mut self, mut bytes: impl Buf) -> Result<(), Error> {
        let written = self.wire.write_all_buf(&mut bytes).await;
        written.map_err(|error| Error::connection(&self.server, &error))
    }

    /// The error that the server sent before it went away, if it did.
    pub(super) async fn last_words(&mut self) -> Option<Error> {
        match timeout(FAREWELL, self.message()).await {
            Ok(Ok(Message::ErrorResponse(body))) => Some(self.refusal(&body)),
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

    /// The next message that is an answer; notices and settings are passed over.
    pub(super) async fn message(&mut self) -> Result<Message, Error> {
        loop {
            if let Some(header) = self.inbox.first_chunk::<5>() {
                let size = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
                if size > LARGEST_MESSAGE {
                    return Err(self.confused("a message that is too large"));
                }
            }
            let parsed = Message::parse(&mut self.inbox).map_err(|error| self.confused(&error.to_string()))?;
            match parsed {
                Some(Message::NoticeResponse(body)) => {
                    let notice = server_error(self.encoding, body.fields());
                    tracing::debug!(code = notice.code, "{}", notice.message);
                    if matches!(notice.code.as_str(), "01006" | "01007") {
                        let notice = if self.is_unspoken { notice.unspoken() } else { notice };
                        self.not_granted = Some(notice.to_string());
                    }
                }
                Some(Message::ParameterStatus(_) | Message::NotificationResponse(_)) => {}
                Some(message) => return Ok(message),
                None => self.fill().await?,
            }
        }
    }

    fn row(&self, body: &postgres_protocol::message::backend::DataRowBody) -> Result<Row, Error> {
        let mut values = Vec::new();
        let mut ranges = body.ranges();
        while let Some(range) = ranges.next().map_err(|error| self.confused(&error.to_string()))? {
            let bytes = range.and_then(|range| body.buffer().get(range));
            let read = |bytes: &[u8]| self.encoding.decode(bytes).ok_or_else(|| self.foreign(bytes));
            values.push(bytes.map(read).transpose()?);
        }
        Ok(Row(values))
    }

    /// Begins a COPY to here.
    pub(super) async fn begin_copy_out(&mut self, sql: &str) -> Result<CopyOutResponseBody, Error> {
        self.send_query(sql).await?;
        match self.message().await? {
            Message::CopyOutResponse(body) => Ok(body),
            Message::ErrorResponse(body) => {
                let error = self.refusal(&body);
                self.until_ready().await?;
                Err(error)
            }
            _ => Err(self.confused("no copy where one was asked for")),
        }
    }

    /// Skips the rest of an answer. Returns the tag of the completed command.
    pub(super) async fn until_ready(&mut self) -> Result<Option<String>, Error> {
        let (mut tag, mut failed) = (None, None);
        loop {
            match self.message().await? {
                Message::CommandComplete(body) => tag = body.tag().ok().map(str::to_owned),
                Message::ErrorResponse(body) => failed = Some(self.refusal(&body)),
                Message::ReadyForQuery(_) => break,
                Message::CopyDone => {}
                _ => return Err(self.confused("an answer that doesn't belong to a copy")),
            }
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(tag),
        }
    }

    pub(super) fn refusal(&self, body: &ErrorResponseBody) -> Error {
        let error = server_error(self.encoding, body.fields());
        let error = if self.is_unspoken { error.unspoken() } else { error };
        Error::Server { object: self.server.clone(), error }
    }

    /// The error of a server that didn't answer in time.
    pub(crate) fn late(&self, cause: String) -> Error {
        Error::Connection { server: self.server.clone(), cause }
    }

    pub(crate) fn confused(&self, what: &str) -> Error {
        Error::Protocol { object: self.server.clone(), cause: format!("the server sent {what}") }
    }
}

/// The number of rows in a command's tag: `COPY 17`.
pub(super) fn rows_of(tag: Option<&str>) -> Option<u64> {
    tag?.rsplit(' ').next()?.parse().ok()
}

/// Writes the message that has a statement run.
pub(super) fn query(sql: &[u8], outbox: &mut BytesMut) -> Result<(), Error> {
    let length = i32::try_from(sql.len().saturating_add(5));
    let length = length.map_err(|_| Error::Internal("a statement is too large".to_owned()))?;
    if sql.contains(&0) {
        return Err(Error::Internal("a statement has a zero byte".to_owned()));
    }
    outbox.put_u8(b'Q');
    outbox.put_i32(length);
    outbox.put_slice(sql);
    outbox.put_u8(0);
    Ok(())
}

/// Writes the messages that run one statement, and no more than one.
pub(super) fn one_statement(sql: &[u8], outbox: &mut BytesMut) -> Result<(), Error> {
    let wrong = |_: std::io::Error| Error::Internal("a statement can't be sent".to_owned());
    // The message's length, an empty name, the statement with its end, and no types of parameters.
    let length = i32::try_from(sql.len().saturating_add(4 + 1 + 1 + 2));
    let length = length.map_err(|_| Error::Internal("a statement is too large".to_owned()))?;
    if sql.contains(&0) {
        return Err(Error::Internal("a statement has a zero byte".to_owned()));
    }
    outbox.put_u8(b'P');
    outbox.put_i32(length);
    outbox.put_u8(0);
    outbox.put_slice(sql);
    outbox.put_slice(&[0, 0, 0]);
    let none = std::iter::empty::<i16>;
    let no_value = |(): (), _: &mut BytesMut| Ok(postgres_protocol::IsNull::Yes);
    frontend::bind("", "", none(), std::iter::empty::<()>(), no_value, none(), outbox)
        .map_err(|_| Error::Internal("a statement can't be bound".to_owned()))?;
    frontend::execute("", 0, outbox).map_err(wrong)?;
    frontend::sync(outbox);
    Ok(())
}

fn server_error(
    encoding: TextEncoding,
    mut fields: postgres_protocol::message::backend::ErrorFields<'_>,
) -> ServerError {
    let mut error = ServerError { code: String::new(), message: String::new(), detail: None, hint: None };
    while let Ok(Some(field)) = fields.next() {
        let value = encoding.decode_lossy(field.value_bytes());
        match field.type_() {
            b'C' => error.code = value,
            b'M' => error.message = value,
            b'D' => error.detail = Some(value),
            b'H' => error.hint = Some(value),
            _ => {}
        }
    }
    error
}
