//! Collects the statuses of all sessions, and answers the requests of the HTTP status page from them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::TryStreamExt as _;
use hyper::{Method, StatusCode};
use seawall_lmdb::{NanoClock, SessionStatus, Stamp};
use seawall_vault::{Prefix, Vault};
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::health::{self, HealthRules};
use super::page;
use crate::http::{Answer, Handler, Request};
use crate::services::resources::Resources;

/// How long a listing of the storage may take.
const LISTING: Duration = Duration::from_secs(10);

/// The most objects that are listed.
const OBJECTS: usize = 100_000;

/// All sessions of a process.
pub(crate) struct Board {
    rules: HealthRules,
    clock: NanoClock,
    hostname: String,
    version: &'static str,
    sessions: Mutex<BTreeMap<String, Seen>>,
    vault: Mutex<Option<Vault>>,
    /// When the process began.
    began: Stamp,
    /// The last status that was found, and since when it is so.
    last: Mutex<Option<(&'static str, Stamp)>>,
}

/// How a session can be seen.
enum Seen {
    /// It hasn't begun, or could not begin.
    Alone(Box<SessionStatus>),
    /// It tells itself, and the vault tells what its requests have come to.
    Live(watch::Receiver<SessionStatus>, Vault),
}

impl Board {
    /// A board for environments that are about to be opened.
    pub(crate) fn new<'a>(
        databases: impl Iterator<Item = &'a str>,
        rules: HealthRules,
        clock: NanoClock,
        hostname: &str,
        version: &'static str,
    ) -> Arc<Self> {
        let began = clock();
        let alone = |name: &str| {
            let status = SessionStatus { database: name.to_owned(), began, ..SessionStatus::default() };
            (name.to_owned(), Seen::Alone(Box::new(status)))
        };
        Arc::new(Self {
            rules,
            clock,
            hostname: hostname.to_owned(),
            version,
            sessions: Mutex::new(databases.map(alone).collect()),
            vault: Mutex::default(),
            began,
            last: Mutex::default(),
        })
    }

    /// An environment is to be opened that wasn't known.
    pub(crate) fn comes(&self, database: &str) {
        let status = SessionStatus { database: database.to_owned(), began: (self.clock)(), ..SessionStatus::default() };
        lock(&self.sessions).insert(database.to_owned(), Seen::Alone(Box::new(status)));
    }

    /// An environment isn't kept in step any more, on purpose.
    pub(crate) fn goes(&self, database: &str) {
        lock(&self.sessions).remove(database);
    }

    /// A session begins.
    pub(crate) fn begins(&self, database: &str, status: watch::Receiver<SessionStatus>, vault: &Vault) {
        lock(&self.sessions).insert(database.to_owned(), Seen::Live(status, vault.clone()));
        lock(&self.vault).get_or_insert_with(|| vault.clone());
    }

    /// A session can't begin yet.
    pub(crate) fn waits(&self, database: &str, cause: &str) {
        if let Some(Seen::Alone(status)) = lock(&self.sessions).get_mut(database) {
            status.local.failed((self.clock)(), cause.to_owned());
        }
    }

    /// A session is over, or could not begin.
    pub(crate) fn ended(&self, database: &str, cause: &str) {
        let mut sessions = lock(&self.sessions);
        let Some(seen) = sessions.get_mut(database) else { return };
        let mut status = seen.status((self.clock)());
        status.ended = Some(cause.to_owned());
        *seen = Seen::Alone(Box::new(status));
    }

    fn statuses(&self) -> Vec<SessionStatus> {
        let now = (self.clock)();
        lock(&self.sessions).values().map(|seen| seen.status(now)).collect()
    }

    fn health(&self) -> Answer {
        let (now, statuses) = ((self.clock)(), self.statuses());
        let health = health::judge(&statuses, &self.rules, now);
        let since = {
            let mut last = lock(&self.last);
            match *last {
                Some((status, since)) if status == health.status() => since,
                _ => last.insert((health.status(), health::since(&health, &statuses, self.began, now))).1,
            }
        };
        let document = health::document(&health, &statuses, &self.rules, (now, since), &self.hostname, self.version);
        let ok = health.failures.is_empty();
        Answer::json(if ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, &document)
    }

    async fn storage(&self) -> Answer {
        let vault = lock(&self.vault).clone();
        let Some(vault) = vault else { return Answer::text(StatusCode::SERVICE_UNAVAILABLE, "not open yet\n") };
        let list = async {
            let mut entries = Box::pin(vault.entries(&Prefix::all(), None));
            let (mut text, mut count) = (String::from("Name\tSize\n"), 0);
            while let Some(entry) = entries.try_next().await? {
                count += 1;
                if count > OBJECTS {
                    break;
                }
                // Writing to a text can't fail.
                let _ = writeln!(text, "{}\t{}", entry.key, entry.size);
            }
            Ok::<_, seawall_vault::Error>(text)
        };
        match timeout(LISTING, list).await {
            Ok(Ok(text)) => Answer::text(StatusCode::OK, text),
            Ok(Err(error)) => Answer::text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
            Err(_) => Answer::text(StatusCode::INTERNAL_SERVER_ERROR, "the storage doesn't answer\n"),
        }
    }
}

impl Seen {
    fn status(&self, now: Stamp) -> SessionStatus {
        match self {
            Self::Alone(status) => SessionStatus::clone(status),
            Self::Live(status, vault) => status.borrow().clone().with_trouble(vault.trouble().as_ref(), now),
        }
    }
}

#[async_trait]
impl Handler for Board {
    async fn answer(&self, request: Request) -> Answer {
        if !matches!(request.method, Method::GET | Method::HEAD) {
            return Answer::status(StatusCode::METHOD_NOT_ALLOWED);
        }
        match request.path.as_str() {
            "/" => {
                let body = page::html(&self.statuses(), self.version);
                Answer::new(StatusCode::OK, "text/html; charset=utf-8", body)
            }
            "/healthz" => self.health(),
            "/metrics" => {
                let resources = spawn_blocking(Resources::of_process).await.unwrap_or_default();
                let body = page::metrics(&self.statuses(), &resources, self.began);
                Answer::new(StatusCode::OK, crate::services::metrics::CONTENT_TYPE, body)
            }
            "/storage" => self.storage().await,
            _ => Answer::status(StatusCode::NOT_FOUND),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // Nothing that could panic is done while one is held.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
