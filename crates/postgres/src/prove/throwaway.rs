//! A server for one proof: started from the programs that are installed here, in a private folder with a private
//! socket, and gone with its folder.
//!
//! What is restored into it has functions of users of the source, and they run here, as a plain role (I18, see `guard`). The
//! server knows nothing of our environment, where the vault's credentials may be. Where the system lets us, it has no network, sees no process but
//! its own, and all of them end with it.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system and starts a server")]

use std::fs::{File, OpenOptions, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use seawall_archive::preflight::no_room;
use seawall_host::{Bounds, Took, machine_memory, memory_of, size_of};
use seawall_vault::{Environment, Secret};
use tempfile::TempDir;
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::Instant;

use crate::artefact::aside;
use crate::client::{Connection, Login, Target};
use crate::preflight::space;
use crate::quote::{ident, literal};
use crate::{Error, Limits, tools};

/// How long it may take until it answers.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long to wait before asking again whether it answers.
const PAUSE: Duration = Duration::from_millis(50);

/// Nobody but us asks it anything, and nobody needs it after a crash.
const SETTINGS: [&str; 13] = [
    "listen_addresses=",
    "unix_socket_permissions=0700",
    "fsync=off",
    "full_page_writes=off",
    "wal_level=minimal",
    "max_wal_senders=0",
    "max_wal_size=256MB",
    "autovacuum=off",
    "max_locks_per_transaction=1024",
    "log_min_messages=error",
    // Pages are written into large objects that their owner has closed to everybody.
    "lo_compat_privileges=on",
    "max_logical_replication_workers=0",
    // In its folder, not in the memory that the host shares: that would stay when the server is killed.
    "dynamic_shared_memory_type=mmap",
];

/// How a program is started so that it has no network, sees no other process, leaves no shared memory, and takes no more than 16 GiB of addresses in
/// each of its own: programs of util-linux, which need no right.
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
const NOT_ALONE: &str = "`unshare` or `prlimit` fails here, so that functions of the set could reach the network, see other \
                         processes and take any memory";

/// What its folder is called.
const PREFIX: &str = "seawall-proof-";

/// Runs a server until the pipe is closed from which this reads: then whoever had it started has let it go, or was killed. A
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

/// How often it is looked at what it takes, at most. Memory is taken faster than a disk.
const LOOK: Duration = Duration::from_millis(100);

/// How often its folder is looked at, at most.
const LOOK_AT_FOLDER: Duration = Duration::from_millis(500);

/// How long it may take until all of its processes have ended.
const FAREWELL: Duration = Duration::from_secs(20);

/// What a plain role needs that every session of ours begins with, and a superuser may do without asking.
const LOADER: &str = "LOGIN NOSUPERUSER BYPASSRLS";

/// A server that runs until this is dropped.
pub(crate) struct Throwaway {
    child: Child,
    /// It ends when this is closed.
    pipe: Arc<Mutex<Option<ChildStdin>>>,
    /// What it may take.
    taken: Arc<Mutex<Taken>>,
    /// Looks whether it takes more.
    watch: tokio::task::JoinHandle<()>,
    /// Whether it has no network, sees no other process, and has a limit of memory.
    is_alone: bool,
    /// How long a proof may take, if that was asked for.
    time: Option<Duration>,
    /// Its database `postgres`, as the plain role that restores, with the superuser beside it.
    pub(crate) target: Target,
    folder: TempDir,
    /// Closed, and with that unlocked, when the folder is gone.
    _lock: File,
}

/// What a server may take, and whether it took more.
struct Taken {
    bounds: Bounds,
    since: Instant,
    exceeded: Option<String>,
}

impl Throwaway {
    /// Starts one of at least major version `least`; `settings` are asked for beside the usual ones, once it is known where
    /// its programs are.
    pub(crate) async fn start(
        least: u32,
        settings: impl FnOnce(&Path) -> Vec<String>,
        limits: &Limits,
        environment: &Environment,
    ) -> Result<Self, Error> {
        let initdb = tools::find("initdb", least, limits, environment).await?;
        let user = User::for_server();
        let owner = user.map_or_else(|| rustix::process::geteuid().as_raw(), |user| user.uid);
        aside::remove_left(&std::env::temp_dir(), "proof", PREFIX, owner);
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX).permissions(Permissions::from_mode(0o700));
        let folder = builder.tempdir().map_err(|error| io("TMPDIR", &error))?;
        let place = folder.path().display().to_string();
        let lock = aside::lock(folder.path()).map_err(|error| io(&place, &error))?;
        if let Some(User { uid, gid }) = user {
            std::os::unix::fs::chown(folder.path(), Some(uid), Some(gid)).map_err(|error| io(&place, &error))?;
        }
        let data = folder.path().join("data");
        // Nobody else has heard of either role, and no function can log in as one of them.
        let (keeper, loader) = (login("seawall_keeper")?, login("seawall_loader")?);
        let password = write_password(folder.path(), user, &keeper)?;
        let mut make = command(&initdb.path, folder.path(), user, environment);
        make.args(["--no-sync", "--auth=scram-sha-256", "--encoding=SQL_ASCII", "--locale=C"]);
        make.arg(format!("--username={}", keeper.user)).arg(format!("--pwfile={}", password.display()));
        let made =
            make.arg("-D").arg(&data).output().await.map_err(|error| io(&initdb.path.display().to_string(), &error))?;
        if !made.status.success() {
            let cause = format!("{}: {}", made.status, String::from_utf8_lossy(&made.stderr).trim());
            return Err(Error::ToolFailed { tool: "initdb".to_owned(), cause });
        }
        std::fs::remove_file(&password).map_err(|error| io(&password.display().to_string(), &error))?;
        let log = folder.path().join("log");
        let complaints = std::fs::File::create(&log).map_err(|error| io(&log.display().to_string(), &error))?;
        let postgres = initdb.path.with_file_name("postgres");
        let is_alone = can_be_alone(folder.path(), user, environment).await;
        let mut start = command(Path::new("sh"), folder.path(), user, environment);
        start.args(["-c", WATCH, "sh", &place]);
        if is_alone {
            start.arg("KILL").args(ALONE);
        } else {
            tracing::warn!("the server of the proof isn't kept apart: {NOT_ALONE}");
            start.arg("QUIT");
        }
        // Who interrupts us interrupts no server; it ends when the pipe is closed.
        start.stdin(Stdio::piped()).process_group(0).kill_on_drop(false);
        start.arg(&postgres).arg("-D").arg(&data).args(["-c", &format!("unix_socket_directories={place}")]);
        // No function of a set runs because a superuser logs in.
        let later = (initdb.major >= 17).then_some("event_triggers=off");
        let others = settings(initdb.path.parent().unwrap_or(Path::new("/")));
        for setting in SETTINGS.into_iter().chain(later).chain(others.iter().map(String::as_str)) {
            start.args(["-c", setting]);
        }
        let mut child = start.stderr(complaints).spawn().map_err(|error| io("postgres", &error))?;
        let pipe = Arc::new(Mutex::new(child.stdin.take()));
        let time = limits.proof;
        let machine = machine_memory();
        let taken = Taken { bounds: Bounds::of(0, time, machine), since: Instant::now(), exceeded: None };
        let taken = Arc::new(Mutex::new(taken));
        let first = child.id().unwrap_or(u32::MAX);
        let watch = tokio::spawn(watch(first, folder.path().to_owned(), Arc::clone(&taken), Arc::clone(&pipe)));
        let url =
            format!("postgresql://{}@{}:5432/postgres", loader.user, place.replace('%', "%25").replace('/', "%2F"));
        let mut target = Target::parse(&url, &Environment::empty())?;
        (target.password, target.keeper) = (Some(loader.password.clone()), Some(keeper));
        let mut server = Self { child, pipe, taken, watch, is_alone, time, target, folder, _lock: lock };
        server.until_ready(&log).await?;
        let mut connection = server.connect().await?;
        let name = ident(&loader.user);
        let password = literal(loader.password.reveal());
        connection.execute(&format!("CREATE ROLE {name} {LOADER} PASSWORD {password}")).await?;
        if connection.version >= 150_000 {
            // Rows are loaded as they are, without triggers of extensions.
            let replica = format!("GRANT SET ON PARAMETER session_replication_role TO {name}");
            connection.execute(&replica).await?;
        }
        connection.close().await;
        Ok(server)
    }

    /// A session of its superuser.
    pub(crate) async fn connect(&self) -> Result<Connection, Error> {
        Connection::open(&self.target.for_databases()).await
    }

    /// Makes a role of a set, and lets the role that restores do what it may. It is no superuser here; one that may be one
    /// in the source may read and write all tables, as its views do.
    pub(crate) async fn make_role(
        &self,
        connection: &mut Connection,
        role: &str,
        may_be_a_superuser: bool,
    ) -> Result<(), Error> {
        let (name, loader) = (ident(role), ident(&self.target.user));
        let all = match may_be_a_superuser {
            true => format!("ALTER ROLE {name} BYPASSRLS; GRANT pg_read_all_data, pg_write_all_data TO {name};"),
            false => String::new(),
        };
        let make = format!("CREATE ROLE {name}; {all} GRANT {name} TO {loader}");
        connection.execute(&make).await.map_err(|error| error.about(format!("role {role}")))
    }

    /// Takes in a database that had `size` bytes: from now on the server may take what that needs. One that has no room here
    /// is refused.
    pub(crate) fn admit(&self, size: u64) -> Result<(), Error> {
        let Some(cause) = space::free(self.folder.path()).and_then(|free| no_room(free, size)) else {
            let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
            (taken.bounds, taken.since) = (Bounds::of(size, self.time, machine_memory()), Instant::now());
            return Ok(());
        };
        let next = "set TMPDIR to a folder on a larger disk, or name a server with --to".to_owned();
        let object = self.folder.path().display().to_string();
        Err(Error::Refused { code: "postgres.no-space", object, cause, next })
    }

    /// A folder that the server may write to.
    pub(crate) fn folder(&self, name: &str) -> Result<String, Error> {
        let folder = self.folder.path().join(name);
        let path = folder.display().to_string();
        std::fs::create_dir(&folder).map_err(|error| io(&path, &error))?;
        if let Some(User { uid, gid }) = User::for_server() {
            std::os::unix::fs::chown(&folder, Some(uid), Some(gid)).map_err(|error| io(&path, &error))?;
        }
        Ok(path)
    }

    async fn until_ready(&mut self, log: &Path) -> Result<(), Error> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let ended = self.child.try_wait().ok().flatten();
            let why = match self.connect().await {
                Ok(connection) => {
                    connection.close().await;
                    return Ok(());
                }
                Err(why) => why,
            };
            if ended.is_some() || Instant::now() > deadline {
                let said = std::fs::read_to_string(log).unwrap_or_default();
                return Err(Error::ToolFailed {
                    tool: "postgres".to_owned(),
                    cause: format!("{why}: {}", said.trim()),
                });
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Why a proof failed: perhaps because its server was ended for what it took, or because nothing of a set has the rights
    /// of a superuser here.
    pub(crate) fn explain(&self, error: Error) -> Error {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        match &taken.exceeded {
            Some(cause) => exceeded(cause),
            None => error.denied_with(
                "nothing of a set has the rights of a superuser on a server that is started for a proof: where the set needs                  them, prove it with --to on a server of your own",
            ),
        }
    }

    /// What may be reached from it, if it couldn't be kept apart.
    pub(crate) fn not_isolated(&self) -> Option<&'static str> {
        (!self.is_alone).then_some(NOT_ALONE)
    }

    /// Ends it and removes all of it.
    pub(crate) async fn stop(mut self) {
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

impl Drop for Throwaway {
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
            let on_disk = is_due.then(|| (size_of(&place).unwrap_or_default(), space::free(&place)));
            (memory_of(first), on_disk)
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

/// A role that nobody knows.
fn login(name: &str) -> Result<Login, Error> {
    let secret = |_| Error::Internal("the system gives no random numbers".to_owned());
    let mut drawn = [0_u8; 24];
    getrandom::fill(&mut drawn).map_err(secret)?;
    let hex: String = drawn.iter().map(|byte| format!("{byte:02x}")).collect();
    let (nonce, password) = hex.split_at(16);
    Ok(Login { user: format!("{name}_{nonce}"), password: Secret::new(password.to_owned()) })
}

/// Writes a password for `initdb`, for its user alone.
fn write_password(folder: &Path, user: Option<User>, login: &Login) -> Result<PathBuf, Error> {
    let path = folder.join("password");
    let wrong = |error: std::io::Error| io(&path.display().to_string(), &error);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).map_err(wrong)?;
    file.write_all(login.password.reveal().as_bytes()).map_err(wrong)?;
    if let Some(User { uid, gid }) = user {
        std::os::unix::fs::chown(&path, Some(uid), Some(gid)).map_err(wrong)?;
    }
    Ok(path)
}

/// Whether a program can be started alone here.
async fn can_be_alone(folder: &Path, user: Option<User>, environment: &Environment) -> bool {
    let mut probe = command(Path::new(ALONE[0]), folder, user, environment);
    let ended = probe.args(&ALONE[1..]).arg("true").stderr(Stdio::null()).status().await;
    ended.is_ok_and(|status| status.success())
}

fn io(path: &str, error: &std::io::Error) -> Error {
    Error::Io { path: path.to_owned(), cause: error.to_string() }
}

/// Who runs the server when we are the superuser, whom PostgreSQL refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct User {
    uid: u32,
    gid: u32,
}

impl User {
    fn for_server() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        // Not `postgres`: what a set makes a server run must not reach the data of one that is here.
        Some(find(&users, "nobody").unwrap_or(User { uid: 65534, gid: 65534 }))
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

/// A program with an environment of its own: ours may hold credentials, and a server's functions can read the server's.
fn command(program: &Path, folder: &Path, user: Option<User>, environment: &Environment) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
    command.env_clear().env("LC_ALL", "C").env("PATH", "/usr/bin:/bin");
    // Without it some builds of PostgreSQL don't find their own libraries.
    if let Some(libraries) = environment.get("LD_LIBRARY_PATH") {
        command.env("LD_LIBRARY_PATH", libraries);
    }
    if let Some(User { uid, gid }) = user {
        command.uid(uid).gid(gid);
    }
    command
}

/// The failure of a proof whose server took more than it may.
fn exceeded(cause: &str) -> Error {
    Error::Refused {
        code: "postgres.proof-limit",
        object: "the server of the proof".to_owned(),
        cause: format!("{cause}; the proof was ended, and proves nothing"),
        next: "look for a function of a check, an index or a generated column that doesn't end or writes; where all is well, give \
               it longer with --proof-timeout, a larger disk with TMPDIR, or a server with --to"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever had it started may have been killed: nothing is left but that the pipe closes.
    #[tokio::test]
    async fn a_server_whose_pipe_closes_ends_and_its_folder_goes() {
        let place = tempfile::tempdir().expect("a folder");
        let alone: Vec<&str> = ["KILL"].into_iter().chain(ALONE).collect();
        for (number, kind) in [&["TERM", "env"][..], &alone[..]].into_iter().enumerate() {
            let folder = place.path().join(number.to_string());
            std::fs::create_dir(&folder).expect("made");
            let shown = folder.display().to_string();
            let mut start = command(Path::new("sh"), &folder, None, &Environment::empty());
            start.args(["-c", WATCH, "sh", &shown]).args(kind).args(["sleep", "1000"]).stdin(Stdio::piped());
            let mut child = start.spawn().expect("a shell");
            let pipe = child.stdin.take();
            assert_eq!(child.try_wait().expect("a child"), None);
            drop(pipe);
            let ended = tokio::time::timeout(FAREWELL, child.wait()).await.expect("it ends").expect("a child");
            assert!(!ended.success() && !folder.exists(), "{kind:?} {ended}");
        }
    }

    /// Killed, it can't remove what it shares: so nothing of that is the host's.
    #[tokio::test]
    async fn a_server_shares_no_memory_with_the_host() {
        let environment = Environment::empty();
        let limits = Limits { jobs: 1, memory: 0, bindir: None, proof: None };
        let server = Throwaway::start(14, |_| Vec::new(), &limits, &environment).await.expect("it starts");
        let data = server.folder.path().join("data");
        // The seventh line of the lock file names the segment: its key and its number.
        let lock = std::fs::read_to_string(data.join("postmaster.pid")).expect("it runs");
        let segment: Vec<&str> = lock.lines().nth(6).expect("a segment").split_whitespace().collect();
        let is_the_hosts = || {
            let listed = std::fs::read_to_string("/proc/sysvipc/shm").expect("the host's segments");
            listed.lines().any(|line| line.split_whitespace().take(2).collect::<Vec<_>>() == segment)
        };
        assert!(!is_the_hosts(), "{segment:?}");
        let mut processes = 0;
        for process in std::fs::read_dir("/proc").expect("/proc").flatten() {
            if std::fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd == data) {
                let Ok(maps) = std::fs::read_to_string(process.path().join("maps")) else { continue };
                assert!(!maps.contains("/dev/shm/"), "{maps}");
                processes += usize::from(maps.contains("/pg_dynshmem/"));
            }
        }
        assert!(processes > 0, "nothing of it is in its folder either");
        let folder = server.folder.path().to_owned();
        server.stop().await;
        assert!(!is_the_hosts() && !folder.exists(), "{segment:?}");
    }

    /// Each process has a limit of its own, and there may be many.
    #[tokio::test]
    async fn a_server_that_takes_too_much_memory_is_ended_and_it_is_the_first_to_go_where_memory_runs_out() {
        let limits = Limits { jobs: 1, memory: 0, bindir: None, proof: None };
        let mut server = Throwaway::start(14, |_| Vec::new(), &limits, &Environment::empty()).await.expect("it starts");
        let data = server.folder.path().join("data");
        let mut processes = 0;
        for process in std::fs::read_dir("/proc").expect("/proc").flatten() {
            if std::fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd == data) {
                let Ok(score) = std::fs::read_to_string(process.path().join("oom_score_adj")) else { continue };
                assert_eq!(score.trim(), "1000");
                processes += 1;
            }
        }
        let taken = memory_of(server.child.id().expect("it runs"));
        assert!(processes > 3 && taken > 1 << 20, "{processes} {taken}");
        server.taken.lock().expect("no panic").bounds.memory = taken / 2;
        tokio::time::timeout(FAREWELL, server.child.wait()).await.expect("it is ended").expect("a child");
        let told = server.explain(Error::Internal("x".to_owned()));
        assert!(matches!(told, Error::Refused { code: "postgres.proof-limit", .. }), "{told}");
        assert!(told.to_string().contains("bytes of memory"), "{told}");
    }

    #[test]
    fn users_are_found_by_name() {
        let users = "root:x:0:0:root:/root:/bin/bash\nbroken\npostgres:x:101:104::/var/lib/postgresql:/bin/bash\n";
        assert_eq!(find(users, "postgres"), Some(User { uid: 101, gid: 104 }));
        assert_eq!(find(users, "nobody"), None);
    }
}
