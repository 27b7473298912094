//! The documents of the control socket. The names are Litestream's; what Litestream doesn't have stands behind them.

use seawall_core::{Failure, Kind, Moment};
use serde::{Deserialize, Serialize, Serializer};

use crate::fleet;
use crate::reload::ConfigStatus;

/// The code of a refusal because the database is stopped.
pub(crate) const NOT_RUNNING: &str = "agent.not-running";

/// `GET /info`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Info {
    /// The version of the running process.
    pub version: String,
    /// Its process id.
    pub pid: u32,
    /// How long it has been running.
    pub uptime_seconds: u64,
    /// Since when.
    pub started_at: Moment,
    /// How many databases it knows.
    pub database_count: usize,
    /// Its configuration, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<ConfigStatus>,
}

/// `GET /list`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct List {
    pub(crate) databases: Vec<Listed>,
}

/// One database of `GET /list`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// The database file.
    pub path: String,
    /// `replicating`, `open` (running, and not shipping now) or `stopped`.
    pub status: String,
    /// When everything was known to be in the vault for the last time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_sync_at: Option<Moment>,
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// Its place, without secrets.
    #[serde(default)]
    pub vault: String,
    /// `configured`, `found` or `registered`.
    #[serde(default)]
    pub origin: String,
}

/// What `POST /start`, `/stop` and `/unregister` take. `timeout` is in seconds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Named {
    /// The file of a database, or its name.
    pub(crate) path: String,
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "seconds")]
    pub(crate) timeout: Option<f64>,
}

/// What `POST /register` takes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Register {
    pub(crate) path: String,
    /// The place; it may be left out where the configuration has one for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) replica_url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
}

/// What `POST /sync` takes. `timeout` is in seconds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Sync {
    pub(crate) path: String,
    #[serde(default)]
    pub(crate) wait: bool,
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "seconds")]
    pub(crate) timeout: Option<f64>,
}

/// What `POST /reload` takes. `timeout` is in seconds.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct ReloadAsked {
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "seconds")]
    pub(crate) timeout: Option<f64>,
}

/// Litestream's process takes whole seconds only, and no decimal point.
fn seconds<S: Serializer>(seconds: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    match seconds {
        Some(seconds) if seconds.fract() == 0.0 && (0.0..1e9).contains(seconds) => {
            serializer.serialize_u64(*seconds as u64)
        }
        other => other.serialize(serializer),
    }
}

/// Answer to `POST /register`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registered {
    /// `registered` or `already_registered`.
    pub status: String,
    /// The database file.
    pub path: String,
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// Its place, without secrets.
    #[serde(default)]
    pub vault: String,
}

/// Answer to `POST /start`, `/stop` and `/unregister`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stopped {
    /// What was done, or that it was so already: `started`, `already_running`, `stopped`, `already_stopped`,
    /// `unregistered`, `already_unregistered`.
    pub status: String,
    /// The database file.
    pub path: String,
    /// The newest transaction in the vault; 0 when there is none.
    pub txid: u64,
}

/// What `POST /silence` takes: for how many seconds; without them a silence ends.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Silence {
    pub(crate) path: String,
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "seconds")]
    pub(crate) seconds: Option<f64>,
}

/// Answer to `POST /silence`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Silenced {
    /// The database's name.
    pub name: String,
    /// Until when its alarms are silenced; `None` if the silence has ended.
    pub silenced_until: Option<Moment>,
}

/// Answer to `POST /sync`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Synced {
    /// `no_change`, `synced` (everything is in the vault) or `synced_local` (it was asked for and not waited for).
    pub status: String,
    /// The database file.
    pub path: String,
    /// The newest transaction.
    pub txid: u64,
    /// The newest transaction in the vault.
    pub replicated_txid: u64,
    /// The newest point in the vault, of a database whose points are no transactions of LTX.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<String>,
}

/// `GET /txid`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NewestTxid {
    pub(crate) txid: u64,
}

/// Any answer that is none: Litestream's two fields, and the whole failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Refused {
    pub(crate) error: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) details: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<WireFailure>,
}

/// A [`Failure`] on its way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WireFailure {
    kind: Kind,
    code: String,
    object: String,
    cause: String,
    next: String,
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Self {
            // Litestream's clients show this field alone, and scripts know these two by their words.
            error: match failure.code {
                fleet::UNKNOWN => format!("database not found: {}", failure.object),
                NOT_RUNNING => format!("database not open: {}", failure.object),
                _ => format!("{}: {}", failure.object, failure.cause),
            },
            details: Some(failure.next.clone()),
            failure: Some(failure.into()),
        }
    }
}

impl From<Failure> for WireFailure {
    fn from(failure: Failure) -> Self {
        Self {
            kind: failure.kind,
            code: failure.code.to_owned(),
            object: failure.object,
            cause: failure.cause,
            next: failure.next,
        }
    }
}

impl WireFailure {
    /// The failure, as if it had happened here.
    pub(crate) fn arrived(self) -> Failure {
        // A command asks once and ends; a code is short, so keeping it for good costs nothing.
        let code: String = self.code.chars().take(64).collect();
        Failure::new(self.kind, Box::leak(code.into_boxed_str()), self.object, self.cause, self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_seconds_have_no_decimal_point() {
        let text = |timeout| serde_json::to_string(&Named { path: "/a".into(), timeout }).expect("JSON");
        assert_eq!(text(Some(60.0)), r#"{"path":"/a","timeout":60}"#);
        assert_eq!(text(Some(1.5)), r#"{"path":"/a","timeout":1.5}"#);
        assert_eq!(text(None), r#"{"path":"/a"}"#);
    }

    #[test]
    fn a_failure_arrives_as_it_was() {
        let failure = Failure::new(Kind::Conflict, "agent.duplicate", "/a.db", "it is there", "take another");
        let text = serde_json::to_string(&Refused::from(failure.clone())).expect("JSON");
        let refused: Refused = serde_json::from_str(&text).expect("a refusal");
        assert_eq!(refused.error, "/a.db: it is there");
        assert_eq!(refused.failure.map(WireFailure::arrived), Some(failure));
        // What Litestream has words for.
        let unknown = Refused::from(fleet::unknown("/a.db"));
        assert_eq!(unknown.error, "database not found: /a.db");
        // As another program says it.
        let theirs: Refused = serde_json::from_str(r#"{"error":"database not found"}"#).expect("a refusal");
        assert_eq!((theirs.details, theirs.failure), (None, None));
    }
}
