//! What is mounted where, as Linux tells this process.
//!
//! Source: `proc_pid_mountinfo(5)`.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::path::PathBuf;

/// Where Linux tells it.
const MOUNTS: &str = "/proc/self/mountinfo";

/// A mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The device, as its major and minor number.
    pub device: (u32, u32),
    /// The path within the device's file system that is mounted: `/` for all of it.
    pub root: PathBuf,
    /// Where it is mounted.
    pub point: PathBuf,
}

/// All mounts that this process sees; none where the system doesn't tell. Blocks.
pub fn mounts() -> Vec<Mount> {
    // A path that is no text must not hide the others.
    std::fs::read(MOUNTS).map(|bytes| parse(&String::from_utf8_lossy(&bytes))).unwrap_or_default()
}

/// Reads `mountinfo`. A line that makes no sense is left out.
fn parse(text: &str) -> Vec<Mount> {
    let mount = |line: &str| {
        let mut fields = line.split(' ').skip(2);
        let (numbers, root, point) = (fields.next()?, fields.next()?, fields.next()?);
        let (major, minor) = numbers.split_once(':')?;
        let device = (major.parse().ok()?, minor.parse().ok()?);
        Some(Mount { device, root: unescaped(root).into(), point: unescaped(point).into() })
    };
    text.lines().filter_map(mount).collect()
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
    fn what_linux_tells_of_mounts() {
        let text = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
            40 22 8:1 /data/app.db /srv/my\\040app.db rw,relatime - ext4 /dev/sda1 rw\n\
            42 22 0:25 / /run rw shared:2 - tmpfs tmpfs rw\n\
            43 22 x:25 / /run rw\n\
            nonsense\n";
        let mount = |device, root: &str, point: &str| Mount { device, root: root.into(), point: point.into() };
        let expected =
            [mount((8, 1), "/", "/"), mount((8, 1), "/data/app.db", "/srv/my app.db"), mount((0, 25), "/", "/run")];
        assert_eq!(parse(text), expected);
        for (text, expected) in [("/a\\040b", "/a b"), ("/a\\134b", "/a\\b"), ("/a\\", "/a\\"), ("/a\\9", "/a\\9")] {
            assert_eq!(unescaped(text), expected);
        }
        assert!(
            !cfg!(target_os = "linux")
                || mounts().iter().any(|mount| mount.point.as_path() == std::path::Path::new("/"))
        );
    }
}
