//! Which rows does a row need, through which foreign key, and in which order are they looked up? Pure: from the
//! catalogs' facts to statements and an order.
//!
//! A foreign key of a partitioned table applies to each of its leaves, where the rows are. A key of any other table
//! applies to that table alone, not to tables that inherit from it. References work likewise: to a partitioned table
//! means to the rows of its leaves; to any other table means to its own rows only.

use std::collections::{BTreeMap, BTreeSet};

use seawall_archive::referring_first;

use crate::quote::{ident, qualified};

/// A name in a schema.
pub(crate) type Qualified = (String, String);

/// A foreign key, as the catalogs have it, without those that only represent it at partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ForeignKey {
    /// The table that refers, by its number.
    pub(crate) from: u64,
    /// The table that is referred to.
    pub(crate) to: u64,
    /// The name of the referenced table.
    pub(crate) to_name: Qualified,
    /// Whether the referenced table is partitioned.
    pub(crate) to_is_partitioned: bool,
    /// Its columns.
    pub(crate) columns: Vec<Column>,
    /// Whether a comparison calls a user's function, which would run with our rights (I18).
    pub(crate) calls_users: bool,
}

/// A column of a foreign key on both sides, and how the server compares them.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
pub(crate) struct Column {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) operator: Qualified,
    /// The types of the operator, if the columns have others.
    pub(crate) from_type: Option<Qualified>,
    pub(crate) to_type: Option<Qualified>,
    /// The collation of the referenced column, if the referring one has another.
    pub(crate) collation: Option<Qualified>,
}

impl Column {
    /// Whether the columns are converted for their operator.
    pub(crate) fn is_converted(&self) -> bool {
        self.from_type.is_some() || self.to_type.is_some()
    }

    /// The condition that two rows have equal keys. It uses no search path, and exactly the constraint's operators and
    /// conversions.
    fn condition(&self) -> String {
        let typed = |of: &Option<Qualified>| of.as_ref().map(|(schema, name)| format!("::{}", qualified(schema, name)));
        let (to_type, from_type) =
            (typed(&self.to_type).unwrap_or_default(), typed(&self.from_type).unwrap_or_default());
        let (schema, operator) = &self.operator;
        let collation = self.collation.as_ref().map(|(schema, name)| format!(" COLLATE {}", qualified(schema, name)));
        format!(
            "needed.{}{to_type} OPERATOR({}.{operator}) given.{}{from_type}{}",
            ident(&self.to),
            ident(schema),
            ident(&self.from),
            collation.unwrap_or_default()
        )
    }
}

/// Who is a part of whom, or inherits from whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Heir {
    pub(crate) table: u64,
    pub(crate) of: u64,
    /// Whether it is a partition.
    pub(crate) is_partition: bool,
}

/// A foreign key of one table's rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key {
    /// The tables, by index, whose rows it needs.
    pub(crate) needs: Vec<usize>,
    /// Whether it can be queried without running users' functions. Otherwise all of `needs` is taken.
    pub(crate) is_safe: bool,
    /// The tables of `needs` as SQL.
    relation: String,
    condition: String,
}

impl Key {
    /// The query for the table number and place of every row that rows of `table` need: the rows at `places`, or all.
    pub(crate) fn query(&self, table: &str, places: Option<&str>) -> String {
        let condition = places.map_or_else(String::new, |places| format!(" WHERE given.ctid = ANY ({places})"));
        format!(
            "SELECT needed.tableoid, needed.ctid FROM ONLY {table} AS given JOIN {} AS needed ON {}{condition}",
            self.relation, self.condition
        )
    }
}

/// The keys of each table, and the order of the tables.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Needs {
    /// By the tables' places.
    pub(crate) keys: Vec<Vec<Key>>,
    /// Every table: referring tables before referenced ones, except in cycles. So when a table's turn comes, most of
    /// the rows needed from it are known.
    pub(crate) order: Vec<usize>,
}

/// The needs of the rows of `tables`, which are given by their numbers.
pub(crate) fn needs(tables: &[u64], foreign_keys: &[ForeignKey], heirs: &[Heir]) -> Needs {
    let places: BTreeMap<u64, usize> = tables.iter().enumerate().map(|(place, table)| (*table, place)).collect();
    let mut partitions: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for heir in heirs.iter().filter(|heir| heir.is_partition) {
        partitions.entry(heir.of).or_default().push(heir.table);
    }
    let mut keys = vec![Vec::new(); tables.len()];
    for foreign_key in foreign_keys {
        let needs = leaves(foreign_key.to, &partitions, &places);
        // A table that isn't in the set comes with an extension, with all of its rows.
        if needs.is_empty() {
            continue;
        }
        let (schema, name) = &foreign_key.to_name;
        let only = if foreign_key.to_is_partitioned { "" } else { "ONLY " };
        let relation = format!("{only}{}", qualified(schema, name));
        let condition = foreign_key.columns.iter().map(Column::condition).collect::<Vec<_>>().join(" AND ");
        for from in leaves(foreign_key.from, &partitions, &places) {
            let (needs, relation, condition) = (needs.clone(), relation.clone(), condition.clone());
            let key = Key { needs, is_safe: !foreign_key.calls_users, relation, condition };
            keys[from].push(key);
        }
    }
    let needed: Vec<Vec<usize>> =
        keys.iter().map(|keys| keys.iter().flat_map(|key| key.needs.iter().copied()).collect()).collect();
    let order = referring_first(&needed);
    Needs { keys, order }
}

/// The tables with the rows of `table`: itself, or its leaves.
fn leaves(table: u64, partitions: &BTreeMap<u64, Vec<u64>>, places: &BTreeMap<u64, usize>) -> Vec<usize> {
    let (mut found, mut open) = (BTreeSet::new(), vec![table]);
    while let Some(table) = open.pop() {
        found.extend(places.get(&table));
        open.extend(partitions.get(&table).into_iter().flatten());
    }
    found.into_iter().collect()
}

/// For each table, the number of its oldest ancestor: itself, if it inherits from none.
pub(crate) fn families(tables: &[u64], heirs: &[Heir]) -> Vec<u64> {
    let of: BTreeMap<u64, u64> = heirs.iter().rev().map(|heir| (heir.table, heir.of)).collect();
    let eldest = |table: &u64| {
        let mut eldest = *table;
        // A catalog that contains a cycle can't make this endless: there are at most as many steps as heirs.
        for _ in 0..heirs.len() {
            let Some(parent) = of.get(&eldest) else { break };
            eldest = *parent;
        }
        eldest
    };
    tables.iter().map(eldest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Qualified {
        ("public".to_owned(), text.to_owned())
    }

    fn column(from: &str, to: &str) -> Column {
        let operator = ("pg_catalog".to_owned(), "=".to_owned());
        Column { from: from.into(), to: to.into(), operator, from_type: None, to_type: None, collation: None }
    }

    fn key(from: u64, to: u64) -> ForeignKey {
        ForeignKey {
            from,
            to,
            to_name: name(&format!("t{to}")),
            to_is_partitioned: false,
            calls_users: false,
            columns: vec![column("a", "b")],
        }
    }

    fn partition(table: u64, of: u64) -> Heir {
        Heir { table, of, is_partition: true }
    }

    /// From table to tables, by their numbers.
    fn edges(tables: &[u64], keys: &[ForeignKey], heirs: &[Heir]) -> Vec<(u64, Vec<u64>)> {
        let needs = needs(tables, keys, heirs);
        let number = |places: &[usize]| places.iter().map(|place| tables[*place]).collect();
        let of = |(place, keys): (usize, &Vec<Key>)| {
            keys.iter().map(|key| (tables[place], number(&key.needs))).collect::<Vec<_>>()
        };
        needs.keys.iter().enumerate().flat_map(of).collect()
    }

    #[test]
    fn keys_are_of_leaves_and_lead_to_leaves() {
        for (why, tables, keys, heirs, expected) in [
            ("plain", &[1, 2][..], vec![key(1, 2)], vec![], vec![(1, vec![2])]),
            (
                "two keys between the same",
                &[1, 2],
                vec![key(1, 2), key(1, 2)],
                vec![],
                vec![(1, vec![2]), (1, vec![2])],
            ),
            ("itself", &[1], vec![key(1, 1)], vec![], vec![(1, vec![1])]),
            (
                "of a partitioned one",
                &[11, 12, 2],
                vec![key(1, 2)],
                vec![partition(11, 1), partition(12, 1)],
                vec![(11, vec![2]), (12, vec![2])],
            ),
            (
                "to a partitioned one",
                &[1, 21, 22],
                vec![key(1, 2)],
                vec![partition(21, 2), partition(22, 2)],
                vec![(1, vec![21, 22])],
            ),
            (
                "over two generations",
                &[31, 2],
                vec![key(1, 2)],
                vec![partition(3, 1), partition(31, 3)],
                vec![(31, vec![2])],
            ),
            (
                "a partition's own",
                &[11, 12, 2],
                vec![key(11, 2)],
                vec![partition(11, 1), partition(12, 1)],
                vec![(11, vec![2])],
            ),
            (
                "not of heirs",
                &[1, 11, 2],
                vec![key(1, 2)],
                vec![Heir { table: 11, of: 1, is_partition: false }],
                vec![(1, vec![2])],
            ),
            (
                "not to heirs",
                &[1, 2, 21],
                vec![key(1, 2)],
                vec![Heir { table: 21, of: 2, is_partition: false }],
                vec![(1, vec![2])],
            ),
            ("to what isn't in the set", &[1], vec![key(1, 2)], vec![], vec![]),
            ("of what isn't in the set", &[2], vec![key(1, 2)], vec![], vec![]),
        ] {
            assert_eq!(edges(tables, &keys, &heirs), expected, "{why}");
        }
    }

    #[test]
    fn who_refers_comes_first_and_cycles_end() {
        for (why, tables, keys, expected) in [
            ("none", &[][..], vec![], vec![]),
            ("a chain, backwards", &[1, 2, 3], vec![key(3, 2), key(2, 1)], vec![3, 2, 1]),
            ("a fork", &[1, 2, 3], vec![key(2, 1), key(3, 1), key(3, 2)], vec![3, 2, 1]),
            ("two keys between the same", &[1, 2], vec![key(2, 1), key(2, 1)], vec![2, 1]),
            ("itself", &[1, 2], vec![key(1, 1), key(2, 1)], vec![2, 1]),
            (
                "a cycle, and one before and one behind",
                &[1, 2, 3, 4],
                vec![key(1, 2), key(2, 1), key(4, 1), key(2, 3)],
                vec![4, 1, 2, 3],
            ),
        ] {
            let order = needs(tables, &keys, &[]).order;
            assert_eq!(order.iter().map(|place| tables[*place]).collect::<Vec<_>>(), expected, "{why}");
        }
    }

    #[test]
    fn every_table_is_in_the_order_once_whatever_refers_to_what() {
        let mut random = fastrand::Rng::with_seed(11);
        for _ in 0..300 {
            let tables: Vec<u64> = (0..random.u64(1..12)).collect();
            let count = tables.len() as u64;
            let keys: Vec<_> =
                (0..random.u32(0..30)).map(|_| key(random.u64(0..count), random.u64(0..count))).collect();
            let mut order = needs(&tables, &keys, &[]).order;
            order.sort_unstable();
            assert_eq!(order, (0..tables.len()).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_query_compares_as_the_constraint_does() {
        let citext = |text: &str| Some(("extensions".to_owned(), text.to_owned()));
        let odd = Column {
            operator: ("extensions".into(), "=".into()),
            from_type: citext("citext"),
            to_type: citext("citext"),
            collation: Some(("pg_catalog".into(), "C".into())),
            ..column("it's \"odd\"", "b")
        };
        let mut keys = vec![key(1, 2), key(1, 3)];
        keys[0].columns.push(odd);
        keys[1].to_is_partitioned = true;
        let needs = needs(&[1, 2, 31], &keys, &[partition(31, 3)]);
        assert_eq!(
            needs.keys[0][0].query("\"public\".\"t1\"", Some("'{\"(0,1)\"}'::tid[]")),
            "SELECT needed.tableoid, needed.ctid FROM ONLY \"public\".\"t1\" AS given JOIN ONLY \"public\".\"t2\" AS needed \
             ON needed.\"b\" OPERATOR(\"pg_catalog\".=) given.\"a\" AND needed.\"b\"::\"extensions\".\"citext\" \
             OPERATOR(\"extensions\".=) given.\"it's \"\"odd\"\"\"::\"extensions\".\"citext\" COLLATE \"pg_catalog\".\"C\" \
             WHERE given.ctid = ANY ('{\"(0,1)\"}'::tid[])"
        );
        let all = needs.keys[0][1].query("\"public\".\"t1\"", None);
        assert!(
            all.ends_with("JOIN \"public\".\"t3\" AS needed ON needed.\"b\" OPERATOR(\"pg_catalog\".=) given.\"a\""),
            "{all}"
        );
    }

    #[test]
    fn a_family_has_the_name_of_its_eldest() {
        let heirs = [
            partition(11, 1),
            partition(111, 11),
            Heir { table: 22, of: 2, is_partition: false },
            // Of two parents the first counts.
            Heir { table: 22, of: 3, is_partition: false },
        ];
        assert_eq!(families(&[1, 11, 111, 2, 22, 3, 4], &heirs), [1, 1, 1, 2, 2, 3, 4]);
        assert_eq!(families(&[1, 2], &[partition(1, 2), partition(2, 1)]).len(), 2, "a catalog that goes round");
    }
}
