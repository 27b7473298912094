//! The one connection to a server, shared by all places on it: made when it is needed, made again after it broke, closed
//! after a rest.
//!
//! A connection carries a few sessions; the least busy one takes the next operation. A server bounds the sessions of a
//! connection: one that it refuses isn't asked for again. Nothing is sent while nothing is asked (I6).

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::connect::{Connection, Server};
use super::session::{Features, Session};
use crate::Error;

/// The sessions of a connection at most. OpenSSH allows 10 by itself.
const SESSIONS: usize = 4;

/// How long an unused connection is kept.
const IDLE: Duration = Duration::from_secs(60);

/// What is open now.
#[derive(Debug)]
struct Open {
    // Before the connection, so that they end first.
    sessions: Vec<Arc<Session>>,
    connection: Connection,
    /// Whether the server may give another session.
    more: bool,
    watch: AbortHandle,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

/// The way to one server.
#[derive(Debug)]
pub(crate) struct Link {
    server: Server,
    open: tokio::sync::Mutex<Option<Open>>,
    users: AtomicUsize,
    /// When an operation last ended.
    used: Mutex<Instant>,
    /// Whether a file got a second name there.
    links: AtomicBool,
}

/// A session for one operation.
#[derive(Debug)]
pub(super) struct Lease {
    session: Arc<Session>,
    link: Arc<Link>,
}

impl Lease {
    fn new(session: Arc<Session>, link: Arc<Link>) -> Self {
        link.users.fetch_add(1, Ordering::Relaxed);
        Self { session, link }
    }

    /// The same session for something beside.
    pub(super) fn again(&self) -> Self {
        Self::new(Arc::clone(&self.session), Arc::clone(&self.link))
    }
}

impl std::ops::Deref for Lease {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        *self.link.used() = Instant::now();
        self.link.users.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Link {
    pub(crate) fn new(server: Server) -> Self {
        Self {
            server,
            open: tokio::sync::Mutex::default(),
            users: AtomicUsize::new(0),
            used: Mutex::new(Instant::now()),
            links: AtomicBool::new(false),
        }
    }

    /// The server that it leads to.
    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    fn used(&self) -> MutexGuard<'_, Instant> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the server is known to give files second names: then a create-only write is exact.
    pub(super) fn links(&self) -> bool {
        self.links.load(Ordering::Relaxed)
    }

    /// Notes that a file got a second name there.
    pub(super) fn has_linked(&self) {
        self.links.store(true, Ordering::Relaxed);
    }

    /// A session, connected first if need be. The others wait meanwhile, each as long as its own deadline allows.
    ///
    /// # Errors
    /// The server can't be reached, isn't known, or refuses the login.
    pub(super) async fn lease(self: &Arc<Self>) -> Result<Lease, Error> {
        let mut guard = self.open.lock().await;
        // One session in which the server is silent is a connection that leads nowhere.
        let is_dead = |open: &Open| {
            let mut sessions = open.sessions.iter();
            open.connection.is_closed()
                || open.sessions.iter().any(|session| session.is_silent())
                || sessions.all(|session| !session.is_alive())
        };
        if guard.as_ref().is_some_and(is_dead) {
            *guard = None;
        }
        let open = match guard.as_mut() {
            Some(open) => open,
            None => {
                let connection = self.server.connect().await?;
                let first = self.server.session(&connection).await?;
                report(first.features());
                *self.used() = Instant::now();
                let watch = tokio::spawn(watch(Arc::downgrade(self))).abort_handle();
                guard.insert(Open { sessions: vec![Arc::new(first)], connection, more: true, watch })
            }
        };
        open.sessions.retain(|session| session.is_alive());
        let idlest = open.sessions.iter().min_by_key(|session| Arc::strong_count(session)).cloned();
        let session = match idlest {
            // One owner is the list, one is this variable.
            Some(session) if Arc::strong_count(&session) <= 2 || !open.more || open.sessions.len() >= SESSIONS => {
                session
            }
            other => match (self.server.session(&open.connection).await, other) {
                (Ok(session), _) => {
                    let session = Arc::new(session);
                    open.sessions.push(Arc::clone(&session));
                    session
                }
                (Err(error), Some(session)) => {
                    tracing::debug!(%error, "the server gives no further session");
                    open.more = false;
                    session
                }
                (Err(error), None) => return Err(error),
            },
        };
        Ok(Lease::new(session, Arc::clone(self)))
    }
}

fn report(features: Features) {
    if !features.sync {
        tracing::warn!(
            "the SFTP server has no fsync@openssh.com: what it confirms is as durable as it makes it by itself"
        );
    }
}

/// Closes a connection that was not used for a while, and ends with it.
async fn watch(link: Weak<Link>) {
    loop {
        let Some(link) = link.upgrade() else { return };
        let mut open = link.open.lock().await;
        let end = *link.used() + IDLE;
        let rests = link.users.load(Ordering::Relaxed) == 0 && end <= Instant::now();
        if rests || open.is_none() {
            *open = None;
            return;
        }
        drop(open);
        drop(link);
        tokio::time::sleep_until(end.max(Instant::now() + Duration::from_secs(1))).await;
    }
}
