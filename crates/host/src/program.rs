//! A program that the user named, run once with a time limit. No shell sees its words.
//!
//! The program gets a process group of its own. When the limit is over, or the work is dropped, the whole group is killed: a
//! script leaves no children behind. Its standard output is discarded, its standard error is that of this process.

use std::fmt;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// What is run.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// The program and its arguments.
    pub words: &'a [String],
    /// Variables beside those of this process.
    pub environment: &'a [(&'static str, String)],
    /// What it can read from its standard input.
    pub input: &'a [u8],
    /// How long it may take.
    pub limit: Duration,
}

/// Why a program didn't do its work.
#[derive(Debug)]
pub enum Unsuccessful {
    /// It couldn't be started.
    NotStarted(io::Error),
    /// It ended with a code other than 0, or by a signal.
    Ended(ExitStatus),
    /// It didn't end within its limit, and was killed with all that it started.
    TooLong(Duration),
}

impl fmt::Display for Unsuccessful {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotStarted(error) => write!(f, "it can't be started: {error}"),
            Self::Ended(status) => match (status.code(), status.signal()) {
                (Some(code), _) => write!(f, "it ended with code {code}"),
                (None, Some(signal)) => write!(f, "signal {signal} ended it"),
                (None, None) => f.write_str("it ended"),
            },
            Self::TooLong(limit) => write!(f, "it didn't end within {limit:?} and was killed"),
        }
    }
}

/// Kills a process group when it is dropped, unless its leader ended.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            // The leader isn't waited for yet, so that its number is still its own.
            let _gone = kill_process_group(leader, Signal::KILL);
        }
    }
}

/// Runs a program until it ends.
///
/// # Errors
/// When it doesn't end with code 0 within its limit.
pub async fn run(run: Run<'_>) -> Result<(), Unsuccessful> {
    let empty = || Unsuccessful::NotStarted(io::Error::new(io::ErrorKind::InvalidInput, "no program is named"));
    let (program, arguments) = run.words.split_first().ok_or_else(empty)?;
    // A variable can't hold a zero byte, and without the variable the program couldn't be started.
    let variables = run.environment.iter().map(|(name, value)| (name, value.replace('\0', " ")));
    let mut child = Command::new(program)
        .args(arguments)
        .envs(variables)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(Unsuccessful::NotStarted)?;
    let mut group = Group(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw));
    let input = child.stdin.take();
    let feed = async {
        if let Some(mut input) = input {
            // A program needn't read it.
            let _unread = input.write_all(run.input).await;
        }
        std::future::pending::<()>().await;
    };
    let ended = tokio::select! {
        ended = child.wait() => ended.map_err(Unsuccessful::NotStarted)?,
        () = feed => return Err(Unsuccessful::TooLong(run.limit)),
        () = tokio::time::sleep(run.limit) => {
            drop(group);
            let _killed = child.wait().await;
            return Err(Unsuccessful::TooLong(run.limit));
        }
    };
    group.0 = None;
    if ended.success() { Ok(()) } else { Err(Unsuccessful::Ended(ended)) }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "these tests read what a program wrote")]
mod tests {
    use super::*;

    fn words(script: &str) -> Vec<String> {
        ["sh", "-c", script].map(str::to_owned).to_vec()
    }

    #[tokio::test]
    async fn how_programs_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("out").display().to_string();
        let environment = [("SEAWALL_TEST_NAME", "a\0b".to_owned()), ("SEAWALL_TEST_FILE", file.clone())];
        let long = Duration::from_secs(60);
        for (script, expected) in [
            ("cat > \"$SEAWALL_TEST_FILE\"; echo \"$SEAWALL_TEST_NAME\" >> \"$SEAWALL_TEST_FILE\"", "Ok(())"),
            ("exit 0 # without reading", "Ok(())"),
            ("exit 3", "Err(\"it ended with code 3\")"),
            ("kill -9 $$", "Err(\"signal 9 ended it\")"),
        ] {
            let words = words(script);
            let ended = run(Run { words: &words, environment: &environment, input: b"hello\n", limit: long }).await;
            assert_eq!(format!("{:?}", ended.map_err(|error| error.to_string())), expected, "{script}");
        }
        assert_eq!(std::fs::read_to_string(&file).expect("written"), "hello\na b\n");
        let missing = ["/nowhere/at-all".to_owned()];
        let ended = run(Run { words: &missing, environment: &[], input: b"", limit: long }).await;
        assert!(matches!(ended, Err(Unsuccessful::NotStarted(_))), "{ended:?}");
        let ended = run(Run { words: &[], environment: &[], input: b"", limit: long }).await;
        assert!(matches!(ended, Err(Unsuccessful::NotStarted(_))), "{ended:?}");
    }

    /// Also what it started: the sleep has the file open, and the lock on it ends with it.
    #[tokio::test]
    async fn at_the_limit_all_of_it_is_killed() {
        let folder = tempfile::tempdir().expect("a folder");
        let fifo = folder.path().join("pid").display().to_string();
        let words = words("sleep 600 & echo $! > \"$SEAWALL_TEST_FILE\"; wait");
        let environment = [("SEAWALL_TEST_FILE", fifo.clone())];
        let input = vec![0; 1 << 20];
        let limit = Duration::from_secs(2);
        let ended = run(Run { words: &words, environment: &environment, input: &input, limit }).await;
        assert!(matches!(ended, Err(Unsuccessful::TooLong(_))), "{ended:?}");
        // On a very slow machine it was killed before it began.
        let Ok(pid) = std::fs::read_to_string(&fifo).unwrap_or_default().trim().parse::<i32>() else { return };
        let pid = Pid::from_raw(pid).expect("a process");
        for _ in 0..600 {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
            if stat.is_empty() || stat.contains(") Z ") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("the sleep is still there");
    }
}
