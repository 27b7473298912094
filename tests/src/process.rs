//! Programs under test: started, signalled, waited for with a deadline, and never left behind.

use std::fmt;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::wait;

/// A running program, killed when this is dropped. It stays in the test's process group, which nextest kills when a
/// test takes too long.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    out: File,
    err: File,
    status: Option<ExitStatus>,
}

impl Process {
    /// Starts a program. Its output is kept, and shown if the test fails.
    pub fn spawn(name: &str, command: &mut Command) -> Self {
        let err = tempfile::tempfile().unwrap();
        let stderr = err.try_clone().unwrap().into();
        Self::spawn_with(name, command, err, stderr)
    }

    /// Starts a program whose error output goes to `stderr`, and from there to `err`.
    pub(crate) fn spawn_with(name: &str, command: &mut Command, err: File, stderr: Stdio) -> Self {
        Self::spawn_reading(name, command, Stdio::null(), err, stderr)
    }

    /// The same, for a program that reads `stdin`.
    pub(crate) fn spawn_reading(name: &str, command: &mut Command, stdin: Stdio, err: File, stderr: Stdio) -> Self {
        let out = tempfile::tempfile().unwrap();
        let stdout = out.try_clone().unwrap().into();
        Self::spawn_between(name, command, (stdin, stdout, stderr), (out, err))
    }

    /// Starts a program whose input, output and error output are these. What arrives in the files is its output.
    pub(crate) fn spawn_between(
        name: &str,
        command: &mut Command,
        (stdin, stdout, stderr): (Stdio, Stdio, Stdio),
        (out, err): (File, File),
    ) -> Self {
        let child = command
            .stdin(stdin)
            .stdout(stdout)
            .stderr(stderr)
            .spawn()
            .unwrap_or_else(|e| panic!("start {command:?}: {e}"));
        // The command would keep its end open.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let name = format!("{name} {:?}", command.get_args().collect::<Vec<_>>());
        Self { name, child, out, err, status: None }
    }

    /// Its number.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Ends it at once, as a power cut would.
    pub fn kill_9(&mut self) {
        if self.running() {
            let _ = self.child.kill();
            self.status = Some(self.child.wait().unwrap());
        }
    }

    /// Asks it to end.
    pub fn terminate(&self) {
        let _ = kill_process(self.pid(), Signal::TERM);
    }

    /// Hangs up, as a terminal that is closed does, and a service manager that wants a reload.
    pub fn hang_up(&self) {
        let _ = kill_process(self.pid(), Signal::HUP);
    }

    /// Interrupts it, as Ctrl-C does.
    pub fn interrupt(&self) {
        let _ = kill_process(self.pid(), Signal::INT);
    }

    /// Whether it is still there.
    pub fn running(&mut self) -> bool {
        if self.status.is_none() {
            self.status = self.child.try_wait().unwrap();
        }
        self.status.is_none()
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When it has not ended within `limit`.
    pub fn wait(&mut self, limit: Duration) -> Output {
        let what = format!("{} to end", self.name);
        let status = wait::until(&what, limit, || if self.running() { None } else { self.status });
        Output { name: self.name.clone(), status, stdout: read(&mut self.out), stderr: read(&mut self.err) }
    }

    /// Asks it to end, and waits for that.
    pub fn stop(&mut self) -> Output {
        self.terminate();
        self.wait(Duration::from_secs(60))
    }

    /// Its output until now.
    pub fn stdout(&mut self) -> String {
        read(&mut self.out)
    }

    /// Its error output until now.
    pub fn stderr(&mut self) -> String {
        read(&mut self.err)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill_9();
        if std::thread::panicking() {
            let (out, err) = (read(&mut self.out), read(&mut self.err));
            eprintln!("---- {} ({:?})\n{}{}", self.name, self.status, tail(&out), tail(&err));
        }
    }
}

/// Reads a file that another process may be writing. The child shares the descriptor's offset, so the file is opened
/// again.
fn read(file: &mut File) -> String {
    use std::os::fd::AsRawFd;
    let mut text = Vec::new();
    let mut own = File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap();
    own.rewind().unwrap();
    own.read_to_end(&mut text).unwrap();
    String::from_utf8_lossy(&text).into_owned()
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(60)..].iter().map(|line| format!("{line}\n")).collect()
}

/// The output and exit code of a program that has ended.
#[derive(Debug, Clone)]
pub struct Output {
    name: String,
    status: ExitStatus,
    /// Its output.
    pub stdout: String,
    /// Its error output.
    pub stderr: String,
}

impl Output {
    /// Its exit code; 128 and the signal's number if one ended it, as a shell has it.
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| 128 + self.status.signal().unwrap_or(0))
    }

    /// Insists on an exit code.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code(), code, "{self}");
        self
    }

    /// Insists on success.
    #[track_caller]
    pub fn ok(self) -> Self {
        self.exits(0)
    }

    /// Its output as JSON, which must be all there is.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("no JSON: {e}\n{self}"))
    }
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ended with {}\n{}{}", self.name, self.status, tail(&self.stdout), tail(&self.stderr))
    }
}

/// Runs a program to its end, within two minutes.
pub fn run(name: &str, command: &mut Command) -> Output {
    Process::spawn(name, command).wait(Duration::from_secs(120))
}
