//! Sets without Seawall: the steps of `docs/formats.md`, run as they stand there.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use seawall_vault::{Environment, Policy, Vault, VaultUrl};

use crate::restore::source;
use crate::restoring::{backup, backup_as_script, everything, is_the_same};
use crate::server::Server;

/// The blocks of commands in the section "By hand".
fn blocks() -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats.md");
    let formats = std::fs::read_to_string(file).expect("read");
    let section =
        formats.split("### By hand\n").nth(1).expect("a section").split("\n## ").next().expect("text").to_owned();
    section.split("```\n").skip(1).step_by(2).map(str::to_owned).collect()
}

/// Runs commands in a folder of their own, with a `mariadb` that speaks to the server.
fn bash(server: &Server, folder: &Path, set: &Path, commands: &str) {
    let client = folder.join("mariadb");
    let socket = server.file("s.sock");
    let script = format!("#!/bin/sh\nexec /usr/bin/mariadb --no-defaults --user=root --socket='{socket}' \"$@\"\n");
    std::fs::write(&client, script).expect("written");
    std::fs::set_permissions(&client, std::fs::Permissions::from_mode(0o755)).expect("set");
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").expect("a PATH"));
    let mut bash = Command::new("bash");
    bash.args(["-euc", commands]).env("PATH", path).env("S", set).current_dir(folder);
    let output = bash.output().expect("bash runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("ERROR"), "{said}\n{commands}");
}

async fn folder_vault(folder: &Path) -> Vault {
    let url: VaultUrl = format!("file://{}", folder.display()).parse().expect("a URL");
    Vault::open(&url, &Environment::default(), Policy::default()).await.expect("opened")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_is_restored_by_hand_as_the_formats_say() {
    let (server, new) = (source(), Server::start());
    let folder = tempfile::tempdir().expect("a folder");
    let work = |name: &str| {
        let folder: PathBuf = folder.path().join(name);
        std::fs::create_dir_all(&folder).expect("made");
        folder
    };
    let blocks = blocks();
    let functions = blocks.first().and_then(|block| block.split("item $(").next()).expect("functions").to_owned();
    let (rows, script) = (blocks.get(3).expect("of MySQL"), blocks.get(4).expect("of a script"));

    let native = work("native");
    let dumped = backup(&server.url("shop"), &folder_vault(&native).await).await.expect("a backup");
    new.sql("CREATE USER 'owner'@'%'");
    bash(
        &new,
        &work("rows"),
        &native.join("sets").join(dumped.manifest.id.to_string()),
        &format!("{functions}\n{rows}"),
    );
    let expected = everything(&server, "shop");
    is_the_same(&everything(&new, "shop"), &expected);

    let plain = work("plain");
    let dumped = backup_as_script(&server.url("shop"), &folder_vault(&plain).await).await.expect("a backup");
    new.sql("DROP DATABASE shop; CREATE DATABASE shop COMMENT 'the shop''s'");
    bash(
        &new,
        &work("script"),
        &plain.join("sets").join(dumped.manifest.id.to_string()),
        &format!("{functions}\n{script}"),
    );
    is_the_same(&everything(&new, "shop"), &expected);
}
