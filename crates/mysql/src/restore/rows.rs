//! Rows alone, into tables that are there and empty.

use std::collections::{BTreeMap, BTreeSet};

use seawall_archive::preflight::Lack;
use seawall_core::Progress;

use crate::catalog::engines::{Rows, rows_of};
use crate::client::Connection;
use crate::client::quote::{qualified, text};
use crate::detail::ItemDetail;
use crate::journal::Journal;
use crate::load::orphans;
use crate::restore::exists;
use crate::restore::steps::Place;
use crate::set::Set;
use crate::set::scope::Scope;
use crate::{Error, Restored};

/// The tables whose rows are restored, with their columns.
fn tables<'a>(set: &'a Set, what: &'a Scope<'_>) -> impl Iterator<Item = (&'a str, &'a str, BTreeSet<&'a str>)> {
    set.items.iter().filter_map(|item| match item {
        Some(ItemDetail::Table { name, engine, columns, .. }) if what.has(name) => {
            Some((name.as_str(), engine.as_str(), columns.iter().map(|column| column.name.as_str()).collect()))
        }
        _ => None,
    })
}

/// What is in the way of rows alone: tables that are missing, aren't tables, have other columns, have rows or would run triggers.
pub(crate) async fn in_the_way(
    connection: &mut Connection,
    set: &Set,
    what: &Scope<'_>,
    made: &str,
    wanted: &str,
) -> Result<Vec<Lack>, Error> {
    let begun = match exists(connection, made).await? {
        true => Journal::open(connection, made, &what.title(set), false).await?.is_some(),
        false => false,
    };
    let of = text(wanted);
    let rows = connection
        .query(&format!(
            "SELECT table_name, table_type, engine FROM information_schema.tables WHERE table_schema = {of}"
        ))
        .await?;
    let kinds: BTreeMap<&str, (&str, &str)> =
        rows.iter().map(|row| (row.text(0), (row.text(1), row.text(2)))).collect();
    let columns = connection
        .query(&format!("SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = {of}"))
        .await?;
    let columns: BTreeSet<(&str, &str)> = columns.iter().map(|row| (row.text(0), row.text(1))).collect();
    let triggers = connection
        .query(&format!(
            "SELECT event_object_table, trigger_name FROM information_schema.triggers WHERE trigger_schema = {of} \
             AND event_manipulation = 'INSERT'"
        ))
        .await?;
    let mut lacks = Vec::new();
    for (table, engine, wants) in tables(set, what) {
        let shown = qualified(wanted, table);
        match kinds.get(table) {
            Some(("BASE TABLE" | "SYSTEM VERSIONED", its)) => {
                // What was interrupted is undone only by an engine with transactions.
                if rows_of(engine) == Rows::Snapshot && rows_of(its) != Rows::Snapshot {
                    let cause = format!("{wanted}.{table} is of the engine {its}, and in the set of {engine}");
                    lacks.push(Lack::new(cause, format!("ALTER TABLE {shown} ENGINE={engine};")));
                }
            }
            Some(_) => {
                lacks.push(Lack::new(format!("{wanted}.{table} is no table"), "name another database"));
                continue;
            }
            None => {
                let cause = format!("--data-only needs tables that are there, and there is no {wanted}.{table}");
                lacks.push(Lack::new(cause, "restore it with --table instead, or make it"));
                continue;
            }
        }
        let missing: Vec<&str> = wants.into_iter().filter(|column| !columns.contains(&(table, *column))).collect();
        if !missing.is_empty() {
            let cause = format!("{wanted}.{table} has no column {}", missing.join(", "));
            lacks.push(Lack::new(cause, "restore the table with its own columns, into another database"));
        }
        for row in triggers.iter().filter(|row| row.text(0) == table) {
            let cause = format!("the trigger {} of {wanted}.{table} would run for each row", row.text(1));
            let mend =
                format!("DROP TRIGGER {}; (and make it again behind the restore)", qualified(wanted, row.text(1)));
            lacks.push(Lack::new(cause, mend));
        }
        if !begun && !connection.query(&format!("SELECT 1 FROM {shown} LIMIT 1")).await?.is_empty() {
            let mend = format!("TRUNCATE TABLE {shown}; or name another database");
            lacks.push(Lack::new(format!("{wanted}.{table} has rows already"), mend));
        }
    }
    Ok(lacks)
}

/// Loads the rows. The journal is in a database of its own, and goes with it.
pub(crate) async fn restore(
    place: &Place<'_>,
    connection: &mut Connection,
    progress: &dyn Progress,
    restored: &mut Restored,
) -> Result<(), Error> {
    let journal = super::begin(place, connection).await?;
    restored.resumed |= journal.is_resumed();
    progress.begin("load", Some(place.set.totals(place.what).raw));
    let mut load = place.load(&journal, progress);
    load.database = &place.name;
    match &place.set.script {
        Some(script) => load.run_script(connection, script).await?,
        None => load.run(connection, place.what.options.limits.jobs.max(1)).await?,
    }
    progress.finish();
    let loaded: BTreeSet<&str> = tables(place.set, place.what).map(|(table, _, _)| table).collect();
    orphans::check(connection, &place.name, &loaded).await?;
    place.end(connection).await
}
