//! What a point holds, as far as its objects tell it without a restore, and how two points differ.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::Point;

/// What a point holds, as far as its objects tell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Contents {
    /// The point.
    pub point: Point,
    /// Bytes of the database: of the file for SQLite, of its data for other engines; `None` if no object tells.
    pub bytes: Option<u64>,
    /// Objects that a restore reads.
    pub objects: u64,
    /// Bytes of these objects.
    pub stored_bytes: u64,
    /// The tables or DBIs that the objects list; `None` if they don't list them.
    #[serde(skip)]
    pub parts: Option<Vec<Part>>,
    /// Whether parts with other digests may hold the same content all the same.
    #[serde(skip)]
    pub merged: bool,
    /// What isn't known, each one sentence without a full stop.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
}

/// A table or a DBI.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Part {
    /// What people call it: `public.orders`.
    pub name: String,
    /// Its rows; `None` if the objects don't count them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// Bytes of its data.
    pub bytes: u64,
    /// A digest of its content; `None` if the objects keep none.
    #[serde(skip)]
    pub digest: Option<Vec<u8>>,
}

/// What became of a part between two points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// Only the later point has it.
    Added,
    /// Only the earlier point has it.
    Removed,
    /// Its rows, its size or its digest differ.
    Changed,
    /// Something differs of which it is made, and its content may be the same.
    Perhaps,
    /// Rows and size are equal, and nothing tells whether the content is.
    SameSize,
    /// The content is equal.
    Same,
}

/// A part at two points.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Compared {
    /// What people call it.
    pub name: String,
    /// What became of it.
    pub change: Change,
    /// The part at the first point.
    pub before: Option<Part>,
    /// The part at the second point.
    pub after: Option<Part>,
}

/// The parts of two points, in the order of their changes, then of their names. Parts of one name count as one. `None` if one of the
/// points doesn't list its parts.
pub fn compare_contents(before: &Contents, after: &Contents) -> Option<Vec<Compared>> {
    let mut pairs: BTreeMap<&str, (Option<Part>, Option<Part>)> = BTreeMap::new();
    let is_merged = before.merged || after.merged;
    let (before, after) = before.parts.as_ref().zip(after.parts.as_ref())?;
    for part in before {
        add(&mut pairs.entry(&part.name).or_default().0, part);
    }
    for part in after {
        add(&mut pairs.entry(&part.name).or_default().1, part);
    }
    let compared = pairs.into_iter().filter_map(|(name, (before, after))| {
        let change = match change(before.as_ref(), after.as_ref())? {
            Change::Changed if is_merged => Change::Perhaps,
            other => other,
        };
        Some(Compared { name: name.to_owned(), change, before, after })
    });
    let mut all: Vec<_> = compared.collect();
    all.sort_by_key(|compared| compared.change);
    Some(all)
}

/// Adds a part to those of its name.
fn add(sum: &mut Option<Part>, part: &Part) {
    match sum {
        None => *sum = Some(part.clone()),
        Some(sum) => {
            sum.rows = sum.rows.zip(part.rows).map(|(one, other)| one.saturating_add(other));
            sum.bytes = sum.bytes.saturating_add(part.bytes);
            sum.digest = None;
        }
    }
}

/// What became of a part; `None` if there is none at either point.
fn change(before: Option<&Part>, after: Option<&Part>) -> Option<Change> {
    Some(match (before, after) {
        (None, None) => return None,
        (None, Some(_)) => Change::Added,
        (Some(_), None) => Change::Removed,
        (Some(before), Some(after)) => match before.digest.as_ref().zip(after.digest.as_ref()) {
            Some((one, other)) if one == other => Change::Same,
            Some(_) => Change::Changed,
            None if (before.rows, before.bytes) == (after.rows, after.bytes) => Change::SameSize,
            None => Change::Changed,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Moment;

    fn part(name: &str, rows: Option<u64>, bytes: u64, digest: Option<u8>) -> Part {
        Part { name: name.into(), rows, bytes, digest: digest.map(|byte| vec![byte]) }
    }

    fn contents(parts: Vec<Part>) -> Contents {
        let point = Point { position: "1".into(), moment: Moment::from_millis(0) };
        Contents {
            point,
            bytes: None,
            objects: 0,
            stored_bytes: 0,
            parts: Some(parts),
            merged: false,
            doubts: Vec::new(),
        }
    }

    #[test]
    fn what_became_of_each_part() {
        let before = contents(vec![
            part("a", Some(1), 10, None),
            part("b", Some(1), 10, None),
            part("c", None, 10, Some(1)),
            part("d", None, 10, Some(1)),
            part("e", None, 10, Some(1)),
            part("gone", Some(3), 10, None),
        ]);
        let after = contents(vec![
            part("a", Some(1), 10, None),
            part("b", Some(2), 20, None),
            part("c", None, 10, Some(1)),
            part("d", None, 10, Some(2)),
            part("e", None, 10, None),
            part("new", Some(3), 10, None),
        ]);
        let found = compare_contents(&before, &after).expect("parts");
        let found: Vec<_> = found.into_iter().map(|one| (one.name, one.change)).collect();
        let expected = [
            ("new", Change::Added),
            ("gone", Change::Removed),
            ("b", Change::Changed),
            ("d", Change::Changed),
            ("a", Change::SameSize),
            ("e", Change::SameSize),
            ("c", Change::Same),
        ];
        assert_eq!(found, expected.map(|(name, change)| (name.to_owned(), change)));
        let merged = Contents { merged: true, ..after.clone() };
        let perhaps = compare_contents(&before, &merged).expect("parts");
        assert_eq!(perhaps.iter().filter(|one| one.change == Change::Perhaps).count(), 2, "{perhaps:?}");
        assert!(perhaps.iter().all(|one| one.change != Change::Changed), "{perhaps:?}");
        let unlisted = Contents { parts: None, ..after };
        assert_eq!(compare_contents(&before, &unlisted), None, "nothing is new or gone");
    }

    #[test]
    fn parts_of_one_name_count_as_one() {
        let two = contents(vec![part("a", Some(1), 10, Some(1)), part("a", Some(2), u64::MAX, Some(1))]);
        let one = contents(vec![part("a", Some(3), u64::MAX, Some(1))]);
        let compared = compare_contents(&two, &one).expect("parts");
        assert_eq!(compared.len(), 1);
        assert_eq!(compared[0].change, Change::SameSize, "{compared:?}");
        assert_eq!(compared[0].before, Some(part("a", Some(3), u64::MAX, None)));
    }
}
