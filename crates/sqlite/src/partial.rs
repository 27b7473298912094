//! Makes a file under a temporary name. The file gets its final name once it is complete, checked and synced (I8).

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, InterruptHandle, OpenFlags};
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
        if !end.begin(&connection) {
            return Ok(None);
        }
        connection.query_row(pragma, [], |row| row.get(0)).map(Some)
    };
    let found = check().map_err(Error::sqlite(path));
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
