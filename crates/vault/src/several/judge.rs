//! What an engine knows of whole histories, for vaults that don't agree: whether an object is of this database's history.
//!
//! The vaults themselves know names, sizes and bytes. Whether one object continues another is the engine's knowledge. Without a
//! judge (engines whose objects stand alone) the rules of names and prints hold.

use std::fmt;

use async_trait::async_trait;

use crate::{Error, ObjectKey, Vault};

/// The question whether some objects of one vault are of the history that another vault holds.
#[derive(Debug)]
pub struct Question<'a> {
    /// The vault with the objects.
    pub suspect: &'a Vault,
    /// Their names. The other vault lacks them, or has something else there.
    pub names: &'a [ObjectKey],
    /// The other vault.
    pub sound: &'a Vault,
    /// Whether the other vault is known to hold what was acknowledged last. Then no history can have begun without its knowledge.
    pub recorded: bool,
    /// Whether the vault with the objects keeps what the others delete: then objects older than everything in the other vault may be of
    /// a part of the history that was deleted there.
    pub older_stay: bool,
    /// Whose an object of the same history is that is newer than everything in the other vault.
    pub newer: Newer,
}

/// Whose an object of the history is that is newer than everything in the vault that it is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Newer {
    /// It has to continue what that vault holds, as far as that shows.
    Continues,
    /// A stranger's: that vault holds everything that was acknowledged.
    Stranger,
    /// Another writer's, which goes on with this history: no stranger.
    Writer,
}

impl Newer {
    /// Whether an object of the history is a stranger by this alone; `None` where that doesn't tell.
    pub fn decides(self, is_newer: bool) -> Option<bool> {
        match self {
            Self::Stranger if is_newer => Some(true),
            Self::Writer if is_newer => Some(false),
            Self::Continues | Self::Stranger | Self::Writer => None,
        }
    }
}

/// An object that isn't of the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stranger {
    /// Its name.
    pub key: ObjectKey,
    /// How that shows: a clause without a full stop.
    pub why: String,
}

/// Judges objects of vaults that don't agree. What comes out of a vault is hostile: an object that can't be understood is a
/// stranger. One that no key at hand opens is none, because nothing shows.
#[async_trait]
pub trait Judge: fmt::Debug + Send + Sync {
    /// The first stranger.
    ///
    /// # Errors
    /// When a vault doesn't answer.
    async fn stranger(&self, question: Question<'_>) -> Result<Option<Stranger>, Error>;

    /// Whether an object may be copied: it is what its name says, and continues what `to` holds before it. Asked for one object
    /// after the other, in the order in which they were written.
    ///
    /// # Errors
    /// When a vault doesn't answer.
    async fn misfit(&self, from: &Vault, to: &Vault, key: &ObjectKey) -> Result<Option<Stranger>, Error>;

    /// Whether an object is what its name says when all of it is read. A damaged one isn't, and tells nothing of its history.
    ///
    /// # Errors
    /// When the vault doesn't answer, or no key at hand opens it.
    async fn sound(&self, vault: &Vault, key: &ObjectKey) -> Result<bool, Error>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_a_newer_object_is() {
        for (newer, is_newer, expected) in [
            (Newer::Continues, true, None),
            (Newer::Stranger, true, Some(true)),
            (Newer::Stranger, false, None),
            (Newer::Writer, true, Some(false)),
            (Newer::Writer, false, None),
        ] {
            assert_eq!(newer.decides(is_newer), expected, "{newer:?} {is_newer}");
        }
    }
}
