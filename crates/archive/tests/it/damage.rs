//! Objects that are flipped, cut, missing, exchanged or bombs: found by `verify`, and never restored.

use std::sync::Arc;

use seawall_archive::{Catalog, Codec, Error, Sets, timeline, verify};
use seawall_core::abilities::*;
use seawall_core::{Failure, Moment, NoProgress, SystemClock, When};
use seawall_vault::memory::MemoryStore;

use crate::support::{id, objects, put, read, tables, vault, write};

/// A vault with two sets; `damage` is done to a copy of it. Returns the codes of the findings and the newest point.
async fn findings(name: &str, damage: impl FnOnce(Vec<u8>) -> Option<Vec<u8>>) -> (Vec<String>, Option<String>, bool) {
    let store = MemoryStore::new();
    let good = vault(&store);
    for second in [1, 2] {
        write(&good, id(second), Codec::default(), &tables(second as u64)).await.expect("written");
    }
    let bytes = objects(&store).await.remove(name).expect("it is there");
    match damage(bytes) {
        Some(bytes) => put(&good, name, bytes).await,
        None => good.delete(&[seawall_vault::ObjectKey::new(name).expect("a key")]).await.expect("deleted"),
    }
    let verification = verify(&good, Moment::default(), Arc::new(NoProgress), 2).await.expect("verified");
    let restored = read(&good, &When::Position(id(2).to_string())).await;
    let whole = restored.is_ok_and(|found| found == tables(2));
    let newest = verification.newest.map(|point| point.position);
    (verification.findings.into_iter().map(|finding| finding.code.to_owned()).collect(), newest, whole)
}

fn of_second(rest: &str) -> String {
    format!("sets/{}/{rest}", id(2))
}

#[tokio::test]
async fn an_undamaged_vault_has_no_findings() {
    assert_eq!(findings("chain/00000001.json", Some).await, (vec![], Some(id(2).to_string()), true));
}

/// What happens to the bytes of an object; `None` takes it away.
type Damage<'a> = &'a dyn Fn(Vec<u8>) -> Option<Vec<u8>>;

#[tokio::test]
async fn a_chunk_that_is_not_what_it_was_is_found_and_not_restored() {
    let name = of_second("00000001.zst");
    let bomb = zstd::bulk::compress(&vec![b'\n'; 1 << 24], 1).expect("compressed");
    let damages: [(&str, Damage<'_>); 5] = [
        ("flipped", &|mut bytes| {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 4;
            Some(bytes)
        }),
        ("cut", &|bytes| Some(bytes[..bytes.len() - 1].to_vec())),
        ("longer", &|mut bytes| {
            bytes.push(0);
            Some(bytes)
        }),
        ("a bomb", &|_| Some(bomb.clone())),
        ("missing", &|_| None),
    ];
    for (what, damage) in damages {
        let (codes, newest, whole) = findings(&name, damage).await;
        assert_eq!((codes.len(), newest, whole), (1, Some(id(1).to_string()), false), "{what}: {codes:?}");
    }
}

#[tokio::test]
async fn exchanged_chunks_are_found() {
    let store = MemoryStore::new();
    let vault = vault(&store);
    write(&vault, id(1), Codec::None, &tables(1)).await.expect("written");
    let all = objects(&store).await;
    let name = |number: u32| format!("sets/{}/{number:08}.raw", id(1));
    put(&vault, &name(0), all[&name(1)].clone()).await;
    put(&vault, &name(1), all[&name(0)].clone()).await;
    let verification = verify(&vault, Moment::default(), Arc::new(NoProgress), 2).await.expect("verified");
    assert_eq!((verification.findings.len(), verification.newest), (2, None));
    assert!(read(&vault, &When::Latest).await.is_err());
}

#[tokio::test]
async fn an_index_that_is_damaged_or_missing_is_found() {
    for damage in [None, Some(b"{}\n{}\n".to_vec())] {
        let (codes, newest, whole) = findings(&of_second("index.json"), |_| damage).await;
        assert_eq!((codes.len(), newest, whole), (1, Some(id(1).to_string()), false));
    }
}

#[tokio::test]
async fn a_link_that_vanished_without_a_retirement_is_an_alarm() {
    let (codes, newest, _) = findings("chain/00000001.json", |_| None).await;
    assert_eq!((codes, newest), (vec!["archive.missing-link".to_owned()], Some(id(2).to_string())));
}

/// Sets without any link are no vault of another engine's, and nothing that counts.
#[tokio::test]
async fn a_chain_that_vanished_is_found() {
    let store = MemoryStore::new();
    let vault = vault(&store);
    write(&vault, id(1), Codec::None, &tables(1)).await.expect("written");
    let link = seawall_vault::ObjectKey::new("chain/00000001.json").expect("a key");
    vault.delete(&[link]).await.expect("deleted");
    assert!(Catalog::is_here(&vault).await.expect("asked"));
    let sets = Sets::new(vault.clone(), None, Arc::new(SystemClock), 0, 2);
    let failure = sets.verify(Arc::new(NoProgress)).await.expect_err("nothing counts");
    assert_eq!(failure.code, "archive.no-set");
    assert!(failure.cause.starts_with("objects of sets are here"), "{failure:?}");
    assert!(matches!(read(&vault, &When::Latest).await, Err(Error::NoSet { .. })));
}

/// A set that nobody can name isn't replaced by an older one: what is asked for is refused, and what is safely before it isn't.
#[tokio::test]
async fn a_newest_link_that_cannot_be_read_is_not_passed_over_for_an_older_set() {
    let damages: [(&str, Damage<'_>); 3] = [
        ("flipped", &|mut bytes| {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            Some(bytes)
        }),
        ("half", &|bytes| Some(bytes[..bytes.len() / 2].to_vec())),
        ("empty", &|_| Some(Vec::new())),
    ];
    for (what, damage) in damages {
        let store = MemoryStore::new();
        let vault = vault(&store);
        for second in [1, 2] {
            write(&vault, id(second), Codec::default(), &tables(second as u64)).await.expect("written");
        }
        let name = "chain/00000002.json";
        let bytes = objects(&store).await.remove(name).expect("it is there");
        put(&vault, name, damage(bytes).expect("bytes")).await;
        for when in [When::Latest, When::Moment(id(2).moment()), When::Position(id(2).to_string())] {
            let failure = Failure::from(read(&vault, &when).await.expect_err("it is hidden"));
            assert_eq!(failure.code, "archive.unreadable-link", "{what} {when:?}: {failure:?}");
            assert!(failure.object.ends_with(name), "{what}: {failure:?}");
            assert!(failure.next.contains(&format!("--at {}", id(1))), "{what}: {failure:?}");
        }
        for when in [When::Moment(id(1).moment()), When::Position(id(1).to_string())] {
            assert_eq!(read(&vault, &when).await.expect("it is whole"), tables(1), "{what} {when:?}");
        }
        let holes = timeline(&Catalog::read(&vault).await.expect("read")).holes;
        assert_eq!(holes.len(), 1, "{what}: {holes:?}");
        assert!(holes[0].reason.starts_with("archive.corrupt") && holes[0].reason.contains(name), "{what}: {holes:?}");
        // The next backup is the newest again.
        write(&vault, id(3), Codec::default(), &tables(3)).await.expect("written");
        assert_eq!(read(&vault, &When::Latest).await.expect("it is whole"), tables(3), "{what}");
    }
}

#[tokio::test]
async fn a_link_that_was_changed_is_found() {
    let (codes, newest, whole) = findings("chain/00000002.json", |mut bytes| {
        bytes[10] ^= 1;
        Some(bytes)
    })
    .await;
    assert_eq!((codes, newest, whole), (vec!["archive.corrupt".to_owned()], Some(id(1).to_string()), false));
}
