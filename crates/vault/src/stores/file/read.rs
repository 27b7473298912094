//! Reading a file in large chunks, at disk speed.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures::{StreamExt, stream};
use rustix::fs::OFlags;

use super::{blocking, failed, place};
use crate::{Body, Error};

/// One read: large enough that the hand-over between threads hardly counts, and small enough that a hundred objects can
/// be read at once.
const CHUNK: u64 = 128 << 10;

/// A path that leads to no file: a missing object, also where a folder on the way is a file.
pub(super) fn absent(path: &Path, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            Error::NotFound { object: path.display().to_string() }
        }
        _ => failed(path, error),
    }
}

/// A file being read, and how much of it is still wanted.
struct Reading {
    file: File,
    path: PathBuf,
    left: u64,
}

/// Opens an object. Its first chunk is read in the same hop to the pool, so a small object costs one.
pub(super) async fn open(
    path: PathBuf,
    range: Option<Range<u64>>,
    ask: impl Fn() -> Result<(), Error> + Send + 'static,
) -> Result<Body, Error> {
    let object = path.display().to_string();
    let begin = move || {
        ask()?;
        start(path, range)
    };
    let (reading, first, size, tag) = blocking(object, begin).await?;
    let rest = stream::try_unfold(reading, |reading| async move {
        if reading.left == 0 {
            return Ok(None);
        }
        blocking(reading.path.display().to_string(), move || next(reading)).await.map(Some)
    });
    let first = stream::iter((!first.is_empty()).then_some(Ok(first)));
    Ok(Body { size: Some(size), tag: Some(tag), stream: first.chain(rest).boxed() })
}

fn start(path: PathBuf, range: Option<Range<u64>>) -> Result<(Reading, Bytes, u64, crate::Tag), Error> {
    // A link at the end of a path could lead anywhere on the host (I11).
    let flags = i32::try_from(OFlags::NOFOLLOW.bits() | OFlags::NONBLOCK.bits()).unwrap_or_default();
    let mut options = OpenOptions::new();
    let mut file = match options.read(true).custom_flags(flags).open(&path) {
        Ok(file) => file,
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            return Err(Error::NotFound { object: path.display().to_string() });
        }
        Err(error) => return Err(absent(&path, &error)),
    };
    let metadata = file.metadata().map_err(|error| failed(&path, &error))?;
    if !metadata.is_file() {
        return Err(Error::NotFound { object: path.display().to_string() });
    }
    let size = metadata.len();
    let wanted = match range {
        None => 0..size,
        Some(range) if range.start >= size => {
            return Err(Error::OutOfRange { object: path.display().to_string(), start: range.start });
        }
        Some(range) => range.start..range.end.min(size),
    };
    if wanted.start > 0 {
        file.seek(SeekFrom::Start(wanted.start)).map_err(|error| failed(&path, &error))?;
    }
    let reading = Reading { file, path, left: wanted.end.saturating_sub(wanted.start) };
    let (first, reading) = next(reading)?;
    Ok((reading, first, size, place::tag(&metadata)))
}

/// Reads the next chunk.
fn next(mut reading: Reading) -> Result<(Bytes, Reading), Error> {
    let wanted = reading.left.min(CHUNK);
    let mut chunk = Vec::with_capacity(usize::try_from(wanted).unwrap_or_default());
    let read = (&mut reading.file).take(wanted).read_to_end(&mut chunk);
    if read.map_err(|error| failed(&reading.path, &error))? as u64 != wanted {
        let cause = "the file was cut while it was read".to_owned();
        return Err(Error::Corrupt { object: reading.path.display().to_string(), cause });
    }
    reading.left -= wanted;
    Ok((chunk.into(), reading))
}
