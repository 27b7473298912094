//! Encrypted vaults: other programs open what is written, and what somebody slipped in is found and named.

#![allow(clippy::disallowed_methods, clippy::panic, reason = "tests are an edge, and may fail")]

mod owner;

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::TryStreamExt as _;
use owner::{CHUNK, MARKER, Owner};
use seawall_core::{Clock, Moment, Steady, SystemClock};
use seawall_vault::memory::MemoryStore;
use seawall_vault::testing::not_run;
use seawall_vault::{
    Access, Environment, Error, Fault, HostKeys, Identities, NoPrompt, ObjectKey, Policy, Prefix, Prompt, PutOptions,
    Recipients, SealedStore, Sealing, Secret, Store, Vault, VaultUrl,
};

impl Owner {
    fn recipients(&self) -> Recipients {
        owner::recipients(&[self])
    }

    fn identities(&self) -> Identities {
        owner::identities(&[self])
    }
}

fn in_memory() -> HostKeys {
    HostKeys::new(None, Arc::new(SystemClock))
}

fn vault(store: &Arc<dyn Store>, access: Access) -> Vault {
    Vault::new(Arc::new(SealedStore::new(store.clone(), access)), policy())
}

fn policy() -> Policy {
    Policy { part_size: 3 * CHUNK + 1000, seed: 5, ..Policy::default() }
}

fn sealing(recipients: Option<Recipients>, identities: Identities, keys: HostKeys) -> Access {
    Access::Sealed(Arc::new(Sealing::new(recipients, identities, keys)))
}

fn writer(store: &Arc<dyn Store>, owner: &Owner) -> Vault {
    vault(store, sealing(Some(owner.recipients()), Identities::none(), in_memory()))
}

fn reader(store: &Arc<dyn Store>, owner: &Owner) -> Vault {
    vault(store, sealing(None, owner.identities(), in_memory()))
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(name).expect("a key")
}

fn pattern(size: usize) -> Bytes {
    (0..size).map(|i| (i % 251) as u8 ^ (i >> 15) as u8).collect::<Vec<u8>>().into()
}

async fn read(vault: &Vault, name: &str) -> Result<Bytes, Error> {
    vault.read(&key(name), None, 1 << 30).await
}

async fn raw(store: &dyn Store, name: &str) -> Bytes {
    let body = store.get(&key(name), None).await.expect("there");
    let pieces: Vec<Bytes> = body.stream.try_collect().await.expect("its bytes");
    pieces.concat().into()
}

async fn plant(store: &dyn Store, name: &str, bytes: impl Into<Bytes>) {
    store.put(&key(name), bytes.into(), &PutOptions::default()).await.expect("planted");
}

fn fault(result: Result<impl Sized, Error>) -> Fault {
    match result {
        Err(Error::Sealing { fault, .. }) => fault,
        Err(error) => panic!("another error: {error}"),
        Ok(_) => panic!("nothing was wrong"),
    }
}

fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new())
}

/// Runs age with text on its standard input; `None` where there is none.
fn age(arguments: &[&str], input: &[u8]) -> Option<Result<Vec<u8>, String>> {
    let spawned =
        Command::new("age").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(mut child) = spawned else {
        not_run("opening with age", "age is not on PATH");
        return None;
    };
    let mut stdin = child.stdin.take().expect("a pipe");
    let input = input.to_vec();
    let feeding = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().expect("it ends");
    feeding.join().expect("fed");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Some(if output.status.success() { Ok(output.stdout) } else { Err(said) })
}

#[tokio::test]
async fn other_programs_of_age_open_every_object() {
    let (store, owner, folder) = (memory(), Owner::new(), tempfile::tempdir().expect("a folder"));
    let file = folder.path().join("key.txt");
    std::fs::write(&file, owner.secret.reveal()).expect("written");
    let written = writer(&store, &owner);
    for size in [0, 1, 1000, CHUNK, 2 * CHUNK, 2 * CHUNK + 1, 10 * CHUNK + 17] {
        let (plain, name) = (pattern(size), format!("whole/{size}"));
        written.create(&key(&name), plain.clone(), None).await.expect("made");
        let streamed = format!("parts/{size}");
        let mut upload = written.upload(&key(&streamed), None);
        for piece in plain.chunks(50_000) {
            upload.write(Bytes::copy_from_slice(piece)).await.expect("written");
        }
        upload.finish().await.expect("finished");
        for name in [name, streamed] {
            let sealed = raw(&*store, &name).await;
            let decryptor = age::Decryptor::new_buffered(&sealed[..]).expect("an age file");
            let identity: age::x25519::Identity = owner.secret.reveal().parse().expect("an identity");
            let mut opened = Vec::new();
            let mut reading = decryptor.decrypt(std::iter::once(&identity as _)).expect("it opens");
            reading.read_to_end(&mut opened).expect("whole");
            assert_eq!(opened, plain, "{name}");
            let Some(found) = age(&["-d", "-i", &file.display().to_string()], &sealed) else { return };
            assert_eq!(found.expect("it opens"), plain, "{name}");
        }
    }
}

#[tokio::test]
async fn kinds_of_keys() {
    let (folder, store) = (tempfile::tempdir().expect("a folder"), memory());
    let path = |name: &str| folder.path().join(name);
    for kind in ["ed25519", "rsa"] {
        let mut made = Command::new("ssh-keygen");
        made.args(["-q", "-t", kind, "-N", "", "-C", "a comment", "-f"]).arg(path(kind)).stdout(Stdio::null());
        if !made.status().is_ok_and(|status| status.success()) {
            return not_run("keys of SSH", "ssh-keygen is not on PATH");
        }
    }
    let owner = Owner::new();
    std::fs::write(path("owner"), format!("# a comment\n{}\n", owner.secret.reveal())).expect("written");
    let words = ["ed25519.pub", "rsa.pub", owner.public.as_str()];
    let recipients = Recipients::read(words, folder.path()).expect("recipients");
    let write = vault(&store, sealing(Some(recipients), Identities::none(), in_memory()));
    write.create(&key("a"), Bytes::from_static(b"text"), None).await.expect("made");
    let prompt: Arc<dyn Prompt> = Arc::new(NoPrompt);
    for name in ["ed25519", "rsa", "owner"] {
        let identities = Identities::read(&path(name), &prompt).expect("an identity");
        let reads = vault(&store, sealing(None, identities, in_memory()));
        assert_eq!(read(&reads, "a").await.expect("it opens"), "text", "{name}");
        let Some(found) = age(&["-d", "-i", &path(name).display().to_string()], &raw(&*store, "a").await) else {
            return;
        };
        assert_eq!(found, Ok(b"text".to_vec()), "{name}");
    }
}

#[derive(Debug)]
struct Types(&'static str, Mutex<u32>);

impl Prompt for Types {
    fn passphrase(&self, _of: &str) -> Option<Secret> {
        *self.1.lock().expect("no panic") += 1;
        Some(Secret::new(self.0))
    }

    fn show(&self, _message: &str) {}
}

#[tokio::test]
async fn an_identity_behind_a_passphrase_is_asked_for_once() {
    let (folder, store, owner) = (tempfile::tempdir().expect("a folder"), memory(), Owner::new());
    let file = folder.path().join("key.age");
    let mut encryptor = age::scrypt::Recipient::new("hunter2".to_owned().into());
    encryptor.set_work_factor(4);
    let encryptor = age::Encryptor::with_recipients(std::iter::once(&encryptor as _)).expect("a recipient");
    let mut sealed = Vec::new();
    let mut writing = encryptor.wrap_output(&mut sealed).expect("a header");
    writing.write_all(owner.secret.reveal().as_bytes()).expect("written");
    writing.finish().expect("finished");
    std::fs::write(&file, sealed).expect("written");
    let right = Arc::new(Types("hunter2", Mutex::default()));
    let asks: Arc<dyn Prompt> = right.clone();
    let identities = Identities::read(&file, &asks).expect("the passphrase is right");
    writer(&store, &owner).create(&key("a"), "text".into(), None).await.expect("made");
    let reads = vault(&store, sealing(None, identities, in_memory()));
    for _ in 0..2 {
        assert_eq!(read(&reads, "a").await.expect("it opens"), "text");
    }
    assert_eq!(*right.1.lock().expect("no panic"), 1);
    let wrong: Arc<dyn Prompt> = Arc::new(Types("hunter3", Mutex::default()));
    let none: Arc<dyn Prompt> = Arc::new(NoPrompt);
    for (prompt, said) in [(wrong, "the passphrase is wrong"), (none, "there is no terminal")] {
        let error = Identities::read(&file, &prompt).expect_err("refused").to_string();
        assert!(error.contains(said) && !error.contains("hunter"), "{error}");
    }
}

#[tokio::test]
async fn what_was_slipped_in_is_named() {
    let (store, owner) = (memory(), Owner::new());
    let ours = writer(&store, &owner);
    for (name, size) in [("a", 10), ("b", 10), ("long", 3 * CHUNK), ("cut", 3 * CHUNK)] {
        ours.create(&key(name), pattern(size), None).await.expect("made");
    }
    let sealed = raw(&*store, "long").await;
    let (a, b) = (raw(&*store, "a").await, raw(&*store, "b").await);
    plant(&*store, "a", b).await;
    plant(&*store, "b", a).await;
    plant(&*store, "plaintext", "SQLite format 3\0 and a thousand bytes more".repeat(40)).await;
    plant(&*store, "short", "x").await;
    plant(&*store, "cut", sealed.slice(..sealed.len() - CHUNK - 16)).await;
    plant(&*store, "cut-elsewhere", sealed.slice(..sealed.len() - 5)).await;
    let mut flipped = sealed.to_vec();
    *flipped.last_mut().expect("bytes") ^= 1;
    plant(&*store, "long", flipped).await;
    // A vault of the same owner elsewhere, and a bucket writer that knows the public key.
    let elsewhere = memory();
    writer(&elsewhere, &owner).create(&key("other"), "from elsewhere".into(), None).await.expect("made");
    plant(&*store, "other", raw(&*elsewhere, "other").await).await;
    // Somebody who can write to the bucket, and took the writer's name without its secret.
    let forged = forge(&*store, &owner, "forged").await;
    plant(&*store, "forged", forged).await;
    if let Some(Ok(by_age)) = age(&["-r", &owner.public], b"by hand") {
        plant(&*store, "by-age", by_age).await;
        let error = read(&reader(&store, &owner), "by-age").await;
        assert_eq!(fault(error), Fault::Foreign);
    }
    for (who, vault) in [("the owner", reader(&store, &owner)), ("the host", ours)] {
        for (name, expected) in [
            ("a", Fault::Exchanged),
            ("b", Fault::Exchanged),
            ("plaintext", Fault::Plaintext),
            ("short", Fault::Plaintext),
            ("long", Fault::Changed),
            ("cut-elsewhere", Fault::Exchanged),
            ("other", Fault::OtherVault),
            ("forged", if who == "the host" { Fault::NoKey } else { Fault::Foreign }),
        ] {
            assert_eq!(fault(read(&vault, name).await), expected, "{name}, as {who} sees it");
        }
        // At a chunk's border its length is one that an object can have.
        assert_eq!(vault.head(&key("cut")).await.expect("asked").expect("there").size, 2 * CHUNK as u64);
        let begin = vault.read(&key("cut"), Some(0..10), 10).await;
        assert_eq!(fault(begin.and(read(&vault, "cut").await)), Fault::Exchanged, "the name comes first, {who}");
    }
}

#[tokio::test]
async fn an_object_cut_at_a_chunks_border_is_named() {
    let (store, owner) = (memory(), Owner::new());
    let ours = writer(&store, &owner);
    ours.create(&key("a"), pattern(3 * CHUNK), None).await.expect("made");
    let sealed = raw(&*store, "a").await;
    for (left, expected) in [(2, Fault::Cut), (1, Fault::Cut)] {
        let whole = sealed.len() - (3 - left) * (CHUNK + 16);
        plant(&*store, "a", sealed.slice(..whole)).await;
        assert_eq!(fault(read(&ours, "a").await), expected);
        let size = left as u64 * CHUNK as u64;
        assert_eq!(fault(ours.read(&key("a"), Some(size - 5..size), 5).await), expected, "its end, by a range");
        plant(&*store, "a", sealed.slice(..whole - 3)).await;
        assert_eq!(fault(read(&ours, "a").await), Fault::Changed);
        plant(&*store, "a", sealed.slice(..sealed.len() - left * (CHUNK + 16) + 16)).await;
        assert_eq!(fault(read(&ours, "a").await), Fault::Cut, "no object has this length");
    }
    plant(&*store, "a", sealed.slice(..700)).await;
    assert_eq!(fault(read(&ours, "a").await), Fault::Cut, "within its header");
}

/// What an attacker makes who knows the recipients and the vault's and the writer's identifiers, and no secret.
async fn forge(store: &dyn Store, owner: &Owner, name: &str) -> Bytes {
    let elsewhere = memory();
    let marker = raw(store, MARKER).await;
    plant(&*elsewhere, MARKER, marker).await;
    let theirs = writer(&elsewhere, owner);
    theirs.create(&key(name), "forged".into(), None).await.expect("made");
    raw(&*elsewhere, name).await
}

#[tokio::test]
async fn a_vault_that_disagrees_is_refused() {
    let (store, owner, other) = (memory(), Owner::new(), Owner::new());
    // Nothing there: a reader sees nothing, and makes nothing.
    assert!(reader(&store, &owner).list(&Prefix::all(), None).await.expect("listed").is_empty());
    assert!(reader(&store, &owner).head(&key("a")).await.expect("asked").is_none());
    assert!(store.list(&Prefix::all(), None, 10).await.expect("listed").entries.is_empty());
    assert_eq!(fault(reader(&store, &owner).create(&key("a"), "x".into(), None).await), Fault::Recipients);
    writer(&store, &owner).create(&key("a"), "text".into(), None).await.expect("made");
    // A lost configuration.
    let plain = vault(&store, Access::Plain);
    assert_eq!(fault(read(&plain, "a").await), Fault::Encrypted);
    assert_eq!(fault(plain.create(&key("b"), "x".into(), None).await), Fault::Encrypted);
    assert_eq!(fault(plain.list(&Prefix::all(), None).await), Fault::Encrypted);
    assert_eq!(fault(plain.delete(&[key("a")]).await), Fault::Encrypted);
    // Another recipient: nothing is written; the owner still reads.
    let both = owner.recipients().and(&other.recipients()).expect("both");
    for recipients in [other.recipients(), both] {
        let wrong = vault(&store, sealing(Some(recipients), owner.identities(), in_memory()));
        assert_eq!(fault(wrong.create(&key("b"), "x".into(), None).await), Fault::Recipients);
        assert_eq!(read(&wrong, "a").await.expect("it opens"), "text");
    }
    // Keys that aren't the vault's.
    let error = read(&reader(&store, &other), "a").await;
    assert!(error.as_ref().expect_err("refused").to_string().contains(&owner.public), "{error:?}");
    assert_eq!(fault(error), Fault::NoKey);
    assert_eq!(fault(read(&writer(&store, &owner), "a").await), Fault::NoKey, "another host without the owner's key");
    // The owner's key alone writes, because it is all of the vault's recipients.
    reader(&store, &owner).create(&key("pin"), "x".into(), None).await.expect("made");
    assert_eq!(read(&reader(&store, &owner), "pin").await.expect("it opens"), "x");
    // A plain vault.
    let plain = memory();
    plant(&*plain, "a", "text").await;
    for access in [
        sealing(Some(owner.recipients()), owner.identities(), in_memory()),
        sealing(None, owner.identities(), in_memory()),
    ] {
        let wrong = vault(&plain, access);
        assert_eq!(fault(read(&wrong, "a").await), Fault::NotEncrypted);
        assert_eq!(fault(wrong.create(&key("b"), "x".into(), None).await), Fault::NotEncrypted);
    }
    assert_eq!(read(&vault(&plain, Access::Plain), "a").await.expect("plain"), "text");
    // A marker that says nothing.
    plant(&*store, MARKER, "{}").await;
    assert_eq!(fault(read(&reader(&store, &owner), "a").await), Fault::Marker);
}

#[tokio::test]
async fn nothing_is_written_in_the_clear_and_names_stay() {
    let (store, owner) = (memory(), Owner::new());
    let ours = writer(&store, &owner);
    let text = "the secret of the ooze ".repeat(1000);
    ours.create(&key("x/whole"), text.clone().into(), None).await.expect("made");
    let mut upload = ours.upload(&key("x/parts"), None);
    upload.write(text.repeat(20).into()).await.expect("written");
    upload.finish().await.expect("finished");
    ours.put(&key("x/put"), text.into(), None).await.expect("put");
    let page = store.list(&Prefix::all(), None, 100).await.expect("listed");
    let names: Vec<&str> = page.entries.iter().map(|entry| entry.key.as_str()).collect();
    assert_eq!((names[0], &names[2..]), (MARKER, &["x/parts", "x/put", "x/whole"][..]));
    assert!(names[1].starts_with("seawall/encryption/") && names[1].ends_with(".age"), "{names:?}");
    for name in names {
        let bytes = raw(&*store, name).await;
        assert!(!bytes.windows(6).any(|window| window == b"secret"), "{name}");
    }
    let listed = ours.list(&Prefix::all(), None).await.expect("listed");
    let sizes: Vec<(&str, u64)> = listed.iter().map(|entry| (entry.key.as_str(), entry.size)).collect();
    assert_eq!(sizes, [("x/parts", 460_000), ("x/put", 23_000), ("x/whole", 23_000)]);
}

#[derive(Debug, Clone, Default)]
struct Hands(Arc<AtomicI64>);

impl Hands {
    fn turn(&self, hours: i64) {
        self.0.fetch_add(hours * 3_600_000, Ordering::SeqCst);
    }
}

impl Clock for Hands {
    fn now(&self) -> Moment {
        Moment::from_millis(1_795_255_200_000 + self.0.load(Ordering::SeqCst))
    }

    fn steady(&self) -> Steady {
        SystemClock.steady()
    }
}

#[tokio::test]
async fn a_host_reads_what_it_wrote_lately_and_forgets_the_rest() {
    let (store, owner, state) = (memory(), Owner::new(), tempfile::tempdir().expect("a folder"));
    let (hands, keys) = (Hands::default(), state.path().join("keys"));
    let host = || {
        let ring = HostKeys::new(Some(keys.clone()), Arc::new(hands.clone()));
        vault(&store, sealing(Some(owner.recipients()), Identities::none(), ring))
    };
    host().create(&key("day-0"), "0".into(), None).await.expect("made");
    // An idle host keeps its key for as long as it likes.
    hands.turn(24 * 100);
    assert_eq!(read(&host(), "day-0").await.expect("its own key"), "0");
    for day in 1..5 {
        host().create(&key(&format!("day-{day}")), day.to_string().into(), None).await.expect("made");
        hands.turn(24);
    }
    hands.turn(-20);
    for day in 0..5 {
        let found = read(&host(), &format!("day-{day}")).await;
        match day {
            0..=1 => assert_eq!(fault(found), Fault::NoKey, "day {day}"),
            _ => assert_eq!(found.expect("a recent key"), day.to_string()),
        }
        assert_eq!(read(&reader(&store, &owner), &format!("day-{day}")).await.expect("the owner's"), day.to_string());
    }
    let files: Vec<_> = std::fs::read_dir(&keys).expect("the folder").map(|file| file.expect("a file")).collect();
    assert_eq!(files.iter().filter(|file| file.path().extension() == Some("key".as_ref())).count(), 3);
    for file in files {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(file.metadata().expect("there").permissions().mode() & 0o777, 0o600, "{:?}", file.path());
    }
    // One record of one writer, through all restarts.
    let records = store.list(&Prefix::new("seawall/encryption").expect("a prefix"), None, 10).await.expect("listed");
    assert_eq!(records.entries.len(), 1);
    // The state is lost: the host writes on as another writer, and the owner reads both.
    std::fs::remove_dir_all(&keys).expect("removed");
    host().create(&key("later"), "l".into(), None).await.expect("made");
    assert_eq!(fault(read(&host(), "day-4").await), Fault::NoKey);
    for (name, text) in [("day-4", "4"), ("later", "l")] {
        assert_eq!(read(&reader(&store, &owner), name).await.expect("the owner's"), text);
    }
    // Its record is gone: what it wrote can't be told from what others wrote.
    let records = store.list(&Prefix::new("seawall/encryption").expect("a prefix"), None, 10).await.expect("listed");
    let names: Vec<ObjectKey> = records.entries.into_iter().map(|entry| entry.key).collect();
    assert_eq!(names.len(), 2);
    store.delete(&names).await.expect("deleted");
    assert_eq!(fault(read(&reader(&store, &owner), "later").await), Fault::Foreign);
}

#[tokio::test]
async fn two_processes_of_one_host_find_each_others_keys() {
    let (store, owner, state) = (memory(), Owner::new(), tempfile::tempdir().expect("a folder"));
    let hands = Hands::default();
    let host = || {
        let ring = HostKeys::new(Some(state.path().join("keys")), Arc::new(hands.clone()));
        vault(&store, sealing(Some(owner.recipients()), Identities::none(), ring))
    };
    let (one, other) = (host(), host());
    one.create(&key("one"), "1".into(), None).await.expect("made");
    other.create(&key("other"), "2".into(), None).await.expect("made");
    hands.turn(25);
    other.create(&key("next"), "3".into(), None).await.expect("made");
    for vault in [one, other] {
        for (name, text) in [("one", "1"), ("other", "2"), ("next", "3")] {
            assert_eq!(read(&vault, name).await.expect("a key of the host"), text);
        }
    }
}

/// What encryption costs in requests: one for the marker, and once for each writer.
#[tokio::test]
async fn requests_are_counted_and_few() {
    let (folder, owner) = (tempfile::tempdir().expect("a folder"), Owner::new());
    let url = VaultUrl::parse(&folder.path().display().to_string()).expect("a place");
    let open =
        async |access| Vault::open(&url, &Environment::empty(), Policy { access, ..policy() }).await.expect("opened");
    let counts = |vault: &Vault| {
        let counts = vault.counts();
        (counts.get, counts.put, counts.list, counts.head)
    };
    let writes = open(sealing(Some(owner.recipients()), Identities::none(), in_memory())).await;
    writes.create(&key("a"), pattern(100), None).await.expect("made");
    assert_eq!(counts(&writes), (1, 3, 1, 0), "the marker, is it empty, the marker, the writer, the object");
    writes.create(&key("big"), pattern(2 * CHUNK), None).await.expect("made");
    assert_eq!(counts(&writes), (1, 4, 1, 0));
    let reads = open(sealing(None, owner.identities(), in_memory())).await;
    read(&reads, "a").await.expect("read");
    assert_eq!(counts(&reads), (3, 0, 0, 0), "the marker, the object, its writer");
    read(&reads, "big").await.expect("read");
    assert_eq!(counts(&reads), (4, 0, 0, 0));
    let end = CHUNK as u64 + 1..CHUNK as u64 + 9;
    for expected in [5, 6] {
        reads.read(&key("big"), Some(end.clone()), 8).await.expect("read");
        assert_eq!(counts(&reads), (expected, 0, 0, 0), "its header is remembered");
    }
    let fresh = open(sealing(None, owner.identities(), in_memory())).await;
    fresh.read(&key("big"), Some(end), 8).await.expect("read");
    assert_eq!(counts(&fresh), (4, 0, 0, 0), "the marker, the header, the writer, the range");
    let plain = tempfile::tempdir().expect("a folder");
    let url = VaultUrl::parse(&plain.path().display().to_string()).expect("a place");
    let plain = Vault::open(&url, &Environment::empty(), policy()).await.expect("opened");
    plain.create(&key("a"), pattern(100), None).await.expect("made");
    plain.create(&key("b"), pattern(100), None).await.expect("made");
    assert_eq!(counts(&plain), (1, 2, 0, 0), "one question: is it encrypted?");
}

/// The names of files in this folder are nearly too long: a new key doesn't fit any more, as on a full disk.
#[tokio::test]
async fn a_host_that_can_keep_no_new_key_goes_on_with_the_last_one_for_a_day() {
    let (store, owner, state) = (memory(), Owner::new(), tempfile::tempdir().expect("a folder"));
    let hands = Hands::default();
    let short = state.path().join("keys");
    let write = async |folder: &Path, name: &str| {
        let ring = HostKeys::new(Some(folder.to_owned()), Arc::new(hands.clone()));
        let vault = vault(&store, sealing(Some(owner.recipients()), Identities::none(), ring));
        vault.create(&key(name), "text".into(), None).await
    };
    write(&short, "first").await.expect("written");
    let mut long = state.path().to_owned();
    while long.as_os_str().len() < 3800 {
        long.push("f".repeat(200));
    }
    long.push("f".repeat(4060 - long.as_os_str().len() - 1));
    std::fs::create_dir_all(long.parent().expect("a parent")).expect("made");
    std::fs::rename(&short, &long).expect("moved");
    hands.turn(30);
    write(&long, "a day later").await.expect("with the last key");
    assert_eq!(read(&reader(&store, &owner), "a day later").await, Ok("text".into()));
    hands.turn(30);
    assert_eq!(fault(write(&long, "too late").await), Fault::HostKeys);
    std::fs::rename(&long, &short).expect("moved back");
    write(&short, "with room again").await.expect("written");
}

#[tokio::test]
async fn a_marker_that_was_deleted_is_told_from_a_plain_vault() {
    let (store, owner) = (memory(), Owner::new());
    let ours = writer(&store, &owner);
    ours.create(&key("0000/x"), "text".into(), None).await.expect("written");
    let there = raw(&*store, MARKER).await;
    store.delete(&[key(MARKER)]).await.expect("deleted");
    for vault in [reader(&store, &owner), writer(&store, &owner)] {
        let Err(Error::Sealing { fault, object, cause }) = read(&vault, "0000/x").await else {
            panic!("it was read without a marker")
        };
        assert_eq!((fault, object.ends_with(MARKER)), (Fault::Marker, true), "{object}");
        let told = cause.split("the vault ").nth(1).and_then(|rest| rest.get(..16)).expect("the vault's name");
        assert!(String::from_utf8_lossy(&there).contains(told), "{cause}");
        assert!(cause.contains("headers of 1024 bytes"), "{cause}");
    }
    plant(&*store, MARKER, there).await;
    assert_eq!(read(&reader(&store, &owner), "0000/x").await, Ok("text".into()));
    // Vaults below a place have their own markers, and plain objects are plain.
    let above = memory();
    for name in [MARKER, "0000/x"] {
        plant(&*above, &format!("sub/{name}"), raw(&*store, name).await).await;
    }
    assert_eq!(fault(read(&reader(&above, &owner), "sub/0000/x").await), Fault::NotEncrypted);
    let plain = memory();
    plant(&*plain, "0000/x", "text").await;
    assert_eq!(fault(read(&reader(&plain, &owner), "0000/x").await), Fault::NotEncrypted);
}
