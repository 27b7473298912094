//! The source of a protected cluster, and what SQL tells of a server.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use seawall_archive::log::Lsn;
use seawall_core::{Failure, Progress};
use seawall_vault::Vault;

use super::super::base::{self, Made};
use super::super::receive::Settings;
use super::super::slots;
use crate::client::Target;
use crate::{Limits, World};

/// The source of a protected cluster: what makes its bases, and knows how far its log goes.
#[async_trait]
pub trait ClusterSource: Send + Sync {
    /// Its URL without a password.
    fn url(&self) -> String;

    /// Makes a base, and lets it count.
    async fn base(&self, vault: &Vault, progress: Arc<dyn Progress>) -> Result<Made, Failure>;

    /// How far the server's log is durable there.
    async fn flushed(&self) -> Result<Lsn, Failure>;

    /// What it heard of its primary; `None` if it is no standby.
    async fn heard(&self) -> Result<Option<Heard>, Failure>;

    /// Slots of Seawall on the server that no process uses. `own` is the slot of this protection.
    async fn left_slots(&self, own: Option<&str>) -> Result<Option<Failure>, Failure>;

    /// Its settings that matter where its commits are to wait.
    async fn settings(&self) -> Result<Settings, Failure>;
}

/// What a standby heard of its primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heard {
    /// Whether it receives its log.
    pub receives: bool,
    /// Whether a command restores its log and it has no primary to receive it from. False where the role may not see that.
    pub ships: bool,
    /// How long ago a message came, or the last transaction was committed that it replayed where a command restores its log; `None` if
    /// none did, or the role may not see that.
    pub age: Option<Duration>,
}

/// A server whose cluster is protected.
#[derive(Debug, Clone)]
pub struct Server {
    /// Where it is.
    pub target: Target,
    /// How much of the machine a base may use.
    pub limits: Limits,
    /// The clock, the environment and random numbers.
    pub world: World,
}

#[async_trait]
impl ClusterSource for Server {
    fn url(&self) -> String {
        self.target.to_string()
    }

    async fn base(&self, vault: &Vault, progress: Arc<dyn Progress>) -> Result<Made, Failure> {
        Ok(base::back_up(&self.target, vault, &self.limits, &self.world, progress).await?)
    }

    async fn flushed(&self) -> Result<Lsn, Failure> {
        let mut connection = base::connect(&self.target).await?;
        let row = connection.one(FLUSHED).await?;
        let lsn = row.text(0).parse::<Lsn>().map_err(|()| connection.confused("a position in the log that is none"))?;
        connection.close().await;
        Ok(lsn)
    }

    async fn heard(&self) -> Result<Option<Heard>, Failure> {
        let mut connection = base::connect(&self.target).await?;
        let row = connection.one(HEARD).await?;
        let heard = (row.text(0) == "t").then(|| Heard {
            receives: row.text(1) == "t",
            ships: row.text(2) == "t",
            age: row.optional(3).and_then(|text| text.parse::<i64>().ok()).map(|age| {
                // The clock of the primary's message may be ahead.
                Duration::from_millis(u64::try_from(age).unwrap_or(0))
            }),
        });
        connection.close().await;
        Ok(heard)
    }

    async fn left_slots(&self, own: Option<&str>) -> Result<Option<Failure>, Failure> {
        let mut connection = base::connect(&self.target).await?;
        let left = slots::left(&mut connection, own, &self.url()).await?;
        connection.close().await;
        Ok(left)
    }

    async fn settings(&self) -> Result<Settings, Failure> {
        let mut connection = base::connect(&self.target).await?;
        let settings = Settings::of(&mut connection, true).await?;
        connection.close().await;
        Ok(settings)
    }
}

/// Whether a server is a standby, whether it receives log, whether its log is only shipped to it, and how many milliseconds ago it heard
/// of its primary. A standby whose log is shipped hears of transactions alone. `primary_conninfo` shows itself to those alone who may
/// read all settings.
const HEARD: &str = "SELECT pg_catalog.pg_is_in_recovery(), r.pid IS NOT NULL, s.ships, \
    pg_catalog.floor(pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - CASE WHEN r.pid IS NOT NULL \
    THEN r.last_msg_receipt_time WHEN s.ships THEN pg_catalog.pg_last_xact_replay_timestamp() END) * 1000)\
    ::pg_catalog.int8::pg_catalog.text \
    FROM (SELECT pg_catalog.count(*) OPERATOR(pg_catalog.=) 2 AS ships FROM pg_catalog.pg_settings \
    WHERE name OPERATOR(pg_catalog.=) 'restore_command' AND setting OPERATOR(pg_catalog.<>) '' \
    OR name OPERATOR(pg_catalog.=) 'primary_conninfo' AND setting OPERATOR(pg_catalog.=) '') AS s \
    LEFT JOIN pg_catalog.pg_stat_wal_receiver AS r ON true";

/// How far a server's log is durable there; a standby has what it received or replayed.
const FLUSHED: &str = "SELECT CASE WHEN pg_catalog.pg_is_in_recovery() \
    THEN GREATEST(pg_catalog.pg_last_wal_receive_lsn(), pg_catalog.pg_last_wal_replay_lsn()) \
    ELSE pg_catalog.pg_current_wal_flush_lsn() END";
