//! Encryption on the client's side: a [`SealedStore`] over any [`Store`](crate::Store), below the [`Vault`](crate::Vault),
//! so that settlement, retry and resuming work on plaintext as they do without it.
//!
//! Every object is one age v1 file, which `age -d` opens by hand. It is for the owner's recipients and for a key of this
//! host (`hostkeys`). All headers of a vault have one length (`header`), so each length follows from the other
//! (`lengths`), and listings and ranges need no request more. A seal in the header binds an object to its vault and name.
//! The payload (`payload`) is age's own. `marker` says that and how a vault is encrypted, and `gate` decides at the first
//! request whether what is wanted and what is there agree. `seals` holds the keys of an open vault.
//!
//! `canary` is the object that proves that a vault's keys open it. `rekey` changes for whom a vault is.
//!
//! What a crash leaves: a marker without objects, which the next writer takes; never an object without a marker.

pub mod canary;
mod fault;
mod gate;
mod header;
mod hostkeys;
mod identities;
mod lengths;
mod marker;
mod payload;
mod recipients;
pub mod rekey;
mod seals;
mod store;
mod upload;

use std::sync::Arc;

pub use fault::Fault;
pub use hostkeys::HostKeys;
pub use identities::{Identities, NoPrompt, Prompt};
pub use recipients::Recipients;
pub use store::SealedStore;

use crate::{Error, ObjectKey};

/// What this process may do in an encrypted vault.
#[derive(Debug)]
pub struct Sealing {
    recipients: Option<Recipients>,
    identities: Identities,
    keys: HostKeys,
    /// Which objects are for the host's lasting key.
    lasting: fn(&ObjectKey) -> bool,
}

impl Sealing {
    /// Writes for `recipients` and this host's `keys`, and reads with the keys and the owner's `identities`. Without
    /// recipients it writes only where the identities are all of the vault's recipients.
    pub fn new(recipients: Option<Recipients>, identities: Identities, keys: HostKeys) -> Self {
        Self { recipients, identities, keys, lasting: |_| false }
    }

    /// The same, where the host can read the objects of these names as long as they exist, and not only for two days. The
    /// names decide, so that a copy of such an object in another vault can be read as long. No such object may hold content
    /// of a database: a thief of the host can read all of them.
    #[must_use]
    pub fn lasting(self, lasting: fn(&ObjectKey) -> bool) -> Self {
        Self { lasting, ..self }
    }

    /// Removes the keys that were made for a copy ([`HostKeys::of_a_copy`]), which is whole now. Blocks.
    ///
    /// # Errors
    /// [`Error::Sealing`] if a key's file can't be removed.
    pub fn forget_copy(&self) -> Result<(), Error> {
        self.keys.forget_copy()
    }

    /// Whether there is a key of the owner, so that every object can be read.
    pub fn reads_all(&self) -> bool {
        !self.identities.is_empty()
    }
}

/// Whether a vault is encrypted, as its opener was told. A vault that disagrees is refused at its first request.
#[derive(Debug, Clone, Default)]
pub enum Access {
    /// It isn't.
    #[default]
    Plain,
    /// It is.
    Sealed(Arc<Sealing>),
    /// Only names are asked for, whatever the objects are: sizes and contents are the store's.
    Names,
}

/// The error for a fault.
pub(crate) fn fault(fault: Fault, object: impl Into<String>, cause: impl Into<String>) -> Error {
    Error::Sealing { object: object.into(), fault, cause: cause.into() }
}

/// Reads `bytes` as each object of an encrypted vault that others could have written. What is read is written as it was. For the
/// fuzz target.
pub(crate) fn read_anything(bytes: &[u8]) {
    let _ = header::Header::parse(bytes);
    if let Ok(marker) = marker::Marker::parse(bytes, "marker") {
        assert!(marker::Marker::parse(&marker.to_bytes(), "marker").is_ok_and(|again| again == marker));
    }
    if let Some(writer) = marker::Writer::parse(bytes) {
        assert!(marker::Writer::parse(&writer.to_bytes()).is_some_and(|again| again.writer == writer.writer));
    }
}
