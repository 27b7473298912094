//! Reading a file, or a range of it: many requests at once, answers in their order.

use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::future::join;
use futures::stream::{self, Stream, StreamExt};

use super::Place;
use super::requests::{Failed, Opened};
use super::wire::open;
use crate::{Body, Error};

/// The bytes of one reader that are under way at most.
const IN_FLIGHT: u64 = 2 << 20;

/// Opens a file and reads from it. Links are no objects: they could lead anywhere (I11).
pub(super) async fn get(place: &Place, path: &str, range: Option<Range<u64>>) -> Result<Body, Error> {
    let object = place.object(path);
    let lease = place.link.lease().await?;
    let beside = lease.again();
    let (opened, there) = join(Opened::file(lease, path, open::READ, None), beside.lstat(path)).await;
    let there = there.map_err(|failed| failed.about(&object))?;
    if there.is_file() == Some(false) {
        return Err(Error::NotFound { object });
    }
    let opened = opened.map_err(|(_, failed)| failed.about(&object))?;
    let start = range.as_ref().map_or(0, |range| range.start);
    let wanted = range.as_ref().map_or(u64::MAX, |range| range.end.saturating_sub(range.start));
    let first = usize::try_from(wanted).unwrap_or(usize::MAX).min(opened.lease.features().read);
    // The size decides whether these bytes count, but most objects are one read, and this saves a round trip.
    let (attributes, first) = join(opened.attributes(), opened.read(start, first)).await;
    let size = attributes.map_err(|failed| failed.about(&object))?.size.ok_or_else(|| Failed::Odd.about(&object))?;
    if range.is_some() && start >= size {
        return Err(Error::OutOfRange { object, start });
    }
    let mut first = first.map_err(|failed| failed.about(&object))?;
    let end = start.saturating_add(wanted).min(size);
    first.truncate(usize::try_from(end.saturating_sub(start)).unwrap_or(usize::MAX));
    let rest = start + first.len() as u64..end;
    let first = stream::iter((!first.is_empty()).then_some(Ok(first)));
    Ok(Body { size: Some(size), tag: None, stream: first.chain(chunks(opened, rest, object)).boxed() })
}

/// The bytes of a range, in order.
fn chunks(opened: Opened, range: Range<u64>, object: String) -> impl Stream<Item = Result<Bytes, Error>> + Send {
    let opened = Arc::new(opened);
    let most = opened.lease.features().read as u64;
    let requests = usize::try_from((IN_FLIGHT / most).max(1)).unwrap_or(1);
    let count = (range.end - range.start).div_ceil(most);
    let pieces = (0..count).map(move |number| {
        let at = range.start + number * most;
        at..(at + most).min(range.end)
    });
    let read = move |piece: Range<u64>| {
        let (opened, object) = (Arc::clone(&opened), object.clone());
        async move { whole(&opened, piece, &object).await }
    };
    stream::iter(pieces).map(read).buffered(requests)
}

/// All bytes of a short range. A server may answer with less than it was asked for, but not with none.
async fn whole(opened: &Opened, range: Range<u64>, object: &str) -> Result<Bytes, Error> {
    let read = async |at: u64| {
        let left = usize::try_from(range.end - at).unwrap_or(usize::MAX);
        let piece = opened.read(at, left).await.map_err(|failed| failed.about(object))?;
        if piece.is_empty() {
            let cause = format!("the file ends at byte {at} instead of {}", range.end);
            return Err(Error::Unavailable { object: object.to_owned(), cause, retryable: true });
        }
        Ok(piece)
    };
    let first = read(range.start).await?;
    let mut at = range.start + first.len() as u64;
    if at == range.end {
        return Ok(first);
    }
    let mut all = BytesMut::from(&first[..]);
    while at < range.end {
        let piece = read(at).await?;
        at += piece.len() as u64;
        all.extend_from_slice(&piece);
    }
    Ok(all.freeze())
}
