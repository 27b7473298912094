//! Encrypted vaults, from the making of the key to a restore with it, and what is found when somebody changed them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use seawall_tests::{Output, Process, Random, Stand, digest, model, run, wait};
use seawall_vault::testing::not_run;

use crate::several_vaults::add;

const CHUNK: usize = 64 << 10;
const CANARY: &str = "seawall/encryption/canary.age";

/// A stand whose vault is encrypted for a new key, and that key.
struct Scene {
    stand: Stand,
    url: String,
    key: PathBuf,
    public: String,
}

impl Scene {
    fn new() -> Self {
        let stand = Stand::folder(Random::from_env().seed());
        let (url, key) = (stand.place.url(), stand.path("owner.key"));
        let made = stand.seawall(&["vault", "init", &url, "--generate", "-o", text(&key), "--json"]).ok().json();
        assert_eq!((&made["done"], &made["proved"]), (&"made".into(), &true.into()), "{made}");
        let public = made["recipients"][0].as_str().unwrap().to_owned();
        Self { stand, url, key, public }
    }

    fn replicate(&self) -> Process {
        self.stand.replicate_with(&["--recipient", &self.public])
    }

    fn replicate_once(&self) {
        self.stand.replicate_with(&["--recipient", &self.public, "--once"]).wait(wait::SOON * 4).ok();
    }

    fn restored(&self) -> PathBuf {
        self.stand.restore_with(&["--identity", text(&self.key)])
    }

    fn verify(&self) -> Output {
        self.stand.seawall(&["verify", &self.url, "--identity", text(&self.key), "--json"])
    }

    /// The code of the finding about an object.
    fn finding(&self, object: &Path) -> String {
        let output = self.verify().exits(1);
        let findings = output.json();
        let name = object.strip_prefix(self.stand.place.root()).unwrap().to_str().unwrap();
        let of_it = |finding: &&serde_json::Value| finding["object"].as_str().unwrap().contains(name);
        let found = findings["findings"].as_array().unwrap().iter().find(of_it);
        found.unwrap_or_else(|| panic!("{name} is not named: {findings}"))["code"].as_str().unwrap().to_owned()
    }

    /// The objects of all levels, by their names.
    fn objects(&self) -> Vec<PathBuf> {
        let levels = (0..=9).filter_map(|level| fs::read_dir(self.stand.place.level(level)).ok());
        let mut found: Vec<PathBuf> = levels.flatten().map(|entry| entry.unwrap().path()).collect();
        found.retain(|path| path.extension().is_some_and(|kind| kind == "ltx"));
        found.sort();
        found
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn failed(output: &Output, code: &str) {
    assert_ne!(output.code(), 0, "{output}");
    let (told, json) = (format!("error[{code}]"), format!("\"code\": \"{code}\""));
    assert!(output.stderr.contains(&told) || output.stdout.contains(&json), "{code}: {output}");
}

#[test]
fn from_a_new_key_to_a_restore_with_it() {
    let scene = Scene::new();
    let Scene { stand, url, key, .. } = &scene;
    use std::os::unix::fs::PermissionsExt as _;
    assert_eq!(fs::metadata(key).unwrap().permissions().mode() & 0o777, 0o600);
    let mut app = stand.app();
    app.commit(40);
    let mut seawall = scene.replicate();
    stand.until_protected(&mut seawall);
    app.commit(20);
    stand.until_protected(&mut seawall);
    seawall.kill_9();
    let before = digest::of(&stand.db());
    let file = scene.restored();
    assert_eq!((digest::of(&file), model::check(&file, stand.seed)), (before.clone(), 60));
    scene.verify().ok();

    // A key of somebody else, and none.
    let other = stand.path("other.key");
    stand.seawall(&["vault", "init", text(&stand.path("elsewhere")), "--generate", "-o", text(&other)]).ok();
    let target = stand.new_file();
    let args = ["restore", url, "-o", text(&target)];
    failed(&stand.seawall(&[&args[..], &["--identity", text(&other)]].concat()), "vault.no-key");
    failed(&stand.seawall(&args), "vault.encrypted");
    assert!(!target.exists());
    // A process that wasn't told writes nothing.
    let objects = scene.objects();
    failed(&stand.replicate_with(&["--once"]).wait(wait::SOON * 4), "vault.encrypted");
    assert_eq!(scene.objects(), objects);

    // The host goes on with its own keys, and without them begins with a base.
    app.commit(5);
    scene.replicate_once();
    fs::remove_dir_all(stand.state()).unwrap();
    app.commit(5);
    scene.replicate_once();
    let file = scene.restored();
    assert_eq!((digest::of(&file), model::check(&file, stand.seed)), (digest::of(&stand.db()), 70));
    scene.verify().ok();
}

/// The place above has no marker of its own.
#[test]
fn encrypted_databases_below_a_place_are_verified_together() {
    let scene = Scene::new();
    scene.stand.app().commit(5);
    scene.replicate_once();
    let many = scene.stand.path("many");
    for name in ["one", "two"] {
        add(&scene.stand.place.root(), &many.join(name));
    }
    let read = scene.stand.seawall(&["verify", text(&many), "--identity", text(&scene.key), "--json"]).ok().json();
    let databases = read["databases"].as_array().unwrap();
    assert_eq!(databases.len(), 2, "{read}");
    assert!(databases.iter().all(|one| one["findings"] == serde_json::json!([])), "{read}");
}

#[test]
fn the_program_age_opens_a_vault_by_hand() {
    let scene = Scene::new();
    if Command::new("age").arg("--version").output().is_err() {
        return not_run("opening a vault by hand", "age is not on PATH");
    }
    let mut app = scene.stand.app();
    for _ in 0..3 {
        app.commit(20);
        scene.replicate_once();
    }
    let by_hand = scene.stand.path("by-hand");
    for object in scene.objects() {
        let plain = by_hand.join(object.strip_prefix(scene.stand.place.root()).unwrap());
        fs::create_dir_all(plain.parent().unwrap()).unwrap();
        let mut age = Command::new("age");
        run("age", age.args(["-d", "-i"]).arg(&scene.key).arg("-o").arg(&plain).arg(&object)).ok();
        assert!(fs::read(&plain).unwrap().starts_with(b"LTX1"), "{}", object.display());
    }
    // What age gave is a vault that isn't encrypted.
    let file = scene.stand.new_file();
    scene.stand.seawall(&["restore", text(&by_hand), "-o", text(&file)]).ok();
    assert_eq!(digest::of(&file), digest::of(&scene.stand.db()));
}

#[test]
fn what_somebody_changed_is_named() {
    let scene = Scene::new();
    let mut app = scene.stand.app();
    app.sql("CREATE TABLE ballast(noise BLOB)");
    app.sql("INSERT INTO ballast VALUES (randomblob(300000))");
    for _ in 0..3 {
        app.commit(10);
        scene.replicate_once();
    }
    let objects = scene.objects();
    let long = objects.iter().max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap();
    let newest = scene.stand.place.newest();
    let small = &scene.stand.place.object(0, newest, newest);
    let sound = |path: &Path| fs::read(path).unwrap();
    let (first, last) = (sound(long), sound(small));
    assert_ne!(long, small);
    assert!(first.len() > 3 * CHUNK);

    fs::write(long, &last).unwrap();
    fs::write(small, &first).unwrap();
    assert_eq!((scene.finding(long), scene.finding(small)), ("vault.exchanged".into(), "vault.exchanged".into()));
    fs::write(small, &last).unwrap();

    let marker: serde_json::Value =
        serde_json::from_slice(&sound(&scene.stand.place.root().join("seawall/encryption.json"))).unwrap();
    let before = usize::try_from(marker["header"].as_u64().unwrap()).unwrap() + 16;
    fs::write(long, &first[..before + 2 * (CHUNK + 16)]).unwrap();
    assert_eq!(scene.finding(long), "vault.cut");

    fs::write(long, b"LTX1 and what somebody wants to be restored ".repeat(100)).unwrap();
    assert_eq!(scene.finding(long), "vault.plaintext");

    // The same owner's other vault.
    let other = scene.stand.path("other");
    let db = scene.stand.db();
    let args = ["replicate", "--once", "--recipient", &scene.public, text(&db), text(&other)];
    scene.stand.seawall(&args).ok();
    let foreign =
        fs::read_dir(other.join("ltx/0")).unwrap().chain(fs::read_dir(other.join("ltx/9")).into_iter().flatten());
    let foreign = foreign.map(|entry| entry.unwrap().path()).find(|path| path.extension().is_some()).unwrap();
    fs::copy(foreign, long).unwrap();
    assert_eq!(scene.finding(long), "vault.other");

    fs::write(long, &first).unwrap();
    scene.verify().ok();
    assert_eq!(digest::of(&scene.restored()), digest::of(&scene.stand.db()));
}

#[test]
fn litestream_fails_loudly_at_an_encrypted_vault() {
    let scene = Scene::new();
    scene.stand.app().commit(20);
    scene.replicate_once();
    let file = scene.stand.new_file();
    let mut litestream = scene.stand.litestream_command();
    litestream.arg("restore").arg("-o").arg(&file).arg(format!("file://{}", scene.url));
    let output = run("litestream", &mut litestream);
    assert_ne!(output.code(), 0, "{output}");
    assert!(!file.exists());
}

#[test]
fn an_init_that_was_killed_goes_on() {
    let scene = Scene::new();
    let Scene { stand, url, key, public } = &scene;
    let again = || stand.seawall(&["vault", "init", url, "--generate", "-o", text(key), "--json"]);
    let root = stand.place.root();
    let secret = fs::read(key).unwrap();
    // After the canary, before it, before the marker.
    for (left, done) in [(2, "already-there"), (1, "completed"), (0, "made")] {
        if left < 2 {
            fs::remove_file(root.join(CANARY)).unwrap();
        }
        if left < 1 {
            fs::remove_dir_all(&root).unwrap();
        }
        let made = again().ok().json();
        assert_eq!(
            (&made["done"], &made["proved"], &made["identity_made"]),
            (&done.into(), &true.into(), &false.into())
        );
        assert_eq!(made["recipients"], serde_json::json!([public]));
        assert_eq!(fs::read(key).unwrap(), secret);
    }
    // The key on the disk isn't the key of the vault any more.
    fs::write(key, String::from_utf8(secret.clone()).unwrap().replace("AGE-SECRET-KEY-1", "AGE-SECRET-KEY-2")).unwrap();
    failed(&again(), "vault.keys");
    fs::write(key, secret).unwrap();

    // Without a secret key nothing is proved, which is said; with one that opens nothing it is an error.
    let other = stand.path("other.key");
    stand.seawall(&["vault", "init", text(&stand.path("elsewhere")), "--generate", "-o", text(&other)]).ok();
    let given = stand.seawall(&["vault", "init", url, "--recipient", public]).ok();
    assert!(given.stdout.contains("not proved"), "{given}");
    let args = ["vault", "init", url, "--recipient", public, "--identity"];
    assert!(stand.seawall(&[&args[..], &[text(key)]].concat()).ok().stdout.contains("\nproved"));
    failed(&stand.seawall(&[&args[..], &[text(&other)]].concat()), "vault.no-key");
}

#[test]
fn init_refuses_what_is_there() {
    let scene = Scene::new();
    let Scene { stand, url, key, .. } = &scene;
    let init = |vault: &str, file: &Path| stand.seawall(&["vault", "init", vault, "--generate", "-o", text(file)]);
    // A vault of another key gets none.
    let fresh = stand.path("fresh.key");
    failed(&init(url, &fresh), "vault.recipients");
    // A vault that isn't encrypted.
    stand.app().commit(3);
    let plain = stand.path("plain");
    stand.seawall(&["replicate", "--once", text(&stand.db()), text(&plain)]).ok();
    failed(&init(text(&plain), &fresh), "vault.not-encrypted");
    assert!(!fresh.exists(), "a key that opens nothing");
    // A file that is there: of anything, and of another vault's key.
    let notes = stand.path("notes");
    fs::write(&notes, "mine").unwrap();
    let elsewhere = stand.path("elsewhere");
    failed(&init(text(&elsewhere), &notes), "vault.key-file");
    failed(&init(text(&elsewhere), key), "vault.key-file");
    let both = ["vault", "init", text(&elsewhere), "--generate", "--identity", text(key)];
    failed(&stand.seawall(&both), "usage.arguments");
    assert_eq!(fs::read(&notes).unwrap(), b"mine");
    assert!(!elsewhere.exists());
}
