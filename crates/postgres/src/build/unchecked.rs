//! Foreign keys that are made unchecked at first: which ones can be, and which of them the later check finds again. Pure.

use crate::client::Row;
use crate::schema::checked::{self, Constraint};

/// The foreign keys that this transaction has made, and whether each was made for a partition.
pub(super) const KEYS_OF_THIS: &str = "SELECT n.nspname, c.relname, k.conname, k.conparentid <> 0 FROM pg_catalog.pg_constraint k \
     JOIN pg_catalog.pg_class c ON c.oid = k.conrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
     WHERE k.contype = 'f' AND k.xmin = pg_catalog.pg_current_xact_id()::pg_catalog.xid";

/// The foreign keys that a transaction has made, and whether each was made for a partition.
pub(super) fn made_keys(rows: &[Row]) -> Vec<(Constraint, bool)> {
    let key = |row: &Row| {
        let [schema, table, name] = [0, 1, 2].map(|column| row.text(column).to_owned());
        (Constraint { schema, table, name }, row.flag(3))
    };
    rows.iter().map(key).collect()
}

/// Whether the check of an unchecked key that a statement has `made` can be put off: it is the one that the statement was
/// read to make, so that it is found again, a resume included. Before version 18 it has none for partitions: only the whole
/// would be checked later.
pub(super) fn is_found_later(made: &[(Constraint, bool)], read: Option<Constraint>, version: u32) -> bool {
    let mut whole = made.iter().filter(|(_, of_a_partition)| !of_a_partition).map(|(key, _)| key);
    let is_it = whole.next().is_some_and(|key| read.is_some_and(|read| read == *key)) && whole.next().is_none();
    is_it && (version >= 180_000 || made.len() == 1)
}

/// The table that a foreign key refers to.
pub(super) fn referred_to(statement: &str) -> Option<&str> {
    let mut quoted = false;
    let is_outside = |(at, c): (usize, char)| {
        quoted ^= c == '"';
        (!quoted && statement[at..].starts_with(" REFERENCES ")).then_some(at + " REFERENCES ".len())
    };
    let rest = &statement[statement.char_indices().find_map(is_outside)?..];
    let mut quoted = false;
    let end = rest.find(|c: char| {
        quoted ^= c == '"';
        !quoted && c == '('
    })?;
    Some(&rest[..end])
}

/// The statement of a foreign key with its check put off; none where the source has it so.
pub(super) fn unchecked(statement: &str) -> Option<String> {
    let plain = statement.trim_end().strip_suffix(';')?;
    (!checked::is_left_unchecked(statement)).then(|| format!("{plain} NOT VALID"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_that_a_key_refers_to() {
        for (statement, table) in [
            ("ALTER TABLE ONLY s.t\n ADD CONSTRAINT a FOREIGN KEY (b) REFERENCES s.other(id);", Some("s.other")),
            (
                "ALTER TABLE ONLY s.t ADD CONSTRAINT \" REFERENCES x(\" FOREIGN KEY (b) REFERENCES \"s (\".t(id);",
                Some("\"s (\".t"),
            ),
            ("ALTER TABLE ONLY s.t ADD CONSTRAINT a CHECK (b);", None),
        ] {
            assert_eq!(referred_to(statement), table, "{statement}");
        }
    }

    #[test]
    fn the_check_of_a_key_is_put_off_only_where_the_key_is_found_again() {
        let key = |table: &str, name: &str| Constraint { schema: "s".into(), table: table.into(), name: name.into() };
        let (whole, other, part) = ((key("a", "b c"), false), (key("a b", "c"), false), (key("a1", "k"), true));
        for (made, read, version, later) in [
            (vec![whole.clone()], Some(key("a", "b c")), 150_000, true),
            (vec![whole.clone()], Some(key("a b", "c")), 150_000, false),
            (vec![whole.clone()], None, 150_000, false),
            (vec![whole.clone(), other.clone()], Some(key("a", "b c")), 180_000, false),
            (vec![part.clone(), whole.clone()], Some(key("a", "b c")), 180_000, true),
            (vec![part.clone(), whole.clone()], Some(key("a", "b c")), 170_000, false),
            (vec![part.clone()], Some(key("a1", "k")), 180_000, false),
            (vec![], Some(key("a", "b c")), 180_000, false),
        ] {
            assert_eq!(is_found_later(&made, read, version), later, "{made:?}");
        }
    }

    #[test]
    fn a_check_is_put_off_once() {
        assert_eq!(unchecked("ALTER … (id);\n").as_deref(), Some("ALTER … (id) NOT VALID"));
        assert_eq!(unchecked("ALTER … (id) NOT VALID;\n"), None);
        assert_eq!(unchecked("ALTER … (id) NOT ENFORCED;\n"), None);
    }
}
