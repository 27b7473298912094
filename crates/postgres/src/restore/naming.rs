//! Databases get their names while something of them is still to be made, because it is bound to the name (`later.rs`).
//!
//! The databases that have the names are put aside under others in the same transaction, and dropped when nothing can fail
//! any more. What fails before takes all names back. So does the next restore behind a crash: each database that isn't
//! whole has the names in its journal.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::catalog::globals;
use crate::catalog::properties;
use crate::client::quote::{ident, literal};
use crate::client::{Connection, Target};
use crate::prove::proof_name::ProofName;
use crate::restore::journal::{self, NAMED};
use crate::restore::place;
use crate::restore::server;
use crate::restore::unfinished;
use crate::{Error, Properties, restore};

/// How often names are taken back from who is in a database again and again.
const TRIES: u32 = 20;

/// How long until a worker is looked for again.
const PAUSE: Duration = Duration::from_millis(250);

/// A database that was made, and the name that it gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pair {
    /// What it is called until then.
    pub(crate) made: String,
    pub(crate) name: String,
    /// Whether another database has the name.
    pub(crate) replaces: bool,
}

/// Notes in the journal of a database that isn't whole which names are about to be given. Other journals there are the set's.
pub(crate) async fn note(target: &Target, made: &str, schema: &str, pairs: &[Pair]) -> Result<(), Error> {
    let text = serde_json::to_string(pairs).map_err(|error| Error::Internal(format!("names: {error}")))?;
    let mut connection = Connection::open(&target.with_database(made)).await?;
    let note = format!(
        "BEGIN; DELETE FROM {schema}.journal WHERE pg_catalog.starts_with(step, {}); INSERT INTO {schema}.journal VALUES ({}); COMMIT",
        literal(NAMED),
        literal(&format!("{NAMED}{text}"))
    );
    connection.execute(&note).await?;
    connection.close().await;
    Ok(())
}

/// Gives all databases their names. Returns workers of extensions whose sessions were ended, because they were in the way.
pub(crate) async fn take(target: &Target, pairs: &[Pair]) -> Result<Vec<String>, Error> {
    let mut ended = Vec::new();
    for some in in_groups(pairs) {
        let mut connection = beside(target, &some).await?;
        let mut renames = String::new();
        for Pair { made, name, replaces } in &some {
            if *replaces {
                // An earlier restore may have come that far; what isn't known to be of no use stays.
                place::may_drop_replaced(&mut connection, target, made, name).await?;
                server::drop(&mut connection, &server::replaced(made)).await?;
                renames.push_str(&rename(name, &server::replaced(made)));
            }
            renames.push_str(&rename(made, name));
        }
        let renames = format!("BEGIN;\n{renames}COMMIT");
        let names: Vec<&str> = some.iter().flat_map(|pair| [pair.name.as_str(), pair.made.as_str()]).collect();
        let about = format!("databases {}", names.join(", "));
        if let Err(error) = connection.execute(&renames).await {
            connection.execute("ROLLBACK").await?;
            let workers = match error.sqlstate() {
                Some("55006") => end_workers(&mut connection, &names).await?,
                _ => Vec::new(),
            };
            if workers.is_empty() {
                return Err(error.about(about));
            }
            ended.extend(workers);
            connection.execute(&renames).await.map_err(|error| error.about(about))?;
        }
        connection.close().await;
    }
    Ok(ended)
}

/// Gives databases that are whole and have their names to their owners, and notes of those that they replace that nobody needs
/// them any more: in one transaction, so that one of the two is always the one that counts.
pub(crate) async fn open(target: &Target, named: &[(Pair, &Properties)], owners: bool) -> Result<(), Error> {
    let mut connection = globals::connect(target).await?;
    let mut all = String::new();
    for (pair, properties) in named {
        let is_open = place::is_open(&mut connection, &pair.name).await?;
        let last = properties::last(properties, &pair.name, owners, Some(is_open));
        if last.is_ascii() {
            all.push_str(&last);
        } else {
            restore::from_within(target, &pair.name, &last).await?;
        }
        if pair.replaces {
            all.push_str(&place::says_replaced(&pair.made));
        }
    }
    let done = connection.execute(&format!("BEGIN;\n{all}COMMIT")).await;
    connection.close().await;
    let names: Vec<&str> = named.iter().map(|(pair, _)| pair.name.as_str()).collect();
    done.map_err(|error| error.about(format!("databases {}", names.join(", "))))
}

/// Takes all names back: what was made is called as before, and so is what was put aside. Nothing of it may have happened.
pub(crate) async fn give_back(target: &Target, pairs: &[Pair]) -> Result<(), Error> {
    for some in in_groups(pairs) {
        let mut connection = beside(target, &some).await?;
        let mut tries = 0;
        loop {
            let rows = connection.query("SELECT datname FROM pg_catalog.pg_database").await?;
            let is_there = |name: &str| rows.iter().any(|row| row.text(0) == name);
            let (mut renames, mut ours) = (String::new(), Vec::new());
            for Pair { made, name, replaces } in &some {
                let is_named = is_there(name) && !is_there(made);
                let put_aside = server::replaced(made);
                let was_replaced = *replaces && is_there(&put_aside);
                // Without the other one aside it is the one that was there all along.
                if is_named && (was_replaced || !replaces) {
                    renames.push_str(&rename(name, made));
                    ours.push(name.as_str());
                }
                if was_replaced && (is_named || !is_there(name)) {
                    renames.push_str(&rename(&put_aside, name));
                }
            }
            if renames.is_empty() {
                break;
            }
            // Whoever came into a database that isn't whole has no business there.
            end_sessions(&mut connection, &ours).await?;
            let error = match connection.execute(&format!("BEGIN;\n{renames}COMMIT")).await {
                Ok(()) => break,
                Err(error) => error,
            };
            connection.execute("ROLLBACK").await?;
            tries += 1;
            if error.sqlstate() != Some("55006") || tries == TRIES {
                return Err(error.about(format!("databases {}", ours.join(", "))));
            }
        }
        connection.close().await;
    }
    Ok(())
}

/// Drops what was put aside.
pub(crate) async fn drop_replaced(target: &Target, pairs: &[Pair]) -> Result<(), Error> {
    let mut connection = globals::connect(target).await?;
    for pair in pairs.iter().filter(|pair| pair.replaces) {
        server::drop(&mut connection, &server::replaced(&pair.made)).await?;
    }
    connection.close().await;
    Ok(())
}

/// Takes the names back that a restore gave which was killed before all was made, if the database of `target` is of such a
/// one. Only `names` are touched.
pub(crate) async fn undo_left(target: &Target, names: &[&str]) -> Result<(), Error> {
    let Ok(mut connection) = globals::open_if_there(target).await? else { return Ok(()) };
    let mut pairs = Vec::new();
    // All of it was made, and it was killed before it gave the database to its owner.
    if let Some(there) = place::look_here(&mut connection, target).await?
        && let Some(made) = there.whole().filter(|made| *made != target.database)
    {
        let replaces = !place::look(&mut connection, target, &[&server::replaced(made)]).await?.is_empty();
        pairs.push(Pair { made: made.to_owned(), name: target.database.clone(), replaces });
    }
    // What an owner of the database may have written there says nothing.
    for schema in journal::trusted(&mut connection).await? {
        let noted = format!("SELECT step FROM {schema}.journal WHERE pg_catalog.starts_with(step, {})", literal(NAMED));
        for row in connection.query(&noted).await? {
            let noted: Option<Vec<Pair>> =
                row.text(0).strip_prefix(NAMED).and_then(|text| serde_json::from_str(text).ok());
            pairs.extend(noted.unwrap_or_default());
        }
    }
    connection.close().await;
    let is_ours =
        |made: &str| unfinished::is_one(made) || unfinished::may_be_of_before(made) || ProofName::of(made).is_some();
    pairs.retain(|pair| is_ours(&pair.made) && names.contains(&pair.name.as_str()));
    if !pairs.iter().any(|pair| pair.name == target.database) {
        return Ok(());
    }
    // A restore that is still under way gave these names, and isn't to lose them.
    for pair in &pairs {
        if let Ok(mut inside) = globals::open_if_there(&target.with_database(&pair.name)).await? {
            restore::be_alone(&mut inside).await?;
            inside.close().await;
        }
    }
    tracing::warn!(
        database = target.database,
        "an earlier restore was killed before it was whole: the names are taken back"
    );
    give_back(target, &pairs).await
}

/// Those of these workers that the server hasn't started again after some time.
pub(crate) async fn not_back(target: &Target, workers: &[String]) -> Result<Vec<String>, Error> {
    if workers.is_empty() {
        return Ok(Vec::new());
    }
    let mut connection = globals::connect(target).await?;
    let mut left = Vec::new();
    for _ in 0..TRIES {
        let rows = connection.query("SELECT backend_type FROM pg_catalog.pg_stat_activity").await?;
        left =
            workers.iter().filter(|worker| !rows.iter().any(|row| row.text(0) == worker.as_str())).cloned().collect();
        if left.is_empty() {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    connection.close().await;
    Ok(left)
}

/// Nobody renames the database that he is in, so that `template1` has a transaction of its own.
fn in_groups(pairs: &[Pair]) -> Vec<Vec<Pair>> {
    let (last, first): (Vec<Pair>, Vec<Pair>) = pairs.iter().cloned().partition(|pair| pair.name == "template1");
    [first, last].into_iter().filter(|some| !some.is_empty()).collect()
}

async fn beside(target: &Target, pairs: &[Pair]) -> Result<Connection, Error> {
    let aside: Vec<String> = pairs.iter().map(|pair| server::replaced(&pair.made)).collect();
    let names = pairs.iter().flat_map(|pair| [pair.made.as_str(), pair.name.as_str()]);
    let besides: Vec<&str> = names.chain(aside.iter().map(String::as_str)).collect();
    globals::connect_beside(target, &besides).await
}

fn rename(from: &str, to: &str) -> String {
    format!("ALTER DATABASE {} RENAME TO {};\n", ident(from), ident(to))
}

/// Sessions that belong to nobody's extension. What else has a type of its own is a worker of one, which never leaves.
const USUAL: &str = "'client backend', 'parallel worker', 'autovacuum worker', 'walsender', 'logical replication worker', \
     'logical replication apply worker', 'logical replication parallel worker', 'logical replication tablesync worker'";

/// Ends workers of extensions in these databases, where nobody else is in them. Returns what they are called.
async fn end_workers(connection: &mut Connection, databases: &[&str]) -> Result<Vec<String>, Error> {
    let names: Vec<String> = databases.iter().map(|name| literal(name)).collect();
    let sessions = format!(
        "SELECT pid, backend_type, backend_type IN ({USUAL}) FROM pg_catalog.pg_stat_activity \
         WHERE datname IN ({}) AND pid <> pg_catalog.pg_backend_pid()",
        names.join(", ")
    );
    let rows = connection.query(&sessions).await?;
    if rows.iter().any(|row| row.flag(2)) {
        return Ok(Vec::new());
    }
    for row in &rows {
        let (worker, end) = (row.text(1), format!("SELECT pg_catalog.pg_terminate_backend({}, 5000)", row.number(0)));
        match connection.execute(&end).await {
            Ok(()) => tracing::warn!(worker, "its session was ended, for its database is replaced"),
            Err(error) if error.sqlstate() == Some("42501") => return Ok(Vec::new()),
            Err(error) => return Err(error),
        }
    }
    Ok(rows.iter().map(|row| row.text(1).to_owned()).collect())
}

async fn end_sessions(connection: &mut Connection, databases: &[&str]) -> Result<(), Error> {
    if databases.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = databases.iter().map(|name| literal(name)).collect();
    let end = format!(
        "SELECT pg_catalog.pg_terminate_backend(pid, 5000) FROM pg_catalog.pg_stat_activity WHERE datname IN ({})",
        names.join(", ")
    );
    match connection.execute(&end).await {
        // Then the rename tells who is in it.
        Err(error) if error.sqlstate() == Some("42501") => Ok(()),
        ended => ended,
    }
}
