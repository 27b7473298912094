//! A folder of databases: which of its files are meant, and what each of them gets.

use std::path::{Component, Path, PathBuf};

use seawall_core::{Failure, Kind};

use super::error::{Location, Problem};
use super::fields::{At, Fields};
use super::pattern::Pattern;
use super::{BesideConfig, DatabaseConfig, EngineConfig, SqliteConfig, absolute};

/// Ends of the names of files that belong to a database and are none.
const SIDE_FILES: [&str; 3] = ["-wal", "-shm", "-journal"];

/// A folder whose databases are protected, each in a place of its own below the folder's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryConfig {
    /// The folder, absolute.
    pub dir: PathBuf,
    /// The file names that are meant.
    pub pattern: Pattern,
    /// Whether folders in it are meant too.
    pub recursive: bool,
    /// Whether databases that come and go later are followed.
    pub watch: bool,
    /// What stands before a database's path in the folder in its name; `None` makes the whole path its name.
    pub prefix: Option<String>,
    /// Where the state folders are, if not beside the databases.
    pub state: Option<StateRoot>,
    /// What every database gets; its `vault` is the folder's, the database's path goes below it.
    pub template: DatabaseConfig,
}

/// Where the state folders of a folder's databases are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateRoot {
    /// `<root>/<path>-seawall`
    Native(PathBuf),
    /// `<root>/<folder>/.<file>-litestream/seawall`: below what Litestream's `meta-path` names.
    MetaPath(PathBuf),
    /// `<root>/<path>-litestream/seawall`: below what Litestream's `meta-dir` names.
    MetaDir(PathBuf),
}

impl StateRoot {
    fn of(&self, relative: &Path) -> PathBuf {
        let with = |name: &Path, before: &str, after: &str| {
            let mut text = std::ffi::OsString::from(before);
            text.push(name.as_os_str());
            text.push(after);
            PathBuf::from(text)
        };
        let file = Path::new(relative.file_name().unwrap_or_default());
        match self {
            Self::Native(root) => root.join(with(relative, "", "-seawall")),
            Self::MetaDir(root) => root.join(with(relative, "", "-litestream")).join("seawall"),
            Self::MetaPath(root) => {
                let folder = relative.parent().unwrap_or(Path::new(""));
                root.join(folder).join(with(file, ".", "-litestream")).join("seawall")
            }
        }
    }
}

impl DirectoryConfig {
    /// Whether both say the same of a folder, wherever it stands in a file.
    pub fn is_like(&self, other: &Self) -> bool {
        let Self { dir, pattern, recursive, watch, prefix, state, template } = self;
        *dir == other.dir
            && *pattern == other.pattern
            && *recursive == other.recursive
            && *watch == other.watch
            && *prefix == other.prefix
            && *state == other.state
            && template.is_like(&other.template)
            // The follower gives these to new databases.
            && template.alarms == other.template.alarms
            && template.prove == other.template.prove
    }

    /// Whether a file of this name can be a database of the folder.
    pub fn is_meant(&self, name: &str) -> bool {
        !SIDE_FILES.iter().any(|end| name.ends_with(end)) && self.pattern.matches(name)
    }

    /// Whether a folder of this name is looked into.
    pub fn enters(&self, name: &str) -> bool {
        // State folders hold no databases: ours and Litestream's.
        self.recursive && !(name.starts_with('.') && (name.ends_with("-seawall") || name.ends_with("-litestream")))
    }

    /// Whether a path in the folder can be one of its databases.
    pub fn holds(&self, relative: &str) -> bool {
        let mut parts = relative.split('/').rev();
        parts.next().is_some_and(|file| !file.is_empty() && self.is_meant(file)) && parts.all(|part| self.enters(part))
    }

    /// The configuration of the database at `relative` in the folder.
    ///
    /// # Errors
    /// When the path can't be a place in a vault, for example because it is no text.
    pub fn database(&self, relative: &Path) -> Result<DatabaseConfig, Failure> {
        let path = self.dir.join(relative);
        let Some(text) = relative.to_str() else {
            let cause = "its name is no text, so it can't name a place in a vault";
            return Err(Failure::new(
                Kind::Refused,
                "agent.unusable-name",
                path.display().to_string(),
                cause,
                "give the file a name in UTF-8",
            ));
        };
        let files = SqliteConfig {
            state_dir: self.state.as_ref().map(|root| root.of(relative)),
            path: path.clone(),
            ..self.template.sqlite().cloned().unwrap_or_else(|| SqliteConfig::new(PathBuf::new()))
        };
        Ok(DatabaseConfig {
            name: match &self.prefix {
                Some(prefix) if prefix.is_empty() => text.to_owned(),
                Some(prefix) => format!("{prefix}/{text}"),
                None => path.display().to_string(),
            },
            vault: self.template.vault.join(text)?,
            beside: self.beside(text)?,
            engine: EngineConfig::Sqlite(files),
            ..self.template.clone()
        })
    }

    /// The other vaults of the database at `text` in the folder.
    fn beside(&self, text: &str) -> Result<Vec<BesideConfig>, Failure> {
        let below = |beside: &BesideConfig| Ok(BesideConfig { url: beside.url.join(text)?, ..beside.clone() });
        self.template.beside.iter().map(below).collect()
    }

    /// The database of the folder that `text` names, whether its file exists or not: by its name, else by its path,
    /// which must be meant by the pattern.
    pub fn find(&self, text: &str, directory: &Path) -> Option<DatabaseConfig> {
        let by_name = self.prefix.as_ref().and_then(|prefix| text.strip_prefix(&format!("{prefix}/")));
        let path = absolute(Path::new(text), directory);
        let relative = by_name.map(Path::new).or_else(|| path.strip_prefix(&self.dir).ok())?;
        let plain = relative.components().all(|part| matches!(part, Component::Normal(_)));
        let depth = relative.components().count();
        let name = relative.file_name()?.to_str()?;
        let found = plain && (depth == 1 || self.recursive) && self.is_meant(name);
        found.then(|| self.database(relative).ok()).flatten()
    }
}

/// The keys that make a list item a folder.
#[derive(Debug)]
pub(crate) struct FolderKeys {
    pub(crate) dir: At<String>,
    pub(crate) pattern: Option<Pattern>,
    pub(crate) recursive: bool,
    pub(crate) watch: Option<bool>,
}

impl FolderKeys {
    /// Reads them; `None` when the item is a single database.
    pub(crate) fn read(fields: &mut Fields, path: Option<&At<String>>) -> Result<Option<Self>, Location> {
        let dir = fields.text("dir")?;
        let pattern = fields.parsed("pattern", "a pattern of file names, such as *.db", Pattern::parse)?;
        let recursive = fields.flag("recursive")?;
        let watch = fields.flag("watch")?;
        let line = [pattern.as_ref().map(|at| at.line), recursive.as_ref().map(|at| at.line)];
        let line = line.into_iter().flatten().chain(watch.as_ref().map(|at| at.line)).min();
        match (dir, path) {
            (Some(dir), Some(_)) => Err(Problem::Contradiction("path and dir are both given".into()).at(dir.line)),
            (Some(dir), None) => Ok(Some(Self {
                dir,
                pattern: pattern.map(|at| at.value),
                recursive: recursive.is_some_and(|at| at.value),
                watch: watch.map(|at| at.value),
            })),
            (None, _) => match line {
                Some(line) => {
                    let cause = "pattern, recursive and watch belong to a folder, which dir names";
                    Err(Problem::Contradiction(cause.into()).at(line))
                }
                None => Ok(None),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use seawall_vault::VaultUrl;

    use super::*;

    fn directory(prefix: Option<&str>, state: Option<StateRoot>) -> DirectoryConfig {
        let vault = VaultUrl::parse("s3://bucket/all").expect("a place");
        DirectoryConfig {
            dir: "/data".into(),
            pattern: Pattern::parse("*.db").expect("a pattern"),
            recursive: true,
            watch: true,
            prefix: prefix.map(str::to_owned),
            state,
            template: DatabaseConfig::new("data".into(), "/data".into(), vault),
        }
    }

    #[test]
    fn each_database_gets_its_own() {
        let database = |prefix, state| directory(prefix, state).database(Path::new("a/b.db")).expect("a database");
        let plain = database(None, None);
        assert_eq!((plain.name.as_str(), plain.path()), ("/data/a/b.db", Some(Path::new("/data/a/b.db"))));
        let state_dir = |found: &DatabaseConfig| found.sqlite().and_then(|files| files.state_dir.clone());
        assert_eq!((plain.vault.to_string().as_str(), state_dir(&plain)), ("s3://bucket/all/a/b.db", None));
        assert_eq!(database(Some("tenants"), None).name, "tenants/a/b.db");
        assert_eq!(database(Some(""), None).name, "a/b.db");
        for (root, expected) in [
            (StateRoot::Native("/s".into()), "/s/a/b.db-seawall"),
            (StateRoot::MetaPath("/s".into()), "/s/a/.b.db-litestream/seawall"),
            (StateRoot::MetaDir("/s".into()), "/s/a/b.db-litestream/seawall"),
        ] {
            assert_eq!(state_dir(&database(None, Some(root))).as_deref(), Some(Path::new(expected)));
        }
    }

    #[test]
    fn what_a_text_names() {
        let all = directory(Some("tenants"), None);
        let flat = DirectoryConfig { recursive: false, ..all.clone() };
        for (text, of_all, of_flat) in [
            ("/data/x.db", true, true),
            ("x.db", true, true),
            ("tenants/x.db", true, true),
            ("tenants/a/x.db", true, false),
            ("/data/a/x.db", true, false),
            ("/data/x.db-wal", false, false),
            ("/data/x.txt", false, false),
            ("/data", false, false),
            ("/other/x.db", false, false),
            ("tenants/../x.db", false, false),
        ] {
            assert_eq!(all.find(text, Path::new("/data")).is_some(), of_all, "{text}");
            assert_eq!(flat.find(text, Path::new("/data")).is_some(), of_flat, "{text}");
        }
    }

    #[test]
    fn side_files_and_state_folders_are_no_databases() {
        let all = DirectoryConfig { pattern: Pattern::any(), ..directory(None, None) };
        for (name, file, folder) in [
            ("a.db", true, true),
            ("a.db-wal", false, true),
            ("a.db-shm", false, true),
            ("a.db-journal", false, true),
            (".a.db-seawall", true, false),
            (".a.db-litestream", true, false),
        ] {
            assert_eq!((all.is_meant(name), all.enters(name)), (file, folder), "{name}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_name_that_is_no_text_is_refused() {
        use std::os::unix::ffi::OsStrExt;
        let name = std::ffi::OsStr::from_bytes(b"\xff.db");
        let failure = directory(None, None).database(Path::new(name)).expect_err("no text");
        assert_eq!(failure.code, "agent.unusable-name");
    }
}
