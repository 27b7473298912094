//! Runs a server in a restored folder until it has recovered, and stops it.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system and starts a server")]

use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use seawall_archive::log::Lsn;
use seawall_core::Moment;
use seawall_host::{PrivateFolder, User};
use seawall_vault::Environment;
use tokio::process::{Child, Command};
use tokio::time::Instant;

use super::super::base::BaseManifest;
use super::handed::HANDED_OVER;
use super::settings;
use crate::client::{Connection, Row, Target};
use crate::{Error, Limits, World, tools};

/// How long to wait before asking again whether it has recovered.
const PAUSE: Duration = Duration::from_millis(100);

/// How long a server that accepts connections may refuse ours.
const REFUSING: Duration = Duration::from_secs(60);

/// The SQLSTATE of a server that accepts no connections yet.
const NOT_YET: &str = "57P03";

/// The databases that are connected to: the first may have been dropped, or its locale may be missing here.
const DATABASES: [&str; 2] = ["postgres", "template1"];

/// How long a server may take to stop.
const FAREWELL: Duration = Duration::from_secs(300);

/// Where a recovery got to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reached {
    /// The position behind the last record that was replayed.
    pub lsn: Option<Lsn>,
    /// When the last transaction was committed that was replayed, as the source's clock had it.
    pub moment: Option<Moment>,
    /// The timeline that the server began.
    pub timeline: u32,
}

/// The server's program, of exactly the version of a base.
pub(in super::super) async fn find(version: u32, limits: &Limits, world: &World) -> Result<PathBuf, Error> {
    let major = version / 10_000;
    let tool = tools::find("postgres", major, limits, &world.environment).await?;
    if tool.major != major {
        return Err(Error::Tool {
            tool: "postgres".to_owned(),
            cause: format!("a server of version {major} is needed, and {} was found", tool.major),
            next: format!("install PostgreSQL {major}, or name the folder of its programs with --pg-bindir"),
        });
    }
    Ok(tool.path)
}

/// Has a server recover, and stops it.
pub(super) async fn run(
    program: &Path,
    data: &Path,
    manifest: &BaseManifest,
    libraries: Option<&str>,
) -> Result<Reached, Error> {
    let failed = |error: std::io::Error| Error::Io { path: data.display().to_string(), cause: error.to_string() };
    let user = owner(data).map_err(failed)?;
    let private = PrivateFolder::new(&std::env::temp_dir(), "seawall-recovery-", "recovery", user).map_err(failed)?;
    let superuser = manifest.superuser.clone().unwrap_or_else(|| "postgres".to_owned());
    let place = private.path().to_owned();
    // Only this process reaches the folder of the socket, and so it needs no password.
    write(&place, "hba", "local all all trust\n", user).map_err(failed)?;
    write(&place, "ident", "", user).map_err(failed)?;
    let log = std::fs::File::create(place.join("log")).map_err(failed)?;
    let mut command = Command::new(program);
    command.arg("-D").arg(data);
    for setting in own(data, &place) {
        command.args(["-c", &setting]);
    }
    if !data.join("postgresql.conf").exists() {
        write(&place, "postgresql.conf", "", user).map_err(failed)?;
        command.arg("-c").arg(format!("config_file={}", place.join("postgresql.conf").display()));
        for setting in settings::replayable(manifest) {
            command.args(["-c", &setting]);
        }
    }
    if let Some(User { uid, gid }) = user {
        command.uid(uid).gid(gid);
    }
    // What its restore_command needs of our environment is in the data directory.
    command.env_clear().env("LC_ALL", "C").env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    if let Some(libraries) = libraries {
        command.env("LD_LIBRARY_PATH", libraries);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).kill_on_drop(true);
    let mut child = command.spawn().map_err(failed)?;
    let socket = place.display().to_string().replace('%', "%25").replace('/', "%2F");
    let mut target = Target::parse(&format!("postgresql://x@{socket}:5432/postgres"), &Environment::empty())?;
    target.user = superuser;
    let log = || String::from_utf8_lossy(&std::fs::read(place.join("log")).unwrap_or_default()).into_owned();
    let reached = until_recovered(|| child.try_wait().ok().flatten(), &target, log).await;
    let stopped = stop(&mut child).await;
    let reached = reached?;
    match stopped {
        true => {
            if let Err(error) = end_recovery(data) {
                let next = format!("before a standby is made of this server, run there: {}", settings::resets());
                tracing::warn!(next, "what the recovery needed stays in postgresql.auto.conf: {error}");
            }
            Ok(reached)
        }
        false => Err(ended("it doesn't stop", &log())),
    }
}

/// Takes out what only the recovery needed, which is over: its settings, and what was handed over to its command. The server is stopped.
fn end_recovery(data: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let file = data.join("postgresql.auto.conf");
    // The server's own name for it: a base leaves it out, and the server writes over it.
    let new = data.join("postgresql.auto.conf.tmp");
    // The folder is another user's: nothing is followed, and what is read and given away is what was opened.
    let flags = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0);
    let mut old = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(&file)?;
    let facts = old.metadata()?;
    if !facts.is_file() {
        return Err(std::io::Error::other("it is no regular file"));
    }
    let mut text = String::new();
    old.read_to_string(&mut text)?;
    match std::fs::remove_file(&new) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut written = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    written.write_all(settings::without_recovery(&text).as_bytes())?;
    std::os::unix::fs::fchown(&written, Some(facts.uid()), Some(facts.gid()))?;
    written.set_permissions(facts.permissions())?;
    written.sync_all()?;
    std::fs::rename(&new, &file)?;
    std::fs::File::open(data)?.sync_all()?;
    std::fs::remove_file(data.join(HANDED_OVER))
}

/// The settings of any server that recovers: it is reached by a socket in `place` alone, and uses nothing but its own folders.
pub(in super::super) fn own(data: &Path, place: &Path) -> [String; 14] {
    [
        // The configuration may name the folder and the files of the source, whose server may run on this host.
        format!("data_directory={}", data.display()),
        "external_pid_file=".to_owned(),
        "ssl=off".to_owned(),
        format!("unix_socket_directories={}", place.display()),
        format!("hba_file={}", place.join("hba").display()),
        format!("ident_file={}", place.join("ident").display()),
        "listen_addresses=".to_owned(),
        "port=5432".to_owned(),
        "unix_socket_permissions=0700".to_owned(),
        // Otherwise a setting that was raised after the base would pause the recovery: replay needs no more than there is, queries do.
        "hot_standby=off".to_owned(),
        "logging_collector=off".to_owned(),
        "log_destination=stderr".to_owned(),
        "synchronous_standby_names=".to_owned(),
        // Its subscriptions would confirm at the publisher what only the copy got.
        "max_logical_replication_workers=0".to_owned(),
    ]
}

/// Asks until recovery is over. `ended` says whether the server has ended, and `log` what it wrote.
pub(in super::super) async fn until_recovered(
    mut has_ended: impl FnMut() -> Option<ExitStatus>,
    target: &Target,
    log: impl Fn() -> String,
) -> Result<Reached, Error> {
    let (mut lsn, mut moment) = (None, None);
    let mut refused: Option<Instant> = None;
    loop {
        if let Some(status) = has_ended() {
            return Err(ended(&status.to_string(), &log()));
        }
        match ask(target).await {
            Ok(row) => {
                refused = None;
                lsn = row.optional(1).and_then(|lsn| lsn.parse().ok()).or(lsn);
                moment = row.optional(2).and_then(|at| at.parse().ok()).map(Moment::from_millis).or(moment);
                if !row.flag(0) {
                    let timeline = row.text(3).get(..8).and_then(|digits| u32::from_str_radix(digits, 16).ok());
                    let timeline = timeline.unwrap_or_default();
                    return Ok(Reached { lsn, moment, timeline });
                }
            }
            Err(error) if error.sqlstate().is_some_and(|code| code != NOT_YET) => {
                if refused.get_or_insert_with(Instant::now).elapsed() > REFUSING {
                    let next =
                        "start it by hand, and look at its log: a role may be closed, or a locale missing on this host";
                    return Err(Error::Tool {
                        tool: "postgres".to_owned(),
                        cause: format!("recovery is over, and the server accepts no connection of ours: {error}"),
                        next: next.to_owned(),
                    });
                }
            }
            // It starts, or restarts.
            Err(_) => refused = None,
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Asks whether recovery is over, and how far it is.
async fn ask(target: &Target) -> Result<Row, Error> {
    let mut connection = connect(target).await?;
    let row = connection
        .one(
            "SELECT pg_catalog.pg_is_in_recovery(), pg_catalog.pg_last_wal_replay_lsn(), \
             (pg_catalog.date_part('epoch', pg_catalog.pg_last_xact_replay_timestamp()) * 1000)::pg_catalog.int8, \
             CASE WHEN NOT pg_catalog.pg_is_in_recovery() \
             THEN pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()) END",
        )
        .await;
    connection.close().await;
    row
}

/// Connects to the first database that can be connected to.
pub(in super::super) async fn connect(target: &Target) -> Result<Connection, Error> {
    let mut connected = Err(Error::Internal("no database".to_owned()));
    for database in DATABASES {
        connected = Connection::open(&target.with_database(database)).await;
        if connected.is_ok() {
            break;
        }
    }
    connected
}

/// Asks a server to stop when its sessions have ended; returns whether it did.
async fn stop(child: &mut Child) -> bool {
    let Some(pid) = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)) else { return true };
    let _ = kill_process(pid, Signal::INT);
    matches!(tokio::time::timeout(FAREWELL, child.wait()).await, Ok(Ok(status)) if status.success())
}

/// A server that ended by itself, or waits: its last words.
fn ended(how: &str, log: &str) -> Error {
    const LAST: usize = 2000;
    let log = log.trim();
    let from = log.len().saturating_sub(LAST);
    let last = log.char_indices().find(|(at, _)| *at >= from).map_or("", |(at, _)| &log[at..]);
    Error::ToolFailed { tool: "postgres".to_owned(), cause: format!("recovery ended: {how}: {last}") }
}

/// Who a server runs as when we are the superuser: the owner of its folder.
fn owner(data: &Path) -> std::io::Result<Option<User>> {
    use std::os::unix::fs::MetadataExt as _;
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let facts = std::fs::metadata(data)?;
    Ok(Some(User { uid: facts.uid(), gid: facts.gid() }))
}

fn write(folder: &Path, name: &str, content: &str, user: Option<User>) -> std::io::Result<()> {
    let path = folder.join(name);
    std::fs::write(&path, content)?;
    match user {
        Some(User { uid, gid }) => std::os::unix::fs::chown(&path, Some(uid), Some(gid)),
        None => Ok(()),
    }
}
