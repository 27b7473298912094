//! A vault that is a prefix in a container of Azure Blob Storage.
//!
//! A whole object is one Put Blob. A streamed object is a list of blocks, whose commit checks the condition. Blocks without a
//! commit are invisible, and Azure removes them after a week. ETags belong to versions and not to content.

mod connect;
mod container;
mod credentials;
pub(crate) mod settings;
pub(crate) mod url;

use async_trait::async_trait;
use opendal_core::Operator;

use self::connect::Container;
use super::cloud::reason::Reason;
use super::cloud::{CloudStore, Reach};
use crate::{Abilities, Error, Scheme};

/// The most blobs of one batch.
const BATCH: usize = 256;

/// The smallest part that is worth a request; Azure itself takes any.
const SMALLEST_PART: usize = 1 << 20;

/// Blobs in a container of Azure.
pub type AbsStore = CloudStore<Container>;

#[async_trait]
impl Reach for Container {
    const SCHEME: Scheme = Scheme::Abs;
    // Names of metadata are identifiers here.
    const STAMP: &'static str = "litestreamtimestamp";
    const DIGEST: &'static str = "seawallblake3";
    const LISTS_AFTER: bool = false;

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
            delete_batch: BATCH,
            smallest_part: SMALLEST_PART,
            most_parts: 50_000,
            part_size: self.part_size(),
            parts_in_flight: self.parts_in_flight(),
            digests_of_parts: false,
        }
    }
}
