//! Backup sets of servers: links and chunks that aren't those that were written, and sources that aren't what they were.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use seawall_tests::{Output, Process, Stand, wait};
use serde_json::Value;

use crate::{mysql, postgres};

/// A server with a database `shop` that has a table `t`.
trait Source {
    fn url(&self, database: &str) -> String;
    fn run(&self, database: &str, sql: &str) -> String;
    /// Number of rows and a sum of them.
    fn content(&self, database: &str) -> String;
    fn recreate(&self, database: &str);
    /// Whether a database that is there has no table.
    fn is_empty(&self, database: &str) -> bool;
}

const ROWS: &str = "CREATE TABLE t (a int PRIMARY KEY, b varchar(40)); INSERT INTO t VALUES (1, 'one'), (2, 'two')";

impl Source for postgres::server::Server {
    fn url(&self, database: &str) -> String {
        self.url(database)
    }
    fn run(&self, database: &str, sql: &str) -> String {
        self.sql(database, sql)
    }
    fn content(&self, database: &str) -> String {
        self.sql(database, "SELECT count(*), string_agg(a || b, ',' ORDER BY a) FROM t")
    }
    fn recreate(&self, database: &str) {
        self.sql("postgres", &format!("DROP DATABASE IF EXISTS {database}"));
        self.sql("postgres", &format!("CREATE DATABASE {database}"));
    }
    fn is_empty(&self, database: &str) -> bool {
        self.sql(database, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == "0"
    }
}

impl Source for mysql::server::Server {
    fn url(&self, database: &str) -> String {
        self.url(database)
    }
    fn run(&self, database: &str, sql: &str) -> String {
        self.sql(&format!("USE {database}; {sql}"))
    }
    fn content(&self, database: &str) -> String {
        self.sql(&format!("SELECT count(*), group_concat(concat(a, b) ORDER BY a) FROM {database}.t"))
    }
    fn recreate(&self, database: &str) {
        self.sql(&format!("DROP DATABASE IF EXISTS {database}; CREATE DATABASE {database}"));
    }
    fn is_empty(&self, database: &str) -> bool {
        let sql = format!("SELECT count(*) FROM information_schema.tables WHERE table_schema = '{database}'");
        self.sql(&sql).trim() == "0"
    }
}

fn shop_on_postgres() -> postgres::server::Server {
    let server = postgres::server::Server::start(15);
    server.recreate("shop");
    server.run("shop", ROWS);
    server
}

fn shop_on_mariadb() -> mysql::server::Server {
    let server = mysql::server::Server::start();
    server.recreate("shop");
    server.run("shop", ROWS);
    server
}

/// A backup into the vault `name`, and its identity.
fn backup(stand: &Stand, source: &impl Source, database: &str, name: &str) -> String {
    let to = stand.path(name);
    let made = stand.seawall(&["backup", &source.url(database), to.to_str().unwrap(), "--json"]).ok().json();
    made["id"].as_str().unwrap().to_owned()
}

/// An object of equal name in two sets, whose bytes differ.
fn differing(stand: &Stand, [one, other]: [&str; 2]) -> [PathBuf; 2] {
    let names: BTreeSet<_> =
        fs::read_dir(stand.path("vault/sets").join(one)).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let both = |name| [one, other].map(|id| stand.path("vault/sets").join(id).join(&name));
    let differ = |[one, other]: &[PathBuf; 2]| fs::read(one).ok() != fs::read(other).ok() && other.exists();
    let chunks = names.into_iter().filter(|name| name.to_string_lossy().ends_with(".zst"));
    chunks.map(both).find(differ).expect("chunks that differ")
}

fn link(stand: &Stand, vault: &str, number: u32) -> PathBuf {
    stand.path(vault).join(format!("chain/{number:08}.json"))
}

fn verify(stand: &Stand, vault: &str) -> (Output, Vec<(String, String)>) {
    let path = stand.path(vault);
    let found = stand.seawall(&["verify", path.to_str().unwrap(), "--json"]);
    let findings = found.json()["findings"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let named = findings.iter().map(|finding| (text(&finding["code"]), text(&finding["object"]))).collect();
    (found, named)
}

fn restore(stand: &Stand, source: &impl Source, vault: &str, more: &[&str]) -> Output {
    let (path, to) = (stand.path(vault), source.url("copy"));
    stand.seawall(&[&["restore", path.to_str().unwrap(), "--to", &to][..], more].concat())
}

/// A restore gives `content`.
fn comes_back(stand: &Stand, source: &impl Source, at: &str, content: &str) {
    restore(stand, source, "vault", &["--at", at, "--clean"]).ok();
    assert_eq!(source.content("copy"), content);
}

/// The newest set has a chunk of the one before it, of equal size: the rows differ in letters alone.
fn an_exchanged_chunk(server: &impl Source) {
    let stand = Stand::folder(1);
    let first = backup(&stand, server, "shop", "vault");
    let content = server.content("shop");
    server.run("shop", "UPDATE t SET b = 'eno' WHERE a = 1");
    let second = backup(&stand, server, "shop", "vault");
    let [from, place] = differing(&stand, [&first, &second]);
    let whole = fs::read(&place).unwrap();
    fs::copy(from, &place).unwrap();
    let (found, named) = verify(&stand, "vault");
    assert!(found.code() == 1 && named.iter().any(|(_, object)| object.contains(&second)), "{found}");
    assert!(!named.iter().any(|(_, object)| object.contains(&first)), "only one set is touched: {found}");
    let refused = restore(&stand, server, "vault", &["--at", &second]).exits(1);
    // A chunk of another size is refused before it is read.
    let codes = ["[archive.corrupt]", "[vault.too-large]"];
    assert!(codes.iter().any(|code| refused.stderr.contains(code)) && refused.stderr.contains(&second), "{refused}");
    comes_back(&stand, server, &first, &content);
    fs::write(&place, whole).unwrap();
    comes_back(&stand, server, &second, &server.content("shop"));
}

#[test]
fn postgres_a_chunk_of_another_set_is_named() {
    an_exchanged_chunk(&shop_on_postgres());
}

#[test]
fn mysql_a_chunk_of_another_set_is_named() {
    an_exchanged_chunk(&shop_on_mariadb());
}

/// The newest link has the bytes of an older one: "the newest backup" would be an old one.
fn an_older_link(server: &impl Source) {
    let stand = Stand::folder(1);
    let first = backup(&stand, server, "shop", "vault");
    let content = server.content("shop");
    server.run("shop", "INSERT INTO t VALUES (3, 'three')");
    backup(&stand, server, "shop", "vault");
    let whole = fs::read(link(&stand, "vault", 2)).unwrap();
    fs::copy(link(&stand, "vault", 1), link(&stand, "vault", 2)).unwrap();
    let (found, named) = verify(&stand, "vault");
    assert!(found.code() == 1 && named.iter().any(|(_, object)| object.ends_with("00000002.json")), "{found}");
    let refused = restore(&stand, server, "vault", &[]);
    assert!(refused.code() == 1 && refused.stderr.contains("[archive."), "an old set passes for the newest: {refused}");
    comes_back(&stand, server, &first, &content);
    fs::write(link(&stand, "vault", 2), whole).unwrap();
    restore(&stand, server, "vault", &["--clean"]).ok();
    assert_eq!(server.content("copy"), server.content("shop"));
}

#[test]
fn postgres_an_older_link_under_a_newer_name_is_named() {
    an_older_link(&shop_on_postgres());
}

#[test]
fn mysql_an_older_link_under_a_newer_name_is_named() {
    an_older_link(&shop_on_mariadb());
}

/// A link and a set of another server, put behind the newest ones.
fn a_strangers_set(server: &impl Source) {
    let stand = Stand::folder(1);
    backup(&stand, server, "shop", "vault");
    backup(&stand, server, "shop", "vault");
    let content = server.content("shop");
    server.recreate("other");
    server.run("other", "CREATE TABLE t (a int PRIMARY KEY, b varchar(40)); INSERT INTO t VALUES (9, 'stranger')");
    for _ in 0..3 {
        backup(&stand, server, "other", "other");
    }
    let stranger = backup(&stand, server, "other", "other");
    let from = stand.path("other/sets").join(&stranger);
    super::copy_folder(&from, &stand.path("vault/sets").join(&stranger));
    fs::copy(link(&stand, "other", 4), link(&stand, "vault", 3)).unwrap();
    let (found, named) = verify(&stand, "vault");
    assert!(found.code() == 1 && named.iter().any(|(_, object)| object.ends_with("00000003.json")), "{found}");
    let newest = restore(&stand, server, "vault", &["--clean"]);
    let restored = newest.code() == 0;
    assert!(!restored || server.content("copy") == content, "the stranger's rows passed for the newest: {newest}");
    // With a name that is right: the third link of the other vault.
    fs::copy(link(&stand, "other", 3), link(&stand, "vault", 3)).unwrap();
    let (found, named) = verify(&stand, "vault");
    let told = named.iter().any(|(_, object)| object.contains("chain/"));
    assert!(found.code() == 1 && told, "{found}");
    let newest = restore(&stand, server, "vault", &["--clean"]);
    let restored = newest.code() == 0;
    assert!(!restored || server.content("copy") == content, "the stranger's rows passed for the newest: {newest}");
    fs::remove_file(link(&stand, "vault", 3)).unwrap();
    restore(&stand, server, "vault", &["--clean"]).ok();
    assert_eq!(server.content("copy"), content);
}

#[test]
fn postgres_a_set_of_another_server_is_named() {
    a_strangers_set(&shop_on_postgres());
}

#[test]
fn mysql_a_set_of_another_server_is_named() {
    a_strangers_set(&shop_on_mariadb());
}

/// Somebody dropped the database and made an empty one of the same name. Its backup says that it is empty.
fn an_empty_source(server: &impl Source) {
    let stand = Stand::folder(1);
    let first = backup(&stand, server, "shop", "vault");
    let content = server.content("shop");
    server.recreate("shop");
    let vault = stand.path("vault");
    let vault = vault.to_str().unwrap();
    let made = stand.seawall(&["backup", &server.url("shop"), vault, "--json"]).ok().json();
    assert_eq!(made["totals"]["rows"], 0, "{made}");
    restore(&stand, server, "vault", &["--clean"]).ok();
    assert!(server.is_empty("copy"), "the newest backup has what its source had: nothing");
    comes_back(&stand, server, &first, &content);
}

#[test]
fn postgres_a_source_that_was_made_anew_and_empty_is_shown_as_empty() {
    an_empty_source(&shop_on_postgres());
}

#[test]
fn mysql_a_source_that_was_made_anew_and_empty_is_shown_as_empty() {
    an_empty_source(&shop_on_mariadb());
}

/// A process that backs up the database `shop`, with a control socket.
struct Watched<'a> {
    stand: &'a Stand,
    process: Process,
}

impl<'a> Watched<'a> {
    fn start(stand: &'a Stand, server: &impl Source) -> Self {
        let text = format!(
            "socket: {{ path: s.sock }}\ndatabases:\n  - url: '{}'\n    name: shop\n    vault: vault\n    schedule: '0 3 1 1 *'\n",
            server.url("shop")
        );
        fs::write(stand.path("seawall.yml"), text).unwrap();
        let process = Process::spawn("seawall", stand.command().args(["replicate", "--config", "seawall.yml"]));
        Self { stand, process }
    }
    fn by_name(&self, args: &[&str]) -> Output {
        self.stand.seawall(&[args, &["--config", "seawall.yml"]].concat())
    }
    fn sync(&self) {
        let synced = || (self.by_name(&["sync", "shop", "--wait"]).code() == 0).then_some(());
        wait::until("a backup", wait::SOON * 2, synced);
    }
    fn status(&self) -> Value {
        self.by_name(&["status", "--json"]).json()[0].clone()
    }
    /// It told that the backup `gone` is gone, and what it says is protected now is.
    fn told(mut self, server: &impl Source, gone: &str) {
        let told = self.status();
        assert_eq!(
            (&told["error"]["code"], &told["phase"]),
            (&"archive.lost".into(), &"protecting".into()),
            "{told:#}"
        );
        assert!(told["error"]["message"].as_str().unwrap().contains(gone), "{told:#}");
        assert_eq!(told["alarms"][0]["code"], "alarm.unsafe", "{told:#}");
        self.by_name(&["status", "--check"]).exits(1);
        let newest = told["protected"]["position"].as_str().unwrap().to_owned();
        comes_back(self.stand, server, &newest, &server.content("shop"));
        verify(self.stand, "vault").0.ok();
        self.process.stop().ok();
    }
}

/// A vault of yesterday: the newest link and its set are gone, and the chain before it is whole. The running process knows, also if
/// `another_host` made a backup since: the chain is as long as it was.
fn a_vault_of_yesterday(server: &impl Source, another_host: bool) {
    let stand = Stand::folder(1);
    let seawall = Watched::start(&stand, server);
    seawall.sync();
    super::copy_folder(&stand.path("vault"), &stand.path("yesterday"));
    server.run("shop", "INSERT INTO t VALUES (3, 'three')");
    seawall.sync();
    let gone = seawall.status()["protected"]["position"].as_str().unwrap().to_owned();
    super::copy_folder(&stand.path("yesterday"), &stand.path("vault"));
    if another_host {
        backup(&stand, server, "shop", "vault");
    }
    server.run("shop", "INSERT INTO t VALUES (4, 'four')");
    seawall.sync();
    seawall.told(server, &gone);
}

/// The newest link is gone, and its set is there: `fleet` shows the same newest backup as `timeline`, and says why.
fn the_newest_link_is_gone(server: &impl Source, engine: &str) {
    let stand = Stand::folder(1);
    let first = backup(&stand, server, "shop", "vault");
    let second = backup(&stand, server, "shop", "vault");
    let row = || {
        let all = stand.seawall(&["fleet", "--json", stand.path("").to_str().unwrap()]).json();
        let rows = all["databases"].as_array().unwrap();
        rows.iter().find(|row| row["name"] == "vault").unwrap_or_else(|| panic!("{all:#}")).clone()
    };
    let timeline = || {
        let vault = stand.path("vault");
        let shown = stand.seawall(&["timeline", vault.to_str().unwrap(), "--json"]).json();
        shown["spans"].as_array().and_then(|spans| spans.last().cloned()).map(|last| last["to"]["position"].clone())
    };
    let whole = row();
    assert_eq!((&whole["newest"]["position"], &whole["engine"]), (&Value::from(second.as_str()), &Value::from(engine)));
    assert_eq!((whole["doubts"].to_string(), timeline()), ("[]".to_owned(), Some(whole["newest"]["position"].clone())));
    fs::remove_file(link(&stand, "vault", 2)).unwrap();
    let told = row();
    assert_eq!((&told["newest"]["position"], timeline()), (&Value::from(first.as_str()), Some(first.clone().into())));
    assert!(told["doubts"].to_string().contains(&second), "{told:#}");
    fs::remove_file(link(&stand, "vault", 1)).unwrap();
    let told = row();
    assert!(told["newest"].is_null() && told["doubts"].to_string().contains("chain"), "{told:#}");
}

#[test]
fn postgres_a_set_without_its_link_is_not_the_newest() {
    the_newest_link_is_gone(&shop_on_postgres(), "postgres");
}

#[test]
fn mysql_a_set_without_its_link_is_not_the_newest() {
    the_newest_link_is_gone(&shop_on_mariadb(), "mysql");
}

#[test]
fn postgres_a_vault_of_yesterday_is_told() {
    a_vault_of_yesterday(&shop_on_postgres(), false);
}

#[test]
fn mysql_a_vault_of_yesterday_is_told() {
    a_vault_of_yesterday(&shop_on_mariadb(), false);
}

#[test]
fn postgres_a_vault_of_yesterday_with_as_many_links_is_told() {
    a_vault_of_yesterday(&shop_on_postgres(), true);
}

#[test]
fn mysql_a_vault_of_yesterday_with_as_many_links_is_told() {
    a_vault_of_yesterday(&shop_on_mariadb(), true);
}
