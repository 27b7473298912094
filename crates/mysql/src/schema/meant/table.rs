//! Statements about tables and sequences. Pure.

use super::cursor::Cursor;
use super::reading::{Read, Token};

/// Engines whose tables are in files of the server's own, and in no other place.
const ENGINES: [&str; 14] = [
    "InnoDB",
    "MyISAM",
    "Aria",
    "MEMORY",
    "HEAP",
    "CSV",
    "ARCHIVE",
    "BLACKHOLE",
    "MRG_MyISAM",
    "MERGE",
    "ROCKSDB",
    "TokuDB",
    "ndbcluster",
    "Mroonga",
];

/// Options of a table with one value.
const OPTIONS: [&str; 30] = [
    "AUTO_INCREMENT",
    "AUTOEXTEND_SIZE",
    "AVG_ROW_LENGTH",
    "CHARSET",
    "CHECKSUM",
    "COLLATE",
    "COMMENT",
    "COMPRESSION",
    "DELAY_KEY_WRITE",
    "ENCRYPTED",
    "ENCRYPTION",
    "ENCRYPTION_KEY_ID",
    "ENGINE_ATTRIBUTE",
    "IETF_QUOTES",
    "INSERT_METHOD",
    "KEY_BLOCK_SIZE",
    "MAX_ROWS",
    "MIN_ROWS",
    "PACK_KEYS",
    "PAGE_CHECKSUM",
    "PAGE_COMPRESSED",
    "PAGE_COMPRESSION_LEVEL",
    "ROW_FORMAT",
    "SECONDARY_ENGINE_ATTRIBUTE",
    "SEQUENCE",
    "STATS_AUTO_RECALC",
    "STATS_PERSISTENT",
    "STATS_SAMPLE_PAGES",
    "TABLE_CHECKSUM",
    "TRANSACTIONAL",
];

/// Words that a definition in a dump never has without quotes, and that reach other tables, files or the session.
const FOREIGN: [&[u8]; 5] = [b"SELECT", b"LOAD_FILE", b"INTO", b"OUTFILE", b"DUMPFILE"];

/// CREATE TABLE, behind its name.
pub(super) fn create(cursor: &mut Cursor<'_, '_>) -> Option<()> {
    // A query would stand there instead of definitions.
    let is_query =
        |cursor: &Cursor<'_, '_>| ["LIKE", "SELECT", "TABLE", "VALUES", "WITH"].iter().any(|word| cursor.is(0, word));
    if !cursor.sign(b'(') || is_query(cursor) || matches!(cursor.peek(), Some(Token::Sign(b'('))) {
        return None;
    }
    group(cursor)?;
    while !cursor.is_done() {
        let _ = cursor.sign(b',');
        let is_default = cursor.word("DEFAULT");
        if cursor.words(&["PARTITION", "BY"]) {
            return partitions(cursor);
        }
        if cursor.words(&["WITH", "SYSTEM", "VERSIONING"]) || cursor.words(&["WITHOUT", "SYSTEM", "VERSIONING"]) {
            continue;
        }
        if cursor.words(&["CHARACTER", "SET"]) {
            value(cursor)?;
        } else if !is_default && (cursor.word("ENGINE") || cursor.word("TYPE")) {
            engine(cursor)?;
        } else if cursor.word("UNION") {
            let _ = cursor.sign(b'=');
            cursor.names()?;
        } else if cursor.word("TABLESPACE") {
            let _ = cursor.sign(b'=');
            cursor.own()?;
        } else if cursor.word("STORAGE") {
            cursor.one_of(&["DISK", "MEMORY"])?;
        } else if option(cursor) {
            value(cursor)?;
        } else {
            return None;
        }
    }
    Some(())
}

/// Takes the name of an option, which may be in quotes.
fn option(cursor: &mut Cursor<'_, '_>) -> bool {
    let is_known = match cursor.peek() {
        Some(Token::Name(name)) => OPTIONS.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes())),
        _ => OPTIONS.iter().any(|known| cursor.is(0, known)),
    };
    if is_known {
        cursor.next();
    }
    is_known
}

/// Takes `= value`: a number, a word or a text.
fn value(cursor: &mut Cursor<'_, '_>) -> Option<()> {
    let _ = cursor.sign(b'=');
    match &cursor.next()?.token {
        Token::Word(word) => (!is_foreign(word)).then_some(()),
        Token::Text(_) => Some(()),
        Token::Name(_) | Token::Sign(_) => None,
    }
}

/// Takes `= engine`, if its tables are the server's own.
fn engine(cursor: &mut Cursor<'_, '_>) -> Option<()> {
    let _ = cursor.sign(b'=');
    let name = match &cursor.next()?.token {
        Token::Word(name) | Token::Text(name) => *name,
        Token::Name(name) => name.as_slice(),
        Token::Sign(_) => return None,
    };
    ENGINES.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes())).then_some(())
}

/// Takes all up to the `)` that ends the group whose `(` was taken: columns, keys, expressions.
pub(super) fn group(cursor: &mut Cursor<'_, '_>) -> Option<()> {
    let mut depth = 1_usize;
    let mut before: Option<&Read<'_>> = None;
    while depth > 0 {
        let read = cursor.next()?;
        match &read.token {
            Token::Sign(b'(') => depth += 1,
            Token::Sign(b')') => depth -= 1,
            token => harmless(token, read.glued, before, cursor)?,
        }
        before = Some(read);
    }
    Some(())
}

fn is_foreign(word: &[u8]) -> bool {
    FOREIGN.iter().any(|foreign| word.eq_ignore_ascii_case(foreign))
}

/// Whether a token neither begins a query nor stands between two names.
fn harmless(token: &Token<'_>, glued: bool, before: Option<&Read<'_>>, cursor: &Cursor<'_, '_>) -> Option<()> {
    let is_harmless = match token {
        Token::Word(word) => !is_foreign(word),
        Token::Sign(b'.') => is_of_number(before, glued, cursor.clone().next()),
        Token::Sign(b';' | b'@' | b':' | b'?') => false,
        _ => true,
    };
    is_harmless.then_some(())
}

/// Whether a point stands in a number: digits before it, digits behind it, no blank.
fn is_of_number(before: Option<&Read<'_>>, glued: bool, behind: Option<&Read<'_>>) -> bool {
    let is_begun = match before.map(|read| &read.token) {
        Some(Token::Word(word)) => glued && word.iter().all(u8::is_ascii_digit),
        Some(Token::Name(_) | Token::Text(_) | Token::Sign(b')')) | None => false,
        Some(Token::Sign(_)) => true,
    };
    let is_rest = match behind {
        Some(Read { token: Token::Word(word), glued: true }) => {
            let digits = word.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let rest = word.get(digits..).unwrap_or_default();
            digits > 0
                && match rest {
                    [] => true,
                    [b'e' | b'E', digits @ ..] => digits.iter().all(u8::is_ascii_digit),
                    _ => false,
                }
        }
        _ => false,
    };
    is_begun && is_rest
}

/// Takes what stands behind PARTITION BY, to the end.
fn partitions(cursor: &mut Cursor<'_, '_>) -> Option<()> {
    if cursor.word("SYSTEM_TIME") {
        const WORDS: [&str; 12] = [
            "INTERVAL",
            "LIMIT",
            "STARTS",
            "TIMESTAMP",
            "AUTO",
            "SECOND",
            "MINUTE",
            "HOUR",
            "DAY",
            "WEEK",
            "MONTH",
            "YEAR",
        ];
        while !cursor.is_done() && !cursor.is(0, "PARTITIONS") && !cursor.is_sign(0, b'(') {
            if cursor.one_of(&WORDS).is_none() {
                value(cursor)?;
            }
        }
    } else {
        parts(cursor)?;
    }
    if cursor.word("PARTITIONS") {
        cursor.number()?;
    }
    if cursor.words(&["SUBPARTITION", "BY"]) {
        parts(cursor)?;
        if cursor.word("SUBPARTITIONS") {
            cursor.number()?;
        }
    }
    if cursor.sign(b'(') {
        definitions(cursor, "PARTITION")?;
    }
    cursor.is_done().then_some(())
}

/// Takes what decides on a row's partition: `RANGE (…)`.
fn parts(cursor: &mut Cursor<'_, '_>) -> Option<()> {
    let _ = cursor.word("LINEAR");
    cursor.one_of(&["HASH", "KEY", "RANGE", "LIST"])?;
    let _ = cursor.word("COLUMNS");
    if cursor.word("ALGORITHM") {
        let _ = cursor.sign(b'=');
        cursor.number()?;
    }
    if cursor.sign(b'(') { group(cursor) } else { None }
}

/// Takes the definitions of partitions, or of those within one, up to their `)`. The files of none are in a place of their own.
fn definitions(cursor: &mut Cursor<'_, '_>, word: &str) -> Option<()> {
    loop {
        if !cursor.word(word) {
            return None;
        }
        cursor.own()?;
        if cursor.word("VALUES") && !cursor.word("IN") && !cursor.words(&["LESS", "THAN"]) {
            return None;
        }
        let _ = cursor.one_of(&["MAXVALUE", "DEFAULT", "HISTORY", "CURRENT"]);
        if cursor.sign(b'(') {
            match cursor.is(0, "SUBPARTITION") && word == "PARTITION" {
                true => definitions(cursor, "SUBPARTITION")?,
                false => group(cursor)?,
            }
        }
        loop {
            let _ = cursor.word("STORAGE");
            if cursor.word("ENGINE") {
                engine(cursor)?;
            } else if cursor.word("TABLESPACE") {
                let _ = cursor.sign(b'=');
                cursor.own()?;
            } else if cursor.word("NODEGROUP") || option(cursor) {
                value(cursor)?;
            } else {
                break;
            }
        }
        if cursor.sign(b'(') {
            definitions(cursor, "SUBPARTITION").filter(|()| word == "PARTITION")?;
        }
        if cursor.sign(b')') {
            return Some(());
        }
        if !cursor.sign(b',') {
            return None;
        }
    }
}

/// ALTER TABLE, behind its name: keys on and off, and keys that are added.
pub(super) fn alter(cursor: &mut Cursor<'_, '_>) -> Option<()> {
    if cursor.words(&["DISABLE", "KEYS"]) || cursor.words(&["ENABLE", "KEYS"]) {
        return cursor.is_done().then_some(());
    }
    loop {
        if !cursor.word("ADD") {
            return None;
        }
        if cursor.word("CONSTRAINT") && !cursor.is(0, "FOREIGN") && !cursor.is(0, "PRIMARY") && !cursor.is(0, "UNIQUE")
        {
            cursor.own()?;
        }
        added(cursor)?;
        if cursor.is_done() {
            return Some(());
        }
        if !cursor.sign(b',') {
            return None;
        }
    }
}

/// Takes a key or a constraint, up to the comma behind it.
fn added(cursor: &mut Cursor<'_, '_>) -> Option<()> {
    /// Words before a name.
    const KINDS: [&str; 10] =
        ["PRIMARY", "UNIQUE", "FULLTEXT", "SPATIAL", "FOREIGN", "KEY", "INDEX", "CHECK", "REFERENCES", "PARSER"];
    const OTHERS: [&str; 21] = [
        "USING",
        "BTREE",
        "HASH",
        "RTREE",
        "ON",
        "DELETE",
        "UPDATE",
        "CASCADE",
        "RESTRICT",
        "SET",
        "NULL",
        "NO",
        "ACTION",
        "WITH",
        "COMMENT",
        "KEY_BLOCK_SIZE",
        "VISIBLE",
        "INVISIBLE",
        "IGNORED",
        "NOT",
        "ENFORCED",
    ];
    let mut is_named = cursor.one_of(&KINDS).is_some().then_some(true)?;
    while !cursor.is_done() && !cursor.is_sign(0, b',') {
        is_named = if cursor.one_of(&KINDS).is_some() {
            true
        } else if cursor.sign(b'(') {
            group(cursor)?;
            false
        } else if cursor.sign(b'=') {
            cursor.number()?;
            false
        } else if cursor.one_of(&OTHERS).is_some()
            || matches!(cursor.peek()?, Token::Text(_)) && cursor.next().is_some()
        {
            false
        } else {
            cursor.own().filter(|_| is_named)?;
            false
        };
    }
    Some(())
}

/// CREATE SEQUENCE, behind its name.
pub(super) fn sequence(cursor: &mut Cursor<'_, '_>) -> Option<()> {
    const WORDS: [&str; 21] = [
        "AS",
        "START",
        "WITH",
        "MINVALUE",
        "MAXVALUE",
        "INCREMENT",
        "BY",
        "CACHE",
        "NOCACHE",
        "CYCLE",
        "NOCYCLE",
        "NO",
        "BIGINT",
        "INT",
        "INTEGER",
        "MEDIUMINT",
        "SMALLINT",
        "TINYINT",
        "ZEROFILL",
        "UNSIGNED",
        "SIGNED",
    ];
    while !cursor.is_done() {
        if cursor.word("ENGINE") {
            engine(cursor)?;
        } else if cursor.word("COMMENT") {
            value(cursor)?;
        } else if cursor.one_of(&WORDS).is_none() && !cursor.sign(b'=') {
            cursor.number()?;
        }
    }
    Some(())
}

/// `SETVAL(s, 5, 0)`, to the end.
pub(super) fn setval(cursor: &mut Cursor<'_, '_>) -> Option<()> {
    if !cursor.word("SETVAL") || !cursor.sign(b'(') {
        return None;
    }
    cursor.own()?;
    let mut numbers = 0;
    while cursor.sign(b',') {
        cursor.number()?;
        numbers += 1;
    }
    (cursor.sign(b')') && cursor.is_done() && (1..=3).contains(&numbers)).then_some(())
}

/// `UPDATE HISTOGRAM ON c, … WITH 100 BUCKETS`, to the end: behind ANALYZE TABLE and its name.
pub(super) fn histogram(cursor: &mut Cursor<'_, '_>) -> Option<()> {
    if !cursor.words(&["UPDATE", "HISTOGRAM", "ON"]) {
        return None;
    }
    loop {
        cursor.own()?;
        if !cursor.sign(b',') {
            break;
        }
    }
    if cursor.word("WITH") {
        cursor.number()?;
        if !cursor.word("BUCKETS") {
            return None;
        }
    }
    let _ = cursor.words(&["AUTO", "UPDATE"]) || cursor.words(&["MANUAL", "UPDATE"]);
    cursor.is_done().then_some(())
}
