//! Merges files into one file with the same effect, without compressing pages again.
//!
//! Every input is first verified to its end. Then the indexes are merged, read piece by piece, to decide which page
//! comes from which file. The frames are copied unchanged; their pages are decompressed only for the checksums. Memory:
//! a piece of each index, and the index of the new file at typically 3 bytes a page. A file of an older generation is
//! first rewritten beside the output.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::file::error::{FileError, Result};
use crate::file::flush::{self, Flusher};
use crate::file::index::{Entries, LtxFile};
use crate::file::replace::{Replacement, check_distinct};
use crate::file::spill::Spill;
use crate::file::verify::Verified;
use crate::file::{Work, modern, ordered, tail, verify};
use crate::{
    Batch, Batcher, Checksum, Encoder, Error, Header, IndexEntry, Merge, MergeError, PageNo, PageSize, Source,
};

/// Pages that become one piece of work, in bytes.
const PIECE: usize = super::database::PIECE;

/// Merges files of any generation, in their order, into a file of the current generation. The merged file replaces the
/// file at `output` once it is whole and durable.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let database = folder.path().join("app.db");
/// # rusqlite::Connection::open(&database)?.execute_batch("CREATE TABLE t(x)")?;
/// # let snapshot = folder.path().join("snapshot.ltx");
/// # let options = seawall_ltx::file::EncodeOptions { timestamp_ms: 0, no_checksum: false };
/// # seawall_ltx::file::encode(&database, &snapshot, options, seawall_ltx::file::Work::new())?;
/// use seawall_ltx::file::{Work, compact, diff};
///
/// // One file alone, or as many as follow each other.
/// let merged = folder.path().join("merged.ltx");
/// let made = compact(&[snapshot], &merged, Work::new())?;
/// assert_eq!(made.summary.pages, 2);
/// diff(&merged, &database, Work::new(), |page, _| panic!("page {page} differs"))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// [`FileError::Format`] for a bad input and for files that don't belong together ([`MergeError`]),
/// [`FileError::Gap`], [`FileError::PageSize`], [`FileError::SameFile`], [`FileError::Io`].
pub fn compact(files: &[PathBuf], output: &Path, work: Work<'_>) -> Result<Verified> {
    check_distinct(output, files.iter().map(PathBuf::as_path))?;
    let mut inputs = Vec::with_capacity(files.len());
    for path in files {
        inputs.push(open(path, output, work)?);
    }
    let headers: Vec<Header> = inputs.iter().map(|input| input.header).collect();
    let blame = |error| blame(files, output, error, &headers);
    let merge = Merge::new(&headers).map_err(blame)?;
    check_chain(&inputs).map_err(blame)?;
    let made = Replacement::create(output)?;
    let verified = flush::along(&made.file, made.partial(), |flusher| write(&inputs, merge, &made, flusher, work))?;
    made.finish()?;
    Ok(verified)
}

/// Opens and verifies an input.
fn open(path: &Path, output: &Path, work: Work<'_>) -> Result<LtxFile> {
    let quiet = Work { progress: &|_| (), ..work };
    let file = File::open(path).map_err(FileError::io(path))?;
    match verify::verify_file(&file, path, quiet)?.generation {
        None => LtxFile::of(file, path),
        Some(_) => modern::rewrite(&file, path, output, work),
    }
}

fn check_chain(inputs: &[LtxFile]) -> crate::Result<()> {
    for (at, (before, input)) in inputs.iter().zip(inputs.iter().skip(1)).enumerate() {
        let adjacent = before.header.max_txid.next() == Some(input.header.min_txid);
        let (expected, found) = (input.header.pre_apply, before.trailer.post_apply);
        if adjacent && !expected.is_none() && !found.is_none() && expected != found {
            return Err(MergeError::Chain { input: at + 1, expected, found }.into());
        }
    }
    Ok(())
}

/// Turns an error of the merge into an error of the file that it concerns.
fn blame(files: &[PathBuf], output: &Path, error: Error, headers: &[Header]) -> FileError {
    let input = match error {
        Error::Merge(MergeError::PageSize { input } | MergeError::Chain { input, .. }) => Some(input),
        Error::Merge(MergeError::Gap { after, min, max }) => {
            let at = headers.iter().position(|header| (header.min_txid, header.max_txid) == (min, max));
            let path = at.and_then(|at| files.get(at)).map_or(output, PathBuf::as_path);
            return FileError::Gap { path: path.to_owned(), after, min, max };
        }
        _ => None,
    };
    let path = input.and_then(|input| files.get(input)).map_or(output, PathBuf::as_path);
    FileError::format(path)(error)
}

/// One page of the merged file.
enum Part {
    Frame(usize, IndexEntry),
    Zeros(PageNo),
}

fn write(inputs: &[LtxFile], merge: Merge, made: &Replacement, flusher: &Flusher, work: Work<'_>) -> Result<Verified> {
    let header = *merge.header();
    let format = || FileError::format(made.partial());
    let put = |bytes: &[u8], at| made.file.write_all_at(bytes, at).map_err(FileError::io(made.partial()));
    let mut start = Vec::new();
    let mut encoder = Encoder::new(header, &mut start).map_err(format())?;
    put(&start, 0)?;
    let mut spill = Spill::new(made.partial(), work.index);
    let used = Mutex::new(Vec::<Batch>::new());
    let mut parts = Parts::new(inputs, merge)?;
    ordered::run(
        work.jobs,
        || parts.next_piece(),
        || (Vec::new(), Batcher::new(header.page_size)),
        |(buffer, batcher), piece: Vec<Part>| {
            copy(inputs, &piece, buffer, batcher, header.page_size, work)?;
            Ok(batcher.take(used.lock().unwrap_or_else(PoisonError::into_inner).pop()))
        },
        |batch: Batch| {
            let at = encoder.len();
            encoder.count(&batch).map_err(format())?;
            spill.relieve(&mut encoder)?;
            put(batch.frames(), at)?;
            flusher.wrote(batch.frames().len());
            used.lock().unwrap_or_else(PoisonError::into_inner).push(batch);
            Ok(())
        },
    )?;
    let last = inputs.last().map_or(Checksum::NONE, |input| input.trailer.post_apply);
    let post_apply = if header.no_checksum { Checksum::NONE } else { last };
    tail::write(header, encoder, spill, post_apply, &made.file, made.partial())
}

/// Reads frames, adjacent ones at once, and adds them to a batch.
fn copy(
    inputs: &[LtxFile],
    piece: &[Part],
    buffer: &mut Vec<u8>,
    batcher: &mut Batcher,
    size: PageSize,
    work: Work<'_>,
) -> Result<()> {
    let neighbours = |a: &Part, b: &Part| match (a, b) {
        (Part::Frame(i, a), Part::Frame(j, b)) => i == j && a.offset + u64::from(a.size) == b.offset,
        _ => false,
    };
    for run in piece.chunk_by(neighbours) {
        let (Some(Part::Frame(input, first)), Some(ltx)) =
            (run.first(), run.first().and_then(|part| part.input()).and_then(|input| inputs.get(input)))
        else {
            let zeros = vec![0; size.bytes()];
            for part in run {
                if let Part::Zeros(page) = part {
                    batcher.push(*page, &zeros).map_err(FileError::format(Path::new("zeros")))?;
                }
            }
            continue;
        };
        debug_assert!(*input < inputs.len());
        let entries = run.iter().filter_map(Part::entry);
        let len: usize = entries.clone().map(|entry| entry.size as usize).sum();
        let mut bytes = ltx.read(first.offset, len, buffer)?;
        for entry in entries {
            let (frame, rest) = bytes.split_at_checked(entry.size as usize).unwrap_or_default();
            bytes = rest;
            let found = batcher.copy(frame).map_err(FileError::format(&ltx.path))?;
            if found != entry.page {
                return Err(FileError::Changed { path: ltx.path.clone() });
            }
        }
        (work.progress)(len as u64);
    }
    Ok(())
}

impl Part {
    fn input(&self) -> Option<usize> {
        match self {
            Part::Frame(input, _) => Some(*input),
            Part::Zeros(_) => None,
        }
    }

    fn entry(&self) -> Option<IndexEntry> {
        match self {
            Part::Frame(_, entry) => Some(*entry),
            Part::Zeros(_) => None,
        }
    }
}

/// The pages of the merged file in their order.
struct Parts<'f> {
    merge: Merge,
    entries: Vec<Entries<'f>>,
    heads: Vec<Option<IndexEntry>>,
}

impl<'f> Parts<'f> {
    fn new(inputs: &'f [LtxFile], merge: Merge) -> Result<Parts<'f>> {
        let mut entries: Vec<_> = inputs.iter().map(LtxFile::entries).collect();
        let heads = entries.iter_mut().map(Entries::next).collect::<Result<Vec<_>>>()?;
        Ok(Parts { merge, entries, heads })
    }

    fn next_piece(&mut self) -> Result<Option<Vec<Part>>> {
        let most = (PIECE / self.merge.header().page_size.bytes()).max(1);
        let mut piece = Vec::with_capacity(most);
        while piece.len() < most {
            let heads = self.heads.iter().map(|head| head.map(|entry| entry.page));
            let Some((page, source)) = self.merge.next(heads) else { break };
            match source {
                Source::Input(input) => {
                    let entry = self.heads.get(input).copied().flatten();
                    piece.extend(entry.map(|entry| Part::Frame(input, entry)));
                }
                Source::Zeros => piece.push(Part::Zeros(page)),
                Source::Nowhere => {}
            }
            for (head, entries) in self.heads.iter_mut().zip(&mut self.entries) {
                if head.is_some_and(|entry| entry.page == page) {
                    *head = entries.next()?;
                }
            }
        }
        Ok((!piece.is_empty()).then_some(piece))
    }
}
