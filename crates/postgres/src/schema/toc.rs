//! The table of contents of a `pg_dump` archive in `custom` or `directory` format: its objects, and the statement that
//! makes each. Pure: bytes in, entries out.
//!
//! It is read to find objects worth making in parallel (indexes and constraints), and owners that a target must have.
//! All other objects are left to `pg_restore`. The format is that of archive versions 1.14 to 1.16, PostgreSQL 14 to
//! 18.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::client::TextEncoding;
use crate::schema::versions;

/// The archive versions that are understood.
const VERSIONS: std::ops::RangeInclusive<(u8, u8)> = (1, 14)..=(1, 16);

/// The part of a restore that an entry belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Section {
    /// Before the rows, or with them.
    Before,
    /// After the rows.
    After,
}

/// One object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Its number in the archive.
    pub(crate) id: u32,
    /// Its kind, in `pg_dump`'s words: `INDEX`, `FK CONSTRAINT`.
    pub(crate) kind: String,
    /// Its displayed name.
    pub(crate) tag: String,
    /// The statements that make it.
    pub(crate) statement: String,
    /// Its schema.
    pub(crate) schema: String,
    /// Its tablespace; empty for the default one.
    pub(crate) tablespace: String,
    /// Its owner.
    pub(crate) owner: String,
    pub(crate) section: Section,
    /// The entries that must be made before it.
    pub(crate) needs: Vec<u32>,
}

impl Entry {
    /// Whether it has grants: on an object, or as defaults for later objects.
    pub(crate) fn is_grant(&self) -> bool {
        matches!(self.kind.as_str(), "ACL" | "DEFAULT ACL")
    }
}

/// How an archive keeps its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// In one file, after the table of contents.
    Custom,
    /// In files beside the table of contents.
    Directory,
}

/// Where an entry's rows are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Data {
    /// The entry's number in the archive.
    pub(crate) id: u32,
    /// Whether it is a list of large objects.
    pub(crate) objects: bool,
    /// The file of a directory; none where the entry has no rows.
    pub(crate) file: Option<String>,
    /// The bytes of the table of contents that say so.
    pub(crate) said: Range<usize>,
}

/// A table of contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Toc {
    pub(crate) form: Form,
    /// Whether its rows are compressed.
    pub(crate) compressed: bool,
    /// Bytes of its numbers and of its offsets.
    pub(crate) sizes: (usize, usize),
    /// The versions of the server that it is of, and of the program that wrote it, as texts.
    pub(crate) versions: (String, String),
    /// Its objects, in order.
    pub(crate) entries: Vec<Entry>,
    /// Where the rows of each entry are.
    pub(crate) data: Vec<Data>,
}

/// The offset of the byte in an archive that names its format.
pub(crate) const FORM_AT: usize = 10;

/// The forms' bytes. That of a directory is tar's.
pub(crate) const CUSTOM: u8 = 1;
const TAR: u8 = 3;

/// Reads the entries of an archive, in their order.
///
/// # Errors
/// The defect of the archive.
pub(crate) fn parse(bytes: &[u8]) -> Result<Vec<Entry>, String> {
    read(bytes).map(|toc| toc.entries)
}

/// Reads the table of contents from the front of an archive; `None` while there are too few bytes.
///
/// # Errors
/// The defect of the archive.
pub(crate) fn front(bytes: &[u8]) -> Result<Option<Toc>, String> {
    let mut reader = Reader::new(bytes);
    match read_from(&mut reader, bytes) {
        Ok(toc) => Ok(Some(toc)),
        Err(_) if reader.is_cut_off => Ok(None),
        Err(cause) => Err(cause),
    }
}

/// Reads a whole table of contents.
///
/// # Errors
/// The defect of the archive.
pub(crate) fn read(bytes: &[u8]) -> Result<Toc, String> {
    read_from(&mut Reader::new(bytes), bytes)
}

fn read_from(reader: &mut Reader<'_>, bytes: &[u8]) -> Result<Toc, String> {
    if reader.take(5)? != b"PGDMP" {
        return Err("it is no archive of pg_dump".to_owned());
    }
    let (major, minor, _revision) = (reader.byte()?, reader.byte()?, reader.byte()?);
    if !VERSIONS.contains(&(major, minor)) {
        return Err(format!("it has archive version {major}.{minor}, and 1.14 to 1.16 are known"));
    }
    (reader.int, reader.offset) = (usize::from(reader.byte()?), usize::from(reader.byte()?));
    if !(1..=8).contains(&reader.int) || reader.offset > 8 {
        return Err("its numbers have an impossible size".to_owned());
    }
    let form = match reader.byte()? {
        CUSTOM => Form::Custom,
        TAR => Form::Directory,
        other => return Err(format!("it has the form {other}, which isn't known")),
    };
    let compressed = match minor {
        14 => reader.int()? != 0,
        _ => reader.byte()? != 0,
    };
    // When it was made, in seven numbers; then the database and the two versions.
    for _ in 0..7 {
        reader.int()?;
    }
    let _database = reader.text()?;
    let versions = (reader.text()?.unwrap_or_default(), reader.text()?.unwrap_or_default());
    let count = reader.int()?;
    let sizes = (reader.int, reader.offset);
    let mut toc = Toc { form, compressed, sizes, versions, entries: Vec::new(), data: Vec::new() };
    let mut section = Section::Before;
    for _ in 0..count {
        let entry = entry(reader, minor, &mut section)?;
        // It is the first one.
        if entry.kind == "ENCODING" {
            reader.encoding = encoding(&entry.statement)?;
        }
        let from = bytes.len() - reader.rest.len();
        let file = match form {
            Form::Custom => reader.take(1 + reader.offset).map(|_| None)?,
            Form::Directory => reader.text()?.filter(|file| !file.is_empty()),
        };
        let (objects, said) = (entry.kind == "BLOBS", from..bytes.len() - reader.rest.len());
        toc.data.push(Data { id: entry.id, objects, file, said });
        toc.entries.push(entry);
    }
    Ok(toc)
}

fn entry(reader: &mut Reader<'_>, minor: u8, section: &mut Section) -> Result<Entry, String> {
    let id = u32::try_from(reader.int()?).map_err(|_| "an entry has an impossible number")?;
    let _has_data = reader.int()?;
    let (_table_oid, _oid) = (reader.text()?, reader.text()?);
    let (tag, kind) = (reader.text()?.unwrap_or_default(), reader.text()?.unwrap_or_default());
    // Comments and grants (1) belong to the section of the entry before them.
    match reader.int()? {
        2 | 3 => *section = Section::Before,
        4 => *section = Section::After,
        _ => {}
    }
    let statement = reader.text()?.unwrap_or_default();
    let statement = String::from_utf8_lossy(&versions::of_script(statement.as_bytes())).into_owned();
    let (_drop, _copy) = (reader.text()?, reader.text()?);
    let (schema, tablespace) = (reader.text()?.unwrap_or_default(), reader.text()?.unwrap_or_default());
    let _access_method = reader.text()?;
    if minor >= 16 {
        reader.int()?;
    }
    let owner = reader.text()?.unwrap_or_default();
    let _with_oids = reader.text()?;
    let mut needs = Vec::new();
    while let Some(need) = reader.text()? {
        needs.push(need.parse().map_err(|_| "an entry needs an impossible number".to_owned())?);
    }
    Ok(Entry { id, kind, tag, statement, schema, tablespace, owner, section: *section, needs })
}

/// The encoding of `SET client_encoding = 'WIN1252';`.
fn encoding(statement: &str) -> Result<TextEncoding, String> {
    let name = statement.split('\'').nth(1).unwrap_or_default();
    TextEncoding::of(name).ok_or_else(|| format!("its texts have the encoding {name:?}, which no database has"))
}

struct Reader<'a> {
    rest: &'a [u8],
    int: usize,
    offset: usize,
    /// The encoding of its texts.
    encoding: TextEncoding,
    /// Whether bytes were missing.
    is_cut_off: bool,
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, int: 4, offset: 8, encoding: TextEncoding::UTF8, is_cut_off: false }
    }

    fn take(&mut self, size: usize) -> Result<&'a [u8], String> {
        let Some((taken, rest)) = self.rest.split_at_checked(size) else {
            self.is_cut_off = true;
            return Err("it is cut off".to_owned());
        };
        self.rest = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, String> {
        Ok(self.take(1)?[0])
    }

    /// A number: its sign, then its bytes from the lowest.
    fn int(&mut self) -> Result<i64, String> {
        let negative = self.byte()? != 0;
        let bytes = self.take(self.int)?;
        let value = bytes.iter().rev().fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
        let value = i64::try_from(value).map_err(|_| "it holds an impossible number")?;
        Ok(if negative { -value } else { value })
    }

    /// A text, or none where its length is negative.
    fn text(&mut self) -> Result<Option<String>, String> {
        let Ok(size) = usize::try_from(self.int()?) else { return Ok(None) };
        let bytes = self.take(size)?;
        Ok(Some(self.encoding.decode_lossy(bytes)))
    }
}

/// The setting under which the texts in the statements mean what `pg_dump` meant. It must come in a message of its own:
/// the server parses all texts of a message before it runs the first statement.
pub(crate) fn texts(entries: &[Entry]) -> &'static str {
    match entries.iter().any(|entry| entry.kind == "STDSTRINGS" && entry.statement.contains("'off'")) {
        true => "SET standard_conforming_strings = off",
        false => "SET standard_conforming_strings = on",
    }
}

/// The roles that own objects, in order.
pub(crate) fn owners(entries: &[Entry]) -> BTreeSet<&str> {
    entries.iter().map(|entry| entry.owner.as_str()).filter(|owner| !owner.is_empty()).collect()
}

/// The roles that own objects which only superusers may own.
pub(crate) fn superusers(entries: &[Entry]) -> BTreeSet<&str> {
    let is_one =
        |entry: &&Entry| matches!(entry.kind.as_str(), "EVENT TRIGGER" | "FOREIGN DATA WRAPPER" | "SUBSCRIPTION");
    entries.iter().filter(is_one).map(|entry| entry.owner.as_str()).filter(|owner| !owner.is_empty()).collect()
}

/// The roles that an entry names beside its owner: in grants, policies and user mappings.
pub(crate) fn roles(entry: &Entry) -> Vec<String> {
    let mut roles = Vec::new();
    if matches!(entry.kind.as_str(), "ACL" | "DEFAULT ACL" | "POLICY" | "USER MAPPING") {
        let outside = outside(&entry.statement);
        for before in [" TO ", " FROM ", " FOR ROLE ", " USER MAPPING FOR ", " SESSION AUTHORIZATION "] {
            for (at, word) in entry.statement.match_indices(before).filter(|(at, _)| outside[*at]) {
                names(&entry.statement[at + word.len()..], &mut roles);
            }
        }
    }
    roles.retain(|role| !matches!(role.as_str(), "PUBLIC" | "public" | "DEFAULT" | "CURRENT_USER"));
    roles
}

/// The roles that have made the grants of an entry, but for its owner.
pub(crate) fn grantors(entry: &Entry) -> Vec<String> {
    let (mut grantors, before) = (Vec::new(), "SET SESSION AUTHORIZATION ");
    if entry.kind == "ACL" {
        let outside = outside(&entry.statement);
        let is_whole = |at: usize| at == 0 || entry.statement[..at].ends_with('\n');
        for (at, word) in entry.statement.match_indices(before).filter(|(at, _)| outside[*at] && is_whole(*at)) {
            names(&entry.statement[at + word.len()..], &mut grantors);
        }
    }
    grantors.retain(|role| role != "DEFAULT");
    grantors
}

/// For each byte of a statement, whether it is outside quotes and parentheses. A policy's condition may be a query, and
/// a table may have any name.
fn outside(statement: &str) -> Vec<bool> {
    let (mut quote, mut depth) = (None, 0_u32);
    let outside = statement.bytes().map(|byte| {
        match (quote, byte) {
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), _) if open == byte => quote = None,
            (None, b'(') => depth = depth.saturating_add(1),
            (None, b')') => depth = depth.saturating_sub(1),
            _ => {}
        }
        quote.is_none() && depth == 0
    });
    outside.collect()
}

/// The names of a list at the beginning of a text, without their quotes.
fn names(mut text: &str, found: &mut Vec<String>) {
    loop {
        text = text.trim_start();
        let mut quoted = false;
        let end = text.find(|c: char| {
            quoted ^= c == '"';
            !(quoted || c.is_alphanumeric() || matches!(c, '_' | '$' | '"'))
        });
        let (name, rest) = text.split_at(end.unwrap_or(text.len()));
        let plain = name.strip_prefix('"').and_then(|name| name.strip_suffix('"'));
        let name = plain.map_or_else(|| name.to_owned(), |name| name.replace("\"\"", "\""));
        if !name.is_empty() {
            found.push(name);
        }
        match rest.trim_start().strip_prefix(',') {
            Some(next) => text = next,
            None => return,
        }
    }
}

/// The kind of an entry that is made in parallel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heavy {
    /// An index; several can be made on one table at once.
    Index,
    /// A primary key, unique or exclusion constraint: it has the table for itself.
    Key,
    /// An index that becomes part of a partitioned index.
    Attach,
    /// A foreign key.
    ForeignKey,
}

/// The entries that are worth making in parallel, in the archive's order. Entries that depend on a later one are left
/// out, for example a materialized view that had to wait for a key.
pub(crate) fn heavy(entries: &[Entry]) -> Vec<(&Entry, Heavy)> {
    let mut others: BTreeSet<u32> = BTreeSet::new();
    let mut heavy = Vec::new();
    for entry in entries.iter().filter(|entry| entry.section == Section::After) {
        let kind = match entry.kind.as_str() {
            // An index that also changes its table (CLUSTER ON, REPLICA IDENTITY) needs the table for itself.
            "INDEX" if entry.statement.contains("ALTER TABLE ") => Some(Heavy::Key),
            "INDEX" => Some(Heavy::Index),
            "CONSTRAINT" => Some(Heavy::Key),
            "INDEX ATTACH" => Some(Heavy::Attach),
            "FK CONSTRAINT" => Some(Heavy::ForeignKey),
            _ => None,
        };
        // Only the archive has bytes of other encodings unchanged. An entry with such bytes is left to `pg_restore`.
        let kind = kind.filter(|_| !entry.statement.contains(char::REPLACEMENT_CHARACTER));
        match kind.filter(|_| !entry.needs.iter().any(|need| others.contains(need))) {
            Some(kind) => heavy.push((entry, kind)),
            None => {
                others.insert(entry.id);
            }
        }
    }
    heavy
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn entry(id: u32, kind: &str, section: Section, needs: &[u32]) -> Entry {
        Entry {
            id,
            kind: kind.into(),
            tag: String::new(),
            statement: String::new(),
            schema: String::new(),
            tablespace: String::new(),
            owner: "app".into(),
            section,
            needs: needs.to_vec(),
        }
    }

    #[test]
    fn roles_beside_the_owner() {
        for (kind, statement, expected) in [
            ("ACL", "GRANT SELECT ON TABLE public.t TO reader;\nREVOKE ALL ON TABLE x FROM PUBLIC;\n", &["reader"][..]),
            ("ACL", "GRANT UPDATE(a) ON t TO \"Bob's, \"\"role\"\"\" WITH GRANT OPTION;", &["Bob's, \"role\""]),
            ("ACL", "SET SESSION AUTHORIZATION al;\nGRANT ALL ON t TO b;\nRESET SESSION AUTHORIZATION;", &["b", "al"]),
            ("DEFAULT ACL", "ALTER DEFAULT PRIVILEGES FOR ROLE alice GRANT ALL ON TABLES TO b;", &["b", "alice"]),
            ("POLICY", "CREATE POLICY p ON t FOR SELECT TO a, \"b c\" USING (x);", &["a", "b c"]),
            (
                "POLICY",
                "CREATE POLICY p ON t TO a USING ((EXISTS ( SELECT 1 FROM b WHERE (c = ' TO d'::text))));",
                &["a"],
            ),
            ("POLICY", "CREATE POLICY p ON t USING ((a IN ( SELECT b FROM c)));", &[]),
            ("ACL", "GRANT ALL ON TABLE public.\"it's TO x\" TO reader;", &["reader"]),
            ("ACL", "GRANT ALL ON FUNCTION public.f(\" FROM \" integer) TO reader;", &["reader"]),
            ("USER MAPPING", "CREATE USER MAPPING FOR alice SERVER s;", &["alice"]),
            ("FUNCTION", "CREATE FUNCTION f() … SELECT x FROM t;", &[]),
        ] {
            let entry = Entry { statement: statement.into(), ..entry(1, kind, Section::After, &[]) };
            assert_eq!(roles(&entry), expected, "{statement}");
        }
    }

    #[test]
    fn who_granted_is_known() {
        let statement = "GRANT ALL ON TABLE t TO x;\nSET SESSION AUTHORIZATION \"a b\";\nGRANT SELECT ON TABLE t TO b;\n\
                         RESET SESSION AUTHORIZATION;\nSET SESSION AUTHORIZATION c;\nGRANT ALL ON t TO d;\n";
        let entry = Entry { statement: statement.into(), ..entry(1, "ACL", Section::After, &[]) };
        assert_eq!(grantors(&entry), ["a b", "c"]);
    }

    #[test]
    fn what_waits_for_something_else_is_left_out() {
        let entries = [
            entry(1, "TABLE", Section::Before, &[]),
            entry(2, "CONSTRAINT", Section::After, &[1]),
            entry(3, "MATERIALIZED VIEW", Section::After, &[2]),
            entry(4, "INDEX", Section::After, &[3]),
            entry(5, "INDEX", Section::After, &[1]),
            entry(6, "FK CONSTRAINT", Section::After, &[2]),
        ];
        let ids: Vec<(u32, Heavy)> = heavy(&entries).iter().map(|(entry, kind)| (entry.id, *kind)).collect();
        assert_eq!(ids, [(2, Heavy::Key), (5, Heavy::Index), (6, Heavy::ForeignKey)]);
        assert_eq!(owners(&entries).into_iter().collect::<Vec<_>>(), ["app"]);
    }

    fn int(bytes: &mut Vec<u8>, value: i32) {
        bytes.push(u8::from(value < 0));
        bytes.extend_from_slice(&value.unsigned_abs().to_le_bytes());
    }

    fn text(bytes: &mut Vec<u8>, value: &str) {
        int(bytes, value.len() as i32);
        bytes.extend_from_slice(value.as_bytes());
    }

    /// An archive of version 1.14 with one index.
    fn archive() -> Vec<u8> {
        let mut bytes = b"PGDMP\x01\x0e\x00\x04\x08\x01".to_vec();
        (0..8).for_each(|_| int(&mut bytes, 0));
        ["shop", "15.18", "15.18"].iter().for_each(|value| text(&mut bytes, value));
        int(&mut bytes, 1);
        int(&mut bytes, 4711);
        int(&mut bytes, 0);
        ["1259", "16400", "orders_at", "INDEX"].iter().for_each(|value| text(&mut bytes, value));
        int(&mut bytes, 4);
        ["CREATE INDEX;\n", "DROP INDEX;\n"].iter().for_each(|value| text(&mut bytes, value));
        int(&mut bytes, -1);
        ["public", "", "", "app", "false", "12"].iter().for_each(|value| text(&mut bytes, value));
        int(&mut bytes, -1);
        bytes.extend_from_slice(&[3; 9]);
        bytes
    }

    #[test]
    fn an_archive_is_read() {
        let entries = parse(&archive()).expect("an archive");
        assert_eq!(entries.len(), 1);
        let Entry { id, kind, tag, statement, schema, owner, section, needs, .. } = &entries[0];
        assert_eq!((*id, kind.as_str(), tag.as_str(), *section), (4711, "INDEX", "orders_at", Section::After));
        assert_eq!((statement.as_str(), schema.as_str(), owner.as_str()), ("CREATE INDEX;\n", "public", "app"));
        assert_eq!(*needs, [12]);
    }

    #[test]
    fn what_is_no_archive_is_refused() {
        let whole = archive();
        for size in 0..whole.len() {
            assert!(parse(&whole[..size]).is_err(), "cut at {size}");
        }
        for (at, byte) in [(0, b'p'), (5, 2), (6, 13), (6, 17), (8, 0), (8, 9), (9, 9), (10, 2)] {
            let mut wrong = whole.clone();
            wrong[at] = byte;
            assert!(parse(&wrong).is_err(), "byte {at}");
        }
    }
    /// The table of contents of a directory: a table without rows of its own, and entries with these files.
    pub(crate) fn directory(files: &[(u32, &str, &str)]) -> Vec<u8> {
        let mut bytes = b"PGDMP\x01\x0e\x00\x04\x08\x03".to_vec();
        (0..8).for_each(|_| int(&mut bytes, 0));
        ["shop", "15.18", "15.18"].iter().for_each(|value| text(&mut bytes, value));
        int(&mut bytes, files.len() as i32 + 1);
        for (id, kind, file) in [(1, "TABLE", "")].iter().chain(files) {
            int(&mut bytes, *id as i32);
            int(&mut bytes, i32::from(!file.is_empty()));
            ["1259", "16400", "t", kind].iter().for_each(|value| text(&mut bytes, value));
            int(&mut bytes, 3);
            ["", "", "", "public", "", "", "app", "false"].iter().for_each(|value| text(&mut bytes, value));
            int(&mut bytes, -1);
            text(&mut bytes, file);
        }
        bytes
    }

    #[test]
    fn a_directory_names_its_files() {
        let bytes = directory(&[(2, "TABLE DATA", "2.dat"), (3, "BLOBS", "blobs.toc")]);
        let toc = read(&bytes).expect("a table of contents");
        assert_eq!((toc.form, toc.compressed, toc.sizes), (Form::Directory, false, (4, 8)));
        let files: Vec<_> = toc.data.iter().map(|data| (data.id, data.objects, data.file.as_deref())).collect();
        assert_eq!(files, [(1, false, None), (2, false, Some("2.dat")), (3, true, Some("blobs.toc"))]);
        assert_eq!(bytes[toc.data[1].said.clone()], *b"\0\x05\0\0\x002.dat");
        assert_eq!(read(&archive()).expect("an archive").data[0].said.len(), 9);
    }
}
