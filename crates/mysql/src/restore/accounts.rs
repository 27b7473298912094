//! Users and roles of a whole server: those that aren't there are made, with their grants. Existing ones stay as they are, and are
//! named.

use std::collections::BTreeSet;

use crate::Error;
use crate::catalog::users::{AccountStatements, Globals};
use crate::client::Connection;
use crate::client::quote::{name, text};
use crate::client::tried::is_about_the_statement;

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

/// Looks which accounts are there.
pub(crate) async fn look<'a>(connection: &mut Connection, globals: &'a Globals) -> Result<Accounts<'a>, Error> {
    let rows = connection.query("SELECT user, host FROM mysql.user").await?;
    let there: BTreeSet<(&str, &str)> = rows.iter().map(|row| (row.text(0), row.text(1))).collect();
    let is_there = |account: &&AccountStatements| {
        account.create.is_none()
            || there.contains(&(account.name.as_str(), account.host.as_deref().unwrap_or_default()))
    };
    let (there, missing) = globals.accounts.iter().partition(is_there);
    Ok(Accounts { missing, there })
}

/// Makes accounts, and tells what the server refuses.
pub(crate) async fn make(
    connection: &mut Connection,
    accounts: &[&AccountStatements],
) -> Result<Vec<(String, String)>, Error> {
    let mut refused = Vec::new();
    for account in accounts {
        let Some(create) = &account.create else { continue };
        match connection.execute_bytes(create.bytes()).await {
            Ok(_) => {}
            Err(error) if is_about_the_statement(&error) => {
                refused.push((format!("account {}", shown(account)), error.cause()));
            }
            Err(error) => return Err(error.about(format!("account {}", shown(account)))),
        }
    }
    Ok(refused)
}

/// Gives accounts their rights, and tells what the server refuses. Rights on a table need the table.
pub(crate) async fn grant(
    connection: &mut Connection,
    accounts: &[&AccountStatements],
) -> Result<Vec<(String, String)>, Error> {
    let mut refused = Vec::new();
    for account in accounts {
        for grant in &account.grants {
            match connection.execute_bytes(grant.bytes()).await {
                Ok(_) => {}
                Err(error) if is_about_the_statement(&error) => {
                    refused.push((format!("a grant to {}", shown(account)), error.cause()));
                }
                Err(error) => return Err(error.about(format!("the grants of {}", shown(account)))),
            }
        }
    }
    Ok(refused)
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
