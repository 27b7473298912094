//! What kind of server is it, and what can be asked of it? Read once, from its variables.

use std::collections::BTreeMap;

use crate::Error;
use crate::client::{Connection, Flavour};
use crate::detail::ServerFacts;

/// MariaDB that takes back the history of rows: `system_versioning_insert_history`.
const TAKES_HISTORY: u32 = 101_100;
/// MariaDB that has BACKUP STAGE.
const HAS_STAGES: u32 = 100_401;
/// MySQL that has LOCK INSTANCE FOR BACKUP.
const LOCKS_INSTANCE: u32 = 80_000;
/// MySQL that calls it SHOW BINARY LOG STATUS, and later no longer knows SHOW MASTER STATUS.
const BINARY_LOG_STATUS: u32 = 80_200;
/// MySQL that calls it SHOW REPLICA STATUS.
const REPLICA_STATUS: u32 = 80_022;
/// MySQL that has the privilege SHOW_ROUTINE.
const SHOW_ROUTINE: u32 = 80_020;

/// The variables that are looked at.
const VARIABLES: [&str; 14] = [
    "version",
    "server_uuid",
    "server_uid",
    "hostname",
    "port",
    "server_id",
    "lower_case_table_names",
    "log_bin",
    "gtid_mode",
    "wsrep_on",
    "wsrep_cluster_name",
    "system_versioning_insert_history",
    "aurora_version",
    "default_storage_engine",
];

/// A server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Facts {
    pub(crate) server: ServerFacts,
    pub(crate) mariadb: bool,
    /// Whether it writes a binary log.
    pub(crate) binlog: bool,
    /// MySQL: whether every transaction has a GTID.
    pub(crate) gtid: bool,
    /// Whether it takes back the history of rows of tables with system versioning.
    pub(crate) takes_history: bool,
}

impl Facts {
    /// From variables by name.
    fn of(flavour: Flavour, version: u32, variables: &BTreeMap<String, String>, cluster: Option<&str>) -> Self {
        let mariadb = flavour == Flavour::MariaDb;
        let value = |name: &str| variables.get(name).map(String::as_str).unwrap_or_default();
        let is_on = |name: &str| matches!(value(name), "ON" | "1");
        let galera = is_on("wsrep_on");
        let own = ["server_uuid", "server_uid"].map(value).into_iter().find(|id| !id.is_empty());
        // Old versions of MariaDB have no identifier of their own.
        let place = || format!("{}:{}/{}", value("hostname"), value("port"), value("server_id"));
        let identity = match cluster.filter(|id| galera && !id.is_empty()) {
            Some(cluster) => cluster.to_owned(),
            None => own.map_or_else(place, str::to_owned),
        };
        let server = ServerFacts {
            family: if mariadb { "mariadb" } else { "mysql" }.to_owned(),
            version,
            version_text: value("version").to_owned(),
            identity,
            lower_case_table_names: value("lower_case_table_names").parse().unwrap_or_default(),
            galera,
        };
        Self {
            server,
            mariadb,
            binlog: is_on("log_bin"),
            gtid: !mariadb && value("gtid_mode") == "ON",
            takes_history: mariadb
                && (variables.contains_key("system_versioning_insert_history") || version >= TAKES_HISTORY),
        }
    }

    /// Asks the server.
    pub(crate) async fn look(connection: &mut Connection) -> Result<Self, Error> {
        let names: Vec<String> = VARIABLES.iter().map(|name| format!("'{name}'")).collect();
        let sql = format!("SHOW GLOBAL VARIABLES WHERE Variable_name IN ({})", names.join(", "));
        let rows = connection.query(&sql).await?;
        let pair = |row: &crate::client::Row| (row.text(0).to_ascii_lowercase(), row.text(1).to_owned());
        let variables: BTreeMap<String, String> = rows.iter().map(pair).collect();
        let cluster = connection.query("SHOW GLOBAL STATUS LIKE 'wsrep_cluster_state_uuid'").await?;
        let cluster = cluster.first().map(|row| row.text(1));
        Ok(Self::of(connection.flavour, connection.version, &variables, cluster))
    }

    /// Whether the server has BACKUP STAGE.
    pub(crate) fn has_stages(&self) -> bool {
        self.mariadb && self.server.version >= HAS_STAGES
    }

    /// Whether the server has LOCK INSTANCE FOR BACKUP.
    pub(crate) fn locks_instance(&self) -> bool {
        !self.mariadb && self.server.version >= LOCKS_INSTANCE
    }

    /// Whether the privilege SHOW_ROUTINE shows routines; else SELECT on `mysql.proc` or on everything does.
    pub(crate) fn has_show_routine(&self) -> bool {
        !self.mariadb && self.server.version >= SHOW_ROUTINE
    }

    /// The statement that tells the position in the server's binary log.
    pub(crate) fn binlog_status(&self) -> &'static str {
        match self.mariadb || self.server.version < BINARY_LOG_STATUS {
            true => "SHOW MASTER STATUS",
            false => "SHOW BINARY LOG STATUS",
        }
    }

    /// The statement that tells how far a replica has followed its primaries, and how many columns MariaDB puts before the others.
    pub(crate) fn replica_status(&self) -> (&'static str, usize) {
        match (self.mariadb, self.server.version < REPLICA_STATUS) {
            (true, _) => ("SHOW ALL SLAVES STATUS", 2),
            (false, true) => ("SHOW SLAVE STATUS", 0),
            (false, false) => ("SHOW REPLICA STATUS", 0),
        }
    }

    /// The privilege that shows both positions.
    pub(crate) fn status_privilege(&self) -> &'static str {
        if self.mariadb && self.server.version >= 100_502 { "BINLOG MONITOR" } else { "REPLICATION CLIENT" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(flavour: Flavour, version: u32, variables: &[(&str, &str)], cluster: Option<&str>) -> Facts {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Facts::of(flavour, version, &variables, cluster)
    }

    #[test]
    fn servers_are_known_by_their_own_identifier() {
        for (flavour, variables, cluster, identity) in [
            (Flavour::MySql, &[("server_uuid", "u")][..], None, "u"),
            (Flavour::MariaDb, &[("server_uid", "u"), ("hostname", "h")], None, "u"),
            (Flavour::MariaDb, &[("hostname", "h"), ("port", "3306"), ("server_id", "1")], None, "h:3306/1"),
            (Flavour::MariaDb, &[("server_uid", "u"), ("wsrep_on", "ON")], Some("c"), "c"),
            (Flavour::MariaDb, &[("server_uid", "u"), ("wsrep_on", "OFF")], Some("c"), "u"),
            (Flavour::MariaDb, &[("server_uid", "u"), ("wsrep_on", "ON")], Some(""), "u"),
        ] {
            assert_eq!(of(flavour, 101_106, variables, cluster).server.identity, identity);
        }
    }

    #[test]
    fn what_versions_can() {
        let maria = |version| of(Flavour::MariaDb, version, &[("log_bin", "ON"), ("gtid_mode", "ON")], None);
        let mysql = |version| of(Flavour::Percona, version, &[("log_bin", "0"), ("gtid_mode", "ON")], None);
        assert!(maria(101_106).binlog && !maria(101_106).gtid && mysql(80_036).gtid && !mysql(80_036).binlog);
        for (facts, stages, instance, history) in [
            (maria(101_106), true, false, true),
            (maria(100_622), true, false, false),
            (maria(100_348), false, false, false),
            (mysql(80_036), false, true, false),
            (mysql(50_744), false, false, false),
        ] {
            assert_eq!((facts.has_stages(), facts.locks_instance(), facts.takes_history), (stages, instance, history));
        }
        assert_eq!(maria(110_402).binlog_status(), "SHOW MASTER STATUS");
        assert_eq!(mysql(80_036).binlog_status(), "SHOW MASTER STATUS");
        assert_eq!(mysql(90_700).binlog_status(), "SHOW BINARY LOG STATUS");
        assert_eq!(mysql(80_015).replica_status(), ("SHOW SLAVE STATUS", 0));
        assert_eq!(mysql(80_400).replica_status(), ("SHOW REPLICA STATUS", 0));
        assert_eq!(maria(101_106).replica_status().1, 2);
    }
}
