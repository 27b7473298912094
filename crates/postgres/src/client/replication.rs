//! The replication protocol: facts of a server, slots, and the stream of its log.
//!
//! A connection with `replication=true` speaks simple queries alone, and no SQL. After `START_REPLICATION` both sides send
//! at once (CopyBoth), which `postgres-protocol` doesn't know: this code reads those messages by their tags.
//! Source: PostgreSQL's manual, "Streaming Replication Protocol".

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use postgres_protocol::message::backend::Message;
use seawall_archive::log::{Lsn, SegmentSize, SystemId, TimelineId};

use super::connection::Connection;
use crate::Error;
use crate::quote::ident;

/// The header of a message: its tag, and its length without the tag.
const HEADER: usize = 5;

/// The most bytes of a message of the stream: the server sends 128 KiB of the log at once.
const LARGEST: usize = 16 << 20;

/// What the server says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Its cluster.
    pub(crate) system: SystemId,
    /// The timeline that it writes or replays.
    pub(crate) timeline: TimelineId,
    /// How far its log is durable there.
    pub(crate) flushed: Lsn,
}

/// A physical slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    /// From where on the server keeps its log for it; `None` if it keeps none, because the slot is new or was given up.
    pub(crate) restart: Option<Lsn>,
}

/// What the stream gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Streamed {
    /// Bytes of the log.
    Log {
        /// The position of the first one.
        start: Lsn,
        /// How far the server's log goes.
        end: Lsn,
        /// The bytes.
        bytes: Bytes,
    },
    /// A sign of life.
    Alive {
        /// How far the server's log goes.
        end: Lsn,
        /// Whether it wants an answer now.
        reply: bool,
    },
    /// The timeline ends here.
    End,
}

/// Where the next timeline begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Switch {
    /// The next timeline.
    pub(crate) timeline: TimelineId,
    /// Its first position.
    pub(crate) position: Lsn,
}

/// What became of a request for the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begun {
    /// It streams.
    Streaming,
    /// The timeline has ended at the position that was asked for.
    Ended(Option<Switch>),
}

impl Connection {
    /// What the server says of itself.
    pub(crate) async fn identify(&mut self) -> Result<Identity, Error> {
        let row = self.one("IDENTIFY_SYSTEM").await?;
        let system = row.text(0).parse().ok();
        let timeline = row.text(1).parse().ok().and_then(TimelineId::new);
        let flushed = row.text(2).parse().ok();
        match (system, timeline, flushed) {
            (Some(system), Some(timeline), Some(flushed)) => Ok(Identity { system, timeline, flushed }),
            _ => Err(self.confused("an identity that is none")),
        }
    }

    /// The size of the cluster's segments.
    pub(crate) async fn segment_size(&mut self) -> Result<SegmentSize, Error> {
        let text = self.one("SHOW wal_segment_size").await?;
        let (number, unit) = text.text(0).split_at(text.text(0).trim_end_matches(char::is_alphabetic).len());
        let unit: u32 = match unit {
            "GB" => 1 << 30,
            "MB" => 1 << 20,
            "kB" => 1 << 10,
            _ => 1,
        };
        let bytes = number.parse::<u32>().ok().and_then(|number| number.checked_mul(unit));
        bytes.and_then(SegmentSize::new).ok_or_else(|| self.confused("a size of segments that is none"))
    }

    /// The value of a setting; `None` if the server has none of this name.
    pub(crate) async fn setting(&mut self, name: &'static str) -> Result<Option<String>, Error> {
        match self.one(&format!("SHOW {name}")).await {
            Ok(row) => Ok(Some(row.text(0).to_owned())),
            Err(error) if error.sqlstate() == Some("42704") => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The history file of a timeline, as the server wrote it.
    pub(crate) async fn timeline_history(&mut self, timeline: TimelineId) -> Result<Vec<u8>, Error> {
        self.send_query(&format!("TIMELINE_HISTORY {}", timeline.number())).await?;
        let (mut content, mut failed) = (None, None);
        loop {
            match self.message().await? {
                Message::DataRow(body) => content = self.raw_column(&body, 1)?,
                Message::ErrorResponse(body) => failed = Some(self.refusal(&body)),
                Message::ReadyForQuery(_) => break,
                Message::RowDescription(_) | Message::CommandComplete(_) => {}
                _ => return Err(self.confused("an answer that doesn't belong to a history")),
            }
        }
        match (failed, content) {
            (Some(error), _) => Err(error),
            (None, Some(content)) => Ok(content),
            (None, None) => Err(self.confused("no history where one was asked for")),
        }
    }

    /// A slot; `None` if there is none of this name.
    pub(crate) async fn slot(&mut self, name: &str) -> Result<Option<Slot>, Error> {
        let row = self.one(&format!("READ_REPLICATION_SLOT {}", ident(name))).await?;
        match row.optional(0) {
            None => Ok(None),
            Some("physical") => Ok(Some(Slot { restart: row.optional(1).and_then(|text| text.parse().ok()) })),
            Some(kind) => Err(Error::Refused {
                code: "postgres.slot",
                object: name.to_owned(),
                cause: format!("the slot is a {kind} one"),
                next: "name another slot, or drop this one with pg_drop_replication_slot".to_owned(),
            }),
        }
    }

    /// Makes a physical slot that keeps the log from now on.
    pub(crate) async fn make_slot(&mut self, name: &str) -> Result<(), Error> {
        self.execute(&format!("CREATE_REPLICATION_SLOT {} PHYSICAL (RESERVE_WAL)", ident(name))).await
    }

    /// Drops a slot. The server refuses while a connection uses it.
    pub(crate) async fn drop_slot(&mut self, name: &str) -> Result<(), Error> {
        self.execute(&format!("DROP_REPLICATION_SLOT {}", ident(name))).await
    }

    /// Asks for the log of a timeline from a position on.
    pub(crate) async fn start_stream(&mut self, slot: &str, from: Lsn, timeline: TimelineId) -> Result<Begun, Error> {
        let slot = ident(slot);
        self.send_query(&format!("START_REPLICATION SLOT {slot} PHYSICAL {from} TIMELINE {}", timeline.number()))
            .await?;
        while self.inbox.len() < HEADER {
            self.fill().await?;
        }
        while matches!(self.inbox.first(), Some(b'N' | b'S')) {
            self.raw().await?;
            while self.inbox.len() < HEADER {
                self.fill().await?;
            }
        }
        if self.inbox.first() == Some(&b'W') {
            self.raw().await?;
            return Ok(Begun::Streaming);
        }
        Ok(Begun::Ended(self.switch().await?))
    }

    /// The next message of the stream. May be dropped while it waits: nothing is lost then.
    pub(crate) async fn streamed(&mut self) -> Result<Streamed, Error> {
        loop {
            self.whole_message().await?;
            match self.inbox.first() {
                Some(b'd') => {
                    let (_, body) = self.raw().await?;
                    return streamed(body).ok_or_else(|| self.confused("a part of the log that is none"));
                }
                Some(b'c') => {
                    self.raw().await?;
                    return Ok(Streamed::End);
                }
                Some(b'N' | b'S') => drop(self.raw().await?),
                _ => {
                    return match self.message().await? {
                        Message::ErrorResponse(body) => Err(self.refusal(&body)),
                        // A server that is shut down in order completes the command, and closes the connection.
                        Message::CommandComplete(_) | Message::ReadyForQuery(_) => Err(self.closing()),
                        _ => Err(self.confused("an answer that doesn't belong to a stream")),
                    };
                }
            }
        }
    }

    /// The server ended the stream without an error.
    fn closing(&self) -> Error {
        Error::Connection {
            server: self.server.clone(),
            cause: "the server ended the stream: it shuts down".to_owned(),
        }
    }

    /// Tells how far the log was received, and how far it is durable. It is never said to be applied: nothing is.
    pub(crate) async fn feedback(&mut self, received: Lsn, durable: Lsn, now: i64, reply: bool) -> Result<(), Error> {
        self.outbox.clear();
        put_feedback(&mut self.outbox, received, durable, now, reply);
        self.flush().await
    }

    /// Ends the stream from this side. Returns where the next timeline begins, if the server had ended its timeline.
    pub(crate) async fn end_stream(&mut self) -> Result<Option<Switch>, Error> {
        self.outbox.clear();
        self.outbox.put_u8(b'c');
        self.outbox.put_i32(4);
        self.flush().await?;
        // What was on its way comes first.
        loop {
            self.whole_message().await?;
            match self.inbox.first() {
                Some(b'd' | b'c' | b'N' | b'S') => drop(self.raw().await?),
                _ => return self.switch().await,
            }
        }
    }

    /// Reads the rest of an answer, and the row in it that tells where the next timeline begins.
    async fn switch(&mut self) -> Result<Option<Switch>, Error> {
        let (mut found, mut failed) = (None, None);
        loop {
            match self.message().await? {
                Message::DataRow(body) => {
                    let text = |bytes: Option<Vec<u8>>| bytes.and_then(|bytes| String::from_utf8(bytes).ok());
                    let timeline = text(self.raw_column(&body, 0)?).and_then(|text| text.parse().ok());
                    let position = text(self.raw_column(&body, 1)?).and_then(|text| text.parse().ok());
                    let timeline = timeline.and_then(TimelineId::new);
                    found = timeline.zip(position).map(|(timeline, position)| Switch { timeline, position });
                }
                Message::ErrorResponse(body) => failed = Some(self.refusal(&body)),
                Message::ReadyForQuery(_) => break,
                Message::RowDescription(_) | Message::CommandComplete(_) | Message::CopyDone => {}
                _ => return Err(self.confused("an answer that doesn't belong to the end of a stream")),
            }
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(found),
        }
    }

    /// Waits until a message is whole in memory.
    async fn whole_message(&mut self) -> Result<usize, Error> {
        loop {
            if let Some([_, a, b, c, d]) = self.inbox.first_chunk::<HEADER>() {
                let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
                if !(4..=LARGEST).contains(&length) {
                    return Err(self.confused("a message of an impossible length"));
                }
                if self.inbox.len() > length {
                    return Ok(length + 1);
                }
            }
            self.fill().await?;
        }
    }

    /// Takes the next message as it is: its tag, and its body.
    async fn raw(&mut self) -> Result<(u8, Bytes), Error> {
        let length = self.whole_message().await?;
        let mut message = self.inbox.split_to(length).freeze();
        let tag = message.get_u8();
        message.advance(4);
        Ok((tag, message))
    }

    /// The bytes of a column.
    fn raw_column(
        &self,
        body: &postgres_protocol::message::backend::DataRowBody,
        column: usize,
    ) -> Result<Option<Vec<u8>>, Error> {
        use fallible_iterator::FallibleIterator as _;
        let range = body.ranges().nth(column).map_err(|error| self.confused(&error.to_string()))?.flatten();
        Ok(range.and_then(|range| body.buffer().get(range)).map(<[u8]>::to_vec))
    }
}

/// Reads the content of a message of the stream.
pub(crate) fn streamed(mut body: Bytes) -> Option<Streamed> {
    match (body.try_get_u8().ok()?, body.len()) {
        (b'w', 24..) => {
            let (start, end) = (Lsn::new(body.get_u64()), Lsn::new(body.get_u64()));
            body.advance(8);
            start.after(body.len() as u64)?;
            Some(Streamed::Log { start, end, bytes: body })
        }
        (b'k', 17) => {
            let end = Lsn::new(body.get_u64());
            body.advance(8);
            Some(Streamed::Alive { end, reply: body.get_u8() == 1 })
        }
        _ => None,
    }
}

/// Writes the message that tells how far the log was received. `now` is microseconds since the year 2000.
fn put_feedback(outbox: &mut BytesMut, received: Lsn, durable: Lsn, now: i64, reply: bool) {
    outbox.put_u8(b'd');
    outbox.put_i32(4 + 1 + 8 * 4 + 1);
    outbox.put_u8(b'r');
    outbox.put_u64(received.byte());
    outbox.put_u64(durable.byte());
    outbox.put_u64(0);
    outbox.put_i64(now);
    outbox.put_u8(u8::from(reply));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_the_stream() {
        let mut log = BytesMut::new();
        log.put_u8(b'w');
        log.put_u64(0x300_0000);
        log.put_u64(0x300_0100);
        log.put_i64(1);
        log.put_slice(b"bytes");
        let (start, end) = (Lsn::new(0x300_0000), Lsn::new(0x300_0100));
        let bytes = Bytes::from_static(b"bytes");
        assert_eq!(streamed(log.clone().freeze()), Some(Streamed::Log { start, end, bytes }));
        let mut alive = BytesMut::new();
        alive.put_u8(b'k');
        alive.put_u64(0x300_0100);
        alive.put_i64(1);
        alive.put_u8(1);
        assert_eq!(streamed(alive.clone().freeze()), Some(Streamed::Alive { end, reply: true }));
        for cut in 0..alive.len() {
            assert_eq!(streamed(alive.clone().freeze().slice(..cut)), None, "{cut}");
        }
        for cut in 0..25 {
            assert_eq!(streamed(log.clone().freeze().slice(..cut)), None, "{cut}");
        }
        let mut beyond = log;
        beyond[1..9].fill(0xff);
        assert_eq!(streamed(beyond.freeze()), None);
        let mut outbox = BytesMut::new();
        put_feedback(&mut outbox, end, start, 7, false);
        assert_eq!(outbox.len(), 1 + 38);
        assert_eq!(outbox[22..30], [0; 8], "nothing was applied");
    }
}
