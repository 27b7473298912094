//! A message: what happened to which alarms, in the form that webhooks and programs get (docs/json.md).

use ring::digest::{SHA256, digest};
use seawall_core::{Alarm, Moment, Severity};
use serde::Serialize;

use crate::due::Notice;
use crate::payload::hex;

/// The version of the document.
const FORMAT: u32 = 1;

/// At most this many alarms are in one message; it says how many more there are.
const MOST: usize = 50;

/// Letters of a text from elsewhere, at most.
const LONGEST: usize = 1000;

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// Alarms are new, or graver than they were.
    Raised,
    /// Alarms are still there.
    Reminder,
    /// Alarms are over.
    Recovered,
    /// The process doesn't protect the databases of these alarms any more.
    Unwatched,
    /// Nothing: a person tries the channel out.
    Test,
}

impl Event {
    /// Its name, the same as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Raised => "raised",
            Self::Reminder => "reminder",
            Self::Recovered => "recovered",
            Self::Unwatched => "unwatched",
            Self::Test => "test",
        }
    }
}

/// One alarm of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Item {
    /// The database.
    pub database: String,
    /// The alarm's code.
    pub code: String,
    /// How soon a person should act.
    pub severity: Severity,
    /// What happened.
    pub cause: String,
    /// The next thing to do.
    pub next: String,
    /// Since when it is so.
    pub since: Moment,
}

/// A message to people or programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Message {
    /// The version of the document.
    format: u32,
    /// The same at each attempt to bring this message to a channel.
    pub id: String,
    /// What happened.
    pub event: Event,
    /// The gravest severity of the alarms.
    pub severity: Severity,
    /// The host that tells it.
    pub host: String,
    /// When it was written.
    pub at: Moment,
    /// The message in one line.
    pub title: String,
    /// The alarms, by database.
    pub alarms: Vec<Item>,
    /// How many more alarms there are than the message has.
    pub more: usize,
}

impl Message {
    /// Writes a message.
    pub(crate) fn new(notice: &Notice, host: &str, at: Moment) -> Self {
        let item = |(database, alarm): &(String, Alarm)| Item {
            database: line(database),
            code: line(&alarm.code),
            severity: alarm.severity,
            cause: line(&alarm.cause),
            next: line(&alarm.next),
            since: alarm.since,
        };
        let severity = notice.alarms.iter().map(|(_, alarm)| alarm.severity).max().unwrap_or(Severity::Warning);
        let alarms: Vec<Item> = notice.alarms.iter().take(MOST).map(item).collect();
        let more = notice.alarms.len() - alarms.len();
        let host = line(host);
        let title = title(notice.event, severity, &host, &alarms, notice.alarms.len());
        let message =
            Self { format: FORMAT, id: String::new(), event: notice.event, severity, host, at, title, alarms, more };
        let sum = digest(&SHA256, message.to_json().as_bytes());
        Self { id: hex(&sum.as_ref()[..16]), ..message }
    }

    /// The message that tries a channel out.
    pub(crate) fn test(host: &str, at: Moment) -> Self {
        let alarm = Alarm {
            code: "notify.test".to_owned(),
            severity: Severity::Warning,
            cause: "this is a test, nothing happened".to_owned(),
            next: "nothing is to be done".to_owned(),
            since: at,
            silenced_until: None,
        };
        Self::new(&Notice { event: Event::Test, alarms: vec![("test".to_owned(), alarm)] }, host, at)
    }

    /// The document.
    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers are JSON")
    }

    /// The message in lines, for people: the alarms with what to do, or only their names where they are over. At most
    /// `most` letters.
    pub(crate) fn lines(&self, most: usize) -> Vec<String> {
        let mut left = most;
        let mut lines: Vec<String> = Vec::new();
        let mut told = 0;
        for item in &self.alarms {
            let mut of_item = vec![format!("{}: {} [{}]", item.database, item.cause, item.code)];
            match self.event {
                Event::Raised | Event::Reminder | Event::Test => {
                    of_item.push(format!("next: {}", item.next));
                    of_item.push(format!("{}, since {}", item.severity.name(), item.since));
                }
                Event::Recovered | Event::Unwatched => of_item.push(format!("since {}", item.since)),
            }
            // Room for the last line stays.
            let length: usize = of_item.iter().map(|line| line.chars().count() + 1).sum();
            if length + 40 > left {
                break;
            }
            left -= length;
            told += 1;
            lines.extend(of_item);
        }
        match self.alarms.len() - told + self.more {
            0 => {}
            rest => lines.push(format!("and {rest} more: see `seawall status`")),
        }
        lines
    }
}

fn title(event: Event, severity: Severity, host: &str, alarms: &[Item], count: usize) -> String {
    let what = match (alarms, count) {
        ([one], 1) => format!("{}: {}", one.database, one.code),
        _ => format!("{count} alarms"),
    };
    let text = match event {
        Event::Raised => format!("{}: {what}", severity.name()),
        Event::Reminder => format!("still {}: {what}", severity.name()),
        Event::Recovered => format!("recovered: {what}"),
        Event::Unwatched => format!("no longer watched: {what}"),
        Event::Test => "test of a channel".to_owned(),
    };
    cut(&format!("Seawall on {host}: {text}"), 200)
}

/// A text from elsewhere as one line without control characters, and not too long.
fn line(text: &str) -> String {
    let plain = |c: char| if c.is_control() || is_turning(c) { ' ' } else { c };
    cut(&text.chars().map(plain).collect::<String>(), LONGEST)
}

/// Marks that end a line or change the direction of letters.
fn is_turning(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn alarm(code: &str, severity: Severity) -> Alarm {
        Alarm {
            code: code.to_owned(),
            severity,
            cause: "it happened".to_owned(),
            next: "look".to_owned(),
            since: Moment::from_millis(1_800_000_000_000),
            silenced_until: None,
        }
    }

    pub(crate) fn message(event: Event, databases: &[&str]) -> Message {
        let alarms =
            databases.iter().map(|name| ((*name).to_owned(), alarm("alarm.lag", Severity::Critical))).collect();
        Message::new(&Notice { event, alarms }, "db1", Moment::from_millis(1_800_000_060_000))
    }

    #[test]
    fn titles_and_lines() {
        for (event, databases, title, lines) in [
            (Event::Raised, vec!["app"], "Seawall on db1: critical: app: alarm.lag", 3),
            (Event::Raised, vec!["app", "shop"], "Seawall on db1: critical: 2 alarms", 6),
            (Event::Reminder, vec!["app"], "Seawall on db1: still critical: app: alarm.lag", 3),
            (Event::Recovered, vec!["app"], "Seawall on db1: recovered: app: alarm.lag", 2),
            (Event::Unwatched, vec!["app"], "Seawall on db1: no longer watched: app: alarm.lag", 2),
        ] {
            let message = message(event, &databases);
            assert_eq!(message.title, title);
            assert_eq!(message.lines(4000).len(), lines, "{title}");
        }
        let test = Message::test("db1", Moment::default());
        assert_eq!((test.title.as_str(), test.event), ("Seawall on db1: test of a channel", Event::Test));
    }

    #[test]
    fn what_comes_from_elsewhere_stays_in_its_line_and_is_bounded() {
        let hostile = message(Event::Raised, &["a\r\nBcc: x\u{202e}\0"]);
        assert_eq!(hostile.alarms[0].database, "a  Bcc: x  ");
        assert!(!hostile.title.chars().any(char::is_control));
        let long = "x".repeat(100_000);
        let many = message(Event::Raised, &vec![long.as_str(); 1000]);
        assert_eq!((many.alarms.len(), many.more), (MOST, 950));
        assert!(many.to_json().len() < 150_000);
        let lines = many.lines(1900);
        assert!(lines.iter().map(|line| line.chars().count() + 1).sum::<usize>() <= 1900);
        assert_eq!(lines.last().map(String::as_str), Some("and 999 more: see `seawall status`"));
    }

    #[test]
    fn the_same_message_has_the_same_id() {
        let one = message(Event::Raised, &["app"]);
        assert_eq!(one.id.len(), 32);
        assert_eq!(one.id, message(Event::Raised, &["app"]).id);
        assert_ne!(one.id, message(Event::Recovered, &["app"]).id);
        assert_ne!(one.id, message(Event::Raised, &["shop"]).id);
    }
}
