//! What a proof leaves on a server that isn't its own: nothing, if it ends by itself. What a killed proof has left, the next
//! one on that server removes.
//!
//! A proof at work holds an advisory lock for its number, in the database that everybody connects to. Its session ends with
//! its process, so a database of a proof whose lock is free belongs to no proof at work.

use seawall_archive::names::ProofName;

use crate::Error;
use crate::catalog::globals;
use crate::client::{Connection, Target};
use crate::quote::{ident, literal};

/// The first number of the advisory locks of proofs; the second is the proof's own.
const AT_WORK: i32 = 0x5ea_a12;

/// The claim of a proof at work to its databases; it ends when this is dropped.
pub(crate) struct Hold {
    _connection: Connection,
}

impl Hold {
    pub(crate) async fn take(server: &Target, proof: ProofName) -> Result<Self, Error> {
        let mut connection = globals::connect(server).await?;
        connection.execute(&format!("SELECT pg_catalog.pg_advisory_lock({})", numbers(proof))).await?;
        Ok(Self { _connection: connection })
    }
}

/// The numbers of a proof's lock.
fn numbers(proof: ProofName) -> String {
    format!("{AT_WORK}, {}", proof.nonce.cast_signed())
}

/// Removes databases that killed proofs have left on a server. What can't be removed is named.
pub(crate) async fn remove_left(server: &Target) -> Result<(), Error> {
    let mut connection = globals::connect(server).await?;
    let rows = connection.query("SELECT datname FROM pg_catalog.pg_database ORDER BY datname").await?;
    for row in rows {
        let database = row.text(0);
        let Some(proof) = ProofName::of(database) else { continue };
        let lock = format!("SELECT pg_catalog.pg_try_advisory_lock({})", numbers(proof));
        if !connection.one(&lock).await?.flag(0) {
            continue;
        }
        match remove(server, database).await {
            Ok(()) => tracing::warn!(database, "removed what a killed proof left"),
            Err(error) => tracing::warn!(database, "a killed proof left it; drop it: {error}"),
        }
        connection.query(&format!("SELECT pg_catalog.pg_advisory_unlock({})", numbers(proof))).await?;
    }
    connection.close().await;
    Ok(())
}

/// Removes the databases of a proof, whatever came of it. One that stays is named.
pub(crate) async fn removed(server: &Target, proof: ProofName, done: Result<(), Error>) -> Result<(), Error> {
    let mut done = done.map_err(Error::without_what_stays);
    // A server of the proof's own goes with all that is in it, and may be gone already.
    if server.keeper().is_some() && done.is_err() {
        return done;
    }
    for database in proof.all() {
        if let Err(error) = remove(server, &database).await {
            tracing::warn!(database, "it stays, for it can't be removed: {error}");
            done = Err(done.err().unwrap_or(error).leaves(&database));
        }
    }
    done
}

/// Removes a database of a proof, if it is there.
async fn remove(server: &Target, database: &str) -> Result<(), Error> {
    let mut connection = globals::connect(server).await?;
    let there = format!(
        "SELECT EXISTS (SELECT FROM pg_catalog.pg_subscription s WHERE s.subdbid = d.oid), datconnlimit = -2 \
         FROM pg_catalog.pg_database d WHERE datname = {}",
        literal(database)
    );
    if let Some(row) = connection.query(&there).await?.first() {
        let name = ident(database);
        let is_invalid = row.flag(1);
        if !is_invalid {
            // A template can't be dropped.
            connection.execute(&format!("ALTER DATABASE {name} IS_TEMPLATE false")).await?;
        }
        if row.flag(0) && !is_invalid {
            // Its own settings must not keep us from getting into it.
            for open in ["ALLOW_CONNECTIONS true", "CONNECTION LIMIT -1", "RESET ALL"] {
                connection.execute(&format!("ALTER DATABASE {name} {open}")).await?;
            }
            unsubscribe(&server.for_databases().with_database(database)).await?;
        }
        connection.execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await?;
    }
    connection.close().await;
    Ok(())
}

/// Removes subscriptions, which no database can be dropped with. They were restored turned off, and what they subscribe
/// to is left alone.
async fn unsubscribe(target: &Target) -> Result<(), Error> {
    let mut connection = Connection::open(target).await?;
    let sql = "SELECT subname FROM pg_catalog.pg_subscription s JOIN pg_catalog.pg_database d ON d.oid = s.subdbid \
               WHERE d.datname = pg_catalog.current_database()";
    for row in connection.query(sql).await? {
        let name = ident(row.text(0));
        for step in
            ["ALTER SUBSCRIPTION {} DISABLE", "ALTER SUBSCRIPTION {} SET (slot_name = NONE)", "DROP SUBSCRIPTION {}"]
        {
            connection.execute(&step.replace("{}", &name)).await.map_err(|error| error.about(row.text(0)))?;
        }
    }
    connection.close().await;
    Ok(())
}
