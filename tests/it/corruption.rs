//! A vault with a damaged, missing or foreign object: `verify` names it, and a restore fails and leaves nothing.

use std::fs;
use std::path::{Path, PathBuf};

use seawall_tests::{Random, Stand, digest, file_name, model};

/// A vault with a base and many transactions after it. Most of the base is never rewritten, so a restore needs the base
/// as well as the newest transaction. (It may leave objects unread that newer ones supersede completely.)
fn vault() -> (Stand, u64) {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.sql("CREATE TABLE ballast(id INTEGER PRIMARY KEY, noise BLOB)");
    app.commit(100);
    app.sql("INSERT INTO ballast SELECT id, randomblob(3000) FROM rows");
    let mut seawall = stand.replicate();
    stand.until_protected(&mut seawall);
    for _ in 0..6 {
        app.commit(10);
        stand.until_protected(&mut seawall);
    }
    seawall.stop().ok();
    stand.place.remove_merged();
    let committed = app.committed();
    (stand, committed)
}

/// Verification finds the object, a restore fails, and no file is left.
fn is_found(stand: &Stand, object: &str) {
    let url = stand.place.url();
    let output = stand.seawall(&["verify", &url, "--json"]).exits(1);
    let verification = output.json();
    let findings = verification["findings"].as_array().unwrap();
    assert!(findings.iter().any(|f| f["object"].as_str().unwrap().contains(object)), "{object}: {verification}");
    assert!(findings.iter().all(|f| f["code"].as_str().unwrap().contains('.')), "{verification}");
    let text = stand.seawall(&["verify", &url]).exits(1);
    assert!((text.stdout.clone() + &text.stderr).contains(object), "{text}");

    let file = stand.new_file();
    let output = stand.seawall(&["restore", &url, "-o", file.to_str().unwrap()]).exits(1);
    assert!(output.stderr.contains('['), "an error has a code: {output}");
    assert_no_trace(stand, &file);
}

fn assert_no_trace(stand: &Stand, file: &Path) {
    let stem = file.file_name().unwrap().to_str().unwrap();
    let left: Vec<PathBuf> = fs::read_dir(stand.path(""))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap().to_str().unwrap().contains(stem))
        .collect();
    assert!(left.is_empty(), "a failed restore left {left:?}");
}

#[test]
fn a_flipped_bit_anywhere_in_a_transaction() {
    let mut random = Random::from_env();
    let (stand, _) = vault();
    let txid = stand.place.newest();
    let path = stand.place.object(0, txid, txid);
    let whole = fs::read(&path).unwrap();
    for _ in 0..12 {
        let mut spoilt = whole.clone();
        // Not in the index: a restore doesn't need it; and not the low nibble of LZ4's last token, which says nothing.
        let position = random.below(100 + 10 + 8) as usize;
        spoilt[position] ^= 1 << random.below(8);
        fs::write(&path, spoilt).unwrap();
        eprintln!("byte {position}");
        is_found(&stand, &file_name(txid, txid));
    }
    fs::write(&path, whole).unwrap();
    stand.seawall(&["verify", &stand.place.url()]).ok();
}

#[test]
fn a_base_that_is_cut_short() {
    let (stand, _) = vault();
    let path = stand.place.object(9, 1, 1);
    let whole = fs::read(&path).unwrap();
    for length in [0, 50, 100, whole.len() / 2, whole.len() - 16, whole.len() - 1] {
        fs::write(&path, &whole[..length]).unwrap();
        is_found(&stand, &file_name(1, 1));
    }
}

#[test]
fn bytes_after_the_end() {
    let (stand, _) = vault();
    let last = stand.place.newest();
    let path = stand.place.object(0, last, last);
    let mut bytes = fs::read(&path).unwrap();
    bytes.extend_from_slice(b"more");
    fs::write(&path, bytes).unwrap();
    is_found(&stand, &file_name(last, last));
}

#[test]
fn an_object_under_another_ones_name() {
    let (stand, _) = vault();
    let last = stand.place.newest();
    fs::copy(stand.place.object(0, 3, 3), stand.place.object(0, last, last)).unwrap();
    is_found(&stand, &file_name(last, last));
}

#[test]
fn a_missing_transaction_is_a_hole_and_what_is_before_it_restores() {
    let (stand, committed) = vault();
    let (_, last) = stand.place.unbroken();
    let missing = 5;
    fs::remove_file(stand.place.object(0, missing, missing)).unwrap();
    let url = stand.place.url();
    stand.seawall(&["verify", &url]).exits(1);
    // A restore of the newest state would cross the hole, and so would any transaction after it.
    for at in ["latest".to_owned(), format!("{last:016x}"), format!("{missing:016x}")] {
        let file = stand.new_file();
        let output = stand.seawall(&["restore", &url, "-o", file.to_str().unwrap(), "--at", &at]);
        assert!(output.code() != 0, "--at {at} crossed the hole: {output}");
        assert!(output.stderr.contains('['), "{output}");
        assert_no_trace(&stand, &file);
    }
    let before = model::check(&stand.restore_txid(missing - 1), stand.seed);
    assert!(before < committed);

    let timeline = stand.seawall(&["timeline", &url, "--json"]).json();
    assert_eq!(timeline["holes"].as_array().unwrap().len(), 1, "{timeline}");
}

/// Anybody who can write to the vault can put bytes where the newest object would stand.
#[test]
fn junk_at_the_end_does_not_hide_the_timeline() {
    let (stand, _) = vault();
    let (url, last) = (stand.place.url(), stand.place.newest());
    let before = stand.seawall(&["timeline", &url, "--json"]).ok().json();
    let junk = [last + 1, last + 2, last + 90].map(|txid| stand.place.object(0, txid, txid));
    junk.iter().for_each(|path| fs::write(path, [0x5a; 100]).unwrap());
    let shown = stand.seawall(&["timeline", &url, "--json"]).exits(3).json();
    assert_eq!((&shown["spans"], &shown["holes"]), (&before["spans"], &before["holes"]), "{shown}");
    let doubts = shown["doubts"].to_string();
    for path in &junk {
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(doubts.contains(name), "{name} isn't named: {doubts}");
    }
    let text = stand.seawall(&["timeline", &url]).exits(3);
    assert!(text.stdout.contains(&format!("{last:016x}")) && text.stdout.contains("is left out: "), "{text}");
}

#[test]
fn a_failed_restore_with_force_leaves_what_was_there() {
    let (stand, committed) = vault();
    let target = stand.restore();
    let before = digest::of_file(&target);
    let last = stand.place.newest();
    let path = stand.place.object(0, last, last);
    let whole = fs::read(&path).unwrap();
    let mut spoilt = whole.clone();
    spoilt[40] ^= 1;
    fs::write(&path, &spoilt).unwrap();
    let (url, file) = (stand.place.url(), target.to_str().unwrap().to_owned());
    stand.seawall(&["restore", &url, "-o", &file, "--force"]).exits(1);
    assert_eq!(digest::of_file(&target), before);
    fs::write(&path, &whole).unwrap();
    stand.seawall(&["restore", &url, "-o", &file, "--force"]).ok();
    assert_eq!(model::check(&target, stand.seed), committed);
}

/// A forged object: every checksum of it is right, but its content is different.
#[test]
fn a_sound_object_that_is_not_what_was_written() {
    let stand = Stand::folder(Random::from_env().seed());
    let (path, written) = forge(&stand);
    // A copy without the data that was beside the object is sound, but can't be compared.
    fs::remove_file(&path).unwrap();
    fs::write(&path, &written).unwrap();
    let output = stand.seawall(&["verify", "--strong", &stand.place.url()]).exits(3);
    assert!(output.stdout.contains("none was kept"), "{output}");
    let output = stand.seawall(&["ltx", "verify", "--strong", path.to_str().unwrap()]).exits(3);
    assert!(output.stdout.starts_with("ok\n") && output.stdout.contains("no BLAKE3 was kept"), "{output}");
}

#[test]
fn a_sound_object_that_is_not_what_was_written_in_s3() {
    forge(&Stand::bucket(Random::from_env().seed()));
}

/// One that was uploaded in parts: its digest is an object of its own, which Litestream doesn't mind.
#[test]
fn a_large_object_that_is_not_what_was_written_in_s3() {
    let stand = Stand::bucket(Random::from_env().seed());
    stand.app().sql(
        "CREATE TABLE ballast AS WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 12) \
         SELECT randomblob(1000000) AS noise FROM n",
    );
    let (path, written) = forge(&stand);
    assert!(written.len() > 9 << 20, "{} bytes are one part", written.len());
    fs::write(&path, &written).unwrap();
    stand.seawall(&["verify", "--strong", &stand.place.url()]).ok();
    let digest = path.ancestors().nth(2).unwrap().join(format!("seawall/digests/9/{:016x}-{:016x}.json", 1, 1));
    let kept: serde_json::Value = serde_json::from_slice(&fs::read(&digest).unwrap()).unwrap();
    assert_eq!(kept["format"], 1, "{kept}");
    // Litestream restores the vault and continues it, and then Seawall continues after Litestream.
    assert_eq!(digest::of_file(&stand.litestream_restore(&[])), digest::of_file(&stand.restore()));
    stand.app().commit(20);
    stand.litestream_once();
    assert_eq!(digest::of_file(&stand.litestream_restore(&[])), digest::of_file(&stand.restore()));
    stand.replicate_once();
    let url = stand.place.url();
    assert_eq!(stand.seawall(&["verify", &url]).ok().stderr, "");
    // Without its digest an object is named.
    fs::remove_file(&digest).unwrap();
    let output = stand.seawall(&["verify", "--strong", &url]).exits(3);
    assert!(output.stdout.contains(&format!("{}: none was kept", file_name(1, 1))), "{output}");
}

/// Where the object is, and its bytes before.
fn forge(stand: &Stand) -> (PathBuf, Vec<u8>) {
    let mut app = stand.app();
    app.commit(50);
    stand.replicate_once();
    let url = stand.place.url();
    let strong = stand.seawall(&["verify", "--strong", &url]).ok();
    assert!(strong.stdout.contains("2 objects compared"), "{strong}");
    // The same pages under another header.
    let (path, forged) = (stand.place.object(9, 1, 1), stand.path("forged.ltx"));
    stand.seawall(&["ltx", "compact", "-o", forged.to_str().unwrap(), path.to_str().unwrap()]).ok();
    let (written, forged) = (fs::read(&path).unwrap(), fs::read(&forged).unwrap());
    assert_ne!(written, forged);
    // Written in place, so that the data beside it stays.
    fs::write(&path, &forged).unwrap();
    stand.seawall(&["verify", &url]).ok();
    let found = stand.seawall(&["verify", "--strong", "--json", &url]).exits(1).json();
    assert_eq!(found["findings"].as_array().unwrap().len(), 1, "{found}");
    let finding = &found["findings"][0];
    assert_eq!(finding["code"], "sqlite.digest", "{found}");
    assert!(finding["object"].as_str().unwrap().ends_with(&file_name(1, 1)), "{found}");
    // The same of one object alone.
    let object = stand.place.object_url(9, 1, 1);
    stand.seawall(&["ltx", "verify", &object]).ok();
    let failed = stand.seawall(&["ltx", "verify", "-strong", "--json", &object]).exits(1).json();
    assert_eq!(failed["failures"][0]["code"], "ltx.digest", "{failed}");
    let sound = stand.seawall(&["ltx", "verify", "--strong", &stand.place.object_url(0, 2, 2)]).ok();
    assert_eq!(sound.stdout, "ok\n");
    (path, written)
}
