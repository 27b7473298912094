//! Has a database file other names, through which another program may write?
//!
//! SQLite puts the WAL beside the name under which it opened the database. A writer that uses another name (a hard link, or
//! a mount of the file alone) has another WAL, which Seawall doesn't see. So Seawall reports such a file, and ships what it
//! sees.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Where Linux tells what is mounted.
const MOUNTS: &str = "/proc/self/mountinfo";

/// Another name of the file at `path`, as far as this process can see one, by what is mounted. Blocks.
pub(crate) fn mounted_elsewhere(path: &Path, found: &Metadata) -> Option<String> {
    let mounts = std::fs::read_to_string(MOUNTS).ok()?;
    let device = (rustix::fs::major(found.dev()), rustix::fs::minor(found.dev()));
    let is_it = |point: &Path| {
        let there = std::fs::metadata(point);
        there.is_ok_and(|there| (there.dev(), there.ino()) == (found.dev(), found.ino()))
    };
    parts(&mounts, device).into_iter().find(|point| is_it(point)).map(|point| match point == path {
        true => "the file alone is mounted here, and has another name where it comes from".to_owned(),
        false => format!("the file alone is mounted at {} as well", point.display()),
    })
}

/// The report about a file with `links` names; `None` for one name.
pub(crate) fn linked(links: u64) -> Option<String> {
    (links > 1).then(|| format!("the file has {links} names (hard links)"))
}

/// The places at which only a part of the device's file system is mounted.
fn parts(mounts: &str, device: (u32, u32)) -> Vec<PathBuf> {
    let part = |line: &str| {
        let mut fields = line.split(' ').skip(2);
        let (numbers, root, point) = (fields.next()?, fields.next()?, fields.next()?);
        let (major, minor) = numbers.split_once(':')?;
        let same = (major.parse().ok()?, minor.parse().ok()?) == device;
        (same && root != "/").then(|| PathBuf::from(unescaped(point)))
    };
    mounts.lines().filter_map(part).collect()
}

/// A path of `mountinfo`, which writes blanks and backslashes as three octal digits.
fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        plain.push_str(before);
        let code = after.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                plain.push(char::from(code));
                rest = after.get(3..).unwrap_or("");
            }
            None => {
                plain.push('\\');
                rest = after;
            }
        }
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mounted_of_a_device() {
        let mounts = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
            40 22 8:1 /data/app.db /srv/my\\040app.db rw,relatime - ext4 /dev/sda1 rw\n\
            41 22 8:2 /data/other.db /srv/other.db rw - ext4 /dev/sda2 rw\n\
            42 22 0:25 / /run rw shared:2 - tmpfs tmpfs rw\n\
            nonsense\n";
        for (device, expected) in
            [((8, 1), &["/srv/my app.db"][..]), ((8, 2), &["/srv/other.db"]), ((0, 25), &[]), ((9, 9), &[])]
        {
            let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
            assert_eq!(parts(mounts, device), expected, "{device:?}");
        }
        for (text, expected) in [("/a\\040b", "/a b"), ("/a\\134b", "/a\\b"), ("/a\\", "/a\\"), ("/a\\9", "/a\\9")] {
            assert_eq!(unescaped(text), expected);
        }
    }

    #[test]
    fn hard_links() {
        assert_eq!((linked(0), linked(1)), (None, None));
        assert!(linked(2).is_some_and(|told| told.contains("2 names")));
    }
}
