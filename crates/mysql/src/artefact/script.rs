//! The SQL around the rows: what the vendor's client runs before and behind them, so that everything comes back as it was. Pure.
//!
//! Names and texts of the source's owner stand in it only quoted, or in a comment of one line.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::client_reads::is_read_alike;
use crate::Error;
use crate::client::quote::{name, text};
use crate::detail::{DatabaseDetail, ServerFacts, Taken};
use crate::schema::objects::{definers, shown};
use crate::schema::program::{Definer, Status, program};
use crate::schema::table::Table;
use crate::schema::{Schema, StoredObject};

/// Settings of the session that are put back in the end.
const SETTINGS: [&str; 8] = [
    "sql_mode",
    "time_zone",
    "foreign_key_checks",
    "unique_checks",
    "sql_notes",
    "character_set_client",
    "character_set_results",
    "collation_connection",
];

/// The session in which our own statements mean what they should.
const AS_OURS: &str = "SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION,ALLOW_INVALID_DATES', \
                       SESSION time_zone = '+00:00';\n";

/// What a script is made of, apart from rows.
pub(crate) struct Source<'a> {
    pub(crate) database: &'a DatabaseDetail,
    pub(crate) schema: &'a Schema,
    pub(crate) server: &'a ServerFacts,
    pub(crate) taken: &'a Taken,
    /// The moment of the state, for people.
    pub(crate) moment: String,
    /// Whether rows have a history.
    pub(crate) history: bool,
}

/// A line of a comment. Nothing gets out of it.
fn comment(line: &str) -> String {
    let line: String = line.chars().map(|c| if c.is_control() || c == '\u{2028}' { ' ' } else { c }).collect();
    format!("-- {line}\n")
}

impl Source<'_> {
    /// Everything before the rows: what the script is, the session, sequences and tables.
    pub(crate) fn before(&self) -> Result<Vec<u8>, Error> {
        let mut out = self.told();
        let saved: Vec<String> = SETTINGS.iter().map(|name| format!("@seawall_{name} = @@SESSION.{name}")).collect();
        out.push_str(&format!("SET {};\n", saved.join(", ")));
        out.push_str("SET NAMES utf8mb4;\n");
        out.push_str(AS_OURS);
        out.push_str("SET SESSION foreign_key_checks = 0, SESSION unique_checks = 0, SESSION sql_notes = 0;\n");
        out.push_str("/*M!100201 SET SESSION check_constraint_checks = 0 */;\n");
        if self.history {
            out.push_str("/*M!101100 SET SESSION system_versioning_insert_history = 1 */;\n");
        }
        let (charset, collation) = (text(&self.database.charset), text(&self.database.collation));
        out.push_str(&format!("ALTER DATABASE CHARACTER SET {charset} COLLATE {collation};\n\n"));
        for sequence in &self.schema.sequences {
            let of = name(&sequence.name);
            out.push_str(&format!("{};\n", sequence.statement.text()));
            out.push_str(&format!("DO SETVAL({of}, {}, 0, {});\n\n", sequence.next, sequence.round));
        }
        for table in &self.schema.tables {
            out.push_str(&self.table(&table.statement.text())?);
            out.push_str(";\n\n");
        }
        out.push_str("SET NAMES binary;\n");
        Ok(out.into_bytes())
    }

    /// Everything behind the rows: routines, views, triggers, events, and the session as it was.
    pub(crate) fn behind(&self) -> Result<Vec<u8>, Error> {
        let mut out = b"SET NAMES utf8mb4;\n".to_vec();
        for table in &self.schema.tables {
            for one in &table.statistics {
                out.extend_from_slice(format!("{};\n", one.gathered(&name(&table.name))).as_bytes());
            }
        }
        let Schema { routines, views, triggers, events, .. } = self.schema;
        for object in [routines, views, triggers, events].into_iter().flatten() {
            self.object(object, &mut out)?;
        }
        out.extend_from_slice(b"/*M!100201 SET SESSION check_constraint_checks = DEFAULT */;\n");
        if self.history {
            out.extend_from_slice(b"/*M!101100 SET SESSION system_versioning_insert_history = DEFAULT */;\n");
        }
        let back: Vec<String> = SETTINGS.iter().map(|name| format!("SESSION {name} = @seawall_{name}")).collect();
        out.extend_from_slice(
            format!("SET {};\n-- This is the end: nothing is missing.\n", back.join(", ")).as_bytes(),
        );
        Ok(out)
    }

    /// What the script is, for a reader.
    fn told(&self) -> String {
        let family = if self.server.family == "mariadb" { "MariaDB" } else { "MySQL" };
        let client = if self.server.family == "mariadb" { "mariadb" } else { "mysql" };
        let mut out = comment(&format!(
            "Database {} of {family} {}, as it was at {}. Written by Seawall {}.",
            self.database.name,
            self.server.version_text,
            self.moment,
            env!("CARGO_PKG_VERSION")
        ));
        out += &comment(&format!(
            "Load it into an empty database: {client} --default-character-set=utf8mb4 --binary-mode --comments DATABASE < FILE"
        ));
        if let Some(position) = &self.taken.position {
            if let Some(place) = &position.binlog {
                out += &comment(&format!("Binary log: file {}, position {}", place.file, place.offset));
            }
            if let Some(gtid) = &position.gtid {
                out += &comment(&format!("GTID: {gtid}"));
            }
        }
        for source in &self.taken.sources {
            let place = &source.binlog;
            out += &comment(&format!(
                "Its primary {}:{}: file {}, position {}",
                source.host, source.port, place.file, place.offset
            ));
        }
        let all = [&self.schema.routines, &self.schema.views, &self.schema.triggers, &self.schema.events];
        let definers: BTreeSet<&str> = definers(all.into_iter().flatten());
        if !definers.is_empty() {
            let definers: Vec<&str> = definers.into_iter().collect();
            out +=
                &comment(&format!("Accounts that must be there, because they define objects: {}", definers.join(", ")));
        }
        for note in &self.taken.notes {
            out += &comment(note);
        }
        out
    }

    /// A table's statement. Its sequences are those of the database into which it is loaded.
    fn table(&self, statement: &str) -> Result<String, Error> {
        let wrong = || Error::Internal("the server's statement of a table can't be read".to_owned());
        let table = Table::parse(statement).ok_or_else(wrong)?;
        Ok(table.without_database(&self.database.name).map_or_else(|| statement.to_owned(), |table| table.statement()))
    }

    /// An object's statement in its session.
    fn object(&self, object: &StoredObject, out: &mut Vec<u8>) -> Result<(), Error> {
        let about = shown(object, &self.database.name);
        let wrong = || Error::Internal(format!("the server's statement of {about} can't be read"));
        let made = program(object.statement.bytes(), object.kind, &Definer::Kept, Status::AsItWas);
        let made = made.ok_or_else(wrong)?.sql;
        if let Some(cause) = &object.broken {
            out.extend_from_slice(
                comment(&format!("Left out: {about}, which can't be used either: {cause}")).as_bytes(),
            );
            let statement = String::from_utf8_lossy(&made);
            out.extend(statement.split(['\n', '\r']).flat_map(|line| comment(line).into_bytes()));
            return Ok(());
        }
        let mode = object.sql_mode.as_deref().unwrap_or("NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION");
        if !is_read_alike(&made, mode, &object.character_set_client) {
            return Err(Error::Refused {
                code: "mysql.vendor-format",
                object: about,
                cause: "the vendor's client would read its text otherwise than the server does, because of a backslash, a control \
                        character or its character set"
                    .to_owned(),
                next: "leave --format out: a backup of Seawall's own keeps it".to_owned(),
            });
        }
        let end = delimiter(&made);
        out.extend_from_slice(format!("DELIMITER {end}\n").as_bytes());
        let other = object.database_collation.as_deref().filter(|collation| *collation != self.database.collation);
        if let Some(collation) = other {
            out.extend_from_slice(format!("ALTER DATABASE COLLATE {} {end}\n", text(collation)).as_bytes());
        }
        let session = format!(
            "SET SESSION sql_mode = {}, SESSION time_zone = {}, SESSION collation_connection = {}, SESSION character_set_client = {} {end}\n",
            text(mode),
            text(object.time_zone.as_deref().unwrap_or("+00:00")),
            text(&object.collation_connection),
            text(&object.character_set_client)
        );
        out.extend_from_slice(session.as_bytes());
        out.extend_from_slice(&made);
        // On a line of its own: a comment may be the statement's last words.
        out.extend_from_slice(format!("\n{end}\n").as_bytes());
        if other.is_some() {
            out.extend_from_slice(
                format!("ALTER DATABASE COLLATE {} {end}\n", text(&self.database.collation)).as_bytes(),
            );
        }
        out.extend_from_slice(b"DELIMITER ;\nSET NAMES utf8mb4;\n");
        out.extend_from_slice(AS_OURS.as_bytes());
        out.push(b'\n');
        Ok(())
    }
}

/// What ends a statement for the vendor's client, and isn't in it.
fn delimiter(statement: &[u8]) -> Cow<'static, str> {
    let is_free = |end: &str| !statement.windows(end.len()).any(|part| part == end.as_bytes());
    if is_free(";;") {
        return Cow::Borrowed(";;");
    }
    let mut number = 0_u64;
    loop {
        let end = format!("$seawall{number}$");
        if is_free(&end) {
            return Cow::Owned(end);
        }
        number += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detail::{BinlogPlace, Method, Position, Sql};
    use crate::schema::{Statistics, StoredKind, TableStatement};

    fn object(sql: &str) -> StoredObject {
        StoredObject {
            kind: StoredKind::Procedure,
            name: "p".into(),
            statement: Sql::new(sql),
            definer: "a\n; DROP DATABASE x@%".into(),
            sql_mode: Some(String::new()),
            character_set_client: "utf8mb4".into(),
            collation_connection: "utf8mb4_bin".into(),
            database_collation: Some("latin1_bin".into()),
            time_zone: None,
            table: None,
            needs: Vec::new(),
            broken: None,
        }
    }

    fn script(schema: &Schema) -> Result<String, Error> {
        let place = BinlogPlace { file: "log.1".into(), offset: 7 };
        let taken = Taken {
            method: Method::OneSnapshot,
            snapshots: 1,
            position: Some(Position { binlog: Some(place), gtid: Some("0-1-2".into()) }),
            sources: Vec::new(),
            not_consistent: Vec::new(),
            notes: vec!["two\nlines".into()],
        };
        let database = DatabaseDetail {
            name: "sh`op".into(),
            charset: "utf8mb4".into(),
            collation: "utf8mb4_bin".into(),
            size: 0,
        };
        let server = ServerFacts { family: "mariadb".into(), version_text: "10.11".into(), ..ServerFacts::default() };
        let source =
            Source { database: &database, schema, server: &server, taken: &taken, moment: "m".into(), history: true };
        Ok(String::from_utf8([source.before()?, source.behind()?].concat()).expect("text"))
    }

    #[test]
    fn a_script_has_everything_in_order_and_nothing_gets_out_of_a_comment() {
        let table = TableStatement {
            name: "t".into(),
            engine: "InnoDB".into(),
            statement: Sql::new("CREATE TABLE `t` (\n  `a` int DEFAULT nextval(`sh``op`.`s`)\n) ENGINE=InnoDB"),
            statistics: vec![Statistics::Persistent { size: 254, r#type: String::new() }],
        };
        let broken = StoredObject { broken: Some("no\ntable".into()), ..object("CREATE PROCEDURE `q`()\nSELECT 1") };
        let routines = vec![object("CREATE PROCEDURE `p`()\nBEGIN SELECT 1;; END -- x"), broken];
        let made = script(&Schema { tables: vec![table], routines, ..Schema::default() }).expect("a script");
        let mut at = 0;
        for part in [
            "-- Binary log: file log.1, position 7\n-- GTID: 0-1-2\n-- Accounts that must be there, because they define objects: a ; DROP",
            "-- two lines\n",
            "system_versioning_insert_history = 1",
            "nextval(`s`)\n) ENGINE=InnoDB;\n",
            "SET NAMES binary;\n",
            "SET STATEMENT histogram_size = 254 FOR ANALYZE NO_WRITE_TO_BINLOG TABLE `t` PERSISTENT FOR ALL;\n",
            "DELIMITER $seawall0$\nALTER DATABASE COLLATE 'latin1_bin' $seawall0$\nSET SESSION sql_mode = ''",
            "BEGIN SELECT 1;; END -- x\n$seawall0$\nALTER DATABASE COLLATE 'utf8mb4_bin' $seawall0$\nDELIMITER ;\n",
            "-- CREATE PROCEDURE `q`()\n-- SELECT 1\n",
            "SESSION collation_connection = @seawall_collation_connection;\n-- This is the end",
        ] {
            let found = made.get(at..).and_then(|rest| rest.find(part));
            at += found.unwrap_or_else(|| panic!("{part} isn't behind {at} in {made}"));
        }
    }

    #[test]
    fn what_the_client_would_read_otherwise_is_refused() {
        let routines = vec![object("CREATE PROCEDURE `p`() SELECT 1 \\! id")];
        let error = script(&Schema { routines, ..Schema::default() }).expect_err("a command");
        assert!(matches!(error, Error::Refused { code: "mysql.vendor-format", .. }), "{error}");
    }
}
