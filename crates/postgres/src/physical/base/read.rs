//! Reading stretches of files over SQL.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, Semaphore};
use tokio::time::timeout;

use super::budget::STRETCH;
use super::index::Extent;
use super::pages::RelationFile;
use crate::client::{Connection, Filled, Target};
use crate::quote::literal;
use crate::{CopyFormat, Error};

/// The most pieces of one statement.
pub(crate) const MOST_PIECES: usize = 256;

/// The most bytes of one row. The server builds a row in memory, three times over, and gives it back: memory of this size is kept
/// for the next row, and of larger rows each costs new pages, which takes twice as long.
const ROW: usize = 128 << 10;

/// How long the server may take for one statement that reads. A frozen disk, or a special file whose opening waits for ever, then fails the
/// base instead of holding it up.
const PATIENCE: Duration = Duration::from_secs(600);

/// Bytes around the content of a row: the number of columns, and the length of each, with the first column.
const AROUND: usize = 2 + 4 + 4 + 4;

/// A part of a file that is read with one statement.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    pub(crate) path: String,
    pub(crate) modified: u64,
    pub(crate) offset: u64,
    /// Bytes that the file had there when it was listed.
    pub(crate) length: usize,
    /// If it holds pages with checksums.
    pub(crate) relation: Option<RelationFile>,
    /// The extent of the base before that begins where this piece's does.
    pub(crate) before: Option<Arc<Extent>>,
}

/// The bytes of several pieces.
#[derive(Debug)]
pub(crate) struct Raw {
    /// All of them, with what the protocol has around them.
    pub(crate) bytes: Vec<u8>,
    /// For each piece where its bytes are; `None` if its file is gone.
    pub(crate) places: Vec<Option<Range<usize>>>,
}

/// Connections that read.
pub(crate) struct Readers {
    idle: Mutex<Vec<Connection>>,
    permits: Semaphore,
}

impl Readers {
    /// Connects so many times, to the server of `session`: behind one name there may be several, and their files don't fit
    /// together.
    ///
    /// # Errors
    /// `postgres.several-servers` if a connection leads to another server.
    pub(crate) async fn open(target: &Target, jobs: usize, session: &mut Connection) -> Result<Self, Error> {
        let started = started(session).await?;
        let mut idle = Vec::new();
        for _ in 0..jobs.max(1) {
            let mut connection = Connection::open(target).await?;
            // A little longer than we wait: then the session ends, too, and nothing of it stays on the server.
            connection.execute(&format!("SET statement_timeout = {}", (PATIENCE.as_secs() + 10) * 1000)).await?;
            if self::started(&mut connection).await? != started {
                return Err(Error::Refused {
                    code: "postgres.several-servers",
                    object: target.to_string(),
                    cause: "its connections lead to different servers, and files of several servers make no base"
                        .to_owned(),
                    next: "name one server by its own address, not a service or a proxy that leads to several"
                        .to_owned(),
                });
            }
            idle.push(connection);
        }
        Ok(Self { permits: Semaphore::new(idle.len()), idle: Mutex::new(idle) })
    }

    /// Reads pieces with the next connection that is free.
    pub(crate) async fn read(&self, pieces: &[Piece]) -> Result<Raw, Error> {
        let _permit = self.permits.acquire().await.map_err(|_| Error::Internal("no readers".to_owned()))?;
        let taken = self.idle.lock().await.pop();
        let mut connection = taken.ok_or_else(|| Error::Internal("no reader is free".to_owned()))?;
        let raw = read(&mut connection, pieces).await?;
        self.idle.lock().await.push(connection);
        Ok(raw)
    }

    /// Ends all sessions in order.
    pub(crate) async fn close(self) {
        for connection in self.idle.into_inner() {
            connection.close().await;
        }
    }
}

/// When the server of a connection started, in microseconds: connections to one server agree on that, and no two servers do.
async fn started(connection: &mut Connection) -> Result<String, Error> {
    let sql = "SELECT EXTRACT(EPOCH FROM pg_catalog.pg_postmaster_start_time())::pg_catalog.text";
    Ok(connection.one(sql).await?.text(0).to_owned())
}

/// Reads pieces. A file that was listed as empty isn't opened: a named pipe and a socket are listed so, and their opening waits for ever, or
/// fails. The log has what the server wrote to an empty file since then.
pub(crate) async fn read(connection: &mut Connection, pieces: &[Piece]) -> Result<Raw, Error> {
    let filled: Vec<Piece> = pieces.iter().filter(|piece| piece.length > 0).cloned().collect();
    let Raw { bytes, places } = match filled.is_empty() {
        true => Raw { bytes: Vec::new(), places: Vec::new() },
        false => match timeout(PATIENCE, read_filled(connection, &filled)).await {
            Ok(read) => read?,
            Err(_) => return Err(connection.late(waited(&filled))),
        },
    };
    let mut places = places.into_iter();
    let place = |piece: &Piece| if piece.length > 0 { places.next().flatten() } else { Some(0..0) };
    Ok(Raw { places: pieces.iter().map(place).collect(), bytes })
}

/// What isn't read in time. Pure.
fn waited(pieces: &[Piece]) -> String {
    let (minutes, others) = (PATIENCE.as_secs() / 60, pieces.len().saturating_sub(1));
    let first = pieces.first().map_or("", |piece| piece.path.as_str());
    let others = if others == 0 { String::new() } else { format!(", or one of the {others} files behind it") };
    format!("it doesn't read {first}{others} within {minutes} minutes: its disk hangs, or that is no regular file")
}

/// Reads pieces with one statement, which has several rows for a long piece.
async fn read_filled(connection: &mut Connection, pieces: &[Piece]) -> Result<Raw, Error> {
    let wanted: usize = pieces.iter().map(|piece| piece.length + rows(piece) * AROUND).sum();
    if wanted > STRETCH + (MOST_PIECES + STRETCH / ROW) * AROUND {
        return Err(Error::Internal("more is read at once than fits".to_owned()));
    }
    let mut values = String::new();
    let mut number = 0_usize;
    for piece in pieces {
        let path = literal(&piece.path);
        let most = row_bytes(piece);
        for row in 0..rows(piece) {
            let (offset, length) = (piece.offset + (row * most) as u64, (piece.length - row * most).min(most));
            let comma = if number == 0 { "" } else { ", " };
            let row = format!("{comma}({number}, {path}, {offset}::pg_catalog.int8, {length}::pg_catalog.int8)");
            values.push_str(&row);
            number += 1;
        }
    }
    let sql = format!(
        "COPY (SELECT v.n, pg_catalog.pg_read_binary_file(v.p, v.o, v.l, true) FROM (VALUES {values}) AS v (n, p, o, l)) \
         TO STDOUT (FORMAT binary)",
    );
    let mut bytes = Vec::with_capacity(wanted.max(AROUND));
    let mut copy = connection.copy_out(&sql, CopyFormat::Binary).await?;
    let ended = copy.fill(&mut bytes).await?;
    if ended.0 != Filled::Done {
        return Err(connection.confused("more of a file than was asked for"));
    }
    let counts: Vec<usize> = pieces.iter().map(rows).collect();
    match places(&bytes, number) {
        Some(found) => Ok(Raw { places: joined(&mut bytes, &counts, &found), bytes }),
        None => Err(connection.confused("rows that aren't those of the files")),
    }
}

/// The most bytes that a row of a piece has. Files of relations keep their place; another file may be replaced by one of the same
/// name between two rows, so it has one row.
fn row_bytes(piece: &Piece) -> usize {
    if piece.relation.is_some() { ROW } else { piece.length.max(1) }
}

/// How many rows a piece has.
fn rows(piece: &Piece) -> usize {
    piece.length.div_ceil(row_bytes(piece)).max(1)
}

/// Joins the rows of each piece, of which these are the counts, and returns where its bytes are then. Pure.
///
/// A row that is short ends its piece: the file ends there, or did when the row was read. A piece of which a row has nothing is
/// gone: its file went while it was read.
fn joined(bytes: &mut [u8], counts: &[usize], rows: &[Option<Range<usize>>]) -> Vec<Option<Range<usize>>> {
    let mut left = rows;
    let mut pieces = Vec::with_capacity(counts.len());
    for count in counts {
        let (these, others) = left.split_at((*count).min(left.len()));
        left = others;
        let Some(these) = these.iter().cloned().collect::<Option<Vec<_>>>() else {
            pieces.push(None);
            continue;
        };
        let start = these.first().map_or(0, |row| row.start);
        let mut end = start;
        for row in these {
            let is_short = row.len() < ROW;
            let length = row.len();
            bytes.copy_within(row, end);
            end += length;
            if is_short {
                break;
            }
        }
        pieces.push(Some(start..end));
    }
    pieces
}

/// Where the content of each row is: two columns, the row's number and the bytes. Pure.
fn places(bytes: &[u8], rows: usize) -> Option<Vec<Option<Range<usize>>>> {
    let (mut at, mut found) = (0, Vec::with_capacity(rows));
    for nth in 0..rows {
        let head = bytes.get(at..at + AROUND)?;
        let number = |from: usize| head.get(from..from + 4)?.try_into().ok().map(i32::from_be_bytes);
        if head[..2] != [0, 2] || number(2)? != 4 || usize::try_from(number(6)?).ok()? != nth {
            return None;
        }
        at += AROUND;
        let Ok(length) = usize::try_from(number(10)?) else {
            found.push(None);
            continue;
        };
        let end = at.checked_add(length).filter(|end| *end <= bytes.len())?;
        found.push(Some(at..end));
        at = end;
    }
    (at == bytes.len()).then_some(found)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn row(nth: i32, content: Option<&[u8]>) -> Vec<u8> {
        let mut row = vec![0, 2, 0, 0, 0, 4];
        row.extend(nth.to_be_bytes());
        row.extend(content.map_or(-1, |content| i32::try_from(content.len()).expect("small")).to_be_bytes());
        row.extend(content.unwrap_or_default());
        row
    }

    #[test]
    fn rows_are_those_that_were_asked_for() {
        let all = [row(0, Some(b"abc")), row(1, None), row(2, Some(b""))].concat();
        assert_eq!(places(&all, 3), Some(vec![Some(14..17), None, Some(45..45)]));
        for (bytes, rows) in [(&all[..], 2), (&all[..], 4), (&all[..all.len() - 1], 3), (&row(1, None)[..], 1)] {
            assert_eq!(places(bytes, rows), None);
        }
    }

    #[test]
    fn rows_of_a_piece_are_joined() {
        let long = |byte: u8, bytes: usize| vec![byte; bytes];
        for (rows, expected) in [
            (
                vec![Some(long(1, ROW)), Some(long(2, ROW)), Some(long(3, 10))],
                Some([long(1, ROW), long(2, ROW), long(3, 10)].concat()),
            ),
            (vec![Some(long(1, ROW)), Some(long(2, 20)), Some(Vec::new())], Some([long(1, ROW), long(2, 20)].concat())),
            // It was cut off, and has grown again.
            (
                vec![Some(long(1, ROW)), Some(long(2, 20)), Some(long(3, 10))],
                Some([long(1, ROW), long(2, 20)].concat()),
            ),
            (vec![Some(Vec::new()), Some(Vec::new()), Some(Vec::new())], Some(Vec::new())),
            (vec![Some(long(1, ROW)), None, None], None),
            (vec![None, None, None], None),
        ] {
            let all = rows.into_iter().chain([Some(vec![7; 5])]);
            let all: Vec<u8> = (0..).zip(all).flat_map(|(nth, content)| row(nth, content.as_deref())).collect();
            let found = places(&all, 4).expect("four rows");
            let mut bytes = all.clone();
            let pieces = joined(&mut bytes, &[3, 1], &found);
            let content = |nth: usize| pieces[nth].clone().map(|place| bytes[place].to_vec());
            assert_eq!((content(0), content(1)), (expected, Some(vec![7; 5])));
        }
        let relation = RelationFile::parse("16384");
        let rows_of = |length, relation| {
            rows(&Piece { path: String::new(), modified: 0, offset: 0, length, relation, before: None })
        };
        assert_eq!([0, 1, ROW, ROW + 1, STRETCH].map(|length| rows_of(length, relation)), [1, 1, 1, 2, 16]);
        assert_eq!(rows_of(STRETCH, None), 1);
    }

    #[test]
    fn what_is_not_read_in_time_is_named() {
        let piece =
            |path: &str| Piece { path: path.into(), modified: 0, offset: 0, length: 1, relation: None, before: None };
        let one = waited(&[piece("pipe")]);
        assert!(one.contains("read pipe within 10 minutes"), "{one}");
        let three = waited(&[piece("a"), piece("b"), piece("c")]);
        assert!(three.contains("read a, or one of the 2 files behind it within"), "{three}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_rows_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..100), rows in 0_usize..5) {
            if let Some(places) = places(&bytes, rows) {
                prop_assert_eq!(places.len(), rows);
            }
        }
    }
}
