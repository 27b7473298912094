//! Is every constraint checked that the source has checked?
//!
//! Foreign keys are made unchecked, and checked behind that with many connections. So a restore must not end with one that
//! is NOT VALID here and isn't in the source. The catalog says which constraints aren't checked; the statements of the set
//! say which ones are so in the source. Deciding is pure ([`unproved`]).

use std::collections::{BTreeMap, BTreeSet};

use crate::Error;
use crate::client::{Connection, Row};
use crate::quote::qualified;
use crate::schema::toc::Entry;
use seawall_archive::compare::Name as Named;

/// A constraint, by the names that the catalog has.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Constraint {
    pub(crate) schema: String,
    pub(crate) table: String,
    pub(crate) name: String,
}

impl Constraint {
    /// As messages call it.
    pub(crate) fn shown(&self) -> String {
        format!("constraint {} of {}", self.name, qualified(&self.schema, &self.table))
    }
}

/// A constraint that isn't checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unchecked {
    pub(crate) constraint: Constraint,
    /// Whether it is a foreign key that no other one has made for a partition: it can be checked by itself.
    pub(crate) is_whole_key: bool,
    /// Those that it comes from: of the partitioned table, and of the tables from which its table inherits.
    pub(crate) from: BTreeSet<Constraint>,
}

/// Constraints of relations that aren't checked, each with itself and with all that it comes from. A foreign key of a
/// partition has the key of the whole as its parent; a CHECK and a NOT NULL are inherited by name. Tables of extensions
/// aren't made by us.
const UNCHECKED: &str = "
WITH RECURSIVE up (oid, of) AS (
  SELECT k.oid, k.oid FROM pg_catalog.pg_constraint k
  WHERE NOT k.convalidated AND k.conrelid <> 0 AND k.contype IN ('f', 'c', 'n')
    AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass
                    AND d.objid = k.conrelid AND d.deptype = 'e')
  UNION
  SELECT up.oid, above.oid FROM up JOIN pg_catalog.pg_constraint k ON k.oid = up.of CROSS JOIN LATERAL (
    SELECT k.conparentid AS oid WHERE k.conparentid <> 0
    UNION ALL
    SELECT p.oid FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_constraint p
      ON p.conrelid = i.inhparent AND p.contype = k.contype AND p.conname = k.conname
    WHERE i.inhrelid = k.conrelid AND k.contype <> 'f' AND k.coninhcount > 0) above)
SELECT up.oid, n.nspname, c.relname, k.conname, up.oid = up.of, k.contype = 'f' AND k.conparentid = 0
FROM up JOIN pg_catalog.pg_constraint k ON k.oid = up.of JOIN pg_catalog.pg_class c ON c.oid = k.conrelid
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace ORDER BY n.nspname, c.relname, k.conname, up.oid";

/// The constraints that aren't checked here and are in the source, of everything or of the `chosen` tables.
pub(crate) async fn still_unproved(
    connection: &mut Connection,
    entries: &[Entry],
    chosen: Option<&BTreeSet<Named>>,
) -> Result<Vec<Unchecked>, Error> {
    let rows = connection.query(UNCHECKED).await?;
    Ok(unproved(unchecked(&rows), &left_so(entries), chosen))
}

/// Refuses to end a restore with a constraint that the source has checked and that isn't checked here.
pub(crate) async fn refuse_unproved(
    connection: &mut Connection,
    entries: &[Entry],
    chosen: Option<&BTreeSet<Named>>,
) -> Result<(), Error> {
    match still_unproved(connection, entries, chosen).await?.first() {
        None => Ok(()),
        Some(one) => Err(Error::Different {
            object: one.constraint.shown(),
            cause: "it is checked in the source, and is NOT VALID here".to_owned(),
        }),
    }
}

fn unchecked(rows: &[Row]) -> Vec<Unchecked> {
    let constraint = |row: &Row| {
        let [schema, table, name] = [1, 2, 3].map(|column| row.text(column).to_owned());
        Constraint { schema, table, name }
    };
    let mut above: BTreeMap<&str, BTreeSet<Constraint>> = BTreeMap::new();
    for row in rows.iter().filter(|row| !row.flag(4)) {
        above.entry(row.text(0)).or_default().insert(constraint(row));
    }
    let own = rows.iter().filter(|row| row.flag(4));
    own.map(|row| Unchecked {
        constraint: constraint(row),
        is_whole_key: row.flag(5),
        from: above.remove(row.text(0)).unwrap_or_default(),
    })
    .collect()
}

/// Those that the source has checked: neither they nor what they come from are `left_so` there.
fn unproved(
    unchecked: Vec<Unchecked>,
    left_so: &BTreeSet<Constraint>,
    chosen: Option<&BTreeSet<Named>>,
) -> Vec<Unchecked> {
    let is_ours =
        |one: &Constraint| chosen.is_none_or(|tables| tables.contains(&(one.schema.clone(), one.table.clone())));
    let is_so_there = |one: &Unchecked| left_so.contains(&one.constraint) || !one.from.is_disjoint(left_so);
    unchecked.into_iter().filter(|one| is_ours(&one.constraint) && !is_so_there(one)).collect()
}

/// The constraints that aren't checked in the source.
fn left_so(entries: &[Entry]) -> BTreeSet<Constraint> {
    let is_so = |entry: &&Entry| is_left_unchecked(&entry.statement);
    entries.iter().filter(is_so).filter_map(|entry| constraint(&entry.statement)).collect()
}

/// Whether a statement makes a constraint that stays unchecked.
pub(crate) fn is_left_unchecked(statement: &str) -> bool {
    let Some(plain) = statement.trim_end().strip_suffix(';') else { return false };
    [" NOT VALID", " NOT ENFORCED"].iter().any(|words| plain.ends_with(words))
}

/// The constraint that a statement of `pg_dump` adds to a table. An entry's tag doesn't tell: it is the table's name and the
/// constraint's with a blank between them, and both may have blanks.
pub(crate) fn constraint(statement: &str) -> Option<Constraint> {
    let rest = statement.trim_start().strip_prefix("ALTER ")?;
    let rest = rest.strip_prefix("FOREIGN ").unwrap_or(rest).strip_prefix("TABLE ")?;
    let (schema, rest) = name(rest.strip_prefix("ONLY ").unwrap_or(rest))?;
    let (table, rest) = name(rest.strip_prefix('.')?)?;
    let (name, rest) = name(rest.trim_start().strip_prefix("ADD CONSTRAINT ")?)?;
    rest.starts_with(char::is_whitespace).then_some(Constraint { schema, table, name })
}

/// The name at the beginning of a text, without its quotes, and what follows it.
fn name(text: &str) -> Option<(String, &str)> {
    let Some(mut quoted) = text.strip_prefix('"') else {
        let end = text.find(|c: char| c == '.' || c.is_whitespace())?;
        return (end > 0).then(|| (text[..end].to_owned(), &text[end..]));
    };
    let mut name = String::new();
    loop {
        let (part, rest) = quoted.split_once('"')?;
        name.push_str(part);
        // Two are one within.
        match rest.strip_prefix('"') {
            Some(more) => (name, quoted) = (name + "\"", more),
            None => return (!name.is_empty()).then_some((name, rest)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::toc::Section;

    fn named(schema: &str, table: &str, name: &str) -> Constraint {
        Constraint { schema: schema.into(), table: table.into(), name: name.into() }
    }

    #[test]
    fn the_constraint_of_a_statement() {
        for (statement, expected) in [
            (
                "ALTER TABLE ONLY s.a\n    ADD CONSTRAINT \"b c\" FOREIGN KEY (x) REFERENCES s.\"a b\"(x);\n",
                Some(("s", "a", "b c")),
            ),
            (
                "ALTER TABLE s.\"a b\"\n    ADD CONSTRAINT c FOREIGN KEY (x) REFERENCES s.a(x);\n",
                Some(("s", "a b", "c")),
            ),
            (
                "ALTER TABLE \"s.t\".\"a\"\"b.c\"\n    ADD CONSTRAINT \"\"\"\n.\" CHECK ((x > 0)) NOT VALID;",
                Some(("s.t", "a\"b.c", "\"\n.")),
            ),
            ("ALTER FOREIGN TABLE s.t\n    ADD CONSTRAINT c CHECK (x) NOT VALID;", Some(("s", "t", "c"))),
            (
                "ALTER TABLE s.t\n    ADD CONSTRAINT \" ADD CONSTRAINT \" NOT NULL x NOT VALID;",
                Some(("s", "t", " ADD CONSTRAINT ")),
            ),
            ("ALTER DOMAIN s.d\n    ADD CONSTRAINT c CHECK (x) NOT VALID;", None),
            ("ALTER TABLE ONLY t\n    ADD CONSTRAINT c CHECK (x);", None),
            ("ALTER TABLE ONLY s.\"t\n    ADD CONSTRAINT c CHECK (x);", None),
            ("ALTER TABLE ONLY s.t ALTER COLUMN x SET NOT NULL;", None),
            ("ALTER TABLE ONLY s.t\n    ADD CONSTRAINT c", None),
            ("CREATE INDEX a ON s.t USING btree (x);", None),
            ("", None),
        ] {
            let expected = expected.map(|(schema, table, name)| named(schema, table, name));
            assert_eq!(constraint(statement), expected, "{statement}");
        }
    }

    #[test]
    fn what_stays_unchecked_says_so_at_its_end() {
        for (statement, is_so) in [
            ("ALTER … (id) NOT VALID;\n", true),
            ("ALTER … (id) NOT ENFORCED;\n", true),
            ("ALTER … (id);\n", false),
            ("ALTER … CHECK ((a <> ' NOT VALID'));\n", false),
            ("", false),
        ] {
            assert_eq!(is_left_unchecked(statement), is_so, "{statement}");
        }
    }

    #[test]
    fn what_the_source_has_checked_must_be_checked() {
        let entry = |statement: &str| Entry {
            id: 1,
            kind: String::new(),
            tag: String::new(),
            statement: statement.into(),
            schema: String::new(),
            tablespace: String::new(),
            owner: String::new(),
            section: Section::After,
            needs: Vec::new(),
        };
        let entries = [
            entry("ALTER TABLE s.parent\n    ADD CONSTRAINT open CHECK ((a > 0)) NOT VALID;\n"),
            entry("ALTER TABLE ONLY s.a\n    ADD CONSTRAINT \"b c\" FOREIGN KEY (x) REFERENCES s.\"a b\"(x);\n"),
        ];
        let one = |table: &str, name: &str, from: &[(&str, &str)]| Unchecked {
            constraint: named("s", table, name),
            is_whole_key: false,
            from: from.iter().map(|(table, name)| named("s", table, name)).collect(),
        };
        let tables: BTreeSet<Named> = [("s".to_owned(), "a".to_owned())].into();
        for (found, chosen, ours) in [
            (one("parent", "open", &[]), None, false),
            (one("child", "open", &[("parent", "open")]), None, false),
            (one("grandchild", "open", &[("child", "open"), ("parent", "open")]), None, false),
            (one("child", "open", &[]), None, true),
            (one("parent", "other", &[]), None, true),
            (one("a", "b c", &[]), None, true),
            (one("a", "b c", &[]), Some(&tables), true),
            (one("not chosen", "b c", &[]), Some(&tables), false),
            (one("part", "b c 1", &[("a", "b c")]), None, true),
        ] {
            let left = unproved(vec![found.clone()], &left_so(&entries), chosen);
            assert_eq!(!left.is_empty(), ours, "{found:?}");
        }
    }
}
