//! Does the restored schema have what the set's has? Pure.
//!
//! On a server of the same series each statement must be the same, letter by letter. Another series may tell the same object in
//! other words: there, each object must be present, with its columns, keys and foreign keys.

use std::collections::{BTreeMap, BTreeSet};

use seawall_archive::compare::Difference;

use crate::schema::objects::shown;
use crate::schema::program::{Definer, Status, program};
use crate::schema::table::Table;
use crate::schema::words::readable;
use crate::schema::{Schema, StoredObject};

/// What a schema was restored into.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Restored<'a> {
    /// The database's name in the set.
    pub(crate) from: &'a str,
    /// The database's name now.
    pub(crate) to: &'a str,
    /// Whether both servers are of one series, and tell things in the same words.
    pub(crate) same_words: bool,
}

/// What differs, and how many objects were compared.
pub(crate) fn schemas(expected: &Schema, found: &Schema, of: Restored<'_>) -> (Vec<Difference>, u64) {
    let mut differences = Vec::new();
    let mut objects = tables(expected, found, of, &mut differences);
    for sequence in &expected.sequences {
        objects += 1;
        let there = found.sequences.iter().find(|there| there.name == sequence.name);
        let cause = match there {
            None => "it was not restored".to_owned(),
            Some(there) if (there.next, there.round) != (sequence.next, sequence.round) => {
                format!("the sequence is at {}, and at {} in the set", there.next, sequence.next)
            }
            Some(there) if of.same_words && there.statement != sequence.statement => {
                format!("its statement is {:?}, and in the set {:?}", there.statement.text(), sequence.statement.text())
            }
            Some(_) => continue,
        };
        differences.push(Difference::new(format!("sequence {}", sequence.name), cause));
    }
    let all = |schema: &Schema| -> Vec<StoredObject> {
        [&schema.routines, &schema.views, &schema.triggers, &schema.events].into_iter().flatten().cloned().collect()
    };
    let (wanted, there) = (all(expected), all(found));
    let key = |object: &StoredObject| (shown(object, of.from), ());
    let wanted_names: BTreeMap<String, ()> = wanted.iter().map(key).collect();
    let there_by_name: BTreeMap<String, &StoredObject> =
        there.iter().map(|object| (shown(object, of.from), object)).collect();
    for object in &wanted {
        objects += 1;
        let name = shown(object, of.from);
        match there_by_name.get(&name) {
            // What the source itself can't use can't be made again.
            None if object.broken.is_some() => {}
            None => differences.push(Difference::new(name, "it was not restored")),
            Some(there) => {
                if let Some(cause) = differs(object, there, of.same_words) {
                    differences.push(Difference::new(name, cause));
                }
            }
        }
    }
    for name in there_by_name.keys().filter(|name| !wanted_names.contains_key(*name)) {
        differences.push(Difference::new(name, "the set doesn't have it"));
    }
    (differences, objects)
}

/// How an object differs.
fn differs(expected: &StoredObject, found: &StoredObject, same_words: bool) -> Option<String> {
    let facts = |object: &StoredObject| {
        (
            object.definer.clone(),
            object.character_set_client.clone(),
            object.collation_connection.clone(),
            object.database_collation.clone(),
            object.table.clone(),
            object.time_zone.clone(),
        )
    };
    if !same_words {
        return None;
    }
    if facts(expected) != facts(found) {
        return Some(format!("its session or definer is {:?}, and in the set {:?}", facts(found), facts(expected)));
    }
    if expected.sql_mode != found.sql_mode {
        return Some(format!("its sql_mode is {:?}, and in the set {:?}", found.sql_mode, expected.sql_mode));
    }
    let as_restored = |object: &StoredObject| {
        program(object.statement.bytes(), object.kind, &Definer::Kept, Status::AsItWas).map(|program| program.sql)
    };
    (as_restored(expected) != as_restored(found)).then(|| {
        format!("its statement is {:?}, and in the set {:?}", found.statement.text(), expected.statement.text())
    })
}

fn tables(expected: &Schema, found: &Schema, of: Restored<'_>, differences: &mut Vec<Difference>) -> u64 {
    let parse = |schema: &Schema| -> BTreeMap<String, Option<Table>> {
        let parse = |statement: &crate::schema::TableStatement| {
            readable(statement.statement.bytes()).as_deref().and_then(Table::parse)
        };
        schema.tables.iter().map(|table| (table.name.clone(), parse(table))).collect()
    };
    let (wanted, there) = (parse(expected), parse(found));
    for (name, table) in &wanted {
        let object = format!("table {name}");
        let cause = match (table, there.get(name)) {
            (_, None) => "it was not restored".to_owned(),
            (Some(table), Some(Some(found))) => {
                let table = table.with_sequences_of(of.from, of.to);
                if of.same_words && table.in_few_words() != found.in_few_words() {
                    format!(
                        "its statement is {:?}, and in the set {:?}",
                        found.create("", true),
                        table.create("", true)
                    )
                } else if parts(&table) != parts(found) {
                    "it has other columns, keys or foreign keys than in the set".to_owned()
                } else {
                    continue;
                }
            }
            _ => "its statement can't be read".to_owned(),
        };
        differences.push(Difference::new(object, cause));
    }
    for name in there.keys().filter(|name| !wanted.contains_key(*name)) {
        differences.push(Difference::new(format!("table {name}"), "the set doesn't have it"));
    }
    wanted.len() as u64
}

/// The names of what a table has.
fn parts(table: &Table) -> (BTreeSet<String>, BTreeSet<String>) {
    let columns = table.columns().map(|(name, _)| name.to_owned());
    let keys = table.keys().into_iter().map(|(_, added)| added.name);
    let foreign = table.foreign_keys().into_iter().map(|(_, added)| added.name);
    (columns.collect(), keys.chain(foreign).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detail::Sql;
    use crate::schema::{StoredKind, TableStatement};

    fn table(sql: &str) -> TableStatement {
        TableStatement { name: "t".into(), engine: "InnoDB".into(), statement: Sql::new(sql), statistics: Vec::new() }
    }

    fn trigger(sql: &str, definer: &str) -> StoredObject {
        StoredObject {
            kind: StoredKind::Trigger,
            name: "tr".into(),
            statement: Sql::new(sql),
            definer: definer.into(),
            sql_mode: Some(String::new()),
            character_set_client: "utf8mb4".into(),
            collation_connection: "utf8mb4_bin".into(),
            database_collation: None,
            time_zone: None,
            table: Some("t".into()),
            needs: Vec::new(),
            broken: None,
        }
    }

    #[test]
    fn every_difference_is_named() {
        let of = Restored { from: "shop", to: "proof", same_words: true };
        let causes = |expected: &Schema, found: &Schema, of| -> Vec<String> {
            let (differences, _) = schemas(expected, found, of);
            differences.into_iter().map(|difference| format!("{}: {}", difference.object, difference.cause)).collect()
        };
        let sql = "CREATE TABLE `t` (`a` int DEFAULT nextval(`shop`.`s`), KEY `k` (`a`)) ENGINE=InnoDB";
        let expected = Schema {
            tables: vec![table(sql)],
            triggers: vec![trigger(
                "CREATE DEFINER=`r`@`h` TRIGGER `shop`.`tr` AFTER INSERT ON `t` FOR EACH ROW SET @a = 1",
                "r@h",
            )],
            ..Schema::default()
        };
        let same = Schema {
            tables: vec![table(&sql.replace("shop", "proof"))],
            triggers: vec![trigger(
                "CREATE DEFINER=`r`@`h` TRIGGER `tr` AFTER INSERT ON `t` FOR EACH ROW SET @a = 1",
                "r@h",
            )],
            ..Schema::default()
        };
        assert!(causes(&expected, &same, of).is_empty(), "{:?}", causes(&expected, &same, of));
        assert_eq!(schemas(&expected, &same, of).1, 2);
        assert_eq!(causes(&expected, &Schema::default(), of).len(), 2);
        assert_eq!(causes(&Schema::default(), &same, of).len(), 2);
        let mut other = same.clone();
        other.tables =
            vec![table("CREATE TABLE `t` (`a` bigint DEFAULT nextval(`proof`.`s`), KEY `k` (`a`)) ENGINE=InnoDB")];
        other.triggers[0].definer = "x@h".into();
        assert_eq!(causes(&expected, &other, of).len(), 2);
        assert!(causes(&expected, &other, Restored { same_words: false, ..of }).is_empty());
        other.tables = vec![table("CREATE TABLE `t` (`a` bigint) ENGINE=InnoDB")];
        assert_eq!(causes(&expected, &other, Restored { same_words: false, ..of }).len(), 1);
    }
}
