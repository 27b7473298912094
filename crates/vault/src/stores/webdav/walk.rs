//! Lists the objects in the order of their names: a walk through the folders, each asked for once a page.
//!
//! A folder's answer has no order, so its names are collected and sorted. Memory is bounded by the size of a page: of a larger
//! folder the first names are kept, and the folder is asked again behind the last of them.

use std::collections::BTreeMap;

use super::client::{Client, when};
use super::multistatus::Found;
use crate::{Entry, Error, ObjectKey, Page, PassedOver, Prefix, Tag};

/// The fewest names of a page. Each page asks for all folders on the way again.
const PAGE: usize = 20_000;

/// The fewest names that are kept of a folder, however deep it is.
const KEPT: usize = 1000;

/// A folder on the way.
struct Frame {
    /// Its name below the place: empty, or ending in `/`.
    folder: String,
    /// What is left of it, the next one last. Folders end in `/`.
    children: Vec<(String, Found)>,
    /// It has more behind this name.
    more_after: Option<String>,
}

/// A page of objects below `prefix` that sort after `start_after`.
pub(super) async fn page(
    client: &Client,
    prefix: &Prefix,
    start_after: Option<&ObjectKey>,
    limit: usize,
) -> Result<Page, Error> {
    let most = limit.max(PAGE);
    let after = start_after.map_or("", ObjectKey::as_str);
    let (mut entries, mut passed_over): (Vec<Entry>, _) = (Vec::new(), PassedOver::default());
    let mut frames = vec![open(client, prefix.as_str().to_owned(), after, None, most).await?];
    while let Some(frame) = frames.last_mut() {
        let Some((name, found)) = frame.children.pop() else {
            if let Some(last) = frame.more_after.take() {
                let (folder, most) = (frame.folder.clone(), kept(most, frames.len()));
                let again = open(client, folder, after, Some(&last), most).await?;
                frames.pop();
                frames.push(again);
            } else {
                frames.pop();
            }
            continue;
        };
        let full = format!("{}{name}", frame.folder);
        if !is_sound(&full) {
            passed_over.note(full.trim_end_matches('/'));
            continue;
        }
        if name.ends_with('/') {
            let most = kept(most, frames.len() + 1);
            frames.push(open(client, full, after, None, most).await?);
            continue;
        }
        if entries.len() >= most {
            let next = entries.last().map(|entry| entry.key.clone());
            return Ok(Page { entries, next, passed_over });
        }
        entries.push(entry(client, &full, found)?);
    }
    Ok(Page { entries, next: None, passed_over })
}

/// How many names are kept of a folder at that depth, so that all folders on the way together stay below two pages.
fn kept(most: usize, depth: usize) -> usize {
    let depth = u32::try_from(depth.saturating_sub(1)).unwrap_or(u32::MAX);
    most.checked_shr(depth).unwrap_or(0).max(KEPT)
}

/// Asks for a folder; one that isn't there has nothing in it.
async fn open(client: &Client, folder: String, after: &str, behind: Option<&str>, most: usize) -> Result<Frame, Error> {
    let mut children = BTreeMap::new();
    let mut cut = false;
    let listed = client
        .list(&folder, |name, found| {
            let name = if found.folder { format!("{name}/") } else { name };
            let full = format!("{folder}{name}");
            let is_gone = matches!(found.status, Some(404 | 410));
            if is_gone || !is_wanted(&full, after) || behind.is_some_and(|last| *name <= *last) {
                return;
            }
            children.insert(name, found);
            if children.len() > most {
                children.pop_last();
                cut = true;
            }
        })
        .await;
    match listed {
        Ok(_) | Err(Error::NotFound { .. }) => {}
        Err(error) => return Err(error),
    }
    let more_after = if cut { children.last_key_value().map(|(name, _)| name.clone()) } else { None };
    Ok(Frame { folder, children: children.into_iter().rev().collect(), more_after })
}

/// Whether a file, or something in a folder (ending in `/`), sorts after that name.
fn is_wanted(full: &str, after: &str) -> bool {
    full > after || (full.ends_with('/') && after.starts_with(full))
}

/// Whether a name is a key, or a folder of keys. Files that are being written are neither.
fn is_sound(full: &str) -> bool {
    if full.ends_with('/') { Prefix::new(full).is_ok() } else { ObjectKey::new(full).is_ok() }
}

fn entry(client: &Client, full: &str, found: Found) -> Result<Entry, Error> {
    let modified = when(&found);
    let Some(size) = found.size.filter(|_| found.status.is_none_or(|status| status < 300)) else {
        let cause = format!("the server doesn't tell its size (status {:?})", found.status);
        return Err(Error::Corrupt { object: client.name(full), cause });
    };
    Ok(Entry { key: ObjectKey::new(full)?, size, modified, written: modified, tag: found.tag.map(Tag::new) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_sorts_after_a_name() {
        for (full, after, expected) in [
            ("a", "", true),
            ("a/", "", true),
            ("b", "b", false),
            ("b/", "b", true),
            ("b/", "b/c", true),
            ("b/", "b0", false),
            ("b/", "b/", true),
            ("b0", "b/c", true),
            ("b-c", "b/c", false),
            ("b/c", "b/c", false),
            ("b/d", "b/c", true),
        ] {
            assert_eq!(is_wanted(full, after), expected, "{full} after {after}");
        }
    }

    #[test]
    fn names_that_are_no_keys() {
        for (full, expected) in
            [("a", true), ("a/", true), ("seawall.tmp/", false), ("a/x.tmp", false), ("a/..", false)]
        {
            assert_eq!(is_sound(full), expected, "{full}");
        }
    }

    #[test]
    fn memory_is_bounded_by_the_page() {
        let depths: Vec<usize> = (1..9).map(|depth| kept(16_000, depth)).collect();
        assert_eq!(depths, [16_000, 8_000, 4_000, 2_000, 1_000, 1_000, 1_000, 1_000]);
        assert_eq!(kept(16_000, 500), 1_000);
    }
}
