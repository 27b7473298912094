//! `seawall backup`, `timeline`, `verify` and `restore --to` on a real MariaDB server, by the command line alone.

use std::time::Duration;

use seawall_tests::{Output, Process, Stand, wait};
use serde_json::Value;

#[path = "../../crates/mysql/tests/it/server.rs"]
#[expect(dead_code, reason = "the engine's own tests use all of it")]
pub(crate) mod server;
use server::Server;

/// A server whose database `shop` has about `rows` rows of 600 bytes, a key, an index, a foreign key, a view and a trigger.
fn shop(rows: u32) -> Server {
    let server = Server::start();
    server.sql(&format!(
        "CREATE DATABASE shop CHARACTER SET utf8mb4; USE shop; \
         CREATE TABLE big (id int PRIMARY KEY, filler text, KEY (filler(20))); \
         INSERT INTO big SELECT seq, repeat(md5(seq), 18) FROM seq_1_to_{rows}; \
         CREATE TABLE small (id int AUTO_INCREMENT PRIMARY KEY, big int, FOREIGN KEY (big) REFERENCES big (id)); \
         INSERT INTO small (big) SELECT id FROM big ORDER BY id LIMIT 100; \
         CREATE VIEW first AS SELECT * FROM big WHERE id < 10; \
         CREATE TRIGGER before_small BEFORE INSERT ON small FOR EACH ROW SET NEW.big = 1"
    ));
    server
}

/// The content of a database: its rows, and the definitions of its objects.
fn content(server: &Server, database: &str) -> String {
    let sql = format!(
        "SELECT count(*), sum(crc32(concat(id, filler))) FROM {database}.big; \
         SELECT count(*), sum(crc32(concat(id, '-', big))) FROM {database}.small; \
         SHOW CREATE TABLE {database}.big; SHOW CREATE TABLE {database}.small; \
         SELECT count(*) FROM {database}.first; \
         SELECT trigger_name, action_statement FROM information_schema.triggers WHERE trigger_schema = '{database}'"
    );
    server.sql(&sql)
}

/// The databases that are neither the server's own nor the source.
fn others(server: &Server) -> String {
    server.sql(
        "SELECT coalesce(group_concat(schema_name), '') FROM information_schema.schemata \
         WHERE schema_name NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema', 'shop')",
    )
}

/// One job and little memory: many small chunks, so that there is much to interrupt.
const SLOWLY: [&str; 4] = ["--jobs", "1", "--memory", "24MB"];

fn end(mut process: Process) -> Output {
    process.wait(Duration::from_secs(120))
}

#[test]
fn mysql_there_and_back_by_the_command_line() {
    let (stand, server) = (Stand::folder(1), shop(5_000));
    let (source, vault) = (server.url("shop"), stand.place.url());
    let made = stand.seawall(&["backup", &source, &vault, "--json"]).ok().json();
    assert_eq!((made["engine"].as_str(), made["totals"]["rows"].as_u64()), (Some("mysql"), Some(5_100)), "{made}");
    let said = stand.seawall(&["backup", &source, &vault, "--compression", "lz4"]).ok();
    assert!(said.stdout.contains("5100 rows"), "{said}");

    let timeline = stand.seawall(&["timeline", &vault, "--json"]).ok().json();
    assert_eq!(timeline["spans"].as_array().map(Vec::len), Some(2), "{timeline}");
    let verified = stand.seawall(&["verify", &vault, "--json"]).ok().json();
    assert_eq!(verified["findings"], Value::Array(vec![]), "{verified}");

    let target = server.url("copy");
    stand.seawall(&["restore", &vault, "--to", &target, "--dry-run"]).ok();
    assert_eq!(others(&server), "", "a dry run makes nothing");
    let id = made["id"].as_str().expect("an identity");
    let back = stand.seawall(&["restore", &vault, "--to", &target, "--at", id, "--json"]).ok().json();
    assert_eq!((back["set"]["id"].as_str(), &back["resumed"]), (Some(id), &Value::Bool(false)), "{back}");
    assert_eq!(content(&server, "copy"), content(&server, "shop").replace("`shop`", "`copy`"));
    assert_eq!(others(&server), "copy", "nothing of ours stays");

    let refused = stand.seawall(&["restore", &vault, "--to", &target]).exits(1);
    assert!(refused.stderr.contains("error[mysql.not-ready]"), "{refused}");
    server.sql("DROP TABLE copy.small; CREATE TABLE copy.another (a int)");
    stand.seawall(&["restore", &vault, "--to", &target, "--clean"]).ok();
    assert_eq!(content(&server, "copy"), content(&server, "shop"));
    assert_eq!(server.sql("SELECT count(*) FROM information_schema.tables WHERE table_name = 'another'"), "0");
}

/// A period that counts transactions means nothing on another server, and this server shows no character beyond U+FFFF in a
/// default: people are told of both where they are lost.
#[test]
fn what_a_set_of_mysql_has_not_is_told_to_people() {
    let (stand, server) = (Stand::folder(1), Server::start());
    server.sql(
        "CREATE DATABASE shop CHARACTER SET utf8mb4; USE shop; \
         CREATE TABLE kept (id int PRIMARY KEY, v varchar(9) DEFAULT _utf8mb4 x'F09F9880'); \
         CREATE TABLE past (id int PRIMARY KEY, v int, \
           since bigint unsigned GENERATED ALWAYS AS ROW START, until bigint unsigned GENERATED ALWAYS AS ROW END, \
           PERIOD FOR SYSTEM_TIME (since, until)) ENGINE = InnoDB WITH SYSTEM VERSIONING; \
         INSERT INTO past (id, v) VALUES (1, 1); UPDATE past SET v = 2",
    );
    let vault = stand.place.url();
    let told = [
        "\nnote: shop.past: only the rows that are valid now, because their history can't be put back\n",
        "\nnote: shop.kept: the definition of column v has a question mark",
    ];
    let is_told = |said: &Output| told.iter().all(|line| said.stdout.contains(line));
    let made = stand.seawall(&["backup", &server.url("shop"), &vault]).ok();
    assert!(is_told(&made), "{made}");
    let planned = stand.seawall(&["restore", &vault, "--to", &server.url("copy"), "--dry-run"]).ok();
    assert!(is_told(&planned), "{planned}");
    let back = stand.seawall(&["restore", &vault, "--to", &server.url("copy")]).ok();
    assert!(is_told(&back), "{back}");
    assert_eq!(server.sql("SELECT count(*) FROM copy.past FOR SYSTEM_TIME ALL"), "1");
    let proved = stand.seawall(&["verify", &vault, "--restore"]).ok();
    assert!(is_told(&proved), "{proved}");
}

#[test]
fn mysql_is_proved_by_the_command_line() {
    let (stand, server) = (Stand::folder(2), shop(2_000));
    let vault = stand.place.url();
    stand.seawall(&["backup", &server.url("shop"), &vault]).ok();
    for to in [vec![], vec!["--to".to_owned(), server.url("")]] {
        let to: Vec<&str> = to.iter().map(String::as_str).collect();
        let proved = stand.seawall(&[&["verify", &vault, "--restore", "--json"], &to[..]].concat()).ok().json();
        assert_eq!(
            (&proved["proof"]["findings"], &proved["proof"]["tables"], &proved["proof"]["rows"]),
            (&Value::Array(vec![]), &Value::from(2), &Value::from(2_100)),
            "{proved}"
        );
    }
    assert_eq!(others(&server), "", "nothing stays");
}

#[test]
fn mysql_goes_on_after_a_kill_by_the_command_line() {
    let (stand, server) = (Stand::folder(3), shop(40_000));
    let (source, vault, target) = (server.url("shop"), stand.place.url(), server.url("copy"));
    stand.seawall(&[&["backup", &source, &vault][..], &SLOWLY].concat()).ok();
    let mut process =
        Process::spawn("seawall", stand.command().args(["restore", &vault, "--to", &target]).args(SLOWLY));
    // The journal is in the unfinished database, beside the tables. Its first note is the restore itself.
    let journal = "SELECT concat('`', table_schema, '`.`', table_name, '`') FROM information_schema.columns \
                   WHERE table_schema LIKE 'seawall-%' AND column_name = 'step'";
    wait::until("a step in the journal", wait::SOON, || {
        let journal = server.sql(journal);
        let notes =
            if journal.is_empty() { "0".to_owned() } else { server.sql(&format!("SELECT count(*) FROM {journal}")) };
        notes.parse::<u32>().is_ok_and(|notes| notes > 1).then_some(())
    });
    process.kill_9();
    drop(process);
    assert_eq!(server.sql("SELECT count(*) FROM information_schema.schemata WHERE schema_name = 'copy'"), "0");
    let again =
        Process::spawn("seawall", stand.command().args(["restore", &vault, "--to", &target, "--jobs", "2", "--json"]));
    let back = end(again).ok().json();
    assert_eq!(back["resumed"], Value::Bool(true), "{back}");
    assert_eq!(content(&server, "copy"), content(&server, "shop"));
    assert_eq!(others(&server), "copy", "nothing of ours stays");
}

#[test]
fn mysql_a_script_of_sql_by_the_command_line() {
    let (stand, server) = (Stand::folder(4), shop(5_000));
    let (source, vault) = (server.url("shop"), stand.place.url());
    let made = stand.seawall(&["backup", &source, &vault, "--format", "plain"]).ok();
    assert!(made.stdout.contains("a plain script of SQL, "), "{made}");
    let made = stand.seawall(&["backup", &source, &vault, "--format", "plain", "--compression", "gzip", "--json"]);
    assert_eq!(made.ok().json()["artefact"].as_str(), Some("plain"));
    let said = stand.seawall(&["timeline", &vault]).ok();
    assert!(said.stdout.contains("plain"), "{said}");
    let verified = stand.seawall(&["verify", &vault, "--json"]).ok().json();
    assert_eq!(verified["findings"], Value::Array(vec![]), "{verified}");
    let file = stand.path("shop.sql");
    let name = file.to_str().expect("a name");
    stand.seawall(&["restore", &vault, "-o", name]).ok();
    let text = std::fs::read_to_string(&file).expect("text");
    assert!(text.ends_with("-- This is the end: nothing is missing.\n"));
    server.sql("CREATE DATABASE loaded CHARACTER SET utf8mb4");
    assert_eq!(server.load_file("loaded", &file, &["--default-character-set=utf8mb4"]), Ok(()));
    assert_eq!(content(&server, "loaded"), content(&server, "shop").replace("`shop`", "`loaded`"));
    let said = stand.seawall(&["restore", &vault, "--to", &server.url("copy"), "--definer", "root@localhost"]).ok();
    assert!(said.stdout.contains("a plain script of SQL, "), "{said}");
    assert_eq!(content(&server, "copy"), content(&server, "shop").replace("`shop`", "`copy`"));
    let proved = stand.seawall(&["verify", &vault, "--restore", "--to", &server.url("")]).ok();
    assert!(proved.stdout.contains("5100 rows of 2 tables, ") && proved.stdout.contains("not compared: "), "{proved}");
    for (arguments, exit, code) in [
        (&["backup", &source, &vault, "--format", "custom"][..], 2, "usage.format"),
        (&["backup", &source, &vault, "--format", "plain", "--sample", "1%"], 2, "usage.arguments"),
        (&["backup", &server.url(""), &vault, "--format", "plain"], 1, "mysql.vendor-format"),
        (&["restore", &vault, "-o", name], 1, "archive.target-exists"),
        (&["restore", &vault, "--to", &server.url("x"), "--definer", "no account"], 2, "mysql.url"),
        (&["restore", &vault, "--to", &server.url("x"), "--definer", "nobody@nowhere"], 1, "mysql.not-ready"),
        (&["restore", &vault, "--to", "postgresql://app@localhost/x", "--definer", "strip"], 2, "usage.arguments"),
    ] {
        let failed = stand.seawall(arguments).exits(exit);
        assert!(failed.stderr.contains(&format!("error[{code}]")), "{failed}");
    }
}

#[test]
fn mysql_a_sample_is_told_everywhere_and_kept_apart_from_backups() {
    let (stand, server) = (Stand::folder(5), shop(5_000));
    let (source, vault) = (server.url("shop"), stand.place.url());
    let made = stand.seawall(&["backup", &source, &vault, "--sample", "10.0%"]).ok();
    assert!(made.stdout.contains("a sample of 10%: "), "{made}");
    let said = stand.seawall(&["timeline", &vault]).ok();
    assert!(said.stdout.contains("no backup: a sample of 10% of the rows"), "{said}");
    let restored = stand.seawall(&["restore", &vault, "--to", &server.url("copy")]).ok();
    assert!(restored.stdout.contains("a sample of 10%: "), "{restored}");
    let rows: u32 = server.sql("SELECT count(*) FROM copy.big").parse().expect("a number");
    assert!((400..800).contains(&rows), "{rows}");
    let whole = "SELECT count(*), count(b.id) FROM copy.small s LEFT JOIN copy.big b ON b.id = s.big";
    assert_eq!(server.sql(whole), "100\t100");
    let failed = stand.seawall(&["backup", &source, &vault]).exits(1);
    assert!(failed.stderr.contains("error[archive.other-database]"), "{failed}");
}

/// A running process proves it by itself, with an earlier set, on servers of its own. The record is in the vault, for every host.
#[test]
fn mysql_is_proved_by_a_schedule() {
    let (stand, server) = (Stand::folder(6), shop(500));
    let vault = stand.place.url();
    let text = format!(
        "socket: {{ path: s.sock }}\nmetrics-addr: 127.0.0.1:0\nlogging: {{ type: json }}\n\
         prove: {{ schedule: 0 5 1 1 *, level: content, moments: 1 }}\n\
         databases:\n  - {{ name: shop, url: '{}', vault: '{vault}', schedule: '0 3 * * *' }}\n",
        server.url("shop")
    );
    std::fs::write(stand.path("seawall.yml"), &text).unwrap();
    stand.seawall(&["backup", "shop"]).ok();
    server.sql("DELETE FROM shop.small LIMIT 50");
    stand.seawall(&["backup", "shop"]).ok();
    let mut process = Process::spawn("seawall", stand.command().arg("replicate"));
    let status = wait::until("a proof", wait::SOON * 4, || {
        let status = stand.seawall(&["status", "--json"]).ok().json()[0].clone();
        status["proof"].is_object().then_some(status)
    });
    let proof = &status["proof"];
    assert_eq!((&proof["engine"], &proof["level"]), (&"mysql".into(), &"content".into()), "{proof}");
    assert_eq!((&proof["faults"], &proof["inconclusive"]), (&Value::Array(vec![]), &Value::Null), "{proof}");
    assert_eq!(proof["point"]["position"], status["protected"]["position"], "{status}");
    assert_eq!(proof["moments"].as_array().map(Vec::len), Some(1), "{proof}");
    assert!(stand.seawall(&["status", "--check"]).ok().stdout.contains("\nshop: restored "));
    // Of the vault alone, without this host.
    assert_eq!(stand.seawall(&["timeline", &vault, "--json"]).ok().json()["proofs"][0], *proof);
    let records = std::fs::read_dir(stand.place.root().join("seawall/proofs")).unwrap();
    let records = records.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|end| end == "json"));
    assert_eq!(records.count(), 1);
    let address = crate::agent_services::address(&mut process, "metrics");
    let (_, page) = seawall_tests::ask_address(&address, "GET", "/metrics", "", "");
    let holds = page.lines().find(|line| line.starts_with("seawall_proof_holds{")).unwrap_or_default();
    assert!(holds.contains("database=\"shop\"") && holds.ends_with(" 1"), "{page}");
    assert_eq!(others(&server), "", "nothing stays");
    process.stop().ok();

    // A set of which a chunk is damaged fails it.
    std::fs::write(stand.path("seawall.yml"), text.replace(", moments: 1", "")).unwrap();
    let set =
        std::fs::read_dir(stand.place.root().join("sets")).unwrap().map(|entry| entry.unwrap().path()).max().unwrap();
    let chunk = set.join("00000000.zst");
    let mut bytes = std::fs::read(&chunk).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&chunk, bytes).unwrap();
    std::fs::remove_dir_all(stand.place.root().join("seawall/proofs")).unwrap();
    let mut process = Process::spawn("seawall", stand.command().arg("replicate"));
    let status = wait::until("a failed proof", wait::SOON * 4, || {
        let status = stand.seawall(&["status", "--json"]).ok().json()[0].clone();
        status["proof"].is_object().then_some(status)
    });
    assert!(status["proof"]["faults"].to_string().contains("00000000.zst"), "{status}");
    assert!(status["alarms"].to_string().contains("alarm.proof-failed"), "{status}");
    stand.seawall(&["status", "--check"]).exits(1);
    process.stop().ok();
}
