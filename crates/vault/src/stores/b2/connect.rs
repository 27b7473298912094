//! From settings to a store: a connection of S3 under the name of B2.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use opendal_core::Operator;
use seawall_core::Moment;

use super::B2Store;
use super::settings::B2Settings;
use crate::stores::cloud::Reach;
use crate::stores::cloud::reason::Reason;
use crate::stores::s3::connect::Connection;
use crate::text::wrong;
use crate::{Abilities, Environment, Error, Lock, LockMode, PlaceSettings, Policy, Protection, Scheme};

/// A bucket of B2.
pub struct Backblaze(Connection);

impl fmt::Debug for Backblaze {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[async_trait]
impl Reach for Backblaze {
    const SCHEME: Scheme = Scheme::B2;
    const STAMP: &'static str = Connection::STAMP;
    const DIGEST: &'static str = Connection::DIGEST;
    const LISTS_AFTER: bool = Connection::LISTS_AFTER;
    const PROTECTS: bool = Connection::PROTECTS;

    async fn operator(&self) -> Result<Operator, Error> {
        self.0.operator().await
    }

    fn endpoint(&self) -> Option<&str> {
        self.0.endpoint()
    }

    fn reason(&self) -> &Reason {
        self.0.reason()
    }

    fn abilities(&self) -> Abilities {
        self.0.abilities()
    }

    async fn protection(&self) -> Result<Protection, Error> {
        self.0.protection().await
    }

    async fn lock(&self, name: &str, version: Option<&str>) -> Result<Lock, Error> {
        self.0.lock(name, version).await
    }

    fn keeps_locked(&self) -> Option<Duration> {
        self.0.keeps_locked()
    }

    async fn set_lock(&self, name: &str, lock: (LockMode, Moment)) -> Result<(), Error> {
        self.0.set_lock(name, lock).await
    }
}

impl B2Store {
    /// Makes a store for the settings. Checks the settings; makes no request.
    ///
    /// # Errors
    /// The settings don't name a place, or are wrong, or there are no keys.
    pub async fn connect(settings: &B2Settings, environment: &Environment, policy: &Policy) -> Result<Self, Error> {
        settings.check()?;
        let url = settings.url();
        if settings.endpoint().is_none() {
            let next = "give the region of the bucket's endpoint: ?region=us-west-004";
            return Err(wrong(&url, "there is no region", next));
        }
        let s3 = settings.to_s3(environment)?;
        let connection = Connection::new(&s3, environment, policy, &url).await?;
        Ok(Self::new(Backblaze(connection), url, ""))
    }
}
