//! A vault that is a prefix in a bucket of S3 or a compatible server.
//!
//! Litestream can do three things that OpenDAL can't: sign the hash of payloads (TLS covers them; providers that demand
//! it for plain HTTP aren't supported), use keys that begin with `/` (a vault without a path is refused), and delete a
//! batch without an MD5.

mod as_stored;
mod bucket;
mod connect;
mod credentials;
mod provider;
mod requests;
pub(crate) mod settings;
pub(crate) mod url;
mod versions;

pub(crate) use self::connect::open_past;

use self::connect::Connection;
use super::cloud::CloudStore;

/// Objects in a bucket of S3.
pub type S3Store = CloudStore<Connection>;

#[cfg(feature = "testing")]
impl S3Store {
    /// Sends a PUT about the bucket, for tests that set a bucket up.
    pub(crate) async fn put_raw(
        &self,
        query: &str,
        body: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<(), crate::Error> {
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        let requests = self.reach().requests().await?;
        let query = [(query, "")];
        let query = if query[0].0.is_empty() { &[][..] } else { &query[..] };
        let answer = requests.send(http::Method::PUT, None, query, &headers, body.as_bytes().to_vec()).await?;
        answer.body(query.first().map_or("bucket", |pair| pair.0)).map(drop)
    }
}
