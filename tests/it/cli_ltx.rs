//! `seawall ltx` alone: exit codes, output of errors, JSON, the WAL, URLs.

use std::fs;
use std::path::Path;
use std::process::Command;

use seawall_tests::{Output, Random, Stand, digest, golden, run, seawall, terminal};

fn ltx(stand: &Stand, args: &[&str]) -> Output {
    run("seawall", stand.command().arg("ltx").args(args))
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn file(name: &str) -> String {
    text(&golden().join(name)).to_owned()
}

#[test]
fn bad_files_fail_a_command_whatever_it_is() {
    let stand = Stand::folder(0);
    let (good, bad) = (file("snapshot/encode-db-512.ltx"), file("bad/literal-flip.ltx"));
    for (args, code) in [
        (&["verify", &good][..], 0),
        (&["verify", &bad], 1),
        (&["verify", &good, &bad], 1),
        (&["verify", &good, "none.ltx"], 4),
        (&["list", &good], 0),
        (&["list", &good, &bad], 1),
        (&["dump", &bad], 1),
        (&["info", &good], 0),
        (&["info", "none.ltx"], 4),
        (&["apply", "-db", "new.db", &bad], 1),
        (&["decode", "-o", "new.db", &bad], 1),
        (&["checksum", "none.db"], 4),
        (&["checksum"], 2),
        (&["apply", &good], 2),
        (&["nonsense"], 2),
        (&["version"], 0),
    ] {
        let output = ltx(&stand, args).exits(code);
        assert_eq!(output.stderr.is_empty(), code == 0, "errors go to standard error: {output}");
        let listed = args.first().is_some_and(|command| ["list", "dump", "verify"].contains(command));
        assert!(code == 0 || listed || output.stdout.is_empty(), "{output}");
    }
    assert!(!stand.path("new.db").exists());
    let output = ltx(&stand, &["verify", &good, &bad]);
    assert!(output.stdout == "1 ok, 1 invalid\n" && output.stderr.contains("error[ltx.checksum]"), "{output}");
}

#[test]
fn every_command_speaks_json() {
    let stand = Stand::folder(0);
    let snapshot = file("chain-512/0000000000000001-0000000000000001.ltx");
    let next = file("chain-512/0000000000000002-0000000000000002.ltx");
    ltx(&stand, &["decode", "-o", "a.db", &snapshot]).ok();
    for args in [
        &["apply", "-db", "a.db", &next, "--json"][..],
        &["checksum", "-json", "a.db"],
        &["checksum", "--pages", "--json", "a.db"],
        &["compact", "-o", "c.ltx", &snapshot, &next, "--json"],
        &["decode", "-o", "d.db", "c.ltx", "--json"],
        &["diff", "a.db", "d.db", "--json"],
        &["dump", &next, "--json"],
        &["encode-db", "-o", "e.ltx", "d.db", "--json"],
        &["info", &next, "--json"],
        &["list", &next, "--json"],
        &["verify", &next, "--json"],
        &["version", "--json"],
    ] {
        let output = ltx(&stand, args).ok();
        assert!(!output.json().is_null() && output.stderr.is_empty(), "{output}");
    }
    let checksum = ltx(&stand, &["checksum", "--json", "a.db"]).json();
    assert_eq!(checksum["checksum"], "a7a71522725a852c");
    let info = ltx(&stand, &["info", "--json", &next]).json();
    assert_eq!((&info[0]["min_txid"], &info[0]["pages"]), (&"0000000000000002".into(), &4.into()));
    let failed = ltx(&stand, &["verify", "--json", &file("bad/magic.ltx")]).exits(1);
    assert_eq!(failed.json()["failures"][0]["code"], "ltx.header");
    let failed = ltx(&stand, &["checksum", "--json", "none.db"]).exits(4);
    assert_eq!(failed.json()["error"]["code"], "ltx.not-found");
}

#[test]
fn what_stands_in_the_wal_of_a_live_database_is_encoded() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.sql("PRAGMA wal_autocheckpoint = 0");
    app.commit(300);
    let wal = fs::read(stand.path("app.db-wal")).unwrap();
    ltx(&stand, &["encode-db", "-o", "x.ltx", "app.db"]).ok();
    assert!(fs::read(stand.path("app.db-wal")).unwrap() == wal, "the WAL was touched");
    ltx(&stand, &["decode", "-o", "back.db", "x.ltx"]).ok();
    assert_eq!(digest::of(&stand.path("back.db")), digest::of(&stand.db()));
    // While the application keeps writing.
    app.flood(std::time::Duration::ZERO);
    for round in 0..5 {
        ltx(&stand, &["encode-db", "-o", "x.ltx", "app.db"]).ok();
        let back = format!("back-{round}.db");
        ltx(&stand, &["decode", "-o", &back, "x.ltx"]).ok();
        let db = digest::open(&stand.path(&back));
        digest::check_integrity(&db, &stand.path(&back));
    }
    app.rest();
    let output = ltx(&stand, &["checksum", "app.db"]).ok();
    assert!(output.stderr.contains("--wal"), "{output}");
}

#[test]
fn a_file_is_compared_however_its_path_is_written() {
    let stand = Stand::folder(0);
    fs::create_dir(stand.path("a")).unwrap();
    fs::copy(file("snapshot/encode-db-512.ltx"), stand.path("x.ltx")).unwrap();
    let absolute = format!("file://{}", text(&stand.path("a/../x.ltx")));
    for path in ["x.ltx", "./x.ltx", "a/../x.ltx", "a/.././x.ltx", &absolute] {
        let output = ltx(&stand, &["verify", "--strong", path]).exits(3);
        assert_eq!((&*output.stderr, output.stdout.lines().next()), ("", Some("ok")), "{output}");
        assert!(output.stdout.contains("no BLAKE3 was kept beside it"), "{output}");
    }
}

/// How large the database of the next test may become.
const MOST_MIB: u64 = 4096;

#[test]
fn progress_is_shown_on_a_terminal_and_nowhere_else() {
    let stand = Stand::folder(0);
    ltx(&stand, &["decode", "-o", "big.db", &file("snapshot/encode-db-4096.ltx")]).ok();
    let checksum = |args: &[&str]| {
        let mut command = stand.command();
        command.args(["ltx", "checksum", "big.db"]).args(args);
        command
    };
    // A bar is drawn ten times a second: the database grows until reading it takes that long.
    let (mut mib, mut moved) = (64, false);
    while !moved && mib <= MOST_MIB {
        fs::File::options().write(true).open(stand.path("big.db")).unwrap().set_len(mib << 20).unwrap();
        let plain = run("seawall", &mut checksum(&[])).ok();
        assert_eq!(plain.stderr, "", "not to a file");
        let shown = terminal::run("seawall", &mut checksum(&[])).ok();
        assert_eq!(shown.stdout, plain.stdout);
        let total = if mib < 1024 { format!("/{mib}.00 MiB") } else { format!("/{}.00 GiB", mib >> 10) };
        let amounts = || shown.stderr.match_indices(&total).map(|(at, _)| &shown.stderr[..at]);
        assert!(amounts().count() > 0 && shown.stderr.contains("checksum"), "no bar of {total}: {shown}");
        moved = amounts().any(|before| !before.ends_with(" 0 B"));
        let (_, last) = shown.stderr.rsplit_once(&total).unwrap();
        assert!(last.contains("\x1b[2K"), "the bar is left on the screen: {:?}", shown.stderr);
        mib *= 2;
    }
    assert!(moved, "the bar stood still");
    assert_eq!(terminal::run("seawall", &mut checksum(&["--json"])).ok().stderr, "", "programs get none");
}

#[test]
fn lines_and_a_bar_do_not_share_a_screen() {
    let stand = Stand::folder(0);
    ltx(&stand, &["decode", "-o", "a.db", &file("snapshot/encode-db-4096.ltx")]).ok();
    let pages = ltx(&stand, &["checksum", "--pages", "a.db"]).ok().stdout;
    let shown = terminal::run("seawall", stand.command().args(["ltx", "checksum", "--pages", "a.db"])).ok();
    assert!(shown.stdout == pages && shown.stderr.contains("checksum"), "{shown}");
    let mut both = Command::new("sh");
    both.args(["-c", "exec \"$0\" ltx checksum --pages \"$1\" >&2"]).args([seawall(), stand.path("a.db")]);
    assert_eq!(terminal::run("seawall", &mut both).ok().stderr.replace("\r\n", "\n"), pages);
}

#[test]
fn a_terminal_that_went_away_changes_nothing() {
    let stand = Stand::folder(0);
    let (good, bad) = (file("snapshot/encode-db-512.ltx"), file("bad/literal-flip.ltx"));
    for (args, code) in
        [(&["verify", &good][..], 0), (&["verify", &good, &bad], 1), (&["decode", "-o", "x.db", &good], 0)]
    {
        let run = terminal::run_on_a_closed_one("seawall", stand.command().arg("ltx").args(args)).exits(code);
        assert_eq!(run.stdout, ltx(&stand, &[args, &["--force"][..usize::from(args[0] == "decode")]].concat()).stdout);
    }
    let shown = terminal::run("seawall", stand.command().args(["ltx", "verify", &bad])).exits(1);
    assert!(shown.stderr.contains("error[ltx.checksum]"), "{shown}");
}

#[test]
fn differences_are_told_by_page() {
    let stand = Stand::folder(0);
    ltx(&stand, &["decode", "-o", "a.db", &file("snapshot/encode-db-512.ltx")]).ok();
    let mut bytes = fs::read(stand.path("a.db")).unwrap();
    bytes[512 * 4 + 9] ^= 1;
    bytes[512 * 5 + 9] ^= 1;
    bytes[512 * 8 + 9] ^= 1;
    bytes.extend_from_slice(&[0; 512]);
    fs::write(stand.path("b.db"), &bytes).unwrap();
    let output = ltx(&stand, &["diff", "a.db", "b.db"]).exits(1);
    let pages = bytes.len() / 512;
    assert_eq!(output.stdout, format!("pages 5 to 6: content\npage 9: content\npage {pages}: only in b.db\n"));
    let same = ltx(&stand, &["diff", "a.db", &file("snapshot/encode-db-512.ltx")]).ok();
    assert_eq!(same.stdout, "");
    // What no database checksum can see: two pages that were swapped.
    let mut swapped = fs::read(stand.path("a.db")).unwrap();
    let (left, right) = swapped.split_at_mut(512 * 4);
    left[512..1024].swap_with_slice(&mut right[..512]);
    fs::write(stand.path("c.db"), swapped).unwrap();
    let sum = |name| ltx(&stand, &["checksum", name]).ok().stdout;
    assert_eq!(sum("a.db"), sum("c.db"));
    assert_eq!(ltx(&stand, &["diff", "a.db", "c.db"]).exits(1).stdout, "page 2: content\npage 5: content\n");
    let each = |name| ltx(&stand, &["checksum", "--pages", name]).ok().stdout;
    assert_ne!(each("a.db"), each("c.db"));
}

#[test]
fn an_existing_file_is_not_decoded_over() {
    let stand = Stand::folder(0);
    let snapshot = file("snapshot/encode-db-512.ltx");
    fs::write(stand.path("a.db"), "mine").unwrap();
    ltx(&stand, &["decode", "-o", "a.db", &snapshot]).exits(1);
    assert_eq!(fs::read(stand.path("a.db")).unwrap(), b"mine");
    ltx(&stand, &["decode", "-o", "a.db", "--force", &snapshot]).ok();
    assert!(fs::metadata(stand.path("a.db")).unwrap().len() > 512);
}

#[test]
fn files_are_read_from_a_folder_and_by_url() {
    urls(&Stand::folder(Random::from_env().seed()));
}

#[test]
fn files_are_read_from_s3() {
    urls(&Stand::bucket(Random::from_env().seed()));
}

fn urls(stand: &Stand) {
    let mut app = stand.app();
    app.commit(50);
    stand.replicate_once();
    let (folder, query) = match stand.place.url() {
        url if url.contains("://") => {
            let (base, query) = url.split_once('?').unwrap();
            (format!("{base}/0009"), format!("?{query}"))
        }
        path => (format!("file://{path}/ltx/9"), String::new()),
    };
    let listed = ltx(stand, &["list", "--json", &format!("{folder}{query}")]).ok().json();
    assert_eq!(listed["files"].as_array().unwrap().len(), 1, "{listed}");
    let name = seawall_tests::file_name(1, 1);
    let url = format!("{folder}/{name}{query}");
    assert_eq!(ltx(stand, &["verify", &url]).ok().stdout, "ok\n");
    ltx(stand, &["decode", "-o", "back.db", &url]).ok();
    // The same result as for the object's file, with either way of reading.
    let object = stand.place.object(9, 1, 1);
    let said = |args: &[&str]| {
        let mut document = ltx(stand, args).ok().json();
        let files = document.as_array_mut().unwrap();
        files[0].as_object_mut().unwrap().remove("file");
        files[0].take()
    };
    assert_eq!(said(&["info", "--json", &url]), said(&["info", "--json", text(&object)]));
    let whole = fs::read(&object).unwrap();
    for end in [50, whole.len() / 2, whole.len() - 1] {
        fs::write(&object, &whole[..end]).unwrap();
        let code = |of: &str| {
            let output = ltx(stand, &["verify", "--json", of]).exits(1).json();
            output["failures"][0]["code"].as_str().unwrap().to_owned()
        };
        assert_eq!(code(&url), code(text(&object)), "cut at {end}");
    }
    fs::write(&object, &whole).unwrap();
    ltx(stand, &["verify", &format!("{folder}/{}{query}", seawall_tests::file_name(7, 7))]).exits(4);
}
