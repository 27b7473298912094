//! What becomes of definers.

use seawall_mysql::RestoreOptions;
use seawall_vault::memory::MemoryStore;

use crate::restore::source;
use crate::restoring::{backup, backup_as_script, options, recover, unfinished};
use crate::server::Server;
use crate::support::vault;

/// Each kind of object with its definer.
fn definers(server: &Server, database: &str) -> String {
    server.sql(&format!(
        "SELECT GROUP_CONCAT(DISTINCT CONCAT(kind, ' ', definer) ORDER BY kind, definer) FROM (\
         SELECT 'view' AS kind, definer FROM information_schema.views WHERE table_schema = '{database}' UNION \
         SELECT 'trigger', definer FROM information_schema.triggers WHERE trigger_schema = '{database}' UNION \
         SELECT 'routine', definer FROM information_schema.routines WHERE routine_schema = '{database}' UNION \
         SELECT 'event', definer FROM information_schema.events WHERE event_schema = '{database}') AS x"
    ))
}

fn with(words: &[&str]) -> RestoreOptions {
    RestoreOptions { definers: words.iter().map(|word| (*word).to_owned()).collect(), ..options() }
}

#[tokio::test(flavor = "multi_thread")]
async fn definers_are_kept_replaced_or_stripped() {
    let server = source();
    let (native, script) = (vault(&MemoryStore::default()), vault(&MemoryStore::default()));
    backup(&server.url("shop"), &native).await.expect("a backup");
    backup_as_script(&server.url("shop"), &script).await.expect("a backup");
    let both = "event owner@%,event root@localhost,routine owner@%,routine root@localhost,trigger owner@%,trigger root@localhost,\
                view owner@%,view root@localhost";
    assert_eq!(definers(&server, "shop"), both);
    server.sql(
        "GRANT ALL ON *.* TO 'new one'@'10.%' IDENTIFIED BY 'x'; GRANT ALL ON *.* TO other@localhost IDENTIFIED BY 'x'",
    );
    let cases = [
        (&["keep"][..], both.to_owned(), "ENABLED"),
        (
            &["new one@10.%"],
            "event new one@10.%,routine new one@10.%,trigger new one@10.%,view new one@10.%".to_owned(),
            "ENABLED",
        ),
        (&["owner@%=new one@10.%"], both.replace("owner@%", "new one@10.%"), "ENABLED"),
        (
            &["owner@%=new one@10.%", "other@localhost"],
            both.replace("owner@%", "new one@10.%").replace("root@localhost", "other@localhost"),
            "ENABLED",
        ),
        (
            &["strip"],
            "event root@localhost,routine root@localhost,trigger root@localhost,view root@localhost".to_owned(),
            "DISABLED",
        ),
    ];
    for (number, (words, expected, status)) in cases.iter().enumerate() {
        for (vault, name) in [(&native, format!("native_{number}")), (&script, format!("script_{number}"))] {
            let restored = recover(vault, &server.url(&name), &with(words)).await.expect("a restore");
            assert!(restored.refused.is_empty(), "{:?}", restored.refused);
            assert_eq!(definers(&server, &name), *expected, "{words:?}");
            let event = format!(
                "SELECT status FROM information_schema.events WHERE event_schema = '{name}' AND event_name = 'sometimes'"
            );
            assert_eq!(server.sql(&event), *status, "{words:?}");
        }
    }
    assert_eq!(unfinished(&server), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definer_that_is_missing_is_named_before_anything_is_written() {
    let (server, other) = (source(), Server::start());
    let vault = vault(&MemoryStore::default());
    backup(&server.url("shop"), &vault).await.expect("a backup");
    for (words, missing) in [
        (&[][..], "the account owner@%"),
        (&["nobody@localhost"], "the account nobody@localhost"),
        (&["root@localhost=nobody@localhost"], "the account nobody@localhost"),
    ] {
        let failure = recover(&vault, &other.url("copy"), &with(words)).await.expect_err("it is missing");
        assert!(failure.code == "mysql.not-ready" && failure.cause.contains(missing), "{failure:?}");
        assert_eq!((unfinished(&other), other.sql("SHOW DATABASES LIKE 'copy'")), (String::new(), String::new()));
    }
    let plan = RestoreOptions { dry_run: true, ..with(&["nothing@h=root@localhost", "root@localhost"]) };
    let plan = recover(&vault, &other.url("copy"), &plan).await.expect("a plan");
    assert!(plan.lacks.is_empty() && plan.doubts.iter().any(|doubt| doubt.contains("nothing@h")), "{plan:?}");
    let failure = recover(&vault, &other.url("copy"), &with(&["no account"])).await.expect_err("it is none");
    assert_eq!(failure.code, "mysql.url");
    recover(&vault, &other.url("copy"), &with(&["root@localhost"])).await.expect("a restore");
    let expected = "event root@localhost,routine root@localhost,trigger root@localhost,view root@localhost";
    assert_eq!(definers(&other, "copy"), expected);
}
