//! Passes bytes on to a server, and cuts or stalls the connections when a test says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A way to a server.
#[derive(Debug)]
pub(crate) struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// How many bytes still pass before the next cut.
    left: AtomicI64,
    passed: AtomicU64,
    open: AtomicUsize,
    opened: AtomicUsize,
    cuts: AtomicUsize,
    /// Grows with each cut.
    cut: watch::Sender<usize>,
    stalled: watch::Sender<bool>,
}

const NEVER: i64 = i64::MAX / 2;

impl Proxy {
    /// A way to a port of this machine.
    pub(crate) async fn start(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let shared = Arc::new(Shared {
            left: AtomicI64::new(NEVER),
            passed: AtomicU64::new(0),
            open: AtomicUsize::new(0),
            opened: AtomicUsize::new(0),
            cuts: AtomicUsize::new(0),
            cut: watch::Sender::new(0),
            stalled: watch::Sender::new(false),
        });
        let own = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let own = Arc::clone(&own);
                tokio::spawn(async move {
                    let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await else { return };
                    own.opened.fetch_add(1, Ordering::SeqCst);
                    own.open.fetch_add(1, Ordering::SeqCst);
                    let (from_client, to_client) = client.into_split();
                    let (from_server, to_server) = server.into_split();
                    // A closed end closes the other one.
                    tokio::select! {
                        () = own.carry(from_client, to_server) => {}
                        () = own.carry(from_server, to_client) => {}
                    }
                    own.open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self { port, shared }
    }

    /// Where clients connect to.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Cuts all connections now. New ones pass.
    pub(crate) fn cut(&self) {
        self.shared.cut();
    }

    /// Cuts all connections once, after so many more bytes.
    pub(crate) fn cut_after(&self, bytes: i64) {
        self.shared.left.store(bytes, Ordering::SeqCst);
    }

    /// Lets no byte pass from now on.
    pub(crate) fn stall(&self) {
        self.shared.stalled.send_replace(true);
    }

    /// Lets bytes pass again.
    pub(crate) fn mend(&self) {
        self.shared.stalled.send_replace(false);
    }

    /// How many connections are open.
    pub(crate) fn open(&self) -> usize {
        self.shared.open.load(Ordering::SeqCst)
    }

    /// How many connections were opened.
    pub(crate) fn opened(&self) -> usize {
        self.shared.opened.load(Ordering::SeqCst)
    }

    /// How often connections were cut.
    pub(crate) fn cuts(&self) -> usize {
        self.shared.cuts.load(Ordering::SeqCst)
    }

    /// How many bytes passed.
    pub(crate) fn passed(&self) -> u64 {
        self.shared.passed.load(Ordering::SeqCst)
    }

    /// Waits until no connection is open.
    pub(crate) async fn wait_until_closed(&self) {
        let closed = async {
            while self.open() > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), closed).await.expect("the connections are closed");
    }
}

impl Shared {
    fn cut(&self) {
        self.left.store(NEVER, Ordering::SeqCst);
        self.cuts.fetch_add(1, Ordering::SeqCst);
        self.cut.send_modify(|number| *number += 1);
    }

    async fn carry(&self, mut from: impl AsyncReadExt + Unpin, mut to: impl AsyncWriteExt + Unpin) {
        let mut cut = self.cut.subscribe();
        let mut stalled = self.stalled.subscribe();
        let mut buffer = vec![0; 16 << 10];
        loop {
            let size = tokio::select! {
                read = from.read(&mut buffer) => match read { Ok(size @ 1..) => size, _ => return },
                _ = cut.changed() => return,
            };
            tokio::select! {
                _ = stalled.wait_for(|stalled| !stalled) => {}
                _ = cut.changed() => return,
            }
            let moved = i64::try_from(size).expect("a small number");
            if self.left.fetch_sub(moved, Ordering::SeqCst) < moved {
                self.cut();
                return;
            }
            self.passed.fetch_add(size as u64, Ordering::SeqCst);
            if to.write_all(&buffer[..size]).await.is_err() {
                return;
            }
        }
    }
}
