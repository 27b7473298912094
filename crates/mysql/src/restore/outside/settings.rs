//! Settings of a script that the server refuses, and settings that it doesn't know any more. Pure.
//!
//! A dump has settings around each routine and trigger: the mode, the time zone, the character set of the session that made it. A server
//! of another version may refuse one. Then only what stands behind it until the setting is set again can't be made.

use std::collections::BTreeMap;

use crate::restore::objects::GONE;

/// Settings that change what the server tells, or how fast it is, and nothing that it keeps. A server may not know them.
const HARMLESS: [&str; 5] =
    ["character_set_results", "note_verbosity", "rocksdb_bulk_load", "sql_notes", "sql_quote_show_create"];

/// The settings that the server has refused, and that weren't set since.
#[derive(Debug, Default)]
pub(super) struct Pending {
    refused: BTreeMap<String, String>,
}

impl Pending {
    /// Notes what a statement set, or why the server refused it.
    pub(super) fn note(&mut self, settings: &[String], refused: Option<&str>) {
        for setting in settings.iter().filter(|setting| !HARMLESS.contains(&setting.as_str())) {
            match refused {
                Some(cause) => drop(self.refused.insert(setting.clone(), cause.to_owned())),
                None => drop(self.refused.remove(setting)),
            }
        }
    }

    /// Why nothing can be made now, if it can't.
    pub(super) fn why(&self) -> Option<String> {
        let (setting, cause) = self.refused.first_key_value()?;
        Some(format!("the script sets {setting} for it, which the server refuses: {cause}"))
    }

    /// Whether the server has refused this setting.
    pub(super) fn has(&self, setting: &str) -> bool {
        self.refused.contains_key(setting)
    }
}

/// A statement that sets `sql_mode`, without the modes that MySQL 8.0 doesn't know any more.
pub(super) fn without_gone_modes(sql: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(sql.len());
    // Such a statement has no escapes in its texts: the judge takes none.
    for (number, part) in sql.split(|byte| *byte == b'\'').enumerate() {
        if number > 0 {
            out.push(b'\'');
        }
        if number % 2 == 0 {
            out.extend_from_slice(part);
            continue;
        }
        let is_known = |mode: &&[u8]| !GONE.iter().any(|gone| mode.trim_ascii().eq_ignore_ascii_case(gone.as_bytes()));
        out.extend_from_slice(&part.split(|byte| *byte == b',').filter(is_known).collect::<Vec<_>>().join(&b","[..]));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_setting_waits_until_it_is_set() {
        let settings = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let mut pending = Pending::default();
        pending.note(&settings(&["note_verbosity"]), Some("no"));
        assert_eq!(pending.why(), None);
        pending.note(&settings(&["time_zone", "sql_mode"]), Some("no"));
        pending.note(&settings(&["unique_checks"]), None);
        assert!(pending.has("sql_mode") && pending.has("time_zone"));
        pending.note(&settings(&["sql_mode"]), None);
        let why = pending.why().expect("one is left");
        assert_eq!(why, "the script sets time_zone for it, which the server refuses: no");
        pending.note(&settings(&["time_zone"]), None);
        assert_eq!(pending.why(), None);
    }

    #[test]
    fn modes_that_are_gone_are_left_out() {
        for (sql, expected) in [
            (
                "/*!50003 SET sql_mode              = 'STRICT_TRANS_TABLES,NO_AUTO_CREATE_USER,NO_ENGINE_SUBSTITUTION' */",
                "/*!50003 SET sql_mode              = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION' */",
            ),
            ("SET sql_mode='NO_AUTO_CREATE_USER'", "SET sql_mode=''"),
            ("SET sql_mode='oracle,ANSI_QUOTES', @a='x'", "SET sql_mode='ANSI_QUOTES', @a='x'"),
            ("SET sql_mode=@saved_sql_mode", "SET sql_mode=@saved_sql_mode"),
        ] {
            assert_eq!(String::from_utf8_lossy(&without_gone_modes(sql.as_bytes())), expected);
        }
    }
}
