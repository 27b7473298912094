//! The `backup_label` and the `tablespace_map` that `pg_backup_stop` returns. Pure.

use seawall_archive::log::Lsn;

/// What recovery needs to know of a label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Label {
    /// Where recovery begins to read the log.
    pub(crate) start: Lsn,
    /// The timeline of that position.
    pub(crate) timeline: u32,
    /// Whether a standby was copied.
    pub(crate) from_standby: bool,
}

impl Label {
    /// Reads `START WAL LOCATION: 0/2000028 (file 000000010000000000000002)` and the lines beside it.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let value = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
            line.map(str::trim_end)
        };
        let (start, file) = value("START WAL LOCATION")?.split_once(" (file ")?;
        let of_file = file.get(..8).and_then(|timeline| u32::from_str_radix(timeline, 16).ok());
        let timeline = value("START TIMELINE").map_or(of_file, |timeline| timeline.parse().ok())?;
        Some(Self { start: start.parse().ok()?, timeline, from_standby: value("BACKUP FROM") == Some("standby") })
    }
}

/// A tablespace: its number and its folder.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tablespace {
    /// The number, which names its link below `pg_tblspc`.
    pub oid: u32,
    /// The folder on the source, an absolute path.
    pub location: String,
}

/// Reads lines of a number, a blank and a path, in which a backslash stands before a newline, a return and a backslash.
pub(crate) fn tablespaces(map: &str) -> Option<Vec<Tablespace>> {
    let (mut found, mut line, mut escaped) = (Vec::new(), String::new(), false);
    for letter in map.chars() {
        match letter {
            _ if escaped => {
                line.push(letter);
                escaped = false;
            }
            '\\' => escaped = true,
            '\n' => {
                let (oid, location) = line.split_once(' ')?;
                found.push(Tablespace { oid: oid.parse().ok()?, location: location.to_owned() });
                line.clear();
            }
            letter => line.push(letter),
        }
    }
    line.is_empty().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels() {
        let label = "START WAL LOCATION: 0/2000028 (file 000000030000000000000002)\n\
                     CHECKPOINT LOCATION: 0/2000060\nBACKUP METHOD: streamed\nBACKUP FROM: primary\n\
                     START TIME: 2026-11-22 10:31:07 UTC\nLABEL: seawall\nSTART TIMELINE: 3\n";
        let parsed = Label { start: Lsn::new(0x200_0028), timeline: 3, from_standby: false };
        assert_eq!(Label::parse(label), Some(parsed.clone()));
        assert_eq!(Label::parse(&label.replace("START TIMELINE: 3\n", "")), Some(parsed));
        assert!(Label::parse(&label.replace("primary", "standby")).expect("a label").from_standby);
        for text in ["", "START WAL LOCATION: x (file 000000030000000000000002)\n", "LABEL: x\n"] {
            assert_eq!(Label::parse(text), None);
        }
    }

    #[test]
    fn maps() {
        let one = |oid, location: &str| Tablespace { oid, location: location.into() };
        for (map, expected) in [
            ("", Some(vec![])),
            ("16384 /mnt/fast\n", Some(vec![one(16384, "/mnt/fast")])),
            ("1 /a b\\\nc\n2 /d\\\\e\n", Some(vec![one(1, "/a b\nc"), one(2, "/d\\e")])),
            ("16384 /mnt/fast", None),
            ("x /mnt\n", None),
            ("16384\n", None),
        ] {
            assert_eq!(tablespaces(map), expected, "{map:?}");
        }
    }
}
