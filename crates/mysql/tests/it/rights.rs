//! An account with the least rights, and one that lacks some.

use seawall_core::Kind;
use seawall_vault::memory::MemoryStore;

use crate::server::Server;
use crate::support::back_up;

#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_is_named_and_what_is_named_is_enough() {
    let server = Server::start_with(&["--log-bin", "--server-id=3"]);
    server.sql(crate::content::OBJECTS);
    server.sql("CREATE USER backup; GRANT SELECT ON shop.parts TO backup");
    let (one, all) = (server.socket("backup", "shop"), server.socket("backup", ""));
    for url in [one, all] {
        let store = MemoryStore::new();
        let failure = back_up(&url, &store).await.expect_err("denied");
        assert_eq!((failure.kind, failure.code), (Kind::Denied, "mysql.permission"));
        assert!(failure.cause.contains("SHOW VIEW"), "{failure:?}");
        server.sql(&failure.next);
        back_up(&url, &store).await.expect("backed up with what was named");
    }
}
