//! What one database's protection believes of the machine's clock.
//!
//! It reads both clocks, decides with `moments`, and keeps the belief from one question to the next. The sweep asks too. So
//! the status of an idle database reports a jump and its end without a commit (I17).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use seawall_core::{Clock, Moment, Steady};
use seawall_ltx::Txid;

use crate::doubts::Doubtful;
use crate::moments::{self, Belief, Now, Reading};

/// Both clocks must be read within `TOGETHER` to count as one reading; `READINGS` attempts are made.
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
    /// `None` before the first question.
    belief: Option<Belief>,
    /// The newest point that is known.
    newest: Option<Txid>,
    /// The moment of the points that were captured while the clock was behind this moment.
    held_up: Option<Moment>,
    /// The stretch that the vault has recorded while the history is ahead of the clock.
    recorded: Option<Doubtful>,
    /// The names of the records that this process made since the clock was set back.
    names: Vec<Txid>,
    /// The names of such records that are wrong, because the clock returned to where it was. They are to be removed.
    refuted: Vec<Txid>,
}

/// A doubtful stretch that isn't recorded in the vault yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unrecorded {
    /// It turned out that the clock had been wrong.
    Settled(Doubtful),
    /// The newest point is ahead of the clock now.
    Ahead(Doubtful),
}

impl Unrecorded {
    pub(crate) fn doubtful(self) -> Doubtful {
        match self {
            Self::Settled(doubtful) | Self::Ahead(doubtful) => doubtful,
        }
    }
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

    /// Reads both clocks at one time: a pause of the process between the two questions must not look like a jump.
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

    /// Takes over the belief of an earlier run, if this process has none yet. `newest` is the newest point of that run in this
    /// vault.
    pub(crate) fn begin(&self, known: Option<Belief>, newest: Option<Txid>) {
        let mut state = self.state();
        let known = known.map(|known| if newest.is_some() { known } else { known.without_points() });
        (state.belief, state.newest) = (state.belief.or(known), state.newest.max(newest));
        drop(state);
        self.ask();
    }

    /// Notes that a point is in the vault, and whether it was captured while the clock was wrong.
    pub(crate) fn arrived(&self, txid: Txid, moment: Moment) {
        let now = self.ask().moment;
        let mut state = self.state();
        if state.newest.is_some_and(|newest| txid <= newest) {
            return;
        }
        state.newest = Some(txid);
        state.belief = state.belief.map(|belief| belief.captured(moment));
        state.held_up = moments::in_the_future(moment, now).map(|_| moment);
    }

    /// Which moment it is. A jump goes to the log.
    pub(crate) fn ask(&self) -> Now {
        let reading = self.read();
        let mut state = self.state();
        let (belief, now) = moments::moment(state.belief.unwrap_or(Belief::at(reading)), reading);
        state.belief = Some(belief);
        if now.returned {
            let names = std::mem::take(&mut state.names);
            state.refuted.extend(names);
            state.recorded = None;
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

    /// The report about a clock that jumped, or that is behind the newest point of the history.
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

    /// The stretch to record in the vault, unless it is recorded. `newest` is the moment of the newest point.
    pub(crate) fn unrecorded(&self, newest: Moment) -> Option<Unrecorded> {
        let now = self.ask().moment;
        let state = self.state();
        if let Some(settled) = state.belief.and_then(|belief| belief.settled()) {
            return Some(Unrecorded::Settled(settled));
        }
        moments::in_the_future(newest, now)?;
        let doubtful = Doubtful { from: now, until: newest, behind: state.held_up == Some(newest) };
        let told = state.recorded.is_some_and(|told| told.covers(Doubtful { from: told.from, ..doubtful }));
        (!told).then_some(Unrecorded::Ahead(doubtful))
    }

    /// Notes that a stretch was recorded under this name; `None` if the vault had it already.
    pub(crate) fn is_recorded(&self, told: Unrecorded, name: Option<Txid>) {
        let mut state = self.state();
        match told {
            Unrecorded::Settled(doubtful) => {
                // If the stretch has grown meanwhile, it is recorded again.
                let same = |belief: &Belief| belief.settled() == Some(doubtful);
                state.belief = state.belief.map(|belief| if same(&belief) { belief.is_recorded() } else { belief });
            }
            Unrecorded::Ahead(doubtful) => {
                state.recorded = Some(doubtful);
                if state.belief.is_some_and(|belief| belief.is_set_back()) {
                    state.names.extend(name);
                }
            }
        }
    }

    /// The records to remove: the clock was wrong only while it was set back.
    pub(crate) fn refuted(&self) -> Vec<Txid> {
        self.state().refuted.clone()
    }

    /// Notes that a record was removed.
    pub(crate) fn is_withdrawn(&self, name: Txid) {
        self.state().refuted.retain(|refuted| *refuted != name);
    }
}
