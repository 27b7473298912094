//! Finds the sets of a vault that no link of the chain names. No restore finds such a set. If it is whole, nothing deletes it.

use std::collections::BTreeSet;

use seawall_core::Moment;
use seawall_vault::Vault;

use crate::maintain::list;
use crate::{Catalog, Error, SetId};

/// Objects of a set that no link of the chain names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unlinked {
    /// The set.
    pub id: SetId,
    /// Bytes of its chunks.
    pub bytes: u64,
    /// Whether its index is there: then the backup was finished, but for its link.
    pub has_index: bool,
    /// When the store last wrote one of its objects.
    pub written: Moment,
    /// Whether the store wrote a link after them: then this set's own link isn't the next one.
    pub is_passed: bool,
}

/// The sets that no link names, oldest first. A backup that is being made is one of them. Sets are left out that may belong to a
/// link that no key at hand opens.
///
/// # Errors
/// When the vault can't be listed, or its chain can't be read.
pub async fn unlinked(vault: &Vault) -> Result<Vec<Unlinked>, Error> {
    // Listed first: a set that gets its link meanwhile is known then.
    let listed = list(vault).await?;
    let catalog = Catalog::read(vault).await?;
    let known: BTreeSet<SetId> = catalog.known().collect();
    let may_be_known = |id: SetId| catalog.sealed_until().is_some_and(|until| id.moment() <= until);
    let unlinked = listed.into_iter().filter(|(id, _)| !known.contains(id) && !may_be_known(*id));
    Ok(unlinked
        .map(|(id, objects)| Unlinked {
            id,
            bytes: objects.bytes,
            has_index: objects.index.is_some(),
            written: objects.written,
            is_passed: catalog.newest_written().is_some_and(|newest| newest > objects.written),
        })
        .collect())
}
