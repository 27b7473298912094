//! Has a server room for as many locks as are taken in one transaction?

use seawall_archive::preflight::Lack;

use crate::Error;
use crate::client::Connection;

/// What is lacking for so many locks at once, if anything. To find out by taking them would leave others without any.
pub(crate) async fn lack(connection: &mut Connection, what: &str, needed: u64) -> Result<Option<Lack>, Error> {
    // One share for each session that there may be, those of the server itself included.
    let sql = "SELECT pg_catalog.current_setting('max_locks_per_transaction')::bigint, \
               1 + pg_catalog.current_setting('max_connections')::bigint + pg_catalog.current_setting('max_prepared_transactions')::bigint \
               + pg_catalog.current_setting('max_worker_processes')::bigint + pg_catalog.current_setting('max_wal_senders')::bigint \
               + coalesce(pg_catalog.current_setting('autovacuum_worker_slots', true), pg_catalog.current_setting('autovacuum_max_workers'))::bigint";
    let row = connection.one(sql).await?;
    let (each, sessions) = (row.number(0), row.number(1).max(1));
    if needed <= each.saturating_mul(sessions) {
        return Ok(None);
    }
    let cause = format!("{what} needs about {needed} locks, and the server has room for {}", each * sessions);
    let mend =
        format!("max_locks_per_transaction = {} in postgresql.conf, and a restart", needed.div_ceil(sessions) + 64);
    Ok(Some(Lack::new(cause, mend)))
}
