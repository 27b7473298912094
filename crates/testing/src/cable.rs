//! The connections between a program and its server, through a socket that a test can cut or stall: after a number of bytes, or
//! before or behind a chosen request.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Whether bytes that a client sends begin a request.
pub type IsRequest = fn(&[u8]) -> bool;

/// Connections to a server's socket. Clones share them.
#[derive(Clone, Debug)]
pub struct Cable {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    is_request: IsRequest,
    state: Mutex<State>,
    changed: Condvar,
}

/// What ends or stalls all connections.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum Trouble {
    #[default]
    None,
    /// So many more bytes pass, in both directions together.
    After(u64),
    /// The request of this number, from 0, doesn't reach the server.
    Before(u64),
    /// The request of this number reaches the server, and its answer doesn't come back.
    Behind(u64),
    /// No byte passes once a request with these words came.
    StallAt(Vec<u8>),
    /// All connections are cut, and new ones are cut at once.
    Cut,
    /// No byte passes.
    Stalled,
}

/// What becomes of bytes.
enum Verdict {
    Pass,
    /// They were passed on already.
    Passed,
    Cut,
}

#[derive(Debug, Default)]
struct State {
    trouble: Trouble,
    passed: u64,
    requests: u64,
    ends: Vec<UnixStream>,
}

impl State {
    fn cut(&mut self) {
        self.trouble = Trouble::Cut;
        for end in self.ends.drain(..) {
            let _ = end.shutdown(std::net::Shutdown::Both);
        }
    }
}

impl Cable {
    /// Listens at the socket `front`, and connects each client to the socket `behind`.
    ///
    /// # Panics
    /// If no socket can be made there.
    pub fn new(front: &Path, behind: &Path, is_request: IsRequest) -> Self {
        let listener = UnixListener::bind(front).expect("a socket");
        let shared = Arc::new(Shared { is_request, state: Mutex::default(), changed: Condvar::new() });
        let (own, behind) = (Arc::clone(&shared), behind.to_owned());
        std::thread::spawn(move || own.listen(&listener, &behind));
        Self { shared }
    }

    /// How many bytes have passed, in both directions together.
    pub fn passed(&self) -> u64 {
        self.shared.lock().passed
    }

    /// How many requests were sent.
    pub fn requests(&self) -> u64 {
        self.shared.lock().requests
    }

    /// Cuts all connections after so many more bytes.
    pub fn cut_after(&self, bytes: u64) {
        self.set(Trouble::After(bytes));
    }

    /// Cuts all connections before the request of this number, counted from now and from 0, reaches the server.
    pub fn cut_before(&self, request: u64) {
        self.set(Trouble::Before(request));
    }

    /// Cuts all connections when the server has that request, so that its answer is lost.
    pub fn cut_behind(&self, request: u64) {
        self.set(Trouble::Behind(request));
    }

    /// Cuts all connections now.
    pub fn cut(&self) {
        self.shared.lock().cut();
        self.shared.changed.notify_all();
    }

    /// Lets no byte pass from a request with these words on, which reaches the server. Nothing is closed.
    pub fn stall_at(&self, words: &str) {
        self.set(Trouble::StallAt(words.as_bytes().to_vec()));
    }

    /// Lets no byte pass from now on. Nothing is closed.
    pub fn stall(&self) {
        self.set(Trouble::Stalled);
    }

    /// Lets everything pass again. Connections that were cut stay so; a new count of requests begins.
    pub fn mend(&self) {
        self.set(Trouble::None);
    }

    /// Whether all connections are cut, or nothing passes.
    pub fn is_in_trouble(&self) -> bool {
        matches!(self.shared.lock().trouble, Trouble::Cut | Trouble::Stalled)
    }

    /// Waits until all connections are cut, or nothing passes. Whether that came within this time.
    pub fn wait_for_trouble(&self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        while !self.is_in_trouble() {
            if Instant::now() > deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }

    fn set(&self, trouble: Trouble) {
        let mut state = self.shared.lock();
        state.trouble = trouble;
        state.requests = 0;
        drop(state);
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listen(self: Arc<Self>, listener: &UnixListener, behind: &PathBuf) {
        for client in listener.incoming().map_while(Result::ok) {
            let mut state = self.lock();
            if state.trouble == Trouble::Cut {
                continue;
            }
            let Ok(server) = UnixStream::connect(behind) else { continue };
            let copy = |end: &UnixStream| end.try_clone().expect("a copy of a socket");
            state.ends.extend([copy(&client), copy(&server)]);
            drop(state);
            for (from, to, is_client) in [(&client, &server, true), (&server, &client, false)] {
                let (from, to, own) = (copy(from), copy(to), Arc::clone(&self));
                std::thread::spawn(move || own.carry(from, to, is_client));
            }
        }
    }

    /// Passes bytes on from one end to the other.
    fn carry(&self, mut from: UnixStream, mut to: UnixStream, is_client: bool) {
        let mut buffer = [0; 16 << 10];
        while let Ok(size @ 1..) = from.read(&mut buffer) {
            let bytes = buffer.get(..size).unwrap_or_default();
            let goes_on = match self.meet(bytes, is_client, &mut to) {
                Verdict::Pass => to.write_all(bytes).is_ok(),
                Verdict::Passed => true,
                Verdict::Cut => false,
            };
            if !goes_on {
                break;
            }
        }
        // Nor does an end pass where nothing passes.
        drop(self.until_it_passes(self.lock()));
        let _ = from.shutdown(std::net::Shutdown::Both);
        let _ = to.shutdown(std::net::Shutdown::Both);
    }

    /// Counts bytes, makes the trouble that they cause, and waits while nothing passes.
    fn meet(&self, bytes: &[u8], is_client: bool, to: &mut UnixStream) -> Verdict {
        let is_request = is_client && (self.is_request)(bytes);
        let mut state = self.lock();
        let number = state.requests;
        state.requests += u64::from(is_request);
        state.passed += bytes.len() as u64;
        let has = |words: &[u8]| bytes.windows(words.len().max(1)).any(|part| part == words);
        match &mut state.trouble {
            Trouble::After(left) => match left.checked_sub(bytes.len() as u64) {
                Some(rest) => *left = rest,
                None => state.cut(),
            },
            Trouble::Before(wanted) if is_request && number == *wanted => state.cut(),
            Trouble::Behind(wanted) if is_request && number == *wanted => {
                let _ = to.write_all(bytes);
                state.cut();
            }
            Trouble::StallAt(words) if is_request && has(words) => {
                let _ = to.write_all(bytes);
                state.trouble = Trouble::Stalled;
                drop(self.until_it_passes(state));
                return Verdict::Passed;
            }
            _ => {}
        }
        match self.until_it_passes(state).trouble {
            Trouble::Cut => Verdict::Cut,
            _ => Verdict::Pass,
        }
    }

    fn until_it_passes<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let is_stalled = |state: &mut State| state.trouble == Trouble::Stalled;
        self.changed.wait_while(state, is_stalled).unwrap_or_else(PoisonError::into_inner)
    }
}
