//! `seawall ltx` and the `ltx` program, command by command: with the same arguments, on the same files, each in a
//! folder of its own.
//!
//! Scripts must see the same: the output of a success and the files that it leaves. If one fails, both fail. But our
//! messages differ and go to standard error, and our exit codes 2 and 4 distinguish wrong usage and missing files.
//! Every other difference is a row of its own.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use seawall_tests::{Output, Stand, golden, run};

/// How the two compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Both {
    /// Succeed and print the same.
    Succeed,
    /// Both succeed, with output of their own.
    Differ,
    /// Fail; ours with this code.
    Fail(i32),
    /// Only we succeed.
    Ours,
    /// Only it succeeds; we fail with this code.
    Theirs(i32),
}

/// A folder for each, with the same files in them.
struct Pair {
    stand: Stand,
}

impl Pair {
    fn new(files: &[(&str, &[u8])]) -> Pair {
        let stand = Stand::folder(0);
        for side in ["ours", "theirs"] {
            fs::create_dir(stand.path(side)).unwrap();
            for (name, bytes) in files {
                fs::write(stand.path(side).join(name), bytes).unwrap();
            }
        }
        Pair { stand }
    }

    fn ours(&self, name: &str) -> PathBuf {
        self.stand.path("ours").join(name)
    }

    fn theirs(&self, name: &str) -> PathBuf {
        self.stand.path("theirs").join(name)
    }

    /// Runs both and compares how they end. Returns their outputs.
    fn run(&self, args: &[&str], both: Both) -> (Output, Output) {
        let ours = run("seawall", self.stand.command().arg("ltx").args(args).current_dir(self.stand.path("ours")));
        let theirs = run("ltx", self.stand.ltx_tool_command().args(args).current_dir(self.stand.path("theirs")));
        let said = format!("{args:?}\nours: {ours}\ntheirs: {theirs}");
        let (code, its) = match both {
            Both::Succeed | Both::Differ => (0, 0),
            Both::Fail(code) => (code, 1),
            Both::Ours => (0, 1),
            Both::Theirs(code) => (code, 0),
        };
        assert_eq!((ours.code(), theirs.code()), (code, its), "{said}");
        assert_eq!(ours.stderr.is_empty(), code == 0, "{said}");
        if both == Both::Succeed {
            assert_eq!(ours.stdout, theirs.stdout, "{said}");
        }
        (ours, theirs)
    }

    /// Runs both for each row.
    fn table(&self, rows: &[(&str, Both)]) {
        for (args, both) in rows {
            self.run(&args.split_whitespace().collect::<Vec<_>>(), *both);
        }
    }
}

/// A golden file.
fn file(name: &str) -> Vec<u8> {
    fs::read(golden().join(name)).unwrap()
}

/// A database in rollback mode with a table of `rows` rows.
fn database(path: &Path, rows: u32) -> Vec<u8> {
    let db = Connection::open(path).unwrap();
    db.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, content BLOB)").unwrap();
    db.execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
         INSERT INTO t SELECT i, randomblob(i % 900) FROM n",
        [rows],
    )
    .unwrap();
    drop(db);
    fs::read(path).unwrap()
}

/// Files that are wrong in different ways, and one that is right.
fn good_and_bad() -> Vec<(&'static str, Vec<u8>)> {
    let good = file("snapshot/encode-db-512.ltx");
    vec![
        ("cut.ltx", good[..good.len() - 30].to_vec()),
        ("flipped.ltx", file("bad/literal-flip.ltx")),
        ("text.ltx", b"hello".to_vec()),
        ("empty.ltx", Vec::new()),
        ("good.ltx", good),
    ]
}

fn borrowed<'a>(files: &'a [(&'a str, Vec<u8>)]) -> Vec<(&'a str, &'a [u8])> {
    files.iter().map(|(name, bytes)| (*name, bytes.as_slice())).collect()
}

#[test]
fn apply_as_the_ltx_tool_does() {
    let chain: Vec<_> = (1..=4).map(|n| file(&format!("chain-512/{n:016x}-{n:016x}.ltx"))).collect();
    let bad = file("bad/literal-flip.ltx");
    let pair = Pair::new(&[("1", &chain[0]), ("2", &chain[1]), ("3", &chain[2]), ("4", &chain[3]), ("bad", &bad)]);
    pair.table(&[
        ("apply -db a.db 1", Both::Succeed),
        ("apply -db=a.db 2 3", Both::Succeed),
        ("apply --db a.db 4", Both::Succeed),
        ("apply --db=b.db 1 2 3 4", Both::Succeed),
        ("apply -db a.db 1", Both::Succeed),
        ("apply -db a.db 3", Both::Fail(1)),
        ("apply -db a.db 2", Both::Succeed),
        ("apply -db none.db none", Both::Fail(4)),
        ("apply 1", Both::Fail(2)),
        ("apply -db a.db", Both::Fail(2)),
        ("apply", Both::Fail(2)),
        ("apply -nonsense -db a.db 1", Both::Fail(2)),
    ]);
    for name in ["a.db", "b.db"] {
        assert!(fs::read(pair.ours(name)).unwrap() == fs::read(pair.theirs(name)).unwrap(), "{name}");
    }
    // It has changed the database by then, or made an empty one.
    let before = fs::read(pair.ours("a.db")).unwrap();
    pair.table(&[
        ("apply -db a.db 3 bad", Both::Fail(1)),
        ("apply -db a.db 4 3", Both::Fail(1)),
        ("apply -db new.db 2", Both::Fail(1)),
        ("apply -db new.db bad", Both::Fail(1)),
    ]);
    assert!(fs::read(pair.ours("a.db")).unwrap() == before);
    assert!(!pair.ours("new.db").exists() && pair.theirs("new.db").exists());
    // It can't apply a deletion.
    let last = (5..=14).map(|n| file(&format!("chain-512/{n:016x}-{n:016x}.ltx"))).find(|file| file[12..16] == [0; 4]);
    let gone = last.unwrap();
    for side in [pair.ours("gone"), pair.theirs("gone")] {
        fs::write(side, &gone).unwrap();
    }
    let n = u64::from_be_bytes(*gone[16..].first_chunk().unwrap());
    let mut all: Vec<String> = Vec::new();
    for number in 1..n {
        let bytes = file(&format!("chain-512/{number:016x}-{number:016x}.ltx"));
        fs::write(pair.ours(&format!("c{number}")), &bytes).unwrap();
        fs::write(pair.theirs(&format!("c{number}")), bytes).unwrap();
        all.push(format!("c{number}"));
    }
    pair.run(&format!("apply -db d.db {} gone", all.join(" ")).split(' ').collect::<Vec<_>>(), Both::Ours);
    assert_eq!(fs::metadata(pair.ours("d.db")).unwrap().len(), 0);
}

#[test]
fn checksum_as_the_ltx_tool_does() {
    let stand = Stand::folder(0);
    let db = database(&stand.path("x.db"), 1000);
    let mut no_size = db.clone();
    no_size[16..18].fill(0);
    let pair = Pair::new(&[
        ("x.db", &db),
        ("cut.db", &db[..db.len() - 100]),
        ("short.db", &db[..50]),
        ("no-size.db", &no_size),
        ("empty.db", &[]),
    ]);
    pair.table(&[
        ("checksum x.db", Both::Succeed),
        ("checksum ./x.db", Both::Succeed),
        ("checksum cut.db", Both::Fail(1)),
        ("checksum short.db", Both::Fail(1)),
        ("checksum none.db", Both::Fail(4)),
        ("checksum", Both::Fail(2)),
        ("checksum x.db x.db", Both::Fail(2)),
        // The format has a value for it, which its files carry.
        ("checksum empty.db", Both::Ours),
    ]);
    // It divides by zero.
    let panicked = run("ltx", pair.stand.ltx_tool_command().args(["checksum"]).arg(pair.theirs("no-size.db")));
    assert_eq!(panicked.code(), 2, "{panicked}");
    let refused = run("seawall", pair.stand.command().args(["ltx", "checksum"]).arg(pair.ours("no-size.db")));
    refused.exits(1);
}

#[test]
fn dump_as_the_ltx_tool_does() {
    let files = good_and_bad();
    let pair = Pair::new(&borrowed(&files));
    pair.table(&[
        ("dump good.ltx", Both::Succeed),
        ("dump ./good.ltx", Both::Succeed),
        ("dump none.ltx", Both::Fail(4)),
        ("dump text.ltx", Both::Fail(1)),
        ("dump empty.ltx", Both::Fail(1)),
        ("dump", Both::Fail(2)),
        ("dump good.ltx good.ltx", Both::Fail(2)),
    ]);
    // The content before a defect is printed. After it, `ltx` prints its error.
    for name in ["cut.ltx", "flipped.ltx"] {
        let (ours, theirs) = pair.run(&["dump", name], Both::Fail(1));
        assert!(ours.stdout.lines().count() > 100, "{ours}");
        assert!(theirs.stdout.starts_with(ours.stdout.trim_end()), "{name}\n{ours}\n{theirs}");
    }
}

#[test]
fn encode_db_as_the_ltx_tool_does() {
    let stand = Stand::folder(0);
    let db = database(&stand.path("x.db"), 1000);
    let pair = Pair::new(&[("x.db", &db), ("cut.db", &db[..db.len() / 2]), ("text.db", b"hello"), ("empty.db", b"")]);
    pair.table(&[
        ("encode-db -o 1.ltx x.db", Both::Succeed),
        ("encode-db -o=2.ltx x.db", Both::Succeed),
        ("encode-db --o 3.ltx x.db", Both::Succeed),
        ("encode-db --o=4.ltx ./x.db", Both::Succeed),
        ("encode-db -o 5.ltx none.db", Both::Fail(4)),
        ("encode-db -o 5.ltx text.db", Both::Fail(1)),
        ("encode-db -o 5.ltx empty.db", Both::Fail(1)),
        ("encode-db -o 5.ltx cut.db", Both::Fail(1)),
        ("encode-db -o x.db x.db", Both::Fail(2)),
        ("encode-db x.db", Both::Fail(2)),
        ("encode-db -o 5.ltx", Both::Fail(2)),
        ("encode-db -o 5.ltx x.db x.db", Both::Fail(2)),
        // Seawall takes options after names as options.
        ("encode-db x.db -o 6.ltx", Both::Ours),
    ]);
    for name in ["1.ltx", "2.ltx", "3.ltx", "4.ltx"] {
        let listed = |side: &str| {
            let args = ["ltx", "list", "-tsv"];
            let output = run("seawall", stand.command().args(args).arg(pair.stand.path(side).join(name))).ok();
            // But for the time.
            output.stdout.split('\t').enumerate().filter(|(at, _)| *at != 15).map(|(_, cell)| cell.to_owned()).collect()
        };
        let (ours, theirs): (Vec<String>, Vec<String>) = (listed("ours"), listed("theirs"));
        assert_eq!(ours, theirs, "{name}");
        let mode = |path: PathBuf| std::os::unix::fs::PermissionsExt::mode(&fs::metadata(path).unwrap().permissions());
        assert_eq!(mode(pair.ours(name)), mode(pair.theirs(name)));
    }
    assert!(!pair.ours("5.ltx").exists() && !pair.theirs("5.ltx").exists());
    assert!(fs::read(pair.ours("x.db")).unwrap() == db);
}

#[test]
fn list_as_the_ltx_tool_does() {
    let files = good_and_bad();
    let pair = Pair::new(&borrowed(&files));
    pair.table(&[
        ("list good.ltx", Both::Succeed),
        ("list -tsv good.ltx good.ltx", Both::Succeed),
        ("list --tsv good.ltx", Both::Succeed),
        ("list -tsv=true good.ltx", Both::Succeed),
        ("list", Both::Fail(2)),
        ("list -nonsense good.ltx", Both::Fail(2)),
    ]);
    // The exit code of `ltx` doesn't report bad files. The lines about good files are the same.
    for (args, code) in [
        ("list cut.ltx good.ltx", 1),
        ("list -tsv good.ltx flipped.ltx good.ltx", 1),
        ("list good.ltx text.ltx", 1),
        ("list empty.ltx good.ltx", 1),
        ("list good.ltx none.ltx", 4),
    ] {
        let (ours, theirs) = pair.run(&args.split(' ').collect::<Vec<_>>(), Both::Theirs(code));
        assert_eq!(ours.stdout, theirs.stdout, "{args}");
        assert!(ours.stdout.lines().count() >= 2);
    }
}

#[test]
fn verify_as_the_ltx_tool_does() {
    let files = good_and_bad();
    let pair = Pair::new(&borrowed(&files));
    pair.table(&[
        ("verify good.ltx", Both::Succeed),
        ("verify good.ltx good.ltx", Both::Succeed),
        ("verify", Both::Fail(2)),
    ]);
    for (args, code) in [
        ("verify cut.ltx", 1),
        ("verify good.ltx flipped.ltx", 1),
        ("verify text.ltx empty.ltx good.ltx", 1),
        ("verify good.ltx none.ltx", 4),
    ] {
        let (ours, theirs) = pair.run(&args.split(' ').collect::<Vec<_>>(), Both::Fail(code));
        // Both print the count last. Ours prints the defects on standard error, one line for each file.
        assert_eq!(ours.stdout.lines().last(), theirs.stdout.lines().last(), "{args}");
        let told = ours.stderr.lines().filter(|line| line.starts_with("error[")).count();
        assert_eq!(told, theirs.stdout.lines().count() - 1, "{args}");
    }
}

#[test]
fn other_words_as_the_ltx_tool_has_them() {
    let pair = Pair::new(&[]);
    pair.table(&[("version", Both::Differ), ("nonsense", Both::Fail(2)), ("", Both::Fail(2))]);
    // Help is a success here.
    pair.table(&[("help", Both::Ours), ("-h", Both::Ours), ("verify -h", Both::Ours), ("list -help", Both::Ours)]);
}
