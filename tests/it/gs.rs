//! A vault in Google Cloud Storage (fake-gcs-server): Litestream reads what we write there, and we read what Litestream writes.

use std::path::{Path, PathBuf};
use std::process::Command;

use seawall_tests::{Random, Stand, digest, model, run};
use seawall_vault::testing::{BUCKET, GcsServer};

/// A server with a bucket, and the runtime that it runs in.
struct Google {
    server: GcsServer,
    _runtime: tokio::runtime::Runtime,
}

impl Google {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let server = runtime.block_on(GcsServer::start("Google Cloud Storage by the command line"));
        Self { server: server.expect("fake-gcs-server on PATH"), _runtime: runtime }
    }

    /// A program with the server's address, which Litestream takes from the environment alone.
    fn at(&self, mut command: Command) -> Command {
        let endpoint = self.server.endpoint();
        command.env("STORAGE_EMULATOR_HOST", endpoint.trim_start_matches("http://"));
        command
    }

    /// A configuration in Litestream's format.
    fn litestream_yml(stand: &Stand, path: &str) -> PathBuf {
        let config = stand.path("google.yml");
        let replica = format!("      type: gs\n      bucket: {BUCKET}\n      path: {path}\n");
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

#[test]
fn google_there_and_back_and_litestream_reads_it() {
    let google = Google::start();
    let stand = Stand::folder(Random::from_env().seed());
    let url = google.server.url("ours");
    let mut app = stand.app();
    app.commit(40);
    seawall(&stand, &["replicate", "--once", text(&stand.db()), &url]);
    app.commit(2);
    seawall(&stand, &["replicate", "--once", text(&stand.db()), &url]);
    seawall(&stand, &["verify", &url]);
    let file = stand.new_file();
    seawall(&stand, &["restore", &url, "-o", text(&file)]);
    assert_eq!(model::check(&file, stand.seed), 42);

    let (config, file, db) = (Google::litestream_yml(&stand, "ours"), stand.new_file(), stand.db());
    let args = ["restore", "-config", text(&config), "-o", text(&file), text(&db)];
    run("litestream", google.at(stand.litestream_command()).args(args)).ok();
    assert_eq!(model::check(&file, stand.seed), 42);
    assert_eq!(digest::of(&file), digest::of(&stand.db()));
}

#[test]
fn google_goes_on_where_litestream_stopped() {
    let google = Google::start();
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(30);
    let config = Google::litestream_yml(&stand, "theirs");
    run("litestream", google.at(stand.litestream_command()).args(["replicate", "-once", "-config", text(&config)]))
        .ok();

    let (file, db) = (stand.new_file(), stand.db());
    let args = ["restore", "--config", text(&config), "-o", text(&file), text(&db)];
    run("seawall", google.at(stand.command()).args(args)).ok();
    assert_eq!(model::check(&file, stand.seed), 30);
    app.commit(5);
    run("seawall", google.at(stand.command()).args(["replicate", "--once", "--config", text(&config)])).ok();
    let file = stand.new_file();
    let args = ["restore", "-config", text(&config), "-o", text(&file), text(&db)];
    run("litestream", google.at(stand.litestream_command()).args(args)).ok();
    assert_eq!(model::check(&file, stand.seed), 35);
}
