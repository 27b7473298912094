//! Applies files to a database: all files are verified first, and either all of them are applied or none.
//!
//! If the files hold a whole database (a snapshot, or a deletion and the files after it), a new file is made and
//! replaces the old one. If the files only change a database, every file is verified first. Then a rollback journal
//! saves the pages that the files touch, and only then the pages are changed in place.
//!
//! The database checksum is updated on the way: for each page that a file touches, the old page's checksum is taken out
//! and the new page's is added. The whole database is read at most once, before the first change, to compare it with
//! the first file's pre-apply checksum.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::file::change::{self, State};
use crate::file::checksum::sum;
use crate::file::database::Database;
use crate::file::encode::refuse_journal;
use crate::file::error::{FileError, Result};
use crate::file::journal::Journal;
use crate::file::replace::{Replacement, check_distinct};
use crate::file::wal::Wal;
use crate::file::{Work, decode, sequential, touched, verify};
use crate::{Checksum, FileName, Header, PageSize, Rolling, Txid};

/// How [`apply`] works.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let database = folder.path().join("app.db");
/// # rusqlite::Connection::open(&database)?.execute_batch("CREATE TABLE t(x)")?;
/// # let snapshot = folder.path().join("snapshot.ltx");
/// # let options = seawall_ltx::file::EncodeOptions { timestamp_ms: 0, no_checksum: false };
/// # seawall_ltx::file::encode(&database, &snapshot, options, seawall_ltx::file::Work::new())?;
/// use seawall_ltx::file::{ApplyOptions, Work, apply};
///
/// let options = ApplyOptions { touched_only: true };
/// assert_eq!(apply(&database, &[snapshot], options, Work::new())?.pages, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ApplyOptions {
    /// Assume that the database is in the state that the first file was made for, instead of reading all of it to
    /// check. The touched pages are still checked: the files' checksums prove what the writer had there.
    pub touched_only: bool,
}

/// What [`apply`] did.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let database = folder.path().join("app.db");
/// # rusqlite::Connection::open(&database)?.execute_batch("CREATE TABLE t(x)")?;
/// # let snapshot = folder.path().join("snapshot.ltx");
/// # let options = seawall_ltx::file::EncodeOptions { timestamp_ms: 0, no_checksum: false };
/// # seawall_ltx::file::encode(&database, &snapshot, options, seawall_ltx::file::Work::new())?;
/// use seawall_ltx::Txid;
/// use seawall_ltx::file::{Applied, ApplyOptions, Work, apply};
///
/// let Applied { txid, checksum, .. } = apply(&database, &[snapshot], ApplyOptions::default(), Work::new())?;
/// assert!(txid == Txid(1) && checksum.is_some_and(|checksum| checksum.is_valid()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Applied {
    /// The last transaction.
    pub txid: Txid,
    /// The size of the database in pages; 0 if the files deleted it, which leaves an empty file.
    pub pages: u32,
    /// The page size.
    pub page_size: PageSize,
    /// The database checksum, if the files have one.
    pub checksum: Option<Checksum>,
}

/// A file that is to be applied.
struct Input {
    path: PathBuf,
    file: File,
    header: Header,
    post_apply: Checksum,
}

/// Applies files to a database, in their order. No other process may have the database open. After an error the
/// database is unchanged.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let database = folder.path().join("app.db");
/// # rusqlite::Connection::open(&database)?.execute_batch("CREATE TABLE t(x)")?;
/// # let snapshot = folder.path().join("snapshot.ltx");
/// # let options = seawall_ltx::file::EncodeOptions { timestamp_ms: 0, no_checksum: false };
/// # seawall_ltx::file::encode(&database, &snapshot, options, seawall_ltx::file::Work::new())?;
/// use seawall_ltx::file::{ApplyOptions, Work, apply};
///
/// let copy = folder.path().join("copy.db");
/// let applied = apply(&copy, &[snapshot], ApplyOptions::default(), Work::new())?;
/// assert_eq!((applied.txid.0, applied.pages), (1, 2));
/// assert_eq!(std::fs::read(&copy)?, std::fs::read(&database)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// [`FileError::Format`], [`FileError::Gap`], [`FileError::PageSize`], [`FileError::NoBase`] for files that can't be
/// applied at all; [`FileError::PreApply`], [`FileError::PostApply`] for a database that they weren't made for;
/// [`FileError::Beside`] with a WAL or a journal that isn't in the database yet; [`FileError::Io`].
pub fn apply(database: &Path, files: &[PathBuf], options: ApplyOptions, work: Work<'_>) -> Result<Applied> {
    check_distinct(database, files.iter().map(PathBuf::as_path))?;
    refuse_side_files(database)?;
    let mut inputs = files.iter().map(|path| Input::open(path)).collect::<Result<Vec<_>>>()?;
    check_order(&inputs)?;
    let Some(last) = inputs.last() else {
        return Err(FileError::database(database, "there is nothing to apply"));
    };
    let (header, path) = (last.header, last.path.clone());
    // Files before a whole database don't affect the result.
    let whole = inputs.iter().rposition(|input| input.header.is_snapshot() || input.header.commit == 0);
    let checksum = match whole {
        Some(at) => replace(database, &mut inputs, at, work)?,
        None => change_in_place(database, &mut inputs, options, work)?,
    };
    let checksum = (!header.no_checksum).then_some(checksum).flatten();
    if let Some(found) = checksum.filter(|_| header.commit == 0 && checksum != Some(Checksum::EMPTY)) {
        return Err(FileError::PostApply { path, expected: Checksum::EMPTY, found });
    }
    Ok(Applied { txid: header.max_txid, pages: header.commit, page_size: header.page_size, checksum })
}

impl Input {
    fn open(path: &Path) -> Result<Input> {
        let file = File::open(path).map_err(FileError::io(path))?;
        let header = sequential::header(&file, path)?;
        Ok(Input { path: path.to_owned(), file, header, post_apply: Checksum::NONE })
    }

    fn verify(&mut self, work: Work<'_>) -> Result<()> {
        self.post_apply = verify::verify_file(&self.file, &self.path, work)?.summary.trailer.post_apply;
        Ok(())
    }
}

/// A WAL with content would hide the new pages, and a journal with content would undo them.
pub(super) fn refuse_side_files(database: &Path) -> Result<()> {
    refuse_journal(database)?;
    match Wal::of(database)? {
        None => Ok(()),
        Some(_) => Err(FileError::Beside {
            path: super::database::sidecar(database, "-wal"),
            what: "a WAL with transactions that are not in the database file",
        }),
    }
}

/// Checks that each file follows the one before it, and that all have one page size.
fn check_order(inputs: &[Input]) -> Result<()> {
    for (before, input) in inputs.iter().zip(inputs.iter().skip(1)) {
        let (after, min, max) = (before.header.max_txid, input.header.min_txid, input.header.max_txid);
        let path = || input.path.clone();
        if before.header.page_size != input.header.page_size {
            let (expected, found) = (before.header.page_size, input.header.page_size);
            return Err(FileError::PageSize { path: path(), expected, found });
        }
        if !(FileName { min, max }).continues(after) {
            return Err(FileError::Gap { path: path(), after, min, max });
        }
    }
    Ok(())
}

/// Checks, by the headers and trailers, that each file was made for the state after the file before it.
fn check_chain(inputs: &[Input]) -> Result<()> {
    for (before, input) in inputs.iter().zip(inputs.iter().skip(1)) {
        let adjacent = before.header.max_txid.next() == Some(input.header.min_txid);
        let (expected, found) = (input.header.pre_apply, before.post_apply);
        if adjacent && !expected.is_none() && !found.is_none() && expected != found {
            return Err(FileError::PreApply { path: input.path.clone(), expected, found });
        }
    }
    Ok(())
}

/// Makes a new file from the input `at`, which needs no database before it, and the inputs after it.
fn replace(database: &Path, inputs: &mut [Input], at: usize, work: Work<'_>) -> Result<Option<Checksum>> {
    let (before, rest) = inputs.split_at_mut(at);
    before.iter_mut().try_for_each(|input| input.verify(work))?;
    let Some((first, behind)) = rest.split_first_mut() else { return Ok(None) };
    let summed = behind.iter().any(|input| !input.header.no_checksum);
    let made = Replacement::create(database)?;
    let sum = if first.header.commit == 0 {
        first.verify(work)?;
        Rolling::new()
    } else {
        let (verified, sum) = decode::into_file(&first.file, &first.path, &made, summed, work)?;
        first.post_apply = verified.summary.trailer.post_apply;
        sum
    };
    let known = summed || !first.header.no_checksum;
    let mut state = State { page_size: first.header.page_size, pages: first.header.commit, sum: known.then_some(sum) };
    for input in behind {
        input.post_apply = change::apply(&input.file, &input.path, &made.file, made.partial(), &mut state, work)?;
    }
    check_chain(inputs)?;
    made.finish()?;
    Ok(state.sum.map(Rolling::checksum))
}

/// Changes an existing database.
fn change_in_place(
    path: &Path,
    inputs: &mut [Input],
    options: ApplyOptions,
    work: Work<'_>,
) -> Result<Option<Checksum>> {
    let Some(first) = inputs.first() else { return Ok(None) };
    let (first_path, header) = (first.path.clone(), first.header);
    let no_base = || FileError::NoBase { path: first_path.clone() };
    let open = OpenOptions::new().read(true).write(true).open(path);
    let database = match open {
        Ok(file) => Database::of(file, path)?,
        Err(error) if error.kind() == ErrorKind::NotFound && header.pre_apply == Checksum::EMPTY => {
            return grow(path, inputs, work);
        }
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(no_base()),
        Err(error) => return Err(FileError::io(path)(error)),
    };
    let Some(head) = database.head else {
        return if header.pre_apply == Checksum::EMPTY { grow(path, inputs, work) } else { Err(no_base()) };
    };
    if head.page_size != header.page_size {
        let (expected, found) = (head.page_size, header.page_size);
        return Err(FileError::PageSize { path: first_path, expected, found });
    }
    inputs.iter_mut().try_for_each(|input| input.verify(work))?;
    check_chain(inputs)?;
    let pages = database.pages()?;
    let state = State { page_size: head.page_size, pages, sum: start(&database, inputs, options, work)? };
    let saved = touched::pages(inputs.iter().map(|input| (&input.file, input.path.as_path())), &state)?;
    let journal = Journal::begin(&database.file, path, head.page_size, pages, saved.iter())?;
    match write(&database, inputs, state, work) {
        Ok(sum) => {
            journal.commit(&database.file, path)?;
            Ok(sum)
        }
        Err(error) => {
            journal.roll_back(&database.file, path)?;
            Err(error)
        }
    }
}

fn write(database: &Database, inputs: &mut [Input], mut state: State, work: Work<'_>) -> Result<Option<Checksum>> {
    for input in inputs {
        let found = change::apply(&input.file, &input.path, &database.file, &database.path, &mut state, work)?;
        if found != input.post_apply {
            return Err(FileError::Changed { path: input.path.clone() });
        }
    }
    Ok(state.sum.map(Rolling::checksum))
}

/// A new database from increments that begin with an empty one.
fn grow(database: &Path, inputs: &mut [Input], work: Work<'_>) -> Result<Option<Checksum>> {
    let made = Replacement::create(database)?;
    let Some(page_size) = inputs.first().map(|input| input.header.page_size) else { return Ok(None) };
    let mut state = State { page_size, pages: 0, sum: Some(Rolling::new()) };
    for input in &mut *inputs {
        input.post_apply = change::apply(&input.file, &input.path, &made.file, made.partial(), &mut state, work)?;
    }
    check_chain(inputs)?;
    made.finish()?;
    Ok(state.sum.map(Rolling::checksum))
}

/// The database checksum before the first file; `None` if no file needs it.
fn start(database: &Database, inputs: &[Input], options: ApplyOptions, work: Work<'_>) -> Result<Option<Rolling>> {
    let Some(first) = inputs.iter().find(|input| !input.header.no_checksum) else { return Ok(None) };
    let leading = inputs.first().is_some_and(|input| !input.header.no_checksum);
    if options.touched_only && leading {
        return Ok(Some(Rolling::from(first.header.pre_apply)));
    }
    let (found, _) = sum(database, None, database.pages()?, Work { progress: &|_| (), ..work })?;
    Ok(Some(Rolling::from(found)))
}
