//! WebDAV and NATS with faults: connections that break in the middle, servers that end and come back, wrong passwords.

#![allow(clippy::disallowed_methods, reason = "tests are an edge")]

use std::path::Path;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use seawall_testing::Relay;
use seawall_vault::testing::{NATS_USER, NatsServer, WEBDAV_USER, WebdavServer};
use seawall_vault::{Created, Environment, Error, ObjectKey, Policy, Prefix, Vault, VaultUrl};

const PART: usize = 1 << 20;

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(name).expect("a sound name")
}

async fn open(url: &str) -> Vault {
    let policy = Policy { part_size: PART, attempt: Duration::from_secs(10), ..Policy::default() };
    Vault::open(&VaultUrl::parse(url).expect("a URL"), &Environment::empty(), policy).await.expect("a vault")
}

/// Breaks streamed and whole writes at several places. Nothing is visible before it is whole, and the next attempt succeeds.
async fn broken_writes(relay: &Relay, vault: &Vault) {
    let body = Bytes::from((0..6 * PART).map(|at| (at * 31 % 251) as u8).collect::<Vec<u8>>());
    for (number, after) in [0, 3000, PART as u64, 4 * PART as u64].into_iter().enumerate() {
        let streamed = key(&format!("cut/streamed-{number}"));
        vault.list(&Prefix::all(), None).await.expect("a connection");
        relay.cut_after(after);
        let upload = async {
            let mut upload = vault.upload(&streamed, None);
            upload.write(body.clone()).await?;
            upload.finish().await
        };
        let outcome = upload.await;
        assert!(relay.is_cut(), "{number}: nothing was cut");
        match vault.head(&streamed).await.expect("an answer") {
            Some(meta) => assert_eq!((outcome, meta.size), (Ok(Created::Fresh), body.len() as u64), "{number}"),
            None => {
                assert!(matches!(outcome, Err(Error::Unavailable { .. })), "{number}: {outcome:?}");
                let mut upload = vault.upload(&streamed, None);
                upload.write(body.clone()).await.expect("written");
                assert_eq!(upload.finish().await, Ok(Created::Fresh), "{number}");
            }
        }
        assert!(vault.read(&streamed, None, 1 << 30).await.expect("read") == body, "{number}");

        let whole = key(&format!("cut/whole-{number}"));
        relay.cut_after(after.min(900_000));
        let created = vault.create(&whole, body.slice(..PART - 1), None).await;
        assert!(matches!(created, Ok(Created::Fresh | Created::Adopted)), "{number}: {created:?}");
        assert!(relay.is_cut(), "{number}: nothing was cut");
        relay.cut_after(10);
        assert_eq!(vault.list(&Prefix::all(), None).await.expect("a list").len(), 2 * (number + 1));
    }
}

async fn refused(url: &str, password: &str) {
    let vault = open(&url.replace(&password.replace(' ', "%20"), "hunter2")).await;
    let error = vault.put(&key("x"), Bytes::from_static(b"x"), None).await.expect_err("refused");
    assert!(matches!(error, Error::Denied { .. }), "{error:?}");
    assert!(!format!("{error} {error:?} {vault:?}").contains("hunter2"), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webdav_connections_that_break() {
    let folder = tempfile::tempdir().expect("a folder");
    for (number, server) in [
        WebdavServer::wsgidav("faults of WsgiDAV", &folder.path().join("wsgidav")).await,
        WebdavServer::nginx("faults of nginx", &folder.path().join("nginx")).await,
    ]
    .into_iter()
    .enumerate()
    {
        let Some(server) = server else { continue };
        let relay = Relay::new(server.port());
        broken_writes(&relay, &open(&server.url_through(relay.port(), &format!("some/place-{number}"))).await).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webdav_servers_that_refuse_and_come_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(mut server) = WebdavServer::wsgidav("WsgiDAV started again", folder.path()).await else { return };
    refused(&server.url("p"), WEBDAV_USER.1).await;
    let vault = open(&server.url("p")).await;
    vault.put(&key("a"), Bytes::from_static(b"x"), None).await.expect("put");
    server.restart().await;
    vault.put(&key("b"), Bytes::from_static(b"y"), None).await.expect("put after a restart");
    assert!(!vault.probe().await.expect("a probe").exclusive_create(), "two writers aren't told apart");
    let again = vault.create(&key("a"), Bytes::from_static(b"z"), None).await;
    assert!(matches!(again, Err(Error::AlreadyExists { .. })), "{again:?}");
    // Folders that go are made again.
    std::fs::remove_dir_all(folder.path().join("files/p")).expect("the vault's folder");
    vault.create(&key("c/d"), Bytes::from_static(b"z"), None).await.expect("create without the folder");
    assert_eq!(vault.read(&key("c/d"), None, 9).await.expect("read"), "z");
}

fn age(file: &Path, by: Duration) {
    let file = std::fs::File::options().write(true).open(file).expect("a file");
    file.set_modified(SystemTime::now() - by).expect("a time");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webdav_files_of_killed_writers_go_later() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(server) = WebdavServer::nginx("leftovers", folder.path()).await else { return };
    let temporary = folder.path().join("files/p/seawall.tmp");
    std::fs::create_dir_all(&temporary).expect("a folder");
    for (name, hours) in [("old", 80), ("young", 60)] {
        std::fs::write(temporary.join(name), "x").expect("a file");
        age(&temporary.join(name), Duration::from_secs(3600 * hours));
    }
    let vault = open(&server.url("p")).await;
    vault.put(&key("a"), Bytes::from_static(b"x"), None).await.expect("put");
    let left: Vec<_> =
        std::fs::read_dir(&temporary).expect("a folder").map(|file| file.expect("a file").file_name()).collect();
    assert_eq!(left, ["young"]);
    assert_eq!(vault.list(&Prefix::all(), None).await.expect("a list").len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nats_connections_that_break() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(server) = NatsServer::start("faults of NATS", folder.path()).await else { return };
    server.make_bucket("b").await;
    let relay = Relay::new(server.port());
    broken_writes(&relay, &open(&server.url_through(relay.port(), "b", "p")).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nats_servers_that_refuse_and_come_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(mut server) = NatsServer::start("NATS started again", folder.path()).await else { return };
    server.make_bucket("b").await;
    refused(&server.url("b", "p"), NATS_USER.1).await;
    let vault = open(&server.url("b", "p")).await;
    vault.put(&key("a"), Bytes::from_static(b"x"), None).await.expect("put");
    server.restart().await;
    vault.put(&key("b"), Bytes::from_static(b"y"), None).await.expect("put after a restart");
    assert_eq!(vault.read(&key("a"), None, 9).await.expect("read"), "x");
    let request = open(&server.url("none", "p")).await.list(&Prefix::all(), None).await.map(drop);
    assert!(matches!(request, Err(Error::Missing { .. })), "{request:?}");
}

/// A name whose newest message says that the object was deleted, as NATS's own clients leave it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nats_names_that_others_deleted_are_free() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(server) = NatsServer::start("deletions in NATS", folder.path()).await else { return };
    server.make_bucket("b").await;
    let options = async_nats::ConnectOptions::with_user_and_password(NATS_USER.0.into(), NATS_USER.1.into());
    let client = options.connect(format!("127.0.0.1:{}", server.port())).await.expect("a connection");
    let tombstone = r#"{"name":"p/a","bucket":"b","nuid":"n","size":0,"mtime":"","chunks":0,"deleted":true}"#;
    client.request("$O.b.M.cC9h", tombstone.into()).await.expect("an answer");
    let vault = open(&server.url("b", "p")).await;
    assert!(vault.list(&Prefix::all(), None).await.expect("a list").is_empty());
    assert_eq!(vault.head(&key("a")).await, Ok(None));
    assert_eq!(vault.create(&key("a"), Bytes::from_static(b"x"), None).await, Ok(Created::Fresh));
    let again = vault.create(&key("a"), Bytes::from_static(b"y"), None).await;
    assert!(matches!(again, Err(Error::AlreadyExists { .. })), "{again:?}");
    assert_eq!(vault.list(&Prefix::all(), None).await.expect("a list").len(), 1);
}
