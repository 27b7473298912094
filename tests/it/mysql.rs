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
