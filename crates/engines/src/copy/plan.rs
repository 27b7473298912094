//! What is copied from one vault to another, in which order, and what forbids it. Decided by names and sizes alone.

use std::collections::{BTreeMap, BTreeSet};

use seawall_vault::{ObjectKey, Scheme};

/// The part that an object plays. The classes are copied in this order, so that each moment of the copy is a vault that
/// claims no more than it holds: an index comes after its chunks, and the link that makes a set count comes last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    /// How the vault is encrypted, and the records of its writers.
    Marker,
    /// Seawall's notes on the history, such as holes: a hole that is known is never taken for whole.
    Note,
    /// Data: LTX files, snapshots, chunks and all other objects.
    Data,
    /// The index of a set.
    Index,
    /// A link of the chain of sets.
    Link,
    /// A pin of a set.
    Pin,
}

/// The class of an object; `None` for what belongs to a running process (leases, update markers, probes), and for proofs: they tell of
/// restores from the vault itself, and nothing of a copy.
pub(super) fn class(key: &ObjectKey) -> Option<Class> {
    let (name, file) = (format!("/{key}"), key.file_name());
    let is_apart = ["/seawall/probe-", "/seawall/proofs/"].iter().any(|folder| name.contains(folder));
    if file == "lock.json" || file == "update_marker" || is_apart {
        return None;
    }
    let parts: Vec<&str> = name.split('/').collect();
    Some(match parts[..] {
        _ if is_marker(key) || name.contains("/seawall/encryption/") => Class::Marker,
        _ if name.contains("/seawall/") => Class::Note,
        [.., "sets", _, "index.json"] => Class::Index,
        [.., "chain", _] => Class::Link,
        [.., "pins", _] => Class::Pin,
        _ => Class::Data,
    })
}

/// Whether an object says how a vault is encrypted.
pub(super) fn is_marker(key: &ObjectKey) -> bool {
    format!("/{key}").ends_with("/seawall/encryption.json")
}

/// The first and the last transaction of an LTX file, as its name has them.
pub(super) fn transactions(key: &ObjectKey) -> Option<(u64, u64)> {
    let (min, max) = key.file_name().strip_suffix(".ltx")?.split_once('-')?;
    let number = |text: &str| (text.len() == 16).then(|| u64::from_str_radix(text, 16).ok()).flatten();
    Some((number(min)?, number(max)?))
}

/// The name that an object has in another kind of store: the folder of an LTX file's level is called differently there.
pub(super) fn renamed(key: &ObjectKey, from: Scheme, to: Scheme) -> ObjectKey {
    if transactions(key).is_none() {
        return key.clone();
    }
    let found = seawall_sqlite::renames(from, to).into_pairs().into_iter().find_map(|(here, there)| {
        let (folder, file) = key.as_str().rsplit_once('/')?;
        let above = format!("{folder}/").strip_suffix(here.as_str())?.to_owned();
        (above.is_empty() || above.ends_with('/')).then(|| format!("{above}{}{file}", there.as_str()))
    });
    found.and_then(|name| ObjectKey::new(name).ok()).unwrap_or_else(|| key.clone())
}

/// An object to copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) class: Class,
    /// Its name here.
    pub(super) key: ObjectKey,
    /// Its name there.
    pub(super) name: ObjectKey,
    pub(super) size: u64,
}

/// What is to be done.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Objects that the other place lacks, in order.
    pub(super) missing: Vec<Item>,
    /// Objects whose names it has. Their content has to be compared.
    pub(super) there: Vec<Item>,
}

/// Why nothing may be copied.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Clash {
    /// This object has another size there: its name here, and there.
    Differs(ObjectKey, ObjectKey),
    /// The other place holds this object, which is newer than all of its folder here.
    Ahead(ObjectKey),
    /// The other place holds objects, none of which is here; one of them.
    Other(ObjectKey),
}

/// Compares two places. `wanted` names the data that a part of the history needs; `None` is everything.
pub(super) fn plan(
    here: &[Item],
    there: &BTreeMap<ObjectKey, u64>,
    wanted: Option<&BTreeSet<ObjectKey>>,
) -> Result<Plan, Clash> {
    let names: BTreeSet<&ObjectKey> = here.iter().map(|item| &item.name).collect();
    let mut last: BTreeMap<&str, &ObjectKey> = BTreeMap::new();
    last.extend(names.iter().map(|name| (folder(name), *name)));
    let data = |key: &&ObjectKey| matches!(class(key), Some(Class::Data | Class::Index | Class::Link));
    let theirs: Vec<&ObjectKey> = there.keys().filter(data).collect();
    if let Some(first) = theirs.first()
        && !theirs.iter().any(|key| names.contains(key))
    {
        return Err(Clash::Other((*first).clone()));
    }
    // What is older was merged or deleted here after an earlier copy.
    let ahead = |key: &&&ObjectKey| !names.contains(**key) && last.get(folder(key)).is_some_and(|last| **last < ***key);
    if let Some(key) = theirs.iter().find(ahead) {
        return Err(Clash::Ahead((**key).clone()));
    }
    let mut plan = Plan::default();
    for item in here {
        match there.get(&item.name) {
            Some(size) if *size != item.size => return Err(Clash::Differs(item.key.clone(), item.name.clone())),
            Some(_) => plan.there.push(item.clone()),
            None if item.class == Class::Data && wanted.is_some_and(|wanted| !wanted.contains(&item.key)) => {}
            None => plan.missing.push(item.clone()),
        }
    }
    // The oldest come first, so that the history grows at its end.
    plan.missing.sort_by_key(|item| {
        let ends = transactions(&item.key).map(|(min, max)| (max, min));
        (item.class, ends, item.key.clone())
    });
    Ok(plan)
}

fn folder(key: &ObjectKey) -> &str {
    key.as_str().rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Whether one place is the other, or inside of it. Places with different settings, such as endpoints, are apart.
pub(super) fn overlap(one: &str, other: &str) -> bool {
    let parts = |text: &str| {
        let (place, settings) = text.split_once('?').unwrap_or((text, ""));
        (place.to_owned(), settings.to_owned())
    };
    let ((one, settings), (other, others)) = (parts(one), parts(other));
    if settings != others {
        return false;
    }
    let (one, other) = (format!("{}/", one.trim_end_matches('/')), format!("{}/", other.trim_end_matches('/')));
    one.starts_with(&other) || other.starts_with(&one)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new(name).expect("a key")
    }

    fn ltx(level: u8, min: u64, max: u64) -> String {
        format!("ltx/{level}/{min:016x}-{max:016x}.ltx")
    }

    #[test]
    fn parts_that_objects_play() {
        for (name, expected) in [
            ("lock.json", None),
            ("app/lock.json", None),
            ("update_marker", None),
            ("seawall/probe-0000000000000001", None),
            ("seawall/proofs/20261120T101112123Z-0000000a.json", None),
            ("app/seawall/proofs/shard/20261120T101112123Z-0000000a.compared", None),
            ("seawall/encryption.json", Some(Class::Marker)),
            ("app/seawall/encryption.json", Some(Class::Marker)),
            ("seawall/encryption/0000000000000008.age", Some(Class::Marker)),
            ("seawall/holes/x.json", Some(Class::Note)),
            ("app/seawall/pins/x.json", Some(Class::Note)),
            ("sets/20261121T101112000Z-0000000a/index.json", Some(Class::Index)),
            ("sets/20261121T101112000Z-0000000a/00000000.zst", Some(Class::Data)),
            ("chain/00000001.json", Some(Class::Link)),
            ("pins/20261121T101112000Z-0000000a.json", Some(Class::Pin)),
            ("readme.txt", Some(Class::Data)),
        ] {
            assert_eq!(class(&key(name)), expected, "{name}");
        }
    }

    #[test]
    fn names_in_another_kind_of_store() {
        let file = "0000000000000001-0000000000000002.ltx";
        for (name, from, to, expected) in [
            ("ltx/0/F", Scheme::File, Scheme::S3, "0000/F"),
            ("ltx/9/F", Scheme::File, Scheme::S3, "0009/F"),
            ("0009/F", Scheme::S3, Scheme::Abs, "ltx/9/F"),
            ("app/0001/F", Scheme::S3, Scheme::File, "app/ltx/1/F"),
            ("app/ltx/1/F", Scheme::File, Scheme::Sftp, "app/ltx/1/F"),
            ("ltx/0/notes.txt", Scheme::File, Scheme::S3, "ltx/0/notes.txt"),
            ("x0009/F", Scheme::S3, Scheme::File, "x0009/F"),
            ("seawall/holes/x.json", Scheme::File, Scheme::S3, "seawall/holes/x.json"),
        ] {
            let (name, expected) = (name.replace('F', file), expected.replace('F', file));
            assert_eq!(renamed(&key(&name), from, to), key(&expected), "{name}");
        }
    }

    #[test]
    fn places_inside_each_other() {
        for (one, other, expected) in [
            ("file:///v", "file:///v", true),
            ("file:///v/", "file:///v", true),
            ("s3://b", "s3://b/x", true),
            ("s3://b/x/y", "s3://b/x", true),
            ("s3://b/x", "s3://b/xy", false),
            ("s3://b/x", "abs://b/x", false),
            ("s3://b/x?endpoint=e", "s3://b?endpoint=e", true),
            ("s3://b/x?endpoint=e", "s3://b/x?endpoint=f", false),
        ] {
            assert_eq!(overlap(one, other), expected, "{one} {other}");
        }
    }

    /// What is copied of objects here to a place with objects there: `size` follows `=` where it isn't 1.
    fn decide(here: &[String], there: &[String], wanted: Option<&[String]>) -> Result<Vec<String>, Clash> {
        let parse = |text: &String| match text.split_once('=') {
            Some((name, size)) => (key(name), size.parse().expect("a size")),
            None => (key(text), 1),
        };
        let item = |text| {
            let (key, size) = parse(text);
            Some(Item { class: class(&key)?, name: key.clone(), key, size })
        };
        let here: Vec<Item> = here.iter().filter_map(item).collect();
        let wanted = wanted.map(|wanted| wanted.iter().map(|name| key(name)).collect());
        let plan = plan(&here, &there.iter().map(parse).collect(), wanted.as_ref())?;
        Ok(plan.missing.iter().map(|item| item.key.to_string()).collect())
    }

    #[test]
    fn decisions() {
        let text = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        // The history grows at its end, notes come before it.
        let here = [ltx(9, 1, 3), ltx(0, 4, 4), ltx(0, 2, 2), ltx(0, 1, 1), "seawall/holes/x.json".to_owned()];
        let all = vec![here[4].clone(), ltx(0, 1, 1), ltx(0, 2, 2), ltx(9, 1, 3), ltx(0, 4, 4)];
        assert_eq!(decide(&here, &[], None), Ok(all.clone()));
        // A second run copies what is missing; what was merged away here stays there.
        assert_eq!(decide(&here, &all[..3], None), Ok(all[3..].to_vec()));
        assert_eq!(
            decide(&here, &[ltx(0, 1, 1), ltx(0, 3, 3)], None),
            Ok(vec![all[0].clone(), all[2].clone(), all[3].clone(), all[4].clone()])
        );
        // A part of it: data by name, notes always.
        assert_eq!(decide(&here, &[], Some(&[ltx(9, 1, 3)])), Ok(vec![all[0].clone(), ltx(9, 1, 3)]));
        // Another object, another writer, another database.
        let other = format!("{}=2", ltx(0, 1, 1));
        assert_eq!(decide(&here, &[other], None), Err(Clash::Differs(key(&ltx(0, 1, 1)), key(&ltx(0, 1, 1)))));
        let ahead = [ltx(0, 1, 1), ltx(0, 5, 5)];
        assert_eq!(decide(&here, &ahead, None), Err(Clash::Ahead(key(&ltx(0, 5, 5)))));
        assert_eq!(decide(&here, &text(&["chain/00000001.json"]), None), Err(Clash::Other(key("chain/00000001.json"))));
        // Sets: chunks, indexes, links, pins.
        let set = "sets/20261121T101112000Z-0000000a";
        let (chunk, index) = (format!("{set}/00000000.zst"), format!("{set}/index.json"));
        let pin = "pins/20261121T101112000Z-0000000a.json".to_owned();
        let (one, two) = ("chain/00000001.json".to_owned(), "chain/00000002.json".to_owned());
        let sets = [two.clone(), one.clone(), pin.clone(), index.clone(), chunk.clone(), "lock.json".to_owned()];
        assert_eq!(decide(&sets, &[], None), Ok(vec![chunk, index, one, two, pin]));
    }
}
