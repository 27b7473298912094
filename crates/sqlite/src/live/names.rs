//! Has a database file other names, through which another program may write?
//!
//! SQLite puts the WAL beside the name under which it opened the database. A writer that uses another name (a hard link, or
//! a mount of the file alone) has another WAL, which Seawall doesn't see. So Seawall reports such a file, and ships what it
//! sees.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use seawall_host::{Mount, mounts};

/// Another name of the file at `path`, as far as this process can see one, by what is mounted. Blocks.
pub(crate) fn mounted_elsewhere(path: &Path, found: &Metadata) -> Option<String> {
    let device = (rustix::fs::major(found.dev()), rustix::fs::minor(found.dev()));
    let is_it = |point: &Path| {
        let there = std::fs::metadata(point);
        there.is_ok_and(|there| (there.dev(), there.ino()) == (found.dev(), found.ino()))
    };
    parts(mounts(), device).into_iter().find(|point| is_it(point)).map(|point| match point == path {
        true => "the file alone is mounted here, and has another name where it comes from".to_owned(),
        false => format!("the file alone is mounted at {} as well", point.display()),
    })
}

/// The report about a file with `links` names; `None` for one name.
pub(crate) fn linked(links: u64) -> Option<String> {
    (links > 1).then(|| format!("the file has {links} names (hard links)"))
}

/// The places at which only a part of the device's file system is mounted. Pure.
fn parts(mounts: Vec<Mount>, device: (u32, u32)) -> Vec<PathBuf> {
    let is_part = |mount: &Mount| mount.device == device && mount.root != Path::new("/");
    mounts.into_iter().filter(is_part).map(|mount| mount.point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mounted_of_a_device() {
        let mount = |device, root: &str, point: &str| Mount { device, root: root.into(), point: point.into() };
        let mounts = vec![
            mount((8, 1), "/", "/"),
            mount((8, 1), "/data/app.db", "/srv/my app.db"),
            mount((8, 2), "/data/other.db", "/srv/other.db"),
            mount((0, 25), "/", "/run"),
        ];
        for (device, expected) in
            [((8, 1), &["/srv/my app.db"][..]), ((8, 2), &["/srv/other.db"]), ((0, 25), &[]), ((9, 9), &[])]
        {
            let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
            assert_eq!(parts(mounts.clone(), device), expected, "{device:?}");
        }
    }

    #[test]
    fn hard_links() {
        assert_eq!((linked(0), linked(1)), (None, None));
        assert!(linked(2).is_some_and(|told| told.contains("2 names")));
    }
}
