//! How a configuration was understood, for `seawall config check`.

use serde::Serialize;

use super::{Config, DatabaseConfig, DirectoryConfig, Format, Services, Warning};

/// A configuration as it was understood, without secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The file.
    pub file: String,
    /// Its format.
    pub format: Format,
    /// The databases, in the order of the file.
    pub databases: Vec<DatabaseReport>,
    /// The folders of databases, in the order of the file.
    pub directories: Vec<DirectoryReport>,
    /// Where the control socket is, if there is one.
    pub socket: Option<String>,
    /// Where metrics are served, if they are.
    pub metrics: Option<String>,
    /// Where the MCP server listens, if there is one.
    pub mcp: Option<String>,
    /// Where the page is served, if it is.
    pub web: Option<String>,
    /// Whether heartbeats are sent. Where to is a secret.
    pub heartbeat: bool,
    /// The channels that are told of alarms. Where they lead is a secret.
    pub notify: Vec<ChannelReport>,
    /// What deserves a look.
    pub warnings: Vec<Warning>,
}

/// One channel of a [`Report`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChannelReport {
    /// Its name.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The mildest severity that it is told of.
    pub severity: &'static str,
}

/// One database of a [`Report`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DatabaseReport {
    /// Its name.
    pub name: String,
    /// Its engine: `sqlite`, `lmdb` or `postgres`.
    pub engine: &'static str,
    /// Its file.
    pub path: String,
    /// Its vault, without secrets; of several the first.
    pub vault: String,
    /// The other vaults that hold the same.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<String>,
    /// Whether it is restored when its file is missing.
    pub restore_if_missing: bool,
    /// The line it begins on.
    pub line: usize,
}

/// One folder of databases of a [`Report`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DirectoryReport {
    /// The folder.
    pub dir: String,
    /// Which file names are meant.
    pub pattern: String,
    /// Whether folders in it are meant too.
    pub recursive: bool,
    /// Whether databases that come and go are followed.
    pub watch: bool,
    /// The place that every database has its own place below.
    pub vault: String,
    /// The line it begins on.
    pub line: usize,
}

impl Report {
    /// What `config` says.
    pub fn new(config: &Config) -> Self {
        let Config { databases, directories, services, .. } = config;
        let file = config.file.display().to_string();
        Self {
            warnings: config.warnings.clone(),
            format: config.format,
            ..Self::of(file, databases, directories, services)
        }
    }

    /// What a process has of the configuration `file`.
    pub(crate) fn of(
        file: String,
        databases: &[DatabaseConfig],
        directories: &[DirectoryConfig],
        services: &Services,
    ) -> Self {
        let databases = databases.iter().map(|database| DatabaseReport {
            name: database.name.clone(),
            engine: database.engine.name(),
            path: database.source().to_string(),
            vault: database.vault.to_string(),
            beside: database.beside.iter().map(|beside| beside.url.to_string()).collect(),
            restore_if_missing: database.restore_if_missing,
            line: database.line,
        });
        let directories = directories.iter().map(|folder| DirectoryReport {
            dir: folder.dir.display().to_string(),
            pattern: folder.pattern.to_string(),
            recursive: folder.recursive,
            watch: folder.watch,
            vault: folder.template.vault.to_string(),
            line: folder.template.line,
        });
        let channel = |channel: &seawall_notify::Channel| ChannelReport {
            name: channel.name.clone(),
            kind: channel.way.name(),
            severity: channel.severity.name(),
        };
        Self {
            file,
            format: Format::Seawall,
            databases: databases.collect(),
            directories: directories.collect(),
            socket: services.socket.as_ref().map(|socket| socket.path.display().to_string()),
            metrics: services.metrics.map(|address| address.to_string()),
            mcp: services.mcp.as_ref().map(|mcp| mcp.address.to_string()),
            web: services.web.as_ref().map(|web| web.address.to_string()),
            heartbeat: services.heartbeat.is_some(),
            notify: services.notify.iter().map(channel).collect(),
            warnings: Vec::new(),
        }
    }
}
