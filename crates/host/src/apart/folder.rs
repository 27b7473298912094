//! Where the server of a proof lies: a private folder, which belongs to the user who runs the server.
//!
//! The programs of the source's owner run as that user while we work in the folder, so no name in it is trusted: what is made is given
//! away by its handle, and what is read must be a plain file that no link leads to.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, mkdirat, openat};
use tokio::process::Command;

use crate::private::PrivateFolder;

/// How much of the end of a server's log is read, in bytes.
const END_OF_LOG: u64 = 64 << 10;

/// Where what a proof restores is put: the folder that `TMPDIR` names, else `/var/tmp`, which is on a disk. `/tmp` often is in memory.
pub fn scratch_place(temporary: Option<&Path>) -> PathBuf {
    // A folder that isn't absolute would be one of wherever the process was started.
    match temporary.filter(|place| place.is_absolute()) {
        Some(place) => place.to_owned(),
        // The root of a container may be read-only, with a `/tmp` that isn't.
        None => PathBuf::from(match rustix::fs::access("/var/tmp", rustix::fs::Access::WRITE_OK) {
            Ok(()) => "/var/tmp",
            Err(_) => "/tmp",
        }),
    }
}

/// Whether what is written to a folder takes memory, not a disk. Not, where the system doesn't tell.
pub fn is_in_memory(folder: &Path) -> bool {
    // TMPFS_MAGIC and RAMFS_MAGIC of statfs(2).
    rustix::fs::statfs(folder).is_ok_and(|facts| matches!(facts.f_type, 0x0102_1994 | 0x8584_58f6))
}

/// A private folder for one server, which goes when this is dropped.
#[derive(Debug)]
pub struct Folder {
    folder: PrivateFolder,
    user: Option<User>,
    log: LogFile,
}

/// The log of a server, whatever its name leads to.
#[derive(Debug, Clone, Default)]
pub struct LogFile(Option<Arc<File>>);

impl LogFile {
    /// Its last 64 KiB.
    pub fn read(&self) -> String {
        let read = |log: &File| {
            let length = log.metadata()?.len();
            let mut end = vec![0; usize::try_from(length.min(END_OF_LOG)).unwrap_or_default()];
            log.read_exact_at(&mut end, length.saturating_sub(END_OF_LOG))?;
            Ok::<_, io::Error>(end)
        };
        let end = self.0.as_ref().and_then(|log| read(log).ok()).unwrap_or_default();
        String::from_utf8_lossy(&end).into_owned()
    }
}

impl Folder {
    /// Makes one below the system's folder for large temporary files, for the user who will run the server. Folders of the same
    /// prefix that killed processes left are removed.
    ///
    /// # Errors
    /// The folder can't be made.
    pub fn new(prefix: &str) -> io::Result<Self> {
        let named = std::env::var_os("TMPDIR").map(PathBuf::from);
        Self::within(&scratch_place(named.as_deref()), prefix)
    }

    /// Makes one in this place, which the user of the server must be able to enter.
    ///
    /// # Errors
    /// The folder can't be made.
    pub fn within(place: &Path, prefix: &str) -> io::Result<Self> {
        let user = User::for_server();
        let folder = PrivateFolder::new(place, prefix, "proof", user)?;
        Ok(Self { folder, user, log: LogFile::default() })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Checks that the user of the server can enter it.
    ///
    /// # Errors
    /// The user can't, or no program can be started.
    pub async fn is_entered(&self) -> io::Result<()> {
        let ended = self.command(Path::new("true"), None).stderr(Stdio::null()).status().await?;
        if ended.success() { Ok(()) } else { Err(io::Error::other(ended.to_string())) }
    }

    /// A folder in it that the server may write to.
    ///
    /// # Errors
    /// The folder can't be made.
    pub fn make(&self, name: &str) -> io::Result<PathBuf> {
        self.make_inside(name).map(|made| made.path)
    }

    /// The same, to make and read files there.
    ///
    /// # Errors
    /// The folder can't be made, or was exchanged for another one at once.
    pub fn make_inside(&self, name: &str) -> io::Result<Inside> {
        mkdirat(self.folder.handle(), name, Mode::RWXU)?;
        let made = self.inside(name)?;
        if made.folder.metadata()?.uid() != rustix::process::geteuid().as_raw() {
            return Err(io::Error::other(format!("another process exchanged the new folder {name}")));
        }
        self.own(&made.folder)?;
        Ok(made)
    }

    /// A folder in it.
    ///
    /// # Errors
    /// It isn't there, or is a link.
    pub fn inside(&self, name: &str) -> io::Result<Inside> {
        let folder = openat(self.folder.handle(), name, OFlags::DIRECTORY | REFUSE_LINKS, Mode::empty())?;
        Ok(Inside { folder: Arc::new(folder.into()), path: self.path().join(name), user: self.user })
    }

    /// Writes a file in it that only the user of the server can read.
    ///
    /// # Errors
    /// The file exists, or can't be written.
    pub fn write(&self, name: &str, contents: &str) -> io::Result<PathBuf> {
        let mut file = create(self.folder.handle(), name.as_ref())?;
        file.write_all(contents.as_bytes())?;
        self.own(&file)?;
        Ok(self.path().join(name))
    }

    /// Gives an open file or folder to the user of the server.
    fn own(&self, file: &File) -> io::Result<()> {
        self.user.map_or(Ok(()), |user| user.own(file))
    }

    /// A program with an environment of its own: ours may hold credentials, and a server's functions can read the server's.
    /// `libraries` is the value of `LD_LIBRARY_PATH`, without which some builds don't find their own.
    pub fn command(&self, program: &Path, libraries: Option<&str>) -> Command {
        let mut command = Command::from(self.plain_command(program, libraries));
        command.kill_on_drop(true);
        command
    }

    /// The same, for a thread that waits.
    pub(super) fn plain_command(&self, program: &Path, libraries: Option<&str>) -> std::process::Command {
        let mut command = std::process::Command::new(program);
        command.current_dir(self.path()).stdin(Stdio::null()).stdout(Stdio::null());
        command.env_clear().env("LC_ALL", "C").env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.env("TMPDIR", self.path()).env("HOME", self.path());
        if let Some(libraries) = libraries {
            command.env("LD_LIBRARY_PATH", libraries);
        }
        if let Some(User { uid, gid }) = self.user {
            std::os::unix::process::CommandExt::uid(&mut command, uid);
            std::os::unix::process::CommandExt::gid(&mut command, gid);
        }
        command
    }

    /// Makes the file for what the server writes about itself.
    pub(super) fn begin_log(&mut self) -> io::Result<File> {
        let log = create(self.folder.handle(), "log".as_ref())?;
        self.log = LogFile(Some(Arc::new(log.try_clone()?)));
        Ok(log)
    }

    /// The last 64 KiB of what the server has written to its log. Whatever it puts in the log's place isn't looked at.
    pub fn log(&self) -> String {
        self.log.read()
    }

    /// The log, to be read beside other work with the server.
    pub fn log_file(&self) -> LogFile {
        self.log.clone()
    }
}

/// A folder in the one of a server.
#[derive(Debug, Clone)]
pub struct Inside {
    folder: Arc<File>,
    path: PathBuf,
    user: Option<User>,
}

impl Inside {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes a file there for the user of the server. Blocks.
    ///
    /// # Errors
    /// It exists, or can't be made.
    pub fn create(&self, name: &str) -> io::Result<File> {
        let file = create(&self.folder, name.as_ref())?;
        self.user.map_or(Ok(()), |user| user.own(&file))?;
        Ok(file)
    }

    /// Reads a file there, `most` bytes of it at most. Blocks, but for no other process.
    ///
    /// # Errors
    /// It isn't there, or isn't a plain file.
    pub fn read(&self, name: &str, most: u64) -> io::Result<Vec<u8>> {
        let file = openat(&*self.folder, name, OFlags::RDONLY | OFlags::NONBLOCK | REFUSE_LINKS, Mode::empty())?;
        let file = File::from(file);
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it isn't a plain file"));
        }
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// Opens what a name stands for itself, for this process alone.
const REFUSE_LINKS: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC);

/// Makes a file that only its user can read.
fn create(folder: &File, name: &OsStr) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | REFUSE_LINKS;
    Ok(openat(folder, name, flags, Mode::RUSR | Mode::WUSR)?.into())
}

/// Who runs the server when we are the superuser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct User {
    /// The number of the user.
    pub uid: u32,
    /// The number of the group.
    pub gid: u32,
}

impl User {
    /// `nobody`, when we are the superuser; else the server runs as we do. Not the user of a server that is here: what a set makes a
    /// server run must not reach that one's data.
    pub fn for_server() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        Some(find(&users, "nobody").unwrap_or(Self { uid: 65534, gid: 65534 }))
    }

    /// Gives an open file or folder to this user. What its name leads to meanwhile doesn't count.
    ///
    /// # Errors
    /// We aren't the superuser.
    pub(crate) fn own(self, file: &File) -> io::Result<()> {
        std::os::unix::fs::fchown(file, Some(self.uid), Some(self.gid))
    }
}

/// A user of `/etc/passwd`.
fn find(users: &str, name: &str) -> Option<User> {
    users.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let numbers = (fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?);
        (fields.first() == Some(&name)).then_some(User { uid: numbers.0, gid: numbers.1 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name() {
        let users = "root:x:0:0:root:/root:/bin/bash\nbroken\nnobody:x:65534:65534::/:/bin/false\n";
        assert_eq!(find(users, "nobody"), Some(User { uid: 65534, gid: 65534 }));
        assert_eq!(find(users, "mysql"), None);
    }

    #[test]
    fn what_a_server_puts_in_the_place_of_a_file_is_not_read() {
        let mut folder = Folder::new("seawall-test-folder-").expect("a folder");
        let (path, mut log) = (folder.path().to_owned(), folder.begin_log().expect("a log"));
        log.write_all(&vec![b'x'; 70_000]).expect("written");
        log.write_all(b"last words").expect("written");
        std::fs::remove_file(path.join("log")).expect("removed");
        std::os::unix::fs::symlink("/dev/zero", path.join("log")).expect("linked");
        let read = folder.log();
        assert!(read.len() == 65_536 && read.ends_with("xlast words"), "{}", read.len());

        let inside = folder.make_inside("wal").expect("made");
        inside.create("plain").expect("made").write_all(b"12345").expect("written");
        assert_eq!(inside.read("plain", 3).expect("read"), b"123");
        assert!(inside.create("plain").is_err(), "it is there");
        std::os::unix::fs::symlink("/etc/passwd", path.join("wal/link")).expect("linked");
        rustix::fs::mknodat(rustix::fs::CWD, path.join("wal/pipe"), rustix::fs::FileType::Fifo, Mode::RUSR, 0)
            .expect("made");
        for name in ["link", "pipe", "absent"] {
            assert!(inside.read(name, 3).is_err(), "{name}");
        }
        std::fs::rename(path.join("wal"), path.join("moved")).expect("moved");
        std::os::unix::fs::symlink("/etc", path.join("wal")).expect("linked");
        assert!(folder.inside("wal").is_err() && folder.make_inside("wal").is_err(), "that is a link");
    }

    #[test]
    fn what_a_proof_restores_goes_to_a_disk() {
        for (named, expected) in [(Some("/mnt/x"), "/mnt/x"), (Some("x"), "/var/tmp"), (None, "/var/tmp")] {
            assert_eq!(scratch_place(named.map(Path::new)), Path::new(expected));
        }
        assert!(!is_in_memory(Path::new("/nowhere")));
    }
}
