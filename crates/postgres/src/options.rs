//! The options of one run.

use std::str::FromStr;

use seawall_archive::server::Limits;
use seawall_archive::{Codec, Sample, Timetable};

use crate::client::Target;

/// In which form a set keeps a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Seawall's own: read and restored by many connections, in parts too.
    #[default]
    Native,
    /// What `pg_dump --format=custom` writes.
    Custom,
    /// What `pg_dump --format=directory` writes: a file for each table.
    Directory,
    /// What `pg_dump --format=plain` writes: SQL.
    Plain,
}

impl Format {
    const ALL: [(&'static str, Self); 4] =
        [("native", Self::Native), ("custom", Self::Custom), ("directory", Self::Directory), ("plain", Self::Plain)];

    /// As `pg_dump` and the command line spell it.
    pub fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(_, format)| *format == self).map_or("native", |(name, _)| name)
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match Self::ALL.into_iter().find(|(name, _)| *name == text) {
            Some((_, format)) => Ok(format),
            None => Err(format!("\"{text}\" is no format: give native, custom, directory or plain")),
        }
    }
}

/// How the server is asked to write rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CopyFormat {
    /// As text, which everything reads.
    #[default]
    Text,
    /// In binary, where that means the same in every server. It is less work for the server in both directions.
    Binary,
}

impl CopyFormat {
    /// As COPY and the command line spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Binary => "binary",
        }
    }
}

impl FromStr for CopyFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Text, Self::Binary]
            .into_iter()
            .find(|format| format.name() == text)
            .ok_or_else(|| format!("\"{text}\" is none of COPY's formats: give text or binary"))
    }
}

/// How to make a set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DumpOptions {
    /// How much of the machine.
    pub limits: Limits,
    /// In which form.
    pub format: Format,
    /// For a sample instead of a backup: which part of the rows.
    pub sample: Option<Sample>,
    /// In the native form: how rows are read, where there is a choice.
    pub copy: CopyFormat,
    /// How frames are compressed.
    pub codec: Codec,
    /// The schedule by which such backups are made: the set records it.
    pub schedule: Option<Timetable>,
    /// Of a whole server: databases that are left out.
    pub excluded: Vec<String>,
    /// Of a whole server: whether the passwords of roles come along, as the server keeps them.
    pub role_passwords: bool,
    /// Of a whole server: tablespaces that are noted at another place than where they are, as both places.
    pub places: Vec<(String, String)>,
}

/// How to prove a set.
pub type ProveOptions = seawall_archive::ProveOptions<Target>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats() {
        for (name, format) in Format::ALL {
            assert_eq!((format.name(), name.parse()), (name, Ok(format)));
        }
        for text in ["tar", "", "Native"] {
            assert!(text.parse::<Format>().expect_err(text).contains("give native, custom, directory or plain"));
        }
    }

    #[test]
    fn formats_of_copy() {
        for format in [CopyFormat::Text, CopyFormat::Binary] {
            assert_eq!(format.name().parse(), Ok(format));
        }
        assert!("csv".parse::<CopyFormat>().expect_err("csv").contains("give text or binary"));
    }
}
