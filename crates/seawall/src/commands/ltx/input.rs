//! Files as a user names them: paths, URLs of objects, folders and prefixes.
//!
//! Work that reads an object out of order (applying, merging, comparing) fetches it to a temporary file first.
//! [`super::remote`] reads objects without a copy.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::io::Write as _;
use std::path::{Path, PathBuf};

use futures::StreamExt as _;
use seawall_core::{Failure, Kind};
use seawall_vault::{ObjectKey, Prefix, Vault, VaultUrl};
use tempfile::TempPath;

use super::failure;
use crate::edge::Edge;
use crate::progress::progress;
use crate::runtime;

/// A file to work on.
#[derive(Debug)]
pub(super) struct Input {
    /// As it was named, without secrets.
    pub(super) shown: String,
    place: Location,
}

#[derive(Debug)]
enum Location {
    Path(PathBuf),
    /// Removed when this is dropped.
    Fetched(TempPath),
}

impl Input {
    /// Where it is now.
    pub(super) fn path(&self) -> &Path {
        match &self.place {
            Location::Path(path) => path,
            Location::Fetched(path) => path,
        }
    }

    fn local(path: PathBuf) -> Self {
        Self { shown: path.display().to_string(), place: Location::Path(path) }
    }
}

/// The files that are named, each of them one file.
pub(super) fn files(named: &[String], edge: &Edge, json: bool) -> Result<Vec<Input>, Failure> {
    named.iter().map(|name| one(name, edge, json)).collect()
}

/// One file.
pub(super) fn one(name: &str, edge: &Edge, json: bool) -> Result<Input, Failure> {
    let Some((url, key)) = object(name)? else { return Ok(Input::local(name.into())) };
    if let VaultUrl::File(folder) = &url {
        return Ok(Input::local(folder.join(key)));
    }
    let meter = progress(edge, json);
    runtime::run(async {
        let (vault, key) = open(name, url, key, edge).await?;
        let Some(meta) = vault.head(&key).await? else { return Err(missing(vault.object(&key))) };
        meter.begin("fetch", Some(meta.size));
        let fetched = fetch(&vault, &key, |bytes| meter.advance(bytes)).await?;
        meter.finish();
        Ok(fetched)
    })
}

/// The files that are named, or that are in the folders that are named.
pub(super) fn expanded(named: &[String], edge: &Edge) -> Result<Vec<Name>, Failure> {
    let mut all = Vec::new();
    for name in named {
        match name.split_once("://") {
            Some(_) if !is_object(name) => all.extend(listed(name, edge)?),
            None if Path::new(name).is_dir() => walk(Path::new(name), &mut all)?,
            _ => all.push(Name(name.clone())),
        }
    }
    Ok(all)
}

/// The name of one file.
#[derive(Debug, Clone)]
pub(super) struct Name(pub(super) String);

impl Name {
    /// The file.
    pub(super) fn open(&self, edge: &Edge, json: bool) -> Result<Input, Failure> {
        one(&self.0, edge, json)
    }
}

fn walk(folder: &Path, all: &mut Vec<Name>) -> Result<(), Failure> {
    let entries = std::fs::read_dir(folder).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
    let mut entries: Vec<PathBuf> =
        entries.map_err(|error| failure::io(folder, error))?.into_iter().map(|entry| entry.path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            walk(&path, all)?;
        } else if path.extension().is_some_and(|extension| extension == "ltx") {
            all.push(Name(path.display().to_string()));
        }
    }
    Ok(())
}

fn listed(name: &str, edge: &Edge) -> Result<Vec<Name>, Failure> {
    let url: VaultUrl = name.parse()?;
    if let VaultUrl::File(folder) = &url {
        let mut all = Vec::new();
        walk(folder, &mut all)?;
        return Ok(all);
    }
    let (base, query) = split_query(name);
    runtime::run(async {
        let vault = edge.opener(1)?.vault_alone(&url).await?;
        let entries = vault.list(&Prefix::all(), None).await?;
        let ltx = entries.iter().filter(|entry| entry.key.as_str().ends_with(".ltx"));
        Ok(ltx.map(|entry| Name(format!("{}/{}{query}", base.trim_end_matches('/'), entry.key))).collect())
    })
}

fn is_object(name: &str) -> bool {
    split_query(name).0.ends_with(".ltx")
}

fn split_query(name: &str) -> (&str, &str) {
    name.find('?').map_or((name, ""), |at| name.split_at(at))
}

/// The place and the key of an object that is named by a URL; `None` for a path.
pub(super) fn object(name: &str) -> Result<Option<(VaultUrl, &str)>, Failure> {
    if !name.contains("://") {
        return Ok(None);
    }
    let (base, query) = split_query(name);
    let Some((folder, key)) = base.rsplit_once('/').filter(|(_, key)| !key.is_empty()) else {
        let next = "name an object: a URL that ends in its key";
        return Err(Failure::new(Kind::Usage, "ltx.not-an-object", base, "this URL names no object", next));
    };
    Ok(Some((format!("{folder}{query}").parse::<VaultUrl>()?, key)))
}

/// The vault of an object that is no file of this machine, and its key there. With a key of the owner the object is one of
/// an encrypted replica.
pub(super) async fn open(name: &str, url: VaultUrl, key: &str, edge: &Edge) -> Result<(Vault, ObjectKey), Failure> {
    let (url, key) = match in_replica(name).filter(|_| edge.has_identity()) {
        Some((replica, key)) => (replica.parse()?, key),
        None => (url, key),
    };
    Ok((edge.opener(1)?.vault_alone(&url).await?, ObjectKey::new(key)?))
}

/// For an object's URL: the URL of its replica, and its key below the replica, which begins with the level. `None` for
/// a path: in a folder digests are beside the files.
pub(super) fn in_replica(name: &str) -> Option<(String, &str)> {
    if !name.contains("://") {
        return None;
    }
    let (base, query) = split_query(name);
    let (at, _) = base.rmatch_indices('/').nth(1)?;
    let (replica, key) = base.split_at_checked(at)?;
    Some((format!("{replica}{query}"), key.strip_prefix('/')?))
}

pub(super) fn missing(object: String) -> Failure {
    Failure::new(Kind::NotFound, "ltx.not-found", object, "there is no such object", "check the name")
}

async fn fetch(vault: &Vault, key: &ObjectKey, advance: impl Fn(u64)) -> Result<Input, Failure> {
    let shown = vault.object(key);
    let broken = |error| failure::io(&std::env::temp_dir(), error);
    let mut file = tempfile::NamedTempFile::with_prefix("seawall-ltx-").map_err(broken)?;
    let mut chunks = std::pin::pin!(vault.stream(key, None));
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk?;
        file.write_all(&chunk).map_err(broken)?;
        advance(chunk.len() as u64);
    }
    Ok(Input { shown, place: Location::Fetched(file.into_temp_path()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_objects() {
        for (name, expected) in [
            ("a/b.ltx", None),
            ("s3://bucket/app/ltx/0/x.ltx", Some(("s3://bucket/app/ltx/0", "x.ltx"))),
            ("file:///data/x.ltx", Some(("file:///data", "x.ltx"))),
        ] {
            let found = object(name).expect("a name");
            let found = found.as_ref().map(|(url, key)| (url.to_string(), *key));
            assert_eq!(found, expected.map(|(url, key)| (url.to_owned(), key)), "{name}");
        }
        let replica = in_replica("s3://bucket/app/0009/x.ltx?endpoint=h").expect("a replica");
        assert_eq!(replica, ("s3://bucket/app?endpoint=h".to_owned(), "0009/x.ltx"));
        for path in ["x.ltx", "a/../x.ltx", "../../x.ltx"] {
            assert_eq!(in_replica(path), None, "{path}");
        }
        assert!(object("s3://bucket/app/").is_err());
        assert!(is_object("s3://b/x.ltx?endpoint=http://h") && !is_object("s3://b/ltx/0?x=a.ltx"));
    }
}
