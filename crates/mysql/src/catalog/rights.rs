//! Which rights does our account lack for a backup? Checked before it begins, so that all of them are named at once, with the
//! statement that grants them. Without EVENT, TRIGGER and SHOW VIEW the server shows no trace of some objects, and a set would
//! lack them without a word.

use std::collections::BTreeSet;

use seawall_archive::preflight::Lack;

use crate::Error;
use crate::catalog::facts::Facts;
use crate::catalog::grants::Rights;
use crate::client::{Connection, quote};

/// The rights on everything in a database without which it can't be read whole.
const NEEDED: [&str; 4] = ["SELECT", "SHOW VIEW", "TRIGGER", "EVENT"];

/// The account of a connection, and its rights.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Account {
    /// As the server names it: `u@%`.
    pub(crate) name: String,
    pub(crate) rights: Rights,
}

impl Account {
    /// Asks the server.
    pub(crate) async fn look(connection: &mut Connection) -> Result<Self, Error> {
        let name = connection.one("SELECT CURRENT_USER()").await?.text(0).to_owned();
        let mut rows = connection.query("SHOW GRANTS").await?;
        let server_has_roles = connection.version >= 80_000;
        if server_has_roles && connection.flavour != crate::client::Flavour::MariaDb {
            // The server quotes these names itself. MariaDB tells the rights of active roles unasked.
            let roles = connection.one("SELECT CURRENT_ROLE()").await?.text(0).to_owned();
            if !matches!(&*roles, "" | "NONE") {
                rows = connection.query(&format!("SHOW GRANTS FOR CURRENT_USER() USING {roles}")).await?;
            }
        }
        let rights = Rights::of(rows.iter().map(|row| row.text(0)));
        Ok(Self { name, rights })
    }

    /// As a statement takes it.
    fn sql(&self) -> String {
        let (user, host) = self.name.rsplit_once('@').unwrap_or((&self.name, "%"));
        format!("{}@{}", quote::name(user), quote::name(host))
    }
}

/// What the account lacks to read these databases; all of a server, where it is one. Pure.
pub(crate) fn lacks(facts: &Facts, account: &Account, databases: &[String], whole: bool) -> Vec<Lack> {
    let rights = &account.rights;
    let to = account.sql();
    let mut lacks = Vec::new();
    let mut lack = |privileges: &[&str], on: String, purpose: &str| {
        let cause = format!("{} lacks {} on {on}{purpose}", account.name, privileges.join(", "));
        lacks.push(Lack::new(cause, format!("GRANT {} ON {on} TO {to};", privileges.join(", "))));
    };
    if whole {
        let missing: Vec<&str> = NEEDED.into_iter().filter(|right| !rights.everywhere(right)).collect();
        if !missing.is_empty() {
            lack(&missing, "*.*".to_owned(), "");
        }
        let system = ["SELECT"].into_iter().filter(|right| !rights.in_database(right, "mysql"));
        if !missing.contains(&"SELECT") && system.count() > 0 {
            lack(&["SELECT"], "mysql.*".to_owned(), ", which tells users and their rights");
        }
    } else {
        for database in databases {
            let missing: Vec<&str> = NEEDED.into_iter().filter(|right| !rights.in_database(right, database)).collect();
            if !missing.is_empty() {
                // A name in GRANT is a pattern.
                let pattern = database.replace('\\', "\\\\").replace('_', "\\_").replace('%', "\\%");
                lack(&missing, format!("{}.*", quote::name(&pattern)), "");
            }
        }
    }
    let shows_routines = match (facts.has_show_routine(), facts.mariadb) {
        (true, _) => rights.everywhere("SHOW_ROUTINE") || rights.everywhere("SELECT"),
        (false, true) => rights.on_table("SELECT", "mysql", "proc"),
        (false, false) => rights.everywhere("SELECT") || rights.on_table("SELECT", "mysql", "proc"),
    };
    if !shows_routines {
        let purpose = ", which shows the bodies of routines";
        match (facts.has_show_routine(), facts.mariadb || facts.server.version < 80_000) {
            (true, _) => lack(&["SHOW_ROUTINE"], "*.*".to_owned(), purpose),
            (false, true) => lack(&["SELECT"], quote::qualified("mysql", "proc"), purpose),
            (false, false) => lack(&["SELECT"], "*.*".to_owned(), purpose),
        }
    }
    let mut seen = BTreeSet::new();
    lacks.retain(|lack: &Lack| seen.insert(lack.mend.clone()));
    lacks
}

/// Refuses a source of which something isn't seen.
pub(crate) fn refuse(object: &str, lacks: &[Lack]) -> Result<(), Error> {
    let Some((cause, next)) = Lack::told(lacks) else { return Ok(()) };
    Err(Error::Denied { object: object.to_owned(), cause, next })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detail::ServerFacts;

    fn facts(mariadb: bool, version: u32) -> Facts {
        Facts { server: ServerFacts { version, ..ServerFacts::default() }, mariadb, ..Facts::default() }
    }

    fn mends(facts: &Facts, grants: &[&str], databases: &[&str], whole: bool) -> Vec<String> {
        let account = Account { name: "u`x@%".into(), rights: Rights::of(grants.iter().copied()) };
        let databases: Vec<String> = databases.iter().map(|name| (*name).to_owned()).collect();
        lacks(facts, &account, &databases, whole).into_iter().map(|lack| lack.mend).collect()
    }

    #[test]
    fn everything_that_is_missing_is_named_with_its_grant() {
        let (maria, mysql) = (facts(true, 101_106), facts(false, 80_036));
        let one = ["GRANT SELECT, TRIGGER ON `shop`.* TO `u`@`%`", "GRANT SELECT ON `mysql`.`proc` TO `u`@`%`"];
        assert_eq!(mends(&maria, &one, &["shop"], false), ["GRANT SHOW VIEW, EVENT ON `shop`.* TO `u``x`@`%`;"]);
        assert_eq!(
            mends(&maria, &["GRANT USAGE ON *.* TO `u`@`%`"], &["a_b%"], false),
            [
                "GRANT SELECT, SHOW VIEW, TRIGGER, EVENT ON `a\\_b\\%`.* TO `u``x`@`%`;",
                "GRANT SELECT ON `mysql`.`proc` TO `u``x`@`%`;"
            ]
        );
        let all = ["GRANT SELECT, SHOW VIEW, TRIGGER, EVENT ON *.* TO `u`@`%`"];
        assert!(mends(&maria, &all, &["a", "b"], true).is_empty());
        assert!(mends(&mysql, &all, &["a", "b"], true).is_empty());
        assert!(mends(&maria, &["GRANT ALL PRIVILEGES ON *.* TO `u`@`%`"], &["a"], false).is_empty());
        let of_one = ["GRANT SELECT, SHOW VIEW, TRIGGER, EVENT ON `a`.* TO `u`@`%`"];
        assert_eq!(mends(&mysql, &of_one, &["a"], false), ["GRANT SHOW_ROUTINE ON *.* TO `u``x`@`%`;"]);
        assert_eq!(
            mends(&mysql, &of_one, &["a"], true),
            [
                "GRANT SELECT, SHOW VIEW, TRIGGER, EVENT ON *.* TO `u``x`@`%`;",
                "GRANT SHOW_ROUTINE ON *.* TO `u``x`@`%`;"
            ]
        );
    }
}
