//! Is the open data file still the file with its name?
//!
//! If a file is deleted, or another file takes its name, a process that has it open keeps using the old file. It would
//! keep a file in step that no application opens any more. So each look compares the file's identity. The same applies
//! to the lock file: two processes with different lock files don't see each other's transactions, and can damage the
//! data.

/// What became of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is the same.
    Same,
    /// No file has its name.
    Gone,
    /// Another file has its name.
    Replaced,
    /// It is the same file with older content: a copy was written over it.
    Rewound,
    /// It is the same file, but a process that opens it now uses another lock file.
    Unlocked,
}

/// What a look at the file found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Device and inode of the file that was opened.
    pub(crate) opened: Option<(u64, u64)>,
    /// Device and inode of the file that has its name now.
    pub(crate) found: Option<(u64, u64)>,
    /// Whether the lock file still has its name.
    pub(crate) lock: LockFile,
    /// The newest transaction that was seen before.
    pub(crate) seen: u64,
    /// The newest transaction now.
    pub(crate) last: u64,
}

/// Whether the lock file that was opened still has its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockFile {
    /// It still has its name.
    Same,
    /// It was removed or replaced, and no other process has it open.
    Left,
    /// It was removed or replaced, and another process still has it open: that process is the application.
    Shared,
}

/// Decides which case it is.
pub(crate) fn standing(facts: Facts) -> Standing {
    match facts.found {
        None => Standing::Gone,
        found if found != facts.opened => Standing::Replaced,
        _ if facts.last < facts.seen => Standing::Rewound,
        _ if facts.lock == LockFile::Left => Standing::Unlocked,
        _ => Standing::Same,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_became_of_a_file() {
        let opened = Some((1, 7));
        for (found, lock, last, expected) in [
            (Some((1, 7)), LockFile::Same, 5, Standing::Same),
            (Some((1, 7)), LockFile::Same, 9, Standing::Same),
            (Some((1, 7)), LockFile::Same, 4, Standing::Rewound),
            (Some((1, 7)), LockFile::Left, 4, Standing::Rewound),
            (Some((1, 7)), LockFile::Left, 5, Standing::Unlocked),
            (Some((1, 7)), LockFile::Shared, 5, Standing::Same),
            (Some((1, 8)), LockFile::Same, 9, Standing::Replaced),
            (Some((2, 7)), LockFile::Left, 5, Standing::Replaced),
            (None, LockFile::Left, 5, Standing::Gone),
        ] {
            let facts = Facts { opened, found, lock, seen: 5, last };
            assert_eq!(standing(facts), expected, "{facts:?}");
        }
    }
}
