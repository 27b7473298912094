//! `SET`: what may a script set, and what do its later statements mean then? Pure.
//!
//! A dump saves a setting in a variable of its own, changes it, and puts it back. The two settings that decide on the meaning of quotes
//! are followed through that.

use std::collections::BTreeMap;

use super::cursor::Cursor;
use super::reading::{Modes, Token};

/// Settings of a session that dumps change.
const SETTINGS: [&str; 20] = [
    "autocommit",
    "character_set_client",
    "character_set_connection",
    "character_set_results",
    "check_constraint_checks",
    "collation_connection",
    "foreign_key_checks",
    "innodb_strict_mode",
    "note_verbosity",
    "rocksdb_bulk_load",
    "sql_generate_invisible_primary_key",
    "sql_mode",
    "sql_notes",
    "sql_quote_show_create",
    "sql_require_primary_key",
    "sql_safe_updates",
    "system_versioning_insert_history",
    "time_zone",
    "unique_checks",
    "explicit_defaults_for_timestamp",
];

/// Settings that have the position in a binary log, or keep statements out of it.
const POSITIONS: [&str; 4] = ["sql_log_bin", "gtid_purged", "gtid_slave_pos", "gtid_binlog_state"];

/// Modes that make `"` a quote of names: `ANSI_QUOTES`, and those that contain it.
const ANSI: [&str; 7] = ["ANSI_QUOTES", "ANSI", "DB2", "MAXDB", "MSSQL", "ORACLE", "POSTGRESQL"];

/// Character sets in which a backslash or a quote may be the second byte of a letter.
const AMBIGUOUS: [&str; 5] = ["big5", "cp932", "gb18030", "gbk", "sjis"];

/// The most variables with such values.
const MOST_SAVED: usize = 1_000;

/// What the statements so far have set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct State {
    pub(super) modes: Modes,
    /// Variables of the script whose value would change the meaning of quotes.
    saved: BTreeMap<String, Modes>,
}

/// What a SET does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Set {
    /// It sets these settings of its session.
    Session(Vec<String>),
    /// It sets a position.
    Position,
}

/// The target of an assignment.
#[derive(Debug, Clone, PartialEq, Eq)]
enum To {
    Own(String),
    Setting(String),
}

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Value {
    Own(String),
    Setting(String),
    Text(Modes),
    Number,
    Default,
}

/// Reads what stands behind SET, and changes the state.
pub(super) fn set(cursor: &mut Cursor<'_, '_>, state: &mut State) -> Option<Set> {
    if is_position(&mut cursor.clone()) {
        return Some(Set::Position);
    }
    let before = state.clone();
    let (mut settings, mut in_order) = (Vec::new(), Vec::new());
    loop {
        let assignment = match cursor.word("NAMES") {
            true => {
                let charset = Value::Text(charset(cursor)?);
                if cursor.word("COLLATE") {
                    charset_name(cursor)?;
                }
                settings.push("character_set_client".to_owned());
                (To::Setting("character_set_client".to_owned()), charset)
            }
            false => {
                let to = target(cursor)?;
                let _ = cursor.sign(b':');
                if !cursor.sign(b'=') {
                    return None;
                }
                if let To::Setting(name) = &to {
                    settings.push(name.clone());
                }
                (to, value(cursor)?)
            }
        };
        in_order.push(assignment);
        if cursor.is_done() {
            break;
        }
        if !cursor.sign(b',') {
            return None;
        }
    }
    // A server may look at all values before it sets anything, or one behind another.
    let (mut at_once, mut one_by_one) = (before.clone(), before.clone());
    for (to, value) in &in_order {
        at_once.assign(to, before.value(to, value)?)?;
        let value = one_by_one.value(to, value)?;
        one_by_one.assign(to, value)?;
    }
    if at_once != one_by_one {
        return None;
    }
    *state = at_once;
    Some(Set::Session(settings))
}

/// Whether all that is set is a position. Nothing of it is run.
fn is_position(cursor: &mut Cursor<'_, '_>) -> bool {
    loop {
        while cursor.sign(b'@') {}
        if cursor.one_of(&["GLOBAL", "SESSION"]).is_some() {
            let _ = cursor.sign(b'.');
        }
        let is_position = cursor.one_of(&POSITIONS).is_some() || cursor.word("MYSQLDUMP_TEMP_LOG_BIN");
        if !is_position || !cursor.sign(b'=') {
            return false;
        }
        loop {
            match cursor.next().map(|read| &read.token) {
                None => return true,
                Some(Token::Sign(b',')) => break,
                Some(Token::Sign(b'(' | b')' | b';')) => return false,
                Some(_) => {}
            }
        }
    }
}

fn lower(word: &[u8]) -> Option<String> {
    Some(std::str::from_utf8(word).ok()?.to_ascii_lowercase())
}

/// Takes `name` behind `@@` and a scope: a setting that is read or set.
fn setting(cursor: &mut Cursor<'_, '_>) -> Option<String> {
    match &cursor.next()?.token {
        Token::Word(word) => lower(word).filter(|name| SETTINGS.contains(&name.as_str())),
        _ => None,
    }
}

/// Takes `@name`, behind its first sign.
fn own(cursor: &mut Cursor<'_, '_>) -> Option<String> {
    match &cursor.next()?.token {
        Token::Word(word) => lower(word).filter(|_| !cursor.is_sign(0, b'.')),
        _ => None,
    }
}

fn target(cursor: &mut Cursor<'_, '_>) -> Option<To> {
    if !cursor.sign(b'@') {
        let _ = cursor.one_of(&["SESSION", "LOCAL"]);
        return Some(To::Setting(setting(cursor)?));
    }
    match cursor.sign(b'@') {
        true => {
            scope(cursor);
            Some(To::Setting(setting(cursor)?))
        }
        false => Some(To::Own(own(cursor)?)),
    }
}

/// Takes `SESSION.`, if it is there.
fn scope(cursor: &mut Cursor<'_, '_>) -> bool {
    if cursor.is_sign(1, b'.') && cursor.one_of(&["SESSION", "LOCAL"]).is_some() {
        return cursor.sign(b'.');
    }
    false
}

fn value(cursor: &mut Cursor<'_, '_>) -> Option<Value> {
    if cursor.sign(b'@') {
        return match cursor.sign(b'@') {
            true => {
                scope(cursor);
                Some(Value::Setting(setting(cursor)?))
            }
            false => Some(Value::Own(own(cursor)?)),
        };
    }
    match cursor.peek()? {
        Token::Text(text) => {
            cursor.next();
            Some(Value::Text(modes_of(text)?))
        }
        Token::Word(word) if word.iter().all(u8::is_ascii_digit) => cursor.number().map(|()| Value::Number),
        Token::Word(_) if cursor.word("DEFAULT") => Some(Value::Default),
        Token::Word(word) if word.first().is_some_and(u8::is_ascii_alphabetic) => {
            cursor.next();
            Some(Value::Text(modes_of(word)?))
        }
        Token::Sign(b'-') => cursor.number().map(|()| Value::Number),
        _ => None,
    }
}

fn charset(cursor: &mut Cursor<'_, '_>) -> Option<Modes> {
    modes_of(charset_name(cursor)?)
}

fn charset_name<'a>(cursor: &mut Cursor<'_, 'a>) -> Option<&'a [u8]> {
    match &cursor.next()?.token {
        Token::Word(word) if !word.eq_ignore_ascii_case(b"DEFAULT") => Some(word),
        Token::Text(text) => Some(text),
        _ => None,
    }
}

/// What a text would change, as a mode or as a character set.
fn modes_of(text: &[u8]) -> Option<Modes> {
    let is_simple = |byte: &u8| byte.is_ascii_alphanumeric() || b"_,+-:/. ".contains(byte);
    if !text.iter().all(is_simple) {
        return None;
    }
    let text = std::str::from_utf8(text).ok()?;
    let mut parts = text.split(',').map(str::trim);
    let is_one = |part: &str, known: &[&str]| known.iter().any(|known| part.eq_ignore_ascii_case(known));
    Some(Modes {
        ansi: parts.clone().any(|part| is_one(part, &ANSI)),
        plain: parts.any(|part| is_one(part, &["NO_BACKSLASH_ESCAPES"])),
        ambiguous: is_one(text.trim(), &AMBIGUOUS),
    })
}

impl State {
    /// What a value would change where it is assigned.
    fn value(&self, to: &To, value: &Value) -> Option<Modes> {
        let decides = |name: &str| matches!(name, "sql_mode" | "character_set_client");
        let is_deciding = matches!(to, To::Setting(name) if decides(name));
        Some(match value {
            Value::Own(name) => self.saved.get(name).copied().unwrap_or_default(),
            Value::Setting(name) if name == "sql_mode" => Modes { ambiguous: false, ..self.modes },
            Value::Setting(name) if name == "character_set_client" => {
                Modes { ambiguous: self.modes.ambiguous, ..Modes::default() }
            }
            // A number is a set of modes too, and the server's own setting isn't known.
            Value::Number | Value::Default if is_deciding => return None,
            Value::Number if matches!(to, To::Own(_)) => return None,
            Value::Setting(_) | Value::Number | Value::Default => Modes::default(),
            Value::Text(modes) => *modes,
        })
    }

    fn assign(&mut self, to: &To, value: Modes) -> Option<()> {
        match to {
            To::Setting(name) if name == "sql_mode" => {
                self.modes = Modes { ambiguous: self.modes.ambiguous, ..value };
            }
            To::Setting(name) if name == "character_set_client" => self.modes.ambiguous = value.ambiguous,
            To::Setting(_) => {}
            To::Own(name) if value == Modes::default() => {
                self.saved.remove(name);
            }
            To::Own(name) => {
                self.saved.insert(name.clone(), value);
            }
        }
        (self.saved.len() <= MOST_SAVED).then_some(())
    }
}
