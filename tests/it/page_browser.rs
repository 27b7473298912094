//! The page in a real Chromium, which `tests/browser/page.py` drives. `SEAWALL_PICTURES=FOLDER` keeps the pictures that it makes: those of
//! the documentation are in `docs/pictures`.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rusqlite::Connection;
use seawall_tests::{App, Process, Stand, ask_host, model, peer, playwright, wait};
use serde_json::json;

const TOKEN: &str = "a-token-of-some-length";

/// Ends the script if the test fails.
struct Script(Child);

impl Drop for Script {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(stand: &Stand, file: &str, text: &str) -> (Process, String) {
    std::fs::write(stand.path(file), text).unwrap();
    let mut process = Process::spawn("seawall", stand.command().args(["replicate", "--config", file]));
    let address = wait::until("the page to listen", wait::SOON * 2, || {
        assert!(process.running(), "seawall ended by itself");
        let log = process.stderr();
        let line = log.lines().find(|line| line.contains("page: listening"))?;
        let port = line.split("127.0.0.1:").nth(1)?.chars().take_while(char::is_ascii_digit).collect::<String>();
        Some(format!("127.0.0.1:{port}"))
    });
    (process, address)
}

/// Databases of some sizes, and one whose vault can't be written.
fn databases(stand: &Stand, vault: &Path) -> String {
    std::fs::write(stand.path("no-folder"), "").unwrap();
    let mut text = String::new();
    for (name, rows) in [("blog", 300), ("crm", 20_000), ("metrics", 4_000), ("billing", 10)] {
        let file = stand.path(&format!("{name}.db"));
        let database = Connection::open(&file).unwrap();
        database
            .execute_batch(&format!(
                "PRAGMA journal_mode=WAL; CREATE TABLE t(a, b); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<{rows})
                 INSERT INTO t SELECT i, printf('%064d', i) FROM n;"
            ))
            .unwrap();
        let vault = if name == "billing" { stand.path("no-folder/vault") } else { vault.join(name) };
        text += &format!("  - {{ path: {}, vault: {} }}\n", file.display(), vault.display());
    }
    text
}

/// A folder with so many small databases.
fn many(stand: &Stand, count: usize) -> PathBuf {
    let folder = stand.path("tenants");
    std::fs::create_dir(&folder).unwrap();
    let first = folder.join("tenant-0000.db");
    let database = Connection::open(&first).unwrap();
    database.execute_batch("PRAGMA journal_mode=WAL; CREATE TABLE t(a); INSERT INTO t VALUES (1);").unwrap();
    database.close().unwrap();
    for number in 1..count {
        std::fs::copy(&first, folder.join(format!("tenant-{number:04}.db"))).unwrap();
    }
    folder
}

#[test]
fn the_page_in_a_real_browser() {
    let stand = Stand::folder(7);
    let vault = stand.path("vault");
    let mut app = App::start(&stand.path("shop.db"), stand.seed);
    app.commit(5);
    let text = format!(
        "web: {{ listen: '127.0.0.1:0', token: {TOKEN}, actions: true }}\nsocket: {{ path: s.sock }}\nlogging: {{ type: json }}\n\
         databases:\n  - {{ path: shop.db, vault: {} }}\n{}",
        vault.join("shop").display(),
        databases(&stand, &vault)
    );
    let (mut seawall, address) = start(&stand, "seawall.yml", &text);
    let newest = || {
        stand.seawall(&["sync", "shop", "--wait"]).ok();
        let status = stand.seawall(&["status", "shop.db", "--json"]).ok().json();
        status[0]["protected"]["position"].as_str().unwrap().to_owned()
    };
    wait::until("shop to be protected", wait::SOON, || {
        (stand.seawall(&["sync", "shop", "--wait"]).code() == 0).then_some(())
    });
    let at = newest();
    app.commit(4);
    newest();

    let folder = many(&stand, 2000);
    let text = format!(
        "web: 127.0.0.1:0\nlogging: {{ type: json }}\ndatabases:\n  - dir: {}\n    pattern: '*.db'\n    vault: {}\n",
        folder.display(),
        stand.path("vaults").display()
    );
    let (mut tenants, many) = start(&stand, "many.yml", &text);
    wait::until("the 2,000 databases", wait::SOON * 4, || {
        let (status, _, body) = ask_host((&many, "localhost"), "GET", "/", "", "");
        (status == 200 && body.contains("1 to 100 of 2000")).then_some(())
    });

    let pictures = std::env::var_os("SEAWALL_PICTURES").map_or_else(|| stand.path("pictures"), PathBuf::from);
    std::fs::create_dir_all(&pictures).unwrap();
    let pictures = std::fs::canonicalize(pictures).unwrap();
    let given = json!({
        "chromium": peer("chromium"), "address": address, "token": TOKEN, "many": many, "at": at, "pictures": pictures,
        "folder": stand.path("").to_str().unwrap().trim_end_matches('/'),
    });
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/browser/page.py");
    let child = Command::new("python3")
        .arg(script)
        .arg(given.to_string())
        .env("PYTHONPATH", playwright())
        .env("HOME", stand.path(""))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut script = Script(child);
    let (mut answers, questions) = (script.0.stdin.take().unwrap(), script.0.stdout.take().unwrap());
    for line in BufReader::new(questions).lines() {
        match line.unwrap().as_str() {
            "commit" => {
                app.commit(1);
                writeln!(answers, "{}", newest()).unwrap();
            }
            note => eprintln!("{note}"),
        }
    }
    assert!(script.0.wait().unwrap().success(), "the script tells what is wrong");
    assert_eq!(model::check(&stand.path("shop-restored.db"), stand.seed), 5);
    let timeline = stand.seawall(&["timeline", "shop", "--json"]).ok().json();
    assert_eq!(timeline["proofs"].as_array().unwrap().len(), 1, "{timeline}");
    tenants.stop().ok();
    seawall.kill_9();
}
