//! A vault that is a prefix in a bucket of S3 or a compatible server.
//!
//! Litestream can do three things that OpenDAL can't: sign the hash of payloads (TLS covers them; providers that demand
//! it for plain HTTP aren't supported), use keys that begin with `/` (a vault without a path is refused), and delete a
//! batch without an MD5.

mod as_stored;
mod bucket;
pub(crate) mod connect;
mod credentials;
mod protection;
mod provider;
mod requests;
pub(crate) mod settings;
pub(crate) mod url;
mod versions;
mod web_identity;

pub(crate) use self::connect::open_past;

use self::connect::Connection;
use super::cloud::CloudStore;

/// Objects in a bucket of S3.
pub type S3Store = CloudStore<Connection>;

#[cfg(feature = "testing")]
use base64::{Engine as _, engine::general_purpose::STANDARD};

/// The checksum of a small body.
#[cfg(feature = "testing")]
fn crc32c(bytes: &[u8]) -> u32 {
    let bit = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
    let byte = |crc: u32, byte: &u8| (0..8).fold(crc ^ u32::from(*byte), |crc, _| bit(crc));
    !bytes.iter().fold(!0, byte)
}

#[cfg(feature = "testing")]
impl crate::testing::S3Server {
    /// Sends a PUT about a bucket, to set what Seawall never sets.
    ///
    /// # Panics
    /// When the server refuses it.
    pub async fn put_in(&self, bucket: &str, query: &str, body: &str, headers: &[(&'static str, &str)]) {
        let (id, key) = crate::testing::KEYS;
        let rest = format!("{bucket}/x?endpoint={}&access-key-id={id}&secret-access-key={key}", self.endpoint());
        let settings = url::parse("s3", &rest).expect("the URL of a test server");
        let store = S3Store::connect(&settings, &crate::Environment::empty(), &crate::Policy::default()).await;
        let store = store.expect("a store");
        let requests = store.reach().requests().await.expect("a connection");
        let mut headers: Vec<_> = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        // A change of locks is only taken with a checksum.
        headers.push(("x-amz-checksum-crc32c", STANDARD.encode(crc32c(body.as_bytes()).to_be_bytes())));
        let query: Vec<_> = Some((query, "")).filter(|(query, _)| !query.is_empty()).into_iter().collect();
        let answer = requests.send(http::Method::PUT, None, &query, &headers, body.as_bytes().to_vec()).await;
        answer.and_then(|answer| answer.body(bucket)).expect("the server takes it");
    }
}
