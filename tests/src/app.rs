//! The application: a process that owns a live database and commits into it.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::{binaries, wait};

/// A running writer with one connection, like an application that stays up whatever happens to its replicator.
#[derive(Debug)]
pub struct App {
    child: Child,
    stdin: ChildStdin,
    answers: Receiver<String>,
    committed: Arc<AtomicU64>,
    flooding: bool,
}

impl App {
    /// Starts it on a database, which it makes if there is none, with pages of 4096 bytes.
    pub fn start(db: &Path, seed: u64) -> Self {
        Self::with_page_size(db, seed, 4096)
    }

    /// The same, with pages of another size.
    pub fn with_page_size(db: &Path, seed: u64, page_size: u32) -> Self {
        let mut child = Command::new(binaries::writer())
            .arg(db)
            .args([seed.to_string(), page_size.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the writer is built with the tests");
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let committed = Arc::new(AtomicU64::new(0));
        let (sender, answers) = channel();
        let seen = committed.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                match line.strip_prefix("committed ").and_then(|n| n.parse().ok()) {
                    Some(number) => seen.store(number, Ordering::SeqCst),
                    None if sender.send(line).is_err() => break,
                    None => {}
                }
            }
        });
        let app = Self { child, stdin, answers, committed, flooding: false };
        app.answer();
        app
    }

    /// The number of the last commit that the writer reported. It may have made one more.
    pub fn committed(&self) -> u64 {
        self.committed.load(Ordering::SeqCst)
    }

    /// Makes `count` commits, and returns the number of the last.
    pub fn commit(&mut self, count: u64) -> u64 {
        self.ask(&format!("commit {count}"));
        self.committed()
    }

    /// Commits without end, with a pause after each, until [`App::rest`].
    pub fn flood(&mut self, pause: Duration) {
        writeln!(self.stdin, "flood {}", pause.as_micros()).expect("the writer listens");
        self.flooding = true;
    }

    /// Ends a flood, and returns the number of the last commit.
    pub fn rest(&mut self) -> u64 {
        if std::mem::take(&mut self.flooding) {
            self.ask("rest");
        }
        self.committed()
    }

    /// Waits until a flood has reached a commit.
    pub fn until(&self, commit: u64) {
        wait::until(&format!("commit {commit}"), wait::SOON * 2, || (self.committed() >= commit).then_some(()));
    }

    /// Runs SQL, and returns the first column of the first row, if any.
    pub fn sql(&mut self, sql: &str) -> String {
        assert!(!sql.contains('\n'), "one line, please");
        self.ask(&format!("sql {sql}"))
    }

    /// Makes a checkpoint of a mode as applications do: one that doesn't insist when the log is in use.
    pub fn checkpoint(&mut self, mode: &str) {
        self.sql("PRAGMA busy_timeout = 20");
        self.sql(&format!("PRAGMA wal_checkpoint({mode})"));
        self.sql("PRAGMA busy_timeout = 60000");
    }

    /// Closes the connection; SQLite makes a checkpoint if it was the last.
    pub fn close(&mut self) {
        self.ask("close");
    }

    /// Opens the database again, or a new one.
    pub fn open(&mut self) {
        self.ask("open");
    }

    /// Ends the application at once.
    pub fn kill_9(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn ask(&mut self, line: &str) -> String {
        writeln!(self.stdin, "{line}").expect("the writer listens");
        self.answer()
    }

    fn answer(&self) -> String {
        let line = self.answers.recv_timeout(Duration::from_secs(120)).expect("the writer answers");
        line.strip_prefix("ok ").unwrap_or_else(|| panic!("the writer says: {line}")).to_owned()
    }
}

impl Drop for App {
    fn drop(&mut self) {
        self.kill_9();
    }
}
