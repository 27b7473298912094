//! Gives a state of the whole database to callers that ask for one (`protect::content`).

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{RELOOK, Session};
use crate::content::{ATTEMPTS, Asked, Frozen, TOO_FAST, freeze};
use crate::error::Error;

/// For how long a state is held while the vault doesn't take the capture that gives it a point.
const HELD: Duration = Duration::from_secs(15);

impl Session<'_> {
    /// Answers the callers that asked for a state. What is committed is shipped before, so that the state has a point.
    ///
    /// # Errors
    /// Those of shipping. As always when something is shipped, protection is given up once the WAL has grown by its limit (I4).
    pub(crate) async fn show_content(&mut self) -> Result<(), Error> {
        let growth = self.wal_outgrown();
        tokio::select! {
            shown = self.show() => shown,
            outgrown = growth => Err(outgrown),
        }
    }

    async fn show(&mut self) -> Result<(), Error> {
        self.ship_all().await?;
        let all = std::mem::take(&mut *self.database.asked_for_content());
        for asked in all {
            if asked.is_closed() {
                continue;
            }
            let frozen = match self.frozen().await {
                Ok(frozen) => frozen.map_err(|what| self.database.no_content(what)),
                Err(error) => {
                    let _gone = asked.send(Err(error.failure()));
                    return Err(error);
                }
            };
            let _gone = asked.send(frozen);
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
                    let (mut ship, mut held) = (Box::pin(self.ship(*capture)), Some(frozen));
                    let shipped = loop {
                        tokio::select! {
                            shipped = &mut ship => break shipped?,
                            // The capture is shipped all the same, once the vault takes it.
                            () = sleep(HELD), if held.is_some() => held = None,
                        }
                    };
                    match held {
                        Some(frozen) if shipped => return Ok(Ok(frozen)),
                        Some(_) => {}
                        None => return Ok(Err("the vault took too long to take what was committed")),
                    }
                }
                Asked::Never => {
                    return Ok(Err("the hold on the WAL can't be shared now"));
                }
                Asked::NotNow => sleep(RELOOK).await,
            }
        }
        Ok(Err(TOO_FAST))
    }
}
