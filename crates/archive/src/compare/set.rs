//! The rows that a set has: it is read once, and each item's rows are summed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use seawall_core::blocking;

use crate::compare::{Sum, Summing};
use crate::load::{Unit, units};
use crate::{Error, SetReader};

/// The sum of the rows of each item for which `begin` gives something that sums them; an item without rows has none in the
/// answer. `begin` is asked by the item's place in the index, once for each unit of chunks that has rows of the item. At most
/// `jobs` chunks are in memory at a time.
///
/// # Errors
/// Those of [`SetReader::chunk`], and [`Error::Corrupt`] where rows aren't what the server wrote.
pub async fn sums<S: Summing>(
    reader: &Arc<SetReader>,
    begin: impl Fn(u32) -> Option<S> + Send + Sync + 'static,
    jobs: usize,
) -> Result<BTreeMap<u32, Sum>, Error> {
    let items = u32::try_from(reader.index().items.len()).unwrap_or(u32::MAX);
    let wanted: Vec<bool> = (0..items).map(|item| begin(item).is_some()).collect();
    let units = units(reader.index(), &wanted, &[], &BTreeSet::new(), 1);
    let begin = Arc::new(begin);
    let read = |unit: Unit| {
        let (reader, begin) = (Arc::clone(reader), Arc::clone(&begin));
        async move {
            let mut sums: BTreeMap<u32, S> = BTreeMap::new();
            for number in unit.chunks {
                let (_, bytes) = reader.chunk(number).await?;
                let (reader, begin) = (Arc::clone(&reader), Arc::clone(&begin));
                let job = blocking(move || {
                    let Some(chunk) = reader.index().chunks.get(number as usize) else { return Ok(sums) };
                    let mut raw = Vec::new();
                    for (frame, stored) in SetReader::frames(chunk, &bytes) {
                        let Some(sum) = started(&mut sums, frame.item, &*begin) else { continue };
                        reader.decode(number, frame, &stored, &mut raw)?;
                        sum.take(&raw).map_err(|cause| corrupt(&reader, cause))?;
                    }
                    Ok::<_, Error>(sums)
                });
                sums = job.await?;
            }
            Ok::<_, Error>(sums)
        }
    };
    let parts: Vec<BTreeMap<u32, S>> = stream::iter(units).map(read).buffered(jobs.max(1)).try_collect().await?;
    let mut all: BTreeMap<u32, Sum> = BTreeMap::new();
    for (item, rows) in parts.into_iter().flatten() {
        all.entry(item).or_default().add(rows.end().map_err(|cause| corrupt(reader, cause))?);
    }
    Ok(all)
}

/// What sums the rows of an item, begun if it isn't yet.
fn started<'a, S>(sums: &'a mut BTreeMap<u32, S>, item: u32, begin: &impl Fn(u32) -> Option<S>) -> Option<&'a mut S> {
    use std::collections::btree_map::Entry;
    match sums.entry(item) {
        Entry::Occupied(there) => Some(there.into_mut()),
        Entry::Vacant(place) => begin(item).map(|sum| place.insert(sum)),
    }
}

fn corrupt(reader: &SetReader, cause: &str) -> Error {
    Error::corrupt(format!("set {}", reader.manifest().id), format!("its rows: {cause}"))
}
