//! `litestream reset`: forgets the local state of a database.
//!
//! It deletes Litestream's own files and our state record. The end of the history is then found in the vault and in the
//! WAL; if that can't be proved, Seawall takes a complete copy. A spooled capture stays, because it may be the only
//! copy.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use seawall_agent::config::SqliteConfig;
use seawall_agent::{default_state_dir, is_protected};

use super::status::litestream_folder;
use super::{Answer, Stop, config, flags};
use crate::edge::Edge;

/// Runs the command.
pub(super) fn run(arguments: &[String], edge: &Edge) -> Answer {
    let known = [flags::value("config"), flags::switch("no-expand-env"), flags::switch("dry-run")];
    let flags = flags::parse(&known, arguments)?;
    let missing = || Stop::hinted("database path required", "litestream reset /path/to/db");
    let database = config::path(flags.only_argument()?.ok_or_else(missing)?, edge);
    if !database.exists() {
        return Err(Stop::error(format!("database does not exist: {}", database.display())));
    }
    let settings = match config::load(&flags, edge) {
        Ok(config) => config.databases.into_iter().find(|found| found.path() == Some(&*database)),
        Err(error) if flags.get("config").is_some() => return Err(error),
        Err(_) => None,
    };
    let state_dir = settings
        .and_then(|found| found.sqlite().map(SqliteConfig::state_dir))
        .unwrap_or_else(|| default_state_dir(&database));
    if is_protected(&state_dir) {
        let hint = "stop the process that replicates it first";
        return Err(Stop::hinted(format!("the database is being replicated: {}", database.display()), hint));
    }
    let folder = litestream_folder(&database);
    let mut files = files_below(&folder);
    files.extend(Some(state_dir.join("state.json")).filter(|record| record.exists()));
    let (shown, folder_shown) = (database.display(), folder.display());
    if flags.is_set("dry-run") {
        let mut text =
            format!("Dry run: local Litestream state would be reset for: {shown}\nWould remove: {folder_shown}\n");
        if files.is_empty() {
            return Ok(text + "No local LTX files would be removed.\n");
        }
        text.push_str("Files that would be removed:\n");
        files.iter().for_each(|file| text.push_str(&format!("  {}\n", file.display())));
        return Ok(text + "No files were removed.\n");
    }
    for file in &files {
        remove(file)?;
    }
    match std::fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(&folder, &error)),
        _ => {}
    }
    Ok(format!(
        "Resetting local Litestream state for: {shown}\nRemoving: {folder_shown}\n\
         Reset complete. The next start finds its place in the replica, or takes a complete copy.\n"
    ))
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(files_below(&entry.path())),
            _ => found.push(entry.path()),
        }
    }
    found.sort();
    found
}

fn remove(file: &Path) -> Result<(), Stop> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(failed(file, &error)),
        _ => Ok(()),
    }
}

fn failed(path: &Path, error: &std::io::Error) -> Stop {
    Stop::error(format!("remove {}: {error}", path.display()))
}
