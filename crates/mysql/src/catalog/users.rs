//! Users, roles and their rights, in the server's own statements. System tables are only looked at for names.

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::catalog::facts::Facts;
use crate::client::{Connection, Row, quote};
use crate::detail::Sql;

/// Whether every server makes an account itself.
fn is_system(name: &str) -> bool {
    matches!(name.split_once('.'), Some(("mysql", "sys" | "session" | "infoschema") | ("mariadb", "sys")))
}

/// What belongs to a whole server and to none of its databases. The digests of passwords are in it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Globals {
    /// Roles first, then users, each by name.
    pub accounts: Vec<AccountStatements>,
    /// Functions of shared libraries, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub libraries: Vec<LibraryFunction>,
}

/// A user or a role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccountStatements {
    /// Its name; empty for the anonymous user.
    pub name: String,
    /// Its host. MariaDB's roles have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Whether it is one of MariaDB's roles. MySQL's roles are users that can't log in.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub role: bool,
    /// SHOW CREATE USER, or CREATE ROLE; nothing for PUBLIC, which every server has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create: Option<Sql>,
    /// SHOW GRANTS: privileges, dynamic ones too, roles, proxies, and with MariaDB the default role.
    pub grants: Vec<Sql>,
}

/// A function of a shared library, which the target's server needs too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LibraryFunction {
    /// Its name.
    pub name: String,
    /// The library's file.
    pub library: String,
    /// Whether it is an aggregate.
    pub aggregate: bool,
    /// What it returns: `STRING`, `REAL`, `INTEGER` or `DECIMAL`.
    pub returns: String,
}

/// The word for what a function of a library returns.
fn returns(number: u64) -> &'static str {
    match number {
        1 => "REAL",
        2 => "INTEGER",
        4 => "DECIMAL",
        _ => "STRING",
    }
}

fn statement(row: &Row) -> Sql {
    Sql::new(row.bytes(0).unwrap_or_default())
}

/// Reads all of them.
pub(crate) async fn read(connection: &mut Connection, facts: &Facts) -> Result<Globals, Error> {
    let sql = match facts.mariadb {
        true => "SELECT user, host, is_role = 'Y' FROM mysql.user ORDER BY is_role = 'Y' DESC, user, host",
        false => "SELECT user, host, 0 FROM mysql.user ORDER BY user, host",
    };
    let mut accounts = Vec::new();
    for row in connection.query(sql).await? {
        let (name, host, role) = (row.text(0), row.text(1), row.text(2) == "1");
        if is_system(name) {
            continue;
        }
        let (shown, create) = match role {
            true if name == "PUBLIC" => ("PUBLIC".to_owned(), None),
            true => (quote::name(name), Some(Sql::new(format!("CREATE ROLE {}", quote::name(name))))),
            false => {
                let shown = format!("{}@{}", quote::name(name), quote::name(host));
                let about = |error: Error| error.about(format!("user {name}@{host}"));
                let create = connection.one(&format!("SHOW CREATE USER {shown}")).await.map_err(about)?;
                (shown, Some(statement(&create)))
            }
        };
        let about = |error: Error| error.about(format!("the grants of {name}"));
        let grants = connection.query(&format!("SHOW GRANTS FOR {shown}")).await.map_err(about)?;
        accounts.push(AccountStatements {
            name: name.to_owned(),
            host: (!role).then(|| host.to_owned()),
            role,
            create,
            grants: grants.iter().map(statement).collect(),
        });
    }
    // The system tables of functions of libraries.
    let rows = connection.query("SELECT name, ret, dl, type = 'aggregate' FROM mysql.func ORDER BY name").await?;
    let library = |row: &Row| LibraryFunction {
        name: row.text(0).to_owned(),
        library: row.text(2).to_owned(),
        aggregate: row.text(3) == "1",
        returns: returns(row.number(1)).to_owned(),
    };
    Ok(Globals { accounts, libraries: rows.iter().map(library).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_of_the_server_itself() {
        for (name, expected) in [
            ("mysql.sys", true),
            ("mysql.infoschema", true),
            ("mariadb.sys", true),
            ("mysql.app", false),
            ("root", false),
            ("", false),
        ] {
            assert_eq!(is_system(name), expected, "{name}");
        }
        assert_eq!([0, 1, 2, 4, 9].map(returns), ["STRING", "REAL", "INTEGER", "DECIMAL", "STRING"]);
    }
}
