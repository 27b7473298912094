//! A server that is started for one proof: in a private folder, kept apart from everything else, bounded in what it takes, and gone
//! with its folder.
//!
//! What is restored into it may have functions that run there. The server knows nothing of our environment, where credentials
//! may be. Where the system lets us, it has no network, sees no process but its own, and all of them end with it.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system and starts a server")]

mod bounds;

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::process::{Child, ChildStdin, Command};
use tokio::time::Instant;

pub use bounds::{Bounds, Took};

use crate::private::PrivateFolder;
use crate::{free_space, machine_memory};

/// How a program is started so that it has no network, sees no other process, leaves no shared memory, and takes no more than
/// 16 GiB of addresses in each of its own: programs of util-linux, which need no right.
const ALONE: [&str; 12] = [
    "unshare",
    "--user",
    "--map-current-user",
    "--net",
    "--ipc",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
    "prlimit",
    "--core=0",
    "--as=17179869184",
];

/// What it means where that fails.
const NOT_ALONE: &str = "`unshare` or `prlimit` fails here, so that what is restored could reach the network, see other \
                             processes and take any memory";

/// Runs a server until the pipe is closed from which this reads: then the process that started it has let it go, or was killed. A
/// server that is alone ends with the first process of its world; any other is asked to stop at once. Its folder goes with it.
/// Where memory runs out, the system ends its processes before any other's.
/// Arguments: the folder, the signal, the program and its arguments.
const WATCH: &str = r#"
exec 3<&0
folder=$1; signal=$2; shift 2
{ { echo 1000 > /proc/self/oom_score_adj; } 2> /dev/null; exec "$@"; } < /dev/null 3<&- &
server=$!
{
    read -r _ <&3
    true > "$folder/let-go"
    first=$(cat "/proc/$server/task/$server/children" 2> /dev/null)
    case $signal in KILL) kill -KILL ${first:-$server} ;; *) kill -$signal "$server" ;; esac
} &
wait "$server"
status=$?
if [ -e "$folder/let-go" ]; then cd /; rm -rf -- "$folder" 2> /dev/null; fi
exit "$status"
"#;

/// How often it is looked at what the server takes, at most. Memory is taken faster than a disk.
const LOOK: Duration = Duration::from_millis(100);

/// How often its folder is looked at, at most.
const LOOK_AT_FOLDER: Duration = Duration::from_millis(500);

/// How long it may take until all of its processes have ended.
const FAREWELL: Duration = Duration::from_secs(20);

/// A private folder for one server, which goes when this is dropped.
#[derive(Debug)]
pub struct Folder {
    folder: PrivateFolder,
    user: Option<User>,
}

impl Folder {
    /// Makes one below the system's temporary folder, for the user who will run the server. Folders of the same prefix that
    /// killed processes left are removed.
    ///
    /// # Errors
    /// The folder can't be made.
    pub fn new(prefix: &str) -> io::Result<Self> {
        Self::within(&std::env::temp_dir(), prefix)
    }

    /// Makes one in this place, which the user of the server must be able to enter.
    ///
    /// # Errors
    /// The folder can't be made.
    pub fn within(place: &Path, prefix: &str) -> io::Result<Self> {
        let user = User::for_server();
        let folder = PrivateFolder::new(place, prefix, "proof", user)?;
        Ok(Self { folder, user })
    }

    /// Who will run the server, if it isn't the user of this process.
    pub fn user(&self) -> Option<User> {
        self.user
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
        let folder = self.folder.path().join(name);
        std::fs::create_dir(&folder)?;
        self.own(&folder)?;
        Ok(folder)
    }

    /// Writes a file in it that only the user of the server can read.
    ///
    /// # Errors
    /// The file exists, or can't be written.
    pub fn write(&self, name: &str, contents: &str) -> io::Result<PathBuf> {
        let path = self.folder.path().join(name);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        file.write_all(contents.as_bytes())?;
        self.own(&path)?;
        Ok(path)
    }

    /// Gives a file or folder to the user of the server.
    fn own(&self, path: &Path) -> io::Result<()> {
        self.user.map_or(Ok(()), |user| user.own(path))
    }

    /// A program with an environment of its own: ours may hold credentials, and a server's functions can read the server's.
    /// `libraries` is the value of `LD_LIBRARY_PATH`, without which some builds don't find their own.
    pub fn command(&self, program: &Path, libraries: Option<&str>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.path()).stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
        command.env_clear().env("LC_ALL", "C").env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.env("TMPDIR", self.path()).env("HOME", self.path());
        if let Some(libraries) = libraries {
            command.env("LD_LIBRARY_PATH", libraries);
        }
        if let Some(User { uid, gid }) = self.user {
            command.uid(uid).gid(gid);
        }
        command
    }

    /// What the server has written to its log.
    pub fn log(&self) -> String {
        let log = std::fs::read(self.path().join("log")).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }
}

/// A server that runs until this is dropped.
#[derive(Debug)]
pub struct Apart {
    child: Child,
    /// It ends when this is closed.
    pipe: Arc<Mutex<Option<ChildStdin>>>,
    taken: Arc<Mutex<Taken>>,
    /// Looks whether it takes more than it may.
    watch: tokio::task::JoinHandle<()>,
    is_alone: bool,
    /// How long a proof may take, if that was asked for.
    time: Option<Duration>,
    folder: Folder,
}

/// What a server may take, and whether it took more.
#[derive(Debug)]
struct Taken {
    bounds: Bounds,
    since: Instant,
    exceeded: Option<String>,
}

impl Apart {
    /// Starts a program in a folder. `signal` asks it to stop at once where it isn't alone.
    ///
    /// # Errors
    /// The program can't be started.
    pub async fn start(
        folder: Folder,
        program: &Path,
        arguments: &[String],
        signal: &str,
        libraries: Option<&str>,
        time: Option<Duration>,
    ) -> io::Result<Self> {
        // Nothing may be there: the server's user owns the folder.
        let complaints = File::create_new(folder.path().join("log"))?;
        let is_alone = can_be_alone(&folder, libraries).await;
        let mut start = folder.command(Path::new("sh"), libraries);
        start.args(["-c", WATCH, "sh"]).arg(folder.path());
        if is_alone {
            start.arg("KILL").args(ALONE);
        } else {
            tracing::warn!("the server of the proof isn't kept apart: {NOT_ALONE}");
            start.arg(signal);
        }
        // Who interrupts us interrupts no server; it ends when the pipe is closed.
        start.stdin(Stdio::piped()).process_group(0).kill_on_drop(false);
        let mut child = start.arg(program).args(arguments).stderr(complaints).spawn()?;
        let pipe = Arc::new(Mutex::new(child.stdin.take()));
        let bounds = Bounds::of(0, time, machine_memory());
        let taken = Arc::new(Mutex::new(Taken { bounds, since: Instant::now(), exceeded: None }));
        let first = child.id().unwrap_or(u32::MAX);
        let watch = tokio::spawn(watch(first, folder.path().to_owned(), Arc::clone(&taken), Arc::clone(&pipe)));
        Ok(Self { child, pipe, taken, watch, is_alone, time, folder })
    }

    /// Its folder.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// How it ended, if it did.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Bytes of memory that its processes take, but for what they share with others.
    pub fn memory(&self) -> u64 {
        self.child.id().map_or(0, bounds::memory_of)
    }

    /// Lets it take what a database of `size` bytes needs, from now on.
    pub fn admit(&self, size: u64) {
        self.bound(Bounds::of(size, self.time, machine_memory()));
    }

    /// Bounds what it may take, from now on.
    pub fn bound(&self, bounds: Bounds) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        (taken.bounds, taken.since) = (bounds, Instant::now());
    }

    /// Why it was ended, if it took too much.
    pub fn exceeded(&self) -> Option<String> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).exceeded.clone()
    }

    /// What may be reached from it, if it couldn't be kept apart.
    pub fn not_isolated(&self) -> Option<&'static str> {
        (!self.is_alone).then_some(NOT_ALONE)
    }

    /// Ends it and removes all of it.
    pub async fn stop(mut self) {
        self.quit();
        if tokio::time::timeout(FAREWELL, self.child.wait()).await.is_err() {
            let _ = self.child.kill().await;
        }
    }

    /// Has all of its processes end at once, also those that calculate for ever and would not see that it is gone.
    fn quit(&self) {
        self.watch.abort();
        self.pipe.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        self.quit();
    }
}

/// Looks at what a server takes, and ends it when that is too much: its processes come of the `first` one.
async fn watch(first: u32, folder: PathBuf, taken: Arc<Mutex<Taken>>, pipe: Arc<Mutex<Option<ChildStdin>>>) {
    let mut due = Instant::now() + LOOK_AT_FOLDER;
    loop {
        tokio::time::sleep(LOOK).await;
        let (began, place) = (Instant::now(), folder.clone());
        let is_due = began >= due;
        let look = move || {
            let on_disk = is_due.then(|| (bounds::size_of(&place).unwrap_or_default(), free_space(&place)));
            (bounds::memory_of(first), on_disk)
        };
        let Ok((memory, on_disk)) = tokio::task::spawn_blocking(look).await else { return };
        if is_due {
            // A folder with many files is looked at less often.
            due = Instant::now() + LOOK_AT_FOLDER.max(began.elapsed() * 20);
        }
        let mut taken = taken.lock().unwrap_or_else(PoisonError::into_inner);
        // The bounds are those of the present database. A look that began before it was admitted has seen the one before.
        let (disk, free) = on_disk.filter(|_| began >= taken.since).unwrap_or_default();
        let took = Took { time: taken.since.elapsed(), disk, memory, free };
        if let Some(cause) = taken.bounds.beyond(&took) {
            taken.exceeded = Some(cause);
            pipe.lock().unwrap_or_else(PoisonError::into_inner).take();
            return;
        }
    }
}

/// Whether a program can be started alone here.
async fn can_be_alone(folder: &Folder, libraries: Option<&str>) -> bool {
    let [program, arguments @ ..] = ALONE;
    let mut probe = folder.command(Path::new(program), libraries);
    let ended = probe.args(arguments).arg("true").stderr(Stdio::null()).status().await;
    ended.is_ok_and(|status| status.success())
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

    /// Gives a file or folder to this user.
    ///
    /// # Errors
    /// We aren't the superuser, or it isn't there.
    pub fn own(self, path: &Path) -> io::Result<()> {
        std::os::unix::fs::chown(path, Some(self.uid), Some(self.gid))
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

    /// The process that had it started may have been killed: nothing is left but that the pipe closes.
    #[tokio::test]
    async fn a_server_whose_pipe_closes_ends_and_its_folder_goes() {
        let alone: Vec<&str> = ["KILL"].into_iter().chain(ALONE).collect();
        for kind in [&["TERM", "env"][..], &alone[..]] {
            let folder = Folder::new("seawall-test-apart-").expect("a folder");
            let path = folder.path().to_owned();
            let mut start = folder.command(Path::new("sh"), None);
            start.args(["-c", WATCH, "sh"]).arg(&path).args(kind).args(["sleep", "1000"]).stdin(Stdio::piped());
            let mut child = start.spawn().expect("a shell");
            let pipe = child.stdin.take();
            assert_eq!(child.try_wait().expect("a child"), None);
            drop(pipe);
            let ended = tokio::time::timeout(FAREWELL, child.wait()).await.expect("it ends").expect("a child");
            assert!(!ended.success() && !path.exists(), "{kind:?} {ended}");
        }
    }

    #[tokio::test]
    async fn a_server_that_is_stopped_leaves_nothing() {
        let folder = Folder::new("seawall-test-apart-").expect("a folder");
        let path = folder.path().to_owned();
        let arguments = ["1000".to_owned()];
        let server = Apart::start(folder, Path::new("sleep"), &arguments, "TERM", None, None).await.expect("started");
        server.stop().await;
        assert!(!path.exists());
    }

    #[test]
    fn users_are_found_by_name() {
        let users = "root:x:0:0:root:/root:/bin/bash\nbroken\nnobody:x:65534:65534::/:/bin/false\n";
        assert_eq!(find(users, "nobody"), Some(User { uid: 65534, gid: 65534 }));
        assert_eq!(find(users, "mysql"), None);
    }
}
