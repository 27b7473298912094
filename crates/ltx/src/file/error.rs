//! Errors of whole files, other than defects of their bytes.

use std::io;
use std::path::{Path, PathBuf};

use crate::{Checksum, Error, PageSize, Txid};

/// The result of this module's functions.
///
/// ```
/// use std::path::Path;
///
/// /// The pages of a database.
/// fn pages(database: &Path) -> seawall_ltx::file::Result<u32> {
///     Ok(seawall_ltx::file::checksum(database, false, seawall_ltx::file::Work::new())?.pages)
/// }
/// assert!(pages(Path::new("not-there.db")).is_err());
/// ```
pub type Result<T> = std::result::Result<T, FileError>;

/// Why files can't be read, written or applied. Each error names the file.
///
/// ```
/// use std::path::Path;
/// use seawall_ltx::file::{FileError, Work, verify};
///
/// let error = verify(Path::new("not-there.ltx"), Work::new()).unwrap_err();
/// assert!(matches!(error, FileError::Io { .. }));
/// assert_eq!(error.path(), Path::new("not-there.ltx"));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file system reported an error.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// An LTX file is defective.
    #[error("{}: {source}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The defect.
        source: Error,
    },
    /// Not a SQLite database, or a damaged one.
    #[error("{}: {what}", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A WAL or journal beside the database has content that SQLite has to process first.
    #[error("{}: {what}", path.display())]
    Beside {
        /// The WAL or the rollback journal.
        path: PathBuf,
        /// What it means.
        what: &'static str,
    },
    /// The output is one of the inputs.
    #[error("{}: the output is the input", path.display())]
    SameFile {
        /// The file.
        path: PathBuf,
    },
    /// A file doesn't follow the one before it.
    #[error("{}: transactions {min} to {max} don't follow transaction {after}", path.display())]
    Gap {
        /// The later file.
        path: PathBuf,
        /// The last transaction before it.
        after: Txid,
        /// Its first transaction.
        min: Txid,
        /// Its last transaction.
        max: Txid,
    },
    /// A file has another page size than the database or the file before it.
    #[error("{}: pages of {found} bytes, expected {expected}", path.display())]
    PageSize {
        /// The file.
        path: PathBuf,
        /// The page size so far.
        expected: PageSize,
        /// Its page size.
        found: PageSize,
    },
    /// There is no database to apply an increment to.
    #[error("{}: this is no snapshot, and there is no database to apply it to", path.display())]
    NoBase {
        /// The increment.
        path: PathBuf,
    },
    /// A file that was to be decoded into a database is no snapshot.
    #[error("{}: this is no snapshot", path.display())]
    NoSnapshot {
        /// The file.
        path: PathBuf,
    },
    /// A file was made for another state of the database.
    #[error("{}: pre-apply checksum {expected}, the database has {found}", path.display())]
    PreApply {
        /// The LTX file.
        path: PathBuf,
        /// Its pre-apply checksum.
        expected: Checksum,
        /// The database checksum.
        found: Checksum,
    },
    /// Applying a file leads to another database state than the file says.
    #[error("{}: post-apply checksum {expected}, the database comes to {found}", path.display())]
    PostApply {
        /// The LTX file.
        path: PathBuf,
        /// Its post-apply checksum.
        expected: Checksum,
        /// The database checksum.
        found: Checksum,
    },
    /// The caller's function for pages failed.
    #[error("{0}")]
    Output(io::Error),
    /// The pages of a file changed after it was verified, or its end doesn't match its pages.
    #[error("{}: the file changed while it was read", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
}

impl FileError {
    pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> FileError {
        let path = path.to_owned();
        move |source| FileError::Io { path, source }
    }

    pub(super) fn format(path: &Path) -> impl FnOnce(Error) -> FileError {
        let path = path.to_owned();
        move |source| FileError::Format { path, source }
    }

    pub(super) fn database(path: &Path, what: &'static str) -> FileError {
        FileError::Database { path: path.to_owned(), what }
    }

    /// The file that the error is about.
    pub fn path(&self) -> &Path {
        match self {
            FileError::Io { path, .. }
            | FileError::Format { path, .. }
            | FileError::Database { path, .. }
            | FileError::Beside { path, .. }
            | FileError::SameFile { path }
            | FileError::Gap { path, .. }
            | FileError::PageSize { path, .. }
            | FileError::NoBase { path }
            | FileError::NoSnapshot { path }
            | FileError::PreApply { path, .. }
            | FileError::PostApply { path, .. }
            | FileError::Changed { path } => path,
            FileError::Output(_) => Path::new("output"),
        }
    }
}
