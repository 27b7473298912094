//! Lines as the rows of INSERT statements, and such statements back as lines. Pure.
//!
//! The two are exact opposites, and both work on pieces that begin and end anywhere. Reading is strict: what [`Inserts`] doesn't
//! write isn't read, so that no expression of a script is evaluated by a restore of ours.
//!
//! A line escapes what a text of a statement escapes in the same way. Quotes are new, and so are two bytes that the vendor's
//! client changes or stops at: a carriage return, and the end of a file of Windows.

use crate::client::quote::name;
use crate::detail::ColumnDetail;

/// After how many bytes a statement ends: every server takes so many by default.
const LONGEST: usize = 1 << 20;

/// What stands behind a text that isn't taken as bytes.
const AS_TEXT: (&[u8], &[u8]) = (b"CONVERT('", b"' USING utf8mb4)");

/// Why a script isn't read.
const STRANGE: &str = "its rows are written in another way than a backup writes them";

/// How the values of a column are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Digits without quotes.
    Number,
    /// Bytes in quotes.
    Bytes,
    /// Bytes in quotes, told to be text: MySQL takes no JSON from bytes.
    Text,
}

impl Form {
    fn of(column: &ColumnDetail, mariadb: bool) -> Self {
        match column.r#type.as_str() {
            "tinyint" | "smallint" | "mediumint" | "int" | "integer" | "bigint" | "decimal" => Self::Number,
            "json" if !mariadb => Self::Text,
            _ => Self::Bytes,
        }
    }

    fn around(self) -> (&'static [u8], &'static [u8]) {
        match self {
            Self::Number => (b"", b""),
            Self::Bytes => (b"'", b"'"),
            Self::Text => AS_TEXT,
        }
    }
}

fn is_of_a_number(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.')
}

/// What a table's statements begin with, and how its values are written.
#[derive(Debug, Clone)]
struct Shape {
    head: Vec<u8>,
    forms: Vec<Form>,
}

impl Shape {
    fn new(table: &str, columns: &[ColumnDetail], mariadb: bool) -> Self {
        let names: Vec<String> = columns.iter().map(|column| name(&column.name)).collect();
        let head = format!("INSERT INTO {} ({}) VALUES\n(", name(table), names.join(",")).into_bytes();
        Self { head, forms: columns.iter().map(|column| Form::of(column, mariadb)).collect() }
    }

    fn form(&self, column: usize) -> Form {
        self.forms.get(column).copied().unwrap_or(Form::Bytes)
    }
}

/// Where in a line the next byte is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Row,
    Value,
    /// The first byte of a value was a backslash.
    Escape,
    Within,
    Null,
}

/// Writes lines as INSERT statements.
#[derive(Debug)]
pub(crate) struct Inserts {
    shape: Shape,
    at: At,
    column: usize,
    /// Bytes of the statement at hand; none where none is begun.
    written: usize,
    rows: u64,
}

impl Inserts {
    pub(crate) fn new(table: &str, columns: &[ColumnDetail], mariadb: bool) -> Self {
        Self { shape: Shape::new(table, columns, mariadb), at: At::Row, column: 0, written: 0, rows: 0 }
    }

    /// Rows that are complete.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Appends lines as rows.
    pub(crate) fn take(&mut self, lines: &[u8], out: &mut Vec<u8>) -> Result<(), &'static str> {
        const WRONG: &str = "a value that its type doesn't have";
        let before = out.len();
        let mut counted = before;
        for byte in lines {
            let byte = *byte;
            if self.at == At::Row {
                let begin: &[u8] = if self.written == 0 { &self.shape.head } else { b",\n(" };
                out.extend_from_slice(begin);
                (self.at, self.column) = (At::Value, 0);
            }
            let form = self.shape.form(self.column);
            let (open, close) = form.around();
            let ends = byte == b'\t' || byte == b'\n';
            match self.at {
                At::Value if byte == b'\\' => self.at = At::Escape,
                At::Value if !ends => {
                    out.extend_from_slice(open);
                    self.at = At::Within;
                }
                At::Value if form == Form::Number => return Err(WRONG),
                At::Value => {
                    out.extend_from_slice(open);
                    out.extend_from_slice(close);
                }
                At::Escape if byte == b'N' => {
                    out.extend_from_slice(if self.shape.forms.is_empty() { b"" } else { b"NULL" });
                    self.at = At::Null;
                    continue;
                }
                At::Escape if ends => return Err(WRONG),
                At::Escape => {
                    out.extend_from_slice(open);
                    out.push(b'\\');
                    self.at = At::Within;
                }
                At::Within if ends => out.extend_from_slice(close),
                At::Null if !ends => return Err(WRONG),
                At::Row | At::Within | At::Null => {}
            }
            if ends {
                self.at = At::Value;
                self.column += 1;
                if byte == b'\t' {
                    out.push(b',');
                    continue;
                }
                out.push(b')');
                if self.column != self.shape.forms.len().max(1) {
                    return Err("a row with another number of values");
                }
                self.at = At::Row;
                self.rows += 1;
                self.written += out.len() - counted;
                counted = out.len();
                if self.written >= LONGEST {
                    out.extend_from_slice(b";\n");
                    (self.written, counted) = (0, out.len());
                }
                continue;
            }
            if self.at != At::Within {
                continue;
            }
            match byte {
                _ if form == Form::Number && !is_of_a_number(byte) => return Err(WRONG),
                b'\'' => out.extend_from_slice(b"\\'"),
                b'\r' => out.extend_from_slice(b"\\r"),
                0x1A => out.extend_from_slice(b"\\Z"),
                _ => out.push(byte),
            }
        }
        self.written += out.len() - counted;
        Ok(())
    }

    /// Ends the last statement.
    pub(crate) fn end(&mut self, out: &mut Vec<u8>) -> Result<(), &'static str> {
        if self.at != At::Row {
            return Err("a row that is cut");
        }
        if self.written > 0 {
            out.extend_from_slice(b";\n");
            self.written = 0;
        }
        Ok(())
    }
}

/// What is read next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// The head of a statement, of which so many bytes were read.
    Head(usize),
    /// A value.
    Value,
    Number,
    Quoted,
    /// Behind a backslash.
    Escaped,
    /// The rest of something that is always the same, and what follows it.
    Same(&'static [u8], Then),
    /// A comma or the end of the row.
    Behind,
    /// A comma or the end of the statement.
    BehindRow,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Value,
    Quoted,
    Behind,
    Head,
}

/// Reads INSERT statements as lines.
#[derive(Debug)]
pub(crate) struct Lines {
    shape: Shape,
    next: Next,
    column: usize,
    rows: u64,
}

impl Lines {
    pub(crate) fn new(table: &str, columns: &[ColumnDetail], mariadb: bool) -> Self {
        Self { shape: Shape::new(table, columns, mariadb), next: Next::Head(0), column: 0, rows: 0 }
    }

    /// Appends the rows of statements as lines.
    pub(crate) fn take(&mut self, sql: &[u8], out: &mut Vec<u8>) -> Result<(), &'static str> {
        for byte in sql {
            self.one(*byte, out).ok_or(STRANGE)?;
        }
        Ok(())
    }

    fn one(&mut self, byte: u8, out: &mut Vec<u8>) -> Option<()> {
        let form = self.shape.form(self.column);
        self.next = match self.next {
            Next::Head(read) => {
                if self.shape.head.get(read) != Some(&byte) {
                    return None;
                }
                if read + 1 == self.shape.head.len() { self.begin() } else { Next::Head(read + 1) }
            }
            Next::Value => match (form, byte) {
                (_, b'N') => {
                    out.extend_from_slice(b"\\N");
                    Next::Same(b"ULL", Then::Behind)
                }
                (Form::Number, byte) if is_of_a_number(byte) => {
                    out.push(byte);
                    Next::Number
                }
                (Form::Bytes, b'\'') => Next::Quoted,
                (Form::Text, b'C') => Next::Same(AS_TEXT.0.get(1..)?, Then::Quoted),
                _ => return None,
            },
            Next::Number if is_of_a_number(byte) => {
                out.push(byte);
                Next::Number
            }
            Next::Number => return self.behind(byte, out),
            Next::Quoted => match byte {
                b'\\' => Next::Escaped,
                b'\'' if form == Form::Text => Next::Same(AS_TEXT.1.get(1..)?, Then::Behind),
                b'\'' => Next::Behind,
                b'\n' | b'\t' | 0 | b'\r' | 0x1A => return None,
                byte => {
                    out.push(byte);
                    Next::Quoted
                }
            },
            Next::Escaped => {
                match byte {
                    b'\\' | b't' | b'n' | b'0' => out.extend_from_slice(&[b'\\', byte]),
                    b'\'' => out.push(b'\''),
                    b'r' => out.push(b'\r'),
                    b'Z' => out.push(0x1A),
                    _ => return None,
                }
                Next::Quoted
            }
            Next::Same(rest, then) => {
                let (first, rest) = rest.split_first()?;
                if *first != byte {
                    return None;
                }
                match (rest, then) {
                    ([], Then::Value) => self.begin(),
                    ([], Then::Quoted) => Next::Quoted,
                    ([], Then::Behind) => Next::Behind,
                    ([], Then::Head) => Next::Head(0),
                    (rest, then) => Next::Same(rest, then),
                }
            }
            Next::Behind => return self.behind(byte, out),
            Next::BehindRow => match byte {
                b',' => Next::Same(b"\n(", Then::Value),
                b';' => Next::Same(b"\n", Then::Head),
                _ => return None,
            },
        };
        Some(())
    }

    /// A row begins.
    fn begin(&mut self) -> Next {
        self.column = 0;
        if self.shape.forms.is_empty() { Next::Behind } else { Next::Value }
    }

    /// Behind a value.
    fn behind(&mut self, byte: u8, out: &mut Vec<u8>) -> Option<()> {
        let is_last = self.column + 1 >= self.shape.forms.len();
        self.next = match byte {
            b',' if !is_last => {
                out.push(b'\t');
                self.column += 1;
                Next::Value
            }
            b')' if is_last => {
                out.extend_from_slice(if self.shape.forms.is_empty() { b"\\N\n" } else { b"\n" });
                self.rows += 1;
                Next::BehindRow
            }
            _ => return None,
        };
        Some(())
    }

    /// How many rows there were. Fails if the last statement isn't complete.
    pub(crate) fn end(&self) -> Result<u64, &'static str> {
        if self.next == Next::Head(0) { Ok(self.rows) } else { Err(STRANGE) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn columns(types: &[&str]) -> Vec<ColumnDetail> {
        let column = |kind: &&str| ColumnDetail { name: format!("{kind}`"), r#type: (*kind).into(), charset: None };
        types.iter().map(column).collect()
    }

    fn written(types: &[&str], lines: &[u8]) -> Result<String, &'static str> {
        let (mut inserts, mut out) = (Inserts::new("t", &columns(types), false), Vec::new());
        inserts.take(lines, &mut out)?;
        inserts.end(&mut out)?;
        Ok(String::from_utf8_lossy(&out).into_owned())
    }

    fn read(types: &[&str], sql: &[u8]) -> Result<(Vec<u8>, u64), &'static str> {
        let (mut lines, mut out) = (Lines::new("t", &columns(types), false), Vec::new());
        lines.take(sql, &mut out)?;
        Ok((out, lines.end()?))
    }

    #[test]
    fn lines_become_statements_and_lines_again() {
        for (types, lines, expected) in [
            (&["int", "text"][..], &b""[..], ""),
            (
                &["int", "text"],
                b"-1\tit's\n\\N\t\\N\n7\t\n",
                "INSERT INTO `t` (`int```,`text```) VALUES\n(-1,'it\\'s'),\n(NULL,NULL),\n(7,'');\n",
            ),
            (
                &["blob"],
                b"\\\\N\n\\n\\t\\0\r\x1a\n",
                "INSERT INTO `t` (`blob```) VALUES\n('\\\\N'),\n('\\n\\t\\0\\r\\Z');\n",
            ),
            (
                &["json", "decimal", "double"],
                b"{\"a\": 1}\t1.50\t-0\n",
                "INSERT INTO `t` (`json```,`decimal```,`double```) VALUES\n(CONVERT('{\"a\": 1}' USING utf8mb4),1.50,'-0');\n",
            ),
            (&[], b"\\N\n\\N\n", "INSERT INTO `t` () VALUES\n(),\n();\n"),
        ] {
            assert_eq!(written(types, lines).as_deref(), Ok(expected), "{lines:?}");
            let rows = lines.iter().filter(|byte| **byte == b'\n').count() as u64;
            assert_eq!(read(types, expected.as_bytes()), Ok((lines.to_vec(), rows)), "{expected}");
        }
    }

    #[test]
    fn what_is_no_row_of_the_table_isnt_written() {
        for (types, lines) in [
            (&["int"][..], &b"1); DROP TABLE x; -- \n"[..]),
            (&["int"], b"\n"),
            (&["int"], b"1\t2\n"),
            (&["int", "int"], b"1\n"),
            (&["text"], b"\\Nx\n"),
            (&["text"], b"cut"),
        ] {
            assert!(written(types, lines).is_err(), "{lines:?}");
        }
    }

    #[test]
    fn what_a_backup_doesnt_write_isnt_read() {
        for sql in [
            "INSERT INTO `u` (`int```) VALUES\n(1);\n",
            "INSERT INTO `t` (`int```) VALUES\n(f());\n",
            "INSERT INTO `t` (`int```) VALUES\n(1+1),\n(2;\n",
            "INSERT INTO `t` (`int```) VALUES\n('1');\n",
            "INSERT INTO `t` (`int```) VALUES\n(1,2);\n",
            "INSERT INTO `t` (`int```) VALUES\n(1) ;\n",
            "INSERT INTO `t` (`int```) VALUES\n(1);",
            "INSERT INTO `t` (`int```) VALUES\n(1);\nDROP TABLE x;\n",
            "INSERT INTO `t` (`int```) VALUES\n(NULLIF(1,1));\n",
        ] {
            assert!(read(&["int"], sql.as_bytes()).is_err(), "{sql}");
        }
        for value in ["'a' 'b'", "'\\q'", "'a\n'", "\"a\"", "0x00", "@@version"] {
            let sql = format!("INSERT INTO `t` (`text```) VALUES\n({value});\n");
            assert!(read(&["text"], sql.as_bytes()).is_err(), "{sql}");
        }
    }

    #[test]
    fn statements_end_before_they_are_too_long_for_a_server() {
        let line = [vec![b'x'; 600_000], b"\n".to_vec()].concat();
        let sql = written(&["text"], &line.repeat(3)).expect("written");
        assert_eq!(sql.matches("INSERT INTO").count(), 2);
        assert_eq!(read(&["text"], sql.as_bytes()), Ok((line.repeat(3), 3)));
    }

    proptest! {
        #[test]
        fn any_bytes_come_back_in_any_pieces(
            values in prop::collection::vec(prop::option::of(prop::collection::vec(any::<u8>(), 0..40)), 1..12),
            piece in 1_usize..30,
        ) {
            let mut lines = Vec::new();
            for pair in values.chunks(2) {
                for (place, value) in [pair.first(), pair.get(1)].into_iter().enumerate() {
                    if place > 0 {
                        lines.push(b'\t');
                    }
                    match value.cloned().flatten() {
                        None => lines.extend_from_slice(b"\\N"),
                        Some(value) => for byte in value {
                            match byte {
                                b'\\' => lines.extend_from_slice(b"\\\\"),
                                b'\t' => lines.extend_from_slice(b"\\t"),
                                b'\n' => lines.extend_from_slice(b"\\n"),
                                0 => lines.extend_from_slice(b"\\0"),
                                byte => lines.push(byte),
                            }
                        },
                    }
                }
                lines.push(b'\n');
            }
            let shape = columns(&["json", "blob"]);
            let (mut inserts, mut sql) = (Inserts::new("t", &shape, false), Vec::new());
            for part in lines.chunks(piece) {
                prop_assert_eq!(inserts.take(part, &mut sql), Ok(()));
            }
            prop_assert_eq!(inserts.end(&mut sql), Ok(()));
            let (mut back, mut out) = (Lines::new("t", &shape, false), Vec::new());
            for part in sql.chunks(piece) {
                prop_assert_eq!(back.take(part, &mut out), Ok(()));
            }
            prop_assert_eq!(back.end(), Ok(inserts.rows()));
            prop_assert_eq!(out, lines);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = written(&["int", "text"], &bytes);
            let _ = read(&["int", "text"], &bytes);
        }
    }
}
