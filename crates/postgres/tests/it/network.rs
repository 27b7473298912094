//! Connections that break in the middle: an incomplete backup doesn't count, and an interrupted restore continues.

use std::path::{Path, PathBuf};

use seawall_archive::Catalog;
use seawall_core::{Failure, Kind};
use seawall_testing::Cable;
use seawall_vault::memory::MemoryStore;

use crate::server::Server;
use crate::support::{backup, content, nothing_stays, options, random, recover, shop, vault};

/// A cable to a server's socket, and the folder in which its other end is.
struct Link {
    folder: tempfile::TempDir,
    cable: Cable,
}

impl Link {
    fn to(server: &Server) -> Self {
        let folder = tempfile::Builder::new().prefix("cable").tempdir().expect("a folder");
        let (front, behind) = (socket(folder.path(), server.port), socket(server.folder(), server.port));
        Self { cable: Cable::new(&front, &behind, |_| false), folder }
    }

    fn url(&self, server: &Server, database: &str) -> String {
        server.url(database).replace(&encoded(server.folder()), &encoded(self.folder.path()))
    }
}

fn socket(folder: &Path, port: u16) -> PathBuf {
    folder.join(format!(".s.PGSQL.{port}"))
}

fn encoded(folder: &Path) -> String {
    folder.display().to_string().replace('/', "%2F")
}

fn filled() -> Server {
    shop(60_000, 300)
}

fn broke(failure: &Failure) -> bool {
    failure.kind == Kind::Unavailable && ["postgres.connection", "postgres.tool-failed"].contains(&failure.code)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_whose_connections_break_anywhere_fails_by_name_and_doesnt_count() {
    let (mut random, server) = (random(), filled());
    let link = Link::to(&server);
    let store = vault(&MemoryStore::new());
    backup(&server, &link.url(&server, "shop"), &store).await.expect("backed up");
    let whole = link.cable.passed();
    let vault = vault(&MemoryStore::new());
    // The last bytes are farewells, which nothing hangs on.
    for part in [0.01, 0.5, random.f64(), random.f64(), random.f64(), random.f64()] {
        link.cable.cut_after((whole as f64 * part * 0.95) as u64 + 1);
        let failure = backup(&server, &link.url(&server, "shop"), &vault).await.expect_err("it broke");
        assert!(broke(&failure), "{failure:?}");
        assert_eq!(Catalog::read(&vault).await.expect("read").sets().len(), 0);
        nothing_stays(&server, "shop");
        link.cable.mend();
    }
    backup(&server, &link.url(&server, "shop"), &vault).await.expect("backed up");
    recover(&vault, &server.url("copy"), &options(&server)).await.expect("restored");
    assert_eq!(content(&server, "copy"), content(&server, "shop"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_whose_connections_break_anywhere_goes_on() {
    let (mut random, from, to) = (random(), filled(), Server::start(15));
    let vault = vault(&MemoryStore::new());
    backup(&from, &from.url("shop"), &vault).await.expect("backed up");
    let link = Link::to(&to);
    recover(&vault, &link.url(&to, "first"), &options(&to)).await.expect("restored");
    let whole = link.cable.passed();
    let mut resumed = false;
    for part in [random.f64(), random.f64(), random.f64(), random.f64()] {
        link.cable.cut_after((whole as f64 * part * 0.3) as u64 + 1);
        let failure = recover(&vault, &link.url(&to, "copy"), &options(&to)).await.expect_err("it broke");
        assert!(broke(&failure), "{failure:?}");
        assert_eq!(to.sql("postgres", "SELECT count(*) FROM pg_database WHERE datname = 'copy'"), "0");
        resumed |= part > 0.1;
        link.cable.mend();
    }
    let restored = recover(&vault, &link.url(&to, "copy"), &options(&to)).await.expect("restored");
    assert!(restored.resumed || !resumed, "it went on where it broke");
    assert_eq!(content(&to, "copy"), content(&from, "shop"));
    nothing_stays(&to, "copy");
}
