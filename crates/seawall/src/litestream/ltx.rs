//! `litestream ltx`: the LTX files of a replica.

use seawall_agent::LtxObject;
use seawall_core::Moment;
use serde::Serialize;

use super::config::Named;
use super::{Answer, Stop, flags, json};
use crate::edge::Edge;
use crate::{runtime, table};

#[derive(Serialize)]
struct Row {
    level: u8,
    min_txid: String,
    max_txid: String,
    size: u64,
    timestamp: String,
}

/// Runs the command.
pub(super) fn run(arguments: &[String], edge: &Edge) -> Answer {
    let known = [flags::value("config"), flags::switch("no-expand-env"), flags::switch("json"), flags::value("level")];
    let flags = flags::parse(&known, arguments)?;
    let level = level(flags.get("level"))?;
    let missing = || Stop::hinted("database path or replica URL required", "litestream ltx /path/to/db");
    let named = Named::find(flags.only_argument()?.ok_or_else(missing)?, &flags, edge)?;
    let opener = edge.opener(runtime::working())?;
    let objects = runtime::run(opener.ltx_objects(named.vault()))?;
    let row = |object: &LtxObject| Row {
        level: object.level,
        min_txid: object.min.to_string(),
        max_txid: object.max.to_string(),
        size: object.bytes,
        timestamp: seconds(object.modified),
    };
    let rows: Vec<Row> =
        objects.iter().filter(|object| level.is_none_or(|level| object.level == level)).map(row).collect();
    if flags.is_set("json") {
        return json(&rows);
    }
    let cells = |row: Row| vec![row.level.to_string(), row.min_txid, row.max_txid, row.size.to_string(), row.timestamp];
    let heading = ["level", "min_txid", "max_txid", "size", "created"];
    Ok(table::table(&heading, rows.into_iter().map(cells).collect(), &[]))
}

/// One level, or all of them.
fn level(text: Option<&str>) -> Result<Option<u8>, Stop> {
    match text {
        None => Ok(Some(0)),
        Some("all") => Ok(None),
        Some(text) => match text.parse() {
            Ok(level @ 0..=9) => Ok(Some(level)),
            _ => Err(Stop::Usage(format!("invalid value \"{text}\" for flag -level: level must be between 0 and 9"))),
        },
    }
}

/// A moment in whole seconds.
pub(super) fn seconds(moment: Moment) -> String {
    let text = moment.to_string();
    match text.split_once('.') {
        Some((seconds, _)) => format!("{seconds}Z"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels() {
        assert_eq!(level(None), Ok(Some(0)));
        assert_eq!(level(Some("all")), Ok(None));
        assert_eq!(level(Some("9")), Ok(Some(9)));
        for bad in ["10", "-1", "x"] {
            assert!(level(Some(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn whole_seconds() {
        assert_eq!(seconds(Moment::from_millis(1_500)), "1970-01-01T00:00:01Z");
    }
}
