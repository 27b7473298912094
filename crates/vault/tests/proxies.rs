//! Requests of every kind of store go through the proxy that the environment names. The environment belongs to a process,
//! so each question is asked by a process of its own: this test's program, started again.

#![allow(clippy::disallowed_methods, reason = "tests are an edge")]

use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use http::Method;
use seawall_vault::testing::http::{Served, reply, serve};
use seawall_vault::{Environment, Error, ObjectKey, Policy, Prefix, Vault, VaultUrl};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;

/// The variable that tells the second process which place to ask.
const PLACE: &str = "SEAWALL_TEST_PLACE";

/// A proxy that refuses everything, and the first line of each request.
async fn proxy() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let asked = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let kept = Arc::clone(&kept);
            tokio::spawn(async move {
                let mut stream = BufReader::new(stream);
                let mut line = String::new();
                if stream.read_line(&mut line).await.is_ok() && !line.is_empty() {
                    kept.lock().expect("no panic").push(line.trim().to_owned());
                    let refusal = b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
                    let _ = stream.write_all(refusal).await;
                }
            });
        }
    });
    (address, asked)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_of_store_goes_through_the_proxy() {
    let keys = "access-key-id=i&secret-access-key=k";
    for (place, host) in [
        (format!("s3://b/p?endpoint=SCHEME://store.example&region=r&{keys}"), "store.example"),
        (format!("b2://b/p?endpoint=SCHEME://store.example&region=r&{keys}"), "store.example"),
        (format!("oss://bkt/p?endpoint=SCHEME://store.example&region=r&{keys}"), "bkt.store.example"),
        ("abs://a@c/p?endpoint=SCHEME://store.example&account-key=a2V5".to_owned(), "store.example"),
        // A near server, which is asked without a token.
        ("gs://b/p?endpoint=SCHEME://store.local".to_owned(), "store.local"),
    ] {
        for (scheme, begins) in [("http", "http://"), ("https", "CONNECT ")] {
            let (address, asked) = proxy().await;
            let place = place.replace("SCHEME", scheme);
            let ask = async |more: &[(&str, &str)]| {
                let mut child = Command::new(std::env::current_exe().expect("this program"));
                child.args(["--exact", "asks_a_place", "--ignored"]).env(PLACE, &place).stdout(Stdio::null());
                child
                    .env("HTTP_PROXY", &address)
                    .env("HTTPS_PROXY", &address)
                    .env_remove("NO_PROXY")
                    .env_remove("no_proxy");
                child.envs(more.iter().copied());
                let status = tokio::task::spawn_blocking(move || child.status()).await.expect("asked");
                assert!(status.expect("the program starts").success(), "{place}");
                std::mem::take(&mut *asked.lock().expect("no panic"))
            };
            let lines = ask(&[]).await;
            assert!(!lines.is_empty(), "{place} went past the proxy");
            for line in &lines {
                assert!(line.contains(begins) && line.contains(host), "{place}: {line}");
            }
            let lines = ask(&[("NO_PROXY", "store.example,store.local")]).await;
            assert!(lines.is_empty(), "{place}: {lines:?}");
        }
    }
}

/// A proxy would ask the service of its own machine for the role.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_role_of_a_machine_is_asked_for_past_the_proxy() {
    for place in [
        "s3://b/p?endpoint=http://store.example&region=r",
        "gs://b/p?endpoint=http://store.example",
        "oss://bkt/p?endpoint=http://store.example&region=r",
    ] {
        let (address, asked) = proxy().await;
        let mut child = Command::new(std::env::current_exe().expect("this program"));
        child.args(["--exact", "asks_a_place", "--ignored"]).env_clear().env(PLACE, place).stdout(Stdio::null());
        child.env("HOME", "/nonexistent").env("HTTP_PROXY", &address).env("HTTPS_PROXY", &address);
        let status = tokio::task::spawn_blocking(move || child.status()).await.expect("asked");
        assert!(status.expect("the program starts").success(), "{place}");
        let lines = std::mem::take(&mut *asked.lock().expect("no panic"));
        let of_machine = |line: &&String| ["169.254.", "100.100.", "metadata."].iter().any(|host| line.contains(host));
        assert_eq!(lines.iter().find(of_machine), None, "{place}");
    }
}

/// Not a test: what the second process does.
#[tokio::test]
#[ignore = "the other test starts this"]
async fn asks_a_place() {
    let Ok(place) = std::env::var(PLACE) else { return };
    let policy = Policy { attempts: 1, ..Policy::default() };
    let place = VaultUrl::parse(&place).expect("a place");
    let vault = Vault::open(&place, &Environment::empty(), policy).await.expect("a vault");
    assert!(vault.list(&Prefix::all(), None).await.is_err(), "nothing answers");
}

/// A server without objects. Everything else is answered with success: by a web page, as the login page of a network does,
/// or by nothing at all.
async fn pretends(page: bool) -> Served {
    serve(move |request| async move {
        match *request.method() {
            Method::GET | Method::HEAD => reply(404, ""),
            _ if request.method().as_str() == "PROPFIND" => reply(404, ""),
            _ if !page => reply(200, ""),
            _ => {
                let mut answer = reply(200, "<!DOCTYPE html><html><body>Please log in</body></html>");
                let headers = answer.headers_mut();
                headers.insert("content-type", "text/html; charset=utf-8".parse().expect("a value"));
                headers.insert("etag", "\"page\"".parse().expect("a value"));
                answer
            }
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_success_that_is_not_the_stores_acknowledges_nothing() {
    for page in [true, false] {
        let server = pretends(page).await;
        let (endpoint, keys) = (server.endpoint(), "access-key-id=i&secret-access-key=k");
        let mut places = vec![
            format!("s3://bkt/p?endpoint={endpoint}&region=r&{keys}"),
            format!("oss://bkt/p?endpoint={endpoint}&region=r&{keys}"),
            format!("abs://a@container/p?endpoint={endpoint}/a&account-key=a2V5"),
            format!("gs://bkt/p?endpoint={endpoint}"),
        ];
        // WebDAV knows no answer by which a server could be told.
        if page {
            places.push(format!("webdav://{}/p", server.host()));
        }
        for place in places {
            let url = VaultUrl::parse(&place).expect("a place");
            let policy = Policy { attempts: 1, ..Policy::default() };
            let vault = Vault::open(&url, &Environment::empty(), policy).await.expect("a vault");
            let key = ObjectKey::new("0000/x").expect("a key");
            let written = vault.create(&key, "bytes".into(), None).await;
            assert!(written.is_err(), "{place}: {written:?}");
            if page {
                let Err(Error::Unavailable { cause, retryable: true, .. }) = &written else {
                    unreachable!("{place}: {written:?}")
                };
                assert!(cause.contains("a web page came instead"), "{place}: {cause}");
            }
        }
    }
}

/// A server of S3 whose listing never ends. `name` gives the names of a page, by the page's number and the name's number in it.
async fn endless(name: impl Fn(usize, usize) -> String + Send + Sync + 'static) -> Served {
    let (pages, name) = (Arc::new(Mutex::new(0)), Arc::new(name));
    serve(move |request| {
        let (pages, name) = (Arc::clone(&pages), Arc::clone(&name));
        async move {
            if !request.uri().query().is_some_and(|query| query.contains("list-type")) {
                return reply(404, "<Error><Code>NoSuchKey</Code></Error>");
            }
            let page = {
                let mut pages = pages.lock().expect("no panic");
                *pages += 1;
                *pages
            };
            let object = |number| {
                let name = name(page, number);
                format!(
                    "<Contents><Key>{name}</Key><LastModified>2026-11-20T10:00:00.000Z</LastModified><ETag>&quot;e&quot;</ETag>\
                     <Size>300</Size></Contents>"
                )
            };
            let objects: String = (0..1000).map(object).collect();
            reply(200, format!(
                "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t{page}</NextContinuationToken>{objects}\
                 </ListBucketResult>"
            ))
        }
    })
    .await
}

/// Memory is bounded, and so is the time (I5, I7, I11).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listing_that_never_ends_is_given_up() {
    use futures::TryStreamExt as _;
    type Name = fn(usize, usize) -> String;
    let (always_new, same, elsewhere): (Name, Name, Name) = (
        |page, number| format!("p/{page:08}-{number:04}"),
        |_, number| format!("p/{number:04}"),
        |page, number| format!("other/{page:08}-{number:04}"),
    );
    for (name, told) in [(always_new, "vault.endless"), (same, "vault.corrupt"), (elsewhere, "vault.corrupt")] {
        let server = endless(name).await;
        let place = format!("s3://bkt/p?endpoint={}&region=r&access-key-id=i&secret-access-key=k", server.endpoint());
        let policy = Policy { attempts: 1, ..Policy::default() };
        let url = VaultUrl::parse(&place).expect("a place");
        let vault = Vault::open(&url, &Environment::empty(), policy).await.expect("a vault");
        let listed: Result<Vec<_>, Error> = vault.entries_up_to(&Prefix::all(), None, 5000).try_collect().await;
        let failure = seawall_core::Failure::from(listed.expect_err("it never ends"));
        assert_eq!(failure.code, told, "{failure:?}");
        assert!(failure.cause.contains("listing"), "{failure:?}");
    }
}
