//! `litestream databases`: lists the databases of the configuration.

use serde::Serialize;

use super::{Answer, Stop, config, flags, json};
use crate::edge::Edge;
use crate::table;

#[derive(Serialize)]
struct Row {
    path: String,
    replica: String,
}

/// Runs the command.
pub(super) fn run(arguments: &[String], edge: &Edge) -> Answer {
    let known = [flags::value("config"), flags::switch("no-expand-env"), flags::switch("json")];
    let flags = flags::parse(&known, arguments)?;
    if !flags.arguments.is_empty() {
        return Err(Stop::error("too many arguments"));
    }
    let config = config::load(&flags, edge)?;
    let row = |database: &seawall_agent::config::DatabaseConfig| Row {
        path: database.source().to_string(),
        replica: config::kind(&database.vault),
    };
    let rows: Vec<Row> = config.databases.iter().map(row).collect();
    if flags.is_set("json") {
        return json(&rows);
    }
    let rows = rows.into_iter().map(|row| vec![row.path, row.replica]).collect();
    Ok(table::table(&["path", "replica"], rows, &[]))
}
