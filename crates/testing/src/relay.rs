//! Connections to a server on a port of this machine, which a test can cut after a number of bytes.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

/// A port that leads to a server's. Clones share it.
#[derive(Clone, Debug)]
pub struct Relay {
    port: u16,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// Bytes of clients that still pass; `None` is no bound.
    left: Option<u64>,
    ends: Vec<TcpStream>,
}

impl Relay {
    /// Listens at a port of its own, and connects each client to the server's.
    ///
    /// # Panics
    /// If there is no port.
    pub fn new(server: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let relay = Self { port, state: Arc::default() };
        let own = relay.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if let Ok(server) = TcpStream::connect(("127.0.0.1", server)) {
                    own.join(client, server);
                }
            }
        });
        relay
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Cuts all connections once clients have sent so many more bytes. New ones pass everything.
    pub fn cut_after(&self, bytes: u64) {
        self.lock().left = Some(bytes);
    }

    /// Whether the cut was made.
    pub fn is_cut(&self) -> bool {
        self.lock().left.is_none()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn join(&self, client: TcpStream, server: TcpStream) {
        let copy = |end: &TcpStream| end.try_clone().expect("a copy of a socket");
        self.lock().ends.extend([copy(&client), copy(&server)]);
        for (from, to, is_client) in [(copy(&client), copy(&server), true), (server, client, false)] {
            let own = self.clone();
            std::thread::spawn(move || own.carry(from, to, is_client));
        }
    }

    fn carry(&self, mut from: TcpStream, mut to: TcpStream, is_client: bool) {
        let mut buffer = [0; 16 << 10];
        while let Ok(size @ 1..) = from.read(&mut buffer) {
            if is_client && self.ends_with(size as u64) {
                break;
            }
            if to.write_all(buffer.get(..size).unwrap_or_default()).is_err() {
                break;
            }
        }
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    }

    /// Counts bytes of a client; whether they are the ones that don't pass any more.
    fn ends_with(&self, bytes: u64) -> bool {
        let mut state = self.lock();
        match state.left {
            Some(left) if left < bytes => {
                state.left = None;
                for end in state.ends.drain(..) {
                    let _ = end.shutdown(Shutdown::Both);
                }
                true
            }
            Some(left) => {
                state.left = Some(left - bytes);
                false
            }
            None => false,
        }
    }
}
