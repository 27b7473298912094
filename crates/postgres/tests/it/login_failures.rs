//! A failed login is reported once, with the reason and the next step.

use seawall_archive::Catalog;
use seawall_core::Kind;
use seawall_vault::memory::MemoryStore;

use crate::secured::{PASSWORD, Secured};
use crate::support::vault;

#[tokio::test]
async fn whoever_cannot_get_in_is_told_why_and_what_to_do() {
    let secured = Secured::start(15);
    let vault = vault(&MemoryStore::new());
    let by = |role: &str, database: &str| secured.url(role, "127.0.0.1", database);
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("bound").local_addr().expect("bound").port();
    let elsewhere = secured.home_with_password("elsewhere:*:*:*");
    let as_localhost = secured.home_with_password("localhost:*:*:*");
    let open = secured.home_with_password("*:*:*:*");
    let mode = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o644);
    std::fs::set_permissions(format!("{open}/.pgpass"), mode).expect("set");
    let right = ("PGPASSWORD", PASSWORD);
    let (login, password) = ((Kind::Denied, "postgres.login"), (Kind::Denied, "postgres.password"));
    let rows = [
        ("a wrong password", by("app", "shop"), ("PGPASSWORD", "wrong"), login, "PGPASSWORD, .pgpass"),
        ("a wrong one with MD5", by("old", "shop"), ("PGPASSWORD", "wrong"), login, "PGPASSWORD, .pgpass"),
        ("an unknown role", by("nobody", "shop"), right, login, "check role and password"),
        ("an unknown database", by("app", "nothing"), right, (Kind::NotFound, "postgres.no-database"), "psql -l"),
        (
            "nobody at the port",
            format!("postgresql://app@127.0.0.1:{free}/shop"),
            right,
            (Kind::Unavailable, "postgres.connection"),
            "check that the server is up",
        ),
        (
            "nobody at a port of IPv6",
            format!("postgresql://app@[::1]:{free}/shop"),
            right,
            (Kind::Unavailable, "postgres.connection"),
            "check that the server is up",
        ),
        ("no password anywhere", by("app", "shop"), ("LANG", "C"), password, "PGPASSFILE"),
        ("no file in the home", by("app", "shop"), ("HOME", "/nowhere"), password, "~/.pgpass"),
        ("no line that fits", by("app", "shop"), ("HOME", &elsewhere), password, "~/.pgpass"),
        ("a socket isn't localhost", secured.socket("app", "shop"), ("HOME", &as_localhost), password, "~/.pgpass"),
        ("a file that others can read", by("app", "shop"), ("HOME", &open), password, "mode 0600"),
        ("no role", "postgresql://127.0.0.1/shop".to_owned(), right, (Kind::Usage, "postgres.url"), "ROLE@HOST"),
    ];
    for (what, url, variable, expected, next) in rows {
        let failure = secured.backup(&url, &[variable], &vault).await.expect_err(what);
        assert_eq!((failure.kind, failure.code), expected, "{what}: {failure:?}");
        assert!(failure.next.contains(next), "{what}: {failure:?}");
        assert!(!format!("{failure:?}").contains("s3cret"), "{what}: {failure:?}");
    }
    assert_eq!(Catalog::read(&vault).await.expect("read").sets().len(), 0);
    assert_eq!(secured.calls(), Vec::<String>::new(), "no program is started for who can't get in");
}

fn dumps(secured: &Secured) -> usize {
    secured.calls().iter().filter(|line| line.starts_with("call pg_dump --schema-only")).count()
}

#[tokio::test]
async fn a_pg_dump_that_cannot_log_in_is_not_taken_for_a_change() {
    let secured = Secured::start(15);
    let vault = vault(&MemoryStore::new());
    let url = secured.url("app", "127.0.0.1", "shop");
    for tool in ["pg_dump", "psql"] {
        secured.wrap(tool, "unset PGPASSWORD");
    }
    let failure = secured.backup(&url, &[("PGPASSWORD", PASSWORD)], &vault).await.expect_err("it can't log in");
    assert_eq!((failure.kind, failure.code), (Kind::Unavailable, "postgres.tool-failed"), "{failure:?}");
    assert_eq!(dumps(&secured), 1, "tried once");
    assert_eq!(Catalog::read(&vault).await.expect("read").sets().len(), 0);
    // One that fails once inside is tried again.
    secured.wrap("psql", "");
    let failed = secured.file("failed").display().to_string();
    let once = format!("case \"$*\" in *--schema-only*) [ -e {failed} ] || {{ touch {failed}; exit 1; }};; esac");
    secured.wrap("pg_dump", &once);
    secured.backup(&url, &[("PGPASSWORD", PASSWORD)], &vault).await.expect("backed up");
    assert_eq!(dumps(&secured), 2);
    assert_eq!(Catalog::read(&vault).await.expect("read").sets().len(), 1);
}
