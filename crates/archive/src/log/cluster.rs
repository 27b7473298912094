//! Whose log does a vault hold? One object says it, made by the first writer and never changed.

use seawall_vault::Vault;
use serde::{Deserialize, Serialize};

use super::{LogError, SegmentSize, SystemId, name};
use crate::manifest::{read_document, write_document};

/// The most bytes of that object.
const LARGEST: u64 = 64 << 10;

/// A cluster, as its log shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// Its identifier.
    pub system: SystemId,
    /// The size of its segments.
    pub segment_size: SegmentSize,
}

impl Cluster {
    /// The cluster whose log `vault` holds; `None` if it holds none yet.
    ///
    /// # Errors
    /// When the vault can't be read, or the object is damaged.
    pub async fn of(vault: &Vault) -> Result<Option<Self>, LogError> {
        let key = name::cluster()?;
        match vault.read(&key, None, LARGEST).await {
            Ok(bytes) => Ok(Some(read_document(&bytes, &vault.object(&key))?)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes `vault` this cluster's, if it isn't any cluster's yet.
    ///
    /// # Errors
    /// When it is another cluster's, or can't be written.
    pub async fn claim(self, vault: &Vault) -> Result<(), LogError> {
        if let Some(theirs) = Self::of(vault).await? {
            return self.compare(theirs, vault.url());
        }
        let key = name::cluster()?;
        let bytes = write_document(&self)?;
        match vault.create(&key, bytes.into(), None).await {
            Ok(_) => Ok(()),
            // Another cluster was faster.
            Err(seawall_vault::Error::AlreadyExists { .. }) => match Self::of(vault).await? {
                Some(theirs) => self.compare(theirs, vault.url()),
                None => Err(seawall_vault::Error::NotFound { object: vault.object(&key) }.into()),
            },
            Err(error) => Err(error.into()),
        }
    }

    fn compare(self, theirs: Self, vault: &str) -> Result<(), LogError> {
        if theirs.system != self.system {
            return Err(LogError::OtherCluster { object: vault.to_owned(), theirs: theirs.system, ours: self.system });
        }
        if theirs.segment_size != self.segment_size {
            let (theirs, ours) = (theirs.segment_size.bytes(), self.segment_size.bytes());
            return Err(LogError::OtherSize { vault: vault.to_owned(), theirs, ours });
        }
        Ok(())
    }
}
