//! Entry points for the fuzz target: all code in this crate that reads bytes of other programs.

use crate::artefact::client_reads::is_read_alike;
use crate::artefact::values::{Inserts, Lines};
use crate::detail::ColumnDetail;
use crate::load::statement::Into;
use crate::schema::StoredKind;
use crate::schema::meant::Judge;
use crate::schema::program::{Definer, Status, program};
use crate::schema::script::Scanner;
use crate::schema::table::Table;
use crate::schema::words::words;

/// Reads `bytes` as packets of a server, as a row, as a URL, as an option file, and as what a set holds. Nothing may panic.
pub fn parse(bytes: &[u8]) {
    crate::client::fuzzing::parse(bytes);
    statements(bytes);
}

/// Reads bytes as the rows of a script, and writes what was read again.
fn script(bytes: &[u8], columns: &[ColumnDetail]) {
    let (mut lines, mut read) = (Lines::new("t", columns, false), Vec::new());
    if lines.take(bytes, &mut read).is_ok() && lines.end().is_ok() {
        let (mut inserts, mut again) = (Inserts::new("t", columns, false), Vec::new());
        assert!(inserts.take(&read, &mut again).is_ok() && inserts.end(&mut again).is_ok());
        let (mut lines, mut twice) = (Lines::new("t", columns, false), Vec::new());
        assert!(lines.take(&again, &mut twice).is_ok() && twice == read);
    }
    let _ =
        (Inserts::new("t", columns, false).take(bytes, &mut Vec::new()), is_read_alike(bytes, "ANSI_QUOTES", "gbk"));
}

/// Reads statements of a set, and lines of a table.
fn statements(bytes: &[u8]) {
    let _ = words(bytes);
    let (mut scanner, mut judge, mut rest) = (Scanner::default(), Judge::default(), bytes);
    let _ = Judge::default().judge(bytes);
    while !rest.is_empty() {
        rest = rest.get(scanner.feed(rest)..).unwrap_or_default();
        while let Ok(Some(statement)) = scanner.statement() {
            let _ = judge.judge(&statement);
            scanner.modes = judge.modes();
        }
    }
    for kind in [StoredKind::View, StoredKind::Trigger, StoredKind::Event, StoredKind::PackageBody] {
        let stripped = program(bytes, kind, &Definer::Stripped, Status::Disabled);
        let kept = program(bytes, kind, &Definer::Kept, Status::AsItWas);
        // What is made ready once needs no more.
        if let Some(kept) = kept {
            let again = program(&kept.sql, kind, &Definer::Kept, Status::AsItWas);
            assert!(again.is_none_or(|again| again.sql.len() <= kept.sql.len()));
        }
        drop(stripped);
    }
    if let Some(table) = std::str::from_utf8(bytes).ok().and_then(Table::parse) {
        let made = table.create("d", true);
        let _ = (table.keys(), table.foreign_keys(), table.with_sequences_of("a", "b"), made);
    }
    let column = ColumnDetail { name: "c".to_owned(), r#type: "json".to_owned(), charset: None };
    let columns = [column.clone(), column];
    let into = Into { database: "d", table: "t", columns: &columns, mariadb: false };
    let _ = into.values(bytes, &mut Vec::new());
    script(bytes, &columns);
}
