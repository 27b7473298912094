//! To which file a path leads, how SQLite names the files beside it, and reading a file up to its end.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Whether a file with content stands there now.
pub(crate) fn is_there(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.len() > 0)
}

/// The file to which links lead; `None` where there is none, as between two deployments.
pub(crate) fn leads_to(path: &Path) -> Option<PathBuf> {
    std::fs::canonicalize(path).ok()
}

/// The path behind all symbolic links: SQLite resolves them, and puts the WAL beside the real file. A file that doesn't
/// exist yet keeps its name in its resolved folder.
pub(crate) fn resolved(path: &Path) -> PathBuf {
    if let Ok(real) = std::fs::canonicalize(path) {
        return real;
    }
    let parent = seawall_host::folder_of(path);
    match (std::fs::canonicalize(parent), path.file_name()) {
        (Ok(real), Some(name)) => real.join(name),
        _ => path.to_owned(),
    }
}

/// `path` with a suffix, as SQLite names its side files.
pub(crate) fn sidecar(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Reads until `buffer` is full or the file ends; answers how much there was.
pub(crate) fn read_up_to(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}
