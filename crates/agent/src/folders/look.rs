//! Is there a database at this place? All calls block.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::collections::{BTreeMap, HashSet};
use std::fs::Metadata;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::events::Events;
use crate::config::DirectoryConfig;

/// How every SQLite database begins.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// As much of a database as says how large it is.
const HEADER: usize = 100;

/// How deep folders are followed.
const DEPTH: usize = 64;

/// Which file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

impl Identity {
    fn of(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

/// What is at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// A whole database.
    Database(Identity),
    /// A file that is meant and may become a database: it is empty, or not all of it is there.
    NotYet,
    /// Something else.
    Other,
    /// A folder to look into.
    Folder,
    /// Nothing.
    Gone,
}

/// What must not be opened.
#[derive(Debug)]
pub(crate) struct Look {
    root: PathBuf,
    /// Files that the fleet has: an engine may be opening whatever stands there now.
    members: HashSet<PathBuf>,
    /// Files that an engine may have open under whatever name.
    open: HashSet<Identity>,
}

impl Look {
    /// Nothing of the fleet's `members` and of the files `known` is opened in the folder `root`.
    pub(crate) fn new(root: PathBuf, members: HashSet<PathBuf>, mut known: HashSet<Identity>) -> Self {
        known.extend(members.iter().filter_map(|path| std::fs::metadata(path).ok()).map(|found| Identity::of(&found)));
        Self { root, members, open: known }
    }
}

/// What is at `relative` in the folder.
pub(crate) fn look(config: &DirectoryConfig, known: &Look, relative: &Path) -> Verdict {
    let path = if relative.as_os_str().is_empty() { known.root.clone() } else { known.root.join(relative) };
    let name = relative.file_name().and_then(|name| name.to_str());
    // Links to files count as files; links to folders are not followed, or a circle would have no end.
    let Ok(own) = std::fs::symlink_metadata(&path) else { return Verdict::Gone };
    if own.is_dir() {
        let entered = relative.as_os_str().is_empty() || name.is_some_and(|name| config.enters(name));
        return if entered { Verdict::Folder } else { Verdict::Other };
    }
    if !relative.file_name().is_some_and(|name| config.is_meant(&name.to_string_lossy())) {
        return Verdict::Other;
    }
    match std::fs::metadata(&path) {
        Ok(found) if found.is_file() => judge(known, &path, &found),
        Ok(_) => Verdict::Other,
        Err(error) if error.kind() == ErrorKind::NotFound => Verdict::Gone,
        Err(_) => Verdict::NotYet,
    }
}

fn judge(known: &Look, path: &Path, found: &Metadata) -> Verdict {
    let identity = Identity::of(found);
    if known.members.contains(path) || known.open.contains(&identity) {
        return Verdict::Database(identity);
    }
    if found.len() == 0 {
        return Verdict::NotYet;
    }
    let mut header = [0; HEADER];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut header));
    match read {
        Ok(()) if is_whole(&header, found.len()) => Verdict::Database(identity),
        Ok(()) if header.starts_with(MAGIC) => Verdict::NotYet,
        Ok(()) => Verdict::Other,
        // Shorter than any database, or not to be read now.
        Err(_) => Verdict::NotYet,
    }
}

/// Whether a file that begins like this is as large as it says: one that is being copied here isn't yet.
fn is_whole(header: &[u8; HEADER], size: u64) -> bool {
    if !header.starts_with(MAGIC) {
        return false;
    }
    let word = |at: usize| header.get(at..at + 4).map_or(0, |word| word.iter().fold(0, |n, b| n << 8 | u64::from(*b)));
    let page_size = match u64::from(header[16]) << 8 | u64::from(header[17]) {
        1 => 65536,
        size => size,
    };
    // The size in pages counts only if whoever wrote last knew of it.
    let says = if word(24) == word(92) { word(28) * page_size } else { page_size };
    size >= says
}

/// Looks at everything in a folder and, where that is meant, below it. Events are asked for before anything is read,
/// so that nothing that comes meanwhile is missed.
pub(crate) fn walk(
    config: &DirectoryConfig,
    known: &Look,
    relative: &Path,
    mut events: Option<&mut Events>,
    verdicts: &mut BTreeMap<PathBuf, Verdict>,
) {
    let mut folders = vec![relative.to_owned()];
    while let Some(folder) = folders.pop() {
        let path = known.root.join(&folder);
        if let Some(events) = events.as_deref_mut() {
            events.watch(&path, &folder);
        }
        let Ok(entries) = std::fs::read_dir(&path) else { continue };
        for entry in entries.flatten() {
            let relative = folder.join(entry.file_name());
            match look(config, known, &relative) {
                Verdict::Folder if relative.components().count() < DEPTH => folders.push(relative),
                Verdict::Folder | Verdict::Other => {}
                verdict => drop(verdicts.insert(relative, verdict)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(pages: u32, counter: u32, valid_for: u32) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        header[..16].copy_from_slice(MAGIC);
        header[16..18].copy_from_slice(&4096_u16.to_be_bytes());
        header[24..28].copy_from_slice(&counter.to_be_bytes());
        header[28..32].copy_from_slice(&pages.to_be_bytes());
        header[92..96].copy_from_slice(&valid_for.to_be_bytes());
        header
    }

    #[test]
    fn a_file_that_is_not_all_there_is_no_database_yet() {
        for (header, size, whole) in [
            (header(3, 7, 7), 3 * 4096, true),
            (header(3, 7, 7), 3 * 4096 - 1, false),
            (header(3, 7, 6), 4096, true),
            (header(3, 7, 6), 4095, false),
            ([0; HEADER], 1 << 20, false),
        ] {
            assert_eq!(is_whole(&header, size), whole, "{size}");
        }
    }
}
