//! A server for one proof: started from the programs that are installed here, in a private folder with a private
//! socket, and gone with its folder.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system and starts a server")]

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use seawall_vault::Environment;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::Instant;

use crate::client::{Connection, Target};
use crate::{Error, Limits, space, tools};

/// How long it may take until it answers.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long to wait before asking again whether it answers.
const PAUSE: Duration = Duration::from_millis(50);

/// Nobody but us asks it anything, and nobody needs it after a crash.
const SETTINGS: [&str; 9] = [
    "listen_addresses=",
    "fsync=off",
    "full_page_writes=off",
    "wal_level=minimal",
    "max_wal_senders=0",
    "max_wal_size=256MB",
    "autovacuum=off",
    "max_locks_per_transaction=1024",
    "log_min_messages=error",
];

/// A server that runs until this is dropped.
pub(crate) struct Throwaway {
    child: Child,
    /// Its database `postgres`, as its superuser.
    pub(crate) target: Target,
    folder: TempDir,
}

impl Throwaway {
    /// Starts one of at least major version `least`.
    pub(crate) async fn start(least: u32, limits: &Limits, environment: &Environment) -> Result<Self, Error> {
        let initdb = tools::find("initdb", least, limits, environment).await?;
        let folder =
            tempfile::Builder::new().prefix("seawall-proof-").tempdir().map_err(|error| io("TMPDIR", &error))?;
        let place = folder.path().display().to_string();
        let user = User::for_server();
        if let Some(User { uid, gid }) = user {
            std::os::unix::fs::chown(folder.path(), Some(uid), Some(gid)).map_err(|error| io(&place, &error))?;
        }
        let data = folder.path().join("data");
        let mut make = command(&initdb.path, folder.path(), user);
        make.args(["--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C", "-D"]);
        let made = make.arg(&data).output().await.map_err(|error| io(&initdb.path.display().to_string(), &error))?;
        if !made.status.success() {
            let cause = format!("{}: {}", made.status, String::from_utf8_lossy(&made.stderr).trim());
            return Err(Error::ToolFailed { tool: "initdb".to_owned(), cause });
        }
        let log = folder.path().join("log");
        let complaints = std::fs::File::create(&log).map_err(|error| io(&log.display().to_string(), &error))?;
        let mut start = command(&initdb.path.with_file_name("postgres"), folder.path(), user);
        start.arg("-D").arg(&data).args(["-c", &format!("unix_socket_directories={place}")]);
        for setting in SETTINGS {
            start.args(["-c", setting]);
        }
        let child = start.stderr(complaints).spawn().map_err(|error| io("postgres", &error))?;
        let url = format!("postgresql://postgres@{}:5432/postgres", place.replace('%', "%25").replace('/', "%2F"));
        let mut server = Self { child, target: Target::parse(&url, &Environment::empty())?, folder };
        server.until_ready(&log).await?;
        Ok(server)
    }

    /// Refuses a database of `size` bytes that has no room here.
    pub(crate) fn has_room(&self, size: u64) -> Result<(), Error> {
        let Some(cause) = space::free(self.folder.path()).and_then(|free| space::lack(free, size)) else {
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
            let why = match Connection::open(&self.target).await {
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

    /// Ends it and removes all of it.
    pub(crate) async fn stop(mut self) {
        // Its other processes see that it is gone, and end.
        let _ = self.child.kill().await;
    }
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

fn command(program: &Path, folder: &Path, user: Option<User>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
    command.env_remove("PGDATA").env_remove("PGPORT").env_remove("PGHOST").env_remove("PGOPTIONS");
    if let Some(User { uid, gid }) = user {
        command.uid(uid).gid(gid);
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name() {
        let users = "root:x:0:0:root:/root:/bin/bash\nbroken\npostgres:x:101:104::/var/lib/postgresql:/bin/bash\n";
        assert_eq!(find(users, "postgres"), Some(User { uid: 101, gid: 104 }));
        assert_eq!(find(users, "nobody"), None);
    }
}
