//! PostgreSQL behind the traits of engines of servers.

use std::sync::Arc;

use async_trait::async_trait;
use seawall_archive::server::{Dumped, EngineNames, Proved, Readiness, RestoreOptions, Restored};
use seawall_archive::{ServerEngine, SetReader};
use seawall_core::{Failure, Progress};
use seawall_vault::Vault;

use crate::client::Target;
use crate::dump::ready;
use crate::names::NAMES;
use crate::restore::set;
use crate::{DumpOptions, ProveOptions, World, dump, prove, restore};

/// PostgreSQL, as an engine.
#[derive(Debug, Clone, Copy)]
pub struct Postgres;

/// A database or a whole server, with the way in which it is backed up.
pub type Source = seawall_archive::Source<Postgres>;

/// A server that sets are restored into.
pub type Destination = seawall_archive::Destination<Postgres>;

/// Proofs, on a server that is started for each of them or on one that is there.
pub type Prover = seawall_archive::Prover<Postgres>;

#[async_trait]
impl ServerEngine for Postgres {
    type Target = Target;
    type DumpOptions = DumpOptions;

    const NAMES: &'static EngineNames = &NAMES;

    async fn dump(
        target: &Target,
        vault: &Vault,
        options: &DumpOptions,
        world: &World,
        progress: Arc<dyn Progress>,
    ) -> Result<Dumped, Failure> {
        Ok(dump(target, vault, options, world, progress).await?)
    }

    async fn restore(
        vault: &Vault,
        target: &Target,
        options: &RestoreOptions,
        world: &World,
        progress: Arc<dyn Progress>,
    ) -> Result<Restored, Failure> {
        Ok(restore(vault, target, options, world, progress).await?)
    }

    async fn prove(
        vault: &Vault,
        options: &ProveOptions,
        world: &World,
        progress: Arc<dyn Progress>,
    ) -> Result<Proved, Failure> {
        Ok(prove(vault, options, world, progress).await?)
    }

    async fn open(reader: Arc<SetReader>) -> Result<(), Failure> {
        Ok(set::can_be_opened(&reader).await?)
    }

    async fn examine(target: &Target, options: &DumpOptions, world: &World) -> Result<Readiness, Failure> {
        Ok(ready::examine(target, options, world).await?)
    }
}
