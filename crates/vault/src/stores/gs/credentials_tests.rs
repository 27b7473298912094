//! Tokens for each kind of credentials, against a server that answers as Google's do.

use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{Request, Response};
use opendal_core::HttpTransporter;
use opendal_http_transport_reqwest::ReqwestTransport;
use serde_json::json;

use super::*;
use crate::PlaceSettings as _;
use crate::testing::http::{Served, reply, serve};

const KEY: &str = include_str!("test_key.pem");

/// A server that gives tokens, and the bodies of the requests that it got.
async fn google() -> (Served, Arc<Mutex<Vec<String>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&asked);
    let served = serve(move |request| std::future::ready(answer(&kept, &request))).await;
    (served, asked)
}

fn answer(asked: &Mutex<Vec<String>>, request: &Request<Bytes>) -> Response<Bytes> {
    let body = String::from_utf8_lossy(request.body()).into_owned();
    asked.lock().expect("no panic").push(body.clone());
    let token = |text: &str| {
        reply(
            200,
            json!({ "access_token": text, "expires_in": 3600, "issued_token_type":
        "urn:ietf:params:oauth:token-type:access_token", "token_type": "Bearer" })
            .to_string(),
        )
    };
    let metadata = request.headers().get("metadata-flavor").is_some_and(|value| value == "Google");
    match request.uri().path() {
        "/token" if body.contains("jwt-bearer") => token("of-account"),
        "/token" if body.contains("refresh_token=login") => token("of-user"),
        "/token" => reply(400, json!({ "error": "invalid_grant" }).to_string()),
        "/sts" if body.contains("subject-1") => token("of-other-1"),
        "/sts" if body.contains("subject-2") => token("of-other-2"),
        "/computeMetadata/v1/instance/service-accounts/default/token" if metadata => token("of-machine"),
        _ => reply(403, "no"),
    }
}

#[derive(Debug)]
struct Disk;

impl reqsign_core::FileRead for Disk {
    async fn file_read(&self, path: &str) -> reqsign_core::Result<Vec<u8>> {
        std::fs::read(path).map_err(|error| reqsign_core::Error::unexpected(error.to_string()))
    }
}

fn context() -> Context {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let transport = HttpTransporter::new(ReqwestTransport::new(client));
    Context::new().with_file_read(Disk).with_http_send(transport)
}

fn tokens(source: Source, login: Option<String>, metadata: Option<String>) -> Tokens {
    Tokens { source, login, metadata, reason: Reason::default() }
}

async fn token(tokens: &Tokens) -> Result<String, String> {
    match tokens.provide_credential(&context()).await {
        Ok(found) => Ok(found.and_then(|found| found.token).expect("a token").access_token),
        Err(_) => Err(tokens.reason.get().expect("a reason")),
    }
}

fn account(server: &Served) -> Value {
    json!({ "type": "service_account", "client_email": "backup@p.iam", "private_key": KEY,
        "token_uri": format!("{}/token", server.endpoint()) })
}

#[tokio::test]
async fn the_key_of_a_service_account_is_exchanged_at_its_own_server() {
    let (server, asked) = google().await;
    let tokens = tokens(Source::Text(Secret::new(account(&server).to_string())), None, None);
    assert_eq!(token(&tokens).await.as_deref(), Ok("of-account"));
    let body = asked.lock().expect("no panic").pop().expect("a request");
    let assertion = form_urlencoded::parse(body.as_bytes()).find(|(name, _)| name == "assertion").expect("one").1;
    let claims = assertion.split('.').nth(1).expect("claims");
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).expect("base64")).expect("JSON");
    assert_eq!((&claims["iss"], &claims["scope"]), (&json!("backup@p.iam"), &json!(SCOPE)));
    assert_eq!(claims["aud"], format!("{}/token", server.endpoint()));
}

#[tokio::test]
async fn a_file_is_read_again_for_each_token() {
    let (server, _) = google().await;
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let tokens = tokens(Source::File(path("credentials.json")), None, None);
    let user = |login: &str| {
        json!({ "type": "authorized_user", "client_id": "i", "client_secret": "hunter2", "refresh_token": login,
            "token_uri": format!("{}/token", server.endpoint()) })
    };
    let other = |subject: &str| {
        std::fs::write(path(subject), subject).expect("written");
        json!({ "type": "external_account", "audience": "a", "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
            "token_url": format!("{}/sts", server.endpoint()),
            "credential_source": { "file": path(subject), "format": { "type": "text" } } })
    };
    let none = token(&tokens).await.expect_err("no file");
    assert!(none.contains("credentials.json"), "{none}");
    for (text, expected) in [
        (account(&server).to_string(), Ok("of-account")),
        (user("login").to_string(), Ok("of-user")),
        (user("revoked").to_string(), Err("refused a token (400 Bad Request: invalid_grant)")),
        (other("subject-1").to_string(), Ok("of-other-1")),
        (other("subject-2").to_string(), Ok("of-other-2")),
        ("hunter2".to_owned(), Err("these are no credentials")),
    ] {
        std::fs::write(path("credentials.json"), &text).expect("written");
        match (token(&tokens).await, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(found), Err(expected)) => {
                assert!(found.contains(expected) && !found.contains("hunter2"), "{found}");
            }
            (found, expected) => panic!("{found:?}, not {expected:?}"),
        }
    }
}

#[tokio::test]
async fn without_a_login_the_machine_has_a_token() {
    let (server, _) = google().await;
    let folder = tempfile::tempdir().expect("a folder");
    let login = folder.path().join("login.json");
    let tokens = tokens(Source::Ambient, Some(login.display().to_string()), Some(server.host()));
    assert_eq!(token(&tokens).await.as_deref(), Ok("of-machine"));
    std::fs::write(&login, account(&server).to_string()).expect("written");
    assert_eq!(token(&tokens).await.as_deref(), Ok("of-account"));
    std::fs::write(&login, "{}").expect("written");
    assert!(token(&tokens).await.is_err(), "a login that is broken is not passed over");
}

#[tokio::test]
async fn requests_carry_the_token() {
    let (server, _) = google().await;
    let bearers = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&bearers);
    let bucket = serve(move |request: Request<Bytes>| {
        let bearer = request.headers().get("authorization").and_then(|value| value.to_str().ok()).map(str::to_owned);
        kept.lock().expect("no panic").push(bearer);
        std::future::ready(reply(200, "{}"))
    })
    .await;
    let mut settings = GsSettings { bucket: "b".into(), path: "p".into(), ..GsSettings::default() };
    settings.set("endpoint", &bucket.endpoint()).expect("a server");
    settings.set("credentials", &account(&server).to_string()).expect("credentials");
    let policy = crate::Policy::default();
    let store = super::super::GsStore::connect(&settings, &Environment::empty(), &policy).await.expect("a store");
    for _ in 0..2 {
        crate::Store::list(&store, &crate::Prefix::all(), None, 1).await.expect("listed");
    }
    let bearer = Some("Bearer of-account".to_owned());
    assert_eq!(*bearers.lock().expect("no panic"), [bearer.clone(), bearer]);
}
