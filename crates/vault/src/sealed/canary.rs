//! The canary of an encrypted vault: an object that is written to be read back, so that a lost or wrong key shows before
//! the first restore.
//!
//! It lies among the records of writers, where no listing of an engine shows it. Its content is always the same. What a
//! crash leaves: a marker without a canary, which the next call completes.

use bytes::Bytes;

use super::marker::{self, Marker};
use super::{Fault, fault, gate};
use crate::{Error, ObjectKey, Prefix, Vault};

/// The canary's name.
pub const NAME: &str = "seawall/encryption/canary.age";

const TEXT: &str = "This object was written to prove that the keys of this vault open what is in it.\n";

/// What is at a place that is to be an encrypted vault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Whom it is encrypted for; `None` without a marker.
    pub recipients: Option<Vec<String>>,
    /// Whether there is a canary.
    pub canary: bool,
    /// Whether there are objects and no marker.
    pub plain: bool,
}

/// What is left to do for an encrypted vault with a canary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// The marker and the canary.
    Everything,
    /// The canary.
    Canary,
    /// Nothing but to read it.
    Nothing,
}

impl Found {
    /// Looks at a place. `names` is opened with [`Access::Names`](crate::Access::Names): it sees objects as they are stored.
    ///
    /// # Errors
    /// When the place can't be read, or its marker says nothing.
    pub async fn look(names: &Vault) -> Result<Self, Error> {
        let Some(recipients) = recipients(names).await? else {
            let mut plain = false;
            for entry in names.list(&Prefix::all(), None).await? {
                plain |= marker::is_content(entry.key.as_str());
            }
            return Ok(Self { recipients: None, canary: false, plain });
        };
        let canary = names.head(&ObjectKey::new(NAME)?).await?.is_some();
        Ok(Self { recipients: Some(recipients), canary, plain: false })
    }

    /// What is left to do for these recipients; for a key that is to be made yet without them. `place` names the vault.
    ///
    /// # Errors
    /// When the place holds plain objects, or is encrypted for others.
    pub fn left(&self, recipients: Option<&[String]>, place: &str) -> Result<Left, Error> {
        match (&self.recipients, recipients) {
            (None, _) if self.plain => {
                let cause = format!("it holds objects, and no {}: they aren't encrypted", marker::NAME);
                Err(fault(Fault::NotEncrypted, place, cause))
            }
            (None, _) => Ok(Left::Everything),
            (Some(there), Some(wanted)) if there == wanted => {
                Ok(if self.canary { Left::Nothing } else { Left::Canary })
            }
            (Some(there), Some(wanted)) => {
                let cause =
                    format!("it is encrypted for {} already, not for {}", gate::list(there), gate::list(wanted));
                Err(fault(Fault::Recipients, place, cause))
            }
            (Some(there), None) => {
                let cause = format!("it is encrypted for {} already, and a new key is none of them", gate::list(there));
                Err(fault(Fault::Recipients, place, cause))
            }
        }
    }
}

/// Whom a place is encrypted for, by its marker; `None` without a marker. `names` as for [`Found::look`].
///
/// # Errors
/// When the marker can't be read, or says nothing.
pub async fn recipients(names: &Vault) -> Result<Option<Vec<String>>, Error> {
    let key = ObjectKey::new(marker::NAME)?;
    let Some(_) = names.head(&key).await? else { return Ok(None) };
    let bytes = names.read(&key, None, marker::MOST).await?;
    Ok(Some(Marker::parse(&bytes, &names.object(&key))?.recipients))
}

/// Writes the canary, and the marker before it, into a vault that is opened for its recipients.
///
/// # Errors
/// When the vault can't be written to, or another process made it for others meanwhile.
pub async fn write(vault: &Vault) -> Result<(), Error> {
    let key = ObjectKey::new(NAME)?;
    match vault.create(&key, Bytes::from_static(TEXT.as_bytes()), None).await {
        Ok(_) => Ok(()),
        // Another process wrote it, with a key that isn't here. The proof reads it.
        Err(Error::AlreadyExists { .. } | Error::Sealing { fault: Fault::NoKey, .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Reads the canary back, through a vault that is opened with the owner's keys and nothing else.
///
/// # Errors
/// When the keys don't open it, or it isn't what was written.
pub async fn prove(vault: &Vault) -> Result<(), Error> {
    let key = ObjectKey::new(NAME)?;
    let found = vault.read(&key, None, marker::MOST).await?;
    if found != TEXT.as_bytes() {
        return Err(Error::Corrupt { object: vault.object(&key), cause: "it isn't what was written".to_owned() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_to_do() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let (a, ab) = (names(&["a"]), names(&["a", "b"]));
        let refused = |left: Result<Left, Error>| match left {
            Err(Error::Sealing { fault, .. }) => Some(fault),
            _ => None,
        };
        let found = |recipients: Option<&[String]>, canary, plain| Found {
            recipients: recipients.map(<[String]>::to_vec),
            canary,
            plain,
        };
        for wanted in [None, Some(&a[..])] {
            assert_eq!(found(None, false, false).left(wanted, "v"), Ok(Left::Everything));
            assert_eq!(refused(found(None, false, true).left(wanted, "v")), Some(Fault::NotEncrypted));
        }
        assert_eq!(found(Some(&a), false, false).left(Some(&a), "v"), Ok(Left::Canary));
        assert_eq!(found(Some(&a), true, false).left(Some(&a), "v"), Ok(Left::Nothing));
        for wanted in [None, Some(&ab[..])] {
            assert_eq!(refused(found(Some(&a), true, false).left(wanted, "v")), Some(Fault::Recipients));
        }
    }
}
