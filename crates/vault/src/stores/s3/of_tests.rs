//! What tests set in a bucket, and Seawall never does.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{S3Store, url};
use crate::testing::{KEYS, S3Server};
use crate::{Environment, Policy};

/// The checksum of a small body.
fn crc32c(bytes: &[u8]) -> u32 {
    let bit = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
    let byte = |crc: u32, byte: &u8| (0..8).fold(crc ^ u32::from(*byte), |crc, _| bit(crc));
    !bytes.iter().fold(!0, byte)
}

impl S3Server {
    /// Sends a PUT about a bucket, or about an object in it.
    ///
    /// # Panics
    /// When the server refuses it.
    pub async fn put_in(
        &self,
        bucket: &str,
        object: Option<&str>,
        query: &str,
        body: &str,
        headers: &[(&'static str, &str)],
    ) {
        let (id, key) = KEYS;
        let rest = format!("{bucket}/x?endpoint={}&access-key-id={id}&secret-access-key={key}", self.endpoint());
        let settings = url::parse("s3", &rest).expect("the URL of a test server");
        let store = S3Store::connect(&settings, &Environment::empty(), &Policy::default()).await.expect("a store");
        let requests = store.reach().requests().await.expect("a connection");
        let mut headers: Vec<_> = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        // A change of locks is only taken with a checksum.
        headers.push(("x-amz-checksum-crc32c", STANDARD.encode(crc32c(body.as_bytes()).to_be_bytes())));
        let query: Vec<_> = Some((query, "")).filter(|(query, _)| !query.is_empty()).into_iter().collect();
        let answer = requests.send(http::Method::PUT, object, &query, &headers, body.as_bytes().to_vec()).await;
        answer.and_then(|answer| answer.body(bucket)).expect("the server takes it");
    }
}
