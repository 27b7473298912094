//! `file:///…`.

use std::path::PathBuf;

use crate::Error;
use crate::text::{decode, wrong};

/// Reads the text after `file://`; `shown` is the whole text for messages.
pub(crate) fn parse(rest: &str, shown: &str) -> Result<PathBuf, Error> {
    let path = rest.strip_prefix("localhost/").map_or_else(|| rest.to_owned(), |path| format!("/{path}"));
    if !path.starts_with('/') {
        return Err(wrong(shown, "a file URL has three slashes", "write file:///path, or a plain path"));
    }
    if path.contains('?') {
        return Err(wrong(shown, "a folder has no settings", "leave `?` and what follows away"));
    }
    let path = decode(&path, shown)?;
    Ok(path.into())
}
