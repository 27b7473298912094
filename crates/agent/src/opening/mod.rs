//! Databases to protect: in turns with other processes, and opened again where the vault is away.

pub(crate) mod late;

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use seawall_core::{Description, Engine, Failure, Journal};
use seawall_engines::alarms::Place;
use seawall_engines::{DatabaseConfig, Opener};

use crate::fleet::Databases;
use crate::lease::{Leased, Terms};
use crate::opening::late::{Late, Open};

#[async_trait]
impl Databases for Arc<Opener> {
    async fn lasting(&self, database: &DatabaseConfig) -> Result<Arc<dyn Engine>, Failure> {
        match protected(self, database).await {
            Err(failure) if failure.kind.may_pass() => {
                let open = Again { opener: Arc::clone(self), database: database.clone() };
                Ok(Arc::new(Late::new(open, describe(database))))
            }
            opened => opened,
        }
    }

    async fn fleeting(&self, database: &DatabaseConfig) -> Result<Arc<dyn Engine>, Failure> {
        protected(self, database).await
    }

    fn place_here(&self, database: &DatabaseConfig) -> Place {
        Opener::place_here(self, database)
    }

    fn place_of_folder(&self, folder: &Path) -> Place {
        Opener::place_of_folder(self, folder)
    }

    fn prover(&self) -> Option<Arc<Opener>> {
        Some(Arc::clone(self))
    }

    fn journal(&self) -> Journal {
        Opener::journal(self).clone()
    }
}

/// How a database that isn't open describes itself.
pub(crate) fn describe(database: &DatabaseConfig) -> Description {
    Description {
        name: database.name.clone(),
        engine: database.engine.name(),
        source: Some(database.source().to_string()),
        vault: database.vault.to_string(),
    }
}

/// A database to protect: in its turn, where it takes turns with other processes.
async fn protected(opener: &Opener, database: &DatabaseConfig) -> Result<Arc<dyn Engine>, Failure> {
    let (vault, engine) = opener.database_and_vault(database).await?;
    Ok(match database.lease {
        None => engine,
        Some(ttl) => Arc::new(Leased::new(engine, vault, Terms { owner: opener.owner().to_owned(), ttl })),
    })
}

/// What [`Late`] needs to try again.
struct Again {
    opener: Arc<Opener>,
    database: DatabaseConfig,
}

#[async_trait]
impl Open for Again {
    async fn open(&self) -> Result<Arc<dyn Engine>, Failure> {
        protected(&self.opener, &self.database).await
    }
}
