//! Asking a running process: one request each, over its control socket.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper::{Method, StatusCode};
use seawall_core::{Failure, Kind, Status, Timeline};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::api::{
    Info, List, Listed, Named, Refused, Register, Registered, ReloadAsked, Silence, Silenced, Stopped, Sync, Synced,
    WireFailure,
};
use crate::http::{Unanswered, request};
use crate::reload::{ConfigStatus, Reloaded};

/// How much longer than the process itself a client waits for what may take long.
const SLACK: Duration = Duration::from_secs(15);

/// How long an answer may take that needs no work.
const SOON: Duration = Duration::from_secs(30);

/// How long a process may take to say that it is there. A stopped process takes connections and never answers. A process
/// whose places are all held by slow peers answers once it has let them go, 5 s after they came.
const SIGN_OF_LIFE: Duration = Duration::from_secs(12);

/// A running process, known by its control socket.
#[derive(Debug, Clone)]
pub struct Control {
    socket: PathBuf,
}

#[derive(Deserialize)]
struct Statuses {
    databases: Vec<Status>,
    #[serde(default)]
    config: Option<ConfigStatus>,
}

impl Control {
    /// The process that listens on `socket`, if there is one: that shows at the first question.
    pub fn new(socket: &Path) -> Self {
        Self { socket: socket.to_owned() }
    }

    /// What process it is.
    pub async fn info(&self) -> Result<Info, Failure> {
        self.get("/info").await
    }

    /// All of its databases.
    pub async fn list(&self) -> Result<Vec<Listed>, Failure> {
        self.get("/list").await.map(|List { databases }| databases)
    }

    /// The status of all of its databases, and what it says of its configuration, if it has one.
    pub async fn status(&self) -> Result<(Vec<Status>, Option<ConfigStatus>), Failure> {
        self.get("/status").await.map(|Statuses { databases, config }| (databases, config))
    }

    /// The status of all of its databases as far as the process knows it without looking at them, and what it says of its
    /// configuration. It is cheap enough to be asked for every second.
    pub async fn known_status(&self) -> Result<(Vec<Status>, Option<ConfigStatus>), Failure> {
        self.get("/status?known").await.map(|Statuses { databases, config }| (databases, config))
    }

    /// What can be restored of a database, and its newest proofs. The process asks the vault, which may take `within`.
    pub async fn timeline(&self, database: &str, within: Duration) -> Result<Timeline, Failure> {
        let query = form_urlencoded::Serializer::new(String::new()).append_pair("path", database).finish();
        self.ask(Method::GET, &format!("/timeline?{query}"), Vec::new(), within).await
    }

    /// Has it protect a database from now on.
    pub async fn register(
        &self,
        path: &Path,
        vault: Option<&str>,
        name: Option<&str>,
        within: Duration,
    ) -> Result<Registered, Failure> {
        let body = Register {
            path: path.display().to_string(),
            replica_url: vault.map(str::to_owned),
            name: name.map(str::to_owned),
        };
        self.post("/register", &body, within).await
    }

    /// Has it let a database go.
    pub async fn unregister(&self, database: &str, within: Duration) -> Result<Stopped, Failure> {
        self.post("/unregister", &named(database, within), within).await
    }

    /// Has it start a database.
    pub async fn start(&self, database: &str, within: Duration) -> Result<Stopped, Failure> {
        self.post("/start", &named(database, within), within).await
    }

    /// Has it stop a database.
    pub async fn stop(&self, database: &str, within: Duration) -> Result<Stopped, Failure> {
        self.post("/stop", &named(database, within), within).await
    }

    /// Has it silence the alarms of a database for a time, or end the silence.
    pub async fn silence(&self, database: &str, span: Option<Duration>) -> Result<Silenced, Failure> {
        let body = Silence { path: database.to_owned(), seconds: span.map(|span| span.as_secs_f64()) };
        self.post("/silence", &body, SOON).await
    }

    /// Has it read its configuration again.
    pub async fn reload(&self, within: Duration) -> Result<Reloaded, Failure> {
        self.post("/reload", &ReloadAsked { timeout: Some(within.as_secs_f64()) }, within).await
    }

    /// Has it ship what is committed; with `wait` it is in the vault when this answers.
    pub async fn sync(&self, database: &str, wait: bool, within: Duration) -> Result<Synced, Failure> {
        let body = Sync { path: database.to_owned(), wait, timeout: Some(within.as_secs_f64()) };
        self.post("/sync", &body, within).await
    }

    async fn get<T: DeserializeOwned>(&self, target: &str) -> Result<T, Failure> {
        self.ask(Method::GET, target, Vec::new(), SOON).await
    }

    async fn post<T: DeserializeOwned>(
        &self,
        target: &str,
        body: &impl Serialize,
        within: Duration,
    ) -> Result<T, Failure> {
        let body = serde_json::to_vec(body).map_err(|error| self.broken(&error.to_string()))?;
        self.ask(Method::POST, target, body, within.saturating_add(SLACK)).await
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        target: &str,
        body: Vec<u8>,
        within: Duration,
    ) -> Result<T, Failure> {
        if let Err(Unanswered::Late) = request(&self.socket, Method::GET, "/info", Vec::new(), SIGN_OF_LIFE).await {
            return Err(self.silent());
        }
        let (status, body) = match request(&self.socket, method, target, body, within).await {
            Ok(answer) => answer,
            Err(Unanswered::Nobody(error)) => return Err(self.nobody(&error)),
            Err(Unanswered::Broken(cause)) => return Err(self.broken(&cause)),
            Err(Unanswered::Late) => return Err(self.broken("no answer in time")),
        };
        if status.is_success() {
            return serde_json::from_slice(&body).map_err(|error| self.broken(&error.to_string()));
        }
        match serde_json::from_slice::<Refused>(&body) {
            Ok(Refused { failure: Some(failure), .. }) => Err(WireFailure::arrived(failure)),
            Ok(Refused { error, details, .. }) => Err(self.refused(status, error, details)),
            Err(_) => Err(self.broken(&format!("it answers with {status}"))),
        }
    }

    fn nobody(&self, error: &std::io::Error) -> Failure {
        let (kind, next) = match error.kind() {
            std::io::ErrorKind::PermissionDenied => (Kind::Denied, "ask as the user that the process runs as"),
            _ => (Kind::NotFound, "start `seawall replicate` with a control socket, or name its socket with --socket"),
        };
        let cause = format!("no running process answers: {error}");
        Failure::new(kind, "agent.no-process", self.socket.display().to_string(), cause, next)
    }

    /// A refusal by a process that isn't Seawall: Litestream, whose answers are understood too.
    fn refused(&self, status: StatusCode, error: String, details: Option<String>) -> Failure {
        let kind = match status {
            StatusCode::BAD_REQUEST => Kind::Usage,
            StatusCode::NOT_FOUND => Kind::NotFound,
            StatusCode::CONFLICT => Kind::Refused,
            _ => Kind::Unavailable,
        };
        let cause = details.map_or_else(|| error.clone(), |details| format!("{error}: {details}"));
        let next = "see the log of the process that listens there";
        Failure::new(kind, "agent.refused", self.socket.display().to_string(), cause, next)
    }

    fn silent(&self) -> Failure {
        Failure::new(
            Kind::Unavailable,
            "agent.no-answer",
            self.socket.display().to_string(),
            format!("the process that listens here doesn't answer within {SIGN_OF_LIFE:?}: it is stopped, or stuck"),
            "see what it does (`ps`: state T is stopped; `kill -CONT` lets it go on), or start it again",
        )
    }

    fn broken(&self, cause: &str) -> Failure {
        Failure::new(
            Kind::Unavailable,
            "agent.no-answer",
            self.socket.display().to_string(),
            format!("the process that listens here gives no useful answer: {cause}"),
            "check that it is a running seawall of this version",
        )
    }
}

fn named(database: &str, within: Duration) -> Named {
    Named { path: database.to_owned(), timeout: Some(within.as_secs_f64()) }
}
