//! The shared vocabulary of Seawall.
//!
//! Every other crate uses these words: a [`Moment`] in time, a [`Point`] that a database can be restored to, the
//! [`Timeline`] of all points with its holes, the [`Status`] of a database, and a [`Failure`] that says what happened
//! to which object and what to do next. The agent and the commands know a database engine only through [`Engine`] and
//! its [`abilities`].
//!
//! Nothing here does any I/O, except that it asks the machine's clocks.

pub mod abilities;
mod activity;
mod alarm;
mod backoff;
mod calendar;
mod contents;
mod engine;
mod failure;
mod jobs;
mod journal;
mod moment;
mod point;
mod progress;
mod proof;
mod shutdown;
mod status;
mod steady;
mod text;

pub use abilities::{Digests, Engine, Files, History, Maintain, Pins, Protect, Prove, Rollback, Standby};
pub use activity::{Activity, Figures, LEVELS, Requests, Tally, Work};
pub use alarm::{Alarm, Severity};
pub use backoff::Backoff;
pub use calendar::Thinning;
pub use contents::{Change, Compared, Contents, Part, compare_contents};
pub use engine::{
    Description, Finding, FollowRequest, Followed, IntegrityCheck, Locks, MadeObject, Maintained, PlannedObject,
    RemovedObject, RestoreRequest, Restored, Rewritten, StrongVerification, Verification,
};
pub use failure::{Failure, Kind};
pub use jobs::{Panicked, blocking, ended};
pub use journal::{Journal, Outcome, Running, Task, TaskKind};
pub use moment::{Clock, Moment, ParseMomentError, SystemClock, When, parse_duration};
pub use point::{Hole, LevelSummary, Note, Point, Span, Timeline};
pub use progress::{Both, Gauge, NoProgress, Operation, Progress, Underway};
pub use proof::{Checked, Fault, Fingerprints, Level, Proof, ProofRequest};
pub use shutdown::Shutdown;
pub use status::{LastError, Limit, Phase, RENEWED_LOCKS, Status, VaultStatus};
pub use steady::Steady;
pub use text::is_visible;
