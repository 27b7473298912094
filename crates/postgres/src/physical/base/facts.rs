//! What is asked of a server before its files are read, and the session that holds the backup.

use std::collections::BTreeMap;

use super::label::{self, Label, Tablespace};
use super::pages::PAGE;
use crate::Error;
use crate::client::Connection;
use seawall_archive::log::Lsn;
use seawall_core::Moment;

/// Settings that a server must have at least as large to replay the log of another.
pub(in super::super) const NEEDED: [&str; 5] = [
    "max_connections",
    "max_worker_processes",
    "max_wal_senders",
    "max_prepared_transactions",
    "max_locks_per_transaction",
];

/// What a cluster is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Its system identifier.
    pub(crate) system: u64,
    /// The number that names the layout of its catalogs, which is part of the names of folders in tablespaces.
    pub(crate) catalog: u64,
    /// Whether its pages have checksums.
    pub(crate) checksums: bool,
    /// Bytes of a segment of its log.
    pub(crate) segment: u64,
    /// Pages of a file of a relation.
    pub(crate) segment_pages: u32,
    /// The superuser that `initdb` made.
    pub(crate) superuser: Option<String>,
    /// Settings that a server needs that replays the log.
    pub(crate) settings: BTreeMap<String, String>,
    /// Files of the configuration that lie elsewhere.
    pub(crate) elsewhere: Vec<String>,
}

impl Facts {
    /// Asks a server.
    pub(crate) async fn ask(connection: &mut Connection, server: &str) -> Result<Self, Error> {
        let row = connection
            .one(
                "SELECT s.system_identifier, s.catalog_version_no, i.data_page_checksum_version > 0, \
                 i.bytes_per_wal_segment, i.blocks_per_segment, i.database_block_size \
                 FROM pg_catalog.pg_control_system() s, pg_catalog.pg_control_init() i",
            )
            .await?;
        if row.number(5) != PAGE as u64 {
            return Err(Error::Refused {
                code: "postgres.physical-version",
                object: server.to_owned(),
                cause: format!("its pages have {} bytes, and only pages of {PAGE} are known", row.text(5)),
                next: "back its databases up without --physical".to_owned(),
            });
        }
        // It is a signed number there.
        let system = row.text(0).parse::<i64>().map(i64::cast_unsigned).map_err(|_| Error::Protocol {
            object: server.to_owned(),
            cause: format!("a system identifier {:?}", row.text(0)),
        })?;
        let names: Vec<String> = NEEDED.iter().map(|name| crate::quote::literal(name)).collect();
        let sql = format!("SELECT name, setting FROM pg_catalog.pg_settings WHERE name IN ({})", names.join(", "));
        let settings = connection.query(&sql).await?;
        let settings = settings.iter().map(|row| (row.text(0).to_owned(), row.text(1).to_owned())).collect();
        let superuser = connection.query("SELECT rolname FROM pg_catalog.pg_roles WHERE oid = 10").await?;
        // Only roles with the right to see them get these rows.
        let places = connection
            .query(
                "SELECT f.setting FROM pg_catalog.pg_settings f, pg_catalog.pg_settings d WHERE d.name = 'data_directory' \
                 AND f.name IN ('config_file', 'hba_file', 'ident_file') \
                 AND NOT pg_catalog.starts_with(f.setting, d.setting || '/') ORDER BY f.name",
            )
            .await?;
        Ok(Self {
            system,
            catalog: row.number(1),
            checksums: row.flag(2),
            segment: row.number(3),
            segment_pages: u32::try_from(row.number(4)).unwrap_or(0),
            superuser: superuser.first().map(|row| row.text(0).to_owned()),
            settings,
            elsewhere: places.iter().map(|row| row.text(0).to_owned()).collect(),
        })
    }

    /// The folder in a tablespace that is this cluster's.
    pub(crate) fn folder_in_tablespaces(&self, version: u32) -> String {
        format!("PG_{}_{}", version / 10_000, self.catalog)
    }
}

/// The timeline that a server writes on and how far; `None` for a standby.
pub(crate) async fn written(connection: &mut Connection) -> Result<Option<(u32, Lsn)>, Error> {
    let sql = "SELECT l, pg_catalog.substr(pg_catalog.pg_walfile_name(l), 1, 8) FROM (SELECT CASE WHEN NOT \
               pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_current_wal_lsn() END) AS v (l)";
    let row = connection.one(sql).await?;
    let Some(text) = row.optional(0) else { return Ok(None) };
    let at = lsn(connection, text)?;
    let timeline = row.optional(1).and_then(|digits| u32::from_str_radix(digits, 16).ok());
    timeline.map(|timeline| Some((timeline, at))).ok_or_else(|| connection.confused("a timeline that is none"))
}

/// Begins a backup; returns where its log begins. It ends with the session.
pub(crate) async fn begin(connection: &mut Connection, name: &str) -> Result<Lsn, Error> {
    let sql = format!("SELECT pg_catalog.pg_backup_start({}, true)", crate::quote::literal(name));
    let row = connection.one(&sql).await?;
    lsn(connection, row.text(0))
}

/// What the end of a backup told.
#[derive(Debug, Clone)]
pub(crate) struct Stopped {
    /// When that was, by the server's clock.
    pub(crate) ended: Moment,
    pub(crate) stop: Lsn,
    pub(crate) label: String,
    pub(crate) parsed: Label,
    pub(crate) map: String,
    pub(crate) tablespaces: Vec<Tablespace>,
    /// The numbers of tablespaces within the data directory.
    pub(crate) in_place: Vec<u32>,
    /// The next transaction at the end.
    pub(crate) next_xid: u64,
}

/// Ends a backup. It doesn't wait for `archive_command`: the log comes into the vault by itself.
pub(crate) async fn end(connection: &mut Connection, server: &str) -> Result<Stopped, Error> {
    let row = connection.one("SELECT lsn, labelfile, spcmapfile FROM pg_catalog.pg_backup_stop(false)").await?;
    let (label, map) = (row.text(1).to_owned(), row.text(2).to_owned());
    let stop = lsn(connection, row.text(0))?;
    // A moment to restore is compared with the server's times of commits, so it is the server's clock that counts. Up: a transaction
    // that committed before may be of the same millisecond.
    let sql =
        "SELECT pg_catalog.ceil(pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000)::pg_catalog.int8";
    let now = connection.one(sql).await?;
    let ended = now.text(0).parse().map(Moment::from_millis);
    let ended = ended.map_err(|_| connection.confused("a present that is none"))?;
    let unknown = |what: &str| Error::Protocol {
        object: "pg_backup_stop".to_owned(),
        cause: format!("{what} that isn't understood"),
    };
    let parsed = Label::parse(&label).ok_or_else(|| unknown("a backup_label"))?;
    if parsed.from_standby {
        let sql = "SELECT min_recovery_end_timeline FROM pg_catalog.pg_control_recovery()";
        let now = connection.one(sql).await?.number(0);
        if now != 0 && now != u64::from(parsed.timeline) {
            return Err(Error::Refused {
                code: "postgres.base-timeline",
                object: server.to_owned(),
                cause: format!("it followed timeline {} when the copy began, and {now} at the end", parsed.timeline),
                next: "start the backup again: a base lies on one timeline".to_owned(),
            });
        }
    }
    let tablespaces = label::tablespaces(&map).ok_or_else(|| unknown("a tablespace_map"))?;
    let next =
        connection.one("SELECT pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())::pg_catalog.text").await?;
    let sql = "SELECT oid FROM pg_catalog.pg_tablespace \
               WHERE pg_catalog.starts_with(pg_catalog.pg_tablespace_location(oid), 'pg_tblspc/') ORDER BY oid";
    let in_place = connection.query(sql).await?;
    let in_place = in_place.iter().filter_map(|row| row.text(0).parse().ok()).collect();
    Ok(Stopped { ended, stop, label, parsed, map, tablespaces, in_place, next_xid: next.number(0) })
}

fn lsn(connection: &Connection, text: &str) -> Result<Lsn, Error> {
    text.parse().map_err(|()| connection.confused("a position in the log that is none"))
}
