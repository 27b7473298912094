//! Objects of a set that are flipped, cut, missing or exchanged: `verify` and a restore name them, nothing gets the wanted name,
//! and the same restore goes on when the object is back.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::TryStreamExt as _;
use seawall_core::{Kind, Moment, NoProgress};
use seawall_mysql::{DumpOptions, Limits, World, dump};
use seawall_vault::memory::MemoryStore;
use seawall_vault::{ObjectKey, Prefix, Store as _, Vault};

use crate::link::make_small;
use crate::restoring::{environment, everything, is_the_same, options, recover, unfinished};
use crate::server::{Server, target};
use crate::support::vault;

/// All objects of a store.
async fn objects(store: &MemoryStore) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in store.list(&Prefix::all(), None, 1000).await.expect("memory").entries {
        let body = store.get(&entry.key, None).await.expect("memory").stream.try_collect::<Vec<_>>().await;
        all.insert(entry.key.as_str().to_owned(), body.expect("memory").concat());
    }
    all
}

async fn put(vault: &Vault, name: &str, bytes: Option<&[u8]>) {
    let key = ObjectKey::new(name).expect("a key");
    match bytes {
        Some(bytes) => vault.put(&key, bytes.to_vec().into(), None).await.expect("put"),
        None => vault.delete(&[key]).await.expect("deleted"),
    }
}

/// What happens to an object: how it is called, and its bytes behind that; none where it is gone.
fn damages(name: &str, all: &BTreeMap<String, Vec<u8>>) -> Vec<(&'static str, Option<Vec<u8>>)> {
    let bytes = &all[name];
    let mut flipped = bytes.clone();
    let middle = bytes.len() / 2;
    flipped[middle] ^= 1;
    let mut damages =
        vec![("flipped", Some(flipped)), ("cut", Some(bytes[..bytes.len() - 1].to_vec())), ("missing", None)];
    let last = |name: &str| name.rsplit('/').next().unwrap_or_default().to_owned();
    let is_other = |other: &&String| **other != name && all[*other] != *bytes;
    let of_other_set =
        all.keys().filter(is_other).find(|other| other.starts_with("sets/") && last(other) == last(name));
    damages.extend(of_other_set.map(|other| ("of the other set", Some(all[other].clone()))));
    let folder = name.trim_end_matches(&last(name));
    let of_same_set = all.keys().filter(is_other).find(|other| other.starts_with(folder) && other.ends_with(".zst"));
    if name.ends_with(".zst") {
        damages.extend(of_same_set.map(|other| ("of another table", Some(all[other].clone()))));
    }
    damages
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_is_not_what_it_was_is_named_and_nothing_wrong_is_restored() {
    let server = Server::start();
    make_small(&server);
    server.sql(
        "USE shop; CREATE TABLE big (id int PRIMARY KEY, filler blob); \
         INSERT INTO big SELECT seq, RANDOM_BYTES(900) FROM seq_1_to_12000",
    );
    let store = MemoryStore::new();
    let vault = vault(&store);
    for nonce in [1, 2] {
        let options =
            DumpOptions { limits: Limits { jobs: 1, memory: 24 << 20, ..Limits::default() }, ..DumpOptions::default() };
        let world = World { nonce, ..World::real(environment()) };
        dump(&target(&server.url("shop")), &vault, &options, &world, Arc::new(NoProgress)).await.expect("backed up");
        if nonce == 1 {
            server.sql("UPDATE shop.big SET filler = RANDOM_BYTES(900); INSERT INTO shop.a (v) VALUES ('new')");
        }
    }
    let before = everything(&server, "shop");
    let all = objects(&store).await;
    let newest = all.keys().filter(|name| name.starts_with("sets/")).max().expect("objects").clone();
    let folder = newest.rsplit_once('/').expect("a folder").0;
    let of_newest: Vec<&String> = all.keys().filter(|name| name.starts_with(folder)).collect();
    assert!(of_newest.len() > 4, "{of_newest:?}");
    let (mut kinds, mut resumed) = (BTreeMap::<&str, u32>::new(), 0);
    for name in of_newest {
        for (kind, bytes) in damages(name, &all) {
            put(&vault, name, bytes.as_deref()).await;
            let failure = recover(&vault, &server.url("copy"), &options()).await.expect_err(kind);
            assert!(matches!(failure.kind, Kind::Corrupt | Kind::NotFound), "{name} {kind}: {failure:?}");
            assert!(failure.object.ends_with(name), "{name} {kind}: {failure:?}");
            let there = "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = 'copy'";
            assert_eq!(server.sql(there), "0", "{name} {kind}");
            let found = seawall_archive::verify(&vault, Moment::default(), Arc::new(NoProgress), 2).await;
            let found = found.expect("verified");
            assert!(found.findings.iter().any(|finding| finding.object.ends_with(name)), "{kind} {:?}", found.findings);
            put(&vault, name, Some(&all[name])).await;
            *kinds.entry(kind).or_default() += 1;
        }
        // What was loaded before the object was met counts.
        let restored = recover(&vault, &server.url("copy"), &options()).await.expect("restored");
        resumed += u32::from(restored.resumed);
        is_the_same(&everything(&server, "copy"), &before);
        assert_eq!(unfinished(&server), "");
        server.sql("DROP DATABASE copy");
    }
    assert!(kinds.len() == 5 && kinds.values().all(|count| *count > 1), "{kinds:?}");
    assert!(resumed > 0);
}
