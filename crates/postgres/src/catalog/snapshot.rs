//! One state of a database, seen by many connections.
//!
//! Every table is locked first, and the snapshot is taken after that. So nothing can be altered, dropped or truncated
//! between the snapshot and the reading. A change before the lock is noticed: each table's file in the snapshot is
//! compared with its present file. A TRUNCATE in between would otherwise look like an empty table.

use seawall_core::Moment;

use crate::catalog::inventory::{self, Table};
use crate::catalog::locks;
use crate::catalog::rights;
use crate::client::{Connection, Target, session};
use crate::error::refuse;
use crate::{Error, World};

/// Tables that are locked with one statement.
const AT_ONCE: usize = 500;

/// A relation that was a table a moment ago may now be a view, whose functions would run with our rights
/// (CVE-2024-7348). `pg_dump` begins with the same setting, where the server has it.
const TABLES_ALONE: &str = "SELECT pg_catalog.set_config(name, 'view, foreign-table', false) FROM pg_catalog.pg_settings \
                            WHERE name = 'restrict_nonsystem_relation_kind'";

/// A state that is held: it lives as long as its connection's transaction.
pub(crate) struct Snapshot {
    pub(crate) connection: Connection,
    pub(crate) name: String,
    pub(crate) lsn: String,
    pub(crate) standby: bool,
    pub(crate) moment: Moment,
    pub(crate) system_identifier: String,
    pub(crate) tables: Vec<Table>,
}

/// A state of a database, for other connections that look at it.
#[derive(Clone, Copy)]
pub(crate) struct Seen<'a> {
    pub(crate) target: &'a Target,
    /// The snapshot's name.
    pub(crate) snapshot: &'a str,
    /// The encoding that texts are to be in.
    pub(crate) encoding: &'a str,
    /// Schemas that don't belong to it.
    pub(crate) journals: &'a [String],
}

impl Seen<'_> {
    /// How `pg_dump` is asked to see the same.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let mut arguments = vec![format!("--snapshot={}", self.snapshot)];
        arguments.extend(self.journals.iter().map(|schema| format!("--exclude-schema={schema}")));
        arguments
    }
}

/// A standby doesn't receive unlogged tables. They can't be read there, and a set without them wouldn't be complete.
async fn refuse_unlogged_of_a_standby(connection: &mut Connection, target: &Target) -> Result<(), Error> {
    let sql = "SELECT n.nspname || '.' || c.relname FROM pg_catalog.pg_class c \
               JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
               WHERE pg_catalog.pg_is_in_recovery() AND c.relpersistence = 'u' AND c.relkind IN ('r', 'm', 'S') ORDER BY 1";
    let names: Vec<String> = connection.query(sql).await?.iter().map(|row| row.text(0).to_owned()).collect();
    if names.is_empty() {
        return Ok(());
    }
    Err(Error::Refused {
        code: "postgres.unsupported",
        object: target.to_string(),
        cause: format!("it is a standby, which has nothing of what is unlogged: {}", rights::shown(&names)),
        next: "back up the primary; or there ALTER TABLE … SET LOGGED, and ALTER SEQUENCE … SET LOGGED".to_owned(),
    })
}

/// Refuses a database of which the role doesn't see everything, or that has more tables than can be locked. Returns its tables, by
/// oid and name.
pub(crate) async fn check(connection: &mut Connection, target: &Target) -> Result<Vec<(u64, String)>, Error> {
    rights::check(connection).await?;
    refuse_unlogged_of_a_standby(connection, target).await?;
    let names = inventory::names(connection).await?;
    // One lock for each table; the locks of pg_dump are on the same tables.
    let lack = locks::lack(connection, "the backup", names.len() as u64).await?;
    refuse(&target.to_string(), lack.as_slice())?;
    Ok(names)
}

/// Takes a snapshot. Fails with `postgres.changing` if a table changed meanwhile. Then it can be retried.
pub(crate) async fn take(target: &Target, world: &World) -> Result<Snapshot, Error> {
    let mut scout = Connection::open(target).await?;
    let mut connection = Connection::open(target).await?;
    prepare(&mut connection).await?;
    let names = check(&mut scout, target).await?;
    scout.close().await;
    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY").await?;
    for some in names.chunks(AT_ONCE) {
        let list: Vec<String> = some.iter().map(|(_, name)| format!("ONLY {name}")).collect();
        let lock = format!("LOCK TABLE {} IN ACCESS SHARE MODE", list.join(", "));
        let of = if some.len() == 1 { some[0].1.clone() } else { format!("{} tables from {}", some.len(), some[0].1) };
        connection.execute(&lock).await.map_err(|error| error.about(of))?;
    }
    let moment = world.clock.now();
    // The first statement that reads anything, so the snapshot comes after the locks.
    let sql = "SELECT pg_catalog.pg_export_snapshot(), pg_catalog.pg_is_in_recovery(), \
               CASE WHEN pg_catalog.pg_is_in_recovery() \
               THEN pg_catalog.pg_last_wal_replay_lsn() ELSE pg_catalog.pg_current_wal_lsn() END, \
               (SELECT system_identifier FROM pg_catalog.pg_control_system())";
    let row = connection.one(sql).await?;
    let tables = inventory::tables(&mut connection).await?;
    for table in &tables {
        // Also compared by name, because it was locked by name.
        let known = names.iter().any(|(oid, name)| *oid == table.oid && *name == table.sql());
        if !known || table.files.0 != table.files.1 {
            return Err(Error::Refused {
                code: "postgres.changing",
                object: table.shown(),
                cause: "it was created, truncated or rewritten while the snapshot was taken".to_owned(),
                next: "start again when no table is being rewritten".to_owned(),
            });
        }
    }
    Ok(Snapshot {
        connection,
        name: row.text(0).to_owned(),
        standby: row.flag(1),
        lsn: row.text(2).to_owned(),
        system_identifier: row.text(3).to_owned(),
        moment,
        tables: tables.into_iter().filter(|table| !table.parent).collect(),
    })
}

/// Begins a transaction that sees the snapshot.
pub(crate) async fn join(connection: &mut Connection, snapshot: &str) -> Result<(), Error> {
    let name = crate::quote::literal(snapshot);
    connection
        .execute(&format!(
            "ROLLBACK; BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY; SET TRANSACTION SNAPSHOT {name}"
        ))
        .await
}

/// Sets a connection to read. Its texts are in the encoding of its database. A damaged page must be an error, and no page
/// without rows.
pub(crate) async fn prepare(connection: &mut Connection) -> Result<(), Error> {
    connection.execute(TABLES_ALONE).await?;
    for name in session::hiding_damage(connection).await? {
        match connection.execute(&format!("SET {name} = off")).await {
            Err(error) if error.sqlstate() == Some("42501") => {
                return Err(Error::Refused {
                    code: "postgres.hides-damage",
                    object: "the server".to_owned(),
                    cause: format!("{name} is on, and rows on damaged pages would be missing without a word"),
                    next: format!(
                        "ALTER SYSTEM RESET {name}; SELECT pg_catalog.pg_reload_conf(); or back up as a superuser, who turns it off for the session"
                    ),
                });
            }
            done => done?,
        }
    }
    Ok(())
}
