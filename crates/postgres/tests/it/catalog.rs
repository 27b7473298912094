//! The catalog sweep: for every property in the catalogs there is an object with an unusual value. These objects are
//! backed up and restored, and the catalogs are compared with those after `pg_dump` and `psql`.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use seawall_core::{Failure, NoProgress, When};
use seawall_postgres::{CopyFormat, DumpOptions, Format, ProveOptions, World, dump, prove};
use seawall_vault::Vault;
use seawall_vault::memory::MemoryStore;

use crate::server::{Server, output};
use crate::support::{content, environment, limits, options, recover, target, vault};
use crate::walk::{differences, never_different, walk};

/// Columns with the same value in all objects of the fixture, each with the reason.
const ALIKE: [(&str, &str, &str); 24] = [
    ("pg_class", "relrewrite", "set while a table is rewritten, and seen by nobody else"),
    ("pg_collation", "collencoding", "a collation of another encoding can't be used in the database"),
    ("pg_collation", "collicurules", "version 18 of the tests is built without ICU"),
    ("pg_collation", "collisdeterministic", "version 18 of the tests is built without ICU"),
    ("pg_database", "datallowconn", "what takes no connections can't be backed up, which a whole server's backup says"),
    ("pg_database", "daticurules", "version 18 of the tests is built without ICU"),
    ("pg_database", "dathasloginevt", "set by the trigger alone"),
    ("pg_database", "encoding", "other encodings have tests of their own"),
    ("pg_extension", "extcondition", "no extension of the server's own has a table of its configuration"),
    ("pg_extension", "extconfig", "no extension of the server's own has a table of its configuration"),
    ("pg_extension", "extrelocatable", "said by the extension's own files"),
    ("pg_index", "indislive", "an index that is being dropped"),
    ("pg_index", "indisready", "an index that an interrupted command has left, which a backup names"),
    ("pg_init_privs", "objsubid", "no extension of the server's own grants columns"),
    ("pg_init_privs", "privtype", "all that are new are of extensions"),
    ("pg_language", "lanispl", "false for the server's own languages alone"),
    ("pg_seclabel", "", "no provider of labels is installed with a server"),
    ("pg_shdescription", "", "there is one database"),
    ("pg_subscription", "subenabled", "what is restored is turned off, as by pg_dump"),
    ("pg_subscription", "subskiplsn", "a position of the server that is subscribed to"),
    ("pg_subscription_rel", "", "the state of what was copied, which pg_dump leaves out as well"),
    ("pg_parameter_acl", "", "of the server"),
    ("pg_publication", "pubgencols", "there is none that differs from the usual before version 18"),
    ("pg_attribute", "attcacheoff", "used by the server while it runs"),
];

/// The role that makes, backs up and restores the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// A superuser. The fixture then also has the objects that only a superuser may make.
    Superuser,
    /// A role that owns the database, and has no other right.
    Owner,
    /// The substitute for a superuser that providers offer: it may make databases and roles.
    Admin,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Self::Superuser => "postgres",
            Self::Owner => "app",
            Self::Admin => "admin",
        }
    }
}

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/catalog").join(name)
}

/// Runs one of the server's programs as a role.
fn run(server: &Server, role: Role, program: &str, arguments: &[&str]) -> String {
    let mut tool = server.tool(program);
    tool.env("PGUSER", role.name()).args(arguments);
    output(tool)
}

/// A server with the database `shop`, which holds every object that the role may make.
fn filled(major: u32, role: Role) -> Server {
    let server = Server::start_with(major, "wal_level = logical");
    let spaces = ["fast", "slow"].map(|name| (name, server.folder_of_its_own(name)));
    for (name, folder) in spaces {
        server.sql("postgres", &format!("CREATE TABLESPACE {name} LOCATION '{folder}'"));
    }
    server.sql(
        "postgres",
        "CREATE ROLE reader; CREATE ROLE app LOGIN; CREATE ROLE other_super SUPERUSER; \
         CREATE ROLE admin LOGIN CREATEDB CREATEROLE; GRANT pg_read_all_data TO app, admin; \
         GRANT app TO admin WITH ADMIN OPTION; GRANT reader TO admin WITH ADMIN OPTION",
    );
    let provider = if major == 15 { "icu ICU_LOCALE 'de'" } else { "builtin BUILTIN_LOCALE 'C.UTF-8'" };
    let locale = format!("TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C' LOCALE_PROVIDER {provider}");
    let create = match role {
        Role::Superuser => format!("CREATE DATABASE shop OWNER other_super {locale} TABLESPACE slow"),
        Role::Owner => format!("CREATE DATABASE shop OWNER app {locale}"),
        Role::Admin => "CREATE DATABASE shop OWNER admin".to_owned(),
    };
    server.sql("postgres", &create);
    let version = format!("_{major}.sql");
    let newer = if major >= 18 { vec![format!("owner{version}")] } else { Vec::new() };
    let mut files: Vec<String> = std::iter::once("owner.sql".to_owned()).chain(newer).collect();
    match role {
        Role::Superuser => files.extend(["superuser.sql".to_owned(), format!("superuser{version}")]),
        Role::Admin => files.push("admin.sql".to_owned()),
        Role::Owner => {}
    }
    for name in files {
        let path = file(&name).display().to_string();
        run(&server, role, "psql", &["-Xq", "-v", "ON_ERROR_STOP=1", "-o", "/dev/null", "-d", "shop", "-f", &path]);
    }
    server
}

fn rename(server: &Server, from: &str, to: &str) {
    server.sql("postgres", &format!("ALTER DATABASE {from} RENAME TO {to}"));
}

/// Restores a dump into `shop` with `psql`, as PostgreSQL's documentation says.
fn load_by_psql(server: &Server, role: Role) {
    let dump = server.folder().join("dump.sql").display().to_string();
    let mut all = vec!["-d", "shop", "-f", &dump];
    all.extend((role != Role::Owner).then_some("--create"));
    run(server, role, "pg_dump", &all);
    rename(server, "shop", "source");
    make_empty(server, role);
    let into = if role == Role::Owner { "shop" } else { "postgres" };
    run(server, role, "psql", &["-Xq", "-v", "ON_ERROR_STOP=1", "-o", "/dev/null", "-d", into, "-f", &dump]);
}

/// Makes an empty database for a plain owner, who can't make one.
fn make_empty(server: &Server, role: Role) {
    if role == Role::Owner {
        let major = server.sql("postgres", "SELECT current_setting('server_version_num')::int / 10000");
        let provider = if major == "15" { "icu ICU_LOCALE 'de'" } else { "builtin BUILTIN_LOCALE 'C.UTF-8'" };
        server.sql("postgres", &format!("CREATE DATABASE shop OWNER app TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C' LOCALE_PROVIDER {provider}"));
    }
}

async fn backup(server: &Server, role: Role, vault: &Vault, format: Format, copy: CopyFormat) -> Result<(), Failure> {
    let options = DumpOptions { limits: limits(server), format, copy, ..DumpOptions::default() };
    let url = server.url_as(role.name(), "shop");
    dump(&target(&url), vault, &options, &World::real(environment()), Arc::new(NoProgress)).await?;
    Ok(())
}

async fn sweep(major: u32, role: Role) {
    let server = filled(major, role);
    let source = walk(&server, "shop");
    if role == Role::Superuser {
        let alike = never_different(&source, &walk(&server, "template1"));
        let is_excused = |(catalog, column): &(String, String)| {
            ALIKE.iter().any(|(of, which, _)| of == catalog && (which.is_empty() || which == column))
        };
        let missing: BTreeSet<_> = alike.into_iter().filter(|column| !is_excused(column)).collect();
        assert_eq!(missing, BTreeSet::new(), "the fixture needs an object that differs in these columns");
    }
    let formats = [
        (Format::Native, CopyFormat::Text),
        (Format::Native, CopyFormat::Binary),
        (Format::Custom, CopyFormat::Text),
        (Format::Plain, CopyFormat::Text),
        (Format::Directory, CopyFormat::Text),
    ];
    // The other roles go the same ways: one of each kind is enough.
    let all = role == Role::Superuser;
    let mut sets = Vec::new();
    for (format, copy) in formats.into_iter().filter(|form| all || form.0 == Format::Custom || *form == formats[0]) {
        let vault = vault(&MemoryStore::new());
        backup(&server, role, &vault, format, copy).await.expect("backed up");
        sets.push((vault, format, copy));
    }
    load_by_psql(&server, role);
    let (expected, rows) = (walk(&server, "shop"), content(&server, "shop"));
    rename(&server, "shop", "stock");
    for (vault, format, copy) in sets {
        make_empty(&server, role);
        recover(&vault, &server.url_as(role.name(), "shop"), &options(&server)).await.expect("restored");
        let told = differences(&expected, &walk(&server, "shop"));
        assert!(told.is_empty(), "{role:?} {major} {format:?} {copy:?}: {}", told.join("\n"));
        assert_eq!(content(&server, "shop"), rows, "{role:?} {major} {format:?} {copy:?}");
        let name = format!("done_{}_{}", format.name(), u8::from(copy == CopyFormat::Binary));
        rename(&server, "shop", &name);
        if role == Role::Superuser {
            // Whatever the names and the order of columns, what is sound is called so.
            for to in [Some(target(&server.url("postgres"))), None] {
                let options = ProveOptions { when: When::Latest, to, limits: limits(&server) };
                let proved =
                    prove(&vault, &options, &World::real(environment()), Arc::new(NoProgress)).await.expect("proved");
                assert_eq!(proved.findings, Vec::new(), "{major} {format:?} {copy:?} {:?}", options.to);
            }
            assert_eq!(server.sql("postgres", "SELECT count(*) FROM pg_database WHERE datname LIKE 'seawall%'"), "0");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_that_a_superuser_can_make_comes_back_as_by_pg_dump_in_version_15() {
    sweep(15, Role::Superuser).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_that_a_superuser_can_make_comes_back_as_by_pg_dump_in_version_18() {
    sweep(18, Role::Superuser).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_that_an_owner_can_make_comes_back_as_by_pg_dump_in_version_15() {
    sweep(15, Role::Owner).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_that_an_owner_can_make_comes_back_as_by_pg_dump_in_version_18() {
    sweep(18, Role::Owner).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_that_an_admin_of_a_provider_can_make_comes_back_as_by_pg_dump_in_version_15() {
    sweep(15, Role::Admin).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_that_an_admin_of_a_provider_can_make_comes_back_as_by_pg_dump_in_version_18() {
    sweep(18, Role::Admin).await;
}
