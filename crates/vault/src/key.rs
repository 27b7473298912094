//! Names of objects below a vault's prefix. Parsed once; past this point no name can leave its place (I11).

use std::fmt;
use std::sync::Arc;

use crate::Error;

/// The longest key that every store takes, in bytes, with room for the vault's own prefix.
const MAX_LENGTH: usize = 900;

/// The longest segment that every file system takes, in bytes.
const MAX_SEGMENT: usize = 255;

/// The name of an object relative to its vault: segments joined by `/`.
///
/// No segment is empty, `.` or `..`, none holds a control character or a backslash, and none ends in `.tmp`: such
/// names are files that are being written.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey(Arc<str>);

impl ObjectKey {
    /// Checks a name.
    pub fn new(name: impl AsRef<str>) -> Result<Self, Error> {
        let name = name.as_ref();
        check(name).map_err(|cause| invalid(name, cause))?;
        Ok(Self(name.into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The part after the last `/`.
    pub fn file_name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl std::str::FromStr for ObjectKey {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::new(name)
    }
}

impl TryFrom<&str> for ObjectKey {
    type Error = Error;

    fn try_from(name: &str) -> Result<Self, Error> {
        Self::new(name)
    }
}

/// A folder of keys: empty for the whole vault, otherwise a name that ends in `/`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prefix(String);

impl Prefix {
    /// Everything in the vault.
    pub fn all() -> Self {
        Self::default()
    }

    /// A folder; a missing `/` at the end is added.
    pub fn new(name: impl AsRef<str>) -> Result<Self, Error> {
        let name = name.as_ref();
        let folder = name.strip_suffix('/').unwrap_or(name);
        if name.is_empty() {
            return Ok(Self::all());
        }
        check(folder).map_err(|cause| invalid(name, cause))?;
        Ok(Self(format!("{folder}/")))
    }

    /// The name: empty, or ending in `/`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<&str> for Prefix {
    type Error = Error;

    fn try_from(name: &str) -> Result<Self, Error> {
        Self::new(name)
    }
}

fn invalid(name: &str, cause: &'static str) -> Error {
    let shown: String = name.chars().take(200).collect();
    Error::InvalidKey { object: shown.escape_debug().to_string(), cause: cause.to_owned() }
}

fn check(name: &str) -> Result<(), &'static str> {
    if name.is_empty() {
        return Err("it is empty");
    }
    if name.len() > MAX_LENGTH {
        return Err("it is longer than 900 bytes");
    }
    if name.chars().any(|c| c.is_control() || c == '\\') {
        return Err("it holds a control character or a backslash");
    }
    for segment in name.split('/') {
        match segment {
            "" => return Err("it has an empty segment"),
            "." | ".." => return Err("it has a segment that leads elsewhere"),
            s if s.len() > MAX_SEGMENT => return Err("it has a segment longer than 255 bytes"),
            s if s.ends_with(".tmp") => return Err("names that end in .tmp are for files being written"),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["a", "ltx/0/0000000000000001-0000000000000001.ltx", "0000/x", "ä/ö", "a b", "..a", "a.tmp.b"] {
            assert!(ObjectKey::new(good).is_ok(), "{good}");
        }
        let long = "x".repeat(256);
        let longer = "x/".repeat(500) + "x";
        for bad in [
            "", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "../a", "a/..", "./a", "a\0b", "a\nb", "a\u{7f}", "a\\b",
            "a\u{85}b", "x.tmp", "x.tmp/y", &long, &longer,
        ] {
            assert!(ObjectKey::new(bad).is_err(), "{bad:?} was taken");
        }
    }

    #[test]
    fn folders() {
        assert_eq!(Prefix::new("").expect("all").as_str(), "");
        assert_eq!(Prefix::new("ltx/0").expect("folder").as_str(), "ltx/0/");
        assert_eq!(Prefix::new("ltx/0/").expect("folder").as_str(), "ltx/0/");
        for bad in ["/", "//", "a//", "../", "a/../"] {
            assert!(Prefix::new(bad).is_err(), "{bad:?} was taken");
        }
    }
}
