//! Restoring into a folder that is there (`--delta`): an old data directory of the cluster, or an empty folder.
//!
//! What equals the base stays, and only the rest is fetched. While it runs, the folder has the lock file of a server (`lock`), so that no
//! server and no other restore begins there. Until all of it is there, the folder has no `global/pg_control`, and a mark that
//! names the cluster and the places of its tablespaces. A restore that was interrupted is repeated, and goes on.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::super::base::chunk;
use super::super::base::control::Control;
use super::super::base::index::{Entry, Hash};
use super::super::base::list::CONTROL;
use super::folder::failed;
use super::lock::{self, Holder, LOCK, Lock};
use crate::Error;

/// The mark of an unfinished restore, in the data directory.
pub(crate) const MARK: &str = "seawall.unfinished";

/// What [`CONTROL`], without which no server starts, is called until all is there.
pub(super) const CONTROL_LATER: &str = "global/pg_control.unfinished";

/// What [`CONTROL`] is called for the moment in which the lock is looked at once more.
const CONTROL_BEFORE: &str = "global/pg_control.before";

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
    /// Whose lock it has.
    lock: Option<Holder>,
    /// A server that runs in it.
    process: Option<u32>,
}

/// Why nothing is restored there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refused {
    /// A server runs there.
    Runs(u32),
    /// Another restore runs there.
    Restores,
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
    if let Some(refused) = found.lock.and_then(held) {
        return Err(refused);
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

/// Why nothing is restored where this one has the lock; `None` for a restore that ended. The number of a process means nothing where
/// the folder is shared, so a server's lock alone is enough. Pure.
fn held(holder: Holder) -> Option<Refused> {
    match holder {
        Holder::Server(Some(process)) => Some(Refused::Runs(process)),
        Holder::Server(None) => Some(Refused::Locked),
        Holder::Restore => Some(Refused::Restores),
        Holder::Nothing => None,
    }
}

fn told(path: &Path, code: &'static str, cause: String, next: String) -> Error {
    Error::Refused { code, object: path.display().to_string(), cause, next }
}

/// Checks that a restore of the cluster `system` may go into a folder, and its tablespaces into theirs. A place of a tablespace in
/// which something is has to be named (`mappings`), or to be in the mark of a restore that is repeated: in a copy of a data
/// directory, the link leads to the place of the original. `needed` are files and folders that the restore and the recovery
/// read: in the folder they would be cleared. Returns the bytes of the disk that the data directory has. Blocks.
///
/// # Errors
/// `postgres.as-root`, `postgres.server-runs`, `postgres.other-cluster`, `postgres.folder-in-use`, or a folder can't be read.
pub(super) fn check(
    path: &Path,
    places: &[(u32, PathBuf)],
    mappings: &[(PathBuf, PathBuf)],
    needed: &[PathBuf],
    system: u64,
) -> Result<u64, Error> {
    let there = check_data(path, system)?;
    for place in [path].into_iter().chain(places.iter().map(|(_, to)| to.as_path())) {
        if place == path {
            keeps(place, needed)?;
            continue;
        }
        // Other clusters, and other things, may have folders of their own there.
        for own in std::fs::read_dir(place).into_iter().flatten().flatten().map(|entry| entry.path()) {
            if !own.is_dir() || !own.file_name().is_some_and(|name| name.to_string_lossy().starts_with("PG_")) {
                continue;
            }
            keeps(&own, needed)?;
            let real = std::fs::canonicalize(&own).map_err(|error| failed(&own, &error))?;
            mounted(&own, &real)?;
        }
    }
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
    later_tablespaces(path, places)?;
    Ok(there)
}

/// Refuses a folder in which something lies that is `needed`.
fn keeps(folder: &Path, needed: &[PathBuf]) -> Result<(), Error> {
    let Ok(real) = std::fs::canonicalize(folder) else { return Ok(()) };
    let is_in = |needed: &&PathBuf| std::fs::canonicalize(needed).is_ok_and(|needed| needed.starts_with(&real));
    match needed.iter().find(is_in) {
        Some(needed) => {
            let cause = format!("the restore reads {}, which lies in it and would be removed", needed.display());
            let next = "move it elsewhere, or leave --delta out and name a folder that isn't there";
            Err(told(folder, "postgres.folder-in-use", cause, next.into()))
        }
        None => Ok(()),
    }
}

/// Refuses a data directory with a tablespace that the base doesn't have, and that has files: the log may make it again, and no
/// recovery replays that into the files of a tablespace on this host.
fn later_tablespaces(path: &Path, places: &[(u32, PathBuf)]) -> Result<(), Error> {
    let folder = path.join("pg_tblspc");
    let links = match std::fs::read_dir(&folder) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(()),
        links => links.map_err(|error| failed(&folder, &error))?,
    };
    for entry in links {
        let entry = entry.map_err(|error| failed(&folder, &error))?;
        let oid = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
        let Some(to) = std::fs::read_link(entry.path()).ok() else { continue };
        if oid.is_some_and(|oid| places.iter().any(|(its, _)| *its == oid)) {
            continue;
        }
        let mut inside = match std::fs::read_dir(entry.path()) {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => continue,
            inside => inside.map_err(|error| failed(&to, &error))?,
        };
        if inside.any(|entry| entry.map_or(true, |entry| entry.file_name().to_string_lossy().starts_with("PG_"))) {
            let cause = "it is the place of a tablespace that was made after the base, and the log makes it again";
            let next = "empty it if no other server uses it, or restore without --delta on another host";
            return Err(told(&to, "postgres.folder-in-use", cause.into(), next.into()));
        }
    }
    Ok(())
}

/// Checks the data directory. Returns the bytes of the disk that it has.
fn check_data(path: &Path, system: u64) -> Result<u64, Error> {
    // Links that the folder's owner can plant would lead the superuser anywhere (I11).
    if rustix::process::geteuid().is_root() {
        let next = "run it as the owner of the folder: runuser -u postgres -- seawall restore … --delta";
        let cause = "with --delta, files are written in a folder of another user";
        return Err(told(path, "postgres.as-root", cause.into(), next.into()));
    }
    let device = match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(failed(path, &error)),
        Ok(facts) if !facts.is_dir() => {
            let next = "name the data directory itself, not a link to it";
            return Err(told(path, "postgres.folder-in-use", "it is no folder".into(), next.into()));
        }
        Ok(facts) => facts.dev(),
    };
    let found = found(path).map_err(|error| failed(path, &error))?;
    judge(&found, system).map_err(|refused| refusal(path, refused, system))?;
    let real = std::fs::canonicalize(path).map_err(|error| failed(path, &error))?;
    mounted(path, &real)?;
    walk(path, path, device)
}

fn refusal(path: &Path, refused: Refused, system: u64) -> Error {
    let another = "name the data directory of this cluster, or leave --delta out and name a folder that isn't there";
    let (code, cause, next) = match refused {
        Refused::Runs(process) => (
            "postgres.server-runs",
            format!("the process {process} runs there"),
            "stop the server; if that process is no server, remove postmaster.pid",
        ),
        Refused::Restores => (
            "postgres.server-runs",
            "another restore runs there, maybe in another container or on another host".into(),
            "wait for its end, or stop it; then give this command again",
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

/// Refuses a folder in which anything is mounted, a single file too: what is there may not be the cluster's, and would be cleared or
/// written over. `real` is the folder without links.
fn mounted(folder: &Path, real: &Path) -> Result<(), Error> {
    let is_in = |point: &PathBuf| point.starts_with(real) && point != real;
    match seawall_host::mounts().into_iter().map(|mount| mount.point).find(is_in) {
        Some(point) => {
            let cause = format!("something is mounted in it, at {}", point.display());
            let next = "unmount it, or leave --delta out and name a folder that isn't there";
            Err(told(folder, "postgres.folder-in-use", cause, next.into()))
        }
        None => Ok(()),
    }
}

/// Refuses a data directory `top` in which something is that isn't the cluster's and would be lost, or that this user may not clear.
/// Returns the bytes of the disk that it has.
fn walk(top: &Path, folder: &Path, device: u64) -> Result<u64, Error> {
    let mut there: u64 = 0;
    for entry in std::fs::read_dir(folder).map_err(|error| failed(folder, &error))? {
        let path = entry.map_err(|error| failed(folder, &error))?.path();
        let facts = std::fs::symlink_metadata(&path).map_err(|error| failed(&path, &error))?;
        // A file with holes, or on a disk that compresses, takes less than it has, and the base counts what a file has.
        there = there.saturating_add(facts.len().max(facts.blocks().saturating_mul(512)));
        if !facts.is_dir() || (folder == top && path.ends_with("lost+found")) {
            continue;
        }
        let refused = |cause: &str, next: &str| Err(told(&path, "postgres.folder-in-use", cause.into(), next.into()));
        if facts.dev() != device {
            return refused(
                "a file system is mounted there",
                "unmount it, or leave --delta out and name a folder that isn't there",
            );
        }
        if facts.uid() != rustix::process::geteuid().as_raw() || facts.mode() & 0o700 != 0o700 {
            return refused(
                "this user may not clear it",
                "give the data directory to the user that restores (chown -R, chmod -R u+rwX), or move this folder away",
            );
        }
        if path.join(CONTROL).exists() || path.join(LOCK).exists() {
            return refused("it is a data directory of its own", "move it away, or name it instead");
        }
        there = there.saturating_add(walk(top, &path, device)?);
    }
    Ok(there)
}

/// Looks at a folder.
fn found(path: &Path) -> io::Result<Found> {
    let read = |name: &str| match std::fs::read(path.join(name)) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error),
    };
    let lock = lock::holder(path)?;
    Ok(Found {
        is_empty: is_empty_but(path, lock == Some(Holder::Nothing))?,
        system: read(CONTROL)?.and_then(|bytes| Control::parse(&bytes)).map(|control| control.system),
        mark: read(MARK)?.map(|bytes| String::from_utf8_lossy(&bytes).lines().next().unwrap_or_default().to_owned()),
        has_version: read("PG_VERSION")?.is_some(),
        process: lock::runs_in(path),
        lock,
    })
}

/// Whether nothing is in a folder, but for what each new file system has.
fn is_empty(path: &Path) -> io::Result<bool> {
    is_empty_but(path, false)
}

/// The same, but for what a restore leaves that ended before it changed anything: its lock only if it `may_be` one's.
fn is_empty_but(path: &Path, may_be: bool) -> io::Result<bool> {
    let new_mark = format!("{MARK}.new");
    let counts = |entry: io::Result<std::fs::DirEntry>| {
        entry.map_or(true, |entry| {
            let name = entry.file_name();
            name != "lost+found" && *name != *new_mark && !(may_be && name == LOCK)
        })
    };
    Ok(!std::fs::read_dir(path)?.any(counts))
}

/// The places of tablespaces that the mark of an unfinished restore names.
fn marked(path: &Path) -> Vec<(u32, PathBuf)> {
    if path.join(CONTROL).exists() {
        // It ended. Only its mark stayed, and may have come here with a copy.
        return Vec::new();
    }
    let mark = std::fs::read_to_string(path.join(MARK)).unwrap_or_default();
    let place = |line: &str| {
        let (oid, place) = line.split_once(' ')?;
        Some((oid.parse().ok()?, PathBuf::from(place)))
    };
    mark.lines().skip(1).filter_map(place).collect()
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

/// Takes the lock of a data directory, and checks once more that nothing runs there. Blocks.
pub(super) fn take(data: &Path, system: u64) -> Result<Lock, Error> {
    check_data(data, system)?;
    let lock = match Lock::take(data).map_err(|error| failed(&data.join(LOCK), &error))? {
        Ok(lock) => lock,
        Err(holder) => return Err(refusal(data, held(holder).unwrap_or(Refused::Restores), system)),
    };
    match lock::runs_in(data) {
        Some(process) => Err(refusal(data, Refused::Runs(process), system)),
        None => Ok(lock),
    }
}

/// Marks a folder that is locked, and has no server start there after a crash either. It keeps both over a power cut. Blocks.
pub(super) fn begin(data: &Path, lock: &Lock, system: u64, places: &[(u32, PathBuf)]) -> Result<(), Error> {
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
        let (control, before) = (data.join(CONTROL), data.join(CONTROL_BEFORE));
        match std::fs::rename(&control, &before) {
            // From here on no server starts. One that came a moment ago has the lock.
            Ok(()) if !lock.is_there() => {
                std::fs::rename(&before, &control)?;
                return Ok(false);
            }
            Ok(()) => {
                std::fs::remove_file(&before)?;
                File::open(data.join("global"))?.sync_all()?;
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
            Err(error) => return Err(error),
        }
        Ok(true)
    });
    match begun.map_err(|error| failed(&mark, &error))? {
        true => Ok(()),
        false => Err(refusal(data, Refused::Locked, system)),
    }
}

/// Lets servers start: all else is durable. Blocks.
pub(super) fn end(data: &Path, lock: &Lock) -> Result<(), Error> {
    if !lock.is_there() {
        let cause = format!("another process has replaced {LOCK} meanwhile");
        let next = "stop what runs there, then give the same command again";
        return Err(told(data, "postgres.server-runs", cause, next.into()));
    }
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
            (Found { lock: Some(Holder::Server(None)), ..cluster.clone() }, Err(Refused::Locked)),
            (Found { lock: Some(Holder::Server(Some(5))), ..cluster.clone() }, Err(Refused::Runs(5))),
            (Found { lock: Some(Holder::Server(None)), ..unfinished.clone() }, Err(Refused::Locked)),
            (Found { lock: Some(Holder::Restore), ..cluster.clone() }, Err(Refused::Restores)),
            (Found { lock: Some(Holder::Nothing), ..cluster.clone() }, Ok(())),
            (Found { lock: Some(Holder::Nothing), ..unfinished.clone() }, Ok(())),
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
    fn folders_that_are_not_the_clusters_alone_are_refused() {
        let place = tempfile::tempdir().expect("a folder");
        let data = place.path().join("data");
        for folder in ["data/base/5", "data/18/docker/global", "data/keys", "lost+found"] {
            std::fs::create_dir_all(place.path().join(folder)).expect("made");
        }
        std::fs::write(data.join("base/5/1"), vec![7; 100_000]).expect("written");
        let device = std::fs::metadata(&data).expect("there").dev();
        let walked = || walk(&data, &data, device);
        assert!(walked().expect("nothing else is there") >= 100_000);
        // The data directory of another server.
        for name in ["18/docker/global/pg_control", "18/docker/postmaster.pid"] {
            std::fs::write(data.join(name), "x").expect("written");
            assert!(walked().expect_err("refused").to_string().contains("data directory of its own"), "{name}");
            std::fs::remove_file(data.join(name)).expect("removed");
        }
        assert!(walk(&data, &data, device + 1).expect_err("refused").to_string().contains("mounted"));
        let closed = |mode| {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
            std::fs::set_permissions(data.join("keys"), mode).expect("set");
        };
        closed(0o500);
        assert!(walked().expect_err("refused").to_string().contains("may not clear"));
        closed(0o700);
        // What the restore itself reads, also by another name.
        std::fs::write(data.join("keys/identity"), "x").expect("written");
        std::os::unix::fs::symlink(data.join("keys"), place.path().join("link")).expect("linked");
        for (needed, expected) in [
            (place.path().to_owned(), true),
            (data.join("none"), true),
            (data.clone(), false),
            (data.join("keys/identity"), false),
            (place.path().join("link/identity"), false),
        ] {
            assert_eq!(keeps(&data, std::slice::from_ref(&needed)).is_ok(), expected, "{}", needed.display());
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
        let lock = Lock::take(&data).expect("asked").expect("a lock");
        begin(&data, &lock, 7, &[]).expect("begun");
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
        let lock = Lock::take(data).expect("asked").expect("a lock");
        // Also when it is repeated, maybe after a crash in between.
        for _ in 0..2 {
            begin(data, &lock, 7, &places).expect("begun");
            assert!(!data.join(CONTROL).exists());
            std::fs::write(real(data, CONTROL), "new").expect("written");
            assert_eq!(found(data).expect("looked").mark.as_deref(), Some("7"));
            assert_eq!(marked(data), places);
        }
        end(data, &lock).expect("ended");
        assert_eq!(std::fs::read_to_string(data.join(CONTROL)).expect("read"), "new");
        assert!(!data.join(MARK).exists() && !real(data, CONTROL).exists());
        // A server in another container began at the same moment: its pg_control stays.
        std::fs::remove_file(data.join(LOCK)).expect("removed");
        std::fs::write(data.join(LOCK), "7\n").expect("written");
        begin(data, &lock, 7, &places).expect_err("refused");
        assert_eq!(std::fs::read_to_string(data.join(CONTROL)).expect("read"), "new");
        end(data, &lock).expect_err("refused");
        // The mark of a restore that ended counts for nothing.
        assert!(data.join(MARK).exists() && marked(data).is_empty());
    }
}
