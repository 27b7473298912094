//! The end of a restore: everything gets into the database that is wanted.
//!
//! MySQL has no statement that renames a database. So all tables move at once, with one RENAME TABLE, which moves all or none;
//! their indexes, foreign keys, sequences and rows move with them. What a table can't move with (triggers) and what can't
//! move at all (routines, views, events) is made in the wanted database, in an order in which nothing runs too early.
//!
//! A database that is replaced goes directly before that, when all rows, indexes and foreign keys of the new one are there, and
//! the server has taken its routines, triggers and events once (`objects::rehearse`). From then on the new one is all that counts: a
//! run that is interrupted leaves it in the unfinished database with its journal, and the same command goes on from there.

use crate::Error;
use crate::client::Connection;
use crate::client::quote::{name, qualified};
use crate::client::tried::is_about_the_statement;
use crate::journal::Journal;
use crate::restore::objects::{self, Home};
use crate::restore::steps::{Place, tables_of};
use crate::schema::program::Status;
use crate::schema::table::{Added, add_foreign_keys};
use crate::schema::{StoredKind, StoredObject};

/// The note that the wanted database is being made: from here on there is no way back.
pub(crate) const FINISHING: &str = "finishing";

/// The server's number for a folder of a database that has other files in it.
const NOT_EMPTY: u16 = 1010;

impl Place<'_> {
    /// Where objects are made.
    pub(crate) fn home<'a>(&'a self, database: &'a str) -> Home<'a> {
        let definers = &self.what.definers;
        Home {
            database,
            collation: &self.set.detail.collation,
            definers,
            // An event of a stripped definer would run by itself, with the rights of the account that restores.
            status: if definers.are_stripped() { Status::Disabled } else { Status::AsItWas },
        }
    }

    /// Triggers of the tables that are restored.
    pub(crate) fn triggers(&self) -> impl Iterator<Item = &StoredObject> {
        let has = |table: &Option<String>| table.as_deref().is_some_and(|table| self.what.has(table));
        self.set.schema.triggers.iter().filter(move |trigger| has(&trigger.table))
    }

    /// Objects that aren't tables, and that are restored, but for views and what runs by itself.
    pub(crate) fn rehearsed(&self) -> Vec<&StoredObject> {
        let schema = &self.set.schema;
        let whole = self.what.is_whole();
        let routines = schema.routines.iter().filter(|_| whole);
        routines.chain(self.triggers()).chain(schema.events.iter().filter(|_| whole)).collect()
    }

    /// Has the server take routines, triggers and events once. What it refuses ends the restore, unless that may be left out.
    pub(crate) async fn rehearse(&self, connection: &mut Connection, journal: &mut Journal) -> Result<(), Error> {
        if journal.has("rehearsed") {
            return Ok(());
        }
        let refused = objects::rehearse(connection, self.home(&self.made), &self.rehearsed()).await?;
        if let Some((object, cause)) = refused.into_iter().next()
            && !self.what.options.without_superuser
        {
            return Err(Error::Refused {
                code: "mysql.refused",
                object: object.replace(&self.made, &self.set.detail.name),
                cause,
                next: "give the account what the server names, or restore with --without-superuser, which leaves out and names \
                       what the server refuses"
                    .to_owned(),
            });
        }
        journal.note(connection, "rehearsed").await
    }

    /// Moves all tables into the wanted database. `replaces` says that it is there and goes first.
    pub(crate) async fn take_name(
        &self,
        connection: &mut Connection,
        journal: &mut Journal,
        replaces: bool,
    ) -> Result<(), Error> {
        if journal.has("moved") {
            return Ok(());
        }
        // Something may have come into the database since the restore began, or since it was interrupted here with `--clean`.
        if !journal.has("replaced") && !replaces {
            let way = super::in_the_way(connection, self.set, self.what, &self.name).await?;
            crate::preflight::refuse(&format!("database {}", self.name), &way)?;
        }
        if !journal.has(FINISHING) {
            journal.note(connection, FINISHING).await?;
        }
        // Noted in any case: a resume with `--clean` drops nothing that this restore has moved.
        if !journal.has("replaced") {
            if replaces {
                self.drop_replaced(connection).await?;
            }
            journal.note(connection, "replaced").await?;
        }
        let options = self.set.options()?;
        let wanted = name(&self.name);
        let about = |error: Error| error.about(format!("database {}", self.name));
        connection.execute(&format!("CREATE DATABASE IF NOT EXISTS {wanted} {options}")).await.map_err(about)?;
        if self.what.is_whole() {
            connection.execute(&format!("ALTER DATABASE {wanted} {options}")).await.map_err(about)?;
        }
        let mut tables = tables_of(connection, &self.made).await?;
        tables.remove(&journal.name);
        let moves: Vec<String> = tables
            .iter()
            .map(|table| format!("{} TO {}", qualified(&self.made, table), qualified(&self.name, table)))
            .collect();
        if !moves.is_empty() {
            // With the checks on, foreign keys follow the tables that they refer to.
            connection.execute("SET SESSION foreign_key_checks = 1").await?;
            connection.execute(&format!("RENAME TABLE {}", moves.join(", "))).await.map_err(about)?;
            connection.execute("SET SESSION foreign_key_checks = 0").await?;
        }
        journal.note(connection, "moved").await
    }

    /// Drops the database that is replaced. A folder with other files in it stays, without tables, and is used again.
    async fn drop_replaced(&self, connection: &mut Connection) -> Result<(), Error> {
        match connection.execute(&format!("DROP DATABASE IF EXISTS {}", name(&self.name))).await {
            Ok(_) => Ok(()),
            Err(error) if error.number() == Some(NOT_EMPTY) && tables_of(connection, &self.name).await?.is_empty() => {
                Ok(())
            }
            Err(error) => Err(error.about(format!("database {}", self.name))),
        }
    }

    /// What refers to other tables and sequences by the name of their database, behind the move.
    pub(crate) async fn refer(&self, connection: &mut Connection) -> Result<Vec<(String, String)>, Error> {
        let mut refused = Vec::new();
        connection.execute(&format!("USE {}", name(&self.name))).await?;
        let there = tables_of(connection, &self.name).await?;
        for table in self.tables()? {
            let wanted = qualified(&self.name, &table.name);
            let own = table.with_sequences_of(&self.set.detail.name, &self.name);
            // All of them at once: while one names a sequence that has moved, the table can't be read.
            let columns: Vec<String> =
                own.columns_of_sequences(&self.name).map(|column| format!("MODIFY COLUMN {column}")).collect();
            if !columns.is_empty() {
                // The default of a column says nothing of former rows.
                let keep =
                    if table.is_versioned { "SET STATEMENT system_versioning_alter_history = 'KEEP' FOR " } else { "" };
                let sql = format!("{keep}ALTER TABLE {wanted} {}", columns.join(", "));
                connection.execute(&sql).await.map_err(|error| error.about(format!("{}.{}", self.name, table.name)))?;
            }
            let outer = table.foreign_keys().into_iter().filter(|(key, _)| !self.is_inner(key));
            for (key, added) in outer {
                // Of chosen tables it was told before anything was written. In a whole database the source lacks the table too.
                if !self.what.is_whole() && key.database.is_none() && !there.contains(&key.table) {
                    continue;
                }
                if let Some(cause) = self.add_outer(connection, &table.name, &added).await? {
                    refused.push((format!("foreign key {}.{}.{}", self.name, table.name, key.name), cause));
                }
            }
        }
        Ok(refused)
    }

    /// Adds a foreign key to a table that isn't restored with its own; why the server refuses it, if it does.
    async fn add_outer(&self, connection: &mut Connection, table: &str, key: &Added) -> Result<Option<String>, Error> {
        let sql = add_foreign_keys(&self.name, table, std::slice::from_ref(key));
        match connection.execute(&sql).await {
            Ok(_) => Ok(None),
            // The same restore has added it already.
            Err(error)
                if matches!(error.number(), Some(1826 | 1061 | 1005))
                    && is_there(connection, &self.name, table, key).await? =>
            {
                Ok(None)
            }
            Err(error) if is_about_the_statement(&error) => Ok(Some(error.cause())),
            Err(error) => Err(error.about(format!("{}.{table}", self.name))),
        }
    }

    /// Drops the unfinished database, and the journal with it: the restore is done.
    pub(crate) async fn end(&self, connection: &mut Connection) -> Result<(), Error> {
        let sql = format!("DROP DATABASE IF EXISTS {}", name(&self.made));
        connection.execute(&sql).await.map(drop).map_err(|error| error.about(format!("database {}", self.made)))
    }
}

/// Whether a foreign key is there.
async fn is_there(connection: &mut Connection, database: &str, table: &str, key: &Added) -> Result<bool, Error> {
    use crate::client::quote::text;
    let sql = format!(
        "SELECT 1 FROM information_schema.table_constraints WHERE table_schema = {} AND table_name = {} \
         AND constraint_name = {} AND constraint_type = 'FOREIGN KEY'",
        text(database),
        text(table),
        text(&key.name)
    );
    Ok(!connection.query(&sql).await?.is_empty())
}

/// Makes what isn't tables in the wanted databases, of all of them together: routines before the views that call them, and what
/// runs by itself last.
pub(crate) async fn make_objects(
    connection: &mut Connection,
    places: &[&Place<'_>],
) -> Result<Vec<(String, String)>, Error> {
    let mut refused = Vec::new();
    for kinds in [
        &[StoredKind::Package, StoredKind::PackageBody, StoredKind::Function, StoredKind::Procedure][..],
        &[StoredKind::View],
        &[StoredKind::Trigger],
        &[StoredKind::Event],
    ] {
        let mut all = Vec::new();
        for place in places {
            let views = place.set.schema.views.iter().filter(|_| place.what.is_whole());
            let objects = place.rehearsed().into_iter().chain(views).filter(|object| kinds.contains(&object.kind));
            all.extend(objects.map(|object| (place.home(&place.name), object)));
        }
        refused.extend(objects::make_all(connection, &all).await?);
    }
    Ok(refused)
}
