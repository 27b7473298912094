//! What a restored data directory hands over to its `restore_command`, which runs later and in another environment.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use seawall_archive::log::Lsn;
use seawall_vault::Environment;
use serde::{Deserialize, Serialize};

use super::settings::word;
use crate::Error;

/// The file in the data directory. Only its owner can read it: it may hold credentials (I13).
pub const HANDED_OVER: &str = "seawall.recovery";

/// How the names of variables begin that a vault is opened with.
const VARIABLES: [&str; 18] = [
    "ALIBABA_CLOUD_",
    "AWS_",
    "AZURE_",
    "B2_",
    "CLOUDSDK_",
    "GCE_",
    "GOOGLE_",
    "HOME",
    "LITESTREAM_",
    "NATS_",
    "OSS_",
    "SEAWALL_",
    "SSH_AUTH_SOCK",
    "SSL_CERT_",
    "STORAGE_EMULATOR_HOST",
    "WEBDAV_",
    "XDG_STATE_HOME",
    "STATE_DIRECTORY",
];

/// The content of the file.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandedOver {
    /// The vault, or the name of a database in the configuration.
    pub vault: String,
    /// The configuration, if the restore was given one.
    pub config: Option<PathBuf>,
    /// The file with the owner's keys, if the restore was given one.
    pub identity: Option<PathBuf>,
    /// The system identifier of the cluster.
    pub system: String,
    /// The timeline to follow.
    pub timeline: u32,
    /// The position up to which the log was there without a gap when the restore was made: recovery ends there at the latest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Lsn>,
    /// Variables that the vault is opened with, and that the configuration names.
    pub environment: BTreeMap<String, String>,
}

impl fmt::Debug for HandedOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variables: Vec<&String> = self.environment.keys().collect();
        f.debug_struct("HandedOver")
            .field("vault", &self.vault)
            .field("environment", &variables)
            .finish_non_exhaustive()
    }
}

/// How the server that recovers gets its log.
#[derive(Debug, Clone)]
pub enum Delivery {
    /// It fetches the log by itself, with Seawall, and its settings are those of the source but for the recovery.
    Fetched(Handover),
    /// The log was copied into this folder. The server takes no setting of the source, and needs no vault.
    Copied(PathBuf),
}

impl Delivery {
    /// The `restore_command`.
    pub(super) fn command(&self) -> String {
        // A per cent sign begins a placeholder.
        let word = |path: &Path| word(&path.display().to_string()).replace('%', "%%");
        match self {
            Self::Fetched(handover) => {
                format!("{} wal fetch --handed-over {HANDED_OVER} '%f' '%p'", word(&handover.program))
            }
            // A file that isn't there ends the log. Any other failure must not: a status above 125 ends the server.
            Self::Copied(folder) => {
                let file = format!("{}/'%f'", word(folder));
                format!("test -e {file} || exit 1; cp -- {file} '%p' || exit 200")
            }
        }
    }
}

/// What a server needs that fetches its log.
#[derive(Debug, Clone)]
pub struct Handover {
    /// The program that fetches: an absolute path.
    pub program: PathBuf,
    /// The vault as the restore names it: a URL, an absolute path, or the name of a database in the configuration.
    pub vault: String,
    /// The configuration, as an absolute path.
    pub config: Option<PathBuf>,
    /// The file with the owner's keys, as an absolute path.
    pub identity: Option<PathBuf>,
    /// Variables that the configuration names.
    pub variables: BTreeSet<String>,
    /// The environment of the restore.
    pub environment: Environment,
}

impl Handover {
    /// The content of the file, for a cluster, a timeline, and where recovery ends at the latest.
    pub(crate) fn document(&self, system: &str, timeline: u32, until: Lsn) -> Result<Vec<u8>, Error> {
        let is_of_vaults = |name: &str| VARIABLES.iter().any(|begin| name.starts_with(begin));
        let is_needed = |name: &str| is_of_vaults(name) || self.variables.contains(name);
        let chosen = self.environment.iter().filter(|(name, _)| is_needed(name));
        let handed = HandedOver {
            vault: self.vault.clone(),
            config: self.config.clone(),
            identity: self.identity.clone(),
            system: system.to_owned(),
            timeline,
            until: Some(until),
            environment: chosen.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        };
        let defect = |error: serde_json::Error| Error::Internal(format!("{HANDED_OVER}: {error}"));
        serde_json::to_vec_pretty(&handed).map_err(defect)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_words_of_the_shell() {
        let copied = Delivery::Copied("/a b/100%".into());
        let expected = "test -e '/a b/100%%'/'%f' || exit 1; cp -- '/a b/100%%'/'%f' '%p' || exit 200";
        assert_eq!(copied.command(), expected);
    }

    #[test]
    fn only_what_a_vault_needs_is_handed_over_and_nothing_of_it_is_shown() {
        let environment =
            [("AWS_SECRET_ACCESS_KEY", "s3cret"), ("PGPASSWORD", "other"), ("PATH", "/bin"), ("MY_KEY", "x")];
        let environment = environment.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let handover = Handover {
            program: "/bin/seawall".into(),
            vault: "s3://b/x".into(),
            config: None,
            identity: None,
            variables: ["MY_KEY", "UNSET"].map(str::to_owned).into(),
            environment,
        };
        let document = handover.document("7", 3, Lsn::new(9)).expect("written");
        let handed: HandedOver = serde_json::from_slice(&document).expect("read");
        assert_eq!(handed.environment.keys().collect::<Vec<_>>(), ["AWS_SECRET_ACCESS_KEY", "MY_KEY"]);
        assert_eq!((handed.vault.as_str(), handed.timeline, handed.until), ("s3://b/x", 3, Some(Lsn::new(9))));
        assert!(!format!("{handed:?} {handover:?}").contains("s3cret"));
    }
}
