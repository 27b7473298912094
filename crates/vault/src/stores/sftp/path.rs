//! Where a vault's folder is on a server.
//!
//! A path that begins with `/` is the server's own. Any other begins in the folder in which a login begins, mostly the
//! user's home, as Litestream's `path` does. A URL's path is absolute, as in Litestream; after `/~/` it begins in that
//! folder.

use crate::Error;
use crate::text::{clean_path, wrong};

/// The most bytes of a path; keys come below it.
const LONGEST: usize = 500;

/// A folder on a server, as the server takes it: segments with `/` between them, none of which leads upwards.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Root(String);

impl Root {
    /// Reads the path of a URL, after decoding: what follows the host.
    pub(super) fn of_url(path: &str) -> Result<Self, Error> {
        let relative = path.strip_prefix("/~").filter(|rest| rest.is_empty() || rest.starts_with('/'));
        Self::new(relative.unwrap_or(path), relative.is_some())
    }

    /// Reads a path that was given by itself.
    pub(super) fn of_setting(path: &str) -> Result<Self, Error> {
        let home = path.strip_prefix('~').filter(|rest| rest.is_empty() || rest.starts_with('/'));
        Self::new(home.unwrap_or(path), home.is_some() || !path.starts_with('/'))
    }

    fn new(path: &str, is_relative: bool) -> Result<Self, Error> {
        let segments = clean_path(path);
        if segments.len() > LONGEST {
            return Err(wrong("path", "it is longer than 500 bytes", "use a shorter one"));
        }
        Ok(Self(if is_relative { segments } else { format!("/{segments}") }))
    }

    /// Refuses to take all of a server as a vault.
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.0.trim_start_matches('/').is_empty() {
            return Err(wrong("path", "there is no path", "write sftp://USER@HOST/PATH"));
        }
        Ok(())
    }

    /// The path.
    pub(super) fn path(&self) -> &str {
        &self.0
    }

    /// The path as a URL has it.
    pub(super) fn in_url(&self) -> String {
        let escaped = self.0.replace('%', "%25").replace('?', "%3F").replace('#', "%23").replace('@', "%40");
        match escaped.starts_with('/') {
            true => escaped,
            false => format!("/~/{escaped}"),
        }
    }
}

/// The folders that lead to a folder and that folder, outermost first.
pub(super) fn folders(path: &str) -> Vec<&str> {
    let ends = path.char_indices().filter(|(at, c)| *c == '/' && *at > 0).map(|(at, _)| at);
    ends.chain(Some(path.len())).filter_map(|end| path.get(..end)).filter(|folder| !folder.is_empty()).collect()
}

/// The folder that holds a file.
pub(super) fn parent(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) => "/",
        Some((folder, _)) => folder,
        None => ".",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_or_from_home() {
        for (given, path, shown) in [
            ("/a/b", "/a/b", "/a/b"),
            ("/a//b/../c/", "/a/c", "/a/c"),
            ("/../../a", "/a", "/a"),
            ("/~/a", "a", "/~/a"),
            ("/~a", "/~a", "/~a"),
            ("/~/../../a", "a", "/~/a"),
            ("/a b?c%", "/a b?c%", "/a b%3Fc%25"),
        ] {
            let root = Root::of_url(given).expect(given);
            assert_eq!((root.path(), root.in_url().as_str()), (path, shown), "{given}");
        }
        for (given, path) in [("/a", "/a"), ("a/b", "a/b"), ("~/a", "a"), ("~a", "~a"), ("./a", "a")] {
            assert_eq!(Root::of_setting(given).expect(given).path(), path, "{given}");
        }
        for empty in ["", "/", "/..", "/~", "/~/"] {
            assert!(Root::of_url(empty).expect(empty).check().is_err(), "{empty}");
        }
    }

    #[test]
    fn ways_to_a_folder() {
        assert_eq!(folders("/a/b/c"), ["/a", "/a/b", "/a/b/c"]);
        assert_eq!(folders("a/b"), ["a", "a/b"]);
        for (path, expected) in [("/a/b", "/a"), ("/a", "/"), ("a/b", "a"), ("a", ".")] {
            assert_eq!(parent(path), expected, "{path}");
        }
    }
}
