//! The schema of a set: what `pg_dump` wrote, as an archive, made into SQL by `pg_restore` and run by us.
//!
//! The room: `toc` (which objects does an archive of `pg_dump` have?), `select` (which of them belong to some tables?),
//! `script` (where do statements end?), `diagnose` (which statement failed?), `account` (what does a script come to?),
//! `extensions` (what comes first), `tried` (what a server may refuse).

pub(crate) mod account;
pub(crate) mod diagnose;
pub(crate) mod extensions;
pub(crate) mod script;
pub(crate) mod select;
pub(crate) mod toc;
pub(crate) mod tried;

use std::io::Write as _;

use crate::client::{Connection, Target};
use crate::prove::guard;
use crate::restore::journal::Journal;
use crate::schema::toc::Entry;
use crate::{Error, RestoreOptions, World, tools};

/// What `pg_dump` and `pg_restore` write first since version 17, for servers that may be older.
pub(crate) const NEWER: &str = "SET transaction_timeout = 0";

/// A script sets a few things of its own.
pub(crate) const AS_BEFORE: &str = "SET row_security = off; SET lock_timeout = 0; SET synchronous_commit = off";

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

    /// Lets `pg_restore` by itself make all of it in a database. It names what it can't make, and goes on.
    pub(crate) async fn restore_by_itself(
        &self,
        target: &Target,
        options: &RestoreOptions,
        world: &World,
    ) -> Result<(), Error> {
        let io = |error: std::io::Error| Error::Io { path: "a temporary file".to_owned(), cause: error.to_string() };
        let tool = tools::find("pg_restore", self.pg_dump, &options.limits, &world.environment).await?;
        let mut archive = tempfile::NamedTempFile::new().map_err(io)?;
        archive.write_all(&self.archive).map_err(io)?;
        let file = archive.path().display().to_string();
        let arguments = ["--no-password".to_owned(), format!("--dbname={}", target.database), file];
        match tool.start(target, &arguments)?.finish().await {
            Err(Error::ToolFailed { tool, cause }) => tracing::info!(tool, "what a proof compares with: {cause}"),
            done => done?,
        }
        Ok(())
    }

    /// Runs a script of `pg_restore` in one transaction with its note. Its bytes have the encoding that it says itself.
    pub(crate) async fn run(
        connection: &mut Connection,
        journal: &Journal,
        step: &str,
        script: &[u8],
    ) -> Result<(), Error> {
        let script = for_the_server(script, connection.version);
        if connection.guard.is_some() {
            guard::script(connection, &script, false).await?;
            connection.execute(&journal.note(step)).await?;
            return connection.execute(AS_BEFORE).await;
        }
        let mut all = b"BEGIN;\n".to_vec();
        all.extend_from_slice(&script);
        all.extend_from_slice(format!("\n;\n{};\nCOMMIT", journal.note(step)).as_bytes());
        let ran = connection.run(&all).await.map(|asks| asks.is_some());
        match ran {
            Err(error) => return Err(diagnose::find(connection, &[], &script, error).await),
            Ok(true) => return Err(Error::Internal("a schema asks for rows".to_owned())),
            Ok(false) => {}
        }
        connection.execute(AS_BEFORE).await
    }
}

/// A script of `pg_restore` without what a server of this version doesn't know.
pub(crate) fn for_the_server(script: &[u8], version: u32) -> Vec<u8> {
    // Only the first: a function may have such a line of its own.
    let mut is_there = version >= 170_000;
    let mut all = Vec::with_capacity(script.len());
    for line in lines_for_the_server(script) {
        if !is_there && is_newer(line) {
            is_there = true;
        } else {
            all.extend_from_slice(line);
        }
    }
    all
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
