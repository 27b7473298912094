//! What a statement of `pg_dump` is about: its table, the two steps in which it can be made, and the index that must be
//! made before it. Pure.

use std::collections::BTreeMap;

use crate::schema::toc::{Entry, Heavy};

/// A key as an index, which others of its table can be made beside, and a constraint that takes it over at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TwoSteps {
    pub(super) index: String,
    pub(super) constraint: String,
}

/// How a plain primary key or unique constraint is made in two steps; `None` for anything else.
pub(super) fn two_steps(entry: &Entry) -> Option<TwoSteps> {
    let name = table(entry)?;
    let rest = entry.statement.trim_start().strip_prefix("ALTER TABLE ONLY ")?.strip_prefix(name)?;
    let rest = rest.trim_start().strip_prefix("ADD CONSTRAINT ")?;
    let (constraint, rest) = rest.split_at(word(rest)?);
    let rest = rest.trim_start();
    let (kind, columns) =
        ["PRIMARY KEY ", "UNIQUE "].iter().find_map(|kind| Some((*kind, rest.strip_prefix(kind)?)))?;
    let columns = columns.trim_end().strip_suffix(';')?;
    // One list of columns and nothing behind it: neither INCLUDE nor DEFERRABLE nor a second statement.
    let mut quoted = false;
    let closing = columns.find(|c: char| {
        quoted ^= c == '"';
        !quoted && c == ')'
    })?;
    let plain = columns.starts_with('(') && closing + 1 == columns.len() && !columns.ends_with(" WITHOUT OVERLAPS)");
    plain.then(|| TwoSteps {
        index: format!("CREATE UNIQUE INDEX {constraint} ON {name} USING btree {columns}"),
        constraint: format!("ALTER TABLE ONLY {name} ADD CONSTRAINT {constraint} {kind}USING INDEX {constraint}"),
    })
}

/// Where the name at the beginning of `text` ends.
fn word(text: &str) -> Option<usize> {
    let mut quoted = false;
    text.find(|c: char| {
        quoted ^= c == '"';
        !quoted && c.is_whitespace()
    })
}

/// The table that a statement of `pg_dump` is about: `CREATE INDEX … ON [ONLY] table USING …`, `ALTER TABLE ONLY table`.
/// Only to keep statements from waiting for each other: where it is wrong they do wait.
pub(super) fn table(entry: &Entry) -> Option<&str> {
    let statement = entry.statement.trim_start();
    let rest = match statement.strip_prefix("ALTER TABLE ") {
        Some(rest) => rest,
        None => statement.split_once(" ON ")?.1,
    };
    let rest = rest.strip_prefix("ONLY ").unwrap_or(rest);
    Some(&rest[..word(rest)?])
}

/// For each entry the one before it, if there is one, that makes another unique index of the same columns. A foreign key
/// depends on the first that was made of those, so that they are made in the order in which `pg_dump` has them.
pub(super) fn rivals(entries: &[(&Entry, Heavy)]) -> Vec<Option<u32>> {
    let mut last = BTreeMap::new();
    let mut rivals = Vec::with_capacity(entries.len());
    for (entry, _) in entries {
        let columns = table(entry).zip(unique_columns(&entry.statement));
        rivals.push(columns.and_then(|columns| last.insert(columns, entry.id)));
    }
    rivals
}

/// The columns of a unique index or key, in the order of their letters.
fn unique_columns(statement: &str) -> Option<Vec<&str>> {
    let words = ["PRIMARY KEY (", "UNIQUE (", "UNIQUE NULLS NOT DISTINCT ("];
    let list = match statement.trim_start().strip_prefix("CREATE UNIQUE INDEX ") {
        Some(rest) => rest.split_once(" USING ")?.1.split_once('(')?.1,
        None => words.iter().find_map(|word| Some(statement.split_once(word)?.1))?,
    };
    let mut columns: Vec<&str> = list.split_once(')')?.0.split(", ").collect();
    columns.sort_unstable();
    Some(columns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::toc::Section;

    fn entry(statement: &str) -> Entry {
        Entry {
            id: 1,
            kind: "INDEX".into(),
            tag: String::new(),
            statement: statement.into(),
            schema: String::new(),
            tablespace: String::new(),
            owner: String::new(),
            section: Section::After,
            needs: Vec::new(),
        }
    }

    #[test]
    fn the_table_of_a_statement() {
        for (statement, name) in [
            ("CREATE INDEX a ON public.orders USING btree (at);\n", Some("public.orders")),
            ("CREATE UNIQUE INDEX a ON ONLY public.\"my orders\" USING btree (at);", Some("public.\"my orders\"")),
            ("ALTER TABLE ONLY public.orders\n    ADD CONSTRAINT a PRIMARY KEY (id);\n", Some("public.orders")),
            ("ALTER TABLE public.\"a\"\"b c\" ADD x;", Some("public.\"a\"\"b c\"")),
            ("SELECT 1;", None),
        ] {
            assert_eq!(table(&entry(statement)), name, "{statement}");
        }
    }

    #[test]
    fn plain_keys_are_made_of_indexes() {
        let made =
            two_steps(&entry("ALTER TABLE ONLY s.\"my t\"\n    ADD CONSTRAINT \"a b\" PRIMARY KEY (id, \"x)\");\n"));
        let expected = TwoSteps {
            index: "CREATE UNIQUE INDEX \"a b\" ON s.\"my t\" USING btree (id, \"x)\")".into(),
            constraint: "ALTER TABLE ONLY s.\"my t\" ADD CONSTRAINT \"a b\" PRIMARY KEY USING INDEX \"a b\"".into(),
        };
        assert_eq!(made, Some(expected));
        assert!(two_steps(&entry("ALTER TABLE ONLY s.t\n    ADD CONSTRAINT a UNIQUE (b);\n")).is_some());
        for other in [
            "ALTER TABLE ONLY s.t\n    ADD CONSTRAINT a PRIMARY KEY (b) INCLUDE (c);\n",
            "ALTER TABLE ONLY s.t\n    ADD CONSTRAINT a UNIQUE (b) DEFERRABLE INITIALLY DEFERRED;\n",
            "ALTER TABLE ONLY s.t\n    ADD CONSTRAINT a UNIQUE NULLS NOT DISTINCT (b);\n",
            "ALTER TABLE ONLY s.t\n    ADD CONSTRAINT a PRIMARY KEY (b);\n\nALTER TABLE s.t CLUSTER ON a;\n",
            "ALTER TABLE ONLY s.t\n    ADD CONSTRAINT a EXCLUDE USING gist (b WITH =);\n",
            "ALTER TABLE ONLY s.t\n    ADD CONSTRAINT a PRIMARY KEY (b, c WITHOUT OVERLAPS);\n",
        ] {
            assert_eq!(two_steps(&entry(other)), None, "{other}");
        }
    }

    #[test]
    fn unique_indexes_of_the_same_columns_are_made_in_their_order() {
        let made = [
            (1, "ALTER TABLE ONLY s.t\n    ADD CONSTRAINT a PRIMARY KEY (at, id);\n"),
            (2, "CREATE UNIQUE INDEX b ON ONLY s.t USING btree (id, at);"),
            (3, "CREATE UNIQUE INDEX c ON s.other USING btree (id, at);"),
            (4, "CREATE INDEX d ON s.t USING btree (id, at);"),
            (5, "CREATE UNIQUE INDEX e ON s.t USING btree (at, id) INCLUDE (c);"),
            (6, "ALTER TABLE ONLY s.t\n    ADD CONSTRAINT f UNIQUE (at);\n"),
        ];
        let entries = made.map(|(id, statement)| Entry { id, ..entry(statement) });
        let entries: Vec<_> = entries.iter().map(|entry| (entry, Heavy::Index)).collect();
        assert_eq!(rivals(&entries), [None, Some(1), None, None, Some(2), None]);
    }
}
