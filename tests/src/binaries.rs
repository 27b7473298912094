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
    let places = ["libseawall_vfs.so", "deps/libseawall_vfs.so"].map(beside_the_test);
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

/// The folder of the Python package that drives browsers.
pub fn playwright() -> PathBuf {
    let tools = target().join("tools");
    let found = std::fs::read_dir(&tools).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found = found.filter(|path| path.join("playwright/sync_api").is_dir());
    found.next().unwrap_or_else(|| panic!("{} has no Playwright: run ./test.sh, which installs it", tools.display()))
}
