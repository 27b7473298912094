//! A vault in Azure Blob Storage (Azurite): Litestream reads what we write there, and we read what Litestream writes.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use seawall_tests::{Random, Stand, digest, model, run};
use seawall_vault::testing::{ACCOUNT, AzureServer};
use seawall_vault::{AbsSettings, AbsStore, Environment, Policy, Prefix, Store, VaultUrl};

/// A server with a container, and the runtime that it is asked from.
struct Azure {
    server: AzureServer,
    runtime: tokio::runtime::Runtime,
    _folder: tempfile::TempDir,
}

impl Azure {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let server = runtime.block_on(AzureServer::start("Azure by the command line", folder.path()));
        let azure = Self { server: server.expect("azurite-blob on PATH"), runtime, _folder: folder };
        azure.names("");
        azure
    }

    /// The names below a path; makes the container.
    fn names(&self, path: &str) -> Vec<String> {
        let Ok(VaultUrl::Abs(settings)) = VaultUrl::parse(&self.server.url("harbour", &format!("sites/{path}"))) else {
            panic!("a URL")
        };
        let settings = AbsSettings { create_container: true, ..*settings };
        self.runtime.block_on(async {
            let store = AbsStore::connect(&settings, &Environment::empty(), &Policy::default()).await.unwrap();
            let page = Arc::new(store).list(&Prefix::all(), None, 1000).await.unwrap();
            page.entries.into_iter().map(|entry| entry.key.as_str().to_owned()).collect()
        })
    }

    /// A configuration in Litestream's format.
    fn litestream_yml(&self, stand: &Stand, path: &str) -> PathBuf {
        let keys = [
            ("type", "abs"),
            ("account-name", ACCOUNT.0),
            ("account-key", ACCOUNT.1),
            ("bucket", "harbour"),
            ("path", &format!("sites/{path}")),
            ("endpoint", &self.server.endpoint()),
        ];
        let replica: String = keys.iter().map(|(key, value)| format!("      {key}: {value}\n")).collect();
        let config = stand.path("azure.yml");
        std::fs::write(&config, format!("dbs:\n  - path: {}\n    replica:\n{replica}", stand.db().display())).unwrap();
        config
    }

    /// The place as users write it, without the key.
    fn url(&self, path: &str) -> String {
        format!("abs://{}@harbour/sites/{path}?endpoint={}", ACCOUNT.0, self.server.endpoint())
    }
}

/// A program with the account's key in Litestream's variable.
fn with_key(mut command: Command) -> Command {
    command.env("LITESTREAM_AZURE_ACCOUNT_KEY", ACCOUNT.1);
    command
}

fn seawall(stand: &Stand, args: &[&str]) {
    run("seawall", with_key(stand.command()).args(args)).ok();
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn restored(stand: &Stand, url: &str) -> PathBuf {
    let file = stand.new_file();
    seawall(stand, &["restore", url, "-o", text(&file)]);
    file
}

#[test]
fn azure_there_and_back_and_litestream_reads_it() {
    let azure = Azure::start();
    let stand = Stand::folder(Random::from_env().seed());
    let url = azure.url("ours");
    let mut app = stand.app();
    app.commit(40);
    seawall(&stand, &["replicate", "--once", text(&stand.db()), &url]);
    app.commit(2);
    seawall(&stand, &["replicate", "--once", text(&stand.db()), &url]);
    let names = azure.names("ours");
    assert!(names.iter().any(|name| name.starts_with("ltx/0/")), "{names:?}");
    assert_eq!(model::check(&restored(&stand, &url), stand.seed), 42);
    seawall(&stand, &["verify", &url]);

    // Litestream takes the server only from a configuration.
    let (config, file) = (azure.litestream_yml(&stand, "ours"), stand.new_file());
    let db = stand.db();
    let args = ["restore", "-config", text(&config), "-o", text(&file), text(&db)];
    run("litestream", stand.litestream_command().args(args)).ok();
    assert_eq!(model::check(&file, stand.seed), 42);
    assert_eq!(digest::of(&file), digest::of(&stand.db()));
}

#[test]
fn azure_from_a_litestream_yml_that_litestream_used() {
    let azure = Azure::start();
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(30);
    let config = azure.litestream_yml(&stand, "theirs");
    run("litestream", stand.litestream_command().args(["replicate", "-once", "-config", text(&config)])).ok();
    let names = azure.names("theirs");
    assert!(names.iter().any(|name| name.starts_with("ltx/")), "{names:?}");

    let file = stand.new_file();
    run("seawall", stand.command().args(["restore", "--config", text(&config), "-o", text(&file), text(&stand.db())]))
        .ok();
    assert_eq!(model::check(&file, stand.seed), 30);
    app.commit(5);
    run("seawall", stand.command().args(["replicate", "--once", "--config", text(&config)])).ok();
    let file = stand.new_file();
    run(
        "litestream",
        stand.litestream_command().args(["restore", "-config", text(&config), "-o", text(&file), text(&stand.db())]),
    )
    .ok();
    assert_eq!(model::check(&file, stand.seed), 35);
}
