//! One SFTP session: requests go out as they come, answers come back in any order, and many are under way at once.
//!
//! A future that is dropped leaves its request behind; the answer is then thrown away, and a handle that it brings is
//! closed. A session ends with its connection, with an answer that can't be read, and after a silence while answers are
//! due. An ended session fails every request at once; there is no other state to mend.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};

use super::wire::{self, Answer, Kind, LARGEST, Request};

/// The requests of one session that are under way at most.
const REQUESTS: usize = 128;

/// The handles of one session that are open at most; servers bound them too.
const HANDLES: usize = 64;

/// The bytes of one read or write that every server takes.
const EVERYWHERE: usize = 32 << 10;

/// The most bytes of one read or write: what OpenSSH takes.
const LARGEST_CHUNK: usize = LARGEST - 1024;

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Gone {
    /// The session has ended.
    Lost(String),
    /// The server was silent for so long.
    Silent(Duration),
}

/// What a server can, beyond the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Features {
    /// `fsync@openssh.com`.
    pub(super) sync: bool,
    /// `hardlink@openssh.com`: a second name for a file, refused if the name is taken.
    pub(super) link: bool,
    /// `posix-rename@openssh.com`: a new name for a file, over another one.
    pub(super) replace: bool,
    /// `statvfs@openssh.com`.
    pub(super) space: bool,
    /// The bytes of one read.
    pub(super) read: usize,
    /// The bytes of one write.
    pub(super) write: usize,
}

/// How long a silent server is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Patience {
    /// Beside the time for the bytes that are under way.
    pub(super) silence: Duration,
    /// The slowest transfer, in bytes a second.
    pub(super) slowest: u64,
}

/// A request whose answer is due.
struct Waiting {
    answer: oneshot::Sender<Answer>,
    weight: u64,
    _permit: OwnedSemaphorePermit,
}

#[derive(Debug)]
struct Shared {
    /// `None` once the session has ended.
    waiting: Mutex<Option<HashMap<u32, Waiting>>>,
    /// Why it ended.
    end: Mutex<String>,
    silent: AtomicBool,
    /// When bytes last went out or came in, or the first request after a rest was made.
    moved: Mutex<Instant>,
    /// The bytes that are under way.
    weight: AtomicU64,
    requests: Arc<Semaphore>,
    handles: Arc<Semaphore>,
}

impl std::fmt::Debug for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Waiting")
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each state is consistent between any two statements.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn new() -> Self {
        Self {
            waiting: Mutex::new(Some(HashMap::new())),
            end: Mutex::default(),
            silent: AtomicBool::new(false),
            moved: Mutex::new(Instant::now()),
            weight: AtomicU64::new(0),
            requests: Arc::new(Semaphore::new(REQUESTS)),
            handles: Arc::new(Semaphore::new(HANDLES)),
        }
    }

    fn move_on(&self) {
        *lock(&self.moved) = Instant::now();
    }

    fn end(&self, cause: &str) {
        let waiting = lock(&self.waiting).take();
        if waiting.is_some() {
            cause.clone_into(&mut lock(&self.end));
        }
        self.requests.close();
        self.handles.close();
    }

    fn lost(&self) -> Gone {
        Gone::Lost(lock(&self.end).clone())
    }

    /// Hands an answer to its request. Returns a handle that no request waits for.
    fn deliver(&self, id: u32, answer: Answer) -> Option<Bytes> {
        let waiting = lock(&self.waiting).as_mut()?.remove(&id)?;
        self.weight.fetch_sub(waiting.weight, Ordering::Relaxed);
        match waiting.answer.send(answer) {
            Err(Answer::Handle(handle)) => Some(handle),
            _ => None,
        }
    }
}

/// A session.
#[derive(Debug)]
pub(super) struct Session {
    shared: Arc<Shared>,
    outgoing: mpsc::Sender<Bytes>,
    ids: AtomicU32,
    features: Features,
    patience: Patience,
    tasks: [AbortHandle; 2],
}

impl Drop for Session {
    fn drop(&mut self) {
        self.shared.end("the session was closed");
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

impl Session {
    /// Begins a session. The caller bounds the time.
    ///
    /// # Errors
    /// What the server said isn't SFTP of this version, or the connection ended.
    pub(super) async fn begin<S>(mut stream: S, patience: Patience) -> Result<Self, String>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let broken = |error: std::io::Error| format!("SFTP did not begin: {error}");
        stream.write_all(&wire::hello()).await.map_err(broken)?;
        stream.flush().await.map_err(broken)?;
        let (version, extensions) = wire::welcome(receive(&mut stream).await?).map_err(|error| error.to_string())?;
        if version < wire::VERSION {
            return Err(format!("the server speaks version {version} of SFTP, and not {}", wire::VERSION));
        }
        let has = |name: &str, version: &str| extensions.get(name).is_some_and(|found| found == version);
        let features = Features {
            sync: has("fsync@openssh.com", "1"),
            link: has("hardlink@openssh.com", "1"),
            replace: has("posix-rename@openssh.com", "1"),
            space: has("statvfs@openssh.com", "2"),
            read: EVERYWHERE,
            write: EVERYWHERE,
        };
        let shared = Arc::new(Shared::new());
        // A bound, so that writers wait while the connection is slow.
        let (outgoing, queue) = mpsc::channel(8);
        let (from, to) = tokio::io::split(stream);
        let reader = tokio::spawn(read(from, Arc::clone(&shared), outgoing.downgrade()));
        let writer = tokio::spawn(write(to, Arc::clone(&shared), queue));
        let tasks = [reader.abort_handle(), writer.abort_handle()];
        let mut session = Self { shared, outgoing, ids: AtomicU32::new(1), features, patience, tasks };
        if has("limits@openssh.com", "1") {
            session.ask_for_limits().await?;
        }
        Ok(session)
    }

    async fn ask_for_limits(&mut self) -> Result<(), String> {
        let answer = self.ask(0, |id| Request::extended("limits@openssh.com", id).done()).await;
        let Ok(Answer::Extended(reply)) = answer else { return Err("the server didn't tell its limits".to_owned()) };
        let (read, write) = wire::limits(reply).map_err(|error| error.to_string())?;
        // No bound is 0.
        let chunk = |most: u64| match usize::try_from(most) {
            Ok(0) => EVERYWHERE,
            most => most.unwrap_or(LARGEST_CHUNK).clamp(512, LARGEST_CHUNK),
        };
        (self.features.read, self.features.write) = (chunk(read), chunk(write));
        Ok(())
    }

    /// What the server can.
    pub(super) fn features(&self) -> Features {
        self.features
    }

    /// Whether requests can still be made.
    pub(super) fn is_alive(&self) -> bool {
        lock(&self.shared.waiting).is_some()
    }

    /// Whether it ended because the server was silent.
    pub(super) fn is_silent(&self) -> bool {
        self.shared.silent.load(Ordering::Relaxed)
    }

    /// Makes a request that moves `weight` bytes in either direction, and waits for its answer.
    ///
    /// # Errors
    /// The session has ended, perhaps just now. The server may have carried the request out.
    pub(super) async fn ask(&self, weight: u64, build: impl FnOnce(u32) -> Bytes) -> Result<Answer, Gone> {
        let permit = self.within(Arc::clone(&self.shared.requests).acquire_owned()).await?;
        let permit = permit.map_err(|_| self.shared.lost())?;
        let (sender, receiver) = oneshot::channel();
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        match lock(&self.shared.waiting).as_mut() {
            None => return Err(self.shared.lost()),
            Some(waiting) => {
                if waiting.is_empty() {
                    self.shared.move_on();
                }
                self.shared.weight.fetch_add(weight, Ordering::Relaxed);
                waiting.insert(id, Waiting { answer: sender, weight, _permit: permit });
            }
        }
        let sent = self.within(self.outgoing.send(build(id))).await?;
        sent.map_err(|_| self.shared.lost())?;
        self.within(receiver).await?.map_err(|_| self.shared.lost())
    }

    /// Waits for something, for as long as bytes move.
    async fn within<T>(&self, wanted: impl Future<Output = T>) -> Result<T, Gone> {
        tokio::pin!(wanted);
        loop {
            let patience = self.patience();
            let end = *lock(&self.shared.moved) + patience;
            let left = end.saturating_duration_since(Instant::now());
            // A rest before the request doesn't count, so there is always some time.
            if let Ok(value) = timeout(left.max(Duration::from_millis(10)), &mut wanted).await {
                return Ok(value);
            }
            if *lock(&self.shared.moved) + self.patience() <= Instant::now() {
                self.shared.silent.store(true, Ordering::Relaxed);
                self.shared.end("the server is silent");
                return Err(Gone::Silent(patience));
            }
        }
    }

    fn patience(&self) -> Duration {
        let seconds = self.shared.weight.load(Ordering::Relaxed) / self.patience.slowest.max(1);
        self.patience.silence + Duration::from_secs(seconds)
    }

    /// A place among the handles that may be open.
    pub(super) async fn place(&self) -> Result<OwnedSemaphorePermit, Gone> {
        // Readers that rest hold handles, too: how long this takes says nothing about the server.
        Arc::clone(&self.shared.handles).acquire_owned().await.map_err(|_| self.shared.lost())
    }

    /// Makes a request of a handle or a path without waiting: [`Kind::Close`] or [`Kind::Remove`]. A session that has
    /// ended sends nothing more.
    pub(super) fn tell(&self, kind: Kind, what: &[u8]) {
        if self.is_alive() {
            tell(&self.outgoing, self.ids.fetch_add(1, Ordering::Relaxed), kind, what);
        }
    }
}

fn tell(outgoing: &mpsc::Sender<Bytes>, id: u32, kind: Kind, what: &[u8]) {
    let packet = Request::new(kind, id, what.len()).bytes(what).done();
    let Err(mpsc::error::TrySendError::Full(packet)) = outgoing.try_send(packet) else { return };
    // Without a runtime the whole connection ends.
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        let outgoing = outgoing.clone();
        runtime.spawn(async move { outgoing.send(packet).await });
    }
}

/// Takes one packet from a server.
async fn receive(from: &mut (impl AsyncRead + Unpin)) -> Result<Bytes, String> {
    let ended = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => "the connection ended".to_owned(),
        _ => format!("the connection broke: {error}"),
    };
    let length = from.read_u32().await.map_err(ended)? as usize;
    if length == 0 || length > LARGEST {
        return Err(format!("an answer of {length} bytes is not taken"));
    }
    let mut packet = BytesMut::zeroed(length);
    from.read_exact(&mut packet).await.map_err(ended)?;
    Ok(packet.freeze())
}

async fn read(mut from: impl AsyncRead + Unpin, shared: Arc<Shared>, outgoing: mpsc::WeakSender<Bytes>) {
    // Ids of requests that no one waits for come from the other end of the numbers.
    let mut spare = u32::MAX;
    let cause = loop {
        let packet = match receive(&mut from).await {
            Ok(packet) => packet,
            Err(cause) => break cause,
        };
        shared.move_on();
        match wire::answer(packet) {
            Ok((id, answer)) => {
                if let (Some(handle), Some(outgoing)) = (shared.deliver(id, answer), outgoing.upgrade()) {
                    tell(&outgoing, spare, Kind::Close, &handle);
                    spare = spare.wrapping_sub(1);
                }
            }
            Err(error) => break error.to_string(),
        }
    };
    shared.end(&cause);
}

async fn write(mut to: impl AsyncWrite + Unpin, shared: Arc<Shared>, mut queue: mpsc::Receiver<Bytes>) {
    while let Some(packet) = queue.recv().await {
        for chunk in packet.chunks(EVERYWHERE) {
            if let Err(error) = to.write_all(chunk).await {
                shared.end(&format!("the connection broke: {error}"));
                return;
            }
            shared.move_on();
        }
        if let Err(error) = to.flush().await {
            shared.end(&format!("the connection broke: {error}"));
            return;
        }
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
