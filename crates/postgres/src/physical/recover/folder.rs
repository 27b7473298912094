//! The folders that a recovery makes: each beside its place under another name, until all of it is there (I8).

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use seawall_host::{PrivateFolder, User, folder_of};

use super::super::base::Tablespace;
use super::lock::Lock;
use super::over::{self, Kept, link};
use crate::Error;

/// What the temporary folders are called, in front of letters and digits.
const PREFIX: &str = ".seawall-restore-";

/// Where a folder is and where it goes.
#[derive(Debug)]
struct Place {
    /// A folder that gets its name at the end; `None` for one that is restored over where it is.
    made: Option<PrivateFolder>,
    to: PathBuf,
}

impl Place {
    /// Where it is now.
    fn path(&self) -> &Path {
        self.made.as_ref().map_or(&self.to, PrivateFolder::path)
    }
}

/// The folders of a recovery.
#[derive(Debug)]
pub(crate) struct Folders {
    data: Place,
    tablespaces: BTreeMap<u32, Place>,
    owner: Option<User>,
    /// Of a folder that is restored over.
    lock: Option<Lock>,
}

/// What can't be made here.
fn in_use(path: &Path, cause: &str, next: &str) -> Error {
    Error::Refused {
        code: "postgres.folder-in-use",
        object: path.display().to_string(),
        cause: cause.to_owned(),
        next: next.to_owned(),
    }
}

pub(super) fn failed(path: &Path, error: &io::Error) -> Error {
    Error::Io { path: path.display().to_string(), cause: error.to_string() }
}

/// Checks that a folder can be made: nothing, or an empty folder, is there.
pub(crate) fn check(path: &Path) -> Result<(), Error> {
    let next = "name a folder that is empty or isn't there: a restore replaces nothing";
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(path, &error)),
        Ok(facts) if !facts.is_dir() => return Err(in_use(path, "it is no folder", next)),
        Ok(facts) => {
            let above = std::fs::metadata(folder_of(path)).map_err(|error| failed(path, &error))?;
            if above.dev() != facts.dev() {
                let next = "name a folder below it, or add --delta, which restores into the folder as it is";
                return Err(in_use(
                    path,
                    "a file system is mounted there, and the folder appears by being renamed",
                    next,
                ));
            }
        }
    }
    let mut entries = std::fs::read_dir(path).map_err(|error| failed(path, &error))?;
    match entries.next() {
        None => Ok(()),
        Some(_) => Err(in_use(path, "something is in it", next)),
    }
}

/// Refuses places of which one is another, or lies in it: each is made by itself, and gets its name when all are whole.
pub(crate) fn apart(output: &Path, tablespaces: &[(u32, PathBuf)]) -> Result<(), Error> {
    // As it is on the disk: a part of the path may be a link.
    let real = |path: &Path| {
        let there = path.ancestors().find_map(|above| Some((above, std::fs::canonicalize(above).ok()?)));
        let rest = there.as_ref().and_then(|(above, _)| path.strip_prefix(above).ok());
        match (there.as_ref(), rest) {
            (Some((_, real)), Some(rest)) => real.join(rest),
            _ => path.to_owned(),
        }
    };
    let places: Vec<PathBuf> =
        [output].into_iter().chain(tablespaces.iter().map(|(_, to)| to.as_path())).map(real).collect();
    for (nth, place) in places.iter().enumerate() {
        let other = places.iter().enumerate().find(|(other, its)| *other != nth && place.starts_with(its));
        if let Some((_, other)) = other {
            let cause = format!("it is also to be in or at {}", other.display());
            return Err(in_use(place, &cause, "give each tablespace a place of its own with --tablespace OLD=NEW"));
        }
    }
    Ok(())
}

/// Where each tablespace goes: to its own place, or as the mappings say.
pub(crate) fn mapped(
    tablespaces: &[Tablespace],
    mappings: &[(PathBuf, PathBuf)],
) -> Result<Vec<(u32, PathBuf)>, Error> {
    let usage =
        |object: String, cause: &str, next: &str| Error::Url { object, cause: cause.to_owned(), next: next.to_owned() };
    for (from, _) in mappings {
        if tablespaces.iter().all(|tablespace| Path::new(&tablespace.location) != from) {
            let known: Vec<&str> = tablespaces.iter().map(|tablespace| tablespace.location.as_str()).collect();
            let next = match known.is_empty() {
                true => "leave --tablespace out: the base has no tablespace".to_owned(),
                false => format!("name one of {}", known.join(", ")),
            };
            return Err(usage(from.display().to_string(), "no tablespace of the base is there", &next));
        }
    }
    tablespaces
        .iter()
        .map(|tablespace| {
            let from = Path::new(&tablespace.location);
            let to = mappings.iter().rev().find(|(old, _)| old == from).map_or(from, |(_, new)| new.as_path());
            if to.is_absolute() && !to.components().any(|part| part == std::path::Component::ParentDir) {
                return Ok((tablespace.oid, to.to_owned()));
            }
            Err(usage(to.display().to_string(), "a tablespace needs an absolute path", "write --tablespace OLD=/NEW"))
        })
        .collect()
}

impl Folders {
    /// Makes the temporary folders. Blocks.
    pub(crate) fn new(output: &Path, tablespaces: &[(u32, PathBuf)]) -> Result<Self, Error> {
        let above = folder_of(output);
        std::fs::create_dir_all(above).map_err(|error| failed(above, &error))?;
        let owner = owner_of(if output.is_dir() { output } else { above })?;
        let make = |to: &Path| {
            let above = folder_of(to);
            std::fs::create_dir_all(above).map_err(|error| failed(above, &error))?;
            let made = PrivateFolder::new(above, PREFIX, "restore", owner).map_err(|error| failed(above, &error))?;
            Ok::<_, Error>(Place { made: Some(made), to: to.to_owned() })
        };
        let data = make(output)?;
        let tablespaces = tablespaces.iter().map(|(oid, to)| Ok((*oid, make(to)?))).collect::<Result<_, Error>>()?;
        Ok(Self { data, tablespaces, owner, lock: None })
    }

    /// Takes the folders that exist, and makes the missing ones. From here on no server starts there until
    /// [`Folders::finish`], and what the base doesn't have is gone. Blocks.
    pub(super) fn over(output: &Path, tablespaces: &[(u32, PathBuf)], system: u64, kept: &Kept) -> Result<Self, Error> {
        let place = |to: &Path| {
            DirBuilder::new().recursive(true).mode(0o700).create(to).map_err(|error| failed(to, &error))?;
            let mode = std::fs::metadata(to).map_err(|error| failed(to, &error))?.mode();
            // A server starts in no folder that others can open.
            if mode & 0o027 != 0 {
                let closed = std::fs::set_permissions(to, Permissions::from_mode(0o700));
                closed.map_err(|error| failed(to, &error))?;
            }
            Ok::<_, Error>(Place { made: None, to: to.to_owned() })
        };
        // All that can fail for want of rights comes before anything is changed.
        let data = place(output)?;
        let places: BTreeMap<u32, Place> =
            tablespaces.iter().map(|(oid, to)| Ok((*oid, place(to)?))).collect::<Result<_, Error>>()?;
        let lock = over::take(output, system)?;
        over::begin(output, &lock, system, tablespaces)?;
        let links = places.iter().map(|(oid, space)| (link(*oid), space.to.clone())).collect();
        let clear = || {
            over::clear(output, "", kept, &links)?;
            places.iter().try_for_each(|(oid, space)| over::clear_tablespace(&space.to, &link(*oid), kept))
        };
        clear().map_err(|error: Error| error.in_place(output))?;
        Ok(Self { data, tablespaces: places, owner: None, lock: Some(lock) })
    }

    /// Whether what is there is restored over.
    pub(super) fn is_over(&self) -> bool {
        self.data.made.is_none()
    }

    /// Where a path of the data directory is now.
    fn real(&self, path: &str) -> PathBuf {
        let mut parts = path.splitn(3, '/');
        let space = match (parts.next(), parts.next()) {
            (Some("pg_tblspc"), Some(oid)) => oid.parse().ok().and_then(|oid: u32| self.tablespaces.get(&oid)),
            _ => None,
        };
        match (space, parts.next()) {
            (Some(space), Some(rest)) => space.path().join(rest),
            (Some(space), None) => space.path().to_owned(),
            (None, _) if self.is_over() => over::real(self.data.path(), path),
            (None, _) => self.data.path().join(path),
        }
    }

    fn give(&self, path: &Path) -> Result<(), Error> {
        let Some(User { uid, gid }) = self.owner else { return Ok(()) };
        std::os::unix::fs::lchown(path, Some(uid), Some(gid)).map_err(|error| failed(path, &error))
    }

    /// Makes a folder. Blocks.
    pub(crate) fn folder(&self, path: &str) -> Result<(), Error> {
        let real = self.real(path);
        let oid = path.strip_prefix("pg_tblspc/").and_then(|oid| oid.parse().ok());
        if let Some(space) = oid.and_then(|oid: u32| self.tablespaces.get(&oid)) {
            let link = self.data.path().join(path);
            if self.is_over() && link.is_symlink() {
                return Ok(());
            }
            std::os::unix::fs::symlink(&space.to, &link).map_err(|error| failed(&link, &error))?;
            return self.give(&link);
        }
        match DirBuilder::new().mode(0o700).create(&real) {
            // What isn't a folder was removed before.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && self.is_over() => return Ok(()),
            made => made.map_err(|error| failed(&real, &error))?,
        }
        self.give(&real)
    }

    /// Makes an empty file, and opens it. Blocks.
    pub(crate) fn create(&self, path: &str) -> Result<File, Error> {
        let real = self.real(path);
        let flags = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or(0);
        let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).custom_flags(flags).open(&real);
        let file = opened.map_err(|error| failed(&real, &error))?;
        self.give(&real)?;
        Ok(file)
    }

    /// Makes a file with this content. Blocks.
    pub(crate) fn write(&self, path: &str, content: &[u8]) -> Result<(), Error> {
        self.create(path)?.write_all_at(content, 0).map_err(|error| failed(&self.real(path), &error))
    }

    /// Appends to a file, which is made if there is none. Blocks.
    pub(crate) fn append(&self, path: &str, content: &str) -> Result<(), Error> {
        let real = self.real(path);
        let mut old = match std::fs::read(&real) {
            Ok(old) => old,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.create(path)?;
                Vec::new()
            }
            Err(error) => return Err(failed(&real, &error)),
        };
        if old.last().is_some_and(|last| *last != b'\n') {
            old.push(b'\n');
        }
        old.extend_from_slice(content.as_bytes());
        let file = OpenOptions::new().write(true).open(&real).map_err(|error| failed(&real, &error))?;
        file.write_all_at(&old, 0).map_err(|error| failed(&real, &error))
    }

    /// Makes a file with this content, or gives the file that is there this content. Blocks.
    pub(crate) fn replace(&self, path: &str, content: &str) -> Result<(), Error> {
        let file = self.open(path)?;
        let written = file.set_len(0).and_then(|()| file.write_all_at(content.as_bytes(), 0));
        written.map_err(|error| failed(&self.real(path), &error))
    }

    /// Opens a file to write a part of it, and makes it if there is none: its parts are written in any order. Blocks.
    pub(crate) fn open(&self, path: &str) -> Result<File, Error> {
        let real = self.real(path);
        let flags = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or(0);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(flags);
        let file = options.open(&real).map_err(|error| failed(&real, &error))?;
        self.give(&real)?;
        Ok(file)
    }

    /// Cuts off what an older file has behind the bytes of the base. Blocks.
    pub(super) fn cut(&self, path: &str, bytes: u64) -> Result<(), Error> {
        let real = self.real(path);
        let cut = || {
            let facts = std::fs::symlink_metadata(&real)?;
            match facts.len() > bytes {
                true => OpenOptions::new().write(true).open(&real)?.set_len(bytes),
                false => Ok(()),
            }
        };
        cut().map_err(|error| failed(&real, &error))
    }

    /// Whether a file is there.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.real(path).exists()
    }

    /// Free bytes of the disks of the data directory and of tablespaces.
    pub(crate) fn free(&self) -> Option<u64> {
        let mut disks = BTreeMap::new();
        for place in [&self.data].into_iter().chain(self.tablespaces.values()) {
            let device = std::fs::metadata(place.path()).ok()?.dev();
            disks.insert(device, seawall_host::free_space(place.path())?);
        }
        Some(disks.values().fold(0, |sum, free| free.saturating_add(sum)))
    }

    /// Gives the folders their names: that of the data directory last. The disks keep everything before, if it has to be durable.
    /// Blocks.
    pub(crate) fn finish(self, is_durable: bool) -> Result<(), Error> {
        let places: Vec<&Place> = self.tablespaces.values().chain([&self.data]).collect();
        for place in places.iter().filter(|_| is_durable) {
            sync_all(place.path()).map_err(|error| failed(place.path(), &error))?;
        }
        for place in places {
            let Some(made) = &place.made else { continue };
            let above = folder_of(&place.to);
            std::fs::rename(made.path(), &place.to).map_err(|error| failed(&place.to, &error))?;
            let sync = || File::open(above).and_then(|above| above.sync_all());
            let synced = if is_durable { sync() } else { Ok(()) };
            synced.map_err(|error| failed(above, &error))?;
        }
        if let Some(lock) = &self.lock {
            over::end(self.data.path(), lock)?;
        }
        drop(self.lock);
        Ok(())
    }
}

/// Has the disk keep everything below a folder.
#[cfg(target_os = "linux")]
fn sync_all(folder: &Path) -> io::Result<()> {
    Ok(rustix::fs::syncfs(File::open(folder)?)?)
}

/// Has the disk keep everything below a folder.
#[cfg(not(target_os = "linux"))]
fn sync_all(folder: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        match entry.file_type()? {
            kind if kind.is_dir() => sync_all(&entry.path())?,
            kind if kind.is_file() => File::open(entry.path())?.sync_all()?,
            _ => {}
        }
    }
    File::open(folder)?.sync_all()
}

/// Who owns what the superuser restores: the owner of the folder that it goes into. PostgreSQL refuses to run as the
/// superuser.
fn owner_of(folder: &Path) -> Result<Option<User>, Error> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let facts = std::fs::metadata(folder).map_err(|error| failed(folder, &error))?;
    Ok(Some(User { uid: facts.uid(), gid: facts.gid() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_tablespaces_go() {
        let spaces = [(1, "/fast"), (2, "/slow")].map(|(oid, location)| Tablespace { oid, location: location.into() });
        let map = |mappings: &[(&str, &str)]| {
            let mappings: Vec<_> = mappings.iter().map(|(old, new)| (PathBuf::from(old), PathBuf::from(new))).collect();
            mapped(&spaces, &mappings).ok()
        };
        let to = |one: &str, two: &str| Some(vec![(1, PathBuf::from(one)), (2, PathBuf::from(two))]);
        for (mappings, expected) in [
            (&[][..], to("/fast", "/slow")),
            (&[("/fast", "/new")], to("/new", "/slow")),
            (&[("/none", "/new")], None),
            (&[("/fast", "new")], None),
            (&[("/fast", "/a/../b")], None),
        ] {
            assert_eq!(map(mappings), expected, "{mappings:?}");
        }
    }

    #[test]
    fn only_what_is_empty_is_replaced() {
        let place = tempfile::tempdir().expect("a folder");
        let at = |name: &str| place.path().join(name);
        std::fs::create_dir(at("empty")).expect("made");
        std::fs::create_dir(at("full")).expect("made");
        std::fs::write(at("full/file"), "x").expect("written");
        std::fs::write(at("file"), "x").expect("written");
        std::os::unix::fs::symlink(at("empty"), at("link")).expect("linked");
        for (name, is_free) in [("none", true), ("empty", true), ("full", false), ("file", false), ("link", false)] {
            assert_eq!(check(&at(name)).is_ok(), is_free, "{name}");
        }
    }

    #[test]
    fn nothing_is_there_until_all_is() {
        let place = tempfile::tempdir().expect("a folder");
        let (output, space) = (place.path().join("main"), place.path().join("space"));
        let spaces = [(16_400, space.clone())];
        let make = || {
            let folders = Folders::new(&output, &spaces).expect("made");
            for path in ["pg_tblspc", "pg_tblspc/16400", "pg_tblspc/16400/PG_15_1", "base"] {
                folders.folder(path).expect("made");
            }
            folders.write("pg_tblspc/16400/PG_15_1/1", b"rows").expect("written");
            folders.write("base/1", b"x").expect("written");
            folders.append("base/1", "y\n").expect("appended");
            assert!(!output.exists() && !space.exists());
            folders
        };
        drop(make());
        assert_eq!(std::fs::read_dir(place.path()).expect("read").count(), 0, "all of it is gone");
        make().finish(true).expect("finished");
        assert_eq!(std::fs::read_to_string(output.join("pg_tblspc/16400/PG_15_1/1")).expect("read"), "rows");
        assert_eq!(std::fs::read_to_string(output.join("base/1")).expect("read"), "x\ny\n");
        assert_eq!(std::fs::read_link(output.join("pg_tblspc/16400")).expect("a link"), space);
    }
}
