//! The mistakes that a configuration can have. A report names file, line, cause and next step.

use std::path::Path;

use seawall_core::{Failure, Kind};
use thiserror::Error;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Problem {
    /// The file is no YAML, or YAML of a kind that has no place in a configuration.
    #[error("this can't be read as YAML: {0}")]
    Syntax(String),
    /// A key that doesn't exist.
    #[error("unknown key \"{key}\" in {section}")]
    UnknownKey {
        /// The key as written.
        key: String,
        /// The section of the file with the key.
        section: String,
        /// The known key that looks most like it.
        nearest: Option<String>,
    },
    /// A key that must be there.
    #[error("{section} has no \"{key}\"")]
    Missing {
        /// The key.
        key: &'static str,
        /// The part of the file it is missing in.
        section: String,
    },
    /// A value that its key doesn't take.
    #[error("{key}: {expected}, not {found}")]
    Value {
        /// The key.
        key: String,
        /// The values that the key takes.
        expected: String,
        /// The value that was found.
        found: String,
    },
    /// A key or name that may occur only once.
    #[error("{what} is already used in line {first}")]
    Duplicate {
        /// The kind of thing that occurs twice.
        what: String,
        /// The line of its first occurrence.
        first: usize,
    },
    /// A setting of Litestream that Seawall doesn't have.
    #[error("{key}: Litestream has this setting, this version of Seawall doesn't ({reason})")]
    Unsupported {
        /// The key.
        key: String,
        /// What Seawall does instead, or doesn't do yet.
        reason: String,
    },
    /// A setting of Lightning Stream that asks for something Seawall doesn't do.
    #[error("{key}: this version of Seawall doesn't have what this setting asks for ({reason})")]
    NotDone {
        /// The key.
        key: String,
        /// What is missing.
        reason: String,
        /// What to do about it.
        next: &'static str,
    },
    /// An environment variable that isn't set.
    #[error("the environment variable {0} isn't set, or is empty")]
    Undefined(String),
    /// A place that can't be used as a vault.
    #[error("{cause}")]
    Vault {
        /// The mistake.
        cause: String,
        /// What to do about it.
        next: String,
    },
    /// The settings contradict each other.
    #[error("{0}")]
    Contradiction(String),
    /// The setting would let every client in.
    #[error("{cause}")]
    Unsafe {
        /// What would be.
        cause: String,
        /// The next step.
        next: String,
    },
}

impl Problem {
    /// Puts the problem on a line.
    pub fn at(self, line: usize) -> Location {
        Location { line: line.max(1), problem: self }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Syntax(_) => "config.syntax",
            Self::UnknownKey { .. } => "config.unknown-key",
            Self::Missing { .. } => "config.missing-key",
            Self::Value { .. } => "config.value",
            Self::Duplicate { .. } => "config.duplicate",
            Self::Unsupported { .. } | Self::NotDone { .. } => "config.unsupported",
            Self::Undefined(_) => "config.undefined-variable",
            Self::Vault { .. } => "config.vault",
            Self::Contradiction(_) => "config.contradiction",
            Self::Unsafe { .. } => "config.unsafe",
        }
    }

    fn next(&self) -> String {
        match self {
            Self::Syntax(_) => "correct the file there; indentation is by spaces".into(),
            Self::UnknownKey { nearest: Some(nearest), .. } => format!("did you mean \"{nearest}\"?"),
            Self::UnknownKey { .. } => "remove it, or see docs/configuration.md for the keys there are".into(),
            Self::Missing { key, .. } => format!("add \"{key}\""),
            Self::Value { .. } => "correct the value; docs/configuration.md has an example of each".into(),
            Self::Duplicate { .. } => "keep one of the two".into(),
            Self::Unsupported { .. } => {
                "remove it if you can do without, or stay with Litestream for this database".into()
            }
            Self::NotDone { next, .. } => (*next).into(),
            Self::Undefined(name) => format!("set {name}, or write $${{{name}}} if the text is meant as it is"),
            Self::Vault { next, .. } | Self::Unsafe { next, .. } => next.clone(),
            Self::Contradiction(_) => "decide for one of them".into(),
        }
    }
}

/// A problem and its line, before the file is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// The line, from 1.
    pub line: usize,
    /// The problem.
    pub problem: Problem,
}

/// A problem in a configuration file.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{file}:{line}: {problem}")]
pub struct ConfigError {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The problem.
    pub problem: Problem,
}

impl ConfigError {
    /// Names the file of a problem.
    pub fn new(file: &Path, location: Location) -> Self {
        Self { file: file.display().to_string(), line: location.line, problem: location.problem }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Failure::new(
            Kind::Usage,
            error.problem.code(),
            format!("{}:{}", error.file, error.line),
            error.problem.to_string(),
            error.problem.next(),
        )
    }
}
