//! MySQL and MariaDB behind the traits of engines of servers.

use std::sync::Arc;

use async_trait::async_trait;
use seawall_archive::server::{
    BackUp, Dumped, EngineNames, Limits, Prove, Proved, RestoreInto, RestoreOptions, Restored,
};
use seawall_archive::{Opens, SetReader};
use seawall_core::{Failure, Progress, When};
use seawall_vault::Vault;

use crate::client::Target;
use crate::names::NAMES;
use crate::restore::set;
use crate::{DumpOptions, ProveOptions, World, dump, prove, restore};

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

/// A server that sets are restored into, and on which proofs can be made.
#[derive(Debug, Clone)]
pub struct Destination {
    /// Where it is.
    pub target: Target,
    /// Time and environment.
    pub world: World,
}

#[async_trait]
impl RestoreInto for Destination {
    async fn restore(
        &self,
        vault: &Vault,
        options: &RestoreOptions,
        progress: Arc<dyn Progress>,
    ) -> Result<Restored, Failure> {
        Ok(restore(vault, &self.target, options, &self.world, progress).await?)
    }
}

/// Opens sets as a restore does, without a server.
#[derive(Debug, Clone, Copy)]
pub struct Opening;

#[async_trait]
impl Opens for Opening {
    fn engine(&self) -> &'static str {
        NAMES.name
    }

    async fn open(&self, reader: Arc<SetReader>) -> Result<(), Failure> {
        Ok(set::can_be_opened(&reader).await?)
    }
}

/// Proofs, on a server that is started for each of them or on one that is there.
#[derive(Debug, Clone)]
pub struct Prover {
    /// The server on which proofs are made; one is started for a proof if there is none.
    pub to: Option<Target>,
    /// Time and environment.
    pub world: World,
}

#[async_trait]
impl Prove for Prover {
    async fn prove(
        &self,
        vault: &Vault,
        when: &When,
        limits: &Limits,
        progress: Arc<dyn Progress>,
    ) -> Result<Proved, Failure> {
        let options = ProveOptions { when: when.clone(), to: self.to.clone(), limits: limits.clone() };
        Ok(prove(vault, &options, &self.world, progress).await?)
    }
}
