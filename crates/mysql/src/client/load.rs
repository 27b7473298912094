//! Rows on their way to the server: `LOAD DATA LOCAL INFILE`, whose file is the caller's bytes.

use bytes::Buf as _;
use tokio::io::AsyncWriteExt as _;

use super::answer::{self, Done};
use super::connection::{Answer, Connection};
use super::handshake::can;
use super::packet::header_of;
use crate::Error;

/// The name of the file that a statement must ask for. No file of this name is read.
pub const LOCAL_FILE: &str = "seawall";

/// The largest piece in which bytes are sent. The server holds a whole piece in memory.
const PIECE: usize = 64 << 10;

/// Rows on their way to the server.
///
/// Dropped before [`LoadIn::finish`], the connection is of no more use. The server rolls the statement back when the connection
/// ends (MariaDB 10.11 and MySQL 8.0 do; a test shows it). A transaction around the statement doesn't depend on that.
pub struct LoadIn<'c> {
    connection: &'c mut Connection,
}

impl Connection {
    /// Begins a `LOAD DATA LOCAL INFILE 'seawall' …` ([`LOCAL_FILE`]). The connection must have been opened for
    /// [`super::Purpose::Load`].
    pub async fn load(&mut self, sql: &str) -> Result<LoadIn<'_>, Error> {
        if self.abilities & can::LOCAL_FILES == 0 {
            return Err(Error::Internal("this connection wasn't opened for loading".to_owned()));
        }
        match self.ask(sql).await? {
            Answer::File(name) if name == LOCAL_FILE => Ok(LoadIn { connection: self }),
            Answer::File(name) => Err(self.unasked_file(&name)),
            Answer::Done(_) | Answer::Rows(_) => Err(self.confused("no request for the rows of a load")),
        }
    }
}

impl LoadIn<'_> {
    /// Sends bytes of rows, which may begin and end anywhere, and returns their buffer.
    pub async fn send(&mut self, rows: Vec<u8>) -> Result<Vec<u8>, Error> {
        self.send_bytes(&rows).await?;
        Ok(rows)
    }

    /// The same, of bytes that stay where they are.
    pub async fn send_bytes(&mut self, mut rest: &[u8]) -> Result<(), Error> {
        while !rest.is_empty() {
            let (part, others) = rest.split_at(rest.len().min(PIECE));
            self.piece(part).await?;
            rest = others;
        }
        Ok(())
    }

    /// Ends it; returns what the statement did, with the number of its warnings.
    pub async fn finish(mut self) -> Result<Done, Error> {
        self.piece(b"").await?;
        let connection = self.connection;
        connection.flush().await?;
        let payload = connection.packet().await?;
        match payload.first() {
            Some(&answer::OK) => {
                let done = answer::ok(&payload).ok_or_else(|| connection.confused("an answer that is cut"))?;
                connection.finished(done)
            }
            Some(&answer::ERROR) => Err(connection.refusal(&payload)),
            _ => Err(connection.confused("an answer that doesn't belong to a load")),
        }
    }

    /// Gives up. The connection is of no more use; the server rolls the statement back.
    pub async fn abort(self) {
        let _ = self.connection.wire.shutdown().await;
    }

    /// Sends a packet. An empty one is the end of the file.
    async fn piece(&mut self, part: &[u8]) -> Result<(), Error> {
        let connection = &mut *self.connection;
        let header = header_of(part.len(), connection.sequence);
        connection.sequence = connection.sequence.wrapping_add(1);
        match connection.wire.write_all_buf(&mut (&header[..]).chain(part)).await {
            Ok(()) => Ok(()),
            Err(error) => {
                let error = Error::connection(&connection.server, &error);
                // A server that has ended the connection has said why before.
                Err(connection.last_words().await.unwrap_or(error))
            }
        }
    }
}
