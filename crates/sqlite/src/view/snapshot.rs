//! A point of a database as places of pages.

use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{self, StreamExt};
use seawall_core::{Moment, Point};
use seawall_ltx::{Header, PageSize};
use seawall_vault::Vault;

use super::Inner;
use crate::belonging::Facts;
use crate::error::Error;
use crate::heads::Heads;
use crate::layout::Stored;
use crate::object::{Object, Opened, corrupt};
use crate::places::{Place, Stack};

/// Objects of a snapshot before those are looked for that hold no page any more.
const MANY: usize = 256;

/// A point of a database: which pages it has, and where in the vault each of them is. It never changes.
///
/// Memory: 16 bytes a page, and small objects as far as the view's cache has room for them.
#[derive(Debug)]
pub struct Snapshot {
    pub(crate) objects: Vec<Arc<Object>>,
    pub(crate) places: Vec<Place>,
    pub(crate) page_size: PageSize,
    /// The size of the database in pages.
    pub(crate) commit: u32,
    /// The newest object.
    pub(crate) end: Facts,
    moment: Moment,
    doubts: Vec<String>,
}

impl Snapshot {
    /// The TXID and the moment of the newest change.
    pub fn point(&self) -> Point {
        Point { position: self.end.file.max.to_string(), moment: self.moment }
    }

    /// The bytes of a page.
    pub fn page_size(&self) -> u32 {
        self.page_size.get()
    }

    /// The size of the database in pages.
    pub fn pages(&self) -> u32 {
        self.commit
    }

    /// What can't be told of its objects: sentences without a full stop.
    pub fn doubts(&self) -> &[String] {
        &self.doubts
    }

    /// Reads the indexes of a chain, oldest first, that was proved to belong together.
    pub(crate) async fn load(
        inner: &Inner,
        heads: &Heads,
        chain: &[Stored],
        doubts: Vec<String>,
    ) -> Result<Self, Error> {
        let opened = open_all(heads, chain).await?;
        let new = Self::over(inner, None, opened)?;
        Ok(Self { doubts, ..new })
    }

    /// Puts objects, newest first, over an older snapshot, or over nothing.
    pub(crate) fn over(inner: &Inner, older: Option<&Self>, newest_first: Vec<Opened>) -> Result<Self, Error> {
        let vault = &inner.vault;
        let newest = newest_first.first().ok_or_else(|| Error::NothingThere { vault: vault.url().to_owned() })?;
        let (end, header) = (Facts::of(&newest.file, &newest.header), newest.header);
        refuse_deleted(vault, &newest.file, &header)?;
        let mut objects = older.map(|older| older.objects.clone()).unwrap_or_default();
        let mut room = inner.room_for_objects(&objects);
        let mut stack = Stack::new(header.commit);
        for opened in newest_first {
            if opened.header.page_size != header.page_size {
                return Err(corrupt(
                    vault,
                    &opened.file,
                    "its page size is another one than that of the newest object",
                ));
            }
            let number = u32::try_from(objects.len()).map_err(|_| Error::Internal("too many objects".to_owned()))?;
            stack.put_below(&opened.places(vault, number)?, opened.header.commit);
            let whole = opened.whole.filter(|whole| take_room(&mut room, whole));
            objects.push(Arc::new(Object { id: inner.next_object(), file: opened.file, whole }));
        }
        if let Some(older) = older {
            stack.put_below(&older.places, older.commit);
        }
        let mut new = Self {
            objects,
            places: stack.finish(),
            page_size: header.page_size,
            commit: header.commit,
            end,
            moment: Moment::from_millis(header.timestamp_ms),
            doubts: older.map(|older| older.doubts.clone()).unwrap_or_default(),
        };
        if new.objects.len() > MANY {
            new.forget_unused();
        }
        Ok(new)
    }

    /// Drops objects that hold no page of it.
    fn forget_unused(&mut self) {
        let mut used = vec![false; self.objects.len()];
        for place in &self.places {
            if let Some(used) = used.get_mut(place.object as usize) {
                *used = true;
            }
        }
        let mut next = 0;
        let numbers: Vec<u32> = used
            .iter()
            .map(|used| {
                let number = next;
                next += u32::from(*used);
                number
            })
            .collect();
        for place in &mut self.places {
            place.object = numbers.get(place.object as usize).copied().unwrap_or(u32::MAX);
        }
        let mut used = used.into_iter();
        self.objects.retain(|_| used.next().unwrap_or(false));
    }
}

/// Whether bytes still fit; if so, they take their room.
fn take_room(room: &mut usize, bytes: &Bytes) -> bool {
    let left = room.checked_sub(bytes.len());
    *room = left.unwrap_or(*room);
    left.is_some()
}

/// Reads the indexes of objects that are given oldest first; returns them newest first.
pub(crate) async fn open_all(heads: &Heads, chain: &[Stored]) -> Result<Vec<Opened>, Error> {
    let reading: Vec<_> = chain.iter().rev().map(|file| Opened::read(heads, *file)).collect();
    let mut opened = stream::iter(reading).buffered(heads.at_once());
    let mut all = Vec::with_capacity(chain.len());
    while let Some(one) = opened.next().await {
        all.push(one?);
    }
    Ok(all)
}

fn refuse_deleted(vault: &Vault, file: &Stored, newest: &Header) -> Result<(), Error> {
    if newest.commit > 0 {
        return Ok(());
    }
    Err(corrupt(vault, file, "the database was deleted at this point"))
}
