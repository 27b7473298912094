//! What can't cross from the source's server to the target's, because the target has nothing that means the same? Pure.
//!
//! Everything is named before anything is written: a collation, a storage engine, a type or a kind of table that the target
//! doesn't know. What only the server can decide, as the text of a routine, is tried.

use std::collections::{BTreeMap, BTreeSet};

use seawall_archive::preflight::{Lack, Look};

use crate::detail::ServerFacts;
use crate::schema::words::{Kind, Word, words};

/// What a target has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Has {
    pub(crate) server: ServerFacts,
    /// Names in lower case.
    pub(crate) collations: BTreeSet<String>,
    /// Names in lower case.
    pub(crate) charsets: BTreeSet<String>,
    /// Storage engines that can be used, in lower case.
    pub(crate) engines: BTreeSet<String>,
    /// Whether it takes back the history of rows.
    pub(crate) takes_history: bool,
}

impl Has {
    fn is_mariadb(&self) -> bool {
        self.server.family == "mariadb"
    }
}

/// What is about to be restored.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Brings<'a> {
    pub(crate) server: ServerFacts,
    /// The statement of the database.
    pub(crate) database: &'a str,
    /// Tables: name, engine, statement.
    pub(crate) tables: Vec<(&'a str, &'a str, &'a str)>,
    /// Names of sequences.
    pub(crate) sequences: Vec<&'a str>,
    /// Tables whose former rows are in the set.
    pub(crate) histories: Vec<&'a str>,
    /// Views: name and statement.
    pub(crate) views: Vec<(&'a str, &'a str)>,
}

/// The first version of MariaDB with a type.
const TYPES_OF_MARIADB: [(&str, u32); 4] =
    [("inet6", 100_500), ("uuid", 100_700), ("inet4", 101_000), ("vector", 110_701)];

/// The first version of MySQL with the type of vectors.
const VECTOR_OF_MYSQL: u32 = 90_000;

/// The first version of MySQL that has checks.
const CHECKS_OF_MYSQL: u32 = 80_016;

/// What the target lacks for it.
pub(crate) fn look(brings: &Brings<'_>, has: &Has) -> Look {
    let mut look = Look::default();
    let mut missing: BTreeMap<(&str, String), Vec<String>> = BTreeMap::new();
    let mut note =
        |kind, name: &str, of: String| missing.entry((kind, name.to_ascii_lowercase())).or_default().push(of);
    let crosses = brings.server.family != has.server.family;
    for (collation, charset) in named(brings.database) {
        note_unless(&mut note, has, &collation, &charset, "the database".to_owned());
    }
    for (table, engine, statement) in &brings.tables {
        if !engine.is_empty() && !has.engines.contains(&engine.to_ascii_lowercase()) {
            note("the storage engine", engine, format!("table {table}"));
        }
        for (collation, charset) in named(statement) {
            note_unless(&mut note, has, &collation, &charset, format!("table {table}"));
        }
        features(has, crosses, table, statement, &mut look);
    }
    for (view, statement) in brings.views.iter().filter(|_| crosses || brings.server.version > has.server.version) {
        for (collation, charset) in named(statement) {
            note_unless(&mut note, has, &collation, &charset, format!("view {view}"));
        }
    }
    for ((kind, name), users) in missing {
        let (cause, mend) = (format!("the target has no {}", shown(kind, &name, &users)), mend(kind, &name));
        look.lacks.push(Lack::new(cause, mend));
    }
    if !brings.sequences.is_empty() && (!has.is_mariadb() || has.server.version < 100_300) {
        look.lacks.push(Lack::new(
            format!("the target has no sequences, and the set has {}", listed(&brings.sequences)),
            "restore into MariaDB 10.3 or later, or leave them out with --table",
        ));
    }
    if !brings.histories.is_empty() && !has.takes_history {
        look.lacks.push(Lack::new(
            format!("the target doesn't take former rows back, and the set has those of {}", listed(&brings.histories)),
            "restore into MariaDB 10.11 or later, or leave these tables out with --table",
        ));
    }
    letters(brings, has, &mut look);
    look
}

fn note_unless(
    note: &mut impl FnMut(&'static str, &str, String),
    has: &Has,
    collation: &Option<String>,
    charset: &Option<String>,
    of: String,
) {
    let is_new = |name: &Option<String>, known: &BTreeSet<String>| {
        name.clone().filter(|name| !known.contains(&name.to_ascii_lowercase()))
    };
    if let Some(name) = is_new(collation, &has.collations) {
        note("the collation", &name, of.clone());
    }
    if let Some(name) = is_new(charset, &has.charsets) {
        note("the character set", &name, of);
    }
}

fn shown(kind: &str, name: &str, users: &[String]) -> String {
    let kind = kind.trim_start_matches("the ");
    let users: BTreeSet<&str> = users.iter().map(String::as_str).collect();
    let few: Vec<&str> = users.iter().copied().take(5).collect();
    let more = if users.len() > 5 { format!(" and {} others", users.len() - 5) } else { String::new() };
    format!("{kind} {name}, which {}{more} has", few.join(", "))
}

fn listed(names: &[&str]) -> String {
    let more = if names.len() > 5 { format!(" and {} others", names.len() - 5) } else { String::new() };
    format!("{}{more}", names.iter().copied().take(5).collect::<Vec<_>>().join(", "))
}

fn mend(kind: &str, name: &str) -> String {
    match kind {
        "the collation" if name.contains("_0900_") => {
            "restore into MySQL 8.0 or later, or MariaDB 11.4.5 or later; or ALTER TABLE … CONVERT TO CHARACTER SET utf8mb4 COLLATE \
             utf8mb4_unicode_520_ci in the source and back up again"
                .to_owned()
        }
        "the collation" if name.contains("uca1400") => {
            "restore into MariaDB 10.10 or later; or ALTER TABLE … CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci in \
             the source and back up again"
                .to_owned()
        }
        "the storage engine" => format!(
            "install it (INSTALL SONAME 'ha_{name}' or INSTALL PLUGIN …), or ALTER TABLE … ENGINE=InnoDB in the source and back up again"
        ),
        _ => "restore into a server that has it".to_owned(),
    }
}

/// Collations and character sets that a statement names outside of texts.
fn named(statement: &str) -> Vec<(Option<String>, Option<String>)> {
    let mut found = Vec::new();
    collect(statement, &mut found);
    found
}

fn collect(statement: &str, found: &mut Vec<(Option<String>, Option<String>)>) {
    let words = words(statement.as_bytes()).unwrap_or_default();
    let value = |place: usize| {
        let word: &Word<'_> = words.get(place)?;
        let word = if word.is_sign(b'=') { words.get(place + 1)? } else { word };
        (word.kind == Kind::Word).then(|| word.name()).flatten()
    };
    for (place, word) in words.iter().enumerate() {
        if word.kind == Kind::Comment {
            // What a server runs of a comment.
            let inner = word.bytes.strip_prefix(b"/*!").or_else(|| word.bytes.strip_prefix(b"/*M!"));
            let inner = inner.and_then(|inner| std::str::from_utf8(inner.strip_suffix(b"*/")?).ok());
            if let Some(inner) = inner {
                collect(inner, found);
            }
        } else if word.is("COLLATE") {
            found.push((value(place + 1), None));
        } else if word.is("CHARSET") {
            found.push((None, value(place + 1)));
        } else if word.is("CHARACTER") && words.get(place + 1).is_some_and(|word| word.is("SET")) {
            found.push((None, value(place + 2)));
        }
    }
}

/// The tablespaces that statements of tables name. The tablespaces that every server has are left out.
pub(crate) fn tablespaces<'a>(statements: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for statement in statements {
        for word in words(statement.as_bytes()).unwrap_or_default().iter().filter(|word| word.kind == Kind::Comment) {
            // What MySQL runs of a comment, without its version.
            let inner = word.bytes.strip_prefix(b"/*!").and_then(|inner| inner.strip_suffix(b"*/")).unwrap_or_default();
            let inner = words(inner).unwrap_or_default();
            let named = inner.windows(2).filter(|pair| pair[0].is("TABLESPACE"));
            found.extend(named.filter_map(|pair| pair[1].name()).filter(|name| !name.starts_with("innodb_")));
        }
    }
    found
}

/// What a table has that only some servers have.
fn features(has: &Has, crosses: bool, table: &str, statement: &str, look: &mut Look) {
    let found = words(statement.as_bytes()).unwrap_or_default();
    let mut lack = |what: &str, mend: &str| {
        look.lacks.push(Lack::new(format!("the target has no {what}, which table {table} has"), mend));
    };
    // A column's type is the word behind its name; names are in backticks.
    let types = found.windows(2).filter(|pair| pair[0].kind == Kind::Name && pair[1].kind == Kind::Word);
    let types: BTreeSet<String> =
        types.filter_map(|pair| pair[1].name()).map(|word| word.to_ascii_lowercase()).collect();
    for (r#type, since) in TYPES_OF_MARIADB {
        let is_there = match (has.is_mariadb(), r#type) {
            (true, _) => has.server.version >= since,
            (false, "vector") => has.server.version >= VECTOR_OF_MYSQL,
            (false, _) => false,
        };
        if types.contains(r#type) && !is_there {
            lack(&format!("type {}", r#type.to_uppercase()), "restore into a server that has it");
        }
    }
    let has_words = |wanted: &[&str]| {
        found.windows(wanted.len()).any(|some| some.iter().zip(wanted).all(|(word, wanted)| word.is(wanted)))
    };
    if !crosses {
        return;
    }
    if has.is_mariadb() {
        let is_expression =
            |three: &[Word<'_>]| three[0].kind == Kind::Name && three[1].is_sign(b'(') && three[2].is_sign(b'(');
        let keys = found.windows(4).any(|four| four[0].is("KEY") && is_expression(&four[1..]));
        if keys {
            lack(
                "indexes of expressions",
                "restore into MySQL 8.0.13 or later, or index a generated column in the source",
            );
        }
        for (inside, what) in [
            ("INVISIBLE", "an INVISIBLE column or index"),
            ("NOT ENFORCED", "a check that isn't enforced"),
            ("SRID", "an SRID of a column"),
        ] {
            let is_it = |word: &Word<'_>| {
                word.kind == Kind::Comment
                    && String::from_utf8_lossy(word.bytes).to_ascii_uppercase().contains(&format!(" {inside}"))
            };
            if found.iter().any(is_it) {
                lack(what, "change it in the source and back up again: MariaDB passes over MySQL's way of saying it");
            }
        }
        if types.contains("json") {
            look.doubts
                .push(format!("the JSON columns of table {table} become LONGTEXT with a check, as MariaDB has them"));
        }
        return;
    }
    if has.server.version < CHECKS_OF_MYSQL && found.iter().any(|word| word.is("CHECK")) {
        let doubt = format!("table {table} loses its checks: MySQL before 8.0.16 passes over them");
        look.doubts.push(doubt);
    }
    if has_words(&["SYSTEM", "VERSIONING"]) || has_words(&["PERIOD", "FOR"]) {
        lack(
            "system versioning or periods",
            "restore into MariaDB, or ALTER TABLE … DROP SYSTEM VERSIONING in the source and back up again",
        );
    }
    if has_words(&["WITHOUT", "OVERLAPS"])
        || has_words(&["COMPRESSED"]) && !has_words(&["ROW_FORMAT", "COMPRESSED"]) && statement.contains("/*M!")
    {
        lack("keys WITHOUT OVERLAPS or compressed columns", "restore into MariaDB");
    }
    let calls = |pair: &[Word<'_>]| {
        pair[0].is("DEFAULT") && pair[1].kind == Kind::Word && !pair[1].is("NULL") && !pair[1].is("CURRENT_TIMESTAMP")
    };
    let is_call = found.windows(3).any(|three| {
        calls(&three[..2])
            && three[2].is_sign(b'(')
            && !["CHARSET", "CHARACTER", "COLLATE"].iter().any(|word| three[1].is(word))
    });
    if is_call {
        lack(
            "defaults that call functions without brackets",
            "restore into MariaDB, or change the default in the source",
        );
    }
}

/// Names that the target takes for one.
fn letters(brings: &Brings<'_>, has: &Has, look: &mut Look) {
    if has.server.lower_case_table_names == 0 || brings.server.lower_case_table_names != 0 {
        return;
    }
    let mut seen: BTreeMap<String, &str> = BTreeMap::new();
    let names = brings.tables.iter().map(|(name, ..)| *name).chain(brings.views.iter().map(|(name, _)| *name));
    let mut lowered = Vec::new();
    for name in names {
        if let Some(other) = seen.insert(name.to_lowercase(), name) {
            look.lacks.push(Lack::new(
                format!("the target takes {other} and {name} for one name (lower_case_table_names)"),
                "rename one in the source, or restore into a server with lower_case_table_names=0",
            ));
        } else if name.to_lowercase() != name {
            lowered.push(name);
        }
    }
    if !lowered.is_empty() && has.server.lower_case_table_names == 1 {
        look.doubts.push(format!("the target keeps names in lower case: {}", listed(&lowered)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn server(family: &str, version: u32) -> ServerFacts {
        ServerFacts { family: family.into(), version, ..ServerFacts::default() }
    }

    fn target(family: &str, version: u32) -> Has {
        Has {
            server: server(family, version),
            collations: set(&["utf8mb4_general_ci", "utf8mb4_bin", "latin1_swedish_ci"]),
            charsets: set(&["utf8mb4", "latin1"]),
            engines: set(&["innodb", "myisam"]),
            takes_history: family == "mariadb" && version >= 101_100,
        }
    }

    fn causes(from: (&str, u32), to: (&str, u32), statement: &str) -> Vec<String> {
        let brings =
            Brings { server: server(from.0, from.1), tables: vec![("t", "InnoDB", statement)], ..Brings::default() };
        look(&brings, &target(to.0, to.1)).lacks.into_iter().map(|lack| lack.cause).collect()
    }

    const MARIA: (&str, u32) = ("mariadb", 101_106);
    const MYSQL: (&str, u32) = ("mysql", 80_036);

    #[test]
    fn tablespaces_are_those_that_not_every_server_has() {
        let statements = [
            "CREATE TABLE `t` (`a` int COMMENT 'TABLESPACE `x`') /*!50100 TABLESPACE `ts``1` */ ENGINE=InnoDB",
            "CREATE TABLE `t` (`a` int) /*!50100 TABLESPACE `innodb_system` */ ENGINE=InnoDB",
            "CREATE TABLE `t` (`a` int) ENGINE=InnoDB",
        ];
        assert_eq!(tablespaces(statements.into_iter()), set(&["ts`1"]));
    }

    #[test]
    fn what_can_not_cross_is_named() {
        for (from, to, statement, named) in [
            (
                MARIA,
                MYSQL,
                "CREATE TABLE `t` (`a` int COMMENT 'uuid COLLATE x') DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin",
                None,
            ),
            (
                MYSQL,
                MARIA,
                "CREATE TABLE `t` (`a` text COLLATE utf8mb4_0900_ai_ci)",
                Some("collation utf8mb4_0900_ai_ci, which table t"),
            ),
            (MARIA, MYSQL, "CREATE TABLE `t` (`a` int) COLLATE=utf8mb4_uca1400_ai_ci", Some("uca1400")),
            (MYSQL, MARIA, "CREATE TABLE `t` (`a` char(1) CHARACTER SET gb18030)", Some("character set gb18030")),
            (MARIA, MYSQL, "CREATE TABLE `t` (`a` uuid)", Some("type UUID")),
            (MARIA, ("mariadb", 100_600), "CREATE TABLE `t` (`a` uuid)", Some("type UUID")),
            (MARIA, MARIA, "CREATE TABLE `t` (`a` uuid, `uuid` int)", None),
            (MARIA, MYSQL, "CREATE TABLE `t` (`uuid` int, KEY `uuid` (`uuid`))", None),
            (MYSQL, MYSQL, "CREATE TABLE `t` (`a` vector(3))", Some("type VECTOR")),
            (MARIA, MYSQL, "CREATE TABLE `t` (`a` int) WITH SYSTEM VERSIONING", Some("system versioning")),
            (MARIA, MYSQL, "CREATE TABLE `t` (`a` char(36) DEFAULT uuid())", Some("defaults that call")),
            (MARIA, MYSQL, "CREATE TABLE `t` (`a` timestamp DEFAULT current_timestamp())", None),
            (MYSQL, MARIA, "CREATE TABLE `t` (`a` int /*!80023 INVISIBLE */)", Some("INVISIBLE")),
            (MYSQL, MARIA, "CREATE TABLE `t` (`a` int, KEY `k` ((`a` + 1)))", Some("indexes of expressions")),
            (MYSQL, MYSQL, "CREATE TABLE `t` (`a` int, KEY `k` ((`a` + 1)) /*!80000 INVISIBLE */)", None),
        ] {
            let found = causes(from, to, statement);
            match named {
                None => assert!(found.is_empty(), "{statement}: {found:?}"),
                Some(named) => assert!(found.iter().any(|cause| cause.contains(named)), "{statement}: {found:?}"),
            }
        }
    }

    #[test]
    fn engines_sequences_and_histories_need_a_server_that_has_them() {
        let brings = Brings {
            server: server("mariadb", 101_106),
            database: "CREATE DATABASE `d` /*!40100 DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin */",
            tables: vec![("a", "Aria", "CREATE TABLE `a` (`x` int)"), ("b", "ARIA", "CREATE TABLE `b` (`x` int)")],
            sequences: vec!["s"],
            histories: vec!["h"],
            views: Vec::new(),
        };
        let found = look(&brings, &target("mysql", 80_036)).lacks;
        let has = |text: &str| found.iter().any(|lack| lack.cause.contains(text));
        assert!(
            has("storage engine aria, which table a, table b has") && has("sequences") && has("former rows"),
            "{found:?}"
        );
        assert!(has("utf8mb4_0900_bin, which the database"), "{found:?}");
        assert_eq!(found.len(), 4);
    }

    #[test]
    fn names_that_become_one_are_named() {
        let tables = vec![("Orders", "", ""), ("orders", "", ""), ("Big", "", "")];
        let brings = Brings { server: server("mysql", 80_036), tables, ..Brings::default() };
        let mut has = target("mysql", 80_036);
        assert_eq!(look(&brings, &has), Look::default());
        has.server.lower_case_table_names = 1;
        let found = look(&brings, &has);
        assert_eq!((found.lacks.len(), found.doubts.len()), (1, 1), "{found:?}");
    }
}
