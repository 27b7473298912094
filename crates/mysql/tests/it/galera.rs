//! A node of a Galera cluster of MariaDB. Debian's server brings the library; where it isn't there, the run says so.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use seawall_mysql::testing::Purpose;
use seawall_mysql::{Method, SetDetail};
use seawall_vault::memory::MemoryStore;

use crate::link::{Link, make_small, nothing_is_held};
use crate::restoring::{everything, is_the_same, options as how, recover, unfinished};
use crate::server::{Server, free_port};
use crate::support::{Set, back_up, vault};

/// A cluster of one node.
fn start() -> Option<Server> {
    let library = "/usr/lib/galera/libgalera_smm.so";
    if !Path::new(library).exists() {
        eprintln!("Galera isn't in {library}: its tests did nothing");
        return None;
    }
    let provider = format!(
        "--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:{};ist.recv_addr=127.0.0.1:{};gcache.size=16M",
        free_port(),
        free_port()
    );
    let of_library = format!("--wsrep-provider={library}");
    let server = Server::start_with(&[
        "--wsrep-on=ON",
        "--wsrep-new-cluster",
        "--wsrep-cluster-address=gcomm://",
        "--wsrep-node-address=127.0.0.1",
        "--binlog-format=ROW",
        "--log-bin=bin",
        "--log-slave-updates=1",
        &of_library,
        &provider,
    ]);
    is_synced(&server);
    Some(server)
}

/// Waits until the node takes part in its cluster.
fn is_synced(server: &Server) {
    let state =
        "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'WSREP_LOCAL_STATE_COMMENT'";
    server.wait(state, "Synced");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_of_a_cluster_is_backed_up_and_restored_under_load_and_stays_in_the_cluster() {
    let Some(server) = start() else { return };
    make_small(&server);
    server.sql("CREATE DATABASE busy; CREATE TABLE busy.t (id int AUTO_INCREMENT PRIMARY KEY)");
    let before = everything(&server, "shop");
    let stop = Arc::new(AtomicBool::new(false));
    let writer = {
        let (stop, mut connection) = (Arc::clone(&stop), server.connect(Purpose::Statements).await);
        tokio::spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                connection.execute("INSERT INTO busy.t () VALUES ()").await.expect("written");
            }
        })
    };
    let store = MemoryStore::new();
    let dumped = back_up(&server.url("shop"), &store).await.expect("backed up");
    let detail: SetDetail = Set::of(&store, &dumped).await.detail();
    assert_eq!((detail.taken.method, detail.server.galera), (Method::BackupStage, true));
    assert!(detail.taken.position.is_some() && detail.taken.not_consistent.is_empty(), "{:?}", detail.taken);
    let cluster = server.sql(
        "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'WSREP_CLUSTER_STATE_UUID'",
    );
    assert_eq!(detail.server.identity, cluster, "every node is the same source");
    is_synced(&server);
    recover(&vault(&store), &server.url("copy"), &how()).await.expect("restored");
    stop.store(true, Ordering::Relaxed);
    writer.await.expect("it wrote");
    is_the_same(&everything(&server, "copy"), &before);
    assert_eq!(unfinished(&server), "");
    is_synced(&server);
}

/// While it holds the lock, the node isn't in step with its cluster. The lock ends with its session, and the node comes back.
#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_a_node_that_ends_under_its_lock_gives_the_node_back_to_the_cluster() {
    let Some(server) = start() else { return };
    make_small(&server);
    let link = Link::to(&server);
    link.cable.stall_at("START TRANSACTION WITH CONSISTENT SNAPSHOT");
    let (url, store) = (link.url("shop"), MemoryStore::new());
    let of = store.clone();
    let run = tokio::spawn(async move { back_up(&url, &of).await.map(drop) });
    let cable = link.cable.clone();
    let stalled = tokio::task::spawn_blocking(move || cable.wait_for_trouble(Duration::from_secs(60))).await;
    assert!(stalled.expect("no panic"));
    let state =
        "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'WSREP_LOCAL_STATE_COMMENT'";
    assert_eq!(server.sql(state), "Donor/Desynced");
    link.cable.cut();
    run.await.expect("no panic").expect_err("it was cut");
    is_synced(&server);
    nothing_is_held(&server);
    back_up(&server.url("shop"), &store).await.expect("backed up");
    recover(&vault(&store), &server.url("copy"), &how()).await.expect("restored");
    is_the_same(&everything(&server, "copy"), &everything(&server, "shop"));
}
