//! The shared vocabulary of Seawall.
//!
//! Every other crate speaks in these terms: a [`Moment`] in time, a [`Point`] that a database can be
//! restored to, the [`Timeline`] of all points with its holes, the [`Status`] of a database, a
//! [`Failure`] that says what happened to which object and what to do next, and the [`Engine`] trait,
//! the only way in which the agent and the commands know a database engine.
//!
//! Nothing here does any I/O.

mod activity;
mod calendar;
mod engine;
mod failure;
mod moment;
mod point;
mod progress;
mod shutdown;
mod status;

pub use activity::{Activity, Figures, LEVELS, Requests, Tally, Work};
pub use calendar::Thinning;
pub use engine::{
    Description, Engine, Finding, FollowRequest, Followed, IntegrityCheck, MadeObject, Maintained, PlannedObject,
    RemovedObject, RestoreRequest, Restored, StrongVerification, Verification,
};
pub use failure::{Failure, Kind};
pub use moment::{Clock, Moment, ParseMomentError, SystemClock, When, parse_duration};
pub use point::{Hole, LevelSummary, Note, Point, Span, Timeline};
pub use progress::{NoProgress, Progress};
pub use shutdown::Shutdown;
pub use status::{LastError, Phase, Status};
