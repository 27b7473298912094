//! Where do the statements of a script for the vendor's client end? Pure: bytes in, statements out.
//!
//! `mysqldump` and `mariadb-dump` write scripts for `mysql` and `mariadb`. These clients also run programs (`\!`, `system`) and read
//! files (`\.`, `source`) that a script names, so none of them reads it. The statements are found here by the clients' rules,
//! and each is judged by what a server reads in it ([`super::meant`]), wherever it ends. Of the clients' own commands only `DELIMITER` is
//! followed. Any other ends the restore.

use super::meant::Modes;

/// The most bytes of a statement, and of a line, where no server says what it takes: what MySQL takes by its defaults.
pub(crate) const LARGEST: usize = 64 << 20;

/// The most bytes of a delimiter.
const LONGEST_DELIMITER: usize = 16;

/// Commands of the clients that begin a line, beside `DELIMITER`: those that are no words of SQL.
const COMMANDS: [&str; 13] = [
    "source",
    "system",
    "tee",
    "notee",
    "pager",
    "nopager",
    "edit",
    "connect",
    "charset",
    "sandbox",
    "resetconnection",
    "warnings",
    "nowarning",
];

/// Why a script is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It has a command for the client in this line.
    Command(u64),
    /// It is not a valid script: line and reason.
    Wrong(u64, &'static str),
    /// The statement in this line is larger than the limit.
    Large(u64),
}

/// What contains the next byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    Plain,
    Comment,
    Quotes(u8),
}

/// Reads a script line by line.
#[derive(Debug)]
pub(crate) struct Scanner {
    /// The present line, and how much of it was read.
    line: Vec<u8>,
    at: usize,
    /// Whether the line is complete.
    ended: bool,
    /// Where the first character of the complete line stands that isn't a blank, once it was looked for.
    first: Option<usize>,
    /// Lines that were whole.
    number: u64,
    state: State,
    statement: Vec<u8>,
    begun: bool,
    delimiter: Vec<u8>,
    /// What quotes mean, as the server's `sql_mode` says.
    pub(crate) modes: Modes,
    /// The most bytes of a statement, and of a line.
    limit: usize,
}

impl Default for Scanner {
    fn default() -> Self {
        Self {
            line: Vec::new(),
            at: 0,
            ended: false,
            first: None,
            number: 0,
            state: State::Plain,
            statement: Vec::new(),
            begun: false,
            delimiter: b";".to_vec(),
            modes: Modes::default(),
            limit: LARGEST,
        }
    }
}

impl Scanner {
    /// A scanner for statements, and lines, of at most `limit` bytes.
    pub(crate) fn with_limit(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Takes bytes up to the end of a line, and returns their number. Every complete statement must have been taken before.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> usize {
        if self.ended {
            self.line.clear();
            (self.at, self.ended, self.first) = (0, false, None);
        }
        let size = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |end| end + 1);
        self.line.extend_from_slice(bytes.get(..size).unwrap_or_default());
        self.ended = self.line.last() == Some(&b'\n');
        self.number += u64::from(self.ended);
        size
    }

    /// There are no more bytes: a last line may have no end.
    pub(crate) fn end(&mut self) {
        self.number += u64::from(!self.ended && !self.line.is_empty());
        self.ended = true;
    }

    /// The number of the line at hand, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.number.max(1)
    }

    /// Whether no statement has begun.
    pub(crate) fn is_between(&self) -> bool {
        !self.begun && self.state == State::Plain
    }

    /// The next statement that is whole, without its delimiter; `None` asks for more.
    pub(crate) fn statement(&mut self) -> Result<Option<Vec<u8>>, Refusal> {
        while self.ended && self.at < self.line.len() {
            match self.state {
                State::Plain => {
                    if self.plain()? {
                        self.begun = false;
                        let mut statement = std::mem::take(&mut self.statement);
                        statement.truncate(statement.trim_ascii_end().len());
                        if !statement.is_empty() {
                            return Ok(Some(statement));
                        }
                    }
                }
                State::Comment => {
                    let rest = self.rest();
                    let end = rest.windows(2).position(|two| two == b"*/").map(|end| end + 2);
                    self.take(end.unwrap_or(rest.len()));
                    if end.is_some() {
                        self.state = State::Plain;
                    }
                }
                State::Quotes(quote) => self.quoted(quote),
            }
        }
        let unread = self.line.len().saturating_sub(self.at);
        match unread.saturating_add(self.statement.len()) > self.limit {
            true => Err(Refusal::Large(self.number())),
            false => Ok(None),
        }
    }

    fn rest(&self) -> &[u8] {
        self.line.get(self.at..).unwrap_or_default()
    }

    /// Takes bytes into the statement, if it has begun.
    fn take(&mut self, size: usize) {
        let end = self.at.saturating_add(size).min(self.line.len());
        if self.begun {
            self.statement.extend_from_slice(self.line.get(self.at..end).unwrap_or_default());
        }
        self.at = end;
    }

    fn begin(&mut self, size: usize) {
        self.begun = true;
        self.take(size);
    }

    /// Reads the next token. Returns whether the statement is complete.
    fn plain(&mut self) -> Result<bool, Refusal> {
        let blanks = self.rest().iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        if blanks > 0 {
            self.take(blanks);
            return Ok(false);
        }
        if !self.begun && self.command()? {
            return Ok(false);
        }
        let rest = self.rest();
        if rest.starts_with(&self.delimiter) {
            self.at += self.delimiter.len();
            return Ok(self.begun);
        }
        match rest {
            [b'\\', ..] => return Err(Refusal::Command(self.number())),
            [b'#', ..] => self.take(rest.len()),
            [b'-', b'-', next, ..] if *next <= b' ' => self.take(rest.len()),
            [b'-', b'-'] => self.take(rest.len()),
            // A line for MariaDB's own client of that time; and a comment whose text no server runs.
            _ if rest.starts_with(b"/*M!999999") || rest.starts_with(b"/*") && !is_run(rest) => {
                self.take(2);
                self.state = State::Comment;
            }
            [quote @ (b'\'' | b'"' | b'`'), ..] => {
                let quote = *quote;
                self.begin(1);
                self.state = State::Quotes(quote);
            }
            [byte, ..] => {
                // As far as nothing that matters can stand in it.
                let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80;
                let word = rest.iter().position(|byte| !is_word(byte)).unwrap_or(rest.len());
                let is_free = !self.delimiter.iter().any(is_word);
                self.begin(if is_word(byte) && is_free { word } else { 1 });
            }
            [] => {}
        }
        Ok(false)
    }

    /// Follows a command of the client, which begins a line. Returns whether there was one.
    fn command(&mut self) -> Result<bool, Refusal> {
        let is_first = |line: &[u8]| line.iter().position(|byte| !byte.is_ascii_whitespace());
        let first = *self.first.get_or_insert_with(|| is_first(&self.line).unwrap_or(self.line.len()));
        if self.at != first {
            return Ok(false);
        }
        let text = self.rest().trim_ascii();
        let end = text.iter().position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_').unwrap_or(text.len());
        let (word, behind) = text.split_at_checked(end).unwrap_or_default();
        if COMMANDS.iter().any(|command| word.eq_ignore_ascii_case(command.as_bytes())) {
            return Err(Refusal::Command(self.number()));
        }
        if !word.eq_ignore_ascii_case(b"delimiter") {
            return Ok(false);
        }
        let delimiter = behind.trim_ascii().split(u8::is_ascii_whitespace).next().unwrap_or_default();
        if delimiter.is_empty() || delimiter.len() > LONGEST_DELIMITER || delimiter.contains(&b'\\') {
            return Err(Refusal::Wrong(self.number(), "a DELIMITER isn't understood"));
        }
        self.delimiter = delimiter.to_vec();
        self.at = self.line.len();
        Ok(true)
    }

    /// Reads up to the end of a text or name. A doubled quote ends it and begins it again.
    fn quoted(&mut self, quote: u8) {
        let escapes = quote != b'`' && !self.modes.plain && !(quote == b'"' && self.modes.ansi);
        let rest = self.rest();
        match rest.iter().position(|byte| *byte == quote || escapes && *byte == b'\\') {
            Some(at) if rest.get(at) == Some(&quote) => {
                self.take(at + 1);
                self.state = State::Plain;
            }
            Some(at) => self.take(at + 2),
            None => self.take(rest.len()),
        }
    }
}

/// Whether a server may run the text of a comment: that of `/*!` and `/*M!`.
fn is_run(comment: &[u8]) -> bool {
    comment.starts_with(b"/*!") || comment.starts_with(b"/*M!")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn statements(script: &[u8], size: usize, plain: bool) -> Result<(Vec<String>, bool), Refusal> {
        let modes = Modes { plain, ..Modes::default() };
        let (mut scanner, mut found) = (Scanner { modes, ..Scanner::default() }, Vec::new());
        let mut all = |scanner: &mut Scanner| {
            while let Some(statement) = scanner.statement()? {
                found.push(String::from_utf8_lossy(&statement).into_owned());
            }
            Ok(())
        };
        for mut rest in script.chunks(size) {
            while !rest.is_empty() {
                rest = &rest[scanner.feed(rest)..];
                all(&mut scanner)?;
            }
        }
        scanner.end();
        all(&mut scanner)?;
        Ok((found, scanner.is_between()))
    }

    #[test]
    fn statements_end_where_the_client_would_end_them() {
        for (script, plain, expected) in [
            ("", false, &[][..]),
            (";;\n;", false, &[]),
            ("-- MySQL dump; x\n--\n# x;\nSELECT 1;\n", false, &["SELECT 1"]),
            ("SELECT 1; SELECT 2;SELECT\n3 ;", false, &["SELECT 1", "SELECT 2", "SELECT\n3"]),
            ("/*M!999999\\- enable the sandbox mode */ \nSELECT 1;", false, &["SELECT 1"]),
            ("/* a; \\! */ SELECT /* ; */ 1;", false, &["SELECT /* ; */ 1"]),
            (
                "/*!40101 SET NAMES utf8mb4 */;\n/*M!100101 SET x = 1 */;",
                false,
                &["/*!40101 SET NAMES utf8mb4 */", "/*M!100101 SET x = 1 */"],
            ),
            (
                r"INSERT INTO t VALUES ('a;''b\';\\', `c;``\`, 1);",
                false,
                &[r"INSERT INTO t VALUES ('a;''b\';\\', `c;``\`, 1)"],
            ),
            (r#"SELECT "a;\"b";"#, false, &[r#"SELECT "a;\"b""#]),
            (r"SELECT 'a\'; SELECT 2;", true, &[r"SELECT 'a\'", "SELECT 2"]),
            ("SELECT 'a;\n-- b;\n';", false, &["SELECT 'a;\n-- b;\n'"]),
            ("SELECT 1 -- a; b\n + 1;", false, &["SELECT 1 -- a; b\n + 1"]),
            ("SELECT 1--1;", false, &["SELECT 1--1"]),
            (
                "DELIMITER ;;\n/*!50003 CREATE TRIGGER t BEFORE INSERT ON a FOR EACH ROW BEGIN SET @a = 1; END */;;\nDELIMITER ;\nSELECT 2;",
                false,
                &["/*!50003 CREATE TRIGGER t BEFORE INSERT ON a FOR EACH ROW BEGIN SET @a = 1; END */", "SELECT 2"],
            ),
            ("delimiter //\nSELECT 1; SELECT 2//\n", false, &["SELECT 1; SELECT 2"]),
            ("DELIMITER end\nSELECT 1 end\n", false, &["SELECT 1"]),
            ("INSERT INTO t VALUES (1),\n(2);\nsources;", false, &["INSERT INTO t VALUES (1),\n(2)", "sources"]),
            ("SELECT\nsource\nFROM t;", false, &["SELECT\nsource\nFROM t"]),
        ] {
            for size in [1, 2, 3, 7, 1000] {
                let (found, between) = statements(script.as_bytes(), size, plain).expect(script);
                assert_eq!(found, expected, "{script}");
                assert!(between, "{script}");
            }
        }
    }

    #[test]
    fn commands_of_the_client_end_it() {
        for (script, refusal) in [
            ("SELECT 1;\n\\! touch /tmp/x\n", Refusal::Command(2)),
            ("\\. /etc/passwd\n", Refusal::Command(1)),
            ("SELECT 1 \\G\n", Refusal::Command(1)),
            ("SELECT 1; \\! id", Refusal::Command(1)),
            ("\n  system id\n", Refusal::Command(2)),
            ("SOURCE /etc/passwd;\n", Refusal::Command(1)),
            ("tee /tmp/x", Refusal::Command(1)),
            ("pager sh -c id", Refusal::Command(1)),
            ("/*!50003 SELECT 1 \\! id */;", Refusal::Command(1)),
            ("DELIMITER\n", Refusal::Wrong(1, "a DELIMITER isn't understood")),
            ("DELIMITER \\\n", Refusal::Wrong(1, "a DELIMITER isn't understood")),
        ] {
            assert_eq!(statements(script.as_bytes(), 1000, false), Err(refusal), "{script}");
        }
        for open in ["SELECT 1", "SELECT 'a", "SELECT 1; /* x", "INSERT INTO t VALUES (1"] {
            assert!(!statements(open.as_bytes(), 3, false).expect(open).1, "{open}");
        }
    }

    #[test]
    fn quotes_of_names_have_no_escapes() {
        let mut scanner = Scanner { modes: Modes { ansi: true, ..Modes::default() }, ..Scanner::default() };
        assert_eq!(scanner.feed(b"SELECT \"a\\\";\n"), 13);
        assert_eq!(scanner.statement(), Ok(Some(b"SELECT \"a\\\"".to_vec())));
    }

    #[test]
    fn a_statement_is_bounded_before_it_is_whole() {
        let mut scanner = Scanner::with_limit(1_000);
        for line in [&b"INSERT INTO t VALUES ('"[..], &[b'a'; 900], b"\n", &[b'b'; 90]] {
            scanner.feed(line);
            let found = scanner.statement();
            assert!(matches!(found, Ok(None)) || line.len() == 90 && found == Err(Refusal::Large(1)), "{found:?}");
        }
        assert_eq!(scanner.statement(), Err(Refusal::Large(1)));
    }

    #[test]
    fn a_long_line_of_blanks_is_read_at_once() {
        let mut line = vec![b' '; 2 << 20];
        line.extend_from_slice(&[b';'; 2 << 20]);
        line.extend_from_slice(b"source x\n");
        let mut scanner = Scanner::default();
        assert_eq!(scanner.feed(&line), line.len());
        // It doesn't begin the line.
        assert_eq!(scanner.statement(), Ok(None));
        assert!(!scanner.is_between());
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference_and_nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..80), size in 1_usize..20) {
            prop_assert_eq!(statements(&bytes, size, false), statements(&bytes, 1000, false));
        }
    }
}
