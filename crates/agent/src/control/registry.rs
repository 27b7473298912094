//! The databases that were registered while a process ran, so that the next one has them too.
//!
//! A small JSON file, replaced as a whole and synced before a registration is answered. URLs may hold secrets, so
//! only its owner may read it. A file that can't be understood is never written over.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use seawall_core::{Failure, Kind};
use serde::{Deserialize, Serialize};

/// The version of the file; see docs/formats.md.
const FORMAT: u32 = 1;

/// One registered database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Registration {
    /// The file.
    pub(crate) path: PathBuf,
    /// The place as it was given.
    pub(crate) vault: Option<String>,
    /// The name as it was given.
    pub(crate) name: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct File {
    format: u32,
    databases: Vec<Registration>,
}

/// Where registrations are kept.
#[derive(Debug, Clone)]
pub(crate) struct Registry(PathBuf);

impl Registry {
    /// Keeps them in `file`.
    pub(crate) fn new(file: PathBuf) -> Self {
        Self(file)
    }

    /// All registrations, oldest first. Blocks.
    pub(crate) fn load(&self) -> Result<Vec<Registration>, Failure> {
        let bytes = match std::fs::read(&self.0) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.failed(&error.to_string())),
        };
        let file: File = serde_json::from_slice(&bytes).map_err(|error| self.failed(&error.to_string()))?;
        if file.format != FORMAT {
            return Err(self.failed(&format!("its format is {}, and this program knows {FORMAT}", file.format)));
        }
        Ok(file.databases)
    }

    /// Adds or replaces a registration. Blocks.
    pub(crate) fn keep(&self, new: Registration) -> Result<(), Failure> {
        let mut all = self.load()?;
        all.retain(|old| old.path != new.path);
        all.push(new);
        self.save(all)
    }

    /// Forgets a registration; answers whether there was one. Blocks.
    pub(crate) fn forget(&self, path: &Path) -> Result<bool, Failure> {
        let mut all = self.load()?;
        let before = all.len();
        all.retain(|old| old.path != path);
        if all.len() == before {
            return Ok(false);
        }
        self.save(all).map(|()| true)
    }

    fn save(&self, databases: Vec<Registration>) -> Result<(), Failure> {
        let write = || -> io::Result<()> {
            let parent = self.0.parent().unwrap_or(Path::new("/"));
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
            let partial = self.0.with_extension("tmp");
            let mut options = std::fs::OpenOptions::new();
            let mut file = options.create(true).truncate(true).write(true).mode(0o600).open(&partial)?;
            file.write_all(&serde_json::to_vec_pretty(&File { format: FORMAT, databases })?)?;
            file.sync_all()?;
            std::fs::rename(&partial, &self.0)?;
            std::fs::File::open(parent)?.sync_all()
        };
        write().map_err(|error| self.failed(&error.to_string()))
    }

    fn failed(&self, cause: &str) -> Failure {
        Failure::new(
            Kind::Unavailable,
            "agent.registry",
            self.0.display().to_string(),
            format!("registered databases can't be kept here: {cause}"),
            "make the file readable and writable, or move it away if it is damaged",
        )
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn registration(path: &str, vault: &str) -> Registration {
        Registration { path: path.into(), vault: Some(vault.into()), name: None }
    }

    #[test]
    fn what_is_kept_comes_back_and_what_is_damaged_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("state/registered.json");
        let registry = Registry::new(file.clone());
        assert_eq!(registry.load(), Ok(vec![]));
        registry.keep(registration("/a.db", "s3://key:secret@b/a")).expect("kept");
        registry.keep(registration("/b.db", "/v/b")).expect("kept");
        registry.keep(registration("/a.db", "/v/a")).expect("replaced");
        assert_eq!(registry.load(), Ok(vec![registration("/b.db", "/v/b"), registration("/a.db", "/v/a")]));
        assert_eq!(std::fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o600);
        assert_eq!((registry.forget(Path::new("/b.db")), registry.forget(Path::new("/b.db"))), (Ok(true), Ok(false)));
        assert_eq!(registry.load().map(|all| all.len()), Ok(1));
        for damage in ["", "{", "{\"format\":2,\"databases\":[]}", "[]"] {
            std::fs::write(&file, damage).expect("written");
            let kept = registry.keep(registration("/c.db", "/v/c"));
            assert_eq!(kept.map_err(|failure| failure.code), Err("agent.registry"), "{damage}");
            assert_eq!(std::fs::read_to_string(&file).expect("read"), damage);
        }
    }
}
