//! The log: lines or JSON on standard error, at a level that flag, environment or configuration set.

use std::io::IsTerminal as _;
use std::str::FromStr;
use std::sync::OnceLock;

use serde::Serialize;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Registry, reload};

/// What is logged can be changed while the process runs.
static FILTER: OnceLock<reload::Handle<Targets, Registry>> = OnceLock::new();

/// How much is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Everything, including what happens for each commit.
    Trace,
    /// What is decided and why.
    Debug,
    /// What an operator wants to know: starts, stops, changes of state.
    Info,
    /// What needs attention soon.
    Warn,
    /// What needs attention now.
    Error,
}

impl FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.to_ascii_lowercase().as_str() {
            "trace" => Ok(Self::Trace),
            "debug" => Ok(Self::Debug),
            "info" => Ok(Self::Info),
            "warn" | "warning" => Ok(Self::Warn),
            "error" => Ok(Self::Error),
            _ => Err(format!("\"{text}\" is no level: give trace, debug, info, warn or error")),
        }
    }
}

/// The shape of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
    /// For people at a terminal: several lines for each event, in colour where a terminal shows it.
    Pretty,
}

impl FromStr for LogFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.to_ascii_lowercase().as_str() {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            "pretty" => Ok(Self::Pretty),
            _ => Err(format!("\"{text}\" is no log format: give text, json or pretty")),
        }
    }
}

/// Whether log lines begin with the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Times {
    /// Each line begins with the time.
    Told,
    /// The program that keeps the log adds the time.
    Left,
}

/// Begins logging to standard error. A second call in one process changes nothing.
///
/// Libraries of others stay at warnings and errors whatever the level: their details can hold what must not be
/// logged (I13).
pub fn start(level: Level, format: LogFormat, times: Times) {
    let (filter, changed) = reload::Layer::new(filter(level));
    let registry = tracing_subscriber::registry().with(filter);
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    let started = match format {
        LogFormat::Text if times == Times::Left => registry.with(layer.without_time()).try_init(),
        LogFormat::Json if times == Times::Left => {
            registry.with(layer.without_time().json().flatten_event(true)).try_init()
        }
        LogFormat::Text => registry.with(layer).try_init(),
        LogFormat::Json => registry.with(layer.json().flatten_event(true)).try_init(),
        LogFormat::Pretty => {
            registry.with(layer.with_ansi(std::io::stderr().is_terminal()).pretty().with_file(false)).try_init()
        }
    };
    if started.is_err() {
        tracing::debug!("logging had begun already");
    } else {
        // The first of a process, because the subscriber is.
        let _first = FILTER.set(changed);
    }
}

/// Logs at another level from now on. Without a log nothing happens.
pub(crate) fn set_level(level: Level) {
    if let Some(Err(error)) = FILTER.get().map(|filter_in_use| filter_in_use.reload(filter(level))) {
        tracing::debug!(%error, "the level of the log can't be changed");
    }
}

fn filter(level: Level) -> Targets {
    let ours = match level {
        Level::Trace => LevelFilter::TRACE,
        Level::Debug => LevelFilter::DEBUG,
        Level::Info => LevelFilter::INFO,
        Level::Warn => LevelFilter::WARN,
        Level::Error => LevelFilter::ERROR,
    };
    Targets::new().with_default(ours.min(LevelFilter::WARN)).with_target("seawall", ours)
}
