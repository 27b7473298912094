//! Restoring into a folder that is there (`--delta`): an old data directory of the cluster, or an empty folder.
//!
//! What equals the base stays, and only the rest is fetched. While it runs, the folder has the lock file of a server, so that no
//! server and no other restore begins there. Until all of it is there, the folder has no `global/pg_control`, and a mark that
//! names the cluster and the places of its tablespaces. A restore that was interrupted is repeated, and goes on.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::super::base::chunk;
use super::super::base::control::Control;
use super::super::base::index::{Entry, Hash};
use super::super::base::list::CONTROL;
use super::folder::failed;
use crate::Error;

/// The mark of an unfinished restore, in the data directory.
pub(crate) const MARK: &str = "seawall.unfinished";

/// What [`CONTROL`], without which no server starts, is called until all is there.
pub(super) const CONTROL_LATER: &str = "global/pg_control.unfinished";

/// The lock file of a server: PostgreSQL doesn't start where one names a process that runs.
const LOCK: &str = "postmaster.pid";

/// The third line of that file where a restore wrote it. A server has the time of its start there.
const OURS: &str = "seawall restore";

/// What stands in a folder that a restore is to go into.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Found {
    /// Whether anything is in it.
    is_empty: bool,
    /// The system identifier of its `pg_control`.
    system: Option<u64>,
    /// The system identifier of the mark.
    mark: Option<String>,
    /// Whether it has `PG_VERSION`.
    has_version: bool,
    /// Whether its lock file, if there is one, is that of a restore.
    lock: Option<bool>,
    /// A process that runs in it, or that its lock file names and that runs.
    process: Option<u32>,
}

/// Why nothing is restored there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refused {
    /// A server or a restore runs there.
    Runs(u32),
    /// A server may run there, in another container or on another host, or was killed there.
    Locked,
    /// It is no data directory.
    Stranger,
    /// It is that of another cluster.
    Other(u64),
    /// It is a data directory, and which cluster it belongs to can't be read.
    Unknown,
}

/// Whether a restore of the cluster `system` may go there. Pure.
fn judge(found: &Found, system: u64) -> Result<(), Refused> {
    if let Some(process) = found.process {
        return Err(Refused::Runs(process));
    }
    // The number of a process means nothing where the folder is shared, so a server's lock alone is enough.
    if found.lock == Some(false) {
        return Err(Refused::Locked);
    }
    match (found.is_empty, found.system, &found.mark) {
        (true, _, _) => Ok(()),
        (_, Some(other), _) if other != system => Err(Refused::Other(other)),
        (_, Some(_), _) if found.has_version => Ok(()),
        (_, None, Some(mark)) if *mark == system.to_string() => Ok(()),
        (_, None, _) if found.has_version => Err(Refused::Unknown),
        _ => Err(Refused::Stranger),
    }
}

fn told(path: &Path, code: &'static str, cause: String, next: String) -> Error {
    Error::Refused { code, object: path.display().to_string(), cause, next }
}

/// Checks that a restore of the cluster `system` may go into a folder, and its tablespaces into theirs. A place of a tablespace in
/// which something is has to be named (`mappings`), or to be in the mark of a restore that is repeated: in a copy of a data
/// directory, the link leads to the place of the original. Blocks.
///
/// # Errors
/// `postgres.as-root`, `postgres.server-runs`, `postgres.other-cluster`, `postgres.folder-in-use`, or a folder can't be read.
pub(super) fn check(
    path: &Path,
    places: &[(u32, PathBuf)],
    mappings: &[(PathBuf, PathBuf)],
    system: u64,
) -> Result<(), Error> {
    check_data(path, system)?;
    let marked = marked(path);
    for (oid, to) in places {
        let is_link = std::fs::read_link(path.join(link(*oid))).is_ok_and(|its| its == *to);
        let is_named = mappings.iter().any(|(_, new)| new == to);
        if (is_link && is_named) || marked.contains(&(*oid, to.clone())) {
            continue;
        }
        match std::fs::symlink_metadata(to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(to, &error)),
            Ok(facts) if facts.is_dir() && is_empty(to).map_err(|error| failed(to, &error))? => {}
            Ok(_) => {
                let next = match is_link {
                    true => {
                        let to = to.display();
                        format!("if no other server uses it, name it with --tablespace {to}={to} (OLD=NEW)")
                    }
                    false => "give the tablespace an empty place with --tablespace OLD=NEW".to_owned(),
                };
                return Err(told(to, "postgres.folder-in-use", "something is in it".into(), next));
            }
        }
    }
    later_tablespaces(path, places)
}

/// Refuses a data directory with a tablespace that the base doesn't have, and that has files: the log may make it again, and no
/// recovery replays that into the files of a tablespace on this host.
fn later_tablespaces(path: &Path, places: &[(u32, PathBuf)]) -> Result<(), Error> {
    let links = std::fs::read_dir(path.join("pg_tblspc")).into_iter().flatten().flatten();
    for entry in links {
        let oid = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
        let Some(to) = std::fs::read_link(entry.path()).ok() else { continue };
        if oid.is_some_and(|oid| places.iter().any(|(its, _)| *its == oid)) {
            continue;
        }
        let mut inside = std::fs::read_dir(&to).into_iter().flatten().flatten();
        if inside.any(|entry| entry.file_name().to_string_lossy().starts_with("PG_")) {
            let cause = "it is the place of a tablespace that was made after the base, and the log makes it again";
            let next = "empty it if no other server uses it, or restore without --delta on another host";
            return Err(told(&to, "postgres.folder-in-use", cause.into(), next.into()));
        }
    }
    Ok(())
}

/// Checks the data directory.
fn check_data(path: &Path, system: u64) -> Result<(), Error> {
    // Links that the folder's owner can plant would lead the superuser anywhere (I11).
    if rustix::process::geteuid().is_root() {
        let next = "run it as the owner of the folder: runuser -u postgres -- seawall restore … --delta";
        let cause = "with --delta, files are written in a folder of another user";
        return Err(told(path, "postgres.as-root", cause.into(), next.into()));
    }
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(path, &error)),
        Ok(facts) if !facts.is_dir() => {
            let next = "name the data directory itself, not a link to it";
            return Err(told(path, "postgres.folder-in-use", "it is no folder".into(), next.into()));
        }
        Ok(facts) => mounts(path, facts.dev())?,
    }
    let found = found(path).map_err(|error| failed(path, &error))?;
    judge(&found, system).map_err(|refused| refusal(path, refused, system))
}

fn refusal(path: &Path, refused: Refused, system: u64) -> Error {
    let another = "name the data directory of this cluster, or leave --delta out and name a folder that isn't there";
    let (code, cause, next) = match refused {
        Refused::Runs(process) => (
            "postgres.server-runs",
            format!("the process {process} runs there"),
            "stop the server, or wait for the other restore",
        ),
        Refused::Locked => (
            "postgres.server-runs",
            format!("it has {LOCK}: a server runs there, maybe in another container, or was killed there"),
            "stop the server; if none runs there, remove postmaster.pid",
        ),
        Refused::Other(other) => {
            ("postgres.other-cluster", format!("it holds the cluster {other}, and the vault that of {system}"), another)
        }
        Refused::Stranger => ("postgres.folder-in-use", "something is in it that is no cluster".into(), another),
        Refused::Unknown => (
            "postgres.folder-in-use",
            format!("its {CONTROL} can't be read, so which cluster it holds isn't known"),
            "move the folder away, and leave --delta out",
        ),
    };
    told(path, code, cause, next.to_owned())
}

/// Refuses a data directory in which other file systems are mounted: what is there may not be the cluster's, and would be cleared.
fn mounts(folder: &Path, device: u64) -> Result<(), Error> {
    for entry in std::fs::read_dir(folder).map_err(|error| failed(folder, &error))? {
        let path = entry.map_err(|error| failed(folder, &error))?.path();
        let facts = std::fs::symlink_metadata(&path).map_err(|error| failed(&path, &error))?;
        if !facts.is_dir() || path.ends_with("lost+found") {
            continue;
        }
        if facts.dev() != device {
            let next = "unmount it, or leave --delta out and name a folder that isn't there";
            return Err(told(&path, "postgres.folder-in-use", "a file system is mounted there".into(), next.into()));
        }
        mounts(&path, device)?;
    }
    Ok(())
}

/// Looks at a folder.
fn found(path: &Path) -> io::Result<Found> {
    let read = |name: &str| match std::fs::read(path.join(name)) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error),
    };
    let lock = read(LOCK)?.map(|lock| String::from_utf8_lossy(&lock).into_owned());
    Ok(Found {
        is_empty: is_empty(path)?,
        system: read(CONTROL)?.and_then(|bytes| Control::parse(&bytes)).map(|control| control.system),
        mark: read(MARK)?.map(|bytes| String::from_utf8_lossy(&bytes).lines().next().unwrap_or_default().to_owned()),
        has_version: read("PG_VERSION")?.is_some(),
        process: lock.as_deref().and_then(locked).or_else(|| runs_in(path)),
        lock: lock.map(|lock| lock.lines().nth(2) == Some(OURS)),
    })
}

/// Whether nothing is in a folder, but for what each new file system has.
fn is_empty(path: &Path) -> io::Result<bool> {
    let is_something =
        |entry: &io::Result<std::fs::DirEntry>| entry.as_ref().map_or(true, |entry| entry.file_name() != "lost+found");
    Ok(!std::fs::read_dir(path)?.any(|entry| is_something(&entry)))
}

/// The places of tablespaces that the mark of an unfinished restore names.
fn marked(path: &Path) -> Vec<(u32, PathBuf)> {
    let mark = std::fs::read_to_string(path.join(MARK)).unwrap_or_default();
    let place = |line: &str| {
        let (oid, place) = line.split_once(' ')?;
        Some((oid.parse().ok()?, PathBuf::from(place)))
    };
    mark.lines().skip(1).filter_map(place).collect()
}

/// The process that the first line of a lock file names, if it runs. A server in single-user mode writes a negative number.
fn locked(lock: &str) -> Option<u32> {
    let process: u32 = lock.lines().next()?.trim().trim_start_matches('-').parse().ok()?;
    let pid = rustix::process::Pid::from_raw(i32::try_from(process).ok()?)?;
    // One of another user answers that it may not be asked.
    let runs = rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH);
    runs.then_some(process)
}

/// A process whose working directory is this folder: each of a server's is, also in a container that has other process numbers.
fn runs_in(path: &Path) -> Option<u32> {
    let facts = std::fs::metadata(path).ok()?;
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    let own = std::process::id();
    processes
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|process| *process != own)
        .find(|process| {
            let works_in = std::fs::metadata(format!("/proc/{process}/cwd"));
            let is_server = || std::fs::read_link(format!("/proc/{process}/exe")).is_ok_and(|exe| is_postgres(&exe));
            works_in.is_ok_and(|its| (its.dev(), its.ino()) == (facts.dev(), facts.ino())) && is_server()
        })
}

/// Whether a program is PostgreSQL's server, which may have been replaced since it started.
fn is_postgres(program: &Path) -> bool {
    program.file_name().is_some_and(|name| name.to_string_lossy().contains("postgres"))
}

/// The paths of a base, as hashes: a cluster may have a million files.
#[derive(Debug, Default)]
pub(super) struct Kept(HashSet<(Hash, bool)>);

impl Kept {
    /// Adds a path.
    pub(super) fn add(&mut self, path: &str, entry: Entry) {
        self.0.insert((chunk::hash(path.as_bytes()), entry == Entry::Folder));
    }

    fn has(&self, path: &str, is_folder: bool) -> bool {
        self.0.contains(&(chunk::hash(path.as_bytes()), is_folder))
    }
}

/// Where the data directory has the link to a tablespace.
pub(super) fn link(oid: u32) -> String {
    format!("pg_tblspc/{oid}")
}

/// Where a path is while the folder isn't whole.
pub(super) fn real(data: &Path, path: &str) -> PathBuf {
    data.join(if path == CONTROL { CONTROL_LATER } else { path })
}

/// The lock file of a server, which this process has while it restores. It goes when this is dropped.
#[derive(Debug)]
pub(super) struct Lock(PathBuf);

impl Lock {
    /// Takes the lock of a data directory, and checks once more that nothing runs there. From here on no server starts. Blocks.
    pub(super) fn take(data: &Path, system: u64) -> Result<Self, Error> {
        check_data(data, system)?;
        let path = data.join(LOCK);
        // Of a restore that ended: the check has seen that its process doesn't run.
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(&path, &error)),
            _ => {}
        }
        let opened = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let mut file = match opened {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(refusal(data, Refused::Locked, system));
            }
            opened => opened.map_err(|error| failed(&path, &error))?,
        };
        let lock = Self(path);
        // PostgreSQL reads the first line; the folder is the second.
        let text = format!("{}\n{}\n{OURS}\n", std::process::id(), data.display());
        io::Write::write_all(&mut file, text.as_bytes()).map_err(|error| failed(&lock.0, &error))?;
        match runs_in(data) {
            Some(process) => Err(refusal(data, Refused::Runs(process), system)),
            None => Ok(lock),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _gone = std::fs::remove_file(&self.0);
    }
}

/// Marks a folder that is locked, and has no server start there after a crash either. It keeps both over a power cut. Blocks.
pub(super) fn begin(data: &Path, system: u64, places: &[(u32, PathBuf)]) -> Result<(), Error> {
    let mark = data.join(MARK);
    let lines: String = places.iter().map(|(oid, to)| format!("{oid} {}\n", to.display())).collect();
    let text = format!("{system}\n{lines}");
    let write = || {
        let new = data.join(format!("{MARK}.new"));
        let mut file = File::create(&new)?;
        io::Write::write_all(&mut file, text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&new, &mark)
    };
    let is_there = std::fs::read_to_string(&mark).is_ok_and(|its| its == text);
    let marked = if is_there { Ok(()) } else { write() };
    let begun = marked.and_then(|()| {
        File::open(data)?.sync_all()?;
        match std::fs::remove_file(data.join(CONTROL)) {
            Ok(()) => File::open(data.join("global"))?.sync_all(),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(()),
            Err(error) => Err(error),
        }
    });
    begun.map_err(|error| failed(&mark, &error))
}

/// Lets servers start: all else is durable. Blocks.
pub(super) fn end(data: &Path) -> Result<(), Error> {
    let (later, control) = (data.join(CONTROL_LATER), data.join(CONTROL));
    std::fs::rename(&later, &control).map_err(|error| failed(&control, &error))?;
    let ended = File::open(data.join("global"))
        .and_then(|global| global.sync_all())
        .and_then(|()| std::fs::remove_file(data.join(MARK)))
        .and_then(|()| File::open(data)?.sync_all());
    ended.map_err(|error| failed(data, &error))
}

/// Removes what the base doesn't have from a folder. `below` is the folder's path in the base.
/// Links are removed and not followed, but for those of `links`: places of tablespaces by their path. Blocks.
pub(super) fn clear(folder: &Path, below: &str, kept: &Kept, links: &BTreeMap<String, PathBuf>) -> Result<(), Error> {
    let user = rustix::process::geteuid().as_raw();
    for entry in std::fs::read_dir(folder).map_err(|error| failed(folder, &error))? {
        let entry = entry.map_err(|error| failed(folder, &error))?;
        let real = entry.path();
        let facts = std::fs::symlink_metadata(&real).map_err(|error| failed(&real, &error))?;
        let name = entry.file_name();
        let path = name.to_str().map(|name| if below.is_empty() { name.to_owned() } else { format!("{below}/{name}") });
        let stays = path.as_deref().is_some_and(|path| match () {
            () if below.is_empty() && matches!(path, MARK | LOCK | "lost+found") => true,
            () if facts.is_symlink() => {
                links.get(path).is_some_and(|to| std::fs::read_link(&real).is_ok_and(|its| its == *to))
            }
            // A file with a second name is made anew: a snapshot made of links, or an upgraded cluster, has the same content. So is a
            // file that this user can't write.
            () if facts.is_file() => {
                kept.has(path, false) && facts.nlink() == 1 && facts.uid() == user && facts.mode() & 0o600 == 0o600
            }
            () => facts.is_dir() && kept.has(path, true) && !links.contains_key(path),
        });
        let done = match stays {
            false if facts.is_dir() => std::fs::remove_dir_all(&real),
            false => std::fs::remove_file(&real),
            true => Ok(()),
        };
        done.map_err(|error| failed(&real, &error))?;
        if stays && facts.is_dir() && path.as_deref() != Some("lost+found") {
            clear(&real, &path.unwrap_or_default(), kept, links)?;
        }
    }
    Ok(())
}

/// Removes what the base doesn't have from its own folders in the place of a tablespace, where other clusters may have theirs.
/// Blocks.
pub(super) fn clear_tablespace(place: &Path, below: &str, kept: &Kept) -> Result<(), Error> {
    for entry in std::fs::read_dir(place).map_err(|error| failed(place, &error))? {
        let entry = entry.map_err(|error| failed(place, &error))?;
        let real = entry.path();
        let Some(path) = entry.file_name().to_str().map(|name| format!("{below}/{name}")) else { continue };
        if !kept.has(&path, true) {
            continue;
        }
        if std::fs::symlink_metadata(&real).is_ok_and(|facts| facts.is_dir()) {
            clear(&real, &path, kept, &BTreeMap::new())?;
        } else {
            std::fs::remove_file(&real).map_err(|error| failed(&real, &error))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_restore_may_go() {
        let cluster = Found { has_version: true, system: Some(7), ..Found::default() };
        let unfinished = Found { mark: Some("7".into()), ..Found::default() };
        for (found, expected) in [
            (Found { is_empty: true, ..Found::default() }, Ok(())),
            (Found::default(), Err(Refused::Stranger)),
            (cluster.clone(), Ok(())),
            (Found { system: Some(8), ..cluster.clone() }, Err(Refused::Other(8))),
            (Found { system: Some(8), mark: Some("7".into()), ..cluster.clone() }, Err(Refused::Other(8))),
            (Found { has_version: false, ..cluster.clone() }, Err(Refused::Stranger)),
            (Found { system: None, ..cluster.clone() }, Err(Refused::Unknown)),
            (Found { process: Some(5), ..cluster.clone() }, Err(Refused::Runs(5))),
            (Found { lock: Some(false), ..cluster.clone() }, Err(Refused::Locked)),
            (Found { lock: Some(false), ..unfinished.clone() }, Err(Refused::Locked)),
            (Found { lock: Some(true), ..cluster.clone() }, Ok(())),
            (Found { lock: Some(true), ..unfinished.clone() }, Ok(())),
            (unfinished.clone(), Ok(())),
            (Found { has_version: true, ..unfinished.clone() }, Ok(())),
            (Found { mark: Some("8".into()), ..unfinished.clone() }, Err(Refused::Stranger)),
            (Found { mark: Some("8".into()), has_version: true, ..unfinished.clone() }, Err(Refused::Unknown)),
            (Found { process: Some(5), ..unfinished }, Err(Refused::Runs(5))),
        ] {
            assert_eq!(judge(&found, 7), expected, "{found:?}");
        }
    }

    #[test]
    fn a_lock_file_names_a_process() {
        let own = std::process::id();
        assert_eq!(locked(&own.to_string()), Some(own));
        assert_eq!(locked(&format!("-{own}")), Some(own), "in single-user mode");
        for lock in ["2147483646", "", "x", "0"] {
            assert_eq!(locked(lock), None, "{lock:?}");
        }
    }

    #[test]
    fn only_what_the_base_has_stays() {
        let place = tempfile::tempdir().expect("a folder");
        let (data, space, outside) =
            (place.path().join("data"), place.path().join("space"), place.path().join("outside"));
        for folder in ["data/base/5", "data/base/6", "data/pg_tblspc", "data/pg_wal", "space", "outside"] {
            std::fs::create_dir_all(place.path().join(folder)).expect("made");
        }
        for file in ["base/5/1", "base/5/2", "base/5/linked", "base/6/1", "pg_wal/1", "PG_VERSION", "mine"] {
            std::fs::write(data.join(file), "x").expect("written");
        }
        std::fs::write(outside.join("file"), "x").expect("written");
        std::fs::hard_link(data.join("base/5/linked"), outside.join("linked")).expect("linked");
        let link = |to: &Path, name: &str| std::os::unix::fs::symlink(to, data.join(name)).expect("linked");
        link(&space, "pg_tblspc/1");
        link(&outside, "pg_tblspc/2");
        link(&outside, "base/7");
        link(&outside.join("file"), "base/5/3");
        begin(&data, 7, &[]).expect("begun");
        std::fs::write(data.join(LOCK), "1\n").expect("written");
        let closed = std::os::unix::fs::PermissionsExt::from_mode(0o440);
        std::fs::set_permissions(data.join("base/5/2"), closed).expect("set");
        let mut kept = Kept::default();
        for file in ["base/5/1", "base/5/2", "base/5/3", "base/5/linked", "PG_VERSION"] {
            kept.add(file, Entry::File);
        }
        for folder in ["base", "base/5", "base/7", "pg_tblspc", "pg_tblspc/1", "pg_wal"] {
            kept.add(folder, Entry::Folder);
        }
        let links = BTreeMap::from([("pg_tblspc/1".to_owned(), space.clone()), ("pg_tblspc/2".to_owned(), space)]);
        clear(&data, "", &kept, &links).expect("cleared");
        let mut left: Vec<String> = Vec::new();
        let mut folders = vec![data.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).expect("read").flatten() {
                left.push(entry.path().strip_prefix(&data).expect("below").display().to_string());
                if entry.file_type().expect("a type").is_dir() {
                    folders.push(entry.path());
                }
            }
        }
        left.sort();
        let expected = ["PG_VERSION", "base", "base/5", "base/5/1", "pg_tblspc", "pg_tblspc/1", "pg_wal", LOCK, MARK];
        assert_eq!(left, expected);
        assert_eq!(std::fs::read_dir(&outside).expect("read").count(), 2, "no link was followed");
    }

    #[test]
    fn no_server_starts_before_the_end() {
        let place = tempfile::tempdir().expect("a folder");
        let data = place.path();
        std::fs::create_dir(data.join("global")).expect("made");
        std::fs::write(data.join(CONTROL), "old").expect("written");
        let places = [(16_400, PathBuf::from("/mnt/fast one"))];
        // Also when it is repeated, maybe after a crash in between.
        for _ in 0..2 {
            begin(data, 7, &places).expect("begun");
            assert!(!data.join(CONTROL).exists());
            std::fs::write(real(data, CONTROL), "new").expect("written");
            assert_eq!(found(data).expect("looked").mark.as_deref(), Some("7"));
            assert_eq!(marked(data), places);
        }
        end(data).expect("ended");
        assert_eq!(std::fs::read_to_string(data.join(CONTROL)).expect("read"), "new");
        assert!(!data.join(MARK).exists() && !real(data, CONTROL).exists());
    }
}
