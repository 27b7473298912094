//! Lists a folder tree in the order of keys, one page at a time. The page bounds the memory.
//!
//! The system returns a directory's names unsorted, so each page keeps only the smallest names after its start. A
//! folder sorts as its name with the `/`, as in a bucket: `a-b` comes before `a/b`.

use std::collections::BinaryHeap;
use std::io;
use std::path::Path;

use super::{entry, failed};
use crate::{Entry, Error, ObjectKey, Page, Prefix};

/// The folders that a key may lie deep; more is hostile.
const DEEPEST: usize = 64;

pub(super) fn page(root: &Path, prefix: &Prefix, after: Option<&ObjectKey>, limit: usize) -> Result<Page, Error> {
    let limit = limit.max(1);
    let mut entries = Vec::new();
    let after = after.map_or("", ObjectKey::as_str);
    walk(root, prefix.as_str(), after, limit, 0, &mut entries)?;
    let next = if entries.len() >= limit { entries.last().map(|entry| entry.key.clone()) } else { None };
    Ok(Page { entries, next })
}

/// Adds the keys below `folder` (empty, or ending in `/`) that sort after `after`, up to `limit` in all.
fn walk(
    root: &Path,
    folder: &str,
    after: &str,
    limit: usize,
    depth: usize,
    entries: &mut Vec<Entry>,
) -> Result<(), Error> {
    if depth > DEEPEST {
        return Ok(());
    }
    let mut done: Option<String> = None;
    loop {
        let wanted = limit.saturating_sub(entries.len());
        let names = smallest(root, folder, after, done.as_deref(), wanted)?;
        let all = names.len() < wanted;
        for name in names {
            if entries.len() >= limit {
                return Ok(());
            }
            if name.ends_with('/') {
                walk(root, &name, after, limit, depth + 1, entries)?;
            } else {
                add(root, &name, entries)?;
            }
            done = Some(name);
        }
        if all || entries.len() >= limit {
            return Ok(());
        }
    }
}

/// The `count` smallest names in one folder after `done`; without `done`, those that sort after the key `after` or lead
/// there. Folders end in `/`.
fn smallest(root: &Path, folder: &str, after: &str, done: Option<&str>, count: usize) -> Result<Vec<String>, Error> {
    let path = root.join(folder);
    let listing = match path.read_dir() {
        Ok(listing) => listing,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(failed(&path, &error)),
    };
    let mut heap = BinaryHeap::new();
    for item in listing {
        let item = item.map_err(|error| failed(&path, &error))?;
        let kind = item.file_type().map_err(|error| failed(&path, &error))?;
        let file_name = item.file_name();
        let Some(name) = file_name.to_str() else { continue };
        if ObjectKey::new(name).is_err() {
            continue;
        }
        // Links are left out: they could lead anywhere (I11).
        let name = match (kind.is_dir(), kind.is_file()) {
            (true, _) => format!("{folder}{name}/"),
            (_, true) => format!("{folder}{name}"),
            _ => continue,
        };
        let wanted = match done {
            Some(done) => name.as_str() > done,
            None => name.as_str() > after || (name.ends_with('/') && after.starts_with(&name)),
        };
        if !wanted {
            continue;
        }
        heap.push(name);
        if heap.len() > count {
            heap.pop();
        }
    }
    Ok(heap.into_sorted_vec())
}

fn add(root: &Path, name: &str, entries: &mut Vec<Entry>) -> Result<(), Error> {
    let Ok(key) = ObjectKey::new(name) else { return Ok(()) };
    let path = root.join(name);
    match path.symlink_metadata() {
        Ok(metadata) => entries.push(entry(key, &metadata)),
        // Deleted since its name was read.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(&path, &error)),
    }
    Ok(())
}
