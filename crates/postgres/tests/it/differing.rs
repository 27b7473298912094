//! A whole server is restored to one that has its roles, memberships, rights and tablespaces already: missing ones are
//! made, and remaining differences are named.

use std::sync::Arc;

use seawall_core::NoProgress;
use seawall_postgres::{DumpOptions, Restored, World, dump};
use seawall_vault::Vault;
use seawall_vault::memory::MemoryStore;

use crate::server::Server;
use crate::support::{content, environment, limits, options, recover, target, vault};

const STATEMENTS: [&str; 4] = [
    "CREATE ROLE alice LOGIN CONNECTION LIMIT 3 VALID UNTIL '2031-02-03 04:05:06+00' PASSWORD 'of the set'; CREATE ROLE bob; CREATE ROLE carol; \
     CREATE ROLE staff; COMMENT ON ROLE alice IS 'it''s alice'; ALTER ROLE alice SET work_mem = '5MB'; ALTER ROLE ALL SET app.every = 'one'; \
     GRANT staff TO alice WITH ADMIN OPTION; GRANT staff TO bob; GRANT staff TO carol; GRANT pg_read_all_data TO bob; \
     GRANT SET ON PARAMETER log_statement TO alice; GRANT SET ON PARAMETER work_mem TO bob; \
     ALTER TABLESPACE fast OWNER TO alice; ALTER TABLESPACE fast SET (random_page_cost = 1.5); GRANT CREATE ON TABLESPACE fast TO bob",
    "ALTER DATABASE postgres SET app.word = 'one'",
    "ALTER ROLE alice IN DATABASE postgres SET work_mem = '6MB'",
    "GRANT CREATE ON DATABASE postgres TO bob",
];

/// Changes to a server that has all of the set's objects. A restore leaves its roles as they are.
const OTHERWISE: [&str; 5] = [
    "ALTER ROLE alice NOLOGIN CREATEDB CONNECTION LIMIT -1 PASSWORD 'of the server'; COMMENT ON ROLE alice IS NULL; \
     ALTER ROLE alice RESET work_mem; ALTER ROLE bob SET app.own = 'x'; ALTER ROLE ALL SET app.every = 'two'; ALTER ROLE ALL SET app.more = 'x'; \
     REVOKE ADMIN OPTION FOR staff FROM alice; GRANT staff TO bob WITH ADMIN OPTION; REVOKE staff FROM carol; GRANT pg_monitor TO bob; \
     REVOKE SET ON PARAMETER log_statement FROM alice; GRANT SET ON PARAMETER work_mem TO bob WITH GRANT OPTION; \
     GRANT ALTER SYSTEM ON PARAMETER work_mem TO PUBLIC; CREATE ROLE unknown; GRANT staff TO unknown; \
     GRANT SET ON PARAMETER work_mem TO unknown; COMMENT ON TABLESPACE fast IS 'mine'; ALTER TABLESPACE fast OWNER TO postgres",
    "ALTER DATABASE postgres SET app.word = 'two'",
    "ALTER DATABASE postgres SET app.more = 'x'",
    "ALTER ROLE bob IN DATABASE postgres SET work_mem = '7MB'",
    "GRANT CONNECT ON DATABASE postgres TO carol; ALTER DATABASE postgres CONNECTION LIMIT 9",
];

fn bare(major: u32) -> Server {
    let server = Server::start(major);
    let folder = server.folder_of_its_own("fast");
    server.sql("postgres", &format!("CREATE TABLESPACE fast LOCATION '{folder}'"));
    server
}

fn run(server: &Server, statements: &[&str]) {
    for statement in statements {
        server.sql("postgres", statement);
    }
}

async fn backup(server: &Server, passwords: bool) -> Vault {
    let vault = vault(&MemoryStore::new());
    let options = DumpOptions { limits: limits(server), role_passwords: passwords, ..DumpOptions::default() };
    let world = World::real(environment());
    dump(&target(&server.url("")), &vault, &options, &world, Arc::new(NoProgress)).await.expect("backed up");
    vault
}

async fn restore(vault: &Vault, server: &Server) -> Restored {
    let restored = recover(vault, &server.url(""), &options(server)).await.expect("restored");
    assert_eq!(restored.refused, Vec::new());
    restored
}

fn kept(restored: &Restored) -> Vec<String> {
    restored.kept.iter().map(|(what, how)| format!("{what}: {how}")).collect()
}

/// The memberships and the rights on parameters of a server.
fn rights(server: &Server) -> String {
    let sql = "SELECT roleid::regrole, member::regrole, admin_option FROM pg_auth_members WHERE roleid::regrole::text !~ '^pg_' ORDER BY 1, 2, 3; \
               SELECT parname, array(SELECT a::text FROM unnest(paracl) a ORDER BY 1) FROM pg_parameter_acl ORDER BY 1";
    server.sql("postgres", sql)
}

async fn there_already(major: u32) {
    let (from, to) = (bare(major), bare(major));
    run(&from, &STATEMENTS);
    run(&to, &STATEMENTS);
    run(&to, &OTHERWISE);
    let vault = backup(&from, true).await;
    let expected = [
        "role alice: the set has no CREATEDB, the set has LOGIN, the set has another connection limit, the set has another comment, \
         the set has another password, the set has another setting work_mem",
        "role bob: the set has no setting app.own",
        "membership of alice in staff: the set has ADMIN",
        "membership of bob in staff: the set has no ADMIN",
        "membership of bob in pg_monitor: the set has none",
        "rights on the setting work_mem: the set has no grant option of SET for bob, the set has no ALTER SYSTEM for PUBLIC",
        "setting app.every of all roles: the set has one",
        "setting app.more of all roles: the set has none",
        "tablespace fast: the set has the owner alice, the set has other grants, the set has another comment",
    ];
    let restored = restore(&vault, &to).await;
    assert_eq!(kept(&restored), expected, "{major}");
    let secrets = from.sql("postgres", "SELECT rolpassword FROM pg_authid WHERE rolname = 'alice'")
        + &to.sql("postgres", "SELECT rolpassword FROM pg_authid WHERE rolname = 'alice'");
    assert!(!secrets.is_empty());
    assert!(!format!("{restored:?}").contains("SCRAM"), "no password is shown");
    // The database without anything in it is made anew, with its settings for roles.
    assert_eq!(content(&to, "postgres"), content(&from, "postgres"));
    // What was missing is there; what was there is as it was.
    let rights = rights(&to);
    for line in [
        "staff|alice|f",
        "staff|bob|t",
        "staff|carol|f",
        "staff|unknown|f",
        "log_statement|{alice=s/postgres,postgres=sA/postgres}",
    ] {
        assert!(rights.lines().any(|found| found == line), "{line} in {rights}");
    }
    assert_eq!(kept(&restore(&vault, &to).await), expected, "a second time the same is named");
    // On a server that is alike nothing is, however often.
    let equal = bare(major);
    for time in ["first", "second"] {
        assert_eq!(kept(&restore(&vault, &equal).await), Vec::<String>::new(), "{time}");
    }
    // Without passwords in the set, none is compared.
    let without = restore(&backup(&from, false).await, &to).await;
    assert!(!kept(&without).concat().contains("password"));
}

#[tokio::test]
async fn what_differs_of_a_server_that_is_there_already_is_named_in_version_15() {
    there_already(15).await;
}

#[tokio::test]
async fn what_differs_of_a_server_that_is_there_already_is_named_in_version_18() {
    there_already(18).await;
}

/// Since version 16 several roles can grant the same membership, each with options of its own.
#[tokio::test]
async fn memberships_by_several_grantors_are_compared_one_by_one() {
    let (from, to) = (Server::start(18), Server::start(18));
    let both = "CREATE ROLE staff; CREATE ROLE a; CREATE ROLE b; CREATE ROLE c; CREATE ROLE d; GRANT staff TO a, b WITH ADMIN OPTION; \
                GRANT staff TO c WITH INHERIT FALSE GRANTED BY a";
    run(
        &from,
        &[
            both,
            "GRANT staff TO c WITH SET FALSE GRANTED BY b; GRANT staff TO d WITH ADMIN TRUE GRANTED BY a; GRANT staff TO b GRANTED BY d",
        ],
    );
    run(&to, &[both, "GRANT staff TO c; GRANT staff TO d WITH INHERIT FALSE GRANTED BY a"]);
    let vault = backup(&from, false).await;
    let named = [
        "membership of d in staff, granted by a: the set has ADMIN, the set has INHERIT",
        "membership of c in staff: the set has none",
        "membership of b in staff, granted by d: not granted: d isn't its admin here",
    ];
    for _ in 0..2 {
        assert_eq!(kept(&restore(&vault, &to).await), named);
    }
    let members = "SELECT grantor::regrole, admin_option, inherit_option, set_option FROM pg_auth_members \
                   WHERE member = 'c'::regrole ORDER BY grantor::regrole::text";
    assert_eq!(to.sql("postgres", members), "a|f|f|t\nb|f|t|f\npostgres|f|t|t");
}
