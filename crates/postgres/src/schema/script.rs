//! Where do the statements of a script end? Pure: bytes in, statements out.
//!
//! The scripts are written by `pg_dump --format=plain` and `pg_restore` for `psql`. They come from a vault and may
//! contain anything, and `psql` can be made to run programs: by backslash commands, and by backquotes in their
//! arguments. So no `psql` reads them. The statements are found here by PostgreSQL's lexical rules, and the server
//! decides on their meaning; a wrong end makes a wrong statement, which the server refuses. Of `psql`'s commands,
//! `\restrict` and `\unrestrict` are skipped, and any other command ends the restore.

use crate::schema::{account, versions};

/// The most bytes of one statement.
const LARGEST: usize = 256 << 20;

/// Words at the beginning of a statement that are looked at.
const HEAD: usize = 4;

/// Longer than the longest word that matters here.
const LONGEST_WORD: usize = 12;

/// Why a script is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It has a command for `psql` in this line.
    Command(u64),
    /// It is not a valid script: position and reason.
    Wrong(u64, &'static str),
}

/// The construct that contains the next byte.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum State {
    /// Between tokens.
    #[default]
    Plain,
    /// In a comment of so many levels.
    Comment(u32),
    /// A string; whether a backslash escapes the next character.
    Text { escapes: bool },
    /// In a name.
    Name,
    /// In a string between two of these.
    Dollars(Vec<u8>),
}

/// Reads a script line by line.
#[derive(Debug, Default)]
pub(crate) struct Scanner {
    /// The present line, and how much of it was read.
    line: Vec<u8>,
    at: usize,
    /// Whether the line is complete.
    ended: bool,
    /// Lines that were whole.
    number: u64,
    state: State,
    /// The statement so far, and whether it has begun.
    statement: Vec<u8>,
    begun: bool,
    parentheses: u32,
    /// Its first words, and the last one.
    head: Vec<Vec<u8>>,
    last: Vec<u8>,
    /// In a function's body of statements: how many ENDs have still to come.
    open: u32,
    /// Comments between statements that name the next object.
    names: Vec<Vec<u8>>,
    /// Whether `\connect`, which `pg_dump --create` writes, is taken for a statement.
    takes_connect: bool,
}

impl Scanner {
    /// For a script that another program left, which may have `\connect`.
    pub(crate) fn with_connect(takes_connect: bool) -> Self {
        Self { takes_connect, ..Self::default() }
    }

    /// Takes bytes up to the end of a line, and returns their number. Every complete statement must have been taken
    /// before.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> usize {
        if self.ended {
            self.line.clear();
            (self.at, self.ended) = (0, false);
        }
        let size = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |end| end + 1);
        self.line.extend_from_slice(&bytes[..size]);
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

    /// The next statement that is whole, without its semicolon; `None` asks for more.
    pub(crate) fn statement(&mut self) -> Result<Option<Vec<u8>>, Refusal> {
        while self.ended && self.at < self.line.len() {
            let whole = match &self.state {
                State::Plain => self.plain()?,
                State::Comment(depth) => self.comment(*depth),
                State::Text { escapes } => self.text(*escapes),
                State::Name => self.until(b'"'),
                State::Dollars(tag) => self.dollars(&tag.clone()),
            };
            if whole {
                let statement = std::mem::take(&mut self.statement);
                (self.begun, self.parentheses, self.open) = (false, 0, 0);
                (self.head, self.last) = (Vec::new(), Vec::new());
                if statement.contains(&0) {
                    return Err(Refusal::Wrong(self.number(), "a statement holds a zero byte"));
                }
                // A statement may set nothing but the version of a column.
                if let Some(statement) = versions::of_statement(statement) {
                    return Ok(Some(statement));
                }
            }
        }
        match self.line.len().saturating_add(self.statement.len()) > LARGEST {
            true => Err(Refusal::Wrong(self.number(), "a statement is larger than 256 MiB")),
            false => Ok(None),
        }
    }

    /// The comments since the last call that name the next objects.
    pub(crate) fn names(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.names)
    }

    /// Whether no statement has begun.
    pub(crate) fn is_between(&self) -> bool {
        !self.begun && self.state == State::Plain
    }

    /// Rows follow the present line. The line may contain nothing else.
    pub(crate) fn rows_follow(&mut self) -> Result<(), Refusal> {
        if self.line[self.at..].iter().any(|byte| !byte.is_ascii_whitespace()) {
            return Err(Refusal::Wrong(self.number(), "there is something between a COPY and its rows"));
        }
        self.at = self.line.len();
        Ok(())
    }

    /// Counts lines that were read elsewhere.
    pub(crate) fn passed(&mut self, lines: u64) {
        self.number = self.number.saturating_add(lines);
    }

    /// Takes `size` bytes into the statement.
    fn take(&mut self, size: usize) {
        let end = self.at.saturating_add(size).min(self.line.len());
        if self.begun {
            self.statement.extend_from_slice(&self.line[self.at..end]);
        }
        self.at = end;
    }

    fn begin(&mut self, state: State, size: usize) {
        self.begun = true;
        self.take(size);
        self.state = state;
    }

    /// Reads the next token. Returns whether the statement is complete.
    fn plain(&mut self) -> Result<bool, Refusal> {
        let rest = &self.line[self.at..];
        match rest {
            [b'-', b'-', ..] => {
                if !self.begun && account::is_name(rest) {
                    self.names.push(rest.to_vec());
                }
                self.take(rest.len());
            }
            [b'/', b'*', ..] => {
                self.take(2);
                self.state = State::Comment(1);
            }
            [b'\\', ..] => {
                let word = rest.split(u8::is_ascii_whitespace).next().unwrap_or_default();
                if self.takes_connect && !self.begun && word == br"\connect" {
                    self.statement = rest.trim_ascii_end().to_vec();
                    self.at = self.line.len();
                    return Ok(true);
                }
                // pg_dump --create writes it before it connects to a database with signs in its name.
                let is_encoding = self.takes_connect && rest.trim_ascii_end() == br"\encoding SQL_ASCII";
                if self.begun || !is_encoding && ![&br"\restrict"[..], br"\unrestrict"].contains(&word) {
                    return Err(Refusal::Command(self.number()));
                }
                self.take(rest.len());
            }
            [b'\'', ..] => self.begin(State::Text { escapes: false }, 1),
            [b'"', ..] => self.begin(State::Name, 1),
            [b'$', ..] => match tag(rest).map(<[u8]>::to_vec) {
                Some(tag) => self.begin(State::Dollars(tag.clone()), tag.len()),
                None => self.begin(State::Plain, 1),
            },
            [b';', ..] if self.parentheses == 0 && self.open == 0 => {
                self.at += 1;
                return Ok(self.begun);
            }
            [byte, ..] if byte.is_ascii_whitespace() => self.take(1),
            [byte, ..] if begins_word(*byte) => self.word(),
            [byte, ..] => {
                match byte {
                    b'(' => self.parentheses = self.parentheses.saturating_add(1),
                    b')' => self.parentheses = self.parentheses.saturating_sub(1),
                    _ => {}
                }
                self.begin(State::Plain, 1);
            }
            [] => {}
        }
        Ok(false)
    }

    /// Reads a word. It may let a string use escapes, or open or close a body of statements.
    fn word(&mut self) {
        let rest = &self.line[self.at..];
        let size = rest.iter().position(|byte| !goes_on_a_word(*byte)).unwrap_or(rest.len());
        let word = rest[..size.min(LONGEST_WORD)].to_ascii_lowercase();
        let escapes = word == b"e" && rest.get(size) == Some(&b'\'');
        self.begin(State::Plain, size);
        if escapes {
            self.begin(State::Text { escapes: true }, 1);
        }
        if self.is_routine() && self.parentheses == 0 {
            match &word[..] {
                b"atomic" if self.last == b"begin" => self.open = 1,
                b"case" if self.open > 0 => self.open = self.open.saturating_add(1),
                b"end" => self.open = self.open.saturating_sub(1),
                _ => {}
            }
        }
        if self.head.len() < HEAD {
            self.head.push(word.clone());
        }
        self.last = word;
    }

    /// Whether the statement makes a function or a procedure, whose body may be statements.
    fn is_routine(&self) -> bool {
        let words: Vec<&[u8]> = self.head.iter().map(Vec::as_slice).collect();
        matches!(
            words[..],
            [b"create", b"function" | b"procedure", ..] | [b"create", b"or", b"replace", b"function" | b"procedure"]
        )
    }

    fn comment(&mut self, depth: u32) -> bool {
        let rest = &self.line[self.at..];
        let (size, depth) = match rest.windows(2).position(|two| two == b"*/" || two == b"/*") {
            Some(at) if rest[at] == b'*' => (at + 2, depth.saturating_sub(1)),
            Some(at) => (at + 2, depth.saturating_add(1)),
            None => (rest.len(), depth),
        };
        self.take(size);
        self.state = if depth == 0 { State::Plain } else { State::Comment(depth) };
        false
    }

    fn text(&mut self, escapes: bool) -> bool {
        if !escapes {
            return self.until(b'\'');
        }
        let rest = &self.line[self.at..];
        match rest.iter().position(|byte| matches!(byte, b'\'' | b'\\')) {
            Some(at) if rest[at] == b'\\' => self.take(at + 2),
            // Two quotes are one quote of the text.
            Some(at) if rest.get(at + 1) == Some(&b'\'') => self.take(at + 2),
            Some(at) => {
                self.take(at + 1);
                self.state = State::Plain;
            }
            None => self.take(rest.len()),
        }
        false
    }

    /// Reads up to `quote`. A quote in the text is doubled, so it ends the text and begins it again.
    fn until(&mut self, quote: u8) -> bool {
        let rest = &self.line[self.at..];
        match rest.iter().position(|byte| *byte == quote) {
            Some(at) => {
                self.take(at + 1);
                self.state = State::Plain;
            }
            None => self.take(rest.len()),
        }
        false
    }

    fn dollars(&mut self, tag: &[u8]) -> bool {
        let rest = &self.line[self.at..];
        match rest.windows(tag.len()).position(|some| some == tag) {
            Some(at) => {
                self.take(at + tag.len());
                self.state = State::Plain;
            }
            None => self.take(rest.len()),
        }
        false
    }
}

fn begins_word(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

fn goes_on_a_word(byte: u8) -> bool {
    begins_word(byte) || byte.is_ascii_digit() || byte == b'$'
}

/// The `$tag$` that a text begins with.
fn tag(text: &[u8]) -> Option<&[u8]> {
    let end = text.iter().skip(1).position(|byte| *byte == b'$')? + 1;
    let sound = match &text[1..end] {
        [] => true,
        [first, others @ ..] => begins_word(*first) && others.iter().all(|byte| goes_on_a_word(*byte)),
    };
    sound.then(|| &text[..=end])
}

/// Where the rows of a COPY end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rows {
    /// The first number: how many bytes are rows. The second: where the text after their end line begins.
    End(usize, usize),
    /// How many bytes are rows. The rest may be the beginning of their end line.
    Go(usize),
}

/// Looks for the end of rows in bytes, which begin a line if `fresh`.
pub(crate) fn rows(bytes: &[u8], fresh: bool) -> Rows {
    // The second one is of a file that was written on Windows.
    const ENDS: [&[u8]; 2] = [b"\\.\n", b"\\.\r\n"];
    let (mut at, mut begins) = (0, fresh);
    loop {
        let rest = &bytes[at..];
        if begins && let Some(end) = ENDS.iter().find(|end| rest.starts_with(end)) {
            return Rows::End(at, at + end.len());
        }
        if begins && ENDS.iter().any(|end| end.starts_with(rest)) {
            return Rows::Go(at);
        }
        let Some(end) = rest.iter().position(|byte| *byte == b'\n') else { return Rows::Go(bytes.len()) };
        (at, begins) = (at + end + 1, true);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The statements of a script that is read in pieces of `size` bytes, and whether no statement is left open.
    fn statements(script: &[u8], size: usize) -> Result<(Vec<String>, bool), Refusal> {
        let (mut scanner, mut found) = (Scanner::default(), Vec::new());
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
    fn statements_end_where_the_server_would_end_them() {
        for (script, expected) in [
            ("", &[][..]),
            (";;\n;", &[]),
            ("--\n-- Name: a; b\n--\n\nSELECT 1;\n", &["SELECT 1"]),
            ("SELECT 1; SELECT 2;SELECT 3 ;", &["SELECT 1", "SELECT 2", "SELECT 3 "]),
            ("/* a; /* b; */ c; */ SELECT /* ; */ 1;", &["SELECT /* ; */ 1"]),
            ("SELECT 1 -- a; b\n + 1;", &["SELECT 1 -- a; b\n + 1"]),
            (r"SELECT 'a;''b;', 'c\';", &[r"SELECT 'a;''b;', 'c\'"]),
            (r"SELECT E'a\';b', e'''\\';", &[r"SELECT E'a\';b', e'''\\'"]),
            (r"SELECT name'a\';", &[r"SELECT name'a\'"]),
            ("SELECT E'\\\n';", &["SELECT E'\\\n'"]),
            ("SELECT 'a;\nb;\n';", &["SELECT 'a;\nb;\n'"]),
            (r#"CREATE TABLE "a;""b" ();"#, &[r#"CREATE TABLE "a;""b" ()"#]),
            ("SELECT $$a;'b$$, $x$;$$;$x$, $1;", &["SELECT $$a;'b$$, $x$;$$;$x$, $1"]),
            ("SELECT a$b$; SELECT 1;", &["SELECT a$b$", "SELECT 1"]),
            ("DO $_$\n\\restrict x\n;$_$;", &["DO $_$\n\\restrict x\n;$_$"]),
            ("CREATE RULE r AS DO (SELECT 1; SELECT 2);", &["CREATE RULE r AS DO (SELECT 1; SELECT 2)"]),
            (
                "CREATE FUNCTION f(a int) RETURNS int\n BEGIN ATOMIC\n SELECT CASE WHEN a > 1 THEN 2 END;\n SELECT 1;\nEND;\nSELECT 9;",
                &[
                    "CREATE FUNCTION f(a int) RETURNS int\n BEGIN ATOMIC\n SELECT CASE WHEN a > 1 THEN 2 END;\n SELECT 1;\nEND",
                    "SELECT 9",
                ],
            ),
            (
                "create or replace procedure p() begin atomic select 1; end;x;",
                &["create or replace procedure p() begin atomic select 1; end", "x"],
            ),
            ("CREATE VIEW v AS SELECT 1 AS begin; COMMIT;", &["CREATE VIEW v AS SELECT 1 AS begin", "COMMIT"]),
            ("\\restrict k\n\nSELECT 1;\n\\unrestrict k\n", &["SELECT 1"]),
        ] {
            for size in [1, 2, 3, 7, 1000] {
                let (found, between) = statements(script.as_bytes(), size).expect(script);
                assert_eq!(found, expected, "{script}");
                assert!(between, "{script}");
            }
        }
    }

    #[test]
    fn what_pg_dump_writes_before_it_connects_is_passed_over() {
        let connect = b"\\encoding SQL_ASCII\n\\connect -reuse-previous=on \"dbname='my-db'\"\n";
        let read = |with_connect: bool, script: &[u8]| {
            let (mut scanner, mut rest) = (Scanner::with_connect(with_connect), script);
            while !rest.is_empty() {
                rest = &rest[scanner.feed(rest)..];
                if let Some(found) = scanner.statement()? {
                    return Ok(Some(found));
                }
            }
            Ok::<_, Refusal>(None)
        };
        let found = read(true, connect).expect("nothing is refused");
        assert_eq!(found.as_deref(), Some(&br#"\connect -reuse-previous=on "dbname='my-db'""#[..]));
        assert!(read(false, connect).is_err());
        assert!(read(true, b"\\encoding UTF8\n").is_err() && read(true, b"\\encoding SQL_ASCII x\n").is_err());
    }

    #[test]
    fn what_is_no_statement_is_refused_or_left_open() {
        for (script, refusal) in [
            ("SELECT 1;\n\\! touch /tmp/x\n", Refusal::Command(2)),
            ("\\connect other\n", Refusal::Command(1)),
            ("\\restrictive\n", Refusal::Command(1)),
            ("\\unrestrict `touch /tmp/x`\n\\i x", Refusal::Command(2)),
            ("SELECT 1 \\g | sh\n", Refusal::Command(1)),
            ("SELECT 1 \\restrict x\n", Refusal::Command(1)),
            ("-- a name\n\n\\o x\n", Refusal::Command(3)),
            ("SELECT '\0';", Refusal::Wrong(1, "a statement holds a zero byte")),
        ] {
            assert_eq!(statements(script.as_bytes(), 5), Err(refusal), "{script}");
        }
        for script in ["SELECT 1", "SELECT 'a;", "SELECT $x$ ; $", "SELECT \"a;", "/* ;", "SELECT (1;"] {
            let (found, between) = statements(script.as_bytes(), 3).expect(script);
            assert!(found.is_empty() && !between, "{script}");
        }
    }

    #[test]
    fn rows_end_with_a_line_of_their_own() {
        for (bytes, fresh, found) in [
            ("\\.\nSELECT", true, Rows::End(0, 3)),
            ("\\.\n", false, Rows::Go(3)),
            ("a\tb\n\\.\n\n", false, Rows::End(4, 7)),
            ("a\n\\.b\n", true, Rows::Go(6)),
            ("a\\.\nb", true, Rows::Go(5)),
            ("a\n", true, Rows::Go(2)),
            ("a\n\\", true, Rows::Go(2)),
            ("a\n\\.", true, Rows::Go(2)),
            ("\\N\n\\.\n", true, Rows::End(3, 6)),
            ("a\r\n\\.\r\nSELECT", true, Rows::End(3, 7)),
            ("a\r\n\\.\r", true, Rows::Go(3)),
            ("\\.\rb\n", true, Rows::Go(5)),
            ("", true, Rows::Go(0)),
        ] {
            assert_eq!(rows(bytes.as_bytes(), fresh), found, "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(script in "[a-e;'\"$\\\\()/*\n -]{0,60}", size in 1_usize..9) {
            prop_assert_eq!(statements(script.as_bytes(), size), statements(script.as_bytes(), 1000));
        }
    }
}
