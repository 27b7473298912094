//! Properties of S3 beyond the suite: how its refusals are classified, and that every wait ends.

#![allow(clippy::disallowed_methods, reason = "tests and benches are an edge")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use seawall_core::{Failure, Kind, Moment};
use seawall_vault::testing::{BUCKET, KEYS, S3Server};
use seawall_vault::{Created, Environment, Error, ObjectKey, Policy, Prefix, Vault, VaultUrl};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(name).expect("a sound name")
}

fn hasty() -> Policy {
    Policy {
        attempt: Duration::from_millis(300),
        total: Duration::from_secs(2),
        attempts: 3,
        seed: 1,
        ..Policy::default()
    }
}

async fn open(url: &str, variables: &[(&str, &str)], policy: Policy) -> Vault {
    let environment: Environment = variables.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
    let url = VaultUrl::parse(url).expect("a URL");
    Vault::open(&url, &environment, policy).await.expect("opens without a request")
}

async fn server(what: &str, folder: &Path) -> Option<S3Server> {
    S3Server::start(what, folder).await
}

#[tokio::test]
async fn refusals_are_decisions() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(server) = server("refusals of s3", folder.path()).await else { return };
    let (endpoint, (id, secret)) = (server.endpoint(), KEYS);
    let keys = [("AWS_ACCESS_KEY_ID", id), ("AWS_SECRET_ACCESS_KEY", secret)];
    let body = || Bytes::from_static(b"nonce");

    let vault = open(&format!("s3://nowhere/p?endpoint={endpoint}"), &keys, hasty()).await;
    let error = vault.create(&key("x"), body(), None).await.expect_err("no bucket");
    let failure = Failure::from(error);
    assert_eq!((failure.kind, failure.code), (Kind::Refused, "vault.missing"), "{failure:?}");
    let error = vault.head(&key("x")).await.expect_err("no bucket");
    assert!(matches!(error, Error::Missing { .. }), "{error:?}");
    let error = vault.list(&Prefix::all(), None).await.expect_err("no bucket");
    assert!(matches!(error, Error::Missing { .. }), "{error:?}");

    let vault = open(&format!("s3://lk/p?endpoint={endpoint}"), &keys, hasty()).await;
    let failure = Failure::from(vault.list(&Prefix::all(), None).await.expect_err("no bucket has this name"));
    assert_eq!((failure.kind, failure.code), (Kind::Usage, "vault.url"), "{failure:?}");
    assert!(failure.object.starts_with("s3://lk/"), "{failure:?}");

    for (name, value) in [("AWS_SECRET_ACCESS_KEY", "hunter2"), ("AWS_ACCESS_KEY_ID", "hunter2")] {
        let mut wrong = keys;
        for pair in wrong.iter_mut().filter(|pair| pair.0 == name) {
            pair.1 = value;
        }
        let vault = open(&format!("s3://{BUCKET}/p?endpoint={endpoint}"), &wrong, hasty()).await;
        let error = vault.create(&key("x"), body(), None).await.expect_err("wrong credentials");
        let failure = Failure::from(error.clone());
        assert_eq!((failure.kind, failure.code), (Kind::Denied, "vault.denied"), "{failure:?}");
        if name == "AWS_SECRET_ACCESS_KEY" {
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        }
        let error = vault.head(&key("x")).await.expect_err("not known to be missing");
        assert!(matches!(error, Error::Denied { .. }), "{error:?}");
        let error = vault.list(&Prefix::all(), None).await.expect_err("wrong credentials");
        assert!(matches!(error, Error::Denied { .. }), "{error:?}");
    }
    let error = open(&format!("s3://{BUCKET}/p?endpoint={endpoint}"), &keys, hasty()).await;
    assert_eq!(error.create(&key("x"), body(), None).await, Ok(Created::Fresh), "these are right");
}

#[tokio::test]
async fn credentials_from_all_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(server) = server("credentials of s3", folder.path()).await else { return };
    let (endpoint, (id, secret)) = (server.endpoint(), KEYS);
    let files = tempfile::tempdir().expect("a folder");
    let path = |name: &str| files.path().join(name).display().to_string();
    std::fs::write(path("id"), format!("{id}\n")).expect("write");
    std::fs::write(path("key"), format!("{secret}\n")).expect("write");
    let in_files = format!("&access-key-id-file={}&secret-access-key-file={}", path("id"), path("key"));
    for (index, (query, variables)) in [
        (format!("&access-key-id={id}&secretAccessKey={secret}"), vec![]),
        (in_files, vec![]),
        (String::new(), vec![("AWS_ACCESS_KEY_ID", id), ("AWS_SECRET_ACCESS_KEY", secret)]),
        (String::new(), vec![("LITESTREAM_ACCESS_KEY_ID", id), ("LITESTREAM_SECRET_ACCESS_KEY", secret)]),
    ]
    .into_iter()
    .enumerate()
    {
        let url = format!("s3://{BUCKET}/p{index}?endpoint={endpoint}{query}");
        let vault = open(&url, &variables, Policy::default()).await;
        assert_eq!(vault.create(&key("x"), Bytes::from_static(b"n"), None).await, Ok(Created::Fresh), "{index}");
        assert!(!format!("{vault:?} {}", vault.url()).contains(secret));
    }
}

#[tokio::test]
async fn nobody_there_is_said_soon() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    drop(listener);
    let url = format!("s3://i:k@{BUCKET}.localhost:{port}/p");
    let vault = open(&url, &[], hasty()).await;
    let start = Instant::now();
    let error = vault.head(&key("x")).await.expect_err("nobody there");
    assert!(error.is_retryable(), "{error:?}");
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    assert_eq!(vault.counts().retries, 2);
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let silent = tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((mut socket, _)) = listener.accept().await {
            kept.push(tokio::spawn(async move {
                let mut buffer = [0; 1 << 16];
                while socket.read(&mut buffer).await.is_ok_and(|n| n > 0) {}
            }));
        }
    });
    let vault = open(&format!("s3://i:k@{BUCKET}.127.0.0.1:{port}/p"), &[], hasty()).await;
    let start = Instant::now();
    for result in [
        vault.create(&key("x"), Bytes::from_static(b"n"), None).await.map(drop),
        vault.read(&key("x"), None, 10).await.map(drop),
        vault.list(&Prefix::all(), None).await.map(drop),
        vault.delete(&[key("x")]).await,
    ] {
        let error = result.expect_err("silence");
        assert!(error.is_retryable(), "{error:?}");
    }
    let mut upload = vault.upload(&key("x"), None);
    let mut result = Ok(());
    for _ in 0..4 {
        result = upload.write(Bytes::from(vec![0; 8 << 20])).await;
        if result.is_err() {
            break;
        }
    }
    assert!(result.is_err(), "an upload to nobody");
    assert!(start.elapsed() < Duration::from_secs(5 * 60), "{:?}", start.elapsed());
    silent.abort();
}

#[tokio::test]
async fn litestream_finds_its_metadata() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(server) = server("metadata of s3", folder.path()).await else { return };
    let vault = open(&server.url("p"), &[], Policy::default()).await;
    let stamp: Moment = "2026-11-21T10:00:00.123Z".parse().expect("a moment");
    vault.create(&key("0000/x"), Bytes::from_static(b"n"), Some(stamp)).await.expect("create");
    let found = vault.head(&key("0000/x")).await.expect("head").expect("there");
    assert_eq!(found.stamp, Some(stamp));
    assert_ne!(found.modified, stamp, "the store's own time stays apart");
    assert!(folder.path().join(BUCKET).join("p/0000/x").is_file(), "the key is the path and the name");
}

/// Passes bytes on to `port`, and cuts each connection after `most` bytes of answers.
async fn cutting_proxy(port: u16, most: u64) -> u16 {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let own = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let Ok(server) = tokio::net::TcpStream::connect(("127.0.0.1", port)).await else { return };
                let (mut from_client, mut to_client) = client.into_split();
                let (from_server, mut to_server) = server.into_split();
                let forth = tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
                let _ = tokio::io::copy(&mut from_server.take(most), &mut to_client).await;
                forth.abort();
            });
        }
    });
    own
}

/// Passes bytes on to `port`, and closes the connection instead for requests of the numbers in `refused`, from 0.
async fn refusing_proxy(port: u16, refused: std::ops::Range<usize>) -> u16 {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let own = listener.local_addr().expect("an address").port();
    let asked = Arc::new(AtomicUsize::new(0));
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (asked, refused) = (asked.clone(), refused.clone());
            tokio::spawn(async move {
                let Ok(server) = tokio::net::TcpStream::connect(("127.0.0.1", port)).await else { return };
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) = server.into_split();
                let back = tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
                let mut buffer = vec![0; 1 << 16];
                while let Ok(size @ 1..) = from_client.read(&mut buffer).await {
                    let starts = |method: &&str| buffer[..size].starts_with(method.as_bytes());
                    let new = ["PUT /", "POST /", "GET /", "HEAD /", "DELETE /"].iter().any(starts);
                    if new && refused.contains(&asked.fetch_add(1, Ordering::Relaxed)) {
                        break;
                    }
                    if to_server.write_all(&buffer[..size]).await.is_err() {
                        break;
                    }
                }
                back.abort();
            });
        }
    });
    own
}

#[tokio::test]
async fn an_upload_in_parts_is_whole_whichever_requests_broke() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(server) = server("broken uploads of s3", folder.path()).await else { return };
    let bytes: Bytes = (0..1_400_000_u32).flat_map(u32::to_be_bytes).collect::<Vec<u8>>().into();
    let direct = open(&server.url("p"), &[], Policy::default()).await;
    let port = server.endpoint().rsplit_once(':').and_then(|(_, port)| port.parse().ok()).expect("a port");
    let (id, secret) = KEYS;
    let quick = Policy { backoff: Duration::from_millis(1), attempts: 5, ..Policy::default() };
    for first in 0..5 {
        for count in 1..4 {
            let proxy = refusing_proxy(port, first..first + count).await;
            let url = format!("s3://{id}:{secret}@{BUCKET}.127.0.0.1:{proxy}/p?part-size=5MiB");
            let vault = open(&url, &[], quick.clone()).await;
            let key = key(&format!("{first}-{count}"));
            let mut upload = vault.upload(&key, None);
            for part in [0..5 << 20, 5 << 20..bytes.len()] {
                upload.write(bytes.slice(part)).await.expect("write");
            }
            upload.finish().await.expect("finish");
            let found = direct.read(&key, None, bytes.len() as u64 + 1).await.expect("read");
            assert_eq!(found.len(), bytes.len(), "{count} requests refused from {first}");
            assert!(found == bytes, "{count} requests refused from {first}");
        }
    }
}

#[tokio::test]
async fn reads_go_on_where_a_connection_broke() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(server) = server("broken reads of s3", folder.path()).await else { return };
    let bytes: Bytes = (0..3_000_000_u32).flat_map(u32::to_be_bytes).collect::<Vec<u8>>().into();
    let direct = open(&server.url("p"), &[], Policy::default()).await;
    direct.create(&key("x"), bytes.clone(), None).await.expect("create");
    let port = server.endpoint().rsplit_once(':').and_then(|(_, port)| port.parse().ok()).expect("a port");
    let proxy = cutting_proxy(port, 1_000_000).await;
    let (id, secret) = KEYS;
    let quick = Policy { backoff: Duration::from_millis(1), ..Policy::default() };
    let vault = open(&format!("s3://{id}:{secret}@{BUCKET}.127.0.0.1:{proxy}/p"), &[], quick).await;
    assert_eq!(vault.read(&key("x"), None, 12_000_000).await.expect("read"), bytes);
    let counts = vault.counts();
    assert!(counts.get >= 12 && counts.retries >= 11, "{counts:?}");
    let range = 1_500_000..9_000_001;
    assert_eq!(vault.read(&key("x"), Some(range), 12_000_000).await.expect("read"), bytes[1_500_000..9_000_001]);
}
