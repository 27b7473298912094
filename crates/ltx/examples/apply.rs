//! Builds a database from a chain of LTX files, or carries an existing database further.
//!
//! All files are verified before the first byte is written: their checksums, that each one follows the one before, and
//! that each was made for the database state that it meets. After an error the database is as it was.
//!
//! ```text
//! cargo run --features file --example apply -- app.db 0000000000000001-0000000000000001.ltx 0000000000000002-0000000000000002.ltx
//! ```

#![allow(clippy::disallowed_methods, reason = "an example reads arguments")]

use std::error::Error;
use std::path::{Path, PathBuf};

use seawall_ltx::file::{self, Applied, ApplyOptions, Work};

fn main() -> Result<(), Box<dyn Error>> {
    let mut paths = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(database), files) = (paths.next(), paths.collect::<Vec<_>>()) else {
        return Err("usage: apply DATABASE FILE...".into());
    };
    let applied = apply(&database, &files)?;
    println!("transaction {}: {} pages of {} bytes", applied.txid, applied.pages, applied.page_size);
    match applied.checksum {
        Some(checksum) => println!("database checksum {checksum}, as the last file says"),
        None => println!("the files have no database checksums; their file checksums are right"),
    }
    Ok(())
}

/// Applies files to a database, which is made if it doesn't exist.
pub(crate) fn apply(database: &Path, files: &[PathBuf]) -> Result<Applied, file::FileError> {
    // The default reads the whole database once, to compare it with the first file's pre-apply checksum.
    file::apply(database, files, ApplyOptions::default(), Work::new())
}
