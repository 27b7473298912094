//! The schema of a set: an archive of `pg_dump`, which `pg_restore` turns into SQL and this code runs.
//!
//! The room: `toc` (which objects does an archive have?), `select` (which of them belong to some tables?), `allowed` (which
//! objects is a role tried with?), `checked` (is every constraint checked that the source has checked?), `script` (where do
//! statements end?), `diagnose` (which statement failed?), `account` (what is the content of a script?), `replica` (running
//! statements without firing triggers), `guard` (two sessions that run a script on the server of a proof), `powers` (which of the
//! two runs a statement?) with `bare` (its words) and `routine` (functions in two steps), `owned` (the owner of an object
//! without one), `versions` (a server's own versions of columns, in statements), `judged` (which statements are left out without
//! owners?), `written` (does a program that backs up one database write a statement?) with `copied` (COPY), `target` (which table do rows go to?) and `tokens`, `global` (what does a statement of `pg_dumpall` make?), `created` (how was a database created?).

pub(crate) mod account;
pub(crate) mod allowed;
pub(crate) mod bare;
pub(crate) mod checked;
pub(crate) mod copied;
pub(crate) mod created;
pub(crate) mod diagnose;
pub(crate) mod global;
pub(crate) mod guard;
pub(crate) mod judged;
pub(crate) mod owned;
pub(crate) mod powers;
pub(crate) mod replica;
pub(crate) mod routine;
pub(crate) mod script;
pub(crate) mod select;
pub(crate) mod target;
pub(crate) mod toc;
pub(crate) mod tokens;
pub(crate) mod versions;
pub(crate) mod written;

use std::io::Write as _;

use crate::client::Target;
use crate::schema::toc::Entry;
use crate::{Error, RestoreOptions, World, tools};

/// The first statement of `pg_dump` and `pg_restore` since version 17. An older server may not know it.
pub(crate) const NEWER: &str = "SET transaction_timeout = 0";

/// Resets the settings that a script changes.
pub(crate) const AS_BEFORE: &str = "SET row_security = off; SET lock_timeout = 0; SET synchronous_commit = off";

/// An archive and its table of contents.
pub(crate) struct Schema {
    archive: Vec<u8>,
    /// Its entries.
    pub(crate) entries: Vec<Entry>,
    /// The major version of the `pg_dump` that wrote it.
    pg_dump: u32,
}

impl Schema {
    /// Reads an archive of a `pg_dump` of this major version.
    ///
    /// # Errors
    /// The defect of the archive.
    pub(crate) fn parse(archive: Vec<u8>, pg_dump: u32) -> Result<Self, String> {
        let entries = toc::parse(&archive)?;
        Ok(Self { archive, entries, pg_dump })
    }

    /// The SQL that `pg_restore` makes of some entries of the schema.
    pub(crate) async fn script(
        &self,
        wanted: impl Fn(&Entry) -> bool,
        options: &RestoreOptions,
        world: &World,
    ) -> Result<Vec<u8>, Error> {
        let io = |error: std::io::Error| Error::Io { path: "a temporary file".to_owned(), cause: error.to_string() };
        let tool = tools::find("pg_restore", self.pg_dump, &options.limits, &world.environment).await?;
        // Only this user can read the file, and it is removed with its handle.
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
        Ok(versions::of_script(&tool.run(&all)?.all().await?))
    }

    /// Has `pg_restore` make the whole schema in a database. `pg_restore` names each object that it can't make, and continues.
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
}

/// A script of `pg_restore` without the settings that a server of this version doesn't know.
pub(crate) fn for_the_server(script: &[u8], version: u32) -> Vec<u8> {
    // Only the first such line: a function may contain the same line.
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

/// The lines of a script without `\restrict` and `\unrestrict`, which only psql understands. `pg_restore` writes them before
/// the first statement and after the last, with a random key. A similar line in a function has another key, and stays.
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
