//! `seawall query`: one statement against a database where it lies in its vault, without a restore.

use std::io::{self, ErrorKind, IsTerminal as _, Write as _};

use rusqlite::types::ValueRef;
use rusqlite::{Error, ErrorCode, Row};
use seawall_agent::config::{DatabaseConfig, EngineConfig};
use seawall_core::{Clock as _, Failure, Kind, SystemClock};
use seawall_sqlite::{DEFAULT_CACHE, View};
use seawall_view::linked::{self, Opened};
use serde_json::{Value, json};

use crate::arguments::QueryArguments;
use crate::edge::{Edge, usage};
use crate::output::{Output, shown, to_json};
use crate::source::{self, Source};
use crate::table::hex;
use crate::{runtime, table};

/// The most bytes of a table or a JSON document. CSV has no bound, because it is printed as it comes.
const MOST: usize = 64 << 20;

/// What a row and a value take at least, in bytes.
const OF_ROW: usize = 64;
const OF_VALUE: usize = 48;

/// The most bytes of a blob that a table shows.
const BLOB: usize = 16;

/// What is done with rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Table,
    Json,
    Csv,
}

/// The rows of a statement, unless they were printed.
struct Rows {
    columns: Vec<String>,
    /// Texts of a table.
    cells: Vec<Vec<String>>,
    /// Values of a document.
    values: Vec<Value>,
    /// Columns that hold nothing but numbers.
    numbers: Vec<usize>,
}

/// Runs the command.
pub(crate) fn run(arguments: &QueryArguments, edge: &Edge, json: bool) -> Result<Output, Failure> {
    let form = match (json, arguments.csv) {
        (true, true) => return Err(usage("usage.arguments", "--csv", "--json is another form", "give one of them")),
        (true, false) => Form::Json,
        (false, true) => Form::Csv,
        (false, false) => Form::Table,
    };
    let source = Source::find(&arguments.source, &arguments.config, edge)?.there()?.past(&arguments.past)?;
    let when = source::when(&arguments.at)?;
    let opener = edge.opener(runtime::working())?;
    let (told, vault, snapshot, rows) = runtime::run(async {
        let (source, told) = source.newest(&opener, &when).await?;
        let (vault, engine) = source.open_with_vault(&opener).await?;
        let described = engine.describe();
        if described.engine != "sqlite" {
            return Err(not_sqlite(&described.vault, described.engine));
        }
        let view = match &source {
            Source::Database(database) => of_database(View::new(vault, DEFAULT_CACHE), database),
            Source::Vault(_) => View::new(vault, DEFAULT_CACHE),
        };
        let snapshot = view.at(&when, SystemClock.now()).await?;
        let opened = (view, snapshot.clone(), tokio::runtime::Handle::current());
        let sql = arguments.sql.clone();
        let asked = tokio::task::spawn_blocking(move || {
            let (view, snapshot, runtime) = opened;
            let opened = linked::open(&view, &snapshot, &runtime).map_err(|failure| failed(failure.1, &failure.0))?;
            ask(&opened, &sql, form)
        });
        let rows = asked.await.map_err(|panic| defect(&panic.to_string()))??;
        Ok::<_, Failure>((told, described.vault, snapshot, rows))
    })?;
    if form == Form::Csv {
        return Ok(Output::printed());
    }
    let doubts: String = snapshot.doubts().iter().map(|doubt| format!("can't be told: {doubt}\n")).collect();
    let document = json!({
        "vault": vault,
        "point": to_json(&snapshot.point()),
        "columns": rows.columns,
        "rows": rows.values,
        "doubts": snapshot.doubts(),
    });
    let heading: Vec<&str> = rows.columns.iter().map(String::as_str).collect();
    let count = table::count(rows.cells.len(), "row");
    let shown = if heading.is_empty() { String::new() } else { table::table(&heading, rows.cells, &rows.numbers) };
    let text = format!("{told}{shown}\n{count} at {}\n{doubts}", table::point(&snapshot.point()));
    Ok(Output::done(text, &document))
}

/// A view of a database that may be protected on this machine.
fn of_database(view: View, database: &DatabaseConfig) -> View {
    match &database.engine {
        EngineConfig::Sqlite(config) if !database.vault.is_past() => view.of_database(config.state_dir()),
        _ => view,
    }
}

fn ask(opened: &Opened, sql: &str, form: Form) -> Result<Rows, Failure> {
    let failed = |error: Error| failed(opened.trouble(), &error);
    let mut statement = opened.sqlite().prepare(sql).map_err(failed)?;
    let columns: Vec<String> = statement.column_names().map(ToOwned::to_owned).collect();
    let count = columns.len();
    if statement.parameter_count() > 0 {
        let next = "write the values into the statement";
        return Err(Failure::new(Kind::Usage, "query.sql", "SQL", "the statement has parameters", next));
    }
    let mut out = Csv::new(form == Form::Csv);
    if !out.row(columns.iter().map(|name| quoted(name))) {
        return Ok(Rows { columns, cells: Vec::new(), values: Vec::new(), numbers: Vec::new() });
    }
    let (mut cells, mut values, mut size) = (Vec::new(), Vec::new(), 0);
    let mut numbers = vec![true; count];
    let mut rows = statement.raw_query();
    // Of a table each column is as wide as its widest cell, in every line.
    let mut widths: Vec<usize> = columns.iter().map(String::len).collect();
    let mut lines = 1usize;
    while let Some(row) = rows.next().map_err(failed)? {
        let each = (0..count).map(|at| value(row, at)).collect::<Result<Vec<_>, _>>().map_err(failed)?;
        // Counted before anything is copied.
        match form {
            Form::Csv => {}
            Form::Json => {
                size = each.iter().fold(size + OF_ROW, |sum: usize, value| sum.saturating_add(in_json(*value)))
            }
            Form::Table => {
                lines += 1;
                widths.iter_mut().zip(&each).for_each(|(width, value)| *width = (*width).max(in_cell(*value)));
                size = widths.iter().sum::<usize>().saturating_add(OF_ROW).saturating_mul(lines);
            }
        }
        if size > MOST {
            let next = "print them with --csv, or ask for less with LIMIT";
            return Err(Failure::new(Kind::Refused, "query.too-large", "SQL", "the rows take more than 64 MiB", next));
        }
        match form {
            Form::Csv if !out.row(each.iter().map(|value| csv(*value))) => break,
            Form::Csv => {}
            Form::Json => {
                values.push(Value::Array(each.iter().map(|value| as_json(*value)).collect()));
            }
            Form::Table => {
                for (number, value) in numbers.iter_mut().zip(&each) {
                    *number &= matches!(value, ValueRef::Integer(_) | ValueRef::Real(_) | ValueRef::Null);
                }
                cells.push(each.iter().map(|value| text(*value)).collect());
            }
        }
    }
    out.finish()?;
    let numbers = numbers.iter().enumerate().filter(|(_, number)| **number).map(|(at, _)| at).collect();
    Ok(Rows { columns, cells, values, numbers })
}

/// Bytes of a value in a document, more rather than less.
fn in_json(value: ValueRef<'_>) -> usize {
    OF_VALUE
        + match value {
            ValueRef::Text(text) => text.len().saturating_mul(2),
            ValueRef::Blob(bytes) => bytes.len().saturating_mul(2),
            // The longest number is written with some 330 digits.
            ValueRef::Real(_) => 350,
            ValueRef::Null | ValueRef::Integer(_) => 0,
        }
}

/// Bytes of a value in a table, more rather than less.
fn in_cell(value: ValueRef<'_>) -> usize {
    OF_VALUE
        + match value {
            ValueRef::Text(text) => text.len(),
            ValueRef::Blob(bytes) => bytes.len().min(BLOB) * 2,
            // The longest number is written with some 330 digits.
            ValueRef::Real(_) => 350,
            ValueRef::Null | ValueRef::Integer(_) => 0,
        }
}

fn value<'r>(row: &'r Row<'_>, at: usize) -> rusqlite::Result<ValueRef<'r>> {
    row.get_ref(at)
}

/// A value in a table.
fn text(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "NULL".to_owned(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
        ValueRef::Blob(bytes) if bytes.len() > BLOB => {
            format!("x'{}…' ({} bytes)", hex(&bytes[..BLOB]), bytes.len())
        }
        ValueRef::Blob(bytes) => format!("x'{}'", hex(bytes)),
    }
}

/// A value in a document: what JSON doesn't have is an object.
fn as_json(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => json!(number),
        ValueRef::Real(number) if number.is_finite() => json!(number),
        ValueRef::Real(number) => json!({ "real": number.to_string() }),
        ValueRef::Text(text) => match std::str::from_utf8(text) {
            Ok(text) => json!(text),
            Err(_) => json!({ "text": hex(text) }),
        },
        ValueRef::Blob(bytes) => json!({ "blob": hex(bytes) }),
    }
}

/// A value in a line of CSV: NULL is nothing, and an empty text two quotes.
fn csv(value: ValueRef<'_>) -> Vec<u8> {
    match value {
        ValueRef::Null => Vec::new(),
        ValueRef::Text(b"") => b"\"\"".to_vec(),
        ValueRef::Text(text) => quoted_bytes(text),
        ValueRef::Blob(bytes) => hex(bytes).into_bytes(),
        other => text(other).into_bytes(),
    }
}

fn quoted(text: &str) -> Vec<u8> {
    quoted_bytes(text.as_bytes())
}

fn quoted_bytes(text: &[u8]) -> Vec<u8> {
    if !text.iter().any(|byte| matches!(byte, b'"' | b',' | b'\n' | b'\r')) {
        return text.to_vec();
    }
    let mut quoted = vec![b'"'];
    for byte in text {
        quoted.push(*byte);
        if *byte == b'"' {
            quoted.push(b'"');
        }
    }
    quoted.push(b'"');
    quoted
}

/// Prints lines of CSV as they come.
struct Csv {
    out: Option<io::BufWriter<io::Stdout>>,
    is_terminal: bool,
    error: Option<io::Error>,
}

impl Csv {
    fn new(is_asked: bool) -> Self {
        let out = io::stdout();
        let is_terminal = out.is_terminal();
        Self { out: is_asked.then(|| io::BufWriter::new(out)), is_terminal, error: None }
    }

    /// Prints a line; `false` if the reader of standard output is gone.
    fn row(&mut self, fields: impl Iterator<Item = Vec<u8>>) -> bool {
        let Some(out) = &mut self.out else { return true };
        let mut line = fields.collect::<Vec<_>>().join(&b',');
        line.push(b'\n');
        if self.is_terminal {
            line = shown(&String::from_utf8_lossy(&line)).into_owned().into_bytes();
        }
        match out.write_all(&line) {
            Ok(()) => true,
            Err(error) => {
                self.error = Some(error);
                false
            }
        }
    }

    fn finish(self) -> Result<(), Failure> {
        let flushed = self.out.map_or(Ok(()), |mut out| out.flush());
        match self.error.map_or(flushed, Err) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                Err(crate::output::unprinted(&error, crate::exit::Exit::Failed))
            }
            _ => Ok(()),
        }
    }
}

fn not_sqlite(vault: &str, engine: &str) -> Failure {
    let cause = format!("the vault is one of {engine}, and only SQLite databases are read where they lie");
    let next = "restore it, and ask the restored database; `seawall timeline` shows the points";
    Failure::new(Kind::Usage, "query.not-sqlite", vault, cause, next)
}

/// A failure of the statement, or of the vault beneath it.
fn failed(trouble: Option<Failure>, error: &Error) -> Failure {
    if let Some(trouble) = trouble {
        return trouble;
    }
    let cause = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::ReadOnly) => {
            let next = "write to the database itself; for a copy to write to, restore it";
            Failure::new(Kind::Usage, "query.read-only", "SQL", cause, next)
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            let next = "restore an earlier point with --at; `PRAGMA integrity_check` on the restored file names what is damaged";
            Failure::new(Kind::Corrupt, "query.damaged", "SQL", cause, next)
        }
        Some(ErrorCode::OutOfMemory | ErrorCode::TooBig) => {
            let next = "ask for less, for example with WHERE, or restore the database and ask the restored file";
            Failure::new(Kind::Refused, "query.too-large", "SQL", cause, next)
        }
        Some(ErrorCode::SystemIoFailure | ErrorCode::DiskFull | ErrorCode::DatabaseBusy | ErrorCode::CannotOpen) => {
            let next = "try again; `seawall verify` reads the whole vault and names what is damaged";
            Failure::new(Kind::Unavailable, "query.failed", "SQL", cause, next)
        }
        _ => Failure::new(
            Kind::Usage,
            "query.sql",
            "SQL",
            cause,
            "correct the statement: one that reads, of this database",
        ),
    }
}

fn defect(cause: &str) -> Failure {
    Failure::new(Kind::Internal, "command.internal", "query", cause, "report this: it is a defect")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_is_counted_as_less_than_it_takes() {
        let bytes = [0xff_u8; 100];
        for value in [
            ValueRef::Null,
            ValueRef::Real(-1.5e300),
            ValueRef::Text(b""),
            ValueRef::Text(&bytes),
            ValueRef::Blob(&bytes),
        ] {
            assert!(in_json(value) >= as_json(value).to_string().len(), "{value:?}");
            assert!(in_cell(value) >= text(value).chars().count(), "{value:?}");
        }
    }

    #[test]
    fn values_in_every_form() {
        let long = [0xab_u8; 20];
        for (value, table, document, line) in [
            (ValueRef::Null, "NULL", json!(null), ""),
            (ValueRef::Integer(-7), "-7", json!(-7), "-7"),
            (ValueRef::Real(1.5), "1.5", json!(1.5), "1.5"),
            (ValueRef::Real(f64::INFINITY), "inf", json!({ "real": "inf" }), "inf"),
            (ValueRef::Text(b"a,\"b\""), "a,\"b\"", json!("a,\"b\""), "\"a,\"\"b\"\"\""),
            (ValueRef::Text(b""), "", json!(""), "\"\""),
            (ValueRef::Text(b"\xff"), "\u{fffd}", json!({ "text": "ff" }), ""),
            (ValueRef::Blob(&[1, 255]), "x'01ff'", json!({ "blob": "01ff" }), "01ff"),
            (
                ValueRef::Blob(&long),
                "x'abababababababababababababababab…' (20 bytes)",
                json!({ "blob": "ab".repeat(20) }),
                "abababababababababababababababababababab",
            ),
        ] {
            assert_eq!((text(value), as_json(value)), (table.to_owned(), document));
            if value != ValueRef::Text(b"\xff") {
                assert_eq!(String::from_utf8_lossy(&csv(value)), line);
            }
        }
        assert_eq!(csv(ValueRef::Text(b"\xff")), b"\xff", "CSV has the bytes of a text");
    }
}
