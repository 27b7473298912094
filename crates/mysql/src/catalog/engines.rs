//! What are the rows of a table's storage engine worth to a backup? Pure.

/// Where an engine's rows are, and whether a snapshot shows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rows {
    /// A consistent snapshot shows them.
    Snapshot,
    /// They are as they are at the moment of reading.
    Current,
    /// They are in other tables or on other servers, or nowhere: the definition is all there is to keep.
    Elsewhere,
}

/// What is known of an engine, by its name in `information_schema`.
pub(crate) fn rows_of(engine: &str) -> Rows {
    let is = |names: &[&str]| names.iter().any(|name| name.eq_ignore_ascii_case(engine));
    if is(&["InnoDB", "ROCKSDB", "TokuDB"]) {
        Rows::Snapshot
    } else if is(&[
        "MRG_MyISAM",
        "MERGE",
        "FEDERATED",
        "CONNECT",
        "SPIDER",
        "OQGRAPH",
        "SPHINX",
        "BLACKHOLE",
        "SEQUENCE",
        "PERFORMANCE_SCHEMA",
        "VP",
    ]) {
        Rows::Elsewhere
    } else {
        Rows::Current
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines() {
        for (engine, rows) in [
            ("InnoDB", Rows::Snapshot),
            ("innodb", Rows::Snapshot),
            ("ROCKSDB", Rows::Snapshot),
            ("MyISAM", Rows::Current),
            ("Aria", Rows::Current),
            ("MEMORY", Rows::Current),
            ("CSV", Rows::Current),
            ("ARCHIVE", Rows::Current),
            ("ndbcluster", Rows::Current),
            ("", Rows::Current),
            ("MRG_MyISAM", Rows::Elsewhere),
            ("FEDERATED", Rows::Elsewhere),
            ("BLACKHOLE", Rows::Elsewhere),
        ] {
            assert_eq!(rows_of(engine), rows, "{engine}");
        }
    }
}
