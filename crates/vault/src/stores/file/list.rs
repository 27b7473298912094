//! Lists a folder tree in the order of keys, one page at a time. The page bounds the memory.
//!
//! The system returns a directory's names unsorted, so each page keeps only the smallest names after its start. A
//! folder sorts as its name with the `/`, as in a bucket: `a-b` comes before `a/b`.

use std::collections::BinaryHeap;
use std::io;
use std::path::Path;

use super::{entry, failed};
use crate::{Error, ObjectKey, Page, Prefix};

/// The folders that a key may lie deep; more is hostile.
const DEEPEST: usize = 64;

pub(super) fn page(root: &Path, prefix: &Prefix, after: Option<&ObjectKey>, limit: usize) -> Result<Page, Error> {
    let limit = limit.max(1);
    let mut page = Page::default();
    let after = after.map_or("", ObjectKey::as_str);
    walk(root, prefix.as_str(), after, limit, 0, &mut page)?;
    page.next = if page.entries.len() >= limit { page.entries.last().map(|entry| entry.key.clone()) } else { None };
    Ok(page)
}

/// A name in a folder, from the vault's root. Ordered by the name, in which a folder ends in `/`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Found {
    name: String,
    is: Is,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Is {
    Folder,
    Object,
    /// Links could lead anywhere, and other names are no keys (I11).
    PassedOver,
}

/// Adds the keys below `folder` (empty, or ending in `/`) that sort after `after`, up to `limit` in all.
fn walk(root: &Path, folder: &str, after: &str, limit: usize, depth: usize, page: &mut Page) -> Result<(), Error> {
    if depth > DEEPEST {
        page.passed_over.note(folder.trim_end_matches('/'));
        return Ok(());
    }
    let mut done: Option<String> = None;
    loop {
        let wanted = limit.saturating_sub(page.entries.len());
        let names = smallest(root, folder, after, done.as_deref(), wanted)?;
        let all = names.len() < wanted;
        for Found { name, is } in names {
            if page.entries.len() >= limit {
                return Ok(());
            }
            match is {
                Is::Folder => walk(root, &name, after, limit, depth + 1, page)?,
                Is::Object => add(root, &name, page)?,
                Is::PassedOver => page.passed_over.note(&name),
            }
            done = Some(name);
        }
        if all || page.entries.len() >= limit {
            return Ok(());
        }
    }
}

/// The `count` smallest names in one folder after `done`; without `done`, those that sort after the key `after` or lead
/// there. Folders end in `/`.
fn smallest(root: &Path, folder: &str, after: &str, done: Option<&str>, count: usize) -> Result<Vec<Found>, Error> {
    let path = root.join(folder);
    let listing = match path.read_dir() {
        Ok(listing) => listing,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            // An empty vault is one that holds nothing, and not a file in its place.
            if error.kind() == io::ErrorKind::NotADirectory && root.metadata().is_ok_and(|found| !found.is_dir()) {
                let cause = "a file is there, and no folder".to_owned();
                return Err(Error::Vanished { object: root.display().to_string(), cause });
            }
            return Ok(Vec::new());
        }
        Err(error) => return Err(failed(&path, &error)),
    };
    let mut heap = BinaryHeap::new();
    for item in listing {
        let item = item.map_err(|error| failed(&path, &error))?;
        let kind = item.file_type().map_err(|error| failed(&path, &error))?;
        let file_name = item.file_name();
        let is_key = file_name.to_str().is_some_and(|name| ObjectKey::new(name).is_ok());
        let is = match (kind.is_dir(), kind.is_file()) {
            (true, _) if is_key => Is::Folder,
            (_, true) if is_key => Is::Object,
            _ => Is::PassedOver,
        };
        let end = if is == Is::Folder { "/" } else { "" };
        let name = format!("{folder}{}{end}", file_name.to_string_lossy());
        let wanted = match done {
            Some(done) => name.as_str() > done,
            None => name.as_str() > after || (name.ends_with('/') && after.starts_with(&name)),
        };
        if !wanted {
            continue;
        }
        heap.push(Found { name, is });
        if heap.len() > count {
            heap.pop();
        }
    }
    Ok(heap.into_sorted_vec())
}

fn add(root: &Path, name: &str, page: &mut Page) -> Result<(), Error> {
    let Ok(key) = ObjectKey::new(name) else {
        page.passed_over.note(name);
        return Ok(());
    };
    let path = root.join(name);
    match path.symlink_metadata() {
        Ok(metadata) => page.entries.push(entry(key, &metadata)),
        // Deleted since its name was read.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(&path, &error)),
    }
    Ok(())
}
