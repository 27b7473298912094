//! A vault on a WebDAV server (nginx; with WsgiDAV, Litestream's own requests fail where a level has no folder): Litestream reads what we write there, and we read what Litestream writes.

use std::path::{Path, PathBuf};

use seawall_tests::{Random, Stand, digest, model, run};
use seawall_vault::testing::WebdavServer;

struct Place {
    server: WebdavServer,
    folder: tempfile::TempDir,
}

impl Place {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let server = runtime.block_on(WebdavServer::nginx("WebDAV by the command line", folder.path()));
        Self { server: server.expect("nginx with WebDAV"), folder }
    }

    fn url(&self, path: &str) -> String {
        self.server.url(path)
    }

    /// The names of files of a level.
    fn level(&self, path: &str, level: u8) -> Vec<String> {
        let folder = self.folder.path().join("files").join(path).join(format!("ltx/{level}"));
        let files =
            std::fs::read_dir(folder).map(|files| files.map(|file| file.unwrap().file_name()).collect::<Vec<_>>());
        files.unwrap_or_default().into_iter().map(|name| name.into_string().unwrap()).collect()
    }

    /// A configuration in Litestream's format.
    fn litestream_yml(&self, stand: &Stand, path: &str) -> PathBuf {
        let config = stand.path("webdav.yml");
        let text = format!(
            "dbs:\n  - path: {}\n    replica:\n      type: webdav\n      webdav-url: http://127.0.0.1:{}/\n      path: {path}\n",
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
fn webdav_there_and_back_and_litestream_reads_it() {
    let place = Place::start();
    let stand = Stand::folder(Random::from_env().seed());
    let url = place.url("harbour/ours");
    let mut app = stand.app();
    app.commit(40);
    let db = stand.db();
    let once = ["replicate", "--once", text(&db), &url];
    run("seawall", stand.command().args(once)).ok();
    app.commit(2);
    run("seawall", stand.command().args(once)).ok();
    assert!(!place.level("harbour/ours", 0).is_empty());
    let file = stand.new_file();
    run("seawall", stand.command().args(["restore", &url, "-o", text(&file)])).ok();
    assert_eq!(model::check(&file, stand.seed), 42);
    run("seawall", stand.command().args(["verify", &url])).ok();

    let (config, file) = (place.litestream_yml(&stand, "harbour/ours"), stand.new_file());
    let args = ["restore", "-config", text(&config), "-o", text(&file), text(&db)];
    run("litestream", stand.litestream_command().args(args)).ok();
    assert_eq!(model::check(&file, stand.seed), 42);
    assert_eq!(digest::of(&file), digest::of(&stand.db()));
}

#[test]
fn webdav_from_a_litestream_yml_that_litestream_used() {
    let place = Place::start();
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(30);
    let config = place.litestream_yml(&stand, "harbour/theirs");
    run("litestream", stand.litestream_command().args(["replicate", "-once", "-config", text(&config)])).ok();
    assert!(!place.level("harbour/theirs", 0).is_empty());

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
