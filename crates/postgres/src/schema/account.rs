//! Digests the content of a `pg_dump` script: its objects, rows, sequences and large objects, in its own words. So a
//! restored database can be compared with the script. Pure.
//!
//! A comment before each object names it: `-- Name: t; Type: TABLE; Schema: public; Owner: app`. The statements up to
//! the next such comment make the object. They are digested, so their length doesn't matter.

use std::collections::{BTreeMap, BTreeSet};

use seawall_archive::compare::{Lines, Name, Sum};

use crate::catalog::pages;
use crate::client::TextEncoding;
use crate::schema::owned::Owned;
use crate::schema::toc::{Entry, Section};

/// Beginnings of the comments that name an object, or its rows.
const NAMES: [&str; 2] = ["-- Name: ", "-- Data for Name: "];

/// Kinds of entries that aren't objects of the schema: rows, and parts of large objects.
const ROWS: [&str; 8] = [
    "TABLE DATA",
    "BLOBS",
    "BLOB",
    "BLOB COMMENTS",
    "BLOB METADATA",
    "SEQUENCE SET",
    "MATERIALIZED VIEW DATA",
    "STATISTICS DATA",
];

/// The object in such a comment, for messages.
pub(crate) fn shown(line: &str) -> Option<String> {
    entry(line).map(|entry| crate::schema::allowed::name(&entry))
}

/// Whether a line of a script is a comment that names an object.
pub(crate) fn is_name(line: &[u8]) -> bool {
    NAMES.iter().any(|name| line.starts_with(name.as_bytes()))
}

/// The digest of a script, while it is read.
#[derive(Default)]
pub(crate) struct Account {
    /// The encoding that the script is in.
    encoding: TextEncoding,
    /// Digits of a page of large objects on the server that takes the script.
    page: usize,
    /// The present object, and the digest of its statements.
    at: Option<(Entry, blake3::Hasher)>,
    objects: Vec<Entry>,
    /// The columns of tables and the digests of their rows.
    rows: BTreeMap<Name, (Vec<String>, Sum)>,
    /// The table whose rows are being read, and these rows.
    copying: Option<(Name, Vec<String>, Lines)>,
    sequences: BTreeMap<Name, (i64, bool)>,
    /// Materialized views that are filled.
    filled: BTreeSet<Name>,
    /// The large object that is written: its number, digits of the page at hand, and pages before it.
    object: Option<(u32, Vec<u8>, u64)>,
    pages: Lines,
    large_objects: BTreeSet<u32>,
    /// The statements that make objects, and the statements that set the session.
    script: Vec<Vec<u8>>,
    /// Parts that aren't understood, and so can't be compared.
    strange: Vec<String>,
    /// The true owners of objects that belong to a role of ours.
    owned: Owned,
}

/// The content of a script.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Contents {
    /// Its objects; the statement of each is a digest.
    pub(crate) objects: Vec<Entry>,
    /// Tables, the columns of their rows, and the digests of the rows.
    pub(crate) rows: BTreeMap<Name, (Vec<String>, Sum)>,
    pub(crate) sequences: BTreeMap<Name, (i64, bool)>,
    /// Materialized views that are filled.
    pub(crate) filled: BTreeSet<Name>,
    /// Large objects, and the digests of their pages.
    pub(crate) large_objects: BTreeSet<u32>,
    pub(crate) pages: Sum,
    /// The statements that make objects, and the statements that set the session.
    pub(crate) script: Vec<Vec<u8>>,
    /// Parts that aren't understood, and so can't be compared.
    pub(crate) strange: Vec<String>,
}

impl Account {
    /// For a script in this encoding, from a server with blocks of this many bytes.
    pub(crate) fn of(encoding: TextEncoding, block: u64) -> Self {
        // A byte is two digits.
        let page = usize::try_from(2 * pages::of_block(block)).unwrap_or(usize::MAX);
        Self { encoding, page, ..Self::default() }
    }

    /// For a restored database in which some objects belong to roles of ours.
    pub(crate) fn owned(self, owned: Owned) -> Self {
        Self { owned, ..self }
    }

    /// Reads a comment that names the next object.
    pub(crate) fn name(&mut self, line: &[u8]) {
        self.close();
        let line = self.encoding.decode_lossy(line);
        match entry(&line) {
            Some(entry) => self.at = Some((self.owned.entry(entry), blake3::Hasher::new())),
            None => self.strange.push(line.trim_end().to_owned()),
        }
    }

    /// A statement.
    pub(crate) fn statement(&mut self, statement: &[u8]) {
        let of_rows = self.at.as_ref().is_some_and(|(entry, _)| is_of_rows(entry));
        if !of_rows {
            self.script.push(statement.to_vec());
        }
        // The session's settings depend on the statements before.
        if statement.starts_with(b"SET ") || statement.starts_with(b"SELECT pg_catalog.set_config(") {
            return;
        }
        let Some((entry, hasher)) = &mut self.at else {
            return self.strange.push(self.encoding.decode_lossy(statement).chars().take(60).collect());
        };
        let name = (entry.schema.clone(), entry.tag.clone());
        match entry.kind.as_str() {
            // A line break in a name is a space in the comment. The statement has the exact name.
            "SEQUENCE SET" => match set_to(&self.encoding.decode_lossy(statement)) {
                Some((name, value)) => drop(self.sequences.insert(name, value)),
                None => self.strange.push(format!("sequence {}.{}", name.0, name.1)),
            },
            "MATERIALIZED VIEW DATA" => match refreshed(&self.encoding.decode_lossy(statement)) {
                Some(name) => drop(self.filled.insert(name)),
                None => self.strange.push(format!("materialized view {}.{}", name.0, name.1)),
            },
            "BLOBS" => self.large_object(statement),
            _ => {
                match self.owned.is_in(statement) {
                    true => {
                        hasher.update(self.owned.text(&String::from_utf8_lossy(statement), &entry.owner).as_bytes())
                    }
                    false => hasher.update(statement),
                };
                hasher.update(b";");
            }
        }
    }

    /// A statement that rows follow.
    pub(crate) fn copy(&mut self, statement: &[u8]) {
        let statement = self.encoding.decode_lossy(statement);
        match copied(&statement) {
            Some((name, columns)) => self.copying = Some((name, columns, Lines::default())),
            None => self.strange.push(statement.chars().take(60).collect()),
        }
    }

    /// Some of the rows.
    pub(crate) fn rows(&mut self, bytes: &[u8]) {
        if let Some((_, _, lines)) = &mut self.copying {
            lines.take(bytes);
        }
    }

    /// There are no more rows.
    pub(crate) fn copied(&mut self) {
        let Some((name, columns, lines)) = self.copying.take() else { return };
        if self.rows.insert(name.clone(), (columns, lines.end())).is_some() {
            self.strange.push(format!("{}.{} has rows twice", name.0, name.1));
        }
    }

    /// A statement that writes large objects: `lo_open('16400', …)`, `lowrite(0, '\x…')`, `lo_close(0)`.
    fn large_object(&mut self, statement: &[u8]) {
        let text = String::from_utf8_lossy(statement);
        let call = text.trim_start().strip_prefix("SELECT pg_catalog.").unwrap_or_default();
        if let Some(rest) = call.strip_prefix("lo_open('") {
            let oid = rest.split('\'').next().and_then(|oid| oid.parse().ok());
            if let Some(oid) = oid {
                self.large_objects.insert(oid);
                self.object = Some((oid, Vec::with_capacity(self.page), 0));
                return;
            }
        } else if let Some((_, digits)) = call.strip_prefix("lowrite(").and_then(|rest| rest.split_once("\\x")) {
            if let Some((oid, page, pages)) = &mut self.object {
                for digit in digits.bytes().take_while(u8::is_ascii_hexdigit) {
                    page.push(digit);
                    if page.len() == self.page {
                        write_page(&mut self.pages, *oid, *pages, page);
                        *pages += 1;
                    }
                }
                return;
            }
        } else if call.starts_with("lo_close(") {
            if let Some((oid, mut page, pages)) = self.object.take() {
                if !page.is_empty() {
                    write_page(&mut self.pages, oid, pages, &mut page);
                }
                return;
            }
        } else if call.starts_with("lo_create(") || matches!(text.trim(), "BEGIN" | "COMMIT") {
            return;
        }
        self.strange.push("a statement about large objects".to_owned());
    }

    fn close(&mut self) {
        let Some((mut entry, hasher)) = self.at.take() else { return };
        if !is_of_rows(&entry) {
            entry.statement = hasher.finalize().to_hex().to_string();
            self.objects.push(entry);
        }
    }

    /// The content that was read.
    pub(crate) fn end(mut self) -> Contents {
        self.close();
        Contents {
            objects: self.objects,
            rows: self.rows,
            sequences: self.sequences,
            filled: self.filled,
            large_objects: self.large_objects,
            pages: self.pages.end(),
            script: self.script,
            strange: self.strange,
        }
    }
}

/// Whether an entry is about rows or large objects, and not about the schema.
fn is_of_rows(entry: &Entry) -> bool {
    ROWS.contains(&entry.kind.as_str()) || entry.tag.starts_with("LARGE OBJECT")
}

/// A page as COPY writes it of `pg_largeobject`.
fn write_page(lines: &mut Lines, oid: u32, number: u64, page: &mut Vec<u8>) {
    lines.take(format!("{oid}\t{number}\t\\\\x").as_bytes());
    page.push(b'\n');
    lines.take(page);
    page.clear();
}

/// The object that a comment names. The name may contain anything, but a kind is in capital letters.
fn entry(line: &str) -> Option<Entry> {
    let rest = NAMES.iter().find_map(|name| line.strip_prefix(name))?.trim_end_matches('\n');
    let of = |(at, word): (usize, &str)| {
        let (kind, behind) = rest[at + word.len()..].split_once("; Schema: ")?;
        let is_kind = !kind.is_empty() && kind.chars().all(|c| c.is_ascii_uppercase() || c == ' ');
        is_kind.then_some((&rest[..at], kind, behind))
    };
    let (tag, kind, rest) = rest.rmatch_indices("; Type: ").find_map(of)?;
    let (schema, rest) = rest.rsplit_once("; Owner: ")?;
    let owner = rest.split_once("; Tablespace: ").map_or(rest, |(owner, _)| owner);
    let text = |text: &str| if text == "-" { String::new() } else { text.to_owned() };
    Some(Entry {
        id: 0,
        kind: kind.to_owned(),
        tag: tag.to_owned(),
        statement: String::new(),
        schema: text(schema),
        tablespace: String::new(),
        owner: text(owner),
        section: Section::Before,
        needs: Vec::new(),
    })
}

/// The sequence of `SELECT pg_catalog.setval('public.s', 7, true)`, and its new value.
fn set_to(statement: &str) -> Option<(Name, (i64, bool))> {
    let text = statement.trim_end().strip_suffix(')')?;
    let (rest, called) = text.rsplit_once(", ")?;
    let (rest, value) = rest.rsplit_once(", ")?;
    let literal = rest.trim_start().strip_prefix("SELECT pg_catalog.setval(")?;
    let (literal, has_escapes) = match literal.strip_prefix('E') {
        Some(literal) => (literal, true),
        None => (literal, false),
    };
    let mut qualified = literal.strip_prefix('\'')?.strip_suffix('\'')?.replace("''", "'");
    if has_escapes {
        qualified = qualified.replace("\\\\", "\\");
    }
    let name = qualified_name(&qualified)?;
    Some((name, (value.parse().ok()?, called.parse().ok()?)))
}

/// The view of `REFRESH MATERIALIZED VIEW public.v`.
fn refreshed(statement: &str) -> Option<Name> {
    qualified_name(statement.trim().strip_prefix("REFRESH MATERIALIZED VIEW ")?)
}

/// A qualified name, if the text is nothing else.
fn qualified_name(text: &str) -> Option<Name> {
    let (schema, rest) = name(text)?;
    let (object, rest) = name(rest.strip_prefix('.')?)?;
    rest.is_empty().then_some((schema, object))
}

/// The table and the columns of `COPY schema.table (a, b) FROM stdin`.
fn copied(statement: &str) -> Option<(Name, Vec<String>)> {
    let (schema, rest) = name(statement.strip_prefix("COPY ")?)?;
    let (table, rest) = name(rest.strip_prefix('.')?)?;
    let mut columns = Vec::new();
    let mut rest = rest.trim_start();
    if let Some(mut list) = rest.strip_prefix('(') {
        while !list.starts_with(')') {
            let (column, more) = name(list)?;
            columns.push(column);
            list = more.strip_prefix(", ").unwrap_or(more);
        }
        rest = list.strip_prefix(')')?.trim_start();
    }
    (rest == "FROM stdin").then_some(((schema, table), columns))
}

/// The name at the beginning of a text, without its quotes, and the text after it.
fn name(text: &str) -> Option<(String, &str)> {
    let Some(mut rest) = text.strip_prefix('"') else {
        let end = text.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '$'))).unwrap_or(text.len());
        return (end > 0).then(|| (text[..end].to_owned(), &text[end..]));
    };
    let mut name = String::new();
    loop {
        let (part, behind) = rest.split_once('"')?;
        name.push_str(part);
        match behind.strip_prefix('"') {
            Some(more) => {
                name.push('"');
                rest = more;
            }
            None => return Some((name, behind)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_name_objects() {
        for (line, expected) in [
            ("-- Name: t; Type: TABLE; Schema: public; Owner: app\n", Some(("TABLE", "public", "t", "app"))),
            (
                "-- Name: t; Type: TABLE; Schema: public; Owner: app; Tablespace: fast\n",
                Some(("TABLE", "public", "t", "app")),
            ),
            ("-- Data for Name: t; Type: TABLE DATA; Schema: a; Owner: b\n", Some(("TABLE DATA", "a", "t", "b"))),
            ("-- Name: EXTENSION e; Type: COMMENT; Schema: -; Owner: \n", Some(("COMMENT", "", "EXTENSION e", ""))),
            ("-- Name: f(text); Type: FUNCTION; Schema: x y; Owner: -\n", Some(("FUNCTION", "x y", "f(text)", ""))),
            ("-- Name: odd; Type: x; Type: TYPE; Schema: -; Owner: o", Some(("TYPE", "", "odd; Type: x", "o"))),
            ("-- Name: t; Type: TABLE\n", None),
            ("-- Nothing", None),
        ] {
            let found = entry(line);
            let found = found.as_ref().map(|e| (e.kind.as_str(), e.schema.as_str(), e.tag.as_str(), e.owner.as_str()));
            assert_eq!(found, expected, "{line}");
        }
    }

    #[test]
    fn copies_name_tables_and_columns() {
        for (statement, expected) in [
            ("COPY public.t (a, b) FROM stdin", Some(("public", "t", vec!["a", "b"]))),
            ("COPY public.none  FROM stdin", Some(("public", "none", vec![]))),
            (
                "COPY \"a.b\".\"Bob's \"\"t\"\"\" (\"x, y\", \"(\", é) FROM stdin",
                Some(("a.b", "Bob's \"t\"", vec!["x, y", "(", "é"])),
            ),
            ("COPY t (a) FROM stdin", None),
            ("COPY public.t (a FROM stdin", None),
            ("COPY public.t (a) FROM PROGRAM 'x'", None),
            ("COPY \"public.t (a) FROM stdin", None),
        ] {
            let expected = expected.map(|(schema, table, columns): (&str, &str, Vec<&str>)| {
                ((schema.to_owned(), table.to_owned()), columns.into_iter().map(str::to_owned).collect())
            });
            assert_eq!(copied(statement), expected, "{statement}");
        }
    }

    #[test]
    fn a_script_is_accounted_for() {
        let mut account = Account::of(TextEncoding::UTF8, 8192);
        account.statement(b"SET statement_timeout = 0");
        account.name(b"-- Name: t; Type: TABLE; Schema: public; Owner: app\n");
        account.statement(b"CREATE TABLE public.t (a integer)");
        account.statement(b"SET default_tablespace = ''");
        account.name(b"-- Data for Name: t; Type: TABLE DATA; Schema: public; Owner: app\n");
        account.copy(b"COPY public.t (a) FROM stdin");
        account.rows(b"1\n2");
        account.rows(b"\n");
        account.copied();
        account.name(b"-- Name: s; Type: SEQUENCE SET; Schema: public; Owner: app\n");
        account.statement(b"SELECT pg_catalog.setval('public.s', -7, true)");
        account.name(b"-- Data for Name: BLOBS; Type: BLOBS; Schema: -; Owner: -\n");
        account.statement(b"BEGIN");
        account.statement(b"SELECT pg_catalog.lo_open('5', 131072)");
        account.statement(format!("SELECT pg_catalog.lowrite(0, '\\x{}')", "ab".repeat(2049)).as_bytes());
        account.statement(b"SELECT pg_catalog.lo_close(0)");
        account.name(b"-- Name: m; Type: MATERIALIZED VIEW DATA; Schema: public; Owner: app\n");
        account.statement(b"REFRESH MATERIALIZED VIEW public.m");
        let contents = account.end();
        let name = |name: &str| ("public".to_owned(), name.to_owned());
        assert_eq!(contents.objects.len(), 1);
        assert_eq!(contents.rows[&name("t")].1.rows, 2);
        assert_eq!(contents.sequences, BTreeMap::from([(name("s"), (-7, true))]));
        assert_eq!(contents.filled, BTreeSet::from([name("m")]));
        let mut pages = Lines::default();
        pages.take(format!("5\t0\t\\\\x{}\n5\t1\t\\\\xab\n", "ab".repeat(2048)).as_bytes());
        assert_eq!((contents.pages, contents.large_objects), (pages.end(), BTreeSet::from([5])));
        assert_eq!(contents.strange, Vec::<String>::new());
    }

    #[test]
    fn what_is_not_understood_is_told() {
        let mut account = Account::of(TextEncoding::UTF8, 8192);
        account.statement(b"SELECT 1");
        account.name(b"-- Name: what\n");
        account.name(b"-- Name: s; Type: SEQUENCE SET; Schema: public; Owner: app\n");
        account.statement(b"SELECT pg_catalog.setval('public.s')");
        account.copy(b"COPY t FROM stdin");
        account.name(b"-- Data for Name: BLOBS; Type: BLOBS; Schema: -; Owner: -\n");
        account.statement(b"SELECT pg_catalog.lowrite(0, '\\xab')");
        for table in ["t", "t"] {
            account.copy(format!("COPY public.{table} (a) FROM stdin").as_bytes());
            account.copied();
        }
        assert_eq!(account.end().strange.len(), 6);
    }
}
