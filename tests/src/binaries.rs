//! Where the programs are.

use std::path::PathBuf;

/// The folder `target` that this test runs from.
fn target() -> PathBuf {
    let exe = std::env::current_exe().expect("a test knows its own path");
    // target/debug/deps/it-0123456789abcdef
    exe.ancestors().nth(3).expect("a test runs from target/<profile>/deps").to_owned()
}

/// The `seawall` binary: `SEAWALL_BIN`, or else the binary that cargo built with this test.
pub fn seawall() -> PathBuf {
    if let Some(path) = std::env::var_os("SEAWALL_BIN") {
        return path.into();
    }
    let path = beside_the_test("seawall");
    assert!(path.is_file(), "{} is missing: run ./test.sh, which builds the whole workspace", path.display());
    path
}

/// A program of this workspace, in the profile of this test.
fn beside_the_test(name: &str) -> PathBuf {
    let exe = std::env::current_exe().expect("a test knows its own path");
    exe.ancestors().nth(2).expect("a test runs from target/<profile>/deps").join(name)
}

/// The extension for SQLite, which cargo built with this test.
///
/// # Panics
/// When it isn't there.
pub fn extension() -> PathBuf {
    // A build of tests alone writes only the first; the second may be of an earlier build.
    let places = ["deps/libseawall_vfs.so", "libseawall_vfs.so"].map(beside_the_test);
    let found = places.into_iter().find(|path| path.is_file());
    found.expect("the extension is missing: run ./test.sh, which builds the whole workspace")
}

/// The application that writes into a live database.
pub(crate) fn writer() -> PathBuf {
    beside_the_test("seawall-test-writer")
}

/// A peer's program or a server, from PATH.
pub fn peer(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|file| file.is_file())
        .unwrap_or_else(|| panic!("{name} is not on PATH: run ./test.sh, which installs it"))
}

/// The folders of `target/tools`.
fn tools() -> impl Iterator<Item = PathBuf> {
    std::fs::read_dir(target().join("tools")).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// A Node whose SQLite loads extensions. The one on PATH may be older.
///
/// # Panics
/// When it isn't there.
pub fn node() -> PathBuf {
    let mut found = tools().map(|path| path.join("node_modules/node/bin/node")).filter(|path| path.is_file());
    found.next().expect("there is no Node 22: run ./test.sh, which installs it")
}

/// The folder of the Python package that drives browsers.
pub fn playwright() -> PathBuf {
    let mut found = tools().filter(|path| path.join("playwright/sync_api").is_dir());
    found.next().expect("there is no Playwright: run ./test.sh, which installs it")
}
