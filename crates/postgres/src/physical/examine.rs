//! What the protection of a cluster needs of its server, and whether the server and the role have it. Changes nothing.

use seawall_core::{Failure, Kind};

use super::base::{self, rights};
use super::receive::{ReceiveOptions, Settings, settings};
use super::slots;
use crate::client::Target;

/// What a server has.
#[derive(Debug, Clone)]
pub struct Examined {
    /// The server, as people name it: `PostgreSQL 18`.
    pub server: String,
    /// Why no base can be made, or the log can't be received; empty if nothing is known that refuses it.
    pub refusals: Vec<Failure>,
    /// Settings with which protection works, and shouldn't be left, and slots that were left behind.
    pub warnings: Vec<Failure>,
}

/// Looks at a server. `receive` is how its log is received; `None` where the server pushes it.
///
/// # Errors
/// When the server can't be reached.
pub async fn examine(target: &Target, receive: Option<&ReceiveOptions>) -> Result<Examined, Failure> {
    let mut connection = base::connect(target).await?;
    let server = format!("PostgreSQL {}", connection.version / 10_000);
    let mut examined = Examined { server, refusals: Vec::new(), warnings: Vec::new() };
    let name = target.to_string();
    examined.refusals.extend(rights::check(&mut connection, &name).await.err().map(Failure::from));
    if let Some(options) = receive {
        let replicates = connection.one(REPLICATES).await?.text(0) == "t";
        let level = connection.setting("wal_level").await?;
        examined.refusals.extend(cannot_stream(replicates, level.as_deref(), target));
        let found = Settings::of(&mut connection, options.synchronous).await?;
        examined.warnings.extend(settings(options.synchronous, &found, &name));
    }
    let own = receive.map(|options| options.slot.as_str());
    examined.warnings.extend(slots::left(&mut connection, own, &name).await?);
    connection.close().await;
    Ok(examined)
}

/// Whether the role may speak the replication protocol.
const REPLICATES: &str =
    "SELECT rolreplication OR rolsuper FROM pg_catalog.pg_roles WHERE rolname OPERATOR(pg_catalog.=) current_user";

/// Why the log can't be received. Pure.
fn cannot_stream(replicates: bool, level: Option<&str>, target: &Target) -> Vec<Failure> {
    let mut found = Vec::new();
    if !replicates {
        let role = if target.user.is_empty() { "ROLE" } else { &target.user };
        let next = format!("as a superuser: ALTER ROLE {} REPLICATION", crate::quote::ident(role));
        let cause = "the role may not receive the log: it has no REPLICATION";
        found.push(Failure::new(Kind::Denied, "postgres.permission", target.to_string(), cause, next));
    }
    if level == Some("minimal") {
        let cause = "wal_level is minimal: the log isn't enough for a recovery";
        let next = "as a superuser: ALTER SYSTEM SET wal_level = 'replica'; restart the server";
        found.push(Failure::new(Kind::Refused, "postgres.wal-level", target.to_string(), cause, next));
    }
    found
}

#[cfg(test)]
mod tests {
    use seawall_vault::Environment;

    use super::*;

    #[test]
    fn what_keeps_a_log_from_being_received() {
        let target = Target::parse("postgresql://backup@db/", &Environment::default()).expect("a URL");
        for (replicates, level, expected) in [
            (true, Some("replica"), vec![]),
            (true, Some("logical"), vec![]),
            (false, Some("replica"), vec!["postgres.permission"]),
            (true, Some("minimal"), vec!["postgres.wal-level"]),
            (false, Some("minimal"), vec!["postgres.permission", "postgres.wal-level"]),
        ] {
            let found = cannot_stream(replicates, level, &target);
            assert_eq!(found.iter().map(|failure| failure.code).collect::<Vec<_>>(), expected);
            assert!(
                found.iter().all(|failure| failure.code != "postgres.permission" || failure.next.contains("backup"))
            );
        }
    }
}
