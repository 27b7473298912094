//! In which order are tables of extensions loaded by a role that may not turn their keys and triggers off? Each behind the
//! tables that its foreign keys refer to, as `pg_dump` does it. Pure, but for the question which keys there are.
//!
//! A table that refers to itself is loaded by one COPY, because its keys are checked when that ends. Tables that refer to
//! each other in a circle have no order.

use std::collections::{BTreeMap, BTreeSet};

use crate::Error;
use crate::client::Connection;
use crate::load::routed::Named;

/// Tables that are loaded at the same time, when all rounds before are done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Round {
    pub(crate) tables: BTreeSet<Named>,
    /// Whether it is one table that refers to itself: all of its rows are one COPY.
    pub(crate) alone: bool,
}

/// The foreign keys that are checked when rows are written: the table and the one that it refers to.
const KEYS: &str = "
SELECT n.nspname, c.relname, fn.nspname, fc.relname FROM pg_catalog.pg_constraint k
JOIN pg_catalog.pg_class c ON c.oid = k.conrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_class fc ON fc.oid = k.confrelid JOIN pg_catalog.pg_namespace fn ON fn.oid = fc.relnamespace
WHERE k.contype = 'f' AND EXISTS (SELECT FROM pg_catalog.pg_trigger t WHERE t.tgconstraint = k.oid AND t.tgenabled <> 'D')";

/// The rounds in which the tables of extensions among `tables` are loaded behind all others; none where no key is between them.
pub(crate) async fn of(connection: &mut Connection, tables: &BTreeSet<Named>) -> Result<Vec<Round>, Error> {
    if tables.is_empty() {
        return Ok(Vec::new());
    }
    let named = |schema: &str, name: &str| (schema.to_owned(), name.to_owned());
    let rows = connection.query(KEYS).await?;
    let keys = rows.iter().map(|row| (named(row.text(0), row.text(1)), named(row.text(2), row.text(3))));
    let keys: Vec<(Named, Named)> = keys.filter(|(from, to)| tables.contains(from) && tables.contains(to)).collect();
    rounds(tables, &keys).map_err(|circle| {
        let names: Vec<String> = circle.iter().map(|(schema, name)| format!("{schema}.{name}")).collect();
        Error::Refused {
            code: "postgres.circular-keys",
            object: format!("tables {}", names.join(", ")),
            cause: "they belong to an extension, and their foreign keys refer to each other in a circle: no order of loading is right"
                .to_owned(),
            next: "GRANT SET ON PARAMETER session_replication_role TO the role, or restore as a superuser: then the keys are off \
                   while rows are loaded, and are checked afterwards"
                .to_owned(),
        }
    })
}

/// Tables in rounds, each behind what it refers to; or those of a circle.
fn rounds(tables: &BTreeSet<Named>, keys: &[(Named, Named)]) -> Result<Vec<Round>, BTreeSet<Named>> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let mut needs: BTreeMap<&Named, BTreeSet<&Named>> = tables.iter().map(|table| (table, BTreeSet::new())).collect();
    let mut alone = BTreeSet::new();
    for (from, to) in keys {
        match from == to {
            true => drop(alone.insert(from)),
            false => drop(needs.entry(from).or_default().insert(to)),
        }
    }
    let mut rounds = Vec::new();
    while !needs.is_empty() {
        let ready: BTreeSet<&Named> =
            needs.iter().filter(|(_, others)| others.is_empty()).map(|(table, _)| *table).collect();
        if ready.is_empty() {
            return Err(circle(&needs));
        }
        needs.retain(|table, _| !ready.contains(table));
        needs.values_mut().for_each(|others| others.retain(|other| !ready.contains(other)));
        let (selves, others): (BTreeSet<&Named>, BTreeSet<&Named>) =
            ready.into_iter().partition(|table| alone.contains(table));
        if !others.is_empty() {
            rounds.push(Round { tables: others.into_iter().cloned().collect(), alone: false });
        }
        rounds.extend(selves.into_iter().map(|table| Round { tables: [table.clone()].into(), alone: true }));
    }
    Ok(rounds)
}

/// The tables of a circle, without those that only refer to it.
fn circle(needs: &BTreeMap<&Named, BTreeSet<&Named>>) -> BTreeSet<Named> {
    let mut left: BTreeSet<&Named> = needs.keys().copied().collect();
    loop {
        let is_referred_to = |table: &Named| {
            needs.iter().any(|(from, others)| left.contains(from) && others.iter().any(|other| *other == table))
        };
        let some: BTreeSet<&Named> = left.iter().copied().filter(|table| is_referred_to(table)).collect();
        if some.len() == left.len() {
            return left.into_iter().cloned().collect();
        }
        left = some;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Named {
        ("s".to_owned(), name.to_owned())
    }

    /// The rounds as words; one that is loaded alone has an exclamation mark.
    fn told(tables: &str, keys: &str) -> Result<String, String> {
        let tables = tables.split(' ').map(named).collect();
        let keys = keys.split_whitespace().filter_map(|key| key.split_once('>'));
        let keys: Vec<(Named, Named)> = keys.map(|(from, to)| (named(from), named(to))).collect();
        let words =
            |tables: &BTreeSet<Named>| tables.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>().join(" ");
        let one = |round: &Round| format!("{}{}", words(&round.tables), if round.alone { "!" } else { "" });
        let rounds = rounds(&tables, &keys).map_err(|circle| words(&circle))?;
        Ok(rounds.iter().map(one).collect::<Vec<_>>().join(" | "))
    }

    #[test]
    fn tables_are_loaded_behind_what_they_refer_to() {
        for (tables, keys, rounds) in [
            ("a b c", "", Ok("")),
            ("a b c", "b>a", Ok("a c | b")),
            ("a b c", "a>b b>c a>c", Ok("c | b | a")),
            ("a b", "a>a", Ok("b | a!")),
            ("a b c d", "a>b b>b c>c d>a", Ok("b! | c! | a | d")),
            ("a b", "a>b a>b", Ok("b | a")),
            ("a b c d", "a>b b>a c>a", Err("a b")),
            ("a b c d", "d>c c>b b>a a>c", Err("a b c")),
        ] {
            assert_eq!(told(tables, keys), rounds.map(str::to_owned).map_err(str::to_owned), "{tables}: {keys}");
        }
    }
}
