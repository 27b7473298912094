//! The options of one run.

use std::str::FromStr;
use std::time::Duration;

use seawall_archive::server::Limits;
use seawall_archive::{Codec, Sample, Timetable};

use crate::artefact::PLAIN;
use crate::client::Target;

/// In which form a set keeps a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Seawall's own: read and restored by many connections.
    #[default]
    Native,
    /// A script of SQL, which the vendor's client loads.
    Plain,
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "native" => Ok(Self::Native),
            PLAIN => Ok(Self::Plain),
            _ => Err(format!("\"{text}\" is no format of MySQL and MariaDB: give native or plain")),
        }
    }
}

/// How to make a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DumpOptions {
    /// How much of the machine.
    pub limits: Limits,
    /// In which form.
    pub format: Format,
    /// For a sample instead of a backup: which part of the rows.
    pub sample: Option<Sample>,
    /// How frames are compressed.
    pub codec: Codec,
    /// The schedule by which such backups are made: the set records it.
    pub schedule: Option<Timetable>,
    /// Of a whole server: databases that are left out.
    pub excluded: Vec<String>,
    /// How long a backup tries to get its locks. Each single attempt is shorter, because writers queue behind a lock that waits.
    pub lock_wait: Duration,
}

impl Default for DumpOptions {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            format: Format::default(),
            sample: None,
            codec: Codec::default(),
            schedule: None,
            excluded: Vec::new(),
            lock_wait: Duration::from_secs(60),
        }
    }
}

/// How to prove a set.
pub type ProveOptions = seawall_archive::ProveOptions<Target>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats() {
        assert_eq!(("native".parse(), "plain".parse()), (Ok(Format::Native), Ok(Format::Plain)));
        for text in ["custom", "", "Plain"] {
            assert!(text.parse::<Format>().expect_err(text).contains("give native or plain"));
        }
    }
}
