//! What is a file or a socket that was found? Pure functions, and what they find.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Serialize;

use super::super::doctor::{Header, header};
use crate::output::shown;
use crate::table::{count, table};

/// Bytes of a file that say what it is.
pub(super) const HEAD: usize = 24;

/// A database that runs on this host.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "engine", rename_all = "lowercase")]
pub(super) enum What {
    /// The file of a SQLite database.
    Sqlite { path: String, wal: bool },
    /// An LMDB environment: a folder, or a data file with a name of its own.
    Lmdb { path: String, folder: bool },
    /// The socket of a PostgreSQL server.
    Postgres { folder: String, port: u16 },
    /// The socket of a MySQL or MariaDB server.
    Mysql { socket: String },
}

/// A database, and which programs have it open, as far as that is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Thing {
    #[serde(flatten)]
    pub(super) what: What,
    pub(super) programs: BTreeSet<String>,
}

/// A database that no configuration of this host can name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct LeftOut {
    pub(super) path: String,
    pub(super) cause: &'static str,
}

/// Everything that was found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct Found {
    pub(super) things: Vec<Thing>,
    pub(super) left_out: BTreeSet<LeftOut>,
    /// Processes whose files this user may not see.
    pub(super) hidden_processes: usize,
    /// The look took too long, and ended before it was done.
    pub(super) incomplete: bool,
}

impl What {
    /// What a file is, by its first bytes.
    pub(super) fn of_file(path: &str, head: &[u8]) -> Option<Self> {
        match header(head.get(..20)?) {
            Header::Wal => return Some(Self::Sqlite { path: path.to_owned(), wal: true }),
            Header::Rollback => return Some(Self::Sqlite { path: path.to_owned(), wal: false }),
            Header::Empty | Header::Other => {}
        }
        if !is_lmdb(head) {
            return None;
        }
        match path.strip_suffix("/data.mdb") {
            Some("") => Some(Self::Lmdb { path: "/".to_owned(), folder: true }),
            Some(folder) => Some(Self::Lmdb { path: folder.to_owned(), folder: true }),
            None => Some(Self::Lmdb { path: path.to_owned(), folder: false }),
        }
    }

    /// Whose socket has this name.
    pub(super) fn of_socket(path: &str) -> Option<Self> {
        let (folder, name) = path.rsplit_once('/')?;
        if let Some(port) = name.strip_prefix(".s.PGSQL.") {
            return Some(Self::Postgres { folder: folder.to_owned(), port: port.parse().ok()? });
        }
        let is_mysql = ["mysqld", "mysql", "mariadb"].iter().any(|program| name.starts_with(program));
        // The X protocol is another one.
        let is_other = name.starts_with("mysqlx");
        (name.ends_with(".sock") && is_mysql && !is_other).then(|| Self::Mysql { socket: path.to_owned() })
    }

    /// Whether it can be protected without a decision: no account is needed, and the application's data stays as it is.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self, Self::Sqlite { .. })
    }

    pub(super) fn engine(&self) -> &'static str {
        match self {
            Self::Sqlite { .. } => "sqlite",
            Self::Lmdb { .. } => "lmdb",
            Self::Postgres { .. } => "postgres",
            Self::Mysql { .. } => "mysql",
        }
    }

    /// Where it is.
    pub(super) fn place(&self) -> String {
        match self {
            Self::Sqlite { path, .. } | Self::Lmdb { path, .. } => path.clone(),
            Self::Postgres { folder, port } => format!("{folder}/.s.PGSQL.{port}"),
            Self::Mysql { socket } => socket.clone(),
        }
    }
}

/// A data file of LMDB begins with a page's head of 16 bytes, the magic number and the version.
fn is_lmdb(head: &[u8]) -> bool {
    let magic = 0xBEEF_C0DE_u32.to_ne_bytes();
    let version = 1_u32.to_ne_bytes();
    head.get(16..20) == Some(&magic) && head.get(20..24) == Some(&version)
}

/// The paths of the sockets on which a process listens, from `/proc/net/unix`.
pub(super) fn listening(text: &str) -> impl Iterator<Item = &str> {
    // Number, references, protocol, flags, type, state, inode, path. The flag is that of a listening socket.
    text.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let is_listening = words.nth(3)? == "00010000";
        let path = line.find('/').map(|at| &line[at..])?;
        is_listening.then_some(path)
    })
}

/// Adds a database, or a program to one that was found before.
pub(super) fn add(things: &mut Vec<Thing>, what: What, program: Option<String>) {
    let at = things.iter().position(|thing| thing.what == what).unwrap_or_else(|| {
        things.push(Thing { what, programs: BTreeSet::new() });
        things.len() - 1
    });
    things[at].programs.extend(program);
}

impl Found {
    /// What is below a folder.
    pub(super) fn below(self, folder: &Path) -> Self {
        let is_below = |place: &str| Path::new(place).starts_with(folder);
        Self {
            things: self.things.into_iter().filter(|thing| is_below(&thing.what.place())).collect(),
            left_out: self.left_out.into_iter().filter(|left| is_below(&left.path)).collect(),
            ..self
        }
    }

    /// For people: a numbered list, and what isn't in it.
    pub(super) fn text(&self) -> String {
        let row = |(index, thing): (usize, &Thing)| {
            let programs: Vec<&str> = thing.programs.iter().map(String::as_str).collect();
            let place = one_line(&thing.what.place());
            vec![(index + 1).to_string(), thing.what.engine().to_owned(), place, one_line(&programs.join(", "))]
        };
        let rows: Vec<Vec<String>> = self.things.iter().enumerate().map(row).collect();
        let mut text =
            if rows.is_empty() { String::new() } else { table(&["", "engine", "where", "open in"], rows, &[0]) };
        for left in &self.left_out {
            text.push_str(&format!("left out: {}: {}\n", one_line(&left.path), left.cause));
        }
        if self.hidden_processes > 0 {
            let hidden = count(self.hidden_processes, "process").replace("processs", "processes");
            text.push_str(&format!("{hidden} of other users can't be looked into; root sees what they have open\n"));
        }
        if self.incomplete {
            text.push_str("the look took too long, and is incomplete: a disk may not answer\n");
        }
        text
    }
}

/// A name without line breaks, as a terminal can show it.
pub(super) fn one_line(name: &str) -> String {
    shown(name).replace('\n', "\\n").replace('\t', "\\t")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sqlite(version: u8) -> Vec<u8> {
        [b"SQLite format 3\0".as_slice(), &[16, 0, version, version, 0, 64, 32, 32]].concat()
    }

    fn lmdb(version: u32) -> Vec<u8> {
        [[0; 16].as_slice(), &0xBEEF_C0DE_u32.to_ne_bytes(), &version.to_ne_bytes()].concat()
    }

    #[test]
    fn a_file_is_what_it_begins_with() {
        let file = |path: &str, wal| Some(What::Sqlite { path: path.to_owned(), wal });
        let environment = |path: &str, folder| Some(What::Lmdb { path: path.to_owned(), folder });
        for (path, head, expected) in [
            ("/a/app.db", sqlite(2), file("/a/app.db", true)),
            ("/a/no-extension", sqlite(1), file("/a/no-extension", false)),
            ("/a/app.db", sqlite(9), None),
            ("/a/app.db", sqlite(2)[..19].to_vec(), None),
            ("/a/app.db", b"SQLite format 4\0--------".to_vec(), None),
            ("/a/app.db", Vec::new(), None),
            ("/a/app.db-wal", [0x37, 0x7f, 0x06, 0x82].repeat(6), None),
            ("/env/data.mdb", lmdb(1), environment("/env", true)),
            ("/data.mdb", lmdb(1), environment("/", true)),
            ("/env/shard", lmdb(1), environment("/env/shard", false)),
            // The branch of liblmdb that Seawall doesn't read.
            ("/env/data.mdb", lmdb(999), None),
            ("/env/lock.mdb", [0xDE, 0xC0, 0xEF, 0xBE].repeat(6), None),
        ] {
            assert_eq!(What::of_file(path, &head), expected, "{path} {head:?}");
        }
    }

    #[test]
    fn a_socket_is_what_its_name_says() {
        let postgres = |folder: &str, port| Some(What::Postgres { folder: folder.to_owned(), port });
        let mysql = |socket: &str| Some(What::Mysql { socket: socket.to_owned() });
        for (path, expected) in [
            ("/var/run/postgresql/.s.PGSQL.5432", postgres("/var/run/postgresql", 5432)),
            ("/tmp/.s.PGSQL.5433", postgres("/tmp", 5433)),
            ("/tmp/.s.PGSQL.5432.lock", None),
            ("/tmp/.s.PGSQL.99999", None),
            ("/run/mysqld/mysqld.sock", mysql("/run/mysqld/mysqld.sock")),
            ("/tmp/mysql.sock", mysql("/tmp/mysql.sock")),
            ("/run/mysqld/mysqlx.sock", None),
            ("/run/docker.sock", None),
            ("mysqld.sock", None),
        ] {
            assert_eq!(What::of_socket(path), expected, "{path}");
        }
    }

    #[test]
    fn only_sockets_that_listen() {
        let text = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            ffff9: 00000002 00000000 00010000 0001 01 12345 /run/mysqld/mysqld.sock\n\
            ffff8: 00000003 00000000 00000000 0001 03 12346 /run/mysqld/mysqld.sock\n\
            ffff7: 00000002 00000000 00010000 0001 01 12347 /run/a folder/.s.PGSQL.5432\n\
            ffff6: 00000002 00000000 00010000 0001 01 12348 @abstract\n\
            ffff5: 00000002 00000000 00010000 0001 01 12349\n\
            junk";
        let found: Vec<&str> = listening(text).collect();
        assert_eq!(found, ["/run/mysqld/mysqld.sock", "/run/a folder/.s.PGSQL.5432"]);
    }

    #[test]
    fn only_what_is_below_a_folder() {
        let mut found = Found::default();
        for path in ["/srv/app/a.db", "/srv/application/b.db", "/srv/app/deep/c.db", "/srv/app"] {
            add(&mut found.things, What::Sqlite { path: path.to_owned(), wal: true }, None);
        }
        add(&mut found.things, What::Postgres { folder: "/srv/app/run".to_owned(), port: 1 }, None);
        add(&mut found.things, What::Mysql { socket: "/run/mysqld.sock".to_owned() }, None);
        let below = found.below(Path::new("/srv/app"));
        let places: Vec<String> = below.things.iter().map(|thing| thing.what.place()).collect();
        assert_eq!(places, ["/srv/app/a.db", "/srv/app/deep/c.db", "/srv/app", "/srv/app/run/.s.PGSQL.1"]);
    }

    #[test]
    fn hostile_names_stay_on_their_line() {
        let mut found = Found::default();
        let path = "/a/x\n 2  sqlite  /fake\t\u{1b}[2J.db".to_owned();
        add(&mut found.things, What::Sqlite { path, wal: true }, Some("a\nb".to_owned()));
        found.left_out.insert(LeftOut { path: "/b\nc".to_owned(), cause: "its name isn't text" });
        found.hidden_processes = 2;
        let text = found.text();
        assert_eq!(text.lines().count(), 4, "{text}");
        assert!(!text.contains('\u{1b}') && text.contains("2 processes of other users"), "{text}");
    }
}
