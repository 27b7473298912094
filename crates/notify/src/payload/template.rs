//! A request whose body a person wrote, with places that are filled in.

use std::fmt;

use seawall_vault::Secret;

use super::Payload;
use crate::message::Message;

/// Letters of `{{text}}`, at most.
const LONGEST: usize = 1000;

/// The names of the places.
const PLACES: [Place; 8] =
    [Place::Title, Place::Text, Place::Event, Place::Severity, Place::Host, Place::At, Place::Id, Place::Json];

/// What can be filled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Title,
    Text,
    Event,
    Severity,
    Host,
    At,
    Id,
    Json,
}

impl Place {
    fn name(self) -> &'static str {
        match self {
            Self::Title => "title",
            Self::Text => "text",
            Self::Event => "event",
            Self::Severity => "severity",
            Self::Host => "host",
            Self::At => "at",
            Self::Id => "id",
            Self::Json => "json",
        }
    }

    fn fill(self, message: &Message) -> String {
        match self {
            Self::Title => message.title.clone(),
            Self::Text => message.lines(LONGEST).join("\n"),
            Self::Event => message.event.name().to_owned(),
            Self::Severity => message.severity.name().to_owned(),
            Self::Host => message.host.clone(),
            Self::At => message.at.to_string(),
            Self::Id => message.id.clone(),
            Self::Json => message.to_json(),
        }
    }
}

/// What is done to what is filled in, so that it stays where it is put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Escape {
    /// The body is JSON, and places stand inside of its strings. The place `json` is a value itself, and stands outside.
    Json,
    /// The body is a form.
    Form,
    /// The body is text, and nothing is done.
    Text,
}

impl Escape {
    /// Its name in configurations.
    pub fn named(text: &str) -> Option<Self> {
        [("json", Self::Json), ("form", Self::Form), ("text", Self::Text)]
            .into_iter()
            .find_map(|(name, escape)| (name == text).then_some(escape))
    }

    fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Form => "application/x-www-form-urlencoded",
            Self::Text => "text/plain; charset=utf-8",
        }
    }

    fn apply(self, place: Place, text: String) -> String {
        match (self, place) {
            (Self::Json, Place::Json) | (Self::Text, _) => text,
            (Self::Json, _) => {
                let quoted = serde_json::Value::String(text).to_string();
                quoted[1..quoted.len() - 1].to_owned()
            }
            (Self::Form, _) => form_urlencoded::byte_serialize(text.as_bytes()).collect(),
        }
    }
}

/// A text with places to fill. The rest of it may hold secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct Text(Vec<Part>);

#[derive(Clone, PartialEq, Eq)]
enum Part {
    Literal(Secret),
    Place(Place),
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

impl Text {
    /// Reads a text.
    ///
    /// # Errors
    /// What is wrong with it, without showing any of the text but the name of a place.
    pub fn parse(text: &str) -> Result<Self, String> {
        let names = || PLACES.map(|place| format!("{{{{{}}}}}", place.name())).join(", ");
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            let (name, after) = after.split_once("}}").ok_or_else(|| "a \"{{\" has no \"}}\" behind it".to_owned())?;
            let place = PLACES.into_iter().find(|place| place.name() == name.trim());
            let place = place.ok_or_else(|| format!("a place that there isn't; there are {}", names()))?;
            parts.extend([Part::Literal(Secret::new(before)), Part::Place(place)]);
            rest = after;
        }
        parts.push(Part::Literal(Secret::new(rest)));
        Ok(Self(parts))
    }
}

/// The request for a message.
pub(crate) fn filled(text: &Text, escape: Escape, headers: &[(String, Secret)], message: &Message) -> Payload {
    let part = |part: &Part| match part {
        Part::Literal(text) => text.reveal().to_owned(),
        Part::Place(place) => escape.apply(*place, place.fill(message)),
    };
    Payload {
        headers: headers.iter().map(|(name, value)| (name.clone(), value.reveal().to_owned())).collect(),
        content_type: escape.content_type(),
        body: text.0.iter().map(part).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Event;
    use crate::message::tests::message;

    #[test]
    fn places_are_filled_and_what_is_filled_in_stays_there() {
        let hostile = message(Event::Raised, &["a\"}&b=1"]);
        for (text, escape, expected) in [
            (
                r#"{"user":"hush","message":"{{title}}","p":"{{ severity }}"}"#,
                Escape::Json,
                r#"{"user":"hush","message":"Seawall on db1: critical: a\"}&b=1: alarm.lag","p":"critical"}"#,
            ),
            (
                "token=hush&title={{title}}&event={{event}}",
                Escape::Form,
                "token=hush&title=Seawall+on+db1%3A+critical%3A+a%22%7D%26b%3D1%3A+alarm.lag&event=raised",
            ),
            ("{{host}} {{at}}", Escape::Text, "db1 2027-01-15T08:01:00.000Z"),
            ("plain", Escape::Text, "plain"),
        ] {
            let parsed = Text::parse(text).expect(text);
            assert!(!format!("{parsed:?}").contains("hush"));
            assert_eq!(filled(&parsed, escape, &[], &hostile).body, expected);
        }
        let whole = filled(&Text::parse("{\"alarm\":{{json}}}").expect("a text"), Escape::Json, &[], &hostile);
        let document: serde_json::Value = serde_json::from_str(&whole.body).expect("JSON");
        assert_eq!(document["alarm"]["alarms"][0]["database"], "a\"}&b=1");
        let headers = [("x-key".to_owned(), Secret::new("hush"))];
        let payload = filled(&Text::parse("").expect("a text"), Escape::Text, &headers, &hostile);
        assert_eq!(payload.headers, [("x-key".to_owned(), "hush".to_owned())]);
    }

    #[test]
    fn what_is_wrong_shows_nothing() {
        for text in ["hush {{title", "hush {{hush}}", "{{}}"] {
            let problem = Text::parse(text).expect_err(text);
            assert!(!problem.contains("hush"), "{problem}");
        }
    }
}
