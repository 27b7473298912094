//! The application that `--exec` runs under protection.
//!
//! It starts once every database has settled, gets the signals that we get, and its end is ours: everything it
//! committed is shipped, and its exit code becomes our own.

use std::io::IsTerminal as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use seawall_core::{Failure, Kind, Phase, Shutdown};
use tokio::process::{Child, Command};
use tokio::sync::watch;

use crate::fleet::Fleet;
use crate::process::signals::Stop;

/// How often the databases are asked whether they have settled, before the child starts.
const SETTLE_POLL: Duration = Duration::from_millis(50);

/// A command line, split into words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecCommand {
    program: String,
    arguments: Vec<String>,
}

impl ExecCommand {
    /// Splits `line` as a shell does, without running one: quotes and backslashes count, variables and globs don't.
    pub fn parse(line: &str) -> Result<Self, Failure> {
        let words = shell_words::split(line).map_err(|error| bad_command(&error.to_string()))?;
        let mut words = words.into_iter();
        let program = words.next().ok_or_else(|| bad_command("it is empty"))?;
        Ok(Self { program, arguments: words.collect() })
    }
}

/// Returns once every database is protected, or is known not to be for a reason that waiting here won't cure: it
/// doesn't exist yet (the child may make it), its vault is away, or its protection ended (the application must not
/// wait for us, I4).
pub(crate) async fn settled(fleet: &Fleet, shutdown: &Shutdown) {
    for member in fleet.all() {
        let (Some(engine), name) = (member.engine, member.config.source().to_string()) else { continue };
        while !shutdown.requested() && fleet.find(&name).is_some_and(|member| member.running) {
            // Before its first word a database has no status at all.
            if engine.status().await.is_ok_and(|status| is_settled(status.phase)) {
                break;
            }
            tokio::time::sleep(SETTLE_POLL).await;
        }
    }
}

fn is_settled(phase: Phase) -> bool {
    match phase {
        Phase::Stopped | Phase::Starting | Phase::Base => false,
        Phase::Waiting | Phase::Protecting | Phase::Failing | Phase::Halted => true,
        _ => true,
    }
}

/// Runs the command until it ends and returns its exit code, then begins the graceful stop.
///
/// The first signal is handed to the child, which then has `bound` to end before it is killed; a stop at once
/// kills it at once. SIGHUP is not handed on: it is about our configuration.
pub(crate) async fn run(
    command: &ExecCommand,
    shutdown: &Shutdown,
    mut first: watch::Receiver<Option<Stop>>,
    bound: impl Fn() -> Duration,
) -> Result<u8, Failure> {
    let mut child = Command::new(&command.program)
        .args(&command.arguments)
        .spawn()
        .map_err(|error| cannot_start(&command.program, &error.to_string()))?;
    tracing::info!(program = command.program, pid = child.id(), "started");

    let ended = tokio::select! {
        ended = child.wait() => ended,
        stop = stop_asked(&mut first) => end_child(&mut child, stop, shutdown, bound()).await,
        () = shutdown.immediate() => kill(&mut child).await,
    };
    shutdown.begin();
    let code = exit_code(ended.map_err(|error| cannot_start(&command.program, &error.to_string()))?);
    tracing::info!(program = command.program, code, "ended");
    Ok(code)
}

async fn stop_asked(first: &mut watch::Receiver<Option<Stop>>) -> Stop {
    match first.wait_for(Option::is_some).await {
        Ok(stop) => (*stop).unwrap_or(Stop::Terminate),
        Err(_) => std::future::pending().await,
    }
}

async fn end_child(child: &mut Child, stop: Stop, shutdown: &Shutdown, bound: Duration) -> std::io::Result<ExitStatus> {
    // A terminal gives SIGINT to all its programs: the child has it already.
    if !(stop == Stop::Interrupt && std::io::stdin().is_terminal()) {
        send(child, stop);
    }
    tokio::select! {
        ended = child.wait() => ended,
        () = shutdown.immediate() => kill(child).await,
        () = tokio::time::sleep(bound) => {
            tracing::warn!("the program did not end within the shutdown timeout and is killed");
            kill(child).await
        }
    }
}

fn send(child: &Child, stop: Stop) {
    let signal = match stop {
        Stop::Terminate => Signal::TERM,
        Stop::Interrupt => Signal::INT,
    };
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    if let Some(pid) = pid
        && let Err(error) = kill_process(pid, signal)
    {
        tracing::warn!(%error, "the signal could not be handed to the program");
    }
}

async fn kill(child: &mut Child) -> std::io::Result<ExitStatus> {
    child.kill().await?;
    child.wait().await
}

/// What a shell would say: the code, or 128 and the signal's number.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// The command line itself is not shown: it may hold a secret (I13).
fn bad_command(cause: &str) -> Failure {
    Failure::new(
        Kind::Usage,
        "agent.exec-command",
        "exec",
        format!("this is no command: {cause}"),
        "give a program with its arguments, quoted as in a shell",
    )
}

fn cannot_start(program: &str, cause: &str) -> Failure {
    Failure::new(
        Kind::NotFound,
        "agent.exec-failed",
        program,
        format!("the program can't be run: {cause}"),
        "give the path of a program that exists and may be executed",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(line: &str) -> ExecCommand {
        ExecCommand::parse(line).expect("a command")
    }

    #[test]
    fn a_line_becomes_words() {
        let parsed = command(r#"sh -c 'exit 3' "two words" a\ b"#);
        assert_eq!(parsed.program, "sh");
        assert_eq!(parsed.arguments, ["-c", "exit 3", "two words", "a b"]);
        assert_eq!(ExecCommand::parse("sh 'open").map_err(|failure| failure.code), Err("agent.exec-command"));
        assert_eq!(ExecCommand::parse("  ").map_err(|failure| failure.code), Err("agent.exec-command"));
    }

    #[tokio::test]
    async fn its_exit_code_is_ours() {
        for (line, code) in [("true", 0), ("sh -c 'exit 7'", 7), ("sh -c 'kill -9 $$'", 137)] {
            let shutdown = Shutdown::new();
            let first = watch::Sender::new(None);
            let ended = run(&command(line), &shutdown, first.subscribe(), || Duration::from_secs(5)).await;
            assert_eq!(ended, Ok(code), "{line}");
            assert!(shutdown.requested(), "its end is ours");
        }
    }

    #[tokio::test]
    async fn it_gets_our_signal() {
        let shutdown = Shutdown::new();
        let first = watch::Sender::new(Some(Stop::Terminate));
        let child = command("sh -c 'trap \"exit 9\" TERM; while :; do sleep 0.02; done'");
        // The shell may not have set its trap yet when the signal comes: then it dies of it.
        let code = run(&child, &shutdown, first.subscribe(), || Duration::from_secs(5)).await;
        assert!(matches!(code, Ok(9 | 143)), "{code:?}");
    }

    #[tokio::test]
    async fn it_is_killed_when_it_will_not_end() {
        for abort in [false, true] {
            let shutdown = Shutdown::new();
            let first = watch::Sender::new(Some(Stop::Terminate));
            if abort {
                shutdown.abort();
            }
            let child = command("sh -c 'trap \"\" TERM; while :; do sleep 0.02; done'");
            let code = run(&child, &shutdown, first.subscribe(), || Duration::from_millis(200)).await;
            assert!(matches!(code, Ok(137 | 143)), "{code:?}");
        }
    }

    #[tokio::test]
    async fn a_program_that_is_not_there() {
        let first = watch::Sender::new(None);
        let result =
            run(&command("/nowhere/at-all"), &Shutdown::new(), first.subscribe(), || Duration::from_secs(1)).await;
        assert_eq!(result.map_err(|failure| failure.code), Err("agent.exec-failed"));
    }
}
