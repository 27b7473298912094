//! An application with a live database, driven by lines on its input.
//!
//! `seawall-test-writer DB SEED PAGE_SIZE`, then one of these commands in each line. Each is answered by `ok …` or
//! `error …`:
//!
//! - `commit N`: makes N commits of [`seawall_tests::model`], and prints `committed <number>` for each after it is
//!   durable.
//! - `flood MICROS`: commits until the next line comes, with a pause after each; then answers.
//! - `sql TEXT`: runs it; the answer holds the first column of the first row.
//! - `close`, `open`: the connection.

use std::error::Error;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::fallible_iterator::FallibleIterator as _;
use rusqlite::types::Value;
use seawall_tests::model;

type Outcome = Result<String, Box<dyn Error>>;

struct Writer {
    path: PathBuf,
    seed: u64,
    page_size: u32,
    db: Option<Connection>,
    lines: Receiver<String>,
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let [_, path, seed, page_size] = args.as_slice() else {
        eprintln!("usage: seawall-test-writer DB SEED PAGE_SIZE");
        std::process::exit(2);
    };
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    let mut writer = Writer {
        path: Path::new(path).to_owned(),
        seed: seed.parse().expect("a number"),
        page_size: page_size.parse().expect("a number"),
        db: None,
        lines,
    };
    say(writer.open());
    while let Ok(line) = writer.lines.recv() {
        say(writer.obey(&line));
    }
}

fn say(outcome: Outcome) {
    match outcome {
        Ok(text) => println!("ok {text}"),
        Err(error) => println!("error {error}"),
    }
}

impl Writer {
    fn obey(&mut self, line: &str) -> Outcome {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "commit" => {
                for _ in 0..rest.parse::<u64>()? {
                    self.commit()?;
                }
                Ok(String::new())
            }
            "flood" => self.flood(Duration::from_micros(rest.parse()?)),
            "sql" => self.sql(rest),
            "close" => {
                drop(self.db.take());
                Ok(String::new())
            }
            "open" => self.open(),
            _ => Err(format!("unknown: {line}").into()),
        }
    }

    fn open(&mut self) -> Outcome {
        let db = Connection::open(&self.path)?;
        db.busy_timeout(Duration::from_secs(60))?;
        db.pragma_update(None, "page_size", self.page_size)?;
        db.pragma_update(None, "journal_mode", "wal")?;
        db.pragma_update(None, "synchronous", "normal")?;
        db.execute_batch(&format!("BEGIN IMMEDIATE; {} COMMIT;", model::SCHEMA))?;
        println!("committed {}", model::commits(&db)?);
        self.db = Some(db);
        Ok(String::new())
    }

    fn db(&mut self) -> Result<&mut Connection, Box<dyn Error>> {
        self.db.as_mut().ok_or_else(|| "the database is closed".into())
    }

    fn commit(&mut self) -> Result<(), Box<dyn Error>> {
        let seed = self.seed;
        let number = model::commit(self.db()?, seed)?;
        println!("committed {number}");
        std::io::stdout().flush()?;
        Ok(())
    }

    fn flood(&mut self, pause: Duration) -> Outcome {
        loop {
            self.commit()?;
            match self.lines.recv_timeout(pause) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(_) | Err(RecvTimeoutError::Disconnected) => return Ok(String::new()),
            }
        }
    }

    fn sql(&mut self, sql: &str) -> Outcome {
        let db = self.db()?;
        let mut batch = rusqlite::Batch::new(db, sql);
        let mut first = None;
        while let Some(mut statement) = batch.next()? {
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                if first.is_none() {
                    first = Some(row.get::<_, Value>(0)?);
                }
            }
        }
        Ok(match first {
            None | Some(Value::Null) => String::new(),
            Some(Value::Integer(n)) => n.to_string(),
            Some(Value::Real(n)) => n.to_string(),
            Some(Value::Text(text)) => text,
            Some(Value::Blob(bytes)) => format!("{} bytes", bytes.len()),
        })
    }
}
