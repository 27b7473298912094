//! Reads objects: the description, then the chunks from the one in which the range begins.
//!
//! Chunks of ours tell their numbers, and the description tells where in the stream the first one is. At most so many messages lie
//! before a chunk as chunks, so reading begins at the wanted one, or a little before it if others wrote in between. Chunks of other
//! programs may have any size up to a bound: their objects are read from the beginning.

use std::ops::Range;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};

use super::api::{Api, Latest, Reader};
use super::info::{self, FIRST, ObjectInfo};
use super::write::NUMBER;
use crate::{Body, Error, Tag};

/// Chunks on their way.
const WINDOW: u64 = 16;

/// The description of an object that is there.
pub(super) async fn look(api: &Api, name: &str) -> Result<(Latest, ObjectInfo), Error> {
    let object = api.name(name);
    let latest = api.latest(&object, &api.subject(name)).await?;
    let corrupt = |cause: &str| Error::Corrupt { object: object.clone(), cause: cause.to_owned() };
    let info = ObjectInfo::read(&latest.payload, name).map_err(corrupt)?;
    if info.deleted || info.is_link() {
        return Err(Error::NotFound { object });
    }
    Ok((latest, info))
}

/// Opens an object, or a range of it.
pub(super) async fn open(api: Api, name: &str, range: Option<Range<u64>>) -> Result<Body, Error> {
    let (latest, info) = look(&api, name).await?;
    let object = api.name(name);
    let size = info.size;
    let wanted = match range {
        None => 0..size,
        Some(range) if range.start >= size => return Err(Error::OutOfRange { object, start: range.start }),
        Some(range) => range.start..range.end.min(size),
    };
    let stream: BoxStream<'static, Result<Bytes, Error>> = if wanted.is_empty() {
        stream::empty().boxed()
    } else {
        let subject = info::chunks(&api.bucket, &info.nuid);
        // A small object is one request instead of three.
        let only = if info.chunks == 1 { api.only(&object, &subject).await? } else { None };
        match only {
            Some(chunk) => {
                let chunk = Chunks::check_whole(&object, &info, chunk)?;
                let at = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
                stream::iter([Ok(chunk.slice(at(wanted.start)..at(wanted.end)))]).boxed()
            }
            None => {
                let chunks = Chunks::begin(api, object, subject, info, wanted).await?;
                stream::try_unfold(
                    chunks,
                    |mut chunks| async move { Ok(chunks.next().await?.map(|bytes| (bytes, chunks))) },
                )
                .boxed()
            }
        }
    };
    Ok(Body { size: Some(size), tag: Some(Tag::new(latest.sequence.to_string())), stream })
}

/// The chunks of an object on their way.
struct Chunks {
    object: String,
    reader: Reader,
    info: ObjectInfo,
    wanted: Range<u64>,
    /// The first byte of the next chunk.
    at: u64,
    /// The number of the next chunk, where chunks tell it.
    number: Option<u64>,
    /// The digest of a whole object.
    sha256: Option<ring::digest::Context>,
    /// The first chunk, which was looked at to see where reading began.
    first: Option<Bytes>,
}

impl Chunks {
    async fn begin(
        api: Api,
        object: String,
        subject: String,
        info: ObjectInfo,
        wanted: Range<u64>,
    ) -> Result<Self, Error> {
        let whole = wanted == (0..info.size);
        if let Some((place, number, size)) = hint(&info, wanted.start)
            && number > 0
        {
            let mut reader = api.read(&object, &subject, Some(place)).await?;
            let first = reader.next(window(&info, &wanted)).await?;
            let told = first.as_ref().and_then(number_of).filter(|told| *told <= number);
            if let (Some(first), Some(told)) = (first, told) {
                let at = told.saturating_mul(size);
                let first = Some(first.payload);
                return Ok(Self { object, reader, info, wanted, at, number: Some(told), sha256: None, first });
            }
        }
        let reader = api.read(&object, &subject, Some(1)).await?;
        let sha256 = whole.then(|| ring::digest::Context::new(&ring::digest::SHA256));
        Ok(Self { object, reader, info, wanted, at: 0, number: None, sha256, first: None })
    }

    /// The wanted bytes of the next chunk that has some; `None` behind the last.
    async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        while self.at < self.wanted.end {
            let chunk = match self.first.take() {
                Some(chunk) => chunk,
                None => match self.reader.next(window(&self.info, &(self.at..self.wanted.end))).await? {
                    Some(message) => {
                        if let (Some(expected), told) = (self.number, number_of(&message))
                            && told != Some(expected)
                        {
                            return Err(self.corrupt("its chunks are not in order"));
                        }
                        message.payload
                    }
                    None => return Err(self.corrupt("chunks of it are missing")),
                },
            };
            self.number = self.number.map(|number| number + 1);
            let begin = self.at;
            self.at += chunk.len() as u64;
            if chunk.is_empty() || self.at > self.info.size {
                return Err(self.corrupt("its chunks have another size than its description says"));
            }
            if let Some(sha256) = &mut self.sha256 {
                sha256.update(&chunk);
                if self.at == self.info.size {
                    self.check_digest()?;
                }
            }
            let from = self.wanted.start.saturating_sub(begin).min(chunk.len() as u64);
            let to = (self.wanted.end - begin).min(chunk.len() as u64);
            if from < to {
                let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
                return Ok(Some(chunk.slice(index(from)..index(to))));
            }
        }
        Ok(None)
    }

    fn check_digest(&mut self) -> Result<(), Error> {
        let Some(sha256) = self.sha256.take() else { return Ok(()) };
        let found = info::digest(sha256.finish().as_ref());
        match &self.info.digest {
            Some(digest) if *digest != found => Err(self.corrupt("its bytes are not those of its digest")),
            _ => Ok(()),
        }
    }

    /// The bytes of an object in one chunk.
    fn check_whole(object: &str, info: &ObjectInfo, chunk: Bytes) -> Result<Bytes, Error> {
        let found = info::digest(ring::digest::digest(&ring::digest::SHA256, &chunk).as_ref());
        let same = info.digest.as_ref().is_none_or(|digest| *digest == found);
        if chunk.len() as u64 == info.size && same {
            return Ok(chunk);
        }
        Err(Error::Corrupt {
            object: object.to_owned(),
            cause: "its bytes are not those of its description".to_owned(),
        })
    }

    fn corrupt(&self, cause: &str) -> Error {
        Error::Corrupt { object: self.object.clone(), cause: cause.to_owned() }
    }
}

/// How many chunks are asked for at once: no more than hold the bytes that are wanted.
fn window(info: &ObjectInfo, wanted: &Range<u64>) -> u64 {
    let bytes = wanted.end.saturating_sub(wanted.start);
    info.chunk_size().map_or(WINDOW, |size| (bytes / size + 1).min(WINDOW))
}

/// The number that a chunk of ours tells.
fn number_of(message: &async_nats::Message) -> Option<u64> {
    message.headers.as_ref()?.get(NUMBER)?.as_str().parse().ok()
}

/// The place in the stream at which the chunk with byte `start` is looked for, that chunk's number, and the size of chunks.
fn hint(info: &ObjectInfo, start: u64) -> Option<(u64, u64, u64)> {
    let (first, size) = (info.metadata(FIRST)?.parse::<u64>().ok()?, info.chunk_size()?);
    let number = start / size;
    Some((first.checked_add(number)?, number, size))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::info::Options;
    use super::*;

    #[test]
    fn where_a_chunk_is_looked_for() {
        let info = |first: &str, size| ObjectInfo {
            metadata: Some(BTreeMap::from([(FIRST.to_owned(), first.to_owned())])),
            options: Some(Options { link: None, max_chunk_size: size }),
            ..ObjectInfo::default()
        };
        for (first, size, start, expected) in [
            ("7", Some(100), 0, Some((7, 0, 100))),
            ("7", Some(100), 99, Some((7, 0, 100))),
            ("7", Some(100), 250, Some((9, 2, 100))),
            ("7", None, 250, None),
            ("7", Some(0), 250, None),
            ("x", Some(100), 250, None),
            ("18446744073709551615", Some(1), 1, None),
        ] {
            assert_eq!(hint(&info(first, size), start), expected, "{first} {size:?} {start}");
        }
        assert_eq!(hint(&ObjectInfo::default(), 0), None, "of another program");
    }
}
