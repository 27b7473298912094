//! A vault that is a prefix in a bucket of S3 or a compatible server.
//!
//! Litestream can do three things that OpenDAL can't: sign the hash of payloads (TLS covers them; providers that demand
//! it for plain HTTP aren't supported), use keys that begin with `/` (a vault without a path is refused), and delete a
//! batch without an MD5.

mod bucket;
mod connect;
mod credentials;
mod provider;
pub(crate) mod settings;
pub(crate) mod url;

use async_trait::async_trait;
use opendal_core::Operator;

use self::connect::Connection;
use super::cloud::limits::SMALLEST_PART;
use super::cloud::reason::Reason;
use super::cloud::{CloudStore, Reach};
use crate::{Abilities, Error, Scheme};

/// Objects in a bucket of S3.
pub type S3Store = CloudStore<Connection>;

#[async_trait]
impl Reach for Connection {
    const SCHEME: Scheme = Scheme::S3;
    const STAMP: &'static str = "litestream-timestamp";
    const DIGEST: &'static str = "seawall-blake3";
    const LISTS_AFTER: bool = true;

    async fn operator(&self) -> Result<&Operator, Error> {
        self.client().await
    }

    fn endpoint(&self) -> Option<&str> {
        self.server()
    }

    fn reason(&self) -> &Reason {
        &self.reason
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            create: true,
            update: true,
            stamps: true,
            delete_batch: 1000,
            smallest_part: SMALLEST_PART,
            most_parts: 10_000,
            part_size: self.part_size(),
            parts_in_flight: self.parts_in_flight(),
            digests_of_parts: false,
        }
    }
}
