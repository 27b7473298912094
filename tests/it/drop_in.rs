//! Under the name `litestream`, the same command line gives the same output, exit code and effect as the real program.
//! Both run side by side on the same files. Times are normalised and log lines left out.

use seawall_tests::{Output, Process, Random, Stand, digest, model, run, wait};

/// What both say to a command line.
fn both(stand: &Stand, line: &[&str]) -> (Output, Output) {
    let ours = run("the link", stand.drop_in_command().args(line));
    let theirs = run("litestream", stand.litestream_command().args(line));
    (ours, theirs)
}

/// Without the parts that differ from call to call (times, durations, log lines). Blanks are made plain, because
/// Litestream prints a hard one.
fn plain(text: &str) -> String {
    let text = text.replace('\u{a0}', " ");
    let is_log = |line: &&str| line.starts_with("time=") || line.contains(" WARN seawall::litestream::");
    let lines = text.lines().filter(|line| !is_log(line));
    lines.map(|line| format!("{}\n", without_times(line))).collect()
}

fn without_times(line: &str) -> String {
    if line.trim_start().starts_with("\"duration_ms\":") {
        return "\"duration_ms\": N,".to_owned();
    }
    let words = line.split(' ').map(|word| {
        let time = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        let is_time = time.len() == 20 && time.ends_with('Z') && time.as_bytes()[10] == b'T';
        if is_time { word.replace(time, "TIME") } else { word.to_owned() }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn same(stand: &Stand, line: &[&str]) {
    let (ours, theirs) = both(stand, line);
    assert_eq!(plain(&ours.stdout), plain(&theirs.stdout), "{line:?}\n{ours}\n{theirs}");
    assert_eq!(plain(&ours.stderr), plain(&theirs.stderr), "{line:?}");
    assert_eq!(ours.code(), theirs.code(), "{line:?}");
}

/// Both refuse alike. The usage that they print is each program's own.
#[track_caller]
fn same_refusal(stand: &Stand, line: &[&str]) {
    let (ours, theirs) = both(stand, line);
    assert_eq!(theirs.code(), 1, "{line:?}: {theirs}");
    assert_eq!(plain(&ours.stderr), plain(&theirs.stderr), "{line:?}");
    assert_eq!(ours.code(), 1, "{line:?}");
}

fn replica_of_litestream() -> (Stand, String) {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    for _ in 0..3 {
        app.commit(10);
        stand.litestream_once();
    }
    let config = stand.litestream_yml("").to_str().unwrap().to_owned();
    (stand, config)
}

#[test]
fn litestream_and_the_link_say_the_same() {
    let (stand, config) = replica_of_litestream();
    let (db, url) = (stand.db().to_str().unwrap().to_owned(), format!("file://{}", stand.place.url()));
    let (db, url, config) = (db.as_str(), url.as_str(), config.as_str());
    std::fs::create_dir(stand.path("empty")).unwrap();
    let empty = format!("file://{}", stand.path("empty").display());
    let empty = empty.as_str();
    for line in [
        &["databases", "-config", config][..],
        &["databases", "-json", "--config", config],
        &["ltx", "-config", config, db],
        &["ltx", "-config", config, "-level", "all", "-json", db],
        &["ltx", "-level=9", url],
        &["ltx", "-json", "file:///nowhere/at/all"],
        &["status", "-config", config],
        &["status", "-json", "-config", config, db],
        &["status", "-config", config, "/nowhere.db"],
        &["restore", "-dry-run", "-o", "dry.db", url],
        &["restore", "-dry-run", "-json", "-config", config, "-o", "dry.db", db],
        &["restore", "-if-db-not-exists", "-config", config, db],
        &["restore", "-if-replica-exists", "-o", "none.db", empty],
        &["restore", "-json", "-force", "-config", config, "-o", "again.db", db],
        &["restore", "-json", "-force", "-txid", "0000000000000002", "-o", "again.db", url],
        &["restore", "-force", "-integrity-check", "full", "-o", "again.db", url],
        &["version"],
    ] {
        same(&stand, line);
    }
    assert!(!stand.path("dry.db").exists() && !stand.path("none.db").exists());
}

/// Litestream begins a new database where the disk of its replica isn't mounted.
#[test]
fn a_folder_that_is_missing_is_no_replica_without_a_backup() {
    let (stand, config) = replica_of_litestream();
    let (db, root) = (stand.db(), stand.place.root());
    let url = format!("file://{}", stand.place.url());
    std::fs::rename(&root, stand.path("away")).unwrap();
    let restore = |more: &[&str]| {
        let line = [&["restore", "-if-replica-exists", "-o", "none.db"], more].concat();
        run("the link", stand.drop_in_command().args(line))
    };
    let by_config = ["-config", &config, db.to_str().unwrap()];
    for by in [&[url.as_str()][..], &by_config] {
        let told = restore(by).exits(1);
        assert!(told.stderr.contains("the folder doesn't exist"), "{told}");
    }
    // This machine noted that the replica was on a disk. What is underneath is an older one, or nothing.
    std::fs::create_dir_all(stand.state()).unwrap();
    let note = stand.state().join("vault-place.json");
    let noted = serde_json::json!({ "format": 1, "folders": [{ "folder": stand.place.url(), "mount": stand.path("no-mount") }] });
    std::fs::write(&note, noted.to_string()).unwrap();
    std::fs::rename(stand.path("away"), &root).unwrap();
    for more in [&[][..], &["-if-replica-exists"]] {
        let line = [&["restore", "-o", "none.db"], more, &by_config].concat();
        let told = run("the link", stand.drop_in_command().args(line)).exits(1);
        assert!(told.stderr.contains("nothing is mounted at"), "{told}");
    }
    assert!(!stand.path("none.db").exists());
    std::fs::remove_file(&note).unwrap();
    std::fs::remove_dir_all(&root).unwrap();
    // The owner made it for the first backup.
    std::fs::create_dir_all(&root).unwrap();
    restore(&[&url]).ok();
    restore(&by_config).ok();
    assert!(!stand.path("none.db").exists());
}

/// Objects of Litestream don't tell which history they belong to.
#[test]
fn a_restore_says_which_objects_can_t_be_proved_to_belong_together() {
    let (stand, _) = replica_of_litestream();
    let url = format!("file://{}", stand.place.url());
    for dry in [&[][..], &["--dry-run"]] {
        let restore = |more: &[&str]| {
            let back = stand.new_file();
            stand.seawall(&[&["restore", &url, "-o", back.to_str().unwrap()], more, dry].concat()).ok()
        };
        let text = restore(&[]);
        assert!(text.stdout.contains("can't be told: ") && text.stdout.contains("of another program"), "{text}");
        let document = restore(&["--json"]).json();
        let doubts = document["doubts"].as_array().unwrap();
        assert!(doubts.iter().any(|doubt| doubt.as_str().unwrap().contains("of another program")), "{document}");
    }
    let told = run("the link", stand.drop_in_command().args(["restore", "-o", "told.db", &url])).ok();
    let warned = |line: &str| line.contains(" WARN ") && line.contains("of another program");
    assert!(told.stderr.lines().any(warned) && told.stdout.is_empty(), "{told}");
    // What is all ours leaves no doubt.
    let ours = Stand::folder(Random::from_env().seed());
    ours.app().commit(3);
    ours.replicate_once();
    let told = run(
        "the link",
        ours.drop_in_command().args(["restore", "-o", "told.db", &format!("file://{}", ours.place.url())]),
    )
    .ok();
    assert_eq!((told.stdout.as_str(), told.stderr.as_str()), ("", ""));
}

#[test]
fn litestream_and_the_link_refuse_the_same() {
    let (stand, config) = replica_of_litestream();
    let (db, url) = (stand.db().to_str().unwrap().to_owned(), format!("file://{}", stand.place.url()));
    let (db, url, config) = (db.as_str(), url.as_str(), config.as_str());
    std::fs::create_dir(stand.path("folder")).unwrap();
    for line in [
        &["frobnicate"][..],
        &["databases", "x", "y"],
        &["databases", "-config", "/nowhere.yml"],
        &["databases", "-bogus"],
        &["databases", "-config"],
        &["databases", "-json=maybe"],
        &["ltx"],
        &["ltx", "-level", "11", url],
        &["ltx", "-config", config, "/nowhere.db"],
        &["ltx", "-config", config, url],
        &["restore"],
        &["restore", url],
        &["restore", url, "-o", "x.db"],
        &["restore", "-o", "folder", url],
        &["restore", "-o", db, url],
        &["restore", "-config", config, "-o", "x.db", url],
        &["restore", "-config", config, "-o", "x.db", "/nowhere.db"],
        &["restore", "-o", "x.db", "file:///nowhere/at/all"],
        &["restore", "-txid", "zz", "-o", "x.db", url],
        &["restore", "-txid", "00000000000000ff", "-o", "x.db", url],
        &["restore", "-timestamp", "yesterday", "-o", "x.db", url],
        &["restore", "-timestamp", "2020-01-01T00:00:00Z", "-o", "x.db", url],
        &["restore", "-f", "-txid", "0000000000000001", "-o", "x.db", url],
        &["restore", "-f", "-dry-run", "-o", "x.db", url],
        &["restore", "-integrity-check", "some", "-o", "x.db", url],
        &["reset"],
        &["reset", "-config", config, "/nowhere.db"],
        &["replicate", db],
        &["replicate", "a", "b", "c"],
        &["replicate", "-force-snapshot", "-config", config],
        &["replicate", "-once", "-exec", "true", "-config", config],
        &["replicate", "-config", "/nowhere.yml"],
    ] {
        same_refusal(&stand, line);
    }
    assert!(!stand.path("x.db").exists());
}

#[test]
fn a_script_written_for_litestream_goes_on_working() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(25);
    let config = stand.litestream_yml("").to_str().unwrap().to_owned();
    let litestream = |line: &[&str]| run("the link", stand.drop_in_command().args(line));
    litestream(&["replicate", "-once", "-config", &config]).ok();
    let committed = app.commit(25);
    // As a service, until it is stopped.
    let mut service = Process::spawn("the link", stand.drop_in_command().args(["replicate", "-config", &config]));
    stand.until_protected(&mut service);
    let status = litestream(&["status", "-config", &config]).ok();
    assert!(status.stdout.contains("  ok  "), "{status}");
    service.stop().ok();
    litestream(&["restore", "-config", &config, "-o", "back.db", stand.db().to_str().unwrap()]).ok();
    assert_eq!(model::check(&stand.path("back.db"), stand.seed), committed);
    let theirs = stand.litestream_restore(&[]);
    assert_eq!(digest::of_file(&theirs), digest::of_file(&stand.path("back.db")));
    litestream(&["replicate", "-config", &config, "-exec", "sh -c 'exit 7'"]).exits(1);
    litestream(&["reset", "-config", &config, stand.db().to_str().unwrap()]).ok();
    assert!(!stand.state().join("state.json").exists());
    litestream(&["replicate", "-once", "-config", &config]).ok();
    assert_eq!(model::check(&stand.restore(), stand.seed), committed);
}

#[test]
fn a_snapshot_is_forced_and_retention_enforced_by_litestreams_flags() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    let config = stand.litestream_yml("").to_str().unwrap().to_owned();
    let once = |more: &[&str]| {
        let mut line = vec!["replicate", "-once", "-config", &config];
        line.extend(more);
        run("the link", stand.drop_in_command().args(line)).ok();
    };
    once(&[]);
    app.commit(5);
    once(&[]);
    let bases = stand.place.files(9);
    assert!(bases.iter().all(|(_, max)| *max < stand.place.newest()), "none of the newest state: {bases:?}");
    let committed = app.commit(5);
    once(&["-force-snapshot"]);
    assert_eq!(stand.place.files(9).last(), Some(&(1, stand.place.newest())));
    // From the complete copy alone.
    std::fs::remove_dir_all(stand.place.level(0)).unwrap();
    stand.place.remove_merged();
    assert_eq!(model::check(&stand.litestream_restore(&[]), stand.seed), committed);
    assert_eq!(model::check(&stand.restore(), stand.seed), committed);
    // Nothing new, nothing more.
    let bases = stand.place.files(9);
    once(&["-force-snapshot", "-enforce-retention"]);
    assert_eq!(stand.place.files(9).last(), Some(&(1, stand.place.newest())));
    assert!(stand.place.files(9).len() <= bases.len() + 1, "the vault lost its log, which is a reason for one base");
    assert_eq!(model::check(&stand.litestream_restore(&[]), stand.seed), committed);
}

#[test]
fn litestreams_follow_flag_keeps_the_position_where_litestream_has_it() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(5);
    let mut seawall = stand.replicate();
    stand.until_protected(&mut seawall);
    let url = format!("file://{}", stand.place.url());
    let line = ["restore", "-f", "-follow-interval", "100ms", "-o", "standby.db", &url];
    let mut follower = Process::spawn("the link", stand.drop_in_command().args(line));
    let position = || std::fs::read_to_string(stand.path("standby.db-txid")).ok();
    for _ in 0..3 {
        app.commit(5);
        let txid = stand.until_protected(&mut seawall);
        wait::until("the position", wait::SOON, || {
            assert!(follower.running());
            (position() == Some(format!("{txid:016x}\n"))).then_some(())
        });
    }
    follower.stop().ok();
    seawall.stop().ok();
    assert_eq!(model::check(&stand.path("standby.db"), stand.seed), app.committed());
}

/// Litestream logs each checkpoint at this level, and some programs look for it.
#[test]
fn a_checkpoint_is_told_in_litestreams_words() {
    let stand = Stand::folder(Random::from_env().seed());
    let config = stand.litestream_yml("logging:\n  level: debug").to_str().unwrap().to_owned();
    let mut app = stand.app();
    app.commit(1);
    let mut service = Process::spawn("the link", stand.drop_in_command().args(["replicate", "-config", &config]));
    app.flood(std::time::Duration::ZERO);
    let line = wait::until("a checkpoint to be told", wait::SOON * 4, || {
        assert!(service.running(), "{}", service.stderr());
        service.stderr().lines().find(|line| line.contains("msg=checkpoint")).map(str::to_owned)
    });
    assert!(line.contains("mode=PASSIVE") && line.contains("DEBUG"), "{line}");
    let committed = app.rest();
    service.stop().ok();
    assert_eq!(model::check(&stand.restore(), stand.seed), committed);
}
