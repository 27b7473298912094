//! What a proof leaves on a server that isn't its own: nothing, if it ends by itself. What a killed proof has left, the next
//! one on that server removes.
//!
//! A proof at work holds a lock of the server's that is named after its database. Its session ends with its process, so a
//! database of a proof whose lock is free belongs to no proof at work.

use seawall_archive::names::ProofName;

use crate::Error;
use crate::client::quote::{name, text};
use crate::client::{Connection, Target};

/// The server's number for a database that takes no changes.
const READ_ONLY: u16 = 3989;

/// The claim of a proof at work to its databases; it ends when this is dropped.
pub(crate) struct Hold {
    _connection: Connection,
}

impl Hold {
    pub(crate) async fn take(server: &Target, proof: ProofName) -> Result<Self, Error> {
        let mut connection = Connection::open(server).await?;
        if lock(&mut connection, proof).await? {
            return Ok(Self { _connection: connection });
        }
        Err(Error::Internal("another proof has drawn the same number".to_owned()))
    }
}

async fn lock(connection: &mut Connection, proof: ProofName) -> Result<bool, Error> {
    let sql = format!("SELECT GET_LOCK({}, 0)", text(&format!("{} at work", proof.whole())));
    Ok(connection.one(&sql).await?.number(0) == 1)
}

/// Drops a database of a proof. One that was restored as read-only takes no changes, not even its end.
async fn drop_it(connection: &mut Connection, database: &str) -> Result<(), Error> {
    let drops = format!("DROP DATABASE IF EXISTS {}", name(database));
    match connection.execute(&drops).await {
        Err(error) if error.number() == Some(READ_ONLY) => {
            connection.execute(&format!("ALTER DATABASE {} READ ONLY = 0", name(database))).await?;
            connection.execute(&drops).await.map(drop)
        }
        done => done.map(drop),
    }
}

/// Removes databases that killed proofs have left on a server. What can't be removed is named.
pub(crate) async fn remove_left(server: &Target) -> Result<(), Error> {
    let mut connection = Connection::open(server).await?;
    for row in connection.query("SELECT schema_name FROM information_schema.schemata ORDER BY 1").await? {
        let database = row.text(0);
        let Some(proof) = ProofName::of(database) else { continue };
        if !lock(&mut connection, proof).await? {
            continue;
        }
        match drop_it(&mut connection, database).await {
            Ok(()) => tracing::warn!(database, "removed what a killed proof left"),
            Err(error) => tracing::warn!(database, "a killed proof left it; drop it: {error}"),
        }
        connection.execute(&format!("DO RELEASE_LOCK({})", text(&format!("{} at work", proof.whole())))).await?;
    }
    connection.close().await;
    Ok(())
}

/// Removes the databases of a proof, whatever came of it. One that stays is named.
pub(crate) async fn removed(server: &Target, proof: ProofName, done: Result<(), Error>) -> Result<(), Error> {
    let mut done = done.map_err(Error::without_what_stays);
    let removing = async {
        let mut connection = Connection::open(server).await?;
        for database in proof.all() {
            drop_it(&mut connection, &database).await?;
        }
        connection.close().await;
        Ok::<_, Error>(())
    };
    if let Err(error) = removing.await {
        tracing::warn!(database = proof.whole(), "it stays, for it can't be removed: {error}");
        done = done.and(Err(error));
    }
    done
}
