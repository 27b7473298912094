//! A server that is started for one proof: in a private folder, kept apart from everything else, bounded in what it takes, and gone
//! with its folder.
//!
//! What is restored into it may have functions that run there, and the owner of the source has written them. So the server knows
//! nothing of our environment, where credentials may be, and reaches no file but those of its folder and the system's programs, no
//! network, and no socket of another process (`confine`). Where the system lets us, it also has processes and shared memory of its own.
//!
//! The rooms: `confine` (what it can reach), `bounds` (what it may take), `folder` (where it lies, and as whom it runs).

#![expect(clippy::disallowed_methods, reason = "this module meets the file system and starts a server")]

mod bounds;
#[cfg_attr(not(target_os = "linux"), path = "confine/elsewhere.rs")]
mod confine;
mod folder;

use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, ChildStdin};
use tokio::time::Instant;

pub use bounds::{Bounds, Took};
pub use folder::{Folder, Inside, LogFile, User, is_in_memory, scratch_place};

use self::confine::{Room, Walls, judge, on_confined_thread};
use crate::{free_space, machine_memory};

/// How a program is started so that it has a network, shared memory and processes of its own, all of which end with the first one: a
/// program of util-linux, which needs no right. It writes nothing to `/proc`, which is closed to it.
const ALONE: [&str; 7] = ["unshare", "--user", "--net", "--ipc", "--pid", "--fork", "--kill-child"];

/// Runs a server until the pipe is closed from which this reads: then the process that started it has let it go, or was killed. It
/// begins when it is told to on that pipe: by then, where memory runs out, the system ends its processes before any other's. Each
/// may take 16 GiB of addresses, and leaves no image of its memory. A server that is alone ends with the process that made its world;
/// any other is asked to stop at once. What is in its folder goes with it. The folder itself can't, from inside: a file in it shows
/// the next proof that it was left.
/// Arguments: the folder, the signal, the program and its arguments.
const WATCH: &str = r#"
exec 3<&0
folder=$1; signal=$2; shift 2
for limit in '-c 0' '-v 16777216'; do (ulimit $limit) 2> /dev/null && ulimit $limit; done
read -r _ <&3 || exit 1
"$@" < /dev/null 3<&- &
server=$!
{
    read -r _ <&3
    true > "$folder/let-go"
    kill -$signal "$server"
} 2> /dev/null &
wait "$server"
status=$?
if [ -e "$folder/let-go" ]; then
    cd /
    for _ in 1 2 3 4 5; do rm -rf -- "$folder"/* "$folder"/.[!.]* && break; sleep 1; done 2> /dev/null
    { true > "$folder/let-go"; } 2> /dev/null
fi
exit "$status"
"#;

/// How often it is looked at what the server takes, at most. Memory is taken faster than a disk.
const LOOK: Duration = Duration::from_millis(100);

/// How often its folder is looked at, at most.
const LOOK_AT_FOLDER: Duration = Duration::from_millis(500);

/// How long it may take until all of its processes have ended.
const FAREWELL: Duration = Duration::from_secs(20);

/// What is started apart.
#[derive(Debug, Clone, Copy)]
pub struct ServerProgram<'a> {
    /// The program.
    pub path: &'a Path,
    /// Its arguments.
    pub arguments: &'a [String],
    /// The signal that asks it to stop at once: `QUIT`.
    pub signal: &'a str,
    /// The value of `LD_LIBRARY_PATH`, without which some builds don't find their own libraries.
    pub libraries: Option<&'a str>,
    /// How long a proof may take, if that was asked for.
    pub time: Option<Duration>,
    /// Whether it may only be started where it can be kept from files, the network and our environment.
    pub isolated: bool,
}

/// Why a server wasn't started.
#[derive(Debug)]
pub enum NotStarted {
    /// It couldn't be kept apart here. What is missing.
    NotIsolated(&'static str),
    /// The program, or a thread for it, can't be started.
    Io(io::Error),
}

impl From<io::Error> for NotStarted {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
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
    walls: Walls,
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

/// What is missing where the owner asked for no walls.
const UNASKED: &str = "neither Landlock nor a filter of system calls keeps it apart, as was asked (`isolated: false`, `--not-isolated`), so that what \
     is restored could reach files of this user, and the network";

/// What is missing here for walls around a server; `None` if walls can be had. It is found out on a thread that confines itself and ends.
///
/// # Errors
/// No thread can be started.
pub async fn missing_walls() -> io::Result<Option<&'static str>> {
    let room = Room { folder: std::env::temp_dir(), program: PathBuf::from("/bin/sh"), libraries: None };
    let judged = |offers| match judge(offers) {
        Walls::Open(why) => Some(why),
        Walls::Whole | Walls::Low(_) => None,
    };
    on_confined_thread(Some(room), judged).await
}

impl Apart {
    /// Starts a program in a folder.
    ///
    /// # Errors
    /// The program can't be started, or can't be kept apart although it must be.
    pub async fn start(mut folder: Folder, server: ServerProgram<'_>) -> Result<Self, NotStarted> {
        let ServerProgram { path, arguments, signal, libraries, time, isolated } = server;
        let complaints = folder.begin_log()?;
        let [alone, how @ ..] = ALONE;
        let mut probe = folder.plain_command(Path::new(alone), libraries);
        probe.args(how).arg("true").stderr(Stdio::null());
        let mut start = folder.command(Path::new("sh"), libraries);
        start.args(["-c", WATCH, "sh"]).arg(folder.path()).stderr(complaints);
        // Who interrupts us interrupts no server; it ends when the pipe is closed.
        start.stdin(Stdio::piped()).process_group(0).kill_on_drop(false);
        let program = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let room = Room { folder: folder.path().to_owned(), program, libraries: libraries.map(str::to_owned) };
        let (path, arguments, signal) = (path.to_owned(), arguments.to_owned(), signal.to_owned());
        let started = on_confined_thread(isolated.then_some(room), move |mut offers| {
            offers.namespaces = probe.status().is_ok_and(|status| status.success());
            let walls = if isolated { judge(offers) } else { Walls::Open(UNASKED) };
            if let (Walls::Open(why), true) = (walls, isolated) {
                return Err(NotStarted::NotIsolated(why));
            }
            match offers.namespaces {
                true => start.arg("KILL").args(ALONE),
                false => start.arg(signal),
            };
            Ok((walls, start.arg(path).args(arguments).spawn()?))
        });
        let (walls, mut child) = started.await??;
        if let Walls::Low(why) | Walls::Open(why) = walls {
            tracing::warn!("the server of the proof isn't wholly kept apart: {why}");
        }
        let first = child.id().unwrap_or(u32::MAX);
        // What comes of it inherits that.
        let _may_be_refused = std::fs::write(format!("/proc/{first}/oom_score_adj"), "1000");
        let mut pipe = child.stdin.take().ok_or_else(|| io::Error::other("no pipe to the server"))?;
        pipe.write_all(b"\n").await?;
        let pipe = Arc::new(Mutex::new(Some(pipe)));
        let bounds = Bounds::of(0, time, machine_memory());
        let taken = Arc::new(Mutex::new(Taken { bounds, since: Instant::now(), exceeded: None }));
        let watch = tokio::spawn(watch(first, folder.path().to_owned(), Arc::clone(&taken), Arc::clone(&pipe)));
        Ok(Self { child, pipe, taken, watch, walls, time, folder })
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
        match self.walls {
            Walls::Whole => None,
            Walls::Low(why) | Walls::Open(why) => Some(why),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Vec<String> {
        vec!["-c".to_owned(), script.to_owned()]
    }

    async fn start(folder: Folder, arguments: &[String]) -> Apart {
        let (path, signal) = (Path::new("sh"), "TERM");
        let server = ServerProgram { path, arguments, signal, libraries: None, time: None, isolated: true };
        Apart::start(folder, server).await.expect("started")
    }

    /// The process that had it started may have been killed: nothing is left but that the pipe closes.
    #[tokio::test]
    async fn a_server_whose_pipe_closes_ends_and_all_that_it_wrote_goes() {
        let alone: Vec<&str> = ["KILL"].into_iter().chain(ALONE).collect();
        for kind in [&["TERM", "env"][..], &alone[..]] {
            let folder = Folder::new("seawall-test-apart-").expect("a folder");
            let path = folder.path().to_owned();
            folder.make("data").expect("made");
            let mut start = folder.command(Path::new("sh"), None);
            start.args(["-c", WATCH, "sh"]).arg(&path).args(kind).args(["sleep", "1000"]).stdin(Stdio::piped());
            let mut child = start.spawn().expect("a shell");
            let mut pipe = child.stdin.take().expect("a pipe");
            pipe.write_all(b"\n").await.expect("told");
            assert_eq!(child.try_wait().expect("a child"), None);
            drop(pipe);
            let ended = tokio::time::timeout(FAREWELL, child.wait()).await.expect("it ends").expect("a child");
            let left: Vec<_> = path.read_dir().expect("it").flatten().map(|entry| entry.file_name()).collect();
            assert!(!ended.success() && left == ["let-go"], "{kind:?} {ended} {left:?}");
        }
    }

    #[tokio::test]
    async fn a_server_that_is_stopped_leaves_nothing() {
        let folder = Folder::new("seawall-test-apart-").expect("a folder");
        let path = folder.path().to_owned();
        let server = start(folder, &shell("sleep 1000")).await;
        server.stop().await;
        assert!(!path.exists());
    }

    /// The script is the server of a hostile source. It tells what it got in a file of its folder.
    #[tokio::test]
    async fn a_server_reaches_no_file_process_or_socket_of_ours() {
        let ours = tempfile::tempdir().expect("a folder");
        let secret = ours.path().join("secret");
        std::fs::write(&secret, "canary").expect("written");
        let socket = ours.path().join("socket");
        let _listens = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
        // The user of the server may open all of it, but for the walls.
        let open = std::os::unix::fs::PermissionsExt::from_mode;
        for (path, mode) in [(ours.path(), 0o777), (secret.as_path(), 0o666), (socket.as_path(), 0o777)] {
            std::fs::set_permissions(path, open(mode)).expect("set");
        }
        let folder = Folder::new("seawall-test-apart-").expect("a folder");
        let log = folder.path().join("told");
        let (own, place, us) = (folder.path().display(), ours.path().display(), std::process::id());
        let script = format!(
            "cd {own}; exec > told 2>&1
             cat {place}/secret /proc/{us}/environ /proc/self/environ /etc/shadow; ls {place} /proc /root
             echo x > {place}/written; rm -f {place}/secret; mv {place}/secret mine; ln {place}/secret linked; chmod 644 {place}/secret
             mkdir sub && mv told sub/ && echo moved
             kill -TERM {us} 2>&1; truncate -s 0 {place}/secret
             echo end; sleep 1000"
        );
        let mut server = start(folder, &shell(&script)).await;
        let told = || std::fs::read_to_string(log.with_file_name("sub").join("told")).unwrap_or_default();
        let deadline = Instant::now() + FAREWELL;
        while !told().contains("end\n") && Instant::now() < deadline {
            tokio::time::sleep(LOOK).await;
        }
        let told = told();
        assert!(told.contains("moved\n") && told.contains("end\n"), "{told} {}", server.folder().log());
        assert!(!told.contains("canary") && !told.contains("PATH="), "{told}");
        let refused = ["denied", "not permitted", "cross-device", "No such process"];
        let is_known = |line: &str| line.is_empty() || ["moved", "end"].contains(&line);
        let got = told.lines().find(|line| !is_known(line) && !refused.iter().any(|words| line.contains(words)));
        assert_eq!(got, None, "{told}");
        assert_eq!(std::fs::read_to_string(&secret).expect("there"), "canary");
        let mode = std::fs::metadata(&secret).expect("there").permissions();
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o666);
        assert!(!ours.path().join("written").exists());
        assert_eq!((server.not_isolated(), server.ended()), (None, None));
        server.stop().await;
    }
}
