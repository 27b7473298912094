//! Small disks: file systems in memory, where this user may mount.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Something that is mounted on a path until this is dropped.
#[derive(Debug)]
pub struct Disk(PathBuf);

impl Disk {
    /// A file system in memory of `mib` MiB; `None` if this user may not mount.
    pub fn of_mib(mib: u32, at: &Path) -> Option<Self> {
        fs::create_dir_all(at).unwrap();
        mount(&["-t", "tmpfs", "-o", &format!("size={mib}m"), "seawall-test"], at)
    }

    /// A file mounted over itself: its deletion fails, because it is in use. `None` if this user may not mount.
    pub fn over_itself(file: &Path) -> Option<Self> {
        mount(&["--bind", file.to_str().unwrap()], file)
    }

    /// Nothing can be written to it any more.
    pub fn make_read_only(&self) {
        let done = Command::new("mount").args(["-o", "remount,ro"]).arg(&self.0).output();
        assert!(done.unwrap().status.success());
    }
}

fn mount(arguments: &[&str], at: &Path) -> Option<Disk> {
    let mounted = Command::new("mount").args(arguments).arg(at).output();
    let is_mounted = mounted.is_ok_and(|output| output.status.success());
    if !is_mounted {
        eprintln!("left out: this user may not mount");
    }
    is_mounted.then(|| Disk(at.to_owned()))
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _is_told_by_what_follows = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}
