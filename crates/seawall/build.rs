//! Writes down how the program is built and which crates are in it, for `seawall self`.
//!
//! The list is that of `cargo tree` for this target: crates that are linked into the program, without those of build scripts, macros and
//! tests. Checksums are those of `Cargo.lock`. The commit is known if `SEAWALL_COMMIT` says it: a checkout may have changes that no
//! commit has.

#![expect(clippy::disallowed_methods, reason = "a build script reads its environment and files")]

use std::collections::BTreeSet;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let manifest = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let root = manifest.join("../..");
    let out = PathBuf::from(variable("OUT_DIR"));
    let target = variable("TARGET");
    println!("cargo::rerun-if-env-changed=SEAWALL_COMMIT");
    watch(&root);
    println!("cargo::rustc-env=SEAWALL_TARGET={target}");
    println!("cargo::rustc-env=SEAWALL_PROFILE={}", profile(&out));
    println!("cargo::rustc-env=SEAWALL_COMPILER={}", run(Command::new(variable("RUSTC")).arg("--version")).trim());
    println!("cargo::rustc-env=SEAWALL_COMMIT={}", env::var("SEAWALL_COMMIT").unwrap_or_default().trim());
    let lock = fs::read_to_string(root.join("Cargo.lock")).expect("Cargo.lock can be read");
    fs::write(out.join("crates.txt"), crates(&manifest, &target, &lock)).expect("OUT_DIR can be written");
}

/// A variable that Cargo sets.
fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|error| give_up(&format!("{name}: {error}")))
}

/// Ends the build with a reason.
fn give_up(reason: &str) -> ! {
    println!("cargo::error={}", reason.replace('\n', " "));
    std::process::exit(1)
}

/// The list changes with the lock and with the features in a manifest.
fn watch(root: &Path) {
    println!("cargo::rerun-if-changed=build.rs");
    let members = fs::read_dir(root.join("crates")).into_iter().flatten().flatten().map(|entry| entry.path());
    for folder in members.chain([root.to_owned()]) {
        println!("cargo::rerun-if-changed={}", folder.join("Cargo.toml").display());
    }
    println!("cargo::rerun-if-changed={}", root.join("Cargo.lock").display());
}

/// The name of the profile: Cargo tells a script only whether it is like `dev` or like `release`, but the folder has its name.
fn profile(out: &Path) -> String {
    let folders: Vec<_> = out.iter().map(|part| part.to_string_lossy()).collect();
    let build = folders.iter().rposition(|folder| folder == "build").and_then(|at| folders.get(at.checked_sub(1)?));
    match build.map(AsRef::as_ref) {
        Some("debug") | None => "dev".to_owned(),
        Some(name) => name.to_owned(),
    }
}

/// The crates, a line each: name, version, licence and checksum, with tabs between them.
fn crates(manifest: &Path, target: &str, lock: &str) -> String {
    let mut tree = Command::new(variable("CARGO"));
    tree.current_dir(manifest)
        .args(["tree", "--locked", "--offline", "--package", "seawall", "--edges", "normal,no-proc-macro"])
        .args(["--prefix", "none", "--format", "{p}|{l}", "--target", target]);
    let tree = run(&mut tree);
    let lines: BTreeSet<&str> =
        tree.lines().map(|line| line.trim_end_matches(" (*)")).filter(|l| !l.is_empty()).collect();
    let mut list = String::new();
    for line in lines {
        let (package, licence) = line.split_once('|').unwrap_or((line, ""));
        // Crates of this repository have their folder behind the version.
        let mut words = package.split(' ');
        let (name, version) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let version = version.trim_start_matches('v');
        let checksum = checksum(lock, name, version).unwrap_or_default();
        let _ = writeln!(list, "{name}\t{version}\t{licence}\t{checksum}");
    }
    list
}

/// The checksum of a crate in the lock. Crates of this repository have none.
fn checksum<'a>(lock: &'a str, name: &str, version: &str) -> Option<&'a str> {
    let entry = lock.split("[[package]]").find(|entry| {
        let has = |line: String| entry.lines().any(|one| one == line);
        has(format!("name = \"{name}\"")) && has(format!("version = \"{version}\""))
    })?;
    entry.lines().find_map(|line| line.strip_prefix("checksum = \"")?.strip_suffix('"'))
}

/// What a program prints, or the end of the build.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| give_up(&format!("{command:?}: {error}")));
    if !output.status.success() {
        give_up(&format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)));
    }
    String::from_utf8_lossy(&output.stdout).into_owned()
}
