//! Which database does an object belong to, and what is it there? Decided from its name below the prefix that is looked at.

use seawall_archive::log::is_of_log;
use seawall_archive::{InSets, SetId, in_sets};
use seawall_core::Moment;
use seawall_lmdb::snapshot::SnapshotName;
use seawall_postgres::physical::base::{InBases, in_bases};
use seawall_sqlite::{Replicated, replicated};
use seawall_vault::{ObjectKey, Scheme};

use crate::proofs;

/// Where Seawall's own objects of a database are.
const OWN: &str = "seawall/";

/// Where the files and the log of a cluster are.
const PHYSICAL: &str = "physical/";

/// An object's place among the databases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named<'a> {
    /// The prefix of its vault, without a slash at its end; empty for the prefix that is looked at.
    pub(super) root: &'a str,
    /// The database, where one vault holds several: LMDB.
    pub(super) database: Option<String>,
    pub(super) fact: Fact,
}

/// What an object says by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fact {
    /// An LTX file, by its level, its first and its last transaction.
    Ltx(u8, u64, u64),
    /// A file of a replica from before Litestream 0.5.
    Generation,
    /// A snapshot of an LMDB environment: the instance that sent it, and when.
    Snapshot(String, Moment),
    /// The index of a backup set, which is written last.
    Index(SetId),
    /// A chunk of a backup set.
    Chunk(SetId),
    /// A link of the chain of backup sets.
    Link(u64),
    /// The manifest of a base of a cluster, which is written last.
    Base(SetId),
    /// Content of a base.
    BaseContent(SetId),
    /// A part of a cluster's log.
    Log,
    /// The record of a hole.
    Hole,
    /// The record of a proof that ended then.
    Proof(Moment),
    /// The object that says that the vault is encrypted.
    Encryption,
    /// Something else that belongs to a vault.
    Other,
}

/// The meaning of a name; `None` for a name that Seawall doesn't know.
pub(super) fn named(scheme: Scheme, key: &str) -> Option<Named<'_>> {
    let of_vault = |root, fact| Some(Named { root, database: None, fact });
    if let Some((root, object)) = replicated(scheme, key) {
        return of_vault(
            root,
            match object {
                Replicated::Ltx { level, max } => Fact::Ltx(level, first_of(key), max.0),
                Replicated::Generation => Fact::Generation,
            },
        );
    }
    if let Some((root, object)) = in_sets(key) {
        return of_vault(
            root,
            match object {
                InSets::Link(number) => Fact::Link(number),
                InSets::Index(id) => Fact::Index(id),
                InSets::Chunk(id) => Fact::Chunk(id),
                InSets::Pin => Fact::Other,
            },
        );
    }
    if let Some((root, _, object)) = in_bases(key) {
        return of_vault(
            root,
            match object {
                InBases::Manifest(id) => Fact::Base(id),
                InBases::Content(id) | InBases::Retired(id) => Fact::BaseContent(id),
            },
        );
    }
    if let Some(root) = of_log(key) {
        return of_vault(root, Fact::Log);
    }
    let (folder, name) = key.rsplit_once('/').unwrap_or(("", key));
    if let Some(snapshot) = SnapshotName::parse(name) {
        let at = Moment::from_millis(i64::try_from(snapshot.stamp.0 / 1_000_000).unwrap_or(i64::MAX));
        let fact = Fact::Snapshot(snapshot.instance, at);
        return Some(Named { root: folder, database: Some(snapshot.database), fact });
    }
    let at = key.rmatch_indices(OWN).map(|(at, _)| at).find(|at| *at == 0 || key[..*at].ends_with('/'))?;
    own(key[..at].trim_end_matches('/'), &key[at + OWN.len()..])
}

/// The first transaction in an LTX file, which its name begins with.
fn first_of(key: &str) -> u64 {
    let name = key.rsplit('/').next().unwrap_or_default();
    name.split('-').next().and_then(|first| u64::from_str_radix(first, 16).ok()).unwrap_or(0)
}

/// The prefix of the vault whose log has this object.
fn of_log(key: &str) -> Option<&str> {
    let at = key.rmatch_indices(PHYSICAL).map(|(at, _)| at).find(|at| *at == 0 || key[..*at].ends_with('/'))?;
    let object = ObjectKey::new(&key[at..]).ok()?;
    is_of_log(&object).then(|| key[..at].trim_end_matches('/'))
}

/// An object below `seawall/`.
fn own<'a>(root: &'a str, name: &str) -> Option<Named<'a>> {
    let of_vault = |fact| Some(Named { root, database: None, fact });
    match name.split('/').collect::<Vec<_>>()[..] {
        ["encryption.json"] => of_vault(Fact::Encryption),
        ["holes", _] => of_vault(Fact::Hole),
        ["proofs", record] => of_vault(proofs::moment_of(record).map_or(Fact::Other, Fact::Proof)),
        ["proofs", database, record] => {
            let fact = proofs::moment_of(record).map_or(Fact::Other, Fact::Proof);
            Some(Named { root, database: Some(database.to_owned()), fact })
        }
        _ => of_vault(Fact::Other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_an_object_is_and_what() {
        const LTX: &str = "0000000000000001-000000000000000a.ltx";
        const SET: &str = "sets/20261121T100000123Z-9f3a6c11";
        const RECORD: &str = "20261121T100000123Z-0000000a.json";
        let id: SetId = "20261121T100000123Z-9f3a6c11".parse().expect("a name");
        let moment: Moment = "2026-11-21T10:00:00.123Z".parse().expect("a moment");
        for (scheme, key, expected) in [
            (Scheme::S3, format!("a/0000/{LTX}"), Some(("a", None, Fact::Ltx(0, 1, 10)))),
            (Scheme::File, format!("a/b/ltx/9/{LTX}"), Some(("a/b", None, Fact::Ltx(9, 1, 10)))),
            (Scheme::S3, format!("seawall/0009/{LTX}"), Some(("seawall", None, Fact::Ltx(9, 1, 10)))),
            (Scheme::S3, format!("shop/{SET}/index.json"), Some(("shop", None, Fact::Index(id)))),
            (Scheme::S3, "shop/chain/00000003.json".into(), Some(("shop", None, Fact::Link(3)))),
            (
                Scheme::S3,
                "env/main__ns1__20261121-100000-123000000__GX.pb.gz".into(),
                Some(("env", Some("main"), Fact::Snapshot("ns1".into(), moment))),
            ),
            (Scheme::S3, "a/seawall/encryption.json".into(), Some(("a", None, Fact::Encryption))),
            (Scheme::S3, "seawall/encryption.json".into(), Some(("", None, Fact::Encryption))),
            (Scheme::S3, "a/seawall/holes/0000000000000003.json".into(), Some(("a", None, Fact::Hole))),
            (Scheme::S3, format!("a/seawall/proofs/{RECORD}"), Some(("a", None, Fact::Proof(moment)))),
            (Scheme::S3, format!("a/seawall/proofs/main/{RECORD}"), Some(("a", Some("main"), Fact::Proof(moment)))),
            (Scheme::S3, "a/seawall/proofs/junk".into(), Some(("a", None, Fact::Other))),
            (Scheme::S3, "a/seawall/digests/0000/x.ltx".into(), Some(("a", None, Fact::Other))),
            (Scheme::S3, format!("a/physical/7/bases/{id}/manifest.json"), Some(("a", None, Fact::Base(id)))),
            (Scheme::S3, format!("physical/7/bases/{id}/00000001.zst"), Some(("", None, Fact::BaseContent(id)))),
            (
                Scheme::S3,
                "a/b/physical/7/log/00000001/000000010000000000000002.zst".into(),
                Some(("a/b", None, Fact::Log)),
            ),
            (Scheme::S3, "a/physical/notes.txt".into(), None),
            (Scheme::S3, "a/myseawall/x".into(), None),
            (Scheme::S3, "holiday.jpg".into(), None),
            (Scheme::S3, "".into(), None),
        ] {
            let found = named(scheme, &key);
            let found = found.as_ref().map(|named| (named.root, named.database.as_deref(), named.fact.clone()));
            assert_eq!(found, expected, "{key}");
        }
    }
}
