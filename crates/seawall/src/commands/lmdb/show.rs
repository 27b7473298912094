//! `seawall lmdb dump` and `seawall lmdb snapshots dump`: print the content of an environment or a snapshot as text or
//! JSON, while it is read.

use std::io::{self, BufWriter, Stdout, Write};

use seawall_core::{Clock as _, Failure, SystemClock};
use seawall_lmdb::snapshot::Preamble;
use seawall_lmdb::view::{Age, Viewer};
use seawall_lmdb::{Error, Flags};
use serde_json::{Value, json};

use super::tools::moment;
use crate::output::Output;
use crate::table;

/// Prints to standard output.
pub(super) struct Printer {
    out: BufWriter<Stdout>,
    json: bool,
    /// In JSON: `within` while a DBI is open, `second` after the first item of a list.
    within: bool,
    second: bool,
    /// In JSON: whether there is a list of environments.
    several: bool,
}

impl Printer {
    pub(super) fn new(json: bool) -> Self {
        let out = BufWriter::with_capacity(1 << 16, io::stdout());
        Self { out, json, within: false, second: false, several: false }
    }

    /// Shows something, and ends the command. A reader that went away is no failure.
    pub(super) fn finished(shown: Result<(), Error>) -> Result<Output, Failure> {
        match shown {
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::BrokenPipe => {}
            shown => shown?,
        }
        Ok(Output::printed())
    }

    /// One environment begins.
    pub(super) fn environment(&mut self, name: &str) -> io::Result<()> {
        if self.json {
            let first = !std::mem::replace(&mut self.several, true);
            write!(self.out, "{}", if first { "{\"databases\":[" } else { "," })?;
            let head = json!({ "name": name });
            return self.head(&head);
        }
        writeln!(self.out, "# {name}")
    }

    /// All environments were shown.
    pub(super) fn close(&mut self) -> io::Result<()> {
        if self.json && self.several {
            writeln!(self.out, "]}}")?;
        }
        self.out.flush()
    }

    /// An object that is still open: its DBIs follow.
    fn head(&mut self, head: &Value) -> io::Result<()> {
        (self.within, self.second) = (false, false);
        let text = head.to_string();
        write!(self.out, "{},\"dbis\":[", text.strip_suffix('}').unwrap_or(&text))
    }
}

impl Viewer for Printer {
    fn begin(&mut self, preamble: &Preamble) -> io::Result<()> {
        let meta = &preamble.meta;
        let head = json!({
            "format": preamble.format,
            "compat": preamble.compat,
            "meta": {
                "generation": meta.generation,
                "instance": meta.instance,
                "hostname": meta.hostname,
                "transaction": meta.transaction,
                "time": moment(meta.stamp),
                "nanoseconds": meta.stamp.0,
                "database": meta.database,
                "from_transaction": meta.from_transaction,
            },
        });
        if self.json { self.head(&head) } else { writeln!(self.out, "{head:#}") }
    }

    fn database(&mut self, name: &[u8], flags: Flags, transform: &str) -> io::Result<()> {
        if self.json {
            if std::mem::replace(&mut self.within, true) {
                write!(self.out, "]}},")?;
            }
            let head = json!({ "name": shown(name), "flags": flags.to_string(), "transform": transform }).to_string();
            self.second = false;
            return write!(self.out, "\n{},\"entries\":[", head.strip_suffix('}').unwrap_or(&head));
        }
        write!(self.out, "\n## {}", shown(name))?;
        for note in [flags.to_string().as_str(), transform].into_iter().filter(|note| !note.is_empty()) {
            write!(self.out, " {note}")?;
        }
        writeln!(self.out)
    }

    fn entry(&mut self, key: &[u8], value: &[u8], age: Option<Age>) -> io::Result<()> {
        if self.json {
            let between = if std::mem::replace(&mut self.second, true) { "," } else { "" };
            let entry = json!({
                "key": shown(key),
                "value": shown(value),
                "nanoseconds": age.map(|age| age.stamp.0),
                "transaction": age.and_then(|age| age.transaction),
                "deleted": age.map(|age| age.deleted),
            });
            return write!(self.out, "{between}\n{entry}");
        }
        write!(self.out, "{} = {}", shown(key), shown(value))?;
        if let Some(age) = age {
            let at = moment(age.stamp);
            write!(self.out, " ({at}, {}", table::ago(at, SystemClock.now()))?;
            if let Some(transaction) = age.transaction {
                write!(self.out, ", transaction {transaction}")?;
            }
            write!(self.out, "{})", if age.deleted { "; deleted" } else { "" })?;
        }
        writeln!(self.out)
    }

    fn end(&mut self) -> io::Result<()> {
        if self.json {
            writeln!(self.out, "{}]}}", if self.within { "]}" } else { "" })?;
        }
        self.out.flush()
    }
}

/// Bytes for eyes: what isn't ASCII as `\x…`.
fn shown(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}
