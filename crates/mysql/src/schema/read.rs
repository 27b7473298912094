//! Asks a server for the statements of a database's objects.

use std::collections::{BTreeMap, BTreeSet};

use super::{Schema, SequenceStatement, Statistics, StoredKind, StoredObject, TableStatement, order};
use crate::Error;
use crate::catalog::inventory::Kind;
use crate::client::{Connection, Flavour, Row, quote};
use crate::detail::Sql;

/// MySQL that has libraries of routines in other languages.
const HAS_LIBRARIES: u32 = 90_200;

/// The warning of SHOW CREATE VIEW for a view that selects from something that isn't there, or isn't allowed to.
const BROKEN: &str = "1356";

/// Reads the schema of a database. `connection` gives values as bytes.
pub(crate) async fn read(connection: &mut Connection, database: &str) -> Result<Schema, Error> {
    // Names of objects of the present database are told without it.
    connection.execute(&format!("USE {}", quote::name(database))).await?;
    let sql = format!("SHOW CREATE DATABASE {}", quote::name(database));
    let mut schema = Schema { database: sql_of(&connection.one(&sql).await?, 1), ..Schema::default() };
    let views = relations(connection, database, &mut schema).await?;
    schema.routines = routines(connection, database).await?;
    schema.views = in_order(views);
    schema.triggers = triggers(connection, database).await?;
    schema.events = events(connection, database).await?;
    Ok(schema)
}

/// The bytes of a column.
fn sql_of(row: &Row, column: usize) -> Sql {
    Sql::new(row.bytes(column).unwrap_or_default())
}

/// The rows of a question about the objects of one database. The first column is the database.
async fn ask(connection: &mut Connection, sql: &str, database: &str) -> Result<Vec<Row>, Error> {
    let mut rows = connection.query(&sql.replace("{}", &quote::text(database))).await?;
    rows.retain(|row| row.text(0) == database);
    Ok(rows)
}

/// SHOW CREATE of one object.
async fn show(connection: &mut Connection, kind: &str, database: &str, name: &str) -> Result<Row, Error> {
    let shown = connection.one(&format!("SHOW CREATE {kind} {}", quote::name(name))).await;
    shown.map_err(|error| error.about(format!("{} {database}.{name}", kind.to_lowercase())))
}

/// Sequences and tables. Returns the views.
async fn relations(
    connection: &mut Connection,
    database: &str,
    schema: &mut Schema,
) -> Result<Vec<StoredObject>, Error> {
    let sql = "SELECT table_schema, table_name, table_type, engine FROM information_schema.tables \
               WHERE table_schema = {} ORDER BY table_name";
    let mut names = BTreeSet::new();
    let mut statistics = statistics(connection, database).await?;
    for row in ask(connection, sql, database).await? {
        let name = row.text(1).to_owned();
        match Kind::of(row.text(2)) {
            Kind::Sequence => schema.sequences.push(sequence(connection, database, name).await?),
            Kind::View => drop(names.insert(name)),
            Kind::Base | Kind::Versioned | Kind::Unknown => {
                let statement = sql_of(&show(connection, "TABLE", database, &name).await?, 1);
                let statistics = statistics.remove(&name).unwrap_or_default();
                schema.tables.push(TableStatement { name, engine: row.text(3).to_owned(), statement, statistics });
            }
        }
    }
    let sql = "SELECT table_schema, table_name, definer FROM information_schema.views \
               WHERE table_schema = {} ORDER BY table_name";
    let definers = ask(connection, sql, database).await?;
    let definers: BTreeMap<&str, &str> = definers.iter().map(|row| (row.text(1), row.text(2))).collect();
    let mut views = Vec::with_capacity(names.len());
    for name in &names {
        let row = show(connection, "VIEW", database, name).await?;
        let warnings = connection.warnings().await?;
        let broken = warnings.iter().find(|warning| warning.text(1) == BROKEN).map(|warning| warning.lossy(2));
        let statement = sql_of(&row, 1);
        let needs = order::needs(&statement.text(), database, name, &names);
        views.push(StoredObject {
            kind: StoredKind::View,
            name: name.clone(),
            statement,
            definer: definers.get(name.as_str()).copied().unwrap_or_default().to_owned(),
            sql_mode: None,
            character_set_client: row.text(2).to_owned(),
            collation_connection: row.text(3).to_owned(),
            database_collation: None,
            time_zone: None,
            table: None,
            needs,
            broken,
        });
    }
    Ok(views)
}

/// What the planner was told to gather of each table. An account that may not see it backs up all the same: a server gathers it anew.
async fn statistics(connection: &mut Connection, database: &str) -> Result<BTreeMap<String, Vec<Statistics>>, Error> {
    let sql = match (connection.flavour, connection.version) {
        (Flavour::MariaDb, _) => {
            "SELECT t.db_name, t.table_name, '', COALESCE(MAX(c.hist_size), 0), COALESCE(MAX(c.hist_type), '') FROM mysql.table_stats t \
             LEFT JOIN mysql.column_stats c ON c.db_name = t.db_name AND c.table_name = t.table_name WHERE t.db_name = {} \
             GROUP BY t.db_name, t.table_name"
        }
        (_, 80_000..) => {
            "SELECT schema_name, table_name, column_name, JSON_EXTRACT(histogram, '$.\"number-of-buckets-specified\"'), '' \
             FROM information_schema.column_statistics WHERE schema_name = {}"
        }
        _ => return Ok(BTreeMap::new()),
    };
    let rows = match ask(connection, sql, database).await {
        Ok(rows) => rows,
        Err(error) if error.server().is_some() => return Ok(BTreeMap::new()),
        Err(error) => return Err(error),
    };
    let mut all: BTreeMap<String, Vec<Statistics>> = BTreeMap::new();
    for row in rows {
        let number = u32::try_from(row.number(3)).unwrap_or_default();
        let one = match connection.flavour {
            Flavour::MariaDb => Statistics::Persistent { size: number, r#type: row.text(4).to_owned() },
            _ => Statistics::Histogram { column: row.text(2).to_owned(), buckets: number },
        };
        all.entry(row.text(1).to_owned()).or_default().push(one);
    }
    Ok(all)
}

/// Views, each behind those that it needs.
fn in_order(views: Vec<StoredObject>) -> Vec<StoredObject> {
    let needs = views.iter().map(|view| (view.name.clone(), view.needs.clone())).collect();
    let mut by_name: BTreeMap<String, StoredObject> = views.into_iter().map(|view| (view.name.clone(), view)).collect();
    order::order(&needs).iter().filter_map(|name| by_name.remove(name)).collect()
}

async fn sequence(connection: &mut Connection, database: &str, name: String) -> Result<SequenceStatement, Error> {
    let statement = sql_of(&show(connection, "SEQUENCE", database, &name).await?, 1);
    let sql =
        format!("SELECT next_not_cached_value, cycle_count FROM {} USE INDEX ()", quote::qualified(database, &name));
    let row = connection.one(&sql).await.map_err(|error| error.about(format!("sequence {database}.{name}")))?;
    Ok(SequenceStatement { name, statement, next: row.text(0).parse().unwrap_or_default(), round: row.number(1) })
}

async fn routines(connection: &mut Connection, database: &str) -> Result<Vec<StoredObject>, Error> {
    if connection.flavour != Flavour::MariaDb && connection.version >= HAS_LIBRARIES {
        let sql = "SELECT library_schema, library_name FROM information_schema.libraries WHERE library_schema = {}";
        if let Some(library) = ask(connection, sql, database).await?.first() {
            return Err(unknown(database, library.text(1), "LIBRARY"));
        }
    }
    let sql = "SELECT routine_schema, routine_name, routine_type, definer FROM information_schema.routines \
               WHERE routine_schema = {} ORDER BY FIELD(routine_type, 'PACKAGE', 'PACKAGE BODY', 'FUNCTION', 'PROCEDURE'), \
               routine_name";
    let mut all = Vec::new();
    for row in ask(connection, sql, database).await? {
        let (name, word) = (row.text(1), row.text(2));
        let kind = match word {
            "PACKAGE" => StoredKind::Package,
            "PACKAGE BODY" => StoredKind::PackageBody,
            "FUNCTION" => StoredKind::Function,
            "PROCEDURE" => StoredKind::Procedure,
            other => return Err(unknown(database, name, other)),
        };
        let shown = show(connection, word, database, name).await?;
        // The server shows the body to some accounts only.
        if shown.bytes(2).is_none() {
            return Err(Error::Denied {
                object: format!("{} {database}.{name}", word.to_lowercase()),
                cause: "the server doesn't show its body to this account".to_owned(),
                next: "GRANT SHOW_ROUTINE ON *.*, or on older servers SELECT ON mysql.proc, to the account".to_owned(),
            });
        }
        all.push(StoredObject {
            kind,
            name: name.to_owned(),
            statement: sql_of(&shown, 2),
            definer: row.text(3).to_owned(),
            sql_mode: Some(shown.text(1).to_owned()),
            character_set_client: shown.text(3).to_owned(),
            collation_connection: shown.text(4).to_owned(),
            database_collation: Some(shown.text(5).to_owned()),
            time_zone: None,
            table: None,
            needs: Vec::new(),
            broken: None,
        });
    }
    Ok(all)
}

fn unknown(database: &str, name: &str, word: &str) -> Error {
    Error::Refused {
        code: "mysql.unsupported",
        object: format!("{database}.{name}"),
        cause: format!("it is a {word:?}, a kind of routine that this version doesn't know"),
        next: "use the server's own tool for this database, and report this".to_owned(),
    }
}

async fn triggers(connection: &mut Connection, database: &str) -> Result<Vec<StoredObject>, Error> {
    let sql = "SELECT trigger_schema, trigger_name, event_object_table, definer FROM information_schema.triggers \
               WHERE trigger_schema = {} \
               ORDER BY event_object_table, action_timing, event_manipulation, action_order, trigger_name";
    let mut all = Vec::new();
    for row in ask(connection, sql, database).await? {
        let name = row.text(1);
        let shown = show(connection, "TRIGGER", database, name).await?;
        all.push(StoredObject {
            kind: StoredKind::Trigger,
            name: name.to_owned(),
            statement: sql_of(&shown, 2),
            definer: row.text(3).to_owned(),
            sql_mode: Some(shown.text(1).to_owned()),
            character_set_client: shown.text(3).to_owned(),
            collation_connection: shown.text(4).to_owned(),
            database_collation: Some(shown.text(5).to_owned()),
            time_zone: None,
            table: Some(row.text(2).to_owned()),
            needs: Vec::new(),
            broken: None,
        });
    }
    Ok(all)
}

async fn events(connection: &mut Connection, database: &str) -> Result<Vec<StoredObject>, Error> {
    let sql = "SELECT event_schema, event_name, definer FROM information_schema.events \
               WHERE event_schema = {} ORDER BY event_name";
    let mut all = Vec::new();
    for row in ask(connection, sql, database).await? {
        let name = row.text(1);
        let shown = show(connection, "EVENT", database, name).await?;
        all.push(StoredObject {
            kind: StoredKind::Event,
            name: name.to_owned(),
            statement: sql_of(&shown, 3),
            definer: row.text(2).to_owned(),
            sql_mode: Some(shown.text(1).to_owned()),
            character_set_client: shown.text(4).to_owned(),
            collation_connection: shown.text(5).to_owned(),
            database_collation: Some(shown.text(6).to_owned()),
            time_zone: Some(shown.text(2).to_owned()),
            table: None,
            needs: Vec::new(),
            broken: None,
        });
    }
    Ok(all)
}
