//! From a configuration's words to engines: the one place where databases and vaults are opened.

use std::sync::Arc;

use seawall_core::{Engine, Failure, Kind, Status};

use seawall_vault::{Environment, VaultUrl};

use crate::config::DatabaseConfig;

/// Opens engines of one process.
#[derive(Debug)]
pub struct Opener {
    environment: Environment,
}

impl Opener {
    /// An opener that takes credentials from `environment`.
    pub fn new(environment: Environment) -> Self {
        Self { environment }
    }

    /// Watches for changes with events from now on. Must be called inside the runtime. Where the system refuses,
    /// databases are polled, which the log says.
    pub fn watch(&mut self) {}

    /// A database with its vault, to protect and to restore.
    pub async fn database(&self, database: &DatabaseConfig) -> Result<Arc<dyn Engine>, Failure> {
        self.vault(&database.vault).await
    }

    /// A vault alone, to restore from.
    pub async fn vault(&self, place: &VaultUrl) -> Result<Arc<dyn Engine>, Failure> {
        let _ = &self.environment;
        Err(Failure::new(Kind::Internal, "agent.unwired", place.to_string(), "no engine yet", "wait"))
    }
}

/// The state of a database's protection from its record on this machine.
pub fn read_status(database: &std::path::Path, _state_dir: Option<&std::path::Path>) -> Result<Status, Failure> {
    Err(Failure::new(Kind::Internal, "agent.unwired", database.display().to_string(), "no engine yet", "wait"))
}

/// The state of a database's protection from its state folder.
pub fn read_state_dir(dir: &std::path::Path) -> Result<Status, Failure> {
    read_status(dir, None)
}
