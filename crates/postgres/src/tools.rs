//! PostgreSQL's own tools: which of those that are installed fits, and running one.
//!
//! `pg_dump` knows every kind of object of every version; that knowledge isn't repeated here.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::path::{Path, PathBuf};
use std::process::Stdio;

use seawall_vault::Environment;
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, ChildStdin, Command};

use crate::client::{Target, child_environment};
use crate::{Error, Limits};

/// How many bytes of a tool's error output are kept.
const STDERR: u64 = 64 << 10;

/// How much of a tool's output is read at once.
const PIECE: usize = 1 << 20;

/// The exit status of `psql` that has no connection ("Exit Status" in its manual).
const NOT_CONNECTED: i32 = 2;

/// A tool of a major version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tool {
    pub(crate) path: PathBuf,
    pub(crate) major: u32,
}

/// The one to use, of those that are there: the oldest that is at least `least`, so that it says nothing that an older
/// server doesn't understand.
fn choose(found: &[Tool], least: u32) -> Option<&Tool> {
    found.iter().filter(|tool| tool.major >= least).min_by_key(|tool| tool.major)
}

/// The tool `name` of at least major version `least`.
pub(crate) async fn find(name: &str, least: u32, limits: &Limits, environment: &Environment) -> Result<Tool, Error> {
    let mut found = Vec::new();
    for folder in folders(limits, environment) {
        let path = folder.join(name);
        if path.is_file()
            && let Some(major) = major_of(&path).await
        {
            found.push(Tool { path, major });
            if major == least {
                break;
            }
        }
    }
    if let Some(tool) = choose(&found, least) {
        return Ok(tool.clone());
    }
    let cause = match found.iter().map(|tool| tool.major).max() {
        None => "it is not installed".to_owned(),
        Some(newest) => format!("version {least} or later is needed, and the newest that was found is {newest}"),
    };
    let next = format!("install postgresql-client-{least}, or name the folder of another one with --pg-bindir");
    Err(Error::Tool { tool: name.to_owned(), cause, next })
}

/// The folders to search. The packages' own folders come before PATH, which may have a wrapper that chooses a version.
fn folders(limits: &Limits, environment: &Environment) -> Vec<PathBuf> {
    if let Some(folder) = &limits.bindir {
        return vec![folder.clone()];
    }
    let mut folders = Vec::new();
    if let Ok(versions) = std::fs::read_dir("/usr/lib/postgresql") {
        folders.extend(versions.flatten().map(|version| version.path().join("bin")));
    }
    folders.extend((14..30).map(|major| PathBuf::from(format!("/usr/pgsql-{major}/bin"))));
    if let Some(path) = environment.get("PATH") {
        folders.extend(std::env::split_paths(path));
    }
    folders
}

async fn major_of(path: &Path) -> Option<u32> {
    let output = Command::new(path).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output().await.ok()?;
    parse_version(std::str::from_utf8(&output.stdout).ok()?)
}

/// The major version in `pg_dump (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)`.
fn parse_version(text: &str) -> Option<u32> {
    let version = text.split_once("(PostgreSQL) ")?.1;
    let digits = version.find(|c: char| !c.is_ascii_digit()).unwrap_or(version.len());
    version[..digits].parse().ok()
}

/// A tool at work on a server.
pub(crate) struct Running {
    name: String,
    child: Child,
    complaints: tokio::task::JoinHandle<String>,
}

impl Tool {
    /// Starts it. It ends when it is dropped. Its environment describes the server.
    pub(crate) fn start(&self, target: &Target, arguments: &[String]) -> Result<Running, Error> {
        self.spawn(arguments, child_environment(target)?, Stdio::null())
    }

    /// Whether PostgreSQL's programs can log in. `psql`, in the same folder, tells this by its exit status; no other
    /// program does. `None` if there is no `psql`, or it can't tell.
    pub(crate) async fn logs_in(&self, target: &Target) -> Option<bool> {
        let psql = Self { path: self.path.with_file_name("psql"), major: self.major };
        let arguments = ["--no-psqlrc", "--no-password", "--output=/dev/null", "--command=SELECT 1"].map(str::to_owned);
        let mut running = psql.start(target, &arguments).ok()?;
        match running.child.wait().await.ok()?.code() {
            Some(0) => Some(true),
            Some(NOT_CONNECTED) => Some(false),
            _ => None,
        }
    }

    /// Starts it on bytes that are written to it.
    pub(crate) fn filter(&self, arguments: &[String]) -> Result<(ChildStdin, Running), Error> {
        let mut running = self.spawn(arguments, Vec::new(), Stdio::piped())?;
        let stdin = running.child.stdin.take();
        Ok((stdin.ok_or_else(|| Error::Internal("a tool has no input".to_owned()))?, running))
    }

    /// Starts it on files alone.
    pub(crate) fn run(&self, arguments: &[String]) -> Result<Running, Error> {
        self.spawn(arguments, Vec::new(), Stdio::null())
    }

    fn spawn(
        &self,
        arguments: &[String],
        environment: Vec<(&'static str, String)>,
        stdin: Stdio,
    ) -> Result<Running, Error> {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut command = Command::new(&self.path);
        // What decides where and how it connects is ours.
        for (variable, _) in std::env::vars_os() {
            if variable.as_encoded_bytes().starts_with(b"PG") {
                command.env_remove(variable);
            }
        }
        command.args(arguments).envs(environment);
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        // With those that it starts itself, it ends when it is dropped.
        command.process_group(0);
        let failed = |error: std::io::Error| Error::Tool {
            tool: self.path.display().to_string(),
            cause: error.to_string(),
            next: "check that it can be run".to_owned(),
        };
        let mut child = command.spawn().map_err(failed)?;
        let stderr = child.stderr.take();
        let complaints = tokio::spawn(async move {
            let mut text = Vec::new();
            if let Some(mut stderr) = stderr {
                let _ = (&mut stderr).take(STDERR).read_to_end(&mut text).await;
                // The rest is read and dropped: a full pipe would stop the tool.
                let _ = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
            }
            String::from_utf8_lossy(&text).trim().to_owned()
        });
        Ok(Running { name, child, complaints })
    }
}

impl Running {
    /// Appends the tool's output to `buffer`, up to its capacity. Returns false at the end.
    pub(crate) async fn read(&mut self, buffer: &mut Vec<u8>) -> Result<bool, Error> {
        let Some(stdout) = self.child.stdout.as_mut() else { return Ok(false) };
        while buffer.len() < buffer.capacity() {
            let room = (buffer.capacity() - buffer.len()) as u64;
            let read = stdout.take(room).read_to_end(buffer).await;
            let read = read.map_err(|error| Error::Io { path: self.name.clone(), cause: error.to_string() })?;
            if read == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// All of the tool's output, when it has ended well.
    pub(crate) async fn all(mut self) -> Result<Vec<u8>, Error> {
        let mut output = Vec::new();
        loop {
            output.reserve(PIECE);
            if !self.read(&mut output).await? {
                break;
            }
        }
        self.finish().await?;
        Ok(output)
    }

    /// Waits for its end. Anything but success is an error with the tool's error output.
    pub(crate) async fn finish(mut self) -> Result<(), Error> {
        drop(self.child.stdout.take());
        let ended = self.child.wait().await;
        let complaints = (&mut self.complaints).await.unwrap_or_default();
        let cause = match ended {
            Ok(status) if status.success() => {
                if !complaints.is_empty() {
                    tracing::warn!("{}: {complaints}", self.name);
                }
                return Ok(());
            }
            Ok(status) => format!("{status}: {complaints}"),
            Err(error) => error.to_string(),
        };
        Err(Error::ToolFailed { tool: std::mem::take(&mut self.name), cause })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has no number any more when its end was seen.
        let group = self.child.id().and_then(|id| rustix::process::Pid::from_raw(i32::try_from(id).ok()?));
        if let Some(group) = group {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        for (text, major) in [
            ("pg_dump (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n", Some(15)),
            ("pg_restore (PostgreSQL) 18.6\n", Some(18)),
            ("pg_dump (PostgreSQL) 19beta3", Some(19)),
            ("mysqldump  Ver 10.19", None),
            ("pg_dump (PostgreSQL) ", None),
        ] {
            assert_eq!(parse_version(text), major, "{text}");
        }
    }

    #[test]
    fn the_oldest_that_fits_is_used() {
        let found: Vec<Tool> = [18, 15, 16].map(|major| Tool { path: PathBuf::new(), major }).into();
        for (least, chosen) in [(14, Some(15)), (15, Some(15)), (17, Some(18)), (19, None)] {
            assert_eq!(choose(&found, least).map(|tool| tool.major), chosen, "{least}");
        }
    }
}
