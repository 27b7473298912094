//! Uploads to a bucket that is encrypted with a key of AWS KMS.

#![allow(clippy::disallowed_methods, reason = "tests and benches are an edge")]

use bytes::Bytes;
use seawall_vault::testing::{BUCKET, KEYS, S3Server};
use seawall_vault::{Environment, ObjectKey, Policy, Vault, VaultUrl};

/// S3 takes the key with the request that begins an upload, and with no other. So the other requests are signed again, which this
/// server checks; that they are without the key, the tests of the module say.
#[tokio::test]
async fn a_server_takes_what_is_signed_again_on_s3() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(server) = S3Server::start("signatures without the key", folder.path()).await else { return };
    let (id, secret) = KEYS;
    let url = format!(
        "s3://{BUCKET}/p?endpoint={}&region=us-east-1&access-key-id={id}&secret-access-key={secret}&sse-kms-key-id=the-key",
        server.endpoint()
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
        assert_eq!(vault.read(&key, None, 64 << 20).await.expect("read"), expected);
    }
}
