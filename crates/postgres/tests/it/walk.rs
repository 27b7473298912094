//! The content of a database's catalogs as lines. Equal databases have equal lines.
//!
//! A line is a row of a catalog, with names in place of object ids. `walk.sql` asks the server for its catalogs and
//! columns, so that the additions of a later version are compared too.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::server::{Server, output};

/// Columns that aren't compared, each with the reason.
const NOT_COMPARED: [(&str, &str, &str); 20] = [
    ("pg_class", "relfilenode", "the number of a file"),
    ("pg_class", "relfrozenxid", "transactions of the server"),
    ("pg_class", "relminmxid", "transactions of the server"),
    ("pg_class", "relpages", "statistics, which are gathered anew"),
    ("pg_class", "reltuples", "statistics, which are gathered anew"),
    ("pg_class", "relallvisible", "statistics, which are gathered anew"),
    ("pg_class", "relallfrozen", "statistics, which are gathered anew"),
    ("pg_attribute", "attcacheoff", "used by the server while it runs"),
    ("pg_attribute", "atthasmissing", "rows that are older than their column: none where rows are written anew"),
    ("pg_attribute", "attmissingval", "rows that are older than their column: none where rows are written anew"),
    ("pg_index", "indcheckxmin", "transactions that were under way"),
    ("pg_database", "oid", "its name, which differs in the test"),
    ("pg_database", "datname", "its name, which differs in the test"),
    ("pg_database", "datfrozenxid", "transactions of the server"),
    ("pg_database", "datminmxid", "transactions of the server"),
    ("pg_shdescription", "objoid", "the database, whose name differs in the test"),
    ("pg_shdepend", "dbid", "the database, whose name differs in the test"),
    ("pg_db_role_setting", "setdatabase", "the database, whose name differs in the test"),
    ("pg_subscription", "subdbid", "the database, whose name differs in the test"),
    ("pg_enum", "oid", "a number alone: its type and its label name it"),
];

/// A row of a catalog.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Row {
    pub(crate) catalog: String,
    pub(crate) columns: BTreeMap<String, Option<String>>,
}

/// The rows of all catalogs, and the number of rows of each.
pub(crate) type Walk = BTreeMap<Row, u32>;

/// Reads the catalogs of a database.
pub(crate) fn walk(server: &Server, database: &str) -> Walk {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/catalog/walk.sql");
    let mut psql = server.tool("psql");
    psql.env("PGOPTIONS", "-c search_path=").args(["-XqAt", "-v", "ON_ERROR_STOP=1", "-d", database, "-f"]).arg(script);
    let text = output(psql);
    let (mut toasted, mut rows) = (BTreeMap::new(), Vec::new());
    for line in text.lines() {
        let (catalog, columns) = line.split_once(' ').expect("a catalog and its columns");
        let columns: BTreeMap<String, Option<String>> = serde_json::from_str(columns).expect("JSON");
        match catalog {
            "toast" => toasted.extend(columns),
            _ => rows.push(Row { catalog: catalog.to_owned(), columns }),
        }
    }
    let mut walk = Walk::new();
    for mut row in rows {
        for (catalog, column, _) in NOT_COMPARED.iter().filter(|(catalog, ..)| *catalog == row.catalog) {
            row.columns.remove(*column);
            assert!(!catalog.is_empty());
        }
        if row.catalog == "pg_attribute" {
            without_version(&mut row);
        }
        for value in row.columns.values_mut().flatten() {
            *value = without_numbers(value, &toasted);
        }
        *walk.entry(row).or_default() += 1;
    }
    walk
}

/// Takes away the version of a column, which the server itself keeps among the options.
fn without_version(row: &mut Row) {
    let Some(Some(options)) = row.columns.get_mut("attoptions") else { return };
    let all = options.trim_matches(['{', '}']);
    let left: Vec<&str> = all.split(',').filter(|option| !option.starts_with("pg_attver=")).collect();
    let value = (!left.is_empty()).then(|| format!("{{{}}}", left.join(",")));
    row.columns.insert("attoptions".to_owned(), value);
}

/// A value without the object ids that the server puts into generated names.
fn without_numbers(value: &str, toasted: &BTreeMap<String, Option<String>>) -> String {
    let (mut plain, mut rest) = (String::new(), value);
    let words = ["pg_toast_", "ConstraintTrigger_a_", "ConstraintTrigger_c_", "ConstraintTrigger_"];
    while let Some((at, word)) =
        words.iter().filter_map(|word| Some((rest.find(word)?, *word))).min_by_key(|(at, _)| *at)
    {
        let (before, behind) = rest.split_at(at + word.len());
        let end = behind.find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len());
        plain.push_str(before);
        if word == "pg_toast_" {
            plain.push_str(toasted.get(&behind[..end]).and_then(Option::as_deref).unwrap_or(&behind[..end]));
        }
        rest = &behind[end..];
    }
    plain + rest
}

/// Rows that only one of two walks has.
pub(crate) fn without(walk: &Walk, other: &Walk) -> Vec<Row> {
    let left = |(row, count): (&Row, &u32)| {
        let left = count.saturating_sub(other.get(row).copied().unwrap_or_default());
        std::iter::repeat_n(row.clone(), left as usize)
    };
    walk.iter().flat_map(left).collect()
}

/// The differences of two walks, for people: a column of a row, or a row that only one walk has.
pub(crate) fn differences(expected: &Walk, found: &Walk) -> Vec<String> {
    let (mut told, mut others) = (Vec::new(), without(found, expected));
    for row in without(expected, found) {
        let differs = |other: &Row| {
            let differs = |(name, value): (&String, &Option<String>)| {
                (other.columns.get(name) != Some(value)).then(|| name.clone())
            };
            row.columns.iter().filter_map(differs).collect::<Vec<_>>()
        };
        let alike = (0..others.len()).filter(|place| others[*place].catalog == row.catalog);
        let nearest = alike.map(|place| (differs(&others[place]).len(), place)).min();
        match nearest.filter(|(count, _)| *count <= 1 + row.columns.len() / 3) {
            Some((_, place)) => {
                let other = others.remove(place);
                let of = |row: &Row, name: &String| row.columns.get(name).cloned().flatten();
                let said: Vec<String> = differs(&other)
                    .iter()
                    .map(|name| format!("{name}: {:?}, and is {:?}", of(&row, name), of(&other, name)))
                    .collect();
                let names = ["oid", "attrelid", "attname", "objid", "indexrelid", "objoid", "inhrelid"];
                let who: Vec<String> = names.iter().filter_map(|name| of(&row, &(*name).to_owned())).collect();
                told.push(format!("{} {}: {}", row.catalog, who.join(" "), said.join("; ")));
            }
            None => told.push(format!("is missing: {} {:?}", row.catalog, row.columns)),
        }
    }
    told.extend(others.iter().map(|row| format!("shouldn't be there: {} {:?}", row.catalog, row.columns)));
    told
}

/// Columns of catalogs with one value in all objects of a fixture. The objects are those that `walk` has, and that
/// `fresh`, a database without objects, hasn't.
pub(crate) fn never_different(walk: &Walk, fresh: &Walk) -> BTreeSet<(String, String)> {
    let mut values: BTreeMap<(String, String), BTreeSet<Option<String>>> = BTreeMap::new();
    for row in walk.keys().chain(fresh.keys()) {
        for name in row.columns.keys() {
            values.entry((row.catalog.clone(), name.clone())).or_default();
        }
    }
    // There is one database: it differs from the fresh one.
    let database = fresh.keys().filter(|row| row.catalog == "pg_database").cloned();
    for row in without(walk, fresh).into_iter().chain(database) {
        for (name, value) in row.columns {
            values.entry((row.catalog.clone(), name)).or_default().insert(value);
        }
    }
    values.into_iter().filter(|(_, values)| values.len() < 2).map(|(column, _)| column).collect()
}
