//! The bytes of a file: decrypted, decompressed, and checked at their end. Everything is a stream of bounded pieces.

use std::io::{self, Cursor, Read};
use std::sync::{Arc, Mutex, PoisonError};

use flate2::read::MultiGzDecoder;
use ring::digest::{Context, SHA256};
use seawall_core::{Failure, Kind};
use zstd::stream::read::Decoder;

use crate::mark::Ending;
use crate::recognise::{FRONT, Form, Maker, Wrap};
use crate::sidecar::Digests;

/// The largest window of Zstandard that is allowed, as a power of two: 128 MiB, what `zstd -d` allows by itself.
const WINDOW: u32 = 27;

/// A failure on its way through readers.
pub(crate) fn failed(failure: Failure) -> io::Error {
    io::Error::other(failure)
}

/// The failure that a reader's error is.
pub(crate) fn failure(error: io::Error, object: &str) -> Failure {
    match error.downcast::<Failure>() {
        Ok(failure) => failure,
        Err(error) if error.raw_os_error().is_some() => unreadable(object, &error),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => cut_off(object, "its compression has no end"),
        Err(error) => damaged(object, format!("it can't be decompressed: {error}")),
    }
}

/// A file that can't be read.
pub(crate) fn unreadable(object: &str, error: &io::Error) -> Failure {
    let next = "check the file, its permissions and its disk";
    Failure::new(Kind::Unavailable, "dump.io", object, error.to_string(), next)
}

/// A file that isn't whole.
pub(crate) fn cut_off(object: &str, cause: &str) -> Failure {
    let next = "take another copy of the backup, or another backup: the end of this one is missing";
    Failure::new(Kind::Corrupt, "dump.cut-off", object, cause, next)
}

/// A file with other bytes than were written.
pub(crate) fn damaged(object: &str, cause: impl Into<String>) -> Failure {
    let next = "take another copy of the backup, or another backup";
    Failure::new(Kind::Corrupt, "dump.damaged", object, cause, next)
}

/// What was read of a file so far.
struct Seen {
    context: Context,
    bytes: u64,
    /// The number of bytes whose digest is wanted too.
    mark: Option<u64>,
    beginning: Option<[u8; 32]>,
}

/// The digest of everything that passes.
#[derive(Clone)]
pub(crate) struct Digest(Arc<Mutex<Seen>>);

impl Digest {
    pub(crate) fn new(mark: Option<u64>) -> Self {
        Self(Arc::new(Mutex::new(Seen { context: Context::new(&SHA256), bytes: 0, mark, beginning: None })))
    }

    fn take(&self, bytes: &[u8]) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let until = seen.mark.map(|mark| mark.saturating_sub(seen.bytes));
        match until.and_then(|until| usize::try_from(until).ok()).and_then(|until| bytes.split_at_checked(until)) {
            Some((before, behind)) if seen.beginning.is_none() => {
                seen.context.update(before);
                seen.beginning = Some(value(seen.context.clone()));
                seen.context.update(behind);
            }
            _ => seen.context.update(bytes),
        }
        seen.bytes += bytes.len() as u64;
    }

    /// The digest of all, of the beginning, and the number of bytes.
    fn end(&self) -> ([u8; 32], Option<[u8; 32]>, u64) {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (value(seen.context.clone()), seen.beginning, seen.bytes)
    }
}

fn value(context: Context) -> [u8; 32] {
    let mut value = [0; 32];
    value.copy_from_slice(context.finish().as_ref());
    value
}

/// A reader whose bytes are digested.
pub(crate) struct Digested<R> {
    pub(crate) inner: R,
    pub(crate) digest: Digest,
}

impl<R: Read> Read for Digested<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.digest.take(buffer.get(..read).unwrap_or_default());
        Ok(read)
    }
}

/// Digests of a file, of its content without encryption if it had any.
pub(crate) fn digests(file: &Digest, opened: Option<&Digest>) -> Digests {
    let (whole, beginning, size) = file.end();
    let mut all = vec![whole];
    all.extend(opened.map(|digest| digest.end().0));
    Digests { whole: all, beginning, size, is_sealed: opened.is_some() }
}

/// Any reader.
pub(crate) type Source<'a> = Box<dyn Read + Send + 'a>;

/// A reader whose first bytes were looked at.
pub(crate) struct Fronted<'a> {
    pub(crate) front: Vec<u8>,
    rest: Source<'a>,
}

impl<'a> Fronted<'a> {
    /// Looks at the first bytes.
    pub(crate) fn new(mut source: Source<'a>) -> io::Result<Self> {
        let mut front = Vec::new();
        (&mut source).take(FRONT as u64).read_to_end(&mut front)?;
        Ok(Self { front, rest: source })
    }

    /// All of it.
    pub(crate) fn all(self) -> Source<'a> {
        Box::new(Cursor::new(self.front).chain(self.rest))
    }
}

/// What is in a stream, and its decompressed bytes.
pub(crate) struct Content<'a> {
    pub(crate) wrap: Wrap,
    /// `None`: nothing that is known.
    form: Option<Form>,
    /// Whether it has no bytes. A compressed nothing is whole for its compression.
    is_empty: bool,
    pub(crate) bytes: Source<'a>,
}

impl<'a> Content<'a> {
    /// Decompresses a stream of a file that is called `name`, and says what it is.
    pub(crate) fn open(source: Source<'a>, name: &str) -> io::Result<Self> {
        let stored = Fronted::new(source)?;
        let wrap = Wrap::of(&stored.front);
        let bytes: Source<'a> = match wrap {
            Wrap::Plain => stored.all(),
            Wrap::Gzip => Box::new(MultiGzDecoder::new(stored.all())),
            Wrap::Zstd => {
                let mut decoder = Decoder::new(stored.all())?;
                decoder.window_log_max(WINDOW)?;
                Box::new(decoder)
            }
        };
        let content = Fronted::new(bytes)?;
        let form = Form::of(&content.front, name);
        Ok(Self { wrap, form, is_empty: content.front.is_empty(), bytes: content.all() })
    }

    /// What it is; `None`: nothing that is known.
    ///
    /// # Errors
    /// It is called as a script and has nothing: the program that was to write it has failed.
    pub(crate) fn form(&self, object: &str) -> Result<Option<Form>, Failure> {
        match (&self.form, self.is_empty) {
            (Some(Form::Script(_)), true) => Err(cut_off(object, "nothing is in it")),
            (form, _) => Ok(form.clone()),
        }
    }
}

/// A script that is read to its mark; other content passes as it is.
pub(crate) struct Marked {
    ending: Option<(Ending, Maker)>,
}

impl Marked {
    pub(crate) fn new(form: &Form) -> Self {
        let maker = match form {
            Form::Script(said) => Some(said.maker),
            Form::Archive | Form::OtherArchive | Form::Tar => None,
        };
        Self { ending: maker.map(|maker| (Ending::default(), maker)) }
    }

    pub(crate) fn take(&mut self, piece: &[u8]) {
        if let Some((ending, _)) = &mut self.ending {
            ending.take(piece);
        }
    }

    /// At the end: whether that is proved by a mark or isn't to be proved by one. An unmarked script of a known maker is an error.
    pub(crate) fn end(&self, object: &str) -> Result<bool, Failure> {
        let Some((ending, maker)) = &self.ending else { return Ok(true) };
        match ending.is_whole(*maker) {
            Some(true) => Ok(true),
            Some(false) => Err(cut_off(object, "the line with which its program ends every script isn't there")),
            None => Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    pub(crate) fn gzip(raw: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(raw).expect("written");
        encoder.finish().expect("written")
    }

    fn read(stored: &[u8]) -> Result<(Wrap, Vec<u8>), &'static str> {
        let code = |error| failure(error, "f").code;
        let mut content = Content::open(Box::new(stored), "f.sql").map_err(code)?;
        let mut raw = Vec::new();
        content.bytes.read_to_end(&mut raw).map_err(code)?;
        Ok((content.wrap, raw))
    }

    #[test]
    fn compressed_streams_are_whole_or_refused() {
        let raw: Vec<u8> =
            (0..400_000_u32).flat_map(|number| (number.wrapping_mul(2_654_435_761)).to_be_bytes()).collect();
        let zipped = gzip(&raw);
        // Two members, as parallel programs write them.
        let mut members = gzip(&raw[..1000]);
        members.extend_from_slice(&gzip(&raw[1000..]));
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).expect("an encoder");
        encoder.include_checksum(true).expect("set");
        encoder.write_all(&raw).expect("written");
        let frames = encoder.finish().expect("written");
        assert_eq!(read(&raw), Ok((Wrap::Plain, raw.clone())));
        for (stored, wrap) in [(&zipped, Wrap::Gzip), (&members, Wrap::Gzip), (&frames, Wrap::Zstd)] {
            assert_eq!(read(stored), Ok((wrap, raw.clone())));
            for cut in [stored.len() - 1, stored.len() - 9, stored.len() / 2, 70_000] {
                assert_eq!(read(&stored[..cut]), Err("dump.cut-off"), "{wrap:?} {cut}");
            }
            let mut changed = stored.clone();
            changed[stored.len() / 2] ^= 0x55;
            assert!(matches!(read(&changed), Err("dump.damaged" | "dump.cut-off")), "{wrap:?}");
        }
    }

    #[test]
    fn digests_of_all_and_of_the_beginning() {
        let raw: Vec<u8> = (0..5000_u32).map(|number| number as u8).collect();
        let sum = |bytes: &[u8]| {
            let mut context = Context::new(&SHA256);
            context.update(bytes);
            value(context)
        };
        for (mark, beginning) in
            [(None, None), (Some(0), Some(0)), (Some(1000), Some(1000)), (Some(4999), Some(4999)), (Some(6000), None)]
        {
            for piece in [1, 999, 5000] {
                let digest = Digest::new(mark);
                raw.chunks(piece).for_each(|piece| digest.take(piece));
                let expected = (sum(&raw), beginning.map(|size| sum(&raw[..size])), 5000);
                assert_eq!(digest.end(), expected, "{mark:?} {piece}");
            }
        }
    }
}
