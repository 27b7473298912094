//! The process that protects the demo's database: this same binary, as a user would run it.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use seawall_core::{Failure, Kind};
use tokio::process::{Child, Command};

/// A running `seawall replicate`. It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Replicator {
    child: Child,
    log: PathBuf,
}

impl Replicator {
    /// Starts it; its output goes to `log`.
    pub(crate) fn start(database: &Path, vault: &Path, log: &Path) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| failure(log, &format!("it could not be started: {error}"));
        let program = std::env::current_exe().map_err(failed)?;
        let output = std::fs::File::create_new(log).map_err(failed)?;
        let child = Command::new(program)
            .args(["replicate", "--log-level", "info"])
            .args([database, vault])
            .env_remove("SEAWALL_CONFIG")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(output)
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        Ok(Self { child, log: log.to_owned() })
    }

    /// Whether it still runs.
    pub(crate) fn check(&mut self) -> Result<(), Failure> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(failure(&self.log, &format!("it ended early ({status})"))),
            Err(error) => Err(failure(&self.log, &error.to_string())),
        }
    }

    /// Ends it as a power cut would.
    pub(crate) async fn kill(mut self) -> Result<(), Failure> {
        self.check()?;
        self.child.kill().await.map_err(|error| failure(&self.log, &error.to_string()))
    }

    /// Asks it to end and waits until it has shipped everything.
    pub(crate) async fn stop(mut self, patience: Duration) -> Result<(), Failure> {
        self.check()?;
        let pid = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid {
            kill_process(pid, Signal::TERM).map_err(|error| failure(&self.log, &error.to_string()))?;
        }
        match tokio::time::timeout(patience, self.child.wait()).await {
            Ok(Ok(status)) if ExitStatus::success(&status) => Ok(()),
            Ok(Ok(status)) => Err(failure(&self.log, &format!("it did not end well ({status})"))),
            Ok(Err(error)) => Err(failure(&self.log, &error.to_string())),
            Err(_) => Err(failure(&self.log, "it did not end when it was asked to")),
        }
    }
}

fn failure(log: &Path, cause: &str) -> Failure {
    Failure::new(
        Kind::Unavailable,
        "demo.replicate",
        "seawall replicate",
        cause,
        format!("see its log, {}", log.display()),
    )
}
