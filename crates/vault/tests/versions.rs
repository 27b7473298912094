//! A versioned bucket, read as it was stored at a moment; against a real server.

#![allow(clippy::disallowed_methods, reason = "tests are an edge")]

use bytes::Bytes;
use seawall_core::{Clock as _, Failure, Moment, SystemClock};
use seawall_vault::testing::S3Server;
use seawall_vault::{Environment, Error, ObjectKey, Policy, Prefix, Vault, VaultUrl};

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(name).expect("a sound name")
}

async fn open(url: &VaultUrl) -> Vault {
    Vault::open(url, &Environment::empty(), Policy::default()).await.expect("opens without a request")
}

/// A moment behind everything that was stored, once the server's clock, of whole seconds, is past it.
async fn moment() -> Moment {
    let now = SystemClock.now();
    let end = now.after(std::time::Duration::from_millis(1100));
    while SystemClock.now() < end {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    now
}

async fn content(vault: &Vault, prefix: &str) -> Vec<(String, Bytes)> {
    let mut all = Vec::new();
    for entry in vault.list(&Prefix::new(prefix).expect("a prefix"), None).await.expect("a listing") {
        let bytes = vault.read(&entry.key, None, 1 << 20).await.expect("an object");
        assert_eq!(bytes.len() as u64, entry.size, "{}", entry.key);
        all.push((entry.key.to_string(), bytes));
    }
    all
}

#[tokio::test]
async fn a_bucket_is_read_as_it_was_stored() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(server) = S3Server::start_versioned("versions of s3", folder.path()).await else { return };
    server.keep_versions().await;
    let url = VaultUrl::parse(&server.url("some path/p")).expect("a URL");
    let vault = open(&url).await;
    let names: Vec<_> = (0..30).map(|n| format!("{:02}/object {n}", n % 7)).collect();
    for name in &names {
        vault.put(&key(name), Bytes::from(format!("first {name}")), None).await.expect("put");
    }
    vault.put(&key("00/gone before"), Bytes::from_static(b"x"), None).await.expect("put");
    vault.delete(&[key("00/gone before")]).await.expect("deleted");
    let before = content(&vault, "").await;
    assert_eq!(before.len(), 30);
    let at = moment().await;

    // Somebody overwrites, deletes, and adds.
    for (index, name) in names.iter().enumerate() {
        for round in 0..index % 4 {
            vault.put(&key(name), Bytes::from(format!("garbage {round}")), None).await.expect("put");
        }
        if index % 3 == 0 {
            vault.delete(&[key(name)]).await.expect("deleted");
        }
    }
    for n in 0..40 {
        vault.put(&key(&format!("03/added {n}")), Bytes::from_static(b"garbage"), None).await.expect("put");
    }
    assert_ne!(content(&vault, "").await, before);

    let past = open(&url.as_stored_at(at).expect("a place of S3")).await;
    assert_eq!(content(&past, "").await, before);
    let inside = |prefix: &str| before.iter().filter(|(name, _)| name.starts_with(prefix)).cloned().collect::<Vec<_>>();
    assert_eq!(content(&past, "03/").await, inside("03/"));
    let after = past.list(&Prefix::all(), Some(&key("03/object 10"))).await.expect("a listing");
    let expected: Vec<_> = before.iter().map(|(name, _)| name).filter(|name| name.as_str() > "03/object 10").collect();
    assert_eq!(after.iter().map(|entry| entry.key.as_str()).collect::<Vec<_>>(), expected);

    // By name alone, without a listing before it.
    let past = open(&url.as_stored_at(at).expect("a place of S3")).await;
    for (name, bytes) in &before {
        assert_eq!(past.read(&key(name), None, 1 << 20).await.expect("an object"), bytes);
        let meta = past.head(&key(name)).await.expect("an answer").expect("an object");
        assert_eq!(meta.size, bytes.len() as u64);
        assert!(meta.digest.is_some(), "metadata are of the same version");
        assert_eq!(past.read(&key(name), Some(2..5), 3).await.expect("a range"), bytes.slice(2..5));
    }
    for name in ["03/added 1", "00/gone before", "never there"] {
        assert_eq!(past.head(&key(name)).await.expect("an answer"), None, "{name}");
    }

    // Nothing is written there.
    let code = |error: Error| Failure::from(error).code;
    let refused = past.put(&key("x"), Bytes::from_static(b"x"), None).await.expect_err("read only");
    assert_eq!(code(refused), "vault.read-only");
    assert_eq!(code(past.delete(&[key(&names[1])]).await.expect_err("read only")), "vault.read-only");
    assert!(!past.needs_probe());

    let earlier = at.before(std::time::Duration::from_secs(3600));
    let empty = open(&url.as_stored_at(earlier).expect("a place of S3")).await;
    assert_eq!(content(&empty, "").await, []);
}

#[tokio::test]
async fn pages_of_versions_are_joined() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(server) = S3Server::start_versioned("pages of versions", folder.path()).await else { return };
    server.keep_versions().await;
    let url = VaultUrl::parse(&server.url("p")).expect("a URL");
    let vault = open(&url).await;
    let mut first = Moment::default();
    for round in 0..5 {
        for name in ["a", "b/1", "b/2", "c"] {
            vault.put(&key(name), Bytes::from(format!("{name} {round}")), None).await.expect("put");
        }
        if round == 0 {
            first = moment().await;
        }
    }
    let past = url.as_stored_at(first).expect("a place of S3");
    // Pages that are smaller than the versions of one name.
    for limit in [1, 2, 3, 7, 1000] {
        let store = seawall_vault::testing::store(&past).await;
        let (mut names, mut behind) = (Vec::new(), None);
        loop {
            let page = store.list(&Prefix::all(), behind.as_ref(), limit).await.expect("a page");
            for entry in &page.entries {
                assert_eq!(entry.size, entry.key.as_str().len() as u64 + 2);
                names.push(entry.key.to_string());
            }
            match page.next {
                Some(next) => behind = Some(next),
                None => break,
            }
        }
        assert_eq!(names, ["a", "b/1", "b/2", "c"], "{limit} a page");
    }
}

#[tokio::test]
async fn a_place_without_versions_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(server) = S3Server::start_versioned("a bucket without versions", folder.path()).await else { return };
    let at = SystemClock.now();
    let url = VaultUrl::parse(&server.url("p")).expect("a URL");
    let past = open(&url.as_stored_at(at).expect("a place of S3")).await;
    let error = past.list(&Prefix::all(), None).await.expect_err("no versions");
    assert_eq!(Failure::from(error).code, "vault.no-versions");
    let error = past.read(&key("x"), None, 10).await.expect_err("no versions");
    assert_eq!(Failure::from(error).code, "vault.no-versions");

    // A server that knows none at all.
    let plain = tempfile::tempdir().expect("a folder");
    let Some(server) = S3Server::start("a server without versions", plain.path()).await else { return };
    let url = VaultUrl::parse(&server.url("p")).expect("a URL");
    let past = open(&url.as_stored_at(at).expect("a place of S3")).await;
    let error = past.list(&Prefix::all(), None).await.expect_err("no versions");
    assert_eq!(Failure::from(error).code, "vault.no-versions");

    for place in ["/backup", "abs://account@container/path"] {
        let error = VaultUrl::parse(place).expect("a place").as_stored_at(at).expect_err("no versions");
        assert_eq!(Failure::from(error).code, "vault.no-versions", "{place}");
    }
}

#[tokio::test]
async fn locks_are_renewed_as_long_as_the_settings_ask() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(server) = S3Server::start_versioned("renewed locks of s3", folder.path()).await else { return };
    let day = std::time::Duration::from_secs(86_400);
    let at = |bucket: &str, more: &str| server.url("p").replace("s3://bucket/", &format!("s3://{bucket}/")) + more;
    let asking = "&object-lock-keep=30d";
    let now = SystemClock.now();
    for (bucket, mode) in [("soft", "GOVERNANCE"), ("hard", "COMPLIANCE")] {
        server.add_locking(bucket, mode, Some(1)).await;
        let plain = open(&VaultUrl::parse(&at(bucket, "")).expect("a URL")).await;
        plain.put(&key("x"), Bytes::from_static(b"x"), None).await.expect("put");
        server.lock(bucket, "p/x", mode, now.after(day)).await;
        plain.put(&key("y"), Bytes::from_static(b"y"), None).await.expect("put");
        assert_eq!(plain.renews().await, Ok(false));
        assert_eq!(plain.renew(&[key("x")], now).await, Ok(None), "nothing asks for it");
        let vault = open(&VaultUrl::parse(&at(bucket, asking)).expect("a URL")).await;
        assert_eq!(vault.renews().await, Ok(true));
        let both = [key("x"), key("y")];
        let until = vault.renew(&both, now).await.expect("renewed").expect("an end");
        assert!(until >= now.after(30 * day), "{until}");
        let told = vault.locks(&both, now).await.expect("an answer").expect("locks");
        assert_eq!(told.locked, 2, "{told:?}");
        assert!(told.until.expect("an end") >= now.after(30 * day), "{told:?}");
        assert_eq!(vault.limits(), plain.limits());
        // A day later the locks still last long enough; after twenty days they are renewed.
        let later = |days: u32| now.after(days * day);
        assert_eq!(vault.renew(&both, later(1)).await, Ok(Some(until)));
        assert!(vault.renew(&both, later(20)).await.expect("renewed").expect("an end") >= later(50));
        // Retention learns of each lock.
        let ends = vault.locked_until(&[key("x"), key("missing")], now).await.expect("an answer");
        assert!(ends[0].is_some_and(|end| end >= later(50)) && ends[1].is_none(), "{ends:?}");
        assert_eq!(vault.locked_until(&[key("x")], later(99)).await, Ok(vec![None]));
    }
    // A bucket without Object Lock: the failure is told, also when nothing is left to renew.
    let vault = open(&VaultUrl::parse(&at("bucket", asking)).expect("a URL")).await;
    vault.put(&key("x"), Bytes::from_static(b"x"), None).await.expect("put");
    let lacks = || vault.limits().into_iter().map(|limit| limit.lacks).collect::<Vec<String>>();
    assert_eq!(lacks(), Vec::<String>::new());
    vault.renew(&[key("x")], now).await.expect_err("no Object Lock");
    assert_eq!(lacks(), ["renewed-locks"]);
    assert_eq!((vault.renews().await, vault.renew(&[], now).await), (Ok(true), Ok(None)));
    assert_eq!(lacks(), ["renewed-locks"]);
}

#[tokio::test]
async fn versions_and_locks_of_a_bucket_are_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(server) = S3Server::start_versioned("locks of s3", folder.path()).await else { return };
    let day = std::time::Duration::from_secs(86_400);
    let at = |bucket: &str| server.url("p").replace("s3://bucket/", &format!("s3://{bucket}/"));
    let vault = open(&VaultUrl::parse(&at("bucket")).expect("a URL")).await;
    vault.put(&key("x"), Bytes::from_static(b"x"), None).await.expect("put");
    let told = vault.protection().await.expect("an answer");
    assert_eq!((told.versions, told.locks, told.each), (Some(false), Some(false), None));
    assert_eq!(vault.locks(&[key("x")], SystemClock.now()).await, Ok(None));

    server.keep_versions().await;
    let vault = open(&VaultUrl::parse(&at("bucket")).expect("a URL")).await;
    let told = vault.protection().await.expect("an answer");
    assert_eq!((told.versions, told.locks, told.each), (Some(true), Some(false), None));
    let locks = vault.locks(&[key("x")], SystemClock.now()).await.expect("an answer").expect("versions");
    assert_eq!((locks.versions, locks.objects, locks.locked, locks.until), (Some(true), 1, 0, None));

    server.add_locking("locking", "COMPLIANCE", Some(3)).await;
    let vault = open(&VaultUrl::parse(&at("locking")).expect("a URL")).await;
    let before = SystemClock.now();
    for name in ["x", "y"] {
        vault.put(&key(name), Bytes::from_static(b"x"), None).await.expect("put");
        server.lock("locking", &format!("p/{name}"), "COMPLIANCE", before.after(3 * day)).await;
    }
    let told = vault.protection().await.expect("an answer");
    assert_eq!((told.versions, told.locks, told.span()), (Some(true), Some(true), 3 * day));
    let asked = vault.counts().head;
    let locks = vault.locks(&[key("x"), key("y")], SystemClock.now()).await.expect("an answer").expect("locks");
    assert_eq!((locks.objects, locks.locked, locks.mode.as_deref()), (2, 2, Some("compliance")));
    let until = locks.until.expect("an end");
    let second = std::time::Duration::from_secs(1);
    assert!(until >= before.after(3 * day - second) && until <= SystemClock.now().after(3 * day + second), "{until}");
    assert_eq!(vault.counts().head - asked, 2, "the place itself is asked once");
    assert_eq!(vault.locks(&[key("x")], until.after(second)).await.expect("an answer").expect("locks").locked, 0);
}
