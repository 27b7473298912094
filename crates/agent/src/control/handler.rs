//! HTTP on the control socket: Litestream's endpoints, `GET /status`, and nothing else.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hyper::{Method, StatusCode};
use seawall_core::{Failure, Kind};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::actions::{Actions, in_time, txid};
use super::api::{List, Named, NewestTxid, Refused, Register, ReloadAsked, Silence, Sync};
use crate::http::{Answer, Handler, Request};
use crate::reload;

/// Answers on the control socket.
pub(crate) struct Socket(pub(crate) Arc<Actions>);

#[async_trait]
impl Handler for Socket {
    async fn answer(&self, request: Request) -> Answer {
        match self.dispatch(&request).await {
            Ok(answer) => answer,
            Err(failure) => Answer::json(status_of(failure.kind), &Refused::from(failure)),
        }
    }
}

impl Socket {
    async fn dispatch(&self, request: &Request) -> Result<Answer, Failure> {
        let actions = &*self.0;
        let method = match request.path.as_str() {
            "/start" | "/stop" | "/register" | "/unregister" | "/sync" | "/reload" | "/silence" => Method::POST,
            "/info" | "/list" | "/txid" | "/status" | "/timeline" | "/debug/sync-status" => Method::GET,
            _ => return Ok(Answer::status(StatusCode::NOT_FOUND)),
        };
        if request.method != method {
            return Ok(Answer::status(StatusCode::METHOD_NOT_ALLOWED));
        }
        Ok(match request.path.as_str() {
            "/start" => ok(&actions.start(&body::<Named>(request)?.path).await?),
            "/stop" => {
                let Named { path, timeout } = body(request)?;
                ok(&actions.stop(&path, seconds(timeout)?).await?)
            }
            "/register" => {
                let Register { path, replica_url, name } = body(request)?;
                ok(&actions.register(&path, replica_url.as_deref(), name.as_deref()).await?)
            }
            "/unregister" => {
                let Named { path, timeout } = body(request)?;
                ok(&actions.unregister(&path, seconds(timeout)?).await?)
            }
            "/sync" => {
                let Sync { path, wait, timeout } = body(request)?;
                ok(&actions.sync(&path, wait, seconds(timeout)?).await?)
            }
            "/silence" => {
                let Silence { path, seconds } = body(request)?;
                let span =
                    seconds.map(|seconds| Duration::try_from_secs_f64(seconds).map_err(|_| wrong("the time is none")));
                ok(&actions.silence(&path, span.transpose()?).await?)
            }
            "/reload" => {
                let ReloadAsked { timeout } = if request.body.is_empty() { Default::default() } else { body(request)? };
                ok(&in_time(seconds(timeout)?, reload::reload(&self.0)).await?)
            }
            "/info" => ok(&actions.info()),
            "/list" => ok(&List { databases: actions.list().await }),
            "/txid" => {
                let path = path_of(request).ok_or_else(|| wrong("there is no path in the query"))?;
                ok(&NewestTxid { txid: actions.txid(&path).await? })
            }
            "/timeline" => {
                let path = path_of(request).ok_or_else(|| wrong("there is no path in the query"))?;
                ok(&actions.history(&path).await?)
            }
            "/status" => {
                let databases = match (is_asked(request, "known"), path_of(request)) {
                    (true, _) => actions.status_of_all(true).await?,
                    (false, None) => actions.status_of_all(false).await?,
                    (false, path) => actions.status(path.as_deref()).await?,
                };
                ok(&json!({ "databases": databases, "config": actions.reloader().status() }))
            }
            _ => ok(&self.sync_status(path_of(request).as_deref()).await?),
        })
    }

    /// What each database does now, in the fields that Litestream has for it.
    async fn sync_status(&self, path: Option<&str>) -> Result<serde_json::Value, Failure> {
        let all = self.0.status(path).await?;
        let one = |status: seawall_core::Status| {
            json!({
                "path": status.source,
                "active": matches!(status.phase, seawall_core::Phase::Base | seawall_core::Phase::Starting),
                "operation": "sync",
                "phase": status.phase,
                "updated_at": status.at,
                "elapsed_seconds": status.lag_ms as f64 / 1000.0,
                "txid": txid(status.protected.as_ref()),
                "lag_bytes": status.lag_bytes,
                "error": status.error,
            })
        };
        Ok(json!({ "databases": all.into_iter().map(one).collect::<Vec<_>>() }))
    }
}

fn ok(document: &impl Serialize) -> Answer {
    Answer::json(StatusCode::OK, document)
}

fn body<T: DeserializeOwned>(request: &Request) -> Result<T, Failure> {
    serde_json::from_slice(&request.body).map_err(|error| wrong(&format!("invalid request body: {error}")))
}

fn path_of(request: &Request) -> Option<String> {
    let mut pairs = form_urlencoded::parse(request.query.as_bytes());
    pairs.find(|(name, _)| name == "path").map(|(_, value)| value.into_owned())
}

/// Whether the query has this name.
fn is_asked(request: &Request, name: &str) -> bool {
    form_urlencoded::parse(request.query.as_bytes()).any(|(asked, _)| asked == name)
}

fn seconds(timeout: Option<f64>) -> Result<Option<Duration>, Failure> {
    match timeout.filter(|seconds| *seconds != 0.0) {
        None => Ok(None),
        Some(seconds) => Duration::try_from_secs_f64(seconds).map(Some).map_err(|_| wrong("the timeout is none")),
    }
}

fn wrong(cause: &str) -> Failure {
    Failure::new(Kind::Usage, "agent.request", "control socket", cause, "see docs/operating.md for what can be asked")
}

/// Litestream answers with these four.
fn status_of(kind: Kind) -> StatusCode {
    match kind {
        Kind::Usage => StatusCode::BAD_REQUEST,
        Kind::NotFound => StatusCode::NOT_FOUND,
        Kind::Conflict | Kind::Refused => StatusCode::CONFLICT,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
