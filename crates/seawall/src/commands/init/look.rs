//! Looks at the files and sockets that the processes of this host have open.
//!
//! A file is read through the process's own descriptor, so that a name which leads elsewhere by now is noticed.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use seawall_core::Failure;

use super::found::{self, Found, HEAD, LeftOut, What};
use crate::runtime;

/// A look that takes longer than this waits for a disk that doesn't answer.
const PATIENCE: Duration = Duration::from_secs(15);

/// Looks at everything that this user may see, for a bounded time.
pub(super) fn look(processes: &Path) -> Result<Found, Failure> {
    let shared = Arc::new(Mutex::new(Found::default()));
    let (processes, into) = (processes.to_owned(), Arc::clone(&shared));
    let looked = runtime::run(async {
        let look = tokio::task::spawn_blocking(move || gather(&processes, &into));
        Ok(tokio::time::timeout(PATIENCE, look).await.is_ok_and(|ended| ended.is_ok()))
    })?;
    let mut found = shared.lock().unwrap_or_else(PoisonError::into_inner).clone();
    found.incomplete = !looked;
    found.things.sort_by(|a, b| a.what.cmp(&b.what));
    Ok(found)
}

fn gather(processes: &Path, into: &Mutex<Found>) {
    let sockets = fs::read_to_string(processes.join("net/unix")).unwrap_or_default();
    for what in found::listening(&sockets).filter_map(What::of_socket) {
        let is_there = fs::metadata(what.place()).is_ok_and(|metadata| metadata.file_type().is_socket());
        if is_there {
            locked(into, |found| found::add(&mut found.things, what, None));
        }
    }
    let mut seen = BTreeMap::new();
    let own = std::process::id().to_string();
    for entry in fs::read_dir(processes).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_process =
            name.to_str().is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit()) && name != own);
        if is_process {
            of_process(&entry.path(), &mut seen, into);
        }
    }
}

/// What a file was found to be: `None` if it is no database that can be named.
type Seen = BTreeMap<(u64, u64), Option<What>>;

fn of_process(process: &Path, seen: &mut Seen, into: &Mutex<Found>) {
    let Ok(descriptors) = fs::read_dir(process.join("fd")) else {
        // A thread of the kernel has no command line, and a process may have ended.
        if fs::read(process.join("cmdline")).is_ok_and(|line| !line.is_empty()) {
            locked(into, |found| found.hidden_processes += 1);
        }
        return;
    };
    let program = fs::read_to_string(process.join("comm")).unwrap_or_default().trim_end().to_owned();
    let mut found_here = BTreeSet::new();
    for descriptor in descriptors.flatten() {
        let descriptor = descriptor.path();
        let Ok(metadata) = fs::metadata(&descriptor) else { continue };
        // A file without a name is deleted, as temporary databases are.
        if !metadata.is_file() || metadata.nlink() == 0 {
            continue;
        }
        let id = (metadata.dev(), metadata.ino());
        let what = seen.entry(id).or_insert_with(|| match of_file(&descriptor, id) {
            Some(Ok(what)) => Some(what),
            Some(Err(left)) => {
                locked(into, |found| found.left_out.insert(left));
                None
            }
            None => None,
        });
        found_here.extend(what.clone());
    }
    let program = Some(program).filter(|program| !program.is_empty());
    for what in found_here {
        locked(into, |found| found::add(&mut found.things, what, program.clone()));
    }
}

/// What the file behind a descriptor is, if it is a database.
fn of_file(descriptor: &Path, id: (u64, u64)) -> Option<Result<What, LeftOut>> {
    let mut head = Vec::with_capacity(HEAD);
    File::open(descriptor).ok()?.take(HEAD as u64).read_to_end(&mut head).ok()?;
    let path: PathBuf = fs::read_link(descriptor).ok()?;
    let lossy = path.to_string_lossy().into_owned();
    let what = What::of_file(&lossy, &head)?;
    let left = |cause| Some(Err(LeftOut { path: lossy.clone(), cause }));
    if path.to_str().is_none() {
        return left("its name isn't valid text");
    }
    match fs::metadata(&path) {
        Ok(here) if (here.dev(), here.ino()) == id => Some(Ok(what)),
        _ => left("no path of this host leads to it: it is in a container, or was removed"),
    }
}

fn locked<T>(into: &Mutex<Found>, act: impl FnOnce(&mut Found) -> T) -> T {
    act(&mut into.lock().unwrap_or_else(PoisonError::into_inner))
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::symlink;

    use super::*;

    /// Links to files in place of `/proc`, where a process's descriptors are such links.
    #[test]
    fn files_by_their_content_and_never_by_their_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        let database = [b"SQLite format 3\0".as_slice(), &[16, 0, 2, 2, 0, 64, 32, 32]].concat();
        let not_text = folder.join(std::ffi::OsStr::from_bytes(b"\xff.db"));
        let files = [
            (folder.join("app.db"), database.as_slice()),
            (folder.join("a \"quoted\"\nname"), &database),
            (folder.join("notes.db"), b"not a database, but of that name"),
            (folder.join("empty.db"), b""),
            (not_text.clone(), &database),
        ];
        for (process, comm) in [("17", "app\n"), ("18", "worker\n")] {
            fs::create_dir_all(folder.join(format!("proc/{process}/fd"))).expect("a folder");
            fs::write(folder.join(format!("proc/{process}/comm")), comm).expect("written");
        }
        for (index, (path, content)) in files.iter().enumerate() {
            fs::write(path, content).expect("written");
            symlink(path, folder.join(format!("proc/17/fd/{index}"))).expect("a link");
        }
        symlink(folder.join("app.db"), folder.join("proc/18/fd/3")).expect("a link");
        symlink(folder.join("nowhere"), folder.join("proc/18/fd/4")).expect("a link");
        symlink("/dev/zero", folder.join("proc/18/fd/5")).expect("a link");

        let found = look(&folder.join("proc")).expect("a look");
        let places: Vec<String> = found.things.iter().map(|thing| thing.what.place()).collect();
        let path = |name: &str| folder.join(name).to_str().expect("text").to_owned();
        assert_eq!(places, [path("a \"quoted\"\nname"), path("app.db")]);
        assert_eq!(found.things[1].programs.iter().collect::<Vec<_>>(), ["app", "worker"]);
        assert_eq!(found.left_out.len(), 1, "{found:?}");
        assert!(!found.incomplete && found.hidden_processes == 0, "{found:?}");
    }
}
