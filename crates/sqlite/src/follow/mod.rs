//! Following: keeps a restored database at the newest point of its vault, while applications read it.
//!
//! The name of the next capture is known beforehand. So one read of exactly that object finds and fetches it; in a
//! local folder, an event announces it. A follower that is behind asks for several at once. It lists the levels at the
//! start, after trouble, and after a long silence (30 s, doubled up to 10 minutes: one listing of one object). If
//! captures are gone, compacted objects and complete copies lead on (`bridge`).
//!
//! `follower` has the loop, `step` one step, and `begin` the start. `standby` changes the file, and `mark` finds the
//! state after a crash.

mod begin;
pub(crate) mod bridge;
mod follower;
pub(crate) mod mark;
pub(crate) mod standby;
pub(crate) mod step;

use std::sync::Arc;

use follower::Follower;
use seawall_core::{FollowRequest, Followed, Progress, Shutdown};
use seawall_vault::Vault;

use crate::error::Error;
use crate::files::resolved;
use crate::jobs::blocking;
use crate::lock::{self, Locks};
use crate::{World, default_state_dir};

/// The parts of a follower.
pub(crate) struct Setting<'a> {
    pub(crate) vault: &'a Vault,
    pub(crate) world: &'a World,
    pub(crate) jobs: usize,
    pub(crate) request: &'a FollowRequest,
    pub(crate) shutdown: &'a Shutdown,
    pub(crate) progress: Arc<dyn Progress>,
}

/// Follows until a graceful stop.
pub(crate) async fn follow(setting: Setting<'_>) -> Result<Followed, Error> {
    let output = resolved(&setting.request.output);
    let state_dir = default_state_dir(&output);
    let (path, folder) = (output.clone(), state_dir.clone());
    let _lock = blocking(move || {
        lock::private_dir(&folder)?;
        Locks::take_local(&path, &folder)
    })
    .await?;
    let mut follower = Follower::start(setting, output, state_dir).await?;
    follower.run().await?;
    Ok(Followed { point: follower.at.point, output: follower.output, steps: follower.steps })
}
