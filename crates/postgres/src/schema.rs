//! The schema of a set: what `pg_dump` wrote, as an archive, made into SQL by `pg_restore` and run by us.

use std::io::Write as _;

use crate::client::Connection;
use crate::journal::Journal;
use crate::toc::{self, Entry};
use crate::{Error, RestoreOptions, World, tools};

/// What `pg_dump` and `pg_restore` write first since version 17, for servers that may be older.
pub(crate) const NEWER: &str = "SET transaction_timeout = 0";

/// An archive and its table of contents.
pub(crate) struct Schema {
    archive: Vec<u8>,
    /// What it holds.
    pub(crate) entries: Vec<Entry>,
    /// The major version of the `pg_dump` that wrote it.
    pg_dump: u32,
}

impl Schema {
    /// Reads what `pg_dump` of a major version wrote.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(archive: Vec<u8>, pg_dump: u32) -> Result<Self, String> {
        let entries = toc::parse(&archive)?;
        Ok(Self { archive, entries, pg_dump })
    }

    /// What `pg_restore` makes of some entries of the schema: SQL.
    pub(crate) async fn script(
        &self,
        wanted: impl Fn(&Entry) -> bool,
        options: &RestoreOptions,
        world: &World,
    ) -> Result<Vec<u8>, Error> {
        let io = |error: std::io::Error| Error::Io { path: "a temporary file".to_owned(), cause: error.to_string() };
        let tool = tools::find("pg_restore", self.pg_dump, &options.limits, &world.environment).await?;
        // Made for this user alone, and gone with its handle.
        let mut archive = tempfile::NamedTempFile::new().map_err(io)?;
        archive.write_all(&self.archive).map_err(io)?;
        let mut list = tempfile::NamedTempFile::new().map_err(io)?;
        for entry in self.entries.iter().filter(|entry| wanted(entry)) {
            writeln!(list, "{};", entry.id).map_err(io)?;
        }
        let mut all = vec!["--file=-".to_owned(), format!("--use-list={}", list.path().display())];
        if !options.owners {
            all.extend(["--no-owner".to_owned(), "--no-privileges".to_owned()]);
        }
        all.push(archive.path().display().to_string());
        let mut running = tool.run(&all)?;
        let mut text = Vec::new();
        loop {
            text.reserve(1 << 20);
            if !running.read(&mut text).await? {
                break;
            }
        }
        running.finish().await?;
        Ok(text)
    }

    /// Runs a script of `pg_restore` in one transaction with its note. Its bytes have the encoding that it says itself.
    pub(crate) async fn run(connection: &mut Connection, step: &str, script: &[u8]) -> Result<(), Error> {
        // Only the first: a function may have such a line of its own.
        let mut is_there = connection.version >= 170_000;
        let mut all = b"BEGIN;\n".to_vec();
        for line in lines_for_the_server(script) {
            if !is_there && is_newer(line) {
                is_there = true;
            } else {
                all.extend_from_slice(line);
            }
        }
        all.extend_from_slice(format!("\n;\n{};\nCOMMIT", Journal::note(step)).as_bytes());
        let done = connection.run(&all).await.map_err(|error| error.about("the schema"))?;
        if done.is_some() {
            return Err(Error::Internal("a schema asks for rows".to_owned()));
        }
        // The script sets a few things of its own.
        connection.execute("SET row_security = off; SET lock_timeout = 0; SET synchronous_commit = off").await
    }
}

/// The lines of a script without `\restrict` and `\unrestrict`, which are for psql alone. They stand before the first
/// statement and behind the last, with a key that `pg_restore` has just made up; a line of a function that looks like
/// them stays.
fn lines_for_the_server(script: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = || script.split_inclusive(|byte| *byte == b'\n');
    let first = lines().find(|line| *line != b"\n" && !line.starts_with(b"--"));
    let key = first.and_then(|line| line.strip_prefix(b"\\restrict "));
    let is_word = move |line: &[u8]| {
        let of = |word: &[u8]| line.strip_prefix(word).is_some_and(|rest| Some(rest) == key);
        of(b"\\restrict ") || of(b"\\unrestrict ")
    };
    lines().filter(move |line| !is_word(line))
}

/// Whether a line is [`NEWER`].
fn is_newer(line: &[u8]) -> bool {
    line.strip_suffix(b";\n") == Some(NEWER.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_psql_go_and_what_looks_like_them_stays() {
        for (script, plain) in [
            ("--\n\n\\restrict k1\n\nSELECT 1;\n\\unrestrict k1\n\n", "--\n\n\nSELECT 1;\n\n"),
            ("SELECT '\n\\restrict k1\n';\n", "SELECT '\n\\restrict k1\n';\n"),
            ("\\restrict k1\nSELECT '\n\\unrestrict k2\n';\n\\unrestrict k1\n", "SELECT '\n\\unrestrict k2\n';\n"),
            ("", ""),
        ] {
            let lines = lines_for_the_server(script.as_bytes()).collect::<Vec<_>>().concat();
            assert_eq!(String::from_utf8(lines).as_deref(), Ok(plain));
        }
    }
}
