//! Pins: sets that retention keeps whatever the policy says. Each pin is an object, and its name holds all of its
//! information.

use bytes::Bytes;
use seawall_vault::{Prefix, Vault};

use crate::layout::{self, Name};
use crate::{Error, SetId};

/// The content of a pin, for people.
const CONTENT: &str = "{\"format\":1,\"what\":\"this set is not deleted\"}\n";

/// The pinned sets, oldest first.
pub async fn pins(vault: &Vault) -> Result<Vec<SetId>, Error> {
    let entries = vault.list(&Prefix::new("pins/")?, None).await?;
    let mut found: Vec<SetId> = entries
        .iter()
        .filter_map(|entry| match Name::parse(&entry.key) {
            Some(Name::Pin(id)) => Some(id),
            _ => None,
        })
        .collect();
    found.sort_unstable();
    Ok(found)
}

/// Pins a set, or takes its pin away.
pub async fn pin(vault: &Vault, id: SetId, pinned: bool) -> Result<(), Error> {
    let key = layout::pin(id)?;
    if !pinned {
        return Ok(vault.delete(&[key]).await?);
    }
    match vault.create(&key, Bytes::from_static(CONTENT.as_bytes()), None).await {
        // An earlier pin of the same set has the same effect.
        Ok(_) | Err(seawall_vault::Error::AlreadyExists { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
