//! Every backend passes the one suite.

use std::sync::Arc;

use seawall_core::SystemClock;
use seawall_vault::memory::MemoryStore;
use seawall_vault::simulated::SimulatedStore;
use seawall_vault::testing::S3Server;
use seawall_vault::{Environment, FileStore, Layout, Policy, S3Store, Store, VaultUrl, conformance};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn memory() {
    conformance::run(|_| async { Arc::new(MemoryStore::new()) as Arc<dyn Store> }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn simulated() {
    let open = |_| async {
        let inner = MemoryStore::with(Layout::Files, Arc::new(SystemClock));
        Arc::new(SimulatedStore::new(inner, 7)) as Arc<dyn Store>
    };
    conformance::run(open).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn file() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = |name: &'static str| {
        let root = folder.path().join("a b").join(name);
        async { Arc::new(FileStore::new(root)) as Arc<dyn Store> }
    };
    conformance::run(open).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn s3() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(server) = S3Server::start("conformance of s3", folder.path()).await else { return };
    let open = |name: &'static str| {
        let url = server.url(&format!("some path/{name}"));
        async move {
            let Ok(VaultUrl::S3(settings)) = VaultUrl::parse(&url) else { panic!("{url}") };
            let store = S3Store::connect(&settings, &Environment::empty(), &Policy::default()).await.expect("connect");
            Arc::new(store) as Arc<dyn Store>
        }
    };
    conformance::run(open).await;
}
