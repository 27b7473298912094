//! Ways to log in, and what happens where they fail.

use seawall_core::{Failure, Kind};
use seawall_mysql::Flavour;
use seawall_mysql::testing::Connection;

use crate::server::{Server, free_port, target_of};

/// All that needs care in a file, in a URL or in SQL.
const PASSWORD: &str = "s3cret:with\\quote'and space#";
const IN_URL: &str = "s3cret%3Awith%5Cquote%27and%20space%23";

fn secured() -> Server {
    let server = Server::start();
    let password = PASSWORD.replace('\\', "\\\\").replace('\'', "''");
    server.sql(&format!(
        "CREATE DATABASE shop; CREATE TABLE shop.t (i int); \
         CREATE USER app IDENTIFIED BY '{password}'; CREATE USER ed IDENTIFIED VIA ed25519 USING PASSWORD('{password}'); \
         CREATE USER open; CREATE USER tls IDENTIFIED BY '{password}' REQUIRE SSL; \
         CREATE USER x509 IDENTIFIED BY '{password}' REQUIRE X509; CREATE USER os IDENTIFIED VIA unix_socket; \
         CREATE USER pam IDENTIFIED BY 'x' ACCOUNT LOCK; \
         GRANT ALL ON shop.* TO app, ed, open, tls, x509"
    ));
    server
}

async fn whoami(url: &str, variables: &[(&str, &str)]) -> Result<String, Failure> {
    let mut connection = Connection::open(&target_of(url, variables)).await?;
    let row = connection.one("SELECT CURRENT_USER(), DATABASE(), @@version").await?;
    assert_eq!(connection.flavour, Flavour::MariaDb);
    assert!(connection.version > 100_000 && connection.max_packet == 64 << 20);
    assert!(connection.connection_id > 0);
    connection.close().await;
    Ok(row.text(0).to_owned())
}

#[tokio::test]
async fn every_way_of_logging_in_works_with_every_source_of_passwords() {
    let server = secured();
    let write = |name: &str, text: &str| {
        let file = server.file(name);
        std::fs::write(&file, text).expect("written");
        let mode = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o600);
        std::fs::set_permissions(&file, mode).expect("private");
        file
    };
    std::fs::create_dir(server.file("home")).expect("made");
    let quoted = PASSWORD.replace('\\', "\\\\");
    write("home/.my.cnf", &format!("!include {}\n[client]\nuser=nobody\n", server.file("other.cnf")));
    write("other.cnf", &format!("[client]\npassword=\"{quoted}\"\n"));
    let alone = write("alone.cnf", &format!("[client]\nuser=ed\npassword=\"{quoted}\"\n"));
    let env: &[(&str, &str)] = &[("MYSQL_PWD", PASSWORD)];
    let home = server.file("home");
    for (url, variables, who) in [
        (server.url("shop"), &[][..], "root@localhost"),
        (server.socket("app", "shop"), env, "app@%"),
        (server.tcp("app", "shop"), env, "app@%"),
        (server.tcp(&format!("app:{IN_URL}"), "shop"), &[], "app@%"),
        (server.tcp("app", "shop"), &[("HOME", home.as_str())], "app@%"),
        (server.tcp("ed", "shop"), env, "ed@%"),
        (server.socket("ed", "shop"), env, "ed@%"),
        (format!("mysql://127.0.0.1:{}/shop?defaults-file={alone}", server.port), &[], "ed@%"),
        (server.tcp("open", "shop"), &[], "open@%"),
        (server.tcp("app", "shop?ssl-mode=DISABLED"), env, "app@%"),
        (server.tcp("ed", "shop?ssl-mode=DISABLED"), env, "ed@%"),
        (format!("mariadb://app@localhost:{}/", server.port), env, "app@%"),
    ] {
        let found = whoami(&url, variables).await.unwrap_or_else(|error| panic!("{url} {variables:?}: {error:?}"));
        assert_eq!(found, who, "{url}");
    }
    let file = write("password", &format!("{PASSWORD}\n"));
    let target = target_of(&server.tcp("app:wrong", "shop"), &[]).with_password_file(file.into());
    Connection::open(&target).await.expect("the file counts first").close().await;
    server.wait(
        "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID() AND USER IN ('app', 'ed')",
        "0",
    );
}

#[tokio::test]
async fn tls_modes_are_those_of_the_vendor() {
    let server = secured();
    let (ours, strangers) = (server.file("ca.pem"), server.file("stranger.pem"));
    let client = format!("ssl-cert={}&ssl-key={}", server.file("client.pem"), server.file("client-key.pem"));
    let named = |mode: &str, file: &str| format!("shop?ssl-mode={mode}&ssl-ca={file}");
    let certificate = Err(("mysql.certificate", "ssl-ca"));
    let system = [("SSL_CERT_FILE", ours.as_str())];
    for (user, host, rest, variables, expected) in [
        ("app", "127.0.0.1", "shop?ssl-mode=DISABLED".to_owned(), &[][..], Ok(false)),
        ("app", "127.0.0.1", "shop".to_owned(), &[], Ok(true)),
        ("app", "127.0.0.1", "shop?ssl-mode=REQUIRED".to_owned(), &[], Ok(true)),
        ("app", "127.0.0.1", named("VERIFY_CA", &ours), &[], Ok(true)),
        ("app", "127.0.0.1", format!("shop?ssl-ca={ours}"), &[], Ok(true)),
        ("app", "localhost", named("VERIFY_IDENTITY", &ours), &[], Ok(true)),
        ("app", "127.0.0.1", named("VERIFY_IDENTITY", &ours), &[], Err(("mysql.certificate", "VERIFY_CA"))),
        ("app", "localhost", named("VERIFY_IDENTITY", &strangers), &[], certificate),
        ("app", "127.0.0.1", named("VERIFY_CA", &strangers), &[], certificate),
        ("app", "127.0.0.1", named("REQUIRED", &strangers), &[], Ok(true)),
        ("app", "localhost", named("VERIFY_CA", "/nowhere/ca.pem"), &[], Err(("mysql.url", "PEM"))),
        ("app", "localhost", "shop?ssl-mode=VERIFY_IDENTITY".to_owned(), &system, Ok(true)),
        ("tls", "127.0.0.1", "shop".to_owned(), &[], Ok(true)),
        ("tls", "127.0.0.1", "shop?ssl-mode=DISABLED".to_owned(), &[], Err(("mysql.login", "password"))),
        ("x509", "127.0.0.1", format!("shop?{client}"), &[], Ok(true)),
        ("x509", "127.0.0.1", "shop".to_owned(), &[], Err(("mysql.login", "password"))),
    ] {
        let url = format!("mysql://{user}@{host}:{}/{rest}", server.port);
        let mut variables = variables.to_vec();
        variables.push(("MYSQL_PWD", PASSWORD));
        let opened = Connection::open(&target_of(&url, &variables)).await;
        match (opened, expected) {
            (Ok(mut connection), Ok(encrypted)) => {
                let cipher = connection.one("SHOW SESSION STATUS LIKE 'Ssl_cipher'").await.expect("asked");
                assert_eq!(!cipher.text(1).is_empty(), encrypted, "{url}");
            }
            (Err(error), Err((code, next))) => {
                let failure = Failure::from(error);
                assert_eq!(failure.code, code, "{url}: {failure:?}");
                assert!(failure.next.contains(next), "{url}: {failure:?}");
            }
            (opened, _) => panic!("{url}: {:?}", opened.map(drop)),
        }
    }
    // Through a socket too, where the account needs it.
    let url = format!("{}&ssl-mode=REQUIRED", server.socket("tls", "shop"));
    whoami(&url, &[("MYSQL_PWD", PASSWORD)]).await.expect("TLS within a socket");
}

#[tokio::test]
async fn a_server_without_tls_is_refused_where_tls_is_asked_for() {
    let server = Server::start_with(&["--skip-ssl"]);
    server.sql("CREATE USER open");
    whoami(&server.tcp("open", ""), &[]).await.expect("without TLS");
    let failure = whoami(&server.tcp("open", "?ssl-mode=REQUIRED"), &[]).await.expect_err("no TLS");
    assert_eq!((failure.kind, failure.code), (Kind::Denied, "mysql.tls"), "{failure:?}");
}

#[tokio::test]
async fn a_failed_login_says_why_and_what_to_do() {
    let server = secured();
    let right = ("MYSQL_PWD", PASSWORD);
    let login = (Kind::Denied, "mysql.login");
    for (what, url, variable, expected, next) in [
        ("a wrong password", server.tcp("app", "shop"), ("MYSQL_PWD", "s3cret"), login, "MYSQL_PWD"),
        ("a wrong one with ed25519", server.tcp("ed", "shop"), ("MYSQL_PWD", "s3cret"), login, "MYSQL_PWD"),
        ("an unknown user", server.tcp("nobody", "shop"), right, login, "check user"),
        ("no password", server.tcp("app", "shop"), ("LANG", "C"), (Kind::Denied, "mysql.password"), "~/.my.cnf"),
        (
            "an unknown database",
            server.url("nothing"),
            ("LANG", "C"),
            (Kind::NotFound, "mysql.no-database"),
            "SHOW DATABASES",
        ),
        ("another's database", server.tcp("app", "mysql"), right, (Kind::Denied, "mysql.permission"), "GRANT"),
        ("a socket's account by TCP", server.tcp("os", ""), right, login, "check user"),
        (
            "nobody at the port",
            format!("mysql://app@127.0.0.1:{}/shop", free_port()),
            right,
            (Kind::Unavailable, "mysql.connection"),
            "check that the server is up",
        ),
        (
            "no socket",
            "mysql://app@localhost/?socket=/nowhere/s".to_owned(),
            right,
            (Kind::Unavailable, "mysql.connection"),
            "check that the server is up",
        ),
    ] {
        let failure = whoami(&url, &[variable]).await.expect_err(what);
        assert_eq!((failure.kind, failure.code), expected, "{what}: {failure:?}");
        assert!(failure.next.contains(next), "{what}: {failure:?}");
        assert!(!format!("{failure:?}").contains("s3cret"), "{what}: {failure:?}");
    }
    server.sql("SET GLOBAL max_connections = 10");
    let mut all = Vec::new();
    let failure = loop {
        match Connection::open(&target_of(&server.tcp("app", "shop"), &[right])).await {
            Ok(connection) => all.push(connection),
            Err(error) => break Failure::from(error),
        }
        assert!(all.len() < 20);
    };
    assert_eq!((failure.kind, failure.code), (Kind::Unavailable, "mysql.connections"), "{failure:?}");
}
