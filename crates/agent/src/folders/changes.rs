//! What changed in a folder?

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::look::{Identity, Verdict};

/// What changed, by path in the folder.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Changes {
    /// Databases that weren't there.
    pub(crate) new: Vec<PathBuf>,
    /// Databases that are another file than before.
    pub(crate) replaced: Vec<PathBuf>,
    /// Databases that were there.
    pub(crate) gone: Vec<PathBuf>,
}

/// Compares what was found before with what was seen now, `everywhere` or at some places.
///
/// | found before | seen now | it is |
/// |---|---|---|
/// | no | a database | new |
/// | yes | the same file | as before |
/// | yes | another file, whatever is in it yet | replaced |
/// | yes | nothing, or no file | gone, with everything below it |
/// | yes | not seen, and seen everywhere | gone |
/// | yes | it, or a folder above it, could not be looked at, or not be read | as before |
pub(crate) fn changes(
    found: &BTreeMap<PathBuf, Identity>,
    seen: &BTreeMap<PathBuf, Verdict>,
    everywhere: bool,
) -> Changes {
    let mut changes = Changes::default();
    for (path, verdict) in seen {
        match (verdict, found.get(path)) {
            (Verdict::Database(_), None) => changes.new.push(path.clone()),
            (Verdict::Database(now), Some(before)) if now != before => changes.replaced.push(path.clone()),
            _ => {}
        }
    }
    let above = |path: &Path, verdict| path.ancestors().skip(1).any(|above| seen.get(above) == Some(&verdict));
    let is_gone = |path: &Path| match seen.get(path) {
        Some(Verdict::Gone | Verdict::Other | Verdict::Folder) => true,
        Some(Verdict::Database(_) | Verdict::NotYet | Verdict::Denied | Verdict::Unseen) => false,
        None if above(path, Verdict::Unseen) || above(path, Verdict::Denied) => false,
        None => everywhere || above(path, Verdict::Gone),
    };
    changes.gone = found.keys().filter(|path| is_gone(path)).cloned().collect();
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Identity = Identity { device: 1, inode: 1 };
    const B: Identity = Identity { device: 1, inode: 2 };

    #[test]
    fn before_and_now() {
        for (before, now, everywhere, new, replaced, gone) in [
            (None, Some(Verdict::Database(A)), false, true, false, false),
            (None, Some(Verdict::NotYet), false, false, false, false),
            (None, Some(Verdict::Denied), false, false, false, false),
            (Some(A), Some(Verdict::Denied), true, false, false, false),
            (None, Some(Verdict::Other), false, false, false, false),
            (Some(A), Some(Verdict::Database(A)), false, false, false, false),
            (Some(A), Some(Verdict::Database(B)), false, false, true, false),
            (Some(A), Some(Verdict::NotYet), false, false, false, false),
            (Some(A), Some(Verdict::Gone), false, false, false, true),
            (Some(A), Some(Verdict::Other), false, false, false, true),
            (Some(A), Some(Verdict::Unseen), true, false, false, false),
            (None, Some(Verdict::Unseen), true, false, false, false),
            (Some(A), None, false, false, false, false),
            (Some(A), None, true, false, false, true),
        ] {
            let path = || PathBuf::from("x/a.db");
            let found = before.into_iter().map(|identity| (path(), identity)).collect();
            let seen = now.into_iter().map(|verdict| (path(), verdict)).collect();
            let changes = changes(&found, &seen, everywhere);
            let one = |yes: bool| if yes { vec![path()] } else { vec![] };
            let expected = Changes { new: one(new), replaced: one(replaced), gone: one(gone) };
            assert_eq!(changes, expected, "{before:?} {now:?} {everywhere}");
        }
    }

    #[test]
    fn a_folder_that_cannot_be_read_takes_nothing_along() {
        let found = BTreeMap::from([("a.db".into(), A), ("x/y/b.db".into(), B)]);
        let seen = BTreeMap::from([("x".into(), Verdict::Unseen), ("a.db".into(), Verdict::Database(A))]);
        assert_eq!(changes(&found, &seen, true), Changes::default());
        let denied = BTreeMap::from([("x".into(), Verdict::Denied), ("a.db".into(), Verdict::Database(A))]);
        assert_eq!(changes(&found, &denied, true), Changes::default());
        let nothing = BTreeMap::from([(PathBuf::new(), Verdict::Unseen)]);
        assert_eq!(changes(&found, &nothing, true), Changes::default());
    }

    #[test]
    fn a_folder_that_is_gone_takes_everything_along() {
        let found = BTreeMap::from([("a.db".into(), A), ("x/y/b.db".into(), B)]);
        let seen = BTreeMap::from([("x".into(), Verdict::Gone)]);
        assert_eq!(changes(&found, &seen, false).gone, [PathBuf::from("x/y/b.db")]);
    }
}
