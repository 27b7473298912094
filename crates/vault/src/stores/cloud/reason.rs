//! Why a store has no credentials now. The sources of credentials write it; the classification of errors reads it.

use std::sync::{Arc, Mutex, PoisonError};

/// Why there are no keys, shared by a store and its sources of keys.
#[derive(Debug, Clone, Default)]
pub struct Reason(Arc<Mutex<Option<String>>>);

impl Reason {
    /// Writes it, or that there are keys.
    pub(crate) fn set(&self, reason: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = reason;
    }

    /// The reason, if the last request for keys failed.
    pub(crate) fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
