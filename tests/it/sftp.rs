//! A vault on an SFTP server (OpenSSH's): Litestream reads what we write there, and we read what Litestream writes.

use std::path::{Path, PathBuf};

use seawall_tests::{Random, Stand, digest, model, run};
use seawall_vault::testing::SshServer;

/// A server whose files are in a folder of this machine.
struct Sftp {
    server: SshServer,
    _runtime: tokio::runtime::Runtime,
    folder: tempfile::TempDir,
}

impl Sftp {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let server = runtime.block_on(SshServer::start("SFTP by the command line", &folder.path().join("server"), ""));
        Self { server: server.expect("an sshd"), _runtime: runtime, folder }
    }

    fn objects(&self, path: &str) -> PathBuf {
        self.folder.path().join("sites").join(path)
    }

    fn url(&self, path: &str) -> String {
        self.server.url(&self.objects(path))
    }

    /// The names of the files of a replica, with those that are being written.
    fn names(&self, path: &str) -> Vec<String> {
        fn below(folder: &Path, root: &Path, found: &mut Vec<String>) {
            for entry in std::fs::read_dir(folder).into_iter().flatten() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    below(&path, root, found);
                } else {
                    found.push(path.strip_prefix(root).unwrap().display().to_string());
                }
            }
        }
        let (root, mut found) = (self.objects(path), Vec::new());
        below(&root, &root, &mut found);
        found
    }

    /// A configuration in Litestream's format.
    fn litestream_yml(&self, stand: &Stand, path: &str) -> PathBuf {
        let (key, objects) = (self.server.key(), self.objects(path));
        let keys = [
            ("type", "sftp"),
            ("host", &*format!("127.0.0.1:{}", self.server.port())),
            ("user", self.server.user()),
            ("key-path", text(&key)),
            ("host-key", &self.server.host_key()),
            ("path", text(&objects)),
        ];
        let replica: String = keys.iter().map(|(key, value)| format!("      {key}: {value}\n")).collect();
        let config = stand.path("sftp.yml");
        std::fs::write(&config, format!("dbs:\n  - path: {}\n    replica:\n{replica}", stand.db().display())).unwrap();
        config
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn seawall(stand: &Stand, args: &[&str]) {
    run("seawall", stand.command().args(args)).ok();
}

fn restored(stand: &Stand, url: &str, more: &[&str]) -> PathBuf {
    let file = stand.new_file();
    seawall(stand, &[&["restore", url, "-o", text(&file)], more].concat());
    file
}

#[test]
fn sftp_there_and_back_and_litestream_reads_it() {
    let sftp = Sftp::start();
    let stand = Stand::folder(Random::from_env().seed());
    let url = sftp.url("ours");
    let mut app = stand.app();
    app.commit(40);
    seawall(&stand, &["replicate", "--once", text(&stand.db()), &url]);
    let between = jiff::Timestamp::now();
    app.commit(2);
    seawall(&stand, &["replicate", "--once", text(&stand.db()), &url]);
    let names = sftp.names("ours");
    assert!(names.iter().any(|name| name.starts_with("ltx/0/")), "{names:?}");
    assert!(!names.iter().any(|name| name.ends_with(".tmp")), "nothing half is left: {names:?}");
    assert_eq!(model::check(&restored(&stand, &url, &[]), stand.seed), 42);
    // The store keeps whole seconds; the moments are in the objects.
    assert_eq!(model::check(&restored(&stand, &url, &["--at", &between.to_string()]), stand.seed), 40);
    seawall(&stand, &["verify", &url]);

    let (config, file, db) = (sftp.litestream_yml(&stand, "ours"), stand.new_file(), stand.db());
    let args = ["restore", "-config", text(&config), "-o", text(&file), text(&db)];
    run("litestream", stand.litestream_command().args(args)).ok();
    assert_eq!(model::check(&file, stand.seed), 42);
    assert_eq!(digest::of(&file), digest::of(&stand.db()));
}

#[test]
fn sftp_from_a_litestream_yml_that_litestream_used() {
    let sftp = Sftp::start();
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(30);
    let config = sftp.litestream_yml(&stand, "theirs");
    run("litestream", stand.litestream_command().args(["replicate", "-once", "-config", text(&config)])).ok();
    let names = sftp.names("theirs");
    assert!(names.iter().any(|name| name.starts_with("ltx/")), "{names:?}");

    let file = stand.new_file();
    seawall(&stand, &["restore", "--config", text(&config), "-o", text(&file), text(&stand.db())]);
    assert_eq!(model::check(&file, stand.seed), 30);
    app.commit(5);
    seawall(&stand, &["replicate", "--once", "--config", text(&config)]);
    let (file, db) = (stand.new_file(), stand.db());
    let args = ["restore", "-config", text(&config), "-o", text(&file), text(&db)];
    run("litestream", stand.litestream_command().args(args)).ok();
    assert_eq!(model::check(&file, stand.seed), 35);
}

#[test]
fn sftp_of_a_server_that_is_not_known_is_refused_with_the_line_to_add() {
    let sftp = Sftp::start();
    let stand = Stand::folder(Random::from_env().seed());
    stand.app().commit(1);
    let config = sftp.litestream_yml(&stand, "unknown");
    let without: String = std::fs::read_to_string(&config).unwrap();
    let without: Vec<&str> = without.lines().filter(|line| !line.contains("host-key")).collect();
    std::fs::write(&config, without.join("\n")).unwrap();
    let refused = run("seawall", stand.command().args(["replicate", "--once", "--config", text(&config)]));
    let told = format!("{refused:?}");
    let line = format!("[127.0.0.1]:{} {}", sftp.server.port(), sftp.server.host_key());
    assert!(told.contains("vault.host-key") && told.contains(&line), "{told}");
    assert_ne!(refused.code(), 0);
    assert!(sftp.names("unknown").is_empty());
    // With that line it is known.
    std::fs::create_dir_all(stand.path(".ssh")).unwrap();
    std::fs::write(stand.path(".ssh/known_hosts"), format!("{line}\n")).unwrap();
    seawall(&stand, &["replicate", "--once", "--config", text(&config)]);
    assert!(!sftp.names("unknown").is_empty());
}
