//! What does a statement of `mysqldump` do? Pure.
//!
//! Such a script is run with the rights of the account that restores. So only statements are run that such scripts have, and only in
//! the session's own database: none that changes the server, its accounts or another database.

use super::words::{Kind, Word, first_words};

/// The bytes of a statement that are looked at, and the words.
const HEAD: usize = 4096;
const WORDS: usize = 120;

/// What a statement does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Meant {
    /// It sets something in its session.
    Session,
    /// It makes, changes or drops a table or a sequence.
    Table,
    /// It adds rows.
    Rows,
    /// It makes or drops something that isn't a table: what, for messages.
    Object(String),
    /// It changes the database of this name; the rest of the statement begins here.
    Alter(String, usize),
    /// It makes a database of this name, or goes into it.
    Database(String),
    /// It isn't run, because the restore does without it: locks.
    Skipped,
    /// It changes the server, and isn't run: what, for messages.
    Server(&'static str),
    /// No script of a database has it.
    Unknown,
}

/// What a statement does.
pub(crate) fn meant(statement: &[u8]) -> Meant {
    let bare = bare(statement);
    let words = first_words(&bare, WORDS);
    let words: Vec<Word<'_>> = words.into_iter().filter(|word| word.kind != Kind::Comment).collect();
    let is = |place: usize, wanted: &str| words.get(place).is_some_and(|word| word.is(wanted));
    let has = |wanted: &str| words.iter().any(|word| word.is(wanted));
    let name = |place: usize| words.get(place).and_then(Word::name);
    // Behind the word that says what it is, and IF EXISTS: a name of the session's own database.
    let own = |place: usize| {
        let place = if is(place, "IF") { place + if is(place + 1, "NOT") { 3 } else { 2 } } else { place };
        let is_other = words.get(place + 1).is_some_and(|word| word.is_sign(b'.'));
        name(place).filter(|_| !is_other)
    };
    let table = |place: usize| if own(place).is_some() { Meant::Table } else { Meant::Unknown };
    let verb = words.first().filter(|word| word.kind == Kind::Word).map(|word| word.bytes.to_ascii_uppercase());
    match verb.as_deref().unwrap_or_default() {
        b"SET" if has("SQL_LOG_BIN") || has("GTID_PURGED") || has("GTID_SLAVE_POS") => {
            Meant::Server("positions in the binary log")
        }
        b"SET" if ["GLOBAL", "PERSIST", "PERSIST_ONLY"].iter().any(|wanted| has(wanted)) => Meant::Unknown,
        b"SET" if ["PASSWORD", "ROLE", "DEFAULT", "RESOURCE", "STATEMENT"].iter().any(|wanted| is(1, wanted)) => {
            Meant::Unknown
        }
        b"SET" => Meant::Session,
        b"CHANGE" if is(1, "MASTER") || is(1, "REPLICATION") => Meant::Server("a position in the binary log"),
        b"INSERT" | b"REPLACE" => {
            let into = words.iter().position(|word| word.is("INTO")).filter(|place| *place < 5);
            if into.is_some_and(|into| own(into + 1).is_some()) { Meant::Rows } else { Meant::Unknown }
        }
        b"LOCK" | b"UNLOCK" => Meant::Skipped,
        b"COMMIT" | b"BEGIN" => Meant::Session,
        b"START" if is(1, "TRANSACTION") => Meant::Session,
        b"DO" | b"SELECT" if is(1, "SETVAL") && words.get(4).is_some_and(|word| word.is_sign(b',')) => Meant::Table,
        b"USE" => name(1).map_or(Meant::Unknown, Meant::Database),
        b"ALTER" if is(1, "TABLE") => table(2),
        b"ALTER" if is(1, "DATABASE") || is(1, "SCHEMA") => match words.get(2) {
            Some(word) => word.name().map_or(Meant::Unknown, |name| Meant::Alter(name, word.end())),
            None => Meant::Unknown,
        },
        b"DROP" if is(1, "TABLE") || is(1, "SEQUENCE") => table(2),
        b"CREATE" | b"DROP" => {
            const OBJECTS: [&str; 7] = ["VIEW", "TRIGGER", "FUNCTION", "PROCEDURE", "EVENT", "PACKAGE", "BODY"];
            const TABLES: [&str; 3] = ["TABLE", "SEQUENCE", "INDEX"];
            const OTHERS: [&str; 12] = [
                "DATABASE",
                "SCHEMA",
                "USER",
                "ROLE",
                "SERVER",
                "TABLESPACE",
                "LOGFILE",
                "RESOURCE",
                "SPATIAL",
                "UNDO",
                "LIBRARY",
                "SONAME",
            ];
            let is_one = |word: &Word<'_>| [&OBJECTS[..], &TABLES, &OTHERS].concat().iter().any(|known| word.is(known));
            let Some(at) = words.iter().position(is_one) else { return Meant::Unknown };
            let among = |kinds: &[&'static str]| kinds.iter().find(|kind| is(at, kind)).copied();
            match (among(&TABLES), among(&OBJECTS)) {
                (Some("INDEX"), _) => Meant::Unknown,
                (Some(_), _) => table(at + 1),
                (_, Some(kind)) if !words.iter().any(|word| word.is("SONAME")) => {
                    let at = if is(at + 1, "BODY") { at + 1 } else { at };
                    match own(at + 1) {
                        Some(name) => Meant::Object(format!("{} {name}", kind.to_lowercase())),
                        None => Meant::Unknown,
                    }
                }
                _ if is(0, "CREATE") && (is(at, "DATABASE") || is(at, "SCHEMA")) => {
                    let place = if is(at + 1, "IF") { at + 4 } else { at + 1 };
                    name(place).map_or(Meant::Unknown, Meant::Database)
                }
                _ => Meant::Unknown,
            }
        }
        _ => Meant::Unknown,
    }
}

/// The beginning of a statement with blanks in the place of `/*!50003` and `*/`, around what servers run.
fn bare(statement: &[u8]) -> Vec<u8> {
    let mut bare = statement.get(..HEAD.min(statement.len())).unwrap_or_default().to_vec();
    let mut at = 0;
    let mut quote = None;
    while let Some(&byte) = bare.get(at) {
        let rest = bare.get(at..).unwrap_or_default();
        let blank = match (quote, byte) {
            (Some(open), byte) if byte == open => {
                quote = None;
                0
            }
            (Some(b'\'' | b'"'), b'\\') => {
                at += 2;
                continue;
            }
            (Some(_), _) => 0,
            (None, b'\'' | b'"' | b'`') => {
                quote = Some(byte);
                0
            }
            (None, b'*') if rest.starts_with(b"*/") => 2,
            (None, b'/') if rest.starts_with(b"/*") && !rest.starts_with(b"/*!") && !rest.starts_with(b"/*M!") => {
                let end = rest.windows(2).skip(2).position(|two| two == b"*/");
                at += end.map_or(rest.len(), |end| end + 4);
                continue;
            }
            (None, b'/') => {
                let mark =
                    [&b"/*M!"[..], b"/*!"].into_iter().find(|mark| rest.starts_with(mark)).map_or(0, <[u8]>::len);
                let digits = rest.iter().skip(mark).take_while(|byte| byte.is_ascii_digit()).count();
                if mark == 0 { 0 } else { mark + digits }
            }
            (None, _) => 0,
        };
        for place in at..at + blank {
            if let Some(byte) = bare.get_mut(place) {
                *byte = b' ';
            }
        }
        at += blank.max(1);
    }
    bare
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_of_scripts() {
        let object = |what: &str| Meant::Object(what.to_owned());
        let database = |name: &str| Meant::Database(name.to_owned());
        for (statement, expected) in [
            ("/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */", Meant::Session),
            ("SET NAMES utf8mb4", Meant::Session),
            ("SET @@SESSION.SQL_LOG_BIN= 0", Meant::Server("positions in the binary log")),
            ("SET @@GLOBAL.GTID_PURGED=/*!80000 '+'*/ 'x:1-5'", Meant::Server("positions in the binary log")),
            ("SET GLOBAL general_log_file = '/tmp/x'", Meant::Unknown),
            ("SET @@global.general_log = 1", Meant::Unknown),
            ("/*!50003 SET @@PERSIST.x = 1 */", Meant::Unknown),
            ("SET PASSWORD = 'x'", Meant::Unknown),
            ("SET STATEMENT max_statement_time = 1 FOR DROP DATABASE x", Meant::Unknown),
            ("CHANGE MASTER TO MASTER_LOG_FILE='x', MASTER_LOG_POS=4", Meant::Server("a position in the binary log")),
            ("DROP TABLE IF EXISTS `t`", Meant::Table),
            ("DROP TABLE IF EXISTS `other`.`t`", Meant::Unknown),
            ("CREATE TABLE `t` (\n `view` int,\n `a` text)", Meant::Table),
            ("CREATE TABLE IF NOT EXISTS `t` (a int)", Meant::Table),
            ("CREATE TABLE other . `t` (a int)", Meant::Unknown),
            ("/*!50001 CREATE TABLE `v` (a int) */", Meant::Table),
            ("/*!40000 ALTER TABLE `t` DISABLE KEYS */", Meant::Table),
            ("CREATE SEQUENCE `s` start with 1", Meant::Table),
            ("DO SETVAL(`s`, 1, 0)", Meant::Table),
            ("SELECT SETVAL(`s`, 1, 0)", Meant::Table),
            ("SELECT 1", Meant::Unknown),
            ("SELECT * FROM t INTO OUTFILE '/tmp/x'", Meant::Unknown),
            ("INSERT INTO `t` VALUES (1,'a')", Meant::Rows),
            ("INSERT  IGNORE INTO `t` (`a`) VALUES (1)", Meant::Rows),
            ("REPLACE INTO `t` VALUES (1)", Meant::Rows),
            ("INSERT INTO `mysql`.`user` VALUES (1)", Meant::Unknown),
            ("INSERT INTO /* x */ mysql.user VALUES (1)", Meant::Unknown),
            ("LOCK TABLES `t` WRITE", Meant::Skipped),
            ("UNLOCK TABLES", Meant::Skipped),
            ("LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE t", Meant::Unknown),
            ("COMMIT", Meant::Session),
            ("/*!50001 CREATE VIEW `v` AS SELECT\n 1 AS `a`*/", object("view v")),
            (
                "/*!50001 CREATE ALGORITHM=UNDEFINED */\n/*!50013 DEFINER=`root`@`localhost` SQL SECURITY DEFINER */\n/*!50001 VIEW `v` AS select 1 */",
                object("view v"),
            ),
            ("/*!50001 DROP VIEW IF EXISTS `v`*/", object("view v")),
            (
                "/*!50003 CREATE*/ /*!50017 DEFINER=`a`@`%`*/ /*!50003 TRIGGER `t` BEFORE INSERT ON `x` FOR EACH ROW SET @a=1 */",
                object("trigger t"),
            ),
            ("CREATE DEFINER=`a`@`%` PROCEDURE `p`(a int)\nBEGIN\n DROP DATABASE x; END", object("procedure p")),
            ("/*!50003 DROP FUNCTION IF EXISTS `f` */", object("function f")),
            (
                "/*!50106 CREATE*/ /*!50117 DEFINER=`a`@`%`*/ /*!50106 EVENT `e` ON SCHEDULE EVERY 1 DAY DO SELECT 1 */",
                object("event e"),
            ),
            ("/*!50106 DROP EVENT IF EXISTS `e` */", object("event e")),
            ("CREATE FUNCTION `mysql`.`f`() RETURNS int RETURN 1", Meant::Unknown),
            ("CREATE FUNCTION f RETURNS STRING SONAME 'evil.so'", Meant::Unknown),
            (
                "CREATE DATABASE /*!32312 IF NOT EXISTS*/ `shop` /*!40100 DEFAULT CHARACTER SET utf8mb4 */",
                database("shop"),
            ),
            ("USE `shop`", database("shop")),
            ("ALTER DATABASE `shop` CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", Meant::Alter("shop".into(), 21)),
            ("DROP DATABASE shop", Meant::Unknown),
            ("/*!40000 DROP DATABASE IF EXISTS `shop`*/", Meant::Unknown),
            ("GRANT ALL ON *.* TO x", Meant::Unknown),
            ("CREATE USER x", Meant::Unknown),
            ("CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (HOST 'x')", Meant::Unknown),
            ("INSTALL PLUGIN x SONAME 'y'", Meant::Unknown),
            ("FLUSH PRIVILEGES", Meant::Unknown),
            ("'x'", Meant::Unknown),
            ("", Meant::Unknown),
        ] {
            assert_eq!(meant(statement.as_bytes()), expected, "{statement}");
        }
    }
}
