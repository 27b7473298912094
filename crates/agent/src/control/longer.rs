//! Requests that only the page makes: pins, and proofs and restores, which are done beside the protection.

use std::sync::Arc;
use std::time::Duration;

use seawall_core::{
    Clock as _, Failure, IntegrityCheck, Kind, Proof, RestoreRequest, Restored, Shutdown, SystemClock, TaskKind,
};
use seawall_engines::{EngineConfig, ask, read_when};
use tokio_util::sync::CancellationToken;

use super::actions::{Actions, engine_of, too_late};
use crate::fleet::Seen;
use crate::restoring::beside;
use crate::{fleet, proving};

/// How long a vault may take to pin a point.
const PINNING: Duration = Duration::from_secs(60);

/// The longest restore.
const RESTORING: Duration = Duration::from_secs(24 * 3600);

impl Actions {
    /// Backs a server's database up now, or makes a base of a cluster, and waits for it.
    ///
    /// # Errors
    /// For a file, which needs no backup of this kind, and those of the backup.
    pub(crate) async fn back_up(&self, text: &str) -> Result<(), Failure> {
        let member = self.find(text)?;
        self.check_running(&member)?;
        let engine = engine_of(&member)?;
        // The journal notes the backup itself.
        match member.config.engine {
            EngineConfig::Server(_) => ask::protection(&*engine)?.sync().await.map(drop),
            // Its log is shipped as it is written, so only a base is made.
            EngineConfig::Cluster(_) => ask::protection(&*engine)?.take_point(&Shutdown::new()).await.map(drop),
            EngineConfig::Sqlite(_) | EngineConfig::Lmdb(_) => {
                let cause = "it is a file, whose changes are shipped as they are committed";
                let next = "ship what is committed now with `seawall sync`";
                Err(Failure::new(Kind::Usage, "usage.server", &member.config.name, cause, next))
            }
        }
    }

    /// Pins the point that `when` names, or removes its pin. Returns the point's position.
    ///
    /// # Errors
    /// When there is no such point, or points can't be pinned.
    pub(crate) async fn pin(&self, text: &str, when: &str, pinned: bool) -> Result<String, Failure> {
        let member = self.find(text)?;
        let when = read_when(when, SystemClock.now())?;
        let kind = if pinned { TaskKind::Pin } else { TaskKind::Unpin };
        let work = async {
            let engine = engine_of(&member)?;
            let pinned = tokio::time::timeout(PINNING, ask::pins(&*engine)?.pin(&when, pinned)).await;
            pinned.unwrap_or_else(|_| Err(too_late(&member)))
        };
        self.noted(kind, &member, "", work, String::clone).await
    }

    /// Proves a database now, as its section `prove` says, or with the defaults of that section. Waits for its turn: one proof is made
    /// at a time.
    ///
    /// # Errors
    /// When the proof failed or couldn't be made.
    pub(crate) async fn prove(&self, text: &str) -> Result<Proof, Failure> {
        let member = self.find(text)?;
        engine_of(&member)?;
        let opener = self.opener(&member)?;
        proving::prove_now(&opener, self.proofs(), &member).await
    }

    /// Restores a file or folder beside the original.
    ///
    /// # Errors
    /// For a server, when the file is there already, and those of the restore.
    pub(crate) async fn restore_beside(&self, text: &str, when: &str) -> Result<Restored, Failure> {
        let member = self.find(text)?;
        let when = read_when(when, SystemClock.now())?;
        let Some(path) = member.config.path() else {
            let cause = "a server's database is restored with credentials that this process doesn't have";
            let next = "run the command of the plan";
            return Err(Failure::new(Kind::Usage, "usage.server", &member.config.name, cause, next));
        };
        let request = RestoreRequest {
            output: beside(path),
            when,
            force: false,
            dry_run: false,
            integrity: IntegrityCheck::None,
        };
        let (opener, config) = (self.opener(&member)?, member.config.clone());
        let work = move || async move { opener.apart(proving::JOBS).restore_file(&config, &request).await };
        let threads = proving::threads(&member.config);
        let done = proving::aside(work, (threads, RESTORING), &CancellationToken::new()).await;
        done.unwrap_or_else(|| Err(too_late(&member)))
    }

    /// What proves and restores.
    fn opener(&self, member: &Seen) -> Result<Arc<crate::Opener>, Failure> {
        self.fleet().prover().ok_or_else(|| fleet::starting(&member.config.name))
    }
}
