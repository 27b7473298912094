//! Replicas of Litestream before 0.5: which objects restore this moment?
//!
//! Pure. A generation is a line of history. It begins with a snapshot,
//! `generations/<id>/snapshots/<index>.snapshot.lz4`, and continues with segments of the following WALs,
//! `generations/<id>/wal/<index>_<offset>.wal.lz4`. All are LZ4 frames. A point is the end of a snapshot or of a
//! segment. Its moment is the time when the store received it, because the content has none.

use seawall_core::{LevelSummary, Moment, Point, Span};
use seawall_vault::ObjectKey;

/// The prefix of all objects of such replicas.
pub(crate) const GENERATIONS: &str = "generations/";

/// The place of an object in its generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ReplicaPosition {
    generation: u64,
    /// The number of the WAL; for a snapshot, of the WAL that follows it.
    index: u32,
    /// The offset in the WAL; `None` for a snapshot, which comes before it.
    offset: Option<u64>,
}

/// An object of such a replica. There may be millions, so the key isn't kept: it follows from the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) place: ReplicaPosition,
    /// How many digits the offset has in its key.
    digits: u8,
    pub(crate) bytes: u64,
    pub(crate) modified: Moment,
}

impl Object {
    /// The object of a listing; `None` for everything else (I11).
    pub(crate) fn of(key: &str, bytes: u64, modified: Moment) -> Option<Self> {
        let place = parse_key(key)?;
        let offset = key.rsplit_once('_').and_then(|(_, name)| name.split('.').next()).unwrap_or_default();
        Some(Self { place, digits: u8::try_from(offset.len()).ok()?, bytes, modified })
    }

    /// Its key.
    pub(crate) fn key(&self) -> ObjectKey {
        let ReplicaPosition { generation, index, offset } = self.place;
        let digits = usize::from(self.digits);
        let key = match offset {
            Some(offset) => format!("{GENERATIONS}{generation:016x}/wal/{index:08x}_{offset:0digits$x}.wal.lz4"),
            None => format!("{GENERATIONS}{generation:016x}/snapshots/{index:08x}.snapshot.lz4"),
        };
        ObjectKey::new(key).expect("it is made of letters, digits and slashes")
    }

    /// The point at its end.
    pub(crate) fn point(&self) -> Point {
        let ReplicaPosition { generation, index, offset } = self.place;
        let position = match offset {
            Some(offset) => format!("{generation:016x}/{index:08x}:{offset:08x}"),
            None => format!("{generation:016x}/{index:08x}"),
        };
        Point { position, moment: self.modified }
    }

    /// Whether it is a snapshot.
    pub(crate) fn is_snapshot(&self) -> bool {
        self.place.offset.is_none()
    }

    /// Whether both objects are of one generation.
    pub(crate) fn shares_generation(&self, other: &Self) -> bool {
        self.place.generation == other.place.generation
    }

    /// Whether it is that snapshot, or a segment behind it in its generation.
    fn is_from(&self, snapshot: &Self) -> bool {
        let (own, of) = (self.place, snapshot.place);
        own == of || own.generation == of.generation && own.index >= of.index && !self.is_snapshot()
    }

    /// The number of its WAL.
    pub(crate) fn index(&self) -> u32 {
        self.place.index
    }

    /// Where in the WAL it begins; 0 for a snapshot.
    pub(crate) fn offset(&self) -> u64 {
        self.place.offset.unwrap_or(0)
    }
}

/// The object under a key; `None` for everything else (I11).
pub(crate) fn parse_key(key: &str) -> Option<ReplicaPosition> {
    let mut parts = key.strip_prefix(GENERATIONS)?.split('/');
    let (generation, kind, name) = (parts.next()?, parts.next()?, parts.next()?);
    let generation = hex(generation, 16..=16)?;
    let (index, offset) = match (kind, parts.next()) {
        ("snapshots", None) => (name.strip_suffix(".snapshot.lz4")?, None),
        ("wal", None) => {
            let (index, offset) = name.strip_suffix(".wal.lz4")?.split_once('_')?;
            (index, Some(hex(offset, 8..=16)?))
        }
        _ => return None,
    };
    let index = u32::try_from(hex(index, 8..=8)?).ok().filter(|index| i32::try_from(*index).is_ok())?;
    Some(ReplicaPosition { generation, index, offset })
}

fn hex(text: &str, digits: std::ops::RangeInclusive<usize>) -> Option<u64> {
    let plain = digits.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    plain.then(|| u64::from_str_radix(text, 16).ok()).flatten()
}

/// The objects that restore a point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chain<'a> {
    pub(crate) snapshot: &'a Object,
    /// In order, as far as their names show no break.
    pub(crate) segments: Vec<&'a Object>,
    /// Whether there are more objects after a break.
    pub(crate) broken: bool,
}

impl Chain<'_> {
    /// The point that it reaches.
    pub(crate) fn point(&self) -> Point {
        self.segments.last().unwrap_or(&self.snapshot).point()
    }

    /// All of its objects, in order.
    pub(crate) fn objects(&self) -> impl Iterator<Item = &Object> {
        std::iter::once(self.snapshot).chain(self.segments.iter().copied())
    }
}

/// The objects that restore the newest point, or the last point at or before a moment: the newest snapshot up to then
/// of any generation, and the segments after it.
pub(crate) fn chain(objects: &[Object], until: Option<Moment>) -> Option<Chain<'_>> {
    let in_time = |object: &&Object| until.is_none_or(|moment| object.modified <= moment);
    let snapshots = objects.iter().filter(|object| object.place.offset.is_none());
    let snapshot = snapshots.filter(in_time).max_by_key(|object| (object.modified, object.place))?;
    let of_generation = |object: &&Object| {
        object.place.generation == snapshot.place.generation && object.place.index >= snapshot.place.index
    };
    let mut rest: Vec<&Object> = objects.iter().filter(|object| object.place.offset.is_some()).collect();
    rest.retain(|object| of_generation(object) && in_time(object));
    rest.sort_by_key(|object| object.place);
    let mut at = (snapshot.place.index, None);
    let mut whole = 0;
    while let Some(next) = rest.get(whole).map(|object| object.place).filter(|next| follows(at, *next)) {
        at = (next.index, next.offset);
        whole += 1;
    }
    let broken = whole < rest.len();
    rest.truncate(whole);
    Some(Chain { snapshot, segments: rest, broken })
}

/// Whether a segment can follow a place in a WAL; `None` there means the WAL's very beginning.
fn follows((index, offset): (u32, Option<u64>), next: ReplicaPosition) -> bool {
    match next.offset {
        Some(0) if next.index == index => offset.is_none(),
        Some(0) => Some(next.index) == index.checked_add(1) && offset.is_some(),
        Some(behind) => next.index == index && offset.is_some_and(|offset| behind > offset),
        None => false,
    }
}

/// The objects in the order of generations, and in each in that of its WALs.
fn in_order(objects: &[Object]) -> Vec<Object> {
    let mut sorted = objects.to_vec();
    sorted.sort_unstable_by_key(|object| object.place);
    sorted
}

/// Each snapshot with the segments up to the next snapshot of its generation.
pub(crate) fn by_snapshot(objects: &[Object]) -> Vec<Vec<Object>> {
    let mut groups: Vec<Vec<Object>> = Vec::new();
    for object in in_order(objects) {
        match groups.last_mut() {
            Some(group) if !object.is_snapshot() && group.first().is_some_and(|first| object.is_from(first)) => {
                group.push(object);
            }
            _ if object.is_snapshot() => groups.push(vec![object]),
            // No snapshot comes before it.
            _ => {}
        }
    }
    groups
}

/// A stretch for each snapshot: as far as its chain goes.
pub(crate) fn spans(objects: &[Object]) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for own in in_order(objects).chunk_by(Object::shares_generation) {
        let Some(first) = own.iter().find(|object| object.is_snapshot()) else { continue };
        let Some(newest) = chain(own, None) else { continue };
        let to = newest.point();
        let between = |object: &&Object| object.place >= first.place && object.modified <= to.moment;
        let points = u64::try_from(own.iter().filter(between).count()).unwrap_or(u64::MAX);
        spans.push(Span { from: first.point(), to, points });
    }
    spans.sort_by_key(|span| span.from.moment);
    spans
}

/// Gathers the objects of a listing in bounded memory. Of more than `most` only those are kept that restore the newest state: the newest
/// snapshot, and the segments behind it.
#[derive(Debug)]
pub(crate) struct Gathered {
    pub(crate) objects: Vec<Object>,
    /// Whether others were left out.
    pub(crate) is_cut: bool,
    most: usize,
}

impl Gathered {
    pub(crate) fn new(most: usize) -> Self {
        Self { objects: Vec::new(), is_cut: false, most }
    }

    /// Takes up an object; `false` if those of the newest state alone are too many.
    pub(crate) fn take(&mut self, object: Object) -> bool {
        if self.is_cut {
            let newest = self.objects.first().copied();
            let is_newer = |first: &Object| (object.modified, object.place) > (first.modified, first.place);
            if object.is_snapshot() && newest.as_ref().is_none_or(is_newer) {
                self.objects.clear();
            } else if !newest.is_some_and(|first| object.is_from(&first)) {
                return true;
            }
        }
        self.objects.push(object);
        if self.objects.len() > self.most && !self.is_cut {
            self.is_cut = true;
            let snapshots = self.objects.iter().filter(|object| object.is_snapshot());
            let newest = snapshots.max_by_key(|object| (object.modified, object.place)).copied();
            self.objects.retain(|object| newest.is_some_and(|newest| object.is_from(&newest)));
            // The snapshot comes first: its name sorts before those of segments.
            if let Some(at) = newest.and_then(|newest| self.objects.iter().position(|object| *object == newest)) {
                self.objects.swap(0, at);
            }
            self.objects.shrink_to(self.most);
        }
        self.objects.len() <= self.most
    }
}

/// Their number and size.
pub(crate) fn level(objects: &[Object]) -> LevelSummary {
    let bytes = objects.iter().map(|object| object.bytes).fold(0, u64::saturating_add);
    LevelSummary { level: "generations".to_owned(), objects: objects.len() as u64, bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(generation: u64, index: u32, offset: Option<u64>, at: i64) -> Object {
        let name = match offset {
            Some(offset) => format!("{GENERATIONS}{generation:016x}/wal/{index:08x}_{offset:08x}.wal.lz4"),
            None => format!("{GENERATIONS}{generation:016x}/snapshots/{index:08x}.snapshot.lz4"),
        };
        let object = Object::of(&name, 1, Moment::from_millis(at)).expect("a key");
        assert_eq!(object.place, ReplicaPosition { generation, index, offset });
        assert_eq!(object.key().as_str(), name);
        object
    }

    #[test]
    fn keys_follow_from_places() {
        for key in [
            "generations/5e21ff9be28275d2/snapshots/00000001.snapshot.lz4",
            "generations/5e21ff9be28275d2/wal/00000001_00000000.wal.lz4",
            "generations/5e21ff9be28275d2/wal/00000001_100001038.wal.lz4",
            "generations/5e21ff9be28275d2/wal/00000001_0000000100001038.wal.lz4",
        ] {
            assert_eq!(Object::of(key, 1, Moment::default()).expect("a key").key().as_str(), key);
        }
    }

    #[test]
    fn each_snapshot_has_the_segments_up_to_the_next() {
        let objects = [
            object(9, 1, Some(0), 21),
            object(7, 3, None, 14),
            object(7, 1, None, 10),
            object(7, 3, Some(0), 15),
            object(7, 2, Some(0), 13),
            object(7, 1, Some(0), 11),
            object(8, 1, None, 20),
        ];
        let groups: Vec<Vec<i64>> = by_snapshot(&objects)
            .iter()
            .map(|group| group.iter().map(|object| object.modified.as_millis()).collect())
            .collect();
        assert_eq!(groups, [vec![10, 11, 13], vec![14, 15], vec![20]]);
    }

    #[test]
    fn of_too_many_the_newest_state_is_kept() {
        // In the order of a listing: generations by their random names, in each the snapshots first.
        let listing = [
            object(5, 1, None, 90),
            object(5, 2, None, 100),
            object(5, 1, Some(0), 91),
            object(5, 2, Some(0), 101),
            object(5, 2, Some(0x1000), 102),
            object(7, 1, None, 10),
            object(7, 1, Some(0), 11),
            object(9, 4, None, 200),
            object(9, 3, Some(0), 199),
            object(9, 4, Some(0), 201),
        ];
        for (count, most, expected) in [
            (10, 10, (10, false, true, 201)),
            (10, 9, (2, true, true, 201)),
            (10, 3, (2, true, true, 201)),
            (7, 3, (3, true, true, 102)),
            (7, 6, (3, true, true, 102)),
            (10, 1, (2, true, false, 201)),
        ] {
            let mut gathered = Gathered::new(most);
            let mut fits = true;
            for object in &listing[..count] {
                fits &= gathered.take(*object);
            }
            let newest = chain(&gathered.objects, None).expect("a chain").point().moment.as_millis();
            assert_eq!((gathered.objects.len(), gathered.is_cut, fits, newest), expected, "{count} {most}");
        }
        let mut without = Gathered::new(1);
        assert!(listing[2..5].iter().all(|object| without.take(*object)) && without.objects.is_empty());
    }

    #[test]
    fn foreign_keys_are_ignored() {
        for key in [
            "generations/5e21ff9be28275d2/snapshots/00000001.snapshot.lz4.tmp",
            "generations/5e21ff9be28275d2/snapshots/0000001.snapshot.lz4",
            "generations/5e21ff9be28275d2/snapshots/ffffffff.snapshot.lz4",
            "generations/5E21FF9BE28275D2/snapshots/00000001.snapshot.lz4",
            "generations/5e21ff9be28275d2/wal/00000001.wal.lz4",
            "generations/5e21ff9be28275d2/wal/00000001_0.wal.lz4",
            "generations/5e21ff9be28275d2/wal/x/00000001_00000000.wal.lz4",
            "ltx/0/0000000000000001-0000000000000001.ltx",
            "generations/",
        ] {
            assert_eq!(parse_key(key), None, "{key}");
        }
    }

    #[test]
    fn offsets_go_beyond_4_gib() {
        let place = parse_key("generations/5e21ff9be28275d2/wal/00000001_100001038.wal.lz4").expect("a key");
        assert_eq!(place.offset, Some((4 << 30) + 0x1038));
        let objects = [
            object(7, 1, None, 10),
            object(7, 1, Some(0), 11),
            object(7, 1, Some(0xffff_f000), 12),
            object(7, 1, Some(0x1_0000_1038), 13),
            object(7, 2, Some(0), 14),
        ];
        let found = chain(&objects, None).expect("a chain");
        assert_eq!((found.segments.len(), found.broken), (4, false), "in the order of the WAL, not of the names");
        assert_eq!(objects[3].point().position, "0000000000000007/00000001:100001038");
    }

    #[test]
    fn which_objects_restore_a_moment() {
        let objects = [
            object(7, 1, None, 10),
            object(7, 1, Some(0), 11),
            object(7, 1, Some(0x238), 12),
            object(7, 2, Some(0), 13),
            object(7, 3, None, 14),
            object(7, 3, Some(0), 15),
            object(9, 1, None, 20),
            object(9, 1, Some(0), 21),
            object(9, 3, Some(0), 23),
        ];
        let reached = |until: Option<i64>| {
            let found = chain(&objects, until.map(Moment::from_millis))?;
            Some((found.point().moment.as_millis(), found.segments.len(), found.broken))
        };
        assert_eq!(reached(Some(9)), None);
        assert_eq!(reached(Some(10)), Some((10, 0, false)));
        assert_eq!(reached(Some(12)), Some((12, 2, false)));
        assert_eq!(reached(Some(13)), Some((13, 3, false)));
        assert_eq!(reached(Some(16)), Some((15, 1, false)));
        assert_eq!(reached(Some(22)), Some((21, 1, false)));
        assert_eq!(reached(None), Some((21, 1, true)));
        let spans: Vec<_> = spans(&objects)
            .iter()
            .map(|span| (span.from.moment.as_millis(), span.to.moment.as_millis(), span.points))
            .collect();
        assert_eq!(spans, [(10, 15, 6), (20, 21, 2)]);
    }
}
