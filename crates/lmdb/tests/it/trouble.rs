//! A store that is away is told while its requests are still tried again.

use std::sync::Arc;
use std::time::Duration;

use seawall_lmdb::{Flags, SyncOptions, system_clock};
use seawall_vault::memory::MemoryStore;
use seawall_vault::simulated::SimulatedStore;
use seawall_vault::{Policy, Vault};
use tokio::time::sleep;

use crate::hints::Running;
use crate::support::{author, open, put, schema};

#[tokio::test(start_paused = true)]
async fn the_clock_of_a_failure_starts_with_the_first_attempt_that_failed() {
    let folder = tempfile::tempdir().unwrap();
    put(open(&folder.path().join("a"), &schema(false, false)).env(), "d", Flags::default(), b"k", b"1");
    let store = Arc::new(SimulatedStore::new(MemoryStore::new(), 3));
    let vault = Vault::new(store.clone(), Policy { seed: 1, ..Policy::default() });
    store.fail_from(0);
    let session = Running::start(folder.path(), "a", &vault, SyncOptions::new(author("a")));
    sleep(Duration::from_secs(3)).await;
    let status = session.status.borrow().clone();
    assert_eq!((status.listing.failures, status.listing.since), (0, None), "it is still tried");
    let now = system_clock()();
    let told = status.with_trouble(vault.trouble().as_ref(), now).listing;
    let since = told.since.expect("it fails");
    let lasts = Duration::from_nanos(now.0 - since.0);
    assert!(lasts >= Duration::from_secs(2) && lasts <= Duration::from_secs(3), "{lasts:?}");
    assert!(told.error.is_some_and(|error| error.contains("not available")));
    store.revive();
    sleep(Duration::from_secs(20)).await;
    assert_eq!(vault.trouble(), None);
    session.end().await.1.unwrap();
}
