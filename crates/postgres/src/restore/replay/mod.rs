//! Restores an artefact, the unchanged output of `pg_dump`, over our own connection and statement by statement.
//!
//! A plain dump is a script. `pg_restore` makes a custom dump into a script: it reads the dump from a pipe, and connects to no
//! server. A directory is made into a custom dump first (`joined`). `psql` never reads any of them (see `schema::script`). A new
//! database gets its name when it is whole (I8). One connection restores, and an interrupted restore begins anew.
//!
//! The room: `artefact` (such a set, opened), `origin` (where its bytes come from), `fill` (a database filled from it), `pipe` (it as
//! a script), `joined` (a directory as one archive), `player` (a script on its way), `outside` (a file that another
//! program left), `roles` (what belongs to no database, from such a file), `checked` (such a file, read without a server).

pub(crate) mod artefact;
pub(crate) mod checked;
mod fill;
mod joined;
mod origin;
pub(crate) mod outside;
pub(crate) mod pipe;
mod player;
pub(crate) mod roles;

use std::sync::Arc;

use seawall_archive::SetReader;
use seawall_archive::server::Filled;
use seawall_core::Progress;

use crate::catalog::globals::{self, Found};
use crate::client::Target;
use crate::preflight::restorer::Destination;
use crate::restore::replay::artefact::Artefact;
use crate::restore::{self, naming};
use crate::schema::account::Account;
use crate::{Error, RestoreOptions, Restored, World, preflight};

/// The report of a restore.
#[derive(Default)]
pub(crate) struct Told {
    /// The content of the script, for a proof.
    pub(crate) account: Option<Account>,
    /// See [`Restored::without_statistics`].
    pub(crate) without_statistics: Vec<(String, String)>,
    /// See [`Restored::refused`].
    pub(crate) refused: Vec<(String, String)>,
    /// Rows that the server took.
    pub(crate) rows: u64,
    /// Statements about the database as a whole, which aren't run.
    pub(crate) passed_over: Vec<String>,
}

/// Restores the artefact that a set is.
pub(crate) async fn restore(
    reader: Arc<SetReader>,
    target: &Target,
    options: &RestoreOptions,
    world: &World,
    progress: Arc<dyn Progress>,
    restored: &mut Restored,
) -> Result<(), Error> {
    let artefact = Artefact::open(reader, options, world).await?;
    let mut filled = Filled::default();
    let done = restore_artefact(&artefact, target, options, progress, &mut filled).await;
    (restored.lacks, restored.doubts) = (filled.lacks, filled.doubts);
    (restored.without_statistics, restored.refused) = (filled.without_statistics, filled.refused);
    done
}

/// Restores an artefact that was opened, into a database that is made or is empty.
async fn restore_artefact(
    artefact: &Artefact<'_>,
    target: &Target,
    options: &RestoreOptions,
    progress: Arc<dyn Progress>,
    restored: &mut Filled,
) -> Result<(), Error> {
    if !options.dry_run {
        // Of a set of Seawall's own format: only that puts databases aside.
        naming::undo_left(target, &[&target.database]).await?;
    }
    let (mut connection, found) = globals::connect_to_or_beside(target).await?;
    let exists = found != Found::Nothing;
    if found == Found::Invalid && !options.clean {
        restored.lacks.push(globals::invalid(&target.database));
        return if options.dry_run { Ok(()) } else { preflight::refuse(&target.to_string(), &restored.lacks) };
    }
    let into = if exists && !options.clean { Destination::Existing } else { Destination::New { replaces: exists } };
    let look = artefact.lacks(&mut connection, target, into).await?;
    (restored.lacks, restored.doubts) = (look.lacks, look.doubts);
    connection.close().await;
    if options.dry_run {
        return Ok(());
    }
    preflight::refuse(&target.to_string(), &restored.lacks)?;
    if exists && !options.clean {
        return artefact.fill_in_place(target, &*progress, restored).await;
    }
    // The name is given from another database, in the end: whether there is one is known now.
    globals::connect_beside(target, &[&target.database]).await?.close().await;
    let exists = exists && !restore::drop_invalid(target, found).await?;
    let mut told = Told::default();
    let made = artefact.make(target, &*progress, &mut told).await?;
    restored.without_statistics = told.without_statistics;
    (restored.refused, restored.rows, restored.passed_over) = (told.refused, told.rows, told.passed_over);
    let properties = (&artefact.needs.properties, options.owners);
    let named = naming::take_name(target, &made.database, &target.database, exists, properties).await;
    named.map_err(|error| error.leaves(&made.database))
}
