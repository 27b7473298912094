//! How many databases of a process merge and delete at a time, and how much memory they share for it.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::fresh::Room;

/// How many databases of a process merge and delete at a time.
const AT_A_TIME: usize = 2;

/// The right to merge and delete, and the room for cached captures, shared by all databases of a process.
#[derive(Debug, Clone)]
pub struct Turns {
    pub(super) right: Arc<Semaphore>,
    pub(super) room: Room,
}

impl Default for Turns {
    fn default() -> Self {
        Self { right: Arc::new(Semaphore::new(AT_A_TIME)), room: Room::default() }
    }
}
