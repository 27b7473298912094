//! The one place where text becomes a vault.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::{Error, Layout};

/// A place, parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum VaultUrl {
    /// A folder.
    File(PathBuf),
}

impl VaultUrl {
    /// How objects are named in such a place.
    pub fn layout(&self) -> Layout {
        match self {
            Self::File(_) => Layout::Files,
        }
    }
}

impl FromStr for VaultUrl {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let path = text.strip_prefix("file://").unwrap_or(text);
        if path.is_empty() || text.contains("://") && !text.starts_with("file:///") {
            return Err(Error::InvalidUrl {
                object: "vault".to_owned(),
                cause: "not a vault's URL".to_owned(),
                next: "give a folder or file:///path".to_owned(),
            });
        }
        Ok(Self::File(path.into()))
    }
}

impl fmt::Display for VaultUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file://{}", path.display()),
        }
    }
}
