//! The steps that make everything of a set in a database of an unfinished name, each noted in the journal.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, PoisonError};

use futures::future::try_join_all;
use seawall_core::Progress;

use crate::Error;
use crate::catalog::facts::Facts;
use crate::client::quote::{name, qualified, text};
use crate::client::{Connection, Target};
use crate::detail::ServerFacts;
use crate::journal::Journal;
use crate::load::{Load, Session};
use crate::restore::objects;
use crate::schema::SequenceStatement;
use crate::schema::table::{Added, Foreign, Table, add_foreign_keys, add_keys};
use crate::set::scope::Scope;
use crate::set::{Set, corrupt};

/// Settings of a session that makes tables. Each exists in some servers only, and some need a right; without the right the
/// server's own setting stays.
const SETTINGS: [(&str, &str); 10] = [
    // Each table has the engine that its statement names, and each change is made in the way that the server takes for it.
    ("enforce_storage_engine", "NULL"),
    ("alter_algorithm", "'DEFAULT'"),
    ("old_alter_table", "0"),
    ("innodb_compression_default", "0"),
    // `utf8` is utf8mb3 in what a server tells of its tables. Without this setting a MariaDB takes it for utf8mb4.
    ("old_mode", "'UTF8_IS_UTF8MB3'"),
    // A format that the server doesn't know any more becomes another one, as in the source.
    ("innodb_strict_mode", "0"),
    // A timestamp has a default if its statement says so, and only then.
    ("explicit_defaults_for_timestamp", "1"),
    ("sql_require_primary_key", "0"),
    ("sql_generate_invisible_primary_key", "0"),
    ("check_constraint_checks", "0"),
];

/// Where a restore works.
pub(crate) struct Place<'a> {
    pub(crate) set: &'a Set,
    pub(crate) what: &'a Scope<'a>,
    /// The server, without a database.
    pub(crate) target: &'a Target,
    /// The database in which everything is made.
    pub(crate) made: String,
    /// The database in which all of it is in the end.
    pub(crate) name: String,
    pub(crate) facts: &'a Facts,
    /// Whether the server allows `LOAD DATA LOCAL`.
    pub(crate) infile: bool,
}

/// The collation of utf8mb4 that a server doesn't name beside it, because it is its default. MySQL 8 has another one than all before it
/// and than MariaDB, and takes either. Pure.
fn collation_of(from: &ServerFacts) -> &'static str {
    if from.family == "mysql" && from.version >= 80_000 { "'utf8mb4_0900_ai_ci'" } else { "'utf8mb4_general_ci'" }
}

/// Prepares a session that makes tables of a source and changes them.
pub(crate) async fn prepare(connection: &mut Connection, from: &ServerFacts) -> Result<(), Error> {
    let settings: Vec<(&str, &str)> =
        SETTINGS.into_iter().chain([("default_collation_for_utf8mb4", collation_of(from))]).collect();
    let names: Vec<String> = settings.iter().map(|(name, _)| format!("'{name}'")).collect();
    let sql = format!("SHOW SESSION VARIABLES WHERE Variable_name IN ({})", names.join(", "));
    let there: BTreeSet<String> = connection.query(&sql).await?.iter().map(|row| row.text(0).to_owned()).collect();
    for (name, value) in settings.into_iter().filter(|(name, _)| there.contains(*name)) {
        match connection.execute(&format!("SET SESSION {name} = {value}")).await {
            Ok(_) => {}
            Err(error) if error.server().is_some() => tracing::debug!(name, "the server keeps its own: {error}"),
            Err(error) => return Err(error),
        }
    }
    connection.execute(objects::AS_OURS).await?;
    connection.execute("SET SESSION foreign_key_checks = 0").await.map(drop)
}

/// Whether a sequence gives out next what it does in the set.
async fn is_at(connection: &mut Connection, name: &str, sequence: &SequenceStatement) -> Result<bool, Error> {
    let row = connection.one(&format!("SELECT next_not_cached_value, cycle_count FROM {name}")).await?;
    Ok(row.text(0) == sequence.next.to_string() && row.number(1) == sequence.round)
}

/// The tables and sequences of a database.
pub(crate) async fn tables_of(connection: &mut Connection, database: &str) -> Result<BTreeSet<String>, Error> {
    let sql = format!(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = {} AND table_type <> 'VIEW'",
        text(database)
    );
    Ok(connection.query(&sql).await?.iter().map(|row| row.text(0).to_owned()).collect())
}

impl Place<'_> {
    /// The tables that are restored.
    pub(crate) fn tables(&self) -> Result<Vec<Table>, Error> {
        Ok(self.set.tables()?.into_iter().filter(|table| self.what.has(&table.name)).collect())
    }

    /// Does all steps that the journal doesn't have.
    pub(crate) async fn fill(
        &self,
        connection: &mut Connection,
        journal: &mut Journal,
        progress: &dyn Progress,
    ) -> Result<(), Error> {
        let jobs = self.what.options.limits.jobs.max(1);
        let tables = self.tables()?;
        if !journal.has("tables") {
            self.make_tables(connection, journal, &tables).await?;
            journal.note(connection, "tables").await?;
        }
        progress.begin("load", Some(self.set.totals(self.what).raw));
        let load = self.load(journal, progress);
        match &self.set.script {
            Some(script) => load.run_script(connection, script).await?,
            None => load.run(connection, jobs).await?,
        }
        progress.finish();
        progress.begin("indexes", None);
        if !journal.has("keys") {
            self.add_keys(connection, &tables, jobs).await?;
            journal.note(connection, "keys").await?;
        }
        if !journal.has("foreign keys") {
            self.add_inner_foreign_keys(connection, &tables).await?;
            journal.note(connection, "foreign keys").await?;
        }
        if !journal.has("analyzed") {
            for table in &tables {
                // The planner's numbers. A server that refuses it gathers them by itself.
                let sql = format!("ANALYZE NO_WRITE_TO_BINLOG TABLE {}", qualified(&self.made, &table.name));
                connection.execute(&sql).await?;
                self.gather(connection, &table.name).await?;
            }
            journal.note(connection, "analyzed").await?;
        }
        progress.finish();
        Ok(())
    }

    /// Has the server gather what it gathers by a statement alone. The other family has other statements, and gathers its own.
    async fn gather(&self, connection: &mut Connection, table: &str) -> Result<(), Error> {
        let found = self.set.schema.tables.iter().find(|found| found.name == table);
        let of_its_kind = self.facts.server.family == self.set.server.family;
        for one in found.filter(|_| of_its_kind).into_iter().flat_map(|found| &found.statistics) {
            let table = qualified(&self.made, table);
            let sql = one.gathered(&table);
            match connection.execute(&sql).await {
                Ok(_) => {}
                Err(error) if error.server().is_some() => {
                    tracing::warn!(table, "its statistics aren't gathered: {error}")
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The load of the rows.
    pub(crate) fn load<'a>(&'a self, journal: &'a Journal, progress: &'a dyn Progress) -> Load<'a> {
        let is_wanted = |item: &Option<crate::detail::ItemDetail>| match item {
            Some(crate::detail::ItemDetail::Table { name, .. }) => self.what.has(name),
            _ => false,
        };
        Load {
            target: self.target,
            database: &self.made,
            reader: &self.set.reader,
            items: &self.set.items,
            wanted: self.set.items.iter().map(is_wanted).collect(),
            journal,
            session: Session {
                mariadb: self.facts.mariadb,
                infile: self.infile,
                takes_history: self.facts.takes_history,
            },
            is_found: self.what.options.data_only,
            doubtful: self.doubtful(),
            progress,
        }
    }

    /// Columns with an enumeration that may lack a value of the source's.
    fn doubtful(&self) -> BTreeSet<(String, String)> {
        let tables = self.set.tables().unwrap_or_default();
        let of = |table: &Table| -> Vec<(String, String)> {
            table.doubtful_enumerations().map(|column| (table.name.clone(), column.to_owned())).collect()
        };
        tables.iter().flat_map(of).collect()
    }

    /// Makes sequences and tables, without secondary indexes and foreign keys. What an interrupted attempt has made goes first:
    /// no row is in it.
    async fn make_tables(&self, connection: &mut Connection, journal: &Journal, tables: &[Table]) -> Result<(), Error> {
        connection.execute(&format!("USE {}", name(&self.made))).await?;
        for table in tables_of(connection, &self.made).await? {
            if table != journal.name {
                connection.execute(&format!("DROP TABLE {}", qualified(&self.made, &table))).await?;
            }
        }
        for sequence in self.set.schema.sequences.iter().filter(|sequence| self.what.has(&sequence.name)) {
            self.make_sequence(connection, sequence).await?;
        }
        for table in tables {
            let own = table.with_sequences_of(&self.set.detail.name, &self.made);
            let sql = own.create(&self.made, false);
            connection
                .execute(&sql)
                .await
                .map_err(|error| error.about(format!("table {}.{}", self.set.detail.name, table.name)))?;
        }
        Ok(())
    }

    async fn make_sequence(&self, connection: &mut Connection, sequence: &SequenceStatement) -> Result<(), Error> {
        let statement = sequence.statement.text();
        let words = crate::schema::words::words(statement.as_bytes()).unwrap_or_default();
        let rest = match words.as_slice() {
            [create, word, name, ..] if create.is("CREATE") && word.is("SEQUENCE") => statement.get(name.end()..),
            _ => None,
        };
        let wrong = || corrupt(&self.set.reader, format!("the statement of sequence {} can't be read", sequence.name));
        let rest = rest.filter(|rest| !rest.contains(';')).ok_or_else(wrong)?;
        let name = qualified(&self.made, &sequence.name);
        let about = |error: Error| error.about(format!("sequence {}.{}", self.set.detail.name, sequence.name));
        connection.execute(&format!("CREATE SEQUENCE {name}{rest}")).await.map_err(about)?;
        let set = format!("SELECT SETVAL({name}, {}, 0, {})", sequence.next, sequence.round);
        connection.execute(&set).await.map_err(about)?;
        if is_at(connection, &name, sequence).await.map_err(about)? {
            return Ok(());
        }
        // SETVAL never goes back, and ALTER SEQUENCE … RESTART in the source did.
        connection.execute(&format!("ALTER SEQUENCE {name} RESTART WITH {}", sequence.next)).await.map_err(about)?;
        if is_at(connection, &name, sequence).await.map_err(about)? {
            return Ok(());
        }
        let cause = format!("it can't be set to {}, as it is in the set", sequence.next);
        Err(Error::Different { object: format!("sequence {}.{}", self.set.detail.name, sequence.name), cause })
    }

    /// Builds secondary indexes, several tables at a time.
    async fn add_keys(&self, connection: &mut Connection, tables: &[Table], jobs: usize) -> Result<(), Error> {
        let there = self.names(connection, "statistics", "index_name", "").await?;
        let mut left = VecDeque::new();
        for table in tables {
            let is_missing = |added: &Added| !there.contains(&(table.name.clone(), added.name.clone()));
            let keys: Vec<_> = table.keys().into_iter().filter(|(_, added)| is_missing(added)).collect();
            let statements = add_keys(&self.made, &table.name, &keys);
            if !statements.is_empty() {
                left.push_back((table.name.clone(), statements));
            }
        }
        let jobs = jobs.min(left.len());
        let left = Mutex::new(left);
        let work = async || {
            let mut connection = Connection::open(self.target).await?;
            prepare(&mut connection, &self.set.server).await?;
            connection.execute(&format!("USE {}", name(&self.made))).await?;
            loop {
                let next = left.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                let Some((table, statements)) = next else { break };
                for sql in statements {
                    let about = |error: Error| error.about(format!("the indexes of {}.{table}", self.set.detail.name));
                    connection.execute(&sql).await.map_err(about)?;
                }
            }
            connection.close().await;
            Ok::<_, Error>(())
        };
        try_join_all((0..jobs).map(|_| work())).await.map(drop)
    }

    /// Adds foreign keys between tables that are restored. The rows aren't looked at again.
    async fn add_inner_foreign_keys(&self, connection: &mut Connection, tables: &[Table]) -> Result<(), Error> {
        connection.execute(&format!("USE {}", name(&self.made))).await?;
        let there = self.names(connection, "table_constraints", "constraint_name", "FOREIGN KEY").await?;
        for table in tables {
            let is_missing = |added: &Added| !there.contains(&(table.name.clone(), added.name.clone()));
            let keys = table.foreign_keys().into_iter().filter(|(key, added)| self.is_inner(key) && is_missing(added));
            let keys: Vec<Added> = keys.map(|(_, added)| added).collect();
            if keys.is_empty() {
                continue;
            }
            let about =
                |error: Error| error.about(format!("the foreign keys of {}.{}", self.set.detail.name, table.name));
            connection.execute(&add_foreign_keys(&self.made, &table.name, &keys)).await.map_err(about)?;
        }
        Ok(())
    }

    /// Whether a foreign key is between tables that are restored into this database.
    pub(crate) fn is_inner(&self, key: &Foreign) -> bool {
        key.database.is_none()
            && self.what.has(&key.table)
            && self.set.schema.tables.iter().any(|table| table.name == key.table)
    }

    /// Names that belong to tables of the database, as `information_schema` lists them.
    async fn names(
        &self,
        connection: &mut Connection,
        list: &str,
        column: &str,
        kind: &str,
    ) -> Result<BTreeSet<(String, String)>, Error> {
        let of_kind = if kind.is_empty() { String::new() } else { format!(" AND constraint_type = {}", text(kind)) };
        let sql = format!(
            "SELECT table_name, {column} FROM information_schema.{list} WHERE table_schema = {}{of_kind}",
            text(&self.made)
        );
        let rows = connection.query(&sql).await?;
        Ok(rows.iter().map(|row| (row.text(0).to_owned(), row.text(1).to_owned())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_collation_is_the_sources() {
        for (family, version, expected) in [
            ("mysql", 80_036, "'utf8mb4_0900_ai_ci'"),
            ("mysql", 90_700, "'utf8mb4_0900_ai_ci'"),
            ("mysql", 50_744, "'utf8mb4_general_ci'"),
            ("mariadb", 100_500, "'utf8mb4_general_ci'"),
        ] {
            let from = ServerFacts { family: family.into(), version, ..ServerFacts::default() };
            assert_eq!(collation_of(&from), expected, "{family} {version}");
        }
    }
}
