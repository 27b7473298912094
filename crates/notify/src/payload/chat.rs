//! Messages for chats.

use serde_json::{Value, json};

use super::Payload;
use crate::message::{Event, Message};

/// Letters of a message, at most. Slack takes 40000, and shows 4000; Teams takes 28 KB.
const LONGEST: usize = 3500;

/// Discord takes 2000, and each escape counts.
const LONGEST_DISCORD: usize = 900;

/// An incoming webhook of Slack. Mattermost and Rocket.Chat take the same.
pub(crate) fn slack(message: &Message) -> Payload {
    let text = [vec![format!("{} {}", mark(message), message.title)], message.lines(LONGEST)].concat().join("\n");
    Payload::json(&json!({
        "text": slack_text(&text),
        "mrkdwn": false,
        "link_names": false,
        "unfurl_links": false,
        "unfurl_media": false,
    }))
}

/// A webhook of Discord.
pub(crate) fn discord(message: &Message) -> Payload {
    let title = format!("{} **{}**", mark(message), discord_text(&message.title));
    let lines = message.lines(LONGEST_DISCORD).iter().map(|line| discord_text(line)).collect::<Vec<_>>();
    let content: String = [vec![title], lines].concat().join("\n").chars().take(2000).collect();
    // 4: no previews of links.
    Payload::json(&json!({ "content": content, "allowed_mentions": { "parse": [] }, "flags": 4 }))
}

/// A webhook of Teams that takes an adaptive card. Text runs are shown as they are: only text blocks have markup.
pub(crate) fn teams(message: &Message) -> Payload {
    let colour = match message.event {
        Event::Raised | Event::Reminder => "Attention",
        Event::Recovered => "Good",
        Event::Unwatched | Event::Test => "Default",
    };
    let run = |text: &str, style: Value| {
        let mut run = json!({ "type": "TextRun", "text": unlinked(text) });
        if let (Some(run), Value::Object(style)) = (run.as_object_mut(), style) {
            run.extend(style);
        }
        json!({ "type": "RichTextBlock", "inlines": [run] })
    };
    let mut body = vec![run(&message.title, json!({ "weight": "Bolder", "size": "Medium", "color": colour }))];
    body.extend(message.lines(LONGEST).iter().map(|line| run(line, Value::Null)));
    Payload::json(&json!({
        "type": "message",
        "attachments": [{
            "contentType": "application/vnd.microsoft.card.adaptive",
            "contentUrl": null,
            "content": {
                "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
                "type": "AdaptiveCard",
                "version": "1.4",
                "body": body,
            },
        }],
    }))
}

fn mark(message: &Message) -> &'static str {
    match (message.event, message.severity) {
        (Event::Raised | Event::Reminder, seawall_core::Severity::Critical) => "🔴",
        (Event::Raised | Event::Reminder, seawall_core::Severity::Warning) => "🟠",
        (Event::Recovered, _) => "🟢",
        (Event::Unwatched | Event::Test, _) => "⚪",
    }
}

/// No sign of control for Slack, and no mention or link for those that take the same form.
fn slack_text(text: &str) -> String {
    // A space without width stands where a mention or the address of a link would begin.
    let text = unlinked(text).replace('@', "@\u{200b}").replace("](", "]\u{200b}(");
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// No markup, mention or link for Discord.
fn discord_text(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in unlinked(text).chars() {
        if c.is_ascii_punctuation() && !matches!(c, '.' | ',' | ':' | '/' | '\'' | '"' | '%' | '=' | ';' | '!' | '?') {
            escaped.push('\\');
        }
        escaped.push(c);
        if c == '@' {
            escaped.push('\u{200b}');
        }
    }
    escaped
}

/// What would become a link to a page is text.
fn unlinked(text: &str) -> String {
    text.replace("://", ":\u{200b}//")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::tests::message;

    const HOSTILE: &str = "a<!channel> @everyone <@U1> [x](http://evil.example) *b* `c` \"d\"\n# e & |";

    fn body(payload: &Payload) -> Value {
        assert!(payload.headers.is_empty());
        serde_json::from_str(&payload.body).expect("JSON")
    }

    #[test]
    fn the_shapes() {
        let raised = message(Event::Raised, &["app"]);
        let text = "🔴 Seawall on db1: critical: app: alarm.lag\napp: it happened [alarm.lag]\nnext: look\n\
                    critical, since 2027-01-15T08:00:00.000Z";
        assert_eq!(body(&slack(&raised))["text"], text);
        let content = body(&discord(&raised));
        assert_eq!(
            content["content"],
            "🔴 **Seawall on db1: critical: app: alarm.lag**\napp: it happened \\[alarm.lag\\]\nnext: look\n\
             critical, since 2027\\-01\\-15T08:00:00.000Z"
        );
        assert_eq!(content["allowed_mentions"], json!({ "parse": [] }));
        let card = body(&teams(&raised));
        assert_eq!(card["type"], "message");
        let content = &card["attachments"][0]["content"];
        assert_eq!((&content["type"], &content["version"]), (&json!("AdaptiveCard"), &json!("1.4")));
        assert_eq!(content["body"][0]["inlines"][0]["text"], "Seawall on db1: critical: app: alarm.lag");
        assert_eq!(content["body"][1]["inlines"][0]["text"], "app: it happened [alarm.lag]");
        assert!(body(&slack(&message(Event::Recovered, &["app"])))["text"].as_str().expect("text").starts_with("🟢"));
    }

    #[test]
    fn names_are_no_mentions_links_or_markup() {
        let hostile = message(Event::Raised, &[HOSTILE]);
        let slack = body(&slack(&hostile));
        let text = slack["text"].as_str().expect("text");
        assert!(text.contains("a&lt;!channel&gt; @\u{200b}everyone &lt;@\u{200b}U1&gt; [x]\u{200b}("), "{text}");
        assert!(!text.contains("http://") && !text.contains("@e") && !text.contains('<'), "{text}");
        assert!((slack["mrkdwn"] == false) & (slack["link_names"] == false));
        let discord = body(&discord(&hostile));
        let text = discord["content"].as_str().expect("text");
        assert!(text.contains("a\\<!channel\\> \\@\u{200b}everyone \\<\\@\u{200b}U1\\> \\[x\\]\\("), "{text}");
        assert!(text.contains("\\*b\\* \\`c\\` \"d\" \\# e \\& \\|") && !text.contains("http://"), "{text}");
        let teams = super::teams(&hostile).body;
        assert!(!teams.contains("http://evil") && !teams.contains("\"TextBlock\""), "{teams}");
    }

    #[test]
    fn what_is_long_is_cut() {
        let long = "*".repeat(900);
        let many = message(Event::Raised, &vec![long.as_str(); 50]);
        let discord = body(&discord(&many));
        assert!(discord["content"].as_str().expect("text").chars().count() <= 2000);
        assert!(slack(&many).body.len() < 20_000);
        assert!(teams(&many).body.len() < 28_000);
    }
}
