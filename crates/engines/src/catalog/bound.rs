//! How much of a prefix is remembered? A listing ends where its databases and their backups would take more memory than that, or where it
//! never ends by itself, and what is shown of the rest is said. Pure.

use seawall_core::{Failure, Kind};

use super::Row;
use super::tally::Tally;

/// Memory that the databases of a prefix may take: some 60,000 of SQLite, or 10,000 servers with 200 backups each.
const MOST_BYTES: usize = 256 << 20;

/// Objects that are listed: 10,000 databases with 20,000 objects each.
const MOST_OBJECTS: u64 = 200_000_000;

/// About how many bytes a database takes beside its names and its lists: until the listing ends, or as a row with alarms and doubts.
const OF_DATABASE: usize = size_of::<Tally>() + size_of::<Row>() + 2048;

/// How often the names of a database are in memory: as a key, as the name, the prefix and the URL of its row, and in alarms.
const COPIES_OF_NAMES: usize = 6;

/// What a listing took so far, and what it may take.
#[derive(Debug, Clone)]
pub(super) struct Bound {
    bytes: usize,
    objects: u64,
    most_bytes: usize,
    most_objects: u64,
}

impl Default for Bound {
    fn default() -> Self {
        Self::new(MOST_BYTES, MOST_OBJECTS)
    }
}

impl Bound {
    pub(super) fn new(most_bytes: usize, most_objects: u64) -> Self {
        Self { bytes: 0, objects: 0, most_bytes, most_objects }
    }

    /// Whether another object may be taken up, which is then counted.
    pub(super) fn takes_another(&mut self) -> bool {
        self.objects += 1;
        self.objects <= self.most_objects && self.bytes <= self.most_bytes
    }

    /// Counts another database, by the length of its names.
    pub(super) fn begin(&mut self, names: usize) {
        self.add(OF_DATABASE + COPIES_OF_NAMES * names);
    }

    /// Counts memory.
    pub(super) fn add(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// What to say of a listing that ended before `object`, with so many databases.
    pub(super) fn failure(&self, object: &str, databases: usize) -> Failure {
        let much = match self.bytes > self.most_bytes {
            true => format!(
                "its databases and their backups take more than the {} MiB that they may",
                self.most_bytes >> 20
            ),
            false => format!("there are more than {} objects", self.most_objects),
        };
        let cause = format!(
            "the listing of the prefix ended before this name, because {much}; {databases} databases are shown, and those behind it aren't"
        );
        let next = "name a longer prefix, several times if need be; if there aren't so many databases, look at what writes there";
        Failure::new(Kind::Refused, "fleet.cut-short", object, cause, next)
    }
}

/// Says of the databases that may have more objects behind `key`, where the listing ended, that not all of them are known.
pub(super) fn leave_open(rows: &mut [Row], key: &str) {
    let goes_on = |root: &str| root.is_empty() || key.strip_prefix(root).is_some_and(|rest| rest.starts_with('/'));
    for row in rows.iter_mut().filter(|row| goes_on(&row.root)) {
        // That may come behind.
        row.doubts.retain(|doubt| !doubt.starts_with("nothing can be restored"));
        row.doubts
            .push("the listing ended among its objects, so its newest point and its size aren't known".to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_ends_by_objects_or_by_memory() {
        let mut bound = Bound::new(usize::MAX, 2);
        assert_eq!([bound.takes_another(), bound.takes_another(), bound.takes_another()], [true, true, false]);
        assert!(bound.failure("v/x", 7).cause.contains("more than 2 objects; 7 databases"));
        let mut bound = Bound::new(OF_DATABASE + 100, u64::MAX);
        bound.begin(10);
        assert!(bound.takes_another());
        bound.add(100);
        assert!(!bound.takes_another());
        assert!(bound.failure("v/x", 7).cause.contains("MiB"));
        let mut whole = Bound::default();
        for _ in 0..50_000 {
            whole.begin(60);
            // Its complete copies.
            whole.add(20 * 16);
        }
        assert!(whole.takes_another(), "a large fleet has room");
    }
}
