//! Free space of a folder's disk, where the disk can be asked from here.

use std::path::Path;

/// Bytes that can be written below a folder; `None` where the system doesn't tell.
pub fn free_space(folder: &Path) -> Option<u64> {
    let facts = rustix::fs::statvfs(folder).ok()?;
    facts.f_bavail.checked_mul(facts.f_frsize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_seen_of_folders_that_exist() {
        assert!(
            free_space(Path::new("/")).is_some_and(|bytes| bytes > 0) && free_space(Path::new("/nowhere")).is_none()
        );
    }
}
