//! `seawall fleet`: every database below a prefix, from the vault alone.

use std::path::Path;

use seawall_tests::{Random, Stand, digest, model, run};
use seawall_vault::testing::S3Server;
use serde_json::{Value, json};

pub(crate) fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_folder(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).unwrap()),
        }
    }
}

pub(crate) fn golden(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(name)
}

fn fleet(stand: &Stand, place: &str, more: &[&str]) -> seawall_tests::Output {
    run("seawall", stand.command().args(["fleet", place]).args(more))
}

fn row<'a>(document: &'a Value, name: &str) -> &'a Value {
    let rows = document["databases"].as_array().unwrap();
    rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("{name} isn't in {document:#}"))
}

fn names(document: &Value) -> Vec<&str> {
    document["databases"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect()
}

/// Databases of several engines and programs, strangers and hostile names between them.
#[test]
fn a_folder_of_many_vaults() {
    let stand = Stand::folder(Random::from_env().seed());
    let backups = stand.path("backups");
    let place = backups.to_str().unwrap();
    let mut app = stand.app();
    app.commit(5);
    let vault = backups.join("eu/shop");
    run("seawall", stand.command().args(["replicate", "--once"]).arg(stand.db()).arg(&vault)).ok();
    let point = run("seawall", stand.command().args(["timeline", "--json"]).arg(&vault)).ok().json();
    let proved = run("seawall", stand.command().args(["verify", "--restore", "--json"]).arg(&vault)).ok();
    copy_folder(&golden("lightningstream/native-basic/snapshots"), &backups.join("lightning"));
    copy_folder(&golden("ltx/litestream-1024"), &backups.join("other/ltx"));
    std::fs::create_dir_all(backups.join("photos")).unwrap();
    std::fs::write(backups.join("photos/=1+1\u{202e}.jpg"), "x").unwrap();
    std::fs::create_dir_all(backups.join("=cmd|x/ltx/0")).unwrap();
    std::fs::write(backups.join("=cmd|x/ltx/0/0000000000000001-0000000000000001.ltx"), "damage").unwrap();

    let document = fleet(&stand, place, &["--json"]).ok().json();
    let lightning = names(&document).into_iter().find(|name| name.starts_with("lightning/")).unwrap();
    assert_eq!(names(&document), ["=cmd|x", "eu/shop", lightning, "other"], "{document:#}");
    assert_eq!((&document["found"], &document["foreign_objects"]), (&json!(4), &json!(1)), "{document:#}");
    let shop = row(&document, "eu/shop");
    let newest = point["spans"].as_array().unwrap().last().unwrap()["to"]["position"].clone();
    assert_eq!((&shop["engine"], &shop["newest"]["position"]), (&json!("sqlite"), &newest), "{shop:#}");
    assert_eq!(shop["proof"]["faults"], json!([]), "{shop:#} after {proved}");
    assert_eq!((&shop["holes"], &shop["encrypted"], &shop["alarms"]), (&json!(0), &json!(false), &json!([])));
    assert_eq!(row(&document, lightning)["engine"], "lmdb");
    assert_eq!(row(&document, "other")["engine"], "sqlite");

    // For people and for spreadsheets.
    let text = fleet(&stand, place, &["--sort", "proof"]).ok().stdout;
    assert!(text.contains("eu/shop") && text.contains("4 databases") && text.contains("1 object"), "{text}");
    assert!(!text.contains('\u{202e}'), "{text}");
    let csv = fleet(&stand, place, &["--csv"]).ok().stdout;
    assert_eq!(csv.lines().count(), 5, "{csv}");
    assert!(csv.starts_with("name,vault,engine,") && csv.contains("\"'=cmd|x\","), "{csv}");

    // What is chosen.
    let chosen = fleet(&stand, place, &["--json", "--filter", "engine=sqlite", "--filter", "proved=yes"]).ok().json();
    assert_eq!((names(&chosen), &chosen["found"]), (vec!["eu/shop"], &json!(4)));
    let one = fleet(&stand, place, &["--json", "--sort", "size", "--limit", "1"]).ok().json();
    assert_eq!(names(&one).len(), 1);
    fleet(&stand, place, &["--filter", "colour=red"]).exits(2);
    fleet(&stand, place, &["--check"]).ok();
    fleet(&stand, place, &["--check", "--proved-within", "35d"]).exits(3);
    fleet(&stand, place, &["--check", "--proved-within", "35d", "--filter", "shop"]).ok();

    // A proof that failed is an alarm.
    let base = std::fs::read_dir(vault.join("ltx/9")).unwrap().flatten().next().unwrap().path();
    let mut bytes = std::fs::read(&base).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    std::fs::remove_file(&base).unwrap();
    std::fs::write(&base, bytes).unwrap();
    run("seawall", stand.command().args(["verify", "--restore"]).arg(&vault));
    let failed = fleet(&stand, place, &["--json", "--check", "--filter", "shop"]);
    assert_eq!(failed.code(), 1, "{failed}");
    assert_eq!(row(&failed.json(), "eu/shop")["alarms"][0]["code"], "alarm.proof-failed", "{failed}");

    // An empty place, and one that isn't there.
    let empty = stand.path("empty");
    std::fs::create_dir_all(&empty).unwrap();
    let nothing = fleet(&stand, empty.to_str().unwrap(), &[]).exits(4);
    assert!(nothing.stderr.contains("command.empty-vault"), "{nothing}");
}

/// From a bucket, with an encrypted database, whose key isn't at hand, between others.
#[test]
fn a_bucket_of_vaults_on_s3() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = runtime.block_on(S3Server::start("a fleet", folder.path())).unwrap();
    let stand = Stand::folder(Random::from_env().seed());
    stand.app().commit(5);
    let key = stand.path("owner.key");
    let sealed = server.url("all/sealed");
    let init = ["vault", "init", &sealed, "--generate", "-o", key.to_str().unwrap(), "--json"];
    let made = run("seawall", stand.command().args(init)).ok().json();
    let recipient = made["recipients"][0].as_str().unwrap().to_owned();
    let identity = ["--identity", key.to_str().unwrap()];
    let db = stand.db();
    let replicate = ["replicate", "--once", db.to_str().unwrap()];
    run("seawall", stand.command().args(replicate).args([&*sealed, "--recipient", &recipient])).ok();
    run("seawall", stand.command().args(["verify", "--restore", &sealed]).args(identity)).ok();
    std::fs::remove_dir_all(stand.state()).unwrap();
    run("seawall", stand.command().args(replicate).arg(server.url("all/plain"))).ok();

    let document = fleet(&stand, &server.url("all"), &["--json"]).ok().json();
    assert_eq!(names(&document), ["plain", "sealed"], "{document:#}");
    let sealed = row(&document, "sealed");
    assert_eq!((&sealed["encrypted"], &sealed["proof"]), (&json!(true), &json!(null)), "{sealed:#}");
    assert!(sealed["proved_at"].is_string() && sealed["newest"].is_object(), "{sealed:#}");
    assert_eq!(sealed["doubts"].as_array().unwrap().len(), 1, "{sealed:#}");
    assert_eq!(row(&document, "plain")["doubts"], json!([]));
    let opened = fleet(&stand, &server.url("all"), &[&["--json"], &identity[..]].concat()).ok().json();
    let proof = &row(&opened, "sealed")["proof"];
    assert_eq!(proof["faults"], json!([]), "{opened:#}");
}

/// A link, and a name with a line feed, hide databases. Each command says so, and doesn't call the rest the whole.
#[test]
fn names_that_can_be_no_object_are_told() {
    let stand = Stand::folder(Random::from_env().seed());
    let (backups, disk) = (stand.path("backups"), stand.path("disk"));
    let place = backups.to_str().unwrap();
    let committed = stand.app().commit(5);
    let held = digest::of(&stand.db());
    for vault in [backups.join("shop"), disk.join("linked")] {
        run("seawall", stand.command().args(["replicate", "--once"]).arg(stand.db()).arg(vault)).ok();
    }
    copy_folder(&backups.join("shop"), &backups.join("line\nfeed"));
    std::os::unix::fs::symlink(&disk, backups.join("disk")).unwrap();

    let told = fleet(&stand, place, &["--json"]).exits(3);
    assert_eq!(names(&told.json()), ["shop"]);
    assert_eq!(told.json()["passed_over"]["code"], "vault.passed-over");
    assert!(told.json()["passed_over"]["cause"].as_str().unwrap().contains("and 1 more name"), "{told}");
    let told = fleet(&stand, place, &[]).exits(3);
    assert!(told.stderr.contains("error[vault.passed-over]") && told.stderr.contains("backups/disk"), "{told}");
    fleet(&stand, place, &["--check"]).exits(3);

    let copy = stand.path("copy");
    let copied = run("seawall", stand.command().args(["copy", place]).arg(&copy)).exits(3);
    assert!(copied.stderr.contains("error[vault.passed-over]"), "{copied}");
    let into = stand.path("back");
    for from in [place, copy.to_str().unwrap()] {
        let restored = run("seawall", stand.command().args(["restore", "--all", from, "--force", "-o"]).arg(&into));
        // The copy has no such names.
        restored.exits(if from == place { 3 } else { 0 });
        let back = into.join("shop");
        assert_eq!((model::check(&back, stand.seed), digest::of(&back)), (committed, held.clone()));
    }
    // What the link leads to is a place of its own.
    fleet(&stand, disk.to_str().unwrap(), &[]).ok();
    run("seawall", stand.command().args(["verify", place])).exits(1);
}
