//! A server for one proof: started from the programs that are installed here, in a private folder with a private
//! socket, and gone with its folder.
//!
//! What is restored into it has functions of users of the source, and they run here, as a plain role (I18, see `guard`). The
//! server runs apart from the rest of the host (see `seawall_host::Apart`).

#![expect(clippy::disallowed_methods, reason = "this module meets the file system and starts a server")]

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use seawall_archive::preflight::no_room;
use seawall_archive::server::ISOLATE;
use seawall_host::{Apart, Folder, NotStarted, ServerProgram, missing_walls};
use seawall_vault::{Environment, Secret};
use tokio::time::Instant;

use crate::client::{Connection, Login, Target};
use crate::preflight::space;
use crate::quote::{ident, literal};
use crate::{Error, Limits, tools};

/// How long it may take until it answers.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long to wait before asking again whether it answers.
const PAUSE: Duration = Duration::from_millis(50);

/// No process but the proof's asks it anything, and nothing of it is needed after a crash.
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

/// What its folder is called.
const PREFIX: &str = "seawall-proof-";

/// What a plain role needs that every session of ours begins with, and a superuser may do without asking.
const LOADER: &str = "LOGIN NOSUPERUSER BYPASSRLS";

/// A server that runs until this is dropped.
pub(crate) struct Throwaway {
    apart: Apart,
    /// Its database `postgres`, as the plain role that restores, with the superuser beside it.
    pub(crate) target: Target,
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
        let libraries = environment.get("LD_LIBRARY_PATH");
        let folder = match &limits.scratch {
            Some(place) => Folder::within(place, PREFIX).map_err(|error| io(&place.display().to_string(), &error))?,
            None => Folder::new(PREFIX).map_err(|error| io("TMPDIR", &error))?,
        };
        let place = folder.path().display().to_string();
        let data = folder.path().join("data").display().to_string();
        // Only this proof knows either role: no function can log in as one of them.
        let (keeper, loader) = (login("seawall_keeper")?, login("seawall_loader")?);
        let password = folder
            .write("password", keeper.password.reveal())
            .map_err(|error| io(&format!("{place}/password"), &error))?;
        let mut make = folder.command(&initdb.path, libraries);
        make.args(["--no-sync", "--auth=scram-sha-256", "--encoding=SQL_ASCII", "--locale=C"]);
        make.arg(format!("--username={}", keeper.user)).arg(format!("--pwfile={}", password.display()));
        let made = make.arg("-D").arg(&data).stderr(Stdio::piped()).output().await;
        let made = made.map_err(|error| io(&initdb.path.display().to_string(), &error))?;
        if !made.status.success() {
            let cause = format!("{}: {}", made.status, String::from_utf8_lossy(&made.stderr).trim());
            return Err(Error::ToolFailed { tool: "initdb".to_owned(), cause });
        }
        std::fs::remove_file(&password).map_err(|error| io(&password.display().to_string(), &error))?;
        // No function of a set runs because a superuser logs in.
        let later = (initdb.major >= 17).then_some("event_triggers=off");
        let others = settings(initdb.path.parent().unwrap_or(Path::new("/")));
        let sockets = format!("unix_socket_directories={place}");
        let all = [sockets.as_str()].into_iter().chain(SETTINGS).chain(later).chain(others.iter().map(String::as_str));
        let mut arguments = vec!["-D".to_owned(), data];
        arguments.extend(all.flat_map(|setting| ["-c".to_owned(), setting.to_owned()]));
        let postgres = initdb.path.with_file_name("postgres");
        let apart = start_apart(folder, (&postgres, &arguments), libraries, limits).await?;
        let url =
            format!("postgresql://{}@{}:5432/postgres", loader.user, place.replace('%', "%25").replace('/', "%2F"));
        let mut target = Target::parse(&url, &Environment::empty())?;
        (target.password, target.keeper) = (Some(loader.password.clone()), Some(keeper));
        target.is_unspoken = true;
        let mut server = Self { apart, target };
        server.until_ready().await?;
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
        let folder = self.apart.folder().path();
        let Some(cause) = space::free(folder).and_then(|free| no_room(free, size)) else {
            self.apart.admit(size);
            return Ok(());
        };
        let next = "name a folder on a larger disk with --scratch or prove.scratch, or a server with --to".to_owned();
        Err(Error::Refused { code: "postgres.no-space", object: folder.display().to_string(), cause, next })
    }

    /// A folder that the server may write to.
    pub(crate) fn folder(&self, name: &str) -> Result<String, Error> {
        let folder = self.apart.folder();
        let path = folder.path().join(name).display().to_string();
        folder.make(name).map_err(|error| io(&path, &error))?;
        Ok(path)
    }

    async fn until_ready(&mut self) -> Result<(), Error> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let ended = self.apart.ended();
            let why = match self.connect().await {
                Ok(connection) => {
                    connection.close().await;
                    return Ok(());
                }
                Err(why) => why,
            };
            if ended.is_some() || Instant::now() > deadline {
                let said = self.apart.folder().log();
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
        match self.apart.exceeded() {
            Some(cause) => exceeded(&cause),
            None => error.unspoken_by_tools().denied_with(
                "nothing of a set has the rights of a superuser on a server that is started for a proof: where the set needs                  them, prove it with --to on a server of your own",
            ),
        }
    }

    /// What may be reached from it, if it couldn't be kept apart.
    pub(crate) fn not_isolated(&self) -> Option<&'static str> {
        self.apart.not_isolated()
    }

    /// Ends it and removes all of it.
    pub(crate) async fn stop(self) {
        self.apart.stop().await;
    }
}

/// Starts a server of PostgreSQL in a folder, apart from everything else.
pub(crate) async fn start_apart(
    folder: Folder,
    (program, arguments): (&Path, &[String]),
    libraries: Option<&str>,
    limits: &Limits,
) -> Result<Apart, Error> {
    let (time, isolated) = (limits.proof, limits.isolated);
    let server = ServerProgram { path: program, arguments, signal: "QUIT", libraries, time, isolated };
    Apart::start(folder, server).await.map_err(|error| match error {
        NotStarted::Io(error) => io(&program.display().to_string(), &error),
        NotStarted::NotIsolated(why) => not_isolated(why),
    })
}

/// Refuses work that will start a server here, if the server can't be kept apart although it must be: before anything is got for it.
pub(crate) async fn check_walls(limits: &Limits) -> Result<(), Error> {
    if !limits.isolated {
        return Ok(());
    }
    match missing_walls().await {
        Ok(None) => Ok(()),
        Ok(Some(why)) => Err(not_isolated(why)),
        Err(error) => Err(io("a thread", &error)),
    }
}

fn not_isolated(why: &str) -> Error {
    Error::Refused {
        code: "proof.not-isolated",
        object: "the server that is started here".to_owned(),
        cause: why.to_owned(),
        next: ISOLATE.to_owned(),
    }
}

/// A role that no other process knows.
pub(crate) fn login(name: &str) -> Result<Login, Error> {
    let secret = |_| Error::Internal("the system gives no random numbers".to_owned());
    let mut drawn = [0_u8; 24];
    getrandom::fill(&mut drawn).map_err(secret)?;
    let hex: String = drawn.iter().map(|byte| format!("{byte:02x}")).collect();
    let (nonce, password) = hex.split_at(16);
    Ok(Login { user: format!("{name}_{nonce}"), password: Secret::new(password.to_owned()) })
}

fn io(path: &str, error: &std::io::Error) -> Error {
    Error::Io { path: path.to_owned(), cause: error.to_string() }
}

/// The failure of a proof whose server took more than it may.
fn exceeded(cause: &str) -> Error {
    Error::Refused {
        code: "postgres.proof-limit",
        object: "the server of the proof".to_owned(),
        cause: format!("{cause}; the proof was ended, and proves nothing"),
        next: "look for a function of a check, an index or a generated column that doesn't end or writes; where all is well, give \
               it longer with --proof-timeout, a larger disk with --scratch, or a server with --to"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use seawall_host::Bounds;

    use super::*;

    /// Killed, it can't remove what it shares: so nothing of that is the host's.
    #[tokio::test]
    async fn a_server_shares_no_memory_with_the_host() {
        let environment = Environment::empty();
        let limits = Limits { jobs: 1, memory: 0, ..Limits::default() };
        let server = Throwaway::start(14, |_| Vec::new(), &limits, &environment).await.expect("it starts");
        let data = server.apart.folder().path().join("data");
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
                // The folder itself may be in memory.
                let of_the_host = |line: &&str| line.contains("/dev/shm/") && !line.contains("/pg_dynshmem/");
                assert_eq!(maps.lines().find(of_the_host), None, "{maps}");
                processes += usize::from(maps.contains("/pg_dynshmem/"));
            }
        }
        assert!(processes > 0, "nothing of it is in its folder either");
        let folder = server.apart.folder().path().to_owned();
        server.stop().await;
        assert!(!is_the_hosts() && !folder.exists(), "{segment:?}");
    }

    /// Each process has a limit of its own, and there may be many.
    #[tokio::test]
    async fn a_server_that_takes_too_much_memory_is_ended_and_it_is_the_first_to_go_where_memory_runs_out() {
        let limits = Limits { jobs: 1, memory: 0, ..Limits::default() };
        let mut server = Throwaway::start(14, |_| Vec::new(), &limits, &Environment::empty()).await.expect("it starts");
        let data = server.apart.folder().path().join("data");
        let mut processes = 0;
        for process in std::fs::read_dir("/proc").expect("/proc").flatten() {
            if std::fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd == data) {
                let Ok(score) = std::fs::read_to_string(process.path().join("oom_score_adj")) else { continue };
                assert_eq!(score.trim(), "1000");
                processes += 1;
            }
        }
        let taken = server.apart.memory();
        assert!(processes > 3 && taken > 1 << 20, "{processes} {taken}");
        server.apart.bound(Bounds { disk: u64::MAX, time: Duration::MAX, memory: taken / 2 });
        let ended = async {
            while server.apart.ended().is_none() {
                tokio::time::sleep(PAUSE).await;
            }
        };
        tokio::time::timeout(PATIENCE, ended).await.expect("it is ended");
        let told = server.explain(Error::Internal("x".to_owned()));
        assert!(matches!(told, Error::Refused { code: "postgres.proof-limit", .. }), "{told}");
        assert!(told.to_string().contains("bytes of memory"), "{told}");
    }
}
