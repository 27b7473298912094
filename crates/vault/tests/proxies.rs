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
