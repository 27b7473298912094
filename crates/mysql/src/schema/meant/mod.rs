//! What does a statement of `mysqldump` do? Pure.
//!
//! Such a script is run with the rights of the account that restores. So only statements are run that such scripts have, and only in
//! the session's own database: none that changes the server, its accounts or another database. The judge knows the statements that are
//! taken, word by word to their end, and refuses all others. A server that the judge doesn't know may read a statement otherwise, so
//! each of its readings must be one that is taken, and all must be of one kind.
//!
//! What isn't tables is made with the text that the script has for it: a routine, a trigger or an event does later what that text says.

mod cursor;
mod reading;
mod rows;
mod session;
mod table;

#[cfg(test)]
mod property;
#[cfg(test)]
mod tests;

use cursor::Cursor;
use reading::{Dialect, Read, Reader, Token};
pub(crate) use reading::{Modes, Server};
use session::{Set, State};

/// The most bytes of a statement that is read to its end and isn't rows. A table with 8,192 partitions has a megabyte.
const MOST: usize = 4 << 20;

/// The most bytes of a statement that changes settings.
const MOST_SET: usize = 64 << 10;

/// The bytes of an object's statement in which all before its body stands, and its tokens.
const HEAD: usize = 4096;
const MOST_HEAD: usize = 96;

/// What a statement does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Meant {
    /// It sets these settings of its session.
    Session(Vec<String>),
    /// It makes, changes or drops a table or a sequence.
    Table,
    /// It adds rows.
    Rows,
    /// It makes or drops something that isn't a table: what, for messages.
    Object(String),
    /// It changes the database of this name: the statement without the name.
    Alter(String, String),
    /// It makes or drops a database of this name, or goes into it. It isn't run.
    Database(String),
    /// It isn't run, because the restore does without it: locks.
    Skipped,
    /// It changes the server, and isn't run: what, for messages.
    Server(&'static str),
    /// No script of a database has it: why.
    Unknown(&'static str),
}

/// The reason of most refusals.
pub(crate) const NOT_OF_A_DUMP: &str = "it changes the server, its accounts or another database";

/// The reason where a table takes its values from a sequence. MariaDB writes the database of that sequence into its dumps.
const OF_A_SEQUENCE: &str =
    "a column takes its default from a sequence of a database that it names, and would go on to take it there";

/// Judges the statements of one script, one behind another.
#[derive(Debug, Clone, Default)]
pub(crate) struct Judge {
    /// The server that runs them, if one does.
    server: Option<Server>,
    state: State,
}

impl Judge {
    /// A judge for statements that `server` runs, in a session in which a backslash escapes and `"` stands around texts.
    pub(crate) fn new(server: Option<Server>) -> Self {
        Self { server, state: State::default() }
    }

    /// What quotes mean in the next statement.
    pub(crate) fn modes(&self) -> Modes {
        self.state.modes
    }

    /// What a statement does. The next is judged by what it sets.
    pub(crate) fn judge(&mut self, sql: &[u8]) -> Meant {
        let modes = self.state.modes;
        if modes.ambiguous && !sql.is_ascii() {
            return Meant::Unknown("it is in a character set in which a backslash may be a part of a letter");
        }
        if rows::is_insert(sql) {
            return match rows::adds_values(sql, modes) {
                true => Meant::Rows,
                false => Meant::Unknown("it adds rows to another database, or rows that aren't values in it"),
            };
        }
        match self.readings(sql) {
            Ok((meant, state)) => {
                self.state = state;
                meant
            }
            Err(reason) => Meant::Unknown(reason),
        }
    }

    /// Reads a statement as each server may read it.
    fn readings(&self, sql: &[u8]) -> Result<(Meant, State), &'static str> {
        let head = sql.get(..HEAD.min(sql.len())).unwrap_or_default();
        let servers = match head.len() == sql.len() {
            true => reading::readers(sql)?,
            false if self.is_object(head) => reading::readers(head)?,
            false if sql.len() > MOST => return Err("it is larger than any statement of a dump that isn't rows"),
            false => reading::readers(sql)?,
        };
        let mut all: Vec<(Meant, State)> = Vec::new();
        let mut found: Option<(Meant, State)> = None;
        for server in servers {
            let (meant, state) = one(sql, server, &self.state)?;
            let is_nothing = meant == Meant::Skipped && state == self.state;
            if !all.contains(&(meant.clone(), state.clone())) {
                all.push((meant.clone(), state.clone()));
            }
            if found.is_none() || !is_nothing {
                found = Some((meant, state));
            }
        }
        let (first, state) = found.ok_or("it isn't understood")?;
        let is_alike = |(meant, other): &(Meant, State)| {
            *other == state && (*meant == Meant::Skipped || is_of_one_kind(meant, &first))
        };
        if !all.iter().all(is_alike) {
            return Err("servers of other versions do something else with it");
        }
        match self.server {
            Some(server) => one(sql, Dialect::of(server), &self.state),
            None => Ok((first, state)),
        }
    }

    /// Whether a statement begins as that of an object with a body, for some server.
    fn is_object(&self, head: &[u8]) -> bool {
        let newest = [Server { mariadb: false, version: 999_999 }, Server { mariadb: true, version: 999_999 }];
        newest.into_iter().any(|server| {
            let (tokens, _, _) = tokens(head, Dialect::of(server), self.state.modes, MOST_HEAD);
            let mut cursor = Cursor::new(&tokens);
            cursor.word("CREATE") && object(&mut cursor).is_some()
        })
    }
}

/// Whether two meanings differ in nothing that matters.
fn is_of_one_kind(one: &Meant, other: &Meant) -> bool {
    match (one, other) {
        (Meant::Alter(one, _), Meant::Alter(other, _)) => one == other,
        _ => one == other,
    }
}

/// The first tokens of a statement, whether these are all, and whether a comment up to the end of a line is among them.
fn tokens<'a>(sql: &'a [u8], server: Dialect, modes: Modes, most: usize) -> (Vec<Read<'a>>, bool, bool) {
    let mut reader = Reader::new(sql, server, modes);
    let mut tokens = Vec::new();
    while tokens.len() < most {
        match reader.next() {
            Ok(Some(token)) => tokens.push(token),
            Ok(None) => return (tokens, true, reader.has_lines),
            Err(_) => break,
        }
    }
    (tokens, false, reader.has_lines)
}

/// What a statement does on one server, and what is set behind it.
fn one(sql: &[u8], server: Dialect, state: &State) -> Result<(Meant, State), &'static str> {
    let head = sql.get(..HEAD.min(sql.len())).unwrap_or_default();
    let (first, _, _) = tokens(head, server, state.modes, MOST_HEAD);
    let mut cursor = Cursor::new(&first);
    if cursor.word("CREATE")
        && let Some(what) = object(&mut cursor)
    {
        return Ok((Meant::Object(what), state.clone()));
    }
    let most = if Cursor::new(&first).is(0, "SET") { MOST_SET } else { MOST };
    if sql.len() > most {
        return Err("it is larger than any statement of a dump that isn't rows");
    }
    let mut reader = Reader::new(sql, server, state.modes);
    let mut tokens = Vec::new();
    while let Some(token) = reader.next()? {
        tokens.push(token);
    }
    if reader.has_lines {
        return Err("it has a comment in it");
    }
    let (mut cursor, mut state) = (Cursor::new(&tokens), state.clone());
    match statement(&mut cursor, &mut state).filter(|_| cursor.is_done()) {
        Some(meant) => Ok((meant, state)),
        None if is_of_a_sequence(&tokens) => Err(OF_A_SEQUENCE),
        None => Err(NOT_OF_A_DUMP),
    }
}

/// Whether a refused CREATE TABLE names a sequence with its database.
fn is_of_a_sequence(tokens: &[Read<'_>]) -> bool {
    let is_word = |read: &Read<'_>, word: &str| matches!(&read.token, Token::Word(found) if found.eq_ignore_ascii_case(word.as_bytes()));
    let is_it = |read: &Read<'_>| is_word(read, "NEXTVAL") || is_word(read, "LASTVAL");
    tokens.get(1).is_some_and(|read| is_word(read, "TABLE")) && tokens.iter().any(is_it)
}

/// What a statement without a body does. All of it must have been taken.
fn statement(cursor: &mut Cursor<'_, '_>, state: &mut State) -> Option<Meant> {
    if cursor.is_done() {
        return Some(Meant::Skipped);
    }
    let verb = cursor.one_of(&[
        "SET",
        "CREATE",
        "DROP",
        "ALTER",
        "LOCK",
        "UNLOCK",
        "USE",
        "DO",
        "SELECT",
        "ANALYZE",
        "CHANGE",
        "START",
        "STOP",
        "COMMIT",
        "BEGIN",
        "PREPARE",
        "EXECUTE",
        "DEALLOCATE",
    ])?;
    match verb {
        "SET" if is_of_rocksdb(cursor) => Some(passed_over(cursor)),
        "SET" => match session::set(cursor, state)? {
            Set::Session(settings) => Some(Meant::Session(settings)),
            Set::Position => {
                passed_over(cursor);
                Some(Meant::Server("positions in the binary log"))
            }
        },
        "CREATE" => create(cursor),
        "DROP" => drop(cursor),
        "ALTER" if cursor.word("TABLE") => {
            cursor.own()?;
            table::alter(cursor)?;
            Some(Meant::Table)
        }
        "ALTER" => {
            cursor.one_of(&["DATABASE", "SCHEMA"])?;
            let name = cursor.own()?;
            Some(Meant::Alter(name, format!("ALTER DATABASE{}", charsets(cursor)?)))
        }
        "LOCK" | "UNLOCK" => {
            cursor.one_of(&["TABLES", "TABLE"])?;
            Some(passed_over(cursor))
        }
        "USE" => Some(Meant::Database(cursor.own()?)),
        "DO" => table::setval(cursor).map(|()| Meant::Table),
        "SELECT" if cursor.is(0, "SETVAL") => table::setval(cursor).map(|()| Meant::Table),
        // Percona's own question whether a setting of RocksDB is there.
        "SELECT" if cursor.words(&["COUNT"]) => {
            let is_it = cursor.sign(b'(') && cursor.sign(b'*') && cursor.sign(b')') && cursor.word("INTO");
            (is_it && is_of_rocksdb(cursor)).then(|| passed_over(cursor))
        }
        "PREPARE" => {
            cursor.own()?;
            (cursor.word("FROM") && is_of_rocksdb(cursor)).then(|| passed_over(cursor))
        }
        "EXECUTE" => (cursor.word("s")).then_some(Meant::Skipped),
        "DEALLOCATE" => (cursor.words(&["PREPARE", "s"])).then_some(Meant::Skipped),
        "ANALYZE" => {
            let _ = cursor.one_of(&["NO_WRITE_TO_BINLOG", "LOCAL"]);
            cursor.one_of(&["TABLE", "TABLES"])?;
            let name = cursor.own()?;
            table::histogram(cursor)?;
            Some(Meant::Object(format!("histogram of {name}")))
        }
        "CHANGE" => {
            cursor.one_of(&["MASTER", "REPLICATION"])?;
            passed_over(cursor);
            Some(Meant::Server("a position in the binary log"))
        }
        "START" if cursor.word("TRANSACTION") => {
            let _ = cursor.words(&["WITH", "CONSISTENT", "SNAPSHOT"]);
            Some(Meant::Session(Vec::new()))
        }
        "START" | "STOP" => {
            let _ = cursor.word("ALL");
            cursor.one_of(&["SLAVE", "SLAVES", "REPLICA", "REPLICAS"])?;
            passed_over(cursor);
            Some(Meant::Server("the beginning and end of replication"))
        }
        "COMMIT" | "BEGIN" => {
            let _ = cursor.word("WORK");
            Some(Meant::Session(Vec::new()))
        }
        _ => None,
    }
}

/// Takes the rest of a statement that isn't run.
fn passed_over(cursor: &mut Cursor<'_, '_>) -> Meant {
    while cursor.next().is_some() {}
    Meant::Skipped
}

/// Whether a variable of Percona's `mysqldump` is the next.
fn is_of_rocksdb(cursor: &Cursor<'_, '_>) -> bool {
    let is_its = |word: &[u8]| word.to_ascii_lowercase().starts_with(b"rocksdb_");
    cursor.is_sign(0, b'@') && matches!(cursor.peek_at(1), Some(Token::Word(word)) if is_its(word))
}

/// CREATE of something without a body.
fn create(cursor: &mut Cursor<'_, '_>) -> Option<Meant> {
    let _ = cursor.words(&["OR", "REPLACE"]);
    match cursor.one_of(&["TABLE", "SEQUENCE", "DATABASE", "SCHEMA"])? {
        "TABLE" => {
            cursor.if_not_exists();
            cursor.own()?;
            table::create(cursor)?;
            Some(Meant::Table)
        }
        "SEQUENCE" => {
            cursor.if_not_exists();
            cursor.own()?;
            table::sequence(cursor)?;
            Some(Meant::Table)
        }
        _ => {
            cursor.if_not_exists();
            let name = cursor.own()?;
            passed_over(cursor);
            Some(Meant::Database(name))
        }
    }
}

/// Takes `CHARACTER SET x COLLATE y`, and returns it.
fn charsets(cursor: &mut Cursor<'_, '_>) -> Option<String> {
    let mut told = String::new();
    while !cursor.is_done() {
        let _ = cursor.word("DEFAULT");
        if cursor.words(&["CHARACTER", "SET"]) || cursor.word("CHARSET") {
            told.push_str(" CHARACTER SET ");
        } else if cursor.word("COLLATE") {
            told.push_str(" COLLATE ");
        } else {
            return None;
        }
        let _ = cursor.sign(b'=');
        match &cursor.next()?.token {
            Token::Word(word) => told.push_str(std::str::from_utf8(word).ok()?),
            _ => return None,
        }
    }
    (!told.is_empty()).then_some(told)
}

const KINDS: [&str; 6] = ["VIEW", "TRIGGER", "FUNCTION", "PROCEDURE", "EVENT", "PACKAGE"];

fn drop(cursor: &mut Cursor<'_, '_>) -> Option<Meant> {
    if cursor.one_of(&["TABLE", "SEQUENCE"]).is_some() {
        cursor.if_exists();
        cursor.own()?;
        return Some(Meant::Table);
    }
    // `--add-drop-database`. The restore makes its database itself.
    if cursor.words(&["DATABASE", "IF", "EXISTS"]) {
        return Some(Meant::Database(cursor.own()?));
    }
    let kind = cursor.one_of(&KINDS)?;
    let is_body = kind == "PACKAGE" && cursor.word("BODY");
    cursor.if_exists();
    let name = cursor.own()?;
    Some(Meant::Object(told(kind, is_body, &name)))
}

fn told(kind: &str, is_body: bool, name: &str) -> String {
    format!("{}{} {name}", kind.to_lowercase(), if is_body { " body" } else { "" })
}

/// The head of an object with a body, behind CREATE: what it is.
fn object(cursor: &mut Cursor<'_, '_>) -> Option<String> {
    let _ = cursor.words(&["OR", "REPLACE"]);
    let kind = loop {
        if cursor.word("ALGORITHM") {
            let _ = cursor.sign(b'=');
            cursor.one_of(&["UNDEFINED", "MERGE", "TEMPTABLE"])?;
        } else if cursor.word("DEFINER") {
            let _ = cursor.sign(b'=');
            definer(cursor)?;
        } else if cursor.words(&["SQL", "SECURITY"]) {
            cursor.one_of(&["DEFINER", "INVOKER"])?;
        } else if !cursor.word("AGGREGATE") {
            break cursor.one_of(&KINDS)?;
        }
    };
    let is_body = kind == "PACKAGE" && cursor.word("BODY");
    cursor.if_not_exists();
    let name = cursor.own()?;
    let is_its = match kind {
        "VIEW" => cursor.is_sign(0, b'(') || cursor.is(0, "AS"),
        "TRIGGER" => trigger(cursor).is_some(),
        // A function of a library has neither parentheses nor a body.
        "FUNCTION" => cursor.is_sign(0, b'(') || cursor.is(0, "RETURN"),
        "PROCEDURE" => cursor.is_sign(0, b'(') || cursor.is(0, "AS") || cursor.is(0, "IS"),
        "EVENT" => cursor.words(&["ON", "SCHEDULE"]),
        _ => !cursor.is_done() && !cursor.is_sign(0, b'.'),
    };
    is_its.then(|| told(kind, is_body, &name))
}

/// Takes the account of a DEFINER.
fn definer(cursor: &mut Cursor<'_, '_>) -> Option<()> {
    let mut part = || match cursor.next().map(|read| &read.token) {
        Some(Token::Word(_) | Token::Name(_) | Token::Text(_)) => Some(()),
        _ => None,
    };
    part()?;
    if cursor.sign(b'(') {
        return cursor.sign(b')').then_some(());
    }
    if !cursor.sign(b'@') {
        return Some(());
    }
    let part = cursor.next().map(|read| &read.token);
    matches!(part, Some(Token::Word(_) | Token::Name(_) | Token::Text(_))).then_some(())
}

/// Takes what stands between the name of a trigger and its body.
fn trigger(cursor: &mut Cursor<'_, '_>) -> Option<()> {
    cursor.one_of(&["BEFORE", "AFTER"])?;
    loop {
        cursor.one_of(&["INSERT", "UPDATE", "DELETE"])?;
        if !cursor.word("OR") {
            break;
        }
    }
    if !cursor.word("ON") {
        return None;
    }
    cursor.own()?;
    cursor.words(&["FOR", "EACH", "ROW"]).then_some(())
}
