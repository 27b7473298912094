//! A vault in the object store of NATS: Litestream reads what we write there, and we read what Litestream writes.

use std::path::{Path, PathBuf};

use seawall_tests::{Random, Stand, digest, model, run};
use seawall_vault::testing::{NATS_USER, NatsServer};

struct Place {
    server: NatsServer,
    _folder: tempfile::TempDir,
}

impl Place {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let server = runtime.block_on(async {
            let server = NatsServer::start("NATS by the command line", folder.path()).await;
            let server = server.expect("nats-server on PATH");
            server.make_bucket("harbour").await;
            server
        });
        Self { server, _folder: folder }
    }

    fn url(&self) -> String {
        self.server.url("harbour", "").trim_end_matches('/').to_owned()
    }

    /// A configuration in Litestream's format, which has no path in NATS.
    fn litestream_yml(&self, stand: &Stand) -> PathBuf {
        let (name, password) = NATS_USER;
        let config = stand.path("nats.yml");
        let text = format!(
            "dbs:\n  - path: {}\n    replica:\n      type: nats\n      url: nats://127.0.0.1:{}/harbour\n      \
             username: {name}\n      password: {password}\n",
            stand.db().display(),
            self.server.port()
        );
        std::fs::write(&config, text).unwrap();
        config
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn nats_there_and_back_and_litestream_reads_it() {
    let place = Place::start();
    let stand = Stand::folder(Random::from_env().seed());
    let url = place.url();
    let mut app = stand.app();
    app.commit(40);
    let db = stand.db();
    let once = ["replicate", "--once", text(&db), &url];
    run("seawall", stand.command().args(once)).ok();
    app.commit(2);
    let output = run("seawall", stand.command().args(once)).ok();
    assert!(!format!("{}{}", output.stdout, output.stderr).contains(NATS_USER.1), "{output:?}");
    let file = stand.new_file();
    run("seawall", stand.command().args(["restore", &url, "-o", text(&file)])).ok();
    assert_eq!(model::check(&file, stand.seed), 42);
    run("seawall", stand.command().args(["verify", &url])).ok();

    let (config, file) = (place.litestream_yml(&stand), stand.new_file());
    let args = ["restore", "-config", text(&config), "-o", text(&file), text(&db)];
    run("litestream", stand.litestream_command().args(args)).ok();
    assert_eq!(model::check(&file, stand.seed), 42);
    assert_eq!(digest::of(&file), digest::of(&stand.db()));
}

#[test]
fn nats_from_a_litestream_yml_that_litestream_used() {
    let place = Place::start();
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(30);
    let config = place.litestream_yml(&stand);
    run("litestream", stand.litestream_command().args(["replicate", "-once", "-config", text(&config)])).ok();

    let file = stand.new_file();
    run("seawall", stand.command().args(["restore", "--config", text(&config), "-o", text(&file), text(&stand.db())]))
        .ok();
    assert_eq!(model::check(&file, stand.seed), 30);
    app.commit(5);
    run("seawall", stand.command().args(["replicate", "--once", "--config", text(&config)])).ok();
    let (file, db) = (stand.new_file(), stand.db());
    let args = ["restore", "-config", text(&config), "-o", text(&file), text(&db)];
    run("litestream", stand.litestream_command().args(args)).ok();
    assert_eq!(model::check(&file, stand.seed), 35);
}
