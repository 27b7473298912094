//! Reading without a restore: `seawall query`, and the extension in other programs' SQLite.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rusqlite::Connection;
use seawall_tests::{Output, Random, Stand, extension, run, wait};
use seawall_vault::testing::not_run;
use serde_json::{Value, json};

const ROWS: &str = "SELECT id, version, hex(content) FROM rows ORDER BY id";

fn query(stand: &Stand, arguments: &[&str]) -> Output {
    run("seawall", stand.command().arg("query").args(arguments))
}

/// What a query of a file gives, as `query --json` says it.
fn rows_of(file: &Path, sql: &str) -> Value {
    let database = Connection::open(file).unwrap();
    let mut statement = database.prepare(sql).unwrap();
    let columns = statement.column_count();
    let mut rows = statement.query([]).unwrap();
    let mut all = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        let value = |at| match row.get_ref(at).unwrap() {
            rusqlite::types::ValueRef::Integer(number) => json!(number),
            rusqlite::types::ValueRef::Text(text) => json!(std::str::from_utf8(text).unwrap()),
            other => panic!("{other:?}"),
        };
        all.push(Value::Array((0..columns).map(value).collect()));
    }
    Value::Array(all)
}

fn failed(output: &Output, exit: i32, code: &str) {
    assert!(output.code() == exit && output.stderr.contains(&format!("error[{code}]")), "{code}: {output}");
}

#[test]
fn a_query_answers_as_a_restore_of_the_same_point_does() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    let mut process = stand.replicate();
    app.commit(40);
    let first = format!("{:016x}", stand.until_protected(&mut process));
    app.commit(60);
    stand.until_protected(&mut process);
    process.stop().ok();
    let url = stand.place.url();
    for at in [&first, "latest"] {
        let found = query(&stand, &[&url, ROWS, "--at", at, "--json"]).ok().json();
        assert_eq!(found["rows"], rows_of(&stand.restore_with(&["--at", at]), ROWS), "{at}");
        assert_eq!(found["columns"], json!(["id", "version", "hex(content)"]));
        assert!(at == "latest" || found["point"]["position"] == json!(at), "{found:#}");
    }
    let text = query(&stand, &[&url, "SELECT 1 AS one, NULL AS absent, x'01ff' AS blob, 'a,b' AS text"]).ok().stdout;
    assert!(text.starts_with("one  absent  blob     text\n  1    NULL  x'01ff'  a,b\n\n1 row at "), "{text}");
    let csv = query(&stand, &[&url, "--csv", "SELECT 1 AS one, NULL, '' AS empty, 'a,b' AS text"]).ok().stdout;
    assert_eq!(csv, "one,NULL,empty,text\n1,,\"\",\"a,b\"\n");
    // The database is read-only, and nothing else is opened.
    let other = stand.path("other.db");
    let attach = format!("ATTACH '{}' AS other", other.display());
    let into = format!("VACUUM INTO '{}'", other.display());
    for (sql, code) in [
        ("DELETE FROM rows", "query.read-only"),
        ("CREATE TABLE x(a)", "query.read-only"),
        ("SELECT 1; SELECT 2", "query.sql"),
        ("SELECT * FROM nosuch", "query.sql"),
        ("SELECT ?", "query.sql"),
        ("SELECT load_extension('x')", "query.sql"),
        (attach.as_str(), "query.sql"),
        (into.as_str(), "query.sql"),
    ] {
        failed(&query(&stand, &[&url, sql]), 2, code);
    }
    assert!(!other.exists());
    failed(&query(&stand, &[&url, "SELECT 1", "--at", "00000000000000ff"]), 1, "sqlite.unreachable");
    let both = query(&stand, &[&url, "SELECT 1", "--csv", "--json"]).exits(2);
    assert_eq!(both.json()["error"]["code"], "usage.arguments");
}

#[test]
fn what_is_no_sqlite_database_is_refused() {
    let stand = Stand::folder(Random::from_env().seed());
    let empty = stand.path("empty");
    fs::create_dir(&empty).unwrap();
    failed(&query(&stand, &[empty.to_str().unwrap(), "SELECT 1"]), 4, "sqlite.nothing-there");
    let vault = stand.path("sets");
    fs::create_dir_all(vault.join("sets/20261121T101112000Z-0000000a")).unwrap();
    fs::write(vault.join("sets/20261121T101112000Z-0000000a/manifest.json"), "{}").unwrap();
    let said = query(&stand, &[vault.to_str().unwrap(), "SELECT 1"]);
    assert!(said.code() != 0, "{said}");
}

/// A schema that does what it can when it is read.
#[test]
fn a_hostile_schema_runs_nothing_of_its_own() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(3);
    app.sql("CREATE VIEW big AS SELECT zeroblob(900000000) AS b");
    app.sql("CREATE VIEW trap AS SELECT load_extension('/nosuch') AS b");
    stand.replicate_once();
    let url = stand.place.url();
    failed(&query(&stand, &[&url, "SELECT length(hex(b)) FROM big"]), 1, "query.too-large");
    failed(&query(&stand, &[&url, "SELECT * FROM trap"]), 2, "query.sql");
    // What is counted is what is printed: texts without a letter, and a column that is as wide as its widest cell.
    for endless in ["''", "iif(x = 1, printf('%60000d', 1), 'a')"] {
        let sql = format!("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT {endless} FROM c");
        failed(&query(&stand, &[&url, &sql]), 1, "query.too-large");
        let told = query(&stand, &[&url, &sql, "--json"]).exits(1);
        assert!(told.to_string().contains("\"code\": \"query.too-large\""), "{told}");
    }
    query(&stand, &[&url, "SELECT count(*) FROM rows"]).ok();
}

#[test]
fn a_database_that_litestream_wrote_is_read() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(20);
    stand.litestream_once();
    app.commit(30);
    stand.litestream_once();
    let found = query(&stand, &[&stand.place.url(), ROWS, "--json"]).ok().json();
    assert_eq!(found["rows"], rows_of(&stand.litestream_restore(&[]), ROWS));
}

#[test]
fn a_bucket_on_s3_is_read_with_few_requests() {
    let stand = Stand::bucket(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(50);
    stand.replicate_once();
    let found = query(&stand, &[&stand.place.url(), ROWS, "--json"]).ok().json();
    assert_eq!(found["rows"], rows_of(&stand.restore(), ROWS));
}

/// An encrypted vault with a database in it, and the owner's key.
fn encrypted() -> (Stand, PathBuf) {
    let stand = Stand::folder(Random::from_env().seed());
    let key = stand.path("owner.key");
    let made = ["vault", "init", &stand.place.url(), "--generate", "-o", key.to_str().unwrap(), "--json"];
    let made = stand.seawall(&made).ok().json();
    let public = made["recipients"][0].as_str().unwrap().to_owned();
    stand.app().commit(30);
    stand.replicate_with(&["--recipient", &public, "--once"]).wait(wait::SOON * 4).ok();
    (stand, key)
}

#[test]
fn an_encrypted_vault_is_read_with_its_key() {
    let (stand, key) = encrypted();
    let (url, key) = (stand.place.url(), key.to_str().unwrap());
    let found = query(&stand, &[&url, ROWS, "--json", "--identity", key]).ok().json();
    assert_eq!(found["rows"], rows_of(&stand.restore_with(&["--identity", key]), ROWS));
    assert!(query(&stand, &[&url, "SELECT 1"]).code() != 0);
    let Some(shell) = shell() else { return };
    let uri = format!("file:app.db?vfs=seawall&vault={url}&identity={key}");
    assert_eq!(
        in_shell(&shell, &uri, "SELECT count(*) FROM rows;").trim(),
        found["rows"].as_array().unwrap().len().to_string()
    );
}

/// SQLite's shell, if this machine has it.
fn shell() -> Option<PathBuf> {
    tool("sqlite3")
}

fn tool(name: &str) -> Option<PathBuf> {
    let found =
        ["/usr/bin", "/usr/local/bin"].iter().map(|folder| Path::new(folder).join(name)).find(|file| file.is_file());
    if found.is_none() {
        not_run("the extension", &format!("there is no {name}"));
    }
    found
}

/// What the shell prints for statements on a database that the extension opens.
fn in_shell(shell: &Path, uri: &str, sql: &str) -> String {
    let script = format!(".load {}\n.open '{uri}'\n{sql}\n", extension().display());
    let mut command = Command::new(shell);
    command
        .arg("-batch")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), script.as_bytes()).unwrap();
    let done = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&done.stdout) + &text(&done.stderr)
}

#[test]
fn the_shell_of_sqlite_reads_a_vault() {
    let Some(shell) = shell() else { return };
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    let mut process = stand.replicate();
    app.commit(40);
    let first = format!("{:016x}", stand.until_protected(&mut process));
    app.commit(60);
    let newest = format!("{:016x}", stand.until_protected(&mut process));
    process.stop().ok();
    let url = stand.place.url();
    let count = |at: &str| rows_of(&stand.restore_with(&["--at", at]), "SELECT count(*) FROM rows")[0][0].to_string();
    let (then, now) = (count(&first), count("latest"));
    for vfs in ["seawall", "litestream"] {
        let uri = format!("file:app.db?vfs={vfs}&{}={url}", if vfs == "seawall" { "vault" } else { "replica_url" });
        let sql = format!(
            "SELECT count(*) FROM rows; PRAGMA integrity_check; PRAGMA {vfs}_txid; SELECT {vfs}_txid(), {vfs}_lag(), {vfs}_time();
             PRAGMA {vfs}_time = '{first}'; SELECT count(*) FROM rows; SELECT {vfs}_txid();
             SELECT {vfs}_set_time('latest'); SELECT count(*) FROM rows; PRAGMA {vfs}_write_enabled; PRAGMA journal_mode;
             CREATE TEMP TABLE x AS SELECT * FROM rows; SELECT count(*) FROM temp.x;"
        );
        let told = in_shell(&shell, &uri, &sql);
        let expected = [
            &now,
            "ok",
            &newest,
            &format!("{newest}|0|latest"),
            &first,
            &then,
            &first,
            "latest",
            &now,
            "0",
            "delete",
            &now,
        ];
        assert_eq!(told.lines().collect::<Vec<_>>(), expected, "{vfs}");
        let told = in_shell(&shell, &uri, "DELETE FROM rows;");
        assert!(told.contains("readonly database"), "{told}");
    }
    for (uri, says) in [
        ("file:app.db?vfs=seawall", "view.no-vault"),
        ("file:app.db?vfs=seawall&vault=/nosuch/folder", "next:"),
        ("file:app.db?vfs=seawall&vault=/tmp&cache_size=1", "view.setting"),
        ("file:app.db?vfs=seawall&vault=/tmp&write_enabled=true", "view.read-only"),
    ] {
        let told = in_shell(&shell, uri, "SELECT 1 FROM sqlite_schema;");
        assert!(told.contains(says), "{uri}: {told}");
    }
    let told = in_shell(&shell, "file:x?mode=memory", "SELECT seawall_txid();");
    assert!(told.contains("no view of a vault"), "{told}");
}

const FOLLOW: &str = r#"
import sqlite3, sys, time
extension, uri = sys.argv[1:]
loader = sqlite3.connect(":memory:")
loader.enable_load_extension(True)
loader.load_extension(extension)
view = sqlite3.connect(uri, uri=True, isolation_level=None)
print(view.execute("SELECT commits FROM progress").fetchone()[0], flush=True)
held = sqlite3.connect(uri, uri=True, isolation_level=None)
held.execute("BEGIN")
first = held.execute("SELECT commits FROM progress").fetchone()[0]
for line in sys.stdin:
    wanted, end = int(line), time.monotonic() + 30
    while True:
        found = view.execute("SELECT commits FROM progress").fetchone()[0]
        if found >= wanted or time.monotonic() > end:
            break
        time.sleep(0.02)
    assert held.execute("SELECT commits FROM progress").fetchone()[0] == first, "a transaction keeps its state"
    assert view.execute("PRAGMA quick_check").fetchone()[0] == "ok"
    print(found, view.execute("SELECT seawall_lag()").fetchone()[0] <= 2, flush=True)
held.execute("COMMIT")
print(held.execute("SELECT commits FROM progress").fetchone()[0] == found)
"#;

#[test]
fn python_follows_a_vault_while_it_is_written() {
    let Some(python) = tool("python3") else { return };
    let probe = "import sqlite3; sqlite3.connect(':memory:').enable_load_extension(True)";
    if !Command::new(&python).args(["-c", probe]).output().unwrap().status.success() {
        return not_run("the extension in Python", "this Python loads no extensions");
    }
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    let mut process = stand.replicate();
    app.commit(10);
    stand.until_protected(&mut process);
    let uri = format!("file:app.db?vfs=seawall&vault={}&poll_interval=100ms", stand.place.url());
    let mut command = Command::new(&python);
    command.args(["-c", FOLLOW]).arg(extension()).arg(&uri);
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let mut next = || lines.next().expect("a line").unwrap();
    assert!(next().parse::<u64>().unwrap() >= 10);
    for _ in 0..5 {
        app.commit(5);
        stand.until_protected(&mut process);
        let wanted = app.committed();
        let stdin = child.stdin.as_mut().unwrap();
        std::io::Write::write_all(stdin, format!("{wanted}\n").as_bytes()).unwrap();
        assert_eq!(next(), format!("{wanted} True"));
    }
    drop(child.stdin.take());
    assert_eq!(next(), "True");
    assert!(child.wait().unwrap().success());
    process.stop().ok();
}
