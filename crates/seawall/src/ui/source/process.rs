//! A running process, asked over its control socket.

use std::path::{Path, PathBuf};
use std::time::Duration;

use seawall_agent::Control;
use seawall_agent::restoring::Named;
use seawall_core::{Failure, Timeline};

use crate::ui::model::Entry;

/// How often the process is asked.
pub(super) const EVERY: Duration = Duration::from_secs(1);

/// How long a vault may take to tell a timeline, and a process to ship everything or to make a backup.
const PATIENCE: Duration = Duration::from_secs(600);

/// A running process.
#[derive(Debug, Clone)]
pub(in crate::ui) struct Process {
    socket: PathBuf,
    control: Control,
}

impl Process {
    /// The one that listens on `socket`.
    pub(super) fn new(socket: PathBuf) -> Self {
        Self { control: Control::new(&socket), socket }
    }

    /// Its control socket.
    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// All of its databases, as far as it knows them without looking.
    pub(super) async fn databases(&self) -> Result<Vec<Entry>, Failure> {
        let (databases, _) = self.control.known_status().await?;
        Ok(databases.into_iter().map(Entry::from).collect())
    }

    /// What can be restored of a database.
    pub(super) async fn timeline(&self, entry: &Entry) -> Result<Timeline, Failure> {
        self.control.timeline(&entry.source, PATIENCE).await
    }

    /// How a command of this machine names a database: in the configuration of the process, or by its vault.
    pub(super) async fn named(&self, entry: &Entry) -> Result<Named, Failure> {
        let (list, info) = (self.control.list().await?, self.control.info().await?);
        let origin = list.into_iter().find(|one| one.path == entry.source).map(|one| one.origin).unwrap_or_default();
        Ok(match (info.config, &*origin) {
            (Some(config), "configured") => Named::In(config.file, entry.name.clone()),
            (Some(config), "found") => Named::In(config.file, entry.source.clone()),
            _ => Named::Vault(entry.vault.clone()),
        })
    }

    /// Ships what is committed; of a server it makes a backup. Returns what came of it.
    pub(super) async fn ship(&self, entry: &Entry) -> Result<String, Failure> {
        let synced = self.control.sync(&entry.source, true, PATIENCE).await?;
        Ok(match &*synced.status {
            "no_change" => "nothing new: everything committed is in the vault".to_owned(),
            _ => "everything committed is in the vault".to_owned(),
        })
    }
}
