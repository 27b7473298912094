//! Paths and names as configurations and command lines have them.

use std::path::{Component, Path, PathBuf};

/// `path` from the root, dots resolved by name (links are not followed).
pub fn absolute(path: &Path, directory: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in directory.join(path).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out
}

/// Whether `name` is valid as a database's name in places, logs and metrics.
pub fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-');
    !name.is_empty() && name.len() <= 128 && !name.starts_with('.') && name.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_from_the_root() {
        for (path, expected) in [
            ("app.db", "/srv/app.db"),
            ("./app.db", "/srv/app.db"),
            ("../data//app.db", "/data/app.db"),
            ("/data/./x/../app.db", "/data/app.db"),
            ("/../app.db", "/app.db"),
        ] {
            assert_eq!(absolute(Path::new(path), Path::new("/srv")), Path::new(expected), "{path}");
        }
    }

    #[test]
    fn names() {
        for name in ["app", "app.v2", "a-b_c", "büro"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", ".hidden", "a/b", "a b", "..", "a?b", &"x".repeat(129)] {
            assert!(!is_name(name), "{name}");
        }
    }
}
