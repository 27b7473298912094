//! The beginning of a restore in its database: alone there, with its journal, and with nothing in its way.

use std::time::Duration;

use seawall_archive::preflight::Lack;
use tokio::time::Instant;

use crate::Error;
use crate::client::Connection;
use crate::journal::{self, Journal};
use crate::load::connect::UNDER_WAY;
use crate::quote::ident;
use crate::restore::Place;
use crate::restore::scope::Scope;
use crate::restore::set::Set;

/// How long another restore into the same database is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long until it is asked for again.
const PAUSE: Duration = Duration::from_millis(100);

/// The journal of this restore; an empty database gets one, any other is refused. `None` for a database of ours that is
/// whole and has not got its name yet.
pub(super) async fn begin(
    connection: &mut Connection,
    set: &Set,
    place: &Place,
    what: &Scope<'_>,
) -> Result<Option<Journal>, Error> {
    be_alone(connection).await?;
    let journal = find_journal(connection, set, place, what).await?;
    be_one_of_us(connection).await?;
    Ok(journal)
}

/// Waits until no other session restores into the connection's database: what an interrupted restore left running on
/// the server is one until it ends, and so is another restore.
pub(crate) async fn be_alone(connection: &mut Connection) -> Result<(), Error> {
    connection.execute(&format!("SELECT pg_catalog.pg_advisory_unlock_shared({UNDER_WAY})")).await?;
    let deadline = Instant::now() + PATIENCE;
    // Asked for again and again: who waits for it in the server stops the sessions that the other restore still opens.
    while !connection.one(&format!("SELECT pg_catalog.pg_try_advisory_lock({UNDER_WAY})")).await?.flag(0) {
        if Instant::now() > deadline {
            return Err(Error::Refused {
                code: "postgres.other-restore",
                object: "another restore into this database".to_owned(),
                cause: "it is under way".to_owned(),
                next: "start again when it is done".to_owned(),
            });
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// Lets the other sessions of this restore begin.
async fn be_one_of_us(connection: &mut Connection) -> Result<(), Error> {
    let shared = format!(
        "SELECT pg_catalog.pg_advisory_lock_shared({UNDER_WAY}); SELECT pg_catalog.pg_advisory_unlock({UNDER_WAY})"
    );
    connection.execute(&shared).await
}

/// What is in the way of a restore that wasn't begun yet, and what to do about it.
pub(super) async fn in_the_way(
    connection: &mut Connection,
    set: &Set,
    what: &Scope<'_>,
    new: bool,
) -> Result<Option<Lack>, Error> {
    let journals = journal::all(connection).await?;
    // The set itself may hold the journal of an older restore.
    let is_begun = if new { journals.contains(&journal::name(&what.title(set))) } else { !journals.is_empty() };
    if is_begun { Ok(None) } else { set.in_the_way(connection, what).await }
}

async fn find_journal(
    connection: &mut Connection,
    set: &Set,
    place: &Place,
    what: &Scope<'_>,
) -> Result<Option<Journal>, Error> {
    let target = &place.target;
    let refused = |code, cause: String, next: &str| Error::Refused {
        code,
        object: target.to_string(),
        cause,
        next: next.to_owned(),
    };
    let of_before = journal::is_of_before(connection, &what.title(set)).await?;
    if place.is_whole || of_before && place.rename.is_some() {
        return Ok(None);
    }
    if of_before {
        let cause = "an older version of Seawall began this restore in it, and this version can't go on with that";
        let next =
            "empty the database (or drop what was restored), DROP SCHEMA seawall_restore CASCADE, then start again";
        return Err(refused("postgres.other-restore", cause.to_owned(), next));
    }
    if let Some(Lack { cause, mend: next }) = in_the_way(connection, set, what, place.rename.is_some()).await? {
        if place.rename.is_some() {
            let name = &place.target.database;
            return Err(Error::Refused {
                code: "postgres.not-ours",
                object: format!("database {name}"),
                cause: format!(
                    "it has the name of this restore's unfinished database, and no journal and no comment says that a restore made it: {cause}"
                ),
                next: format!("DROP DATABASE {}; and start the same again", ident(name)),
            });
        }
        return Err(refused("postgres.not-empty", cause, &next));
    }
    match Journal::open(connection, &what.title(set)).await? {
        Some(journal) => Ok(Some(journal)),
        None => {
            let journals = journal::all(connection).await?.join(", ");
            let cause = format!("another restore was begun in it, and is not done: its journal is {journals}");
            let next = match journal::named(connection).await?.is_empty() {
                true => format!(
                    "finish that with the same arguments; or give it up: DROP SCHEMA {journals} CASCADE, then start again"
                ),
                // Without its journal the database that it has put aside can't be told from one that isn't needed.
                false => "repeat that restore with the same arguments: it takes the name back first. Keep its journal until then"
                    .to_owned(),
            };
            Err(refused("postgres.other-restore", cause, &next))
        }
    }
}
