//! Where is a state in the binary log, and how far had a replica followed its primaries?

use crate::Error;
use crate::catalog::facts::Facts;
use crate::client::quote;
use crate::client::{Connection, Row};
use crate::detail::{BinlogPlace, Position, SourcePosition};

/// Whether the server refused because of a right, or because it doesn't know the statement.
pub(crate) fn is_refusal(error: &Error) -> bool {
    matches!(error.number(), Some(1044 | 1045 | 1064 | 1142 | 1143 | 1227 | 1235 | 1295 | 1370 | 3554))
}

/// Where the snapshot of this session is in MariaDB's binary log. Needs no right, and no lock.
pub(crate) async fn of_snapshot(connection: &mut Connection) -> Result<Option<BinlogPlace>, Error> {
    let rows = connection.query("SHOW SESSION STATUS LIKE 'binlog\\_snapshot\\_%'").await?;
    Ok(snapshot_place(&pairs(&rows)))
}

fn pairs(rows: &[Row]) -> Vec<(String, String)> {
    rows.iter().map(|row| (row.text(0).to_ascii_lowercase(), row.text(1).to_owned())).collect()
}

fn snapshot_place(status: &[(String, String)]) -> Option<BinlogPlace> {
    let value = |wanted: &str| status.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
    let file = value("binlog_snapshot_file").filter(|file| !file.is_empty())?;
    let offset = value("binlog_snapshot_position")?.parse().ok()?;
    Some(BinlogPlace { file: file.to_owned(), offset })
}

/// The GTID of each domain at a place of MariaDB's binary log.
pub(crate) async fn gtid_at(connection: &mut Connection, place: &BinlogPlace) -> Result<Option<String>, Error> {
    let sql = format!("SELECT BINLOG_GTID_POS({}, {})", quote::text(&place.file), place.offset);
    let row = connection.one(&sql).await?;
    Ok(row.optional(0).filter(|gtid| !gtid.is_empty()).map(str::to_owned))
}

/// Where MySQL's binary log is now, as far as the account may see it.
pub(crate) async fn now(connection: &mut Connection, facts: &Facts) -> Result<Position, Error> {
    let mut position = Position::default();
    if facts.binlog {
        match connection.query(facts.binlog_status()).await {
            Ok(rows) => position.binlog = rows.first().and_then(place),
            Err(error) if is_refusal(&error) => {}
            Err(error) => return Err(error),
        }
    }
    if !facts.mariadb {
        let row = connection.one("SELECT @@GLOBAL.gtid_executed").await?;
        position.gtid = gtid_set(row.text(0));
    }
    Ok(position)
}

fn place(row: &Row) -> Option<BinlogPlace> {
    Some(BinlogPlace { file: row.optional(0)?.to_owned(), offset: row.text(1).parse().ok()? })
}

/// A set of GTIDs without the line ends that MySQL puts between servers.
fn gtid_set(text: &str) -> Option<String> {
    let set: String = text.split_whitespace().collect();
    (!set.is_empty()).then_some(set)
}

/// How far a replica has followed its primaries; none of a server that isn't one. `None`: the account may not see it.
pub(crate) async fn sources(connection: &mut Connection, facts: &Facts) -> Result<Option<Vec<SourcePosition>>, Error> {
    let (sql, behind) = facts.replica_status();
    let rows = match connection.query(sql).await {
        Ok(rows) => rows,
        Err(error) if is_refusal(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    // The order of columns hasn't changed since 5.1; newer ones come behind.
    let source = |row: &Row| SourcePosition {
        channel: row.text(if facts.mariadb { 0 } else { 55 }).to_owned(),
        host: row.text(behind + 1).to_owned(),
        port: row.text(behind + 3).parse().unwrap_or_default(),
        binlog: BinlogPlace { file: row.text(behind + 9).to_owned(), offset: row.number(behind + 21) },
    };
    Ok(Some(rows.iter().map(source).collect()))
}

/// What a set of a replica says if the account may not see how far the replica has followed. Only MariaDB tells every account that it
/// is a replica.
pub(crate) async fn hidden(connection: &mut Connection, facts: &Facts) -> Result<Option<String>, Error> {
    if !facts.mariadb {
        return Ok(None);
    }
    let row = connection.one("SELECT @@GLOBAL.gtid_slave_pos").await?;
    let running = connection.query("SHOW GLOBAL STATUS LIKE 'Slaves\\_running'").await?;
    let is_replica = !row.text(0).is_empty() || running.iter().any(|row| row.number(1) > 0);
    Ok(is_replica.then(|| {
        "the server follows a primary, and the account may not see up to which place: GRANT REPLICA MONITOR ON *.* to have it in the set"
            .to_owned()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_sets() {
        let status = |pairs: &[(&str, &str)]| {
            let pairs: Vec<_> = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            snapshot_place(&pairs)
        };
        let place = Some(BinlogPlace { file: "bin.000001".into(), offset: 328 });
        for (pairs, expected) in [
            (&[("binlog_snapshot_file", "bin.000001"), ("binlog_snapshot_position", "328")][..], place),
            (&[("binlog_snapshot_file", ""), ("binlog_snapshot_position", "0")], None),
            (&[("binlog_snapshot_file", "bin.000001"), ("binlog_snapshot_position", "x")], None),
            (&[], None),
        ] {
            assert_eq!(status(pairs), expected);
        }
        assert_eq!(gtid_set("a:1-5,\nb:1-3").as_deref(), Some("a:1-5,b:1-3"));
        assert_eq!(gtid_set(""), None);
    }
}
