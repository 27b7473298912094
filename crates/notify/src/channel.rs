//! The ways to people, as a configuration has them.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use seawall_config::pattern::Pattern;
use seawall_core::Severity;
use seawall_vault::Secret;

use crate::payload::{Escape, Text};

/// More than any token, URL or password has.
const LONGEST: u64 = 64 << 10;

/// One way to people, and what it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Channel {
    /// Its name, which no other channel has.
    pub name: String,
    /// The mildest severity that it is told of.
    pub severity: Severity,
    /// The names of the databases that it is told of; none means all.
    pub databases: Vec<Pattern>,
    /// An alarm that ended is not told again for this long after it was told.
    pub interval: Duration,
    /// After which time an alarm that is still there is told again; `None` is never.
    pub remind: Option<Duration>,
    /// How long one attempt may take.
    pub timeout: Duration,
    /// The way itself.
    pub way: Way,
}

impl Channel {
    /// Whether it is told of a database.
    pub(crate) fn concerns(&self, database: &str) -> bool {
        self.databases.is_empty() || self.databases.iter().any(|pattern| pattern.matches(database))
    }
}

/// How a message gets there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// The message as JSON, signed if there is a secret.
    Webhook {
        /// Where to.
        url: Held,
        /// What signatures are made with.
        secret: Option<Held>,
    },
    /// An incoming webhook of Slack, or of a service with the same form.
    Slack(Held),
    /// A webhook of Discord.
    Discord(Held),
    /// A webhook of Teams that takes adaptive cards.
    Teams(Held),
    /// A topic of ntfy.
    Ntfy {
        /// The URL of the topic.
        url: Held,
        /// The token that the server asks for.
        token: Option<Held>,
    },
    /// Any request over HTTP.
    Template(Template),
    /// A mail.
    Smtp(Smtp),
    /// A program with its arguments. No shell sees them.
    Command(Vec<String>),
}

impl Way {
    /// Its name in configurations.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Webhook { .. } => "webhook",
            Self::Slack(_) => "slack",
            Self::Discord(_) => "discord",
            Self::Teams(_) => "teams",
            Self::Ntfy { .. } => "ntfy",
            Self::Template(_) => "template",
            Self::Smtp(_) => "smtp",
            Self::Command(_) => "command",
        }
    }
}

/// A request over HTTP that is made from a text with places to fill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// Where to.
    pub url: Held,
    /// Headers beside `Content-Type`. Their values may be secrets.
    pub headers: Vec<(String, Secret)>,
    /// The body.
    pub body: Text,
    /// What is done to what is filled in.
    pub escape: Escape,
}

/// A mail server, and who writes to whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Smtp {
    /// The server's name.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// How the connection is encrypted.
    pub security: Security,
    /// A file of certificates that may sign the server's, beside those of the system.
    pub authorities: Option<PathBuf>,
    /// The user and the password.
    pub login: Option<(String, Held)>,
    /// Who writes.
    pub from: String,
    /// To whom.
    pub to: Vec<String>,
}

/// How the connection to a mail server is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Security {
    /// From the start.
    Tls,
    /// By STARTTLS, which the server must offer.
    StartTls,
    /// Not at all. No password is sent then.
    Plain,
}

/// A secret: its text, or the file that holds it, which is read at each use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Held {
    /// The text.
    Here(Secret),
    /// The file.
    In(PathBuf),
}

impl Held {
    /// The secret as it is now.
    pub(crate) async fn now(&self) -> Result<Secret, String> {
        match self {
            Self::Here(secret) => Ok(secret.clone()),
            Self::In(path) => {
                let file = path.clone();
                let text = tokio::task::spawn_blocking(move || read(&file)).await;
                let text = text.map_err(|error| error.to_string()).and_then(|text| text.map_err(|e| e.to_string()));
                text.map(Secret::new).map_err(|cause| format!("{}: {cause}", path.display()))
            }
        }
    }
}

/// The text of a file without the white space around it.
fn read(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(LONGEST).read_to_string(&mut text)?;
    Ok(text.trim().to_owned())
}
