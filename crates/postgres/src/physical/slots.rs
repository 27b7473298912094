//! Slots that Seawall left behind on a server: while nothing reads them, the server keeps its log for them, until its disk is full.

use seawall_core::{Failure, Kind};

use crate::Error;
use crate::client::Connection;
use crate::quote::literal;

/// How the names of our slots begin, unless the configuration gives another one.
const OURS: &str = "seawall";

/// The slots that keep log, and that nothing reads.
const IDLE: &str = "SELECT slot_name::pg_catalog.text, restart_lsn::pg_catalog.text FROM pg_catalog.pg_replication_slots \
    WHERE NOT active AND NOT temporary AND slot_type OPERATOR(pg_catalog.=) 'physical' AND restart_lsn IS NOT NULL ORDER BY 1";

/// Asks a server for slots of Seawall that no process uses. `own` is the slot of this protection.
pub(super) async fn left(
    connection: &mut Connection,
    own: Option<&str>,
    server: &str,
) -> Result<Option<Failure>, Error> {
    let rows = connection.query(IDLE).await?;
    let idle: Vec<(String, String)> = rows.iter().map(|row| (row.text(0).to_owned(), row.text(1).to_owned())).collect();
    Ok(judged(&idle, own, server))
}

/// What slots mean that nothing reads, each with the position from which on the log is kept. Pure.
fn judged(idle: &[(String, String)], own: Option<&str>, server: &str) -> Option<Failure> {
    let is_left = |name: &str| name.starts_with(OURS) && own != Some(name);
    let left: Vec<_> = idle.iter().filter(|(name, _)| is_left(name)).collect();
    if left.is_empty() {
        return None;
    }
    let each = |one: &dyn Fn(&str, &str) -> String, between: &str| {
        left.iter().map(|(name, from)| one(name, from)).collect::<Vec<_>>().join(between)
    };
    let slots = each(&|name, from| format!("{name} (from {from} on)"), ", ");
    let cause = format!("it keeps its log for slots that nothing reads, until its disk is full: {slots}");
    let drops = each(&|name, _| format!("SELECT pg_drop_replication_slot({})", literal(name)), "; ");
    let next = format!("start the process that reads them; or, if their protection has ended: {drops}");
    Some(Failure::new(Kind::Refused, "postgres.slot-left", server, cause, next))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_that_are_left_behind() {
        let idle = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), "0/5".to_owned())).collect::<Vec<_>>();
        for (names, own, expected) in [
            (&[][..], None, None),
            (&["standby1"], None, None),
            (&["seawall"], None, Some("SELECT pg_drop_replication_slot('seawall')")),
            // Between two sessions nothing reads our own one.
            (&["seawall"], Some("seawall"), None),
            (&["seawall"], Some("other"), Some("SELECT pg_drop_replication_slot('seawall')")),
            (
                &["seawall", "seawall_2", "x"],
                None,
                Some("SELECT pg_drop_replication_slot('seawall'); SELECT pg_drop_replication_slot('seawall_2')"),
            ),
        ] {
            let found = judged(&idle(names), own, "s");
            let next = found.as_ref().and_then(|failure| failure.next.split_once(": ")).map(|(_, statement)| statement);
            assert_eq!(next, expected, "{names:?} {own:?}");
        }
    }
}
