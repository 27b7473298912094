//! The commands that ask a running process over its control socket: `info`, `list`, `register`, `unregister`, `start`,
//! `stop` and `sync`.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use seawall_agent::{Control, Info, Listed, Registered, Stopped, Synced};
use seawall_core::Failure;
use serde::Serialize;

use super::flags::{self, Flag, Flags};
use super::ltx::seconds;
use super::{Answer, Stop, config, json};
use crate::edge::Edge;
use crate::runtime;

/// Where Litestream's control socket is unless another one is named.
const SOCKET: &str = "/var/run/litestream.sock";

const SOCKET_FLAG: Flag = flags::value("socket");
const TIMEOUT: Flag = flags::value("timeout");
const JSON: Flag = flags::switch("json");

/// Which of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    Info,
    List,
    Register,
    Unregister,
    Start,
    Stop,
    Sync,
}

impl Command {
    fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::List => "list",
            Self::Register => "register",
            Self::Unregister => "unregister",
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Sync => "sync",
        }
    }

    fn flags(self) -> Vec<Flag> {
        let mut known = vec![SOCKET_FLAG, TIMEOUT, JSON];
        match self {
            Self::Register => known.push(flags::value("replica")),
            Self::Unregister => known.push(flags::switch("dry-run")),
            Self::Sync => known.push(flags::switch("wait")),
            Self::Info | Self::List | Self::Start | Self::Stop => {}
        }
        known
    }

    /// How many seconds it may take if nothing is said.
    fn patience(self) -> u64 {
        if matches!(self, Self::Info | Self::List) { 10 } else { 30 }
    }

    /// Whether a timeout of zero is refused. For the other requests it is only of no use.
    fn needs_time(self) -> bool {
        matches!(self, Self::Info | Self::List | Self::Sync)
    }
}

/// A request and its recipient.
#[derive(Debug)]
struct Asked {
    /// The socket as it was given.
    socket: String,
    control: Control,
    within: Duration,
    json: bool,
}

/// Runs a command.
pub(super) fn run(command: Command, arguments: &[String], edge: &Edge) -> Answer {
    let flags = flags::parse(&command.flags(), arguments)?;
    let within = timeout(command, &flags)?;
    let socket = flags.get("socket").unwrap_or(SOCKET).to_owned();
    let control = Control::new(&config::path(&socket, edge));
    let asked = Asked { socket, control, within, json: flags.is_set("json") };
    match command {
        Command::Info => nothing_more(&flags).and_then(|()| info(&asked)),
        Command::List => nothing_more(&flags).and_then(|()| list(&asked)),
        Command::Register => register(&asked, &flags, edge),
        Command::Unregister if flags.is_set("dry-run") => rehearse(&asked, &database(command, &flags, edge)?),
        Command::Unregister => unregister(&asked, &database(command, &flags, edge)?),
        Command::Start | Command::Stop => change(command, &asked, &database(command, &flags, edge)?),
        Command::Sync => sync(&asked, &database(command, &flags, edge)?, flags.is_set("wait")),
    }
}

fn info(asked: &Asked) -> Answer {
    let info = runtime::run(asked.in_time(asked.control.info())).map_err(|failure| told("info", failure))?;
    if asked.json {
        // Litestream doesn't report a configuration.
        return json(&Info { config: None, ..info });
    }
    let Info { version, pid, uptime_seconds, started_at, database_count, config: _ } = info;
    Ok(format!(
        "Litestream {version}\n  PID:        {pid}\n  Uptime:     {}\n  Started at: {}\n  Databases:  {database_count}\n",
        span(uptime_seconds),
        seconds(started_at),
    ))
}

fn list(asked: &Asked) -> Answer {
    #[derive(Serialize)]
    struct Row {
        path: String,
        status: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        last_sync_at: Option<seawall_core::Moment>,
    }
    #[derive(Serialize)]
    struct Rows {
        databases: Vec<Row>,
    }
    let row = |Listed { path, status, last_sync_at, .. }| Row { path, status, last_sync_at };
    let listed = runtime::run(asked.in_time(asked.control.list())).map_err(|failure| told("list", failure))?;
    let databases: Vec<Row> = listed.into_iter().map(row).collect();
    if asked.json {
        return json(&Rows { databases });
    }
    if databases.is_empty() {
        return Ok("No databases configured\n".to_owned());
    }
    let line = |row: &Row| {
        let last = row.last_sync_at.map_or_else(|| "never".to_owned(), seconds);
        format!("{} [{}] (last sync: {last})\n", row.path, row.status)
    };
    Ok(databases.iter().map(line).collect())
}

fn register(asked: &Asked, flags: &Flags, edge: &Edge) -> Answer {
    let path = PathBuf::from(database(Command::Register, flags, edge)?);
    let hint = "litestream register -replica s3://bucket/prefix /path/to/db";
    let replica = flags.get("replica").ok_or_else(|| Stop::hinted("-replica is required", hint))?;
    let asking = asked.control.register(&path, Some(replica), None, asked.within);
    let Registered { status, path, .. } = runtime::run(asking).map_err(|failure| told("register", failure))?;
    let status = if asked.json { status } else { status.replace('_', " ") };
    asked.answer(&[("status", &status), ("db_path", &path), ("replica", &replica), ("socket", &asked.socket)])
}

fn unregister(asked: &Asked, path: &str) -> Answer {
    let asking = asked.control.unregister(path, asked.within);
    let Stopped { status, path, txid } = runtime::run(asking).map_err(|failure| told("unregister", failure))?;
    asked.answer(&[("status", &status), ("db_path", &path), ("final_txid", &txid), ("socket", &asked.socket)])
}

/// A rehearsal of `unregister`. Litestream has neither a confirmation for it nor JSON.
fn rehearse(asked: &Asked, path: &str) -> Answer {
    Ok(format!(
        "Dry run: unregister request preview\n  database: {path}\n  socket: {}\n  \
         replicas: daemon-managed replica for this database\n  \
         final sync: daemon close will sync the database and replica before the command completes\n  timeout: {}s\n\
         No unregister request was sent.\n",
        asked.socket,
        asked.within.as_secs(),
    ))
}

fn change(command: Command, asked: &Asked, path: &str) -> Answer {
    let (control, within) = (&asked.control, asked.within);
    let asking = async {
        match command {
            Command::Start => control.start(path, within).await,
            _ => control.stop(path, within).await,
        }
    };
    let Stopped { status, path, txid } = runtime::run(asking).map_err(|failure| told(command.name(), failure))?;
    let state = if command == Command::Start { "running" } else { "stopped" };
    asked.answer(&[
        ("status", &status),
        ("db_path", &path),
        ("state", &state),
        ("txid", &txid),
        ("socket", &asked.socket),
    ])
}

#[expect(clippy::disallowed_methods, reason = "a command tells how long it took")]
fn sync(asked: &Asked, path: &str, wait: bool) -> Answer {
    let began = Instant::now();
    let asking = asked.control.sync(path, wait, asked.within);
    let synced = runtime::run(asking).map_err(|failure| told("sync", failure))?;
    let Synced { path, txid, replicated_txid, .. } = synced;
    let took = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let (path, txid, took) =
        (("db_path", &path as &dyn Told), ("txid", &txid as &dyn Told), ("duration_ms", &took as _));
    match wait {
        true => asked.answer(&[path, txid, ("replica_txid", &replicated_txid), took]),
        false => asked.answer(&[path, txid, took]),
    }
}

/// A value in an answer, as text or as JSON.
trait Told {
    fn text(&self) -> String;
    fn value(&self) -> serde_json::Value;
}

impl<T: std::fmt::Display + Serialize> Told for T {
    fn text(&self) -> String {
        self.to_string()
    }

    fn value(&self) -> serde_json::Value {
        serde_json::json!(self)
    }
}

impl Asked {
    /// An answer line by line, or as a document in the same order.
    fn answer(&self, fields: &[(&str, &dyn Told)]) -> Answer {
        if !self.json {
            return Ok(fields.iter().map(|(name, value)| format!("{name}: {}\n", value.text())).collect());
        }
        let lines: Vec<String> =
            fields.iter().map(|(name, value)| format!("  \"{name}\": {}", value.value())).collect();
        Ok(format!("{{\n{}\n}}\n", lines.join(",\n")))
    }

    /// Waits for an immediate answer no longer than the timeout.
    async fn in_time<T>(&self, asking: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        let late = || {
            let next = "give it more time with -timeout, or see its log";
            Failure::new(seawall_core::Kind::Unavailable, "agent.no-answer", &self.socket, "no answer in time", next)
        };
        tokio::time::timeout(self.within, asking).await.unwrap_or_else(|_| Err(late()))
    }
}

fn nothing_more(flags: &Flags) -> Result<(), Stop> {
    if flags.arguments.is_empty() { Ok(()) } else { Err(Stop::error("too many arguments")) }
}

/// The file of the database that the command is about.
fn database(command: Command, flags: &Flags, edge: &Edge) -> Result<String, Stop> {
    let options = if command == Command::Register { " -replica s3://bucket/prefix" } else { "" };
    let hint = || format!("litestream {}{options} /path/to/db", command.name());
    let text = flags.only_argument()?.ok_or_else(|| Stop::hinted("database path required", hint()))?;
    Ok(config::path(text, edge).display().to_string())
}

fn timeout(command: Command, flags: &Flags) -> Result<Duration, Stop> {
    let Some(text) = flags.get("timeout") else { return Ok(Duration::from_secs(command.patience())) };
    let wrong = || Stop::Usage(format!("invalid value \"{text}\" for flag -timeout: parse error"));
    let seconds: i64 = text.parse().map_err(|_| wrong())?;
    match u64::try_from(seconds) {
        Ok(0) | Err(_) if command.needs_time() => Err(Stop::error("timeout must be greater than 0")),
        // Litestream's process takes its own default then.
        Ok(0) | Err(_) => Ok(Duration::from_secs(command.patience())),
        Ok(seconds) => Ok(Duration::from_secs(seconds)),
    }
}

/// A refusal in Litestream's words, where it has some for it.
fn told(command: &str, failure: Failure) -> Stop {
    match failure.code {
        "agent.no-process" => {
            Stop::error(format!("failed to connect to control socket: {}: {}", failure.object, failure.cause))
        }
        "agent.refused" => Stop::error(format!("{command} failed: {}", failure.cause)),
        "agent.unknown-database" => Stop::error(format!("{command} failed: database not found: {}", failure.object)),
        "agent.not-running" => Stop::error(format!("{command} failed: database not open: {}", failure.object)),
        _ => match Stop::from(failure) {
            Stop::Error { message, hint } => Stop::Error { message: format!("{command} failed: {message}"), hint },
            other => other,
        },
    }
}

/// Whole seconds as Go writes them.
fn span(seconds: u64) -> String {
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{rest}s"),
        (0, _) => format!("{minutes}m{rest}s"),
        _ => format!("{hours}h{minutes}m{rest}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_as_go_writes_them() {
        for (seconds, text) in [(0, "0s"), (59, "59s"), (60, "1m0s"), (3600, "1h0m0s"), (90_061, "25h1m1s")] {
            assert_eq!(span(seconds), text);
        }
    }

    #[test]
    fn how_long_it_may_take() {
        let within = |command: Command, line: &str| {
            let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            timeout(command, &flags::parse(&command.flags(), &arguments)?)
        };
        assert_eq!(within(Command::Info, ""), Ok(Duration::from_secs(10)));
        assert_eq!(within(Command::Stop, "-timeout 7"), Ok(Duration::from_secs(7)));
        assert_eq!(within(Command::Stop, "-timeout 0"), Ok(Duration::from_secs(30)));
        for command in [Command::Info, Command::List, Command::Sync] {
            assert_eq!(within(command, "-timeout -1"), Err(Stop::error("timeout must be greater than 0")));
        }
        assert!(matches!(within(Command::Sync, "-timeout soon"), Err(Stop::Usage(_))));
        assert!(matches!(within(Command::Start, "-wait"), Err(Stop::Usage(_))));
    }

    #[test]
    fn answers_line_by_line_and_as_a_document() {
        let asked = |json| Asked {
            socket: "/s".into(),
            control: Control::new(std::path::Path::new("/s")),
            within: Duration::ZERO,
            json,
        };
        let fields: [(&str, &dyn Told); 2] = [("db_path", &"/a \"b\".db"), ("txid", &7_u64)];
        assert_eq!(asked(false).answer(&fields), Ok("db_path: /a \"b\".db\ntxid: 7\n".into()));
        assert_eq!(
            asked(true).answer(&fields),
            Ok("{\n  \"db_path\": \"/a \\\"b\\\".db\",\n  \"txid\": 7\n}\n".into())
        );
    }
}
