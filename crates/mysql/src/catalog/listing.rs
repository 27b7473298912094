//! Which objects are there, and in which state? Compared before the snapshots and behind them: what changed in between would be in
//! the set in another state than its rows.

use std::collections::BTreeSet;

use crate::Error;
use crate::client::{Connection, quote};

/// What tells the state of an object, for each kind: a kind, names, and columns that change with it. `{}` is the database.
const QUESTIONS: [&str; 5] = [
    "SELECT table_schema, 'table', table_name, table_type, COALESCE(engine, ''), CASE WHEN table_type = 'SEQUENCE' THEN '' \
     ELSE COALESCE(create_time, '') END FROM information_schema.tables WHERE table_schema = {} AND table_type <> 'VIEW'",
    "SELECT table_schema, 'view', table_name, view_definition, definer, security_type, check_option \
     FROM information_schema.views WHERE table_schema = {}",
    "SELECT routine_schema, LOWER(routine_type), routine_name, definer, last_altered, sql_mode \
     FROM information_schema.routines WHERE routine_schema = {}",
    "SELECT trigger_schema, 'trigger', trigger_name, event_object_table, action_order, definer, created, action_statement \
     FROM information_schema.triggers WHERE trigger_schema = {}",
    "SELECT event_schema, 'event', event_name, definer, last_altered, status FROM information_schema.events \
     WHERE event_schema = {}",
];

/// The state of every object of some databases.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Listing(BTreeSet<Vec<Vec<u8>>>);

impl Listing {
    /// Asks the server.
    pub(crate) async fn look(connection: &mut Connection, databases: &[String]) -> Result<Self, Error> {
        let mut all = BTreeSet::new();
        for database in databases {
            for question in QUESTIONS {
                let sql = question.replace("{}", &quote::text(database));
                for row in connection.query(&sql).await?.iter().filter(|row| row.text(0) == database) {
                    all.insert((0..row.width()).map(|place| row.bytes(place).unwrap_or_default().to_vec()).collect());
                }
            }
        }
        Ok(Self(all))
    }

    /// When a table was created, as the server tells.
    pub(crate) fn created(&self, database: &str, table: &str) -> Option<&[u8]> {
        let names = [database, "table", table];
        let mut behind = self.0.range(names.map(|name| name.as_bytes().to_vec()).to_vec()..);
        let row = behind.next().filter(|row| row.iter().zip(names).all(|(found, name)| found == name.as_bytes()))?;
        row.get(5).map(Vec::as_slice)
    }

    /// The first object that is in another state there, for people.
    pub(crate) fn difference(&self, other: &Self) -> Option<String> {
        let first = self.0.symmetric_difference(&other.0).next()?;
        let word = |place: usize| {
            String::from_utf8_lossy(first.get(place).map(Vec::as_slice).unwrap_or_default()).into_owned()
        };
        Some(format!("{} {}.{}", word(1), word(0), word(2)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(rows: &[&[&str]]) -> Listing {
        let row = |row: &&[&str]| row.iter().map(|word| word.as_bytes().to_vec()).collect();
        Listing(rows.iter().map(row).collect())
    }

    #[test]
    fn tables_have_the_moment_of_their_creation() {
        let row = |name: &'static str, created: &'static str| ["shop", "table", name, "BASE TABLE", "InnoDB", created];
        let all = listing(&[&row("a", "1"), &row("ab", "2"), &["shop", "view", "a", "x", "y", "z"]]);
        assert_eq!((all.created("shop", "a"), all.created("shop", "ab")), (Some(&b"1"[..]), Some(&b"2"[..])));
        assert_eq!((all.created("shop", "aa"), all.created("sho", "a"), all.created("shop", "b")), (None, None, None));
    }

    #[test]
    fn what_differs_is_named() {
        let before = listing(&[&["shop", "table", "a", "1"], &["shop", "view", "v", "x"]]);
        assert_eq!(before.difference(&before), None);
        for (after, named) in [
            (listing(&[&["shop", "table", "a", "2"], &["shop", "view", "v", "x"]]), "table shop.a"),
            (listing(&[&["shop", "table", "a", "1"]]), "view shop.v"),
            (listing(&[]), "table shop.a"),
        ] {
            assert_eq!(before.difference(&after).as_deref(), Some(named));
            assert_eq!(after.difference(&before).as_deref(), Some(named));
        }
    }
}
