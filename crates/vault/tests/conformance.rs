//! Every backend passes the conformance suite.

#![allow(clippy::disallowed_methods, reason = "tests are an edge")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use seawall_core::SystemClock;
use seawall_vault::memory::MemoryStore;
use seawall_vault::simulated::SimulatedStore;
use seawall_vault::testing::{
    ACCOUNT, AzureServer, GcsServer, KEYS, NatsServer, OssServer, S3Server, SshServer, WebdavServer,
};
use seawall_vault::{
    AbsSettings, AbsStore, Access, B2Store, Environment, FileStore, GsStore, HostKeys, Identities, NatsStore,
    ObjectKey, OssStore, Pem, PlaceSettings as _, Policy, Prefix, Recipients, S3Settings, S3Store, Scheme, SealedStore,
    Sealing, Secret, SftpStore, Store, Tls, Vault, VaultUrl, WebdavStore, conformance,
};
use tokio::time::Instant;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn memory() {
    conformance::run(|_| async { Arc::new(MemoryStore::new()) as Arc<dyn Store> }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn simulated() {
    let open = |_| async {
        let inner = MemoryStore::with(Scheme::File, Arc::new(SystemClock));
        Arc::new(SimulatedStore::new(inner, 7)) as Arc<dyn Store>
    };
    conformance::run(open).await;
}

/// A store whose objects are encrypted in another.
fn sealed(inner: Arc<dyn Store>) -> Arc<dyn Store> {
    let (_, public) = Identities::generate();
    let recipients = Recipients::read([public], Path::new("")).expect("a recipient");
    let keys = HostKeys::new(None, Arc::new(SystemClock));
    let sealing = Sealing::new(Some(recipients), Identities::none(), keys);
    Arc::new(SealedStore::new(inner, Access::Sealed(Arc::new(sealing))))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sealed_in_memory() {
    conformance::run(|_| async { sealed(Arc::new(MemoryStore::new())) }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sealed_in_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = |name: &'static str| {
        let root = folder.path().join(name);
        async { sealed(Arc::new(FileStore::new(root))) }
    };
    conformance::run(open).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sealed_in_s3() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(server) = S3Server::start("conformance of encryption in s3", folder.path()).await else { return };
    let open = |name: &'static str| {
        let url = server.url(name);
        async move {
            let Ok(VaultUrl::S3(settings)) = VaultUrl::parse(&url) else { panic!("{url}") };
            let store = S3Store::connect(&settings, &Environment::empty(), &Policy::default()).await.expect("connect");
            sealed(Arc::new(store))
        }
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

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn azure() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(server) = AzureServer::start("conformance of Azure", folder.path()).await else { return };
    let open = |name: &'static str| {
        let url = server.url("container", &format!("some path/{name}"));
        async move {
            let Ok(VaultUrl::Abs(settings)) = VaultUrl::parse(&url) else { panic!("{url}") };
            let settings = AbsSettings { create_container: true, ..*settings };
            let store = AbsStore::connect(&settings, &Environment::empty(), &Policy::default()).await.expect("connect");
            Arc::new(store) as Arc<dyn Store>
        }
    };
    conformance::run(open).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn google() {
    let Some(server) = GcsServer::start("conformance of Google Cloud Storage").await else { return };
    let open = |name: &'static str| {
        let url = server.url(&format!("some path/{name}"));
        async move {
            let Ok(VaultUrl::Gs(settings)) = VaultUrl::parse(&url) else { panic!("{url}") };
            let store = GsStore::connect(&settings, &Environment::empty(), &Policy::default()).await.expect("connect");
            Arc::new(store) as Arc<dyn Store>
        }
    };
    conformance::run(open).await;
}

async fn on_webdav(server: WebdavServer) {
    let open = |name: &'static str| {
        let url = server.url(&format!("some path/{name}"));
        async move {
            let place = VaultUrl::parse(&url).expect("a place");
            let VaultUrl::Webdav(settings) = place else { unreachable!("{url}") };
            let store = WebdavStore::connect(&settings, &Environment::empty(), &Policy::default()).await;
            Arc::new(store.expect("connect")) as Arc<dyn Store>
        }
    };
    conformance::run(open).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sftp() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(server) = SshServer::start("conformance of SFTP", &folder.path().join("server"), "").await else { return };
    let policy = Policy::default();
    let open = |name: &'static str| {
        let url = server.url(&folder.path().join("some path").join(name));
        let policy = policy.clone();
        async move {
            let Ok(VaultUrl::Sftp(settings)) = VaultUrl::parse(&url) else { panic!("{url}") };
            let store = SftpStore::connect(&settings, &Environment::empty(), &policy).await.expect("connect");
            Arc::new(store) as Arc<dyn Store>
        }
    };
    conformance::run(open).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn webdav_of_wsgidav() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(server) = WebdavServer::wsgidav("conformance of WsgiDAV", folder.path()).await else { return };
    on_webdav(server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn webdav_of_nginx() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(server) = WebdavServer::nginx("conformance of nginx", folder.path()).await else { return };
    on_webdav(server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nats() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(server) = NatsServer::start("conformance of NATS", folder.path()).await else { return };
    server.make_bucket("bucket").await;
    let open = |name: &'static str| {
        let url = server.url("bucket", &format!("some path/{name}"));
        async move {
            let Ok(VaultUrl::Nats(settings)) = VaultUrl::parse(&url) else { panic!("{url}") };
            let store = NatsStore::connect(&settings, &Environment::empty(), &Policy::default()).await;
            Arc::new(store.expect("connect")) as Arc<dyn Store>
        }
    };
    conformance::run(open).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn azure_with_a_key_file_that_is_renewed() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(server) = AzureServer::start("a key file of Azure", folder.path()).await else { return };
    let file = folder.path().join("key");
    let mut settings = AbsSettings { create_container: true, ..AbsSettings::default() };
    for (name, value) in [
        ("account-name", ACCOUNT.0),
        ("account-key-file", &file.display().to_string()),
        ("endpoint", &server.endpoint()),
        ("bucket", "container"),
        ("path", "renewed"),
    ] {
        settings.set(name, value).expect("a setting");
    }
    std::fs::write(&file, ACCOUNT.1).expect("written");
    let store = AbsStore::connect(&settings, &Environment::empty(), &Policy::default()).await.expect("connect");
    store.list(&Prefix::all(), None, 10).await.expect("the right key");
    for (key, works) in [("d3Jvbmc=", false), (ACCOUNT.1, true)] {
        std::fs::write(&file, key).expect("written");
        let end = Instant::now() + Duration::from_secs(30);
        while store.list(&Prefix::all(), None, 10).await.is_ok() != works {
            assert!(Instant::now() < end, "the key in the file counts before long");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

/// Against a server of our own, which speaks the service's protocol: no other imitates it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn alibaba() {
    let server = OssServer::start().await;
    let open = |name: &'static str| {
        let url = server.url(&format!("some path/{name}"));
        async move {
            let Ok(VaultUrl::Oss(settings)) = VaultUrl::parse(&url) else { panic!("{url}") };
            let store = OssStore::connect(&settings, &Environment::empty(), &Policy::default()).await.expect("connect");
            Arc::new(store) as Arc<dyn Store>
        }
    };
    conformance::run(open).await;
}

/// By the protocol that B2 speaks; the service itself can't be had for tests.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn backblaze() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(server) = S3Server::start("conformance of b2", folder.path()).await else { return };
    let environment: Environment = [("B2_APPLICATION_KEY_ID", KEYS.0), ("B2_APPLICATION_KEY", KEYS.1)]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into_iter()
        .collect();
    let open = |name: &'static str| {
        let url = format!("b2://bucket/some path/{name}?region=us-east-1&endpoint={}", server.endpoint());
        let environment = environment.clone();
        async move {
            let Ok(VaultUrl::B2(settings)) = VaultUrl::parse(&url) else { panic!("{url}") };
            let store = B2Store::connect(&settings, &environment, &Policy::default()).await.expect("connect");
            Arc::new(store) as Arc<dyn Store>
        }
    };
    conformance::run(open).await;
}

/// A bucket without a path.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn objects_at_the_top_of_a_bucket() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(server) = S3Server::start("objects at the top of a bucket", folder.path()).await else { return };
    let google = GcsServer::start("objects at the top of a bucket").await;
    let alibaba = OssServer::start().await;
    for url in [Some(server.url("")), google.as_ref().map(|server| server.url("")), Some(alibaba.url(""))] {
        let Some(url) = url else { continue };
        let place = VaultUrl::parse(&url).expect("a place");
        let vault = Vault::open(&place, &Environment::empty(), Policy::default()).await.expect("a vault");
        let key = ObjectKey::new("0000/name").expect("a key");
        vault.create(&key, "text".into(), None).await.expect("made");
        let found = vault.list(&Prefix::new("0000").expect("a prefix"), None).await.expect("listed");
        assert_eq!(found.iter().map(|entry| entry.key.as_str()).collect::<Vec<_>>(), [key.as_str()], "{place}");
        assert_eq!(vault.read(&key, None, 100).await.expect("read"), "text");
    }
    assert_eq!(std::fs::read_to_string(folder.path().join("bucket/0000/name")).expect("at the top"), "text");
}

/// As Lightning Stream has its objects: at the top of a bucket, behind any text.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn s3_with_names_behind_a_prefix() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(server) = S3Server::start("conformance of s3 with a prefix", folder.path()).await else { return };
    let open = |name: &'static str| {
        let settings = behind(&server, "bucket", &format!("{name}/some-"));
        async move {
            let store = S3Store::connect(&settings, &Environment::empty(), &Policy::default()).await.expect("connect");
            Arc::new(store) as Arc<dyn Store>
        }
    };
    conformance::run(open).await;
}

fn behind(server: &S3Server, bucket: &str, prefix: &str) -> S3Settings {
    let (id, key) = KEYS;
    let mut settings = S3Settings { bucket: bucket.into(), prefix: Some(prefix.into()), ..S3Settings::default() };
    for (name, value) in [("endpoint", &*server.endpoint()), ("access-key-id", id), ("secret-access-key", key)] {
        settings.set(name, value).expect("a setting");
    }
    settings
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_bucket_that_is_missing_is_made_where_that_is_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(server) = S3Server::start("making a bucket", folder.path()).await else { return };
    let key = ObjectKey::new("name").expect("a key");
    for make in [false, true, true] {
        let settings = S3Settings { create_bucket: make, ..behind(&server, "not-there-yet", "") };
        let place = VaultUrl::S3(Box::new(settings));
        let vault = Vault::open(&place, &Environment::empty(), Policy::default()).await.expect("a place");
        let put = vault.put(&key, "text".into(), None).await;
        assert_eq!(put.is_ok(), make, "{put:?}");
    }
    let found = std::fs::read_to_string(folder.path().join("not-there-yet/name"));
    assert_eq!(found.expect("at the top of the bucket"), "text");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_is_believed_by_its_own_authority_or_not_at_all() {
    let folder = tempfile::tempdir().expect("a folder");
    let tls = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls").join(name);
    let files = (tls("cert.pem"), tls("key.pem"));
    let server = S3Server::start_with("TLS", folder.path(), Some((&files.0, &files.1))).await;
    let Some(server) = server else { return };
    let authority = tls("authority.pem");
    let text = std::fs::read_to_string(&authority).expect("an authority");
    let file = |path: &Path| Pem::File(path.display().to_string());
    let believing = |authorities, system_too| Tls { authorities: Some(authorities), system_too, identity: None };
    let itself = Some((file(&files.0), file(&files.1)));
    for (tls, anyone, believed) in [
        (Tls::default(), false, false),
        (Tls::default(), true, true),
        (believing(file(&authority), false), false, true),
        (believing(file(&authority), true), false, true),
        (believing(Pem::Text(Secret::new(text.clone())), false), false, true),
        (Tls { identity: itself, ..believing(file(&authority), false) }, false, true),
    ] {
        let settings = S3Settings { tls: tls.clone(), skip_verify: anyone, ..behind(&server, "bucket", "") };
        let store = S3Store::connect(&settings, &Environment::empty(), &Policy::default()).await.expect("connect");
        let listed = store.list(&Prefix::all(), None, 10).await;
        assert_eq!(listed.is_ok(), believed, "{tls:?}: {listed:?}");
    }

    // Each kind believes the authority in `ca-file`. The server speaks S3 alone, so the others get as far as its refusal.
    let endpoint = server.endpoint();
    let own = format!("ca-file={}", authority.display());
    let ca_bundle: Environment = [("AWS_CA_BUNDLE".to_owned(), authority.display().to_string())].into_iter().collect();
    for (url, environment, more, expected) in [
        (server.url("p"), Environment::empty(), &*own, None),
        (server.url("p"), ca_bundle, "", None),
        (server.url("p"), Environment::empty(), "", Some(true)),
        (format!("gs://bucket/p?endpoint={endpoint}"), Environment::empty(), "", Some(true)),
        (format!("gs://bucket/p?endpoint={endpoint}"), Environment::empty(), &own, Some(false)),
        (
            format!("oss://bucket/p?endpoint={endpoint}&access-key-id=a&secret-access-key=b"),
            Environment::empty(),
            "",
            Some(true),
        ),
        (
            format!("oss://bucket/p?endpoint={endpoint}&access-key-id=a&secret-access-key=b"),
            Environment::empty(),
            &own,
            Some(false),
        ),
        (
            format!("abs://account@box/p?endpoint={endpoint}/account&account-key=a2V5"),
            Environment::empty(),
            "",
            Some(true),
        ),
        (
            format!("abs://account@box/p?endpoint={endpoint}/account&account-key=a2V5"),
            Environment::empty(),
            &own,
            Some(false),
        ),
    ] {
        let url = VaultUrl::parse(&format!("{url}&{more}")).expect("a URL");
        let policy = Policy { attempts: 1, ..Policy::default() };
        let vault = Vault::open(&url, &environment, policy).await.expect("a place");
        let listed = vault.list(&Prefix::all(), None).await;
        let is_of_tls = listed.as_ref().err().map(|error| error.to_string().contains("ertificate"));
        assert_eq!(is_of_tls, expected, "{url} {more}: {listed:?}");
    }
}
