//! Oracle's MySQL, whose caching_sha2_password no MariaDB has. It is no package of the distribution: where it isn't there, the run
//! says so.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use seawall_core::Failure;
use seawall_mysql::Flavour;
use seawall_mysql::testing::{Connection, Purpose, quote};
use seawall_testing::from_template;

use crate::client::{FORMAT, LOAD, lines, load_by};
use crate::server::{Server, target};

/// The folder into which `test.sh` fetches what tests need.
pub(crate) fn tools() -> PathBuf {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools");
    std::env::var_os("CARGO_TARGET_DIR").map_or(tools, |target| PathBuf::from(target).join("tools"))
}

/// The folder of MySQL 8 that `test.sh` may have fetched.
fn basedir() -> Option<PathBuf> {
    let folder = tools().join("mysql-8");
    // It needs two libraries of the system.
    let runs = Command::new(folder.join("bin/mysqld")).args(["--no-defaults", "--version"]).output();
    if runs.is_ok_and(|output| output.status.success()) {
        return Some(folder);
    }
    eprintln!("MySQL 8 isn't in {}, or can't run here: its tests did nothing", folder.display());
    None
}

/// The folder of its programs.
pub(crate) fn bindir() -> Option<PathBuf> {
    basedir().map(|folder| folder.join("bin"))
}

pub(crate) fn start() -> Option<Server> {
    start_with(&[])
}

/// Starts it with more options.
pub(crate) fn start_with(more: &[&str]) -> Option<Server> {
    let base = basedir()?;
    let folder = tempfile::Builder::new().prefix("my").tempdir().expect("a folder");
    let messages = format!("--lc-messages-dir={}", base.join("share").display());
    let base_option = format!("--basedir={}", base.display());
    from_template("mysql", &base.join("bin/mysqld"), &folder.path().join("data"), |data| {
        let mut install = Command::new(base.join("bin/mysqld"));
        install.args(["--no-defaults", "--initialize-insecure", "--user=root", &base_option, &messages]);
        install.arg(format!("--datadir={}", data.display()));
        assert!(install.stdout(Stdio::null()).stderr(Stdio::null()).status().expect("mysqld runs").success());
    });
    // The server makes an identity of its own when it starts.
    let _ = std::fs::remove_file(folder.path().join("data/auto.cnf"));
    let options = [&base_option, &messages, "--mysqlx=OFF", "--bind-address=127.0.0.1", "--local-infile=1"];
    let options: Vec<String> = options.into_iter().chain(more.iter().copied()).map(str::to_owned).collect();
    // MariaDB's client speaks to it, because its own isn't in the archive.
    let client = vec!["mariadb".to_owned(), "--no-defaults".to_owned()];
    Some(Server::run(folder, &base.join("bin/mysqld"), &options, client))
}

#[tokio::test]
async fn caching_sha2_in_all_its_ways() {
    let Some(server) = start() else { return };
    server.sql("CREATE USER app IDENTIFIED BY 's3cret'; CREATE USER old IDENTIFIED WITH sha256_password BY 's3cret'");
    let forget = || server.sql("FLUSH PRIVILEGES");
    let (key, ca) = (server.file("data/public_key.pem"), server.file("data/ca.pem"));
    for (user, settings, code) in [
        ("app", "?ssl-mode=DISABLED".to_owned(), Some("mysql.password")),
        ("app", "?ssl-mode=PREFERRED".to_owned(), Some("mysql.password")),
        ("app", "?ssl-mode=PREFERRED&get-server-public-key=1".to_owned(), None),
        ("app", "?ssl-mode=DISABLED&get-server-public-key=1".to_owned(), None),
        ("app", format!("?ssl-mode=DISABLED&server-public-key-path={key}"), None),
        ("old", "?ssl-mode=DISABLED".to_owned(), Some("mysql.password")),
        ("old", "?ssl-mode=DISABLED&get-server-public-key=1".to_owned(), None),
        ("old", format!("?ssl-mode=DISABLED&server-public-key-path={key}"), None),
        // The build that can be had has only ciphers that are no longer safe.
        ("app", format!("?ssl-mode=VERIFY_CA&ssl-ca={ca}"), Some("mysql.tls")),
    ] {
        forget();
        let url = server.tcp(&format!("{user}:s3cret"), &settings);
        let opened = Connection::open(&target(&url)).await;
        match (opened, code) {
            (Ok(connection), None) => {
                assert_eq!((connection.flavour, connection.version / 10_000), (Flavour::MySql, 8));
                connection.close().await;
                if user == "app" {
                    // Now the server knows the hash, and needs no more than a proof.
                    let fast = server.tcp("app:s3cret", "?ssl-mode=DISABLED");
                    Connection::open(&target(&fast)).await.expect("fast").close().await;
                }
            }
            (Err(error), Some(code)) => {
                let failure = Failure::from(error);
                assert_eq!(failure.code, code, "{url}: {failure:?}");
            }
            (opened, _) => panic!("{url}: {:?}", opened.map(drop)),
        }
    }
    forget();
    let socket = server.socket("app:s3cret", "");
    Connection::open(&target(&socket)).await.expect("the password through the socket").close().await;
    let wrong = Connection::open(&target(&server.socket("app:wrong", ""))).await.map(drop);
    assert_eq!(Failure::from(wrong.expect_err("wrong")).code, "mysql.login");
}

#[tokio::test]
async fn a_load_that_is_given_up_leaves_nothing_in_mysql_8() {
    let Some(server) = start() else { return };
    crate::kills::give_loads_up(&server).await;
}

#[tokio::test]
async fn rows_and_loads_of_mysql_8() {
    let Some(server) = start() else { return };
    server
        .sql("CREATE DATABASE d; CREATE TABLE d.a (i int PRIMARY KEY, j json, b longblob); CREATE TABLE d.b LIKE d.a");
    let mut loader = server.connect(Purpose::Load).await;
    for i in 0..300 {
        let value: Vec<u8> = (0..=255).cycle().take(i * 97).collect();
        let sql = format!("INSERT INTO d.a VALUES ({i}, '[{i}, null]', {})", quote::bytes(&value));
        loader.execute(&sql).await.expect("inserted");
    }
    let mut reader = server.connect(Purpose::Rows).await;
    let (text, count) = lines(&mut reader, "SELECT i, j, b FROM d.a ORDER BY i", 1 << 20).await;
    // MySQL takes no JSON from binary text.
    let sql = format!("{LOAD} d.b {FORMAT} (i, @j, b) SET j = CONVERT(@j USING utf8mb4)");
    assert_eq!((count, load_by(&mut loader, &sql, &text).await), (300, 300));
    let sum = |table: &str| server.sql(&format!("SELECT i, j, MD5(b) FROM d.{table} ORDER BY i"));
    assert_eq!(sum("a"), sum("b"));
}
