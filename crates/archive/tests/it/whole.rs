//! Sets that are written and read without anything going wrong.

use std::sync::Arc;
use std::time::Duration;

use seawall_archive::{Catalog, Codec, Content, Error, SetWriter, timeline, verify};
use seawall_core::{Clock as _, Moment, NoProgress, SystemClock, When};
use seawall_vault::memory::MemoryStore;
use seawall_vault::testing::S3Server;
use seawall_vault::{Environment, Policy, Prefix, Vault, VaultUrl};

use crate::support::{budget, count, feed, id, objects, put, read, rows, tables, vault, write};

#[tokio::test]
async fn what_was_written_is_read_with_every_codec() {
    for codec in [Codec::default(), Codec::Gzip { level: 1 }, Codec::Lz4, Codec::None] {
        let store = MemoryStore::new();
        let vault = vault(&store);
        let manifest = write(&vault, id(1), codec, &tables(5)).await.expect("written");
        assert_eq!(read(&vault, &When::Latest).await.expect("read"), tables(5), "{codec}");
        let raw: usize = tables(5).iter().map(|(_, rows)| rows.len()).sum();
        assert_eq!((manifest.totals.raw, manifest.totals.rows), (raw as u64, 29_003));
        assert!(manifest.totals.chunks > 2, "{:?}", manifest.totals);
    }
}

#[tokio::test]
async fn a_folder_holds_a_set_that_stock_tools_can_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = VaultUrl::parse(folder.path().to_str().expect("text")).expect("a place");
    let vault = Vault::open(&url, &Environment::empty(), Policy::default()).await.expect("opened");
    write(&vault, id(1), Codec::default(), &tables(5)).await.expect("written");
    assert_eq!(read(&vault, &When::Latest).await.expect("read"), tables(5));
    // Frames one behind another are one stream to zstd's own streaming reader, as they are to `zstd -d`.
    let first = std::fs::read(folder.path().join(format!("sets/{}/00000000.zst", id(1)))).expect("a chunk");
    let text = zstd_stream(&first);
    assert!(tables(5).iter().any(|(_, rows)| !rows.is_empty() && rows.starts_with(&text[..100])));
}

fn zstd_stream(bytes: &[u8]) -> Vec<u8> {
    zstd::stream::decode_all(bytes).expect("a stream of frames")
}

#[tokio::test]
async fn a_set_is_read_as_the_bucket_held_it_before_an_attack() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(server) = S3Server::start_versioned("sets in a versioned bucket", folder.path()).await else { return };
    server.keep_versions().await;
    let url = VaultUrl::parse(&server.url("sets of a server")).expect("a place");
    let open = async |url: &VaultUrl| Vault::open(url, &Environment::empty(), Policy::default()).await.expect("opened");
    let vault = open(&url).await;
    write(&vault, id(1), Codec::default(), &tables(5)).await.expect("written");
    let at = SystemClock.now();
    // The server's clock has whole seconds.
    while SystemClock.now() < at.after(Duration::from_millis(1100)) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for (index, entry) in vault.list(&Prefix::all(), None).await.expect("listed").iter().enumerate() {
        vault.put(&entry.key, "garbage".into(), None).await.expect("written over");
        if index % 2 == 0 {
            vault.delete(std::slice::from_ref(&entry.key)).await.expect("deleted");
        }
    }
    assert!(read(&vault, &When::Latest).await.is_err());
    let past = open(&url.as_stored_at(at).expect("a place that keeps versions")).await;
    assert_eq!(read(&past, &When::Latest).await.expect("read"), tables(5));
    let found = verify(&past, at, Arc::new(NoProgress), 2).await.expect("verified");
    assert_eq!(found.findings, Vec::new());
}

#[tokio::test]
async fn the_timeline_has_a_point_for_each_set() {
    let vault = vault(&MemoryStore::new());
    assert!(!Catalog::is_here(&vault).await.expect("asked"));
    for second in [10, 20, 30] {
        write(&vault, id(second), Codec::default(), &tables(second as u64)).await.expect("written");
    }
    assert!(Catalog::is_here(&vault).await.expect("asked"));
    let catalog = Catalog::read(&vault).await.expect("read");
    let moments: Vec<i64> = timeline(&catalog).spans.iter().map(|span| span.to.moment.as_millis()).collect();
    assert_eq!(moments, [10_000, 20_000, 30_000]);
    assert_eq!(catalog.findings(), Vec::new());
    for (when, wanted) in [
        (When::Latest, Some(30)),
        (When::Moment(Moment::from_millis(29_999)), Some(20)),
        (When::Moment(Moment::from_millis(20_000)), Some(20)),
        (When::Moment(Moment::from_millis(9_999)), None),
        (When::Position(id(10).to_string()), Some(10)),
        (When::Position(id(11).to_string()), None),
    ] {
        let found = catalog.find(&when).map(|manifest| manifest.id);
        assert_eq!(found.as_ref().ok(), wanted.map(id).as_ref(), "{when:?}");
        if let Some(seconds) = wanted {
            assert_eq!(read(&vault, &when).await.expect("read"), tables(seconds as u64));
        }
    }
}

#[tokio::test]
async fn two_writers_at_once_make_one_chain() {
    let store = MemoryStore::new();
    let (one, two) = (vault(&store), vault(&store));
    let (one_tables, two_tables) = (tables(1), tables(2));
    let (a, b) = tokio::join!(
        write(&one, id(1), Codec::default(), &one_tables),
        write(&two, id(2), Codec::default(), &two_tables)
    );
    a.expect("written");
    b.expect("written");
    let catalog = Catalog::read(&one).await.expect("read");
    assert_eq!((catalog.sets().len(), catalog.findings()), (2, Vec::new()));
    assert_eq!(read(&one, &When::Position(id(1).to_string())).await.expect("read"), one_tables);
    assert_eq!(read(&one, &When::Latest).await.expect("read"), two_tables);
}

#[tokio::test]
async fn another_databases_vault_is_refused() {
    let vault = vault(&MemoryStore::new());
    write(&vault, id(1), Codec::default(), &tables(1)).await.expect("written");
    let catalog = Catalog::read(&vault).await.expect("read");
    assert!(catalog.check_identity("7/shop").is_ok());
    assert!(matches!(catalog.check_identity("7/other"), Err(Error::OtherDatabase { .. })));
}

#[tokio::test]
async fn foreign_objects_are_ignored() {
    let store = MemoryStore::new();
    let vault = vault(&store);
    for name in ["chain/notes.txt", "chain/1.json", "sets/photos.tar.gz", "readme"] {
        put(&vault, name, b"not ours".to_vec()).await;
    }
    assert!(!Catalog::is_here(&vault).await.expect("asked"));
    let verified = verify(&vault, Moment::default(), Arc::new(NoProgress), 2).await.expect("verified");
    assert_eq!(verified.findings, Vec::new());
    write(&vault, id(1), Codec::default(), &tables(1)).await.expect("written");
    assert_eq!(Catalog::read(&vault).await.expect("read").findings(), Vec::new());
    assert_eq!(objects(&store).await["chain/notes.txt"], b"not ours");
}

#[tokio::test]
async fn an_attempt_that_is_taken_back_leaves_nothing_that_is_read() {
    let store = MemoryStore::new();
    let vault = vault(&store);
    let writer = SetWriter::begin(vault.clone(), id(1), Codec::default(), budget(), Arc::new(NoProgress));
    let rows = rows(0, 9_000, 3);
    let fill = async |name: &str| {
        let item = writer.of("shop").item(name, Content::Lines, serde_json::json!({}));
        feed(&writer, vec![(item, &rows)]).await.expect("written");
    };
    fill("first").await;
    let mark = writer.mark();
    fill("given up").await;
    writer.go_back(mark);
    fill("second").await;
    count(&vault, &writer, id(1)).await.expect("it counts");
    let read = read(&vault, &When::Latest).await.expect("read");
    assert_eq!(read, [("first".to_owned(), rows.clone()), ("second".to_owned(), rows.clone())]);
    let verified = seawall_archive::verify(&vault, Moment::default(), Arc::new(NoProgress), 2).await.expect("verified");
    assert_eq!(verified.findings, Vec::new());
    let chunks = objects(&store).await.keys().filter(|key| key.ends_with(".zst")).count() as u64;
    assert!(verified.objects < chunks + 2, "what was given up is not among the {} objects", verified.objects);
}
