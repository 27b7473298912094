//! Properties of SFTP beyond the suite: whose server it is, who logs in, and what a broken connection leaves.

#![allow(clippy::disallowed_methods, reason = "tests are an edge")]

mod cutting;
mod words;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use cutting::Proxy;
use futures::TryStreamExt;
use seawall_core::{Failure, Kind};
use seawall_vault::testing::SshServer;
use seawall_vault::{Created, Environment, Error, ObjectKey, Policy, Prefix, Vault, VaultUrl};
use tokio::time::Instant;

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(name).expect("a sound name")
}

async fn open(url: &str, variables: &[(&str, &str)], policy: Policy) -> Vault {
    let environment: Environment = variables.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
    let url = VaultUrl::parse(url).expect("a URL");
    Vault::open(&url, &environment, policy).await.expect("opens without a request")
}

/// Retries soon, and never for long.
fn quick() -> Policy {
    Policy { backoff: Duration::from_millis(1), backoff_max: Duration::from_millis(20), ..Policy::default() }
}

/// A folder with a server for the tests, and a folder for its objects.
struct Site {
    server: SshServer,
    folder: tempfile::TempDir,
}

impl Site {
    async fn start(what: &str) -> Option<Self> {
        Self::start_with(what, "").await
    }

    async fn start_with(what: &str, sftp: &str) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let server = SshServer::start(what, &folder.path().join("server"), sftp).await?;
        Some(Self { server, folder })
    }

    fn objects(&self) -> PathBuf {
        self.folder.path().join("objects")
    }

    fn url(&self) -> String {
        self.server.url(&self.objects())
    }

    /// The place without what a login needs.
    fn plain(&self) -> String {
        format!("sftp://{}@127.0.0.1:{}{}", self.server.user(), self.server.port(), self.objects().display())
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(&path, text).expect("a file");
        path.display().to_string()
    }

    /// The files of the folder for objects, with those that are being written.
    fn files(&self) -> Vec<String> {
        fn below(folder: &Path, found: &mut Vec<String>) {
            for entry in std::fs::read_dir(folder).into_iter().flatten() {
                let path = entry.expect("an entry").path();
                if path.is_dir() { below(&path, found) } else { found.push(path.display().to_string()) }
            }
        }
        let mut found = Vec::new();
        below(&self.objects(), &mut found);
        found
    }
}

fn with(url: &str, settings: &[(&str, &str)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(settings);
    format!("{url}?{}", query.finish())
}

#[tokio::test]
async fn only_the_known_server_is_spoken_to() {
    let Some(site) = Site::start("host keys of SFTP").await else { return };
    let (server, ours) = (&site.server, site.server.host_key());
    let login = server.key().display().to_string();
    let other = server.make_key("other", &["-t", "ed25519", "-N", ""]).with_extension("pub");
    let other = std::fs::read_to_string(other).expect("another key");
    let name = format!("[127.0.0.1]:{}", server.port());
    let right = site.file("right", &format!("# mine\n{name} {ours}\n"));
    let wrong = site.file("wrong", &format!("{name} {other}\n"));
    let revoked = site.file("revoked", &format!("{name} {ours}\n@revoked * {ours}\n"));
    let elsewhere = site.file("elsewhere", &format!("127.0.0.1 {ours}\n"));
    site.file("home/.ssh/known_hosts", &format!("{name} {ours}\n"));
    let home = site.folder.path().join("home").display().to_string();
    let error = async |settings: &[(&str, &str)], variables: &[(&str, &str)]| {
        let url = with(&site.plain(), &[&[("key-path", &*login)], settings].concat());
        let vault = open(&url, variables, quick()).await;
        vault.head(&key("x")).await.err()
    };
    assert_eq!(error(&[("host-key", &ours)], &[]).await, None);
    assert_eq!(error(&[("known-hosts", &right)], &[]).await, None);
    assert_eq!(error(&[], &[("HOME", &home)]).await, None);
    for (settings, variables, said) in [
        (vec![("host-key", other.trim())], vec![], "another key than is recorded (the setting host-key)"),
        (vec![("known-hosts", &*wrong)], vec![], "wrong, line 1"),
        (vec![("known-hosts", &*revoked)], vec![], "was revoked"),
        (vec![("known-hosts", &*elsewhere)], vec![], "is not known: ssh-ed25519 SHA256:"),
        (vec![], vec![("HOME", "/nowhere")], "is not known: ssh-ed25519 SHA256:"),
        (vec![], vec![], "is not known: ssh-ed25519 SHA256:"),
    ] {
        let error = error(&settings, &variables).await.expect("it was refused");
        assert!(matches!(error, Error::HostKey { .. }) && !error.is_retryable(), "{settings:?}: {error:?}");
        let failure = Failure::from(error);
        assert_eq!((failure.kind, failure.code), (Kind::Denied, "vault.host-key"));
        assert!(failure.cause.contains(said), "{failure:?}");
        if said.contains("not known") {
            assert!(failure.next.contains(&format!("{name} {ours}")), "the line to add: {failure:?}");
        }
    }
    let missing = error(&[("known-hosts", "/nowhere/known_hosts")], &[]).await;
    assert!(matches!(missing, Some(Error::InvalidUrl { .. })), "{missing:?}");
}

#[tokio::test]
async fn logins_by_keys_of_all_kinds() {
    let Some(site) = Site::start("logins of SFTP").await else { return };
    let server = &site.server;
    let made = |name: &str, arguments: &[&str]| {
        let path = server.make_key(name, arguments);
        let public = std::fs::read_to_string(path.with_extension("pub")).expect("a public key");
        (path.display().to_string(), public)
    };
    let (locked, locked_public) = made("locked", &["-t", "ed25519", "-a", "1", "-N", "open sesame"]);
    let (rsa, rsa_public) = made("rsa", &["-t", "rsa", "-b", "2048", "-N", ""]);
    let (ecdsa, ecdsa_public) = made("ecdsa", &["-t", "ecdsa", "-N", ""]);
    let (stranger, _) = made("stranger", &["-t", "ed25519", "-N", ""]);
    let own = std::fs::read_to_string(server.key().with_extension("pub")).expect("a public key");
    let (short, short_locked) = (include_str!("keys/short_ecdsa"), include_str!("keys/short_ecdsa_locked"));
    let (short, short_locked) = (site.file("short", short), site.file("short-locked", short_locked));
    let short_public = include_str!("keys/short_ecdsa.pub").to_owned();
    let all = [own, locked_public, rsa_public, ecdsa_public, short_public];
    site.file("server/authorized_keys", &all.concat());
    let word = site.file("word", "open sesame\n");
    let nonsense = site.file("nonsense", "hunter2");
    let (host_key, plain) = (server.host_key(), site.plain());
    let error = async |settings: &[(&str, &str)], variables: &[(&str, &str)]| {
        let url = with(&plain, &[&[("host-key", &*host_key)], settings].concat());
        let error = open(&url, variables, quick()).await.head(&key("x")).await.err();
        assert!(!format!("{error:?} {url:?}", url = VaultUrl::parse(&url)).contains("sesame"));
        error
    };
    for settings in [
        vec![("key-path", &*locked), ("key-passphrase", "open sesame")],
        vec![("key-path", &locked), ("key-passphrase-file", &word)],
        vec![("key-path", &rsa)],
        vec![("key-path", &ecdsa)],
        vec![("key-path", &short)],
        vec![("key-path", &short_locked), ("key-passphrase", "open sesame")],
    ] {
        assert_eq!(error(&settings, &[]).await, None, "{settings:?}");
    }
    for (settings, said) in [
        (vec![("key-path", &*stranger)], "refused"),
        (vec![("password", "sesame")], "the server takes publickey"),
        (vec![("agent", "false")], "there is no key, no agent and no password"),
    ] {
        let error = error(&settings, &[]).await.expect("it was refused");
        assert!(matches!(&error, Error::Denied { cause, .. } if cause.contains(said)), "{settings:?}: {error:?}");
    }
    for (settings, said) in [
        (vec![("key-path", &*locked)], "has a passphrase"),
        (vec![("key-path", &locked), ("key-passphrase", "hunter2")], "with this passphrase"),
        (vec![("key-path", &nonsense)], "no private key"),
        (vec![("key-path", "/nowhere/key")], "/nowhere/key"),
    ] {
        let error = error(&settings, &[]).await.expect("it was refused");
        assert!(matches!(&error, Error::InvalidUrl { cause, .. } if cause.contains(said)), "{settings:?}: {error:?}");
        assert!(!format!("{error:?}").contains("hunter2"));
    }
    // One of the usual files.
    std::fs::create_dir_all(site.folder.path().join("home/.ssh")).expect("a folder");
    std::fs::copy(&ecdsa, site.folder.path().join("home/.ssh/id_ecdsa")).expect("a copy");
    let home = site.folder.path().join("home").display().to_string();
    assert_eq!(error(&[], &[("HOME", &home)]).await, None);
    // An agent, which signs with a key that the server doesn't know first.
    let socket = site.folder.path().join("agent").display().to_string();
    let agent = Command::new("ssh-agent").args(["-D", "-a", &socket]).stdout(Stdio::null()).spawn();
    let mut agent = agent.expect("ssh-agent can be run");
    for key in [&stranger, &rsa] {
        let add = || Command::new("ssh-add").args(["-q", key]).env("SSH_AUTH_SOCK", &socket).status();
        let end = Instant::now() + Duration::from_secs(10);
        while !add().is_ok_and(|status| status.success()) {
            assert!(Instant::now() < end, "the agent takes the key");
        }
    }
    let found = error(&[], &[("SSH_AUTH_SOCK", &socket)]).await;
    agent.kill().expect("the agent ends");
    let _ = agent.wait();
    assert_eq!(found, None);
    let gone = error(&[], &[("SSH_AUTH_SOCK", &socket)]).await.expect("it was refused");
    assert!(gone.to_string().contains("no agent answers"), "{gone}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logins_by_a_word() {
    let folder = tempfile::tempdir().expect("a folder");
    let word_file = folder.path().join("word");
    std::fs::write(&word_file, "open sesame\n").expect("a file");
    for asks in [words::Asks::Password, words::Asks::Question] {
        let Some((port, host_key)) = words::start("passwords of SFTP", asks, "open sesame").await else { return };
        let objects = folder.path().join(format!("{asks:?}"));
        for (number, (name, value, is_right)) in [
            ("password", "open sesame", true),
            ("password-file", &*word_file.display().to_string(), true),
            ("password", "hunter2", false),
            ("password-file", "/nowhere/word", false),
        ]
        .into_iter()
        .enumerate()
        {
            let plain = format!("sftp://me@127.0.0.1:{port}{}", objects.display());
            let vault = open(&with(&plain, &[("host-key", &host_key), (name, value)]), &[], quick()).await;
            let name = key(&format!("{number}"));
            let created = vault.create(&name, pattern(500_000), None).await;
            assert_eq!(created.is_ok(), is_right, "{asks:?} {name}: {created:?}");
            match created {
                Ok(_) => assert!(vault.read(&name, None, 1 << 21).await.expect("read") == pattern(500_000)),
                Err(error) => {
                    assert!(matches!(error, Error::Denied { .. } | Error::InvalidUrl { .. }), "{error:?}");
                    assert!(!format!("{error:?} {vault:?}").contains("hunter2"));
                }
            }
        }
    }
}

#[tokio::test]
async fn a_key_file_is_read_at_each_login() {
    let Some(mut site) = Site::start("changed keys of SFTP").await else { return };
    let proxy = Proxy::start(site.server.port()).await;
    let good = std::fs::read(site.server.key()).expect("a key");
    let path = site.folder.path().join("rotating");
    std::fs::write(&path, &good).expect("a key");
    let query = with("", &[("key-path", &path.display().to_string()), ("host-key", &site.server.host_key())]);
    let url = format!("sftp://{}@127.0.0.1:{}{}{query}", site.server.user(), proxy.port(), site.objects().display());
    let vault = open(&url, &[], quick()).await;
    assert_eq!(vault.head(&key("x")).await, Ok(None));
    let stranger = site.server.make_key("stranger", &["-t", "ed25519", "-N", ""]);
    std::fs::copy(stranger, &path).expect("another key");
    assert_eq!(vault.head(&key("x")).await, Ok(None), "the connection is still good");
    proxy.cut();
    let error = vault.head(&key("x")).await.expect_err("the other key");
    assert!(matches!(error, Error::Denied { .. }), "{error:?}");
    std::fs::write(&path, &good).expect("the good key");
    assert_eq!(vault.head(&key("x")).await, Ok(None));
    site.server.stop();
}

/// Bytes of which no two places are alike.
fn pattern(numbers: u32) -> Bytes {
    (0..numbers).flat_map(u32::to_be_bytes).collect::<Vec<u8>>().into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_are_whole_wherever_the_connection_broke() {
    let Some(site) = Site::start("broken connections of SFTP").await else { return };
    let proxy = Proxy::start(site.server.port()).await;
    let bytes = pattern(800_000);
    let policy = Policy { part_size: 1 << 20, ..quick() };
    let url = site.server.url_at(proxy.port(), &site.objects());
    let vault = open(&url, &[], policy).await;
    let mut whole = 0;
    for (number, budget) in [1, 700, 2500, 4200, 5000, 60_000, 1_060_000, 1_070_000, 2_400_000, 3_210_000, 3_216_000]
        .into_iter()
        .enumerate()
    {
        let (streamed, created) = (key(&format!("folder/streamed-{number}")), key(&format!("folder/created-{number}")));
        // The first ones cut a login, as the connection was cut before.
        proxy.cut();
        proxy.cut_after(budget);
        let mut upload = vault.upload(&streamed, None);
        for chunk in (0..bytes.len()).step_by(300_000) {
            upload.write(bytes.slice(chunk..bytes.len().min(chunk + 300_000))).await.expect("write");
        }
        upload.finish().await.expect("finish");
        proxy.cut_after(budget);
        vault.create(&created, bytes.clone(), None).await.expect("create");
        proxy.cut_after(budget);
        for key in [&streamed, &created] {
            assert!(vault.read(key, None, 1 << 23).await.expect("read") == bytes, "{key}, cut after {budget}");
            whole += 1;
        }
        proxy.cut_after(budget.min(5000));
        let listed = vault.list(&Prefix::all(), None).await.expect("list");
        assert_eq!(listed.len(), whole, "cut after {budget}");
        assert!(listed.iter().all(|entry| entry.size == bytes.len() as u64), "{listed:?}");
    }
    assert!(proxy.cuts() > 20, "{} cuts", proxy.cuts());
    assert!(vault.counts().retries > 10, "{:?}", vault.counts());
}

#[tokio::test]
async fn a_server_that_went_away_comes_back() {
    let Some(mut site) = Site::start("a server of SFTP that ends").await else { return };
    let proxy = Proxy::start(site.server.port()).await;
    let vault = open(&site.server.url_at(proxy.port(), &site.objects()), &[], Policy { attempts: 3, ..quick() }).await;
    assert_eq!(vault.create(&key("a"), Bytes::from_static(b"n"), None).await, Ok(Created::Fresh));
    site.server.stop();
    proxy.cut();
    let error = vault.create(&key("b"), Bytes::from_static(b"n"), None).await.expect_err("nobody is there");
    assert!(error.is_retryable(), "{error:?}");
    assert!(site.server.run().await, "it starts again");
    assert_eq!(vault.create(&key("b"), Bytes::from_static(b"n"), None).await, Ok(Created::Fresh));
    assert_eq!(vault.list(&Prefix::all(), None).await.expect("list").len(), 2);
}

#[tokio::test]
async fn a_silent_server_is_given_up_and_asked_anew() {
    let Some(site) = Site::start("a silent server of SFTP").await else { return };
    let proxy = Proxy::start(site.server.port()).await;
    let hasty = Policy { attempt: Duration::from_secs(2), total: Duration::from_secs(6), attempts: 2, ..quick() };
    let vault = open(&site.server.url_at(proxy.port(), &site.objects()), &[], hasty).await;
    vault.create(&key("a"), Bytes::from_static(b"n"), None).await.expect("create");
    proxy.stall();
    let start = Instant::now();
    for result in
        [vault.head(&key("a")).await.map(drop), vault.create(&key("b"), pattern(100_000), None).await.map(drop)]
    {
        let error = result.expect_err("silence");
        assert!(error.is_retryable(), "{error:?}");
    }
    assert!(start.elapsed() < Duration::from_secs(25), "{:?}", start.elapsed());
    // What was asked on the connection that hangs is lost; a new one is asked.
    proxy.mend();
    assert!(vault.head(&key("a")).await.expect("head").is_some());
}

#[tokio::test]
async fn at_rest_no_byte_passes_and_the_connection_is_closed() {
    let Some(site) = Site::start("SFTP at rest").await else { return };
    let proxy = Proxy::start(site.server.port()).await;
    let vault = open(&site.server.url_at(proxy.port(), &site.objects()), &[], quick()).await;
    vault.create(&key("a"), Bytes::from_static(b"n"), None).await.expect("create");
    // The upload closes its folder without waiting for the answer. The server answers in the order of the requests.
    for _ in 0..2 {
        assert!(vault.head(&key("a")).await.expect("head").is_some());
    }
    assert_eq!(proxy.open(), 1);
    let before = proxy.passed();
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(50)).await;
    assert_eq!((proxy.open(), proxy.passed()), (1, before));
    tokio::time::advance(Duration::from_secs(80)).await;
    tokio::time::resume();
    proxy.wait_until_closed().await;
    assert!(vault.head(&key("a")).await.expect("a new connection").is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_at_once_share_one_connection() {
    let Some(site) = Site::start("shared connections of SFTP").await else { return };
    let proxy = Proxy::start(site.server.port()).await;
    let policy = quick();
    let mut vaults = Vec::new();
    for number in 0..20 {
        let url = site.server.url_at(proxy.port(), &site.objects().join(format!("db-{number}")));
        vaults.push(open(&url, &[], policy.clone()).await);
    }
    let key = key("a");
    let create = |vault: &Vault| {
        let (vault, key) = (vault.clone(), key.clone());
        async move { vault.create(&key, pattern(50_000), None).await }
    };
    let created = futures::future::join_all(vaults.iter().map(create)).await;
    assert!(created.iter().all(|created| *created == Ok(Created::Fresh)), "{created:?}");
    // More readers at once than a session has handles, all of them at rest in the middle.
    let mut streams: Vec<_> = (0..100).map(|number| Box::pin(vaults[number % 20].stream(&key, None))).collect();
    for stream in &mut streams {
        assert!(stream.try_next().await.expect("a chunk").is_some());
    }
    for stream in streams {
        stream.try_collect::<Vec<_>>().await.expect("the rest");
    }
    // More writers than there are handles, each with its file and the file's folder.
    let one = |number: usize| {
        let vault = vaults[number % 20].clone();
        async move { vault.create(&ObjectKey::new(format!("at once/{number}")).expect("a name"), pattern(1), None).await }
    };
    let created = futures::future::join_all((0..400).map(one)).await;
    assert!(created.iter().all(|created| *created == Ok(Created::Fresh)), "{created:?}");
    assert_eq!(proxy.opened(), 1, "one connection for all");
}

#[tokio::test]
async fn a_path_may_begin_where_a_login_begins() {
    let home = tempfile::tempdir().expect("a folder");
    let Some(site) = Site::start_with("homes of SFTP", &format!("-d {}", home.path().display())).await else { return };
    let url = site.server.url(Path::new("/~/some where"));
    let vault = open(&url, &[], quick()).await;
    assert_eq!(vault.create(&key("folder/a"), Bytes::from_static(b"n"), None).await, Ok(Created::Fresh));
    assert!(home.path().join("some where/folder/a").is_file());
    assert_eq!(vault.list(&Prefix::all(), None).await.expect("list").len(), 1);
    assert!(vault.url().ends_with("/~/some where"), "{}", vault.url());
    assert_eq!(vault.read(&key("folder/a"), None, 10).await, Ok(Bytes::from_static(b"n")));
}

#[tokio::test]
async fn what_killed_uploads_left_is_not_listed_and_goes_after_a_day() {
    let Some(site) = Site::start("leftovers of SFTP").await else { return };
    let vault = open(&site.url(), &[], quick()).await;
    vault.create(&key("folder/a"), Bytes::from_static(b"n"), None).await.expect("create");
    let old = site.file("objects/folder/0123-4.seawall.tmp", "half");
    let young = site.file("objects/folder/0123-5.seawall.tmp", "half");
    let foreign = site.file("objects/folder/x.ltx.1.2.tmp", "half");
    for (file, age) in [(&old, "2 days ago"), (&foreign, "2 days ago"), (&young, "23 hours ago")] {
        assert!(Command::new("touch").args(["-d", age, file]).status().expect("touch").success());
    }
    assert_eq!(vault.list(&Prefix::all(), None).await.expect("list").len(), 1);
    vault.create(&key("folder/b"), Bytes::from_static(b"n"), None).await.expect("create");
    let left = |file: &String| Path::new(file).exists();
    assert_eq!((left(&old), left(&young), left(&foreign)), (false, true, true));
    assert_eq!(site.files().len(), 4, "{:?}", site.files());
}

#[tokio::test]
async fn a_server_without_hard_links_is_found_out_and_looked_at_first() {
    for (without, replaces) in [("hardlink", true), ("hardlink,posix-rename,fsync,limits,statvfs", false)] {
        let Some(site) = Site::start_with("SFTP without hard links", &format!("-P {without}")).await else { return };
        let vault = open(&site.url(), &[], quick()).await;
        let refused = vault.create(&key("a"), Bytes::from_static(b"one"), None).await;
        assert!(matches!(refused, Err(Error::Unsupported { .. })), "{refused:?}");
        assert!(vault.needs_probe());
        match (replaces, vault.probe().await) {
            (true, Ok(found)) => assert!(!found.exclusive_create() && !found.exclusive_update(), "{found:?}"),
            (false, Err(Error::Unsupported { cause, .. })) => assert!(cause.contains("replace"), "{cause}"),
            (_, other) => panic!("{without}: {other:?}"),
        }
        if replaces {
            assert_eq!(vault.create(&key("a"), Bytes::from_static(b"one"), None).await, Ok(Created::Fresh));
            assert_eq!(vault.create(&key("a"), Bytes::from_static(b"one"), None).await, Ok(Created::Adopted));
            let other = vault.create(&key("a"), Bytes::from_static(b"two"), None).await;
            assert!(matches!(other, Err(Error::AlreadyExists { .. })), "{other:?}");
        }
        assert!(site.files().len() <= 1, "{:?}", site.files());
    }
}

#[tokio::test]
async fn a_full_disk_and_folders_that_can_not_be_made() {
    let Some(site) = Site::start("a full disk of SFTP").await else { return };
    let vault = open(&site.url(), &[], quick()).await;
    site.file("objects/file", "in the way");
    let error = vault.create(&key("file/below"), Bytes::from_static(b"n"), None).await.expect_err("no folder");
    assert!(matches!(error, Error::NoFolder { .. }), "{error:?}");
    let small = site.objects().join("small");
    std::fs::create_dir_all(&small).expect("a folder");
    let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=3m", "tmpfs"]).arg(&small).output();
    if !mount.is_ok_and(|output| output.status.success()) {
        println!("a full disk was not tried: no file system can be mounted here");
        return;
    }
    let bytes = pattern(1_000_000);
    let whole = vault.create(&key("small/whole"), bytes.clone(), None).await;
    let parts = async {
        let mut upload =
            open(&site.url(), &[], Policy { part_size: 1 << 20, ..quick() }).await.upload(&key("small/parts"), None);
        upload.write(bytes.clone()).await?;
        upload.finish().await
    };
    let parts = parts.await;
    // The abandoned upload had a connection of its own, so the server may remove its file after the next request.
    let deadline = Instant::now() + Duration::from_secs(30);
    let fits = loop {
        match vault.create(&key("small/fits"), Bytes::from_static(b"n"), None).await {
            Err(_) if Instant::now() < deadline => tokio::time::sleep(Duration::from_millis(10)).await,
            result => break result,
        }
    };
    let listed = vault.list(&Prefix::new("small").expect("a prefix"), None).await;
    assert!(Command::new("umount").arg("-l").arg(&small).status().expect("umount").success());
    for result in [whole, parts] {
        assert!(matches!(result, Err(Error::Full { .. })), "{result:?}");
    }
    assert_eq!(fits, Ok(Created::Fresh), "nothing is left of what didn't fit");
    assert_eq!(listed.expect("list").len(), 1);
}

#[tokio::test]
async fn what_is_made_is_as_private_as_its_root() {
    use std::os::unix::fs::PermissionsExt as _;
    let Some(site) = Site::start("modes of SFTP").await else { return };
    for (root, file, folder) in [(None, 0o600, 0o700), (Some(0o750), 0o640, 0o750)] {
        let objects = site.folder.path().join(format!("{root:?}"));
        if let Some(mode) = root {
            std::fs::create_dir(&objects).expect("a folder");
            std::fs::set_permissions(&objects, std::fs::Permissions::from_mode(mode)).expect("a mode");
        }
        let vault = open(&site.server.url(&objects), &[], quick()).await;
        vault.create(&key("folder/a"), Bytes::from_static(b"n"), None).await.expect("create");
        let mode = |path: PathBuf| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
        assert_eq!(
            (mode(objects.join("folder/a")), mode(objects.join("folder")), mode(objects)),
            (file, folder, folder)
        );
    }
}

#[tokio::test]
async fn links_are_no_objects() {
    let Some(site) = Site::start("links of SFTP").await else { return };
    let vault = open(&site.url(), &[], quick()).await;
    let secret = site.file("secret", "elsewhere");
    site.file("objects/a", "here");
    for (target, name) in [(secret.as_str(), "file"), ("/etc", "folder"), ("/nowhere", "nothing")] {
        std::os::unix::fs::symlink(target, site.objects().join(name)).expect("a link");
    }
    let listed = vault.list(&Prefix::all(), None).await.expect("list");
    assert_eq!(listed.iter().map(|entry| entry.key.as_str()).collect::<Vec<_>>(), ["a"]);
    let noted = seawall_vault::Noted::default();
    let all = vault.entries_noting(&Prefix::all(), None, &noted);
    futures::TryStreamExt::try_collect::<Vec<_>>(all).await.expect("list");
    assert_eq!(noted.so_far().count, 3);
    for name in ["file", "folder", "nothing"] {
        assert_eq!(vault.head(&key(name)).await, Ok(None), "{name}");
        let read = vault.read(&key(name), None, 100).await;
        assert!(matches!(read, Err(Error::NotFound { .. })), "{name}: {read:?}");
    }
    let swap = vault.replace(&key("a"), Bytes::from_static(b"n"), &seawall_vault::Tag::new("any")).await;
    assert!(matches!(swap, Err(Error::Unsupported { .. })), "{swap:?}");
}
