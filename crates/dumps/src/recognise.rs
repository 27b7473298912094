//! Which form do these bytes have? Pure: the front of a file and its name in, a form out.

/// How much of a file is looked at.
pub(crate) const FRONT: usize = 64 << 10;

/// How a file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrap {
    /// Not at all.
    Plain,
    /// gzip, of one member or several.
    Gzip,
    /// Zstandard, of one frame or several.
    Zstd,
}

impl Wrap {
    /// The word for people and programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "none",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }

    /// The compression of a file that begins so.
    pub(crate) fn of(front: &[u8]) -> Self {
        match front {
            [0x1f, 0x8b, 8, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            _ => Self::Plain,
        }
    }
}

/// The program that wrote a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Maker {
    /// `pg_dump`.
    Postgres,
    /// `pg_dumpall`: roles and tablespaces.
    PostgresGlobals,
    /// `mysqldump` or `mariadb-dump`.
    Mysql,
    /// No program that is known by the script's first lines; dbbackup's own engine among them.
    Unknown,
}

/// What the first lines of a script say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// Who wrote it.
    pub maker: Maker,
    /// PostgreSQL: the encoding of its texts.
    pub encoding: Option<String>,
    /// The version of the server that it is of, such as `15.18` or `10.11.19-MariaDB`.
    pub server: Option<String>,
}

/// What a file is, when it is decrypted and decompressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// What `pg_dump --format=custom` writes.
    Archive,
    /// A script of SQL.
    Script(Said),
    /// A tar.
    Tar,
    /// What `pg_dump --format=tar`, or the table of contents of `--format=directory`, begins with.
    OtherArchive,
}

impl Form {
    /// The form of content that begins so. A script without a known beginning is known by its file's `name`. `None`: it is none.
    pub(crate) fn of(front: &[u8], name: &str) -> Option<Self> {
        if front.starts_with(b"PGDMP") {
            return Some(if front.get(10) == Some(&1) { Self::Archive } else { Self::OtherArchive });
        }
        if front.get(257..262) == Some(b"ustar") {
            // pg_dump's own tar begins with its table of contents.
            let first = front.split(|byte| *byte == 0).next().unwrap_or_default();
            return Some(if first == b"toc.dat" { Self::OtherArchive } else { Self::Tar });
        }
        let said = said(front);
        let is_script = said.maker != Maker::Unknown || is_named_as_script(name) && !front.contains(&0);
        is_script.then_some(Self::Script(said))
    }
}

/// Whether a file's name says that it is a script: `.sql`, compressed or not, encrypted or not.
fn is_named_as_script(name: &str) -> bool {
    let name = name.strip_suffix(".enc").unwrap_or(name);
    let name = [".gz", ".zst"].into_iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
    name.ends_with(".sql")
}

/// Reads the first lines of a script.
pub(crate) fn said(front: &[u8]) -> Said {
    let mut said = Said { maker: Maker::Unknown, encoding: None, server: None };
    for line in front.split(|byte| *byte == b'\n').take(200) {
        let line = line.trim_ascii_end();
        let after = |prefix: &str| line.strip_prefix(prefix.as_bytes());
        let version = |rest: &[u8]| {
            let word = rest.trim_ascii().split(u8::is_ascii_whitespace).next().unwrap_or_default();
            Some(String::from_utf8_lossy(word).chars().take(60).collect::<String>()).filter(|word| !word.is_empty())
        };
        if said.maker == Maker::Unknown {
            // MariaDB's first line, which only its own clients of that time understand.
            if line.starts_with(b"/*M!999999") {
                said.maker = Maker::Mysql;
            } else if line == b"-- PostgreSQL database dump" {
                said.maker = Maker::Postgres;
            } else if line == b"-- PostgreSQL database cluster dump" {
                said.maker = Maker::PostgresGlobals;
            } else if after("-- MySQL dump ").is_some() || after("-- MariaDB dump ").is_some() {
                said.maker = Maker::Mysql;
            }
        }
        if let Some(rest) = after("-- Dumped from database version ").or(after("-- Server version")) {
            said.server = said.server.or_else(|| version(rest));
        }
        if let Some(rest) = after("SET client_encoding = '") {
            let name = rest.split(|byte| *byte == b'\'').next().unwrap_or_default();
            said.encoding = said.encoding.or_else(|| std::str::from_utf8(name).ok().map(str::to_owned));
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    const PG: &str = "--\n-- PostgreSQL database dump\n--\n\n\\restrict x\n\n-- Dumped from database version 15.18 (Debian 15.18-0)\n\
                      -- Dumped by pg_dump version 18.6\n\nSET statement_timeout = 0;\nSET client_encoding = 'LATIN1';\n";

    #[test]
    fn forms_by_content_and_scripts_also_by_name() {
        let mut tar = vec![0; 600];
        tar[..9].copy_from_slice(b"dumps/a.x");
        tar[257..262].copy_from_slice(b"ustar");
        let mut of_pg_dump = tar.clone();
        of_pg_dump[..9].copy_from_slice(b"toc.dat\0\0");
        let script = |maker, encoding: Option<&str>, server: Option<&str>| {
            Some(Form::Script(Said { maker, encoding: encoding.map(Into::into), server: server.map(Into::into) }))
        };
        for (front, name, form) in [
            (&b"PGDMP\x01\x0e\x00\x04\x08\x01"[..], "x", Some(Form::Archive)),
            (b"PGDMP\x01\x0e\x00\x04\x08\x03", "x", Some(Form::OtherArchive)),
            (&tar, "x", Some(Form::Tar)),
            (&of_pg_dump, "x", Some(Form::OtherArchive)),
            (PG.as_bytes(), "x", script(Maker::Postgres, Some("LATIN1"), Some("15.18"))),
            (b"--\n-- PostgreSQL database cluster dump\n--\n", "x", script(Maker::PostgresGlobals, None, None)),
            (
                b"/*M!999999\\- enable the sandbox mode */ \n-- MariaDB dump 10.19  Distrib 10.11.19\n-- Server version\t10.11.19-MariaDB-0\n",
                "x",
                script(Maker::Mysql, None, Some("10.11.19-MariaDB-0")),
            ),
            (b"-- MySQL dump 10.13  Distrib 8.0.36\n", "x", script(Maker::Mysql, None, None)),
            (b"CREATE TABLE t ();\n", "shop_native.sql.gz", script(Maker::Unknown, None, None)),
            (b"CREATE TABLE t ();\n", "shop.sql.zst.enc", script(Maker::Unknown, None, None)),
            (b"CREATE TABLE t ();\n", "shop.txt", None),
            (b"\0\0\0", "shop.sql", None),
            (b"SQLite format 3\0", "shop.db", None),
            (b"", "shop", None),
        ] {
            assert_eq!(Form::of(front, name), form, "{name}: {}", String::from_utf8_lossy(front));
        }
        for (front, wrap) in [
            (&b"\x1f\x8b\x08\x00"[..], Wrap::Gzip),
            (b"\x28\xb5\x2f\xfd\x04", Wrap::Zstd),
            (b"\x1f\x8b", Wrap::Plain),
            (b"", Wrap::Plain),
        ] {
            assert_eq!(Wrap::of(front), wrap);
        }
    }
}
