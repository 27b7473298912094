//! What one database's protection believes of the machine's clock.
//!
//! Asks both clocks, decides with `moments`, and keeps the belief from one question to the next. A sweep asks too, so that an
//! idle database tells of a jump, and that it is over, without a commit (I17).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use seawall_core::{Clock, Moment, Steady};
use seawall_ltx::Txid;

use crate::doubts::Doubtful;
use crate::moments::{self, Belief, Now, Reading};

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
    /// The newest point that is known.
    newest: Option<Txid>,
    /// The moment of the points that were captured while the clock stood behind it.
    held_up: Option<Moment>,
    /// What the vault says of a history ahead of its clock.
    recorded: Option<Doubtful>,
    /// The names of what this process recorded since the clock was set back.
    names: Vec<Txid>,
    /// The names of what it recorded before the clock came back to where it was.
    refuted: Vec<Txid>,
}

/// What is to be recorded in the vault.
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

    /// Goes on from what an earlier run believed, if nobody has asked yet, behind the point that it knew in this vault.
    pub(crate) fn begin(&self, known: Option<Belief>, newest: Option<Txid>) {
        let mut state = self.state();
        let known = known.map(|known| if newest.is_some() { known } else { known.without_points() });
        (state.belief, state.newest) = (state.belief.or(known), state.newest.max(newest));
        drop(state);
        self.ask();
    }

    /// A point is in the vault. What was captured while the clock was wrong is noted.
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

    /// What is to be recorded in the vault of a history whose newest point is of this moment, unless that is there.
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

    /// Notes that it was recorded, under this name; `None` where the vault had it already.
    pub(crate) fn is_recorded(&self, told: Unrecorded, name: Option<Txid>) {
        let mut state = self.state();
        match told {
            Unrecorded::Settled(doubtful) => {
                // What came meanwhile is told anew.
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

    /// The records to take back, because the clock was wrong only while it was set back.
    pub(crate) fn refuted(&self) -> Vec<Txid> {
        self.state().refuted.clone()
    }

    /// Notes that one was taken back.
    pub(crate) fn is_withdrawn(&self, name: Txid) {
        self.state().refuted.retain(|refuted| *refuted != name);
    }
}
