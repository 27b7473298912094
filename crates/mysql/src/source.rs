//! MySQL and MariaDB behind the traits of engines of servers.

use std::sync::Arc;

use async_trait::async_trait;
use seawall_archive::server::{BackUp, Dumped, EngineNames};
use seawall_core::{Failure, Progress};
use seawall_vault::Vault;

use crate::client::Target;
use crate::names::NAMES;
use crate::{DumpOptions, World, dump};

/// A database or a whole server, with the way in which it is backed up.
#[derive(Debug, Clone)]
pub struct Source {
    /// Where it is.
    pub target: Target,
    /// How it is backed up.
    pub options: DumpOptions,
    /// Time and environment.
    pub world: World,
}

#[async_trait]
impl BackUp for Source {
    fn engine(&self) -> &'static EngineNames {
        &NAMES
    }

    fn url(&self) -> String {
        self.target.to_string()
    }

    async fn back_up(&self, vault: &Vault, nth: u32, progress: Arc<dyn Progress>) -> Result<Dumped, Failure> {
        let world = World { nonce: self.world.nonce.wrapping_add(nth), ..self.world.clone() };
        Ok(dump(&self.target, vault, &self.options, &world, progress).await?)
    }
}
