//! How a configuration was understood, for `seawall config check`.

use serde::Serialize;

use super::{Config, Format, Warning};

/// A configuration as it was understood, without secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The file.
    pub file: String,
    /// Its format.
    pub format: Format,
    /// The databases, in the order of the file.
    pub databases: Vec<DatabaseReport>,
    /// What deserves a look.
    pub warnings: Vec<Warning>,
}

/// One database of a [`Report`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DatabaseReport {
    /// Its name.
    pub name: String,
    /// Its file.
    pub path: String,
    /// Its vault, without secrets.
    pub vault: String,
    /// Whether it is restored when its file is missing.
    pub restore_if_missing: bool,
    /// The line it begins on.
    pub line: usize,
}

impl Report {
    /// What `config` says.
    pub fn new(config: &Config) -> Self {
        let databases = config.databases.iter().map(|database| DatabaseReport {
            name: database.name.clone(),
            path: database.path.display().to_string(),
            vault: database.vault.to_string(),
            restore_if_missing: database.restore_if_missing,
            line: database.line,
        });
        Self {
            file: config.file.display().to_string(),
            format: config.format,
            databases: databases.collect(),
            warnings: config.warnings.clone(),
        }
    }
}
