//! Was a partition exchanged with a table while both were read?
//!
//! `ALTER TABLE … EXCHANGE PARTITION` changes neither definition nor the moment of creation, and a snapshot reads the rows by their
//! new places: if one of the two was read before it and one behind it, rows are in the set twice, and others not at all. But
//! InnoDB gives each table and each partition a number, and an exchange exchanges the numbers.

use std::collections::BTreeMap;

use crate::Error;
use crate::catalog::facts::Facts;
use crate::client::Connection;
use crate::dump::position::is_refusal;

/// What is in which place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Places {
    /// InnoDB's name of each number.
    Numbers(BTreeMap<u64, String>),
    /// Without PROCESS the server tells only how many ALTER TABLE there were.
    Alters(u64),
}

/// What two looks say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing was exchanged.
    Same,
    /// What is in this place was in another one.
    Exchanged(String),
    /// Tables were altered, and it can't be seen how.
    Unknown,
}

impl Places {
    /// Asks the server.
    pub(crate) async fn look(connection: &mut Connection, facts: &Facts) -> Result<Self, Error> {
        let list = if facts.mariadb || facts.server.version < 80_000 { "innodb_sys_tables" } else { "innodb_tables" };
        match connection.query(&format!("SELECT table_id, name FROM information_schema.{list}")).await {
            Ok(rows) => Ok(Self::Numbers(rows.iter().map(|row| (row.number(0), row.lossy(1))).collect())),
            Err(error) if is_refusal(&error) => {
                let rows = connection.query("SHOW GLOBAL STATUS LIKE 'Com\\_alter\\_table'").await?;
                Ok(Self::Alters(rows.first().map(|row| row.number(1)).unwrap_or_default()))
            }
            Err(error) => Err(error),
        }
    }

    /// What came between this look and a later one. Pure.
    pub(crate) fn compare(&self, later: &Self) -> Verdict {
        let (before, after) = match (self, later) {
            (Self::Numbers(before), Self::Numbers(after)) => (before, after),
            (Self::Alters(before), Self::Alters(after)) if before == after => return Verdict::Same,
            _ => return Verdict::Unknown,
        };
        let is_partition = |name: &String| name.to_ascii_lowercase().contains("#p#");
        let moved = after.iter().find(|(number, name)| {
            let former = before.get(number).filter(|former| former != name);
            former.is_some_and(|former| is_partition(name) || is_partition(former))
        });
        moved.map_or(Verdict::Same, |(_, name)| Verdict::Exchanged(name.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exchange_is_seen_by_numbers_that_moved() {
        let numbers = |pairs: &[(u64, &str)]| {
            Places::Numbers(pairs.iter().map(|(number, name)| (*number, (*name).to_owned())).collect())
        };
        let before = numbers(&[(1, "d/t"), (2, "d/p#P#p0"), (3, "d/p#P#p1"), (4, "d/u")]);
        for (after, verdict) in [
            (before.clone(), Verdict::Same),
            (numbers(&[(2, "d/t"), (1, "d/p#P#p0"), (3, "d/p#P#p1")]), Verdict::Exchanged("d/p#P#p0".to_owned())),
            // Built anew, dropped and renamed: the server or `same` tells.
            (numbers(&[(9, "d/t"), (8, "d/p#P#p0")]), Verdict::Same),
            (numbers(&[(4, "d/t"), (1, "d/u"), (2, "d/p#P#p0")]), Verdict::Same),
            (Places::Alters(1), Verdict::Unknown),
        ] {
            assert_eq!(before.compare(&after), verdict, "{after:?}");
        }
        assert_eq!(Places::Alters(3).compare(&Places::Alters(3)), Verdict::Same);
        assert_eq!(Places::Alters(3).compare(&Places::Alters(4)), Verdict::Unknown);
    }
}
