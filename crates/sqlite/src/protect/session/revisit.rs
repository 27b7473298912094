//! Is it still the same vault, and does it still have everything that was acknowledged (I15)? `sight` does the looking.

use std::time::Duration;

use tokio::time::timeout;

use super::{Looking, Patience, Session};
use crate::error::Error;
use crate::jobs::blocking;
use crate::known::Depth;

/// How long the last look at the vault may take.
const LAST_LOOK: Duration = Duration::from_secs(10);

/// How long the system may take to say whether the vault is there: a network file system may never answer.
const VAULT_ANSWERS: Duration = Duration::from_secs(30);

impl Session<'_> {
    /// Checks that the vault's place is the one that was written to. The source isn't held meanwhile: a network file
    /// system may never answer, and the size of the WAL must be known all the same (I4).
    pub(crate) async fn check_vault(&self) -> Result<(), Error> {
        let vault = self.database.vault().clone();
        let object = vault.url().to_owned();
        match timeout(VAULT_ANSWERS, blocking(move || Ok(vault.check()?))).await {
            Ok(checked) => checked,
            Err(_elapsed) => Err(seawall_vault::Error::Timeout { object, after: VAULT_ANSWERS }.into()),
        }
    }

    /// Looks at the vault if a look is due, or in any case (I15).
    ///
    /// # Errors
    /// What the look found; or that upkeep can't read the newest history any more, so that the next session takes a base.
    pub(crate) async fn look_at_vault(&self, sight: Looking) -> Result<(), Error> {
        if self.patience != Patience::Once
            && let Some(unreadable) = self.database.maintenance().take_want_of_a_base()
        {
            return Err(unreadable);
        }
        let depth = match sight {
            _ if self.patience == Patience::Once
                || self.database.options().upkeep.sight_interval.is_none() && sight == Looking::Now =>
            {
                None
            }
            Looking::Now => Some(Depth::Near),
            Looking::WhenDue => {
                let upkeep = self.database.maintenance().clone();
                blocking(move || Ok(upkeep.look_is_due())).await?
            }
        };
        let Some(depth) = depth else { return Ok(()) };
        let _turn = self.database.admission().start().await;
        self.look(depth, sight == Looking::Now).await
    }

    /// Looks at the vault for the objects that this history needs; with `asked`, even if it was seen lately.
    async fn look(&self, depth: Depth, asked: bool) -> Result<(), Error> {
        let newest = self.position.map(|position| position.txid);
        self.database.maintenance().look(depth, (newest, self.stamp.lineage), asked).await
    }

    /// Looks at the vault before a stop. A vault that can't be asked is an error, unless it was whole a short while ago
    /// and nothing was sent there since.
    pub(crate) async fn look_at_the_end(&self) -> Result<(), Error> {
        if self.patience == Patience::Once || self.database.options().upkeep.sight_interval.is_none() {
            return Ok(());
        }
        // At a stop all databases end at once, and may wait for their turn for as long as the stop may take. Only the
        // look has a limit here.
        let _turn = self.database.admission().start().await;
        match timeout(LAST_LOOK, self.look(Depth::Near, true)).await {
            Ok(Err(error @ Error::Vault(_))) if self.database.maintenance().was_seen_lately() => {
                tracing::warn!(database = %self.database.name(), "the vault can't be looked at any more: {error}");
                Ok(())
            }
            Ok(looked) => looked,
            Err(_elapsed) if self.database.maintenance().was_seen_lately() => Ok(()),
            Err(_elapsed) => {
                let object = self.database.vault().url().to_owned();
                Err(seawall_vault::Error::Timeout { object, after: LAST_LOOK }.into())
            }
        }
    }
}
