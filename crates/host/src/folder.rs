//! The folder that a path names its file in.

use std::path::Path;

/// The folder of `path`: its parent, or `.` when the path is a bare name (or has no parent at all), so that the answer
/// can always be opened. Looks at the name only; asks no disk.
pub fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_paths() {
        for (path, folder) in [
            ("/var/lib/app.db", "/var/lib"),
            ("/app.db", "/"),
            ("data/app.db", "data"),
            ("./app.db", "."),
            ("../app.db", ".."),
            ("app.db", "."),
            ("data/", "."),
            ("", "."),
            ("/", "."),
        ] {
            assert_eq!(folder_of(Path::new(path)), Path::new(folder), "{path}");
        }
    }
}
