//! Users and roles of a whole server: those that aren't there are made, with their grants. Existing ones stay as they are, and are
//! named.
//!
//! A grant is given only to an account that is there. MariaDB would make an account out of a grant, and that account would have
//! no password.

use std::collections::BTreeSet;

use seawall_archive::preflight::Lack;

use crate::Error;
use crate::catalog::users::{AccountStatements, Globals};
use crate::client::quote::{name, text};
use crate::client::tried::is_about_the_statement;
use crate::client::{Connection, Flavour};
use crate::journal::Journal;
use crate::schema::words::words;

/// The mode in which MariaDB makes no account out of a grant.
const GRANTING: &str = "SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO,NO_AUTO_CREATE_USER'";

/// An account for people, and as objects name their definers: `user@host`.
pub(crate) fn shown(account: &AccountStatements) -> String {
    match &account.host {
        Some(host) => format!("{}@{host}", account.name),
        None => account.name.clone(),
    }
}

/// The accounts of a set, by whether the target has them.
pub(crate) struct Accounts<'a> {
    /// Those that the restore makes.
    pub(crate) missing: Vec<&'a AccountStatements>,
    /// Those that are there.
    pub(crate) there: Vec<&'a AccountStatements>,
}

/// The note that an account is this restore's.
fn note(account: &AccountStatements) -> String {
    format!("account {}", shown(account))
}

impl Accounts<'_> {
    /// Counts accounts that an earlier run of this restore has made as missing: they have no rights yet.
    pub(crate) fn are_of(&mut self, journal: &Journal) {
        let (ours, there): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.there).into_iter().partition(|account| journal.has(&note(account)));
        self.missing.extend(ours);
        self.there = there;
    }
}

/// The accounts that a server has, by name and host.
async fn present(connection: &mut Connection) -> Result<BTreeSet<(String, String)>, Error> {
    let rows = connection.query("SELECT user, host FROM mysql.user").await?;
    Ok(rows.iter().map(|row| (row.text(0).to_owned(), row.text(1).to_owned())).collect())
}

fn is_among(account: &AccountStatements, present: &BTreeSet<(String, String)>) -> bool {
    present.contains(&(account.name.clone(), account.host.clone().unwrap_or_default()))
}

/// Looks which accounts are there. What everybody may do counts as missing while the target lets everybody do nothing.
pub(crate) async fn look<'a>(connection: &mut Connection, globals: &'a Globals) -> Result<Accounts<'a>, Error> {
    let present = present(connection).await?;
    let mut accounts = Accounts { missing: Vec::new(), there: Vec::new() };
    for account in &globals.accounts {
        if account.create.is_some() {
            let list = if is_among(account, &present) { &mut accounts.there } else { &mut accounts.missing };
            list.push(account);
            continue;
        }
        let wanted: BTreeSet<Vec<u8>> = account.grants.iter().map(|grant| grant.bytes().to_vec()).collect();
        let there = match connection.query("SHOW GRANTS FOR PUBLIC").await {
            Ok(rows) => rows.iter().filter_map(|row| row.bytes(0)).map(<[u8]>::to_vec).collect(),
            Err(error) if error.server().is_some() => BTreeSet::new(),
            Err(error) => return Err(error),
        };
        if wanted.is_subset(&there) {
            continue;
        }
        let is_nothing = |grant: &Vec<u8>| grant.starts_with(b"GRANT USAGE ");
        let list = if there.iter().all(is_nothing) { &mut accounts.missing } else { &mut accounts.there };
        list.push(account);
    }
    Ok(accounts)
}

/// What the target lacks for rights that are taken away again in single databases: without it, accounts would get more rights than in
/// the source.
pub(crate) async fn lacks(connection: &mut Connection, accounts: &Accounts<'_>) -> Result<Option<Lack>, Error> {
    let takes_away =
        |account: &&&AccountStatements| account.grants.iter().any(|grant| grant.bytes().starts_with(b"REVOKE "));
    let Some(account) = accounts.missing.iter().find(takes_away) else { return Ok(None) };
    let sql = "SHOW GLOBAL VARIABLES WHERE Variable_name = 'partial_revokes'";
    if connection.query(sql).await?.iter().any(|row| row.flag(1)) {
        return Ok(None);
    }
    let cause =
        format!("{} has rights that are taken away in a database, and the target knows no such", shown(account));
    let mend = "SET GLOBAL partial_revokes = ON; (MySQL 8.0.16 or later, or restore without owners, with --no-owner)";
    Ok(Some(Lack::new(cause, mend)))
}

/// Makes accounts that aren't there, and tells what the server refuses. Before an account is made, the journal says so.
pub(crate) async fn make(
    connection: &mut Connection,
    mut journal: Option<&mut Journal>,
    accounts: &[&AccountStatements],
) -> Result<Vec<(String, String)>, Error> {
    let mut refused = Vec::new();
    let present = present(connection).await?;
    for account in accounts.iter().filter(|account| !is_among(account, &present)) {
        let Some(create) = &account.create else { continue };
        if let Some(journal) = journal.as_deref_mut().filter(|journal| !journal.has(&note(account))) {
            journal.note(connection, &note(account)).await?;
        }
        let create = apart(create.bytes()).0;
        match connection.execute_bytes(&create).await {
            Ok(_) => {}
            Err(error) if is_about_the_statement(&error) => {
                let cause = format!("{}; it isn't made, and gets no rights", error.cause());
                refused.push((format!("account {}", shown(account)), cause));
            }
            Err(error) => return Err(error.about(format!("account {}", shown(account)))),
        }
    }
    Ok(refused)
}

/// Gives accounts their rights, and tells what the server refuses. Rights on a table need the table, and a role that is active
/// at a login must have been granted.
pub(crate) async fn grant(
    connection: &mut Connection,
    accounts: &[&AccountStatements],
) -> Result<Vec<(String, String)>, Error> {
    let mut refused = Vec::new();
    if connection.flavour == Flavour::MariaDb {
        connection.execute(GRANTING).await?;
    }
    let present = present(connection).await?;
    for account in accounts.iter().filter(|account| account.create.is_none() || is_among(account, &present)) {
        let roles = account.create.as_ref().and_then(|create| apart(create.bytes()).1);
        let grants = account.grants.iter().map(|grant| ("a grant to", grant.bytes().to_vec()));
        for (what, sql) in grants.chain(roles.map(|roles| ("the default role of", roles))) {
            match connection.execute_bytes(&sql).await {
                Ok(_) => {}
                Err(error) if is_about_the_statement(&error) => {
                    refused.push((format!("{what} {}", shown(account)), error.cause()));
                }
                Err(error) => return Err(error.about(format!("the grants of {}", shown(account)))),
            }
        }
    }
    Ok(refused)
}

/// A `CREATE USER` without its default roles, and the statement that sets them later: MySQL takes them only when the roles are there.
/// Pure.
fn apart(create: &[u8]) -> (Vec<u8>, Option<Vec<u8>>) {
    let whole = (create.to_vec(), None);
    let words = words(create).unwrap_or_default();
    let is = |place: usize, wanted: &str| words.get(place).is_some_and(|word| word.is(wanted));
    if !(is(0, "CREATE") && is(1, "USER")) {
        return whole;
    }
    let Some(from) = (0..words.len()).find(|place| is(*place, "DEFAULT") && is(place + 1, "ROLE")) else {
        return whole;
    };
    let Some(to) = (from..words.len()).find(|place| is(*place, "REQUIRE")) else { return whole };
    // The account is all that stands before the way in which it logs in.
    let Some(account) = (0..from).find(|place| is(*place, "IDENTIFIED")).or(Some(from)) else { return whole };
    let part = |from: usize, to: usize| {
        let (from, to) = (words.get(from).map(|word| word.start), words.get(to).map(|word| word.start));
        from.zip(to).and_then(|(from, to)| create.get(from..to)).unwrap_or_default()
    };
    let before = [part(0, from), create.get(words.get(to).map_or(0, |word| word.start)..).unwrap_or_default()].concat();
    let roles = [b"ALTER USER ", part(2, account), b" ", part(from, to)].concat();
    (before, Some(roles.trim_ascii_end().to_vec()))
}

/// Makes the servers that tables of other servers are read from, and tells what the server refuses. One that is there stays.
pub(crate) async fn servers(
    connection: &mut Connection,
    globals: &Globals,
) -> Result<(Vec<(String, String)>, Vec<(String, String)>), Error> {
    let (mut refused, mut kept) = (Vec::new(), Vec::new());
    for server in &globals.servers {
        let shown = format!("server {}", server.name);
        let there = format!("SELECT 1 FROM mysql.servers WHERE server_name = {}", text(&server.name));
        if !connection.query(&there).await?.is_empty() {
            kept.push((shown, "it was there already, with its own settings".to_owned()));
            continue;
        }
        match connection.execute_bytes(server.create.bytes()).await {
            Ok(_) => {}
            Err(error) if is_about_the_statement(&error) => refused.push((shown, error.cause())),
            Err(error) => return Err(error.about(shown)),
        }
    }
    Ok((refused, kept))
}

/// What the source's server had beside its databases, and this one lacks: programs, and names of time zones. Nothing of that is
/// data of the source.
pub(crate) async fn doubts(connection: &mut Connection, globals: &Globals) -> Result<Vec<String>, Error> {
    let mut doubts = Vec::new();
    let rows = connection.query("SELECT plugin_name FROM information_schema.plugins").await?;
    let there: BTreeSet<String> = rows.iter().map(|row| row.text(0).to_ascii_lowercase()).collect();
    for plugin in globals.plugins.iter().filter(|plugin| !there.contains(&plugin.name.to_ascii_lowercase())) {
        doubts.push(format!(
            "the source had the plugin {}, and this server lacks it: INSTALL PLUGIN {} SONAME {}",
            plugin.name,
            name(&plugin.name),
            text(&plugin.library)
        ));
    }
    if globals.zones > 0 && connection.one("SELECT COUNT(*) FROM mysql.time_zone_name").await?.number(0) == 0 {
        doubts.push(format!(
            "the source knew {} time zones by name, and this server knows none: mysql_tzinfo_to_sql /usr/share/zoneinfo | mysql mysql",
            globals.zones
        ));
    }
    Ok(doubts)
}

/// Makes functions of shared libraries that aren't there, and tells what the server refuses: it needs the same library.
pub(crate) async fn libraries(connection: &mut Connection, globals: &Globals) -> Result<Vec<(String, String)>, Error> {
    let mut refused = Vec::new();
    for function in &globals.libraries {
        let there = format!("SELECT 1 FROM mysql.func WHERE name = {}", text(&function.name));
        if !connection.query(&there).await?.is_empty() {
            continue;
        }
        let aggregate = if function.aggregate { "AGGREGATE " } else { "" };
        let returns = match function.returns.as_str() {
            kind @ ("REAL" | "INTEGER" | "DECIMAL") => kind,
            _ => "STRING",
        };
        let sql = format!(
            "CREATE {aggregate}FUNCTION {} RETURNS {returns} SONAME {}",
            name(&function.name),
            text(&function.library)
        );
        match connection.execute(&sql).await {
            Ok(_) => {}
            Err(error) if is_about_the_statement(&error) => {
                refused.push((format!("function {} of a library", function.name), error.cause()));
            }
            Err(error) => return Err(error.about(format!("function {}", function.name))),
        }
    }
    Ok(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_roles_come_behind_the_roles() {
        for (create, before, roles) in [
            (
                "CREATE USER 'a'@'%' IDENTIFIED WITH 'x' AS 'DEFAULT ROLE' DEFAULT ROLE `r`@`%`,`z`@`%` REQUIRE NONE ACCOUNT LOCK",
                "CREATE USER 'a'@'%' IDENTIFIED WITH 'x' AS 'DEFAULT ROLE' REQUIRE NONE ACCOUNT LOCK",
                Some("ALTER USER 'a'@'%'  DEFAULT ROLE `r`@`%`,`z`@`%`"),
            ),
            (
                "CREATE USER `a`@`%` IDENTIFIED BY PASSWORD '*A' REQUIRE NONE",
                "CREATE USER `a`@`%` IDENTIFIED BY PASSWORD '*A' REQUIRE NONE",
                None,
            ),
            ("CREATE ROLE `default`", "CREATE ROLE `default`", None),
            ("CREATE USER 'a DEFAULT ROLE r", "CREATE USER 'a DEFAULT ROLE r", None),
        ] {
            let (found, later) = apart(create.as_bytes());
            assert_eq!(String::from_utf8_lossy(&found), before);
            assert_eq!(later.as_deref().map(String::from_utf8_lossy).as_deref(), roles);
        }
    }
}
