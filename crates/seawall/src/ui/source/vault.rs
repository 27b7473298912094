//! Every database below a prefix, from the vault alone.

use seawall_agent::catalog::{Choose, Order};
use seawall_agent::{Opener, VaultUrl};
use seawall_core::{Failure, Timeline};

use crate::ui::model::Entry;

/// A prefix of vaults.
#[derive(Debug, Clone)]
pub(in crate::ui) struct Prefix(VaultUrl);

impl Prefix {
    pub(super) fn new(url: VaultUrl) -> Self {
        Self(url)
    }

    /// Its URL.
    pub(super) fn url(&self) -> &VaultUrl {
        &self.0
    }

    /// All databases below it, by name.
    pub(super) async fn databases(&self, opener: &Opener) -> Result<Vec<Entry>, Failure> {
        let choose = Choose { filters: Vec::new(), order: Order::Name, limit: None };
        let found = opener.catalogue(&self.0, &choose).await?;
        Ok(found.databases.into_iter().map(Entry::from).collect())
    }

    /// What can be restored of a database, with its newest proof.
    pub(super) async fn timeline(&self, entry: &Entry, opener: &Opener) -> Result<Timeline, Failure> {
        let url = seawall_agent::config::read_place(&entry.vault, std::path::Path::new("/"))?;
        let timeline = opener.vault(&url).await?.history().timeline().await?;
        Ok(Timeline { proofs: entry.proof.clone().into_iter().collect(), ..timeline })
    }
}
