//! Looks up many keys in turn: nearly free for keys in order, a search from the root for others.
//!
//! A snapshot's keys come in the order of the DBI that they were read from, which is nearly always the order of our
//! DBI. Then a lookup is a step of a cursor. Otherwise (another order, or a writer that doesn't sort) a lookup searches
//! from the root. The answer is right either way.

use std::cmp::Ordering;

use crate::environment::{Cursor, Pair};
use crate::error::Error;
use crate::schema::flags::Flags;
use crate::schema::order::compare;

/// Steps that are tried before a search from the root.
const STEPS: usize = 8;

/// Looks keys up in one DBI of one transaction. Of keys with several values it finds the first.
pub(crate) struct Seeker<'t> {
    cursor: Cursor<'t>,
    flags: Flags,
    /// Where the cursor stands; `None` behind the end.
    at: Option<Pair<'t>>,
    /// The lower end of the gap before `at`: no key lies between the two. `None`: nothing is known yet.
    low: Option<Vec<u8>>,
}

impl<'t> Seeker<'t> {
    pub(crate) fn new(cursor: Cursor<'t>, flags: Flags) -> Self {
        Self { cursor, flags, at: None, low: None }
    }

    /// The value of `key`.
    pub(crate) fn find(&mut self, key: &[u8]) -> Result<Option<&'t [u8]>, Error> {
        let known = match &self.low {
            Some(low) => compare(self.flags, low, key) != Ordering::Greater,
            None => false,
        };
        if !known {
            self.search(key)?;
            return Ok(self.hit(key));
        }
        // `low <= key`: at the cursor, in the gap before it, or further on.
        for _ in 0..STEPS {
            let Some((at, value)) = self.at else { return Ok(None) };
            match compare(self.flags, key, at) {
                Ordering::Equal => return Ok(Some(value)),
                Ordering::Less => return Ok(None),
                Ordering::Greater => self.step(at)?,
            }
        }
        self.search(key)?;
        Ok(self.hit(key))
    }

    fn hit(&self, key: &[u8]) -> Option<&'t [u8]> {
        self.at.filter(|(at, _)| compare(self.flags, key, at) == Ordering::Equal).map(|(_, value)| value)
    }

    fn step(&mut self, from: &[u8]) -> Result<(), Error> {
        self.remember(from);
        self.at = self.cursor.next()?;
        Ok(())
    }

    fn search(&mut self, key: &[u8]) -> Result<(), Error> {
        self.remember(key);
        self.at = self.cursor.from(key)?;
        Ok(())
    }

    fn remember(&mut self, key: &[u8]) {
        let low = self.low.get_or_insert_default();
        low.clear();
        low.extend_from_slice(key);
    }
}
