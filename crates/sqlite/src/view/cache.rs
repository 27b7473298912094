//! Pages in memory: the ones that were used last, up to a number of bytes (I5).

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;

/// What a page is kept by: the identity of its object, and its offset there. So each version of a page has its own.
pub(crate) type Key = (u64, u64);

/// Pages in the order of their last use.
#[derive(Debug)]
pub(crate) struct Cache {
    room: usize,
    used: usize,
    clock: u64,
    pages: HashMap<Key, (u64, Bytes)>,
    order: BTreeMap<u64, Key>,
}

impl Cache {
    /// Holds at most `room` bytes of pages.
    pub(crate) fn new(room: usize) -> Self {
        Self { room, used: 0, clock: 0, pages: HashMap::new(), order: BTreeMap::new() }
    }

    /// A page, which was used just now.
    pub(crate) fn get(&mut self, key: Key) -> Option<Bytes> {
        let (last, page) = self.pages.get_mut(&key)?;
        self.clock += 1;
        self.order.remove(last);
        *last = self.clock;
        self.order.insert(self.clock, key);
        Some(page.clone())
    }

    /// Whether a page is there.
    pub(crate) fn holds(&self, key: Key) -> bool {
        self.pages.contains_key(&key)
    }

    /// Keeps a page, in the place of the pages that were last used longest ago.
    pub(crate) fn put(&mut self, key: Key, page: Bytes) {
        if page.len() > self.room || self.holds(key) {
            return;
        }
        while self.used + page.len() > self.room {
            let Some((_, oldest)) = self.order.pop_first() else { break };
            self.used -= self.pages.remove(&oldest).map_or(0, |(_, page)| page.len());
        }
        self.clock += 1;
        self.used += page.len();
        self.order.insert(self.clock, key);
        self.pages.insert(key, (self.clock, page));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_last_stays() {
        let page = |byte: u8| Bytes::from(vec![byte; 10]);
        let mut cache = Cache::new(35);
        for n in 0..3_u8 {
            cache.put((1, n.into()), page(n));
        }
        assert_eq!(cache.get((1, 0)), Some(page(0)));
        cache.put((1, 3), page(3));
        let there: Vec<u64> = (0..4).filter(|n| cache.holds((1, *n))).collect();
        assert_eq!((there, cache.used), (vec![0, 2, 3], 30));
        cache.put((1, 3), page(9));
        assert_eq!(cache.get((1, 3)), Some(page(3)), "a version doesn't change");
        cache.put((2, 0), Bytes::from(vec![0; 36]));
        assert!(!cache.holds((2, 0)), "a page that doesn't fit isn't kept");
        assert_eq!((cache.order.len(), cache.pages.len()), (3, 3));
    }
}
