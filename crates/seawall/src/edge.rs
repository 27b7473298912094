//! The process's inputs from outside. Only this file reads the environment.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seawall_agent::config::{Surroundings, absolute};
use seawall_agent::{Environment, Opener, state_folder};
use seawall_core::{Failure, Kind};

use crate::progress::ProgressForm;
use crate::prompt::Terminal;

/// The process's surroundings.
#[derive(Debug, Clone)]
pub(crate) struct Edge {
    /// Environment variables that are text.
    pub(crate) environment: Environment,
    /// The current folder.
    pub(crate) directory: PathBuf,
    /// The host's name.
    pub(crate) hostname: String,
    /// Whether a person reads standard error.
    pub(crate) terminal: bool,
    /// Whether standard input and standard output are a terminal.
    pub(crate) has_screen: bool,
    /// The file with the owner's keys that the command line names.
    pub(crate) identity: Option<PathBuf>,
    /// How progress is told, if the command line says it.
    pub(crate) progress: Option<ProgressForm>,
}

/// The variable that names the file with the owner's keys.
const IDENTITY: &str = "SEAWALL_IDENTITY_FILE";

impl Edge {
    /// The surroundings of this process.
    pub(crate) fn of_process() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self {
            environment: std::env::vars_os().filter_map(text).collect(),
            directory: std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
            hostname: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            terminal: std::io::stderr().is_terminal(),
            has_screen: std::io::stdin().is_terminal() && std::io::stdout().is_terminal(),
            identity: None,
            progress: None,
        }
    }

    /// The surroundings that a configuration may refer to.
    pub(crate) fn surroundings(&self) -> Surroundings<'_> {
        Surroundings { environment: &self.environment, directory: &self.directory, pid: std::process::id() }
    }

    /// An opener of databases and vaults, with the owner's keys that the command line or the environment names. It knows what a service
    /// of this host noted of several vaults. Blocks, and may ask for a passphrase.
    pub(crate) fn opener(&self, jobs: usize) -> Result<Opener, Failure> {
        let mut opener = Opener::new(self.environment.clone(), jobs);
        opener.find_state_in(state_folder(&self.environment));
        let file = self.identity_file();
        opener.identify(file.as_deref(), self.identity.is_some(), Arc::new(Terminal))?;
        Ok(opener)
    }

    /// The file with the owner's keys that the command line or the environment names.
    pub(crate) fn identity_file(&self) -> Option<PathBuf> {
        let by_environment = || self.environment.get(IDENTITY).map(PathBuf::from);
        self.identity.clone().or_else(by_environment).map(|file| self.absolute(&file))
    }

    /// Whether there is a key of the owner.
    pub(crate) fn has_identity(&self) -> bool {
        self.identity.is_some() || self.environment.get(IDENTITY).is_some()
    }

    /// Whether a person can be asked, and answers on standard input.
    pub(crate) fn can_ask(&self) -> bool {
        self.terminal && std::io::stdin().is_terminal()
    }

    /// The folder in which throw-away folders are made: `named`, or else the system's folder for temporary files.
    pub(crate) fn scratch(&self, named: Option<&Path>) -> PathBuf {
        let temporary = self.environment.get("TMPDIR").filter(|place| !place.is_empty());
        let temporary = temporary.map(|place| self.absolute(Path::new(place)));
        match named {
            Some(named) => self.absolute(named),
            None => seawall_host::scratch_place(temporary.as_deref()),
        }
    }

    /// `path` from the root.
    pub(crate) fn absolute(&self, path: &Path) -> PathBuf {
        absolute(path, &self.directory)
    }
}

/// A failure of the command line itself.
pub(crate) fn usage(code: &'static str, object: &str, cause: &str, next: &str) -> Failure {
    Failure::new(Kind::Usage, code, object, cause, next)
}
