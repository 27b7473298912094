//! Dump, restore, compare.

use std::sync::Arc;

use seawall_core::{Failure, NoProgress, When};
use seawall_mysql::{DumpOptions, Format, Limits, RestoreOptions, Restored, World, dump, restore};
use seawall_vault::{Environment, Vault};

use crate::server::{Server, target};

pub(crate) fn environment() -> Environment {
    [("PATH".to_owned(), std::env::var("PATH").expect("a PATH"))].into_iter().collect()
}

/// Little memory, so that little content makes many frames and chunks.
pub(crate) fn limits() -> Limits {
    Limits { jobs: 3, memory: 32 << 20, ..Limits::default() }
}

/// A backup as one script of SQL.
pub(crate) async fn backup_as_script(url: &str, vault: &Vault) -> Result<seawall_mysql::Dumped, Failure> {
    let options = DumpOptions { limits: limits(), format: Format::Plain, ..DumpOptions::default() };
    Ok(dump(&target(url), vault, &options, &World::real(environment()), Arc::new(NoProgress)).await?)
}

pub(crate) async fn backup(url: &str, vault: &Vault) -> Result<seawall_mysql::Dumped, Failure> {
    let options = DumpOptions { limits: limits(), ..DumpOptions::default() };
    Ok(dump(&target(url), vault, &options, &World::real(environment()), Arc::new(NoProgress)).await?)
}

pub(crate) fn options() -> RestoreOptions {
    RestoreOptions {
        when: When::Latest,
        clean: false,
        tables: Vec::new(),
        data_only: false,
        owners: true,
        definers: Vec::new(),
        without_superuser: false,
        database: None,
        dry_run: false,
        limits: limits(),
    }
}

pub(crate) async fn recover(vault: &Vault, url: &str, options: &RestoreOptions) -> Result<Restored, Failure> {
    Ok(restore(vault, &target(url), options, &World::real(environment()), Arc::new(NoProgress)).await?)
}

/// Databases of unfinished restores.
pub(crate) fn unfinished(server: &Server) -> String {
    server.sql("SELECT schema_name FROM information_schema.schemata WHERE schema_name LIKE 'seawall-%'")
}

/// Everything that the server says of a database: the statements of its objects, and each table's content by a sum over all rows
/// that doesn't depend on their order.
pub(crate) fn everything(server: &Server, database: &str) -> Vec<String> {
    let quoted = format!("`{database}`");
    let neutral = |text: &str| text.replace(&quoted, "`DB`");
    let shown = server.sql(&format!("SHOW CREATE DATABASE `{database}`"));
    let mut all = vec![neutral(shown.split_once('\t').expect("two columns").1)];
    let of = |column: &str| format!("WHERE {column} = '{database}'");
    for sql in [
        format!(
            "SELECT table_name, table_type, engine, row_format, table_collation, create_options, table_comment FROM information_schema.tables {} ORDER BY 1",
            of("table_schema")
        ),
        format!(
            "SELECT table_name, column_name, ordinal_position, column_default, is_nullable, column_type, character_set_name, collation_name, column_key, extra, column_comment, generation_expression FROM information_schema.columns {} ORDER BY 1, 3",
            of("table_schema")
        ),
        format!(
            "SELECT table_name, index_name, non_unique, seq_in_index, column_name, sub_part, index_type, index_comment FROM information_schema.statistics {} ORDER BY 1, 2, 4",
            of("table_schema")
        ),
        format!(
            "SELECT table_name, constraint_name, constraint_type FROM information_schema.table_constraints {} ORDER BY 1, 2",
            of("table_schema")
        ),
        format!(
            "SELECT constraint_name, table_name, referenced_table_name, update_rule, delete_rule FROM information_schema.referential_constraints {} ORDER BY 1, 2",
            of("constraint_schema")
        ),
        format!(
            "SELECT trigger_name, event_object_table, action_timing, event_manipulation, action_order, action_statement, sql_mode, definer, character_set_client, collation_connection, database_collation FROM information_schema.triggers {} ORDER BY 1",
            of("trigger_schema")
        ),
        format!(
            "SELECT routine_name, routine_type, dtd_identifier, routine_definition, is_deterministic, sql_data_access, security_type, sql_mode, routine_comment, definer, character_set_client, collation_connection, database_collation FROM information_schema.routines {} ORDER BY 1, 2",
            of("routine_schema")
        ),
        format!(
            "SELECT event_name, definer, time_zone, event_definition, event_type, execute_at, interval_value, interval_field, sql_mode, starts, ends, status, on_completion, event_comment, character_set_client, collation_connection, database_collation FROM information_schema.events {} ORDER BY 1",
            of("event_schema")
        ),
    ] {
        all.extend(server.sql(&sql).lines().map(neutral));
    }
    let tables = server.sql(&format!(
        "SELECT table_name, table_type, engine FROM information_schema.tables WHERE table_schema = '{database}' ORDER BY 1"
    ));
    for line in tables.lines() {
        let mut fields = line.split('\t');
        let (name, kind) = (fields.next().expect("a name"), fields.next().expect("a kind"));
        let table = format!("`{database}`.`{}`", name.replace('`', "``"));
        let word = if kind == "VIEW" { "VIEW" } else { "TABLE" };
        all.push(
            server
                .sql(&format!("USE `{database}`; SHOW CREATE {word} `{}`", name.replace('`', "``")))
                .replace(database, "DB"),
        );
        if kind == "SEQUENCE" {
            all.push(server.sql(&format!("SELECT * FROM {table}")));
        } else if kind != "VIEW" {
            let columns = server.sql(&format!(
                "SELECT GROUP_CONCAT(CONCAT('IFNULL(HEX(`', REPLACE(column_name, '`', '``'), '`), ''NULL'')') ORDER BY ordinal_position) \
                 FROM information_schema.columns WHERE table_schema = '{database}' AND table_name = '{}'",
                name.replace('\'', "''")
            ));
            let history = if kind == "SYSTEM VERSIONED" { " FOR SYSTEM_TIME ALL" } else { "" };
            all.push(server.sql(&format!(
                "SELECT '{}', COUNT(*), SUM(CRC32(CONCAT_WS(',', {columns}))), BIT_XOR(CRC32(CONCAT_WS(';', {columns}))) FROM {table}{history}",
                name.replace('\'', "''")
            )));
        }
    }
    all
}

/// Insists that both databases are the same, and shows everything that isn't.
pub(crate) fn is_the_same(found: &[String], expected: &[String]) {
    let differing: Vec<_> = expected.iter().zip(found).filter(|(expected, found)| expected != found).collect();
    assert!(differing.is_empty() && expected.len() == found.len(), "{} {} {differing:#?}", expected.len(), found.len());
}
