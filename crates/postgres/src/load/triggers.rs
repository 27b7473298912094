//! Which triggers fire although triggers are off? Those that are set to fire ALWAYS or on a REPLICA. While rows are loaded
//! into tables that were there before, they are disabled by the transaction that loads, and get their state back in it: a crash
//! in between leaves them as they were.

use std::collections::{BTreeMap, BTreeSet};

use crate::Error;
use crate::client::Connection;
use crate::load::routed::Named;
use crate::quote::{ident, qualified};

/// Every one, of tables and of partitioned tables, and whether the role may turn it off.
const TRIGGERS: &str = "
SELECT n.nspname, c.relname, t.tgname, t.tgenabled, pg_catalog.pg_has_role(c.relowner, 'USAGE')
FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE t.tgenabled IN ('A', 'R') ORDER BY 1, 2, 3";

/// The tables below a partitioned one, and itself.
const FAMILIES: &str = "
SELECT pn.nspname, p.relname, n.nspname, c.relname
FROM pg_catalog.pg_class p JOIN pg_catalog.pg_namespace pn ON pn.oid = p.relnamespace
CROSS JOIN LATERAL pg_catalog.pg_partition_tree(p.oid) AS t
JOIN pg_catalog.pg_class c ON c.oid = t.relid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE p.relkind = 'p'";

/// A trigger that fires although triggers are off.
#[derive(Debug, Clone)]
struct Trigger {
    name: String,
    state: &'static str,
}

/// All of them, by the table that rows are loaded into.
#[derive(Debug, Default)]
pub(crate) struct Triggers {
    of: BTreeMap<Named, Vec<Trigger>>,
    /// The tables into which rows for a partitioned one may go.
    families: BTreeMap<Named, Vec<Named>>,
}

impl Triggers {
    /// Those of the tables `into` which rows are loaded.
    ///
    /// # Errors
    /// When the role may not turn one off.
    pub(crate) async fn read(connection: &mut Connection, into: &BTreeSet<Named>) -> Result<Self, Error> {
        let rows = connection.query(TRIGGERS).await?;
        let mut found = Self::default();
        if rows.is_empty() {
            return Ok(found);
        }
        let named = |schema: &str, name: &str| (schema.to_owned(), name.to_owned());
        for row in connection.query(FAMILIES).await? {
            let root = named(row.text(0), row.text(1));
            if into.contains(&root) {
                found.families.entry(root).or_default().push(named(row.text(2), row.text(3)));
            }
        }
        let all: BTreeSet<&Named> = into.iter().chain(found.families.values().flatten()).collect();
        let mut of: BTreeMap<Named, Vec<Trigger>> = BTreeMap::new();
        for row in &rows {
            let table = named(row.text(0), row.text(1));
            if !all.contains(&table) {
                continue;
            }
            let (name, state) = (row.text(2).to_owned(), if row.text(3) == "A" { "ALWAYS" } else { "REPLICA" });
            if !row.flag(4) {
                return Err(Error::Refused {
                    code: "postgres.fires-always",
                    object: format!("trigger {name} of {}.{}", table.0, table.1),
                    cause: format!(
                        "it is set to fire {state}, and only the table's owner may turn it off for the load"
                    ),
                    next: "restore as the owner of the table or as a superuser".to_owned(),
                });
            }
            of.entry(table).or_default().push(Trigger { name, state });
        }
        found.of = of;
        Ok(found)
    }

    /// The statements that turn off the triggers of some tables, and those that bring them back. Always in the same order of
    /// tables, so that no two transactions wait for each other.
    pub(crate) fn off_and_on<'a>(&self, into: impl Iterator<Item = &'a Named>) -> (String, String) {
        let mut tables = BTreeSet::new();
        for table in into {
            tables.insert(table);
            tables.extend(self.families.get(table).into_iter().flatten());
        }
        let (mut off, mut on) = (String::new(), String::new());
        for (table, triggers) in self.of.iter().filter(|(table, _)| tables.contains(table)) {
            let alter = format!("ALTER TABLE ONLY {}", qualified(&table.0, &table.1));
            for Trigger { name, state } in triggers {
                off.push_str(&format!("{alter} DISABLE TRIGGER {}; ", ident(name)));
                on.push_str(&format!("{alter} ENABLE {state} TRIGGER {}; ", ident(name)));
            }
        }
        (off, on)
    }
}
