//! What one database's protection believes of the machine's clock.
//!
//! Asks both clocks, decides with `moments`, and keeps the belief from one question to the next. A sweep asks too, so that an
//! idle database tells of a jump, and that it is over, without a commit (I17).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use seawall_core::{Clock, Moment, Steady};
use seawall_ltx::Txid;

use crate::moments::{self, Belief, Doubtful, Jump, Now, Reading};

/// Within this time two readings count as one, and how often it is tried.
const TOGETHER: Duration = Duration::from_millis(100);
const READINGS: u32 = 10;

/// The clocks of a machine, and the belief.
#[derive(Debug)]
pub(crate) struct BelievedClock {
    clock: Arc<dyn Clock>,
    /// The name of the database, for the log.
    name: String,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// `None` before anybody asked.
    belief: Option<Belief>,
    /// The moments that became doubtful when the clock was believed again.
    accepted: Option<Doubtful>,
    /// What was recorded last in the vault, and behind which point.
    recorded: Option<(Txid, Doubtful)>,
    /// Whether the clock came back since to where it was before it was set back.
    returned: bool,
}

impl BelievedClock {
    pub(crate) fn new(clock: Arc<dyn Clock>, name: String) -> Self {
        Self { clock, name, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Plain values, whole between any two statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the wall clock says, right or wrong.
    pub(crate) fn wall(&self) -> Moment {
        self.clock.now()
    }

    /// The time that passed since the machine was started.
    pub(crate) fn steady(&self) -> Steady {
        self.clock.steady()
    }

    /// What both clocks say at one time: a process that is stopped between the two questions must see no jump.
    fn read(&self) -> Reading {
        let mut steady = self.clock.steady();
        for _ in 0..READINGS {
            let (wall, behind) = (self.clock.now(), self.clock.steady());
            if behind.since(steady).is_some_and(|passed| passed < TOGETHER) {
                return Reading { wall, steady };
            }
            steady = behind;
        }
        Reading { wall: self.clock.now(), steady }
    }

    /// Goes on from what an earlier run believed, if nobody has asked yet.
    pub(crate) fn begin(&self, known: Option<Belief>) {
        let mut state = self.state();
        state.belief = state.belief.or(known);
        drop(state);
        self.ask();
    }

    /// Which moment it is. A jump goes to the log.
    pub(crate) fn ask(&self) -> Now {
        let reading = self.read();
        let mut state = self.state();
        let (belief, now) = moments::moment(state.belief.unwrap_or(Belief::at(reading)), reading);
        state.belief = Some(belief);
        state.returned |= now.returned;
        if let Some(Jump::Accepted(by)) = now.jump {
            state.accepted = Some(Doubtful { from: now.moment.before(by), until: now.moment });
        }
        drop(state);
        if let Some(jump) = now.jump {
            tracing::warn!(database = %self.name, code = "sqlite.clock", "{jump}");
        }
        now
    }

    /// The belief, for the state record.
    pub(crate) fn belief(&self) -> Option<Belief> {
        self.state().belief
    }

    /// What is wrong with the clock, of a history whose newest point is of this moment: it jumped, or the history is ahead of it.
    pub(crate) fn fault(&self, newest: Option<Moment>) -> Option<String> {
        let now = self.ask();
        if let Some(jump) = now.doubt {
            return Some(jump.to_string());
        }
        let newest = newest?;
        let ahead = moments::in_the_future(newest, now.moment)?;
        Some(format!(
            "the clock is {} s behind the newest point in the vault, which is of {newest}: points get that moment until the clock \
             comes to it",
            ahead.as_secs()
        ))
    }

    /// The stretch of time in which the moments of a history can't be believed, as it is known now; `newest` is the moment of its
    /// newest point.
    fn doubtful(&self, newest: Moment) -> Option<Doubtful> {
        let now = self.ask().moment;
        if moments::in_the_future(newest, now).is_some() {
            return Some(Doubtful { from: now, until: newest });
        }
        // What was captured before the jump has the right moment.
        self.state().accepted.filter(|accepted| newest > accepted.from)
    }

    /// What is to be recorded in the vault of a history whose newest point is of this moment, unless that is there.
    pub(crate) fn unrecorded(&self, newest: Moment) -> Option<Doubtful> {
        let doubtful = self.doubtful(newest)?;
        let known = self.state().recorded.map(|(_, known)| known.until);
        (known != Some(doubtful.until)).then_some(doubtful)
    }

    /// Notes that it was recorded behind a point.
    pub(crate) fn is_recorded(&self, newest: Txid, doubtful: Doubtful) {
        let mut state = self.state();
        (state.recorded, state.returned) = (Some((newest, doubtful)), false);
    }

    /// The record to take back, because the clock was wrong only while it was set back.
    pub(crate) fn refuted(&self) -> Option<Txid> {
        let state = self.state();
        state.recorded.filter(|_| state.returned).map(|(newest, _)| newest)
    }

    /// Notes that it was taken back.
    pub(crate) fn is_withdrawn(&self) {
        self.state().recorded = None;
    }
}
