//! Uploads to a bucket that is encrypted with a key of AWS KMS, or with a key of the customer.

#![allow(clippy::disallowed_methods, reason = "tests and benches are an edge")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Method, Request, Response};
use seawall_vault::testing::http::{parameter, reply, serve};
use seawall_vault::testing::{BUCKET, KEYS, S3Server};
use seawall_vault::{Environment, ObjectKey, Policy, Vault, VaultUrl};

/// S3 takes the key with the request that begins an upload, and with no other. So the other requests are signed again, which this
/// server checks; that they are without the key, the tests of the module say.
#[tokio::test]
async fn a_server_takes_what_is_signed_again_on_s3() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(server) = S3Server::start("signatures without the key", folder.path()).await else { return };
    there_and_back(&server.endpoint(), "p", "sse-kms-key-id=the-key").await;
}

/// Writes a small object, and a large one in parts, and reads both. `settings` follow in the URL of the prefix.
async fn there_and_back(endpoint: &str, prefix: &str, settings: &str) -> Vault {
    let (id, secret) = KEYS;
    let url = format!(
        "s3://{BUCKET}/{prefix}?endpoint={endpoint}&region=us-east-1&access-key-id={id}&secret-access-key={secret}&{settings}"
    );
    let policy = Policy { part_size: 5 << 20, seed: 1, ..Policy::default() };
    let url = VaultUrl::parse(&url).expect("a URL");
    let vault = Vault::open(&url, &Environment::empty(), policy).await.expect("opened");
    let (small, large) = (ObjectKey::new("small").expect("a name"), ObjectKey::new("large").expect("a name"));
    let bytes: Bytes = (0..11_u32 << 20).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    vault.create(&small, bytes.slice(..10), None).await.expect("created");
    let mut upload = vault.upload(&large, None);
    upload.write(bytes.clone()).await.expect("written");
    upload.finish().await.expect("complete");
    for (key, expected) in [(small, bytes.slice(..10)), (large, bytes)] {
        assert_eq!(vault.head(&key).await.expect("asked").map(|meta| meta.size), Some(expected.len() as u64));
        assert_eq!(vault.read(&key, None, 64 << 20).await.expect("read"), expected);
    }
    vault
}

/// A bucket that refuses each request that the key of the customer must accompany, as S3 does.
#[derive(Default)]
struct Customers {
    objects: Mutex<BTreeMap<String, Vec<u8>>>,
    classes: Mutex<Vec<(Method, Option<String>)>>,
}

impl Customers {
    fn answer(&self, request: &Request<Bytes>) -> Response<Bytes> {
        let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let query = request.uri().query();
        let given = |name| parameter(query, name).is_some();
        let about_bucket =
            |what: &str| query.is_some_and(|query| query.split('&').any(|word| word.trim_end_matches('=') == what));
        if about_bucket("object-lock") {
            return reply(
                200,
                "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled></ObjectLockConfiguration>",
            );
        }
        if about_bucket("versioning") {
            return reply(200, "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>");
        }
        let (ends, lists) = (*request.method() == Method::POST && given("uploadId"), given("list-type"));
        // S3 needs the key where an object is written, read or asked for, and not to complete an upload or to delete.
        let needs = !ends && !lists && request.method() != Method::DELETE;
        let key = "x-amz-server-side-encryption-customer";
        let sent = ["algorithm", "key", "key-md5"].map(|part| header(&format!("{key}-{part}")).unwrap_or_default());
        if needs && sent != [ALGORITHM, KEY, KEY_MD5] {
            return reply(400, format!("<Error><Code>InvalidArgument</Code><Message>{sent:?}</Message></Error>"));
        }
        if needs && *request.method() != Method::GET && *request.method() != Method::HEAD && !given("partNumber") {
            let class = (request.method().clone(), header("x-amz-storage-class"));
            self.classes.lock().expect("not poisoned").push(class);
        }
        let path = request.uri().path().to_owned();
        let mut objects = self.objects.lock().expect("not poisoned");
        let tagged = |body: Bytes, size: usize| {
            let mut answer = reply(200, body);
            answer.headers_mut().insert("etag", format!("\"{size}\"").parse().expect("a tag"));
            answer.headers_mut().insert("last-modified", "Thu, 26 Nov 2026 00:00:00 GMT".parse().expect("a time"));
            answer
        };
        match *request.method() {
            Method::POST if ends => {
                let part = |name: &String| name.strip_prefix(&format!("{path}#")).is_some();
                let parts: Vec<Vec<u8>> =
                    objects.iter().filter(|(name, _)| part(name)).map(|(_, part)| part.clone()).collect();
                objects.retain(|name, _| !part(name));
                objects.insert(path, parts.concat());
                reply(200, "<CompleteMultipartUploadResult><ETag>\"whole\"</ETag></CompleteMultipartUploadResult>")
            }
            Method::POST => {
                reply(200, "<InitiateMultipartUploadResult><UploadId>one</UploadId></InitiateMultipartUploadResult>")
            }
            Method::PUT => {
                let name = match parameter(query, "partNumber") {
                    Some(part) => format!("{path}#{part:0>6}"),
                    None => path,
                };
                objects.insert(name, request.body().to_vec());
                tagged(Bytes::new(), request.body().len())
            }
            Method::GET | Method::HEAD => match objects.get(&path) {
                Some(object) => {
                    let mut answer = tagged(object.clone().into(), object.len());
                    answer.headers_mut().insert("x-amz-object-lock-legal-hold", "ON".parse().expect("a value"));
                    answer
                }
                None => reply(404, "<Error><Code>NoSuchKey</Code></Error>"),
            },
            _ => reply(204, ""),
        }
    }
}

const ALGORITHM: &str = "AES256";
/// 32 bytes of `k`.
const KEY: &str = "a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s=";
/// Their digest by MD5.
const KEY_MD5: &str = "mT2HRsMGJ5IX5C+0rreZ8Q==";

#[tokio::test]
async fn each_request_carries_the_customers_key_and_new_objects_their_storage_class() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("key");
    std::fs::write(&file, [b'k'; 32]).expect("written");
    let bucket = Arc::new(Customers::default());
    let server = serve({
        let bucket = bucket.clone();
        move |request| std::future::ready(bucket.answer(&request))
    })
    .await;
    let by_file = format!("sse-customer-key-path={}", file.display());
    for (name, setting) in [("a", format!("sse-customer-key={}", KEY.replace('=', "%3D"))), ("b", by_file)] {
        let vault = there_and_back(&server.endpoint(), name, &format!("storage-class=STANDARD_IA&{setting}")).await;
        // Retention asks for the lock of each object, and this server answers nothing without the key.
        let key = ObjectKey::new("small").expect("a name");
        let until = vault.locked_until(&[key], seawall_core::Moment::from_millis(0)).await.expect("asked");
        assert!(until[0].is_some(), "a legal hold is a lock");
    }
    let classes = bucket.classes.lock().expect("not poisoned");
    assert!(classes.iter().any(|(method, _)| *method == Method::POST), "an upload in parts");
    for (method, class) in classes.iter() {
        assert_eq!(class.as_deref(), Some("STANDARD_IA"), "{method}");
    }
}
