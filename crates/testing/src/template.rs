//! Folders that one test makes and the others copy. A server takes seconds of computing to make its empty data directory.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::UNIX_EPOCH;

/// How [`from_template`] got a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Template {
    /// This test made it.
    Made,
    /// It is a copy of what another test made.
    Copied,
}

/// Fills the folder `to`, which must not exist: by `make`, or with a copy of what `make` has made for an earlier test under the
/// same name. Tests that ask for the same name at the same time wait for the first one.
///
/// The templates stay below `target/tools`. The name has to tell apart what leads to other folders, such as other options of
/// `program`; its size and age, and the user who runs the tests, are part of it already.
///
/// # Panics
///
/// If a folder can't be read, written, or copied: no test can go on then.
pub fn from_template(name: &str, program: &Path, to: &Path, make: impl FnOnce(&Path)) -> Template {
    let folder = tools().join("templates");
    fs::create_dir_all(&folder).expect("a folder for templates");
    let file = fs::metadata(program).expect("the program of a template");
    let age = file.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    let owner = fs::metadata("/proc/self").map_or(0, |process| process.uid());
    let template = folder.join(format!("{name}-{}-{}-{owner}", file.len(), age.as_secs()));
    let lock = File::create(template.with_added_extension("lock")).expect("a lock");
    lock.lock().expect("locked");
    if template.is_dir() {
        // A template never changes, so the next test needn't wait for this copy.
        drop(lock);
        copy(&template, to);
        return Template::Copied;
    }
    make(to);
    let unfinished = template.with_added_extension("new");
    let _ = fs::remove_dir_all(&unfinished);
    copy(to, &unfinished);
    fs::rename(&unfinished, &template).expect("the template gets its name");
    Template::Made
}

/// Copies a folder with owners, modes and times.
fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status().expect("cp runs");
    assert!(copied.success(), "{} can't be copied to {}", from.display(), to.display());
}

/// The folder of what `test.sh` fetches.
fn tools() -> PathBuf {
    let exe = std::env::current_exe().expect("a test knows its own path");
    // target/debug/deps/it-0123456789abcdef
    exe.ancestors().nth(3).expect("a test runs from target/<profile>/deps").join("tools")
}
