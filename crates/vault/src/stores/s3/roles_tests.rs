//! Roles of instances, containers and web identities, against a server that answers as AWS's do.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Method, Request, Response};
use opendal_core::HttpTransporter;
use opendal_http_transport_reqwest::ReqwestTransport;

use super::*;
use crate::testing::http::{Served, reply, serve};

const EXPIRATION: &str = "2099-01-01T00:00:00Z";

/// A server that gives roles, and the requests that it got.
async fn roles() -> (Served, Arc<Mutex<Vec<String>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&asked);
    let served = serve(move |request| std::future::ready(answer(&kept, &request))).await;
    (served, asked)
}

fn answer(asked: &Mutex<Vec<String>>, request: &Request<Bytes>) -> Response<Bytes> {
    let path = request.uri().path();
    asked.lock().expect("no panic").push(format!("{} {path}", request.method()));
    let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let keys = |id: &str| {
        format!(
            "{{\"Code\":\"Success\",\"AccessKeyId\":\"{id}\",\"SecretAccessKey\":\"k\",\"Token\":\"t\",\"Expiration\":\"{EXPIRATION}\"}}"
        )
    };
    match (request.method(), path) {
        (&Method::PUT, "/latest/api/token") => reply(200, "session"),
        (&Method::GET, "/latest/meta-data/iam/security-credentials/")
            if header("x-aws-ec2-metadata-token") == "session" =>
        {
            reply(200, "the-role")
        }
        (&Method::GET, "/latest/meta-data/iam/security-credentials/the-role")
            if header("x-aws-ec2-metadata-token") == "session" =>
        {
            reply(200, keys("of-instance"))
        }
        (&Method::GET, "/container") if header("authorization") == "container-token" => {
            reply(200, keys("of-container"))
        }
        (&Method::POST, "/") if String::from_utf8_lossy(request.body()).contains("web-token") => reply(
            200,
            format!(
                "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>\
                 <AccessKeyId>of-identity</AccessKeyId><SecretAccessKey>k</SecretAccessKey>\
                 <SessionToken>t</SessionToken><Expiration>{EXPIRATION}</Expiration></Credentials>\
                 </AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
            ),
        ),
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

fn context(pairs: &[(&str, String)]) -> Context {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let nowhere = [("AWS_SHARED_CREDENTIALS_FILE", "/none".to_owned()), ("AWS_CONFIG_FILE", "/none".to_owned())];
    let envs = nowhere.iter().chain(pairs).map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    Context::new()
        .with_file_read(Disk)
        .with_env(reqsign_core::StaticEnv { home_dir: None, envs })
        .with_http_send(HttpTransporter::new(ReqwestTransport::new(client)))
}

#[tokio::test]
async fn roles_of_instances_containers_and_web_identities() {
    let (server, asked) = roles().await;
    let folder = tempfile::tempdir().expect("a folder");
    let token = folder.path().join("token");
    std::fs::write(&token, "web-token").expect("written");
    let metadata = ("AWS_EC2_METADATA_SERVICE_ENDPOINT", server.endpoint());
    let container = [
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", format!("{}/container", server.endpoint())),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "container-token".to_owned()),
    ];
    let identity = [
        ("AWS_WEB_IDENTITY_TOKEN_FILE", token.display().to_string()),
        ("AWS_ROLE_ARN", "arn:aws:iam::1:role/backup".to_owned()),
        ("AWS_ENDPOINT_URL_STS", server.endpoint()),
    ];
    let with = |more: &[(&'static str, String)]| [std::slice::from_ref(&metadata), more].concat();
    for (variables, expected, requests) in [
        (with(&[]), "of-instance", 3),
        (with(&container), "of-container", 1),
        (with(&identity), "of-identity", 1),
        (with(&[&identity[..], &container].concat()), "of-identity", 1),
    ] {
        asked.lock().expect("no panic").clear();
        let reason = Reason::default();
        let found = Sources::new(usual(), reason.clone()).provide_credential(&context(&variables)).await;
        let found = found.unwrap_or_else(|error| panic!("{expected}: {error} {:?} {asked:?}", reason.get()));
        let found = found.expect("keys");
        assert_eq!((found.access_key_id.as_str(), found.session_token.as_deref()), (expected, Some("t")));
        let asked = asked.lock().expect("no panic").clone();
        assert_eq!(asked.len(), requests, "{asked:?}");
    }
}

#[tokio::test]
async fn a_token_goes_to_no_server_without_tls_that_is_far() {
    let folder = tempfile::tempdir().expect("a folder");
    let token = folder.path().join("token");
    std::fs::write(&token, "web-token").expect("written");
    let context = context(&[
        ("AWS_WEB_IDENTITY_TOKEN_FILE", token.display().to_string()),
        ("AWS_ROLE_ARN", "arn:aws:iam::1:role/backup".to_owned()),
        ("AWS_ENDPOINT_URL_STS", "http://sts.example.com".to_owned()),
    ]);
    let refused = WebIdentity.provide_credential(&context).await.expect_err("no TLS");
    assert!(refused.to_string().contains("AWS_ENDPOINT_URL_STS has no https"), "{refused}");
}
