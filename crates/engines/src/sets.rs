//! Vaults of backup sets, which all engines of servers share: opens them, and knows the names of their objects and points.

use std::sync::Arc;

use seawall_archive::{Catalog, RetentionPolicy, SetId, Sets, World, is_of_sets};
use seawall_core::{Engine, Failure, SystemClock};
use seawall_sqlite::Retention;
use seawall_vault::{ObjectKey, Vault};

use crate::open::Opener;

/// Retention as a vault of sets has it.
pub(crate) fn policy(retention: &Retention) -> RetentionPolicy {
    RetentionPolicy {
        enabled: retention.enabled,
        window: retention.window,
        thinning: retention.thinning(),
        grace: retention.grace,
    }
}

/// Opens the backup sets of a vault without a server. Without a policy nothing may be deleted.
pub(crate) fn of_vault(opener: &Opener, vault: Vault, policy: Option<RetentionPolicy>) -> Arc<dyn Engine> {
    let nonce = World::real(opener.environment.clone()).nonce;
    Arc::new(sets(opener, vault, policy, nonce))
}

/// The backup sets of a vault.
pub(crate) fn sets(opener: &Opener, vault: Vault, policy: Option<RetentionPolicy>, nonce: u32) -> Sets {
    let sets = Sets::new(vault, policy, Arc::new(SystemClock), u64::from(nonce), opener.jobs);
    sets.opened_by(vec![Arc::new(seawall_postgres::Postgres), Arc::new(seawall_mysql::Mysql)])
}

/// Whether an object of this name belongs to a set or to the chain.
pub(crate) fn is_name(key: &ObjectKey) -> bool {
    is_of_sets(key)
}

/// Whether a vault holds sets, asked for by their names.
pub(crate) async fn are_here(vault: &Vault) -> Result<bool, Failure> {
    Ok(Catalog::is_here(vault).await?)
}

/// Whether a text names a point: the name of a set.
pub(crate) fn is_position(text: &str) -> bool {
    text.parse::<SetId>().is_ok()
}
