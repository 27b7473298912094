//! Connections that break in the middle: an incomplete backup doesn't count, and an interrupted restore continues.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use seawall_archive::Catalog;
use seawall_core::{Failure, Kind};
use seawall_vault::memory::MemoryStore;

use crate::server::Server;
use crate::support::{backup, content, nothing_stays, options, random, recover, shop, vault};

/// The connections to a server. They break after a number of bytes, and stay broken until they are mended.
struct Cable {
    folder: tempfile::TempDir,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    passed: AtomicU64,
    /// How many bytes may still pass.
    left: AtomicI64,
    ends: Mutex<Vec<UnixStream>>,
}

impl State {
    /// Whether these bytes may pass. If not, all connections break.
    fn pass(&self, bytes: usize) -> bool {
        self.passed.fetch_add(bytes as u64, Ordering::SeqCst);
        if self.left.fetch_sub(bytes as i64, Ordering::SeqCst) > bytes as i64 {
            return true;
        }
        for end in self.ends.lock().expect("no panic").drain(..) {
            let _ = end.shutdown(std::net::Shutdown::Both);
        }
        false
    }

    /// Passes bytes on from one end to the other.
    fn carry(&self, mut from: UnixStream, mut to: UnixStream) {
        let mut buffer = [0; 16 << 10];
        while let Ok(size @ 1..) = from.read(&mut buffer) {
            if !self.pass(size) || to.write_all(&buffer[..size]).is_err() {
                break;
            }
        }
        let _ = from.shutdown(std::net::Shutdown::Both);
        let _ = to.shutdown(std::net::Shutdown::Both);
    }
}

impl Cable {
    fn to(server: &Server) -> Self {
        let folder = tempfile::Builder::new().prefix("cable").tempdir_in("/tmp").expect("a folder");
        let listener = UnixListener::bind(socket(folder.path(), server.port)).expect("bound");
        let state = Arc::new(State { left: AtomicI64::new(i64::MAX / 2), ..State::default() });
        let (carrier, behind) = (Arc::clone(&state), socket(server.folder(), server.port));
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if carrier.left.load(Ordering::SeqCst) <= 0 {
                    continue;
                }
                let Ok(server) = UnixStream::connect(&behind) else { continue };
                let ends = [(&client, &server), (&server, &client)];
                for (from, to) in
                    ends.map(|(from, to)| (from.try_clone().expect("a copy"), to.try_clone().expect("a copy")))
                {
                    carrier.ends.lock().expect("no panic").push(from.try_clone().expect("a copy"));
                    let carrier = Arc::clone(&carrier);
                    std::thread::spawn(move || carrier.carry(from, to));
                }
            }
        });
        Self { folder, state }
    }

    fn url(&self, server: &Server, database: &str) -> String {
        server.url(database).replace(&encoded(server.folder()), &encoded(self.folder.path()))
    }

    fn passed(&self) -> u64 {
        self.state.passed.load(Ordering::SeqCst)
    }

    fn break_after(&self, bytes: u64) {
        self.state.left.store(i64::try_from(bytes).expect("few"), Ordering::SeqCst);
    }

    fn mend(&self) {
        self.state.left.store(i64::MAX / 2, Ordering::SeqCst);
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
    let cable = Cable::to(&server);
    let store = vault(&MemoryStore::new());
    backup(&server, &cable.url(&server, "shop"), &store).await.expect("backed up");
    let whole = cable.passed();
    let vault = vault(&MemoryStore::new());
    // The last bytes are farewells, which nothing hangs on.
    for part in [0.01, 0.5, random.f64(), random.f64(), random.f64(), random.f64()] {
        cable.break_after((whole as f64 * part * 0.95) as u64 + 1);
        let failure = backup(&server, &cable.url(&server, "shop"), &vault).await.expect_err("it broke");
        assert!(broke(&failure), "{failure:?}");
        assert_eq!(Catalog::read(&vault).await.expect("read").sets().len(), 0);
        nothing_stays(&server, "shop");
        cable.mend();
    }
    backup(&server, &cable.url(&server, "shop"), &vault).await.expect("backed up");
    recover(&vault, &server.url("copy"), &options(&server)).await.expect("restored");
    assert_eq!(content(&server, "copy"), content(&server, "shop"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_whose_connections_break_anywhere_goes_on() {
    let (mut random, from, to) = (random(), filled(), Server::start(15));
    let vault = vault(&MemoryStore::new());
    backup(&from, &from.url("shop"), &vault).await.expect("backed up");
    let cable = Cable::to(&to);
    recover(&vault, &cable.url(&to, "first"), &options(&to)).await.expect("restored");
    let whole = cable.passed();
    let mut resumed = false;
    for part in [random.f64(), random.f64(), random.f64(), random.f64()] {
        cable.break_after((whole as f64 * part * 0.3) as u64 + 1);
        let failure = recover(&vault, &cable.url(&to, "copy"), &options(&to)).await.expect_err("it broke");
        assert!(broke(&failure), "{failure:?}");
        assert_eq!(to.sql("postgres", "SELECT count(*) FROM pg_database WHERE datname = 'copy'"), "0");
        resumed |= part > 0.1;
        cable.mend();
    }
    let restored = recover(&vault, &cable.url(&to, "copy"), &options(&to)).await.expect("restored");
    assert!(restored.resumed || !resumed, "it went on where it broke");
    assert_eq!(content(&to, "copy"), content(&from, "shop"));
    nothing_stays(&to, "copy");
}
