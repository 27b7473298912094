//! Passwords, TLS and the settings of roles, by the ways of connecting that production servers use.

use std::io::Write;
use std::sync::{Arc, Mutex};

use seawall_core::Kind;
use seawall_vault::memory::MemoryStore;

use crate::secured::{IN_FILE, IN_URL, PASSWORD, SECRETS, Secured};
use crate::support::{content, nothing_stays, schema, vault};

/// Everything that is logged, at every level.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().expect("a log")).into_owned()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("a log").write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Collects everything that this thread logs.
fn listen() -> (Log, impl Drop) {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    (log, tracing_subscriber::util::SubscriberInitExt::set_default(subscriber))
}

fn nothing_told(what: &str, text: &str) {
    for secret in SECRETS.into_iter().chain([PASSWORD, IN_URL, IN_FILE]) {
        assert!(!text.contains(secret), "{what}: {secret} in {text}");
    }
}

async fn logs_in_and_says_no_password(major: u32) {
    let secured = Secured::start(major);
    let folder = secured.server.folder().display().to_string();
    let port = secured.server.port;
    let (log, listening) = listen();
    let by_tcp = |role: &str| secured.url(role, "127.0.0.1", "shop");
    let homes = [
        format!("127.0.0.1:{port}:shop:app"),
        // A socket that isn't in the usual folder is looked up by its folder, and not as localhost.
        format!("localhost:*:*:*:wrong\n{}:{port}:shop:app", folder.replace(':', "\\:")),
        "*:*:*:old".to_owned(),
    ]
    .map(|line| secured.home_with_password(&line));
    for (url, variable, value) in [
        (by_tcp("app"), "PGPASSWORD", PASSWORD),
        (secured.url(&format!("app:{IN_URL}"), "127.0.0.1", "shop"), "LANG", "C"),
        (by_tcp("app"), "HOME", homes[0].as_str()),
        (secured.socket("app", "shop"), "HOME", &homes[1]),
        (secured.socket("app", "shop"), "PGPASSFILE", &format!("{}/.pgpass", homes[1])),
        (by_tcp("old"), "HOME", &homes[2]),
        (secured.socket("old", "shop"), "PGPASSWORD", PASSWORD),
    ] {
        let vault = vault(&MemoryStore::new());
        secured
            .backup(&url, &[(variable, value)], &vault)
            .await
            .unwrap_or_else(|error| panic!("{url} {variable}: {error:?}"));
        let copy = url.replace("/shop", "/copy").replace("?", "&");
        let variables = [(variable, value)];
        if variable == "PGPASSWORD" {
            secured.recover(&vault, &copy, &variables).await.unwrap_or_else(|error| panic!("{copy}: {error:?}"));
            assert_eq!(content(&secured.server, "copy"), content(&secured.server, "shop"));
            secured.server.sql("postgres", "DROP DATABASE copy");
        }
        let calls = secured.calls();
        let told = calls.iter().filter(|line| line.starts_with("with PGPASSWORD=")).count();
        assert!(told > 0 && calls.contains(&format!("with PGPASSWORD={PASSWORD}")), "{url}: {calls:?}");
        for line in calls.iter().filter(|line| !line.starts_with("with PGPASSWORD=")) {
            nothing_told(&url, line);
        }
    }
    drop(listening);
    nothing_told("the log", &log.text());
    nothing_stays(&secured.server, "shop");
}

#[tokio::test]
async fn passwords_are_told_to_the_server_of_version_15_and_to_nobody_else() {
    logs_in_and_says_no_password(15).await;
}

#[tokio::test]
async fn passwords_are_told_to_the_server_of_version_18_and_to_nobody_else() {
    logs_in_and_says_no_password(18).await;
}

/// Our connection and those of `pg_dump` make the same choice, with any files in the user's home and any environment.
#[tokio::test]
async fn tls_modes_are_those_of_psql_and_pg_dump_comes_to_the_same_decision() {
    let secured = Secured::start(15);
    let (ours, strangers) =
        (secured.file("ca.pem").display().to_string(), secured.file("stranger.pem").display().to_string());
    let home_of = |root: &str| {
        let home = tempfile::tempdir_in(secured.file("")).expect("a folder").keep();
        std::fs::create_dir(home.join(".postgresql")).expect("made");
        std::fs::copy(root, home.join(".postgresql/root.crt")).expect("copied");
        home.display().to_string()
    };
    let (home, strange_home) = (home_of(&ours), home_of(&strangers));
    let home = [("HOME", home.as_str())];
    let strange_home = [("HOME", strange_home.as_str())];
    let system = [("SSL_CERT_FILE", ours.as_str())];
    let strange_system = [("SSL_CERT_FILE", strangers.as_str())];
    let named = |mode: &str, root: &str| format!("sslmode={mode}&sslrootcert={}", root.replace('/', "%2F"));
    let certificate = Err(("postgres.certificate", "sslrootcert"));
    let nobody: &[(&str, &str)] = &[];
    let rows = [
        ("app", "localhost", "sslmode=disable".to_owned(), nobody, Ok(())),
        ("app", "localhost", "sslmode=allow".to_owned(), nobody, Ok(())),
        ("app", "127.0.0.1", "sslmode=require".to_owned(), nobody, Ok(())),
        // Who must, or mustn't, come within TLS.
        ("tls", "localhost", "sslmode=allow".to_owned(), nobody, Ok(())),
        ("tls", "localhost", "sslmode=prefer".to_owned(), &strange_home, Ok(())),
        ("tls", "localhost", "sslmode=disable".to_owned(), nobody, Err(("postgres.login", "pg_hba.conf"))),
        ("plain", "localhost", "sslmode=prefer".to_owned(), nobody, Ok(())),
        ("plain", "localhost", "sslmode=allow".to_owned(), &strange_home, Ok(())),
        ("plain", "localhost", "sslmode=require".to_owned(), nobody, Err(("postgres.login", "pg_hba.conf"))),
        // A file that is named.
        ("app", "127.0.0.1", named("verify-ca", &ours), nobody, Ok(())),
        ("app", "localhost", named("verify-full", &ours), &strange_home, Ok(())),
        ("app", "127.0.0.1", named("verify-full", &ours), nobody, Err(("postgres.certificate", "verify-ca"))),
        ("app", "localhost", named("verify-full", &strangers), &home, certificate),
        ("app", "localhost", named("verify-ca", &strangers), nobody, certificate),
        ("app", "localhost", named("require", &strangers), nobody, certificate),
        ("app", "localhost", named("verify-full", "/nowhere/ca.pem"), nobody, Err(("postgres.url", "PEM"))),
        // The one in the user's home.
        ("app", "localhost", "sslmode=verify-full".to_owned(), &home, Ok(())),
        ("app", "127.0.0.1", "sslmode=verify-ca".to_owned(), &home, Ok(())),
        ("app", "localhost", "sslmode=require".to_owned(), &strange_home, certificate),
        ("app", "localhost", "sslmode=verify-ca".to_owned(), nobody, Err(("postgres.url", "sslrootcert"))),
        // The system's.
        ("app", "localhost", "sslmode=verify-full".to_owned(), &system, Ok(())),
        ("app", "localhost", "sslrootcert=system".to_owned(), &system, Ok(())),
        ("app", "localhost", "sslrootcert=system".to_owned(), nobody, certificate),
        ("app", "localhost", "sslrootcert=system".to_owned(), &strange_system, certificate),
        (
            "app",
            "localhost",
            "sslrootcert=system&sslmode=require".to_owned(),
            &system,
            Err(("postgres.url", "verify-full")),
        ),
        ("app", "localhost", "channel_binding=require".to_owned(), nobody, Err(("postgres.url", "PGCHANNELBINDING"))),
        ("app", "localhost", "channel_binding=disable".to_owned(), nobody, Ok(())),
    ];
    for (role, host, settings, variables, expected) in rows {
        let url = secured.url(role, host, &format!("shop?{settings}"));
        let mut variables = variables.to_vec();
        variables.push(("PGPASSWORD", PASSWORD));
        let done = secured.backup(&url, &variables, &vault(&MemoryStore::new())).await;
        match (&done, expected) {
            (Ok(_), Ok(())) => {}
            (Err(failure), Err((code, next))) => {
                assert_eq!(failure.code, code, "{url} {variables:?}: {failure:?}");
                assert!(failure.next.contains(next), "{url}: {failure:?}");
                let kind = if code == "postgres.url" { Kind::Usage } else { Kind::Denied };
                assert_eq!(failure.kind, kind, "{url}: {failure:?}");
            }
            _ => panic!("{url} {variables:?}: {done:?}"),
        }
    }
    if secured.has_ipv6 {
        let url = secured.url("app", "[::1]", &format!("shop?{}", named("verify-full", &ours)));
        let vault = vault(&MemoryStore::new());
        secured.backup(&url, &[("PGPASSWORD", PASSWORD)], &vault).await.expect("backed up over IPv6");
    }
}

/// While one connection builds an index, the others wait for longer than the role's limit for idle sessions.
#[tokio::test]
async fn settings_of_the_role_end_no_backup_no_restore_and_no_proof() {
    let secured = Secured::start(15);
    secured.server.sql(
        "shop",
        "CREATE FUNCTION slow(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM pg_sleep(0.002); RETURN $1; END $$; \
         CREATE INDEX ON t (slow(i))",
    );
    for setting in [
        "idle_session_timeout = '1s'",
        "idle_in_transaction_session_timeout = '1s'",
        "statement_timeout = '1s'",
        "default_transaction_read_only = on",
        "default_transaction_isolation = 'serializable'",
    ] {
        secured.server.sql("postgres", &format!("ALTER ROLE app SET {setting}"));
    }
    let variables = [("PGPASSWORD", PASSWORD)];
    let vault = vault(&MemoryStore::new());
    secured.backup(&secured.url("app", "127.0.0.1", "shop"), &variables, &vault).await.expect("backed up");
    secured.recover(&vault, &secured.url("app", "127.0.0.1", "copy"), &variables).await.expect("restored");
    assert_eq!(content(&secured.server, "copy"), content(&secured.server, "shop"));
    assert_eq!(schema(&secured.server, &secured.server, "copy"), schema(&secured.server, &secured.server, "shop"));
    let proved = secured.prove(&vault, &secured.url("app", "127.0.0.1", ""), &variables).await.expect("proved");
    assert_eq!(proved.findings, Vec::new());
    nothing_stays(&secured.server, "copy");
}
