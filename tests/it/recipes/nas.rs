//! A NAS: a vault on an SFTP server, and one in a folder with snapshots.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use seawall_tests::{App, Random, model, run};
use seawall_vault::testing::SshServer;

use super::page::Page;
use super::{Database, check, comes_back_from, host::Host, local};

#[test]
fn a_nas_by_sftp_gives_the_database_back() {
    let page = Page::read("nas");
    check(&page);
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = runtime.block_on(SshServer::start("a recipe", &folder.path().join("server"), "")).expect("an sshd");
    let vault = format!("sftp://{}@127.0.0.1:{}{}/vault", server.user(), server.port(), folder.path().display());
    let text = page.file("seawall.yml").replace("sftp://seawall@nas.example/backup/seawall", &vault);
    assert!(text.contains(&vault));
    let prepare = |host: &Host| {
        host.write("/etc/seawall.yml", &text);
        let key = host.path("/etc/seawall/id_ed25519");
        fs::copy(server.key(), &key).unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        let known = format!("[127.0.0.1]:{} {}\n", server.port(), server.host_key());
        fs::write(host.path("/etc/seawall/known_hosts"), known).unwrap();
    };
    let databases = [Database { path: "/srv/app/app.db", name: "app", pragmas: &[] }];
    // The last line probes the NAS by its name.
    let start: Vec<String> =
        page.commands("Start")[0].iter().filter(|line| !line.contains("nas.example")).cloned().collect();
    let restore: Vec<_> = page.commands("Restore").into_iter().take(1).collect();
    comes_back_from(&prepare, &start, &restore, &databases, &["/srv/app"]);
}

#[test]
fn a_mounted_folder_has_snapshots_and_must_be_mounted() {
    let page = Page::read("nas");
    let mut host = Host::with(&page);
    host.write("/etc/seawall.yml", page.files("seawall.yml")[1]);
    let seed = Random::from_env().seed();
    for folder in ["/mnt/nas", "/srv/app"] {
        fs::create_dir_all(host.path(folder)).unwrap();
    }
    let mut app = App::start(&host.path("/srv/app/app.db"), seed);
    host.start();
    let commits = app.commit(20);
    host.settle(&["app"]);
    let (vault, snapshot) = (host.path("/mnt/nas/seawall"), host.path("/mnt/nas/snapshots/2026-11-26/seawall"));
    fs::create_dir_all(snapshot.parent().unwrap()).unwrap();
    run("cp", host.command("cp").arg("-a").args([&vault, &snapshot])).ok();
    app.commit(5);
    host.settle(&["app"]);
    host.stop();
    // A thief of the key deletes everything.
    fs::remove_dir_all(&vault).unwrap();
    let [by_folder, by_snapshot] =
        &page.commands("").concat().into_iter().filter(|line| line.contains("/mnt/nas")).fold(
            [Vec::new(), Vec::new()],
            |mut found, line| {
                found[usize::from(line.contains("snapshots"))].push(line);
                found
            },
        );
    host.carry_all_out(&local(by_snapshot));
    let back = host.path("empty/app.db");
    assert_eq!(model::check(&back, seed), commits);
    fs::remove_dir_all(host.path("empty")).unwrap();
    fs::create_dir(host.path("empty")).unwrap();

    // Its folder is put back, and read without a configuration.
    fs::create_dir_all(&vault).unwrap();
    run("cp", host.command("cp").arg("-aT").args([&snapshot, &vault])).ok();
    host.carry_all_out(&local(by_folder));
    assert_eq!(model::check(&back, seed), commits);

    // The folder is missing at the start: Seawall says so, and writes nothing to this host's own disk.
    fs::rename(host.path("/mnt/nas"), host.path("/mnt/away")).unwrap();
    fs::create_dir_all(host.path("/mnt/nas")).unwrap();
    let told = run("seawall", host.command("seawall").args(["replicate", "--once"])).exits(1);
    assert!(told.stderr.contains("vault.vanished"), "{told}");
    assert!(!host.path("/mnt/nas/seawall").exists());
}
