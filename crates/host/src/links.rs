//! Which symbolic links lead to a file?
//!
//! A deployment switches `current -> releases/2`, and no event happens in the folder of the protected file. So Seawall
//! also watches the folders of the links on its path.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// The most links that are followed: as many as Linux follows.
const MOST: usize = 40;

/// The links that the system follows along `path`, in order. The folder part of each returned path has no further
/// links. Blocks.
pub fn links_on(path: &Path) -> Vec<PathBuf> {
    let mut links = Vec::new();
    let mut way = PathBuf::from(if path.is_absolute() { "/" } else { "." });
    let mut steps: VecDeque<OsString> = steps_of(path).collect();
    while let Some(step) = steps.pop_front() {
        if step == ".." {
            way.pop();
            continue;
        }
        let next = way.join(&step);
        match std::fs::read_link(&next) {
            Ok(target) if links.len() < MOST => {
                if target.is_absolute() {
                    way = PathBuf::from("/");
                }
                for step in steps_of(&target).collect::<Vec<_>>().into_iter().rev() {
                    steps.push_front(step);
                }
                links.push(next);
            }
            _ => way = next,
        }
    }
    links
}

/// The names on a path, and `..` where it goes up.
fn steps_of(path: &Path) -> impl Iterator<Item = OsString> + '_ {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::Prefix(_) | Component::RootDir | Component::CurDir => None,
    })
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests are an edge")]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_of_a_path() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = std::fs::canonicalize(folder.path()).expect("there");
        std::fs::create_dir_all(root.join("releases/1")).expect("made");
        std::fs::write(root.join("releases/1/real.db"), "x").expect("written");
        symlink("real.db", root.join("releases/1/app.db")).expect("linked");
        symlink("../releases/1", root.join("releases/newest")).expect("linked");
        symlink(root.join("releases/newest"), root.join("current")).expect("linked");
        symlink("circle", root.join("circle")).expect("linked");
        for (path, links) in [
            ("releases/1/real.db", &[][..]),
            ("releases/1/app.db", &["releases/1/app.db"]),
            ("current/app.db", &["current", "releases/newest", "releases/1/app.db"]),
            ("current/../1/real.db", &["current", "releases/newest"]),
            ("current/not-yet.db", &["current", "releases/newest"]),
            ("nowhere/app.db", &[]),
        ] {
            let expected: Vec<PathBuf> = links.iter().map(|link| root.join(link)).collect();
            assert_eq!(links_on(&root.join(path)), expected, "{path}");
        }
        assert_eq!(links_on(&root.join("circle")).len(), MOST);
    }
}
