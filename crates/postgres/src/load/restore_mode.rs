//! Extensions that must know that a restore is under way. TimescaleDB says so in its documentation: it has a function to be
//! called before, which stops its workers and lets its catalog be written, and one to be called afterwards.
//!
//! They are found as what belongs to the extension, so that no function of a user's is called in their place. The
//! second one is called whatever comes of a restore: a database that was there isn't left in that mode. A resume calls
//! both again.

use crate::client::Connection;
use crate::load::connect::connect;
use crate::quote::{literal, qualified};
use crate::schema::guard;
use crate::{Error, Target};

/// The extensions, the function before a restore, and the one after it.
const MODES: [(&str, &str, &str); 1] = [("timescaledb", "timescaledb_pre_restore", "timescaledb_post_restore")];

/// The setting that the functions of an extension set for the database.
const SETTING: &str = "timescaledb.restoring";

/// The two functions of an extension that is there, as SQL.
#[derive(Debug)]
pub(crate) struct Mode {
    before: String,
    after: String,
}

/// The functions of the extensions in the connection's database.
async fn find(connection: &mut Connection) -> Result<Vec<Mode>, Error> {
    let sql = "SELECT e.extname, n.nspname, p.proname FROM pg_catalog.pg_extension e \
         JOIN pg_catalog.pg_depend d ON d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass AND d.refobjid = e.oid \
         AND d.deptype = 'e' AND d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass \
         JOIN pg_catalog.pg_proc p ON p.oid = d.objid JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace \
         WHERE p.pronargs = 0 AND p.prokind = 'f'";
    let names: Vec<String> = MODES.iter().map(|(name, ..)| literal(name)).collect();
    let rows = connection.query(&format!("{sql} AND e.extname IN ({})", names.join(", "))).await?;
    let call = |extension: &str, function: &str| {
        let row = rows.iter().find(|row| (row.text(0), row.text(2)) == (extension, function))?;
        Some(format!("{}()", qualified(row.text(1), function)))
    };
    let mode = |(extension, before, after): &(&str, &str, &str)| {
        Some(Mode { before: call(extension, before)?, after: call(extension, after)? })
    };
    Ok(MODES.iter().filter_map(mode).collect())
}

/// Tells the extensions that are there that a restore begins: in the transaction at hand, if there is one.
pub(crate) async fn begin(connection: &mut Connection) -> Result<Vec<Mode>, Error> {
    let modes = find(connection).await?;
    if !modes.is_empty() {
        guard::let_set(connection, SETTING).await?;
    }
    for Mode { before, .. } in &modes {
        connection.execute(&format!("SELECT {before}")).await.map_err(|error| error.about(before.as_str()))?;
    }
    Ok(modes)
}

/// Tells them that it is done.
pub(crate) async fn end(connection: &mut Connection, modes: &[Mode]) -> Result<(), Error> {
    for Mode { after, .. } in modes {
        connection.execute(&format!("SELECT {after}")).await.map_err(|error| error.about(after.as_str()))?;
    }
    Ok(())
}

/// Tells them that a restore failed, in a session of its own: the restore's may be in a transaction that failed, or gone.
/// What can't be told is named, beside the restore's own failure.
pub(crate) async fn end_failed(target: &Target, encoding: &str) {
    let told = async {
        let mut connection = connect(target, encoding).await?;
        let modes = find(&mut connection).await?;
        end(&mut connection, &modes).await?;
        connection.close().await;
        Ok::<_, Error>(())
    };
    if let Err(error) = told.await {
        tracing::warn!(database = target.database, "an extension may not know that the restore has ended: {error}");
    }
}
