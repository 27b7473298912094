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
    /// Servers that tables of other servers are read from, by name. Their passwords are in the statements.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<ServerStatement>,
    /// Plugins that were installed by a statement, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plugins: Vec<Plugin>,
    /// How many time zones the server knew by name.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub zones: u64,
}

/// For serde, which hands over a reference.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A server that tables of other servers are read from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerStatement {
    /// Its name.
    pub name: String,
    /// CREATE SERVER.
    pub create: Sql,
}

/// A plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plugin {
    /// Its name.
    pub name: String,
    /// The library's file.
    pub library: String,
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
    let libraries = rows.iter().map(library).collect();
    let sql = "SELECT server_name, wrapper, host, db, username, password, port, socket, owner FROM mysql.servers ORDER BY server_name";
    let servers = connection.query(sql).await?.iter().map(server).collect();
    let rows = connection.query("SELECT name, dl FROM mysql.plugin ORDER BY name").await?;
    let plugin = |row: &Row| Plugin { name: row.text(0).to_owned(), library: row.text(1).to_owned() };
    let plugins = rows.iter().map(plugin).collect();
    let zones = connection.one("SELECT COUNT(*) FROM mysql.time_zone_name").await?.number(0);
    Ok(Globals { accounts, libraries, servers, plugins, zones })
}

/// The statement that makes a server of `mysql.servers`: neither family tells it in each version.
fn server(row: &Row) -> ServerStatement {
    let name = row.text(0);
    let mut options = Vec::new();
    for (place, option) in [(2, "HOST"), (3, "DATABASE"), (4, "USER"), (5, "PASSWORD"), (7, "SOCKET"), (8, "OWNER")] {
        if !row.text(place).is_empty() {
            options.push(format!("{option} {}", literal(row.text(place))));
        }
    }
    if row.number(6) > 0 || options.is_empty() {
        options.push(format!("PORT {}", row.number(6)));
    }
    let wrapper = quote::name(row.text(1));
    let create =
        format!("CREATE SERVER {} FOREIGN DATA WRAPPER {wrapper} OPTIONS ({})", quote::name(name), options.join(", "));
    ServerStatement { name: name.to_owned(), create: Sql::new(create) }
}

/// A text in quotes: this statement takes no other form.
fn literal(value: &str) -> String {
    format!("'{}'", value.replace('\\', "\\\\").replace('\'', "''"))
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
