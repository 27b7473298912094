//! Following: a restored database that is kept at the newest point of its vault, while others read it.
//!
//! The next capture has a name that is known beforehand, so looking for it is one read of exactly that object, and it
//! brings the object along; in a folder not even that, because an event tells of it. Several are asked for at once
//! while a follower is behind. Levels are listed at the start, after trouble, and when nothing came for long (30 s,
//! doubled up to 10 minutes: one listing of one object): then compacted objects and complete copies lead on where
//! captures are gone (`bridge`). The loop is in `follower`, one step in `step`, the start in `begin`. What a step does to the
//! file is in `standby`; where a crash leaves it, in `mark`.

mod begin;
pub(crate) mod bridge;
mod follower;
pub(crate) mod mark;
pub(crate) mod standby;
mod step;

use std::sync::Arc;

use follower::Follower;
use seawall_core::{FollowRequest, Followed, Progress, Shutdown};
use seawall_vault::Vault;

use crate::error::Error;
use crate::files::resolved;
use crate::lock::{self, Locks};
use crate::ship::blocking;
use crate::{World, default_state_dir};

/// What a follower is made of.
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
