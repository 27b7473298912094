//! Makes a file under a temporary name. The file gets its final name once it is complete, checked and synced (I8).

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::limits::Limit;
use rusqlite::{Connection, ErrorCode, InterruptHandle, OpenFlags};
use seawall_core::IntegrityCheck;

use crate::error::Error;
use crate::files::sidecar;
use crate::options::system_random;

/// Refuses a target that exists, unless `force` allows to replace it. Also refuses side files of another database.
pub(crate) fn check_target(output: &Path, force: bool) -> Result<(), Error> {
    let taken = |what| Err(Error::TargetExists { path: output.to_owned(), what });
    match fs::metadata(output) {
        Ok(found) if found.is_dir() => return taken("it is a directory"),
        Ok(found) if !force && found.len() > 0 => return taken("the file exists"),
        Ok(_) => {}
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(Error::io(output)(e)),
    }
    if !force && sidecars(output).any(|path| path.exists()) {
        return taken("there is a -wal, -shm or -journal file of another database beside it");
    }
    Ok(())
}

fn sidecars(database: &Path) -> impl Iterator<Item = PathBuf> {
    ["-wal", "-shm", "-journal"].into_iter().map(move |suffix| sidecar(database, suffix))
}

/// A file that is being made under a temporary name. Dropping it unfinished removes the file.
pub(crate) struct Partial {
    output: PathBuf,
    partial: PathBuf,
    done: bool,
}

impl Partial {
    /// Creates the temporary file, beside `output`, which is its final name.
    pub(crate) fn create(output: &Path) -> Result<(Self, File), Error> {
        // The random name keeps two restores to one place apart, and `create_new` never opens another program's file.
        let partial = sidecar(output, &format!(".{:016x}.tmp", system_random()));
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&partial);
        let file = file.map_err(Error::io(&partial))?;
        Ok((Self { output: output.to_owned(), partial, done: false }, file))
    }

    /// The temporary name.
    pub(crate) fn path(&self) -> &Path {
        &self.partial
    }

    /// Syncs and checks the file, and gives it its final name.
    pub(crate) fn finish(mut self, file: &File, integrity: IntegrityCheck, force: bool) -> Result<(), Error> {
        file.sync_all().map_err(Error::io(&self.partial))?;
        check_integrity(&self.partial, integrity)?;
        check_target(&self.output, force)?;
        self.take_the_name().map_err(Error::io(&self.output))?;
        self.done = true;
        Ok(())
    }

    /// Renames the file to its final name. The side files of an old database there are moved away first, because SQLite would
    /// apply an old WAL to the new file. If the file can't be renamed, they are moved back.
    fn take_the_name(&self) -> io::Result<()> {
        let mut aside: Vec<(PathBuf, PathBuf)> = Vec::new();
        let mut named = || -> io::Result<()> {
            for stale in sidecars(&self.output) {
                let away = sidecar(&stale, &format!(".{:016x}.tmp", system_random()));
                match fs::rename(&stale, &away) {
                    Ok(()) => aside.push((stale, away)),
                    Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                    Err(e) => return Err(e),
                }
            }
            fs::rename(&self.partial, &self.output)
        };
        if let Err(error) = named() {
            for (stale, away) in aside {
                fs::rename(away, stale)?;
            }
            return Err(error);
        }
        let parent = seawall_host::folder_of(&self.output);
        File::open(parent)?.sync_all()?;
        for (_, away) in aside {
            fs::remove_file(away)?;
        }
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.done {
            let _nothing_more_to_do = fs::remove_file(&self.partial);
        }
    }
}

/// A file beside `path` without a name. The system frees it when this process ends in any way.
pub(crate) fn unnamed(path: &Path) -> Result<File, Error> {
    let name = sidecar(path, &format!(".{:016x}.tmp", system_random()));
    let make = || -> io::Result<File> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&name)?;
        fs::remove_file(&name)?;
        Ok(file)
    };
    make().map_err(Error::io(&name))
}

/// Ends a check on another thread when this is dropped.
#[derive(Default)]
pub(crate) struct EndOnDrop(End);

/// How a check is ended by [`EndOnDrop`].
#[derive(Clone, Default)]
pub(crate) struct End(Arc<Mutex<Ending>>);

#[derive(Default)]
struct Ending {
    asked: bool,
    running: Option<InterruptHandle>,
}

impl EndOnDrop {
    /// For the thread that checks.
    pub(crate) fn end(&self) -> End {
        self.0.clone()
    }
}

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        let mut ending = self.0.lock();
        ending.asked = true;
        if let Some(running) = &ending.running {
            running.interrupt();
        }
    }
}

impl End {
    fn lock(&self) -> MutexGuard<'_, Ending> {
        // Whole between any two statements that can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the statements of a connection be ended. Answers whether they may begin.
    fn begin(&self, connection: &Connection) -> bool {
        let mut ending = self.lock();
        ending.running = Some(connection.get_interrupt_handle());
        !ending.asked
    }
}

/// Lets SQLite check the finished file, and removes the side files of the check.
pub(crate) fn check_integrity(path: &Path, check: IntegrityCheck) -> Result<(), Error> {
    check_integrity_until(path, check, &End::default())
}

/// The same, unless it is ended before. Then the result is [`Error::Interrupted`].
pub(crate) fn check_integrity_until(path: &Path, check: IntegrityCheck, end: &End) -> Result<(), Error> {
    let pragma = match check {
        IntegrityCheck::None => return Ok(()),
        IntegrityCheck::Quick => "PRAGMA quick_check(1)",
        IntegrityCheck::Full => "PRAGMA integrity_check(1)",
    };
    let check = || -> rusqlite::Result<Option<String>> {
        let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, longest(path))?;
        // A row that breaks a constraint is one of the application's: a copy that has it is right.
        connection.pragma_update(None, "ignore_check_constraints", true)?;
        if !end.begin(&connection) {
            return Ok(None);
        }
        connection.query_row(pragma, [], |row| row.get(0)).map(Some)
    };
    let found = check().map_err(|error| match uncheckable(&error) {
        Some(why) => Error::Uncheckable { path: path.to_owned(), why },
        None => Error::sqlite(path)(error),
    });
    for left in sidecars(path) {
        let _may_be_absent = fs::remove_file(left);
    }
    if end.lock().asked {
        return Err(Error::Interrupted);
    }
    match found? {
        Some(answer) if answer == "ok" => Ok(()),
        Some(answer) => Err(Error::Corrupt { object: path.display().to_string(), what: answer }),
        None => Err(Error::Interrupted),
    }
}

fn longest(path: &Path) -> i32 {
    longest_value(fs::metadata(path).map_or(u64::MAX, |metadata| metadata.len()))
}

/// The longest value that SQLite may meet or compute in a database of so many bytes: no value of a file is longer than the file. A
/// definition in a hostile file may ask for values of any length.
pub fn longest_value(bytes: u64) -> i32 {
    const LEAST: u64 = 1 << 20;
    const MOST: u64 = 1_000_000_000;
    i32::try_from(bytes.clamp(LEAST, MOST)).unwrap_or(i32::MAX)
}

/// Why SQLite can't check a file without its application; `None` for every other error.
fn uncheckable(error: &rusqlite::Error) -> Option<String> {
    const MISSING: [&str; 4] = ["unknown function", "no such function", "no such collation sequence", "no such module"];
    let text = error.to_string();
    let is_too_long = error.sqlite_error_code() == Some(ErrorCode::TooBig);
    (is_too_long || MISSING.iter().any(|what| text.contains(what))).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A database that `sql` makes on a connection with a function and a collation of the application.
    fn made(folder: &tempfile::TempDir, sql: &str) -> PathBuf {
        let path = folder.path().join("app.db");
        let connection = Connection::open(&path).expect("opened");
        let flags = rusqlite::functions::FunctionFlags::SQLITE_DETERMINISTIC;
        connection.create_scalar_function("own", 1, flags, |context| context.get::<i64>(0)).expect("a function");
        connection.create_collation("mine", |one, other| one.cmp(other)).expect("a collation");
        connection.execute_batch(sql).expect("made");
        path
    }

    #[test]
    fn what_only_the_application_can_check_is_no_damage() {
        for (sql, full, quick) in [
            ("CREATE TABLE t(a); INSERT INTO t VALUES (1)", true, true),
            ("CREATE TABLE t(a); INSERT INTO t VALUES (1); CREATE INDEX i ON t(own(a))", false, true),
            ("CREATE TABLE t(a COLLATE mine PRIMARY KEY) WITHOUT ROWID; INSERT INTO t VALUES ('x')", false, false),
            ("CREATE TABLE t(a CHECK (own(a) = a)); INSERT INTO t VALUES (1)", true, true),
            (
                "PRAGMA ignore_check_constraints = 1; CREATE TABLE t(a CHECK (a > 9)); INSERT INTO t VALUES (1)",
                true,
                true,
            ),
        ] {
            let folder = tempfile::tempdir().expect("a folder");
            let path = made(&folder, sql);
            for (check, fine) in [(IntegrityCheck::Full, full), (IntegrityCheck::Quick, quick)] {
                match check_integrity(&path, check) {
                    Ok(()) => assert!(fine, "{sql}: {check:?}"),
                    Err(Error::Uncheckable { .. }) => assert!(!fine, "{sql}: {check:?}"),
                    Err(other) => panic!("{sql}: {other}"),
                }
            }
        }
    }

    #[test]
    fn a_hostile_definition_takes_no_more_memory_than_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path =
            made(&folder, "CREATE TABLE t(a); CREATE INDEX i ON t(length(zeroblob(a))); INSERT INTO t VALUES (1)");
        let connection = Connection::open(&path).expect("opened");
        // The check would compute the index anew.
        connection.execute_batch("PRAGMA writable_schema = 1; UPDATE sqlite_schema SET sql = 'CREATE INDEX i ON t(length(hex(zeroblob(400000000))))' WHERE name = 'i'").expect("written");
        drop(connection);
        let found = check_integrity(&path, IntegrityCheck::Full);
        assert!(matches!(found, Err(Error::Uncheckable { .. })), "{found:?}");
    }
}
