//! Python bindings: opens LTX files, verifies them, and returns their pages.
//!
//! `open` reads the whole file once, on several threads, and checks everything. The iterator over the pages reads it
//! again and checks it again, because the file may have changed. Memory: 256 KiB of the file and its pages; a file of an
//! older generation is read as a whole.

#![expect(clippy::disallowed_methods, reason = "this package meets the file system")]

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use pyo3::create_exception;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use seawall_ltx::file::{FileError, Verified, Work, verify};
use seawall_ltx::{PageNo, Splitter, decode_any};

create_exception!(
    seawall_ltx,
    LtxError,
    PyValueError,
    "The file is no LTX file, or a defective one. The message names the file, the place and the rule."
);

/// Bytes read at once.
const READ: usize = 256 << 10;

fn io(path: &std::path::Path, error: &std::io::Error) -> PyErr {
    // Python makes the class from the number: FileNotFoundError, PermissionError.
    let message = error.to_string();
    let message = message.split(" (os error").next().unwrap_or_default().to_owned();
    PyOSError::new_err((error.raw_os_error(), message, path.as_os_str().to_owned()))
}

fn raised(error: FileError) -> PyErr {
    match error {
        FileError::Io { path, source } => io(&path, &source),
        other => LtxError::new_err(other.to_string()),
    }
}

/// The header of a file. Numbers are as in the file; a checksum of 0 means that there is none.
#[pyclass(frozen, get_all, module = "seawall_ltx")]
struct Header {
    page_size: u32,
    commit: u32,
    min_txid: u64,
    max_txid: u64,
    timestamp_ms: i64,
    pre_apply: u64,
    wal_offset: u64,
    wal_size: u64,
    wal_salt1: u32,
    wal_salt2: u32,
    node_id: u64,
    no_checksum: bool,
    is_snapshot: bool,
}

#[pymethods]
impl Header {
    fn __repr__(&self) -> String {
        let Header { page_size, commit, min_txid, max_txid, .. } = self;
        format!("Header(page_size={page_size}, commit={commit}, min_txid={min_txid}, max_txid={max_txid})")
    }
}

/// A file that was read to its end and passed every check.
#[pyclass(frozen, module = "seawall_ltx")]
struct LtxFile {
    path: PathBuf,
    verified: Verified,
}

#[pymethods]
impl LtxFile {
    /// The header.
    #[getter]
    fn header(&self) -> Header {
        let header = self.verified.summary.header;
        Header {
            page_size: header.page_size.get(),
            commit: header.commit,
            min_txid: header.min_txid.0,
            max_txid: header.max_txid.0,
            timestamp_ms: header.timestamp_ms,
            pre_apply: header.pre_apply.0,
            wal_offset: header.wal_offset,
            wal_size: header.wal_size,
            wal_salt1: header.wal_salt1,
            wal_salt2: header.wal_salt2,
            node_id: header.node_id,
            no_checksum: header.no_checksum,
            is_snapshot: header.is_snapshot(),
        }
    }

    /// The database checksum after the file; 0 in files without checksums.
    #[getter]
    fn post_apply(&self) -> u64 {
        self.verified.summary.trailer.post_apply.0
    }

    /// The checksum of the file.
    #[getter]
    fn file_checksum(&self) -> u64 {
        self.verified.summary.trailer.file.0
    }

    /// The generation of the format, if it is an older one: "1", "1 (compressed)" or "2".
    #[getter]
    fn generation(&self) -> Option<String> {
        self.verified.generation.map(|older| older.to_string())
    }

    /// The bytes of the file.
    #[getter]
    fn size(&self) -> u64 {
        self.verified.len
    }

    /// The page numbers with the pages, ascending. Checks the file once more, and raises at its end if it changed.
    fn pages(&self) -> PyResult<Pages> {
        let file = File::open(&self.path).map_err(|error| io(&self.path, &error))?;
        let page_size = self.verified.summary.header.page_size.bytes();
        let mut pages = Pages {
            path: self.path.clone(),
            page_size,
            file,
            splitter: Some(Splitter::with_batch_size(READ)),
            piece: Vec::new(),
            at: 0,
            numbers: Vec::new(),
            data: Vec::new(),
            next: 0,
        };
        if self.verified.generation.is_some() {
            pages.read_older()?;
        }
        Ok(pages)
    }

    fn __iter__(&self) -> PyResult<Pages> {
        self.pages()
    }

    fn __len__(&self) -> usize {
        usize::try_from(self.verified.summary.pages).unwrap_or(usize::MAX)
    }

    fn __repr__(&self) -> String {
        format!("LtxFile({:?}, pages={})", self.path.display().to_string(), self.verified.summary.pages)
    }
}

/// The pages of a file, one after the other.
#[pyclass(module = "seawall_ltx")]
struct Pages {
    path: PathBuf,
    page_size: usize,
    file: File,
    /// `None` after the end.
    splitter: Option<Splitter>,
    piece: Vec<u8>,
    /// How much of `piece` is used up.
    at: usize,
    numbers: Vec<PageNo>,
    data: Vec<u8>,
    /// The next of `numbers`.
    next: usize,
}

impl Pages {
    fn defect(&self, source: seawall_ltx::Error) -> PyErr {
        LtxError::new_err(format!("{}: {source}", self.path.display()))
    }

    /// Reads all of a file of an older generation.
    fn read_older(&mut self) -> PyResult<()> {
        let mut bytes = Vec::new();
        self.file.read_to_end(&mut bytes).map_err(|error| io(&self.path, &error))?;
        let (mut numbers, mut data) = (Vec::new(), Vec::new());
        let visit = |number, page: &[u8]| {
            numbers.push(number);
            data.extend_from_slice(page);
        };
        decode_any(&bytes, visit).map_err(|error| self.defect(error))?;
        (self.numbers, self.data, self.splitter) = (numbers, data, None);
        Ok(())
    }

    /// Decodes the next pages; `false` at the end of the file.
    fn advance(&mut self) -> PyResult<bool> {
        let Some(mut splitter) = self.splitter.take() else { return Ok(false) };
        loop {
            let mut rest = self.piece.get(self.at..).unwrap_or_default();
            let fed = splitter.feed(&mut rest);
            self.at = self.piece.len() - rest.len();
            if let Some(batch) = fed.map_err(|error| self.defect(error))? {
                let batch = batch.decode().map_err(|error| self.defect(error))?;
                splitter.join(&batch).map_err(|error| self.defect(error))?;
                self.numbers.clear();
                self.numbers.extend_from_slice(batch.numbers());
                self.data.clear();
                self.data.extend_from_slice(batch.data());
                (self.next, self.splitter) = (0, Some(splitter));
                return Ok(true);
            }
            self.piece.resize(READ, 0);
            let got = self.file.read(&mut self.piece).map_err(|error| io(&self.path, &error))?;
            self.piece.truncate(got);
            self.at = 0;
            if got == 0 {
                return splitter.finish().map(|_| false).map_err(|error| self.defect(error));
            }
        }
    }
}

#[pymethods]
impl Pages {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<(u32, Bound<'py, PyBytes>)>> {
        if self.next == self.numbers.len() && !py.detach(|| self.advance())? {
            return Ok(None);
        }
        let at = self.next;
        self.next += 1;
        let page = self.numbers.get(at).zip(self.data.chunks_exact(self.page_size).nth(at));
        Ok(page.map(|(number, data)| (number.0, PyBytes::new(py, data))))
    }
}

/// Reads and verifies LTX files, in which Litestream and LiteFS keep the history of SQLite databases.
#[pymodule(name = "seawall_ltx")]
mod module {
    use super::*;

    #[pymodule_export]
    use super::{Header, LtxError, LtxFile, Pages};

    /// Opens an LTX file of any generation, reads it to its end and checks everything.
    ///
    /// Raises `LtxError` with the first defect, and `OSError` if the file can't be read.
    #[pyfunction]
    fn open(py: Python<'_>, path: PathBuf) -> PyResult<LtxFile> {
        let verified = py.detach(|| verify(&path, Work::new())).map_err(raised)?;
        Ok(LtxFile { path, verified })
    }
}
