//! One database as the screens show it, whether a process or a vault tells of it.

use seawall_agent::catalog::Row;
use seawall_core::{Alarm, LastError, Moment, Phase, Point, Proof, Severity, Status, Underway, VaultStatus};

/// A database.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::ui) struct Entry {
    /// What identifies it: its source in a process, its name below a prefix.
    pub(in crate::ui) key: String,
    pub(in crate::ui) name: String,
    pub(in crate::ui) engine: String,
    /// The file, folder or URL; empty where a vault alone tells.
    pub(in crate::ui) source: String,
    pub(in crate::ui) vault: String,
    /// What the protection does; `None` where a vault alone tells.
    pub(in crate::ui) phase: Option<Phase>,
    pub(in crate::ui) progress: Option<Underway>,
    /// The newest point in the vault.
    pub(in crate::ui) point: Option<Point>,
    pub(in crate::ui) lag_bytes: u64,
    pub(in crate::ui) lag_ms: u64,
    /// Bytes of the database, or of its objects where a vault alone tells.
    pub(in crate::ui) bytes: Option<u64>,
    pub(in crate::ui) vaults: Vec<VaultStatus>,
    pub(in crate::ui) proof: Option<Proof>,
    pub(in crate::ui) alarms: Vec<Alarm>,
    pub(in crate::ui) error: Option<LastError>,
    /// What isn't known.
    pub(in crate::ui) doubts: Vec<String>,
    /// More lines of its screen: what it is, and how much.
    pub(in crate::ui) facts: Vec<(String, String)>,
}

/// How a database stands, the best last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::ui) enum Standing {
    Critical,
    Warning,
    Fine,
}

impl Entry {
    /// How it stands: alarms that are silenced don't count.
    pub(in crate::ui) fn standing(&self) -> Standing {
        let loud = self.alarms.iter().filter(|alarm| alarm.silenced_until.is_none());
        match loud.map(|alarm| alarm.severity).max() {
            Some(Severity::Critical) => Standing::Critical,
            _ if matches!(self.phase, Some(Phase::Halted | Phase::Failing)) => Standing::Critical,
            Some(Severity::Warning) => Standing::Warning,
            _ if !self.doubts.is_empty() => Standing::Warning,
            _ => Standing::Fine,
        }
    }

    /// Whether a restore of it goes into a file or folder.
    pub(in crate::ui) fn has_file(&self) -> bool {
        matches!(&*self.engine, "sqlite" | "lmdb")
    }

    /// Whether it is shown under a filter: the text is a part of its name, engine or state, in any case of letters.
    pub(in crate::ui) fn matches(&self, filter: &str) -> bool {
        let filter = filter.to_lowercase();
        let phase = self.phase.map_or("", Phase::name);
        [&*self.name, &*self.engine, phase].iter().any(|text| text.to_lowercase().contains(&filter))
    }
}

impl From<Status> for Entry {
    fn from(status: Status) -> Self {
        let mut facts = Vec::new();
        let mut fact = |name: &str, value: Option<String>| facts.extend(value.map(|value| (name.to_owned(), value)));
        fact("vault seen", status.vault_seen_at.map(|at| at.to_string()));
        fact("content read", status.content_read_at.map(|at| at.to_string()));
        fact("newest hole", status.hole.as_ref().map(|hole| format!("up to {}: {}", hole.to.moment, hole.reason)));
        fact("credentials end", status.credentials_end.map(|at| at.to_string()));
        fact("silenced until", status.silenced_until.map(|until| until.to_string()));
        for limit in &status.limits {
            fact("the vault has no", Some(format!("{}: {}", limit.lacks, limit.effect)));
        }
        if let Some(error) = &status.upkeep {
            fact("upkeep", Some(format!("error[{}]: {}; next: {}", error.code, error.message, error.next)));
        }
        Self {
            key: status.source.clone(),
            name: status.name,
            engine: status.engine,
            source: status.source,
            vault: status.vault,
            phase: Some(status.phase),
            progress: status.progress,
            point: status.protected,
            lag_bytes: status.lag_bytes,
            lag_ms: status.lag_ms,
            bytes: status.source_bytes,
            vaults: status.vaults,
            proof: status.proof,
            alarms: status.alarms,
            error: status.error,
            doubts: Vec::new(),
            facts,
        }
    }
}

impl From<Row> for Entry {
    fn from(row: Row) -> Self {
        let mut facts = Vec::new();
        let mut fact = |name: &str, value: Option<String>| facts.extend(value.map(|value| (name.to_owned(), value)));
        fact("objects", Some(row.objects.to_string()));
        fact("holes", row.holes.filter(|holes| *holes > 0).map(|holes| holes.to_string()));
        fact("gaps", row.gaps.filter(|gaps| *gaps > 0).map(|gaps| gaps.to_string()));
        fact("encrypted", row.encrypted.then(|| "yes".to_owned()));
        fact("written by", (!row.writers.is_empty()).then(|| row.writers.join(", ")));
        let unread = row.proved_at.filter(|_| row.proof.is_none());
        fact("proved", unread.map(|at: Moment| format!("{at}, and the record can't be read")));
        let name = if row.name.is_empty() { "(the prefix itself)".to_owned() } else { row.name.clone() };
        Self {
            key: row.name,
            name,
            engine: row.engine.to_owned(),
            source: String::new(),
            vault: row.vault,
            phase: None,
            progress: None,
            point: row.newest,
            lag_bytes: 0,
            lag_ms: 0,
            bytes: Some(row.bytes),
            vaults: Vec::new(),
            proof: row.proof,
            alarms: row.alarms,
            error: None,
            doubts: row.doubts,
            facts,
        }
    }
}
