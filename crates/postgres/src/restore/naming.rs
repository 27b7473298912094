//! Gives databases their names, and takes the names back. Some extensions can be made only under the final name (`later.rs`).
//!
//! The transaction that gives the names renames the replaced databases as well, and these are dropped when nothing can fail any
//! more. A failure before that takes all names back. After a crash the next restore does so: the journal of each unfinished
//! database records the names.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::catalog::globals;
use crate::catalog::notes;
use crate::catalog::properties;
use crate::client::{Connection, Target, TextEncoding};
use crate::journal::{self, NAMED};
use crate::load::connect::unknown_encoding;
use crate::quote::{ident, literal};
use crate::restore::begin;
use crate::restore::place;
use crate::restore::server;
use crate::{Error, Properties};

/// How often the names are taken back while new sessions keep entering a database.
const TRIES: u32 = 20;

/// The pause between two looks for a worker.
const PAUSE: Duration = Duration::from_millis(250);

/// A database that was made, and the name that it gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pair {
    /// The unfinished name.
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

/// Gives all databases their names. Sessions of extensions' workers that prevent a rename are ended, and these workers are
/// added to `ended`.
pub(crate) async fn take(target: &Target, pairs: &[Pair], ended: &mut Vec<String>) -> Result<(), Error> {
    for some in in_turn(pairs, |pair| &pair.name) {
        let mut connection = beside(target, &some).await?;
        let mut renames = String::new();
        for Pair { made, name, replaces } in &some {
            if *replaces {
                // An earlier restore may have put one aside. It stays unless a note says that it may be dropped.
                place::may_drop_replaced(&mut connection, target, made, name).await?;
                server::drop(&mut connection, &notes::replaced(made)).await?;
                renames.push_str(&rename(name, &notes::replaced(made)));
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
            let workers_ended = workers.join(", ");
            ended.extend(workers);
            if let Err(error) = connection.execute(&renames).await {
                tracing::warn!(
                    databases = names.join(", "),
                    workers_ended,
                    "the databases can't be renamed, also without the workers: {error}"
                );
                return Err(error.about(about));
            }
        }
        connection.close().await;
    }
    Ok(())
}

/// Gives named, whole databases to their owners, and notes on the replaced ones that they may be dropped. Both happen in one
/// transaction, so that at each moment one of the two databases counts.
pub(crate) async fn open(target: &Target, named: &[(Pair, &Properties)], owners: bool) -> Result<(), Error> {
    let mut connection = globals::connect(target).await?;
    let mut all = String::new();
    for (pair, properties) in named {
        let is_open = place::is_open(&mut connection, &pair.name).await?;
        let last = |name: &str| properties::last(properties, name, owners, is_open);
        if properties::may_be_set_from_anywhere(properties, owners) {
            all.push_str(&last(&pair.name));
        } else {
            from_within(target, &pair.name, connection.encoding, last).await?;
        }
        if pair.replaces {
            all.push_str(&notes::says_replaced(&pair.made));
        }
    }
    let done = connection.execute(&format!("BEGIN;\n{all}COMMIT")).await;
    connection.close().await;
    let names: Vec<&str> = named.iter().map(|(pair, _)| pair.name.as_str()).collect();
    done.map_err(|error| error.about(format!("databases {}", names.join(", "))))
}

/// Takes all names back: new databases get their unfinished names again, and replaced databases their own. It also works if
/// none or only some were renamed. Warns about each ended worker that the server doesn't start again.
pub(crate) async fn give_back(target: &Target, pairs: &[Pair], mut ended: Vec<String>) -> Result<(), Error> {
    let given = give_all_back(target, pairs, &mut ended).await;
    match not_back(target, &ended).await {
        Ok(left) => {
            for worker in left {
                tracing::warn!(
                    worker,
                    "it was in a database of the restore, and the server hasn't started it again: restart the server"
                );
            }
        }
        Err(error) => tracing::warn!("whether the server has started {} again isn't known: {error}", ended.join(", ")),
    }
    given
}

async fn give_all_back(target: &Target, pairs: &[Pair], ended: &mut Vec<String>) -> Result<(), Error> {
    for some in in_turn(pairs, |pair| &pair.name) {
        let mut connection = beside(target, &some).await?;
        let mut tries = 0;
        loop {
            let rows = connection.query("SELECT datname FROM pg_catalog.pg_database").await?;
            let is_there = |name: &str| rows.iter().any(|row| row.text(0) == name);
            let (mut renames, mut ours) = (String::new(), Vec::new());
            for Pair { made, name, replaces } in &some {
                let is_named = is_there(name) && !is_there(made);
                let put_aside = notes::replaced(made);
                let was_replaced = *replaces && is_there(&put_aside);
                // If none was put aside, this is the original database.
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
            // Sessions of others in an unfinished database may be ended.
            ended.extend(end_sessions(&mut connection, &ours).await?);
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

/// Drops the databases that were put aside.
pub(crate) async fn drop_replaced(target: &Target, pairs: &[Pair]) -> Result<(), Error> {
    let mut connection = globals::connect(target).await?;
    for pair in pairs.iter().filter(|pair| pair.replaces) {
        server::drop(&mut connection, &notes::replaced(&pair.made)).await?;
    }
    connection.close().await;
    Ok(())
}

/// Takes back the names that a killed, unfinished restore gave, if it named the database of `target`. Only databases with these
/// `names` are renamed.
pub(crate) async fn undo_left(target: &Target, names: &[&str]) -> Result<(), Error> {
    let mut connection = match globals::open_if_there(target).await {
        Ok(Ok(connection)) => connection,
        Ok(Err(_)) => return Ok(()),
        Err(error) => return Err(place::explain(target, error).await),
    };
    let mut pairs = Vec::new();
    // The restore was killed after the database was whole, and before it gave the database to its owner.
    if let Some(there) = place::look_here(&mut connection, target).await?
        && let Some(made) = there.whole_and_closed().filter(|made| *made != target.database)
    {
        let replaces = !place::look(&mut connection, target, &[&notes::replaced(made)]).await?.is_empty();
        pairs.push(Pair { made: made.to_owned(), name: target.database.clone(), replaces });
    }
    // An owner of the database may have written other journals. They aren't trusted.
    for schema in journal::trusted(&mut connection).await? {
        let noted = format!("SELECT step FROM {schema}.journal WHERE pg_catalog.starts_with(step, {})", literal(NAMED));
        for row in connection.query(&noted).await? {
            let noted: Option<Vec<Pair>> =
                row.text(0).strip_prefix(NAMED).and_then(|text| serde_json::from_str(text).ok());
            pairs.extend(noted.unwrap_or_default());
        }
    }
    connection.close().await;
    pairs.retain(|pair| notes::is_made_as(&pair.made) && names.contains(&pair.name.as_str()));
    if !pairs.iter().any(|pair| pair.name == target.database) {
        return Ok(());
    }
    // A restore that is still running keeps its names.
    for pair in &pairs {
        if let Ok(mut inside) = globals::open_if_there(&target.with_database(&pair.name)).await? {
            begin::be_alone(&mut inside).await?;
            inside.close().await;
        }
    }
    tracing::warn!(
        database = target.database,
        "an earlier restore was killed before it was whole: the names are taken back"
    );
    give_back(target, &pairs, Vec::new()).await
}

/// The workers that the server hasn't started again after some time.
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

/// Groups databases by the transactions that name them. A session can't rename its own database, so `template1` comes last
/// and alone: all others can be renamed from there.
pub(super) fn in_turn<T>(all: &[T], name: impl Fn(&T) -> &str) -> Vec<Vec<&T>> {
    let (last, first): (Vec<&T>, Vec<&T>) = all.iter().partition(|one| name(one) == "template1");
    [first, last].into_iter().filter(|some| !some.is_empty()).collect()
}

async fn beside(target: &Target, pairs: &[&Pair]) -> Result<Connection, Error> {
    let aside: Vec<String> = pairs.iter().map(|pair| notes::replaced(&pair.made)).collect();
    let names = pairs.iter().flat_map(|pair| [pair.made.as_str(), pair.name.as_str()]);
    let besides: Vec<&str> = names.chain(aside.iter().map(String::as_str)).collect();
    globals::connect_beside(target, &besides).await
}

fn rename(from: &str, to: &str) -> String {
    format!("ALTER DATABASE {} RENAME TO {};\n", ident(from), ident(to))
}

/// Types of sessions that don't belong to an extension. A session of another type is an extension's worker, which never ends by
/// itself.
const USUAL: &str = "'client backend', 'parallel worker', 'autovacuum worker', 'walsender', 'logical replication worker', \
     'logical replication apply worker', 'logical replication parallel worker', 'logical replication tablesync worker'";

/// Ends workers of extensions in these databases, if these are the only sessions there. Returns the workers' names.
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

/// Ends all sessions in these databases. Returns the extensions' workers among them.
async fn end_sessions(connection: &mut Connection, databases: &[&str]) -> Result<Vec<String>, Error> {
    if databases.is_empty() {
        return Ok(Vec::new());
    }
    let names: Vec<String> = databases.iter().map(|name| literal(name)).collect();
    let end = format!(
        "SELECT backend_type, backend_type IN ({USUAL}), pg_catalog.pg_terminate_backend(pid, 5000) \
         FROM pg_catalog.pg_stat_activity WHERE datname IN ({})",
        names.join(", ")
    );
    match connection.query(&end).await {
        // The rename then fails and names the sessions.
        Err(error) if error.sqlstate() == Some("42501") => Ok(Vec::new()),
        Err(error) => Err(error),
        Ok(rows) => {
            Ok(rows.iter().filter(|row| !row.flag(1)).filter_map(|row| row.optional(0)).map(str::to_owned).collect())
        }
    }
}

/// Gives a whole database its name, its owner and its grants, and drops the database that had the name.
pub(crate) async fn take_name(
    target: &Target,
    made: &str,
    name: &str,
    exists: bool,
    (properties, owners): (&Properties, bool),
) -> Result<(), Error> {
    let mut connection = globals::connect_beside(target, &[made, name]).await?;
    let is_open = place::is_open(&mut connection, made).await?;
    let last = |name: &str| properties::last(properties, name, owners, is_open);
    let at_once = properties::may_be_set_from_anywhere(properties, owners);
    if exists {
        if at_once {
            // A refusal must come before the old database is dropped.
            let tried = connection.execute(&format!("BEGIN;\n{}ROLLBACK", last(made))).await;
            tried.map_err(|error| error.about(format!("database {made}")))?;
        }
        server::drop(&mut connection, name).await?;
    }
    let here = if at_once { last(name) } else { String::new() };
    let rename = format!("BEGIN;\nALTER DATABASE {} RENAME TO {};\n{here}COMMIT", ident(made), ident(name));
    connection.execute(&rename).await.map_err(|error| error.about(format!("database {made}")))?;
    let encoding = connection.encoding;
    connection.close().await;
    if at_once { Ok(()) } else { from_within(target, name, encoding, last).await }
}

/// Runs the statements that give a database to its owner in a session of that database, so that comments and names of roles
/// get the bytes of its encoding: see [`properties::may_be_set_from_anywhere`]. A session of the encoding `named_in` gave the
/// database its name, and this session must spell the same bytes.
async fn from_within(
    target: &Target,
    name: &str,
    named_in: TextEncoding,
    last: impl Fn(&str) -> String,
) -> Result<(), Error> {
    let mut inside = Connection::open(&target.for_databases().with_database(name)).await?;
    let encoding = "SELECT pg_catalog.pg_encoding_to_char(encoding) FROM pg_catalog.pg_database \
                    WHERE datname = pg_catalog.current_database()";
    let encoding = inside.one(encoding).await?.text(0).to_owned();
    let encoding = TextEncoding::of(&encoding).ok_or_else(|| unknown_encoding(&encoding))?;
    inside.speak(encoding).await?;
    let last = last(&named_in.respelled(name, encoding));
    let done = inside.execute(&format!("BEGIN;\n{last}COMMIT")).await;
    done.map_err(|error| error.about(format!("database {name}")))?;
    inside.close().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn template1_gets_its_name_last_and_alone() {
        for (names, turns) in [
            (&["postgres", "shop", "template1"][..], vec![vec!["postgres", "shop"], vec!["template1"]]),
            (&["template1"], vec![vec!["template1"]]),
            (&["shop"], vec![vec!["shop"]]),
            (&[], vec![]),
        ] {
            let found: Vec<Vec<&str>> =
                in_turn(names, |name| name).into_iter().map(|some| some.into_iter().copied().collect()).collect();
            assert_eq!(found, turns);
        }
    }
}
