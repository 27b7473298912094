//! An engine of servers behind the traits that the agent and the commands know. An engine says how it makes, restores, proves and
//! opens a set, and what a backup of a source lacks; what wraps these five calls is the same for each.

use std::fmt::{Debug, Display};
use std::sync::Arc;

use async_trait::async_trait;
use seawall_core::{Failure, Progress, When};
use seawall_vault::Vault;

use crate::server::{
    BackUp, Dumped, EngineNames, Limits, Prove, Proved, Readiness, RestoreInto, RestoreOptions, Restored,
};
use crate::{Opens, SetReader, World};

/// A kind of database servers.
#[async_trait]
pub trait ServerEngine: Debug + Clone + Copy + Send + Sync + 'static {
    /// A server, or a database of one; its text is a URL without its password.
    type Target: Debug + Display + Clone + Send + Sync;

    /// How one is backed up.
    type DumpOptions: Debug + Clone + Send + Sync;

    /// Its name, and the stable codes of its failures.
    const NAMES: &'static EngineNames;

    /// Makes a set and lets it count.
    async fn dump(
        target: &Self::Target,
        vault: &Vault,
        options: &Self::DumpOptions,
        world: &World,
        progress: Arc<dyn Progress>,
    ) -> Result<Dumped, Failure>;

    /// Restores a set.
    async fn restore(
        vault: &Vault,
        target: &Self::Target,
        options: &RestoreOptions,
        world: &World,
        progress: Arc<dyn Progress>,
    ) -> Result<Restored, Failure>;

    /// Restores a set, compares, and removes what was restored.
    async fn prove(
        vault: &Vault,
        options: &ProveOptions<Self::Target>,
        world: &World,
        progress: Arc<dyn Progress>,
    ) -> Result<Proved, Failure>;

    /// Opens a set as a restore does, without a server.
    async fn open(reader: Arc<SetReader>) -> Result<(), Failure>;

    /// Makes the checks that a backup makes before it reads a row, and looks for the programs of a backup and a proof.
    /// Changes nothing.
    ///
    /// # Errors
    /// When the server can't be reached, or no backup of its version can be made.
    async fn examine(target: &Self::Target, options: &Self::DumpOptions, world: &World) -> Result<Readiness, Failure>;
}

/// How to prove a set.
#[derive(Debug, Clone)]
pub struct ProveOptions<Target> {
    /// Which set.
    pub when: When,
    /// The server on which the database is made; without, one is started here for it.
    pub to: Option<Target>,
    /// How much of the machine.
    pub limits: Limits,
}

/// A database or a whole server, with the way in which it is backed up.
#[derive(Debug, Clone)]
pub struct Source<Engine: ServerEngine> {
    /// Where it is.
    pub target: Engine::Target,
    /// How it is backed up.
    pub options: Engine::DumpOptions,
    /// Time and environment.
    pub world: World,
}

#[async_trait]
impl<Engine: ServerEngine> BackUp for Source<Engine> {
    fn engine(&self) -> &'static EngineNames {
        Engine::NAMES
    }

    fn url(&self) -> String {
        self.target.to_string()
    }

    async fn back_up(&self, vault: &Vault, nth: u32, progress: Arc<dyn Progress>) -> Result<Dumped, Failure> {
        let world = World { nonce: self.world.nonce.wrapping_add(nth), ..self.world.clone() };
        Engine::dump(&self.target, vault, &self.options, &world, progress).await
    }
}

/// A server that sets are restored into.
#[derive(Debug, Clone)]
pub struct Destination<Engine: ServerEngine> {
    /// Where it is.
    pub target: Engine::Target,
    /// Time and environment.
    pub world: World,
}

#[async_trait]
impl<Engine: ServerEngine> RestoreInto for Destination<Engine> {
    async fn restore(
        &self,
        vault: &Vault,
        options: &RestoreOptions,
        progress: Arc<dyn Progress>,
    ) -> Result<Restored, Failure> {
        Engine::restore(vault, &self.target, options, &self.world, progress).await
    }
}

/// Proofs, on a server that is started for each of them or on one that is there.
#[derive(Debug, Clone)]
pub struct Prover<Engine: ServerEngine> {
    /// The server on which proofs are made; one is started for a proof if there is none.
    pub to: Option<Engine::Target>,
    /// Time and environment.
    pub world: World,
}

#[async_trait]
impl<Engine: ServerEngine> Prove for Prover<Engine> {
    async fn prove(
        &self,
        vault: &Vault,
        when: &When,
        limits: &Limits,
        progress: Arc<dyn Progress>,
    ) -> Result<Proved, Failure> {
        let options = ProveOptions { when: when.clone(), to: self.to.clone(), limits: limits.clone() };
        Engine::prove(vault, &options, &self.world, progress).await
    }
}

#[async_trait]
impl<Engine: ServerEngine> Opens for Engine {
    fn engine(&self) -> &'static str {
        Engine::NAMES.name
    }

    async fn open(&self, reader: Arc<SetReader>) -> Result<(), Failure> {
        Engine::open(reader).await
    }
}
