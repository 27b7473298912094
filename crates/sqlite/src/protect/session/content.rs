//! Gives a state of the whole database to callers that ask for one (`protect::content`).

use tokio::time::{Instant, sleep};

use super::{RELOOK, Session};
use crate::content::{ATTEMPTS, Asked, Frozen, TOO_FAST, freeze};
use crate::error::Error;

impl Session<'_> {
    /// Answers the callers that asked for a state. What is committed is shipped before, so that the state has a point.
    pub(crate) async fn show_content(&mut self) -> Result<(), Error> {
        self.ship_all().await?;
        let all = std::mem::take(&mut *self.database.asked_for_content());
        for asked in all {
            if asked.is_closed() {
                continue;
            }
            let frozen = self.frozen().await?;
            let _gone = asked.send(frozen.map_err(|what| self.database.no_content(what)));
        }
        Ok(())
    }

    /// The newest state, or why there is none to be had.
    async fn frozen(&mut self) -> Result<Result<Box<Frozen>, &'static str>, Error> {
        for _ in 0..ATTEMPTS {
            let Some(position) = self.position else { break };
            let author = self.author();
            match self.on_source(move |source| freeze(source, position, author)).await? {
                Asked::State(frozen, None) => {
                    self.position = Some(frozen.position);
                    return Ok(Ok(frozen));
                }
                Asked::State(frozen, Some(capture)) => {
                    self.last_shipped = Some(Instant::now());
                    if self.ship(*capture).await? {
                        return Ok(Ok(frozen));
                    }
                }
                Asked::Never => {
                    return Ok(Err("this system has no locks by which the database could be held for reading"));
                }
                Asked::NotNow => sleep(RELOOK).await,
            }
        }
        Ok(Err(TOO_FAST))
    }
}
