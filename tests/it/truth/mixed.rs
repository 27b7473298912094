//! Objects of another database, or of another branch of the same one, in a vault. Their names fit.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use seawall_tests::{App, Output, Process, Random, Stand, Txid, file_name, model, run, wait};

/// A database with a vault: a base, and this many captures after it.
fn protected(stand: &Stand, captures: u64) -> App {
    let mut app = stand.app();
    app.commit(100);
    go_on(stand, &mut app, captures);
    app
}

/// So many commits, each in a capture of its own.
fn go_on(stand: &Stand, app: &mut App, captures: u64) {
    let mut seawall = stand.replicate();
    stand.until_protected(&mut seawall);
    for _ in 0..captures {
        let before = stand.place.newest();
        app.commit(1);
        wait::until("another capture", wait::SOON * 2, || (stand.place.newest() > before).then_some(()));
    }
    stand.until_protected(&mut seawall);
    seawall.stop().ok();
    stand.place.remove_merged();
}

/// Two databases, each with a vault of its own.
fn two() -> [(Stand, App); 2] {
    let mut random = Random::from_env();
    [random.draw(), random.draw()].map(|seed| {
        let stand = Stand::folder(seed);
        let app = protected(&stand, 6);
        (stand, app)
    })
}

/// `verify` names the object, in either strength, and a restore is refused by name and leaves nothing.
#[track_caller]
fn is_refused(stand: &Stand, object: &str, at: &[&str]) {
    let url = stand.place.url();
    for strength in [&["verify", "--json"][..], &["verify", "--strong", "--json"]] {
        let found = run("seawall", stand.command().args(strength).arg(&url)).exits(1).json();
        let findings = found["findings"].as_array().unwrap();
        let named = findings
            .iter()
            .any(|finding| finding["code"] == "sqlite.mixed" && finding["object"].as_str().unwrap().ends_with(object));
        assert!(named, "{object} isn't named: {found}");
    }
    let file = stand.new_file();
    let mut command = stand.command();
    command.args(["restore", &url, "-o"]).arg(&file).args(at).args(["--integrity", "full"]);
    let output = run("seawall", &mut command).exits(1);
    assert!(output.stderr.contains("[sqlite.mixed]") && output.stderr.contains(object), "{object}: {output}");
    assert!(!file.exists(), "a refused restore left a file");
    run("seawall", command.arg("--dry-run")).exits(1);
}

/// Puts another object in the place of one, or beside the others. Returns the replaced one.
fn plant(stranger: &Path, place: &Path) -> Option<Vec<u8>> {
    let before = fs::read(place).ok();
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    fs::copy(stranger, place).unwrap();
    before
}

fn put_back(place: &Path, before: Option<Vec<u8>>) {
    match before {
        Some(bytes) => fs::write(place, bytes).unwrap(),
        None => fs::remove_file(place).unwrap(),
    }
}

#[test]
fn an_object_of_another_database_is_refused_by_name() {
    let [(one, app), (other, mut app_of_other)] = two();
    let (_, last) = one.place.unbroken();
    let other_last = other.place.newest();
    let committed = app.committed();
    for (txid, at) in [(1, None), (2, None), (4, Some(3)), (last, Some(last - 1))] {
        let level = if txid == 1 { 9 } else { 0 };
        let place = one.place.object(level, txid, txid);
        let before = plant(&other.place.object(level, txid, txid), &place);
        is_refused(&one, &file_name(txid, txid), &[]);
        // The stranger's own point isn't one of this database: the object after it shows that.
        if txid < last {
            is_refused(&one, &file_name(txid, txid), &["--at", &format!("{txid:016x}")]);
        }
        // Points before it are unchanged.
        if let Some(at) = at {
            let restored = model::check(&one.restore_txid(at), one.seed);
            assert!(restored < committed, "{restored} of {committed}");
        }
        put_back(&place, before);
        assert_eq!(model::check(&one.restore(), one.seed), committed);
    }
    // Beside all objects: right after the newest one, far after it, and as complete copies.
    let next = last + 1;
    go_on(&other, &mut app_of_other, 2 + next.saturating_sub(other_last));
    let stray = one.place.object(0, next, next);
    plant(&other.place.object(0, next, next), &stray);
    is_refused(&one, &file_name(next, next), &[]);
    assert_eq!(model::check(&one.restore_txid(last), one.seed), committed);
    put_back(&stray, None);
    let copy = complete_copy(&other, &mut app_of_other);
    let file = one.place.object(9, 1, copy);
    plant(&other.place.object(9, 1, copy), &file);
    is_refused(&one, &file_name(1, copy), &[]);
    put_back(&file, None);
    one.seawall(&["verify", "--strong", &one.place.url()]).ok();
    assert_eq!(model::check(&one.restore(), one.seed), committed);
}

/// A complete copy after all other objects of a vault. A break in its history leaves it there.
fn complete_copy(stand: &Stand, app: &mut App) -> Txid {
    fs::remove_file(stand.place.object(9, 1, 1)).unwrap();
    app.commit(1);
    let once = stand.replicate_with(&["--once"]).wait(wait::SOON * 4);
    assert!(once.code() == 1 && once.stderr.contains("[sqlite.lost]"), "{once}");
    stand.place.files(9).last().map(|(_, max)| *max).filter(|max| *max > 1).unwrap()
}

/// Runs `seawall maintain` with windows of a second.
fn maintain(stand: &Stand) -> Output {
    let config = stand.path("maintain.yml");
    let text = format!(
        "levels: [{{ interval: 1s }}]\nsnapshot: {{ interval: 24h }}\ndatabases:\n  - path: {}\n    vault: {}\n",
        stand.db().display(),
        stand.place.url(),
    );
    fs::write(&config, text).unwrap();
    stand.seawall(&["maintain", "--config", config.to_str().unwrap(), stand.db().to_str().unwrap()])
}

/// An object of level 1 that holds several captures.
fn merged(stand: &Stand) -> (Txid, Txid) {
    wait::until("several captures to be merged", wait::SOON * 2, || {
        maintain(stand).ok();
        stand.place.files(1).into_iter().find(|(min, max)| min < max)
    })
}

#[test]
fn a_merged_object_of_another_database_is_refused_by_name() {
    let [(one, app), (other, _)] = two();
    merged(&one);
    assert_eq!(model::check(&one.restore(), one.seed), app.committed());
    one.seawall(&["verify", &one.place.url()]).ok();
    let (min, max) = merged(&other);
    one.place.remove_merged();
    let place = one.place.object(1, min, max);
    plant(&other.place.object(1, min, max), &place);
    is_refused(&one, &file_name(min, max), &[]);
    put_back(&place, None);
    assert_eq!(model::check(&one.restore(), one.seed), app.committed());
}

/// A copy of a stand, as a host is cloned.
pub(super) fn clone(stand: &Stand) -> Stand {
    let copy = Stand::folder(stand.seed);
    let from = format!("{}.", stand.path("").display());
    assert!(Command::new("cp").arg("-a").arg(from).arg(copy.path("")).status().unwrap().success());
    copy
}

/// Lineage, TXIDs and the sizes of all captures are equal. Only the tags of the points that they follow differ.
#[test]
fn a_branch_of_the_same_history_is_refused_by_name() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = protected(&stand, 3);
    let cloned = clone(&stand);
    let mut its_app = cloned.app();
    its_app.sql("CREATE TABLE other(x)");
    let fork = stand.place.newest();
    app.sql("CREATE TABLE own(x)");
    go_on(&stand, &mut app, 4);
    go_on(&cloned, &mut its_app, 4);
    assert_eq!(stand.place.files(9), [(1, 1)], "no break in the history");
    assert_eq!(cloned.place.files(9), [(1, 1)], "no break in its copy's either");
    let last = stand.place.newest().min(cloned.place.newest());
    for txid in fork + 1..=last {
        let place = stand.place.object(0, txid, txid);
        let before = plant(&cloned.place.object(0, txid, txid), &place);
        is_refused(&stand, &file_name(txid, txid), &["--at", &format!("{:016x}", stand.place.newest())]);
        if txid < stand.place.newest() {
            is_refused(&stand, &file_name(txid, txid), &["--at", &format!("{txid:016x}")]);
        }
        put_back(&place, before);
    }
    assert_eq!(model::check(&stand.restore(), stand.seed), app.committed());
}

fn follow(stand: &Stand) -> Process {
    let mut command = stand.command();
    command.args(["restore", &stand.place.url(), "-o", "standby.db", "--follow", "--follow-interval", "100ms"]);
    Process::spawn("seawall", &mut command)
}

fn commits(file: &PathBuf) -> Option<u64> {
    let db = rusqlite::Connection::open_with_flags(file, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY).ok()?;
    model::commits(&db).ok()
}

#[test]
fn a_standby_never_becomes_a_mixture() {
    let [(one, mut app), (other, mut its_app)] = two();
    let standby = one.path("standby.db");
    let mut follower = follow(&one);
    let committed = app.committed();
    wait::until("the standby", wait::SOON * 2, || (commits(&standby) == Some(committed)).then_some(()));
    let next = one.place.newest() + 1;
    go_on(&other, &mut its_app, 3 + next.saturating_sub(other.place.newest()));
    let stray = one.place.object(0, next, next);
    plant(&other.place.object(0, next, next), &stray);
    wait::until("the stranger to be told", wait::SOON * 2, || {
        assert!(follower.running(), "it ended: {}", follower.stderr());
        follower.stderr().contains("sqlite.mixed").then_some(())
    });
    assert_eq!(model::check(&standby, one.seed), committed);
    // Without it, the standby continues.
    put_back(&stray, None);
    go_on(&one, &mut app, 2);
    let committed = app.committed();
    wait::until("the standby to go on", wait::SOON * 4, || (commits(&standby) == Some(committed)).then_some(()));
    follower.stop().ok();
    assert_eq!(model::check(&standby, one.seed), committed);
}

/// Removes every complete copy but the first, so that the newest state is restored from all captures. One is made once a day, at a time that
/// the name of the vault decides: perhaps during this test.
fn keep_the_first_copy(stand: &Stand) {
    for (min, max) in stand.place.files(9).into_iter().filter(|(_, max)| *max > 1) {
        fs::remove_file(stand.place.object(9, min, max)).unwrap();
    }
}

/// A start notices it, and takes a base that no restore crosses: no state of the two databases comes out.
#[test]
fn a_start_begins_anew_behind_a_stranger() {
    let [(one, mut app), (other, mut its_app)] = two();
    let last = one.place.newest();
    go_on(&other, &mut its_app, 8 + last.saturating_sub(other.place.newest()));
    for (level, txid) in [(0, Some(4)), (9, Some(1)), (0, None)] {
        let behind_all = txid.is_none();
        let txid = txid.unwrap_or(one.place.newest() + 1);
        let place = one.place.object(level, txid, txid);
        // The stranger must be in the chain of the newest state.
        keep_the_first_copy(&one);
        let before = plant(&other.place.object(level, txid, txid), &place);
        let newest = one.place.newest();
        app.commit(1);
        let output = one.replicate_with(&["--once"]).wait(wait::SOON * 4).ok();
        assert!(output.stderr.contains("sqlite.mixed"), "{level}/{txid}: {output}");
        assert_eq!(one.place.files(9).last(), Some(&(1, newest + 1)), "no base was taken");
        assert_eq!(model::check(&one.restore(), one.seed), app.committed());
        let timeline = one.seawall(&["timeline", &one.place.url(), "--json"]).ok().json();
        let holes = timeline["holes"].as_array().unwrap();
        let told = holes.iter().any(|hole| hole["reason"].as_str().unwrap().contains("another database"));
        assert!(told, "{timeline}");
        // The state at the stranger is refused as before.
        one.seawall(&["restore", &one.place.url(), "-o", "x.db", "--at", &format!("{newest:016x}")]).exits(1);
        // None of it is between later objects, and the next start finds no fault.
        app.commit(1);
        let output = one.replicate_with(&["--once"]).wait(wait::SOON * 4).ok();
        assert!(!output.stderr.contains("sqlite.mixed"), "{output}");
        put_back(&place, before);
        assert_eq!(model::check(&one.restore(), one.seed), app.committed());
        if behind_all {
            break;
        }
    }
}

#[test]
fn merging_refuses_a_stranger_and_tells() {
    let [(one, app), (other, _)] = two();
    let place = one.place.object(0, 4, 4);
    let before = plant(&other.place.object(0, 4, 4), &place);
    let output = wait::until("windows to be over", wait::SOON * 2, || {
        let output = maintain(&one);
        (output.code() != 0).then_some(output)
    });
    assert!(output.stderr.contains("[sqlite.mixed]") && output.stderr.contains(&file_name(4, 4)), "{output}");
    assert!(one.place.files(1).iter().all(|(min, max)| !(*min..=*max).contains(&4)), "it was merged");
    put_back(&place, before);
    merged(&one);
    assert_eq!(model::check(&one.restore(), one.seed), app.committed());
}

/// Litestream's objects have no lineage. A mismatch of WAL positions is refused, and an unprovable bond is reported.
#[test]
fn what_can_be_told_of_litestreams_objects_and_what_cant() {
    let seeds = [Random::from_env().seed(), 77];
    let [one, other] = seeds.map(|seed| {
        let stand = Stand::folder(seed);
        let mut app = stand.app();
        app.commit(50);
        let mut litestream = stand.litestream("");
        for _ in 0..4 {
            let before = stand.place.newest();
            app.commit(2);
            wait::until("another object", wait::SOON * 2, || (stand.place.newest() > before).then_some(()));
        }
        litestream.stop().ok();
        stand
    });
    let url = one.place.url();
    one.place.remove_merged();
    let found = one.seawall(&["verify", &url, "--json"]).ok().json();
    let doubts = found["doubts"].as_array().unwrap();
    assert!(doubts.iter().any(|doubt| doubt.as_str().unwrap().contains("of another program")), "{found}");
    let place = one.place.object(0, 4, 4);
    plant(&other.place.object(0, 4, 4), &place);
    is_refused(&one, &file_name(4, 4), &[]);
}
