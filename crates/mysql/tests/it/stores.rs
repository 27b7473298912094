//! Stores that are full or fail while a database is backed up.

use std::sync::Arc;

use seawall_archive::Catalog;
use seawall_core::Kind;
use seawall_vault::memory::MemoryStore;
use seawall_vault::simulated::{Fault, SimulatedStore};
use seawall_vault::{Error, Policy, Vault};

use crate::link::{make_small, nothing_is_held};
use crate::restoring::{backup, everything, is_the_same, options, recover};
use crate::server::Server;

fn full_error() -> Error {
    Error::Full { object: "the store".into(), cause: "no space".into() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_fills_up_at_any_object_leaves_no_set_and_no_lock_and_says_so() {
    let server = Server::start();
    make_small(&server);
    server.sql(
        "USE shop; CREATE TABLE big (id int PRIMARY KEY, filler blob); \
         INSERT INTO big SELECT seq, RANDOM_BYTES(900) FROM seq_1_to_20000",
    );
    let before = everything(&server, "shop");
    let store = SimulatedStore::new(MemoryStore::new(), 1);
    let vault = Vault::new(Arc::new(store.clone()), Policy { seed: 1, ..Policy::default() });
    let mut full = 0;
    loop {
        // Each time more calls succeed.
        let from = store.call_count();
        for call in from + full..from + full + 200 {
            store.fail_call(call, Fault::Fail(full_error()));
        }
        let Err(failure) = backup(&server.url("shop"), &vault).await else { break };
        store.revive();
        assert_eq!(failure.kind, Kind::Unavailable, "{full}: {failure:?}");
        assert!(!failure.next.is_empty(), "{failure:?}");
        assert_eq!(Catalog::read(&vault).await.expect("read").sets().len(), 0, "{full}");
        nothing_is_held(&server);
        full += 4;
    }
    store.revive();
    assert!(full > 8, "{full}");
    assert_eq!(Catalog::read(&vault).await.expect("read").sets().len(), 1);
    recover(&vault, &server.url("copy"), &options()).await.expect("restored");
    is_the_same(&everything(&server, "copy"), &before);
}
