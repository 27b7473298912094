//! Messages for ntfy, in its JSON form: its form with headers can't carry every text.

use seawall_core::Severity;
use serde_json::json;

use super::Payload;
use crate::message::{Event, Message};

/// Letters of a message, at most: ntfy takes 4096 bytes, and makes a file of more.
const LONGEST: usize = 1000;

/// The server and the topic of the URL of a topic.
pub(crate) fn topic_of(url: &str) -> Option<(&str, &str)> {
    let (server, topic) = url.trim_end_matches('/').rsplit_once('/')?;
    let is_topic = !topic.is_empty() && topic.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    (is_topic && server.contains("://") && !server.ends_with('/')).then_some((server, topic))
}

/// A message for a topic.
pub(crate) fn ntfy(message: &Message, topic: &str, token: Option<&str>) -> Payload {
    let (priority, tag) = match (message.event, message.severity) {
        (Event::Raised | Event::Reminder, Severity::Critical) => (5, "rotating_light"),
        (Event::Raised | Event::Reminder, Severity::Warning) => (4, "warning"),
        (Event::Recovered, _) => (3, "white_check_mark"),
        (Event::Unwatched | Event::Test, _) => (3, "information_source"),
    };
    let payload = Payload::json(&json!({
        "topic": topic,
        "title": message.title,
        "message": message.lines(LONGEST).join("\n"),
        "priority": priority,
        "tags": [tag],
    }));
    let headers = token.map(|token| ("authorization".to_owned(), format!("Bearer {token}"))).into_iter().collect();
    Payload { headers, ..payload }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::tests::message;

    #[test]
    fn servers_and_topics() {
        for (url, expected) in [
            ("https://ntfy.sh/seawall", Some(("https://ntfy.sh", "seawall"))),
            ("https://ntfy.example/below/a_b-1/", Some(("https://ntfy.example/below", "a_b-1"))),
            ("https://ntfy.sh/", None),
            ("https://ntfy.sh", None),
            ("https://ntfy.sh/a?b", None),
            ("", None),
        ] {
            assert_eq!(topic_of(url), expected, "{url}");
        }
    }

    #[test]
    fn the_shape() {
        let payload = ntfy(&message(Event::Raised, &["app"]), "seawall", Some("tk_hush"));
        let body: serde_json::Value = serde_json::from_str(&payload.body).expect("JSON");
        assert_eq!((&body["topic"], &body["priority"]), (&json!("seawall"), &json!(5)));
        assert_eq!(body["title"], "Seawall on db1: critical: app: alarm.lag");
        assert!(body["message"].as_str().expect("text").starts_with("app: it happened [alarm.lag]\nnext: look"));
        assert_eq!(payload.headers, [("authorization".to_owned(), "Bearer tk_hush".to_owned())]);
        assert!(!payload.body.contains("hush"));
        let recovered = ntfy(&message(Event::Recovered, &["app"]), "seawall", None);
        assert!(recovered.body.contains("white_check_mark") && recovered.headers.is_empty());
    }
}
