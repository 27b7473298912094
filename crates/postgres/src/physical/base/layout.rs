//! Names of a base's objects, in both directions.

use seawall_archive::SetId;
use seawall_vault::{ObjectKey, Prefix};

use crate::Error;

/// The prefix below which all that is physical lies.
const ROOT: &str = "physical/";

/// What a name below a prefix stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InBases {
    /// The manifest of a base, which is written last.
    Manifest(SetId),
    /// A pack or a part of the index.
    Content(SetId),
    /// The note that retention gave the base up.
    Retired(SetId),
}

/// The folder of one base.
pub(crate) fn base(system: u64, id: SetId) -> Result<Prefix, Error> {
    Ok(Prefix::new(format!("{ROOT}{system}/bases/{id}/")).map_err(seawall_archive::Error::from)?)
}

/// All clusters.
pub(crate) fn root() -> Result<Prefix, Error> {
    Ok(Prefix::new(ROOT).map_err(seawall_archive::Error::from)?)
}

/// The manifest of a base.
pub(crate) fn manifest(system: u64, id: SetId) -> Result<ObjectKey, Error> {
    key(format!("{ROOT}{system}/bases/{id}/manifest.json"))
}

/// The note that retention gave a base up.
pub(crate) fn retired(system: u64, id: SetId) -> Result<ObjectKey, Error> {
    key(format!("{ROOT}{system}/bases/{id}/retired.json"))
}

/// A pack of a base.
pub(crate) fn pack(system: u64, id: SetId, number: u32) -> Result<ObjectKey, Error> {
    key(format!("{ROOT}{system}/bases/{id}/{number:08}.zst"))
}

/// A part of a base's index.
pub(crate) fn index(system: u64, id: SetId, number: u32) -> Result<ObjectKey, Error> {
    key(format!("{ROOT}{system}/bases/{id}/index-{number:08}.zst"))
}

/// A key before the next cluster's objects, if this one of a cluster's sorts behind its bases.
pub(crate) fn end_behind_bases(key: &str) -> Result<Option<ObjectKey>, Error> {
    let parts = key.strip_prefix(ROOT).and_then(|rest| rest.split_once('/'));
    match parts.filter(|(_, object)| *object > "bases/" && !object.starts_with("bases/")) {
        // The letter behind "/".
        Some((system, _)) => Ok(Some(self::key(format!("{ROOT}{system}0"))?)),
        None => Ok(None),
    }
}

fn key(name: String) -> Result<ObjectKey, Error> {
    Ok(ObjectKey::new(name).map_err(seawall_archive::Error::from)?)
}

/// The prefix of a vault, the cluster and the meaning of an object of a base; `None` for any other name.
pub fn in_bases(key: &str) -> Option<(&str, u64, InBases)> {
    let at = key.rmatch_indices(ROOT).map(|(at, _)| at).find(|at| *at == 0 || key[..*at].ends_with('/'))?;
    let root = key[..at].trim_end_matches('/');
    let parts: Vec<&str> = key[at + ROOT.len()..].split('/').collect();
    let [system, "bases", id, name] = parts[..] else { return None };
    let system = system_of(system)?;
    let id: SetId = id.parse().ok()?;
    let is_numbered = |name: &str| {
        let number = name.strip_suffix(".zst").map(|name| name.strip_prefix("index-").unwrap_or(name));
        number.is_some_and(|number| number.len() == 8 && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    match name {
        "manifest.json" => Some((root, system, InBases::Manifest(id))),
        "retired.json" => Some((root, system, InBases::Retired(id))),
        name if is_numbered(name) => Some((root, system, InBases::Content(id))),
        _ => None,
    }
}

/// A system identifier as names have it: decimal, without a zero before it.
fn system_of(text: &str) -> Option<u64> {
    text.parse().ok().filter(|system: &u64| system.to_string() == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_back() {
        let id: SetId = "20261121T100000123Z-9f3a6c11".parse().expect("a name");
        for (key, expected) in [
            (manifest(7, id), InBases::Manifest(id)),
            (retired(7, id), InBases::Retired(id)),
            (pack(7, id, 12), InBases::Content(id)),
            (index(7, id, 0), InBases::Content(id)),
        ] {
            let key = key.expect("a name");
            assert_eq!(in_bases(key.as_str()), Some(("", 7, expected)));
            assert_eq!(in_bases(&format!("a/b/{key}")), Some(("a/b", 7, expected)));
        }
        for foreign in [
            "physical/7/bases/20261121T100000123Z-9f3a6c11/notes.txt",
            "physical/07/bases/20261121T100000123Z-9f3a6c11/manifest.json",
            "physical/7/bases/x/manifest.json",
            "physical/7/log/00000001/000000010000000000000002.zst",
            "metaphysical/7/bases/20261121T100000123Z-9f3a6c11/manifest.json",
            "manifest.json",
            "",
        ] {
            assert_eq!(in_bases(foreign), None, "{foreign}");
        }
    }
}
