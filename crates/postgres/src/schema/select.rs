//! Which objects belong to some tables? Pure: from an archive's entries and the tables' names to the entries that are
//! made.
//!
//! A table comes with its parts: defaults, owned sequences, keys, indexes, triggers, rules, policies, statistics
//! objects, comments, grants; a partitioned table with its partitions. Other objects that it depends on (schemas,
//! types, functions) are included only in a new database. A part that depends on another table that isn't restored,
//! mostly a foreign key, is left out and named.

use std::collections::{BTreeMap, BTreeSet};

use crate::Error;
use crate::quote::qualified;
use crate::schema::checked;
use crate::schema::toc::Entry;

/// Kinds of entries that are parts of the entries that they depend on.
const PARTS: [&str; 20] = [
    "ACL",
    "CHECK CONSTRAINT",
    "COMMENT",
    "CONSTRAINT",
    "DEFAULT",
    "FK CONSTRAINT",
    "INDEX",
    "INDEX ATTACH",
    "NOT NULL CONSTRAINT",
    "POLICY",
    "PUBLICATION TABLE",
    "ROW SECURITY",
    "RULE",
    "SECURITY LABEL",
    "SEQUENCE",
    "SEQUENCE OWNED BY",
    "STATISTICS",
    "STATISTICS DATA",
    "TABLE ATTACH",
    "TRIGGER",
];

/// Kinds that hold or show rows. They are restored only if they were chosen, never as a dependency.
const RELATIONS: [&str; 4] = ["TABLE", "FOREIGN TABLE", "VIEW", "MATERIALIZED VIEW"];

/// The entries of a restore.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Selection {
    /// The chosen tables, their partitions included: schema and name.
    pub(crate) tables: BTreeSet<(String, String)>,
    /// The entries that are made.
    pub(crate) entries: BTreeSet<u32>,
    /// Parts of the tables that can't be made: their names, and what they depend on.
    pub(crate) left_out: Vec<(String, String)>,
    /// Chosen tables that can't be made without another table: schema and name of both.
    pub(crate) needs: Vec<[(String, String); 2]>,
}

/// The table that `text` names: `schema.table`, or `table` where there is only one of that name.
fn find<'a>(entries: &'a [Entry], text: &str) -> Result<&'a Entry, Error> {
    let tables = || entries.iter().filter(|entry| entry.kind == "TABLE");
    let whole = |entry: &&Entry| {
        format!("{}.{}", entry.schema, entry.tag) == text || qualified(&entry.schema, &entry.tag) == text
    };
    let refused = |code, cause: &str, next: &str| Error::Refused {
        code,
        object: text.to_owned(),
        cause: cause.to_owned(),
        next: next.to_owned(),
    };
    if let Some(entry) = tables().find(whole) {
        return Ok(entry);
    }
    let mut named = tables().filter(|entry| entry.tag == text);
    match (named.next(), named.next()) {
        (Some(entry), None) => Ok(entry),
        (None, _) => Err(refused("postgres.no-table", "the set has no such table", "name one as schema.table")),
        (Some(_), Some(_)) => {
            Err(refused("postgres.no-table", "several schemas have a table of this name", "name it as schema.table"))
        }
    }
}

/// The entries to make when only the tables of these names are restored; `new` for a new database.
///
/// # Errors
/// When the set has no such table.
pub(crate) fn select(entries: &[Entry], names: &[String], new: bool) -> Result<Selection, Error> {
    let by_id: BTreeMap<u32, &Entry> = entries.iter().map(|entry| (entry.id, entry)).collect();
    let mut chosen = BTreeSet::new();
    for name in names {
        chosen.insert(find(entries, name)?.id);
    }
    add_partitions(entries, &mut chosen);
    let mut made = chosen.clone();
    let mut left_out = BTreeMap::new();
    // Parts of parts, such as the comment on an index, come in the next round.
    loop {
        let parts = entries.iter().filter(|entry| {
            PARTS.contains(&entry.kind.as_str())
                && !made.contains(&entry.id)
                && entry
                    .needs
                    .iter()
                    .any(|need| made.contains(need) && by_id.get(need).is_some_and(|of| is_part(entry, of)))
        });
        let before = made.len();
        for part in parts.map(|part| part.id).collect::<Vec<_>>() {
            let other = match new {
                true => other_relation(part, &by_id, &made),
                // A restore doesn't change publications of a database that exists.
                false => publication(part, &by_id).or_else(|| other_relation(part, &by_id, &made)),
            };
            match other {
                None => drop(made.insert(part)),
                Some(other) => drop(left_out.insert(part, other)),
            }
        }
        // A default that calls nextval needs its sequence, even if the table doesn't own it.
        let sequences: Vec<u32> = made
            .iter()
            .filter_map(|id| by_id.get(id))
            .flat_map(|entry| &entry.needs)
            .copied()
            .filter(|need| by_id.get(need).is_some_and(|entry| entry.kind == "SEQUENCE"))
            .collect();
        made.extend(sequences);
        if made.len() == before {
            break;
        }
    }
    left_out.retain(|id, _| !made.contains(id));
    if new {
        add_needs(&by_id, &mut made);
    }
    let name = |id: &u32| by_id.get(id).map(|entry| format!("{} {}", entry.kind.to_lowercase(), entry.tag));
    let left_out = left_out.iter().filter_map(|(id, other)| Some((name(id)?, name(other)?))).collect();
    let named = |entry: &&Entry| (entry.schema.clone(), entry.tag.clone());
    let tables: BTreeSet<_> = chosen.iter().filter_map(|id| by_id.get(id)).map(named).collect();
    let mut needs = Vec::new();
    for table in chosen.iter().filter_map(|id| by_id.get(id)) {
        // A partition is made without the table that it becomes a part of.
        let attach = entries
            .iter()
            .find(|entry| entry.kind == "TABLE ATTACH" && (&entry.schema, &entry.tag) == (&table.schema, &table.tag));
        let is_needed =
            |need: &&u32| !chosen.contains(need) && !attach.is_some_and(|attach| attach.needs.contains(need));
        let others = table.needs.iter().filter(is_needed).filter_map(|need| by_id.get(need));
        needs.extend(
            others.filter(|other| RELATIONS.contains(&other.kind.as_str())).map(|other| [named(table), named(other)]),
        );
    }
    Ok(Selection { tables, entries: made, left_out, needs })
}

/// Whether `entry`, which depends on `of`, is a part of it (of a table, or of a part of one). A foreign key is a part
/// of the referring table only. Its tag begins with that table's name, as those of triggers, rules and policies do.
fn is_part(entry: &Entry, of: &Entry) -> bool {
    let named = ["FK CONSTRAINT", "TRIGGER", "RULE", "POLICY"].contains(&entry.kind.as_str());
    if of.kind == "TABLE" && named {
        // The tag of a key doesn't say where the table's name ends.
        if let Some(key) = checked::constraint(&entry.statement) {
            return (key.schema, key.table) == (of.schema.clone(), of.tag.clone());
        }
        return entry.schema == of.schema && entry.tag.strip_prefix(&of.tag).is_some_and(|rest| rest.starts_with(' '));
    }
    !named && (of.kind == "TABLE" || PARTS.contains(&of.kind.as_str()))
}

fn add_partitions(entries: &[Entry], chosen: &mut BTreeSet<u32>) {
    let table = |schema: &str, tag: &str| {
        entries.iter().find(|entry| entry.kind == "TABLE" && entry.schema == schema && entry.tag == tag)
    };
    loop {
        let before = chosen.len();
        for attach in entries.iter().filter(|entry| entry.kind == "TABLE ATTACH") {
            let Some(partition) = table(&attach.schema, &attach.tag) else { continue };
            if attach.needs.iter().any(|need| *need != partition.id && chosen.contains(need)) {
                chosen.insert(partition.id);
            }
        }
        if chosen.len() == before {
            return;
        }
    }
}

/// The publication that `id` puts a table into.
fn publication(id: u32, by_id: &BTreeMap<u32, &Entry>) -> Option<u32> {
    let entry = by_id.get(&id).filter(|entry| entry.kind == "PUBLICATION TABLE")?;
    entry.needs.iter().copied().find(|need| by_id.get(need).is_some_and(|need| need.kind == "PUBLICATION"))
}

/// The entry of a table that isn't restored and that `id` depends on.
fn other_relation(id: u32, by_id: &BTreeMap<u32, &Entry>, made: &BTreeSet<u32>) -> Option<u32> {
    let needs = &by_id.get(&id)?.needs;
    let others = needs.iter().filter(|need| !made.contains(need));
    others.copied().find(|need| {
        by_id.get(need).is_some_and(|entry| {
            RELATIONS.contains(&entry.kind.as_str()) || matches!(entry.kind.as_str(), "CONSTRAINT" | "INDEX")
        })
    })
}

/// Adds all dependencies of the chosen entries, except for relations.
fn add_needs(by_id: &BTreeMap<u32, &Entry>, made: &mut BTreeSet<u32>) {
    let mut open: Vec<u32> = made.iter().copied().collect();
    while let Some(id) = open.pop() {
        for need in by_id.get(&id).map_or(&[][..], |entry| &entry.needs) {
            let wanted = by_id.get(need).is_some_and(|entry| !RELATIONS.contains(&entry.kind.as_str()));
            if wanted && made.insert(*need) {
                open.push(*need);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::toc::Section;

    fn entry(id: u32, kind: &str, tag: &str, needs: &[u32]) -> Entry {
        Entry {
            id,
            kind: kind.into(),
            tag: tag.into(),
            statement: String::new(),
            schema: "public".into(),
            tablespace: String::new(),
            owner: String::new(),
            section: Section::Before,
            needs: needs.to_vec(),
        }
    }

    fn shop() -> Vec<Entry> {
        vec![
            entry(1, "SCHEMA", "public", &[]),
            entry(2, "TYPE", "state", &[1]),
            entry(3, "TABLE", "orders", &[1, 2]),
            entry(4, "SEQUENCE", "orders_id_seq", &[1, 3]),
            entry(5, "SEQUENCE OWNED BY", "orders_id_seq", &[4]),
            entry(6, "DEFAULT", "orders id", &[3, 4]),
            entry(7, "CONSTRAINT", "orders orders_pkey", &[3]),
            entry(8, "INDEX", "orders_at", &[3]),
            entry(9, "COMMENT", "INDEX orders_at", &[8]),
            entry(10, "TABLE", "lines", &[1]),
            entry(11, "FK CONSTRAINT", "lines lines_order_fkey", &[10, 3, 7]),
            entry(12, "VIEW", "paid", &[3]),
            entry(13, "COMMENT", "TYPE state", &[2]),
            entry(14, "FUNCTION", "touch()", &[1]),
            entry(15, "TRIGGER", "lines touching", &[10, 14]),
            entry(20, "TABLE", "parts", &[1]),
            entry(21, "TABLE", "parts_1", &[1, 20]),
            entry(22, "TABLE ATTACH", "parts_1", &[20, 21]),
            entry(30, "TABLE", "child", &[1, 3]),
            entry(31, "PUBLICATION", "pub", &[]),
            entry(32, "PUBLICATION TABLE", "pub child", &[30, 31]),
        ]
    }

    fn made(names: &[&str], new: bool) -> (Vec<u32>, Vec<(String, String)>) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let selection = select(&shop(), &names, new).expect("they are there");
        (selection.entries.into_iter().collect(), selection.left_out)
    }

    #[test]
    fn a_table_comes_with_its_parts() {
        assert_eq!(made(&["orders"], false), (vec![3, 4, 5, 6, 7, 8, 9], vec![]));
        assert_eq!(made(&["public.orders"], true), (vec![1, 2, 3, 4, 5, 6, 7, 8, 9], vec![]), "and what it needs");
    }

    #[test]
    fn what_needs_another_table_is_left_out_by_name() {
        let (entries, left_out) = made(&["lines"], false);
        assert_eq!(entries, [10, 15]);
        let needed = "table orders".to_owned();
        assert_eq!(left_out, [("fk constraint lines lines_order_fkey".to_owned(), needed)]);
        let (entries, left_out) = made(&["lines", "orders"], true);
        assert_eq!((entries, left_out), (vec![1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 14, 15], vec![]));
    }

    #[test]
    fn a_key_belongs_to_the_table_that_its_statement_names() {
        let statement =
            "ALTER TABLE ONLY public.a\n    ADD CONSTRAINT \"b c\" FOREIGN KEY (x) REFERENCES public.\"a b\"(x);\n";
        let key = Entry { statement: statement.into(), ..entry(3, "FK CONSTRAINT", "a b c", &[1, 2]) };
        let entries = [entry(1, "TABLE", "a", &[]), entry(2, "TABLE", "a b", &[]), key];
        for (name, made, left_out) in [("a", &[1][..], 1), ("a b", &[2], 0)] {
            let selection = select(&entries, &[name.to_owned()], true).expect("it is there");
            assert_eq!(selection.entries.into_iter().collect::<Vec<_>>(), made);
            assert_eq!(selection.left_out.len(), left_out, "{name}");
        }
    }

    #[test]
    fn a_partitioned_table_comes_with_its_partitions() {
        assert_eq!(made(&["parts"], false), (vec![20, 21, 22], vec![]));
        let (entries, left_out) = made(&["parts_1"], false);
        assert_eq!((entries, left_out.len()), (vec![21], 1), "it is no partition of what isn't there");
    }

    #[test]
    fn a_table_is_left_out_of_publications_of_a_database_that_exists() {
        let (entries, left_out) = made(&["child"], false);
        let publication = ("publication table pub child".to_owned(), "publication pub".to_owned());
        assert_eq!((entries, left_out), (vec![30], vec![publication]));
        let (entries, left_out) = made(&["child"], true);
        assert_eq!((entries, left_out), (vec![1, 30, 31, 32], vec![]));
    }

    #[test]
    fn a_table_that_another_one_is_made_of_is_named() {
        let needs = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            select(&shop(), &names, true).expect("they are there").needs
        };
        let named = |name: &str| ("public".to_owned(), name.to_owned());
        assert_eq!(needs(&["child"]), [[named("child"), named("orders")]]);
        assert!(needs(&["child", "orders"]).is_empty());
        assert!(needs(&["lines"]).is_empty(), "a key is no part of it");
        assert!(needs(&["parts_1"]).is_empty(), "a partition is made by itself");
    }

    #[test]
    fn a_name_must_mean_one_table() {
        let mut entries = shop();
        entries.push(Entry { schema: "other".into(), ..entry(40, "TABLE", "orders", &[]) });
        for (name, found) in
            [("orders", false), ("other.orders", true), ("public.orders", true), ("paid", false), ("", false)]
        {
            assert_eq!(select(&entries, &[name.to_owned()], false).is_ok(), found, "{name}");
        }
    }
}
